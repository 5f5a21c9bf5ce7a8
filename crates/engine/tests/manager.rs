//! The conversation manager: submitting and listening, resuming in another manager, and errors with advice.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

mod support;
mod talk;

use std::{
    fs,
    path::Path,
    sync::{Arc, Mutex, atomic::Ordering},
};

use rejoin_engine::{
    ConversationManager, Mode, New, ProviderChoice, RunningConversation, Saved,
    compat::{RolloutLine, RolloutRecorder, StateCommand},
    provider::{
        Provider, ProviderError, ProviderFault,
        offline::Offline,
        scripted::{MockProvider, ScriptedProvider, Step},
    },
    turn::{Ending, Event, OnBroken, TurnInput, TurnSettings},
};
use rejoin_record::{CallId, Content, Message, Role, Text, content::TurnState};
use rejoin_store::{Access, Location, Store, memory::Memory};
use support::{Fragile, assert_verifies, clock, stored};
use talk::{assert_paired, call, echo, roles, run};

fn memory() -> Arc<dyn Store> {
    Arc::new(Memory::new(rejoin_engine::digest))
}

fn jsonl(folder: &Path) -> Arc<dyn Store> {
    rejoin_engine::open_store(&Location::Jsonl(folder.to_owned()), Access::Write).unwrap().into()
}

/// The events of a turn, up to its end.
async fn turn(conversation: &RunningConversation) -> Vec<Event> {
    let mut events = Vec::new();
    loop {
        let event = conversation.next_event().await;
        let over = matches!(event, Event::Ended { .. });
        events.push(event);
        if over {
            return events;
        }
    }
}

/// How a turn ended.
fn ending(events: &[Event]) -> Option<Ending> {
    match events.last() {
        Some(Event::Ended { ending, .. }) => Some(ending.clone()),
        _ => None,
    }
}

fn warnings(events: &[Event]) -> Vec<&str> {
    let mut warnings = Vec::new();
    for event in events {
        if let Event::NotSaved(warning) = event {
            warnings.push(warning.as_str());
        }
    }
    warnings
}

/// S3-04: begin, submit, listen, look at the history; a conversation that is being talked in is found again.
#[test]
fn submit_and_listen() {
    let provider = Arc::new(ScriptedProvider::new([
        Step::says_and_calls("Let me see.", vec![call("a", "{}")]),
        Step::says("Done.").in_pieces_of(3),
        Step::says("Second."),
    ]));
    let manager = ConversationManager::with_provider(memory(), provider).with_tools(echo().1);
    let conversation = manager.new_conversation(New::default()).unwrap();
    let id = conversation.id().to_string();
    conversation.submit("go");
    conversation.submit("and again");
    let events = run(turn(&conversation));
    assert!(matches!(&events[0], Event::Started { conversation, .. } if conversation.to_string() == id));
    let text: String =
        events.iter().filter_map(|e| if let Event::Text(t) = e { Some(t.as_str()) } else { None }).collect();
    assert_eq!(text, "Let me see.Done.");
    assert_eq!(events.iter().filter(|e| matches!(e, Event::CallEnded { .. })).count(), 1);
    assert_eq!(ending(&events), Some(Ending::Done));
    assert_eq!(roles(&conversation.get_history()), ["user", "assistant", "tool", "assistant"]);
    let same = manager.get_conversation(&id).unwrap();
    assert!(Arc::ptr_eq(&same, &conversation));
    assert!(Arc::ptr_eq(&manager.resume_conversation(&id, Mode::Strict).unwrap(), &conversation));
    // One after another.
    assert_eq!(ending(&run(turn(&same))), Some(Ending::Done));
    assert_eq!(same.get_history().last().unwrap().content().unwrap(), "Second.");
    drop((same, conversation));
    assert!(manager.get_conversation(&id).is_none(), "a conversation that no one uses any more is closed");
    assert!(manager.resume_conversation(&id, Mode::Strict).is_ok(), "and its lock is free at once");
}

/// S3-13, S3-43: a new manager resumes another one's conversation with all its messages, again and again.
#[test]
fn a_fresh_manager_resumes() {
    let folder = tempfile::tempdir().unwrap();
    let mut id: Option<String> = None;
    for round in 0..3 {
        let offline = Arc::new(Offline::default());
        let manager = ConversationManager::with_provider(jsonl(folder.path()), offline);
        let conversation = match &id {
            None => manager.new_conversation(New::default()).unwrap(),
            Some(id) => manager.resume_conversation(id, Mode::Strict).unwrap(),
        };
        assert_eq!(conversation.get_history().len(), if round == 0 { 0 } else { 2 * round });
        let say = if round == 0 { "my name is Alice" } else { "What is my name?" };
        let turned = run(conversation.process_message(say)).unwrap();
        assert!(turned.response.contains("Alice"), "{}", turned.response);
        assert_eq!(turned.messages.len(), 2);
        id = Some(conversation.id().to_string());
        assert_verifies(&*jsonl(folder.path()), conversation.id());
    }
    let id = id.unwrap();
    let text = fs::read_to_string(folder.path().join(format!("{id}.jsonl"))).unwrap();
    assert!(text.contains("Alice"));
    // The beginning of an id is enough.
    let manager = ConversationManager::with_provider(jsonl(folder.path()), Arc::new(Offline::default()));
    assert_eq!(manager.resume_conversation(&id[..9], Mode::Recover).unwrap().id().to_string(), id);
}

/// S3-14, S3-15, S3-44: the error for a missing conversation, with advice.
#[test]
fn not_found() {
    let manager = ConversationManager::with_provider(memory(), Arc::new(MockProvider::new_default()));
    for id in ["nonexistent-id", "conv_aaaaaaaaaaaa", ""] {
        for mode in [Mode::Recover, Mode::Strict] {
            let error = manager.resume_conversation(id, mode).unwrap_err();
            assert_eq!(error.to_string(), format!("Conversation {id} not found. Run: rejoin list"));
            assert_eq!(error.code(), "CONVERSATION_NOT_FOUND");
        }
        assert!(manager.get_conversation(id).is_none());
        assert_eq!(manager.read_events(id).unwrap_err().code(), "CONVERSATION_NOT_FOUND");
    }
}

/// S3-14, S3-15, S3-45, S3-46: in strict mode, a damaged file is an error with its line, and an empty one is an error about missing
/// turns; in recover mode, the readable part is used.
#[test]
fn damaged_and_empty_files() {
    let folder = tempfile::tempdir().unwrap();
    let provider = Arc::new(MockProvider::new_default());
    let manager = || ConversationManager::with_provider(jsonl(folder.path()), provider.clone());
    let conversation = manager().new_conversation(New::default()).unwrap();
    run(conversation.process_message("one")).unwrap();
    let id = conversation.id().to_string();
    drop(conversation);
    let path = folder.path().join(format!("{id}.jsonl"));
    let lines = fs::read_to_string(&path).unwrap();
    let before = lines.lines().count();
    fs::write(&path, format!("{lines}invalid json\n{{broken\n{{}}\n")).unwrap();
    let error = manager().resume_conversation(&id, Mode::Strict).unwrap_err();
    assert_eq!((error.code(), error.line()), ("CORRUPTED_ROLLOUT", Some(before as u64 + 1)));
    assert!(error.to_string().contains(&format!("line {}", before + 1)), "{error}");
    let conversation = manager().resume_conversation(&id, Mode::Recover).unwrap();
    assert_eq!(conversation.get_history().len(), 2);
    assert_eq!(run(conversation.process_message("two")).unwrap().response, "OK.");
    assert_eq!(provider.last_messages().len(), 3);
    // A file with nothing in it.
    let empty = "conv_bbbbbbbbbbbb";
    fs::write(folder.path().join(format!("{empty}.jsonl")), "").unwrap();
    let error = manager().resume_conversation(empty, Mode::Strict).unwrap_err();
    assert_eq!(error.to_string(), format!("Conversation {empty} has no turns"));
    assert_eq!((error.code(), error.line()), ("EMPTY_ROLLOUT", None));
    let conversation = manager().recover_session(empty).unwrap();
    assert_eq!(run(conversation.process_message("anew")).unwrap().messages.len(), 2);
}

/// S3-18, S3-41, S3-47: a conversation records the provider and the model that it was begun with in its first line, and
/// resuming asks for them; a program may choose another one.
#[test]
fn the_recorded_provider_answers() {
    let folder = tempfile::tempdir().unwrap();
    let asked: Arc<Mutex<Vec<ProviderChoice>>> = Arc::default();
    let manager = || {
        let asked = asked.clone();
        ConversationManager::new(jsonl(folder.path()), move |wanted| {
            asked.lock().unwrap().push(wanted.clone());
            let provider = wanted.provider.as_deref().unwrap_or("openai");
            let model = wanted.model.as_deref().unwrap_or("gpt-4");
            Ok(Arc::new(MockProvider::new_default().named(provider, model)))
        })
    };
    let conversation = manager().new_conversation(New::default()).unwrap();
    let text = fs::read_to_string(folder.path().join(format!("{}.jsonl", conversation.id()))).unwrap();
    let first: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    let metadata = first.pointer("/metadata").or_else(|| first.pointer("/body/metadata")).unwrap_or(&first);
    assert!(metadata.to_string().contains(r#""provider":"openai""#), "{first}");
    assert!(metadata.to_string().contains(r#""model":"gpt-4""#), "{first}");
    let new = New { provider: Some("anthropic".into()), model: Some("claude-x".into()), ..New::default() };
    let conversation = manager().new_conversation(new).unwrap();
    run(conversation.process_message("hello")).unwrap();
    let id = conversation.id().to_string();
    drop(conversation);
    let conversation = manager().resume_conversation(&id, Mode::Strict).unwrap();
    let wanted = asked.lock().unwrap().last().unwrap().clone();
    assert_eq!(
        wanted,
        ProviderChoice {
            provider: Some("anthropic".into()),
            model: Some("claude-x".into()),
            ..ProviderChoice::default()
        }
    );
    conversation.submit("again");
    let started = run(conversation.next_event());
    assert!(
        matches!(started, Event::Started { provider, model, .. } if provider == "anthropic" && model == "claude-x")
    );
    drop(conversation);
    // Another provider answers, and the list shows it.
    let ollama = Arc::new(MockProvider::new_default().named("ollama", "llama2"));
    let other = ConversationManager::with_provider(jsonl(folder.path()), ollama);
    run(other.resume_conversation(&id, Mode::Strict).unwrap().process_message("you?")).unwrap();
    let listed = other.list_conversations().unwrap();
    let listed = listed.iter().find(|summary| summary.id.to_string() == id).unwrap();
    assert_eq!(
        (listed.about.provider.as_deref(), listed.about.model.as_deref()),
        (Some("ollama"), Some("llama2"))
    );
    // No provider: an error, and nothing changes.
    let nobody = ConversationManager::new(jsonl(folder.path()), |_| {
        Err(ProviderError::NoKey { provider: "anthropic".into(), hint: "set one".into() })
    });
    assert_eq!(nobody.resume_conversation(&id, Mode::Recover).unwrap_err().code(), "NO_KEY");
}

/// S3-21, S3-48, S3-49, S3-50: a new conversation is listed at once, newest first, with provider, model and time.
#[test]
fn conversations_are_listed() {
    let provider = Arc::new(MockProvider::new_default().named("openai", "gpt-x"));
    let manager = ConversationManager::with_provider(memory(), provider).with_clock(clock());
    assert_eq!(manager.list_conversations().unwrap(), []);
    let begun: Vec<_> = (0..3).map(|_| manager.new_conversation(New::default()).unwrap()).collect();
    let listed = manager.list_conversations().unwrap();
    let ids: Vec<_> = listed.iter().map(|summary| summary.id).collect();
    assert_eq!(ids, begun.iter().rev().map(|conversation| conversation.id()).collect::<Vec<_>>());
    assert!(listed.iter().all(|summary| summary.about.model.as_deref() == Some("gpt-x")));
    assert!(listed[0].updated > listed[2].updated);
}

/// S3-11, S3-42: if the store cannot be written, a warning is sent; the answer arrives, the conversation continues, and everything
/// is stored as soon as possible.
#[test]
fn a_store_that_fails_ends_nothing() {
    let store = Fragile::new();
    let provider = Arc::new(ScriptedProvider::new([
        Step::says("One."),
        Step::calls(vec![call("a", "{}")]),
        Step::says("Two."),
        Step::says("Three."),
    ]));
    let manager = ConversationManager::with_provider(store.clone(), provider.clone()).with_tools(echo().1);
    let conversation = manager.new_conversation(New::default()).unwrap();
    assert_eq!(run(conversation.process_message("1")).unwrap().response, "One.");
    store.full.store(true, Ordering::Relaxed);
    conversation.submit("2");
    let events = run(turn(&conversation));
    assert_eq!(
        warnings(&events),
        ["Failed to save turn: writing chats: no space left on device"],
        "told once"
    );
    assert_eq!(ending(&events), Some(Ending::Done));
    assert_eq!(conversation.get_history().last().unwrap().content().unwrap(), "Two.");
    store.full.store(false, Ordering::Relaxed);
    conversation.submit("3");
    let events = run(turn(&conversation));
    assert!(events.contains(&Event::Saved) && warnings(&events).is_empty());
    let id = conversation.id();
    drop(conversation);
    let again = manager.resume_conversation(&id.to_string(), Mode::Strict).unwrap();
    assert_eq!(again.get_history().len(), 2 + 4 + 2);
    assert_verifies(&store.inner, id);
    // From the very beginning.
    store.full.store(true, Ordering::Relaxed);
    provider.then("Four.");
    let conversation = manager.new_conversation(New::default()).unwrap();
    conversation.submit("4");
    assert_eq!(warnings(&run(turn(&conversation))).len(), 1);
}

/// S3-12: when an event arrives, the entries that it reports are stored.
#[test]
fn an_event_comes_after_saving() {
    let store = memory();
    let provider = Arc::new(ScriptedProvider::new([Step::calls(vec![call("a", "{}")]), Step::says("Done.")]));
    let manager = ConversationManager::with_provider(store.clone(), provider).with_tools(echo().1);
    let conversation = manager.new_conversation(New::default()).unwrap();
    conversation.submit("go");
    let said = || {
        let contents = stored(&*store, conversation.id());
        contents.iter().filter(|entry| matches!(Content::of(entry), Content::Message(_))).count()
    };
    run(async {
        loop {
            let at_least = match conversation.next_event().await {
                Event::Asking { request: 1, .. } => 1,
                Event::Answered { .. } => 2,
                Event::CallEnded { .. } => 3,
                Event::Ended { .. } => break,
                _ => 0,
            };
            assert!(said() >= at_least);
        }
    });
    assert_eq!(said(), 4);
    let last = stored(&*store, conversation.id()).pop().unwrap();
    assert!(matches!(Content::of(&last), Content::Turn(turn) if turn.state == TurnState::Ended));
}

/// S3-38: the session interface: processing a message, reading and replacing the history, and reading the initial context.
#[test]
fn process_look_replace() {
    let provider = Arc::new(MockProvider::new_default());
    let settings = TurnSettings { system: Some("Be brief.".into()), ..TurnSettings::default() };
    let store = memory();
    let manager = ConversationManager::with_provider(store.clone(), provider.clone()).with_settings(settings);
    let conversation = manager.new_conversation(New::default()).unwrap();
    assert_eq!(conversation.get_initial_context(), [Message::system("Be brief.")]);
    for text in ["one", "two", "three"] {
        run(conversation.process_message(text)).unwrap();
    }
    let history = conversation.get_history();
    assert_eq!(history.len(), 6);
    assert!(
        provider.requests()[0].context.instructions.as_deref().is_some_and(|text| text.contains("Be brief"))
    );
    // A shorter history: the common beginning stays.
    let kept: Vec<Message> = history[..2].iter().map(|message| Message::clone(message)).collect();
    let shorter = [&kept[..], &[Message::user("Summary of earlier conversation: three numbers")]].concat();
    assert_eq!(run(conversation.replace_history(&shorter)), Saved::Durable);
    let said: Vec<Message> =
        conversation.get_history().iter().map(|message| Message::clone(message)).collect();
    assert_eq!(said, shorter);
    run(conversation.process_message("four")).unwrap();
    assert_eq!(provider.last_messages(), [&shorter[..], &[Message::user("four")]].concat());
    // With an empty list, and with the same list.
    assert_eq!(run(conversation.replace_history(&[])), Saved::Durable);
    assert_eq!(conversation.get_history(), []);
    let entries = stored(&*store, conversation.id()).len();
    assert_eq!(run(conversation.replace_history(&[])), Saved::Durable);
    assert_eq!(stored(&*store, conversation.id()).len(), entries, "the same again is nothing new");
    assert_eq!(run(conversation.replace_history(&[Message::system("New rules.")])), Saved::Durable);
    assert_eq!(
        conversation.get_initial_context(),
        [Message::system("Be brief."), Message::system("New rules.")]
    );
    // Another manager reads the same history, and no message is lost.
    let id = conversation.id();
    drop(conversation);
    let again = manager.resume_conversation(&id.to_string(), Mode::Strict).unwrap();
    assert_eq!(roles(&again.get_history()), ["system"]);
    let all = stored(&*store, id);
    let three =
        all.iter().any(|e| matches!(Content::of(e), Content::Message(m) if m == Message::user("three")));
    assert!(three);
    assert_verifies(&*store, id);
}

/// S3-40, S3-38: with a recorder, two messages are two turns in its file, tools and results included, with provider, model and
/// tokens.
#[test]
fn a_recorder_gets_every_turn() {
    let folder = tempfile::tempdir().unwrap();
    let recorder = RolloutRecorder::new(folder.path());
    let provider = ScriptedProvider::new([
        Step::calls(vec![call("a", r#"{"n":1}"#)]),
        Step::says("One."),
        Step::fails(ProviderError::Cut),
    ]);
    let provider = Arc::new(provider.named("openai", "gpt-4"));
    let manager = ConversationManager::with_provider(memory(), provider)
        .with_tools(echo().1)
        .with_recorder(recorder.clone());
    let conversation = manager.new_conversation(New::default()).unwrap();
    let id = conversation.id().to_string();
    run(conversation.process_message("first")).unwrap();
    assert_eq!(run(conversation.process_message("second")).unwrap_err().code(), "CUT");
    let lines = recorder.read_rollout(&id).unwrap();
    let turns: Vec<_> =
        lines.iter().map(|line| if let RolloutLine::Turn(turn) = line { turn } else { panic!() }).collect();
    assert_eq!(turns.len(), 2);
    assert_eq!(turns[0].items.len(), 4, "asked, called, result, answered: {:?}", turns[0].items);
    assert_eq!(turns[1].items.len(), 1, "a failed turn keeps what was said");
    let metadata = turns[0].metadata.as_ref().unwrap();
    assert_eq!((metadata.provider.as_deref(), metadata.model.as_deref()), (Some("openai"), Some("gpt-4")));
    assert_eq!(metadata.tokens, Some(30));
}

/// S3-42: if the recorder cannot write, a warning is sent, and the answer still arrives.
#[test]
fn a_recorder_that_fails() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a file, no folder");
    fs::write(&file, "").unwrap();
    let manager = ConversationManager::with_provider(memory(), Arc::new(MockProvider::new_default()))
        .with_recorder(RolloutRecorder::new(&file));
    let conversation = manager.new_conversation(New::default()).unwrap();
    conversation.submit("one");
    let events = run(turn(&conversation));
    assert!(warnings(&events)[0].starts_with("Failed to save turn: "), "{events:?}");
    assert_eq!(ending(&events), Some(Ending::Done));
    assert_eq!(conversation.get_history().len(), 2);
}

/// S3-13, S3-43..S3-47: a file of turns is resumed by its own name: found, flattened, gone on with, and refused with the reason.
#[test]
fn a_file_of_turns_is_resumed() {
    let folder = tempfile::tempdir().unwrap();
    let recorder = RolloutRecorder::new(folder.path().join("turns"));
    let wanted: Arc<Mutex<ProviderChoice>> = Arc::default();
    let provider = Arc::new(MockProvider::new_default().named("anthropic", "claude-x"));
    let store = jsonl(&folder.path().join("store"));
    let manager = || {
        let (wanted, provider) = (wanted.clone(), provider.clone());
        ConversationManager::new(store.clone(), move |asked| {
            *wanted.lock().unwrap() = asked.clone();
            Ok(provider.clone() as Arc<dyn Provider>)
        })
        .with_recorder(recorder.clone())
    };
    fs::create_dir_all(folder.path().join("turns")).unwrap();
    let write =
        |id: &str, text: &str| fs::write(folder.path().join(format!("turns/{id}.jsonl")), text).unwrap();
    write(
        "my-chat",
        r#"{"timestamp":"2025-01-01T00:00:00Z","items":[{"type":"message","role":"user","content":"my name is Alice"},{"type":"message","role":"assistant","content":"Hello Alice."}],"metadata":{"provider":"anthropic","model":"claude-x"}}
"#,
    );
    for round in 1..3 {
        let conversation = manager().resume_rollout("my-chat", Mode::Strict).unwrap();
        assert_eq!(wanted.lock().unwrap().provider.as_deref(), Some("anthropic"), "round {round}");
        assert_eq!(conversation.get_history().len(), 2 * round);
        run(conversation.process_message("What is my name?")).unwrap();
        assert_eq!(provider.last_messages().len(), 2 * round + 1);
        assert_eq!(recorder.read_rollout("my-chat").unwrap().len(), 1 + round);
    }
    write("bad", "invalid json\n{broken\n");
    let error = manager().resume_rollout("bad", Mode::Strict).unwrap_err();
    assert_eq!((error.code(), error.line()), ("CORRUPTED_ROLLOUT", Some(1)));
    write("test-id", "");
    let error = manager().resume_rollout("test-id", Mode::Strict).unwrap_err();
    assert_eq!(
        (error.code(), error.to_string().as_str()),
        ("EMPTY_ROLLOUT", "Conversation test-id has no turns")
    );
    let anew = manager().resume_rollout("test-id", Mode::Recover).unwrap();
    run(anew.process_message("hello")).unwrap();
    assert_eq!(recorder.read_rollout("test-id").unwrap().len(), 1);
    let error = manager().resume_rollout("nonexistent-id", Mode::Recover).unwrap_err();
    assert_eq!(error.to_string(), "Conversation nonexistent-id not found. Run: rejoin list");
}

/// A turn is interrupted from outside: its entries are recorded, and the next turn is not interrupted.
#[test]
fn interrupt() {
    let provider = Arc::new(ScriptedProvider::new([
        Step::says("I am thinking").in_pieces_of(4).then_hangs(),
        Step::says("Here."),
    ]));
    let manager = ConversationManager::with_provider(memory(), provider.clone());
    let conversation = manager.new_conversation(New::default()).unwrap();
    conversation.interrupt();
    conversation.submit("go");
    let events = run(async {
        let mut events = Vec::new();
        loop {
            let event = conversation.next_event().await;
            if event == Event::Text("g".into()) {
                conversation.interrupt();
            }
            events.push(event);
            if matches!(events.last(), Some(Event::Ended { .. })) {
                return events;
            }
        }
    });
    assert_eq!(ending(&events), Some(Ending::Interrupted));
    assert_eq!(conversation.get_history().last().unwrap().content().unwrap(), "I am thinking");
    conversation.submit("and now?");
    assert_eq!(ending(&run(turn(&conversation))), Some(Ending::Done));
    // Submitted and stopped before its events were fetched: the message is recorded, and no request is sent.
    conversation.submit("never mind");
    conversation.interrupt();
    assert_eq!(ending(&run(turn(&conversation))), Some(Ending::Interrupted));
    assert_eq!(conversation.get_history().last().unwrap().content().unwrap(), "never mind");
    assert_eq!(provider.requests().len(), 2);
}

/// S0-23, B45: if a provider refuses, the event has the reason and advice, nothing is lost, and the request is not repeated
/// automatically.
#[test]
fn a_refusal_is_told() {
    let fault = ProviderFault {
        provider: "scripted".into(),
        status: Some(400),
        kind: None,
        message: "tool_use".into(),
    };
    let provider =
        Arc::new(ScriptedProvider::new([Step::fails(ProviderError::Refused(fault)), Step::says("Yes.")]));
    let manager = ConversationManager::with_provider(memory(), provider.clone());
    let conversation = manager.new_conversation(New::default()).unwrap();
    conversation.submit("one");
    let events = run(turn(&conversation));
    let [.., Event::Failed { code, message, hint }, Event::Ended { ending: Ending::Failed, .. }] =
        &events[..]
    else {
        panic!("{events:?}")
    };
    assert_eq!((*code, message.as_str()), ("REFUSED", "scripted answered 400: tool_use"));
    assert!(hint.is_some());
    assert_eq!(provider.requests().len(), 1);
    assert_eq!(roles(&conversation.get_history()), ["user"]);
    conversation.submit(TurnInput::GoOn);
    assert_eq!(ending(&run(turn(&conversation))), Some(Ending::Done));
    assert_eq!(provider.last_messages(), [Message::user("one")]);
    // There is nothing to continue.
    let empty = manager.new_conversation(New::default()).unwrap();
    empty.submit(TurnInput::GoOn);
    let events = run(turn(&empty));
    assert!(
        events.iter().any(|e| matches!(e, Event::Failed { code: "NOTHING_TO_GO_ON_WITH", .. })),
        "{events:?}"
    );
}

/// A conversation in memory in which everything is answered "OK.".
fn begun() -> (Arc<dyn Store>, Arc<MockProvider>, ConversationManager, Arc<RunningConversation>) {
    let (store, provider) = (memory(), Arc::new(MockProvider::new_default()));
    let manager = ConversationManager::with_provider(store.clone(), provider.clone());
    let conversation = manager.new_conversation(New::default()).unwrap();
    (store, provider, manager, conversation)
}

/// S2-43: with repairing turned off, a broken conversation goes nowhere, and the event says why.
#[test]
fn repairing_turned_off() {
    let (store, provider, manager, conversation) = begun();
    run(conversation.replace_history(&[Message::user("one"), Message::tool("gone", "orphan")]));
    let id = conversation.id().to_string();
    drop(conversation);
    let settings = TurnSettings { on_broken: OnBroken::Refuse, ..TurnSettings::default() };
    let strict = ConversationManager::with_provider(store, provider.clone()).with_settings(settings);
    let conversation = strict.resume_conversation(&id, Mode::Recover).unwrap();
    conversation.submit("two");
    let events = run(turn(&conversation));
    assert!(
        matches!(
            &events[..],
            [Event::Failed { code: "UNSOUND", .. }, Event::Ended { ending: Ending::Failed, .. }]
        ),
        "{events:?}"
    );
    assert!(provider.requests().is_empty());
    drop(conversation);
    let conversation = manager.resume_conversation(&id, Mode::Recover).unwrap();
    run(conversation.process_message("two")).unwrap();
    assert_paired(&provider.last_messages());
}

/// S2-01, S2-02, S2-32, S2-38: a turn is cut off, as by a kill, while tools run. The conversation is read, recovered and continued:
/// completed calls do not run again, and the provider gets nothing unsound.
#[test]
fn dropped_in_the_middle_of_a_turn() {
    let store = memory();
    let (tool, tools) = echo();
    let calls = vec![call("a", r#"{"n":1}"#), call("b", r#"{"never":1}"#)];
    let provider = Arc::new(ScriptedProvider::new([Step::calls(calls), Step::says("I see.")]));
    let manager = ConversationManager::with_provider(store.clone(), provider.clone()).with_tools(tools);
    let conversation = manager.new_conversation(New::default()).unwrap();
    let id = conversation.id().to_string();
    conversation.submit("go");
    run(async { while !matches!(conversation.next_event().await, Event::CallEnded { .. }) {} });
    drop(conversation);
    let recorded = manager.read_events(&id).unwrap();
    assert_eq!(roles(&recorded.session.messages), ["user", "assistant", "tool"]);
    let conversation = manager.recover_session(&id).unwrap();
    conversation.submit(TurnInput::GoOn);
    let events = run(turn(&conversation));
    assert!(events.contains(&Event::Closed { interrupted: 1, left_out: 0, rerun: 0 }), "{events:?}");
    assert_eq!(ending(&events), Some(Ending::Done));
    assert_eq!(tool.runs.load(Ordering::SeqCst), 2, "nothing ran again");
    let sent = provider.last_messages();
    assert_paired(&sent);
    assert_eq!(sent[2].content().unwrap(), r#"{"n":1}"#);
    assert!(sent[3].content().unwrap().contains("no result was recorded"));
    assert_verifies(&*store, conversation.id());
}

/// Dropping the wait for an event loses nothing: the next wait continues the turn.
#[test]
fn waiting_can_be_given_up() {
    let provider = Arc::new(ScriptedProvider::new([Step::says("abcdef").in_pieces_of(1)]));
    let manager = ConversationManager::with_provider(memory(), provider);
    let conversation = manager.new_conversation(New::default()).unwrap();
    conversation.submit("go");
    let mut text = String::new();
    run(async {
        loop {
            let event = tokio::select! {
                biased;
                event = conversation.next_event() => Some(event),
                () = tokio::task::yield_now() => None,
            };
            match event {
                Some(Event::Text(piece)) => text.push_str(&piece),
                Some(Event::Ended { .. }) => break,
                _ => {}
            }
        }
    });
    assert_eq!(text, "abcdef");
    assert_eq!(conversation.get_history().len(), 2);
}

/// S1-12, S1-15: a result that is dispatched to a conversation is appended under its message, and an event tells of it.
#[test]
fn a_dispatched_result() {
    let (store, provider, _manager, conversation) = begun();
    run(conversation
        .replace_history(&[Message::user("go"), Message::assistant_with_tools(vec![call("a", "{}")])]));
    let parent = stored(&*store, conversation.id()).last().unwrap().id();
    let command = StateCommand::AddToolMessage {
        parent,
        call_id: CallId::new("a"),
        text: Text::new("4"),
        is_error: false,
    };
    let appended = run(conversation.dispatch(command)).unwrap();
    assert_eq!(appended.entry.envelope().parent, Some(parent));
    let event = run(conversation.next_event());
    assert!(
        matches!(&event, Event::CallEnded { id, name, output, is_error: false, .. } if id == "a" && name == "echo" && output == "4"),
        "{event:?}"
    );
    assert_eq!(conversation.get_history().last().unwrap().role, Role::Tool);
    run(conversation.process_message("and?")).unwrap();
    assert_eq!(provider.last_messages()[2].content().unwrap(), "4");
}
