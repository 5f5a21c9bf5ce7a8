//! Reading what is there, whatever became of the file: around damaged rows and pages.

use std::{ops::ControlFlow, path::Path, sync::mpsc};

use rejoin_record::{Content, ConversationId, Entry, EntryId, Tree};
use rusqlite::Connection;

use super::{
    Inner, Reader,
    body::Unpacker,
    failed, nowhere, opening,
    rows::{self, Parents},
    schema,
};
use crate::{
    error::StoreError,
    store::{Damage, Each, Item, Place},
};

/// Reads a conversation from a place.
pub(super) fn read(
    inner: &Inner,
    conversation: ConversationId,
    from: u64,
    each: Each<'_>,
) -> Result<(), StoreError> {
    let mut reader = inner.reader()?;
    let Reader { connection, unpacker } = reader.reader.as_mut().expect("BUG: just borrowed");
    let key = match Inner::key_of(connection, conversation) {
        Ok(Some(key)) => key,
        // A damaged index does not find what is there.
        Ok(None) => {
            let key = key_without_index(connection, conversation);
            let key = key.ok_or(StoreError::NotFound(conversation))?;
            if each(nowhere(String::from("the index of conversations is damaged"))).is_break() {
                return Ok(());
            }
            key
        }
        // The table of conversations is damaged; headers know their conversation too.
        Err(why) => {
            let key = key_from_headers(connection, unpacker, conversation).ok_or(why)?;
            if each(nowhere(String::from("the list of conversations is damaged"))).is_break() {
                return Ok(());
            }
            key
        }
    };
    let mut next = from;
    let mut stopped = false;
    let reader = reader.reader.as_mut().expect("BUG: just borrowed");
    let mut hand = |(seq, loose): Read| {
        next = seq + 1;
        let flow = each(match loose.and_then(rows::Loose::fasten) {
            Ok(entry) => Item::Entry(entry),
            Err(damage) => Item::Damage(damage),
        });
        stopped |= flow.is_break();
        flow
    };
    // A few rows are not worth a thread; whoever reads many waits for two instead of one.
    let mut last = from;
    let mut walked = rows_from(reader, key, from, FEW, &mut |row| {
        last = row.0 + 1;
        hand(row)
    });
    if matches!(walked, Ok(FEW)) {
        walked = in_two_steps(|hand| rows_from(reader, key, last, usize::MAX, hand), &mut hand);
    }
    let why = match walked {
        Err(why) if !stopped => why,
        _ => return Ok(()),
    };
    // A page cannot be read. What lies behind it is found without it.
    let damage = |why: String, place| Item::Damage(Damage { place, why, bytes: Vec::new(), torn: false });
    if each(damage(format!("the file is damaged: {why}"), Place::Row(next))).is_break() {
        return Ok(());
    }
    let copy = opening::carved_copy(&inner.path)?;
    let rest = from_copy(&copy, conversation, next, each);
    opening::remove(&copy);
    rest
}

/// Reads the rest of a conversation from what was found in the file page by page.
fn from_copy(copy: &Path, conversation: ConversationId, from: u64, each: Each<'_>) -> Result<(), StoreError> {
    let connection = schema::reconnect(copy)?;
    let unpacker = Unpacker::new().map_err(StoreError::io("setting up decompression"))?;
    let Some(key) = Inner::key_of(&connection, conversation)? else { return Ok(()) };
    let mut reader = Reader { connection, unpacker };
    let read = rows_from(&mut reader, key, from, usize::MAX, &mut |(_, loose)| {
        each(match loose.and_then(rows::Loose::fasten) {
            Ok(entry) => Item::Entry(entry),
            Err(damage) => Item::Damage(damage),
        })
    });
    read.map(drop).map_err(failed("reading what was found"))
}

/// A row, read and not checked yet, with its place.
pub(super) type Read = (u64, Result<rows::Loose, Damage>);

/// Hands out the rows of a conversation from a place on, and says how many; none, if it was stopped.
pub(super) fn rows_from(
    Reader { connection, unpacker }: &mut Reader,
    key: i64,
    from: u64,
    most: usize,
    hand: &mut dyn FnMut(Read) -> ControlFlow<()>,
) -> rusqlite::Result<usize> {
    let mut parents = Parents::default();
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {} FROM entry WHERE conversation = ?1 AND seq >= ?2 ORDER BY seq",
        rows::COLUMNS
    ))?;
    let mut rows = statement.query((key, from as i64))?;
    let mut handed = 0;
    while let Some(row) = rows.next()? {
        let seq = row.get::<_, i64>(0)?.unsigned_abs();
        handed += 1;
        let loose = rows::loosen(row, key, connection, unpacker, &mut parents);
        if hand((seq, loose)).is_break() {
            return Ok(0);
        }
        if handed == most {
            break;
        }
    }
    Ok(handed)
}

/// Rows that are read before a thread of its own is worth it. In tests both ways are taken.
const FEW: usize = if cfg!(debug_assertions) { 5 } else { 256 };

/// Rows that go from one thread to the other at once.
const AT_ONCE: usize = 64;

/// Reads in one thread and uses what was read in another, in order.
fn in_two_steps(
    read: impl FnOnce(&mut dyn FnMut(Read) -> ControlFlow<()>) -> rusqlite::Result<usize> + Send,
    each: &mut dyn FnMut(Read) -> ControlFlow<()>,
) -> rusqlite::Result<usize> {
    let (send, receive) = mpsc::sync_channel::<Vec<Read>>(8);
    std::thread::scope(|scope| {
        let reading = scope.spawn(move || {
            let mut batch = Vec::with_capacity(AT_ONCE);
            let walked = read(&mut |row| {
                batch.push(row);
                if batch.len() < AT_ONCE {
                    return ControlFlow::Continue(());
                }
                // Nobody listens any more: enough was read.
                let sent = send.send(std::mem::replace(&mut batch, Vec::with_capacity(AT_ONCE)));
                if sent.is_err() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            let _ = send.send(batch);
            walked
        });
        'all: for batch in &receive {
            for row in batch {
                if each(row).is_break() {
                    break 'all;
                }
            }
        }
        drop(receive);
        reading.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// The key of a conversation, from the table itself.
fn key_without_index(connection: &Connection, conversation: ConversationId) -> Option<i64> {
    let query = "SELECT key FROM conversation NOT INDEXED WHERE id = ?1";
    connection.query_row(query, [conversation.to_string()], |row| row.get(0)).ok()
}

/// The key of a conversation, from the headers of the entries.
fn key_from_headers(
    connection: &Connection,
    unpacker: &mut Unpacker,
    conversation: ConversationId,
) -> Option<i64> {
    headers(connection, unpacker).into_iter().find(|(id, _)| *id == conversation).map(|(_, key)| key)
}

/// The conversations whose headers can be read, with their keys.
pub(super) fn headers(connection: &Connection, unpacker: &mut Unpacker) -> Vec<(ConversationId, i64)> {
    let mut found = Vec::new();
    let mut walk = || -> rusqlite::Result<()> {
        let mut statement = connection.prepare(&format!(
            "SELECT {}, conversation FROM entry NOT INDEXED WHERE seq = 0",
            rows::COLUMNS
        ))?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let key = row.get(12)?;
            let entry = rows::decode(row, key, connection, unpacker, &mut Parents::default());
            if let Some(Content::Header(header)) = entry.ok().map(|entry| Content::of(&entry)) {
                found.push((header.conversation, key));
            }
        }
        Ok(())
    };
    let _ = walk();
    found
}

/// Reads an entry and its ancestors, newest first.
pub(super) fn ancestors(
    inner: &Inner,
    conversation: ConversationId,
    of: Option<EntryId>,
    each: Each<'_>,
) -> Result<(), StoreError> {
    match straight(inner, conversation, of, each)? {
        Walked::Done => Ok(()),
        // Something on the way cannot be read: everything is, and the way is found around it.
        Walked::Stuck(seen) => {
            let (mut entries, mut damage) = (Vec::new(), Vec::new());
            read(inner, conversation, 0, &mut |item| {
                match item {
                    Item::Entry(entry) => entries.push(entry),
                    Item::Damage(found) => damage.push(found),
                }
                ControlFlow::Continue(())
            })?;
            let tree = Tree::new(&entries);
            let head = match of {
                None => tree.head(),
                Some(id) => Some(tree.get(id).ok_or(StoreError::NoSuchEntry(id))?),
            };
            let (path, _) = head.map(|head| tree.path_to(head)).unwrap_or_default();
            for found in damage {
                if each(Item::Damage(found)).is_break() {
                    return Ok(());
                }
            }
            for entry in path.into_iter().rev().skip(seen) {
                if each(Item::Entry(entry.clone())).is_break() {
                    break;
                }
            }
            Ok(())
        }
    }
}

/// One row of the way back: its place, the entry, and the place of its parent.
type Step = (u64, Result<Entry, Damage>, Option<u64>);

/// How far a walk came.
enum Walked {
    /// To its end.
    Done,
    /// So many entries were handed out; then one could not be read.
    Stuck(usize),
}

/// Follows the parents, which is nearly always the row before.
fn straight(
    inner: &Inner,
    conversation: ConversationId,
    of: Option<EntryId>,
    each: Each<'_>,
) -> Result<Walked, StoreError> {
    let mut reader = inner.reader()?;
    let Reader { connection, unpacker } = reader.reader.as_mut().expect("BUG: just borrowed");
    let Some(key) = Inner::key_of(connection, conversation)? else {
        return Err(StoreError::NotFound(conversation));
    };
    let mut wanted = match of {
        None => match Inner::tail_of(connection, key) {
            Ok(Some(tail)) => tail.seq,
            Ok(None) => return Ok(Walked::Done),
            Err(_) => return Ok(Walked::Stuck(0)),
        },
        Some(id) => match seq_of(connection, key, id) {
            Ok(seq) => seq,
            Err(StoreError::NoSuchEntry(id)) => return Err(StoreError::NoSuchEntry(id)),
            Err(_) => return Ok(Walked::Stuck(0)),
        },
    };
    let mut parents = Parents::default();
    let mut seen = 0;
    // One descending scan serves a stretch of entries that follow each other; a branch begins a new one.
    'stretch: loop {
        let mut scan = || -> rusqlite::Result<Vec<Step>> {
            let mut statement = connection.prepare_cached(&format!(
                "SELECT {} FROM entry WHERE conversation = ?1 AND seq <= ?2 ORDER BY seq DESC LIMIT 64",
                rows::COLUMNS
            ))?;
            let mut rows = statement.query((key, wanted as i64))?;
            let mut found = Vec::new();
            while let Some(row) = rows.next()? {
                let seq = row.get::<_, i64>(0)?.unsigned_abs();
                let parent = row.get::<_, Option<i64>>(2).ok().flatten().map(i64::unsigned_abs);
                found.push((seq, rows::decode(row, key, connection, unpacker, &mut parents), parent));
            }
            Ok(found)
        };
        let Ok(found) = scan() else { return Ok(Walked::Stuck(seen)) };
        if found.first().is_none_or(|(seq, _, _)| *seq != wanted) {
            return Ok(Walked::Stuck(seen));
        }
        for (seq, entry, parent) in found {
            if seq != wanted {
                continue;
            }
            let Ok(entry) = entry else { return Ok(Walked::Stuck(seen)) };
            let root = entry.envelope().parent.is_none();
            seen += 1;
            if each(Item::Entry(entry)).is_break() || root {
                return Ok(Walked::Done);
            }
            match parent {
                Some(parent) => wanted = parent,
                None => return Ok(Walked::Stuck(seen)),
            }
            if wanted + 1 != seq {
                continue 'stretch;
            }
        }
    }
}

fn seq_of(connection: &Connection, key: i64, id: EntryId) -> Result<u64, StoreError> {
    use rusqlite::OptionalExtension as _;
    let found: Option<i64> = connection
        .query_row(
            "SELECT seq FROM entry WHERE conversation = ?1 AND id = ?2",
            (key, id.as_uuid().as_bytes()),
            |row| row.get(0),
        )
        .optional()
        .map_err(failed("looking for the entry"))?;
    found.map(i64::unsigned_abs).ok_or(StoreError::NoSuchEntry(id))
}
