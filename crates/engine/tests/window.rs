//! Conversations that outgrow their model's window: pruning, compaction, recall.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

mod support;
mod talk;

use std::{
    ops::ControlFlow,
    sync::{Arc, Mutex},
    time::Duration,
};

use rejoin_engine::{
    Agent, Conversation, LockTiming, New, PruneReport, Window, digest,
    provider::{
        BoxFuture, Provider, ProviderError, ProviderFault, Request,
        scripted::{ScriptedAnswer, ScriptedProvider, Step},
    },
    tools::{FunctionTool, Plan, Recall, RunningCall, Tool, ToolOutput, Tools},
    turn::{CompactMode, Compaction, Ending, Event, Stop, TurnError, TurnSettings, WindowSettings, Worker},
};
use rejoin_formats::{Dialect, wire::stream::Usage};
use rejoin_record::{
    Block, Content, Entry, Kind, Message, Role, ToolCall,
    content::{TokenUsage, Turn},
    json::Doc,
};
use rejoin_store::{Store, StoredItem, memory::Memory};
use rejoin_view::{TokenCounter, window::PrunePolicy};
use talk::{assert_paired, reach, run};
use testkit::loopback::{
    Config, Loopback, Service,
    brain::{Ask, Call, PromptMessage as Said, Say},
};

/// The body of a request.
fn body(request: &Request) -> String {
    request.body.as_ref().unwrap().pieces().map(|piece| &**piece).collect()
}

/// The provider counts four bytes as a token.
fn tokens(body: &str) -> u64 {
    body.len() as u64 / 4 + 1
}

fn with_usage(step: Step, body: &str) -> Step {
    match step {
        Step::Answer(answer) => {
            let usage = Usage { input: tokens(body), output: 20, ..Usage::default() };
            Step::Answer(ScriptedAnswer { usage: Some(usage), ..answer })
        }
        fails => fails,
    }
}

fn too_long() -> ProviderError {
    ProviderError::ContextLength(ProviderFault {
        provider: "scripted".into(),
        status: Some(400),
        kind: None,
        message: "too long".into(),
    })
}

/// The warnings in some turns in which the user always sends the same text.
fn warnings(agent: &mut Agent, turns: usize, said: &str) -> Vec<String> {
    let mut warned = Vec::new();
    let mut sink = |event: Event| {
        if let Event::Warning(text) = event {
            warned.push(text);
        }
    };
    for _ in 0..turns {
        run(agent.ask_with(said, &mut sink)).unwrap();
    }
    warned
}

/// The outcome of a run of many turns.
#[derive(Debug, Default)]
struct Course {
    bodies: Vec<String>,
    summaries: usize,
    refused: usize,
    largest: u64,
}

/// A model that calls `look` once in every turn, then answers, and writes summaries that say nothing.
fn working_provider(window: u64, course: Arc<Mutex<Course>>) -> ScriptedProvider {
    ScriptedProvider::answering(move |request| {
        let body = body(request);
        let mut course = course.lock().unwrap();
        let messages = request.messages();
        let last = messages.last().unwrap();
        // Every call has its result here, also when a summary is asked for in the middle of a turn.
        assert!(!body.contains("no result was recorded"), "{body}");
        course.largest = course.largest.max(tokens(&body));
        if tokens(&body) > window {
            course.refused += 1;
            return Step::fails(too_long());
        }
        let step = match &last.role {
            Role::User if last.content().unwrap_or_default().contains("concise summary") => {
                course.summaries += 1;
                Step::says(&format!("{} The work goes on.", "We looked at many things. ".repeat(20)))
            }
            Role::User if last.content().unwrap_or_default().starts_with("Find: ") => {
                let said = last.content().unwrap_or_default();
                let query = said.trim_start_matches("Find: ");
                let arguments = rejoin_engine::serde_json::json!({"query": query}).to_string();
                Step::calls(vec![ToolCall::new(format!("find_{}", course.bodies.len()), "recall", arguments)])
            }
            Role::User => {
                let number = messages.len() + course.bodies.len();
                let said = last.content().unwrap_or_default();
                let (tool, calls) = match said.as_str() {
                    said if said.contains("ten things") => ("look", 10),
                    said if said.contains("large thing") => ("survey", 1),
                    _ => ("look", 1),
                };
                let call = |part| ToolCall::new(format!("call_{number}_{part}"), tool, r#"{"at":"things"}"#);
                Step::calls((0..calls).map(call).collect())
            }
            _ => Step::says("I have looked at it, and all is well with it so far as I can see."),
        };
        let step = with_usage(step, &body);
        course.bodies.push(body);
        step
    })
    .speaking(Dialect::OpenAiChat)
    .named("scripted", "some-model")
}

/// A tool that puts out a lot, each time something else, with a fact in it now and then.
fn look(bytes: usize, fact: impl Fn(usize) -> Option<String> + Send + Sync + 'static) -> FunctionTool {
    printing("look", bytes, fact)
}

fn printing(
    name: &str,
    bytes: usize,
    fact: impl Fn(usize) -> Option<String> + Send + Sync + 'static,
) -> FunctionTool {
    let count = Mutex::new(0usize);
    FunctionTool::new(
        name,
        "Looks at something.",
        rejoin_engine::serde_json::json!({"type": "object"}),
        move |_| {
            let mut count = count.lock().unwrap();
            *count += 1;
            let mut out = String::new();
            let mut seed = *count as u64 * 7919;
            while out.len() < bytes {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                out.push_str(&format!("line {} of the output\n", seed >> 40));
            }
            if let Some(fact) = fact(*count) {
                out.insert_str(out.len() / 2, &format!("\n{fact}\n"));
            }
            std::future::ready(Ok::<String, ToolOutput>(out))
        },
    )
}

fn common(one: &str, other: &str) -> u64 {
    one.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count() as u64
}

/// The fraction of a request that repeats the beginning of the previous one, from 0 to 1.
struct Prefix {
    /// As a fraction of the previous request.
    of_previous: f64,
    /// As a fraction of the messages that both requests have.
    of_repeated: f64,
    /// As a fraction of all that is sent.
    of_all: f64,
}

fn prefix(bodies: &[String]) -> Prefix {
    let (mut previous, mut unchanged, mut all, mut repeated) = (0, 0, 0, 0);
    for pair in bodies.windows(2) {
        let same = common(&pair[0], &pair[1]);
        previous += pair[0].len() as u64;
        repeated += same.max(shared(&pair[0], &pair[1]));
        unchanged += same;
        all += pair[1].len() as u64;
    }
    let share = |whole: u64| unchanged as f64 / whole as f64;
    Prefix { of_previous: share(previous), of_repeated: share(repeated), of_all: share(all) }
}

const WINDOW: u64 = 32_000;

fn fact(number: usize) -> (String, String) {
    (format!("the secret word of place {number}"), format!("zq{:05}x", number * 7919 % 100_000))
}

/// Works for this many turns. Every tenth turn plants a fact: in the user's text, or in the output of the tool.
fn work(turns: usize, fitting: WindowSettings) -> (Agent, Arc<Mutex<Course>>, Vec<usize>) {
    let course = Arc::new(Mutex::new(Course::default()));
    let provider = Arc::new(working_provider(WINDOW, course.clone()));
    let (agent, facts) = work_with(provider, turns, fitting, |_| {});
    (agent, course, facts)
}

fn work_with(
    provider: Arc<dyn Provider>,
    turns: usize,
    fitting: WindowSettings,
    after: impl Fn(usize),
) -> (Agent, Vec<usize>) {
    let told = |number: usize| {
        let (what, word) = fact(number);
        format!("{what} is {word}")
    };
    let tools = Tools::default()
        .with(look(2_400, move |count| (count % 20 == 5).then(|| told(count))))
        .with(printing("survey", 200_000, |_| None))
        .with(Recall);
    let mut agent = Agent::builder(provider).tools(tools).fitting(fitting).build();
    let mut facts = Vec::new();
    for turn in 1..=turns {
        let said = match turn % 100 {
            _ if turn == 250 => format!("Turn {turn}: please read this. {}", words(WINDOW as usize / 2)),
            30 => format!("Turn {turn}: please look at the next ten things."),
            70 => format!("Turn {turn}: please look at the large thing."),
            place if place % 20 == 7 => format!("Turn {turn}: remember that {}.", told(turn)),
            _ => format!("Turn {turn}: please look at the next thing and tell me what you see."),
        };
        if matches!(turn % 20, 5 | 7) {
            facts.push(turn);
        }
        let outcome = run(agent.ask(said.as_str())).unwrap();
        assert_eq!(outcome.ending, Ending::Done, "turn {turn}");
        after(turn);
    }
    (agent, facts)
}

/// The same 500 turns over HTTP: the provider counts its tokens, and refuses nothing.
#[test]
fn five_hundred_turns_over_http() {
    let brain = |ask: &Ask| match ask.said.last() {
        Some(Said::User(text)) if text.contains("concise summary") => {
            Say::text("We looked at many things. ".repeat(20))
        }
        Some(Said::User(_)) => {
            let call = Call { name: String::from("look"), arguments: String::from(r#"{"at":"things"}"#) };
            Say { calls: vec![call], ..Say::default() }
        }
        _ => Say::text("I have looked at it, and all is well with it so far as I can see."),
    };
    let server = Loopback::start(Config { brain: Arc::new(brain), ..Config::default() });
    let provider = reach(&server, &("openai", Some("chat"), Service::OpenAi, "some-model"));
    let fitting = WindowSettings { context_window: Some(WINDOW), ..WindowSettings::default() };
    let course = Mutex::new((String::new(), 0, 0, 0));
    work_with(provider, 500, fitting, |turn| {
        assert!(server.violations().is_empty(), "turn {turn}: {:#?}", server.violations());
        let (before, unchanged, all, largest) = &mut *course.lock().unwrap();
        for request in server.requests().iter().filter(|request| request.is_turn()) {
            let body = String::from_utf8(request.body.to_vec()).unwrap();
            *largest = tokens(&body).max(*largest);
            *unchanged += common(before, &body);
            *all += body.len() as u64;
            *before = body;
        }
        server.forget();
    });
    let (_, unchanged, all, largest) = course.into_inner().unwrap();
    let share = unchanged as f64 / all as f64;
    println!(
        "largest {largest} of {WINDOW} tokens; {:.2} % of all input is an unchanged prefix",
        100.0 * share
    );
    assert!(largest <= WINDOW && largest > WINDOW / 2, "{largest}");
    assert!(share >= 0.9, "{share}");
}

/// 500 turns with a tool in a window of 32,000 tokens, some with ten calls at once, with a result of 200 KB or with a message that takes
/// half of the window: never more than fits, never a refusal, and almost everything that is sent again
/// is the beginning of the request before. Every fact is in the view in the end, or found by one call of `recall`.
#[test]
fn five_hundred_turns_in_a_small_window() {
    let fitting = WindowSettings { context_window: Some(WINDOW), ..WindowSettings::default() };
    let (mut agent, course, facts) = work(500, fitting.clone());
    let last = {
        let course = course.lock().unwrap();
        let prefix = prefix(&course.bodies);
        println!(
            "{} requests, {} summaries, largest {} of {WINDOW} tokens; unchanged prefix: {:.2} % of what is sent again, {:.2} % of the \
             previous request, {:.2} % of all input",
            course.bodies.len(),
            course.summaries,
            course.largest,
            100.0 * prefix.of_repeated,
            100.0 * prefix.of_previous,
            100.0 * prefix.of_all
        );
        assert_eq!(course.refused, 0);
        assert!(course.largest <= WINDOW && course.largest > WINDOW / 2, "{}", course.largest);
        assert!(prefix.of_repeated >= 0.97 && prefix.of_all >= 0.9 && prefix.of_previous >= 0.9);
        assert!((1..50).contains(&course.summaries), "{}", course.summaries);
        course.bodies.last().unwrap().clone()
    };
    // The same work, with pruning that only keeps the last results.
    let naive = PrunePolicy { keep_last: Some(10), batch: Some(1), ..PrunePolicy::default() };
    let (_, naive, _) = work(150, WindowSettings { prune: naive, ..fitting });
    let naive = prefix(&naive.lock().unwrap().bodies);
    println!(
        "keeping the last 10 results: {:.2} %, {:.2} %",
        100.0 * naive.of_repeated,
        100.0 * naive.of_all
    );
    assert_eq!(facts.len(), 50);
    for number in facts {
        let (what, word) = fact(number);
        if last.contains(&word) {
            continue;
        }
        let outcome = run(agent.ask(format!("Find: {what}").as_str())).unwrap();
        let recalled = outcome.messages.iter().find(|message| message.role == Role::Tool).unwrap();
        let text = recalled.tool_results().flat_map(|result| &result.content).filter_map(Block::as_text);
        assert!(text.into_iter().any(|text| text.contains(&word)), "{what}: {word}");
    }
}

/// The bytes of messages that both requests have.
fn shared(one: &str, other: &str) -> u64 {
    let messages = |body: &str| -> Vec<String> {
        let doc = Doc::parse(body).unwrap();
        let list = doc.root().unwrap().get("messages").unwrap();
        list.items().map(|message| message.raw().to_owned()).collect()
    };
    let before: std::collections::HashSet<String> = messages(one).into_iter().collect();
    messages(other)
        .iter()
        .filter(|message| before.contains(*message))
        .map(|message| message.len() as u64 + 1)
        .sum()
}

/// A provider that answers "OK." and summarizes as `summary` says. It refuses requests larger than `window`.
fn answering(
    window: u64,
    summary: impl Fn(usize) -> Step + Send + Sync + 'static,
) -> (Arc<ScriptedProvider>, Arc<Mutex<Course>>) {
    let course = Arc::new(Mutex::new(Course::default()));
    let noted = course.clone();
    let provider = ScriptedProvider::answering(move |request| {
        let body = body(request);
        let mut course = noted.lock().unwrap();
        let last = request.messages().last().and_then(rejoin_record::Message::content).unwrap_or_default();
        let asked = last.contains("concise summary");
        course.summaries += usize::from(asked);
        course.bodies.push(body.clone());
        if tokens(&body) > window {
            course.refused += 1;
            return Step::fails(too_long());
        }
        let step = if asked { summary(course.summaries) } else { Step::says("OK.") };
        with_usage(step, &body)
    });
    (Arc::new(provider.speaking(Dialect::OpenAiChat).named("scripted", "some-model")), course)
}

/// A provider that makes `calls` calls of `look` at once whenever a message says "look", and otherwise answers "OK." It refuses
/// requests larger than `window`.
fn looking(window: u64, calls: usize) -> (Arc<ScriptedProvider>, Arc<Mutex<Course>>) {
    let course = Arc::new(Mutex::new(Course::default()));
    let noted = course.clone();
    let provider = ScriptedProvider::answering(move |request| {
        let body = body(request);
        let mut course = noted.lock().unwrap();
        course.bodies.push(body.clone());
        if tokens(&body) > window {
            course.refused += 1;
            return Step::fails(too_long());
        }
        course.largest = course.largest.max(tokens(&body));
        let messages = request.messages();
        let last = messages.last().and_then(Message::content).unwrap_or_default();
        let is_user = messages.last().is_some_and(|last| last.role == Role::User);
        let step = if is_user && last.contains("concise summary") {
            course.summaries += 1;
            short_summary(course.summaries)
        } else if is_user && last.contains("look") {
            let call = |number| ToolCall::new(format!("c{}_{number}", course.bodies.len()), "look", "{}");
            Step::calls((0..calls).map(call).collect())
        } else {
            Step::says("OK.")
        };
        with_usage(step, &body)
    });
    (Arc::new(provider.speaking(Dialect::OpenAiChat).named("scripted", "some-model")), course)
}

fn worker(provider: Arc<ScriptedProvider>, output: usize, window: WindowSettings) -> Worker {
    let conversation = Conversation::in_memory(support::clock(), &New::default());
    let tools = Tools::default().with(look(output, |_| None)).with(Recall);
    Worker::new(conversation, provider, tools, TurnSettings { window, ..TurnSettings::default() })
}

fn of_window(window: u64) -> WindowSettings {
    WindowSettings { context_window: Some(window), ..WindowSettings::default() }
}

/// A result that is too long to send counts as the part of it that is sent.
#[test]
fn a_long_result_counts_as_it_is_sent() {
    let (provider, course) = looking(131_072, 1);
    let mut worker = worker(provider, 1_000_000, of_window(131_072));
    for said in ["look", "and now?", "and then?"] {
        run(worker.turn(said.into(), &mut |_| {}, &Stop::new())).unwrap();
    }
    let course = course.lock().unwrap();
    assert_eq!((course.summaries, course.refused), (0, 0));
    let (estimated, sent) =
        (worker.next_request_tokens() as f64, tokens(course.bodies.last().unwrap()) as f64);
    println!("estimated {estimated}, sent {sent}");
    assert!((1.0 / 1.3..=1.3).contains(&(estimated / sent)), "{estimated} {sent}");
}

/// The messages of a request, as they are sent.
fn sent_messages(body: &str) -> Vec<String> {
    let doc = Doc::parse(body).unwrap();
    doc.root().unwrap().get("messages").unwrap().items().map(|message| message.raw().to_owned()).collect()
}

/// One result or a batch of results that is larger than the window loses its middle, in a window that is known or that only a refusal
/// reveals, also if nothing may be summarized. Another process sends the same text.
#[test]
fn results_larger_than_the_window_are_shortened() {
    for (window, output, calls) in [(32_000, 980_000, 1), (16_000, 13_000, 10), (4_000, 13_000, 3)] {
        for (is_known, compact) in
            [true, false].into_iter().zip([CompactMode::Auto, CompactMode::Off].into_iter().cycle())
        {
            let case = format!("{window} {is_known} {compact:?}");
            let (provider, course) = looking(window, calls);
            let store: Arc<dyn Store> = Arc::new(Memory::new(digest));
            let conversation =
                Conversation::create_with_clock(store.clone(), support::clock(), &New::default(), "test");
            let id = conversation.id();
            let context_window = Some(window).filter(|_| is_known);
            let settings = WindowSettings { context_window, compact, ..WindowSettings::default() };
            let settings = TurnSettings { window: settings, ..TurnSettings::default() };
            let tools = || Tools::default().with(look(output, |_| None)).with(Recall);
            let mut worker = Worker::new(conversation, provider.clone(), tools(), settings.clone());
            let turn = |worker: &mut Worker, said: &str| {
                run(worker.turn(said.into(), &mut |_| {}, &Stop::new())).map(|outcome| outcome.response)
            };
            assert_eq!(turn(&mut worker, "look").unwrap(), "OK.", "{case}");
            drop(worker);
            let again =
                Conversation::open_for_turns(store, support::clock(), id, "test", LockTiming::Now).unwrap();
            let mut worker = Worker::new(again, provider, tools(), settings);
            assert_eq!(turn(&mut worker, "and now?").unwrap(), "OK.", "{case}");
            let course = course.lock().unwrap();
            assert_eq!(course.summaries, 0, "{case}");
            assert_eq!(course.refused == 0, is_known, "{case}");
            let [.., before, last] = &course.bodies[..] else { panic!("{case}") };
            let (before, last) = (sent_messages(before), sent_messages(last));
            assert_eq!(before, last[..before.len()], "{case}");
            assert!(before.last().unwrap().contains("call recall with {\\\"message\\\": "), "{before:?}");
        }
    }
}

/// A long message costs at most one summary before its request and one after the turn. If none can make it fit, none is paid for, and
/// it is taken back.
#[test]
fn one_long_message_costs_few_summaries() {
    const LONG: u64 = 20_000;
    for history in [300, 6_000] {
        for percent in [50, 75, 86, 95, 110] {
            let case = format!("{percent} % after {history} tokens");
            let (provider, course) = answering(LONG, short_summary);
            let mut worker = worker(provider, 10, of_window(LONG));
            let mut turn = |said: String| run(worker.turn(said.into(), &mut |_| {}, &Stop::new()));
            for number in 0..3 {
                turn(format!("{number}: {}", words(history / 3))).unwrap();
            }
            assert_eq!(course.lock().unwrap().summaries, 0, "{case}");
            let answered = turn(words(LONG as usize * percent / 100));
            {
                let mut course = course.lock().unwrap();
                let bodies = course.bodies.split_off(3);
                let is_summary = |body: &String| body.contains("provide a concise summary");
                let first = bodies.iter().position(|body| !is_summary(body)).unwrap();
                let after = bodies[first + 1..].iter().filter(|body| is_summary(body)).count();
                println!("{case}: {first} before, {after} after, {}", answered.is_ok());
                assert!(first <= 1 && after <= 1, "{case}: {first} before, {after} after");
                if percent > 100 {
                    assert!(answered.is_err() && course.summaries == 0, "{case}");
                }
            }
            assert_eq!(turn(String::from("next")).unwrap().response, "OK.", "{case}");
        }
    }
}

/// A message that is longer than the window is taken back: the record keeps it, and the conversation goes on without it. So are
/// messages before it that were never answered, if they alone are too long.
#[test]
fn a_message_longer_than_the_window_is_taken_back() {
    for (known, compact) in [
        (Some(10_000), CompactMode::Auto),
        (Some(10_000), CompactMode::Off),
        (None, CompactMode::Auto),
        (None, CompactMode::Off),
    ] {
        let (provider, course) = answering(10_000, short_summary);
        let settings = WindowSettings { context_window: known, compact, ..WindowSettings::default() };
        let mut worker = worker(provider, 10, settings);
        let mut turn = |said: &str| run(worker.turn(said.into(), &mut |_| {}, &Stop::new()));
        turn("hello").unwrap();
        let error = turn(&words(15_000)).unwrap_err();
        assert!(matches!(error, TurnError::Provider { taken_back: true, .. }), "{known:?}: {error:?}");
        assert!(error.hint().unwrap().contains("continues from before it"));
        assert_eq!(turn("next").unwrap().response, "OK.", "{known:?}");
        assert_eq!(course.lock().unwrap().summaries, 0);
        let entries = worker.conversation().entries();
        let is_long = |entry: &&Entry| entry.body().is_some_and(|body| body.as_str().len() > 60_000);
        assert_eq!(entries.iter().filter(is_long).count(), 1, "the record keeps it");
        // A process was killed before the refusal.
        worker.conversation_mut().say(Message::user(words(15_000)));
        let mut turn = |said: &str| run(worker.turn(said.into(), &mut |_| {}, &Stop::new()));
        turn("and now?").unwrap_err();
        assert_eq!(turn("next").unwrap().response, "OK.", "{known:?}");
    }
}

/// A conversation that ended with a result too large for its model goes on: pruning it costs nothing.
#[test]
fn a_result_that_was_too_large_is_pruned_after_a_refusal() {
    for compact in [CompactMode::Auto, CompactMode::Off] {
        let (provider, course) = answering(20_000, short_summary);
        let mut worker = worker(provider, 10, WindowSettings { compact, ..WindowSettings::default() });
        let conversation = worker.conversation_mut();
        conversation.say(Message::user("look"));
        conversation.say(Message::assistant_with_tools(vec![ToolCall::new("c", "look", "{}")]));
        conversation.say(Message::tool("c", words(38_000)));
        let outcome = run(worker.turn("next".into(), &mut |_| {}, &Stop::new())).unwrap();
        assert_eq!(outcome.response, "OK.");
        let course = course.lock().unwrap();
        assert_eq!((course.refused, course.summaries), (1, 0));
    }
}

/// A provider that reports far too many tokens cannot keep a conversation from being compacted.
#[test]
fn absurd_token_counts_do_not_prevent_compaction() {
    let course = Arc::new(Mutex::new(Course::default()));
    let noted = course.clone();
    let absurd = ScriptedProvider::answering(move |request| {
        let body = body(request);
        let mut course = noted.lock().unwrap();
        if tokens(&body) > 4_000 {
            course.refused += 1;
            return Step::fails(too_long());
        }
        let last = request.messages().last().and_then(Message::content).unwrap_or_default();
        let asked = last.contains("concise summary");
        course.summaries += usize::from(asked);
        let Step::Answer(answer) = (if asked { short_summary(1) } else { Step::says("OK.") }) else {
            panic!()
        };
        let usage = Usage { input: 99_999_999_999_999, output: 20, ..Usage::default() };
        Step::Answer(ScriptedAnswer { usage: Some(usage), ..answer })
    });
    let absurd = Arc::new(absurd.speaking(Dialect::OpenAiChat).named("scripted", "some-model"));
    let conversation = Conversation::in_memory(support::clock(), &New::default());
    let settings =
        TurnSettings { window: of_window(4_000), system: Some(words(1_500)), ..TurnSettings::default() };
    let mut worker = Worker::new(conversation, absurd, Tools::default(), settings);
    for number in 0..20 {
        let outcome = run(worker.turn(words(300).into(), &mut |_| {}, &Stop::new()));
        assert_eq!(outcome.unwrap().response, "OK.", "{number}");
    }
    let course = course.lock().unwrap();
    println!("{} summaries, {} refused", course.summaries, course.refused);
    assert!((1..15).contains(&course.summaries), "{}", course.summaries);
}

/// A budget in the settings applies at once, not only when the window is nearly full.
#[test]
fn an_explicit_budget_applies_at_once() {
    for (budget, is_pruned) in [(Some(2_000), true), (None, false)] {
        let (provider, _) = looking(100_000, 1);
        let prune = PrunePolicy { token_budget: budget, ..PrunePolicy::default() };
        let mut worker = worker(provider, 2_400, WindowSettings { prune, ..of_window(100_000) });
        for _ in 0..5 {
            run(worker.turn("look".into(), &mut |_| {}, &Stop::new())).unwrap();
        }
        let mut entries = worker.conversation().entries().iter();
        assert_eq!(entries.any(|entry| entry.envelope().kind == Kind::Prune), is_pruned);
    }
}

/// A long message can be recalled in pages.
#[test]
fn a_long_result_is_recalled_in_pages() {
    let long: String = (0..40_000).map(|number| format!("ä line {number}\n")).collect();
    let recall = Mutex::new((String::from(r#"{"message": 2}"#), String::new()));
    let recall = Arc::new(recall);
    let own = recall.clone();
    let provider = ScriptedProvider::answering(move |request| {
        let messages = request.messages();
        match messages.last().unwrap().role {
            Role::User => {
                let arguments = own.lock().unwrap().0.clone();
                Step::calls(vec![ToolCall::new(format!("r{}", messages.len()), "recall", arguments)])
            }
            _ => Step::says("OK."),
        }
    });
    let provider = Arc::new(provider.speaking(Dialect::OpenAiChat).named("scripted", "some-model"));
    let mut worker = worker(provider, 10, WindowSettings::default());
    let conversation = worker.conversation_mut();
    conversation.say(Message::user("look"));
    conversation.say(Message::assistant_with_tools(vec![ToolCall::new("c", "look", "{}")]));
    conversation.say(Message::tool("c", long.as_str()));
    conversation.say(Message::assistant("Seen."));
    for _ in 0..20 {
        let outcome = run(worker.turn("go on".into(), &mut |_| {}, &Stop::new())).unwrap();
        let results = outcome.messages.iter().flat_map(|message| message.tool_results());
        let text: String = results
            .flat_map(|result| &result.content)
            .filter_map(Block::as_text)
            .map(|t| t.to_string())
            .collect();
        let page = text.split_once(":\n").unwrap().1;
        let (page, more) = page.rsplit_once("\n[").unwrap_or((page, ""));
        let mut recall = recall.lock().unwrap();
        recall.1.push_str(page);
        assert!(text.len() <= 160 * 1024, "{}", text.len());
        match more.split_once("call recall with ") {
            Some((_, next)) => recall.0 = next.split_once('}').unwrap().0.to_owned() + "}",
            None => break,
        }
    }
    let all = recall.lock().unwrap().1.clone();
    assert_eq!(all.strip_prefix("tool:\n[result] ").unwrap().trim_end(), long.trim_end());
}

/// If the provider does not say what a summary took, nothing is recorded about it.
#[test]
fn a_summary_that_was_not_counted_has_no_usage() {
    let provider = ScriptedProvider::answering(|request| {
        let last = request.messages().last().and_then(Message::content).unwrap_or_default();
        let says = if last.contains("concise summary") { "They talked about fruit." } else { "OK." };
        let Step::Answer(answer) = Step::says(says) else { panic!() };
        Step::Answer(ScriptedAnswer { usage: None, ..answer })
    });
    let provider = Arc::new(provider.speaking(Dialect::OpenAiChat).named("scripted", "some-model"));
    let mut agent = agent(&provider, 20_000);
    for _ in 0..3 {
        run(agent.ask(words(6_000).as_str())).unwrap();
    }
    let mut entries = agent.conversation().entries().iter();
    let usage = entries.find_map(|entry| match Content::of(entry) {
        Content::Compacted(compacted) => Some(compacted.usage),
        _ => None,
    });
    assert_eq!(usage, Some(None));
}

fn short_summary(_: usize) -> Step {
    Step::says("They talked about fruit.")
}

fn agent(provider: &Arc<ScriptedProvider>, window: u64) -> Agent {
    let fitting = WindowSettings { context_window: Some(window), ..WindowSettings::default() };
    Agent::builder(provider.clone()).system("Be kind.").fitting(fitting).build()
}

/// A text of about that many tokens.
fn words(tokens: usize) -> String {
    "word ".repeat(tokens * 4 / 5)
}

fn shown(agent: &Agent) -> Vec<String> {
    agent.conversation().messages().iter().map(|message| message.content().unwrap_or_default()).collect()
}

/// S3-51, S3-52: far below the threshold one request is sent; above it, a summary is asked for after the turn.
#[test]
fn a_summary_is_asked_for_above_the_threshold_only() {
    for (said, requests) in [(1_000, 1), (85_000, 2)] {
        let (provider, course) = answering(100_000, short_summary);
        let mut agent = agent(&provider, 100_000);
        run(agent.ask(words(said).as_str())).unwrap();
        let course = course.lock().unwrap();
        assert_eq!((course.bodies.len(), course.summaries), (requests, requests - 1), "{said}");
    }
}

/// S3-53, S3-54, S3-56, S3-58, B10, B11, B35: the summary is a user message that says what it is, instructions stay, the user's
/// newest messages stay, older ones stay if they fit, and one that is too long loses its middle.
#[test]
fn what_a_compaction_keeps() {
    let (provider, course) = answering(100_000, short_summary);
    let mut agent = agent(&provider, 100_000);
    for number in 1..=10 {
        run(agent.ask(format!("message {number} {}", words(8_500)).as_str())).unwrap();
    }
    let shown = shown(&agent);
    let summary = shown.iter().position(|text| text.starts_with("Summary of earlier conversation:")).unwrap();
    assert!(shown[summary].contains("They talked about fruit.") && shown[summary].contains("summarized"));
    assert!(shown.iter().any(|text| text.contains("message 10 ")), "the newest stays");
    assert!(!shown.iter().any(|text| text.contains("message 2 ")), "an old one goes");
    assert!(shown[..summary].iter().any(|text| text.contains("characters truncated")), "one is shortened");
    assert_eq!(course.lock().unwrap().summaries, 1);
    run(agent.ask("go on")).unwrap();
    let course = course.lock().unwrap();
    let last = course.bodies.last().unwrap();
    assert!(last.contains("Be kind.") && last.contains("They talked about fruit."));
    assert!(tokens(last) < 40_000, "{}", tokens(last));
    // The record keeps everything, and the compaction is an entry.
    let entries = agent.conversation().entries();
    let kinds: Vec<&Kind> = entries.iter().map(|entry| &entry.envelope().kind).collect();
    assert_eq!(kinds.iter().filter(|kind| ***kind == Kind::Compacted).count(), 1);
    assert_eq!(kinds.iter().filter(|kind| ***kind == Kind::Message).count(), 22);
}

/// S3-32, S3-33, S3-57, B33: a summary that does not fit is requested again with less. The omitted messages are counted, and are
/// never half of a pair or the instructions.
#[test]
fn a_summary_that_does_not_fit_is_asked_for_with_less() {
    let course = Arc::new(Mutex::new(Course::default()));
    let noted = course.clone();
    let provider = Arc::new(
        ScriptedProvider::answering(move |request| {
            let body = body(request);
            let last =
                request.messages().last().and_then(rejoin_record::Message::content).unwrap_or_default();
            let mut course = noted.lock().unwrap();
            if !last.contains("concise summary") {
                return with_usage(Step::says("OK."), &body);
            }
            course.summaries += 1;
            assert_paired(&request.messages());
            assert!(body.contains("Be kind."));
            if course.summaries == 1 { Step::fails(too_long()) } else { short_summary(2) }
        })
        .speaking(Dialect::OpenAiChat),
    );
    let mut agent = agent(&provider, 100_000);
    // The oldest message is a call, so that leaving out one message alone would split a pair.
    agent.conversation_mut().say(Message::assistant_with_tools(vec![ToolCall::new("c", "look", "{}")]));
    agent.conversation_mut().say(Message::tool("c", "seen"));
    let warned = warnings(&mut agent, 5, &words(18_000));
    assert_eq!(course.lock().unwrap().summaries, 2);
    assert!(warned.iter().any(|text| text.contains("older item(s) before compacting")), "{warned:?}");
    assert!(shown(&agent).iter().any(|text| text.contains("They talked about fruit.")));
}

/// S3-35, S3-36, S3-59: with an empty summary the conversation is still compacted; if the provider fails, it stays unchanged.
#[test]
fn summaries_that_do_not_come() {
    for nothing in ["  ", "(no summary available)\n"] {
        let (provider, _) = answering(100_000, |_| Step::says(nothing));
        let mut agent = self::agent(&provider, 100_000);
        for _ in 0..5 {
            run(agent.ask(words(18_000).as_str())).unwrap();
        }
        assert!(shown(&agent).iter().any(|text| text.contains("(summary unavailable)")), "{nothing}");
        assert!(!shown(&agent).iter().any(|text| text.contains("no summary available")), "{nothing}");
    }
    let (provider, course) = answering(100_000, |_| {
        Step::fails(ProviderError::Unreachable {
            provider: "scripted".into(),
            url: "here".into(),
            why: "no network".into(),
        })
    });
    let mut agent = self::agent(&provider, 100_000);
    let warned = warnings(&mut agent, 8, &words(11_000));
    assert!(warned[0].starts_with("Compression failed, conversation may hit limits soon"), "{warned:?}");
    assert_eq!(course.lock().unwrap().summaries, 1);
    assert_eq!(shown(&agent).len(), 16, "nothing is hidden");
}

/// `compact = off` never compacts; a request that does not fit then fails as before.
#[test]
fn compaction_can_be_switched_off() {
    let (provider, course) = answering(10_000, short_summary);
    let fitting = WindowSettings {
        context_window: Some(10_000),
        compact: CompactMode::Off,
        ..WindowSettings::default()
    };
    let mut agent = Agent::builder(provider).fitting(fitting).build();
    run(agent.ask(words(6_000).as_str())).unwrap();
    let error = run(agent.ask(words(6_000).as_str())).unwrap_err();
    assert_eq!(error.code(), "CONTEXT_LENGTH");
    assert_eq!(course.lock().unwrap().summaries, 0);
}

/// A plan and the compaction that follows it count in the same way, however the provider counts and whatever is shortened.
#[test]
fn a_plan_announces_the_tokens_that_the_compaction_reports() {
    for factor in [1, 2] {
        let provider = ScriptedProvider::answering(move |request| {
            let body = body(request);
            let usage = Usage { input: tokens(&body) * factor, output: 2, ..Usage::default() };
            match Step::says("OK.") {
                Step::Answer(answer) => Step::Answer(ScriptedAnswer { usage: Some(usage), ..answer }),
                fails => fails,
            }
        });
        let provider = Arc::new(provider.speaking(Dialect::OpenAiChat).named("scripted", "some-model"));
        let mut worker = worker(provider, 10, of_window(100_000));
        for said in [2_000, 9_000, 300, 4_000, 20, 20] {
            run(worker.turn(words(said).as_str().into(), &mut |_| {}, &Stop::new())).unwrap();
        }
        let plan = worker.compaction_plan().unwrap();
        assert!(plan.kept.iter().any(|kept| kept.text.is_some()), "a message is shortened: {plan:?}");
        let shown = worker.shown_tokens();
        assert_eq!(worker.provider_tokens(plan.tokens_before), shown);
        let done = run(worker.compact(None, &mut |_| {}, &Stop::new()));
        let Compaction::Done { before, after } = done else { panic!("{done:?}") };
        assert_eq!((before, after), (shown, worker.shown_tokens()), "{factor}");
        assert_eq!(worker.uncompact(true).unwrap().0, before);
    }
}

/// With `compact = off`, a request that is larger than the known window is sent, and one warning says so.
#[test]
fn a_request_that_is_too_large_is_announced_once_if_nothing_is_compacted() {
    let (provider, course) = answering(100_000, short_summary);
    let fitting = WindowSettings {
        context_window: Some(10_000),
        compact: CompactMode::Off,
        ..WindowSettings::default()
    };
    let mut agent = Agent::builder(provider).fitting(fitting).build();
    assert_eq!(warnings(&mut agent, 1, &words(6_000)), [""; 0], "it fits");
    let warned = warnings(&mut agent, 3, &words(6_000));
    assert_eq!(warned.len(), 1, "{warned:?}");
    assert!(
        warned[0].contains("some-model has 10000; it is sent anyway, because `compact` is `off`"),
        "{warned:?}"
    );
    assert_eq!(course.lock().unwrap().summaries, 0);
}

/// A threshold below the share of instructions and tools cannot be reached: one warning says so and what to do, and no summary is
/// asked for after a turn.
#[test]
fn a_threshold_that_no_summary_can_reach_is_reported_once() {
    let (provider, course) = answering(100_000, short_summary);
    let fitting = WindowSettings {
        context_window: Some(100_000),
        compact_threshold: 0.05,
        ..WindowSettings::default()
    };
    let mut agent = Agent::builder(provider).system(words(8_000)).fitting(fitting).build();
    let warned = warnings(&mut agent, 4, &words(500));
    assert_eq!(warned.len(), 1, "{warned:?}");
    let told = "`compact_threshold` is 0.05, which is 5000 of the window's 100000 tokens, but the instructions and tools alone take";
    assert!(warned[0].starts_with(told) && warned[0].contains("set it above 0.0"), "{warned:?}");
    assert_eq!(course.lock().unwrap().summaries, 0);
}

/// A summary can take long. The user's message is saved before the wait, and if the turn is stopped meanwhile, nothing more is sent.
#[test]
fn a_message_is_saved_before_its_summary_and_not_sent_after_a_stop() {
    let store: Arc<dyn Store> = Arc::new(Memory::new(digest));
    let (stop, saved) = (Arc::new(Mutex::new(None::<Stop>)), Arc::new(Mutex::new(None)));
    let (provider, course) = answering(1_000_000, {
        let (store, stop, saved) = (store.clone(), stop.clone(), saved.clone());
        move |_| {
            let id = store.ids("conv_", 1).unwrap()[0];
            let mut messages = 0;
            let mut each = |item| {
                let is_message = |entry: &Entry| entry.envelope().kind == Kind::Message;
                messages += usize::from(matches!(item, StoredItem::Entry(entry) if is_message(&entry)));
                ControlFlow::Continue(())
            };
            store.read(id, 0, &mut each).unwrap();
            *saved.lock().unwrap() = Some(messages);
            stop.lock().unwrap().as_ref().unwrap().stop();
            Step::Answer(ScriptedAnswer { message: None, piece: 1, end: None, usage: None })
        }
    });
    let fitting = WindowSettings { context_window: Some(20_000), ..WindowSettings::default() };
    let mut agent = Agent::builder(provider).store(store).fitting(fitting).build();
    *stop.lock().unwrap() = Some(agent.stop());
    run(agent.ask(words(9_000).as_str())).unwrap();
    let outcome = run(agent.ask(words(12_000).as_str())).unwrap();
    assert_eq!(outcome.ending, Ending::Interrupted);
    assert_eq!(*saved.lock().unwrap(), Some(3), "two messages and the new one");
    assert_eq!(course.lock().unwrap().bodies.len(), 2, "one answer, and the request for the summary");
}

/// If the window is not known, a refusal reveals it: the turn compacts and continues.
#[test]
fn a_refusal_in_the_middle_of_a_turn_compacts_and_goes_on() {
    let (provider, course) = answering(20_000, short_summary);
    let mut agent = Agent::builder(provider).build();
    for number in 0..4 {
        let outcome = run(agent.ask(format!("{number}: {}", words(6_000)).as_str())).unwrap();
        assert_eq!((outcome.ending, outcome.response.as_str()), (Ending::Done, "OK."), "{number}");
    }
    let course = course.lock().unwrap();
    assert!(course.refused >= 1 && course.summaries >= 1, "{course:?}");
}

/// A summary that would make the conversation longer is not used.
#[test]
fn a_summary_that_is_no_shorter_is_not_used() {
    let (provider, course) = answering(100_000, |_| Step::says(&words(2_000)));
    let fitting = WindowSettings { context_window: Some(4_000), ..WindowSettings::default() };
    let mut agent = Agent::builder(provider).fitting(fitting).build();
    agent.conversation_mut().say(Message::user(words(280)));
    agent.conversation_mut().say(Message::assistant(words(350)));
    let mut told = Vec::new();
    let mut sink = |event: Event| match event {
        Event::Warning(text) => told.push(text),
        Event::Asking { .. } => told.push(String::from("asked")),
        _ => {}
    };
    run(agent.ask_with(words(2_800).as_str(), &mut sink)).unwrap();
    assert!(told[0].contains("is no shorter than") && told[1] == "asked", "{told:?}");
    assert!(course.lock().unwrap().bodies[1].contains(&words(350)), "the request shows everything");
}

/// B33: after two useless summaries in a row, no more are requested, which is reported once.
#[test]
fn useless_summaries_stop() {
    let (provider, course) = answering(1_000_000, |_| Step::fails(too_long()));
    let mut agent = agent(&provider, 100_000);
    let warned = warnings(&mut agent, 14, &words(9_000));
    let failed = warned.iter().filter(|text| text.starts_with("Cannot compact")).count();
    let stopped = warned.iter().filter(|text| text.contains("not compacted any more")).count();
    assert_eq!((failed, stopped), (2, 1), "{warned:?}");
    assert!(course.lock().unwrap().summaries <= 2 * 7, "each attempt is bounded");
}

/// A process knows what earlier ones paid for in vain, until the conversation has grown.
#[test]
fn useless_summaries_are_remembered() {
    let attempts = |unused: usize, grown: usize| {
        let (provider, course) = answering(1_000_000, short_summary);
        let mut agent = agent(&provider, 100_000);
        for _ in 0..unused {
            let turn = Turn::unused_summary("some-model", 1, TokenUsage::default());
            agent.conversation_mut().append(&Content::Turn(turn));
        }
        for _ in 0..grown {
            agent.conversation_mut().say(Message::user("and?"));
            agent.conversation_mut().say(Message::assistant("Nothing."));
        }
        let warned = warnings(&mut agent, 1, &words(85_000));
        let stopped = warned.iter().any(|text| text.contains("not compacted any more"));
        (course.lock().unwrap().summaries, stopped)
    };
    assert_eq!(attempts(1, 0), (1, false));
    assert_eq!(attempts(2, 0), (0, true));
    assert_eq!(attempts(2, 20), (1, false), "it has grown since");
}

/// If no summary can help, none is requested: the instructions fill the window, or all messages are needed.
#[test]
fn no_summary_is_paid_for_in_vain() {
    let (provider, course) = answering(100_000, short_summary);
    let fitting = WindowSettings { context_window: Some(500), ..WindowSettings::default() };
    let mut agent = Agent::builder(provider).system(words(600)).fitting(fitting).build();
    let warned = warnings(&mut agent, 3, "hello");
    assert_eq!(course.lock().unwrap().summaries, 0);
    assert!(warned.len() == 1 && warned[0].contains("the instructions and tools alone take"), "{warned:?}");
}

/// B34: compaction on request has the same guard, and a conversation of many messages takes few requests, each of which fits.
#[test]
fn a_summary_takes_a_bounded_number_of_requests() {
    let (provider, course) = answering(1_000_000, short_summary);
    let fitting = WindowSettings { context_window: Some(500), ..WindowSettings::default() };
    let mut agent = Agent::builder(provider).system(words(600)).fitting(fitting).build();
    (0..20).for_each(|_| drop(agent.conversation_mut().say(Message::user(words(40)))));
    let by_hand = run(agent.compact(None));
    assert!(
        matches!(&by_hand, Compaction::Failed(why) if why.contains("instructions and tools alone")),
        "{by_hand:?}"
    );
    assert_eq!(course.lock().unwrap().summaries, 0);

    let (provider, course) = answering(1_000_000, short_summary);
    let fitting = WindowSettings { context_window: Some(1_500), ..WindowSettings::default() };
    let mut agent = Agent::builder(provider).system(words(300)).fitting(fitting).build();
    for number in 0..200 {
        agent.conversation_mut().say(Message::user(format!("{number} {}", words(300))));
        agent.conversation_mut().say(Message::assistant(words(300)));
    }
    let done = run(agent.compact(None));
    assert!(matches!(done, Compaction::Done { .. }), "{done:?}");
    let course = course.lock().unwrap();
    assert!((2..=16).contains(&course.summaries), "{}", course.summaries);
    assert!(course.bodies.iter().all(|body| tokens(body) <= 1_500), "each request fits");
    let requests = agent.conversation().entries().iter().find_map(|entry| match Content::of(entry) {
        Content::Compacted(compacted) => compacted.requests,
        _ => None,
    });
    assert_eq!(requests, Some(course.summaries as u64));
}

/// A model with a smaller window that writes the summaries gets requests that fit it.
#[test]
fn the_summariser_has_its_own_window() {
    let (provider, _) = answering(100_000, short_summary);
    let course = Arc::new(Mutex::new(Course::default()));
    let noted = course.clone();
    let small = ScriptedProvider::answering(move |request| {
        let body = body(request);
        noted.lock().unwrap().bodies.push(body.clone());
        with_usage(short_summary(1), &body)
    });
    // The catalogue knows its window of 8,192 tokens.
    let small = Arc::new(small.speaking(Dialect::OpenAiChat).named("scripted", "gpt-4-0613"));
    let fitting = WindowSettings { context_window: Some(100_000), ..WindowSettings::default() };
    let settings = TurnSettings { window: fitting, ..TurnSettings::default() };
    let conversation = Conversation::in_memory(support::clock(), &New::default());
    let mut worker = Worker::new(conversation, provider, Tools::default(), settings);
    worker.set_summariser(Some(small));
    for _ in 0..5 {
        run(worker.turn(words(18_000).into(), &mut |_| {}, &Stop::new())).unwrap();
    }
    let course = course.lock().unwrap();
    assert!(course.bodies.len() > 1, "in pieces");
    assert!(course.bodies.iter().all(|body| tokens(body) <= 8_192));
}

/// A model that calls a tool instead of writing a summary is asked once more without tools. If it still writes none, the placeholder
/// counts as useless: after two of them nothing more is hidden.
#[test]
fn a_call_instead_of_a_summary() {
    for second in ["They talked about fruit.", ""] {
        let provider = ScriptedProvider::answering(move |request| {
            let last = request.messages().last().and_then(Message::content).unwrap_or_default();
            let step = match last.contains("concise summary") {
                false => Step::says("OK."),
                true if request.context.offered.is_empty() => Step::says(second),
                true => Step::calls(vec![ToolCall::new("a", "look", "{}")]),
            };
            with_usage(step, &body(request))
        });
        let provider = Arc::new(provider.speaking(Dialect::OpenAiChat).named("scripted", "some-model"));
        let fitting = WindowSettings { context_window: Some(100_000), ..WindowSettings::default() };
        let tools = Tools::default().with(look(10, |_| None));
        let mut agent = Agent::builder(provider).tools(tools).fitting(fitting).build();
        let warned = warnings(&mut agent, 20, &words(18_000));
        assert!(warned[0].contains("asked once more, without tools"), "{warned:?}");
        let placeholders = warned.iter().filter(|text| text.contains("wrote no summary")).count();
        let stopped = warned.iter().filter(|text| text.contains("not compacted any more")).count();
        let expected = if second.is_empty() { (2, 1) } else { (0, 0) };
        assert_eq!((placeholders, stopped), expected, "{warned:?}");
    }
}

/// A pinned message, and what belongs to it, stays through compactions; one that is pinned later comes back; and an undone compaction
/// shows everything again.
#[test]
fn pins_and_undone_compactions() {
    let (provider, _) = answering(100_000, short_summary);
    let mut agent = agent(&provider, 100_000);
    run(agent.ask("the first word is plum")).unwrap();
    let first = *agent
        .conversation()
        .entries()
        .iter()
        .find(|entry| entry.envelope().kind == Kind::Message)
        .map(|entry| entry.id())
        .as_ref()
        .unwrap();
    run(agent.ask("the second word is pear")).unwrap();
    agent.conversation_mut().pin(first);
    for _ in 0..5 {
        run(agent.ask(words(18_000).as_str())).unwrap();
    }
    let count = shown(&agent).len();
    assert!(shown(&agent)[0].contains("plum"), "{:?}", &shown(&agent)[0]);
    assert!(!shown(&agent).iter().any(|text| text.contains("pear")));
    let messages =
        agent.conversation().entries().iter().filter(|entry| entry.envelope().kind == Kind::Message);
    let second = messages.map(rejoin_record::Entry::id).nth(2).unwrap();
    agent.conversation_mut().pin(second);
    assert!(shown(&agent).iter().any(|text| text.contains("pear")), "it comes back");
    assert_eq!(shown(&agent).len(), count + 1);
    assert!(agent.conversation_mut().uncompact().is_some());
    assert!(agent.conversation_mut().uncompact().is_none());
    assert_eq!(shown(&agent).len(), 14, "everything is shown");
}

/// A pruned result is a tombstone that says how to get it back; `recall` gives it back in full.
#[test]
fn a_pruned_result_is_read_again() {
    let call = |id: &str, tool: &str, arguments: &str| ToolCall::new(id, tool, arguments);
    let steps = [
        Step::calls(vec![call("a", "look", "{}")]),
        Step::says("Seen."),
        Step::calls(vec![call("b", "recall", r#"{"message":2}"#)]),
        Step::calls(vec![call("c", "recall", r#"{"message":99}"#), call("d", "recall", "{}")]),
        Step::says("Read."),
    ];
    let provider = Arc::new(ScriptedProvider::new(steps).speaking(Dialect::Anthropic));
    let tools = Tools::default().with(look(3_000, |_| Some(String::from("the word is zebra")))).with(Recall);
    let prune = PrunePolicy { keep_last: Some(0), batch: Some(1), ..PrunePolicy::default() };
    let fitting = WindowSettings { context_window: Some(100_000), prune, ..WindowSettings::default() };
    let mut agent = Agent::builder(provider.clone()).tools(tools).fitting(fitting).build();
    run(agent.ask("look")).unwrap();
    let outcome = run(agent.ask("read it again")).unwrap();
    let requests = provider.requests();
    assert!(body(&requests[1]).contains("zebra"), "the newest turn is never touched");
    let pruned = body(&requests[2]);
    assert!(!pruned.contains("zebra"));
    assert!(
        pruned.contains("The result of look (") && pruned.contains(r#"recall with {\"message\": 2}"#),
        "{pruned}"
    );
    let results: Vec<String> = outcome
        .messages
        .iter()
        .flat_map(|message| message.tool_results())
        .map(|result| result.content.iter().filter_map(Block::as_text).map(|text| text.to_string()).collect())
        .collect();
    assert!(results[0].contains("zebra") && results[0].starts_with("message 2:"));
    assert!(results[1].contains("there is no message 99") && results[2].contains("say what to look for"));
}

/// S1-18, S1-20, S1-24: a program may prune the results of a conversation by itself. The conversation's clock gives their age, all
/// other messages stay, and without a policy nothing changes.
#[test]
fn old_results_are_pruned_on_demand() {
    let mut conversation = Conversation::in_memory(support::clock(), &New::default());
    for id in ["a", "b"] {
        conversation.say(Message::user("look"));
        conversation.say(Message::assistant_with_tools(vec![ToolCall::new(id, "look", "{}")]));
        conversation.say(Message::tool(id, words(200)));
    }
    let (before, entries) = (conversation.messages().to_vec(), conversation.entries().len());
    assert_eq!(conversation.prune_tool_calls("m", None), PruneReport::default());
    let policy = |seconds| PrunePolicy {
        max_age: Some(Duration::from_secs(seconds)),
        batch: Some(1),
        ..PrunePolicy::default()
    };
    // A second passes whenever the clock is read, so an hour is more than the whole conversation takes.
    let kept = conversation.prune_tool_calls("m", Some(&policy(3_600)));
    assert_eq!((kept.pruned.len(), kept.survivors.len()), (0, 2));
    assert_eq!((conversation.messages(), conversation.entries().len()), (&before[..], entries));
    let pruned = conversation.prune_tool_calls("m", Some(&policy(0)));
    assert_eq!((pruned.pruned.len(), pruned.survivors.len()), (1, 1), "the newest turn stays");
    let text = |message: &Message| message.content().map(|text| text.to_string());
    let (old, new): (Vec<_>, Vec<_>) = before.iter().zip(conversation.messages()).unzip();
    let changed: Vec<usize> = (0..old.len()).filter(|place| old[*place] != new[*place]).collect();
    assert_eq!(changed, [2], "{:?}", new.iter().map(|message| text(message)).collect::<Vec<_>>());
}

/// A tool that leaves a snapshot.
struct Leaves;

impl Tool for Leaves {
    fn declaration(&self) -> rejoin_engine::context::ToolDeclaration {
        let schema = rejoin_record::Raw::new(r#"{"type":"object","properties":{}}"#);
        rejoin_engine::context::ToolDeclaration::function("leave", "Leaves a snapshot.", schema)
    }
    fn plan<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Plan, ToolOutput>> {
        Plan::reads()
    }
    fn run<'a>(&'a self, _: RunningCall<'a>) -> BoxFuture<'a, ToolOutput> {
        let snapshot = Some(rejoin_record::Raw::new(r#"{"ghost":"zebra"}"#));
        Box::pin(std::future::ready(ToolOutput { snapshot, ..ToolOutput::of("done") }))
    }
}

/// A tool's snapshot is in the record, and no model sees it.
#[test]
fn snapshots_stay_in_the_record() {
    let provider = Arc::new(
        ScriptedProvider::new([
            Step::calls(vec![ToolCall::new("a", "leave", "{}")]),
            Step::says("Done."),
            Step::says("They talked about fruit."),
        ])
        .speaking(Dialect::OpenAiChat),
    );
    let mut agent = Agent::builder(provider.clone()).tools(Tools::default().with(Leaves)).build();
    run(agent.ask("go")).unwrap();
    assert!(provider.requests().iter().all(|request| !body(request).contains("zebra")));
    let kinds = agent.conversation().entries().iter().map(|entry| entry.envelope().kind.clone());
    assert_eq!(kinds.filter(|kind| *kind == Kind::Snapshot).count(), 1);
}

/// S3-23, S3-25, S3-27, S3-28, S3-30, S3-31, S3-55, B38: the conversation's own model gets the template and writes the summary.
/// Without a verbatim tail, people's messages stay, in order, followed by the summary; answers, calls and results go. The
/// compaction is an entry, and snapshots stay.
#[test]
fn without_a_tail_what_people_said_and_the_summary_stay() {
    let provider = Arc::new(
        ScriptedProvider::new([
            Step::calls(vec![ToolCall::new("a", "leave", "{}")]),
            Step::says(&words(2_000)),
            Step::says(&words(2_000)),
            Step::says("They talked about fruit."),
        ])
        .speaking(Dialect::OpenAiChat)
        .named("scripted", "some-model"),
    );
    let fitting =
        WindowSettings { context_window: Some(100_000), tail_tokens: Some(0), ..WindowSettings::default() };
    let tools = Tools::default().with(Leaves);
    let mut agent = Agent::builder(provider.clone()).system("Be kind.").tools(tools).fitting(fitting).build();
    run(agent.ask("first question")).unwrap();
    run(agent.ask("second question")).unwrap();
    run(agent.compact(None));
    let asked = body(provider.requests().last().unwrap());
    for words in [
        "some-model",
        "Be kind.",
        "Please provide a concise summary of the conversation so far. Focus on:",
        "key decisions",
        "important information",
        "current state",
        "unresolved issues and next steps",
        "Stay under 500 tokens.",
    ] {
        assert!(asked.contains(words), "{words}: {asked}");
    }
    let shown = shown(&agent);
    assert_eq!(shown[..2], ["first question", "second question"]);
    assert!(shown[2].starts_with("Summary of earlier conversation:\n\n") && shown.len() == 3, "{shown:?}");
    let messages = agent.conversation().messages();
    assert!(messages.iter().all(|message| message.role == Role::User && message.tool_calls().count() == 0));
    let entries = agent.conversation().entries();
    let compacted = entries.iter().find_map(|entry| match Content::of(entry) {
        Content::Compacted(compacted) => Some(compacted),
        _ => None,
    });
    let compacted = compacted.unwrap();
    assert!(compacted.summary.contains("They talked about fruit.") && compacted.truncated_count == 0);
    // A snapshot stays where it was left. It is not repeated after the summary, so nothing grows.
    let kinds: Vec<&Kind> = entries.iter().map(|entry| &entry.envelope().kind).collect();
    let places = |wanted: &Kind| {
        kinds
            .iter()
            .enumerate()
            .filter(|(_, kind)| **kind == wanted)
            .map(|(place, _)| place)
            .collect::<Vec<_>>()
    };
    let (snapshots, compactions) = (places(&Kind::Snapshot), places(&Kind::Compacted));
    assert!(snapshots.len() == 1 && compactions.len() == 1 && snapshots < compactions, "{kinds:?}");
}

/// S0-47, S0-48, S0-51, B5..B9: pruning without a model keeps instructions, pairs and whole turns, fits the limit, and has one summary.
#[test]
fn turns_are_pruned_without_a_model() {
    let provider = Arc::new(ScriptedProvider::new_default());
    let mut history = vec![Message::system("Be kind.")];
    for number in 0..40 {
        history.push(Message::user(format!("question {number} about something that takes a few words")));
        // A turn of six messages, two of them results of one message with calls.
        let calls = ["a", "b"].map(|call| ToolCall::new(format!("{call}{number}"), "look", "{}"));
        history.push(Message::assistant_with_tools(calls.to_vec()));
        history.push(Message::tool(format!("a{number}"), "seen"));
        history.push(Message::tool(format!("b{number}"), "seen as well"));
        history.push(Message::assistant(format!("answer {number} with some words in it as well")));
    }
    let limits = Window { max_tokens: 600, min_retain_turns: 2, prune_threshold: 0.5 };
    let mut agent = Agent::builder(provider.clone()).history(history).window(limits).build();
    for asked in 0..3 {
        run(agent.ask("and now?")).unwrap();
        let last = provider.last_messages();
        assert_paired(&last);
        assert!(last[0].content().unwrap().contains("Be kind."));
        let texts: Vec<String> = last.iter().filter_map(Message::content).collect();
        let summaries = texts.iter().filter(|text| text.contains("Summary of earlier conversation")).count();
        assert_eq!(summaries, 1);
        assert!(texts.iter().any(|text| text.contains("summarized")));
        assert_eq!(texts.last().map(String::as_str), Some("and now?"));
        let counter = TokenCounter::for_model("m");
        let tokens: u64 = last.iter().map(|message| counter.message(message)).sum();
        assert!(tokens <= 600, "{tokens}");
        if asked == 0 {
            // All messages of the previous turn are in the request.
            let turn = texts.iter().position(|text| text.starts_with("question 39")).unwrap();
            assert_eq!(
                texts[turn + 1..turn + 4],
                ["seen", "seen as well", "answer 39 with some words in it as well"]
            );
        }
    }
}
