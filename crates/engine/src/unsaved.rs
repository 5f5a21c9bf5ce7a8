//! Entries that a server could not accept. They are kept in a file on this machine, and the next process that opens the store
//! delivers them.

use std::{
    collections::{HashMap, HashSet},
    path::PathBuf,
};

use rejoin_record::{Chain, ConversationId, Entry, EntryId, Hash, Tail};
use rejoin_store::{Holder, Spool, Spooled, Store, StoreError, UnsavedEntries};

use crate::clock::{Clock as _, SystemClock};

/// A conversation's file of waiting entries, and their number.
pub(crate) struct Waiting {
    file: Spooled,
    entries: HashSet<EntryId>,
}

impl Waiting {
    /// Writes entries that could not be saved to the existing file or to a new one.
    pub(crate) fn keep(
        waiting: Option<Self>,
        spool: &Spool,
        conversation: ConversationId,
        after: Option<Tail>,
        unsaved: &[Entry],
    ) -> Result<Self, StoreError> {
        let mut waiting = match waiting {
            Some(waiting) => waiting,
            None => Self { file: spool.begin(conversation, after)?, entries: HashSet::new() },
        };
        let new: Vec<Entry> =
            unsaved.iter().filter(|entry| !waiting.entries.contains(&entry.id())).cloned().collect();
        waiting.file.add(&new)?;
        waiting.entries.extend(new.iter().map(Entry::id));
        Ok(waiting)
    }

    /// The path of the file.
    pub(crate) fn path(&self) -> PathBuf {
        self.file.path()
    }

    /// Removes the file, because the store has the entries now.
    pub(crate) fn done(self) {
        if let Err(why) = self.file.remove() {
            tracing::debug!("{why}; the next start will try to save its entries");
        }
    }
}

/// Seals entries after a tail, each under its parent. `hashes` has the hashes of the stored entries. If the parent is not among
/// them, because the server lost it, the entry follows the newest one.
pub(crate) fn resealed(after: Tail, hashes: &mut HashMap<EntryId, Hash>, entries: Vec<Entry>) -> Vec<Entry> {
    hashes.insert(after.id, after.hash);
    let mut chain = Chain::at(Some(after));
    let mut sealed = Vec::with_capacity(entries.len());
    for entry in entries {
        let parent = entry.envelope().parent;
        let parent = parent.and_then(|id| hashes.get(&id).map(|hash| (id, *hash)).or_else(|| chain.head()));
        if let Some(entry) = chain.reseal(parent, &entry) {
            hashes.insert(entry.id(), entry.hash());
            sealed.push(entry);
        }
    }
    sealed
}

/// Delivers entries that earlier processes could not save. Entries that cannot be delivered now stay in their file.
pub(crate) fn deliver(store: &dyn Store) {
    let Some(spool) = store.spool() else { return };
    for id in spool.conversations() {
        match deliver_all(store, spool, id) {
            Ok(0) => {}
            Ok(entries) => {
                tracing::info!("{entries} entries of {id} that could not be saved earlier are saved now")
            }
            Err(why) => {
                tracing::warn!("entries of {id} that could not be saved earlier are still waiting: {why}")
            }
        }
    }
}

/// Delivers the files of a conversation, one after the other.
fn deliver_all(store: &dyn Store, spool: &Spool, id: ConversationId) -> Result<usize, StoreError> {
    let mut count = 0;
    while let Some(left) = spool.left(id)? {
        count += deliver_one(store, id, left)?;
    }
    Ok(count)
}

/// How many bytes of entries are delivered at once, about. A file may be larger than a server accepts in one statement.
const AT_ONCE: usize = 4 << 20;

fn deliver_one(store: &dyn Store, id: ConversationId, mut left: UnsavedEntries) -> Result<usize, StoreError> {
    let mut after = left.after;
    let mut entries = left.next_entries(AT_ONCE)?;
    let _lock = match entries.is_empty() {
        true => None,
        false => Some(store.lock(id, &Holder::this("delivering what was not saved", SystemClock.now()))?),
    };
    let mut count = 0;
    // The hashes of the stored entries. Read only once it is known that other processes appended.
    let mut stored: Option<HashMap<EntryId, Hash>> = None;
    while !entries.is_empty() {
        count += entries.len();
        let appended = match &stored {
            None => store.append(id, after, &entries),
            Some(_) => Err(StoreError::TailMoved { expected: after, found: after }),
        };
        after = Some(match appended {
            Err(StoreError::TailMoved { found: Some(found), .. }) => {
                // Other processes appended meanwhile. Each entry keeps its id and its parent, so this makes a branch.
                let hashes = match &mut stored {
                    Some(hashes) => hashes,
                    None => stored.insert(hashes_of(store, id)?),
                };
                let missing = entries.into_iter().filter(|entry| !hashes.contains_key(&entry.id())).collect();
                let sealed = resealed(found, hashes, missing);
                if sealed.is_empty() { found } else { store.append(id, Some(found), &sealed)? }
            }
            // The conversation was deleted elsewhere. Do not undo that, but do not throw these entries away either.
            Err(StoreError::TailMoved { expected: Some(_), found: None }) => {
                let path = left.set_aside()?;
                tracing::warn!(
                    "{id} was deleted elsewhere; its entries from here that could not be saved are kept in {} until you delete that file",
                    path.display()
                );
                return Ok(0);
            }
            appended => appended?,
        });
        entries = left.next_entries(AT_ONCE)?;
    }
    left.file.remove()?;
    Ok(count)
}

fn hashes_of(store: &dyn Store, id: ConversationId) -> Result<HashMap<EntryId, Hash>, StoreError> {
    let mut hashes = HashMap::new();
    store.each_entry(id, |entry| {
        hashes.insert(entry.id(), entry.hash());
    })?;
    Ok(hashes)
}
