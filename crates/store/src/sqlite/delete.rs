//! Removes conversations.

use std::path::PathBuf;

use rejoin_record::ConversationId;
use rusqlite::Connection;

use super::{
    Inner, erase,
    scrub::{self, Removal},
};
use crate::error::{StoreError, StoreResult};

/// Removes conversations with their entries, and the large strings that no other conversation uses. The file is rewritten once.
pub(super) fn delete(inner: &Inner, conversations: &[ConversationId]) -> StoreResult<()> {
    if conversations.is_empty() {
        return Ok(());
    }
    let mut files: Vec<PathBuf> = Vec::new();
    for conversation in conversations {
        files.extend(scrub::files_of(inner, *conversation)?);
    }
    files.sort();
    files.dedup();
    let removals: Vec<Removal> = conversations.iter().copied().map(Removal::Conversation).collect();
    inner.write(|connection, _| {
        for removal in &removals {
            let conversation = removal.conversation();
            Inner::key_of(connection, conversation)?.ok_or(StoreError::NotFound(conversation))?;
            erase::remove(connection, removal)?;
        }
        scrub::note(connection, &removals, &files)
    })?;
    scrub::finish(inner)
}

pub(super) fn rows(connection: &Connection, key: i64) -> rusqlite::Result<()> {
    let run = |statement| connection.execute(statement, [key]);
    // Keys are never reused, because the index would take new entries for old ones.
    connection.execute_batch(
        "UPDATE meta SET value = max(value, (SELECT ifnull(max(key), 0) FROM entry)) WHERE name = 'floor'",
    )?;
    if erase::has_blobs(connection)? {
        connection.execute_batch(
            "CREATE TEMP TABLE IF NOT EXISTS freed (blob INTEGER PRIMARY KEY); DELETE FROM temp.freed",
        )?;
        run("INSERT OR IGNORE INTO temp.freed SELECT blob FROM blob_use WHERE entry IN \
             (SELECT key FROM entry WHERE conversation = ?1)")?;
        run("DELETE FROM blob_use WHERE entry IN (SELECT key FROM entry WHERE conversation = ?1)")?;
        connection.execute_batch(
            "DELETE FROM blob WHERE key IN (SELECT blob FROM temp.freed) \
             AND NOT EXISTS (SELECT 1 FROM blob_use WHERE blob_use.blob = blob.key)",
        )?;
    }
    run("DELETE FROM entry WHERE conversation = ?1")?;
    run("DELETE FROM conversation WHERE key = ?1").map(drop)
}
