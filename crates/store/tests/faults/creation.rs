//! The creation of a store, and what must be durable after it.

use std::{collections::BTreeSet, path::Path};

use rejoin_record::ConversationId;
use rejoin_store::{Damage, Location, Query, StoragePlace as Where, Store, StoreError, open};
use testkit::faults::{Child, Job, Kind, Script, Step, difference, holder, read_all, say, verified};

use super::{KINDS, Place, READ, WRITE, cases, conversation, each, shim};

/// A store that does not exist yet, below folders that do not exist either.
fn location(place: &Place) -> Location {
    let folder = place.under().join("new/deep");
    match place.kind {
        "sqlite" => Location::Sqlite(folder.join("rejoin.db")),
        _ => Location::Jsonl(folder.join("chats")),
    }
}

fn job(place: &Place) -> Job {
    Job { what: String::from("create"), store: location(place), ..place.job(1, 1) }
}

fn damage() -> Damage {
    Damage { place: Where::Line(1), why: String::from("torn"), bytes: b"torn bytes".to_vec(), torn: true }
}

fn first_entries(id: ConversationId) -> Vec<rejoin_record::Entry> {
    let Step::Append(entries) = Script::new(id, &[], 5).step() else { panic!("a script begins with words") };
    entries
}

/// As a child: makes a store, says something in it, and sets something aside.
pub fn create(job: &Job) {
    let store = open(&job.store, WRITE).unwrap();
    let lock = store.lock(job.conversation, &holder("creating")).unwrap();
    store.append(job.conversation, None, &first_entries(job.conversation)).unwrap();
    say(format_args!("told appended"));
    store.set_aside(job.conversation, &damage()).unwrap();
    say(format_args!("told aside"));
    drop(lock);
    drop(store);
    say(format_args!("done"));
}

/// Everything that commands do to find their way around a store.
fn look_around(store: &dyn Store) -> Result<Vec<ConversationId>, String> {
    let failed = |why: StoreError| why.to_string();
    let page = store.list(&Query::default()).map_err(failed)?;
    if let Some(damaged) = page.conversations.iter().find(|summary| summary.damaged) {
        return Err(format!("{} is said to be damaged", damaged.id));
    }
    let ids = store.ids("", 10).map_err(failed)?;
    verified(store, None)?;
    Ok(ids)
}

/// A process that is killed while it makes a store, and the first conversation in it, leaves a store that can be read, or none.
/// There is no conversation, or the whole of it; none is missing that was acknowledged.
#[test]
fn a_kill_while_a_store_is_made_leaves_one_that_can_be_read() {
    let Some(shim) = shim() else { return };
    for kind in KINDS {
        let place = Place::new(kind);
        let fault = place.fault(Kind::Eio, 0);
        let said = Child::of("child", &job(&place)).with(&shim, &fault).run();
        assert!(said.done, "{said:#?}");
        let calls = fault.calls().unwrap();
        let cases = cases(calls, &Kind::ENDS);
        println!("{kind}: {calls} calls, {} cases", cases.len());
        each(&cases, |end, at| {
            let place = Place::new(kind);
            let said = Child::of("child", &job(&place)).with(&shim, &place.fault(end, at)).run();
            let context = || format!("{kind} {end:?} at {at}\n{}", place.trace());
            let expected = first_entries(conversation(1));
            let acknowledged = said.told.iter().any(|told| told == "appended");
            for options in [READ, WRITE] {
                let store = match open(&location(&place), options) {
                    Err(StoreError::Missing(_)) if !acknowledged => continue,
                    opened => opened.unwrap_or_else(|why| panic!("{}: {why}", context())),
                };
                let ids = look_around(&*store).unwrap_or_else(|why| panic!("{}: {why}", context()));
                let held = read_all(&*store, conversation(1)).unwrap();
                if ids.is_empty() {
                    assert!(held.is_empty() && !acknowledged, "{}", context());
                } else {
                    assert_eq!(difference(&held, &expected), None, "{}", context());
                }
            }
            // And the next process continues.
            let store = open(&location(&place), WRITE).unwrap();
            store.append(conversation(1), None, &expected).unwrap();
            store.append(conversation(2), None, &first_entries(conversation(2))).unwrap();
            assert_eq!(look_around(&*store).unwrap().len(), 2);
        });
    }
}

/// Files that need not survive a power cut: locks, and files that can be rebuilt.
fn is_passing(path: &str) -> bool {
    [".lock", "-shm", "index", ".writable-"].iter().any(|part| path.contains(part))
}

/// Every file and folder that a store made is durable when it is done: its content is synced, and so is the folder that its
/// name is in, all the way up to the folders that were there before.
#[test]
fn every_new_name_is_synced_with_its_folder() {
    let Some(shim) = shim() else { return };
    for kind in KINDS {
        let place = Place::new(kind);
        let said = Child::of("child", &job(&place)).with(&shim, &place.fault(Kind::Eio, 0)).run();
        assert!(said.done, "{said:#?}");
        let trace = std::fs::read_to_string(place.notes().join("trace")).unwrap();
        let mut unsynced: BTreeSet<String> = BTreeSet::new();
        let mut made = 0;
        for line in trace.lines() {
            let [_, call, path] = line.splitn(4, ' ').take(3).collect::<Vec<_>>()[..] else { continue };
            let above = Path::new(path).parent().and_then(Path::to_str).unwrap_or("").trim_end_matches('/');
            match call {
                "mkdir" => {
                    made += 1;
                    unsynced.insert(above.to_owned());
                }
                "open" | "open64" if !is_passing(path) => {
                    made += 1;
                    unsynced.extend([path.to_owned(), above.to_owned()]);
                }
                "rename" => {
                    unsynced.remove(path);
                    unsynced.insert(above.to_owned());
                }
                "unlink" => {
                    unsynced.remove(path);
                }
                "fsync" | "fdatasync" => {
                    unsynced.remove(path);
                }
                _ => {}
            }
        }
        assert!(made >= 5, "{kind}: {trace}");
        assert!(unsynced.is_empty(), "{kind}: {unsynced:?} is never synced\n{trace}");
    }
}
