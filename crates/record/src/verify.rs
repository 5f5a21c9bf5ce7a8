//! Verifies a conversation: every entry must be unchanged since it was appended.

use std::collections::HashMap;

use crate::{
    entry::{Entry, Kind},
    hash::Hash,
    ids::EntryId,
};

/// A contradiction among the entries of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Discrepancy {
    /// The first entry is not a header.
    #[error("the conversation does not begin with a header")]
    NoHeader,
    /// A sequence number is missing or repeated.
    #[error("entry {id} has seq {found} instead of {expected}")]
    Sequence {
        /// The entry.
        id: EntryId,
        /// Its sequence number.
        found: u64,
        /// The sequence number that should follow.
        expected: u64,
    },
    /// An id is used twice.
    #[error("entry {0} occurs twice")]
    Repeated(EntryId),
    /// A parent is missing, or not before its child.
    #[error("entry {id} follows {parent}, which is not before it")]
    NoParent {
        /// The entry.
        id: EntryId,
        /// The parent it names.
        parent: EntryId,
    },
    /// An entry other than the header has no parent.
    #[error("entry {0} has no parent")]
    Rootless(EntryId),
    /// The content or the hash was changed.
    #[error("entry {0} has changed since it was appended")]
    Changed(EntryId),
}

/// Checks all entries of a conversation, given in the order of appending. An empty result means that nothing was changed.
#[must_use]
pub fn verify<'e>(entries: impl IntoIterator<Item = &'e Entry>) -> Vec<Discrepancy> {
    check(entries, Entry::verifies, Entry::body_verifies)
}

/// Checks only how entries are linked, without hashing them, for entries that a store verified on reading.
#[must_use]
pub fn verify_order<'e>(entries: impl IntoIterator<Item = &'e Entry>) -> Vec<Discrepancy> {
    check(entries, |_, _| true, |_| true)
}

fn check<'e>(
    entries: impl IntoIterator<Item = &'e Entry>,
    is_unchanged: impl Fn(&Entry, Option<Hash>) -> bool,
    is_body_unchanged: impl Fn(&Entry) -> bool,
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
        let unlinked = match envelope.parent {
            Some(parent) if parent_hash.is_none() => Some(Discrepancy::NoParent { id, parent }),
            None if expected > 0 => Some(Discrepancy::Rootless(id)),
            _ => None,
        };
        // Without the hash of its parent, only the body of an entry can be checked.
        let unchanged =
            if unlinked.is_some() { is_body_unchanged(entry) } else { is_unchanged(entry, parent_hash) };
        found.extend(unlinked);
        if !unchanged {
            found.push(Discrepancy::Changed(id));
        }
        if hashes.insert(id, entry.hash()).is_some() {
            found.push(Discrepancy::Repeated(id));
        }
        expected = envelope.seq.saturating_add(1);
    }
    found
}
