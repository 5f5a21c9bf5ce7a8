//! Appending: the next entry of a conversation, sealed onto its parent.

use jiff::Timestamp;

use crate::{
    content::Content,
    entry::{Entry, Envelope, Kind, SaltedBody, VERSION},
    hash::Hash,
    ids::{EntryId, Salt},
    text::{Raw, Text},
};

/// What the caller knows that the record cannot: when, and which random bits.
#[derive(Debug, Clone)]
pub struct Stamp {
    /// The new entry's id.
    pub id: EntryId,
    /// Now.
    pub timestamp: Timestamp,
    /// Fresh random bytes.
    pub salt: Salt,
    /// The source's own time, for imports.
    pub source_time: Option<Text>,
}

/// The newest entry of a conversation, as far as the next one has to know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tail {
    /// Its place in the order of appending.
    pub seq: u64,
    /// Its id.
    pub id: EntryId,
    /// Its hash.
    pub hash: Hash,
}

impl Tail {
    /// The tail of a conversation whose newest entry is this one.
    #[must_use]
    pub fn of(entry: &Entry) -> Self {
        Self { seq: entry.envelope().seq, id: entry.id(), hash: entry.hash() }
    }
}

/// The end of a conversation: what the next entry follows.
#[derive(Debug, Clone)]
pub struct Chain(Option<Tail>);

impl Chain {
    /// A conversation without entries.
    #[must_use]
    pub fn empty() -> Self {
        Self(None)
    }

    /// A conversation with that tail; none has no entries.
    #[must_use]
    pub fn at(tail: Option<Tail>) -> Self {
        Self(tail)
    }

    /// The entry that the next one follows, unless it is made a branch.
    #[must_use]
    pub fn head(&self) -> Option<(EntryId, Hash)> {
        self.0.map(|tail| (tail.id, tail.hash))
    }

    /// Seals an entry again, as the next one of this conversation: id, times, salt and body stay. None if its content was erased.
    pub fn reseal(&mut self, parent: Option<(EntryId, Hash)>, entry: &Entry) -> Option<Entry> {
        let envelope = entry.envelope();
        let SaltedBody { salt, body } = entry.content()?.clone();
        let stamp = Stamp {
            id: envelope.id,
            timestamp: envelope.timestamp,
            salt,
            source_time: envelope.source_time.clone(),
        };
        Some(self.append_body(parent, envelope.kind.clone(), body, stamp))
    }

    /// Seals the next entry onto the head and moves the head to it. It is not stored yet.
    pub fn append(&mut self, kind: Kind, content: &Content, stamp: Stamp) -> Entry {
        self.append_under(self.head(), kind, content, stamp)
    }

    /// Seals the next entry onto any earlier entry, which makes a branch, and moves the head to it.
    pub fn append_under(
        &mut self,
        parent: Option<(EntryId, Hash)>,
        kind: Kind,
        content: &Content,
        stamp: Stamp,
    ) -> Entry {
        self.append_body(parent, kind, content.to_body(), stamp)
    }

    /// The same with a body that is written already.
    pub fn append_body(
        &mut self,
        parent: Option<(EntryId, Hash)>,
        kind: Kind,
        body: Raw,
        stamp: Stamp,
    ) -> Entry {
        let envelope = Envelope {
            version: VERSION,
            id: stamp.id,
            parent: parent.map(|(id, _)| id),
            seq: self.0.map_or(0, |tail| tail.seq + 1),
            timestamp: stamp.timestamp,
            kind,
            source_time: stamp.source_time,
        };
        let body = SaltedBody { salt: stamp.salt, body };
        let entry = Entry::seal(envelope, parent.map(|(_, hash)| hash), body);
        self.0 = Some(Tail::of(&entry));
        entry
    }
}
