//! Conversations in memory: for tests, and for whoever wants nothing to stay.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

use rejoin_record::{ConversationId, Entry, EntryId, Tail};

use crate::{
    digest::Digester,
    error::StoreError,
    location::Location,
    lock::{Holder, Lock, MemoryLocks},
    scan,
    store::{Damage, Each, Hit, Item, Page, Problem, Query, Search, Size, Store, Verified},
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
    /// An empty one.
    #[must_use]
    pub fn new(digester: Digester) -> Self {
        Self { conversations: RwLock::default(), locks: MemoryLocks::default(), digester }
    }

    fn all(&self) -> RwLockReadGuard<'_, BTreeMap<ConversationId, Vec<Entry>>> {
        self.conversations.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn all_mut(&self) -> RwLockWriteGuard<'_, BTreeMap<ConversationId, Vec<Entry>>> {
        self.conversations.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn entries(&self, conversation: ConversationId) -> Result<Vec<Entry>, StoreError> {
        self.all().get(&conversation).cloned().ok_or(StoreError::NotFound(conversation))
    }
}

/// Appends to a list of entries.
fn append(stored: &mut Vec<Entry>, after: Option<Tail>, entries: &[Entry]) -> Result<Tail, StoreError> {
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
    for entry in &entries[known..] {
        // Nearly always the parent is the last one.
        let parent = entry.envelope().parent;
        let hash =
            parent.map(|parent| stored.iter().rev().find(|other| other.id() == parent).map(Entry::hash));
        let wrong = match hash {
            Some(None) => Some("a parent is not there"),
            hash => (!entry.verifies(hash.flatten())).then_some("an entry is not sealed onto its parent"),
        };
        if let Some(why) = wrong {
            stored.truncate(from + known);
            return Err(StoreError::BrokenBatch(why));
        }
        stored.push(entry.clone());
    }
    stored.last().map(Tail::of).ok_or(StoreError::BrokenBatch("there is nothing to append"))
}

impl Store for Memory {
    fn location(&self) -> &Location {
        &Location::Memory
    }

    fn read_only(&self) -> Option<&str> {
        None
    }

    fn tail(&self, conversation: ConversationId) -> Result<Option<Tail>, StoreError> {
        Ok(self.all().get(&conversation).and_then(|entries| entries.last()).map(Tail::of))
    }

    fn append(
        &self,
        conversation: ConversationId,
        after: Option<Tail>,
        entries: &[Entry],
    ) -> Result<Tail, StoreError> {
        let mut all = self.all_mut();
        match all.get_mut(&conversation) {
            Some(stored) => append(stored, after, entries),
            None => {
                let mut stored = Vec::new();
                let tail = append(&mut stored, after, entries)?;
                all.insert(conversation, stored);
                Ok(tail)
            }
        }
    }

    fn read(&self, conversation: ConversationId, from: u64, each: Each<'_>) -> Result<(), StoreError> {
        for entry in self.entries(conversation)?.into_iter().skip(usize::try_from(from).unwrap_or(usize::MAX))
        {
            if each(Item::Entry(entry)).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn list(&self, query: &Query) -> Result<Page, StoreError> {
        let ids: Vec<ConversationId> = self.all().keys().copied().collect();
        let all: Result<Vec<Summary>, StoreError> = ids.into_iter().map(|id| self.summary(id)).collect();
        Ok(scan::page(all?, query))
    }

    fn summary(&self, conversation: ConversationId) -> Result<Summary, StoreError> {
        scan::summary(self, conversation, self.digester)
    }

    fn ids(&self, prefix: &str, limit: usize) -> Result<Vec<ConversationId>, StoreError> {
        Ok(self.all().keys().filter(|id| id.has_prefix(prefix)).take(limit).copied().collect())
    }

    fn search(&self, search: &Search) -> Result<Vec<Hit>, StoreError> {
        let ids: Vec<ConversationId> = self.all().keys().copied().collect();
        scan::search(self, &ids, self.digester, search)
    }

    fn lock(&self, conversation: ConversationId, holder: &Holder) -> Result<Lock, StoreError> {
        self.locks.acquire(conversation, holder)
    }

    fn erase_all(
        &self,
        conversation: ConversationId,
        after: Tail,
        erasures: &[(EntryId, Entry)],
    ) -> Result<Tail, StoreError> {
        let mut all = self.all_mut();
        let stored = all.get_mut(&conversation).ok_or(StoreError::NotFound(conversation))?;
        let place = |entry: EntryId| {
            stored.iter().position(|other| other.id() == entry).ok_or(StoreError::NoSuchEntry(entry))
        };
        let places: Result<Vec<usize>, StoreError> =
            erasures.iter().map(|(entry, _)| place(*entry)).collect();
        let places = places?;
        let notes: Vec<Entry> = erasures.iter().map(|(_, note)| note.clone()).collect();
        let tail = append(stored, Some(after), &notes)?;
        for place in places {
            stored[place] = stored[place].erased();
        }
        Ok(tail)
    }

    fn delete(&self, conversation: ConversationId) -> Result<(), StoreError> {
        self.all_mut().remove(&conversation).map(drop).ok_or(StoreError::NotFound(conversation))
    }

    fn set_aside(
        &self,
        conversation: ConversationId,
        damage: &Damage,
    ) -> Result<Option<PathBuf>, StoreError> {
        let _ = (conversation, damage);
        Ok(None)
    }

    fn verify(
        &self,
        conversation: Option<ConversationId>,
        each: &mut dyn FnMut(Problem),
    ) -> Result<Verified, StoreError> {
        let ids = conversation.map_or_else(|| self.ids("", usize::MAX), |id| Ok(vec![id]))?;
        let mut all = Verified::default();
        for id in ids {
            let one = scan::verify_one(self, id, each)?;
            all.conversations += one.conversations;
            all.entries += one.entries;
        }
        Ok(all)
    }

    fn size(&self) -> Result<Size, StoreError> {
        let record = self.all().values().flatten().map(|entry| entry.to_line().len() as u64 + 1).sum();
        Ok(Size { record, index: 0 })
    }

    fn settle(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn rebuild(&self) -> Result<(), StoreError> {
        Ok(())
    }
}
