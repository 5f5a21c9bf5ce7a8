//! The rows for lists, one per conversation. An append updates the row of its conversation in the same statement.
//!
//! The row is derived from the entries. If an append cannot derive it, or entries were removed, the conversation is noted in
//! `stale`, and the next list derives its row again.

use jiff::Timestamp;
use rejoin_record::{ConversationId, EntryId, Hash, Scope, Tail};
use tokio_postgres::{Row, types::ToSql};

use super::link::{Object, Trouble};
use crate::{
    digest::Digester,
    scope::ScopeFilter,
    store::{Cursor, Page, Query},
    summary::{About, Summary, Tally},
};

/// The columns of a summary, in the order in which [`read`] takes them.
const COLUMNS: &str = "id, seq, tail, hash, title, renamed, provider, model, directory, format, state, messages, entries, created, \
                       updated, standing, damaged, forked_from, scope_user, scope_channel, scope_thread";

/// The columns in a database with this schema version, which may be older than ours if the database is only read.
fn columns(version: i64) -> String {
    if version < SCOPES {
        COLUMNS.replace("scope_user, scope_channel, scope_thread", "'', '', ''")
    } else {
        COLUMNS.to_owned()
    }
}

/// The version of the schema that added scopes.
const SCOPES: i64 = 2;

/// A summary as the parameters of a statement.
pub(super) struct SummaryParameters {
    title: Option<String>,
    renamed: bool,
    provider: Option<String>,
    model: Option<String>,
    directory: Option<String>,
    format: Option<String>,
    state: &'static str,
    messages: i64,
    entries: i64,
    created: i64,
    updated: i64,
    standing: Vec<u8>,
    damaged: bool,
    forked_from: Option<String>,
    scope: [String; 3],
}

/// The number of parameters of [`SummaryParameters`].
pub(super) const PARAMETERS: usize = 17;

/// The statement that replaces a summary, with the parameters of [`SummaryParameters`] numbered from `first`. `moved` names the conversation,
/// and `$2` to `$4` its newest entry.
pub(super) fn upsert(first: usize) -> String {
    let types = [
        "text", "boolean", "text", "text", "text", "text", "text", "bigint", "bigint", "bigint", "bigint",
        "bytea", "boolean", "text", "text", "text", "text",
    ];
    let values: Vec<String> =
        (first..).zip(types).map(|(number, kind)| format!("${number}::{kind}")).collect();
    let columns = COLUMNS.split(", ").skip(1).filter(|column| *column != "damaged");
    let columns: Vec<String> = columns.map(|column| format!("{column} = EXCLUDED.{column}")).collect();
    format!(
        "INSERT INTO rejoin.summary ({COLUMNS}) SELECT moved.id, $2::bigint, $3::uuid, $4::bytea, {} FROM moved \
         ON CONFLICT (id) DO UPDATE SET {}, damaged = rejoin.summary.damaged OR EXCLUDED.damaged",
        values.join(", "),
        columns.join(", ")
    )
}

impl SummaryParameters {
    pub(super) fn of(tally: &Tally) -> Self {
        let summary = tally.summary();
        let about = &summary.about;
        // A PostgreSQL text cannot contain a zero byte. The entries keep it; a list shows a substitute character.
        let text = |text: &Option<String>| text.as_ref().map(|text| text.replace('\0', "\u{2400}"));
        Self {
            title: text(&summary.title),
            renamed: summary.renamed,
            provider: text(&about.provider),
            model: text(&about.model),
            directory: text(&about.directory),
            format: text(&about.format),
            state: summary.state.as_str(),
            messages: summary.messages as i64,
            entries: summary.entries as i64,
            created: summary.created.as_microsecond(),
            updated: summary.updated.as_microsecond(),
            standing: tally.kept().into_bytes(),
            damaged: summary.damaged,
            forked_from: text(&summary.forked_from),
            scope: summary.scope.parts().map(spelled),
        }
    }

    pub(super) fn bind<'t>(&'t self, values: &mut Vec<&'t (dyn ToSql + Sync)>) {
        values.extend([
            &self.title as &(dyn ToSql + Sync),
            &self.renamed,
            &self.provider,
            &self.model,
            &self.directory,
            &self.format,
            &self.state,
            &self.messages,
            &self.entries,
            &self.created,
            &self.updated,
            &self.standing,
            &self.damaged,
            &self.forked_from,
            &self.scope[0],
            &self.scope[1],
            &self.scope[2],
        ]);
    }
}

/// A part of a scope as a PostgreSQL text, which cannot contain a zero byte. Different parts always get different texts.
pub(super) fn spelled(part: &str) -> String {
    part.replace('\u{2400}', "\u{2400}\u{2400}").replace('\0', "\u{2400}0")
}

/// The part of a scope from that text.
fn unspelled(text: &str) -> String {
    let mut part = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\u{2400}' => part.push(if characters.next() == Some('0') { '\0' } else { '\u{2400}' }),
            other => part.push(other),
        }
    }
    part
}

/// Reads a row that has [`COLUMNS`]: the summary, and the kept state of its digester.
fn read(row: &Row) -> Option<(Summary, String)> {
    let time = |column: usize| Timestamp::from_microsecond(row.get(column)).unwrap_or(Timestamp::UNIX_EPOCH);
    let tail = Tail {
        seq: row.get::<_, i64>(1).unsigned_abs(),
        id: EntryId::from_bytes(*row.get::<_, uuid::Uuid>(2).as_bytes()),
        hash: Hash::from_bytes(row.get::<_, &[u8]>(3).try_into().ok()?),
    };
    let summary = Summary {
        id: row.get::<_, &str>(0).parse().ok()?,
        title: row.get(4),
        renamed: row.get(5),
        about: About { provider: row.get(6), model: row.get(7), directory: row.get(8), format: row.get(9) },
        state: row.get::<_, &str>(10).parse().unwrap_or_default(),
        messages: row.get::<_, i64>(11).unsigned_abs(),
        entries: row.get::<_, i64>(12).unsigned_abs(),
        created: time(13),
        updated: time(14),
        damaged: row.get(16),
        forked_from: row.get(17),
        scope: Scope {
            user: unspelled(row.get(18)),
            channel: unspelled(row.get(19)),
            thread: unspelled(row.get(20)),
        },
        tail: Some(tail),
    };
    Some((summary, String::from_utf8_lossy(row.get(15)).into_owned()))
}

/// The stored summary of a conversation that ends with this entry, in a form to which entries can be added.
pub(super) async fn resume(
    client: &Object,
    version: i64,
    id: ConversationId,
    tail: Tail,
    digester: Digester,
) -> Result<Option<Tally>, Trouble> {
    let stored = get(client, version, id).await?;
    let stored = stored.filter(|(summary, _)| summary.tail == Some(tail));
    Ok(stored.map(|(summary, standing)| Tally::resume(summary, &standing, digester)))
}

/// The stored summary of a conversation.
pub(super) async fn get(
    client: &Object,
    version: i64,
    id: ConversationId,
) -> Result<Option<(Summary, String)>, Trouble> {
    let query = format!("SELECT {} FROM rejoin.summary WHERE id = $1", columns(version));
    let statement = client.prepare_cached(&query).await?;
    Ok(client.query_opt(&statement, &[&id.to_string()]).await?.as_ref().and_then(read))
}

/// Stores a summary that was derived again while the conversation ended with `tail`. If it has grown meanwhile, it stays stale.
pub(super) async fn put(
    client: &Object,
    id: ConversationId,
    tail: Tail,
    tally: &Tally,
) -> Result<(), Trouble> {
    let statement = format!(
        "WITH moved AS (SELECT id FROM rejoin.conversation WHERE id = $1 AND seq = $2 AND tail = $3 AND hash = $4 FOR UPDATE), \
         told AS ({}), fresh AS (DELETE FROM rejoin.stale WHERE id IN (SELECT id FROM moved)) SELECT count(*) FROM moved",
        upsert(5).replace("rejoin.summary.damaged OR EXCLUDED.damaged", "EXCLUDED.damaged")
    );
    let statement = client.prepare_cached(&statement).await?;
    let parameters = SummaryParameters::of(tally);
    let (name, seq, id, hash) =
        (id.to_string(), tail.seq as i64, tail.id.as_uuid(), tail.hash.as_bytes().to_vec());
    let mut values: Vec<&(dyn ToSql + Sync)> = vec![&name, &seq, &id, &hash];
    parameters.bind(&mut values);
    client.query_one(&statement, &values).await?;
    Ok(())
}

/// Conversations whose summary must be derived again.
pub(super) async fn stale(client: &Object) -> Result<Vec<ConversationId>, Trouble> {
    let statement = client.prepare_cached("SELECT id FROM rejoin.stale ORDER BY id LIMIT 1000").await?;
    let rows = client.query(&statement, &[]).await?;
    Ok(rows.iter().filter_map(|row| row.get::<_, &str>(0).parse().ok()).collect())
}

/// The SQL condition that a summary is in a scope, with parameters numbered from `first`. Parts that are set are tested to be
/// non-empty, because their partial index is used only then.
pub(super) fn of_scope(scope: &ScopeFilter, first: usize) -> String {
    let given = Scope::PARTS.iter().zip(scope.parts()).filter_map(|(name, part)| Some((name, part?)));
    let conditions = (first..).zip(given).map(|(number, (name, part))| {
        let filled = if part.is_empty() { String::new() } else { format!(" AND scope_{name} <> ''") };
        format!(" AND scope_{name} = ${number}{filled}")
    });
    conditions.collect()
}

/// A page of the list.
pub(super) async fn list(client: &Object, version: i64, query: &Query) -> Result<Page, Trouble> {
    if version < SCOPES && !query.scope.admits(&Scope::default()) {
        return Ok(Page::default());
    }
    let scope = if version < SCOPES { &ScopeFilter::OPEN } else { &query.scope };
    let select = format!(
        "SELECT {} FROM rejoin.summary WHERE updated <= $1 AND (updated < $1 OR id > $2){} \
         ORDER BY updated DESC, id LIMIT $3",
        columns(version),
        of_scope(scope, 4)
    );
    let count = if scope.is_open() {
        String::from("SELECT coalesce(sum(conversations), 0)::bigint FROM rejoin.total")
    } else {
        format!("SELECT count(*) FROM rejoin.summary WHERE true{}", of_scope(scope, 1))
    };
    let count = client.prepare_cached(&count).await?;
    let select = client.prepare_cached(&select).await?;
    let parts: Vec<String> = scope.parts().iter().flatten().map(|part| spelled(part)).collect();
    let parts: Vec<&(dyn ToSql + Sync)> = parts.iter().map(|part| part as &(dyn ToSql + Sync)).collect();
    let after = query.after.map(|after| (after.updated.as_microsecond(), after.id.to_string()));
    let (updated, id) = after.unwrap_or((i64::MAX, String::new()));
    // Read one more than requested, to know whether there is a next page.
    let most = query.limit.and_then(|limit| i64::try_from(limit).ok()?.checked_add(1)).unwrap_or(i64::MAX);
    let mut values: Vec<&(dyn ToSql + Sync)> = vec![&updated, &id, &most];
    values.extend(&parts);
    // Send both queries at once.
    let (total, rows) = tokio::try_join!(client.query_one(&count, &parts), client.query(&select, &values))?;
    let mut found: Vec<Summary> = rows.iter().filter_map(read).map(|(summary, _)| summary).collect();
    let is_more = query.limit.is_some_and(|limit| found.len() > limit);
    found.truncate(query.limit.unwrap_or(usize::MAX));
    let next = found.last().filter(|_| is_more).map(|last| Cursor { updated: last.updated, id: last.id });
    Ok(Page { conversations: found, total: total.get::<_, i64>(0).unsigned_abs(), next })
}
