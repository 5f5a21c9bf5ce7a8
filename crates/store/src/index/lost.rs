//! What the index has seen and the record no longer has.
//!
//! A record that was cut off at its end looks whole. The index knows better: it remembers the newest entry of each conversation.
//! What is missed once is kept in the index until it is there again, also when everything else in the index is made anew.

use std::path::Path;

use rejoin_record::{ConversationId, Hash};
use rusqlite::{Connection, Row};

use super::{Source, failed};
use crate::{
    error::StoreError,
    store::{Place, Problem},
};

pub(super) const SCHEMA: &str = "
    CREATE TABLE lost (id TEXT NOT NULL, seq INTEGER NOT NULL, hash BLOB NOT NULL, rest INTEGER,
        PRIMARY KEY (id, seq)) STRICT, WITHOUT ROWID;
";

/// An entry that was seen and is not there any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Lost {
    pub(crate) conversation: ConversationId,
    /// Its place, and what was there.
    pub(crate) seq: u64,
    pub(crate) hash: Hash,
    /// The newest place that was left of the conversation; none if nothing was.
    pub(crate) rest: Option<u64>,
}

impl Lost {
    /// What is said of it.
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
        let place = self.rest.map_or(Place::Store, |rest| Place::Row((rest + 1).min(*seq)));
        Problem { conversation: Some(self.conversation), place, what, torn: false }
    }
}

/// What is said once, if anything is missed.
pub(crate) fn advice(index: &Path) -> Problem {
    let what = format!(
        "entries are missing that were here before: the end of the file was cut off, or an older copy was put in its place. If you \
         did that on purpose, delete {} and this message goes away",
        index.display()
    );
    Problem { conversation: None, place: Place::Store, what, torn: false }
}

fn row(row: &Row<'_>) -> rusqlite::Result<Option<Lost>> {
    let Ok(conversation) = row.get::<_, String>(0)?.parse() else { return Ok(None) };
    Ok(Some(Lost {
        conversation,
        seq: row.get::<_, i64>(1)?.unsigned_abs(),
        hash: Hash::from_bytes(row.get(2)?),
        rest: row.get::<_, Option<i64>>(3)?.map(i64::unsigned_abs),
    }))
}

fn select(connection: &Connection, query: &str) -> rusqlite::Result<Vec<Lost>> {
    let mut statement = connection.prepare(query)?;
    let rows = statement.query_map([], row)?;
    Ok(rows.collect::<rusqlite::Result<Vec<_>>>()?.into_iter().flatten().collect())
}

/// What was missed before.
pub(crate) fn missed(connection: &Connection) -> rusqlite::Result<Vec<Lost>> {
    select(connection, "SELECT id, seq, hash, rest FROM lost")
}

/// The newest entry of each conversation, as far as it was seen.
pub(crate) fn seen(connection: &Connection) -> rusqlite::Result<Vec<Lost>> {
    select(connection, "SELECT id, seq, hash, NULL FROM summary WHERE seq IS NOT NULL AND hash IS NOT NULL")
}

/// Keeps in mind that something is missed.
pub(crate) fn put(connection: &Connection, lost: &Lost) -> rusqlite::Result<()> {
    connection
        .prepare_cached("INSERT OR IGNORE INTO lost (id, seq, hash, rest) VALUES (?1, ?2, ?3, ?4)")?
        .execute((
            lost.conversation.to_string(),
            lost.seq as i64,
            lost.hash.as_bytes(),
            lost.rest.map(|rest| rest as i64),
        ))
        .map(drop)
}

/// It is there again, or its conversation was deleted.
pub(crate) fn forget(connection: &Connection, lost: &Lost) -> rusqlite::Result<()> {
    connection
        .execute(
            "DELETE FROM lost WHERE id = ?1 AND seq = ?2",
            (lost.conversation.to_string(), lost.seq as i64),
        )
        .map(drop)
}

/// Of what an index has seen, what a record does not have and nobody removed.
pub(super) fn find(connection: &Connection, source: &dyn Source) -> Result<Vec<Lost>, StoreError> {
    let mut lost = Vec::new();
    let reading = || failed("reading the index");
    for seen in seen(connection).map_err(reading())? {
        if source.hash_of(seen.conversation, seen.seq)? != Some(seen.hash) {
            let ends = source.ends_of(seen.conversation)?;
            lost.push((Lost { rest: ends.map(|(_, newest)| newest), ..seen }, ends));
        }
    }
    for missed in missed(connection).map_err(reading())? {
        let there = source.hash_of(missed.conversation, missed.seq)? == Some(missed.hash);
        if !there && !lost.iter().any(|(lost, _)| *lost == missed) {
            let ends = source.ends_of(missed.conversation)?;
            lost.push((missed, ends));
        }
    }
    // This is asked last. Somebody may have removed something while the record was searched.
    let state = |name: &str| {
        connection.query_row("SELECT value FROM state WHERE name = ?1", [name], |row| row.get::<_, i64>(0))
    };
    let (removed, read) = (state("removed").map_err(reading())?, state("seen").map_err(reading())?);
    if removed != source.removed()? {
        // What is gone as a whole was probably deleted; what nobody deleted was missed before. What begins behind everything
        // that was read came after the removal: the conversation was deleted and imported again.
        lost.retain(|(lost, ends)| match ends {
            None => known_to_be_gone(connection, lost),
            Some((first, _)) => *first <= read,
        });
    }
    Ok(lost.into_iter().map(|(lost, _)| lost).collect())
}

/// Whether a conversation was missed as a whole before.
fn known_to_be_gone(connection: &Connection, lost: &Lost) -> bool {
    let query = "SELECT count(*) FROM lost WHERE id = ?1 AND seq = ?2 AND rest IS NULL";
    let count =
        connection.query_row(query, (lost.conversation.to_string(), lost.seq as i64), |row| row.get(0));
    count.is_ok_and(|count: i64| count > 0)
}
