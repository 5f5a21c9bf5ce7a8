//! The audit of tool calls.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

mod support;

use rejoin_engine::{
    CallErrorKind, CallKey, CallRecord, CallStatus, Conversation, Mode, New, calls::calls, read,
};
use rejoin_record::{
    Arguments, Block, Chain, Content, EntryId, Form, Kind, Message, Raw, Role, ToolCall, ToolResult,
    content::{
        Branch, CallAt, Change, ChangeState, Closed, ClosedCall, Decision, RecordedContext, Turn, TurnState,
    },
};
use rejoin_store::{Store, memory::Memory};
use std::sync::Arc;
use support::{clock, session, writer};

const KEY: CallKey = CallKey([7; 32]);

fn conversation() -> Conversation {
    let store = Arc::new(Memory::new(rejoin_engine::digest));
    Conversation::create_with_clock(store, clock(), &New::default(), "test")
}

fn audit(conversation: &Conversation) -> Vec<CallRecord> {
    let store = Memory::new(rejoin_engine::digest);
    store.append(conversation.id(), None, conversation.entries()).unwrap();
    calls(&read(&store, conversation.id(), Mode::Recover).unwrap(), &KEY)
}

fn failed(id: &str, text: &str) -> Message {
    let result = ToolResult { is_error: true, ..ToolResult::new(id, text) };
    Message { role: Role::Tool, blocks: vec![Block::result(result)], form: Form::Text, native: None }
}

/// S1-26, S1-33: a call is requested, then completed or failed; when it ran and how long it took is known.
#[test]
fn from_requested_to_completed() {
    let mut conversation = conversation();
    conversation.say(Message::user("go"));
    let calls = vec![ToolCall::new("c1", "read", "{\"path\":\"a\"}"), ToolCall::new("c2", "run", "{}")];
    let asked = conversation.say(Message::assistant_with_tools(calls)).entry;
    let all = audit(&conversation);
    assert_eq!(all.iter().map(|call| call.status).collect::<Vec<_>>(), [CallStatus::Requested; 2]);
    assert!(all.iter().all(|call| call.request == asked.id() && call.times.ended.is_none()));
    assert_eq!(all[0].times.latency_ms(), None);
    assert_eq!(all[0].times.started, Some(asked.envelope().timestamp));

    let call = CallAt { entry: asked.id(), block: 1 };
    let turn = Turn::new(TurnState::CallRunning, Some(call));
    let running = conversation.append(&Content::Turn(turn)).entry;
    assert_eq!(states(&conversation), [(CallStatus::Requested, None), (CallStatus::Running, None)]);
    let ended = conversation.say(Message::tool("c2", "ok")).entry;
    conversation.say(failed("c1", "no such file"));
    let all = audit(&conversation);
    assert_eq!(
        (all[0].status, all[0].error.as_deref(), all[0].outcome.as_deref()),
        (CallStatus::Failed, Some("no such file"), None)
    );
    assert_eq!(
        (all[1].status, all[1].outcome.as_deref(), all[1].error.as_deref()),
        (CallStatus::Completed, Some("ok"), None)
    );
    assert_eq!(
        (all[1].times.started, all[1].times.ended),
        (Some(running.envelope().timestamp), Some(ended.envelope().timestamp))
    );
    let took = ended.envelope().timestamp.as_millisecond() - running.envelope().timestamp.as_millisecond();
    assert_eq!(all[1].times.latency_ms(), Some(took));
    assert!(took > 0);
    assert_eq!((all[0].tool.as_str(), all[0].arguments.as_str()), ("read", "{\"path\":\"a\"}"));
}

fn states(conversation: &Conversation) -> Vec<(CallStatus, Option<CallErrorKind>)> {
    audit(conversation).iter().map(|call| (call.status, call.error_kind)).collect()
}

/// A turn of rejoin that asks for these calls, with `run` as the only tool.
fn asked(conversation: &mut Conversation, calls: Vec<ToolCall>) -> EntryId {
    let tools = Some(Raw::new(r#"[{"name":"run","input_schema":{}}]"#));
    conversation.append(&Content::Context(RecordedContext { tools, ..RecordedContext::default() }));
    conversation.say(Message::user("go"));
    turn(conversation, TurnState::Started, None);
    conversation.say(Message::assistant_with_tools(calls)).entry.id()
}

fn turn(conversation: &mut Conversation, state: TurnState, call: Option<(EntryId, u64)>) {
    let call = call.map(|(entry, block)| CallAt { entry, block });
    conversation.append(&Content::Turn(Turn::new(state, call)));
}

/// S1-33: a call that was stopped, or whose process was killed, is interrupted; a later request settles it.
#[test]
fn interrupted_calls() {
    let run = |id: &str| ToolCall::new(id, "run", "{}");
    let stopped = (CallStatus::Interrupted, Some(CallErrorKind::Stopped));
    let mut conversation = conversation();
    let entry = asked(&mut conversation, vec![run("c1"), run("c2"), run("c3"), run("c4")]);
    for block in 0..3 {
        turn(&mut conversation, TurnState::CallRunning, Some((entry, block)));
    }
    // The first failed by itself; the second was stopped, and its result says so; the third has no result; the fourth never ran.
    conversation.say(failed("c1", "no such file"));
    turn(&mut conversation, TurnState::Interrupted, Some((entry, 1)));
    conversation.say(failed("c2", "it was stopped"));
    turn(&mut conversation, TurnState::Interrupted, None);
    let failure = (CallStatus::Failed, Some(CallErrorKind::ToolError));
    let requested = (CallStatus::Requested, None);
    assert_eq!(states(&conversation), [failure, stopped, stopped, requested]);
    assert_eq!(audit(&conversation)[1].error.as_deref(), Some("it was stopped"));
    assert!(audit(&conversation)[1].times.ended.is_some() && audit(&conversation)[2].times.ended.is_none());

    // A killed process records nothing. The next request's decision about the call is final, unless the call runs again.
    let entry = asked(&mut conversation, vec![run("d1"), run("d2"), run("d3")]);
    for block in 0..2 {
        turn(&mut conversation, TurnState::CallRunning, Some((entry, block)));
    }
    let running = (CallStatus::Running, None);
    assert_eq!(states(&conversation)[4..], [running, running, requested]);
    let close = |conversation: &mut Conversation, decisions: &[(u64, Decision)]| {
        let calls = decisions.iter().map(|(block, decision)| ClosedCall {
            entry,
            block: *block,
            decision: *decision,
        });
        conversation.append(&Content::Closed(Closed { calls: calls.collect() }));
    };
    close(&mut conversation, &[(0, Decision::Interrupted), (1, Decision::Rerun), (2, Decision::LeftOut)]);
    let no_result = (CallStatus::Interrupted, Some(CallErrorKind::NoResult));
    assert_eq!(states(&conversation)[4..], [no_result, requested, requested]);
    turn(&mut conversation, TurnState::CallRunning, Some((entry, 1)));
    assert_eq!(states(&conversation)[5], running);
    conversation.say(Message::tool("d2", "done"));
    turn(&mut conversation, TurnState::Interrupted, None);
    assert_eq!(states(&conversation)[4..], [no_result, (CallStatus::Completed, None), requested]);
}

/// S1-33: the reason why a call failed comes from the record, not from the words of its result.
#[test]
fn kinds_of_errors() {
    let mut conversation = conversation();
    let calls = vec![
        ToolCall::new("c1", "run", "{}"),
        ToolCall::new("c2", "fly", "{}"),
        ToolCall::new("c3", "run", "[1]"),
        ToolCall::new("c4", "run", "{}"),
        ToolCall::new("c5", "run", "{}"),
    ];
    let entry = asked(&mut conversation, calls);
    conversation.append(&Content::Change(Change::new(ChangeState::Denied, CallAt { entry, block: 0 })));
    turn(&mut conversation, TurnState::CallRunning, Some((entry, 4)));
    for id in ["c1", "c2", "c3", "c4", "c5"] {
        conversation.say(failed(id, "no"));
    }
    let kinds: Vec<_> = states(&conversation)
        .into_iter()
        .map(|(status, kind)| {
            assert_eq!(status, CallStatus::Failed);
            kind.unwrap().name()
        })
        .collect();
    assert_eq!(kinds, ["denied", "unknown-tool", "invalid-arguments", "not-run", "tool-error"]);
    // A message that no turn asked for: nothing is known of when its calls ran.
    conversation.say(Message::assistant_with_tools(vec![ToolCall::new("c6", "fly", "{}")]));
    conversation.say(failed("c6", "no"));
    assert_eq!(states(&conversation)[5], (CallStatus::Failed, Some(CallErrorKind::ToolError)));
    // A result that is no error settles it.
    conversation.say(Message::tool("c4", "after all"));
    assert_eq!(states(&conversation)[3], (CallStatus::Completed, None));
}

/// S1-33: a completed call never becomes a failed one. An id that a later message uses again is another call.
#[test]
fn completed_stays_completed() {
    let mut conversation = conversation();
    conversation.say(Message::assistant_with_tools(vec![ToolCall::new("c1", "run", "{}")]));
    conversation.say(Message::tool("c1", "ok"));
    conversation.say(failed("c1", "too late"));
    let all = audit(&conversation);
    assert_eq!(all.len(), 1);
    assert_eq!(
        (all[0].status, all[0].outcome.as_deref(), all[0].error.as_deref()),
        (CallStatus::Completed, Some("ok"), None)
    );
    // The same id in a later message is another call.
    conversation.say(Message::assistant_with_tools(vec![ToolCall::new("c1", "run", "{}")]));
    conversation.say(failed("c1", "broken"));
    conversation.say(Message::tool("c1", "mended"));
    let all = audit(&conversation);
    assert_eq!(all.len(), 2);
    assert_eq!((all[0].outcome.as_deref(), all[1].outcome.as_deref()), (Some("ok"), Some("mended")));
    assert_eq!(all[1].status, CallStatus::Completed, "what failed may be done in the end");
    // Orphans and results without an id belong to no call.
    conversation.say(Message::tool("c9", "x"));
    assert_eq!(audit(&conversation).len(), 2);
}

/// Two calls of one message are two, even under one id: each result answers the next of them.
#[test]
fn two_calls_under_one_id_are_two() {
    let mut conversation = conversation();
    let twice = vec![ToolCall::new("c1", "run", "{}"), ToolCall::new("c1", "run", "{}")];
    conversation.say(Message::assistant_with_tools(twice));
    conversation.say(Message::tool("c1", "one"));
    let outcomes = |conversation: &Conversation| -> Vec<Option<String>> {
        audit(conversation).into_iter().map(|call| call.outcome).collect()
    };
    assert_eq!(outcomes(&conversation), [Some(String::from("one")), None]);
    conversation.say(Message::tool("c1", "two"));
    assert_eq!(outcomes(&conversation), ["one", "two"].map(|text| Some(text.to_owned())));
}

/// S1-33: a result answers a call on its own branch.
#[test]
fn branches_do_not_answer_each_other() {
    let store = Arc::new(Memory::new(rejoin_engine::digest));
    let clock = clock();
    let mut conversation =
        Conversation::create_with_clock(store.clone(), clock.clone(), &New::default(), "test");
    let start = conversation.say(Message::user("go")).entry;
    let first = conversation.say(Message::assistant_with_tools(vec![ToolCall::new("c1", "run", "{}")])).entry;
    let id = conversation.id();
    drop(conversation);
    // Back at the start, the same id is used again.
    let tail = store.tail(id).unwrap();
    let mut chain = Chain::at(tail);
    let stamp = || rejoin_engine::clock::stamp(&*clock, None);
    let back = chain.append_under(
        Some((start.id(), start.hash())),
        Kind::Branch,
        &Content::Branch(Branch { reason: None }),
        stamp(),
    );
    store.append(id, tail, &[back]).unwrap();
    let mut conversation = Conversation::open_with_clock(store.clone(), clock, id, "test").unwrap();
    conversation.say(Message::tool("c1", "orphan here"));
    let second =
        conversation.say(Message::assistant_with_tools(vec![ToolCall::new("c1", "run", "{}")])).entry;
    conversation.say(Message::tool("c1", "ok"));
    let all = audit(&conversation);
    let status: Vec<_> = all.iter().map(|call| (call.request, call.status)).collect();
    assert_eq!(status, [(first.id(), CallStatus::Requested), (second.id(), CallStatus::Completed)]);
    assert_eq!(all[1].outcome.as_deref(), Some("ok"));
}

/// S1-27, B21: arguments are shown as a keyed hash of their canonical form.
#[test]
fn arguments_are_hashed_with_a_key() {
    let hash = |text: &str| KEY.hash(&Arguments::new(text));
    assert_eq!(hash("{\"a\":1,\"b\":[1, 2]}"), hash(" { \"b\" : [1,2], \"a\" : 1 }\n"));
    assert_eq!(hash(r#"{"a":"\u0041"}"#), hash(r#"{"a":"A"}"#));
    assert_ne!(hash("{\"a\":1}"), hash("{\"a\":1.0}"), "numbers are what was written");
    assert_ne!(hash("{\"a\":[1,2]}"), hash("{\"a\":[2,1]}"), "lists have an order");
    assert_ne!(hash("{\"a\":1,\"a\":2}"), hash("{\"a\":2,\"a\":1}"));
    assert_ne!(hash("{\"a\":"), hash("{\"a\": "), "what is no JSON is what it is");
    assert_ne!(hash("{}"), CallKey([8; 32]).hash(&Arguments::new("{}")));
    assert!(hash("{}").len() == 64 && hash("{}").bytes().all(|digit| digit.is_ascii_hexdigit()));
    // RFC 4231, test case 1: 20 bytes of 0b, filled up with zeros as the standard does by itself.
    let mut key = [0; 32];
    key[..20].fill(0x0b);
    assert_eq!(
        CallKey(key).hash(&Arguments::new("Hi There")),
        "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"
    );
}

/// Imported calls have the source's own times, or none.
#[test]
fn times_of_the_source() {
    let store = Memory::new(rejoin_engine::digest);
    let body = r#"{"timestamp":"2026-01-01T00:00:00Z","items":[{"type":"message","role":"user","content":"go"},{"type":"function_call","name":"run","arguments":"{}","call_id":"c1"}]}
{"timestamp":1767225605000,"items":[{"type":"function_call_output","call_id":"c1","output":"done"}]}
"#;
    let turns = session("x.jsonl", body);
    writer(&store, &*clock()).import(&turns).unwrap();
    let all = calls(&read(&store, turns.id, Mode::Recover).unwrap(), &KEY);
    assert_eq!(all.len(), 1);
    assert_eq!(all[0].times.latency_ms(), Some(5000));
    let chat = session(
        "x.json",
        r#"[{"role":"user","content":"go"},{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"run","arguments":"{}"}}]}]"#,
    );
    writer(&store, &*clock()).import(&chat).unwrap();
    let all = calls(&read(&store, chat.id, Mode::Recover).unwrap(), &KEY);
    assert_eq!((all.len(), all[0].times.started), (1, None));
}
