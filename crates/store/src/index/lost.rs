//! Entries that the index has seen but that the record no longer has.
//!
//! A record whose end was cut off looks whole by itself, but the index knows the newest entry of each conversation. The index
//! keeps a missing entry until the record has it again, even if the rest of the index is rebuilt.

use std::path::Path;

use rejoin_record::{ConversationId, Hash};
use rusqlite::{Connection, Row};

use crate::{
    sql,
    store::{Problem, StoragePlace},
};

/// An entry that was seen and is now missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LostEntry {
    pub(crate) conversation: ConversationId,
    /// The `seq` of the entry.
    pub(crate) seq: u64,
    pub(crate) hash: Hash,
    /// The highest `seq` that is left in the conversation; `None` if no entry is left.
    pub(crate) rest: Option<u64>,
}

impl LostEntry {
    pub(crate) fn problem(&self) -> Problem {
        let Self { seq, .. } = self;
        let what = match self.rest {
            None => format!("{} of its entries were here before, and all of them are missing", seq + 1),
            Some(rest) if rest + 1 == *seq => {
                format!("entry {seq} was here before and is missing")
            }
            Some(rest) if rest < *seq => {
                format!("entries {} to {seq} were here before and are missing", rest + 1)
            }
            Some(_) => format!("entry {seq} is not the one that was here before"),
        };
        let place = self.rest.map_or(StoragePlace::Store, |rest| StoragePlace::Row((rest + 1).min(*seq)));
        Problem::of(Some(self.conversation), place, what)
    }
}

/// The problem, with advice, that is reported once if any entries are missing.
pub(crate) fn advice(index: &Path) -> Problem {
    let what = format!(
        "entries are missing that were here before: the end of the file was cut off, or an older copy was put in its place. If you \
         did that on purpose, delete {} and this message goes away",
        index.display()
    );
    Problem::of(None, StoragePlace::Store, what)
}

fn row(row: &Row<'_>) -> rusqlite::Result<Option<LostEntry>> {
    let Ok(conversation) = row.get::<_, String>(0)?.parse() else { return Ok(None) };
    Ok(Some(LostEntry {
        conversation,
        seq: row.get::<_, i64>(1)?.unsigned_abs(),
        hash: Hash::from_bytes(row.get(2)?),
        rest: row.get::<_, Option<i64>>(3)?.map(i64::unsigned_abs),
    }))
}

fn select(connection: &Connection, query: &str) -> rusqlite::Result<Vec<LostEntry>> {
    let found: Vec<Option<LostEntry>> = sql::all(connection, query, [], row)?;
    Ok(found.into_iter().flatten().collect())
}

/// The entries that were already missing at the last update.
pub(crate) fn missed(connection: &Connection) -> rusqlite::Result<Vec<LostEntry>> {
    select(connection, "SELECT id, seq, hash, rest FROM lost")
}

/// The newest entry of each conversation that the index has seen.
pub(crate) fn seen(connection: &Connection) -> rusqlite::Result<Vec<LostEntry>> {
    select(connection, "SELECT id, seq, hash, NULL FROM summary WHERE seq IS NOT NULL AND hash IS NOT NULL")
}

/// Records a missing entry.
pub(crate) fn put(index: &Connection, lost: &LostEntry) -> rusqlite::Result<()> {
    sql::run(
        index,
        "INSERT OR IGNORE INTO lost (id, seq, hash, rest) VALUES (?1, ?2, ?3, ?4)",
        (
            lost.conversation.to_string(),
            lost.seq as i64,
            lost.hash.as_bytes(),
            lost.rest.map(|rest| rest as i64),
        ),
    )
}

/// Forgets a missing entry that is back.
pub(crate) fn forget(index: &Connection, lost: &LostEntry) -> rusqlite::Result<()> {
    let place = (lost.conversation.to_string(), lost.seq as i64);
    sql::run(index, "DELETE FROM lost WHERE id = ?1 AND seq = ?2", place)
}
