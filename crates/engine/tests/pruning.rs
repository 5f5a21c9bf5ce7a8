//! Which results each policy prunes, and what stays whole: the pairs, the other messages, the record.

#![allow(clippy::unwrap_used, reason = "a test may")]

mod talk;

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use rejoin_engine::{
    Agent, Clock, Conversation, LockTiming, Mode, New, Pinning, Window,
    calls::calls,
    digest,
    provider::scripted::{ScriptedProvider, Step},
    read,
    tools::{FunctionTool, Tools},
    turn::WindowSettings,
};
use rejoin_record::{
    Block, Chain, Content, Kind, Message, Role, Timestamp, ToolCall, Tree,
    chain::Stamp,
    content::{Branch, Compacted, KeptMessage},
};
use rejoin_store::{Store as _, memory::Memory};
use rejoin_view::{TokenCounter, path::Walk, window::PrunePolicy};
use serde_json::json;
use talk::{assert_paired, run};

/// A clock that a test sets, in seconds.
#[derive(Debug, Default)]
struct Set(AtomicI64);

impl Clock for Set {
    fn now(&self) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + self.0.load(Ordering::Relaxed)).unwrap()
    }

    fn random(&self, bytes: &mut [u8]) {
        rejoin_engine::SystemClock.random(bytes);
    }
}

/// Results of about a hundred tokens.
const LONG: &str = "a result with ten words in it, which are these. ";

/// A conversation with this number of tool calls, one per minute, and a message after them.
fn talked(results: usize) -> (Arc<Memory>, Arc<Set>, Conversation) {
    let (store, clock) = (Arc::new(Memory::new(digest)), Arc::new(Set::default()));
    let mut conversation =
        Conversation::create_with_clock(store.clone(), clock.clone(), &New::default(), "test");
    conversation.say(Message::system("Be kind."));
    conversation.say(Message::user("look around"));
    for number in 0..results {
        clock.0.fetch_add(60, Ordering::Relaxed);
        let call = ToolCall::new(format!("c{number}"), "look", "{}");
        conversation.say(Message::assistant_with_tools(vec![call]));
        conversation.say(Message::tool(format!("c{number}"), format!("{number}: {}", LONG.repeat(10))));
    }
    conversation.say(Message::assistant("I looked."));
    conversation.say(Message::user("thank you"));
    (store, clock, conversation)
}

/// The results that a model sees in full, by their numbers.
fn seen(conversation: &Conversation) -> Vec<usize> {
    let messages = conversation.messages();
    let texts = messages.iter().flat_map(|message| message.tool_results()).map(|result| {
        result.content.iter().filter_map(Block::as_text).map(|text| text.as_str()).collect::<String>()
    });
    texts.filter(|text| text.contains(LONG)).filter_map(|text| text.split(':').next()?.parse().ok()).collect()
}

fn at_once() -> PrunePolicy {
    PrunePolicy { batch: Some(1), ..PrunePolicy::default() }
}

/// S1-17, S1-20..S1-23, B20: each policy prunes exactly what it should and reports it, with an injected clock; of several rules the
/// strictest decides; and no policy is needed.
#[test]
fn each_policy_prunes_what_it_says() {
    let result =
        TokenCounter::for_model("m").message(&Message::tool("c0", format!("0: {}", LONG.repeat(10))));
    let minutes = |minutes: u64| Some(Duration::from_secs(60 * minutes));
    for (policy, left) in [
        (PrunePolicy { keep_last: Some(2), ..at_once() }, vec![4, 5]),
        (PrunePolicy { keep_last: Some(0), ..at_once() }, vec![]),
        (PrunePolicy { keep_last: Some(9), ..at_once() }, vec![0, 1, 2, 3, 4, 5]),
        (PrunePolicy { max_age: minutes(3), ..at_once() }, vec![2, 3, 4, 5]),
        (PrunePolicy { token_budget: Some(3 * result), ..at_once() }, vec![3, 4, 5]),
        (PrunePolicy { keep_last: Some(4), max_age: minutes(1), ..at_once() }, vec![4, 5]),
        (
            PrunePolicy {
                keep_last: Some(1),
                max_age: minutes(9),
                token_budget: Some(9 * result),
                ..at_once()
            },
            vec![5],
        ),
        (PrunePolicy::default(), vec![0, 1, 2, 3, 4, 5]),
    ] {
        let (_, _, mut conversation) = talked(6);
        let report = conversation.prune_tool_calls("m", Some(&policy));
        assert_eq!(seen(&conversation), left, "{policy:?}");
        assert_eq!((report.survivors.len(), report.pruned.len()), (left.len(), 6 - left.len()), "{policy:?}");
    }
    // The results of the newest turn are never pruned, so a budget that they exceed ends there.
    let (_, _, mut conversation) = talked(0);
    for call in ["d1", "d2"] {
        conversation.say(Message::assistant_with_tools(vec![ToolCall::new(call, "look", "{}")]));
        conversation.say(Message::tool(call, LONG.repeat(10)));
    }
    let report =
        conversation.prune_tool_calls("m", Some(&PrunePolicy { token_budget: Some(result), ..at_once() }));
    assert_eq!((report.survivors.len(), report.pruned.len()), (2, 0));
    // Time passes, and nothing else happens.
    let (_, clock, mut conversation) = talked(6);
    let policy = PrunePolicy { max_age: minutes(60), ..at_once() };
    assert_eq!(conversation.prune_tool_calls("m", Some(&policy)).pruned, []);
    clock.0.fetch_add(57 * 60, Ordering::Relaxed);
    assert_eq!(conversation.prune_tool_calls("m", Some(&policy)).pruned.len(), 2);
}

/// S1-04, S1-18, S1-19, S4-25, B16, B19: pruning makes the conversation small for a model. The other messages are unchanged, every
/// pair stays a pair, every entry is still reachable, and the audit shows every call with its result.
#[test]
fn only_results_are_pruned_and_only_for_the_model() {
    let (store, _, mut conversation) = talked(6);
    let others = |conversation: &Conversation| -> Vec<Message> {
        let messages = conversation.messages();
        messages
            .iter()
            .filter(|message| message.role != Role::Tool)
            .map(|message| (**message).clone())
            .collect()
    };
    let (before, entries) = (others(&conversation), conversation.entries().to_vec());
    let policy = PrunePolicy { keep_last: Some(0), ..at_once() };
    conversation.prune_tool_calls("m", Some(&policy));
    assert_eq!(others(&conversation), before);
    let messages: Vec<Message> = conversation.messages().iter().map(|message| (**message).clone()).collect();
    assert_paired(&messages);
    let counter = TokenCounter::for_model("m");
    assert!(messages.iter().map(|message| counter.message(message)).sum::<u64>() < 600);
    let id = conversation.id();
    drop(conversation);
    let recorded = read(&*store, id, Mode::Recover).unwrap();
    assert_eq!(recorded.entries[..entries.len()], entries);
    let tree = Tree::new(&recorded.entries);
    assert_eq!(tree.path().0.len(), recorded.entries.len(), "every entry is on the path");
    let audited = calls(&recorded, &rejoin_engine::CallKey([7; 32]));
    assert_eq!(audited.len(), 6);
    assert!(audited.iter().all(|call| call.outcome.as_deref().is_some_and(|text| text.contains(LONG))));
}

/// S1-24: results that arrive are pruned by the policy of the settings; without a policy nothing at all changes.
#[test]
fn arriving_results_are_pruned_by_the_configured_policy() {
    for (keep_last, is_pruned) in [(Some(1), true), (None, false)] {
        let steps = (0..4).flat_map(|number| {
            [Step::calls(vec![ToolCall::new(format!("c{number}"), "look", "{}")]), Step::says("Seen.")]
        });
        let provider = Arc::new(ScriptedProvider::new(steps));
        let look =
            FunctionTool::new("look", "Looks.", json!({"type": "object"}), |_| async { Ok(LONG.repeat(10)) });
        let prune = PrunePolicy { keep_last, ..at_once() };
        let fitting = WindowSettings { context_window: Some(100_000), prune, ..WindowSettings::default() };
        let mut agent = Agent::builder(provider).tools(Tools::default().with(look)).fitting(fitting).build();
        for _ in 0..4 {
            run(agent.ask("look")).unwrap();
        }
        let mut entries = agent.conversation().entries().iter();
        assert_eq!(entries.any(|entry| entry.envelope().kind == Kind::Prune), is_pruned);
    }
    let (_, _, mut conversation) = talked(3);
    let before = conversation.entries().len();
    assert_eq!(conversation.prune_tool_calls("m", None), Default::default());
    assert_eq!((conversation.entries().len(), seen(&conversation).len()), (before, 3));
}

/// A program that asks for pruning gets it at once, without waiting for a batch.
#[test]
fn a_program_need_not_wait_for_a_batch() {
    let (_, _, mut conversation) = talked(6);
    let policy = PrunePolicy { keep_last: Some(2), ..PrunePolicy::default() };
    assert_eq!(conversation.prune_tool_calls("m", Some(&policy)).pruned.len(), 4);
    assert_eq!(seen(&conversation), [4, 5]);
}

/// A list that would be longer than the messages does not take their place.
#[test]
fn pruning_turns_makes_nothing_longer() {
    let (_, _, mut conversation) = talked(0);
    let before = conversation.entries().len();
    let limits = Window { max_tokens: 10, min_retain_turns: 1, prune_threshold: 0.5 };
    assert_eq!(conversation.prune_if_needed("m", &limits), None);
    assert_eq!(conversation.entries().len(), before);
}

/// S1-25, B8: the work of pruning grows with the conversation and not faster, and it is done before a request, never while an answer arrives.
#[test]
fn pruning_takes_linear_time() {
    let time = |results: usize| {
        let (_, _, mut conversation) = talked(results);
        let policy = PrunePolicy { keep_last: Some(2), ..at_once() };
        let (report, time) = testkit::timing::timed(|| conversation.prune_tool_calls("m", Some(&policy)));
        assert_eq!(report.pruned.len(), results - 2);
        time
    };
    let turns = |turns: usize| {
        let (_, _, mut conversation) = talked(0);
        for number in 0..turns {
            let call = format!("t{number}");
            conversation.say(Message::assistant_with_tools(vec![ToolCall::new(call.as_str(), "look", "{}")]));
            conversation.say(Message::tool(call, "seen"));
            conversation.say(Message::user("and now?"));
        }
        let limits = Window { max_tokens: 100, min_retain_turns: 2, prune_threshold: 0.5 };
        let (pruned, time) = testkit::timing::timed(|| conversation.prune_if_needed("m", &limits));
        assert!(pruned.is_some_and(|pruned| pruned.removed > turns));
        time
    };
    for time in [&time as &dyn Fn(usize) -> Duration, &turns] {
        let best = |number: usize| (0..3).map(|_| time(number)).min().unwrap();
        let (small, large) = (best(200), best(1_600));
        assert!(large < small * 40 + Duration::from_millis(50), "{small:?} for 200, {large:?} for 1,600");
    }
}

/// S0-24, S0-27, S0-28, S0-32: turns that are pruned take whole pairs with them, and the log says which pairs go and which stay.
#[test]
fn pruned_turns_take_whole_pairs_and_the_log_says_so() {
    let (_, _, mut conversation) = talked(3);
    for call in ["d1", "d2"] {
        conversation.say(Message::assistant_with_tools(vec![ToolCall::new(call, "look", "{}")]));
        conversation.say(Message::tool(call, LONG.repeat(10)));
        conversation.say(Message::assistant("Seen."));
        conversation.say(Message::user("and now?"));
    }
    let limits = Window { max_tokens: 1_000, min_retain_turns: 2, prune_threshold: 0.5 };
    let mut pruned = None;
    let log = testkit::logged(|| pruned = conversation.prune_if_needed("m", &limits));
    let pruned = pruned.unwrap();
    for line in [
        format!("INFO Pruning conversation: tokens={}/1000, threshold=500", pruned.before),
        format!(
            "INFO Pruning complete: removed {} messages, tokens now {}/1000",
            pruned.removed, pruned.after
        ),
        String::from("DEBUG Pruning tool call pair atomically: call_id=c0, tool_name=look"),
        String::from("DEBUG Pruning assistant with tool_calls to match pruned tool result: c0"),
        String::from("DEBUG Preserved tool call pair: call_id=d2, tool_name=look"),
    ] {
        assert!(log.lines().any(|logged| logged.trim() == line), "{line}\n{log}");
    }
    let messages: Vec<Message> = conversation.messages().iter().map(|message| (**message).clone()).collect();
    assert_paired(&messages);
    let left: Vec<String> =
        messages.iter().flat_map(|message| message.tool_calls()).map(|call| call.id.to_string()).collect();
    assert!(!left.contains(&String::from("c0")) && left.contains(&String::from("d2")), "{left:?}");
}

/// The texts of people, models and results, in the order in which a model sees them.
fn texts(conversation: &Conversation) -> Vec<String> {
    let of_result = |message: &Message| {
        message
            .tool_results()
            .flat_map(|result| &result.content)
            .filter_map(Block::as_text)
            .map(|text| text.to_string())
            .next()
    };
    conversation
        .messages()
        .iter()
        .filter_map(|message| of_result(message).or_else(|| message.content()))
        .collect()
}

/// `history pin` shows a whole message, including what a compaction shortened and results that were pruned before, in this process
/// and in the next one. After unpinning, the result is a tombstone again.
#[test]
fn a_pin_shows_all_of_a_message() {
    let (store, clock, mut conversation) = talked(6);
    conversation.prune_tool_calls("m", Some(&PrunePolicy { keep_last: Some(0), ..at_once() }));
    assert!(seen(&conversation).is_empty());
    let call =
        conversation.messages().iter().position(|message| message.tool_calls().next().is_some()).unwrap();
    let call = conversation
        .entries()
        .iter()
        .filter(|entry| entry.envelope().kind == Kind::Message)
        .nth(call)
        .unwrap()
        .id();
    assert_eq!(conversation.pin(call), Pinning::Changed);
    assert_eq!(seen(&conversation), [0], "the result of a pinned call comes back");
    assert_eq!(conversation.pin(call), Pinning::Unchanged);
    // It stays through later prunes and compactions.
    conversation.prune_tool_calls("m", Some(&PrunePolicy { keep_last: Some(0), ..at_once() }));
    conversation.say(Message::user("go on"));
    conversation
        .prune_if_needed("m", &Window { max_tokens: 10, min_retain_turns: 1, prune_threshold: 0.5 })
        .unwrap();
    assert_eq!(seen(&conversation), [0]);
    let id = conversation.id();
    drop(conversation);
    let mut again = Conversation::open_for_turns(store, clock, id, "test", LockTiming::Now).unwrap();
    assert_eq!(seen(&again), [0]);
    assert_eq!(again.unpin(call), Pinning::Changed);
    assert!(seen(&again).is_empty());

    let (_, _, mut conversation) = talked(0);
    let long = "one of many words, ".repeat(200);
    conversation.say(Message::user(long.as_str()));
    let shortened = conversation.entries().last().unwrap().id();
    conversation.say(Message::assistant("I see."));
    let keep_from = Some(conversation.say(Message::user("and now?")).entry.id());
    let kept = vec![KeptMessage { entry: shortened, text: Some("one of many […]".into()) }];
    conversation.append(&Content::Compacted(Compacted {
        kept: Some(kept),
        ..Compacted::new("A summary.", keep_from)
    }));
    assert!(!texts(&conversation).contains(&long));
    conversation.pin(shortened);
    assert!(texts(&conversation).contains(&long), "{:?}", texts(&conversation));
}

/// A compaction that kept no newer messages hides only those before it, also after a pin.
#[test]
fn a_pin_hides_no_newer_messages() {
    let (_, _, mut conversation) = talked(0);
    conversation.say(Message::user("the first words"));
    let hidden = conversation.entries().last().unwrap().id();
    conversation.say(Message::assistant("I see."));
    conversation.append(&Content::Compacted(Compacted::new("A summary.", None)));
    conversation.say(Message::user("and now?"));
    conversation.say(Message::assistant("Now this."));
    let before = texts(&conversation);
    assert_eq!(before, ["A summary.", "and now?", "Now this."]);
    conversation.pin(hidden);
    assert_eq!(texts(&conversation), ["the first words", "A summary.", "and now?", "Now this."]);
    conversation.unpin(hidden);
    assert!(texts(&conversation).ends_with(&before), "{:?}", texts(&conversation));
}

/// A pin is about a message: it holds after a rewind to before the pin, and in a fork at a message before it, whether a compaction or
/// pruning hides the message. So does unpinning.
#[test]
fn a_pin_holds_on_every_branch_that_has_the_message() {
    let (store, clock, mut conversation) = talked(6);
    let messages: Vec<_> = conversation
        .entries()
        .iter()
        .filter(|entry| entry.envelope().kind == Kind::Message)
        .map(rejoin_record::Entry::id)
        .collect();
    let (asked, call) = (messages[1], messages[2]);
    conversation.prune_tool_calls("m", Some(&PrunePolicy { keep_last: Some(0), ..at_once() }));
    conversation.append(&Content::Compacted(Compacted::new("A summary.", messages.last().copied())));
    let before = conversation.say(Message::assistant("Welcome.")).entry;
    conversation.say(Message::user("one more thing"));
    conversation.pin(asked);
    conversation.pin(call);
    assert_eq!(seen(&conversation), [0]);
    assert!(texts(&conversation).contains(&String::from("look around")));
    let id = conversation.id();
    let rewind = |conversation: Conversation| {
        drop(conversation);
        let tail = store.tail(id).unwrap().unwrap();
        let stamp = Stamp {
            id: rejoin_record::EntryId::new(9, [tail.seq as u8; 10]),
            timestamp: clock.now(),
            salt: rejoin_record::Salt([3; 16]),
            source_time: None,
        };
        let branch = Content::Branch(Branch { reason: None });
        let under = Some((before.id(), before.hash()));
        let entry = Chain::at(Some(tail)).append_under(under, Kind::Branch, &branch, stamp);
        store.append(id, Some(tail), &[entry]).unwrap();
        Conversation::open_for_turns(store.clone(), clock.clone(), id, "test", LockTiming::Now).unwrap()
    };
    let mut back = rewind(conversation);
    let shown = texts(&back);
    assert!(shown[0] == "look around" && shown.ends_with(&[String::from("Welcome.")]), "{shown:?}");
    assert_eq!(seen(&back), [0], "the result of the pinned call");
    let writer = rejoin_engine::Writer { store: &*store, clock: &*clock, command: "test" };
    let fork = writer.fork(id, Some(before.id())).unwrap();
    let open = |id| {
        Conversation::open_for_turns(store.clone(), clock.clone(), id, "test", LockTiming::Never).unwrap()
    };
    assert_eq!(texts(&open(fork)), shown);
    // The same by entries that are read one at a time.
    let walk = Walk::entry_by_entry(&Tree::new(back.entries()));
    assert_eq!(walk.messages(), back.messages());

    back.say(Message::user("and now?"));
    assert_eq!(back.unpin(call), Pinning::Changed);
    assert!(seen(&back).is_empty());
    let back = rewind(back);
    assert!(seen(&back).is_empty(), "unpinning holds there, too");
    assert!(texts(&back).contains(&String::from("look around")), "the other pin stays");
    let fork = writer.fork(id, Some(before.id())).unwrap();
    assert_eq!(texts(&open(fork)), texts(&back));
}

/// S0-47: there is one summary, which each pass extends: it lists what every pass removed, or says how many messages it does not
/// list. It is never empty, and it keeps the text that a model wrote before.
#[test]
fn one_rolling_summary_goes_on_from_pass_to_pass() {
    let limits = |max_tokens| Window { max_tokens, min_retain_turns: 1, prune_threshold: 0.5 };
    let say = |conversation: &mut Conversation, from: usize| {
        for number in from..from + 20 {
            conversation.say(Message::user(format!(
                "fact number {number} is that the plum is {}",
                "very ".repeat(20)
            )));
            conversation.say(Message::assistant("Noted."));
        }
        conversation.say(Message::user("and now?"));
    };
    let summaries = |conversation: &Conversation| -> Vec<String> {
        texts(conversation).into_iter().filter(|text| text.contains("summarized")).collect()
    };
    let (_, _, mut conversation) = talked(0);
    say(&mut conversation, 100);
    conversation.prune_if_needed("m", &limits(1_200)).unwrap();
    for pass in 2..6 {
        say(&mut conversation, pass * 100);
        conversation.prune_if_needed("m", &limits(4_000 * pass));
        let [summary] = &summaries(&conversation)[..] else { panic!("{:?}", summaries(&conversation)) };
        assert!(summary.contains("fact number 119"), "pass {pass}: {summary}");
    }
    // Without room for lines it counts them.
    say(&mut conversation, 900);
    conversation.prune_if_needed("m", &limits(20)).unwrap();
    let [summary] = &summaries(&conversation)[..] else { panic!("{:?}", summaries(&conversation)) };
    let counted = || {
        summary
            .split_once(" older messages not listed")
            .and_then(|(before, _)| before.rsplit('(').next()?.parse::<usize>().ok())
    };
    let listed = summary.matches("\n- ").count();
    assert!(listed > 0 && counted().is_some_and(|counted| counted > 40), "{summary}");
    say(&mut conversation, 1_000);
    let before = counted().unwrap() + listed;
    let removed = conversation.prune_if_needed("m", &limits(20)).unwrap().removed;
    let [summary] = &summaries(&conversation)[..] else { panic!("{:?}", summaries(&conversation)) };
    let counted = summary
        .split_once(" older messages not listed")
        .and_then(|(before, _)| before.rsplit('(').next()?.parse::<usize>().ok());
    assert_eq!(counted.unwrap() + summary.matches("\n- ").count(), before + removed, "{summary}");

    // A model's summary stays before the list.
    let (_, _, mut conversation) = talked(0);
    let keep_from = Some(conversation.entries().last().unwrap().id());
    conversation.append(&Content::Compacted(Compacted::new("The harbour is called Norddeich.", keep_from)));
    for pass in [100, 200] {
        say(&mut conversation, pass);
        conversation.prune_if_needed("m", &limits(1_200)).unwrap();
        let [summary] = &summaries(&conversation)[..] else { panic!("{:?}", summaries(&conversation)) };
        assert!(
            summary.contains("Norddeich") && summary.contains(&format!("fact number {}", pass + 19)),
            "{summary}"
        );
    }

    // It is not taken apart, even if it looks like a list.
    let (_, _, mut conversation) = talked(0);
    let keep_from = Some(conversation.entries().last().unwrap().id());
    let written = "Summary of earlier conversation:\n\nThey quoted this:\nEarlier messages were summarized without a model. What was \
                   said, in short:\n- plums\n- pears\nand went on.";
    conversation.append(&Content::Compacted(Compacted::new(written, keep_from)));
    for pass in [100, 200] {
        say(&mut conversation, pass);
        conversation.prune_if_needed("m", &limits(1_200)).unwrap();
        let summary = texts(&conversation).into_iter().find(|text| text.contains("plums")).unwrap();
        assert!(summary.contains(written), "{summary}");
        assert!(summary.contains(&format!("fact number {}", pass + 19)), "{summary}");
    }
}

/// Pinning a message that a compaction hides brings back its own calls and results, but not those of another call with the same id.
#[test]
fn a_pin_brings_back_only_its_own_pair() {
    let (_, _, mut conversation) = talked(0);
    let look = || Message::assistant_with_tools(vec![ToolCall::new("c", "look", "{}")]);
    let mut entries = Vec::new();
    for text in ["the first", "the second"] {
        conversation.say(look());
        conversation.say(Message::tool("c", text));
        entries.push(conversation.entries().last().unwrap().id());
    }
    conversation.say(Message::user("go on"));
    conversation.prune_if_needed("m", &Window { max_tokens: 1, min_retain_turns: 1, prune_threshold: 0.1 });
    conversation.pin(entries[1]);
    let shown: Vec<String> = conversation.messages().iter().filter_map(|message| message.content()).collect();
    assert!(
        shown.contains(&"the second".to_owned()) && !shown.contains(&"the first".to_owned()),
        "{shown:?}"
    );
}
