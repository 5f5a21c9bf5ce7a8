//! Several processes: one writer per conversation, many per store, and readers all the time.

use std::{
    collections::HashSet,
    ops::ControlFlow,
    process,
    time::{Duration, Instant},
};

use rejoin_record::{
    Chain, Content, EntryId, Kind as EntryKind, Message, Salt, Tail, Timestamp, chain::Stamp,
};
use rejoin_store::{Query, StoreError, open};
use testkit::faults::{
    Child, ChildOutput, Dice, Job, Model, Script, Step, holder, read_all, say, thorough, verified,
};

use super::{KINDS, Place, READ, WRITE, conversation};

/// As a child process: takes the lock, reports it, and appends until it is killed.
pub fn hold(job: &Job) {
    let store = open(&job.store, WRITE).unwrap();
    let _lock = store.lock(job.conversation, &holder("rejoin chat --new")).unwrap();
    let mut script = Script::new(job.conversation, &[], job.seed);
    for number in 0.. {
        let after = script.tail();
        match script.step() {
            Step::Append(entries) => {
                let tail = store.append(job.conversation, after, &entries).unwrap();
                say(format_args!("told {number} {}", tail.seq));
            }
            Step::Erase { entry, note } => {
                store.erase(job.conversation, after.unwrap(), entry, &note).unwrap();
            }
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Kills a child, also if the test fails.
struct Killed(process::Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until something is so.
fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(20), "{what} does not happen");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// B43: a second writer is told who writes; readers are not disturbed; a kill releases the lock.
#[test]
fn one_writer_a_conversation_and_a_kill_frees_it() {
    for kind in KINDS {
        let place = Place::new(kind);
        let id = conversation(7);
        let mut child =
            Killed(Child::of("child", &Job { what: String::from("hold"), ..place.job(7, 0) }).start());
        let stdout = child.0.stdout.take();
        // Its output must be read, or it blocks.
        let listening = std::thread::spawn(move || std::io::read_to_string(stdout.unwrap()));
        wait_until("the first entries", || {
            let store = open(&place.location(), READ);
            store.is_ok_and(|store| read_all(&*store, id).is_ok_and(|entries| entries.len() > 10))
        });

        let store = place.open();
        match store.lock(id, &holder("somebody else")) {
            Err(StoreError::Locked(first)) => {
                assert_eq!(
                    (first.pid, first.command.as_str()),
                    (child.0.id(), "rejoin chat --new"),
                    "{kind}"
                );
                let said = StoreError::Locked(first).to_string();
                assert!(said.contains(&format!("process {} (`rejoin chat --new`)", child.0.id())), "{said}");
            }
            other => panic!("{kind}: {other:?}"),
        }
        let others = store.lock(conversation(8), &holder("somebody else"));
        assert!(others.is_ok(), "{kind}: the lock is one of the conversation, not of the store");

        // Readers see a conversation that only grows, without damage.
        let reader = open(&place.location(), READ).unwrap();
        let (mut seen, begun, mut rounds) = (Vec::new(), Instant::now(), 0);
        while begun.elapsed() < Duration::from_millis(400) || rounds < 5 {
            rounds += 1;
            let ids: Vec<EntryId> = read_all(&*reader, id).unwrap().iter().map(|entry| entry.id()).collect();
            assert!(ids.starts_with(&seen), "{kind}: an entry that was read is gone");
            seen = ids;
            assert_eq!(reader.list(&Query::default()).unwrap().total, 1, "{kind}");
            for which in [Some(id), None] {
                let mut problems = Vec::new();
                reader.verify(which, &mut |problem| problems.push(problem)).unwrap();
                assert!(problems.is_empty(), "{kind} {which:?}, while another process writes: {problems:?}");
            }
        }
        assert!(child.0.try_wait().unwrap().is_none(), "{kind}: the writer was disturbed");

        drop(child);
        let _ = listening.join();
        let lock = store.lock(id, &holder("somebody else"));
        assert!(lock.is_ok(), "{kind}: {lock:?}");
        let tail = store.tail(id).unwrap();
        let entry = Script::new(id, &read_all(&*store, id).unwrap(), 99).step();
        if let Step::Append(entries) = entry {
            assert!(store.append(id, tail, &entries).is_ok(), "{kind}: it goes on");
        }
        drop(lock);
    }
}

/// As a child process: appends without a lock, after whatever other processes appended.
pub fn race(job: &Job) {
    let store = open(&job.store, WRITE).unwrap();
    let mut dice = Dice(job.seed);
    for number in 0..job.steps {
        let mut random = [0; 10];
        random[..8].copy_from_slice(&dice.roll().to_le_bytes());
        let id = EntryId::new(1_700_000_000_000, random);
        loop {
            let tail: Tail = store.tail(job.conversation).unwrap().unwrap();
            let stamp =
                Stamp { id, timestamp: Timestamp::UNIX_EPOCH, salt: Salt([7; 16]), source_time: None };
            let content = Content::Message(Message::user(format!("{} {number}", job.seed)));
            let entry = Chain::at(Some(tail)).append(EntryKind::Message, &content, stamp);
            match store.append(job.conversation, Some(tail), &[entry]) {
                Ok(tail) => break say(format_args!("told {} {}", tail.seq, tail.id)),
                Err(StoreError::TailMoved { .. }) => say(format_args!("failed moved")),
                Err(why) => return say(format_args!("wrong {why}")),
            }
        }
    }
    say(format_args!("done"));
}

/// B50: without the lock, two processes that append at the same place do not overwrite each other: one of them gets an error, and
/// the order is one sequence without gaps.
#[test]
fn writers_without_a_lock_do_not_overwrite_each_other() {
    for kind in KINDS {
        let place = Place::new(kind);
        let id = conversation(3);
        let Step::Append(first) = Script::new(id, &[], 1).step() else { panic!("a header comes first") };
        place.open().append(id, None, &first).unwrap();
        let job = |seed| Job { what: String::from("race"), seed, ..place.job(3, 25) };
        let children: Vec<_> = (1..=4).map(|seed| Child::of("child", &job(seed)).start()).collect();
        let mut expected = HashSet::new();
        for said in children.into_iter().map(ChildOutput::by) {
            assert!(said.done && said.wrong.is_empty(), "{kind}: {said:#?}");
            expected.extend(said.told);
        }
        assert_eq!(expected.len(), 100, "{kind}: each place was given once");
        let store = place.open();
        let entries = read_all(&*store, id).unwrap();
        let held: HashSet<String> = entries[first.len()..]
            .iter()
            .map(|entry| format!("{} {}", entry.envelope().seq, entry.id()))
            .collect();
        assert_eq!(held, expected, "{kind}");
        verified(&*store, None).unwrap();
    }
}

/// Eight processes write to one store at once: none is refused, nothing is lost.
#[test]
fn eight_writers_of_one_store() {
    let time = Duration::from_secs(if thorough() { 30 } else { 4 });
    std::thread::scope(|scope| {
        for kind in KINDS {
            scope.spawn(move || eight_writers(kind, time));
        }
    });
}

fn eight_writers(kind: &'static str, time: Duration) {
    let place = Place::new(kind);
    let job = |number| Job { time, ..place.job(number, u64::MAX) };
    let children: Vec<_> = (0..8).map(|number| Child::of("child", &job(number)).start()).collect();
    // Someone looks at all of them meanwhile.
    let stop = std::sync::atomic::AtomicBool::new(false);
    let said: Vec<ChildOutput> = std::thread::scope(|scope| {
        let looking = scope.spawn(|| {
            let (mut looks, mut most) = (0, 0);
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(50));
                let Ok(store) = open(&place.location(), READ) else { continue };
                // It may be so new that there is nothing in it.
                let Ok(page) = store.list(&Query::default()) else { continue };
                looks += 1;
                let total = page.conversations.iter().map(|summary| summary.entries).sum();
                assert!(total >= most, "{kind}: {total} entries are listed, it were {most}");
                most = total;
                for summary in page.conversations {
                    store.read(summary.id, 0, &mut |_| ControlFlow::Continue(())).unwrap();
                }
            }
            assert!(looks > 0 && most > 0, "{kind}: the reader saw no entries");
        });
        let listening: Vec<_> =
            children.into_iter().map(|child| scope.spawn(move || ChildOutput::by(child))).collect();
        let said = listening.into_iter().map(|thread| thread.join().unwrap()).collect();
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        looking.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        said
    });
    let store = place.open();
    let mut all = 0;
    for (number, said) in said.iter().enumerate() {
        assert!(said.done && said.failed.is_empty() && said.wrong.is_empty(), "{kind} {number}: {said:#?}");
        let mut model = Model::default();
        model.hear(said);
        assert!(model.acknowledged() > 0, "{kind}: {number} wrote nothing");
        all += model.acknowledged();
        let held = model.check(&*store, conversation(number as u64));
        let held = held.unwrap_or_else(|why| panic!("{kind} {number}: {why}"));
        assert_eq!(held.len(), model.acknowledged(), "{kind} {number}");
    }
    verified(&*store, None).unwrap();
    println!("{kind}: {all} entries by eight writers");
}
