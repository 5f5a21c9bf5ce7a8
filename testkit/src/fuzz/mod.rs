//! Fuzzing on a stable compiler: arbitrary bytes go into every reader and decoder, and what must always hold is checked.
//!
//! A [`Target`] is one way in, with what must hold there (`targets.rs`; of every conversation that was read,
//! `conversation.rs`). `mutate.rs` makes new inputs of old ones, `explore.rs` runs them and keeps what shows something
//! new, `minimise.rs` makes a failing input small, `driver.rs` does that for many targets at once. The first inputs are
//! files in `testkit/fuzz/<target>/` (`seeds.rs`). Targets come from the registries, so a new format or dialect is fuzzed
//! without a line here.

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

/// What is known of the calls of a message, with the place of each: any of `FATES`, but always the same for the same seed.
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
    /// What: the same for the same mistake, so that one mistake is told once.
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

/// What a run showed: kinds of findings, of messages, of refusals. An input that shows something new is worth keeping.
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
