//! Removes the content of entries.
//!
//! The server keeps old versions of rows until it is told to clean up, which happens here. Its log and its backups are its operator's.

use deadpool_postgres::Object;
use rejoin_record::{ConversationId, Entry, Tail};

use super::{
    append,
    link::Trouble,
    rows::{self, Columns},
};
use crate::{error::StoreError, scan, store::Erasure};

/// Removes the salt and body of entries, and appends the notes about it.
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
    let mut inner = Vec::new();
    for (entry, _) in erasures {
        let row = rows.iter().find(|row| row.get::<_, uuid::Uuid>(0) == entry.as_uuid());
        let row = row.ok_or(StoreError::NoSuchEntry(*entry))?;
        let hash = rows::inner_hash(row.get(1), row.get(2));
        inner.extend(hash.map(|hash| (entry.as_uuid(), hash.as_bytes().to_vec())));
    }
    let notes: Vec<Entry> = erasures.iter().map(|(_, note)| note.clone()).collect();
    let mut fresh = &notes[..];
    if found != after {
        let moved = || StoreError::TailMoved { expected: Some(after), found: Some(found) };
        let query = "SELECT id, hash FROM rejoin.entry WHERE conversation = $1 AND seq >= $2 ORDER BY seq";
        let rows = transaction.query(query, &[&name, &(after.seq as i64)]).await?;
        let stored = append::after_tail(&rows, Some(after))?.ok_or_else(moved)?;
        fresh = &notes[scan::already(&stored, &notes).ok_or_else(moved)?..];
    }
    let mut tail = found;
    if let Some(last) = fresh.last() {
        let parents = scan::check_seals(Some(found), fresh, |_| Ok(None))?;
        let columns = Columns::of(fresh, &parents);
        let query = format!(
            "INSERT INTO rejoin.entry (conversation, {}) SELECT $1, e.* FROM {}",
            rows::COLUMNS,
            Columns::unnest(2)
        );
        let mut values: Vec<&(dyn tokio_postgres::types::ToSql + Sync)> = vec![&name];
        columns.bind(&mut values);
        transaction.execute(&query, &values).await?;
        tail = Tail::of(last);
        let query = "UPDATE rejoin.conversation SET seq = $2, tail = $3, hash = $4 WHERE id = $1";
        transaction
            .execute(query, &[&name, &(tail.seq as i64), &tail.id.as_uuid(), &tail.hash.as_bytes().to_vec()])
            .await?;
    }
    for (entry, hash) in &inner {
        let query = "UPDATE rejoin.entry SET inner_hash = $3, salt = NULL, body = NULL WHERE conversation = $1 AND id = $2";
        transaction.execute(query, &[&name, entry, hash]).await?;
    }
    // A summary or a checkpoint may quote what was erased.
    transaction.execute("DELETE FROM rejoin.checkpoint WHERE conversation = $1", &[&name]).await?;
    transaction.execute("DELETE FROM rejoin.summary WHERE id = $1", &[&name]).await?;
    transaction
        .execute("INSERT INTO rejoin.stale (id) VALUES ($1) ON CONFLICT (id) DO NOTHING", &[&name])
        .await?;
    transaction.commit().await?;
    Ok(tail)
}

/// Lets the server free the space of old versions of rows.
pub(super) async fn clean(client: &Object) -> Result<(), Trouble> {
    for table in ["entry", "summary", "checkpoint"] {
        client.batch_execute(&format!("VACUUM rejoin.{table}")).await?;
    }
    Ok(())
}
