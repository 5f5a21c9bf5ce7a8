//! Removes the content of entries.
//!
//! The server keeps old versions of rows until it is vacuumed, which this file does. Its log and its backups are the operator's
//! responsibility.

use rejoin_record::{ConversationId, Entry, Tail};

use super::{
    append,
    link::{Object, Trouble},
    rows,
};
use crate::{error::StoreError, scan, store::Erasure};

/// Removes the salt and body of entries, and appends the notes about the erasure.
pub(super) async fn erase(
    client: &mut Object,
    id: ConversationId,
    after: Tail,
    erasures: &[Erasure],
) -> Result<Tail, Trouble> {
    let name = id.to_string();
    let transaction = client.transaction().await?;
    let query = "SELECT seq, tail, hash FROM rejoin.conversation WHERE id = $1 FOR UPDATE";
    let row = transaction.query_opt(query, &[&name]).await?.ok_or(StoreError::NotFound(id))?;
    let found = append::tail_in(&row)?;
    let entries: Vec<uuid::Uuid> = erasures.iter().map(|(entry, _)| entry.as_uuid()).collect();
    let query = "SELECT id, salt, body FROM rejoin.entry WHERE conversation = $1 AND id = ANY($2)";
    let rows = transaction.query(query, &[&name, &entries]).await?;
    let mut removed = Vec::new();
    for (entry, _) in erasures {
        let row = rows.iter().find(|row| row.get::<_, uuid::Uuid>(0) == entry.as_uuid());
        let row = row.ok_or(StoreError::NoSuchEntry(*entry))?;
        let (salt, body): (Option<&[u8]>, Option<&[u8]>) = (row.get(1), row.get(2));
        if salt.is_some() || body.is_some() {
            // A damaged entry has no such hash. Its content is removed nevertheless.
            let hash = rows::inner_hash(salt, body).map(|hash| hash.as_bytes().to_vec());
            removed.push((entry.as_uuid(), hash));
        }
    }
    let notes: Vec<Entry> = erasures.iter().map(|(_, note)| note.clone()).collect();
    let mut fresh = &notes[..];
    if found != after {
        let moved = || StoreError::TailMoved { expected: Some(after), found: Some(found) };
        let stored = append::stored_after(&transaction, id, Some(after), notes.len()).await?;
        fresh = &notes[scan::already(&stored.ok_or_else(moved)?, &notes).ok_or_else(moved)?..];
    }
    let mut tail = found;
    if let Some(last) = fresh.last() {
        let parents = scan::check_seals(Some(found), fresh, |_| Ok(None))?;
        tail = Tail::of(last);
        let batch = append::Batch { id, after: Some(found), entries: fresh.to_vec(), parents, summary: None };
        batch.append(&transaction).await?;
    }
    for (entry, hash) in &removed {
        let query = "UPDATE rejoin.entry SET inner_hash = coalesce($3, inner_hash), salt = NULL, body = NULL \
                     WHERE conversation = $1 AND id = $2";
        transaction.execute(query, &[&name, entry, hash]).await?;
    }
    // Summaries, checkpoints and reports may quote the erased text. The words for searches are deleted with the summary.
    for statement in [
        "DELETE FROM rejoin.checkpoint WHERE conversation = $1",
        "DELETE FROM rejoin.summary WHERE id = $1",
        "DELETE FROM rejoin.said WHERE conversation = $1",
        "DELETE FROM rejoin.called WHERE conversation = $1",
    ] {
        transaction.execute(statement, &[&name]).await?;
    }
    transaction
        .execute("INSERT INTO rejoin.stale (id) VALUES ($1) ON CONFLICT (id) DO NOTHING", &[&name])
        .await?;
    transaction.commit().await?;
    Ok(tail)
}

/// Refuses, before anything is erased, if this role could not [`clean`] up afterwards.
pub(super) async fn check_rights(client: &Object) -> Result<(), Trouble> {
    // Since version 17 there is a privilege for it; before that, the role must be the owner.
    let query = "SELECT pg_get_userbyid(c.relowner)::text FROM pg_catalog.pg_class c WHERE c.oid = to_regclass('rejoin.words') \
                 AND NOT pg_has_role(c.relowner, 'USAGE') \
                 AND NOT CASE WHEN current_setting('server_version_num')::integer >= 170000 \
                 THEN has_table_privilege(c.oid, 'MAINTAIN') ELSE false END";
    let Some(row) = client.query_opt(query, &[]).await? else { return Ok(()) };
    let owner: &str = row.get(0);
    let why = format!(
        "nothing was erased: the index of words must be rebuilt afterwards (REINDEX), which only {owner}, the owner of the table \
         rejoin.words, may do"
    );
    let hint = "do it as that user, or let that user or a superuser grant this user the owner's role";
    Err(StoreError::Server { what: "erasing", why, hint, unwritable: false }.into())
}

/// Lets the server free the space of old versions of rows.
pub(super) async fn clean(client: &Object) -> Result<(), Trouble> {
    for table in ["entry", "summary", "checkpoint", "said", "called"] {
        client.batch_execute(&format!("VACUUM rejoin.{table}")).await?;
    }
    let query = "SELECT to_regclass('rejoin.words') IS NOT NULL";
    if client.query_one(query, &[]).await?.get(0) {
        client.batch_execute("VACUUM rejoin.words").await?;
        // A GIN index keeps a word for ever, even one that no row has any more, unless it is rebuilt.
        client.batch_execute("REINDEX INDEX rejoin.words_by_word").await?;
    }
    Ok(())
}
