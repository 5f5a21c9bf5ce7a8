//! Edge cases of turns: answers that end too early, counts that are too large, turns that are dropped in the middle.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

mod support;
mod talk;

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use rejoin_engine::{
    Conversation, ConversationManager, New,
    provider::{
        BoxFuture, Endpoint, Listener, Provider, ProviderError, Request, SendProgress, Sending,
        scripted::{ScriptedAnswer, ScriptedProvider, Step},
    },
    tools::{Plan, RunningCall, Tool, ToolOutput, Tools},
    turn::{Ending, Event, Limits, OnBroken, Stop, TurnInput, TurnSettings, Worker},
};
use rejoin_formats::{
    context::ToolDeclaration,
    wire::stream::{Delta, End, Received, StopReason as Why, Usage},
};
use rejoin_record::{Content, Message, content::Decision};
use rejoin_store::memory::Memory;
use support::{Fragile, assert_verifies, clock, stored};
use talk::{assert_paired, call, echo, run};

fn begin() -> (Arc<Memory>, Conversation) {
    let store = Arc::new(Memory::new(rejoin_engine::digest));
    let conversation = Conversation::create_with_clock(store.clone(), clock(), &New::default(), "test");
    (store, conversation)
}

/// An answer that ends before the arguments of its last call: that call is kept but never run, and the model is told so. The calls
/// before it are complete.
#[test]
fn half_a_call_is_never_run() {
    for (arguments, why, runs) in [
        ("", Why::Length, 1),
        ("{}", Why::Length, 1),
        (" ", Why::Refused, 1),
        (r#"{"n":"#, Why::Length, 1),
        // Complete calls run, and an answer that ended normally is complete.
        (r#"{"n":2}"#, Why::Length, 2),
        ("", Why::Done, 2),
        ("{}", Why::Done, 2),
    ] {
        let (store, conversation) = begin();
        let calls = vec![call("a", "{}"), call("b", arguments)];
        let script = [Step::calls(calls).then_stops(why.clone()), Step::says("Done.")];
        let provider = Arc::new(ScriptedProvider::new(script));
        let (tool, tools) = echo();
        let mut worker = Worker::new(conversation, provider.clone(), tools, TurnSettings::default());
        let turned = run(worker.turn("go".into(), &mut |_| {}, &Stop::new())).unwrap();
        assert_eq!(turned.response, "Done.");
        assert_eq!(tool.runs.load(Ordering::SeqCst), runs, "{arguments:?} {why:?}");
        assert_eq!(worker.conversation().find_tool_results_for_call("b").len(), 1);
        let sent = provider.last_messages();
        assert_paired(&sent);
        let said = sent.last().unwrap().tool_results().next().unwrap();
        assert_eq!(said.is_error, runs == 1, "{arguments:?} {why:?}");
        assert_verifies(&*store, worker.conversation().id());
    }
}

/// A provider that counts without sense breaks nothing, and a limit still holds.
#[test]
fn no_count_is_too_large() {
    let usage = Some(Usage { input: u64::MAX, output: u64::MAX, cached: u64::MAX, reasoning: u64::MAX });
    let author = move |_: &_| {
        let message = Some(Message::assistant_with_tools(vec![call("a", "{}")]));
        let end = Some(End::Complete(Why::Done));
        Step::Answer(ScriptedAnswer { message, piece: usize::MAX, end, usage })
    };
    for limit in [None, Some(1_000)] {
        let (_, conversation) = begin();
        let provider = Arc::new(ScriptedProvider::answering(author));
        let limits = Limits { tokens: limit, requests: 3, ..Limits::default() };
        let settings = TurnSettings { limits, ..TurnSettings::default() };
        let mut worker = Worker::new(conversation, provider.clone(), echo().1, settings);
        let turned = run(worker.turn("go".into(), &mut |_| {}, &Stop::new())).unwrap();
        assert_eq!(turned.usage.input, u64::MAX);
        assert_eq!(provider.requests().len(), if limit.is_some() { 1 } else { 3 });
    }
}

/// A provider that pauses without any text does not get the same request again and again.
#[test]
fn a_pause_without_a_word_is_no_answer() {
    let (_, conversation) = begin();
    let author = |_: &_| {
        let end = Some(End::Complete(Why::Paused));
        Step::Answer(ScriptedAnswer { message: None, piece: usize::MAX, end, usage: None })
    };
    let provider = Arc::new(ScriptedProvider::answering(author));
    let mut worker = Worker::new(conversation, provider.clone(), echo().1, TurnSettings::default());
    let error = run(worker.turn("go".into(), &mut |_| {}, &Stop::new())).unwrap_err();
    assert_eq!((error.code(), provider.requests().len()), ("EMPTY_ANSWER", 1));
}

/// A turn that cannot begin tells nothing and leaves nothing.
#[test]
fn there_is_nothing_to_go_on_with() {
    let (store, conversation) = begin();
    let id = conversation.id();
    let before = stored(&*store, id).len();
    let provider = Arc::new(ScriptedProvider::new_default());
    let mut worker = Worker::new(conversation, provider, echo().1, TurnSettings::default());
    let mut told = Vec::new();
    let error = run(worker.turn(TurnInput::GoOn, &mut |event| told.push(event), &Stop::new())).unwrap_err();
    assert_eq!((error.code(), told.len()), ("NOTHING_TO_GO_ON_WITH", 0), "{told:?}");
    assert_eq!(stored(&*store, id).len(), before);
}

/// Durability: a call that never began is run again, and the turn is given up while it runs. From then on it has begun, so
/// no result may say that it never ran.
#[test]
fn what_is_given_up_while_it_runs_again_has_begun() {
    let (store, conversation) = begin();
    let answer = Step::calls(vec![call("a", r#"{"never":1}"#)]).cut();
    let provider = Arc::new(ScriptedProvider::new([answer, Step::says("I see.")]));
    let (tool, tools) = echo();
    let mut worker = Worker::new(conversation, provider.clone(), tools, TurnSettings::default());
    // The answer is cut: the call is kept and was not run.
    run(worker.turn("go".into(), &mut |_| {}, &Stop::new())).unwrap_err();
    assert_eq!((worker.unanswered().len(), tool.runs.load(Ordering::SeqCst)), (1, 0));
    worker.set_on_broken(OnBroken::Rerun);
    run(async {
        let (mut sink, stop) = (|_| {}, Stop::new());
        let turn = worker.turn(TurnInput::GoOn, &mut sink, &stop);
        assert!(tokio::time::timeout(Duration::from_millis(50), turn).await.is_err(), "it hangs");
    });
    assert_eq!(tool.runs.load(Ordering::SeqCst), 1);
    run(worker.turn("and?".into(), &mut |_| {}, &Stop::new())).unwrap();
    let entries = stored(&*store, worker.conversation().id());
    let decided = entries.iter().rev().find_map(|entry| match Content::of(entry) {
        Content::Closed(closed) => Some(closed.calls[0].decision),
        _ => None,
    });
    assert_eq!(decided, Some(Decision::Interrupted));
    let sent = provider.last_messages();
    assert_paired(&sent);
    assert!(sent.iter().any(|message| message.tool_call_id().is_some()), "the model is told: {sent:?}");
}

/// A tool that takes a moment, and counts how often it is polled meanwhile.
struct Moment(AtomicUsize);

impl Tool for Moment {
    fn declaration(&self) -> ToolDeclaration {
        echo().1.declarations().remove(0)
    }
    fn plan<'a>(&'a self, _arguments: &'a str) -> BoxFuture<'a, Result<Plan, ToolOutput>> {
        Plan::reads()
    }

    fn run<'a>(&'a self, _: RunningCall<'a>) -> BoxFuture<'a, ToolOutput> {
        let mut moment = Box::pin(tokio::time::sleep(Duration::from_millis(50)));
        Box::pin(std::future::poll_fn(move |context| {
            self.0.fetch_add(1, Ordering::SeqCst);
            moment.as_mut().poll(context).map(|()| ToolOutput::of("done"))
        }))
    }
}

/// Events that are not fetched do not keep the processor busy: a caller that waits for a turn sleeps.
#[test]
fn waiting_is_no_work() {
    let store = Fragile::new();
    let script = [Step::calls(vec![call("a", "{}")]), Step::says("Done.")];
    let tool = Arc::new(Moment(AtomicUsize::new(0)));
    let mut tools = Tools::default();
    tools.add(tool.clone());
    let manager = ConversationManager::with_provider(store.clone(), Arc::new(ScriptedProvider::new(script)))
        .with_tools(tools);
    let conversation = manager.new_conversation(New::default()).unwrap();
    // An event says that nothing can be saved, and is not fetched.
    store.full.store(true, Ordering::Relaxed);
    run(conversation.process_message("go")).unwrap();
    let looks = tool.0.load(Ordering::SeqCst);
    assert!(looks < 20, "it was looked at {looks} times");
    assert!(matches!(run(conversation.next_event()), Event::NotSaved(_)));
}

/// Says something, and ends when it is polled again: with an answer, or with an error that the trait forbids.
struct Odd {
    endpoint: Endpoint,
    answer: Option<Message>,
}

impl Provider for Odd {
    fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }
    fn send<'a>(&'a self, _: &'a Request, listener: Listener<'a>) -> Sending<'a> {
        Box::pin(async move {
            listener(SendProgress::Delta(Delta::Text(String::from("Half a word"))));
            tokio::task::yield_now().await;
            let message = Some(self.answer.clone().ok_or(ProviderError::Cut)?);
            Ok(Received { message, end: End::Complete(Why::Done), model: None, usage: None })
        })
    }
}

/// The provider's text is always recorded: the part before an error, and the whole if it is complete when the turn is stopped.
#[test]
fn what_was_said_is_kept() {
    let calls = Message::assistant_with_tools(vec![call("a", "{}")]);
    for answer in [None, Some(calls)] {
        let (store, conversation) = begin();
        let id = conversation.id();
        let provider = Arc::new(Odd { endpoint: Endpoint::default(), answer: answer.clone() });
        let (tool, tools) = echo();
        let mut worker = Worker::new(conversation, provider, tools, TurnSettings::default());
        let stop = Stop::new();
        let mut sink = |event| {
            if answer.is_some() && matches!(event, Event::Text(_)) {
                stop.stop();
            }
        };
        let turned = run(worker.turn("go".into(), &mut sink, &stop));
        let said = worker.conversation().messages()[1].clone();
        match &answer {
            None => assert_eq!((turned.is_err(), said.content().as_deref()), (true, Some("Half a word"))),
            Some(answer) => {
                assert_eq!((turned.unwrap().ending, &*said), (Ending::Interrupted, answer));
                assert_eq!(worker.conversation().find_tool_results_for_call("a").len(), 1);
            }
        }
        assert_eq!(tool.runs.load(Ordering::SeqCst), 0);
        assert_verifies(&*store, id);
    }
}
