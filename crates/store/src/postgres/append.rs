//! Appends entries with one statement per batch. A batch takes one round trip and one transaction, which several callers may share
//! (`convoy.rs`).

use std::{future::poll_fn, sync::OnceLock, task::Poll};

use rejoin_record::{ConversationId, Entry, EntryId, Hash, Tail};
use tokio_postgres::{Row, types::ToSql};

use super::{
    link::{Executor, Object, Trouble},
    rows::{self, Columns},
    summaries::{self, SummaryParameters},
};
use crate::{
    error::{StoreError, StoreResult},
    scan,
};

/// The number of parts over which the count of conversations is spread. The first migration creates them.
pub(super) const PARTS: u32 = 32;

/// The part in which a conversation is counted.
pub(super) fn part(id: ConversationId) -> i32 {
    let sum: u32 = id.to_string().bytes().fold(0, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    (sum % PARTS) as i32
}

/// The statement that appends to a conversation. In it, `moved` has one row if the tail is the expected one, and none otherwise.
/// That row stays locked until the statement ends, so writers take turns.
fn statement(is_new: bool, summary: bool) -> &'static str {
    static MADE: [OnceLock<String>; 4] = [const { OnceLock::new() }; 4];
    MADE[usize::from(is_new) * 2 + usize::from(summary)].get_or_init(|| make_statement(is_new, summary))
}

fn make_statement(is_new: bool, summary: bool) -> String {
    let (columns, batch) = (rows::COLUMNS, Columns::unnest(5));
    let moved = if is_new {
        "INSERT INTO rejoin.conversation (id, seq, tail, hash) VALUES ($1, $2, $3, $4) ON CONFLICT (id) DO NOTHING RETURNING id"
    } else {
        "UPDATE rejoin.conversation SET seq = $2, tail = $3, hash = $4 \
         WHERE id = $1 AND seq = $17 AND tail = $18 AND hash = $19 RETURNING id"
    };
    let first = if is_new { 17 } else { 20 };
    let update = if summary {
        summaries::upsert(first)
    } else {
        String::from("INSERT INTO rejoin.stale (id) SELECT id FROM moved ON CONFLICT (id) DO NOTHING")
    };
    let counted = if is_new {
        let place = if summary { first + summaries::PARAMETERS } else { first };
        format!(
            ", counted AS (UPDATE rejoin.total SET conversations = conversations + 1 \
             WHERE part = ${place} AND EXISTS (SELECT 1 FROM moved))"
        )
    } else {
        String::new()
    };
    format!(
        "WITH moved AS ({moved}), \
         added AS (INSERT INTO rejoin.entry (conversation, {columns}) SELECT moved.id, e.* FROM moved, {batch}), \
         told AS ({update}){counted} \
         SELECT count(*) FROM moved"
    )
}

/// Entries whose seals were checked, for a conversation that ends with `after`.
pub(super) struct Batch {
    pub(super) id: ConversationId,
    pub(super) after: Option<Tail>,
    pub(super) entries: Vec<Entry>,
    pub(super) parents: Vec<scan::Parent>,
    /// The summary after this append, if it is known.
    pub(super) summary: Option<SummaryParameters>,
}

impl Batch {
    /// The length of the bodies, in bytes.
    pub(super) fn size(&self) -> usize {
        self.entries.iter().filter_map(Entry::content).map(|content| content.body.as_str().len()).sum()
    }

    fn statement(&self) -> &'static str {
        statement(self.after.is_none(), self.summary.is_some())
    }

    /// Appends the entries if the conversation ends with the expected tail. Returns whether it did.
    pub(super) async fn append(&self, client: &impl Executor) -> Result<bool, Trouble> {
        let columns = Columns::of(&self.entries, &self.parents);
        let last = self.entries.last().map(Tail::of).expect("BUG: an empty batch is not appended");
        let (name, part) = (self.id.to_string(), part(self.id));
        let (seq, tail, hash) = (last.seq as i64, last.id.as_uuid(), last.hash.as_bytes().to_vec());
        let before =
            self.after.map(|after| (after.seq as i64, after.id.as_uuid(), after.hash.as_bytes().to_vec()));
        let mut values: Vec<&(dyn ToSql + Sync)> = vec![&name, &seq, &tail, &hash];
        columns.bind(&mut values);
        if let Some((seq, tail, hash)) = &before {
            values.extend([seq as &(dyn ToSql + Sync), tail, hash]);
        }
        if let Some(summary) = &self.summary {
            summary.bind(&mut values);
        }
        if before.is_none() {
            values.push(&part);
        }
        let rows = client.rows(self.statement(), &values).await?;
        Ok(rows.first().is_some_and(|row| row.get::<_, i64>(0) == 1))
    }
}

/// Begins a transaction that several callers share. If one of them waits for a lock, it fails, so that the others can go on.
const BEGIN: &str = "BEGIN; SET LOCAL lock_timeout = '200ms'";

/// Appends batches in one transaction and one round trip. Returns which of their conversations had the expected tail. After an
/// error, none of the batches is appended.
pub(super) async fn append_all(client: &Object, batches: Vec<&Batch>) -> Result<Vec<bool>, Trouble> {
    // Preparing a statement waits for the server. The statements below are all sent before the first answer.
    for batch in &batches {
        client.prepare_cached(batch.statement()).await?;
    }
    let appends = in_order(batches.iter().map(|batch| batch.append(client)).collect());
    let (begun, appended, committed) =
        tokio::join!(biased; client.batch_execute(BEGIN), appends, client.batch_execute("COMMIT"));
    begun?;
    let appended = appended.into_iter().collect::<Result<Vec<bool>, Trouble>>()?;
    // After a failed statement, the server answers COMMIT by rolling back, without an error.
    committed?;
    Ok(appended)
}

/// Polls futures in their order, so that what they send is sent in this order.
async fn in_order<F: Future>(futures: Vec<F>) -> Vec<F::Output> {
    let mut futures: Vec<_> = futures.into_iter().map(|future| (Box::pin(future), None)).collect();
    poll_fn(|context| {
        let mut is_pending = false;
        for (future, output) in futures.iter_mut().filter(|(_, output)| output.is_none()) {
            match future.as_mut().poll(context) {
                Poll::Ready(done) => *output = Some(done),
                Poll::Pending => is_pending = true,
            }
        }
        if is_pending { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    futures.into_iter().filter_map(|(_, output)| output).collect()
}

/// The query for the newest entry of a conversation.
pub(super) const TAIL: &str = "SELECT seq, tail, hash FROM rejoin.conversation WHERE id = $1";

/// The newest entry of a conversation.
pub(super) async fn tail(client: &Object, id: ConversationId) -> Result<Option<Tail>, Trouble> {
    let statement = client.prepare_cached(TAIL).await?;
    let row = client.query_opt(&statement, &[&id.to_string()]).await?;
    Ok(row.as_ref().map(tail_in).transpose()?)
}

pub(super) fn tail_in(row: &Row) -> StoreResult<Tail> {
    Ok(Tail { seq: row.get::<_, i64>(0).unsigned_abs(), id: entry_id(row, 1), hash: hash(row, 2)? })
}

fn entry_id(row: &Row, column: usize) -> EntryId {
    EntryId::from_bytes(*row.get::<_, uuid::Uuid>(column).as_bytes())
}

fn hash(row: &Row, column: usize) -> StoreResult<Hash> {
    let bytes = row.get::<_, &[u8]>(column).try_into();
    let bytes = bytes.map_err(|_| StoreError::Damaged {
        place: crate::store::StoragePlace::Store,
        why: String::from("a hash does not have 32 bytes"),
    })?;
    Ok(Hash::from_bytes(bytes))
}

/// Ids and hashes of the entries after a tail; `None` if that tail is not stored.
pub(super) async fn stored_after(
    client: &impl Executor,
    id: ConversationId,
    after: Option<Tail>,
    most: usize,
) -> Result<Option<Vec<(EntryId, Hash)>>, Trouble> {
    let from = after.map_or(0, |tail| tail.seq) as i64;
    let query =
        "SELECT id, hash FROM rejoin.entry WHERE conversation = $1 AND seq >= $2 ORDER BY seq LIMIT $3";
    // Ask for one row more than the batch has: if it exists, another writer has appended.
    let rows = client.rows(query, &[&id.to_string(), &from, &(most as i64 + 2)]).await?;
    Ok(after_tail(&rows, after)?)
}

/// Ids and hashes in the rows after a tail, which must be in the first row.
fn after_tail(rows: &[Row], after: Option<Tail>) -> StoreResult<Option<Vec<(EntryId, Hash)>>> {
    let stored: StoreResult<Vec<_>> = rows.iter().map(|row| Ok((entry_id(row, 0), hash(row, 1)?))).collect();
    let mut stored = stored?;
    if let Some(after) = after {
        if stored.first() != Some(&(after.id, after.hash)) {
            return Ok(None);
        }
        stored.remove(0);
    }
    Ok(Some(stored))
}

/// The `seq` of those of the given entries that exist.
pub(super) async fn places(
    client: &Object,
    id: ConversationId,
    entries: &[EntryId],
) -> Result<Vec<(EntryId, (u64, Hash))>, Trouble> {
    let query = "SELECT id, seq, hash FROM rejoin.entry WHERE conversation = $1 AND id = ANY($2)";
    let statement = client.prepare_cached(query).await?;
    let wanted: Vec<uuid::Uuid> = entries.iter().map(EntryId::as_uuid).collect();
    let rows = client.query(&statement, &[&id.to_string(), &wanted]).await?;
    let place = |row: &Row| Ok((entry_id(row, 0), (row.get::<_, i64>(1).unsigned_abs(), hash(row, 2)?)));
    Ok(rows.iter().map(place).collect::<StoreResult<_>>()?)
}
