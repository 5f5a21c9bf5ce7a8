//! Processes that write to a store and are made to fail, and the checks afterwards.
//!
//! A test starts itself again as a [`Child`], with a fault in it (`shim.rs`, `shim/fault.c`). The child follows a [`Script`] and
//! reports what it tries and what was acknowledged (`child.rs`). When it has ended, the [`Model`] of its reports is compared with
//! the content of the store.

mod child;
mod digest;
mod model;
mod needed;
mod place;
#[cfg(unix)]
mod power;
mod script;
mod shim;
mod strike;
mod witness;

pub use child::{Child, ChildOutput, Job, give_up, holder, job, open_patiently, read_all, say, work};
pub use digest::digest;
pub use model::{Model, verified};
pub use needed::{SKIP_SHIM, shim};
pub use place::Place;
#[cfg(unix)]
pub use power::{Cut, Journal};
pub use script::{Dice, Script, Step};
pub use shim::{Fault, Kind, NoShim, Shim};
pub use strike::{Files, Grain, materialise, snapshot, strike, strike_in};
pub use witness::{Ledger, Witness};

/// How many rounds a test of chance has: `REJOIN_FAULTS`, or as many as an ordinary run has time for.
#[must_use]
pub fn rounds(ordinary: usize) -> usize {
    std::env::var("REJOIN_FAULTS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(ordinary)
}

/// Whether there is time: `REJOIN_FAULTS` is set.
#[must_use]
pub fn thorough() -> bool {
    std::env::var_os("REJOIN_FAULTS").is_some()
}

/// A number from the environment.
#[must_use]
pub fn number_from(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Fails if there are failures: each kind with its count and a few examples. A failure begins with its kind and a colon.
///
/// # Panics
/// If there are failures.
pub fn failures(all: &[String]) {
    let mut kinds: std::collections::BTreeMap<&str, Vec<&str>> = std::collections::BTreeMap::new();
    for failure in all {
        let kind = failure.split_once(':').map_or(failure.as_str(), |(kind, _)| kind);
        kinds.entry(kind).or_default().push(failure);
    }
    let mut text = String::new();
    for (kind, examples) in &kinds {
        text.push_str(&format!("{} × {kind}\n", examples.len()));
        for example in examples.iter().take(8) {
            text.push_str(&format!("  {example}\n"));
        }
    }
    assert!(all.is_empty(), "{} failures\n{text}", all.len());
}

/// A folder for the files of one test, in memory if possible: a sync of a real disk takes long, and the tests already know what it
/// would keep.
///
/// # Panics
/// If there is no room for one.
#[must_use]
pub fn quick_folder() -> tempfile::TempDir {
    let memory = std::path::Path::new("/dev/shm");
    tempfile::TempDir::new_in(memory).or_else(|_| tempfile::TempDir::new()).expect("a folder can be made")
}

/// The first difference between two lists of entries, in a line that a person can read.
#[must_use]
pub fn difference(held: &[rejoin_record::Entry], expected: &[rejoin_record::Entry]) -> Option<String> {
    let (held, expected): (Vec<_>, Vec<_>) = (
        held.iter().map(|entry| entry.to_line()).collect(),
        expected.iter().map(|entry| entry.to_line()).collect(),
    );
    if held == expected {
        return None;
    }
    let place = held.iter().zip(&expected).take_while(|(held, expected)| held == expected).count();
    let line = |lines: &[String]| lines.get(place).map(|line| line.chars().take(300).collect::<String>());
    Some(format!(
        "{} entries, not {}; number {place} is {:?}, not {:?}",
        held.len(),
        expected.len(),
        line(&held),
        line(&expected)
    ))
}
