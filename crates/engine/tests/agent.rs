//! The agent and the scripted provider: whole turns in one call, from any history.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

mod support;
mod talk;

use std::{
    sync::{Arc, Mutex, atomic::Ordering},
    time::Duration,
};

use rejoin_engine::{
    Agent, Conversation, New, SessionState, SystemClock, Window,
    compat::{FromNumbers as _, SqliteStorage},
    provider::{
        Provider, ProviderError, ProviderFault,
        offline::Offline,
        scripted::{MockProvider, ScriptedProvider, Step},
    },
    tools::{FunctionTool, Tools},
    turn::{Ending, Event, OnBroken, TurnError},
};
use rejoin_formats::{
    Dialect,
    wire::stream::{StopReason, Usage},
};
use rejoin_record::{
    Block, BlockKind, Media, MediaSource, Message, Origin, Reasoning, Role, Text, ToolCall, ToolResult,
};
use rejoin_store::{Access, Location, Store, memory::Memory};
use support::{assert_verifies, clock, stored};
use talk::{assert_paired, call, echo, roles, run, step_name};

fn agent(provider: &Arc<ScriptedProvider>) -> Agent {
    Agent::new_from_shared_provider(provider.clone(), 8_000, 2, 0.8)
}

fn with_history(provider: &Arc<ScriptedProvider>, messages: Vec<Message>) -> Agent {
    Agent::with_history("test", "A test", messages, provider.clone(), 8_000, 2, 0.8)
}

/// S0-02, S4-12, S4-15: ask, run the tools, ask again with their results; what comes back are the last words and the messages
/// of this turn only.
#[test]
fn a_turn_with_tools() {
    let provider = Arc::new(ScriptedProvider::new([
        Step::says_and_calls("Let me see.", vec![call("a", r#"{"slow":1}"#), call("b", r#"{"n":2}"#)]),
        Step::says("Done."),
        Step::says("You are welcome."),
    ]));
    let (echo, tools) = echo();
    let mut agent = agent(&provider);
    let turned = run(agent.execute("Do both.", &tools)).unwrap();
    assert_eq!(turned.response, "Done.");
    assert_eq!(turned.ending, Ending::Done);
    assert_eq!(roles(&turned.messages), ["user", "assistant", "tool", "tool", "assistant"]);
    assert_eq!(echo.runs.load(Ordering::SeqCst), 2);
    assert_eq!((turned.usage.input, turned.usage.output), (20, 10));
    let asked = provider.requests();
    assert_eq!(asked[0].messages(), [Message::user("Do both.")]);
    assert_eq!(asked[0].context.offered[0].name.as_str(), "echo");
    // The faster one was recorded first; the model sees them in the order of the calls.
    assert_eq!(turned.messages[2].tool_call_id().unwrap().as_str(), "b");
    let results: Vec<_> = asked[1].messages()[2..].iter().map(|m| m.content().unwrap()).collect();
    assert_eq!(results, [r#"{"slow":1}"#, r#"{"n":2}"#]);
    let again = run(agent.execute("Thank you.", &tools)).unwrap();
    assert_eq!(roles(&again.messages), ["user", "assistant"], "the new messages only");
    assert_eq!(agent.messages().len(), 7);
    assert_eq!(provider.last_messages().len(), 6, "and the model saw all of them before its answer");
}

/// S0-36, B4: an orphan in the history does not fail the turn and does not reach the provider; a valid pair does. The counts
/// have the new prompt in them.
#[test]
fn an_injected_orphan_is_not_sent() {
    let provider = Arc::new(MockProvider::new_default());
    let history = vec![
        Message::user("What is 2 + 2?"),
        Message::assistant_with_tools(vec![call("call_1", "{}")]),
        Message::tool("call_1", "4"),
        Message::tool("gone", "left over"),
        Message::assistant("4."),
    ];
    let mut agent = with_history(&provider, history.clone());
    run(agent.execute("Continue", &Tools::default())).unwrap();
    let sent = provider.last_messages();
    assert_eq!(sent.len(), 4 + 1, "without the orphan, with the prompt");
    assert_paired(&sent);
    assert!(!sent.iter().any(|message| message.content().is_some_and(|text| text.contains("left over"))));
    assert_eq!(sent[2], history[2], "the valid pair is unchanged");
    assert_eq!(agent.messages().len(), 5 + 2, "and everything is kept");
    // The policy can be changed between turns, both ways.
    for (on_broken, is_sent) in [(OnBroken::Keep, true), (OnBroken::Drop, false)] {
        agent.set_on_broken(on_broken);
        run(agent.execute("Again", &Tools::default())).unwrap();
        let sent = provider.last_messages();
        assert_paired(&sent);
        let left_over = |message: &Message| message.content().is_some_and(|text| text.contains("left over"));
        assert_eq!(sent.iter().any(left_over), is_sent, "{on_broken:?}");
    }
}

/// S0-36, B2: a call without a result does not fail the turn either.
#[test]
fn an_unanswered_call_is_not_sent() {
    for messages in [
        vec![Message::user("one"), Message::assistant_with_tools(vec![call("a", "{}")])],
        vec![Message::assistant_with_tools(vec![call("a", "{}"), call("b", "{}")]), Message::tool("b", "2")],
        vec![Message::tool("x", "1"), Message::tool("x", "2")],
        vec![],
    ] {
        for on_broken in [OnBroken::Drop, OnBroken::Keep] {
            let provider = Arc::new(MockProvider::new_default().speaking(Dialect::Anthropic));
            let mut agent = with_history(&provider, messages.clone());
            agent.set_on_broken(on_broken);
            let (_, tools) = echo();
            assert_eq!(run(agent.execute("Continue", &tools)).unwrap().response, "OK.");
            assert_paired(&provider.last_messages());
            let body = provider.last_body().unwrap();
            assert_eq!(testkit::refusals(Dialect::Anthropic, body.as_bytes()), [], "{body}");
        }
    }
}

/// S0-50: saved, loaded with the orphan still in it, resumed and continued: the orphan is not sent.
#[test]
fn saved_loaded_resumed() {
    let folder = tempfile::tempdir().unwrap();
    let storage = SqliteStorage::new_with_path(folder.path().join("history.db")).unwrap();
    let history =
        [Message::user("Hello"), Message::tool("orphan", "nobody asked"), Message::assistant("Hello back")];
    storage.save_conversation("chat-1", "Greeting", Some("llama2"), &history).unwrap();
    let (title, model, loaded) = storage.load("chat-1").unwrap().unwrap();
    assert_eq!((title.as_str(), model.as_deref(), loaded.len()), ("Greeting", Some("llama2"), 3));
    assert_eq!(
        loaded[1].tool_call_id().unwrap().as_str(),
        "orphan",
        "the store gives back what it was given"
    );
    let provider = Arc::new(MockProvider::new_default());
    let mut agent = Agent::with_history("chat-1", &title, loaded, provider.clone(), 8_000, 2, 0.8);
    run(agent.execute("Continue", &Tools::default())).unwrap();
    let sent = provider.last_messages();
    assert_eq!(sent, [history[0].clone(), history[2].clone(), Message::user("Continue")]);
    // The next save continues where the storage left off.
    let messages: Vec<Message> = agent.messages().iter().map(|message| Message::clone(message)).collect();
    storage.save_conversation("chat-1", &title, model.as_deref(), &messages).unwrap();
    assert_eq!(storage.load("chat-1").unwrap().unwrap().2.len(), 5);
}

/// S0-51: a resumed conversation keeps a valid pair.
#[test]
fn a_resumed_pair_reaches_the_provider() {
    let provider = Arc::new(MockProvider::new_default());
    let pair = [Message::assistant_with_tools(vec![call("p", "{\"k\": 1.0}")]), Message::tool("p", "ok")];
    let mut history = vec![Message::system("Be brief."), Message::user("Go.")];
    history.extend(pair.clone());
    let mut agent = with_history(&provider, history);
    run(agent.execute("On", &Tools::default())).unwrap();
    assert_eq!(provider.last_messages()[2..4], pair);
    assert_eq!(provider.last_messages().len(), 5);
}

/// S0-04: a result becomes the message that carries it.
#[test]
fn a_result_becomes_a_message() {
    assert_eq!(ToolResult::new("call_1", "4").to_message(), Message::tool("call_1", "4"));
    let failed = ToolResult { is_error: true, ..ToolResult::new("call_2", "no") };
    let message = failed.to_message();
    assert_eq!(message.role, Role::Tool);
    assert_eq!(message.tool_results().next(), Some(&failed));
}

/// S0-37: the provider for tests records its requests, and answers in pieces, fails, is cut and hangs, by its script.
#[test]
fn the_scripted_provider() {
    let refused = ProviderError::Refused(ProviderFault {
        provider: "scripted".into(),
        status: Some(400),
        kind: None,
        message: "no".into(),
    });
    let provider = Arc::new(ScriptedProvider::new([
        Step::says("one two").in_pieces_of(3),
        Step::fails(refused.clone()),
        Step::says("half an ans").cut(),
        Step::says("half").then_fails("overloaded"),
        Step::says("long").then_stops(StopReason::Length),
    ]));
    assert_eq!(provider.last_messages(), []);
    let mut agent = agent(&provider);
    let mut heard = Vec::new();
    let tools = Tools::default();
    let turned = run(agent.execute_with("go", &tools, &mut |event| heard.push(event))).unwrap();
    assert_eq!(turned.response, "one two");
    let pieces: Vec<&str> = heard
        .iter()
        .filter_map(|e| if let Event::Text(text) = e { Some(text.as_str()) } else { None })
        .collect();
    assert_eq!(pieces, ["one", " tw", "o"]);
    let Err(TurnError::Provider { error, .. }) = run(agent.execute("2", &tools)) else { panic!() };
    assert_eq!(error, refused);
    let Err(TurnError::Provider { error, .. }) = run(agent.execute("3", &tools)) else { panic!() };
    assert_eq!(error, ProviderError::Cut);
    assert_eq!(agent.messages().last().unwrap().content().unwrap(), "half an ans", "what came is kept");
    let Err(error) = run(agent.execute("4", &tools)) else { panic!() };
    assert_eq!(error.code(), "UNAVAILABLE");
    assert!(matches!(run(agent.execute("5", &tools)).unwrap().ending, Ending::Limit(_)));
    let Err(error) = run(agent.execute("6", &tools)) else { panic!() };
    assert_eq!(error.to_string(), "the script is over");
    assert_eq!(provider.requests().len(), 6);
    provider.then("more");
    assert_eq!(run(agent.execute("7", &tools)).unwrap().response, "more");
    for request in provider.requests() {
        assert_paired(&request.messages());
    }
}

/// B48: a turn that is stopped while it waits for the model, or while a tool runs, keeps what came, and every call has a result.
#[test]
fn a_turn_is_stopped() {
    let provider = Arc::new(ScriptedProvider::new([
        Step::says("I was just about to").in_pieces_of(5).then_hangs(),
        Step::calls(vec![call("a", r#"{"never":1}"#), call("b", "{}"), ToolCall::new("c", "nobody", "{}")]),
        Step::says("Fine."),
    ]));
    let (_, tools) = echo();
    let mut agent = agent(&provider);
    let stop = agent.stop();
    let mut text = String::new();
    let turned = run(agent.execute_with("go", &tools, &mut |event| {
        if let Event::Text(piece) = event {
            text.push_str(&piece);
            if text.ends_with("about to") {
                stop.stop();
            }
        }
    }))
    .unwrap();
    assert_eq!(turned.ending, Ending::Interrupted);
    assert_eq!(agent.messages().last().unwrap().content().unwrap(), "I was just about to");
    assert_eq!(agent.conversation().state(), SessionState::Interrupted);
    let stop = agent.stop();
    assert!(!stop.is_stopped(), "ready for the next turn");
    let turned = run(agent.execute_with("again", &tools, &mut |event| {
        if matches!(&event, Event::CallEnded { id, .. } if id == "b") {
            stop.stop();
        }
    }))
    .unwrap();
    assert_eq!(turned.ending, Ending::Interrupted);
    let results: Vec<(String, bool)> = turned
        .messages
        .iter()
        .flat_map(|message| {
            message.tool_results().map(|r| (r.call_id.clone().unwrap().to_string(), r.is_error))
        })
        .collect();
    assert_eq!(results.len(), 3, "{results:?}");
    assert!(results.contains(&("a".into(), true)) && results.contains(&("b".into(), false)));
    assert!(results.contains(&("c".into(), true)), "a tool that is not there has a result too");
    assert_eq!(run(agent.execute("and now?", &tools)).unwrap().response, "Fine.");
    for request in provider.requests() {
        assert_paired(&request.messages());
    }
}

/// B45, S0-23: if a provider fails in the middle of a turn, nothing is lost: the text and every result are recorded, and the next
/// turn continues with them without running anything again.
#[test]
fn a_failed_turn_is_kept() {
    let store = Arc::new(Memory::new(rejoin_engine::digest));
    let provider = Arc::new(ScriptedProvider::new([
        Step::calls(vec![call("a", r#"{"n":1}"#), call("b", r#"{"fails":1}"#)]),
        Step::fails(ProviderError::Cut),
        Step::says("Where were we?"),
    ]));
    let (echo, tools) = echo();
    let mut agent = agent(&provider);
    assert!(agent.attach(store.clone()).is_durable());
    let Err(error) = run(agent.execute("go", &tools)) else { panic!() };
    assert_eq!(error.code(), "CUT");
    let id = agent.conversation().id();
    drop(agent);
    let conversation = Conversation::open_with_clock(store.clone(), clock(), id, "test").unwrap();
    assert_eq!(roles(conversation.messages()), ["user", "assistant", "tool", "tool"]);
    assert_eq!(conversation.state(), SessionState::Interrupted);
    let window = Window { max_tokens: 8_000, min_retain_turns: 2, prune_threshold: 0.8 };
    let mut agent = Agent::resume(conversation, provider.clone(), window);
    assert_eq!(run(agent.execute("Go on.", &tools)).unwrap().response, "Where were we?");
    assert_eq!(echo.runs.load(Ordering::SeqCst), 2, "nothing ran again");
    let sent = provider.last_messages();
    assert_paired(&sent);
    assert_eq!(sent[2].content().unwrap(), r#"{"n":1}"#);
    assert!(sent[3].tool_results().next().unwrap().is_error);
    assert_verifies(&*store, id);
    drop(agent);
}

/// S3-10: everything is stored while it happens, tools and results included, on every kind of store.
#[test]
fn every_turn_is_saved_as_it_happens() {
    let folder = tempfile::tempdir().unwrap();
    let places =
        [Location::Sqlite(folder.path().join("chats.db")), Location::Jsonl(folder.path().join("chats"))];
    for place in places {
        let store: Arc<dyn Store> = rejoin_engine::open_store(&place, Access::Write).unwrap().into();
        let provider = Arc::new(ScriptedProvider::new([
            Step::calls(vec![call("a", r#"{"n":1}"#)]),
            Step::says("Done."),
        ]));
        let conversation = Conversation::create_with_clock(store.clone(), clock(), &New::default(), "test");
        let id = conversation.id();
        let window = Window { max_tokens: 1, min_retain_turns: 1, prune_threshold: 1.0 };
        let mut agent = Agent::resume(conversation, provider, window);
        assert_eq!(agent.window(), window);
        let (_, tools) = echo();
        let counted = Mutex::new(Vec::new());
        let messages = || {
            stored(&*store, id)
                .iter()
                .filter(|entry| entry.envelope().kind == rejoin_record::Kind::Message)
                .count()
        };
        run(agent.execute_with("go", &tools, &mut |event| {
            let Some(name) = step_name(&event) else { return };
            counted.lock().unwrap().push((name, messages()));
        }))
        .unwrap();
        let expected = [
            ("asking", 1),
            ("answered", 2),
            ("call started", 2),
            ("call ended", 3),
            ("asking", 3),
            ("answered", 4),
            ("ended", 4),
        ];
        assert_eq!(*counted.lock().unwrap(), expected, "stored before it is told");
        drop(agent);
        assert_eq!(
            Conversation::open_with_clock(store.clone(), clock(), id, "test").unwrap().messages().len(),
            4
        );
        assert_verifies(&*store, id);
    }
}

/// An agent without a store gives no warning about it, and stores everything when it gets one.
#[test]
fn in_memory_until_a_store_is_attached() {
    let provider = Arc::new(MockProvider::new_default());
    let mut agent = agent(&provider);
    let mut warned = false;
    let tools = Tools::default();
    run(agent.execute_with("one", &tools, &mut |event| warned |= matches!(event, Event::NotSaved(_))))
        .unwrap();
    assert!(!warned);
    let store = Arc::new(Memory::new(rejoin_engine::digest));
    assert!(agent.attach(store.clone()).is_durable());
    run(agent.execute("two", &tools)).unwrap();
    let id = agent.conversation().id();
    assert_eq!(stored(&*store, id), agent.conversation().entries());
    assert_eq!(agent.messages().len(), 4);
    let summary = store.summary(id).unwrap();
    assert_eq!(
        (summary.about.provider.as_deref(), summary.about.model.as_deref()),
        (Some("scripted"), Some("scripted"))
    );
}

/// Unchanged tools make no new context; other tools do, and the model gets those.
#[test]
fn tools_of_a_turn() {
    let provider = Arc::new(MockProvider::new_default());
    let mut agent = agent(&provider);
    let (_, tools) = echo();
    run(agent.execute("one", &tools)).unwrap();
    run(agent.execute("two", &tools.clone())).unwrap();
    let asked = provider.requests();
    assert!(Arc::ptr_eq(&asked[0].context, &asked[1].context));
    run(agent.execute("three", &Tools::builtin("."))).unwrap();
    let asked = provider.requests();
    let offered: Vec<&str> = asked[2].context.offered.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(
        offered,
        ["calculate", "read_file", "list_dir", "find", "grep", "recall", "write_file", "edit_file"]
    );
    let contexts = |agent: &Agent| {
        let entries = agent.conversation().entries();
        entries.iter().filter(|entry| entry.envelope().kind == rejoin_record::Kind::Context).count()
    };
    assert_eq!(contexts(&agent), 2);
}

/// A turn ends at its time limit, and everything up to then is recorded.
#[test]
fn a_hanging_provider_meets_its_limit() {
    let provider = Arc::new(ScriptedProvider::new([Step::says("so far").then_hangs(), Step::says("on")]));
    let mut worker = rejoin_engine::turn::Worker::new(
        Conversation::create_with_clock(
            Arc::new(Memory::new(rejoin_engine::digest)),
            clock(),
            &New::default(),
            "test",
        ),
        provider.clone(),
        Tools::default(),
        rejoin_engine::turn::TurnSettings {
            limits: rejoin_engine::turn::Limits {
                time: Some(Duration::from_millis(20)),
                ..Default::default()
            },
            ..Default::default()
        },
    );
    let stop = rejoin_engine::turn::Stop::new();
    let turned = run(worker.turn("go".into(), &mut |_| {}, &stop)).unwrap();
    assert!(matches!(turned.ending, Ending::Limit(rejoin_engine::turn::Limit::Time(_))), "{turned:?}");
    assert_eq!(worker.conversation().messages().last().unwrap().content().unwrap(), "so far");
    assert_eq!(provider.endpoint().provider, "scripted");
}

/// S0-06: a conversation has an id, a title, its messages, a count of tokens, and its agent says how full the window is.
#[test]
fn a_conversation_knows_its_size() {
    let provider = Arc::new(ScriptedProvider::new([Step::says("twelve bytes"), Step::says("more")]));
    let mut agent = Agent::new_from_shared_provider(provider, 20, 2, 0.8);
    assert_eq!((agent.conversation().token_count(), agent.filled()), (0, 0.0));
    run(agent.execute("sixteen bytes up", &Tools::default())).unwrap();
    let conversation = agent.conversation();
    assert_eq!((conversation.title().as_str(), conversation.messages().len()), ("sixteen bytes up", 2));
    assert!(conversation.id().to_string().starts_with("conv_"));
    let counter = rejoin_view::TokenCounter::for_model("unknown");
    let expected: u64 = conversation.messages().iter().map(|message| counter.message(message)).sum();
    assert_eq!(conversation.token_count() as u64, expected);
    assert!((agent.filled() - expected as f64 / 20.0).abs() < 1e-9);
    run(agent.execute("go on", &Tools::default())).unwrap();
    assert!(agent.conversation().token_count() as u64 > expected);
}

/// A tool only receives objects. Any other arguments get an error that says what is wrong, and the tool does not run.
#[test]
fn arguments_that_are_no_object_reach_no_tool() {
    for arguments in ["[1]", "7", "\"{}\"", "{\"a\":", "{} {}"] {
        let provider = Arc::new(ScriptedProvider::new([
            Step::calls(vec![ToolCall::new("a", "echo", arguments), call("b", "{}")]),
            Step::says("Sorry."),
        ]));
        let (tool, tools) = echo();
        let turned = run(agent(&provider).execute("go", &tools)).unwrap();
        assert_eq!(tool.runs.load(Ordering::SeqCst), 1, "{arguments}: only the other one runs");
        let results: Vec<&ToolResult> =
            turned.messages.iter().flat_map(|message| message.tool_results()).collect();
        let refused = results.iter().find(|result| result.call_id.as_ref().unwrap().as_str() == "a").unwrap();
        let said = refused.content[0].as_text().unwrap();
        assert!(refused.is_error && said.contains("not a JSON object"), "{arguments}: {said}");
    }
}

/// The tokens of a turn are those of all its requests, each kind by itself.
#[test]
fn tokens_of_all_requests_are_added_up() {
    let usage = |factor: u64| Usage {
        input: factor,
        output: 10 * factor,
        cached: 100 * factor,
        reasoning: 1_000 * factor,
    };
    let step = |mut step: Step, factor| {
        if let Step::Answer(answer) = &mut step {
            answer.usage = Some(usage(factor));
        }
        step
    };
    let provider = Arc::new(ScriptedProvider::new([
        step(Step::calls(vec![call("a", "{}")]), 1),
        step(Step::says("Done."), 2),
    ]));
    let turned = run(agent(&provider).execute("go", &echo().1)).unwrap();
    assert_eq!(turned.usage, usage(3));
}

/// S0-06: everything that a model reads is counted: arguments and results of tools as well as texts.
#[test]
fn tokens_are_counted_of_every_kind_of_block() {
    let texts = |count: usize| "word ".repeat(count);
    let reasoning = Reasoning { text: Text::new(texts(7)), sealed: false, origin: Origin::default() };
    let mut result = ToolResult::new("a", texts(100));
    result.content.push(Block::text(texts(20)));
    let image =
        Media { media_type: None, source: MediaSource::Url(Text::new("https://example.com")), name: None };
    let said = [
        (Message::user(texts(3)), 3),
        (
            Message::assistant_with_tools(vec![ToolCall::new(
                "a",
                texts(2),
                format!(r#"{{"text":"{}"}}"#, texts(10)),
            )]),
            12,
        ),
        (Message::new(Role::Tool, vec![Block::result(result)]), 120),
        (Message::new(Role::Assistant, vec![Block::new(BlockKind::Reasoning(Box::new(reasoning)))]), 7),
        (Message::assistant(texts(5)), 5),
    ];
    let mut conversation = Conversation::in_memory(Arc::new(SystemClock), &New::default());
    for (message, words) in said {
        let before = conversation.token_count();
        conversation.say(message);
        let added = conversation.token_count() - before;
        assert!((words..words * 2 + 20).contains(&added), "{words} words count as {added} tokens");
    }
    let before = conversation.token_count();
    conversation.say(Message::new(Role::User, vec![Block::new(BlockKind::Image(Box::new(image)))]));
    assert!(conversation.token_count() > before + 1_000, "a picture takes room as well");
    // Every reader sees the same messages.
    let provider = Arc::new(MockProvider::new_default());
    let messages: Vec<Message> =
        conversation.messages().iter().map(|message| Message::clone(message)).collect();
    let agent = Agent::with_history("x", "Tokens", messages, provider, 1_000, 2, 0.8);
    assert_eq!(agent.conversation().token_count(), conversation.token_count());
}

/// An agent needs a provider and nothing else; everything else can be named, and holds.
#[test]
fn an_agent_is_built_step_by_step() {
    let mut plain = Agent::builder(Arc::new(Offline::default())).build();
    assert_eq!(run(plain.ask("my name is Alice")).unwrap().messages.len(), 2);
    assert_eq!(run(plain.ask("What did I tell you my name was?")).unwrap().response, "Your name is Alice.");

    let store: Arc<dyn Store> = Arc::new(Memory::new(rejoin_engine::digest));
    let provider = Arc::new(ScriptedProvider::new([
        Step::calls(vec![ToolCall::new("call_1", "weather", r#"{"city":"Rome","days":2}"#)]),
        Step::says("Sunny."),
    ]));
    let weather =
        FunctionTool::new("weather", "", serde_json::json!({"type": "object"}), |arguments| async move {
            Ok(format!("{} for {} days", arguments.string("city")?, arguments["days"]))
        });
    let mut agent = Agent::builder(provider.clone())
        .store(store.clone())
        .title("Weather")
        .directory("/work")
        .system("Be brief.")
        .history([Message::user("Hello."), Message::tool("gone", "an orphan")])
        .tools(Tools::default().with(weather))
        .window(Window { max_tokens: 1_000, ..Window::default() })
        .build();
    let turned = run(agent.ask("And in Rome?")).unwrap();
    assert_eq!(turned.response, "Sunny.");
    let result = turned.messages.iter().find_map(|message| message.tool_results().next().cloned()).unwrap();
    assert_eq!(result.content[0].as_text().unwrap().as_str(), "Rome for 2 days");
    let request = &provider.requests()[0];
    assert_eq!(request.context.instructions.as_deref(), Some("Be brief."));
    assert_eq!(request.messages().len(), 2, "the orphan is not sent");
    assert_eq!(agent.window().max_tokens, 1_000);
    let id = agent.conversation().id();
    let summary = store.summary(id).unwrap();
    assert_eq!(
        (summary.title.as_deref(), summary.about.directory.as_deref()),
        (Some("Weather"), Some("/work"))
    );
    drop(agent);

    // Another process continues the conversation.
    let conversation = Conversation::open(store, id, "test").unwrap();
    let mut agent = Agent::builder(Arc::new(Offline::default())).conversation(conversation).build();
    assert_eq!(agent.messages().len(), 6);
    run(agent.ask("Hello again")).unwrap();
}
