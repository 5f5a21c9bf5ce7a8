//! Turns over real HTTP against the loopback provider, on every provider with a transport.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

mod support;
mod talk;

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use rejoin_engine::{
    Conversation, ConversationManager, ManagerError, Mode, New, ProviderChoice, SystemClock,
    approval::{ApprovalMode, Approvals},
    auth::{Keys, SecretString},
    provider::{
        Provider, ProviderError,
        choose::connector,
        decide::{Sources, TrustedAddress},
        http::HttpOptions,
        registry::account_elsewhere,
    },
    tools::{FunctionTool, Tools, WriteFile},
    turn::{
        Ending, Event, Limit, Limits, OnBroken, Stop, TurnError, TurnInput, TurnSettings, WindowSettings,
        Worker,
    },
};
use rejoin_record::{Message, ToolCall};
use rejoin_store::{Store, memory::Memory};
use serde_json::{Value, json, value::RawValue};
use support::assert_verifies;
use talk::{reach, reach_within};
use testkit::loopback::{
    Brain, Config, Fault, Loopback, Service,
    brain::{Ask, Call, PromptMessage, Say},
};

/// A provider choice, and the loopback service that plays it.
const PROVIDERS: &[(&str, Option<&str>, Service, &str)] = &[
    ("openai", Some("responses"), Service::OpenAi, "gpt-5"),
    ("openai", Some("chat"), Service::OpenAi, "gpt-4.1"),
    ("anthropic", None, Service::Anthropic, "claude-sonnet-4-5"),
    ("gemini", None, Service::Gemini, "gemini-3-pro-preview"),
    ("ollama", None, Service::Ollama, "qwen3"),
    ("openrouter", None, Service::OpenRouter, "anthropic/claude-sonnet-4.5"),
    ("mistral", None, Service::Mistral, "mistral-large-latest"),
    ("deepseek", None, Service::DeepSeek, "deepseek-reasoner"),
    ("groq", None, Service::Groq, "llama-3.3-70b-versatile"),
    ("copilot", None, Service::Copilot, "gpt-4.1"),
];

fn label(which: &(&str, Option<&str>, Service, &str)) -> String {
    format!("{} {}", which.0, which.1.unwrap_or_default())
}

/// A tool that takes its time, and the number of times that it ran.
fn slow(name: &'static str, millis: u64) -> (Arc<FunctionTool>, Arc<AtomicUsize>) {
    let ran = Arc::new(AtomicUsize::new(0));
    let parameters = json!({"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]});
    let count = Arc::clone(&ran);
    let tool = FunctionTool::new(name, "Takes its time.", parameters, move |arguments| {
        count.fetch_add(1, Ordering::Relaxed);
        async move {
            tokio::time::sleep(Duration::from_millis(millis)).await;
            Ok(format!("{name} got {}", arguments.text()))
        }
    });
    (Arc::new(tool), ran)
}

fn memory() -> Arc<Memory> {
    Arc::new(Memory::new(rejoin_engine::digest))
}

fn worker(store: &Arc<Memory>, provider: Arc<dyn Provider>, tools: Tools, settings: TurnSettings) -> Worker {
    let conversation =
        Conversation::create_with_clock(store.clone(), Arc::new(SystemClock), &New::default(), "a test");
    Worker::new(conversation, provider, tools, settings)
}

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// The content that a model sees, piece by piece, without cache marks: the role, and the exact bytes.
fn pieces(body: &[u8]) -> Vec<(String, String)> {
    let body: &RawValue = serde_json::from_slice(body).unwrap();
    let body: std::collections::HashMap<String, &RawValue> = serde_json::from_str(body.get()).unwrap();
    let list = ["messages", "input", "contents"].iter().find_map(|name| body.get(*name)).unwrap();
    let list: Vec<&RawValue> = serde_json::from_str(list.get()).unwrap();
    let clean = |raw: &str| raw.replace(",\"cache_control\":{\"type\":\"ephemeral\"}", "");
    let mut pieces = Vec::new();
    for message in list {
        let fields: Value = serde_json::from_str(message.get()).unwrap();
        let role = fields["role"].as_str().unwrap_or("item").to_owned();
        let parts: std::collections::HashMap<String, &RawValue> =
            serde_json::from_str(message.get()).unwrap();
        let blocks = ["content", "parts"].iter().find_map(|name| parts.get(*name));
        match blocks.filter(|raw| raw.get().starts_with('[') && fields["tool_calls"].is_null()) {
            Some(blocks) => {
                let blocks: Vec<&RawValue> = serde_json::from_str(blocks.get()).unwrap();
                pieces.extend(blocks.iter().map(|block| (role.clone(), clean(block.get()))));
            }
            None => pieces.push((role, clean(message.get()))),
        }
    }
    pieces
}

/// The stable law: over 200 turns of tool work, on every provider, each request begins with the content of the previous one, byte
/// for byte, and every request is accepted.
#[test]
fn requests_only_grow() {
    let turns: usize = std::env::var("REJOIN_STABLE_TURNS").ok().and_then(|n| n.parse().ok()).unwrap_or(200);
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(which) = PROVIDERS.get(next.fetch_add(1, Ordering::Relaxed)) {
            let label = label(which);
            let server = Loopback::start(Config::default());
            let mut worker = worker(
                &memory(),
                reach(&server, which),
                Tools::builtin("."),
                TurnSettings {
                    system: Some(String::from("Be brief.")),
                    // Nothing is pruned or compacted.
                    window: WindowSettings {
                        context_window: Some(u64::MAX / 2),
                        ..WindowSettings::default()
                    },
                    ..TurnSettings::default()
                },
            );
            run(async {
                let mut before: Vec<(String, String)> = Vec::new();
                for turn in 0..turns {
                    let text = format!("tools:{} steps:{} think turn {turn}", turn % 3, 1 + turn % 2);
                    let turned = worker.turn(TurnInput::from(text), &mut |_| {}, &Stop::new()).await;
                    let turned = turned.unwrap_or_else(|why| panic!("{label}, turn {turn}: {why}"));
                    assert_eq!(turned.ending, Ending::Done, "{label}, turn {turn}");
                    for request in server.requests().iter().filter(|request| request.is_turn()) {
                        let now = pieces(&request.body);
                        assert!(now.len() >= before.len(), "{label}, turn {turn}: it got shorter");
                        for (place, (old, new)) in before.iter().zip(&now).enumerate() {
                            assert_eq!(old, new, "{label}, turn {turn}: piece {place} changed");
                        }
                        before = now;
                    }
                    assert!(
                        server.violations().is_empty(),
                        "{label}, turn {turn}: {:#?}",
                        server.violations()
                    );
                    server.forget();
                }
            });
        }
    };
    thread::scope(|scope| {
        scope.spawn(work);
        scope.spawn(work);
    });
}

/// S0-35, S0-49, S0-57: Copilot and Ollama get the same histories and treat them alike: a result without a call is not sent, a pair
/// is.
#[test]
fn providers_drop_orphans_alike() {
    let server = Loopback::start(Config::default());
    for name in ["copilot", "ollama"] {
        let which = PROVIDERS.iter().find(|which| which.0 == name).unwrap();
        let provider = reach(&server, which);
        let sent = |messages: &[Message]| {
            server.forget();
            run(provider.complete(messages, &[])).unwrap();
            assert!(server.violations().is_empty(), "{name}: {:?}", server.violations());
            let requests = server.requests();
            requests.iter().rfind(|request| request.is_turn()).unwrap().json()["messages"].clone()
        };
        let orphan = [Message::user("hello"), Message::tool("nobody", "lost"), Message::user("still there?")];
        let roles: Vec<String> = sent(&orphan)
            .as_array()
            .unwrap()
            .iter()
            .map(|message| message["role"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(roles, ["user", "user"], "{name}: the orphan does not go out");
        let pair = [
            Message::user("what is 2+2?"),
            Message::assistant_with_tools(vec![ToolCall::new("call_1", "calculate", "{}")]),
            Message::tool("call_1", "4"),
        ];
        let messages = sent(&pair);
        assert_eq!(messages.as_array().unwrap().len(), 3, "{name}: a pair does");
        assert_eq!(messages[2]["content"], "4");
    }
}

/// S1-03: a tool's result is a message like any other, and part of every later request.
#[test]
fn results_are_part_of_later_requests() {
    let server = Loopback::start(Config::default());
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("notes.txt"), "the milk is sour").unwrap();
    for which in PROVIDERS {
        let mut worker =
            worker(&memory(), reach(&server, which), Tools::builtin(folder.path()), TurnSettings::default());
        run(async {
            for text in ["tools:3 read:notes.txt", "and now?"] {
                worker.turn(TurnInput::from(text), &mut |_| {}, &Stop::new()).await.unwrap();
            }
        });
        let last = server.requests().last().unwrap().json().to_string();
        assert!(last.contains("the milk is sour") && last.contains("and now?"), "{}: {last}", label(which));
    }
}

/// A tool may have a name, and a call an id, that a dialect cannot spell. The model's call comes back under the tool's own name, so
/// the tool runs. The record keeps that name, and later requests repeat the call as the model wrote it.
#[test]
fn a_tool_with_a_respelled_name_is_found() {
    const NAME: &str = "notes.read file";
    let server = Loopback::start(Config::default());
    for which in PROVIDERS {
        let label = label(which);
        server.forget();
        let (tool, ran) = slow(NAME, 0);
        let mut tools = Tools::default();
        tools.add(tool);
        let store = memory();
        let mut worker = worker(&store, reach(&server, which), tools, TurnSettings::default());
        let mut turn = |text: &str| {
            let turned = run(worker.turn(TurnInput::from(text), &mut |_| {}, &Stop::new())).unwrap();
            assert_eq!(turned.ending, Ending::Done, "{label}");
        };
        turn("tools:2 steps:2 think");
        turn("and now?");
        assert_eq!(ran.load(Ordering::Relaxed), 4, "{label}");
        assert!(server.violations().is_empty(), "{label}: {:#?}", server.violations());
        let id = worker.into_conversation().id();
        let conversation = Conversation::open(store, id, "test").unwrap();
        let messages = conversation.messages();
        let names: Vec<&str> =
            messages.iter().flat_map(|message| message.tool_calls()).map(|call| &*call.name).collect();
        assert_eq!(names, [NAME; 4], "{label}");
        // A call that was sent once is sent again unchanged.
        let requests = server.requests();
        let turns: Vec<_> =
            requests.iter().filter(|request| request.is_turn()).map(|r| pieces(&r.body)).collect();
        for (before, now) in turns.iter().zip(&turns[1..]) {
            assert!(now.starts_with(before), "{label}: {before:#?} became {now:#?}");
        }
        if !matches!(which.2, Service::Ollama) {
            let last = requests.last().unwrap().json().to_string();
            assert!(!last.contains(&format!("\"name\":\"{NAME}\"")), "{label}: {last}");
        }
    }
}

/// S2-34, S2-39: of three parallel tools, one takes too long, or the process is gone before two of them finish. The conversation
/// continues under every policy, and the view is sound.
#[test]
fn some_of_three_tools() {
    for which in PROVIDERS {
        let server = Loopback::start(Config::default());
        let label = label(which);
        let (quick, quick_ran) = slow("quick", 1);
        let (steady, _) = slow("steady", 2);
        let (endless, _) = slow("endless", 600_000);
        let mut tools = Tools::default();
        for tool in [quick, steady, endless] {
            tools.add(tool);
        }
        // One times out.
        let mut limits = Limits::default();
        limits.tool.time = Duration::from_millis(60);
        let store = memory();
        let settings = TurnSettings { limits, ..TurnSettings::default() };
        let mut first = worker(&store, reach(&server, which), tools.clone(), settings);
        let mut outputs = Vec::new();
        let turned =
            run(first.turn(TurnInput::from("tools:3"), &mut |event| outputs.push(event), &Stop::new()))
                .unwrap();
        assert_eq!(turned.ending, Ending::Done, "{label}");
        let failed = outputs.iter().filter(|event| matches!(event, Event::CallEnded { is_error: true, .. }));
        assert_eq!(failed.count(), 1, "{label}: one timed out");
        // The process is gone in the middle of three tools: the future is dropped, as a kill drops it.
        let id = first.conversation().id();
        let gone = run(async {
            let stop = Stop::new();
            let mut done = |_: Event| {};
            let patient = TurnSettings::default();
            let mut second =
                Worker::new(first.into_conversation(), reach(&server, which), tools.clone(), patient);
            tokio::time::timeout(
                Duration::from_millis(300),
                second.turn(TurnInput::from("tools:3"), &mut done, &stop),
            )
            .await
        });
        assert!(gone.is_err(), "{label}: it was still running");
        let ran = quick_ran.load(Ordering::Relaxed);
        for on_broken in [OnBroken::Drop, OnBroken::Keep] {
            let conversation =
                Conversation::open_with_clock(store.clone(), Arc::new(SystemClock), id, "a test").unwrap();
            let settings = TurnSettings { on_broken, ..TurnSettings::default() };
            let mut third = Worker::new(conversation, reach(&server, which), tools.clone(), settings);
            let turned = run(third.turn(TurnInput::from("go on"), &mut |_| {}, &Stop::new())).unwrap();
            assert_eq!(turned.ending, Ending::Done, "{label}");
        }
        assert_eq!(quick_ran.load(Ordering::Relaxed), ran, "{label}: what was done is not done again");
        assert!(server.violations().is_empty(), "{label}: {:#?}", server.violations());
        assert_verifies(&*store, id);
    }
}

/// A person stops a turn while text arrives: that text is kept, the turn is recorded as interrupted, and the conversation
/// continues.
#[test]
fn stopped_while_it_speaks() {
    for which in PROVIDERS {
        let server = Loopback::start(Config::default());
        let label = label(which);
        server.fault(Fault::Slow(Duration::from_millis(4)));
        let store = memory();
        let mut worker = worker(&store, reach(&server, which), Tools::default(), TurnSettings::default());
        let stop = Stop::new();
        let mut heard = String::new();
        let turned = run(worker.turn(
            TurnInput::from("words:400"),
            &mut |event| {
                if let Event::Text(text) = event {
                    heard.push_str(&text);
                    if heard.len() > 30 {
                        stop.stop();
                    }
                }
            },
            &stop,
        ))
        .unwrap();
        assert_eq!(turned.ending, Ending::Interrupted, "{label}");
        let last = worker.conversation().messages().last().unwrap().content().unwrap();
        assert!(!heard.is_empty() && last.starts_with(heard.trim_end()), "{label}: {heard} / {last}");
        let turned = run(worker.turn(TurnInput::from("go on"), &mut |_| {}, &Stop::new())).unwrap();
        assert_eq!(turned.ending, Ending::Done);
        assert!(server.violations().is_empty(), "{label}: {:#?}", server.violations());
    }
}

/// S0-23: a provider's error status becomes a typed error, and the user's message stays. A refused request is not repeated
/// automatically.
#[test]
fn errors_are_typed_and_lose_nothing() {
    for which in PROVIDERS {
        let label = label(which);
        let cases: &[(Fault, &str, usize)] = &[
            (Fault::status(400), "REFUSED", 1),
            (Fault::status(401), "UNAUTHORIZED", 1),
            (Fault::status(404), "NOT_FOUND", 1),
            (Fault::status(429), "RATE_LIMITED", 5),
            (Fault::status(500), "UNAVAILABLE", 5),
            (Fault::status(529), "UNAVAILABLE", 5),
            (Fault::ContextLength, "CONTEXT_LENGTH", 1),
            (Fault::Garbage, "GARBAGE", 1),
            (Fault::HtmlPage(200), "GARBAGE", 1),
            (Fault::CutAfter(40), "CUT", 1),
        ];
        for (fault, code, requests) in cases {
            let server = Loopback::start(Config::default());
            server.always(fault.clone());
            let store = memory();
            let mut worker =
                worker(&store, reach(&server, which), Tools::builtin("."), TurnSettings::default());
            let error =
                run(worker.turn(TurnInput::from("hello there"), &mut |_| {}, &Stop::new())).unwrap_err();
            let TurnError::Provider { error, .. } = error else { panic!("{label}: {error}") };
            // Copilot gets a new token after a refusal, and asks once more.
            let again = usize::from(which.2 == Service::Copilot && *code == "UNAUTHORIZED");
            let asked = server.requests().iter().filter(|request| request.is_turn()).count();
            let cut = *code == "CUT"
                && matches!(error, ProviderError::Unreachable { .. } | ProviderError::Garbage(_));
            assert!(error.code() == *code || cut, "{label}, {fault:?}: {error:?}");
            if !cut {
                assert_eq!(asked, requests + again, "{label}, {fault:?}: how often it was asked");
            }
            assert!(error.hint().is_some(), "{label}, {fault:?}: {error}");
            assert!(!error.to_string().contains("sk-loopback"), "{error}");
            assert_eq!(worker.conversation().messages()[0].content().as_deref(), Some("hello there"));
            server.clear_faults();
            let turned = run(worker.turn(TurnInput::from("again"), &mut |_| {}, &Stop::new())).unwrap();
            assert_eq!(turned.ending, Ending::Done, "{label}, {fault:?}");
        }
    }
}

/// The limits of a turn: requests, time, tokens.
#[test]
fn limits_end_a_turn() {
    let server = Loopback::start(Config::default());
    let which = &PROVIDERS[1];
    let limited = |limits: Limits, text: &str| {
        let settings = TurnSettings { limits, ..TurnSettings::default() };
        let mut worker = worker(&memory(), reach(&server, which), Tools::builtin("."), settings);
        let turned = run(worker.turn(TurnInput::from(text), &mut |_| {}, &Stop::new())).unwrap();
        let after = run(worker.turn(TurnInput::from("go on"), &mut |_| {}, &Stop::new()));
        (turned.ending, after.map(|turned| turned.ending))
    };
    let (ending, _) = limited(Limits { requests: 2, ..Limits::default() }, "tools:1 steps:9");
    assert_eq!(ending, Ending::Limit(Limit::Requests(2)));
    let (ending, _) = limited(Limits { tokens: Some(1), ..Limits::default() }, "tools:1 steps:9");
    assert!(matches!(ending, Ending::Limit(Limit::Tokens { .. })), "{ending:?}");
    server.fault(Fault::Stall { after: 10, time: None });
    let began = Instant::now();
    let (ending, after) =
        limited(Limits { time: Some(Duration::from_millis(300)), ..Limits::default() }, "hello");
    assert!(matches!(ending, Ending::Limit(Limit::Time(_))), "{ending:?}");
    assert!(began.elapsed() < Duration::from_secs(10));
    assert_eq!(after.unwrap(), Ending::Done);
    assert!(server.violations().is_empty());
}

/// The time of a turn does not count its tools, which have their own limit; it does count a model that never stops talking.
#[test]
fn the_time_of_a_turn_is_the_models_time() {
    let server = Loopback::start(Config::default());
    let limits = Limits { time: Some(Duration::from_millis(700)), ..Limits::default() };
    for which in PROVIDERS {
        let label = label(which);
        let (tool, ran) = slow("patient", 1_000);
        let mut tools = Tools::default();
        tools.add(tool);
        let settings = TurnSettings { limits: limits.clone(), ..TurnSettings::default() };
        let mut worker = worker(&memory(), reach(&server, which), tools, settings);
        let turned = run(worker.turn(TurnInput::from("tools:1"), &mut |_| {}, &Stop::new())).unwrap();
        assert_eq!((turned.ending, ran.load(Ordering::Relaxed)), (Ending::Done, 1), "{label}");
        server.faults(vec![Fault::EndlessAnswer, Fault::Slow(Duration::from_millis(3))]);
        let began = Instant::now();
        let turned = run(worker.turn(TurnInput::from("words:40"), &mut |_| {}, &Stop::new())).unwrap();
        assert!(matches!(turned.ending, Ending::Limit(Limit::Time(_))), "{label}: {:?}", turned.ending);
        assert!(began.elapsed() < Duration::from_secs(10), "{label}");
        assert!(turned.response.len() > 10, "{label}: what was said is kept");
        let turned = run(worker.turn(TurnInput::from("go on"), &mut |_| {}, &Stop::new())).unwrap();
        assert_eq!(turned.ending, Ending::Done, "{label}");
    }
    assert!(server.violations().is_empty(), "{:#?}", server.violations());
}

/// Comments, pings and blank lines keep a connection open, but do not extend the time limit for silence: a provider that sends no
/// content times out, and its earlier text is kept.
#[test]
fn keep_alive_messages_do_not_extend_silence() {
    let server = Loopback::start(Config::default());
    for which in PROVIDERS {
        let label = label(which);
        let provider = reach_within(&server, which, Duration::from_millis(500));
        let mut worker = worker(&memory(), provider, Tools::default(), TurnSettings::default());
        let alive = |events| vec![Fault::KeepAlive(events), Fault::Slow(Duration::from_millis(20))];
        let began = Instant::now();
        server.faults(alive(0));
        let error = run(worker.turn(TurnInput::from("hello"), &mut |_| {}, &Stop::new())).unwrap_err();
        assert_eq!(error.code(), "TIMED_OUT", "{label}: {error}");
        server.faults(alive(60));
        let mut heard = String::new();
        let mut sink = |event| {
            if let Event::Text(text) = event {
                heard.push_str(&text);
            }
        };
        let error = run(worker.turn(TurnInput::from("words:300"), &mut sink, &Stop::new())).unwrap_err();
        assert_eq!(error.code(), "CUT", "{label}: {error}");
        assert!(began.elapsed() < Duration::from_secs(20), "{label}: {:?}", began.elapsed());
        let kept = worker.conversation().messages().last().unwrap().content().unwrap();
        assert!(!heard.is_empty() && kept == heard, "{label}: {heard:?} was heard, {kept:?} is kept");
        let turned = run(worker.turn(TurnInput::from("go on"), &mut |_| {}, &Stop::new())).unwrap();
        assert_eq!(turned.ending, Ending::Done, "{label}");
    }
    assert!(server.violations().is_empty(), "{:#?}", server.violations());
}

/// An answer that is not streamed has the same limit: a list of models that arrives byte by byte times out.
#[test]
fn a_list_of_models_that_drips_times_out() {
    for which in &PROVIDERS[1..5] {
        let server = Loopback::start(Config::default());
        let provider = reach_within(&server, which, Duration::from_millis(300));
        server.always(Fault::Drip(Duration::from_millis(25)));
        let began = Instant::now();
        let error = run(provider.models()).unwrap_err();
        assert_eq!(error.code(), "TIMED_OUT", "{}: {error}", label(which));
        assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    }
}

/// A person stops a turn in the middle of a call: half a call is kept with the words before it, and never run.
#[test]
fn half_a_call_is_kept_when_somebody_stops() {
    let mut kept = 0;
    for which in PROVIDERS {
        let server = Loopback::start(Config::default());
        let label = label(which);
        // The stream stalls in the middle, each time at another byte.
        for after in [1100, 1500, 2100] {
            server.fault(Fault::Stall { after, time: None });
            let store = memory();
            let (quick, ran) = slow("quick", 1);
            let mut tools = Tools::default();
            tools.add(quick);
            let mut worker = worker(&store, reach(&server, which), tools, TurnSettings::default());
            let stop = Stop::new();
            let turned = run(async {
                let (later, spoke) = (stop.clone(), Arc::new(tokio::sync::Notify::new()));
                let heard = Arc::clone(&spoke);
                tokio::spawn(async move {
                    // Once it has begun, everything before the stall arrives quickly.
                    let _ = tokio::time::timeout(Duration::from_secs(1), heard.notified()).await;
                    tokio::time::sleep(Duration::from_millis(60)).await;
                    later.stop();
                });
                let mut sink = |event: Event| {
                    if matches!(event, Event::Text(_) | Event::Reasoning(_)) {
                        spoke.notify_one();
                    }
                };
                worker.turn(TurnInput::from("tools:3 think"), &mut sink, &stop).await
            })
            .unwrap();
            if turned.ending == Ending::Interrupted && ran.load(Ordering::Relaxed) == 0 {
                let messages = worker.conversation().messages();
                kept += messages.iter().map(|message| message.tool_calls().count()).sum::<usize>();
            }
            server.clear_faults();
            let turned = run(worker.turn(TurnInput::from("go on"), &mut |_| {}, &Stop::new())).unwrap();
            assert_eq!(turned.ending, Ending::Done, "{label}, {after}");
            assert!(server.violations().is_empty(), "{label}, {after}: {:#?}", server.violations());
        }
    }
    assert!(kept > 0, "calls that had begun are kept: {kept}");
}

/// A manager weighs a program's own sources against what a conversation recorded, as the command line does: settings count after a
/// conversation was only begun, the environment goes before them, and a recorded address is followed only where it is trusted.
#[test]
fn a_manager_decides_who_answers_as_the_command_line_does() {
    let (one, two) = (Loopback::start(Config::default()), Loopback::start(Config::default()));
    let (first, second) = (one.base(Service::OpenAi), two.base(Service::OpenAi));
    let at = |base_url: Option<&str>| ProviderChoice {
        provider: Some(String::from("openai")),
        model: Some(String::from("gpt-4.1")),
        base_url: base_url.map(str::to_owned),
        ..ProviderChoice::default()
    };
    let store: Arc<dyn Store> = Arc::new(Memory::new(rejoin_engine::digest));
    let keys = || Keys { given: Some(SecretString::from(String::from("sk-loopback"))), ..Keys::default() };
    let manager = |sources: Sources| {
        ConversationManager::new(store.clone(), connector(sources, keys(), HttpOptions::default()))
    };
    let set = |base_url: Option<&str>| Sources { settings: at(base_url), ..Sources::default() };
    // The conversation begins with one address; before the first message, another one is set.
    let conversation = manager(set(Some(&first))).new_conversation(New::default()).unwrap();
    let id = conversation.id().to_string();
    drop(conversation);
    let say = |sources: Sources| {
        let conversation = manager(sources).resume_conversation(&id, Mode::Recover)?;
        run(conversation.process_message("hello")).unwrap();
        Ok::<_, ManagerError>((one.requests().len(), two.requests().len()))
    };
    assert_eq!(say(set(Some(&second))).unwrap(), (0, 1));
    let both = Sources {
        environment: ProviderChoice { base_url: Some(first.clone()), ..ProviderChoice::default() },
        ..set(Some(&second))
    };
    assert_eq!(say(both).unwrap(), (1, 1));
    assert_eq!(say(set(None)).unwrap_err().code(), "UNTRUSTED_ADDRESS");
    let trusted_with = |account| {
        let trusted =
            vec![TrustedAddress { provider: String::from("openai"), base_url: first.clone(), account }];
        Sources { trusted, ..set(None) }
    };
    assert_eq!(say(trusted_with(None)).unwrap_err().code(), "UNTRUSTED_ADDRESS", "with another key");
    let account = account_elsewhere("openai", &keys());
    assert_eq!(say(trusted_with(account)).unwrap(), (2, 1));
}

/// A model calls a tool with 20 MB of arguments, more than any provider accepts. The call gets a result that explains the problem,
/// the turn continues, every later request is accepted, and the record keeps the arguments to the last byte.
#[test]
fn a_call_with_20_megabytes_of_arguments() {
    let arguments = format!(r#"{{"path":"big.txt","content":"{}"}}"#, "0123456789".repeat(2_000_000));
    let called = arguments.clone();
    let brain = move |ask: &Ask| match ask.said.last() {
        Some(PromptMessage::User(text)) if text == "write it" => Say {
            text: String::from("I write it."),
            calls: vec![Call { name: String::from("write_file"), arguments: called.clone() }],
            ..Say::default()
        },
        Some(PromptMessage::Result { text, .. }) => Say::text(format!("It said: {text}")),
        _ => Say::text("Nothing else."),
    };
    let brain: Brain = Arc::new(brain);
    // One provider per dialect.
    let check = |which| {
        let label = label(which);
        let server = Loopback::start(Config { brain: Arc::clone(&brain), ..Config::default() });
        let folder = tempfile::tempdir().unwrap();
        let store = memory();
        let approvals = Approvals { mode: ApprovalMode::Auto, ..Approvals::default() };
        let settings = TurnSettings { approvals, ..TurnSettings::default() };
        let tools = Tools::default().with(WriteFile::new(folder.path()));
        let mut worker = worker(&store, reach(&server, which), tools, settings);
        for text in ["write it", "and now?"] {
            let turned = run(worker.turn(TurnInput::from(text), &mut |_| {}, &Stop::new()));
            assert_eq!(turned.unwrap_or_else(|why| panic!("{label}: {why}")).ending, Ending::Done, "{label}");
        }
        assert!(server.violations().is_empty(), "{label}: {:#?}", server.violations());
        let requests = server.requests();
        let sent: Vec<_> = requests.iter().filter(|request| request.is_turn()).collect();
        assert_eq!(sent.len(), 3, "{label}");
        for request in &sent[1..] {
            let body = String::from_utf8(request.body.to_vec()).unwrap();
            assert!(body.len() < 100_000, "{label}: {} bytes were sent", body.len());
            for said in [
                "I write it.",
                "[20000031 bytes, too many to be shown]",
                "`big.txt` would have 20,000,000 bytes, and tools write at most 16,777,216",
            ] {
                assert!(body.contains(said), "{label}: {said}: {body}");
            }
        }
        assert_eq!(folder.path().read_dir().unwrap().count(), 0, "{label}");
        let id = worker.into_conversation().id();
        assert_verifies(&*store, id);
        let conversation = Conversation::open(store, id, "test").unwrap();
        let messages = conversation.messages();
        let calls: Vec<&ToolCall> = messages.iter().flat_map(|message| message.tool_calls()).collect();
        assert_eq!(calls.len(), 1, "{label}");
        assert!(calls[0].arguments.text().as_str() == arguments, "{label}: the arguments were changed");
    };
    thread::scope(|scope| {
        scope.spawn(|| PROVIDERS[..2].iter().for_each(check));
        scope.spawn(|| PROVIDERS[2..5].iter().for_each(check));
    });
}
