//! Conversations whose processes are killed and whose stores fail: nothing acknowledged is lost, no conversation ends because of
//! its store, and the remainder can always be sent to every provider.
//!
//! `REJOIN_FAULTS` sets the number of kills; `cargo xtask faults` sets it to 500.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

#[path = "../talk/mod.rs"]
mod talk;

mod deeds;
mod kills;
#[cfg(unix)]
mod power;
mod verifying;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    time::Duration,
};

use rejoin_engine::{
    Conversation, EngineError, Mode, New, Saved, SystemClock, Writer,
    compat::{CompactedTurn, RolloutLine, RolloutRecorder, RolloutTurn},
    digest, open_store, read,
};
use rejoin_formats::{Dialect, convert};
use rejoin_record::{Content, ConversationId, Entry, Kind as EntryKind, Message, Raw};
use rejoin_store::{Access, Location, Options, Store};
use rejoin_view::OnBroken;
use tempfile::TempDir;
use testkit::faults::{
    Child, ChildOutput, Dice, Fault, Job, Kind, Model, Place, Shim, job, quick_folder, read_all, rounds, say,
    thorough, verified, work,
};
use testkit::skipped::skip;

const KINDS: [&str; 2] = Place::KINDS;

/// The operations of these tests on a place.
trait Jobs {
    fn job(&self, what: &str, seed: u64, steps: u64) -> Job;
}

impl Jobs for Place {
    fn job(&self, what: &str, seed: u64, steps: u64) -> Job {
        let (store, conversation) = (self.location(), id());
        Job { what: what.to_owned(), store, conversation, seed, steps, time: Duration::ZERO }
    }
}

fn id() -> ConversationId {
    ConversationId::derive("faults", "engine")
}

/// The library that makes files fail.
fn shim() -> Option<Shim> {
    testkit::faults::shim(env!("CARGO_TARGET_TMPDIR"))
}

const OPTIONS: Options = Options { access: Access::Write, digester: digest };

fn opened(location: &Location) -> Arc<dyn Store> {
    Arc::from(open_store(location, Access::Write).unwrap())
}

/// The process that the tests start.
#[test]
fn child() {
    let Some(job) = job() else { return };
    match job.what.as_str() {
        "talk" => talk_on(&job),
        "fork" => fork(&job),
        "read-only" => in_a_read_only_folder(&job),
        what if what.starts_with("deed") => {
            let notes = PathBuf::from(std::env::var_os("REJOIN_NOTES").unwrap());
            deeds::work(&job, &notes);
        }
        "turns" => record_turns(&job),
        _ => work(&job, OPTIONS),
    }
}

const POLICIES: [OnBroken; 2] = [OnBroken::Keep, OnBroken::Drop];

/// The content of a store can always be sent: every dialect's checker accepts the request made from it.
fn can_be_sent(store: &dyn Store, id: ConversationId, policies: &[OnBroken]) -> Result<(), String> {
    let recorded = match read(store, id, Mode::Recover) {
        Err(EngineError::Store(rejoin_store::StoreError::NotFound(_))) => return Ok(()),
        recorded => recorded.map_err(|why| why.to_string())?,
    };
    if let Some(damage) = recorded.damage.iter().find(|damage| !damage.torn) {
        return Err(format!("{} is damaged: {}", damage.place, damage.why));
    }
    match read(store, id, Mode::Strict) {
        Ok(_) | Err(EngineError::Empty(_)) => {}
        Err(why) => return Err(format!("strictly read: {why}")),
    }
    for dialect in Dialect::all() {
        for &policy in policies {
            let body = convert(&recorded.session, dialect, None, policy).map_err(|why| why.to_string())?.body;
            let violations = testkit::refusals(dialect, body.as_bytes());
            if !violations.is_empty() {
                return Err(format!("{dialect} {policy:?} refuses it: {violations:?}"));
            }
        }
    }
    Ok(())
}

/// B42, B50: a process is killed at any moment. Everything acknowledged is kept, only torn ends are found, the next process
/// continues, and the conversation can be sent to every provider at every stage.
#[test]
fn a_kill_at_any_moment_loses_nothing() {
    let shim = shim();
    std::thread::scope(|scope| {
        let threads: Vec<_> =
            KINDS.map(|kind| scope.spawn(|| kills(kind, rounds(50), shim.as_ref()))).into_iter().collect();
        for thread in threads {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
    });
}

/// The number of kills that one conversation takes before the next one is used.
const STRETCH: usize = 5;

fn kills(kind: &'static str, rounds: usize, shim: Option<&Shim>) {
    let mut dice = Dice(rounds as u64);
    let (mut killed, mut acknowledged) = (0, 0);
    for first in (0..rounds).step_by(STRETCH) {
        let place = Place::new(TempDir::new().unwrap(), kind);
        let mut model = Model::default();
        for round in first..(first + STRETCH).min(rounds) {
            let child = Child::of("child", &place.job("work", dice.roll(), 80));
            let (said, how) = match shim.filter(|_| dice.below(2) == 0) {
                Some(shim) => {
                    let end = Kind::ENDS[dice.below(4) as usize];
                    // The script makes more calls than that, so it does not finish.
                    let calls = if kind == "sqlite" { 300 } else { 130 };
                    let fault = place.fault(end, 1 + dice.below(calls));
                    (child.with(shim, &fault).run(), format!("{end:?} at {}", fault.at))
                }
                None => {
                    let time = Duration::from_millis(4 + dice.below(70));
                    (child.run_for(time), format!("a kill after {time:?}"))
                }
            };
            let context = format!("{kind}, round {round}, {how}");
            // Encoding takes the most time of all.
            let policies = if thorough() { &POLICIES[..] } else { &POLICIES[round % 2..][..1] };
            assert!(said.wrong.is_empty() && said.failed.is_empty(), "{context}: {said:#?}");
            killed += usize::from(!said.done);
            model.hear(&said);
            let store = open_store(&place.location(), Access::Write)
                .unwrap_or_else(|why| panic!("{context}: it does not open: {why}"));
            let held = model.check(&*store, id()).and_then(|_| verified(&*store, None));
            if let Err(why) = held.and_then(|()| can_be_sent(&*store, id(), policies)) {
                panic!("{context}: {why}");
            }
        }
        acknowledged += model.acknowledged();
        goes_on(&place);
    }
    println!(
        "{kind}: {killed} of {rounds} processes were killed at work, {acknowledged} entries were acknowledged"
    );
    // How many finish first depends on the machine; half of them is far more than usual.
    assert!(killed * 2 >= rounds, "{kind}: most processes came to their end before they were killed");
}

/// The next process continues a conversation whose process was killed.
fn goes_on(place: &Place) {
    let store = opened(&place.location());
    if store.tail(id()).unwrap().is_none() {
        return;
    }
    let mut conversation =
        Conversation::open_with_clock(store.clone(), Arc::new(SystemClock), id(), "rejoin chat").unwrap();
    let before = conversation.messages().len();
    assert_eq!(conversation.say(Message::user("Where were we?")).saved, Saved::Durable);
    drop(conversation);
    let again = read(&*store, id(), Mode::Recover).unwrap();
    assert_eq!(again.session.messages.len(), before + 1);
    assert_eq!(again.session.messages.last().unwrap().content().as_deref(), Some("Where were we?"));
    can_be_sent(&*store, id(), &POLICIES).unwrap();
}

/// As a child: forks the conversation.
fn fork(job: &Job) {
    let store = opened(&job.store);
    let writer = Writer { store: &*store, clock: &SystemClock, command: "rejoin history fork" };
    writer.fork(job.conversation, None).unwrap();
    say(format_args!("done"));
}

/// A process that is killed while it forks a conversation leaves the whole fork or none of it, at whichever call it dies, and
/// also if the fork is so long that it is written in many pieces. The conversation itself is as it was.
#[test]
fn a_killed_fork_leaves_the_whole_fork_or_none_of_it() {
    let Some(shim) = shim() else { return };
    // A file of lines is written a megabyte at a time; a database page by page.
    for (kind, messages, size) in [("sqlite", 30, 4_000), ("jsonl", 30, 4_000), ("jsonl", 6, 600_000)] {
        let fill = |place: &Place| {
            let store = opened(&place.location());
            let new = New::default();
            let mut conversation =
                Conversation::create_with_clock(store.clone(), Arc::new(SystemClock), &new, "rejoin chat");
            for number in 0..messages {
                let text = format!("{number} {}", "a word ".repeat(size / 7));
                assert_eq!(conversation.say(Message::user(text)).saved, Saved::Durable);
            }
            let id = conversation.id();
            (id, read_all(&*store, id).unwrap())
        };
        let run = |place: &Place, id: ConversationId, fault: &Fault| {
            let job = Job { conversation: id, ..place.job("fork", 1, 1) };
            Child::of("child", &job).with(&shim, fault).run()
        };
        let place = Place::new(quick_folder(), kind);
        let (id, entries) = fill(&place);
        let fault = place.fault(Kind::Eio, 0);
        let said = run(&place, id, &fault);
        assert!(said.done, "{said:#?}");
        // A header, and a note in place of the header.
        let whole = entries.len() + 1;
        let calls = fault.calls().unwrap();
        // In a short run, every call with one kind of end; if there are few calls, with each kind.
        let ends = |at: u64| {
            let few = thorough() || calls < 15;
            Kind::ENDS.into_iter().enumerate().filter(move |(number, _)| few || at % 4 == *number as u64)
        };
        let stride = if thorough() { 1 } else { calls.div_ceil(60) | 1 };
        let (mut none, mut all) = (0, 0);
        for at in (1..=calls).step_by(stride as usize) {
            for (_, end) in ends(at) {
                let place = Place::new(quick_folder(), kind);
                let (id, entries) = fill(&place);
                let said = run(&place, id, &place.fault(end, at));
                let context = format!("{kind}, {size} bytes a message, {end:?} at {at} of {calls}");
                let store = opened(&place.location());
                let mut found = store.ids("", 10).unwrap();
                found.retain(|other| *other != id);
                assert_eq!(read_all(&*store, id).unwrap(), entries, "{context}");
                match found[..] {
                    [] => none += 1,
                    [fork] => {
                        all += 1;
                        assert_eq!(read_all(&*store, fork).unwrap().len(), whole, "{context}");
                    }
                    _ => panic!("{context}: {found:?}"),
                }
                assert!(
                    !said.done || found.len() == 1,
                    "{context}: it was acknowledged, and it is not there"
                );
                verified(&*store, None).unwrap_or_else(|why| panic!("{context}: {why}"));
            }
        }
        println!("{kind}, {size} bytes a message: {calls} calls; {none} times none of it, {all} times all");
        assert!(none > 0 && all > 0, "the kills did not come before and behind");
    }
}

/// How many messages a talk has, and which one finds the store well again.
const MESSAGES: usize = 16;
const WELL_AGAIN: usize = 11;

/// The text of a message. Some texts are large, and some of those repeat earlier ones.
fn saying(number: usize) -> String {
    let size = [20, 3_000, 200, 40_000][number % 4];
    format!("{number} {}", "lorem \"ipsum\"\n".repeat(size / 14))
}

/// As a child process: a conversation that continues whatever happens to its store.
fn talk_on(job: &Job) {
    let over = PathBuf::from(std::env::var_os("REJOIN_OVER").unwrap());
    let clock = Arc::new(SystemClock);
    let store = open_store(&job.store, Access::Write);
    let begun_in_memory = store.is_err();
    let mut conversation = match store {
        Ok(store) => Conversation::create_with_clock(Arc::from(store), clock, &New::default(), "rejoin chat"),
        Err(_) => Conversation::in_memory(clock, &New::default()),
    };
    say(format_args!("told {}", conversation.id()));
    for number in 0..MESSAGES {
        if number == WELL_AGAIN {
            fs::write(&over, "").unwrap();
            if begun_in_memory {
                conversation.attach(opened(&job.store), "rejoin chat");
            }
        }
        let appended = conversation.say(Message::user(saying(number)));
        match &appended.saved {
            Saved::Durable => {
                let entry = &appended.entry;
                say(format_args!("entry {} {} {}", entry.envelope().seq, entry.id(), entry.hash()));
                if !conversation.unsaved().is_empty() {
                    say(format_args!("wrong it is stored, and something before it is not"));
                }
            }
            Saved::InMemory { warning, .. } if number >= WELL_AGAIN => {
                say(format_args!("wrong the store is well again, and still: {warning}"));
            }
            Saved::InMemory { warning, .. } => say(format_args!("failed {warning}")),
        }
        if conversation.messages().len() != number + 1 {
            say(format_args!("wrong {} messages, not {}", conversation.messages().len(), number + 1));
        }
    }
    drop(conversation);
    say(format_args!("done"));
}

/// The messages of a conversation, in order.
fn texts(entries: &[Entry]) -> Vec<String> {
    let messages = entries.iter().filter(|entry| entry.envelope().kind == EntryKind::Message);
    messages
        .map(|entry| match Content::of(entry) {
            Content::Message(message) => message.content().unwrap_or_default(),
            other => panic!("{other:?}"),
        })
        .collect()
}

/// B29: a full or unresponsive disk is reported and ends nothing. The conversation continues in memory, and when the store works
/// again all of it is stored, once and in order.
#[test]
fn a_full_disk_ends_nothing() {
    let Some(shim) = shim() else { return };
    let ran = |place: &Place, fault: &Fault| -> ChildOutput {
        let child = Child::of("child", &place.job("talk", 0, 0)).with(&shim, fault);
        child.env("REJOIN_OVER", fault.over()).run()
    };
    for kind in KINDS {
        let place = Place::new(quick_folder(), kind);
        let fault = place.fault(Kind::Full, 0);
        let said = ran(&place, &fault);
        assert!(said.done && said.failed.is_empty() && said.wrong.is_empty(), "{kind}: {said:#?}");
        let calls = fault.calls().filter(|calls| *calls > 0).expect("the shim is loaded and counts calls");
        let step = if thorough() { 1 } else { calls as usize / 12 };
        let (mut warned, mut cases) = (0, 0);
        for fault in [Kind::Full, Kind::Dead] {
            for at in (1..=calls).step_by(step.max(1)) {
                let place = Place::new(quick_folder(), kind);
                let said = ran(&place, &place.fault(fault, at));
                let context = format!("{kind} {fault:?} at {at}");
                assert!(said.done && said.wrong.is_empty(), "{context}: {said:#?}");
                for warning in &said.failed {
                    assert!(warning.starts_with("Failed to save turn: "), "{context}: {warning}");
                }
                cases += 1;
                warned += usize::from(!said.failed.is_empty());
                let store = opened(&place.location());
                let entries = read_all(&*store, said.told[0].parse().unwrap()).unwrap();
                let expected: Vec<String> = (0..MESSAGES).map(saying).collect();
                assert!(texts(&entries) == expected, "{context}: {} messages", texts(&entries).len());
                for (seq, id, hash) in &said.acknowledged {
                    let entry = &entries[usize::try_from(*seq).unwrap()];
                    assert_eq!((entry.id(), entry.hash()), (*id, *hash), "{context}");
                }
                verified(&*store, None).unwrap();
            }
        }
        println!("{kind}: {cases} cases, a warning in {warned}");
        assert!(warned * 4 > cases, "{kind}: most failed writes caused no warning");
    }
}

/// How many turns a recorder is given.
const TURNS: u64 = 6;

fn recorder(store: &Location) -> RolloutRecorder {
    let Location::Jsonl(folder) = store else { panic!("turns are kept in a folder") };
    RolloutRecorder::new(folder.join("turns"))
}

/// As a child process: records turns and a compaction, and reports each when the recorder has acknowledged it.
fn record_turns(job: &Job) {
    let recorder = recorder(&job.store);
    for number in 0..TURNS {
        let item = Raw::new(format!(r#"{{"type":"message","role":"user","content":"{number}"}}"#));
        let turn = RolloutTurn { timestamp: None, items: vec![item], metadata: None };
        // The second half goes to another file.
        recorder.append_turn(if number < TURNS / 2 { "one" } else { "two" }, &turn).unwrap();
        say(format_args!("told {number}"));
    }
    let compacted = CompactedTurn { timestamp: None, summary: String::from("numbers"), truncated_count: 0 };
    recorder.append_compacted("two", &compacted).unwrap();
    say(format_args!("told {TURNS}"));
    say(format_args!("done"));
}

/// S3-09: a turn that was acknowledged outlives a power cut at any moment: the line was synced before, and so was the name of
/// its file.
#[test]
fn a_recorder_syncs_before_it_acknowledges() {
    let Some(shim) = shim() else { return };
    let place = Place::new(quick_folder(), "jsonl");
    let fault = place.fault(Kind::Power, 0);
    let said = Child::of("child", &place.job("turns", 0, 0)).with(&shim, &fault).run();
    assert!(said.done, "{said:#?}");
    let calls = fault.calls().unwrap();
    assert!(calls >= 2 * (TURNS + 1), "each turn is a write and a sync at least, not {calls} calls in all");
    let mut kept = 0;
    for at in 1..=calls {
        let place = Place::new(quick_folder(), "jsonl");
        let child = Child::of("child", &place.job("turns", 0, 0));
        let said = child.with(&shim, &place.fault(Kind::Power, at)).run();
        assert!(!said.done, "call {at}: the power was not cut");
        let recorder = recorder(&place.location());
        let lines = |id| recorder.recover_rollout(id).map(|read| read.lines).unwrap_or_default();
        let found: Vec<String> = [lines("one"), lines("two")]
            .concat()
            .iter()
            .map(|line| match line {
                RolloutLine::Turn(turn) => {
                    turn.items[0].as_str().split('"').rev().nth(1).unwrap_or_default().to_owned()
                }
                RolloutLine::Compacted(_) => TURNS.to_string(),
            })
            .collect();
        assert!(found.starts_with(&said.told), "call {at}: {found:?}, though {:?} was said", said.told);
        assert!(found.len() <= said.told.len() + 1, "call {at}");
        kept += said.told.len();
    }
    assert!(kept > 0);
}

#[cfg(unix)]
fn mode(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Sets the rights of a folder, and those of everything in it if that is wanted.
#[cfg(unix)]
fn rights(folder: &Path, of_folder: u32, of_files: Option<u32>) {
    // Its content can be changed only while the folder can be entered.
    mode(folder, 0o700);
    for file in fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()) {
        match of_files {
            _ if file.is_dir() => rights(&file, of_folder, of_files),
            Some(of_files) => mode(&file, of_files),
            None => {}
        }
    }
    mode(folder, of_folder);
}

/// As a child that has no special rights: a store that can only be read for a while.
#[cfg(unix)]
fn in_a_read_only_folder(job: &Job) {
    let (Location::Sqlite(path) | Location::Jsonl(path)) = &job.store else { return };
    let folder = if path.is_dir() { path.as_path() } else { path.parent().unwrap() };
    let clock = || Arc::new(SystemClock);
    let mut conversation =
        Conversation::create_with_clock(opened(&job.store), clock(), &New::default(), "rejoin chat");
    let id = conversation.id();
    assert_eq!(conversation.say(Message::user("one")).saved, Saved::Durable);
    drop(conversation);

    for of_files in [None, Some(0o400)] {
        for opened_before in [false, true] {
            let context = format!("{} {of_files:?} {opened_before}", job.store);
            let said = read_all(&*opened(&job.store), id).unwrap();
            let before = texts(&said).len();
            let open =
                || Conversation::open_with_clock(opened(&job.store), clock(), id, "rejoin chat").unwrap();
            let early = opened_before.then(open);
            rights(folder, 0o500, of_files);
            // Readers are not disturbed.
            let reader = open_store(&job.store, Access::Read).unwrap();
            assert_eq!(texts(&read_all(&*reader, id).unwrap()).len(), before, "{context}");
            assert_eq!(reader.list(&rejoin_store::Query::default()).unwrap().total, 1, "{context}");
            verified(&*reader, None).unwrap();
            drop(reader);
            let was_open = early.is_some();
            let mut conversation = early.unwrap_or_else(open);
            let appended = conversation.say(Message::user("two"));
            // A process that has the files open may still write to them. What counts is that its answer is true.
            match (&appended.saved, was_open) {
                (Saved::InMemory { warning, .. }, _) => {
                    assert!(warning.starts_with("Failed to save turn: "), "{context}: {warning}");
                    assert_eq!(
                        texts(&read_all(&*opened(&job.store), id).unwrap()).len(),
                        before,
                        "{context}"
                    );
                }
                (Saved::Durable, true) => {}
                (Saved::Durable, false) => panic!("{context}: it cannot be stored"),
            }
            assert_eq!(conversation.messages().len(), before + 1, "{context}: it goes on all the same");
            rights(folder, 0o700, Some(0o600));
            let appended = conversation.say(Message::user("three"));
            assert_eq!(appended.saved, Saved::Durable, "{context}: the store is well again");
            drop(conversation);
            let store = opened(&job.store);
            assert_eq!(texts(&read_all(&*store, id).unwrap()).len(), before + 2, "{context}");
            verified(&*store, None).unwrap();
        }
    }
    say(format_args!("done"));
}

#[cfg(not(unix))]
fn in_a_read_only_folder(_: &Job) {}

/// B29: a read-only folder is read; new messages are kept in memory, and stored when the folder can be written again.
#[cfg(unix)]
#[test]
fn a_read_only_folder_ends_nothing() {
    const NOBODY: u32 = 65_534;
    for kind in KINDS {
        let place = Place::new(quick_folder(), kind);
        // Rights mean nothing to root, so root becomes someone else for this.
        let root = std::os::unix::fs::MetadataExt::uid(&fs::metadata("/proc/self").unwrap()) == 0;
        let child = if root {
            let exe = std::env::current_exe().unwrap();
            let mut command = Command::new("setpriv");
            command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&exe);
            let probe = Command::new("setpriv")
                .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
                .arg(&exe)
                .arg("--list")
                .output();
            if !probe.is_ok_and(|probe| probe.status.success()) {
                skip("root cannot become another user here: there is no `setpriv`");
                return;
            }
            mode(place.folder.path(), 0o755);
            std::os::unix::fs::chown(place.under(), Some(NOBODY), Some(NOBODY)).unwrap();
            Child::of_command(command, "child", &place.job("read-only", 0, 0))
        } else {
            Child::of("child", &place.job("read-only", 0, 0))
        };
        let said = child.run();
        assert!(said.done && said.success, "{kind}: {}", said.stderr);
    }
}

/// B29: a folder that is taken away under an open conversation is missed at once, nothing counts as stored that is not, and
/// when it is back, or a copy of it, everything is stored.
#[test]
fn a_store_that_is_taken_away_ends_nothing() {
    for kind in KINDS {
        for back in ["itself", "a copy", "nothing", "an empty folder"] {
            let context = format!("{kind}, {back} comes back");
            let place = Place::new(quick_folder(), kind);
            let (here, away) = (place.under(), place.folder.path().join("away"));
            let clock = Arc::new(SystemClock);
            let mut conversation = Conversation::create_with_clock(
                opened(&place.location()),
                clock,
                &New::default(),
                "rejoin chat",
            );
            let id = conversation.id();
            assert_eq!(conversation.say(Message::user("one")).saved, Saved::Durable, "{context}");

            if back == "a copy" {
                let copied = Command::new("cp").arg("-r").args([&here, &away]).status();
                if !copied.is_ok_and(|status| status.success()) {
                    skip("there is no `cp`");
                    continue;
                }
            }
            match back {
                "itself" => fs::rename(&here, &away).unwrap(),
                _ => fs::remove_dir_all(&here).unwrap(),
            }
            for text in ["two", "three"] {
                let saved = conversation.say(Message::user(text)).saved;
                let warning =
                    saved.warning().unwrap_or_else(|| panic!("{context}: {text} is stored nowhere"));
                assert!(warning.starts_with("Failed to save turn: "), "{context}: {warning}");
            }
            assert_eq!(conversation.messages().len(), 3, "{context}");
            match back {
                "itself" | "a copy" => fs::rename(&away, &here).unwrap(),
                "an empty folder" => drop(opened(&place.location())),
                _ => {
                    assert!(conversation.unsaved().len() >= 2, "{context}");
                    continue;
                }
            }
            let saved = conversation.say(Message::user("four")).saved;
            assert_eq!(saved, Saved::Durable, "{context}");
            drop(conversation);
            let store = opened(&place.location());
            assert_eq!(texts(&read_all(&*store, id).unwrap()), ["one", "two", "three", "four"], "{context}");
            verified(&*store, None).unwrap();
        }
    }
}
