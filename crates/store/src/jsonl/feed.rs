//! Feeds the index from a folder. A file whose size, time or identity changed is read again; if it has only grown, from the
//! position where the index stopped.

use std::{
    collections::{HashMap, HashSet},
    ops::ControlFlow,
    path::PathBuf,
    time::UNIX_EPOCH,
};

use rejoin_record::{ConversationId, Entry};
use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::{Jsonl, Mark};
use crate::{
    digest::Digester,
    error::{StoreError, StoreResult},
    index::{
        Feed, IndexError, IndexUpdate, Remembered, Summaries, get,
        lost::{self, LostEntry},
        record_deletion,
    },
    scan, sql,
    store::{Store as _, StoredItem},
};

/// The files of a folder, listed a moment ago.
pub(super) struct Files<'s> {
    pub(super) store: &'s Jsonl,
    pub(super) marks: Vec<(ConversationId, Mark)>,
}

impl Feed for Files<'_> {
    fn path(&self) -> PathBuf {
        self.store.folder.path_of(".index")
    }

    fn digester(&self) -> Digester {
        self.store.digester
    }

    fn update(&self, index: &Connection) -> Result<IndexUpdate, IndexError> {
        let mut known: HashMap<String, String> =
            sql::all(index, "SELECT id, mark FROM file", [], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let marks = self.marks.iter().map(|(id, mark)| (*id, spelled(mark)));
        let changed: Vec<(ConversationId, String)> =
            marks.filter(|(id, mark)| known.remove(&id.to_string()).as_ref() != Some(mark)).collect();
        if changed.is_empty() && known.is_empty() {
            return Ok(IndexUpdate::UpToDate);
        }
        let mut is_removed = !known.is_empty();
        let transaction = Transaction::new_unchecked(index, TransactionBehavior::Immediate)?;
        for (id, mark) in changed {
            match self.take_file(index, id, &mark) {
                // It was deleted a moment ago.
                Err(IndexError::Store(StoreError::NotFound(_))) => {}
                // A file that cannot be read does not stop the others. It is tried again next time.
                Err(IndexError::Store(StoreError::Io { what, why })) => tracing::warn!("{what}: {why}"),
                taken => is_removed |= taken?,
            }
        }
        transaction.commit()?;
        Ok(if is_removed { IndexUpdate::Outdated("something was removed") } else { IndexUpdate::UpToDate })
    }

    fn remember(&self, index: &Connection) -> Result<Remembered, IndexError> {
        let going = sql::all(index, "SELECT id, seq FROM going", [], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(Remembered { lost: lost::missed(index)?, going })
    }

    fn keys_of(&self, index: &Connection, conversation: ConversationId) -> Result<HashSet<i64>, IndexError> {
        let query = "SELECT key FROM place WHERE id = ?1";
        Ok(sql::all(index, query, [conversation.to_string()], |row| row.get(0))?)
    }

    fn entries(
        &self,
        index: &Connection,
        keys: &[i64],
    ) -> Result<HashMap<i64, (ConversationId, Entry)>, IndexError> {
        let mut wanted: HashMap<ConversationId, HashMap<u64, i64>> = HashMap::new();
        for key in keys {
            let query = "SELECT id, seq FROM place WHERE key = ?1";
            let (id, seq): (String, i64) =
                index.prepare_cached(query)?.query_row([key], |row| Ok((row.get(0)?, row.get(1)?)))?;
            let Ok(id) = id.parse() else { continue };
            wanted.entry(id).or_default().insert(seq.unsigned_abs(), *key);
        }
        // Read each conversation once, however many of its entries are requested.
        let mut found = HashMap::new();
        for (id, mut wanted) in wanted {
            self.store.read(id, wanted.keys().copied().min().unwrap_or(0), &mut |item| {
                if let StoredItem::Entry(entry) = item
                    && let Some(key) = wanted.remove(&entry.envelope().seq)
                {
                    found.insert(key, (id, entry));
                }
                if wanted.is_empty() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })?;
        }
        Ok(found)
    }
}

impl Files<'_> {
    /// Adds a file. Returns whether entries that the index had were removed.
    fn take_file(&self, index: &Connection, id: ConversationId, mark: &str) -> Result<bool, IndexError> {
        let name = id.to_string();
        let tail = get(index, id)?.and_then(|summary| summary.tail);
        // Entries that were read before are kept if the file continues after them.
        let (mut entries, mut damaged) = self.read_from(id, tail.map_or(0, |tail| tail.seq))?;
        let before: Option<String> = sql::one(index, "SELECT mark FROM file WHERE id = ?1", [&name])?;
        let continues = tail
            .is_some_and(|tail| entries.first().is_some_and(|entry| entry.hash() == tail.hash))
            && before.is_some_and(|before| has_grown(&before, mark))
            && !scan::beginning_is_damaged(self.store, id)?;
        if continues {
            entries.remove(0);
        } else {
            drop_file(index, &name)?;
            if let Some(tail) = tail {
                (entries, damaged) = self.read_from(id, 0)?;
                let is_there = |entry: &Entry| entry.envelope().seq == tail.seq && entry.hash() == tail.hash;
                if !entries.iter().any(is_there) && !is_being_deleted(index, id, tail.seq) {
                    let rest = entries.last().map(|entry| entry.envelope().seq);
                    lost::put(index, &LostEntry { conversation: id, seq: tail.seq, hash: tail.hash, rest })?;
                }
            }
        }
        let mut summaries = Summaries::default();
        let has_new = !entries.is_empty();
        for entry in entries {
            sql::run(
                index,
                "INSERT INTO place (id, seq) VALUES (?1, ?2)",
                (&name, entry.envelope().seq as i64),
            )?;
            summaries.take(index, index.last_insert_rowid(), id, entry, self.store.digester)?;
        }
        if damaged && (continues || has_new) {
            summaries.of(index, id, self.store.digester)?.note_damage(true);
        }
        summaries.put(index, |id, newest| scan::entries(newest, |each| self.store.read(id, 0, each)))?;
        sql::run(index, "INSERT OR REPLACE INTO file (id, mark) VALUES (?1, ?2)", (&name, mark))?;
        Ok(tail.is_some() && !continues)
    }

    /// The entries of a conversation from a `seq` on, and whether something there is damaged.
    fn read_from(&self, id: ConversationId, from: u64) -> StoreResult<(Vec<Entry>, bool)> {
        let (mut entries, mut damaged) = (Vec::new(), false);
        self.store.read(id, from, &mut |item| {
            match item {
                StoredItem::Entry(entry) => entries.push(entry),
                StoredItem::Damage(damage) => damaged |= !damage.torn,
            }
            ControlFlow::Continue(())
        })?;
        Ok((entries, damaged))
    }

    /// Records that a conversation is about to be deleted, so that nothing counts as missing if a shorter one is imported again.
    pub(super) fn let_go(&self, id: ConversationId, newest: u64) -> StoreResult<()> {
        let newest = i64::try_from(newest).unwrap_or(i64::MAX);
        self.store.index.write(self, |index| record_deletion(index, &id.to_string(), newest))
    }

    /// Records that a conversation was deleted, and that the index has noticed it.
    pub(super) fn is_gone(&self, id: ConversationId) -> StoreResult<()> {
        let forget =
            |index: &Connection| sql::run(index, "DELETE FROM going WHERE id = ?1", [id.to_string()]);
        self.store.index.write(self, forget)
    }

    /// The entries that the index has seen of a conversation: the newest one when the file was last read, and those that were
    /// missing then. The file is not read again.
    pub(super) fn seen_of(&self, id: ConversationId) -> Vec<LostEntry> {
        let of_it = |index: &Connection, mut seen: Vec<LostEntry>| {
            seen.retain(|lost| lost.conversation == id && !is_being_deleted(index, id, lost.seq));
            seen
        };
        self.store.index.seen(self, of_it).unwrap_or_default()
    }
}

/// A mark as the index stores it.
fn spelled(mark: &Mark) -> String {
    let since = mark.modified.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    let since = since.map_or_else(String::new, |since| since.as_nanos().to_string());
    format!("{} {since} {:?}", mark.size, mark.identity)
}

/// Whether two marks show that a file is the same and has only grown.
fn has_grown(before: &str, now: &str) -> bool {
    let size = |mark: &str| mark.split(' ').next().and_then(|size| size.parse::<u64>().ok());
    let identity = |mark: &str| mark.rsplit(' ').next().map(str::to_owned);
    identity(before) == identity(now) && size(before) < size(now)
}

/// Whether an entry's conversation is being deleted or was deleted, and the entry with it.
fn is_being_deleted(index: &Connection, id: ConversationId, seq: u64) -> bool {
    let query = "SELECT 1 FROM going WHERE id = ?1 AND seq >= ?2";
    matches!(sql::one::<i64>(index, query, (id.to_string(), seq as i64)), Ok(Some(_)))
}

fn drop_file(index: &Connection, id: &str) -> rusqlite::Result<()> {
    sql::run(index, "DELETE FROM words WHERE rowid IN (SELECT key FROM place WHERE id = ?1)", [id])?;
    for table in ["place", "summary", "file"] {
        sql::run(index, &format!("DELETE FROM {table} WHERE id = ?1"), [id])?;
    }
    Ok(())
}
