//! Conversations in memory, for tests and for programs that keep nothing on disk.

use std::{
    collections::BTreeMap,
    sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

use rejoin_record::{ConversationId, Entry, EntryId, Tail};

use crate::{
    digest::Digester,
    error::{StoreError, StoreResult},
    location::Location,
    lock::{Holder, Lock, MemoryLocks},
    scan,
    store::{EachProblem, Erasure, Hit, OnItem, Page, Query, Search, Size, Store, StoredItem, Verified},
    summary::Summary,
};

/// A store in memory.
#[derive(Debug)]
pub struct Memory {
    conversations: RwLock<BTreeMap<ConversationId, Vec<Entry>>>,
    locks: MemoryLocks,
    digester: Digester,
}

impl Memory {
    /// An empty store.
    pub fn new(digester: Digester) -> Self {
        Self { conversations: RwLock::default(), locks: MemoryLocks::default(), digester }
    }

    fn all(&self) -> RwLockReadGuard<'_, BTreeMap<ConversationId, Vec<Entry>>> {
        self.conversations.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn all_mut(&self) -> RwLockWriteGuard<'_, BTreeMap<ConversationId, Vec<Entry>>> {
        self.conversations.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn entries(&self, conversation: ConversationId) -> StoreResult<Vec<Entry>> {
        self.all().get(&conversation).cloned().ok_or(StoreError::NotFound(conversation))
    }
}

fn append(stored: &mut Vec<Entry>, after: Option<Tail>, entries: &[Entry]) -> StoreResult<Tail> {
    scan::check_batch(after, entries)?;
    let from = after.map_or(0, |tail| tail.seq as usize + 1);
    let found = stored.last().map(Tail::of);
    let moved = StoreError::TailMoved { expected: after, found };
    let before = from.checked_sub(1).map(|place| stored.get(place).map(Tail::of));
    if before.unwrap_or(None) != after {
        return Err(moved);
    }
    let behind: Vec<_> = stored[from..].iter().map(|entry| (entry.id(), entry.hash())).collect();
    let Some(known) = scan::already(&behind, entries) else { return Err(moved) };
    scan::check_seals(found, &entries[known..], |parent| {
        let parent = stored.iter().rfind(|other| other.id() == parent);
        Ok(parent.map(|parent| (parent.envelope().seq, parent.hash())))
    })?;
    stored.extend_from_slice(&entries[known..]);
    stored.last().map(Tail::of).ok_or(StoreError::BrokenBatch("there is nothing to append"))
}

impl Store for Memory {
    fn location(&self) -> &Location {
        &Location::Memory
    }

    fn digester(&self) -> Digester {
        self.digester
    }

    fn tail(&self, conversation: ConversationId) -> StoreResult<Option<Tail>> {
        Ok(self.all().get(&conversation).and_then(|entries| entries.last()).map(Tail::of))
    }

    fn append(&self, id: ConversationId, after: Option<Tail>, entries: &[Entry]) -> StoreResult<Tail> {
        let mut all = self.all_mut();
        match all.get_mut(&id) {
            Some(stored) => append(stored, after, entries),
            None => {
                let mut stored = Vec::new();
                let tail = append(&mut stored, after, entries)?;
                all.insert(id, stored);
                Ok(tail)
            }
        }
    }

    fn read(&self, conversation: ConversationId, from: u64, each: OnItem<'_>) -> StoreResult<()> {
        for entry in self.entries(conversation)?.into_iter().skip(usize::try_from(from).unwrap_or(usize::MAX))
        {
            if each(StoredItem::Entry(entry)).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn list(&self, query: &Query) -> StoreResult<Page> {
        scan::list(self, &self.ids("", usize::MAX)?, self.digester, query)
    }

    fn summary(&self, conversation: ConversationId) -> StoreResult<Summary> {
        scan::summary(self, conversation, self.digester)
    }

    fn ids(&self, prefix: &str, limit: usize) -> StoreResult<Vec<ConversationId>> {
        Ok(self.all().keys().filter(|id| id.has_prefix(prefix)).take(limit).copied().collect())
    }

    fn search(&self, search: &Search) -> StoreResult<Vec<Hit>> {
        scan::search(self, &self.ids("", usize::MAX)?, self.digester, search)
    }

    fn lock(&self, conversation: ConversationId, holder: &Holder) -> StoreResult<Lock> {
        self.locks.acquire(conversation, holder)
    }

    fn erase_all(&self, id: ConversationId, after: Tail, erasures: &[Erasure]) -> StoreResult<Tail> {
        let mut all = self.all_mut();
        let stored = all.get_mut(&id).ok_or(StoreError::NotFound(id))?;
        let place = |entry: EntryId| {
            stored.iter().position(|other| other.id() == entry).ok_or(StoreError::NoSuchEntry(entry))
        };
        let places: StoreResult<Vec<usize>> = erasures.iter().map(|(entry, _)| place(*entry)).collect();
        let places = places?;
        let notes: Vec<Entry> = erasures.iter().map(|(_, note)| note.clone()).collect();
        let tail = append(stored, Some(after), &notes)?;
        for place in places {
            stored[place] = stored[place].erased();
        }
        Ok(tail)
    }

    fn delete(&self, conversation: ConversationId) -> StoreResult<()> {
        self.all_mut().remove(&conversation).map(drop).ok_or(StoreError::NotFound(conversation))
    }

    fn verify(&self, conversation: Option<ConversationId>, each: EachProblem<'_>) -> StoreResult<Verified> {
        let ids = conversation.map_or_else(|| self.ids("", usize::MAX), |id| Ok(vec![id]))?;
        let mut all = Verified::default();
        for id in ids {
            all.add(scan::verify_one(self, id, each)?);
        }
        Ok(all)
    }

    fn size(&self) -> StoreResult<Size> {
        let record = self.all().values().flatten().map(|entry| entry.to_line().len() as u64 + 1).sum();
        Ok(Size { record, index: 0 })
    }
}
