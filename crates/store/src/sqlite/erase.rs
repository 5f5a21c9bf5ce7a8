//! Removes the content of entries.

use rejoin_record::{ConversationId, Entry, EntryId, Hash, Tail};
use rusqlite::Connection;

use super::{
    ErrorContext as _, Inner,
    scrub::{self, Removal},
};
use crate::{
    error::{StoreError, StoreResult},
    sql,
    store::Erasure,
};

/// Removes the salt and body of entries, and appends the notes about the erasure.
pub(super) fn erase(
    inner: &Inner,
    conversation: ConversationId,
    after: Tail,
    erasures: &[Erasure],
) -> StoreResult<Tail> {
    let entries: Vec<EntryId> = erasures.iter().map(|(entry, _)| *entry).collect();
    let (contents, missing) = scrub::contents(inner, conversation, &entries)?;
    if let Some(missing) = missing.first() {
        return Err(StoreError::NoSuchEntry(*missing));
    }
    let removals: Vec<Removal> = contents.iter().map(|content| content.removal(conversation)).collect();
    let files = scrub::files_holding(inner, conversation, &contents)?;
    let tail = inner.write(|connection, packer| {
        let notes: Vec<Entry> = erasures.iter().map(|(_, note)| note.clone()).collect();
        let tail = Inner::append(connection, packer, conversation, Some(after), &notes)?;
        for removal in &removals {
            remove(connection, removal)?;
        }
        if !removals.is_empty() {
            scrub::note(connection, &removals, &files)?;
        }
        Ok(tail)
    })?;
    if !removals.is_empty() {
        scrub::finish(inner)?;
    }
    Ok(tail)
}

/// Performs a removal in the tables of a store, or of a copy of it.
pub(super) fn remove(connection: &Connection, removal: &Removal) -> StoreResult<()> {
    let id = removal.conversation().to_string();
    let key = sql::one(connection, "SELECT key FROM conversation WHERE id = ?1", [id]);
    // The copy may be older than the removed data.
    let Some(key) = key.during("looking for the conversation")? else { return Ok(()) };
    let work = || -> rusqlite::Result<()> {
        match removal {
            Removal::Content { entry, inner, .. } => content(connection, key, *entry, *inner)?,
            Removal::Conversation(_) => super::delete::rows(connection, key)?,
        }
        sql::run(connection, "UPDATE meta SET value = value + 1 WHERE name = 'removed'", [])
    };
    work().during("removing what was said")
}

fn content(connection: &Connection, conversation: i64, entry: EntryId, inner: Hash) -> rusqlite::Result<()> {
    let query = "SELECT key FROM entry WHERE conversation = ?1 AND id = ?2";
    let key = sql::one(connection, query, (conversation, entry.as_uuid().as_bytes()))?;
    let Some(key): Option<i64> = key else { return Ok(()) };
    let erase = "UPDATE entry SET inner = ?2, salt = NULL, body = NULL WHERE key = ?1";
    sql::run(connection, erase, (key, inner.as_bytes()))?;
    if !has_blobs(connection)? {
        return Ok(());
    }
    let unused = "DELETE FROM blob WHERE key IN (SELECT blob FROM blob_use WHERE entry = ?1) AND NOT EXISTS \
                  (SELECT 1 FROM blob_use WHERE blob_use.blob = blob.key AND blob_use.entry <> ?1)";
    sql::run(connection, unused, [key])?;
    sql::run(connection, "DELETE FROM blob_use WHERE entry = ?1", [key])
}

/// Whether there is a table for large strings. A copy of an old store has none.
pub(super) fn has_blobs(connection: &Connection) -> rusqlite::Result<bool> {
    let query = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'blob_use'";
    connection.query_row(query, [], |row| row.get::<_, i64>(0)).map(|tables| tables > 0)
}
