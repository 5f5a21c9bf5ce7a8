//! Imports another tool's session: the entries that are not there yet, each in its place.
//!
//! [`Session::to_entries`] gives the entries that the source asks for, with ids that a grown source keeps. Here they meet
//! what is stored:
//!
//! ```text
//! the source said   a ─ b ─ c          stored     a ─ b ─ c
//! it says now       a ─ B ─ c ─ d      afterwards a ┬ b ─ c
//!                                                   └ B ─ c′ ─ d    c′ says what c says, after B
//! ```
//! What is stored in its place is left alone; what is new is appended after it; what follows something else than it
//! did is appended again, under an id that is derived from the old one and its new place. So the path to the head says what
//! the source says, importing twice adds nothing, and nothing that was stored is touched.
//!
//! Some kinds weigh nothing: what counts as the place of an entry is the nearest message (or compaction, or header) before
//! it. A line of bookkeeping that moved is not worth a copy of everything after it.

use std::{
    collections::{HashMap, HashSet},
    ops::ControlFlow,
};

use rejoin_formats::{Session, session::instant, sessions::jsonl};
use rejoin_record::{
    Chain, Content, ConversationId, Entry, EntryId, Hash, Kind, Raw, Salt, Tail, Text, Timestamp,
    chain::Stamp, content::Branch, hash, json::Doc,
};
use rejoin_store::{Item, Store, StoreError};

use crate::{
    error::EngineError,
    writer::{Imported, Writer, append_in_batches},
};

impl Writer<'_> {
    /// Imports another tool's session: the entries that are not there yet. The head follows the source, unless entries were
    /// appended here since the last import: then it stays.
    ///
    /// # Errors
    /// If the store cannot be written, or another process writes to the conversation; if it is rejoin's own record, for
    /// which there is [`Writer::import_record`].
    pub fn import(&self, session: &Session) -> Result<Imported, EngineError> {
        let id = session.id;
        if session.format == jsonl::FORMAT {
            return Err(EngineError::OwnRecord(id));
        }
        let now = self.clock.now();
        let wanted = session.to_entries(now);
        let _lock = self.lock(id)?;
        let tail = self.store.tail(id)?;
        let known = Known::read(self.store, id, tail)?;
        let mut import = Import { id, now, chain: Chain::at(tail), known, added: Vec::new() };
        let (seen, head) = import.run(&wanted);
        if import.is_older(&seen, |short| begins(self.store, id, short)) {
            import.added.clear();
        } else if let Some(head) = head {
            import.head(head, wanted.iter().filter_map(time).max());
        }
        let added = import.added.len() as u64;
        append_in_batches(self.store, id, tail, import.added)?;
        Ok(Imported { id, new: tail.is_none(), added, messages: session.messages.len() as u64 })
    }
}

/// Whether an entry of this kind does not count as the place of what follows it.
fn is_light(kind: &Kind) -> bool {
    matches!(
        kind,
        Kind::Raw | Kind::Meta | Kind::Context | Kind::Branch | Kind::Erased | Kind::Snapshot | Kind::Prune
    )
}

/// What is known of an entry that is stored, or is about to be.
#[derive(Clone, Copy)]
struct Node {
    id: EntryId,
    hash: Hash,
    inner: Hash,
    erased: bool,
    /// The nearest entry with a weight, itself included.
    ground: EntryId,
    /// The same for its parent: its place.
    place: Option<EntryId>,
    /// Whether it is there for us alone: where the head is, what surrounds the messages.
    ours: bool,
    /// What surrounds the messages here: a hash of the nearest context before it, itself included.
    context: Option<Hash>,
}

/// What is stored.
#[derive(Default)]
struct Known {
    nodes: HashMap<EntryId, Node>,
    /// Contexts, by their place and what they say.
    contexts: HashMap<(EntryId, Hash), EntryId>,
    /// The first entry that can be read.
    first: Option<EntryId>,
    /// The head, as it was meant: a branch that restored it stands for its target.
    head: Option<EntryId>,
    /// The newest time that a source had.
    newest: Option<Timestamp>,
    /// What stored lines say that are no messages.
    lines: HashSet<Hash>,
    /// Everything that is stored already.
    stored: HashSet<EntryId>,
    /// Whether something was said here since.
    went_on: bool,
    /// Whether something cannot be read: an id that is not there may still be taken.
    damaged: bool,
}

impl Known {
    fn read(store: &dyn Store, id: ConversationId, tail: Option<Tail>) -> Result<Self, StoreError> {
        let mut known = Self::default();
        if tail.is_none() {
            return Ok(known);
        }
        store.read(id, 0, &mut |item| {
            match item {
                Item::Entry(entry) => known.stored(&entry),
                Item::Damage(damage) => known.damaged |= !damage.torn,
            }
            ControlFlow::Continue(())
        })?;
        Ok(known)
    }

    fn stored(&mut self, entry: &Entry) {
        let kind = &entry.envelope().kind;
        let own = !entry.id().is_derived() && !matches!(kind, Kind::Header | Kind::Meta | Kind::Erased);
        self.went_on |= own;
        self.first = self.first.or(Some(entry.id()));
        self.stored.insert(entry.id());
        self.newest = self.newest.max(time(entry));
        self.lines.extend(entry.body().filter(|_| *kind == Kind::Raw).map(said));
        let restored = *kind == Kind::Branch && entry.id().is_derived();
        self.head = if restored { entry.envelope().parent } else { Some(entry.id()) };
        self.add(entry);
    }

    fn add(&mut self, entry: &Entry) {
        let (id, kind) = (entry.id(), &entry.envelope().kind);
        let parent = entry.envelope().parent;
        let above = parent.and_then(|parent| self.nodes.get(&parent)).copied();
        // A parent that cannot be read still is a place.
        let place = above.map(|above| above.ground).or(parent);
        let says = entry.body().filter(|_| *kind == Kind::Context).map(said);
        if let (Some(says), Some(place)) = (says, place) {
            self.contexts.entry((place, says)).or_insert(id);
        }
        let node = Node {
            id,
            hash: entry.hash(),
            inner: entry.inner(),
            erased: entry.content().is_none(),
            ours: matches!(kind, Kind::Header | Kind::Branch | Kind::Context | Kind::Erased),
            ground: place.filter(|_| is_light(kind)).unwrap_or(id),
            place,
            context: says.or(above.and_then(|above| above.context)),
        };
        self.nodes.entry(id).or_insert(node);
    }

    fn ground(&self, id: EntryId) -> EntryId {
        self.nodes.get(&id).map_or(id, |node| node.ground)
    }
}

/// When the source says that it was said. Lines that are no messages have their times inside.
fn time(entry: &Entry) -> Option<Timestamp> {
    let envelope = entry.envelope();
    if !entry.id().is_derived() {
        return None;
    }
    match (&envelope.source_time, &envelope.kind) {
        (Some(time), _) => instant(time),
        (None, Kind::Raw) => {
            let Content::Raw(raw) = Content::of(entry) else { return None };
            let doc = Doc::parse(&raw.text).ok()?;
            doc.root()?.given("timestamp")?.as_str().and_then(|time| instant(&time))
        }
        _ => None,
    }
}

/// What a body says, as far as two are compared.
fn said(body: &Raw) -> Hash {
    hash::of_bytes(body.as_str().as_bytes())
}

struct Import {
    id: ConversationId,
    now: Timestamp,
    chain: Chain,
    known: Known,
    added: Vec<Entry>,
}

impl Import {
    /// Finds a place for everything that is wanted. Gives all that it knows, and its own head.
    fn run(&mut self, wanted: &[Entry]) -> (HashSet<EntryId>, Option<EntryId>) {
        let context = wanted.last().filter(|entry| entry.envelope().kind == Kind::Context);
        let context = context.and_then(Entry::body).map(said);
        let (parents, on_path) = paths(wanted);
        // Where each wanted entry is, or what stands for it.
        let mut actual: Vec<EntryId> = Vec::with_capacity(wanted.len());
        for (number, entry) in wanted.iter().enumerate() {
            let parent = parents[number].map(|parent| actual[parent]);
            let found = match (parent, &entry.envelope().kind) {
                (None, _) => self.header(entry),
                // Where the head is, is seen to at the end.
                (Some(parent), Kind::Branch) => parent,
                (Some(parent), Kind::Context) => self.context(entry, parent),
                (Some(parent), _) => self.entry(entry, parent, on_path[number], context),
            };
            actual.push(found);
        }
        let head = actual.last().copied();
        (actual.into_iter().chain(wanted.iter().map(Entry::id)).collect(), head)
    }

    /// Whether the source is a copy from before: it says nothing that is not known, and not all that is. Its last message may
    /// have been cut short. Then nothing of it is taken in: not even where it ends.
    fn is_older(&self, seen: &HashSet<EntryId>, begins: impl Fn(&Entry) -> bool) -> bool {
        if self.known.damaged || self.added.is_empty() {
            return false;
        }
        // A line that is new and whole was written since; one that was cut off was not.
        let since = |entry: &Entry| match Content::of(entry) {
            Content::Raw(raw) => {
                let known = entry.body().is_some_and(|body| self.known.lines.contains(&said(body)));
                !known && Doc::parse(&raw.text).is_ok()
            }
            content => is_light(&entry.envelope().kind) && !matches!(content, Content::Context(_)),
        };
        if self.added.iter().any(since) {
            return false;
        }
        let mut new = self.added.iter().filter(|entry| !is_light(&entry.envelope().kind));
        let known = match (new.next(), new.next()) {
            (None, _) => true,
            (Some(last), None) => self.known.first != Some(last.id()) && begins(last),
            _ => false,
        };
        // What was said here since is no part of any source.
        let more = |node: &Node| {
            let of_source = !node.ours && node.id.is_derived() && self.known.stored.contains(&node.id);
            of_source && !seen.contains(&node.id)
        };
        known && self.known.nodes.values().any(more)
    }

    /// The header stays what it was.
    fn header(&mut self, entry: &Entry) -> EntryId {
        match self.known.first {
            // It may be damaged; what follows it names it all the same.
            Some(_) if self.known.damaged => entry.id(),
            Some(first) => first,
            None => self.append(entry, entry.id(), None),
        }
    }

    fn entry(&mut self, entry: &Entry, parent: EntryId, on_path: bool, context: Option<Hash>) -> EntryId {
        let id = entry.id();
        let place = self.known.ground(parent);
        let node = self.known.nodes.get(&id);
        if let Some(node) = node.filter(|node| node.erased || node.inner == entry.inner()) {
            // Beside the path it does not matter where it stands.
            if node.place == Some(place) || !on_path {
                return id;
            }
            // What was erased does not come back.
            if node.erased || is_light(&entry.envelope().kind) {
                return parent;
            }
        }
        // Where something is damaged, an id that cannot be found may belong to it. What the source has of it is taken in
        // again, under an id of its own.
        let taken = node.is_some() || self.known.damaged;
        let body = entry.body().map_or("", Raw::as_str);
        let again = || EntryId::derive(&self.id, &format!("{id} behind {place}"), body);
        let id = if taken { again() } else { id };
        if self.known.nodes.contains_key(&id) {
            return id;
        }
        let under = if on_path { self.behind_context(parent, context) } else { parent };
        self.append(entry, id, Some(under))
    }

    /// Where to continue from a place. If the last import left the context there that is still wanted, that is after it: then
    /// it need not be said again.
    fn behind_context(&self, parent: EntryId, wanted: Option<Hash>) -> EntryId {
        let node = self.known.nodes.get(&parent);
        let (Some(node), Some(wanted)) = (node, wanted) else { return parent };
        if node.context == Some(wanted) {
            return parent;
        }
        self.known.contexts.get(&(node.ground, wanted)).copied().unwrap_or(parent)
    }

    /// What surrounds the messages, at the end: only if it is not what was said last on the way there.
    fn context(&mut self, entry: &Entry, parent: EntryId) -> EntryId {
        let Some(says) = entry.body().map(said) else { return parent };
        let node = self.known.nodes.get(&parent);
        if node.is_some_and(|node| node.context == Some(says)) {
            return parent;
        }
        let place = self.known.ground(parent);
        if let Some(there) = self.known.contexts.get(&(place, says)) {
            return *there;
        }
        self.entry(entry, parent, true, None)
    }

    /// Sees to it that the head is where it should be: where the source has it, unless something was said here since, or the
    /// source is a copy from before.
    fn head(&mut self, wanted: EntryId, newest: Option<Timestamp>) {
        let kept = self.known.head.filter(|_| self.known.went_on || newest < self.known.newest);
        let Some(last) = self.added.last().map(Entry::id) else { return };
        let target = match kept {
            Some(head) => head,
            None if self.known.ground(last) == self.known.ground(wanted) => return,
            None => wanted,
        };
        let reason =
            self.known.went_on.then(|| Text::new("the source went on, and so did this conversation"));
        let body = Content::Branch(Branch { reason }).to_body();
        let id = EntryId::derive(&self.id, &format!("head behind {last}"), body.as_str());
        self.seal(id, Some(target), Kind::Branch, body, None);
    }

    fn append(&mut self, entry: &Entry, id: EntryId, parent: Option<EntryId>) -> EntryId {
        let envelope = entry.envelope();
        let body = entry.body().cloned().unwrap_or_else(|| Raw::new("{}"));
        self.seal(id, parent, envelope.kind.clone(), body, envelope.source_time.clone())
    }

    fn seal(
        &mut self,
        id: EntryId,
        parent: Option<EntryId>,
        kind: Kind,
        body: Raw,
        source_time: Option<Text>,
    ) -> EntryId {
        // Where the parent cannot be read, the first entry that can be is the next best.
        let node = parent.and_then(|parent| self.known.nodes.get(&parent));
        let node = node.or_else(|| self.known.nodes.get(&self.known.first?)).copied();
        let parent = parent.and(node).map(|node| (node.id, node.hash));
        let salt = Salt(id.as_uuid().into_bytes());
        let stamp = Stamp { id, timestamp: self.now, salt, source_time };
        let entry = self.chain.append_body(parent, kind, body, stamp);
        self.known.add(&entry);
        self.added.push(entry);
        id
    }
}

/// The number of each entry's parent, and whether it lies on the way to the last one.
fn paths(entries: &[Entry]) -> (Vec<Option<usize>>, Vec<bool>) {
    let mut latest: HashMap<EntryId, usize> = HashMap::with_capacity(entries.len());
    let mut parents = Vec::with_capacity(entries.len());
    for (number, entry) in entries.iter().enumerate() {
        // Of two with one id the latter counts: a source may say the same line twice.
        parents.push(entry.envelope().parent.and_then(|parent| latest.get(&parent).copied()));
        latest.insert(entry.id(), number);
    }
    let mut on_path = vec![false; entries.len()];
    let mut at = entries.len().checked_sub(1);
    while let Some(number) = at {
        on_path[number] = true;
        at = parents[number];
    }
    (parents, on_path)
}

/// Whether a stored message begins with what this one says, in the same place: then this one is that one, cut short.
fn begins(store: &dyn Store, id: ConversationId, short: &Entry) -> bool {
    let native = |entry: &Entry| match Content::of(entry) {
        Content::Message(message) => message.native.map(|native| native.raw),
        _ => None,
    };
    let (Some(raw), Some(parent)) = (native(short), short.envelope().parent) else { return false };
    // Entries without a weight may stand between it and its place.
    let (mut grounds, mut kinds, mut found) = (HashMap::new(), HashMap::new(), false);
    let read = store.each_entry(id, |entry| {
        let above = entry.envelope().parent.map(|above| *grounds.get(&above).unwrap_or(&above));
        let ground = above.filter(|_| is_light(&entry.envelope().kind)).unwrap_or(entry.id());
        grounds.insert(entry.id(), ground);
        if ground == entry.id()
            && let Some(long) = native(&entry)
        {
            kinds.insert(entry.id(), (above, long.as_str().starts_with(raw.as_str())));
        }
    });
    if read.is_ok() {
        let place = *grounds.get(&parent).unwrap_or(&parent);
        found = kinds.values().any(|(above, longer)| *longer && *above == Some(place));
    }
    found
}
