//! Tests of the choices about long conversations: pairs are never split, and shortened texts keep their budget.

use std::time::Duration;

use rejoin_record::{
    Chain, Content, ConversationId, Entry, EntryId, Kind, Message, Salt, Timestamp, ToolCall, Tree,
    chain::Stamp,
    content::{Meta, Metadata},
};

use super::*;

fn entries(messages: Vec<Message>, pinned: &[usize]) -> Vec<Entry> {
    let mut chain = Chain::empty();
    let mut out: Vec<Entry> = Vec::new();
    let conversation = ConversationId::from_random(1);
    let header = Metadata { conversation, provider: None, model: None, directory: None, format: None };
    let contents = std::iter::once(Content::Header(header)).chain(messages.into_iter().map(Content::Message));
    for content in contents {
        push(&mut chain, &mut out, &content);
    }
    let pinned = Some(pinned.iter().map(|place| out[place + 1].id()).collect());
    push(&mut chain, &mut out, &Content::Meta(Meta { pinned, ..Meta::default() }));
    out
}

fn push(chain: &mut Chain, out: &mut Vec<Entry>, content: &Content) {
    let number = out.len() as u8;
    let stamp = Stamp {
        id: EntryId::new(u64::from(number), [number; 10]),
        timestamp: Timestamp::UNIX_EPOCH,
        salt: Salt([0; 16]),
        source_time: None,
    };
    out.push(chain.append(content.kind().unwrap_or(Kind::Raw), content, stamp));
}

fn walk(entries: &[Entry]) -> Walk {
    Walk::along(&Tree::new(entries))
}

fn talk() -> Vec<Message> {
    let long = "word ".repeat(400);
    vec![
        Message::system("be kind"),
        Message::user("first"),
        Message::assistant_with_tools(vec![
            ToolCall::new("a", "look", "{}"),
            ToolCall::new("b", "look", "{}"),
        ]),
        Message::tool("a", long.as_str()),
        Message::tool("b", long.as_str()),
        Message::assistant("seen"),
        Message::user("second"),
        Message::assistant_with_tools(vec![ToolCall::new("c", "look", "{}")]),
        Message::tool("c", long.as_str()),
        Message::assistant("seen"),
    ]
}

/// B7: with any budget, no call is kept without its result and no result without its call.
#[test]
fn pairs_are_never_split() {
    let entries = entries(talk(), &[]);
    let walk = walk(&entries);
    let counter = TokenCounter::for_model("m");
    for tail_tokens in (0..2_000).step_by(37) {
        for unanswered in 0..=10 {
            let policy = CompactPolicy { tail_tokens, user_tokens: 50, turns: 0 };
            let Some(plan) = compact::plan(&walk, &counter, &policy, unanswered) else { continue };
            assert!(
                matches!(plan.tail, 1 | 2 | 5 | 6 | 7 | 9 | 10),
                "{tail_tokens} {unanswered}: {}",
                plan.tail
            );
            assert!(plan.tail <= unanswered.max(1), "what the model has not seen stays");
            assert!(plan.kept.iter().any(|kept| kept.entry == walk.entries()[0]), "instructions stay");
        }
    }
}

/// The newest turn, pinned messages and short results are never pruned.
#[test]
fn what_is_never_pruned() {
    let policy = PrunePolicy { keep_last: Some(0), batch: Some(1), ..PrunePolicy::default() };
    let plan = |pinned: &[usize]| {
        let entries = entries(talk(), pinned);
        prune::plan(&walk(&entries), &TokenCounter::for_model("m"), &policy, |_| None)
    };
    assert_eq!(plan(&[]).results.len(), 2, "the newest turn stays");
    assert_eq!(plan(&[3]).results.len(), 0, "a pinned one stays, with the other result of the same message");
    assert_eq!(plan(&[3]).survivors.len(), 3);
    assert_eq!(plan(&[9]).results.len(), 2, "a pin concerns no other results");
}

/// S1-17, S1-20, S1-21, S1-22: results are pruned by number, by age, and by tokens, oldest first. The strictest rule wins.
#[test]
fn results_are_pruned_by_number_age_and_tokens() {
    let long = "word ".repeat(400);
    let turn = |id: &'static str| {
        let call = Message::assistant_with_tools(vec![ToolCall::new(id, "look", "{}")]);
        [Message::user("go"), call, Message::tool(id, long.as_str()), Message::assistant("seen")]
    };
    let entries = entries(["a", "b", "c", "d"].into_iter().flat_map(turn).collect(), &[]);
    let walk = walk(&entries);
    let counter = TokenCounter::for_model("m");
    let place = |entry| walk.entries().iter().position(|other| *other == entry).unwrap();
    // The first message is 16 minutes old, the last one is one minute old.
    let age = |entry| Some(Duration::from_secs(60 * (16 - place(entry) as u64)));
    let pruned = |policy: PrunePolicy| {
        let plan = prune::plan(&walk, &counter, &policy, age);
        let results: Vec<usize> = plan.results.iter().map(|at| place(at.entry)).collect();
        assert_eq!(results.len() + plan.survivors.len(), 4, "each result is in one of the lists");
        let tokens = |at: &usize| counter.block(&walk.messages()[*at].blocks[0]);
        assert_eq!(plan.tokens, results.iter().map(tokens).sum::<u64>());
        results
    };
    let one_by_one = PrunePolicy { batch: Some(1), ..PrunePolicy::default() };
    let minutes = |minutes: u64| Some(Duration::from_secs(60 * minutes));
    let each = counter.block(&walk.messages()[2].blocks[0]);
    assert_eq!(pruned(one_by_one.clone()), []);
    assert_eq!(pruned(PrunePolicy { keep_last: Some(3), ..one_by_one.clone() }), [2]);
    assert_eq!(
        pruned(PrunePolicy { keep_last: Some(0), ..one_by_one.clone() }),
        [2, 6, 10],
        "the newest turn stays"
    );
    assert_eq!(pruned(PrunePolicy { max_age: minutes(14), ..one_by_one.clone() }), []);
    assert_eq!(pruned(PrunePolicy { max_age: minutes(9), ..one_by_one.clone() }), [2, 6]);
    assert_eq!(pruned(PrunePolicy { token_budget: Some(each * 4), ..one_by_one.clone() }), []);
    assert_eq!(pruned(PrunePolicy { token_budget: Some(each * 3), ..one_by_one.clone() }), [2]);
    let both = PrunePolicy { keep_last: Some(3), max_age: minutes(9), ..one_by_one };
    assert_eq!(pruned(both.clone()), [2, 6]);
    assert_eq!(pruned(PrunePolicy { batch: Some(3), ..both.clone() }), [], "too few for a batch");
    assert_eq!(pruned(PrunePolicy { batch: Some(2), ..both }), [2, 6]);
}

/// S3-29, B37: a shortened text keeps its budget and states correctly how much is missing, in any script. Its beginning and its end
/// each take at least two fifths of the budget.
#[test]
fn a_shortened_text_keeps_its_budget() {
    let counter = TokenCounter::for_model("m");
    for text in ["word ".repeat(3_000), "漢字かな".repeat(2_000), "😀é ".repeat(2_000)] {
        let short = middle_left_out(&text, 300, &counter);
        assert!(counter.text(&short) <= 300);
        let missing = short.split("[... ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap_or_default();
        let missing: usize = missing.parse().unwrap_or_default();
        let marker = format!("\n[... {missing} characters truncated ...]\n").chars().count();
        assert_eq!(short.chars().count() - marker + missing, text.chars().count());
        let (head, tail) =
            short.split_once(&format!("\n[... {missing} characters truncated ...]\n")).unwrap();
        assert!(text.starts_with(head) && text.ends_with(tail));
        for part in [head, tail] {
            assert!(counter.text(part) >= 300 * 2 / 5, "{}", counter.text(part));
        }
    }
    assert_eq!(middle_left_out("short", 300, &counter), "short");
}
