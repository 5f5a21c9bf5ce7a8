//! Lets several processes continue one conversation: the lock is released between turns, and the entries of other processes are
//! read before the next turn.

use std::sync::Arc;

use rejoin_record::{Entry, EntryId, Kind};
use rejoin_store::{Holder, Store, StoreError};

use super::Conversation;
use crate::{draft, error::EngineError};

impl Conversation {
    /// Releases the lock, so that other processes may write. A conversation with unsaved entries keeps it.
    pub fn release(&mut self) {
        if self.unsaved().is_empty()
            && let Some(home) = &mut self.home
        {
            home.lock = None;
        }
    }

    /// Takes the lock, and reads the entries that other processes added since it was released. Returns those entries; the next
    /// entry follows the newest of them. Does nothing if the lock is already held, if the conversation is not stored yet, or while
    /// the server is unreachable.
    ///
    /// # Errors
    /// [`StoreError::Locked`] if another process writes to it now, [`StoreError::NotFound`] if it was deleted, or if it cannot be
    /// read.
    pub fn reclaim(&mut self) -> Result<Vec<Entry>, EngineError> {
        let Some(home) = self.home.as_mut().filter(|home| home.lock.is_none()) else { return Ok(Vec::new()) };
        let (Some(command), Some(after)) = (&home.command, self.after) else { return Ok(Vec::new()) };
        let store = Arc::clone(&home.store);
        match store.lock(self.id, &Holder::this(command.as_str(), self.clock.now())) {
            Ok(lock) => home.lock = Some(lock),
            Err(why @ StoreError::Locked(_)) => return Err(why.into()),
            // As on opening: a conversation that cannot be locked can still be used.
            Err(why) => tracing::warn!("Failed to lock conversation {}: {why}", self.id),
        }
        if home.lock.is_some() {
            draft::absorb(&*store, self.id);
        }
        let tail = match store.tail(self.id) {
            // The server is unreachable now. The next entries wait in a file, and the first save that succeeds catches up.
            Err(why) if why.is_unwritable() && store.spool().is_some() => {
                tracing::debug!("entries that others added to {} cannot be read now: {why}", self.id);
                return Ok(Vec::new());
            }
            tail => tail?,
        };
        if tail.is_none() {
            home.lock = None;
        }
        if tail.ok_or(StoreError::NotFound(self.id))? == after {
            return Ok(Vec::new());
        }
        let known: std::collections::HashSet<EntryId> = self.entries.iter().map(Entry::id).collect();
        self.catch_up(&*store)?;
        let added: Vec<Entry> =
            self.entries.iter().filter(|entry| !known.contains(&entry.id())).cloned().collect();
        if (added.iter().any(|entry| entry.envelope().kind == Kind::Erased) || self.lacks_entries())
            && let Err(why) = self.read_stored_again(&*store)
        {
            // Give the lock back, so that the next attempt reads these entries again.
            if let Some(home) = &mut self.home {
                home.lock = None;
            }
            return Err(why.into());
        }
        let newest = self.entries.iter().max_by_key(|entry| entry.envelope().seq);
        self.head = newest.map(|entry| (entry.id(), entry.hash()));
        Ok(added)
    }

    /// Whether the conversation needs entries that were skipped on opening.
    fn lacks_entries(&self) -> bool {
        #[cfg(feature = "agent")]
        return self.part.as_ref().is_some_and(|part| !part.suffices(&self.entries));
        #[cfg(not(feature = "agent"))]
        false
    }

    /// The entries of the store, up to the newest one that this process knows.
    pub(super) fn stored_entries(&self, store: &dyn Store) -> Result<Vec<Entry>, StoreError> {
        let mut entries = store.entries(self.id)?;
        if let Some(after) = self.after {
            entries.retain(|entry| entry.envelope().seq <= after.seq);
        }
        Ok(entries)
    }

    /// Reads all stored entries again: erased content must not stay in memory either, and skipped entries may be needed.
    pub(super) fn read_stored_again(&mut self, store: &dyn Store) -> Result<(), StoreError> {
        let entries = self.stored_entries(store)?;
        let unsaved = self.entries.split_off(self.stored);
        self.stored = entries.len();
        self.entries = entries;
        self.entries.extend(unsaved);
        #[cfg(feature = "agent")]
        {
            (self.part, self.walk) = (None, None);
        }
        self.forget();
        Ok(())
    }
}
