//! The fault suite of the stores on disk: calls that fail, processes that are killed at every call, damaged files, many writers,
//! old schemas.
//!
//! `REJOIN_FAULTS` makes it thorough; `cargo xtask faults` sets it.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

#[path = "../support/mod.rs"]
mod support;

mod calls;
mod corrupt;
mod creation;
mod pages;
mod schema;
mod writers;

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use rejoin_record::ConversationId;
use rejoin_store::{Access, Options, Store, open};
use testkit::faults::{Job, Kind, Shim, digest, give_up, job, quick_folder, thorough, work};

const KINDS: [&str; 2] = testkit::faults::Place::KINDS;

const WRITE: Options = Options { access: Access::Write, digester: digest };
const READ: Options = Options { access: Access::Read, digester: digest };

/// A place for one store, with the operations of these tests.
struct Place(testkit::faults::Place);

impl std::ops::Deref for Place {
    type Target = testkit::faults::Place;
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl Place {
    fn new(kind: &'static str) -> Self {
        Self(testkit::faults::Place::new(quick_folder(), kind))
    }

    /// Continues a conversation for some steps.
    fn job(&self, number: u64, steps: u64) -> Job {
        Job {
            what: String::from("work"),
            store: self.location(),
            conversation: conversation(number),
            seed: number,
            steps,
            time: Duration::ZERO,
        }
    }

    fn open(&self) -> Box<dyn Store> {
        open(&self.location(), WRITE).unwrap()
    }

    /// The file operations of a child process, to investigate a failure.
    fn trace(&self) -> String {
        let trace = std::fs::read_to_string(self.notes().join("trace")).unwrap_or_default();
        let lines: Vec<&str> = trace.lines().collect();
        lines[lines.len().saturating_sub(40)..].join("\n")
    }
}

fn conversation(number: u64) -> ConversationId {
    ConversationId::derive("faults", &number.to_string())
}

/// The library that makes files fail.
fn shim() -> Option<Shim> {
    testkit::faults::shim(env!("CARGO_TARGET_TMPDIR"))
}

/// Runs the cases on every core.
fn each(cases: &[(Kind, u64)], check: impl Fn(Kind, u64) + Sync) {
    let next = AtomicU64::new(0);
    let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
    std::thread::scope(|scope| {
        let work = || {
            while let Some((kind, at)) = cases.get(next.fetch_add(1, Ordering::Relaxed) as usize) {
                check(*kind, *at);
            }
        };
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        for thread in threads {
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
    });
}

/// So few calls can each be tried with every kind of fault.
const FEW: u64 = 50;

/// Every call with every kind of fault; in a short run, every call with one kind and a few with each.
fn cases(calls: u64, kinds: &[Kind]) -> Vec<(Kind, u64)> {
    let mut cases = Vec::new();
    for at in 1..=calls {
        for (number, kind) in kinds.iter().enumerate() {
            if thorough() || calls < FEW || at % kinds.len() as u64 == number as u64 {
                cases.push((*kind, at));
            }
        }
    }
    cases
}

/// The process that the tests start, and that they kill.
#[test]
fn child() {
    let Some(job) = job() else { return };
    match job.what.as_str() {
        "give up" => give_up(&job, WRITE, conversation(2)),
        "create" => creation::create(&job),
        "open" => schema::just_open(&job),
        "hold" => writers::hold(&job),
        "race" => writers::race(&job),
        _ => work(&job, WRITE),
    }
}
