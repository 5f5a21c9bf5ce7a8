//! Removing a conversation.

use rejoin_record::ConversationId;

use super::{Inner, erase, unwritable};
use crate::{
    error::StoreError,
    index::{Index, Source as _},
};

/// Removes a conversation with its entries, and the large strings that nobody else uses.
pub(super) fn delete(inner: &Inner, conversation: ConversationId) -> Result<(), StoreError> {
    let keys = inner.keys_of(conversation)?;
    erase::wipe(inner)?;
    inner.write(|connection, _| {
        let key = Inner::key_of(connection, conversation)?.ok_or(StoreError::NotFound(conversation))?;
        let work = || -> rusqlite::Result<()> {
            // Its keys are never used again: whoever follows would take new entries for old ones.
            connection.execute(
                "UPDATE meta SET value = max(value, (SELECT ifnull(max(key), 0) FROM entry)) WHERE name = 'floor'",
                [],
            )?;
            connection.execute(
                "CREATE TEMP TABLE IF NOT EXISTS freed (blob INTEGER PRIMARY KEY)",
                [],
            )?;
            connection.execute("DELETE FROM temp.freed", [])?;
            connection.execute(
                "INSERT OR IGNORE INTO temp.freed SELECT blob FROM blob_use WHERE entry IN \
                 (SELECT key FROM entry WHERE conversation = ?1)",
                [key],
            )?;
            connection.execute(
                "DELETE FROM blob_use WHERE entry IN (SELECT key FROM entry WHERE conversation = ?1)",
                [key],
            )?;
            connection.execute(
                "DELETE FROM blob WHERE key IN (SELECT blob FROM temp.freed) \
                 AND NOT EXISTS (SELECT 1 FROM blob_use WHERE blob_use.blob = blob.key)",
                [],
            )?;
            connection.execute("DELETE FROM entry WHERE conversation = ?1", [key])?;
            connection.execute("DELETE FROM conversation WHERE key = ?1", [key])?;
            connection.execute("UPDATE meta SET value = value + 1 WHERE name = 'removed'", [])?;
            Ok(())
        };
        work().map_err(unwritable("deleting the conversation"))
    })?;
    erase::scrub(inner)?;
    inner.drafts.remove(conversation)?;
    let gone = inner.asides.forget(&conversation.to_string(), |_| true);
    gone.map_err(StoreError::io("removing what was set aside of the conversation"))?;
    Index::forget(inner, conversation, &keys)
}
