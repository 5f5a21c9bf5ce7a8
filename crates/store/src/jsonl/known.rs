//! The entries that were read so far, and the check whether the next one fits them.

use std::collections::HashMap;

use rejoin_record::{Entry, EntryId, Hash};

/// How far an entry is verified.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Its body and its place in the chain are verified.
    Sure,
    /// Its body is verified, but its parent cannot be read.
    Unsure,
    /// It differs from the stored entry.
    Wrong(String),
}

/// The entries that were read so far.
#[derive(Debug, Default)]
pub(super) struct EntriesRead {
    /// Their hashes, and whether each hash is verified.
    hashes: HashMap<EntryId, (Hash, bool)>,
    claimed: HashMap<EntryId, Hash>,
    /// Every `seq` below this one was read.
    complete_to: u64,
}

impl EntriesRead {
    /// The next `seq` in order.
    pub(super) fn expected(&self) -> u64 {
        self.complete_to
    }

    pub(super) fn has(&self, id: EntryId) -> bool {
        self.hashes.contains_key(&id)
    }

    /// Whether an entry directly continues the entries that were read.
    pub(super) fn goes_on_with(&self, entry: &Entry) -> bool {
        let envelope = entry.envelope();
        let parent = match envelope.parent {
            None => envelope.seq == 0,
            Some(parent) => self.hashes.get(&parent).is_some_and(|(_, sure)| *sure),
        };
        envelope.seq == self.complete_to
            && parent
            && !self.has(entry.id())
            && entry.verifies(envelope.parent.and_then(|parent| Some(self.hashes.get(&parent)?.0)))
    }

    /// Judges an entry. One found inside a line (`leads` is false) must prove more, because text in a damaged line must never
    /// become an entry.
    pub(super) fn judge(&self, entry: &Entry, leads: bool) -> Verdict {
        let envelope = entry.envelope();
        let changed = || Verdict::Wrong(format!("entry {} has changed since it was appended", entry.id()));
        let Some(parent) = envelope.parent else {
            return if entry.verifies(None) { Verdict::Sure } else { changed() };
        };
        match (self.hashes.get(&parent), self.claimed.get(&parent)) {
            (Some((hash, _)), _) if entry.verifies(Some(*hash)) => Verdict::Sure,
            (Some((_, true)), _) => changed(),
            (None, Some(claimed)) if entry.verifies(Some(*claimed)) => Verdict::Sure,
            _ if !leads || !entry.body_verifies() => changed(),
            // Everything before it was read without finding its parent, so the parent's id was changed.
            (None, None) if self.complete_to >= envelope.seq => changed(),
            _ => Verdict::Unsure,
        }
    }

    pub(super) fn add(&mut self, entry: &Entry, sure: bool) {
        self.hashes.insert(entry.id(), (entry.hash(), sure));
        if entry.envelope().seq == self.complete_to {
            self.complete_to += 1;
        }
    }

    /// Remembers the hash that an unverified entry states.
    pub(super) fn claim(&mut self, entry: &Entry) {
        self.claimed.insert(entry.id(), entry.hash());
    }
}
