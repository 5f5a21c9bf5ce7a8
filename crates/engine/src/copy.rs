//! Copies conversations entry by entry, with their hashes, from another store or from a file of entries.

use std::{collections::HashMap, io::BufRead, ops::ControlFlow};

use rejoin_record::{Content, ConversationId, Entry, EntryId, Hash, Kind, Tail, lines::Lines};
use rejoin_store::{Lock, StoragePlace, Store, StoreError, StoredItem};

use crate::{
    draft,
    error::EngineError,
    writer::{Copied, Growth, Imported, Writer, weight},
};

impl Writer<'_> {
    /// Copies the entries of a conversation that this store lacks from another store. Content that was erased there since the last
    /// copy is erased here, too.
    ///
    /// # Errors
    /// If the conversation does not exist there, is damaged, or has diverged from the copy here.
    pub fn copy_from(&self, other: &dyn Store, id: ConversationId) -> Result<Copied, EngineError> {
        let _lock = self.lock(id)?;
        let mut copy = Copying::begin(self.store, id)?;
        let mut stopped = None;
        draft::read(other, id, &mut |item| match copy.take(item) {
            Ok(()) => ControlFlow::Continue(()),
            Err(why) => {
                stopped = Some(why);
                ControlFlow::Break(())
            }
        })?;
        match stopped {
            Some(why) => Err(why),
            None => copy.finish(),
        }
    }

    /// Imports those entries of a file of rejoin's own entries that the store lacks. A last line that was cut off is skipped.
    ///
    /// # Errors
    /// If a line is no entry or was changed, or the conversation has diverged from the one here. The entries before that line are
    /// imported.
    pub fn import_record(&self, source: &mut dyn BufRead) -> Result<Imported, EngineError> {
        let mut hashes: HashMap<EntryId, Hash> = HashMap::new();
        let mut copying: Option<(Lock, Copying<'_>)> = None;
        let mut messages = 0;
        let mut bytes = Vec::new();
        let mut lines = Lines::new(source);
        let failed = |why| StoreError::Io { what: String::from("reading the file"), why };
        while let Some(at) = lines.next(&mut bytes).map_err(failed)? {
            let wrong = |why: String| EngineError::NoRecord { line: at.number, why };
            if at.too_long {
                return Err(wrong(format!("{} bytes are more than an entry may have", at.len)));
            }
            if bytes.trim_ascii().is_empty() {
                continue;
            }
            let text = std::str::from_utf8(&bytes).map_err(|error| error.to_string());
            let entry =
                text.and_then(|text| Entry::from_line(text.trim()).map_err(|error| error.to_string()));
            let entry = match entry {
                Ok(entry) => entry,
                Err(_) if copying.is_some() && !at.ended => break,
                Err(why) => return Err(wrong(why)),
            };
            let parent = entry.envelope().parent;
            if !entry.verifies(parent.and_then(|parent| hashes.get(&parent).copied())) {
                return Err(wrong(format!("entry {} has changed since it was appended", entry.id())));
            }
            hashes.insert(entry.id(), entry.hash());
            messages += u64::from(entry.envelope().kind == Kind::Message);
            let (_, copy) = match &mut copying {
                Some(copying) => copying,
                None => {
                    let Content::Header(header) = Content::of(&entry) else {
                        return Err(wrong(String::from("a conversation begins with a header")));
                    };
                    let lock = self.lock(header.conversation)?;
                    copying.insert((lock, Copying::begin(self.store, header.conversation)?))
                }
            };
            copy.take(StoredItem::Entry(entry))?;
        }
        let Some((_lock, copy)) = copying else {
            return Err(EngineError::NoRecord { line: 1, why: String::from("there is nothing in it") });
        };
        let (id, new, before) = (copy.id, copy.here.is_empty(), copy.before);
        let copied = copy.finish()?;
        // Only a new conversation can be taken back: doing so in an existing one needs an entry that its source does not have.
        let growth = Growth::between(before, self.store.tail(id)?).filter(|growth| growth.before.is_none());
        Ok(Imported { id, new, added: copied.added, messages, compared: 0, growth })
    }
}

/// A copy in progress: the hashes of the entries that this store has, and a batch of new ones.
struct Copying<'s> {
    store: &'s dyn Store,
    id: ConversationId,
    /// The newest entry that this store had before the copy.
    before: Option<Tail>,
    tail: Option<Tail>,
    here: Vec<Hash>,
    batch: Vec<Entry>,
    bytes: usize,
    seen: u64,
    added: u64,
}

/// How many bytes are appended at once, at most.
const COPY_BYTES: usize = 8 * 1024 * 1024;

impl<'s> Copying<'s> {
    fn begin(store: &'s dyn Store, id: ConversationId) -> Result<Self, EngineError> {
        let tail = store.tail(id)?;
        let mut here = Vec::new();
        let mut damaged = None;
        if tail.is_some() {
            store.read(id, 0, &mut |item| {
                match item {
                    StoredItem::Entry(entry) => here.push(entry.hash()),
                    StoredItem::Damage(damage) if damage.torn => {}
                    StoredItem::Damage(damage) => damaged = Some(damage),
                }
                if damaged.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })?;
        }
        if let Some(damage) = damaged {
            return Err(EngineError::Corrupted { id, place: damage.place, why: damage.why });
        }
        Ok(Self { store, id, before: tail, tail, here, batch: Vec::new(), bytes: 0, seen: 0, added: 0 })
    }

    fn take(&mut self, item: StoredItem) -> Result<(), EngineError> {
        let entry = match item {
            StoredItem::Entry(entry) => entry,
            StoredItem::Damage(damage) if damage.torn => return Ok(()),
            StoredItem::Damage(damage) => {
                return Err(EngineError::Corrupted { id: self.id, place: damage.place, why: damage.why });
            }
        };
        let seq = entry.envelope().seq;
        if seq != self.seen {
            let why = format!("entry {seq} is in the place of entry {}", self.seen);
            return Err(EngineError::Corrupted { id: self.id, place: StoragePlace::Row(self.seen), why });
        }
        let known = usize::try_from(self.seen).ok().and_then(|seen| self.here.get(seen));
        self.seen += 1;
        match known {
            Some(hash) if *hash == entry.hash() => return Ok(()),
            Some(_) => return Err(EngineError::Diverged(self.id)),
            None => {}
        }
        if let Content::Erased(erased) = Content::of(&entry) {
            return self.erase(erased.entry, entry);
        }
        self.bytes += weight(&entry);
        self.batch.push(entry);
        if self.bytes >= COPY_BYTES { self.flush() } else { Ok(()) }
    }

    /// Erases the content here, too, in the step that appends the note of the erasure.
    fn erase(&mut self, erased: EntryId, note: Entry) -> Result<(), EngineError> {
        self.flush()?;
        let after = self.tail.ok_or(StoreError::NotFound(self.id))?;
        let tail = match self.store.erase(self.id, after, erased, &note) {
            Err(StoreError::NoSuchEntry(_)) => self.store.append(self.id, Some(after), &[note]),
            done => done,
        };
        self.tail = Some(tail?);
        self.added += 1;
        Ok(())
    }

    fn flush(&mut self) -> Result<(), EngineError> {
        if !self.batch.is_empty() {
            self.tail = Some(self.store.append(self.id, self.tail, &self.batch)?);
            self.added += self.batch.len() as u64;
            self.batch.clear();
            self.bytes = 0;
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Copied, EngineError> {
        self.flush()?;
        Ok(Copied { added: self.added, total: self.seen.max(self.here.len() as u64) })
    }
}
