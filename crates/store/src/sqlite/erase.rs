//! Removing the content of an entry.

use std::ops::ControlFlow;

use rejoin_record::{ConversationId, Entry, EntryId, Tail};
use rusqlite::OptionalExtension as _;

use super::{Inner, failed, lock, reading, unwritable};
use crate::{error::StoreError, index::Index, store::Item};

/// Removes salt and body of an entry, and appends the note that says so.
pub(super) fn erase(
    inner: &Inner,
    conversation: ConversationId,
    after: Tail,
    entry: EntryId,
    note: &Entry,
) -> Result<Tail, StoreError> {
    let mut hash = None;
    reading::read(inner, conversation, 0, &mut |item| match item {
        Item::Entry(found) if found.id() == entry => {
            hash = Some(found.inner());
            ControlFlow::Break(())
        }
        _ => ControlFlow::Continue(()),
    })?;
    let hash = hash.ok_or(StoreError::NoSuchEntry(entry))?;
    wipe(inner)?;
    let (tail, key) = inner.write(|connection, packer| {
        let conversation_key =
            Inner::key_of(connection, conversation)?.ok_or(StoreError::NotFound(conversation))?;
        let key: Option<i64> = connection
            .query_row(
                "SELECT key FROM entry WHERE conversation = ?1 AND id = ?2",
                (conversation_key, entry.as_uuid().as_bytes()),
                |row| row.get(0),
            )
            .optional()
            .map_err(failed("looking for the entry"))?;
        let key = key.ok_or(StoreError::NoSuchEntry(entry))?;
        let tail = Inner::append(connection, packer, conversation, Some(after), std::slice::from_ref(note))?;
        let work = || -> rusqlite::Result<()> {
            connection.execute(
                "UPDATE entry SET inner = ?2, salt = NULL, body = NULL WHERE key = ?1",
                (key, hash.as_bytes()),
            )?;
            connection.execute(
                "DELETE FROM blob WHERE key IN (SELECT blob FROM blob_use WHERE entry = ?1) AND NOT EXISTS \
                 (SELECT 1 FROM blob_use WHERE blob_use.blob = blob.key AND blob_use.entry <> ?1)",
                [key],
            )?;
            connection.execute("DELETE FROM blob_use WHERE entry = ?1", [key])?;
            connection.execute("UPDATE meta SET value = value + 1 WHERE name = 'removed'", [])?;
            Ok(())
        };
        work().map_err(unwritable("erasing the entry"))?;
        Ok((tail, key))
    })?;
    scrub(inner)?;
    let name = entry.to_string();
    let gone = inner
        .asides
        .forget(&conversation.to_string(), |bytes| String::from_utf8_lossy(bytes).contains(&name));
    gone.map_err(StoreError::io("removing what was set aside of the entry"))?;
    Index::forget_entry(inner, conversation, key)?;
    Ok(tail)
}

/// From here on, what is removed is overwritten.
pub(super) fn wipe(inner: &Inner) -> Result<(), StoreError> {
    let mut writer = lock(&inner.writer);
    let pen = inner.take_up(&mut writer)?;
    pen.connection.execute_batch("PRAGMA secure_delete = ON").map_err(unwritable("writing"))
}

/// Takes what was removed out of the file and its log, not just out of sight.
pub(super) fn scrub(inner: &Inner) -> Result<(), StoreError> {
    inner.take_up(&mut lock(&inner.writer))?.empty_log()
}
