//! Feeds the index from the database, by keys. Keys of entries only grow. The index remembers the last key that it read, and the
//! number of removals at that time.

use std::{
    collections::{HashMap, HashSet},
    ops::ControlFlow,
    path::{Path, PathBuf},
};

use rejoin_record::{ConversationId, Entry, Hash};
use rusqlite::{Connection, Params, Transaction, TransactionBehavior, types::FromSql};

use super::{ErrorContext as _, Inner, Reader, opening, reading, rows, rows::Parents};
use crate::{
    digest::Digester,
    error::{StoreError, StoreResult},
    index::{
        Feed, IndexError, IndexUpdate, Remembered, Summaries, glance,
        lost::{self, LostEntry},
    },
    scan, sql,
    store::{Damage, StoragePlace},
};

/// How many entries are added at once. An append may have to wait for them.
const AT_ONCE: usize = 2000;

/// An entry, or the damage in its place. An entry whose parent is lost has both.
type FeedItem = (Option<Entry>, Option<Damage>);

impl Feed for Inner {
    fn path(&self) -> PathBuf {
        opening::index_of(&self.file())
    }

    fn digester(&self) -> Digester {
        self.digester
    }

    fn begin(&self, index: &Connection) -> Result<(), IndexError> {
        let begin = "INSERT INTO state VALUES ('store', ?1), ('seen', 0), ('mark', NULL), ('removed', ?2), ('seal', NULL)";
        Ok(sql::run(index, begin, (self.name()?, self.removed()?))?)
    }

    fn owns(&self, index: &Connection) -> Result<bool, IndexError> {
        Ok(state::<String>(index, "store")? == self.name()?)
    }

    fn update(&self, index: &Connection) -> Result<IndexUpdate, IndexError> {
        let is_removed = || Ok::<_, IndexError>(state::<i64>(index, "removed")? != self.removed()?);
        let outdated = IndexUpdate::Outdated("something was removed from the record");
        if is_removed()? {
            return Ok(outdated);
        }
        // If the record was restored from a copy, the entry that was read last is missing or differs.
        if state::<Option<String>>(index, "mark")? != self.mark_at(state(index, "seen")?)? {
            // Or that entry may have been removed just now.
            return Ok(if is_removed()? {
                outdated
            } else {
                IndexUpdate::Outdated("the record is another one")
            });
        }
        let newest = self.newest()?;
        while state::<i64>(index, "seen")? < newest {
            let transaction = Transaction::new_unchecked(index, TransactionBehavior::Immediate)?;
            // Another process may have updated the index first.
            let before: i64 = state(index, "seen")?;
            let (mut seen, mut taken) = (before, 0);
            let mut summaries = Summaries::default();
            let mut done = Ok(());
            self.after_key(before, &mut |key, conversation, (entry, damage)| {
                seen = key;
                taken += 1;
                if let Some(entry) = entry {
                    done = summaries.take(index, key, conversation, entry, self.digester);
                }
                if let (Ok(()), Some(damage)) = (&done, damage) {
                    let tally = summaries.of(index, conversation, self.digester);
                    done = tally.map(|tally| tally.note_damage(!damage.torn));
                }
                if done.is_ok() && taken < AT_ONCE {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                }
            })?;
            done.map_err(IndexError::Index)?;
            // A conversation may have been deleted and imported again meanwhile; the index would mix the two.
            if is_removed()? {
                return Ok(outdated);
            }
            summaries.put(index, |id, newest| {
                // The index is locked, so a damaged store is not rescued here.
                scan::entries(newest, |each| reading::walk(self, id, &mut 0, each))
            })?;
            set(index, "seen", seen)?;
            set(index, "mark", self.mark_at(seen)?)?;
            if let Some(seal) = self.seal() {
                set(index, "seal", seal)?;
            }
            transaction.commit()?;
            if seen == before {
                break;
            }
        }
        Ok(IndexUpdate::UpToDate)
    }

    fn remember(&self, index: &Connection) -> Result<Remembered, IndexError> {
        Ok(Remembered { lost: self.lost(index)?, going: Vec::new() })
    }

    fn keys_of(&self, _: &Connection, conversation: ConversationId) -> Result<HashSet<i64>, IndexError> {
        let reader = self.moment()?;
        let Some(key) = Self::key_of(&reader.connection, conversation)? else { return Ok(HashSet::new()) };
        let query = "SELECT key FROM entry WHERE conversation = ?1";
        let keys = sql::all(&reader.connection, query, [key], |row| row.get(0));
        Ok(keys.during("reading the conversation")?)
    }

    fn entries(
        &self,
        _: &Connection,
        keys: &[i64],
    ) -> Result<HashMap<i64, (ConversationId, Entry)>, IndexError> {
        let mut found = HashMap::new();
        for wanted in keys {
            self.after_key(wanted - 1, &mut |key, conversation, (entry, _)| {
                if key == *wanted {
                    found.extend(entry.map(|entry| (key, (conversation, entry))));
                }
                ControlFlow::Break(())
            })?;
        }
        Ok(found)
    }
}

/// Queries of the record.
impl Inner {
    fn ask<T: FromSql>(&self, query: &str, params: impl Params) -> StoreResult<Option<T>> {
        sql::one(&self.reader()?.connection, query, params).during("reading the store")
    }

    /// Runs a query about a conversation, which is given by its key.
    fn ask_of<T: FromSql>(&self, id: ConversationId, query: &str, seq: u64) -> StoreResult<Option<T>> {
        let reader = self.moment()?;
        let Some(key) = Self::key_of(&reader.connection, id)? else { return Ok(None) };
        sql::one(&reader.connection, query, (key, seq as i64)).during("reading an entry")
    }

    fn name(&self) -> StoreResult<String> {
        Ok(self.ask("SELECT value FROM meta WHERE name = 'store'", [])?.unwrap_or_default())
    }

    pub(super) fn removed(&self) -> StoreResult<i64> {
        Ok(self.ask("SELECT value FROM meta WHERE name = 'removed'", [])?.unwrap_or_default())
    }

    fn newest(&self) -> StoreResult<i64> {
        Ok(self.ask("SELECT max(key) FROM entry", [])?.flatten().unwrap_or_default())
    }

    /// The hash of the entry with a key, in the form in which the index stores it.
    fn mark_at(&self, key: i64) -> StoreResult<Option<String>> {
        let hash: Option<[u8; 32]> = self.ask("SELECT hash FROM entry WHERE key = ?1", [key])?;
        Ok(hash.map(spelled))
    }

    /// Whether an entry that the index has seen still exists.
    pub(super) fn has(&self, seen: &LostEntry) -> StoreResult<bool> {
        let query = "SELECT hash FROM entry WHERE conversation = ?1 AND seq = ?2";
        let found: Option<[u8; 32]> = self.ask_of(seen.conversation, query, seen.seq)?;
        Ok(found.is_some_and(|hash| Hash::from_bytes(hash) == seen.hash))
    }

    /// The key of a conversation's first entry and the `seq` of its newest one.
    pub(super) fn ends_of(&self, id: ConversationId) -> StoreResult<Option<(i64, u64)>> {
        let first = "SELECT key FROM entry WHERE conversation = ?1 AND seq >= ?2 ORDER BY seq LIMIT 1";
        let newest = "SELECT seq FROM entry WHERE conversation = ?1 AND seq >= ?2 ORDER BY seq DESC LIMIT 1";
        let newest: Option<i64> = self.ask_of(id, newest, 0)?;
        Ok(self.ask_of(id, first, 0)?.zip(newest.map(i64::unsigned_abs)))
    }

    /// The seal of the file, which shows changes by other programs; `None` while the file is being written.
    fn seal(&self) -> Option<String> {
        let writes = self.writer.try_lock().is_ok_and(|writer| writer.is_some());
        writes.then(|| opening::seal(&self.path))
    }

    /// Passes on the entries after a key, in order.
    fn after_key(
        &self,
        key: i64,
        each: &mut dyn FnMut(i64, ConversationId, FeedItem) -> ControlFlow<()>,
    ) -> StoreResult<()> {
        let mut reader = self.reader()?;
        let Reader { connection, unpacker, columns } = &mut *reader;
        let query = format!(
            "SELECT {columns}, conversation.id FROM entry JOIN conversation ON conversation.key = entry.conversation \
             WHERE entry.key > ?1 ORDER BY entry.key"
        );
        let what = "reading new entries";
        let mut statement = connection.prepare_cached(&query).during(what)?;
        let mut rows = statement.query([key]).during(what)?;
        // Each conversation has a separate chain.
        let mut parents: HashMap<i64, Parents> = HashMap::new();
        while let Some(row) = rows.next().during(what)? {
            let conversation: i64 = row.get(13).during(what)?;
            let id = row.get_ref(14).during(what)?;
            let Ok(id) = id.as_str().unwrap_or_default().parse() else { continue };
            let parents = parents.entry(conversation).or_default();
            let fed = match rows::read_row(row, conversation, connection, unpacker, parents) {
                Err(broken) if broken.page => {
                    return Err(StoreError::Damaged { place: StoragePlace::Store, why: broken.damage.why });
                }
                Err(broken) => (None, Some(broken.damage)),
                Ok(unverified) => match unverified.verify() {
                    Err(damage) => (None, Some(damage)),
                    Ok(verified) => {
                        let doubt = verified.doubt();
                        (Some(verified.entry), doubt)
                    }
                },
            };
            if each(row.get(11).during(what)?, id, fed).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// The entries that an index has seen and that the record lacks although they were not removed.
    pub(super) fn lost(&self, index: &Connection) -> Result<Vec<LostEntry>, IndexError> {
        let mut found = Vec::new();
        for seen in lost::seen(index)? {
            if !self.has(&seen)? {
                let ends = self.ends_of(seen.conversation)?;
                found.push((LostEntry { rest: ends.map(|(_, newest)| newest), ..seen }, ends));
            }
        }
        for missed in lost::missed(index)? {
            if !self.has(&missed)? && !found.iter().any(|(lost, _)| *lost == missed) {
                let ends = self.ends_of(missed.conversation)?;
                found.push((missed, ends));
            }
        }
        // Check this last: entries may have been removed while the record was searched.
        if state::<i64>(index, "removed")? != self.removed()? {
            let read: i64 = state(index, "seen")?;
            let missed_before = lost::missed(index)?;
            let was_gone = |lost: &LostEntry| {
                let place = |lost: &LostEntry| (lost.conversation, lost.seq);
                missed_before.iter().any(|before| before.rest.is_none() && place(before) == place(lost))
            };
            // A conversation that is missing completely was probably deleted, unless it was missing before. One that begins after
            // everything that was read was deleted and imported again.
            found.retain(|(lost, ends)| ends.map_or_else(|| was_gone(lost), |(first, _)| first <= read));
        }
        Ok(found.into_iter().map(|(lost, _)| lost).collect())
    }
}

fn spelled(hash: [u8; 32]) -> String {
    Hash::from_bytes(hash).to_string()
}

fn state<T: FromSql>(index: &Connection, name: &str) -> rusqlite::Result<T> {
    let query = "SELECT value FROM state WHERE name = ?1";
    sql::one(index, query, [name])?.ok_or(rusqlite::Error::QueryReturnedNoRows)
}

fn set(index: &Connection, name: &str, value: impl rusqlite::ToSql) -> rusqlite::Result<()> {
    sql::run(index, "UPDATE state SET value = ?2 WHERE name = ?1", (name, value))
}

/// The seal of the file at its last closing, as recorded in the index.
pub(super) fn seal_in(path: &Path) -> Option<String> {
    state(&glance(path).ok()?, "seal").ok()?
}

/// Records the seal of the file, if the index exists.
pub(super) fn put_seal_in(path: &Path, seal: &str) {
    if path.is_file()
        && let Ok(index) = glance(path)
    {
        put_seal(&index, seal);
    }
}

pub(super) fn put_seal(index: &Connection, seal: &str) {
    if let Err(why) = set(index, "seal", seal) {
        tracing::debug!("how the record was left is not noted: {why}");
    }
}

/// Whether the record has everything that an index has seen. False if there is no index.
pub(super) fn knows_no_more(path: &Path, record: &Connection) -> bool {
    let known = || -> rusqlite::Result<bool> {
        let index = glance(path)?;
        let seen: i64 = state(&index, "seen")?;
        let there: Option<[u8; 32]> = sql::one(record, "SELECT hash FROM entry WHERE key = ?1", [seen])?;
        Ok(state::<Option<String>>(&index, "mark")? == there.map(spelled))
    };
    known().unwrap_or(false)
}

/// Whether an index has seen an entry newer than the whole record, although no removal explains the difference.
pub(super) fn index_is_ahead(path: &Path, record: &Connection) -> bool {
    let known = || -> rusqlite::Result<bool> {
        if !path.is_file() {
            return Ok(false);
        }
        let index = glance(path)?;
        let (seen, removed): (i64, i64) = (state(&index, "seen")?, state(&index, "removed")?);
        let ask = |query| sql::one::<Option<i64>>(record, query, []);
        let newest = ask("SELECT max(key) FROM entry")?.flatten();
        let removed_so_far = ask("SELECT value FROM meta WHERE name = 'removed'")?.flatten();
        Ok(seen > newest.unwrap_or(0) && removed_so_far.unwrap_or(0) <= removed)
    };
    known().unwrap_or(false)
}
