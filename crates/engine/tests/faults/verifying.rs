//! `verify` while other processes append, fork, erase, delete, import and copy.

use std::time::{Duration, Instant};

use rejoin_engine::open_store;
use rejoin_store::{Access, Query};
use testkit::faults::{Child, ChildOutput, Place, failures, quick_folder, thorough};

use super::{Jobs as _, deeds};

/// Their operations: everything at random, and two operations continuously.
const JOBS: [&str; 3] = ["deeds", "deed turn", "deed fork"];

/// Whatever other processes do to a store, `verify` finds no fault.
fn verifies_while_others_write(kind: &'static str) {
    let time = Duration::from_secs(if thorough() { 60 } else { 4 });
    let mut all = Vec::new();
    let place = Place::new(quick_folder(), kind);
    deeds::make_other(&place.notes(), kind);
    let begun = Child::of("child", &place.job("deed begin", 1, 3)).env("REJOIN_NOTES", place.notes()).run();
    assert!(begun.done, "{kind}: {}", begun.stderr);
    let writers: Vec<_> = JOBS
        .iter()
        .zip(1..)
        .map(|(what, seed)| {
            let mut job = place.job(what, seed, u64::MAX);
            job.time = time;
            Child::of("child", &job).env("REJOIN_NOTES", place.notes()).start()
        })
        .collect();
    let listening: Vec<_> =
        writers.into_iter().map(|child| std::thread::spawn(move || ChildOutput::by(child))).collect();
    let lasting = open_store(&place.location(), Access::Read).unwrap();
    let (start, mut looks) = (Instant::now(), 0);
    while start.elapsed() < time {
        looks += 1;
        let new = open_store(&place.location(), Access::Read);
        let new = new.unwrap_or_else(|why| panic!("{kind}: it does not open: {why}"));
        for (who, store) in [("an open store", &lasting), ("a new one", &new)] {
            let found = store.verify(None, &mut |problem| {
                all.push(format!("{kind}, false alarm: {who}: {}: {}", problem.place, problem.what));
            });
            if let Err(why) = found {
                all.push(format!("{kind}, cannot be verified: {who}: {why}"));
            }
            if let Err(why) = store.list(&Query::default()) {
                all.push(format!("{kind}, cannot be listed: {who}: {why}"));
            }
        }
    }
    let mut acknowledged = 0;
    for said in listening.into_iter().map(|listening| listening.join().unwrap()) {
        acknowledged += said.lines.iter().filter(|line| line.starts_with("@did")).count();
        if !said.done {
            all.push(format!(
                "{kind}, a writer failed: {}",
                said.stderr.chars().take(400).collect::<String>()
            ));
        }
    }
    println!("{kind}: verified {} times during {acknowledged} writes", 2 * looks);
    assert!(looks > 2 && acknowledged > 20, "{kind}: too little happened");
    failures(&all);
}

#[test]
fn verify_raises_no_false_alarm_while_others_write_to_a_database() {
    verifies_while_others_write("sqlite");
}

#[test]
fn verify_raises_no_false_alarm_while_others_write_to_files() {
    verifies_while_others_write("jsonl");
}
