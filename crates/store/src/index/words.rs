//! Searches the index: turns a query into entries, best first, with the matches marked.

use std::{
    cell::RefCell,
    collections::{HashMap, HashSet},
};

use rejoin_record::{ConversationId, Entry, Text};
use rusqlite::{Connection, ToSql, functions::FunctionFlags, types::ToSqlOutput};

use super::{Feed, IndexError, get, ids_of_scope};
use crate::{
    digest::Digester,
    scan, sql,
    store::{Hit, Search},
    summary::Summary,
};

/// The most matching entries that are ranked. If more match, the newest are returned without a rank.
const RANKED: i64 = 2000;

/// The SQL function that gives SQLite the text to index.
const TEXT: &str = "text_to_index";

thread_local! {
    /// The text that [`TEXT`] returns next.
    static NEXT: RefCell<Option<Text>> = const { RefCell::new(None) };
}

/// Prepares a connection for [`put`].
pub(super) fn prepare(index: &Connection) -> rusqlite::Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DIRECTONLY;
    index.create_scalar_function(TEXT, 0, flags, |_| Ok(Indexed(NEXT.take())))
}

/// A text to pass to SQLite.
struct Indexed(Option<Text>);

impl ToSql for Indexed {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(self.0.as_deref().unwrap_or_default().into())
    }
}

/// Stores the words of an entry.
///
/// An SQL function passes the text, because SQLite makes one copy of a function's result, but two copies of a parameter. That
/// matters for texts of 64 MiB, which do occur.
pub(super) fn put(index: &Connection, key: i64, text: Text) -> rusqlite::Result<()> {
    NEXT.set(Some(spaced(text)));
    sql::run(index, &format!("INSERT INTO words (rowid, text) VALUES (?1, {TEXT}())"), [key])
}

/// The text with spaces around the characters of scripts that write no spaces, so that each character is a word.
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

/// A query in the syntax of FTS5: every part must occur.
fn query(parts: &[(Vec<String>, bool)]) -> String {
    let quoted = parts.iter().map(|(words, beginning)| {
        let star = if *beginning { "*" } else { "" };
        format!("\"{}\"{star}", words.join(" ").replace('"', "\"\""))
    });
    quoted.collect::<Vec<_>>().join(" ")
}

pub(super) fn search(feed: &dyn Feed, index: &Connection, search: &Search) -> Result<Vec<Hit>, IndexError> {
    let parts = scan::parts(&search.words);
    if parts.is_empty() {
        return Ok(Vec::new());
    }
    let within = within(feed, index, search)?;
    let best = matching(index, &query(&parts), within.as_ref(), search.limit)?;
    let keys: Vec<i64> = best.iter().map(|(key, _)| *key).collect();
    let entries = feed.entries(index, &keys)?;
    let mut titles: HashMap<ConversationId, Option<String>> = HashMap::new();
    let mut hits = Vec::new();
    for (key, score) in best {
        let Some((conversation, entry)) = entries.get(&key) else { continue };
        if !titles.contains_key(conversation) {
            titles.insert(*conversation, get(index, *conversation)?.and_then(|summary| summary.title));
        }
        let title = titles[conversation].clone();
        hits.extend(hit(feed.digester(), *conversation, entry, title, &parts, score));
    }
    Ok(hits)
}

/// The keys of the entries that a search is limited to; `None` if it is not limited.
fn within(feed: &dyn Feed, index: &Connection, search: &Search) -> Result<Option<HashSet<i64>>, IndexError> {
    let conversations = match search.within {
        None if search.scope.is_open() => return Ok(None),
        None => ids_of_scope(index, &search.scope)?,
        Some(id) if search.scope.is_open() => vec![id],
        Some(id) => {
            let is_meant = |summary: &Summary| search.scope.admits(&summary.scope);
            get(index, id)?.filter(is_meant).map(|summary| summary.id).into_iter().collect()
        }
    };
    let mut keys = HashSet::new();
    for conversation in conversations {
        keys.extend(feed.keys_of(index, conversation)?);
    }
    Ok(Some(keys))
}

/// A matching entry, with the matches marked.
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
    // The index folds more characters than `excerpt` does. If `excerpt` finds no match, the beginning is shown.
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
    let newest = "SELECT rowid FROM words WHERE words MATCH ?1 ORDER BY rowid DESC LIMIT ?2";
    let most = if within.is_some() { i64::MAX } else { RANKED + 1 };
    let mut keys: Vec<i64> = sql::all(connection, newest, (query, most), |row| row.get(0))?;
    if let Some(within) = within {
        keys.retain(|key| within.contains(key));
    }
    // If the words are very common, the newest entries are as good as any others, and ranking all of them would take long.
    if keys.len() as i64 > RANKED {
        return Ok(keys.into_iter().take(limit).map(|key| (key, 0.0)).collect());
    }
    let ranked = "SELECT rowid, bm25(words) FROM words WHERE words MATCH ?1 ORDER BY bm25(words), rowid DESC";
    let mut best: Vec<(i64, f64)> =
        sql::all(connection, ranked, [query], |row| Ok((row.get(0)?, row.get(1)?)))?;
    if let Some(within) = within {
        best.retain(|(key, _)| within.contains(key));
    }
    best.truncate(limit);
    Ok(best)
}
