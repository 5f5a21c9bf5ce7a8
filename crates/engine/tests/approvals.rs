//! Which calls run: modes, rules, answers, and what is recorded about each.

#![allow(clippy::unwrap_used, reason = "a test may")]

mod talk;

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use rejoin_engine::{
    Conversation, New,
    approval::{ApprovalAnswer, ApprovalMode, ApprovalRequest, Approvals, Approve, DenyAll, Replies, Rules},
    digest,
    provider::{
        BoxFuture,
        scripted::{ScriptedProvider, Step},
    },
    serde_json::json,
    tools::{Delegate, FunctionTool, Tools, WriteFile},
    turn::{Ending, Event, Limits, Stop, TurnInput, TurnSettings, Worker},
};
use rejoin_record::{
    Content, Kind, ToolCall,
    content::{Change, ChangeState, Confidence, TurnState},
};
use rejoin_store::{SessionState, Store, memory::Memory};
use talk::{assert_paired, run};

/// Answers from a list, and records the questions.
#[derive(Default)]
struct Person {
    answers: Mutex<Vec<ApprovalAnswer>>,
    asked: Mutex<Vec<ApprovalRequest>>,
}

impl Person {
    fn saying(answers: &[ApprovalAnswer]) -> Arc<Self> {
        Arc::new(Self { answers: Mutex::new(answers.to_vec()), asked: Mutex::default() })
    }

    fn asked(&self) -> usize {
        self.asked.lock().unwrap().len()
    }
}

impl Approve for Person {
    fn answer<'a>(&'a self, request: &'a ApprovalRequest) -> BoxFuture<'a, ApprovalAnswer> {
        self.asked.lock().unwrap().push(request.clone());
        let mut answers = self.answers.lock().unwrap();
        match answers.is_empty() {
            // The process is killed while it waits.
            true => Box::pin(std::future::pending()),
            false => Box::pin(std::future::ready(answers.remove(0))),
        }
    }

    fn answered_by(&self) -> &'static str {
        "person"
    }
}

fn store() -> Arc<Memory> {
    Arc::new(Memory::new(digest))
}

/// A tool that counts, and asks first; and one that only looks.
fn tools() -> (Arc<AtomicUsize>, Tools) {
    let runs = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&runs);
    let paint = FunctionTool::new("paint", "Paints a wall.", json!({"type": "object"}), move |arguments| {
        let number = count.fetch_add(1, Ordering::SeqCst);
        async move { Ok(format!("wall {number} is {}", arguments["colour"].as_str().unwrap_or("white"))) }
    });
    let look = FunctionTool::new("look", "Looks.", json!({"type": "object"}), |_| async { Ok("a wall") });
    let paint = paint.asking(|arguments| format!("paint it {}", arguments["colour"]));
    (runs, Tools::default().with(paint).with(look))
}

fn paint(id: &str) -> ToolCall {
    ToolCall::new(id, "paint", r#"{"colour":"red"}"#)
}

fn look(id: &str) -> ToolCall {
    ToolCall::new(id, "look", "{}")
}

fn approvals(mode: ApprovalMode, approve: Arc<dyn Approve>) -> Approvals {
    Approvals { mode, rules: Rules::default(), approve }
}

fn worker(
    store: &Arc<Memory>,
    steps: impl IntoIterator<Item = Step>,
    tools: Tools,
    approvals: Approvals,
) -> Worker {
    let provider = Arc::new(ScriptedProvider::new(steps));
    let settings = TurnSettings { approvals, ..TurnSettings::default() };
    let conversation = Conversation::create(store.clone(), &New::default(), "test");
    Worker::new(conversation, provider, tools, settings)
}

/// Runs a turn until it asks a person who says nothing, and drops it there.
fn until_asked(worker: &mut Worker, person: &Person) {
    run(async {
        let stop = Stop::new();
        let mut sink = |_| {};
        let mut turn = std::pin::pin!(worker.turn(TurnInput::from("go"), &mut sink, &stop));
        while person.asked() == 0 {
            tokio::select! {
                biased;
                _ = &mut turn => panic!("it waits"),
                () = tokio::task::yield_now() => {}
            }
        }
    });
}

fn turn(worker: &mut Worker) -> (Vec<Event>, Ending) {
    let mut events = Vec::new();
    let mut sink = |event| events.push(event);
    let outcome = run(worker.turn(TurnInput::from("go"), &mut sink, &Stop::new())).unwrap();
    (events, outcome.ending)
}

fn changes(worker: &Worker) -> Vec<Change> {
    let entries = worker.conversation().entries().iter();
    let changes = entries.filter_map(|entry| match Content::of(entry) {
        Content::Change(change) => Some(change),
        _ => None,
    });
    changes.collect()
}

fn states(worker: &Worker) -> Vec<ChangeState> {
    changes(worker).iter().map(|change| change.state).collect()
}

fn results(worker: &Worker) -> Vec<String> {
    let messages = worker.conversation().messages().iter();
    let results = messages.flat_map(|message| message.tool_results());
    results
        .map(|result| result.content.iter().filter_map(|block| Some(block.as_text()?.to_string())).collect())
        .collect()
}

fn steps(calls: Vec<ToolCall>) -> [Step; 2] {
    [Step::calls(calls), Step::says("Done.")]
}

#[test]
fn a_person_says_yes() {
    let (store, (runs, tools)) = (store(), tools());
    let person = Person::saying(&[ApprovalAnswer::Yes]);
    let mut worker =
        worker(&store, steps(vec![paint("a")]), tools, approvals(ApprovalMode::Ask, person.clone()));
    let (events, ending) = turn(&mut worker);
    assert_eq!(ending, Ending::Done);
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    assert_eq!(states(&worker), [ChangeState::Proposed, ChangeState::Approved]);
    assert_eq!(changes(&worker)[1].by.as_deref(), Some("person"));
    let wanted = events.iter().find_map(|event| match event {
        Event::ApprovalWanted(request) => Some(request),
        _ => None,
    });
    let wanted = wanted.unwrap();
    assert_eq!((wanted.call.id.as_str(), wanted.preview.as_str()), ("a", "paint it \"red\""));
    assert_eq!(**wanted, person.asked.lock().unwrap()[0]);
}

#[test]
fn a_no_reaches_the_model_with_its_reason() {
    let (store, (runs, tools)) = (store(), tools());
    let no = ApprovalAnswer::No { reason: Some(String::from("red is ugly")) };
    let mut worker =
        worker(&store, steps(vec![paint("a")]), tools, approvals(ApprovalMode::Ask, Person::saying(&[no])));
    assert_eq!(turn(&mut worker).1, Ending::Done);
    assert_eq!(runs.load(Ordering::SeqCst), 0);
    assert_eq!(results(&worker), ["[not run: it was not approved: red is ugly]"]);
    assert_eq!(states(&worker), [ChangeState::Proposed, ChangeState::Denied]);
}

#[test]
fn always_is_remembered_by_the_conversation() {
    let (store, (runs, tools)) = (store(), tools());
    let person = Person::saying(&[ApprovalAnswer::Always]);
    let given = approvals(ApprovalMode::Ask, person.clone());
    let mut first = worker(&store, steps(vec![paint("a"), paint("b")]), tools.clone(), given.clone());
    turn(&mut first);
    assert_eq!((runs.load(Ordering::SeqCst), person.asked()), (2, 1));
    // Another process continues the conversation.
    let id = first.conversation().id();
    drop(first);
    let conversation = Conversation::open(store.clone(), id, "test").unwrap();
    let provider = Arc::new(ScriptedProvider::new(steps(vec![paint("c")])));
    let settings = TurnSettings { approvals: given, ..TurnSettings::default() };
    let mut second = Worker::new(conversation, provider, tools, settings);
    turn(&mut second);
    assert_eq!((runs.load(Ordering::SeqCst), person.asked()), (3, 1));
}

#[test]
fn modes() {
    for (mode, ran, asked) in
        [(ApprovalMode::Ask, 1, 1), (ApprovalMode::Auto, 1, 1), (ApprovalMode::ReadOnly, 0, 0)]
    {
        let (store, (runs, tools)) = (store(), tools());
        let person = Person::saying(&[ApprovalAnswer::Yes]);
        let calls = vec![look("l"), paint("a")];
        let mut worker = worker(&store, steps(calls), tools, approvals(mode, person.clone()));
        turn(&mut worker);
        assert_eq!((runs.load(Ordering::SeqCst), person.asked()), (ran, asked), "{mode:?}");
        assert_eq!(results(&worker)[0], "a wall", "reading is free: {mode:?}");
    }
}

#[test]
fn without_anyone_to_ask_the_answer_is_no() {
    let (store, (runs, tools)) = (store(), tools());
    let mut worker =
        worker(&store, steps(vec![paint("a")]), tools, approvals(ApprovalMode::Ask, Arc::new(DenyAll)));
    assert_eq!(turn(&mut worker).1, Ending::Done);
    assert_eq!(runs.load(Ordering::SeqCst), 0);
    assert!(results(&worker)[0].contains("no terminal"), "{:?}", results(&worker));
}

#[test]
fn a_program_replies_by_call_id() {
    let (store, (runs, tools)) = (store(), tools());
    let replies = Replies::default();
    let mut worker = worker(
        &store,
        steps(vec![paint("a"), paint("b")]),
        tools,
        approvals(ApprovalMode::Ask, Arc::new(replies.clone())),
    );
    let mut sink = |event: Event| {
        if let Event::ApprovalWanted(request) = event {
            let answer = if request.call.id.as_str() == "a" {
                ApprovalAnswer::Yes
            } else {
                ApprovalAnswer::No { reason: None }
            };
            replies.reply(request.call.id.to_string(), answer);
        }
    };
    run(worker.turn(TurnInput::from("go"), &mut sink, &Stop::new())).unwrap();
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    assert_eq!(results(&worker), ["wall 0 is red", "[not run: it was not approved]"]);
    replies.close();
}

#[test]
fn stopping_at_the_question_runs_nothing() {
    let (store, (runs, tools)) = (store(), tools());
    let calls = vec![paint("a"), look("l"), paint("b")];
    let mut worker = worker(
        &store,
        steps(calls),
        tools,
        approvals(ApprovalMode::Ask, Person::saying(&[ApprovalAnswer::Stop])),
    );
    assert_eq!(turn(&mut worker).1, Ending::Interrupted);
    assert_eq!(runs.load(Ordering::SeqCst), 0);
    assert_eq!(results(&worker).len(), 3, "every call has a result");
    let messages: Vec<_> =
        worker.conversation().messages().iter().map(|message| (**message).clone()).collect();
    assert_paired(&messages);
}

/// Killed while a person is asked: nothing ran, the list shows that it waits, and the next process asks again.
#[test]
fn a_waiting_call_is_asked_about_again() {
    let (store, (runs, tools)) = (store(), tools());
    let calls = vec![look("l"), paint("a"), look("m"), paint("b")];
    let silent = Person::saying(&[]);
    let mut killed =
        worker(&store, steps(calls), tools.clone(), approvals(ApprovalMode::Ask, silent.clone()));
    let id = killed.conversation().id();
    until_asked(&mut killed, &silent);
    drop(killed);
    assert_eq!(runs.load(Ordering::SeqCst), 0);
    assert_eq!(store.summary(id).unwrap().state, SessionState::WaitingForApproval);
    let conversation = Conversation::open(store.clone(), id, "test").unwrap();
    let provider = Arc::new(ScriptedProvider::new([Step::says("Done.")]));
    let person = Person::saying(&[ApprovalAnswer::Yes, ApprovalAnswer::Yes]);
    let settings =
        TurnSettings { approvals: approvals(ApprovalMode::Ask, person.clone()), ..TurnSettings::default() };
    let mut worker = Worker::new(conversation, provider.clone(), tools, settings);
    let mut sink = |_| {};
    run(worker.turn(TurnInput::GoOn, &mut sink, &Stop::new())).unwrap();
    assert_eq!((runs.load(Ordering::SeqCst), person.asked()), (2, 2));
    let sent = provider.requests();
    assert_paired(&sent[0].messages());
    assert_eq!(results(&worker), ["a wall", "wall 0 is red", "a wall", "wall 1 is red"], "in call order");
}

/// Calls that change something run one after another, in call order, and reading calls around them see their effects.
#[test]
fn changes_run_in_call_order() {
    let log = Arc::new(Mutex::new(Vec::new()));
    let tool = |name: &'static str| {
        let log = Arc::clone(&log);
        FunctionTool::new(name, "", json!({"type": "object"}), move |arguments| {
            let log = Arc::clone(&log);
            async move {
                let id = arguments["id"].to_string();
                log.lock().unwrap().push(format!("{id} begins"));
                tokio::task::yield_now().await;
                log.lock().unwrap().push(format!("{id} ends"));
                Ok(id)
            }
        })
    };
    let tools = Tools::default().with(tool("read")).with(tool("write").asking(|_| String::new()));
    let call = |id: u8, name: &str| ToolCall::new(id.to_string(), name, format!(r#"{{"id":{id}}}"#));
    let calls = vec![call(1, "read"), call(2, "read"), call(3, "write"), call(4, "write"), call(5, "read")];
    let person = Person::saying(&[ApprovalAnswer::Yes, ApprovalAnswer::Yes]);
    let mut worker = worker(&store(), steps(calls), tools, approvals(ApprovalMode::Ask, person));
    turn(&mut worker);
    let log: Vec<String> = log.lock().unwrap().clone();
    let expected = [
        "1 begins", "2 begins", "1 ends", "2 ends", "3 begins", "3 ends", "4 begins", "4 ends", "5 begins",
        "5 ends",
    ];
    assert_eq!(log, expected);
}

/// S2-40: a task is worked on in a conversation that names its call, and whose calls are approved as the parent's are.
#[test]
fn a_delegated_task_is_linked_both_ways() {
    let (store, (runs, tools)) = (store(), tools());
    let person = Person::saying(&[ApprovalAnswer::Yes]);
    let task = ToolCall::new("d", "delegate", r#"{"task":"paint the wall","tools":["paint"]}"#);
    let script = [
        Step::calls(vec![task]),
        Step::calls(vec![paint("a")]),
        Step::says("It is red."),
        Step::says("Done."),
    ];
    let mut worker =
        worker(&store, script, tools.with(Delegate), approvals(ApprovalMode::Ask, person.clone()));
    let (events, ending) = turn(&mut worker);
    assert_eq!(ending, Ending::Done);
    assert_eq!((runs.load(Ordering::SeqCst), person.asked()), (1, 1));
    assert!(
        events.iter().any(|event| matches!(event, Event::ApprovalWanted(_))),
        "the child's question is told"
    );
    let child = changes(&worker)[0].child.unwrap();
    assert!(results(&worker)[0].starts_with("It is red."), "{:?}", results(&worker));
    let entries = <dyn Store>::entries(&*store, child).unwrap();
    let link = entries.iter().find_map(|entry| match Content::of(entry) {
        Content::Meta(meta) => meta.scope,
        _ => None,
    });
    assert!(link.unwrap().as_str().contains(&worker.conversation().id().to_string()));
    assert_eq!(entries.iter().filter(|entry| entry.envelope().kind == Kind::Message).count(), 4);
}

/// S2-40: killed while the child works: both can be resumed, and neither sends anything unsound.
#[test]
fn a_child_killed_in_mid_work_leaves_both_resumable() {
    let (store, (_, tools)) = (store(), tools());
    let tools = tools.with(Delegate);
    let silent = Person::saying(&[]);
    let task = ToolCall::new("d", "delegate", r#"{"task":"paint the wall"}"#);
    let script = [Step::calls(vec![task]), Step::calls(vec![paint("a")])];
    let mut killed = worker(&store, script, tools.clone(), approvals(ApprovalMode::Ask, silent.clone()));
    let parent = killed.conversation().id();
    until_asked(&mut killed, &silent);
    let child = changes(&killed)[0].child.unwrap();
    drop(killed);
    for id in [child, parent] {
        let conversation = Conversation::open(store.clone(), id, "test").unwrap();
        let provider = Arc::new(ScriptedProvider::new([Step::says("Done.")]));
        let settings = TurnSettings { limits: Limits::default(), ..TurnSettings::default() };
        let mut worker = Worker::new(conversation, provider.clone(), tools.clone(), settings);
        assert_eq!(turn(&mut worker).1, Ending::Done);
        assert_paired(&provider.requests()[0].messages());
    }
}

/// An entry says that a call runs before it does, and the approval comes before that.
#[test]
fn approved_before_running() {
    let (store, (_, tools)) = (store(), tools());
    let mut worker = worker(
        &store,
        steps(vec![paint("a")]),
        tools,
        approvals(ApprovalMode::Ask, Person::saying(&[ApprovalAnswer::Yes])),
    );
    turn(&mut worker);
    let order: Vec<String> = worker
        .conversation()
        .entries()
        .iter()
        .filter_map(|entry| match Content::of(entry) {
            Content::Change(change) => Some(format!("{:?}", change.state)),
            Content::Turn(turn) if turn.call.is_some() => Some(match turn.state {
                TurnState::CallRunning => String::from("running"),
                _ => String::from("waiting"),
            }),
            _ => None,
        })
        .collect();
    assert_eq!(order, ["Proposed", "waiting", "Approved", "running"]);
}

/// Calls that cannot run: each gets a result that the model can act on, and the turn continues.
#[test]
fn calls_that_make_no_sense_are_answered() {
    let (store, (runs, tools)) = (store(), tools());
    let folder = tempfile::tempdir().unwrap();
    let tools = tools.with(WriteFile::new(folder.path()));
    let huge = json!({"path": "big", "content": "x".repeat(17 * 1024 * 1024)}).to_string();
    let calls = vec![
        ToolCall::new("a", "launch_rockets", "{}"),
        ToolCall::new("b", "write_file", r#"{"path":"#),
        ToolCall::new("c", "write_file", "[1, 2]"),
        ToolCall::new("d", "write_file", r#"{"path":5,"content":"x"}"#),
        ToolCall::new("e", "write_file", huge.as_str()),
        look("f"),
    ];
    let mut worker = worker(&store, steps(calls), tools, approvals(ApprovalMode::Auto, Person::saying(&[])));
    let (_, ending) = turn(&mut worker);
    assert_eq!(ending, Ending::Done);
    let results = results(&worker);
    for (result, said) in results.iter().zip([
        "there is no tool `launch_rockets`; there are: ",
        "the arguments are not a JSON object",
        "the arguments are not a JSON object",
        "`path` must be a string, not a number",
        "`big` would have 17,825,792 bytes, and tools write at most 16,777,216",
        "a wall",
    ]) {
        assert!(result.contains(said), "{said}: {result}");
    }
    assert_eq!((results.len(), runs.load(Ordering::SeqCst)), (6, 0));
    assert_eq!(folder.path().read_dir().unwrap().count(), 0);
}

/// S1-34: an edit is recorded with its states, its diff, the path in the project, the commit that was checked out when it was
/// proposed, and the model's confidence. A person's later edit or checkout does not change the last two.
#[test]
fn edits_have_a_commit_and_a_confidence() {
    let folder = tempfile::tempdir().unwrap();
    let head = |hash: &str| {
        std::fs::create_dir_all(folder.path().join(".git")).unwrap();
        std::fs::write(folder.path().join(".git/HEAD"), hash).unwrap();
    };
    let (old, new) = ("1f7a7a472abf3dd9643fd615f6da379c4acb3e3a", "2".repeat(40));
    for (commit, confidence, answer, state, after) in [
        (Some(old), Some(0.85), ApprovalAnswer::Yes, ChangeState::Applied, "+said"),
        (Some(old), None, ApprovalAnswer::No { reason: None }, ChangeState::Denied, "+said"),
        (
            Some(old),
            Some(1.0),
            ApprovalAnswer::Edited { text: "edited".into() },
            ChangeState::Applied,
            "+edited",
        ),
        (None, Some(0.0), ApprovalAnswer::Yes, ChangeState::Applied, "+said"),
    ] {
        head(commit.unwrap_or("ref: refs/heads/unborn"));
        let path = folder.path().join("src/a.rs");
        let arguments = json!({"path": path, "content": "said", "confidence": confidence}).to_string();
        let call = ToolCall::new("a", "write_file", arguments.as_str());
        let tools = Tools::default().with(WriteFile::new(folder.path()));
        let person = Person::saying(&[answer]);
        let mut worker = worker(&store(), steps(vec![call]), tools, approvals(ApprovalMode::Ask, person));
        assert_eq!(turn(&mut worker).1, Ending::Done);
        head(&new);
        let edits = rejoin_engine::changes::edits(worker.conversation().entries());
        assert_eq!((edits.len(), edits[0].state, edits[0].path.as_str()), (1, state, "src/a.rs"));
        assert_eq!(edits[0].commit.as_deref(), commit);
        assert_eq!(edits[0].confidence.map(Confidence::number), confidence);
        assert!(edits[0].diff().unwrap().contains(after));
        std::fs::remove_dir_all(folder.path().join("src")).ok();
    }
}
