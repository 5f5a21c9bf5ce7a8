//! Updates the rows for reports and the words for searches a moment after an append, so that no caller waits for it.
//!
//! A conversation is behind if its newest entry is not reported yet (`summary.reported`). If the process that appended was killed
//! before it wrote the rows, the next process that appends writes them.

use std::{collections::HashSet, ops::ControlFlow, time::Duration};

use jiff::Timestamp;
use rejoin_record::{ConversationId, Entry, EntryId};
use tokio_postgres::types::ToSql;

use super::{
    Inner,
    link::{Executor as _, Object, Trouble},
    reading, words,
};
use crate::{
    error::{StoreError, StoreResult},
    index::Rhythm,
    lock::guard,
    report::{CallRow, FunctionColumns, MessageRow, ReportRows},
    store::StoredItem,
};

/// The pauses are long, because other programs use the server, too. `longest` makes sure that a service that never stops
/// appending still gets its rows.
pub(super) const RHYTHM: Rhythm = Rhythm { rest: 10, longest: Duration::from_secs(5) };

/// How many conversations that are behind are fetched at a time.
const AT_ONCE: i64 = 200;

/// The conversations to update, among those that are behind.
pub(super) enum UpdateTargets {
    /// All of them.
    All,
    /// These, to which this process has appended. Other processes update theirs.
    Own(Vec<String>),
    /// Those without activity for a minute. The process that appended to them has probably ended.
    LeftBehind,
}

impl UpdateTargets {
    /// The SQL condition on the summary, with parameter `$3`, and its value.
    fn condition(&self) -> (&'static str, Box<dyn ToSql + Sync>) {
        match self {
            Self::All => ("$3::boolean", Box::new(true)),
            Self::Own(ids) => ("id = ANY($3::text[])", Box::new(ids.clone())),
            Self::LeftBehind => (
                "updated < (extract(epoch FROM now()) * 1000000)::bigint - $3::bigint",
                Box::new(60_000_000_i64),
            ),
        }
    }
}

/// The conversations to which this process has appended and that are not reported yet.
#[derive(Default)]
pub(super) struct Unreported {
    ids: HashSet<ConversationId>,
    /// Whether it has searched for conversations that other processes left behind.
    has_looked: bool,
}

impl Unreported {
    pub(super) fn add(&mut self, id: ConversationId) {
        self.ids.insert(id);
    }
}

/// Writes the rows and words for this process's own appends, and once for those that other processes left behind.
pub(super) fn follow(inner: &Inner) -> StoreResult<()> {
    let bring = |targets: &UpdateTargets| {
        catch_up(inner, targets)?;
        if words::is_enabled(inner)? { words::catch_up(inner, targets) } else { Ok(()) }
    };
    let (ids, has_looked) = {
        let mut unreported = guard(&inner.unreported);
        (std::mem::take(&mut unreported.ids), std::mem::replace(&mut unreported.has_looked, true))
    };
    let own = bring(&UpdateTargets::Own(ids.iter().map(ToString::to_string).collect()));
    if own.is_err() {
        guard(&inner.unreported).ids.extend(ids);
        return own;
    }
    if has_looked { Ok(()) } else { bring(&UpdateTargets::LeftBehind) }
}

/// Writes the rows of conversations that are behind.
pub(super) fn catch_up(inner: &Inner, targets: &UpdateTargets) -> StoreResult<()> {
    each_behind(inner, "reported", targets, |id, _| report(inner, id))
}

/// Calls `each` for every conversation whose newest entry is later than the `seq` in the given column of its summary, with that
/// `seq` and the newest one.
pub(super) fn each_behind(
    inner: &Inner,
    column: &str,
    targets: &UpdateTargets,
    mut each: impl FnMut(ConversationId, (i64, i64)) -> StoreResult<()>,
) -> StoreResult<()> {
    let (condition, value) = targets.condition();
    let query = format!(
        "SELECT id, {column}, seq FROM rejoin.summary WHERE {column} < seq AND {condition} AND id > $1 ORDER BY id LIMIT $2"
    );
    let mut last = String::new();
    loop {
        let behind = inner.link.run("looking for new entries", |client| {
            let (last, query, value) = (&last, &query, &*value);
            async move {
                let statement = client.prepare_cached(query).await?;
                Ok(client.query(&statement, &[last, &AT_ONCE, value]).await?)
            }
        })?;
        for row in &behind {
            if let Ok(id) = row.get::<_, &str>(0).parse() {
                each(id, (row.get(1), row.get(2)))?;
            }
        }
        match behind.last() {
            Some(row) if behind.len() as i64 == AT_ONCE => last = row.get(0),
            _ => return Ok(()),
        }
    }
}

/// Writes the rows of one conversation: from its new entries, or from all of them if that is not enough.
fn report(inner: &Inner, id: ConversationId) -> StoreResult<()> {
    let behind = inner
        .link
        .run("looking for what is not reported", |client| async move { behind(&client, id).await })?;
    let Some(behind) = behind else { return Ok(()) };
    let digest = |entries: &[Entry]| (inner.digester)(None).report(entries, &behind.key);
    let (mut entries, mut rows) = (Vec::new(), None);
    if behind.from > 0 {
        entries = read(inner, id, behind.from)?;
        if is_connected(&entries) {
            if let Some(context) = behind.context {
                let mut first = Vec::new();
                let _ = reading::read_at(&inner.link, id, &[context], &mut |item| {
                    first.extend(entry_in(item));
                    ControlFlow::Continue(())
                })?;
                entries.splice(0..0, first);
            }
            rows = Some(digest(&entries)).filter(|rows| !rows.lacks_calls);
        }
    }
    let rows = match rows {
        Some(rows) => rows,
        None => {
            entries = read(inner, id, 0)?;
            digest(&entries)
        }
    };
    let Some(read) = Read::of(&entries, &behind) else { return Ok(()) };
    inner.link.run("writing rows for reports", |mut client| {
        let (rows, behind, read) = (&rows, &behind, &read);
        async move { put(&mut client, id, read, rows, behind.with_arguments).await }
    })
}

/// The entries that rows were made from.
struct Read {
    newest: i64,
    /// The `seq` of the entries that have content.
    told: Vec<i64>,
    /// The `seq` up to which entries were reported before.
    reported: i64,
}

impl Read {
    fn of(entries: &[Entry], behind: &Behind) -> Option<Self> {
        let seq = |entry: &Entry| entry.envelope().seq as i64;
        // If the newest entry is damaged, it has no rows.
        let newest = entries.iter().map(seq).max()?.max(behind.newest);
        let told = entries.iter().filter(|entry| entry.content().is_some()).map(seq).collect();
        Some(Self { newest, told, reported: behind.reported })
    }
}

fn entry_in(item: StoredItem) -> Option<Entry> {
    match item {
        StoredItem::Entry(entry) => Some(entry),
        StoredItem::Damage(_) => None,
    }
}

fn read(inner: &Inner, id: ConversationId, from: u64) -> StoreResult<Vec<Entry>> {
    let mut entries = Vec::new();
    let read = reading::read(&inner.link, id, from, &mut |item| {
        entries.extend(entry_in(item));
        ControlFlow::Continue(())
    });
    match read {
        // The conversation was deleted a moment ago.
        Err(StoreError::NotFound(_)) => Ok(Vec::new()),
        read => read.map(|()| entries),
    }
}

/// Whether every entry except the first follows another of these entries. Then none of them belongs to a branch that begins
/// earlier.
fn is_connected(entries: &[Entry]) -> bool {
    let ids: HashSet<EntryId> = entries.iter().map(Entry::id).collect();
    entries.iter().skip(1).all(|entry| entry.envelope().parent.is_some_and(|parent| ids.contains(&parent)))
}

/// If a call without a result is less than this many entries back, the entries from that call on are read again. A result of an
/// older call causes all entries to be read.
const UNFINISHED: i64 = 1000;

/// The SQL condition that a summary has a scope.
const HAS_SCOPE: &str = "scope_user <> '' OR scope_channel <> '' OR scope_thread <> ''";

/// The entries to read of a conversation that is behind.
struct Behind {
    from: u64,
    reported: i64,
    /// The newest entry when the conversation was found to be behind.
    newest: i64,
    /// The newest context before these entries, which names the tools.
    context: Option<u64>,
    key: [u8; 32],
    with_arguments: bool,
}

async fn behind(client: &Object, id: ConversationId) -> Result<Option<Behind>, Trouble> {
    let query = format!(
        "SELECT s.reported, s.seq, (SELECT min(c.seq) FROM rejoin.called c WHERE c.conversation = s.id \
         AND c.status IN ('requested', 'running') AND c.seq > s.reported - $2), \
         ({HAS_SCOPE}) AND NOT EXISTS (SELECT 1 FROM rejoin.said WHERE conversation = s.id) FROM rejoin.summary s WHERE s.id = $1"
    );
    let statement = client.prepare_cached(&query).await?;
    let name = id.to_string();
    let Some(row) = client.query_opt(&statement, &[&name, &UNFINISHED]).await? else { return Ok(None) };
    let (reported, newest): (i64, i64) = (row.get(0), row.get(1));
    let (unfinished, needs_all): (Option<i64>, bool) = (row.get(2), row.get(3));
    // A conversation that gets its scope now needs rows for all its messages.
    let from =
        if needs_all { 0 } else { unfinished.map_or(reported + 1, |seq| seq.min(reported + 1)).max(0) };
    let query = "SELECT max(seq) FROM rejoin.entry WHERE conversation = $1 AND seq < $2 AND kind = 'context'";
    let statement = client.prepare_cached(query).await?;
    let context: Option<i64> = client.query_one(&statement, &[&name, &from]).await?.get(0);
    let (key, with_arguments) = settings(client).await?;
    Ok(Some(Behind {
        from: from.unsigned_abs(),
        reported,
        newest,
        context: context.map(i64::unsigned_abs),
        key,
        with_arguments,
    }))
}

/// The key for hashes, and whether arguments are kept.
pub(super) async fn settings(client: &Object) -> Result<([u8; 32], bool), Trouble> {
    let query = "SELECT (SELECT value FROM rejoin.secret WHERE name = 'audit'), \
                 (SELECT value FROM rejoin.setting WHERE name = 'audit_arguments')";
    let statement = client.prepare_cached(query).await?;
    let row = client.query_one(&statement, &[]).await?;
    let key = row.get::<_, Option<&[u8]>>(0).and_then(|key| key.try_into().ok()).unwrap_or([0; 32]);
    Ok((key, row.get::<_, Option<&str>>(1) == Some("true")))
}

/// Makes a text acceptable for PostgreSQL, whose texts cannot contain a zero byte.
fn shown(text: &str) -> String {
    text.replace('\0', "\u{2400}")
}

fn seconds(time: Timestamp) -> f64 {
    time.as_microsecond() as f64 / 1e6
}

async fn put(
    client: &mut Object,
    id: ConversationId,
    read: &Read,
    rows: &ReportRows,
    with_arguments: bool,
) -> Result<(), Trouble> {
    let name = id.to_string();
    let transaction = client.transaction().await?;
    // Lock the row, so that two processes write one after the other. An erasure deletes this row before the rows of reports. The
    // rows can be derived again, so they need not wait for the disk: if they are lost, `reported` shows it, and they are written
    // again.
    let query = format!(
        "SELECT {HAS_SCOPE}, reported, set_config('synchronous_commit', 'off', true) FROM rejoin.summary WHERE id = $1 FOR UPDATE"
    );
    let locked = transaction.rows(&query, &[&name]).await?;
    let Some(row) = locked.first() else { return Ok(()) };
    let (has_scope, reported): (bool, i64) = (row.get(0), row.get(1));
    let query =
        "SELECT count(*) FROM rejoin.entry WHERE conversation = $1 AND seq = ANY($2) AND body IS NOT NULL";
    let counted = transaction.prepare_cached(query).await?;
    let still: i64 = transaction.query_one(&counted, &[&name, &read.told]).await?.get(0);
    // Entries were erased or reported after they were read here. The next update handles them.
    if reported != read.reported || still != read.told.len() as i64 {
        return Ok(());
    }
    let query = "SELECT coalesce(max(seq), -1) FROM rejoin.said WHERE conversation = $1";
    let newest = transaction.prepare_cached(query).await?;
    let there: i64 = transaction.query_one(&newest, &[&name]).await?.get(0);
    let is_new = |row: &&MessageRow| row.seq as i64 > there || row.functions != FunctionColumns::default();
    let new: Vec<&MessageRow> = rows.messages.iter().filter(|_| has_scope).filter(is_new).collect();
    if !new.is_empty() {
        messages(&transaction, &name, &new).await?;
    }
    if !rows.calls.is_empty() {
        calls(&transaction, &name, &rows.calls, with_arguments).await?;
    }
    let done = "UPDATE rejoin.summary SET reported = $2 WHERE id = $1 AND reported < $2";
    let done = transaction.prepare_cached(done).await?;
    transaction.execute(&done, &[&name, &read.newest]).await?;
    transaction.commit().await?;
    Ok(())
}

async fn messages(
    transaction: &deadpool_postgres::Transaction<'_>,
    name: &str,
    rows: &[&MessageRow],
) -> Result<(), Trouble> {
    // A row from before the function columns existed gets them now.
    let insert = "INSERT INTO rejoin.said AS s (conversation, seq, part, role, content, tool_calls, tool_call_id, tool_name, at, \
                  function_calls, function_results) \
                  SELECT $1, r.seq, r.part, r.role, r.content, r.calls::jsonb, r.call, r.tool, to_timestamp(r.at), \
                  r.functions::jsonb, r.results::jsonb \
                  FROM unnest($2::bigint[], $3::integer[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::double precision[], \
                  $10::text[], $11::text[]) AS r (seq, part, role, content, calls, call, tool, at, functions, results) \
                  ON CONFLICT (conversation, seq, part) DO UPDATE \
                  SET function_calls = EXCLUDED.function_calls, function_results = EXCLUDED.function_results \
                  WHERE s.function_calls IS NULL AND s.function_results IS NULL \
                  AND (EXCLUDED.function_calls IS NOT NULL OR EXCLUDED.function_results IS NOT NULL)";
    let text = |of: fn(&MessageRow) -> Option<&String>| -> Vec<Option<String>> {
        rows.iter().map(|row| of(row).map(|text| shown(text))).collect()
    };
    let seqs: Vec<i64> = rows.iter().map(|row| row.seq as i64).collect();
    let parts: Vec<i32> = rows.iter().map(|row| row.part as i32).collect();
    let roles: Vec<String> = rows.iter().map(|row| shown(&row.role)).collect();
    let times: Vec<f64> = rows.iter().map(|row| seconds(row.at)).collect();
    let json = |of: fn(&MessageRow) -> Option<&String>| -> Vec<Option<String>> {
        rows.iter().map(|row| of(row).map(|json| as_jsonb(json))).collect()
    };
    let values: [&(dyn ToSql + Sync); 11] = [
        &name,
        &seqs,
        &parts,
        &roles,
        &text(|row| row.content.as_ref()),
        &json(|row| row.tool_calls.as_ref()),
        &text(|row| Some(&row.answers.as_ref()?.id)),
        &text(|row| row.answers.as_ref()?.tool.as_ref()),
        &times,
        &json(|row| row.functions.calls.as_ref()),
        &json(|row| row.functions.results.as_ref()),
    ];
    transaction.execute(&transaction.prepare_cached(insert).await?, &values).await?;
    Ok(())
}

/// Makes JSON acceptable for `jsonb`, which refuses escaped zero bytes, unpaired surrogates, and numbers out of its range. They
/// become `\u{2400}`, `\u{fffd}` and strings.
fn as_jsonb(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    let mut rest = json;
    let mut is_text = false;
    while let Some(first) = rest.chars().next() {
        let (taken, put): (usize, &str) = match first {
            '"' => {
                is_text = !is_text;
                (1, "\"")
            }
            '\\' => escape(rest),
            '-' | '0'..='9' if !is_text => {
                let end = rest.find(|next: char| !next.is_ascii_digit() && !"+-.eE".contains(next));
                let number = &rest[..end.unwrap_or(rest.len())];
                if !is_in_range(number) {
                    out.push('"');
                    out.push_str(number);
                    out.push('"');
                    rest = &rest[number.len()..];
                    continue;
                }
                (number.len(), number)
            }
            other => (other.len_utf8(), &rest[..other.len_utf8()]),
        };
        out.push_str(put);
        rest = &rest[taken..];
    }
    out
}

/// The length of the escape at the beginning of a text, and its replacement.
fn escape(text: &str) -> (usize, &str) {
    let unit = |at: usize| {
        let digits = text.get(at..)?.strip_prefix("\\u")?.get(..4)?;
        u16::from_str_radix(digits, 16).ok()
    };
    match unit(0) {
        Some(0) => (6, "\u{2400}"),
        Some(0xd800..=0xdbff) if matches!(unit(6), Some(0xdc00..=0xdfff)) => (12, &text[..12]),
        Some(0xd800..=0xdfff) => (6, "\u{fffd}"),
        _ => {
            // This also skips a backslash that is itself escaped.
            let length = 1 + text[1..].chars().next().map_or(0, char::len_utf8);
            (length, &text[..length])
        }
    }
}

/// Whether a number has few enough digits for `numeric`.
fn is_in_range(number: &str) -> bool {
    let (digits, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    digits.len() <= 1000 && exponent.parse::<i32>().is_ok_and(|exponent| exponent.abs() <= 1000)
}

async fn calls(
    transaction: &deadpool_postgres::Transaction<'_>,
    name: &str,
    rows: &[CallRow],
    with_arguments: bool,
) -> Result<(), Trouble> {
    // A completed call stays completed. A row that would not change is not written again.
    let insert = "INSERT INTO rejoin.called AS c (conversation, request, number, seq, call_id, tool, status, started_at, ended_at, error_kind, \
                  args_sha256, arguments, error, outcome) \
                  SELECT $1, r.request, r.number, r.seq, r.call, r.tool, r.status, to_timestamp(r.started), to_timestamp(r.ended), r.kind, r.hash, \
                  r.arguments, r.error, r.outcome \
                  FROM unnest($2::uuid[], $3::integer[], $4::text[], $5::text[], $6::text[], $7::double precision[], \
                  $8::double precision[], $9::text[], $10::text[], $11::text[], $12::text[], $13::text[], $14::bigint[]) \
                  AS r (request, number, call, tool, status, started, ended, kind, hash, arguments, error, outcome, seq) \
                  ON CONFLICT (conversation, request, number) DO UPDATE SET status = EXCLUDED.status, started_at = EXCLUDED.started_at, \
                  ended_at = EXCLUDED.ended_at, error_kind = EXCLUDED.error_kind, arguments = EXCLUDED.arguments, error = EXCLUDED.error, \
                  outcome = EXCLUDED.outcome \
                  WHERE (c.status <> 'completed' OR EXCLUDED.status = 'completed') AND \
                  (c.status, c.started_at, c.ended_at, c.error_kind, c.arguments, c.error, c.outcome) IS DISTINCT FROM \
                  (EXCLUDED.status, EXCLUDED.started_at, EXCLUDED.ended_at, EXCLUDED.error_kind, EXCLUDED.arguments, EXCLUDED.error, EXCLUDED.outcome)";
    let kept = |text: Option<&str>| text.filter(|_| with_arguments).map(shown);
    let requests: Vec<uuid::Uuid> = rows.iter().map(|row| row.request.as_uuid()).collect();
    let numbers: Vec<i32> = rows.iter().map(|row| row.number as i32).collect();
    let ids: Vec<String> = rows.iter().map(|row| shown(&row.call_id)).collect();
    let tools: Vec<String> = rows.iter().map(|row| shown(&row.tool)).collect();
    let statuses: Vec<&str> = rows.iter().map(|row| row.status).collect();
    let started: Vec<Option<f64>> = rows.iter().map(|row| row.started.map(seconds)).collect();
    let ended: Vec<Option<f64>> = rows.iter().map(|row| row.ended.map(seconds)).collect();
    let kinds: Vec<Option<&str>> = rows.iter().map(|row| row.error_kind).collect();
    let hashes: Vec<&str> = rows.iter().map(|row| &*row.args_sha256).collect();
    let arguments: Vec<Option<String>> = rows.iter().map(|row| kept(Some(&row.arguments))).collect();
    let errors: Vec<Option<String>> = rows.iter().map(|row| kept(row.error.as_deref())).collect();
    let outcomes: Vec<Option<String>> = rows.iter().map(|row| kept(row.outcome.as_deref())).collect();
    let seqs: Vec<i64> = rows.iter().map(|row| row.seq as i64).collect();
    let values: [&(dyn ToSql + Sync); 14] = [
        &name, &requests, &numbers, &ids, &tools, &statuses, &started, &ended, &kinds, &hashes, &arguments,
        &errors, &outcomes, &seqs,
    ];
    transaction.execute(&transaction.prepare_cached(insert).await?, &values).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jsonb_gets_what_it_takes_and_everything_else_stays() {
        for (json, expected) in [
            (r#"{"a\\":[1,-2.5e3,"x\u00e9\ud83d\ude00 9e9999"],"b":null}"#, None),
            (r#"["\u0000","\\u0000"]"#, Some("[\"\u{2400}\",\"\\\\u0000\"]")),
            (
                r#"["\ud83d","\ude00x","\ud83d\u0041"]"#,
                Some("[\"\u{fffd}\",\"\u{fffd}x\",\"\u{fffd}\\u0041\"]"),
            ),
            ("[1e999999,1e-999999,7]", Some(r#"["1e999999","1e-999999",7]"#)),
        ] {
            assert_eq!(as_jsonb(json), expected.unwrap_or(json));
        }
    }
}
