//! Reads conversations, a page of rows at a time.

use std::ops::ControlFlow;

use rejoin_record::{ConversationId, Entry};
use tokio_postgres::{Row, types::ToSql};

use super::{append, link::Link, rows};
use crate::{
    error::{StoreError, StoreResult},
    row::{self, InOrder, UnverifiedRow},
    store::{Damage, OnItem, OnPiece, StoredItem},
};

/// The number of rows in the first page. Later pages have as many as fit into about [`PAGE_BYTES`].
const FIRST: i64 = 64;

/// The most rows in a page.
const MOST: i64 = 4096;

/// The desired size of a page, in bytes.
const PAGE_BYTES: usize = 4 << 20;

/// Reads a conversation from a `seq` on.
pub(super) fn read(link: &Link, id: ConversationId, from: u64, each: OnItem<'_>) -> StoreResult<()> {
    let query = format!(
        "SELECT {} FROM rejoin.entry WHERE conversation = $1 AND seq >= $2 ORDER BY seq LIMIT $3",
        rows::COLUMNS
    );
    let name = id.to_string();
    let mut in_order = InOrder::in_pages(from, each);
    let (mut next, mut most) = (from, FIRST);
    let mut newest = None;
    loop {
        // Send both queries at once, the page first, so that the tail is from the same moment as the page or later.
        let (page, tail) = link.run("reading the conversation", |client| {
            let (query, name, next) = (&query, &name, next as i64);
            async move {
                let page = client.prepare_cached(query).await?;
                let tail = client.prepare_cached(append::TAIL).await?;
                let values: [&(dyn ToSql + Sync); 3] = [name, &next, &most];
                Ok(tokio::try_join!(client.query(&page, &values), client.query_opt(&tail, &values[..1]))?)
            }
        })?;
        let whole = page.len() as i64 == most;
        let bytes: usize = page.iter().map(Row::raw_size_bytes).sum();
        for row in &page {
            let (seq, read) = rows::read(row);
            next = seq + 1;
            if in_order.hand(seq, read).is_break() {
                return Ok(());
            }
        }
        if in_order.flush().is_break() {
            return Ok(());
        }
        if whole {
            let average = bytes / page.len() + 1;
            most = ((PAGE_BYTES / average) as i64).clamp(1, MOST);
            continue;
        }
        // The last row should be the newest entry.
        let tail = tail.as_ref().map(append::tail_in).transpose()?;
        let Some(tail) = tail else {
            // Rows without a conversation: it was deleted while it was being read.
            return if next > from { Ok(()) } else { Err(StoreError::NotFound(id)) };
        };
        if tail.seq < next {
            return Ok(());
        }
        if newest == Some(tail.seq) {
            let _ = in_order.skip_to(tail.seq + 1);
            return Ok(());
        }
        // Another process may have appended meanwhile, so look once more.
        newest = Some(tail.seq);
    }
}

/// Reads single entries by their `seq`.
pub(super) fn read_at(
    link: &Link,
    id: ConversationId,
    places: &[u64],
    each: OnItem<'_>,
) -> StoreResult<ControlFlow<()>> {
    let query = format!(
        "SELECT {} FROM rejoin.entry WHERE conversation = $1 AND seq = ANY($2) ORDER BY seq",
        rows::COLUMNS
    );
    let name = id.to_string();
    for places in places.chunks(FIRST as usize) {
        let wanted: Vec<i64> = places.iter().map(|place| *place as i64).collect();
        let found = entries(link, &query, &[&name, &wanted])?;
        let mut found = found.iter().map(rows::read).peekable();
        for place in places {
            let item = match found.next_if(|(seq, _)| seq == place) {
                None => StoredItem::Damage(row::lost(*place, *place)),
                Some((_, read)) => checked(read),
            };
            if each(item).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
    }
    Ok(ControlFlow::Continue(()))
}

/// The rows that a query finds.
fn entries(link: &Link, query: &str, values: &[&(dyn ToSql + Sync)]) -> StoreResult<Vec<Row>> {
    link.run("reading entries", |client| async move {
        let statement = client.prepare_cached(query).await?;
        Ok(client.query(&statement, values).await?)
    })
}

/// Verifies a row that was read alone.
fn checked(read: Result<UnverifiedRow, Damage>) -> StoredItem {
    match read.and_then(UnverifiedRow::verify) {
        Err(damage) => StoredItem::Damage(damage),
        Ok(verified) => verified.doubt().map_or(StoredItem::Entry(verified.entry), StoredItem::Damage),
    }
}

/// Reads single entries of several conversations. Missing or damaged ones are left out.
pub(super) fn read_each(
    link: &Link,
    places: &[(ConversationId, u64)],
    mut each: impl FnMut(ConversationId, Entry),
) -> StoreResult<()> {
    let query = format!(
        "SELECT {}, conversation FROM rejoin.entry JOIN unnest($1::text[], $2::bigint[]) AS p (conversation, seq) USING (conversation, seq)",
        rows::COLUMNS
    );
    for places in places.chunks(FIRST as usize) {
        let ids: Vec<String> = places.iter().map(|(id, _)| id.to_string()).collect();
        let seqs: Vec<i64> = places.iter().map(|(_, seq)| *seq as i64).collect();
        let found = entries(link, &query, &[&ids, &seqs])?;
        for row in &found {
            if let Ok(id) = row.get::<_, &str>(rows::COUNT).parse()
                && let StoredItem::Entry(entry) = checked(rows::read(row).1)
            {
                each(id, entry);
            }
        }
    }
    Ok(())
}

/// The ids that begin with a prefix, in order.
pub(super) fn ids(link: &Link, prefix: &str, limit: usize) -> StoreResult<Vec<ConversationId>> {
    let bare = prefix.strip_prefix(ConversationId::PREFIX).unwrap_or(prefix);
    // Ids contain only these characters.
    if !bare.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit()) {
        return Ok(Vec::new());
    }
    let from = format!("{}{bare}", ConversationId::PREFIX);
    // `~` sorts after every character of an id.
    let to = format!("{from}~");
    let most = i64::try_from(limit).unwrap_or(i64::MAX);
    let rows = link.run("looking for conversations", |client| {
        let (from, to) = (&from, &to);
        async move {
            let query = "SELECT id FROM rejoin.conversation WHERE id >= $1 AND id < $2 ORDER BY id LIMIT $3";
            let statement = client.prepare_cached(query).await?;
            Ok(client.query(&statement, &[from, to, &most]).await?)
        }
    })?;
    Ok(rows.iter().filter_map(|row| row.get::<_, &str>(0).parse().ok()).collect())
}

/// Passes the pieces of a checkpoint to `each`.
pub(super) fn checkpoint(link: &Link, id: ConversationId, each: OnPiece<'_>) -> StoreResult<()> {
    for piece in 0i32.. {
        let found = link.run("reading the checkpoint", |client| async move {
            let query = "SELECT text FROM rejoin.checkpoint WHERE conversation = $1 AND piece = $2";
            let statement = client.prepare_cached(query).await?;
            Ok(client.query_opt(&statement, &[&id.to_string(), &piece]).await?)
        })?;
        let text = found.map(|row| String::from_utf8(row.get(0)));
        let Some(Ok(text)) = text else { break };
        if each(text).is_break() {
            break;
        }
    }
    Ok(())
}

/// Replaces the stored pieces of a checkpoint.
pub(super) fn keep_checkpoint(link: &Link, id: ConversationId, pieces: &[String]) -> StoreResult<()> {
    link.run("keeping the checkpoint", |mut client| async move {
        let name = id.to_string();
        let transaction = client.transaction().await?;
        transaction.execute("DELETE FROM rejoin.checkpoint WHERE conversation = $1", &[&name]).await?;
        let insert = "INSERT INTO rejoin.checkpoint (conversation, piece, text) VALUES ($1, $2, $3)";
        let insert = transaction.prepare_cached(insert).await?;
        for (piece, text) in (0i32..).zip(pieces) {
            transaction.execute(&insert, &[&name, &piece, &text.as_bytes()]).await?;
        }
        transaction.commit().await?;
        Ok(())
    })
}
