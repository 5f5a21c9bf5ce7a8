//! Appending: seals the next entry of a conversation onto its parent.

use jiff::Timestamp;

use crate::{
    content::Content,
    entry::{Entry, Envelope, Kind, SaltedBody, VERSION},
    hash::Hash,
    ids::{EntryId, Salt},
    text::{Raw, Text},
};

/// The parts of a new entry that only the caller can supply: its id, the time and random bytes.
#[derive(Debug, Clone)]
pub struct Stamp {
    /// The new entry's id.
    pub id: EntryId,
    /// The current time.
    pub timestamp: Timestamp,
    /// Fresh random bytes.
    pub salt: Salt,
    /// The source's own time, for imported entries.
    pub source_time: Option<Text>,
}

/// The facts about the newest entry of a conversation that the next entry needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tail {
    /// Its sequence number.
    pub seq: u64,
    /// Its id.
    pub id: EntryId,
    /// Its hash.
    pub hash: Hash,
}

impl Tail {
    /// The tail of a conversation whose newest entry is this one.
    pub fn of(entry: &Entry) -> Self {
        Self { seq: entry.envelope().seq, id: entry.id(), hash: entry.hash() }
    }
}

/// The end of a conversation, which the next entry follows.
#[derive(Debug, Clone)]
pub struct Chain(Option<Tail>);

impl Chain {
    /// A conversation without entries.
    pub fn empty() -> Self {
        Self(None)
    }

    /// A conversation with this tail; `None` for one without entries.
    pub fn at(tail: Option<Tail>) -> Self {
        Self(tail)
    }

    /// The newest entry. The next entry follows it unless it starts a branch.
    pub fn head(&self) -> Option<(EntryId, Hash)> {
        self.0.map(|tail| (tail.id, tail.hash))
    }

    /// Seals an existing entry again as the next one of this conversation, with the same id, times, salt and body. `None` if its
    /// content was erased.
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

    /// Seals the next entry onto the head and moves the head to it. The caller stores it.
    pub fn append(&mut self, kind: Kind, content: &Content, stamp: Stamp) -> Entry {
        self.append_under(self.head(), kind, content, stamp)
    }

    /// Seals the next entry onto any earlier entry, which starts a branch, and moves the head to it.
    pub fn append_under(
        &mut self,
        parent: Option<(EntryId, Hash)>,
        kind: Kind,
        content: &Content,
        stamp: Stamp,
    ) -> Entry {
        self.append_body(parent, kind, content.to_body(), stamp)
    }

    /// Like [`Chain::append_under`], with a body that is already encoded.
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
