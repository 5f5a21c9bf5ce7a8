//! Reads a file that the database cannot read, page by page, without the pages that lead to others.
//!
//! Every row of a table is in a leaf page, completely or with the rest in a chain of overflow pages. A damaged leaf destroys only
//! its own rows, and a damaged interior page destroys none. The rows go into a new file with the same tables, which the database
//! can read. Changed rows are recognised by their hashes, as always.

use std::{collections::HashSet, fs::File, path::Path};

use rejoin_record::{ConversationId, limits};
use rusqlite::{Connection, types::Value};

use super::{
    ErrorContext as _, Reader, reading,
    salvage::log_of,
    schema::{self, PAGE_BYTES},
    wal::{self, CommittedPages},
};
use crate::{
    error::{StoreError, StoreResult},
    files,
};

/// Copies every row that can be found into a new file.
pub(super) fn carve(from: &Path, to: &Path) -> StoreResult<()> {
    let copy = schema::open_new(to)?;
    // A lost copy can be made again from the same file, so it need not be synced.
    copy.execute_batch("PRAGMA synchronous = OFF").during("making a copy")?;
    // An older log hides newer pages, and it may contain data that was removed since.
    let pages = if log_is_older(from)? { Pages::without_log(from)? } else { Pages::open(from)? };
    let mut found = InsertedRows::default();
    let mut work = || -> rusqlite::Result<()> {
        let transaction = copy.unchecked_transaction()?;
        let mut doubtful = Vec::new();
        for page in 1..=pages.count {
            if let Some(bytes) = pages.get(page)
                && !rows_of(&bytes, page, &pages, &mut |row| found.take(&transaction, row))?
            {
                doubtful.push(page);
            }
        }
        // Rows without a pointer come second: they may be old copies, or look like rows by chance.
        for page in doubtful {
            if let Some(bytes) = pages.get(page) {
                rows_anywhere(&bytes, page, &pages, &mut |row| found.take(&transaction, row))?;
            }
        }
        transaction.commit()
    };
    work().during("making a copy")?;
    drop(copy);
    found.name_the_nameless(to)
}

/// Whether the log of a file is older than the file, because an old copy replaced it. The database accepts a log of any age.
pub(super) fn log_is_older(path: &Path) -> StoreResult<bool> {
    let mut with_log = Pages::open(path)?;
    let Some(size) = with_log.logged.size else { return Ok(false) };
    with_log.count = with_log.count.min(size);
    let (with_log, without) = (PageContents::of(&with_log)?, PageContents::of(&Pages::without_log(path)?)?);
    // A newer log lacks an entry of the file only if that entry was removed.
    Ok(without.removed >= with_log.removed && !without.entries.is_subset(&with_log.entries))
}

/// The entries and removals in the pages of a file.
#[derive(Default)]
struct PageContents {
    entries: HashSet<i64>,
    removed: i64,
}

impl PageContents {
    fn of(pages: &Pages) -> StoreResult<Self> {
        let mut held = Self::default();
        for page in 1..=pages.count {
            let Some(bytes) = pages.get(page) else { continue };
            let read = rows_of(&bytes, page, pages, &mut |row| {
                match row {
                    Row::Keyed(key, values) if is_entry(&values) => drop(held.entries.insert(key)),
                    Row::Bare(values) => {
                        if let [Value::Text(name), Value::Integer(times)] = values.as_slice()
                            && name == "removed"
                        {
                            held.removed = held.removed.max(*times);
                        }
                    }
                    Row::Keyed(..) => {}
                }
                Ok(())
            });
            read.during("comparing the log with the file")?;
        }
        Ok(held)
    }
}

fn is_entry(values: &[Value]) -> bool {
    matches!(values, [Value::Null, Value::Integer(_), Value::Integer(_), Value::Blob(id), ..]
        if matches!(values.len(), 13 | 14) && id.len() == 16)
}

/// The pages of a file, with newer versions from its log.
struct Pages {
    file: File,
    count: u32,
    logged: CommittedPages,
}

impl Pages {
    fn open(path: &Path) -> StoreResult<Self> {
        let failed = || StoreError::io(format!("reading {}", path.display()));
        let file = File::open(path).map_err(failed())?;
        let length = file.metadata().map_err(failed())?.len();
        let logged = wal::logged(&log_of(path), PAGE_BYTES).map_err(failed())?;
        let in_file = u32::try_from(length / PAGE_BYTES as u64).unwrap_or(u32::MAX);
        let count = logged.pages.keys().copied().max().unwrap_or(0).max(in_file);
        Ok(Self { file, count, logged })
    }

    fn without_log(path: &Path) -> StoreResult<Self> {
        Ok(Self { logged: CommittedPages::default(), ..Self::open(path)? })
    }

    fn get(&self, page: u32) -> Option<Vec<u8>> {
        if let Some(bytes) = self.logged.pages.get(&page) {
            return Some(bytes.clone());
        }
        let at = u64::from(page.checked_sub(1)?) * PAGE_BYTES as u64;
        files::read_at(&self.file, at, PAGE_BYTES).ok()
    }
}

/// A number in the database's variable-length encoding, and its length in bytes.
fn varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0u64;
    for (place, byte) in bytes.iter().take(9).enumerate() {
        if place == 8 {
            return Some((value << 8 | u64::from(*byte), 9));
        }
        value = value << 7 | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Some((value, place + 1));
        }
    }
    None
}

/// A row that was found in a page.
enum Row {
    /// A row of a table, with its key.
    Keyed(i64, Vec<Value>),
    /// A row of a table that has no keys, or of an index.
    Bare(Vec<Value>),
}

/// The kinds of pages that hold rows.
const TABLE_LEAF: u8 = 0x0d;
const INDEX_LEAF: u8 = 0x0a;

/// The position where the header of a page begins.
fn head_of(number: u32) -> usize {
    if number == 1 { 100 } else { 0 }
}

/// Passes on the rows that a page points to. Returns whether it is a page of rows and all of them can be read.
fn rows_of(
    page: &[u8],
    number: u32,
    pages: &Pages,
    each: &mut dyn FnMut(Row) -> rusqlite::Result<()>,
) -> rusqlite::Result<bool> {
    let head = head_of(number);
    let kind = page.get(head).copied().unwrap_or(0);
    let cells = usize::from(u16::from_be_bytes([page[head + 3], page[head + 4]]));
    let mut whole = matches!(kind, TABLE_LEAF | INDEX_LEAF);
    for pointer in page[head + 8..].chunks_exact(2).take(if whole { cells } else { 0 }) {
        let at = usize::from(u16::from_be_bytes([pointer[0], pointer[1]]));
        let row = match kind {
            TABLE_LEAF => cell(page, at, pages)
                .and_then(|(key, payload)| record(&payload).map(|values| Row::Keyed(key, values))),
            _ => varint(page.get(at..).unwrap_or_default()).and_then(|(length, used)| {
                let from = at + used;
                let to = from.checked_add(usize::try_from(length).ok()?)?;
                record(page.get(from..to)?).map(Row::Bare)
            }),
        };
        match row {
            Some(row) => each(row)?,
            None => whole = false,
        }
    }
    Ok(whole)
}

/// Passes on everything that looks like a row at any position, for a page whose pointers do not list all its rows. Hashes decide
/// which are entries.
fn rows_anywhere(
    page: &[u8],
    number: u32,
    pages: &Pages,
    each: &mut dyn FnMut(Row) -> rusqlite::Result<()>,
) -> rusqlite::Result<()> {
    for at in head_of(number)..page.len() {
        let plausible = page.get(at..).and_then(varint).is_some_and(|(length, _)| length >= LEAST);
        if plausible
            && let Some((key, payload)) = cell(page, at, pages)
            && let Some(values) = record(&payload).filter(|values| values.first() == Some(&Value::Null))
        {
            each(Row::Keyed(key, values))?;
        }
    }
    Ok(())
}

/// The fewest bytes of a row.
const LEAST: u64 = 30;

/// The key and the payload of a row.
fn cell(page: &[u8], at: usize, pages: &Pages) -> Option<(i64, Vec<u8>)> {
    let (length, used) = varint(page.get(at..)?)?;
    let at = at + used;
    let (key, used) = varint(page.get(at..)?)?;
    let at = at + used;
    let length = usize::try_from(length).ok().filter(|length| *length <= 2 * limits::BODY_BYTES)?;
    let most = PAGE_BYTES - 35;
    if length <= most {
        return Some((key as i64, page.get(at..at + length)?.to_vec()));
    }
    // The beginning of the payload is in this page, the rest in a chain of overflow pages.
    let least = (PAGE_BYTES - 12) * 32 / 255 - 23;
    let even = least + (length - least) % (PAGE_BYTES - 4);
    let here = if even <= most { even } else { least };
    let mut payload = page.get(at..at + here)?.to_vec();
    let word = |bytes: &[u8]| Some(u32::from_be_bytes(bytes.get(..4)?.try_into().ok()?));
    let mut next = word(page.get(at + here..)?)?;
    let mut seen = HashSet::new();
    while payload.len() < length {
        if !seen.insert(next) {
            return None;
        }
        let bytes = pages.get(next)?;
        let piece = (length - payload.len()).min(PAGE_BYTES - 4);
        payload.extend_from_slice(bytes.get(4..4 + piece)?);
        next = word(&bytes)?;
    }
    Some((key as i64, payload))
}

fn record(payload: &[u8]) -> Option<Vec<Value>> {
    let (head, mut at) = varint(payload)?;
    let head = usize::try_from(head).ok()?;
    let mut body = head;
    let mut values = Vec::new();
    while at < head {
        let (kind, used) = varint(payload.get(at..head)?)?;
        at += used;
        let length = match kind {
            0 | 8 | 9 => 0,
            1..=4 => kind as usize,
            5 => 6,
            6 | 7 => 8,
            10 | 11 => return None,
            kind => usize::try_from((kind - 12) / 2).ok()?,
        };
        let bytes = payload.get(body..body.checked_add(length)?)?;
        body += length;
        values.push(match kind {
            0 => Value::Null,
            8 => Value::Integer(0),
            9 => Value::Integer(1),
            7 => Value::Real(f64::from_be_bytes(bytes.try_into().ok()?)),
            1..=6 => {
                let negative = bytes.first().is_some_and(|byte| byte & 0x80 != 0);
                let start = if negative { -1i64 } else { 0 };
                Value::Integer(bytes.iter().fold(start, |value, byte| value << 8 | i64::from(*byte)))
            }
            kind if kind % 2 == 0 => Value::Blob(bytes.to_vec()),
            _ => Value::Text(String::from_utf8(bytes.to_vec()).ok()?),
        });
    }
    Some(values)
}

/// The rows that were found so far.
#[derive(Default)]
struct InsertedRows {
    conversations: HashSet<i64>,
    used: HashSet<i64>,
}

impl InsertedRows {
    /// Inserts a row into the table whose form it has.
    fn take(&mut self, copy: &Connection, row: Row) -> rusqlite::Result<()> {
        let (key, values) = match row {
            Row::Keyed(key, values) => (key, values),
            Row::Bare(values) => {
                // Keep the id of the store and its counters. All other data without a key can be rebuilt.
                if let [Value::Text(name), value] = values.as_slice()
                    && ["store", "floor", "removed", "scrub"].contains(&name.as_str())
                {
                    copy.execute("INSERT OR REPLACE INTO meta VALUES (?1, ?2)", (name, value))?;
                }
                return Ok(());
            }
        };
        let taken = match values.as_slice() {
            [Value::Null, Value::Text(id)] if id.parse::<ConversationId>().is_ok() => {
                self.conversations.insert(key);
                copy.prepare_cached("INSERT OR IGNORE INTO conversation (key, id) VALUES (?1, ?2)")?
                    .execute((key, id))
            }
            [Value::Null, Value::Blob(hash), Value::Integer(_), Value::Blob(_)] if hash.len() == 32 => copy
                .prepare_cached(
                    "INSERT OR IGNORE INTO blob (key, hash, size, bytes) VALUES (?1, ?2, ?3, ?4)",
                )?
                .execute(rusqlite::params![key, values[1], values[2], values[3]]),
            [_, Value::Integer(conversation), ..] if is_entry(&values) => {
                self.used.insert(*conversation);
                let mut row = values.clone();
                row[0] = Value::Integer(key);
                // Rows of an older schema lack the column `before`.
                row.resize(14, Value::Null);
                // An older copy of a page may still contain content that was erased since.
                copy.prepare_cached(
                    "INSERT INTO entry (key, conversation, seq, id, parent, at, kind, source_time, inner, hash, salt, \
                     body, envelope, before) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14) \
                     ON CONFLICT (key) DO UPDATE SET inner = excluded.inner, salt = NULL, body = NULL \
                     WHERE excluded.salt IS NULL AND excluded.inner IS NOT NULL",
                )?
                .execute(rusqlite::params_from_iter(row))
            }
            // The row belongs to another table.
            _ => Ok(0),
        };
        match taken {
            // The row violates a constraint of its table: skip it.
            Err(why) if why.sqlite_error_code() == Some(rusqlite::ErrorCode::ConstraintViolation) => Ok(()),
            taken => taken.map(drop),
        }
    }

    /// Names conversations whose own row is lost: by the id in their header, or else by an id derived from their key.
    fn name_the_nameless(&self, copy: &Path) -> StoreResult<()> {
        let nameless: Vec<i64> = self.used.difference(&self.conversations).copied().collect();
        if nameless.is_empty() {
            return Ok(());
        }
        let mut reader = Reader::new(schema::reconnect(copy)?)?;
        let headers = reading::headers(&mut reader).unwrap_or_default();
        for key in nameless {
            let known = headers.iter().find(|(_, other)| *other == key).map(|(id, _)| *id);
            let id = known.unwrap_or_else(|| ConversationId::derive("lost", &key.to_string()));
            reader
                .connection
                .execute(
                    "INSERT OR IGNORE INTO conversation (key, id) VALUES (?1, ?2)",
                    (key, id.to_string()),
                )
                .during("making a copy")?;
        }
        Ok(())
    }
}
