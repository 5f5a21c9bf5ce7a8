//! Imports a session of another agent: adds the entries that the store lacks, each at its place.
//!
//! [`Session::to_entries`] makes the entries of the source, with ids that stay the same when the source grows. They are compared with
//! what is stored:
//!
//! ```text
//! the source said   a ─ b ─ c          stored     a ─ b ─ c
//! it says now       a ─ B ─ c ─ d      afterwards a ┬ b ─ c
//!                                                   └ B ─ c′ ─ d    c′ says what c says, after B
//! ```
//! An entry that is already stored at its place is left alone. A new one is appended. One that follows a different entry than
//! before is appended again, under an id that is derived from its old id and its new place. So the path to the head always matches
//! the source, importing twice adds nothing, and no stored entry changes.
//!
//! Some kinds are light: when the place of an entry is computed, only messages, compactions and headers before it count. Otherwise
//! one moved line of bookkeeping would copy everything after it.

use std::{
    borrow::Cow,
    cell::Cell,
    collections::{HashMap, HashSet, VecDeque},
    fmt,
    ops::ControlFlow,
};

use rejoin_formats::{
    Session,
    session::{EntryPlace, instant},
    sessions::jsonl,
};
use rejoin_record::{
    Chain, Content, ConversationId, Entry, EntryId, Hash, Kind, Raw, Salt, Tail, Text, Timestamp,
    chain::Stamp, content::Branch, hash, json::Doc,
};
use rejoin_store::{Location, Store, StoreError, StoredItem};

use crate::{
    error::EngineError,
    writer::{Growth, Imported, TakeBackOutcome, Writer, append_in_batches},
};

impl Writer<'_> {
    /// Imports a session of another agent: adds the entries that the store lacks. The head follows the source, unless entries were
    /// appended here since the last import; then it stays.
    ///
    /// # Errors
    /// If the store cannot be written, or another process writes to the conversation. [`EngineError::OwnRecord`] if it is rejoin's
    /// own record: see [`Writer::import_record`].
    pub fn import(&self, session: &Session) -> Result<Imported, EngineError> {
        self.import_again(session, &mut ImportMemory::default())
    }

    /// Imports a session as [`Writer::import`] does. If `memory` knows the stored entries, they are not read again: this is for a
    /// source that is watched while it grows.
    ///
    /// # Errors
    /// As [`Writer::import`].
    pub fn import_again(
        &self,
        session: &Session,
        memory: &mut ImportMemory,
    ) -> Result<Imported, EngineError> {
        self.import_with(session, memory, None)
    }

    /// Imports a session as [`Writer::import_again`] does. What it has in common with the session that was last imported with this
    /// trail is not compared again. The trail keeps the session in memory.
    ///
    /// # Errors
    /// As [`Writer::import`].
    pub fn import_grown(
        &self,
        session: &Session,
        memory: &mut ImportMemory,
        trail: &mut ImportTrail,
    ) -> Result<Imported, EngineError> {
        self.import_with(session, memory, Some(trail))
    }

    fn import_with(
        &self,
        session: &Session,
        memory: &mut ImportMemory,
        mut trail: Option<&mut ImportTrail>,
    ) -> Result<Imported, EngineError> {
        if session.format == jsonl::FORMAT {
            return Err(EngineError::OwnRecord(session.id));
        }
        let scope = self.store.scope();
        let session = if scope.is_open() {
            Cow::Borrowed(session)
        } else {
            Cow::Owned(session.clone().in_scope(scope.new_scope()))
        };
        let id = session.id;
        let now = self.clock.now();
        // If the import fails, the trail is lost, and the next one compares everything.
        let (mut done, end) =
            trail.as_deref_mut().map(|trail| trail.take_common(&session)).unwrap_or_default();
        let (mut wanted, mut places) = session.entries_after(&done.places, now);
        let _lock = self.lock(id)?;
        let tail = self.store.tail(id)?;
        let known = memory.take(self.store, id, tail);
        if !done.places.is_empty() && (known.is_none() || end != tail) {
            done = DoneParts::default();
            (wanted, places) = session.entries_after(&[], now);
        }
        let (known, compared) = match known {
            Some(known) => (known, 0),
            None => StoredEntries::read(self.store, id, tail)?,
        };
        let compared = Cell::new(compared);
        let mut import = Import { id, now, chain: Chain::at(tail), known, added: Vec::new(), compared };
        let stored = import.run(&wanted, done.path_end());
        let times: Vec<Option<Timestamp>> = wanted.iter().map(time).collect();
        let seen = || done.ids().chain(stored.iter().copied()).chain(wanted.iter().map(Entry::id)).collect();
        let is_older = import.is_older(seen, self.store);
        if is_older {
            import.added.clear();
        } else if let Some(head) = stored.last().or(done.stored.last()) {
            import.head(*head, times.iter().copied().max().flatten().max(done.newest()));
        }
        let added = import.added.len() as u64;
        let after = append_in_batches(self.store, id, tail, &import.added)?;
        #[cfg(feature = "agent")]
        if tail.is_none() {
            crate::conversation::keep_of_import(self.store, id, &import.added);
        }
        let (growth, messages) = (Growth::between(tail, after), session.messages.len() as u64);
        let Import { mut known, added: entries, compared, .. } = import;
        // For an older copy, `known` also lists entries that were not stored.
        if !is_older {
            entries.iter().for_each(|entry| known.stored(id, entry));
            memory.put(self.store, id, after, known);
            if let Some(trail) = trail {
                done.add(places, stored, &times);
                *trail = ImportTrail { last: Some((session.into_owned(), after)), done };
            }
        }
        Ok(Imported { id, new: tail.is_none(), added, messages, compared: compared.get(), growth })
    }

    /// Takes an import back, if nothing was added to the conversation since. A new conversation is deleted; one that had grown gets
    /// its former head back.
    ///
    /// # Errors
    /// If the store cannot be written, or another process writes to the conversation.
    pub fn take_back(&self, id: ConversationId, growth: Growth) -> Result<TakeBackOutcome, EngineError> {
        let Growth { before: Some(before), after } = growth else {
            return Ok(self.take_back_new(&[(id, growth.after)])?[0]);
        };
        let _lock = self.lock(id)?;
        let Some(tail) = self.store.tail(id)? else { return Ok(TakeBackOutcome::Missing) };
        if !self.is_as_imported(id, tail, after)? {
            return Ok(TakeBackOutcome::WentOn);
        }
        let mut import = Import {
            id,
            now: self.clock.now(),
            chain: Chain::at(Some(tail)),
            known: StoredEntries::read(self.store, id, Some(tail))?.0,
            added: Vec::new(),
            compared: Cell::default(),
        };
        let body = taken_back();
        let branch = taken_back_id(id, after.id, &body);
        import.seal(branch, Some(before.id), Kind::Branch, body, None);
        append_in_batches(self.store, id, Some(tail), &import.added)?;
        Ok(TakeBackOutcome::Restored)
    }

    /// Whether the conversation is as an import left it: it ends there, or a later import was taken back since.
    fn is_as_imported(&self, id: ConversationId, tail: Tail, after: Tail) -> Result<bool, EngineError> {
        if tail == after {
            return Ok(true);
        }
        let mut last = None;
        self.store.read(id, tail.seq, &mut |item| {
            if let StoredItem::Entry(entry) = item {
                last = Some(entry);
            }
            ControlFlow::Continue(())
        })?;
        let body = taken_back();
        Ok(last.is_some_and(|last: Entry| {
            let envelope = last.envelope();
            envelope.kind == Kind::Branch
                && envelope.parent == Some(after.id)
                && last.body().is_some_and(|own| own.as_str() == body.as_str())
        }))
    }

    /// Takes back imports that added new conversations, each given with its newest entry at that time. They are deleted in one
    /// step, which costs as much as deleting one.
    ///
    /// # Errors
    /// If the store cannot be read or written, or another process is writing to one of them.
    pub fn take_back_new(
        &self,
        added: &[(ConversationId, Tail)],
    ) -> Result<Vec<TakeBackOutcome>, EngineError> {
        let (mut locks, mut going, mut outcomes) = (Vec::new(), Vec::new(), Vec::new());
        for (id, after) in added {
            let lock = self.lock(*id)?;
            outcomes.push(match self.store.tail(*id)? {
                None => TakeBackOutcome::Missing,
                Some(tail) if !self.is_as_imported(*id, tail, *after)? => TakeBackOutcome::WentOn,
                Some(_) => {
                    going.push(*id);
                    locks.push(lock);
                    TakeBackOutcome::Deleted
                }
            });
        }
        self.store.delete_all(&going)?;
        drop(locks);
        Ok(outcomes)
    }
}

/// The body of the `branch` entry that takes an import back.
fn taken_back() -> Raw {
    Content::Branch(Branch { reason: Some(Text::new("the import was taken back")) }).to_body()
}

/// The id of that entry, by which a later import recognises it. It is derived, so that the entry does not count as appended here.
fn taken_back_id(id: ConversationId, last: EntryId, body: &Raw) -> EntryId {
    EntryId::derive(&id, &format!("taken back behind {last}"), body.as_str())
}

/// Whether entries of this kind are ignored when the place of later entries is computed.
fn is_light(kind: &Kind) -> bool {
    matches!(
        kind,
        Kind::Raw | Kind::Meta | Kind::Context | Kind::Branch | Kind::Erased | Kind::Snapshot | Kind::Prune
    )
}

/// An entry that is stored, or about to be.
#[derive(Clone, Copy)]
struct Node {
    id: EntryId,
    hash: Hash,
    inner: Hash,
    erased: bool,
    /// The nearest entry that is not light: this one or an ancestor.
    ground: EntryId,
    /// Its place: the ground of its parent.
    place: Option<EntryId>,
    /// Whether rejoin added it for the head or the context, so that no line of the source matches it.
    ours: bool,
    /// The hash of the nearest context: in this entry or before it.
    context: Option<Hash>,
}

/// The stored entries of the conversations that were imported last, so that importing a source that has grown does not read them
/// from the store again. If anything else was appended or erased meanwhile, the tail differs, and the conversation is read again.
#[derive(Default)]
pub struct ImportMemory {
    /// Ordered by import, the latest at the end.
    conversations: VecDeque<(Location, ConversationId, Tail, StoredEntries)>,
}

impl ImportMemory {
    /// How many entries are remembered in total. Each takes about 300 bytes.
    const MOST: usize = 200_000;

    /// The known entries of a conversation, if the store still has this tail.
    fn take(&mut self, store: &dyn Store, id: ConversationId, tail: Option<Tail>) -> Option<StoredEntries> {
        let is_it = |(of, known, ..): &(Location, ConversationId, Tail, StoredEntries)| {
            *known == id && of == store.location()
        };
        let (_, _, then, known) = self.conversations.remove(self.conversations.iter().position(is_it)?)?;
        (Some(then) == tail).then_some(known)
    }

    fn put(&mut self, store: &dyn Store, id: ConversationId, tail: Option<Tail>, known: StoredEntries) {
        // Do not remember a damaged conversation: its unreadable entries may be readable next time.
        let Some(tail) = tail.filter(|_| !known.damaged) else { return };
        self.conversations.push_back((store.location().clone(), id, tail, known));
        let count =
            |memory: &Self| memory.conversations.iter().map(|(.., known)| known.nodes.len()).sum::<usize>();
        while count(self) > Self::MOST {
            self.conversations.pop_front();
        }
    }
}

impl fmt::Debug for ImportMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ImportMemory").field("conversations", &self.conversations.len()).finish()
    }
}

/// What the last import of a session stored, so that the next import of the same source, which has grown, need only look at what is
/// new.
#[derive(Default)]
pub struct ImportTrail {
    /// The session, and the newest stored entry afterwards.
    last: Option<(Session, Option<Tail>)>,
    done: DoneParts,
}

impl fmt::Debug for ImportTrail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ImportTrail").field("entries", &self.done.places.len()).finish()
    }
}

impl ImportTrail {
    /// Takes the entries that a session has in common with the last one, and the newest stored entry after that import.
    fn take_common(&mut self, session: &Session) -> (DoneParts, Option<Tail>) {
        let Self { last, mut done } = std::mem::take(self);
        let Some((last, end)) = last else { return Default::default() };
        done.truncate(session.entries_in_common(&last));
        (done, end)
    }
}

/// The first entries of a session, which need not be compared again.
#[derive(Default)]
struct DoneParts {
    places: Vec<EntryPlace>,
    /// The stored id of each, or of its replacement.
    stored: Vec<EntryId>,
    /// The newest time up to each of them.
    newest: Vec<Option<Timestamp>>,
}

impl DoneParts {
    fn truncate(&mut self, count: usize) {
        self.places.truncate(count);
        self.stored.truncate(count);
        self.newest.truncate(count);
    }

    fn add(&mut self, places: Vec<EntryPlace>, stored: Vec<EntryId>, times: &[Option<Timestamp>]) {
        let mut newest = self.newest();
        self.newest.extend(times.iter().take(places.len()).map(|time| {
            newest = newest.max(*time);
            newest
        }));
        self.stored.extend(stored.into_iter().take(places.len()));
        self.places.extend(places);
    }

    /// The stored id of the last entry on the path.
    fn path_end(&self) -> Option<EntryId> {
        let end = self.places.last()?.on_path();
        Some(self.stored[self.places.iter().rposition(|place| place.id() == end)?])
    }

    fn newest(&self) -> Option<Timestamp> {
        self.newest.last().copied().flatten()
    }

    fn ids(&self) -> impl Iterator<Item = EntryId> {
        self.places.iter().map(EntryPlace::id).chain(self.stored.iter().copied())
    }
}

/// The stored entries of a conversation.
#[derive(Default)]
struct StoredEntries {
    nodes: HashMap<EntryId, Node>,
    /// Contexts, by their place and the hash of their body.
    contexts: HashMap<(EntryId, Hash), EntryId>,
    /// The first entry that can be read.
    first: Option<EntryId>,
    /// The head; if the newest entry is a branch that restored the head, that branch's target.
    head: Option<EntryId>,
    /// The newest time that the source had at the last import.
    newest: Option<Timestamp>,
    /// Hashes of the stored lines that are not messages.
    lines: HashSet<Hash>,
    stored: HashSet<EntryId>,
    /// Whether entries were appended here since the import.
    has_own_entries: bool,
    /// Whether something cannot be read: then an unknown id may still be in use.
    damaged: bool,
    /// The entry with the highest number.
    last: Option<EntryId>,
    /// Whether that entry took the last import back.
    taken_back: bool,
}

impl StoredEntries {
    /// Reads the entries of a conversation. Also returns their number.
    fn read(store: &dyn Store, id: ConversationId, tail: Option<Tail>) -> Result<(Self, u64), StoreError> {
        let (mut known, mut count) = (Self::default(), 0);
        if tail.is_none() {
            return Ok((known, count));
        }
        store.read(id, 0, &mut |item| {
            match item {
                StoredItem::Entry(entry) => known.stored(id, &entry),
                StoredItem::Damage(damage) => known.damaged |= !damage.torn,
            }
            count += 1;
            ControlFlow::Continue(())
        })?;
        Ok((known, count))
    }

    fn stored(&mut self, conversation: ConversationId, entry: &Entry) {
        let kind = &entry.envelope().kind;
        let back = |last| taken_back_id(conversation, last, &taken_back()) == entry.id();
        self.taken_back = *kind == Kind::Branch && self.last.is_some_and(back);
        self.last = Some(entry.id());
        let own = !entry.id().is_derived() && !matches!(kind, Kind::Header | Kind::Meta | Kind::Erased);
        self.has_own_entries |= own;
        self.first = self.first.or(Some(entry.id()));
        self.stored.insert(entry.id());
        self.newest = self.newest.max(time(entry));
        self.lines.extend(entry.body().filter(|_| *kind == Kind::Raw).map(body_hash));
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
        let says = entry.body().filter(|_| *kind == Kind::Context).map(body_hash);
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

/// The time of an entry in the source. A line that is not a message has it in its text.
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

/// The hash by which bodies are compared.
fn body_hash(body: &Raw) -> Hash {
    hash::of_bytes(body.as_str().as_bytes())
}

struct Import {
    id: ConversationId,
    now: Timestamp,
    chain: Chain,
    known: StoredEntries,
    added: Vec<Entry>,
    /// The number of entries that were read from the store.
    compared: Cell<u64>,
}

impl Import {
    /// Finds the place of every wanted entry. The first of them follows `path_end`, unless that is the header. Returns the stored id
    /// of each, or of its replacement.
    fn run(&mut self, wanted: &[Entry], path_end: Option<EntryId>) -> Vec<EntryId> {
        let context = wanted.last().filter(|entry| entry.envelope().kind == Kind::Context);
        let context = context.and_then(Entry::body).map(body_hash);
        let (parents, on_path) = paths(wanted);
        let mut actual: Vec<EntryId> = Vec::with_capacity(wanted.len());
        for (number, entry) in wanted.iter().enumerate() {
            let parent = parents[number].map(|parent| actual[parent]).or(path_end);
            let found = match (parent, &entry.envelope().kind) {
                (None, _) => self.header(entry),
                // The head is set at the end.
                (Some(parent), Kind::Branch) => parent,
                (Some(parent), Kind::Context) => self.context(entry, parent),
                (Some(parent), _) => self.entry(entry, parent, on_path[number], context),
            };
            actual.push(found);
        }
        actual
    }

    /// Whether the source is an older copy: it adds nothing new, and lacks an entry that is stored. Its last message may be cut
    /// short. In that case nothing is imported, not even its head. `seen` returns the ids that the source knows.
    fn is_older(&self, seen: impl FnOnce() -> HashSet<EntryId>, store: &dyn Store) -> bool {
        if self.known.damaged || self.added.is_empty() {
            return false;
        }
        // A new line that is whole was written since the last import; one that was cut off was not.
        let since = |entry: &Entry| match Content::of(entry) {
            Content::Raw(raw) => {
                let known = entry.body().is_some_and(|body| self.known.lines.contains(&body_hash(body)));
                !known && Doc::parse(&raw.text).is_ok()
            }
            content => is_light(&entry.envelope().kind) && !matches!(content, Content::Context(_)),
        };
        if self.added.iter().any(since) {
            return false;
        }
        let seen = seen();
        // Entries that were appended here are not part of the source.
        let more = |node: &Node| {
            let of_source = !node.ours && node.id.is_derived() && self.known.stored.contains(&node.id);
            of_source && !seen.contains(&node.id)
        };
        // A source that has only grown is recognised without reading the store.
        if !self.known.nodes.values().any(more) {
            return false;
        }
        let mut new = self.added.iter().filter(|entry| !is_light(&entry.envelope().kind));
        match (new.next(), new.next()) {
            (None, _) => true,
            (Some(last), None) => self.known.first != Some(last.id()) && self.begins(store, last),
            _ => false,
        }
    }

    /// Whether this message is a prefix of a stored one at the same place, and so was cut short.
    fn begins(&self, store: &dyn Store, short: &Entry) -> bool {
        let native = |entry: &Entry| match Content::of(entry) {
            Content::Message(message) => message.native.map(|native| native.raw),
            _ => None,
        };
        let (Some(raw), Some(parent)) = (native(short), short.envelope().parent) else { return false };
        let place = Some(self.known.ground(parent));
        let mut found = false;
        let read = store.each_entry(self.id, |entry| {
            self.compared.set(self.compared.get() + 1);
            let node = self.known.nodes.get(&entry.id());
            let is_there = node.is_some_and(|node| node.ground == node.id && node.place == place);
            found |= is_there && native(&entry).is_some_and(|long| long.as_str().starts_with(raw.as_str()));
        });
        read.is_ok() && found
    }

    /// The header never changes.
    fn header(&mut self, entry: &Entry) -> EntryId {
        match self.known.first {
            // The header may be damaged, but other entries still name it.
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
            // Off the path, its place does not matter.
            if node.place == Some(place) || !on_path {
                return id;
            }
            // An erased entry is not added again.
            if node.erased || is_light(&entry.envelope().kind) {
                return parent;
            }
        }
        // If something is damaged, an unknown id may belong to an unreadable entry. So the entry is added under a different id.
        let taken = node.is_some() || self.known.damaged;
        let body = entry.body().map_or("", Raw::as_str);
        let again = || EntryId::derive(&self.id, &format!("{id} behind {place}"), body);
        let id = if taken { again() } else { id };
        if self.known.nodes.contains_key(&id) {
            return id;
        }
        let under = if on_path { self.after_context(parent, context) } else { parent };
        self.append(entry, id, Some(under))
    }

    /// The parent for an entry that follows `parent`: the wanted context, if the last import already put it there, so that the
    /// context is not repeated.
    fn after_context(&self, parent: EntryId, wanted: Option<Hash>) -> EntryId {
        let node = self.known.nodes.get(&parent);
        let (Some(node), Some(wanted)) = (node, wanted) else { return parent };
        if node.context == Some(wanted) {
            return parent;
        }
        self.known.contexts.get(&(node.ground, wanted)).copied().unwrap_or(parent)
    }

    /// Adds the context at the end, unless it is already the newest one on the path.
    fn context(&mut self, entry: &Entry, parent: EntryId) -> EntryId {
        let Some(says) = entry.body().map(body_hash) else { return parent };
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

    /// Moves the head to the source's head, unless entries were appended here since, or the source is an older copy.
    fn head(&mut self, wanted: EntryId, newest: Option<Timestamp>) {
        let kept = self.known.head.filter(|_| self.known.has_own_entries || newest < self.known.newest);
        // Repeating an import that was taken back adds nothing but the head.
        let again = self.known.last.filter(|_| self.known.taken_back && kept.is_none());
        let Some(last) = self.added.last().map(Entry::id).or(again) else { return };
        let target = match kept {
            Some(head) => head,
            None if !self.added.is_empty() && self.known.ground(last) == self.known.ground(wanted) => return,
            None => wanted,
        };
        let reason =
            self.known.has_own_entries.then(|| Text::new("the source went on, and so did this conversation"));
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
        // If the parent cannot be read, use the first entry that can be.
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

/// The index of each entry's parent, and whether the entry is on the path to the last one.
fn paths(entries: &[Entry]) -> (Vec<Option<usize>>, Vec<bool>) {
    let mut latest: HashMap<EntryId, usize> = HashMap::with_capacity(entries.len());
    let mut parents = Vec::with_capacity(entries.len());
    for (number, entry) in entries.iter().enumerate() {
        // If several entries share an id, the last one counts: a source may repeat a line.
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
