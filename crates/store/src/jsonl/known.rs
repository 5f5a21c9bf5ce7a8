//! The entries that were read so far, and whether the next one fits them.

use std::collections::HashMap;

use rejoin_record::{Entry, EntryId, Hash};

/// Whether an entry is what was stored.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Body and chain agree.
    Sure,
    /// The body agrees. The parent cannot be read.
    Unsure,
    /// It is not what was stored.
    Wrong(String),
}

/// The entries that were read so far.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// Their hashes, and whether those are proven.
    hashes: HashMap<EntryId, (Hash, bool)>,
    claimed: HashMap<EntryId, Hash>,
    /// Every `seq` below this one was read.
    complete_to: u64,
}

impl Known {
    /// The `seq` that should come next.
    pub(super) fn expected(&self) -> u64 {
        self.complete_to
    }

    pub(super) fn has(&self, id: EntryId) -> bool {
        self.hashes.contains_key(&id)
    }

    /// Whether an entry simply continues what was read.
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

    /// Judges an entry. One that was found inside a line (`leads` is false) has to prove more: text in a damaged line must never become an
    /// entry.
    pub(super) fn judge(&self, entry: &Entry, leads: bool) -> Verdict {
        let envelope = entry.envelope();
        let changed =
            || Verdict::Wrong(format!("entry {} is not what it was when it was appended", entry.id()));
        let Some(parent) = envelope.parent else {
            return if entry.verifies(None) { Verdict::Sure } else { changed() };
        };
        match (self.hashes.get(&parent), self.claimed.get(&parent)) {
            (Some((hash, _)), _) if entry.verifies(Some(*hash)) => Verdict::Sure,
            (Some((_, true)), _) => changed(),
            (None, Some(claimed)) if entry.verifies(Some(*claimed)) => Verdict::Sure,
            _ if !leads || !entry.body_verifies() => changed(),
            // Everything before it was read, and its parent is not there: the id of the parent was changed.
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

    /// Remembers the hash that a damaged entry claims.
    pub(super) fn claim(&mut self, entry: &Entry) {
        self.claimed.insert(entry.id(), entry.hash());
    }
}
