//! The spending of conversations, by the answering model and by time.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

use std::sync::Arc;

use rejoin::{
    Access, Conversation, Message, Mode, New, Raw, Store, Timestamp, ToolCall,
    engine::read,
    open_store,
    providers::catalogue::Dollars,
    record::{
        Content,
        content::{CallAt, Compacted, Prune, RecordedContext, TokenUsage, Turn, TurnState},
    },
    stats::{Stats, Tally},
};

fn target(provider: &str, model: &str) -> Content {
    let target = format!(r#"{{"provider":"{provider}","model":"{model}"}}"#);
    Content::Context(RecordedContext { target: Some(Raw::new(target)), ..RecordedContext::default() })
}

fn ended(input: u64, output: u64, cached: u64) -> Content {
    let usage = TokenUsage { input, output, cached, reasoning: 0 };
    Content::Turn(Turn { usage: Some(usage), ..Turn::new(TurnState::Ended, None) })
}

/// Two models, one of which has a price, a summary by a third, and a prune.
fn stats(since: Option<Timestamp>) -> Stats {
    let store: Arc<dyn Store> = open_store(&"memory:".parse().unwrap(), Access::Write).unwrap().into();
    let mut conversation = Conversation::create(Arc::clone(&store), &New::default(), "test");
    conversation.append(&target("openai", "gpt-5"));
    let said = conversation.say(Message::user("Hello.")).entry.id();
    conversation.append(&Content::Turn(Turn::new(TurnState::Started, None)));
    conversation.say(Message::assistant("Hello."));
    conversation.append(&ended(1_000_000, 100_000, 600_000));
    conversation.append(&target("somewhere", "something"));
    conversation.say(Message::user("And you?"));
    conversation.append(&Content::Turn(Turn::new(TurnState::Started, None)));
    conversation.say(Message::assistant("Fine."));
    conversation.append(&ended(500, 50, 0));
    conversation
        .append(&Content::Prune(Prune { results: vec![CallAt { entry: said, block: 0 }], shortened: None }));
    conversation.append(&target("openai", "gpt-5"));
    let usage = Some(TokenUsage { input: 1_000_000, output: 0, ..TokenUsage::default() });
    let summary = Compacted { usage, model: Some("gpt-5-mini".into()), ..Compacted::new("They met.", None) };
    conversation.append(&Content::Compacted(summary));
    let mut tally = Tally::since(since);
    tally.add(&read(&*store, conversation.id(), Mode::Recover).unwrap());
    tally.finish()
}

#[test]
fn money_is_counted_where_the_price_is_known() {
    let stats = stats(None);
    assert_eq!((stats.conversations, stats.turns, stats.requests), (1, 2, 3));
    assert_eq!((stats.compactions, stats.pruned), (1, 1));
    assert_eq!((stats.spent.usage.input, stats.spent.usage.output), (2_000_500, 100_050));
    assert_eq!(stats.spent.unpriced, 550);
    // 0.4 million at $1.25, 0.6 cached at $0.125, 0.1 out at $10; then a million at $0.25.
    assert_eq!(stats.spent.cost, Dollars::new(0.5 + 0.075 + 1.0 + 0.25));
    let models: Vec<(String, u64)> =
        stats.models.iter().map(|(name, part)| (name.to_string(), part.tokens())).collect();
    let expected =
        [("openai gpt-5", 1_100_000), ("openai gpt-5-mini", 1_000_000), ("somewhere something", 550)];
    assert_eq!(models, expected.map(|(name, tokens)| (name.to_owned(), tokens)));
    let json = stats.to_json(&[]);
    assert!(json.contains(r#""cost_usd":1.825,"unpriced_tokens":550"#), "{json}");
    assert!((stats.spent.cached_share().unwrap() - 600_000.0 / 2_000_500.0).abs() < 1e-9);
}

#[test]
fn only_what_is_new_enough_counts() {
    assert_eq!(stats(Some("2099-01-01T00:00:00Z".parse().unwrap())), Stats::default());
    assert_eq!(stats(Some("2020-01-01T00:00:00Z".parse().unwrap())), stats(None));
}

/// A summary that was not used was paid for, and one that took several requests counts as several.
#[test]
fn every_request_for_a_summary_counts() {
    let store: Arc<dyn Store> = open_store(&"memory:".parse().unwrap(), Access::Write).unwrap().into();
    let mut conversation = Conversation::create(Arc::clone(&store), &New::default(), "test");
    conversation.append(&target("openai", "gpt-5"));
    conversation.say(Message::user("Hello."));
    let usage = TokenUsage { input: 1_000_000, output: 0, ..TokenUsage::default() };
    conversation.append(&Content::Turn(Turn::unused_summary("gpt-5-mini", 2, usage)));
    let summary = Compacted { usage: Some(usage), requests: Some(3), ..Compacted::new("They met.", None) };
    conversation.append(&Content::Compacted(summary));
    let mut tally = Tally::since(None);
    tally.add(&read(&*store, conversation.id(), Mode::Recover).unwrap());
    let stats = tally.finish();
    assert_eq!((stats.requests, stats.spent.requests, stats.compactions), (5, 5, 1));
    assert_eq!(stats.spent.cost, Dollars::new(0.25 + 1.25));
    let requests: Vec<u64> = stats.models.values().map(|part| part.requests).collect();
    assert_eq!(requests, [3, 2]);
}

/// S2-49: statistics say how often something is repaired, and by which rule.
#[test]
fn repairs_are_counted_by_rule() {
    let store: Arc<dyn Store> = open_store(&"memory:".parse().unwrap(), Access::Write).unwrap().into();
    let mut tally = Tally::since(None);
    for number in 0..3 {
        let mut conversation = Conversation::create(Arc::clone(&store), &New::default(), "test");
        conversation.say(Message::user("Hello."));
        conversation.say(Message::tool("gone", "a result without a call"));
        if number == 0 {
            conversation.say(Message::assistant_with_tools(vec![ToolCall::new("c1", "look", "{}")]));
            conversation.say(Message::user("And now?"));
        }
        tally.add(&read(&*store, conversation.id(), Mode::Recover).unwrap());
    }
    let stats = tally.finish();
    assert_eq!(stats.repairs, 4);
    let mut counts: Vec<u64> = stats.rules.values().copied().collect();
    counts.sort_unstable();
    assert_eq!(counts, [1, 3], "{:?}", stats.rules);
}
