//! Re-hashing a conversation: is every entry what it was when it was appended?

use std::collections::HashMap;

use crate::{
    entry::{Entry, Kind},
    hash::Hash,
    ids::EntryId,
};

/// Something that does not add up.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Discrepancy {
    /// The first entry is not a header.
    #[error("the conversation does not begin with a header")]
    NoHeader,
    /// A sequence number is missing or repeated.
    #[error("entry {id} has seq {found} where {expected} should stand")]
    Sequence {
        /// The entry.
        id: EntryId,
        /// What it says.
        found: u64,
        /// What it should say.
        expected: u64,
    },
    /// An id is used twice.
    #[error("entry {0} occurs twice")]
    Repeated(EntryId),
    /// A parent is not there, or not before its child.
    #[error("entry {id} follows {parent}, which does not stand before it")]
    NoParent {
        /// The entry.
        id: EntryId,
        /// The parent it names.
        parent: EntryId,
    },
    /// Only a header may stand without a parent.
    #[error("entry {0} has no parent")]
    Rootless(EntryId),
    /// Content or hash were changed.
    #[error("entry {0} is not what it was when it was appended")]
    Changed(EntryId),
}

/// Checks all entries of a conversation, in the order of appending. Nothing found means nothing was changed.
#[must_use]
pub fn verify<'e>(entries: impl IntoIterator<Item = &'e Entry>) -> Vec<Discrepancy> {
    check(entries, Entry::verifies)
}

/// Checks how entries hang together, without hashing them: for entries that a store has verified when it read them.
#[must_use]
pub fn verify_order<'e>(entries: impl IntoIterator<Item = &'e Entry>) -> Vec<Discrepancy> {
    check(entries, |_, _| true)
}

fn check<'e>(
    entries: impl IntoIterator<Item = &'e Entry>,
    is_unchanged: impl Fn(&Entry, Option<Hash>) -> bool,
) -> Vec<Discrepancy> {
    let mut found = Vec::new();
    let mut hashes: HashMap<EntryId, Hash> = HashMap::new();
    let mut expected = 0;
    for entry in entries {
        let envelope = entry.envelope();
        let id = entry.id();
        if envelope.seq != expected {
            found.push(Discrepancy::Sequence { id, found: envelope.seq, expected });
        }
        if expected == 0 && (envelope.kind != Kind::Header || envelope.parent.is_some()) {
            found.push(Discrepancy::NoHeader);
        }
        let parent_hash = envelope.parent.and_then(|parent| hashes.get(&parent).copied());
        match envelope.parent {
            Some(parent) if parent_hash.is_none() => found.push(Discrepancy::NoParent { id, parent }),
            None if expected > 0 => found.push(Discrepancy::Rootless(id)),
            _ if !is_unchanged(entry, parent_hash) => found.push(Discrepancy::Changed(id)),
            _ => {}
        }
        if hashes.insert(id, entry.hash()).is_some() {
            found.push(Discrepancy::Repeated(id));
        }
        expected = envelope.seq.saturating_add(1);
    }
    found
}
