//! The fault suite of the stores that live on a disk: calls that fail, processes that are killed at every call, damaged files, many
//! writers, old schemas.
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
    path::PathBuf,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use rejoin_record::{Content, ConversationId, Entry};
use rejoin_store::{Access, Digest, Location, Options, Store, Summarize, Title, Words, open};
use tempfile::TempDir;
use testkit::faults::{Fault, Job, Kind, Shim, give_up, job, quick_folder, thorough, work};

/// What the index of these tests knows about entries.
fn digest(_: Option<&str>) -> Box<dyn Summarize> {
    Box::new(digest_of)
}

fn digest_of(entry: &Entry) -> Digest {
    let mut digest = Digest { time: Some(entry.envelope().timestamp), ..Digest::default() };
    if let Content::Message(message) = Content::of(entry) {
        let text = message.content().unwrap_or_default();
        digest.title = Some(Title::Said(text.chars().take(60).collect()));
        digest.words = Some(Words { role: message.role.to_string(), text: text.into() });
        digest.is_message = true;
    }
    digest
}

const WRITE: Options = Options { access: Access::Write, digester: digest };
const READ: Options = Options { access: Access::Read, digester: digest };

/// A place for one store, and a place for notes beside it.
struct Place {
    folder: TempDir,
    kind: &'static str,
}

const KINDS: [&str; 2] = ["sqlite", "jsonl"];

impl Place {
    fn new(kind: &'static str) -> Self {
        let place = Self { folder: quick_folder(), kind };
        std::fs::create_dir(place.under()).unwrap();
        std::fs::create_dir(place.notes()).unwrap();
        place
    }

    fn under(&self) -> PathBuf {
        self.folder.path().join("store")
    }

    fn notes(&self) -> PathBuf {
        self.folder.path().join("notes")
    }

    fn location(&self) -> Location {
        match self.kind {
            "sqlite" => Location::Sqlite(self.under().join("rejoin.db")),
            _ => Location::Jsonl(self.under()),
        }
    }

    /// Goes on with a conversation for some steps.
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

    fn fault(&self, kind: Kind, at: u64) -> Fault {
        Fault { kind, at, under: self.under(), notes: self.notes() }
    }

    /// What a child did to the files, for whoever looks into a failure.
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

/// Every call with every kind; where there is less time, every call with one kind and a few with each.
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
