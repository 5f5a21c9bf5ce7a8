//! Kills during every operation on a store: half of them before, after or in the middle of a chosen call that changes a file, half
//! at random moments.
//!
//! `REJOIN_LONG_KILLS` sets their number, over both stores, and `REJOIN_SEED` where they begin; `cargo xtask faults --long` runs
//! 10,000.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use rejoin_engine::open_store;
use rejoin_store::Access;
use testkit::faults::{Child, Dice, Job, Kind, Ledger, Place, Shim, failures, number_from, quick_folder};

use super::{Jobs as _, KINDS, deeds, shim};

/// The number of kills that one store takes before the next one is used.
const STRETCH: u64 = 8;

/// The number of things that a child does unless it is killed.
const DEEDS: u64 = 8;

/// Ends of a process that leave the files as they are.
const ENDS: [Kind; 3] = [Kind::KillBefore, Kind::KillAfter, Kind::ShortKill];

/// The outcomes of the kills.
#[derive(Default)]
struct Tally {
    killed: BTreeMap<String, u64>,
    at_a_call: u64,
    acknowledged: u64,
    runs: u64,
    wrong: Vec<String>,
}

/// One store, and some processes that work on it and are killed.
fn stretch(kind: &'static str, seed: u64, shim: &Shim, tally: &Mutex<Tally>) {
    let mut dice = Dice(seed);
    let place = Place::new(quick_folder(), kind);
    deeds::make_other(&place.notes(), kind);
    let mut ledger = Ledger::default();
    // How late a kill may come: later if it hits most processes, sooner if they are done before it.
    let (mut calls, mut millis) = (120.0_f64, 60.0_f64);
    for round in 0..STRETCH {
        let job = Job { ..place.job("deeds", dice.roll(), DEEDS) };
        let child = Child::of("child", &job).env("REJOIN_NOTES", place.notes());
        let at_a_call = round % 2 == 0;
        let (said, how) = if at_a_call {
            let end = ENDS[dice.below(3) as usize];
            let fault = place.fault(end, 1 + dice.below(calls as u64));
            let said = child.with(shim, &fault).run();
            calls = if said.done { (calls * 0.6).max(20.0) } else { calls * 1.2 };
            (said, format!("{end:?} at call {}", fault.at))
        } else {
            let time = Duration::from_micros(4000 + dice.below((millis * 1000.0) as u64));
            let said = child.run_for(time);
            millis = if said.done { (millis * 0.6).max(10.0) } else { millis * 1.2 };
            (said, format!("a kill after {time:?}"))
        };
        let was = ledger.acknowledged();
        ledger.hear(&said);
        let mut wrong: Vec<String> = Vec::new();
        wrong.extend(said.wrong.iter().map(|why| format!("refused: {why}")));
        wrong.extend(ledger.refused().iter().map(|why| format!("refused: {why}")));
        if said.stderr.contains("panicked") {
            wrong.push(format!("panic: {}", said.stderr.lines().take(3).collect::<Vec<_>>().join(" ")));
        }
        for access in [Access::Read, Access::Write] {
            match open_store(&place.location(), access) {
                // Another test covers partial forks.
                Ok(store) => {
                    wrong.extend(ledger.check(&*store).into_iter().filter(|why| !is_half_a_fork(why)))
                }
                // Before the first append there need not be anything to read.
                Err(_) if access == Access::Read && ledger.acknowledged() == 0 => {}
                Err(why) => wrong.push(format!("does not open: {access:?}: {why}")),
            }
        }
        if let Ok(store) = open_store(&place.location(), Access::Read) {
            ledger.settle(&*store);
        }
        let mut tally = tally.lock().unwrap();
        tally.runs += 1;
        tally.acknowledged += ledger.acknowledged() - was;
        if !said.done {
            *tally.killed.entry(ledger.doing().to_owned()).or_default() += 1;
            tally.at_a_call += u64::from(at_a_call);
        }
        if !wrong.is_empty() {
            let about = format!("{kind}, seed {seed}, round {round}, in {}, {how}", ledger.doing());
            tally.wrong.extend(wrong.iter().map(|why| format!("{why}\n    {about}")));
            return;
        }
    }
}

/// B42, B50: whatever a process is doing when it is killed, everything acknowledged is kept, a fork exists completely or not at
/// all, every way of reading works, and `verify` finds nothing.
#[test]
fn a_kill_in_any_deed_loses_nothing() {
    let Some(shim) = shim() else { return };
    let wanted = number_from("REJOIN_LONG_KILLS").unwrap_or(60);
    let first = number_from("REJOIN_SEED").unwrap_or(1);
    let (tally, next) = (Mutex::new(Tally::default()), AtomicU64::new(0));
    let killed = || tally.lock().unwrap().killed.values().sum::<u64>();
    // A process that waits for its end takes no time, so there are more of them than cores.
    let threads = 2 * std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while killed() < wanted {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    stretch(KINDS[number as usize % 2], first + number, &shim, &tally);
                }
            });
        }
    });
    let tally = tally.into_inner().unwrap();
    println!(
        "{} kills in {} runs, {} of them at a chosen call; {} things were acknowledged; killed while doing: {:?}",
        tally.killed.values().sum::<u64>(),
        tally.runs,
        tally.at_a_call,
        tally.acknowledged,
        tally.killed,
    );
    failures(&tally.wrong);
}

fn is_half_a_fork(wrong: &str) -> bool {
    wrong.starts_with("half a fork: ")
}

/// If a fork's process is killed at any call, the fork exists completely or not at all.
#[test]
fn a_killed_fork_is_there_as_a_whole_or_not_at_all() {
    let Some(shim) = shim() else { return };
    let mut wrong = Vec::new();
    for kind in KINDS {
        let run = |end: Kind, at: u64| {
            let place = Place::new(quick_folder(), kind);
            deeds::make_other(&place.notes(), kind);
            let mut ledger = Ledger::default();
            let child = |what: &str, steps| {
                Child::of("child", &place.job(what, 7, steps)).env("REJOIN_NOTES", place.notes())
            };
            ledger.hear(&child("deed begin", 1).run());
            ledger.hear(&child("deed say", 5).run());
            let fault = place.fault(end, at);
            let said = child("deed fork", 1).with(&shim, &fault).run();
            ledger.hear(&said);
            let store = open_store(&place.location(), Access::Read).unwrap();
            let found = ledger.check(&*store).into_iter();
            (
                fault.calls(),
                found.map(|why| format!("{why}\n    {kind}, {end:?} at {at}")).collect::<Vec<_>>(),
            )
        };
        let calls = run(Kind::KillBefore, 0).0.expect("the shim is loaded and counts calls");
        for at in 1..=calls {
            for end in ENDS {
                wrong.extend(run(end, at).1);
            }
        }
    }
    failures(&wrong);
}
