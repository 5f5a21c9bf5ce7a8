//! Entries that a server could not take: kept in a file of this machine, and delivered by the next process that opens the store.

use std::{
    collections::{HashMap, HashSet},
    path::PathBuf,
};

use rejoin_record::{Chain, ConversationId, Entry, EntryId, Hash, Tail};
use rejoin_store::{Holder, LeftUnsaved, Spool, Spooled, Store, StoreError};

use crate::clock::{Clock as _, SystemClock};

/// The file of a conversation, with the entries that are in it.
pub(crate) struct Waiting {
    file: Spooled,
    entries: HashSet<EntryId>,
}

impl Waiting {
    /// Keeps entries that could not be saved, in the file that is there already or in a new one.
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

    /// Where the entries are.
    pub(crate) fn path(&self) -> PathBuf {
        self.file.path()
    }

    /// The entries are in the store.
    pub(crate) fn done(self) {
        if let Err(why) = self.file.remove() {
            tracing::debug!("{why}; its entries are found to be saved next time");
        }
    }
}

/// Seals entries after a tail, each under its parent. `hashes` has the hashes of the entries that are stored. If the parent is not among
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

/// Delivers what earlier processes could not save. What cannot be delivered now stays where it is.
pub(crate) fn deliver(store: &dyn Store) {
    let Some(spool) = store.spool() else { return };
    for id in spool.conversations() {
        let delivered =
            spool.left(id).and_then(|left| left.map_or(Ok(0), |left| deliver_one(store, id, left)));
        match delivered {
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

/// About how many bytes of entries are delivered at once. A file may be larger than what a server takes in one statement.
const AT_ONCE: usize = 4 << 20;

fn deliver_one(store: &dyn Store, id: ConversationId, mut left: LeftUnsaved) -> Result<usize, StoreError> {
    let mut after = left.after;
    let mut entries = left.next_entries(AT_ONCE)?;
    let _lock = match entries.is_empty() {
        true => None,
        false => Some(store.lock(id, &Holder::this("delivering what was not saved", SystemClock.now()))?),
    };
    let mut count = 0;
    // The hashes of the entries that are stored, once others are known to have gone on.
    let mut stored: Option<HashMap<EntryId, Hash>> = None;
    while !entries.is_empty() {
        count += entries.len();
        let appended = match &stored {
            None => store.append(id, after, &entries),
            Some(_) => Err(StoreError::TailMoved { expected: after, found: after }),
        };
        after = Some(match appended {
            Err(StoreError::TailMoved { found: Some(found), .. }) => {
                // Others went on meanwhile. Each entry keeps its id and its parent, so this makes a branch.
                let hashes = match &mut stored {
                    Some(hashes) => hashes,
                    None => stored.insert(hashes_of(store, id)?),
                };
                let missing = entries.into_iter().filter(|entry| !hashes.contains_key(&entry.id())).collect();
                let sealed = resealed(found, hashes, missing);
                if sealed.is_empty() { found } else { store.append(id, Some(found), &sealed)? }
            }
            // The conversation was deleted elsewhere. That is not undone here, and what was said here is not thrown away either.
            Err(StoreError::TailMoved { expected: Some(_), found: None }) => {
                let path = left.set_aside()?;
                tracing::warn!(
                    "{id} was deleted elsewhere; what was said in it here and could not be saved is kept in {} until you delete that file",
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
