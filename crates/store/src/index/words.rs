//! Searching: from what a person types to entries, best first, with the hits marked.

use std::{
    cell::RefCell,
    collections::{HashMap, HashSet},
};

use rejoin_record::{ConversationId, Entry, Text};
use rusqlite::{Connection, ToSql, functions::FunctionFlags, types::ToSqlOutput};

use super::{Feed, Trouble, get};
use crate::{
    digest::Digester,
    scan, sql,
    store::{Hit, Search},
};

/// So many of the matching entries are ranked; of words that are everywhere, the newest ones.
const RANKED: i64 = 2000;

/// The SQL function that gives SQLite the text to index.
const TEXT: &str = "text_to_index";

thread_local! {
    /// The text that [`TEXT`] gives next.
    static NEXT: RefCell<Option<Text>> = const { RefCell::new(None) };
}

/// Makes a connection ready for [`put`].
pub(super) fn prepare(index: &Connection) -> rusqlite::Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DIRECTONLY;
    index.create_scalar_function(TEXT, 0, flags, |_| Ok(Indexed(NEXT.take())))
}

/// A text on its way to SQLite.
struct Indexed(Option<Text>);

impl ToSql for Indexed {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(self.0.as_deref().unwrap_or_default().into())
    }
}

/// Stores the words of an entry.
///
/// The text is handed over by a function: SQLite keeps one copy of what a function returns, and would keep two of a parameter
/// beside our own. Texts of 64 MiB do occur.
pub(super) fn put(index: &Connection, key: i64, text: Text) -> rusqlite::Result<()> {
    NEXT.set(Some(spaced(text)));
    sql::run(index, &format!("INSERT INTO words (rowid, text) VALUES (?1, {TEXT}())"), [key])
}

/// A text as the index takes it: characters of scripts without spaces stand alone, so that each is a word.
fn spaced(text: Text) -> Text {
    if !text.chars().any(scan::is_unspaced) {
        return text;
    }
    let mut out = String::with_capacity(text.len() * 2);
    for c in text.chars() {
        if scan::is_unspaced(c) {
            out.extend([' ', c, ' ']);
        } else {
            out.push(c);
        }
    }
    out.into()
}

/// A query in the language of the index: every part must occur.
fn query(parts: &[(Vec<String>, bool)]) -> String {
    let quoted = parts.iter().map(|(words, beginning)| {
        let star = if *beginning { "*" } else { "" };
        format!("\"{}\"{star}", words.join(" ").replace('"', "\"\""))
    });
    quoted.collect::<Vec<_>>().join(" ")
}

pub(super) fn search(feed: &dyn Feed, index: &Connection, search: &Search) -> Result<Vec<Hit>, Trouble> {
    let parts = scan::parts(&search.words);
    if parts.is_empty() {
        return Ok(Vec::new());
    }
    let within = search.within.map(|conversation| feed.keys_of(index, conversation)).transpose()?;
    let best = matching(index, &query(&parts), within.as_ref(), search.limit)?;
    let keys: Vec<i64> = best.iter().map(|(key, _)| *key).collect();
    let entries = feed.entries(index, &keys)?;
    let mut titles: HashMap<ConversationId, Option<String>> = HashMap::new();
    let mut hits = Vec::new();
    for (key, score) in best {
        let Some((conversation, entry)) = entries.get(&key) else { continue };
        let title = match titles.get(conversation) {
            Some(title) => title.clone(),
            None => {
                let title = get(index, *conversation)?.and_then(|summary| summary.title);
                titles.entry(*conversation).or_insert(title).clone()
            }
        };
        hits.extend(hit(feed.digester(), *conversation, entry, title, &parts, score));
    }
    Ok(hits)
}

/// An entry that matches, with the hits in it marked.
fn hit(
    digester: Digester,
    conversation: ConversationId,
    entry: &Entry,
    title: Option<String>,
    parts: &[(Vec<String>, bool)],
    score: f64,
) -> Option<Hit> {
    let digest = digester(None).add(entry);
    let words = digest.words?;
    // The index folds more than we do when we look for the place; then the beginning is shown.
    let excerpt = scan::excerpt(&words.text, parts).map(|(excerpt, _)| excerpt);
    Some(Hit {
        conversation,
        title,
        entry: entry.id(),
        seq: entry.envelope().seq,
        time: digest.time.unwrap_or(entry.envelope().timestamp),
        role: words.role,
        excerpt: excerpt.unwrap_or_else(|| scan::beginning(&words.text)),
        score,
    })
}

/// Keys and scores of the entries that match, best first.
fn matching(
    connection: &Connection,
    query: &str,
    within: Option<&HashSet<i64>>,
    limit: usize,
) -> rusqlite::Result<Vec<(i64, f64)>> {
    let mut newest = connection
        .prepare_cached("SELECT rowid FROM words WHERE words MATCH ?1 ORDER BY rowid DESC LIMIT ?2")?;
    let most = if within.is_some() { i64::MAX } else { RANKED + 1 };
    let mut keys: Vec<i64> =
        newest.query_map((query, most), |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    if let Some(within) = within {
        keys.retain(|key| within.contains(key));
    }
    // Words that are everywhere say little: the newest are as good as any, and ranking them all would take long.
    if keys.len() as i64 > RANKED {
        return Ok(keys.into_iter().take(limit).map(|key| (key, 0.0)).collect());
    }
    let mut ranked = connection.prepare_cached(
        "SELECT rowid, bm25(words) FROM words WHERE words MATCH ?1 ORDER BY bm25(words), rowid DESC",
    )?;
    let rows = ranked.query_map([query], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let mut best: Vec<(i64, f64)> = rows.collect::<rusqlite::Result<_>>()?;
    if let Some(within) = within {
        best.retain(|(key, _)| within.contains(key));
    }
    best.truncate(limit);
    Ok(best)
}
