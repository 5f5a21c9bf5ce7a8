//! Fuzzing on a stable compiler: feeds arbitrary bytes to every reader and decoder, and checks the laws that must always hold.
//!
//! A [`Target`] is one entry point, with its laws (`targets.rs`; those of every conversation are in `conversation.rs`). `mutate.rs`
//! makes new inputs from old ones, `explore.rs` runs them and keeps those that show something new, `minimise.rs` makes a failing
//! input small, `driver.rs` does that for many targets at once. The first inputs are files in `testkit/fuzz/<target>/`
//! (`seeds.rs`). Targets come from the registries, so a new format or dialect is fuzzed without a change here.

pub mod accounted;
mod clock;
mod conversation;
pub mod driver;
pub mod explore;
mod guard;
mod json;
pub mod minimise;
pub mod mutate;
pub mod random;
pub mod reshape;
pub mod seeds;
mod sketch;
pub mod targets;

use std::{
    collections::BTreeSet,
    hash::{DefaultHasher, Hash, Hasher},
};

pub use conversation::read_back;
pub use guard::{guarded, watched};
use rejoin_record::Message;
use rejoin_view::Fate;
pub use targets::Target;

/// Everything that may be known of a call.
const FATES: [Fate; 7] = [
    Fate::Unknown,
    Fate::Started,
    Fate::NotStarted,
    Fate::AwaitingApproval,
    Fate::ClosedLeftOut,
    Fate::ClosedInterrupted,
    Fate::ClosedWithBatch,
];

/// Fates of the calls in a message, with the position of each: any of `FATES`, but always the same for the same seed.
#[must_use]
pub fn fates(message: &Message, index: usize, seed: u8) -> Vec<(usize, Fate)> {
    let calls = message.blocks.iter().enumerate().filter(|(_, block)| block.as_call().is_some());
    calls
        .map(|(block, _)| (block, FATES[(index * 5 + block * 3 + usize::from(seed)) % FATES.len()]))
        .collect()
}

/// Something that does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// The broken law, the same for the same mistake, so that each mistake is reported once.
    pub law: String,
    /// With which values.
    pub detail: String,
}

impl Broken {
    /// A law that is broken, and how.
    #[must_use]
    pub fn new(law: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { law: law.into(), detail: detail.into() }
    }
}

/// The features of a run: kinds of findings, of messages, of refusals. An input with a new feature is worth keeping.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Signs(BTreeSet<u64>);

impl Signs {
    /// Notes something that was seen.
    pub fn see(&mut self, what: impl Hash) {
        self.0.insert(hash(what));
    }

    /// Everything that was seen.
    pub fn iter(&self) -> impl Iterator<Item = u64> {
        self.0.iter().copied()
    }

    /// One number for all of it together.
    #[must_use]
    pub fn together(&self) -> u64 {
        hash(&self.0)
    }
}

/// A number for a value, the same in every run.
pub fn hash(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests;
