//! The spending of a turn: recorded with its `turn` entries, reported at its end, and checked against limits before a request
//! leaves.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

mod support;
mod talk;

use std::sync::Arc;

use rejoin_engine::{
    Conversation, New,
    provider::{
        Provider as _,
        catalogue::Dollars,
        offline::Offline,
        scripted::{ScriptedProvider, Step},
    },
    tools::{Delegate, Tools},
    turn::{Ending, Event, Limit, Limits, Stop, TurnOutcome, TurnSettings, WindowSettings, Worker},
};
use rejoin_formats::wire::stream::Usage;
use rejoin_record::{Content, ToolCall, content::TokenUsage};
use rejoin_store::memory::Memory;
use support::clock;
use talk::{call, echo, run};

fn begin() -> Conversation {
    let store = Arc::new(Memory::new(rejoin_engine::digest));
    Conversation::create_with_clock(store, clock(), &New::default(), "test")
}

/// A step that takes these tokens.
fn taking(step: Step, input: u64, output: u64) -> Step {
    match step {
        Step::Answer(mut answer) => {
            answer.usage = Some(Usage { input, output, cached: input / 2, reasoning: 1 });
            Step::Answer(answer)
        }
        fails => fails,
    }
}

fn asks(id: &str) -> Step {
    Step::calls(vec![call(id, "{}")])
}

fn turn(worker: &mut Worker) -> TurnOutcome {
    run(worker.turn("go".into(), &mut |_| {}, &Stop::new())).unwrap()
}

fn recorded(worker: &Worker) -> Vec<TokenUsage> {
    let contents = worker.conversation().entries().iter().map(Content::of);
    contents
        .filter_map(|content| match content {
            Content::Turn(turn) => turn.usage,
            _ => None,
        })
        .collect()
}

#[test]
fn the_tokens_of_each_request_are_recorded_once() {
    let script = [
        taking(asks("a"), 100, 10),
        taking(asks("b"), 200, 20),
        // One that is not counted leaves nothing.
        match asks("c") {
            Step::Answer(mut answer) => {
                answer.usage = None;
                Step::Answer(answer)
            }
            fails => fails,
        },
        taking(Step::says("Done."), 300, 30),
    ];
    let provider = Arc::new(ScriptedProvider::new(script));
    let mut worker = Worker::new(begin(), provider, echo().1, TurnSettings::default());
    let mut events = Vec::new();
    let outcome = run(worker.turn("go".into(), &mut |event| events.push(event), &Stop::new())).unwrap();
    let inputs: Vec<u64> = recorded(&worker).iter().map(|usage| usage.input).collect();
    assert_eq!(inputs, [100, 200, 300]);
    assert_eq!(recorded(&worker)[2], TokenUsage { input: 300, output: 30, cached: 150, reasoning: 1 });
    assert_eq!((outcome.usage.input, outcome.usage.output), (600, 60));
    assert_eq!(outcome.cost, None, "a script has no known price");
    let Some(Event::Ended { ending: Ending::Done, usage, cost: None }) = events.last() else {
        panic!("{:?}", events.last());
    };
    assert_eq!(*usage, outcome.usage);
}

#[test]
fn a_turn_that_fails_or_is_cut_records_what_it_took() {
    for last in
        [taking(Step::says("Hm"), 50, 5).cut(), taking(Step::says("Hm"), 50, 5).then_fails("overloaded")]
    {
        let provider = Arc::new(ScriptedProvider::new([taking(asks("a"), 100, 10), last]));
        let mut worker = Worker::new(begin(), provider, echo().1, TurnSettings::default());
        let mut ended = None;
        let mut sink = |event: Event| {
            if let Event::Ended { ending, usage, .. } = event {
                ended = Some((ending, usage.input));
            }
        };
        run(worker.turn("go".into(), &mut sink, &Stop::new())).unwrap_err();
        assert_eq!(recorded(&worker).iter().map(|usage| usage.input).collect::<Vec<_>>(), [100, 50]);
        assert_eq!(ended, Some((Ending::Failed, 150)));
    }
}

/// The next request is expected to take at least as much as the last one and its answer.
#[test]
fn a_turn_stops_before_the_request_that_would_cross_the_limit_of_tokens() {
    for (limit, sent) in [(1_000, 3), (479, 2), (219, 1), (1, 0)] {
        let script =
            [taking(asks("a"), 100, 10), taking(asks("b"), 200, 20), taking(Step::says("Done."), 300, 30)];
        let provider = Arc::new(ScriptedProvider::new(script));
        let limits = Limits { tokens: Some(limit), ..Limits::default() };
        let settings = TurnSettings { limits, ..TurnSettings::default() };
        let mut worker = Worker::new(begin(), provider.clone(), echo().1, settings);
        let outcome = turn(&mut worker);
        assert_eq!(provider.requests().len(), sent, "{limit}: {outcome:?}");
        match outcome.ending {
            Ending::Done => assert_eq!(sent, 3),
            Ending::Limit(Limit::Tokens { spent, next, limit: said }) => {
                assert_eq!(said, limit);
                assert!(spent <= limit && spent + next > limit, "{spent} and {next} of {limit}");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_turn_stops_before_the_request_that_would_cost_too_much() {
    // At $2.50 and $10 per million: $0.1875 + $0.1 for the first request, half of which came from the cache.
    let script = || [taking(asks("a"), 100_000, 10_000), taking(Step::says("Done."), 120_000, 10_000)];
    for (limit, sent) in [(1.0, 2), (0.5, 1), (0.000_001, 0)] {
        let provider = Arc::new(ScriptedProvider::new(script()).named("openai", "gpt-4o"));
        let limits = Limits { cost: Some(Dollars::new(limit)), ..Limits::default() };
        let settings = TurnSettings { limits, ..TurnSettings::default() };
        let mut worker = Worker::new(begin(), provider.clone(), echo().1, settings);
        let outcome = turn(&mut worker);
        assert_eq!(provider.requests().len(), sent, "{limit}: {outcome:?}");
        if let Ending::Limit(limit) = outcome.ending {
            assert!(
                matches!(limit, Limit::Cost { .. }) && limit.to_string().contains("would cost about $"),
                "{limit}"
            );
        }
        let cost = outcome.cost.unwrap();
        assert!(cost <= Dollars::new(limit), "{cost}");
        if sent == 1 {
            assert_eq!(cost, Dollars::new(0.2875));
        }
    }
}

/// The tokens that the record names are the basis, also in the next process.
#[test]
fn a_limit_knows_what_the_conversation_took_before() {
    let script = [taking(Step::says("One."), 5_000, 10), taking(Step::says("Two."), 5_020, 10)];
    let provider = Arc::new(ScriptedProvider::new(script));
    let mut worker = Worker::new(begin(), provider.clone(), Tools::default(), TurnSettings::default());
    turn(&mut worker);
    let limits = Limits { tokens: Some(5_000), ..Limits::default() };
    let settings = TurnSettings { limits, ..TurnSettings::default() };
    let mut worker = Worker::new(worker.into_conversation(), provider.clone(), Tools::default(), settings);
    let outcome = turn(&mut worker);
    assert!(matches!(outcome.ending, Ending::Limit(Limit::Tokens { spent: 0, .. })), "{outcome:?}");
    assert_eq!(provider.requests().len(), 1);
}

#[test]
fn what_a_provider_counts_corrects_estimates() {
    let said = "Every conversation is recorded word for word. ".repeat(50);
    let provider = || ScriptedProvider::answering(|_| taking(Step::says("OK."), 1_000, 2)).named("x", "y");
    let mut worker = Worker::new(begin(), Arc::new(provider()), Tools::default(), TurnSettings::default());
    run(worker.turn(said.as_str().into(), &mut |_| {}, &Stop::new())).unwrap();
    let counted =
        rejoin_view::TokenCounter::for_model("y").message(&rejoin_record::Message::user(said.as_str()));
    let (shown, next) = (worker.shown_tokens(), worker.next_request_tokens());
    assert!(counted < 600 && (1_000..1_030).contains(&next), "{counted} {next}");
    assert!(shown > counted && shown <= next, "{shown}");
    // It is not remembered, but found in the record.
    let mut again = Worker::new(
        worker.into_conversation(),
        Arc::new(provider()),
        Tools::default(),
        TurnSettings::default(),
    );
    assert_eq!(again.next_request_tokens(), next);
}

#[test]
fn the_window_is_the_setting_or_what_is_known() {
    let window = |provider: Offline, context_window| {
        let settings = TurnSettings {
            window: WindowSettings { context_window, ..WindowSettings::default() },
            ..TurnSettings::default()
        };
        Worker::new(begin(), Arc::new(provider), Tools::default(), settings).window()
    };
    assert_eq!(window(Offline::new("tiny"), None), Some(4_096));
    assert_eq!(window(Offline::new("tiny"), Some(9_000)), Some(9_000));
    assert_eq!(window(Offline::default(), None), Offline::default().window());
    let provider = Arc::new(ScriptedProvider::new_default().named("openai", "gpt-4o"));
    let worker = Worker::new(begin(), provider, Tools::default(), TurnSettings::default());
    assert_eq!(worker.window(), Some(128_000));
}

/// A delegated task gets its parent's remaining budget, so that delegating cannot bypass a limit.
#[test]
fn a_delegated_task_gets_what_is_left() {
    let delegates = ToolCall::new("a", "delegate", r#"{"task":"Say hello."}"#);
    let script =
        [taking(Step::calls(vec![delegates]), 9_000, 900), Step::says("Hello."), Step::says("Done.")];
    let provider = Arc::new(ScriptedProvider::new(script));
    let limits = Limits { tokens: Some(10_000), ..Limits::default() };
    let settings = TurnSettings { limits, ..TurnSettings::default() };
    let mut worker = Worker::new(begin(), provider.clone(), Tools::builtin(".").with(Delegate), settings);
    let outcome = turn(&mut worker);
    assert!(matches!(outcome.ending, Ending::Limit(Limit::Tokens { .. })), "{outcome:?}");
    assert_eq!(
        provider.requests().len(),
        1,
        "the task may take a hundred tokens, and its request takes more"
    );
    let result = outcome.messages.last().unwrap().content().unwrap();
    assert!(result.contains("the limit is 100"), "{result}");
}

/// A worker whose conversation fills most of a window of 10,000 tokens. A summary takes 9,000.
fn nearly_full(limit: Option<u64>, summary: &'static str) -> (Worker, Arc<ScriptedProvider>) {
    let provider = Arc::new(
        ScriptedProvider::answering(move |request| {
            let last =
                request.messages().last().and_then(rejoin_record::Message::content).unwrap_or_default();
            match last.contains("concise summary") {
                true => taking(Step::says(summary), 9_000, 100),
                false => taking(Step::says("OK."), 1_000, 10),
            }
        })
        .named("openai", "gpt-4o"),
    );
    let mut conversation = begin();
    conversation.say(rejoin_record::Message::user("word ".repeat(8_400)));
    conversation.say(rejoin_record::Message::assistant("Read."));
    let limits = Limits { tokens: limit, ..Limits::default() };
    let window = WindowSettings { context_window: Some(10_000), ..WindowSettings::default() };
    let settings = TurnSettings { limits, window, ..TurnSettings::default() };
    (Worker::new(conversation, provider.clone(), Tools::default(), settings), provider)
}

/// Results that are pruned before a request do not count towards its limit: it will be sent without them.
#[test]
fn a_limit_is_that_of_the_request_that_would_be_sent() {
    let provider = Arc::new(
        ScriptedProvider::answering(|_| taking(Step::says("OK."), 1_000, 10)).named("openai", "gpt-4o"),
    );
    let mut conversation = begin();
    conversation.say(rejoin_record::Message::user("read it"));
    conversation.say(rejoin_record::Message::assistant_with_tools(vec![call("a", "{}")]));
    conversation.say(rejoin_record::Message::tool("a", "word ".repeat(60_000)));
    conversation.say(rejoin_record::Message::assistant("Read."));
    let limits = Limits { tokens: Some(5_000), ..Limits::default() };
    let window = WindowSettings { context_window: Some(10_000), ..WindowSettings::default() };
    let settings = TurnSettings { limits, window, ..TurnSettings::default() };
    let mut worker = Worker::new(conversation, provider.clone(), Tools::default(), settings);
    assert_eq!(turn(&mut worker).ending, Ending::Done);
    assert_eq!(provider.requests().len(), 1);
}

/// The summary before a request counts, and a turn stops before one that would cross its limit.
#[test]
fn a_summary_counts_towards_the_limits_and_the_cost_of_a_turn() {
    let (mut worker, provider) = nearly_full(None, "They read words.");
    let outcome = turn(&mut worker);
    assert_eq!(provider.requests().len(), 2);
    assert_eq!(outcome.usage.input, 10_000);
    // Half of each request came from the cache: at $2.50, $1.25 and $10 per million.
    assert_eq!(outcome.cost, Some(Dollars::new(0.01875 + 0.0011)));
    let (mut worker, provider) = nearly_full(Some(9_000), "They read words.");
    let outcome = turn(&mut worker);
    assert!(matches!(outcome.ending, Ending::Limit(Limit::Tokens { spent: 0, .. })), "{outcome:?}");
    assert_eq!(provider.requests().len(), 0, "neither the summary nor the request");
}

/// After a turn the summary is left for later, with a warning.
#[test]
fn a_summary_after_a_turn_that_would_cross_the_limit_is_left_out() {
    let script = || [taking(Step::says("OK."), 9_000, 10), taking(Step::says("They read."), 9_000, 10)];
    for (limit, sent) in [(None, 2), (Some(12_000), 1)] {
        let provider = Arc::new(ScriptedProvider::new(script()));
        let window = WindowSettings { context_window: Some(10_500), ..WindowSettings::default() };
        let limits = Limits { tokens: limit, ..Limits::default() };
        let settings = TurnSettings { limits, window, ..TurnSettings::default() };
        let mut worker = Worker::new(begin(), provider.clone(), Tools::default(), settings);
        worker.conversation_mut().say(rejoin_record::Message::user("word ".repeat(4_000)));
        worker.conversation_mut().say(rejoin_record::Message::assistant("word ".repeat(2_000)));
        let mut warned = Vec::new();
        let mut sink = |event: Event| {
            if let Event::Warning(text) = event {
                warned.push(text);
            }
        };
        let outcome = run(worker.turn("go".into(), &mut sink, &Stop::new())).unwrap();
        assert_eq!((outcome.ending, provider.requests().len()), (Ending::Done, sent), "{limit:?} {warned:?}");
        assert_eq!(
            warned.iter().any(|text| text.contains("would cross the turn's limit")),
            sent == 1,
            "{warned:?}"
        );
    }
}

/// A summary that is not used still costs tokens: they are in the record, and the next estimate ignores them.
#[test]
fn a_summary_that_is_not_used_is_recorded() {
    const LONG: &str = include_str!("spending.rs");
    let (worker, provider) = nearly_full(None, LONG);
    let mut worker = Worker::new(begin(), provider, Tools::default(), worker.settings().clone());
    worker.conversation_mut().say(rejoin_record::Message::user("word ".repeat(100)));
    worker.conversation_mut().say(rejoin_record::Message::assistant("word ".repeat(800)));
    run(worker.turn("word ".repeat(7_150).into(), &mut |_| {}, &Stop::new())).unwrap();
    let contents = worker.conversation().entries().iter().map(Content::of);
    let unused: Vec<_> = contents
        .filter_map(|content| match content {
            Content::Turn(turn) => Some((turn.unused_summary?, turn.usage?)),
            _ => None,
        })
        .collect();
    assert_eq!(unused.len(), 1);
    assert_eq!((&*unused[0].0.model, unused[0].0.requests, unused[0].1.input), ("gpt-4o", 1, 9_000));
}
