//! Searches with an index of words, if the option `search` is enabled.
//!
//! The index only finds entries that may match. These are read, and `scan` decides, so a search gives the same result with and
//! without the index. Words are written a moment after an append, like the rows for reports. A conversation whose words are behind
//! (`summary.searched`) is read completely.

use std::{
    collections::{BTreeSet, HashMap},
    ops::ControlFlow,
};

use rejoin_record::{ConversationId, Entry};
use tokio_postgres::types::ToSql;

use super::{
    Inner, Postgres,
    link::{Object, Trouble},
    options, reading,
    reports::{UpdateTargets, each_behind},
    schema, summaries,
};
use crate::{
    digest::Summarize,
    error::StoreResult,
    scan,
    store::{Hit, Search, Store as _, StoredItem},
};

/// How many bytes of a word are indexed. A longer word is found by its beginning, and the entry is then read.
const LONGEST: usize = 120;

/// The most bytes of distinct words of one entry. A `tsvector` holds 1 MiB of them.
const MOST_BYTES: usize = 1_000_000;

/// The most entries whose words are written at a time, and about how many bytes. The conversation's summary is locked meanwhile.
const BATCH: (usize, usize) = (500, 2 << 20);

/// How many hits beyond the requested number are collected before the worst are dropped.
const SPARE: usize = 1000;

/// Whether searches can use the index. Once enabled, it stays enabled.
pub(super) fn is_enabled(inner: &Inner) -> StoreResult<bool> {
    // A newer version may store words differently, and an older one has no options.
    if inner.opened.get().is_none_or(|opened| opened.version != schema::KNOWN) {
        return Ok(false);
    }
    if inner.has_words.get().is_none() {
        let enabled = inner.link.run("reading the options", |client| async move {
            Ok(options::enabled(&client).await?.iter().any(|name| name == options::SEARCH))
        })?;
        if !enabled {
            return Ok(false);
        }
    }
    inner.has_words.get_or_init(|| ());
    Ok(true)
}

/// The distinct words of a text in the syntax of a `tsvector`; `None` if there are too many.
fn vector(text: &str) -> Option<String> {
    let mut words = BTreeSet::new();
    let mut bytes = 0;
    for (start, end) in scan::spans(text) {
        let mut word = text[start..end].to_lowercase();
        word.truncate(word.floor_char_boundary(LONGEST));
        if !words.contains(&word) {
            bytes += word.len();
            words.insert(word);
        }
        if bytes > MOST_BYTES {
            return None;
        }
    }
    let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    Some(words.join(" "))
}

/// The words of a query in the syntax of a `tsquery`. Every matching entry has all of them; some other entries do, too.
fn query(parts: &[(Vec<String>, bool)]) -> String {
    let words = parts.iter().flat_map(|(words, beginning)| {
        words.iter().enumerate().map(move |(number, word)| {
            let cut = &word[..word.floor_char_boundary(LONGEST)];
            let is_beginning = *beginning && number + 1 == words.len() && cut.len() == word.len();
            format!("{}{}", quoted(cut), if is_beginning { ":*" } else { "" })
        })
    });
    words.collect::<Vec<_>>().join(" & ")
}

fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\\', "\\\\").replace('\'', "''"))
}

/// Writes the words of conversations that are behind.
pub(super) fn catch_up(inner: &Inner, targets: &UpdateTargets) -> StoreResult<()> {
    each_behind(inner, "searched", targets, |id, (searched, newest)| {
        match add(inner, id, searched, newest) {
            // A search will read this conversation completely.
            Err(why) if !why.is_unwritable() => tracing::debug!("the words of {id} are behind: {why}"),
            added => added?,
        }
        Ok(())
    })
}

/// Words of entries to be sent to the server.
#[derive(Default)]
struct Batch {
    seqs: Vec<i64>,
    words: Vec<Option<String>>,
    bytes: usize,
}

impl Batch {
    fn add(&mut self, entry: &Entry, digester: &mut dyn Summarize) {
        if let Some(words) = digester.add(entry).words {
            let vector = vector(&words.text);
            self.bytes += vector.as_ref().map_or(0, String::len);
            self.seqs.push(entry.envelope().seq as i64);
            self.words.push(vector);
        }
    }

    fn is_full(&self) -> bool {
        self.seqs.len() >= BATCH.0 || self.bytes >= BATCH.1
    }
}

/// Writes the words of a conversation's entries after `searched`, up to `newest` at least.
fn add(inner: &Inner, id: ConversationId, searched: i64, newest: i64) -> StoreResult<()> {
    let mut digester = (inner.digester)(None);
    let mut batch = Batch::default();
    let (mut last, mut written) = (searched, Ok(true));
    let mut before = searched;
    let mut write = |batch: &mut Batch, last: i64| {
        let written = inner.link.run("writing words", |mut client| {
            let batch = &*batch;
            async move { put(&mut client, id, (before, last), batch).await }
        });
        *batch = Batch::default();
        before = last;
        written
    };
    reading::read(&inner.link, id, (searched + 1).unsigned_abs(), &mut |item| {
        if let StoredItem::Entry(entry) = item {
            last = entry.envelope().seq as i64;
            batch.add(&entry, &mut *digester);
            if batch.is_full() {
                written = write(&mut batch, last);
            }
        }
        if matches!(written, Ok(true)) { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    // The newest entries may be damaged, and then have no words.
    if written? {
        write(&mut batch, last.max(newest))?;
    }
    Ok(())
}

/// Writes words, if exactly the words before them are already there. Returns whether it did.
async fn put(
    client: &mut Object,
    id: ConversationId,
    (after, last): (i64, i64),
    batch: &Batch,
) -> Result<bool, Trouble> {
    let name = id.to_string();
    let transaction = client.transaction().await?;
    // Lock the row, so that an erasure comes either before or after all of this. Another process may have written the same words.
    let query = "SELECT searched FROM rejoin.summary WHERE id = $1 FOR UPDATE";
    let row = transaction.query_opt(query, &[&name]).await?;
    if row.is_none_or(|row| row.get::<_, i64>(0) != after) {
        return Ok(false);
    }
    // Entries that were erased since they were read have no body, so they are skipped.
    let insert = "INSERT INTO rejoin.words (conversation, seq, words) SELECT e.conversation, e.seq, r.words::tsvector \
                  FROM unnest($2::bigint[], $3::text[]) AS r (seq, words) \
                  JOIN rejoin.entry e ON e.conversation = $1 AND e.seq = r.seq AND e.body IS NOT NULL ON CONFLICT DO NOTHING";
    let insert = transaction.prepare_cached(insert).await?;
    transaction.execute(&insert, &[&name, &batch.seqs, &batch.words]).await?;
    let done = "UPDATE rejoin.summary SET searched = $2 WHERE id = $1";
    transaction.execute(done, &[&name, &last]).await?;
    transaction.commit().await?;
    Ok(true)
}

/// The places where the words of a search may be.
struct Candidates {
    /// Conversations that must be read completely.
    whole: Vec<ConversationId>,
    /// Entries of other conversations.
    entries: Vec<(ConversationId, u64)>,
    titles: HashMap<ConversationId, Option<String>>,
}

async fn candidates(
    client: &Object,
    search: &Search,
    parts: &[(Vec<String>, bool)],
) -> Result<Candidates, Trouble> {
    let within = search.within.map(|id| id.to_string());
    let (of_one, first) = if within.is_some() { (" AND conversation = $2", 3) } else { ("", 2) };
    // Use one statement, so that a conversation is either behind or has all its words.
    let select = format!(
        "WITH behind AS (SELECT id FROM rejoin.stale UNION SELECT id FROM rejoin.summary WHERE searched < seq), \
         found AS (SELECT conversation, seq FROM rejoin.words WHERE words @@ $1::text::tsquery{of_one} \
         UNION ALL SELECT conversation, seq FROM rejoin.words WHERE words IS NULL{of_one}) \
         SELECT id, NULL::bigint, NULL::text FROM behind UNION ALL \
         SELECT f.conversation, f.seq, s.title FROM found f JOIN rejoin.summary s ON s.id = f.conversation \
         WHERE f.conversation NOT IN (SELECT id FROM behind){} ORDER BY 1, 2",
        summaries::of_scope(&search.scope, first)
    );
    let query = query(parts);
    let scope: Vec<String> =
        search.scope.parts().iter().flatten().map(|part| summaries::spelled(part)).collect();
    let mut values: Vec<&(dyn ToSql + Sync)> = vec![&query];
    values.extend(within.iter().map(|within| within as &(dyn ToSql + Sync)));
    values.extend(scope.iter().map(|part| part as &(dyn ToSql + Sync)));
    let statement = client.prepare_cached(&select).await?;
    let rows = client.query(&statement, &values).await?;
    let mut found = Candidates { whole: Vec::new(), entries: Vec::new(), titles: HashMap::new() };
    for row in &rows {
        let Ok(id) = row.get::<_, &str>(0).parse() else { continue };
        match row.get::<_, Option<i64>>(1) {
            None => found.whole.push(id),
            Some(seq) => {
                found.entries.push((id, seq.unsigned_abs()));
                found.titles.entry(id).or_insert_with(|| row.get(2));
            }
        }
    }
    Ok(found)
}

/// Searches with the index.
pub(super) fn search(store: &Postgres, search: &Search) -> StoreResult<Vec<Hit>> {
    let parts = scan::parts(&search.words);
    if parts.is_empty() {
        return Ok(Vec::new());
    }
    // If this fails, the search reads more.
    if let Err(why) = store.settle() {
        tracing::debug!("the words are behind: {why}");
    }
    let inner = &store.inner;
    let found = inner.link.run("searching", |client| {
        let parts = &parts;
        async move { candidates(&client, search, parts).await }
    })?;
    let mut hits = scan::search(store, &found.whole, inner.digester, search)?;
    reading::read_each(&inner.link, &found.entries, |id, entry| {
        let digest = (inner.digester)(None).add(&entry);
        let time = digest.time.unwrap_or(entry.envelope().timestamp);
        let hit = digest.words.and_then(|words| scan::hit(id, &entry, words, time, &parts));
        let title = found.titles.get(&id).cloned().flatten();
        hits.extend(hit.map(|hit| Hit { title, ..hit }));
        if hits.len() > search.limit.saturating_add(SPARE) {
            scan::rank(&mut hits, search.limit);
        }
    })?;
    scan::rank(&mut hits, search.limit);
    Ok(hits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_words_are_cut_in_texts_and_queries_alike() {
        let long = "ü".repeat(LONGEST);
        let cut = "ü".repeat(LONGEST / 2);
        assert_eq!(vector(&format!("{long} B a b")).as_deref(), Some(format!("'a' 'b' '{cut}'").as_str()));
        assert_eq!(query(&scan::parts(&long)), format!("'{cut}'"));
        assert_eq!(query(&scan::parts(&format!("{long}*"))), format!("'{cut}'"));
        assert_eq!(query(&scan::parts("\"one two\" THR* 世界")), "'one' & 'two' & 'thr':* & '世' & '界'");
    }

    #[test]
    fn a_text_of_too_many_words_is_not_indexed() {
        let word = |number: usize| format!("w{number:05}{}", "x".repeat(90));
        let text: Vec<String> = (0..MOST_BYTES / 96 + 1).map(word).collect();
        assert!(vector(&text[..text.len() - 1].join(" ")).is_some());
        assert!(vector(&text.join(" ")).is_none());
        assert_eq!(vector("!? \0").as_deref(), Some(""));
    }
}
