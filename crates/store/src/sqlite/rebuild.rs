//! Copies every entry of a store into a new file.

use std::{collections::HashMap, ops::ControlFlow, path::Path};

use rejoin_record::EntryId;
use rusqlite::Connection;

use super::{ErrorContext as _, Reader, body::Packer, reading, rows, schema};
use crate::{
    error::{StoreError, StoreResult},
    sql,
};

/// Copies the entries of a file that can be verified into a new one. `seq`, ids and hashes stay the same. Entries whose parent is
/// missing still name it by its id.
pub(super) fn rebuild(from: &Path, to: &Path) -> StoreResult<()> {
    let new = schema::open_new(to)?;
    let mut packer = Packer::new().map_err(StoreError::io("setting up compression"))?;
    let mut reader = Reader::new(schema::reconnect(from)?)?;
    let mut write = || -> rusqlite::Result<()> {
        let transaction = new.unchecked_transaction()?;
        carry_over(&reader.connection, &transaction)?;
        let mut number = 0;
        for (key, id) in conversations(&reader.connection)? {
            let mut places: HashMap<EntryId, u64> = HashMap::new();
            let mut inserted = Ok(());
            reading::rows_from(&mut reader, key, 0, usize::MAX, &mut |(seq, unverified)| {
                // Damaged entries stay in the copy that was set aside.
                let Some(verified) = unverified.ok().and_then(|unverified| unverified.verify().ok()) else {
                    return ControlFlow::Continue(());
                };
                let seq_of = |parent| places.get(&parent).copied();
                let parent = rows::Parent {
                    seq: verified.entry.envelope().parent.and_then(seq_of),
                    hash: verified.parent,
                };
                places.insert(verified.entry.id(), seq);
                number += 1;
                inserted = rows::insert(&transaction, &mut packer, (number, key), &verified.entry, parent);
                if inserted.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            })?;
            inserted?;
            if !places.is_empty() {
                transaction.execute("INSERT INTO conversation (key, id) VALUES (?1, ?2)", (key, &id))?;
            }
        }
        transaction.commit()?;
        // Move everything into the file itself, because only the file is renamed.
        sql::empty_log(&new).map(drop)
    };
    write().during("copying what was found")
}

/// Copies the id of the store, and its counters.
fn carry_over(from: &Connection, to: &Connection) -> rusqlite::Result<()> {
    let meta: Vec<(String, rusqlite::types::Value)> =
        sql::all(from, "SELECT name, value FROM meta", [], |row| Ok((row.get(0)?, row.get(1)?)))?;
    meta.into_iter().try_for_each(|row| sql::run(to, "INSERT OR REPLACE INTO meta VALUES (?1, ?2)", row))
}

fn conversations(connection: &Connection) -> rusqlite::Result<Vec<(i64, String)>> {
    let query = "SELECT key, id FROM conversation ORDER BY key";
    sql::all(connection, query, [], |row| Ok((row.get(0)?, row.get(1)?)))
}
