//! The record after turns, and the requests that contain other programs' results.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

mod support;
mod talk;

use std::sync::{Arc, atomic::Ordering};

use rejoin_engine::{
    Conversation, EngineError, New, SessionState,
    compat::StateCommand,
    provider::scripted::{ScriptedProvider, Step},
    turn::{Ending, Event, OnBroken, Stop, TurnInput, TurnSettings, Worker},
};
use rejoin_formats::Dialect;
use rejoin_record::{
    Block, Content, ConversationId, Entry, EntryId, Form, Kind, Message, Role, Text, ToolCall, ToolResult,
    content::{CallAt, Turn, TurnState},
};
use rejoin_store::{Store, memory::Memory};
use support::{assert_verifies, clock, stored};
use talk::{assert_paired, call, echo, run, step_name};

fn store() -> Arc<Memory> {
    Arc::new(Memory::new(rejoin_engine::digest))
}

fn begin(store: &Arc<Memory>) -> Conversation {
    Conversation::create_with_clock(store.clone(), clock(), &New::default(), "test")
}

/// A conversation with a person's word and a message that calls tools, and the entry of that message.
fn calling(store: &Arc<Memory>, ids: &[&str]) -> (Conversation, EntryId) {
    let mut conversation = begin(store);
    conversation.say(Message::user("go"));
    let calls = ids.iter().map(|id| call(id, "{}")).collect();
    let parent = conversation.say(Message::assistant_with_tools(calls)).entry.id();
    (conversation, parent)
}

/// Roles, with the ids of results.
fn sketch(messages: &[Message]) -> Vec<String> {
    let id = |message: &Message| message.tool_call_id().map(|id| format!(":{id}")).unwrap_or_default();
    messages.iter().map(|message| format!("{}{}", message.role, id(message))).collect()
}

fn without_id(text: &str) -> Message {
    let result = ToolResult { call_id: None, ..ToolResult::new("x", text) };
    Message { form: Form::Text, ..Message::new(Role::Tool, vec![Block::result(result)]) }
}

/// S1-07, S1-08, B47: a result is a separate message with the id of its call and the name of its tool, appended under the
/// message that asked; it comes back from the store as it was.
#[test]
fn a_tool_message_under_its_parent() {
    let store = store();
    let (mut conversation, parent) = calling(&store, &["a"]);
    let appended = conversation.add_tool_message(parent, "a", "4").unwrap();
    assert!(appended.saved.is_durable());
    assert_eq!(appended.entry.envelope().parent, Some(parent));
    let id = conversation.id();
    drop(conversation);
    let conversation = Conversation::open_with_clock(store, clock(), id, "test").unwrap();
    let message = conversation.messages().last().unwrap();
    assert_eq!((message.role.clone(), message.tool_call_id().unwrap().as_str()), (Role::Tool, "a"));
    assert_eq!(message.tool_name().unwrap().as_str(), "echo");
    assert_eq!(conversation.messages()[0].tool_call_id(), None, "others have none");
}

/// S1-12, S1-13: the same as a command; a missing parent is a typed error, and nothing is appended.
#[test]
fn a_parent_that_is_not_there() {
    let store = store();
    let (mut conversation, parent) = calling(&store, &["a"]);
    let (_, elsewhere) = calling(&store, &["a"]);
    let before = conversation.entries().len();
    let error = conversation.add_tool_message(elsewhere, "a", "4").unwrap_err();
    assert!(matches!(&error, EngineError::NoSuchMessage(id) if *id == elsewhere.to_string()), "{error}");
    assert_eq!((error.code(), conversation.entries().len()), ("NO_SUCH_MESSAGE", before));
    let command = StateCommand::AddToolMessage {
        parent,
        call_id: "a".into(),
        text: Text::new("it failed"),
        is_error: true,
    };
    assert_eq!(command.name(), "AddToolMessage");
    assert!(format!("{command:?}").contains("AddToolMessage"));
    conversation.dispatch(command).unwrap();
    let result = conversation.messages().last().unwrap().tool_results().next().unwrap().clone();
    assert!(result.is_error && result.call_id.unwrap().as_str() == "a");
}

/// S1-09, S1-11: results with an id are messages of the role `tool`; everything is in its original order.
#[test]
fn the_path_as_messages_of_a_request() {
    let store = store();
    let mut conversation = begin(&store);
    conversation.say(Message::system("Be brief."));
    conversation.say(Message::user("one"));
    let parent = conversation.say(Message::assistant_with_tools(vec![call("a", "{}")])).entry.id();
    conversation.add_tool_message(parent, "a", "1").unwrap();
    conversation.say(Message::assistant("One."));
    conversation.say(Message::user("two"));
    let request = conversation.current_path_as_llm_request_messages();
    assert_eq!(sketch(&request), ["system", "user", "assistant", "tool:a", "assistant", "user"]);
    let said: Vec<Message> = conversation.messages().iter().map(|message| Message::clone(message)).collect();
    assert_eq!(request, said, "what is sound is sent as it was said");
}

/// S1-10, B17: a result without an id is no tool message, and the call that it leaves open is answered, with a warning.
#[test]
fn a_result_without_an_id() {
    let store = store();
    let (mut conversation, _) = calling(&store, &["a"]);
    conversation.say(without_id("lost its id"));
    conversation.say(Message::user("and?"));
    let request = conversation.current_path_as_llm_request_messages();
    assert_paired(&request);
    assert_eq!(request.iter().filter(|message| message.role == Role::Tool).count(), 1);
    let shown =
        request.iter().find(|message| message.content().is_some_and(|text| text.contains("lost its id")));
    assert_eq!(shown.unwrap().role, Role::User, "nothing is forgotten");
    let view = conversation.view(rejoin_view::OnBroken::Keep);
    let rules: Vec<&str> = view.findings.iter().filter(|f| f.is_problem()).map(|f| f.rule.name()).collect();
    assert!(rules.contains(&"missing-call-id") && rules.contains(&"unanswered-call"), "{rules:?}");
}

/// S1-14, S1-16, B18: results of parallel calls come in any order; a request has each of them once, in the order of the calls.
#[test]
fn parallel_completions_in_any_order() {
    let orders = [["a", "b", "c"], ["c", "b", "a"], ["b", "c", "a"], ["c", "a", "b"]];
    for order in orders {
        let store = store();
        let (mut conversation, parent) = calling(&store, &["a", "b", "c"]);
        for id in order {
            let text = format!("result {id}");
            let first = conversation.add_tool_message(parent, id, text.as_str()).unwrap();
            // The same result twice.
            let again = conversation.add_tool_message(parent, id, text.as_str()).unwrap();
            assert_eq!(first.entry, again.entry);
        }
        let request = conversation.current_path_as_llm_request_messages();
        assert_eq!(sketch(&request), ["user", "assistant", "tool:a", "tool:b", "tool:c"], "{order:?}");
        let texts: Vec<_> = request[2..].iter().map(|message| message.content().unwrap()).collect();
        assert_eq!(texts, ["result a", "result b", "result c"]);
        assert_eq!(conversation.messages().len(), 5);
        assert_verifies(&*store, conversation.id());
    }
}

/// B18: a result that arrives after the conversation continued still reaches its call; a different one is a second result, and
/// neither is lost.
#[test]
fn a_late_result() {
    let store = store();
    let (mut conversation, parent) = calling(&store, &["a"]);
    conversation.say(Message::user("are you there?"));
    conversation.add_tool_message(parent, "a", "late").unwrap();
    let request = conversation.current_path_as_llm_request_messages();
    assert_eq!(sketch(&request), ["user", "assistant", "tool:a", "user"]);
    conversation.add_tool_message(parent, "a", "later still").unwrap();
    let request = conversation.current_path_as_llm_request_messages();
    assert_paired(&request);
    let text = request[2].content().unwrap();
    assert!(text.contains("late") && text.contains("later still"), "{text}");
}

/// S1-08: a result for a message of another branch goes to that branch, after its other results; the head stays here.
#[test]
fn a_result_of_another_branch() {
    let store = store();
    let (mut conversation, parent) = calling(&store, &["a", "b"]);
    conversation.replace_history(&[Message::user("something else")]);
    let before: Vec<_> = conversation.messages().to_vec();
    let first = conversation.add_tool_message(parent, "b", "2").unwrap();
    let second = conversation.add_tool_message(parent, "a", "1").unwrap();
    assert_eq!(first.entry.envelope().parent, Some(parent));
    assert_eq!(second.entry.envelope().parent, Some(first.entry.id()));
    assert_eq!(conversation.add_tool_message(parent, "b", "2").unwrap().entry.id(), first.entry.id());
    assert_eq!(conversation.messages(), before);
    let id = conversation.id();
    drop(conversation);
    let conversation = Conversation::open_with_clock(store.clone(), clock(), id, "test").unwrap();
    assert_eq!(conversation.messages(), before, "and it is read the same");
    assert_verifies(&*store, id);
}

/// S0-46: every result of a call, by place; other roles and other calls do not count.
#[test]
fn results_are_found_by_their_call() {
    let store = store();
    let (mut conversation, parent) = calling(&store, &["a", "b"]);
    assert!(conversation.find_tool_results_for_call("a").is_empty());
    conversation.add_tool_message(parent, "a", "1").unwrap();
    conversation.add_tool_message(parent, "b", "2").unwrap();
    conversation.say(Message::user("a"));
    conversation.say(Message::tool("a", "again"));
    let quoted = Message::new(Role::User, vec![Block::result(ToolResult::new("a", "quoted"))]);
    conversation.say(quoted);
    assert_eq!(conversation.find_tool_results_for_call("a"), [2, 5]);
    assert_eq!(conversation.find_tool_results_for_call("b"), [3]);
    assert!(conversation.find_tool_results_for_call("nobody").is_empty());
}

/// S2-47: the state of a conversation is read from its record, at every step of a turn; nothing waits for it.
#[test]
fn states() {
    let store = store();
    let mut conversation = begin(&store);
    assert_eq!(conversation.state(), SessionState::Empty);
    conversation.say(Message::user("go"));
    assert_eq!(conversation.state(), SessionState::WaitingForModel);
    let calls = vec![call("a", "{}"), call("b", "{}")];
    let parent = conversation.say(Message::assistant_with_tools(calls)).entry.id();
    assert_eq!(conversation.state().to_string(), "WAITING_FOR_TOOLS");
    assert!(!conversation.state().is_safe_point());
    let at = Some(CallAt { entry: parent, block: 1 });
    conversation.append(&Content::Turn(Turn::new(TurnState::CallAwaitingApproval, at)));
    assert_eq!(conversation.state(), SessionState::WaitingForApproval);
    assert!(!conversation.state().is_safe_point());
    conversation.add_tool_message(parent, "b", "2").unwrap();
    assert_eq!(conversation.state(), SessionState::WaitingForTools);
    conversation.add_tool_message(parent, "a", "1").unwrap();
    assert_eq!(conversation.state(), SessionState::WaitingForModel);
    assert!(conversation.state().is_safe_point());
    conversation.say(Message::assistant("Done."));
    assert_eq!(conversation.state().to_string(), "COMPLETE");
    conversation.append(&Content::Turn(Turn::new(TurnState::Interrupted, None)));
    assert_eq!(conversation.state(), SessionState::Interrupted);
    conversation.say(Message::user("more"));
    assert_eq!(conversation.state(), SessionState::WaitingForModel);
    // An old call without a result does not block anything.
    conversation.say(Message::assistant_with_tools(vec![call("z", "{}")]));
    conversation.say(Message::user("never mind"));
    assert_eq!(conversation.state(), SessionState::WaitingForModel);
    let all: Vec<(&str, bool)> = SessionState::ALL.iter().map(|s| (s.as_str(), s.is_safe_point())).collect();
    assert_eq!(
        all,
        [
            ("EMPTY", true),
            ("WAITING_FOR_MODEL", true),
            ("WAITING_FOR_TOOLS", false),
            ("WAITING_FOR_APPROVAL", false),
            ("INTERRUPTED", true),
            ("COMPLETE", true),
            ("DAMAGED", false)
        ]
    );
}

/// The model calls two tools, of which the first one is slower, and then says something.
fn two_calls() -> [Step; 2] {
    [Step::calls(vec![call("a", r#"{"slow":1}"#), call("b", "{}")]), Step::says("Done.")]
}

/// S2-47: during a turn, each state is in the store as soon as it is reached: the state of the session, the entry about the turn,
/// and the state that a list shows. While tools run, none of them looks finished.
#[test]
fn a_running_turn_is_seen_in_the_store() {
    let store = store();
    let provider = Arc::new(ScriptedProvider::new(two_calls()));
    let mut worker = Worker::new(begin(&store), provider, echo().1, TurnSettings::default());
    let id = worker.conversation().id();
    let mut seen = Vec::new();
    let looking = store.clone();
    run(worker.turn(
        "go".into(),
        &mut |event| {
            let Some(name) = step_name(&event) else { return };
            let conversation = Conversation::open_read_only(looking.clone(), clock(), id).unwrap();
            let marks = stored(&*looking, id).iter().filter_map(mark).collect::<Vec<_>>().join(" ");
            let listed = looking.summary(id).unwrap().state.word();
            seen.push(format!("{name}: {}, {listed}, {marks}", conversation.state()));
        },
        &Stop::new(),
    ))
    .unwrap();
    assert_eq!(
        seen,
        [
            "asking: WAITING_FOR_MODEL, waiting, Started",
            "answered: WAITING_FOR_TOOLS, interrupted, Started",
            "call started: WAITING_FOR_TOOLS, interrupted, Started CallRunning CallRunning",
            "call started: WAITING_FOR_TOOLS, interrupted, Started CallRunning CallRunning",
            "call ended: WAITING_FOR_TOOLS, interrupted, Started CallRunning CallRunning",
            "call ended: WAITING_FOR_MODEL, waiting, Started CallRunning CallRunning",
            "asking: WAITING_FOR_MODEL, waiting, Started CallRunning CallRunning Started",
            "answered: COMPLETE, ready, Started CallRunning CallRunning Started Ended",
            "ended: COMPLETE, ready, Started CallRunning CallRunning Started Ended",
        ]
    );
}

/// The mark that an entry sets, if it is one.
fn mark(entry: &Entry) -> Option<String> {
    match Content::of(entry) {
        Content::Turn(turn) => Some(format!("{:?}", turn.state)),
        _ => None,
    }
}

/// S3-12: when an event arrives, its entries can already be read from the files of the store.
#[test]
fn what_is_told_is_stored_already() {
    for kind in ["sqlite", "jsonl"] {
        let folder = tempfile::tempdir().unwrap();
        let location: rejoin_store::Location =
            format!("{kind}:{}/chats", folder.path().display()).parse().unwrap();
        let open = |access| rejoin_engine::open_store(&location, access).unwrap();
        let store: Arc<dyn Store> = Arc::from(open(rejoin_store::Access::Write));
        let conversation = Conversation::create_with_clock(store, clock(), &New::default(), "test");
        let provider = Arc::new(ScriptedProvider::new([
            Step::calls(vec![call("a", r#"{"slow":1}"#), call("b", "{}")]),
            Step::says("Done."),
        ]));
        let mut worker = Worker::new(conversation, provider, echo().1, TurnSettings::default());
        let id = worker.conversation().id();
        let (mut looked, mut calls) = (0, 0);
        run(worker.turn(
            "go".into(),
            &mut |event| {
                // Someone else, who knows nothing but the files.
                let entries = stored(&*open(rejoin_store::Access::Read), id);
                let last = entries.last().map(Content::of);
                let last_mark = entries.last().and_then(mark);
                match &event {
                    Event::Started { .. } => assert!(matches!(last, Some(Content::Context(_))), "{kind}"),
                    Event::Asking { .. } => assert_eq!(last_mark.as_deref(), Some("Started"), "{kind}"),
                    Event::Answered { entry, .. } => {
                        // The end of the turn is stored with the last answer.
                        let answers =
                            entries.iter().rev().filter(|entry| mark(entry).as_deref() != Some("Ended"));
                        assert_eq!(answers.map(Entry::id).next(), Some(*entry), "{kind}");
                    }
                    Event::CallStarted { .. } => {
                        calls += 1;
                        let running = entries.iter().filter_map(mark).filter(|mark| mark == "CallRunning");
                        assert!(running.count() >= calls, "{kind}");
                    }
                    Event::CallEnded { id, .. } => {
                        let Some(Content::Message(message)) = last else { panic!("{kind}: {last:?}") };
                        assert_eq!(message.tool_call_id().map(|id| id.as_str()), Some(id.as_str()), "{kind}");
                    }
                    Event::Ended { .. } => assert_eq!(last_mark.as_deref(), Some("Ended"), "{kind}"),
                    _ => return,
                }
                looked += 1;
            },
            &Stop::new(),
        ))
        .unwrap();
        assert_eq!(looked, 10, "{kind}: started, 2 requests, 2 answers, 2 calls, 2 results, ended");
    }
}

fn entries_of(store: &Memory, worker: &Worker, kind: &Kind) -> Vec<Entry> {
    let all = stored(store, worker.conversation().id());
    all.into_iter().filter(|entry| entry.envelope().kind == *kind).collect()
}

/// S1-14, S1-15: the message that asks is known when its calls run: each call is recorded as running under it, before it
/// runs, and its result follows.
#[test]
fn calls_run_under_their_message() {
    let store = store();
    let provider = Arc::new(ScriptedProvider::new(two_calls()));
    let mut worker = Worker::new(begin(&store), provider.clone(), echo().1, TurnSettings::default());
    run(worker.turn("go".into(), &mut |_| {}, &Stop::new())).unwrap();
    let asking = entries_of(&store, &worker, &Kind::Message)[1].id();
    let running: Vec<CallAt> = entries_of(&store, &worker, &Kind::Turn)
        .iter()
        .filter_map(|entry| if let Content::Turn(turn) = Content::of(entry) { turn.call } else { None })
        .collect();
    assert_eq!(running, [CallAt { entry: asking, block: 0 }, CallAt { entry: asking, block: 1 }]);
    // The results were sent in the same turn, once each.
    assert_eq!(sketch(&provider.last_messages()), ["user", "assistant", "tool:a", "tool:b"]);
    assert_eq!(worker.conversation().find_tool_results_for_call("a").len(), 1);
}

/// B48: every call gets a result in the store: its own, an error, a refusal, or a note that it was stopped.
#[test]
fn every_stored_call_has_a_result() {
    let store = store();
    let calls = vec![
        call("fine", "{}"),
        call("fails", r#"{"fails":1}"#),
        call("broken", r#"{"half":"#),
        ToolCall::new("unknown", "nobody", "{}"),
        call("hangs", r#"{"never":1}"#),
    ];
    let provider = Arc::new(ScriptedProvider::new([Step::calls(calls)]));
    let (tool, tools) = echo();
    let mut worker = Worker::new(begin(&store), provider, tools, TurnSettings::default());
    let stop = Stop::new();
    let stopping = stop.clone();
    let mut ended = 0;
    let turned = run(worker.turn(
        "go".into(),
        &mut |event| {
            ended += usize::from(matches!(event, Event::CallEnded { .. }));
            if ended == 4 {
                stopping.stop();
            }
        },
        &stop,
    ))
    .unwrap();
    assert_eq!(turned.ending, Ending::Interrupted);
    assert_eq!(tool.runs.load(Ordering::SeqCst), 3, "what has no arguments or no tool does not run");
    let results: Vec<ToolResult> = entries_of(&store, &worker, &Kind::Message)
        .iter()
        .filter_map(
            |entry| if let Content::Message(message) = Content::of(entry) { Some(message) } else { None },
        )
        .flat_map(|message| message.tool_results().cloned().collect::<Vec<_>>())
        .collect();
    let mut answered: Vec<(&str, bool)> =
        results.iter().map(|result| (result.call_id.as_ref().unwrap().as_str(), result.is_error)).collect();
    answered.sort_unstable();
    let expected = [("broken", true), ("fails", true), ("fine", false), ("hangs", true), ("unknown", true)];
    assert_eq!(answered, expected);
    assert_verifies(&*store, worker.conversation().id());
    // The audit tells them apart.
    let recorded =
        rejoin_engine::read(&*store, worker.conversation().id(), rejoin_engine::Mode::Strict).unwrap();
    let audited = rejoin_engine::calls::calls(&recorded, &rejoin_engine::CallKey([7; 32]));
    let audited: Vec<String> = audited
        .iter()
        .map(|call| {
            let kind = call.error_kind.map_or("", rejoin_engine::CallErrorKind::name);
            format!("{} {} {kind}", call.call_id, call.status.name()).trim_end().to_owned()
        })
        .collect();
    let expected = [
        "fine completed",
        "fails failed tool-error",
        "broken failed invalid-arguments",
        "unknown failed unknown-tool",
        "hangs interrupted stopped",
    ];
    assert_eq!(audited, expected);
}

/// S2-48: calls without a result are run again if that is wanted, once, and a person can stop them.
#[test]
fn calls_are_run_again_and_can_be_stopped() {
    for stopped in [false, true] {
        let store = store();
        let (mut conversation, _) = calling(&store, &[]);
        let arguments = if stopped { r#"{"never":1}"# } else { "{}" };
        conversation.say(Message::assistant_with_tools(vec![call("a", arguments)]));
        let provider = Arc::new(ScriptedProvider::new([Step::says("Done.")]));
        let (tool, tools) = echo();
        let settings = TurnSettings { on_broken: OnBroken::Rerun, ..TurnSettings::default() };
        let mut worker = Worker::new(conversation, provider.clone(), tools, settings);
        let stop = Stop::new();
        let stopping = stop.clone();
        let turned = run(async {
            let mut sink = |event| {
                if stopped && matches!(event, Event::CallStarted { .. }) {
                    stopping.stop();
                }
            };
            let turn = worker.turn(TurnInput::from("and?"), &mut sink, &stop);
            tokio::time::timeout(std::time::Duration::from_secs(10), turn).await
        });
        let turned = turned.expect("a person can stop what is run again").unwrap();
        assert_eq!(tool.runs.load(Ordering::SeqCst), 1);
        assert_eq!(worker.conversation().find_tool_results_for_call("a").len(), 1, "one result");
        if stopped {
            assert_eq!(turned.ending, Ending::Interrupted);
            assert!(provider.requests().is_empty());
        } else {
            assert_eq!(turned.response, "Done.");
            assert_paired(&provider.last_messages());
            assert_eq!(provider.last_messages().last(), Some(&Message::user("and?")));
        }
    }
}

/// A turn that was stopped before it began records the message and sends no request.
#[test]
fn stopped_before_it_began() {
    let store = store();
    let provider = Arc::new(ScriptedProvider::new([Step::says("Done.")]));
    let mut worker = Worker::new(begin(&store), provider.clone(), echo().1, TurnSettings::default());
    let stop = Stop::new();
    stop.stop();
    let turned = run(worker.turn("go".into(), &mut |_| {}, &stop)).unwrap();
    assert_eq!((turned.ending, turned.messages.len()), (Ending::Interrupted, 1));
    assert!(provider.requests().is_empty());
    assert_eq!(worker.conversation().state(), SessionState::Interrupted);
}

/// S4-13, S4-14, S4-19, S4-21: a follow-up carries the calls and results of the turn before, rebuilt in the provider's form.
#[test]
fn a_follow_up_carries_the_calls_before_it() {
    for dialect in [Dialect::OpenAiChat, Dialect::Anthropic] {
        let store = store();
        let script = [
            Step::says_and_calls("Let me see.", vec![call("call_a", r#"{"n": 1.0}"#), call("call_b", "{}")]),
            Step::says("Done."),
            Step::says("As I said."),
        ];
        let first = Arc::new(ScriptedProvider::new(script).speaking(dialect).named("p", "m"));
        let mut worker = Worker::new(begin(&store), first.clone(), echo().1, TurnSettings::default());
        run(worker.turn("go".into(), &mut |_| {}, &Stop::new())).unwrap();
        // The conversation is read again, as after a restart.
        let id = worker.conversation().id();
        drop(worker);
        let conversation = Conversation::open_with_clock(store.clone(), clock(), id, "test").unwrap();
        let mut worker = Worker::new(conversation, first.clone(), echo().1, TurnSettings::default());
        run(worker.turn("what was it?".into(), &mut |_| {}, &Stop::new())).unwrap();
        let body = first.last_body().unwrap();
        assert_eq!(testkit::refusals(dialect, body.as_bytes()), [], "{body}");
        let json: serde_json::Value = serde_json::from_str(&body).unwrap();
        let messages = json["messages"].as_array().unwrap();
        let roles: Vec<&str> = messages.iter().map(|message| message["role"].as_str().unwrap()).collect();
        if dialect == Dialect::OpenAiChat {
            assert_eq!(roles, ["user", "assistant", "tool", "tool", "assistant", "user"]);
            let calls = messages[1]["tool_calls"].as_array().unwrap();
            assert_eq!(
                (calls.len(), &calls[0]["id"], &calls[0]["type"]),
                (2, &"call_a".into(), &"function".into())
            );
            assert_eq!(calls[0]["function"]["arguments"], r#"{"n": 1.0}"#, "exactly as the model wrote it");
            assert_eq!(
                (&messages[2]["tool_call_id"], &messages[3]["tool_call_id"]),
                (&"call_a".into(), &"call_b".into())
            );
            assert_eq!(messages[2]["content"], r#"{"n": 1.0}"#);
        } else {
            assert_eq!(roles, ["user", "assistant", "user", "assistant", "user"]);
            let blocks = messages[1]["content"].as_array().unwrap();
            let kinds: Vec<&str> = blocks.iter().map(|block| block["type"].as_str().unwrap()).collect();
            assert_eq!(kinds, ["text", "tool_use", "tool_use"]);
            assert!(body.contains(r#""input":{"n": 1.0}"#), "{body}");
            let results = messages[2]["content"].as_array().unwrap();
            let ids: Vec<&str> = results.iter().map(|block| block["tool_use_id"].as_str().unwrap()).collect();
            assert_eq!(ids, ["call_a", "call_b"], "in one user message, each with its id");
        }
        assert_verifies(&*store, id);
    }
}

/// A conversation in which the third and the first of three calls came back before the process was killed.
fn killed_with_two_results(store: &Arc<Memory>, [third, first]: [&str; 2]) -> (ConversationId, EntryId) {
    let (mut conversation, parent) = calling(store, &["a", "b", "c"]);
    conversation.add_tool_message(parent, "c", third).unwrap();
    conversation.add_tool_message(parent, "a", first).unwrap();
    (conversation.id(), parent)
}

/// S4-21, S2-34: two of three parallel calls came back before the process was killed: the follow-up has what ran, and says of
/// the third that nothing is known; nothing runs again.
#[test]
fn a_follow_up_after_a_kill() {
    let store = store();
    let (id, parent) = killed_with_two_results(&store, ["3", "1"]);
    let conversation = Conversation::open_with_clock(store.clone(), clock(), id, "test").unwrap();
    assert_eq!(conversation.state(), SessionState::WaitingForTools);
    let provider = Arc::new(ScriptedProvider::new([Step::says("Fine.")]).speaking(Dialect::Anthropic));
    let (tool, tools) = echo();
    let mut worker = Worker::new(conversation, provider.clone(), tools, TurnSettings::default());
    run(worker.turn("on".into(), &mut |_| {}, &Stop::new())).unwrap();
    assert_eq!(tool.runs.load(Ordering::SeqCst), 0);
    let sent = provider.last_messages();
    assert_eq!(sketch(&sent), ["user", "assistant", "tool:a", "tool:b", "tool:c", "user"]);
    assert!(sent[3].content().unwrap().contains("no result was recorded"));
    // A result that arrives now is too late for that call, because the model was already told. It is kept nevertheless.
    let mut conversation = worker.into_conversation();
    conversation.add_tool_message(parent, "b", "2, at last").unwrap();
    let request = conversation.current_path_as_llm_request_messages();
    assert_paired(&request);
    assert!(request.iter().any(|m| m.role == Role::User && m.content().unwrap().contains("2, at last")));
    assert_eq!(request[..5], sent[..5], "what was sent stays what it was");
    assert!(store.tail(id).unwrap().is_some());
}

/// S2-34: two of three parallel calls came back before a crash. With `drop` the whole batch is left out, calls and results, and
/// it stays out: later requests, under any setting and in another process, begin with the bytes that were sent before.
#[test]
fn a_batch_that_was_dropped_stays_dropped() {
    for later in [OnBroken::Keep, OnBroken::Drop, OnBroken::Rerun, OnBroken::Refuse] {
        let store = store();
        let (id, parent) = killed_with_two_results(&store, ["third result", "first result"]);
        let (tool, tools) = echo();
        let turn = |on_broken, text: &str| {
            let conversation = Conversation::open_with_clock(store.clone(), clock(), id, "test").unwrap();
            let provider = ScriptedProvider::new([Step::says("Fine.")]).speaking(Dialect::Anthropic);
            let provider = Arc::new(provider);
            let settings = TurnSettings { on_broken, ..TurnSettings::default() };
            let mut worker = Worker::new(conversation, provider.clone(), tools.clone(), settings);
            run(worker.turn(text.into(), &mut |_| {}, &Stop::new())).unwrap();
            provider.last_messages()
        };
        let first = turn(OnBroken::Drop, "on");
        assert_eq!(sketch(&first), ["user", "user"], "nothing of the batch is sent");
        let second = turn(later, "and on");
        assert_eq!(sketch(&second), ["user", "user", "assistant", "user"], "{later:?}");
        assert_eq!(second[..2], first, "{later:?}");
        assert_eq!(tool.runs.load(Ordering::SeqCst), 0, "{later:?}: what was left out does not run");
        // A result that arrives too late is kept as a result without a call.
        let mut conversation = Conversation::open_with_clock(store.clone(), clock(), id, "test").unwrap();
        conversation.add_tool_message(parent, "b", "too late").unwrap();
        let request = conversation.current_path_as_llm_request_messages();
        assert_paired(&request);
        let texts: String = request.iter().filter_map(Message::content).collect();
        assert!(texts.contains("too late") && !texts.contains("result\n"), "{texts}");
        assert!(!texts.contains("first result") && !texts.contains("third result"), "{texts}");
        assert_verifies(&*store, id);
    }
}

/// S2-34, S2-08: with `drop`, if two of a batch of three calls have results, the next turn's request leaves the whole batch out.
/// The model's text in that message stays, and so does everything in the record.
#[test]
fn a_turn_that_drops_leaves_a_broken_batch_out() {
    for on_broken in [OnBroken::Drop, OnBroken::Keep] {
        let store = store();
        let mut conversation = begin(&store);
        conversation.say(Message::user("go"));
        let mut asking =
            Message::assistant_with_tools(["a", "b", "c"].into_iter().map(|id| call(id, "{}")).collect());
        asking.blocks.insert(0, Block::text("Three things."));
        let parent = conversation.say(asking).entry.id();
        conversation.add_tool_message(parent, "c", "3").unwrap();
        conversation.add_tool_message(parent, "a", "1").unwrap();
        let id = conversation.id();
        drop(conversation);
        let conversation = Conversation::open_with_clock(store.clone(), clock(), id, "test").unwrap();
        let provider = Arc::new(ScriptedProvider::new([Step::says("Fine.")]).speaking(Dialect::Anthropic));
        let (tool, tools) = echo();
        let settings = TurnSettings { on_broken, ..TurnSettings::default() };
        let mut worker = Worker::new(conversation, provider.clone(), tools, settings);
        run(worker.turn("on".into(), &mut |_| {}, &Stop::new())).unwrap();
        assert_eq!(tool.runs.load(Ordering::SeqCst), 0, "nothing runs again");
        let sent = provider.last_messages();
        assert_paired(&sent);
        let calls: usize = sent.iter().map(|message| message.tool_calls().count()).sum();
        if on_broken == OnBroken::Drop {
            assert_eq!(sketch(&sent), ["user", "assistant", "user"]);
            assert_eq!((calls, sent[1].content().as_deref()), (0, Some("Three things.")));
        } else {
            assert_eq!(calls, 3, "without `drop` they stay");
        }
        let kept = stored(&*store, id).iter().filter(|entry| entry.envelope().kind == Kind::Message).count();
        assert_eq!(kept, 6, "go, three calls, two results, on, Fine.");
    }
}

/// A message is parsed from its entry only once: the request of an opened conversation uses the very messages of its session, not
/// copies. Later messages are parsed from their entries, as they will be when it is opened again.
#[test]
fn what_was_read_is_not_read_again() {
    let store = store();
    let (mut conversation, parent) = calling(&store, &["a"]);
    conversation.add_tool_message(parent, "a", "4").unwrap();
    let id = conversation.id();
    drop(conversation);
    let conversation = Conversation::open_with_clock(store, clock(), id, "test").unwrap();
    let read: Vec<Arc<Message>> = conversation.messages().to_vec();
    let provider = Arc::new(ScriptedProvider::new([Step::says("done")]).speaking(Dialect::Anthropic));
    let mut worker = Worker::new(conversation, provider.clone(), echo().1, TurnSettings::default());
    run(worker.turn(TurnInput::from("and now?"), &mut |_| {}, &Stop::new())).unwrap();
    let request = provider.requests().remove(0);
    let shown: Vec<&Arc<Message>> = request.view.items().map(|item| item.message()).collect();
    // The result is next to its call.
    assert!(Arc::ptr_eq(shown[0], &read[0]) && Arc::ptr_eq(shown[1], &read[1]), "{shown:?}");
    assert_eq!(shown.len(), 3);
    assert_eq!(shown[2].content().as_deref(), Some("and now?"));
}

/// Appending does not change the findings of reading, and nothing is read again for them.
#[test]
fn findings_outlive_appends() {
    let store = support::Fragile::new();
    let mut conversation = Conversation::create_with_clock(store.clone(), clock(), &New::default(), "test");
    for text in ["one", "two", "three"] {
        conversation.say(Message::user(text));
    }
    let id = conversation.id();
    drop(conversation);
    store.damaged.lock().unwrap().insert(2, false);
    let mut conversation = Conversation::open_with_clock(store, clock(), id, "test").unwrap();
    let before = conversation.findings().to_vec();
    assert!(!before.is_empty());
    conversation.append(&Content::Turn(Turn::new(TurnState::Started, None)));
    conversation.say(Message::user("four"));
    assert_eq!(conversation.findings(), before);
    assert_eq!(
        conversation.session().findings,
        before,
        "reading the whole conversation gives the same findings"
    );
}

/// An image that a tool returns is in the record, in the result of its call, after the text.
#[test]
fn an_image_is_part_of_its_result() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("dot.png"), b"\x89PNG\r\n\x1a\n").unwrap();
    let provider = Arc::new(ScriptedProvider::new([
        Step::calls(vec![ToolCall::new("a", "read_file", r#"{"path":"dot.png"}"#)]),
        Step::says("Done."),
    ]));
    let store = store();
    let tools = rejoin_engine::tools::Tools::builtin(folder.path());
    let mut worker = Worker::new(begin(&store), provider, tools, TurnSettings::default());
    let id = worker.conversation().id();
    run(worker.turn("go".into(), &mut |_| {}, &Stop::new())).unwrap();
    drop(worker);
    let conversation = Conversation::open_with_clock(store, clock(), id, "test").unwrap();
    let message = conversation.messages().iter().find(|message| message.role == Role::Tool).unwrap();
    let result = message.blocks[0].as_result().unwrap();
    assert_eq!(result.form, Form::Parts);
    assert_eq!(result.content[0].as_text().unwrap().as_str(), "[`dot.png`: image/png, 8 bytes]");
    let rejoin_record::BlockKind::Image(media) = &result.content[1].kind else { panic!("{result:?}") };
    assert_eq!(media.source, rejoin_record::MediaSource::Base64(Text::new("iVBORw0KGgo=")));
}
