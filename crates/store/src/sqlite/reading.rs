//! Reading what is there, whatever became of the file: around damaged rows and pages.

use std::{cell::Cell, ops::ControlFlow, sync::mpsc};

use rejoin_record::{Content, ConversationId, Entry, EntryId, Tree};
use rusqlite::{Connection, OptionalExtension as _};

use super::{
    Inner, Reader, failed,
    rows::{self, Parents},
};
use crate::{
    error::StoreError,
    store::{Damage, Each, Item, Place},
};

/// Reads a conversation from a place. Where a page cannot be read, the store is rescued, and reading goes on from there.
pub(super) fn read(
    inner: &Inner,
    conversation: ConversationId,
    from: u64,
    each: Each<'_>,
) -> Result<(), StoreError> {
    let mut next = from;
    loop {
        let why = match walk(inner, conversation, &mut next, each) {
            Err(why) if why.is_damage() => why,
            walked => return walked,
        };
        if !inner.rescue(&why) {
            return Err(why);
        }
        let place = Place::Row(next);
        let damage =
            Damage { place, why: format!("a page is damaged ({why})"), bytes: Vec::new(), torn: false };
        if each(Item::Damage(damage)).is_break() {
            return Ok(());
        }
    }
}

/// Hands out what stands from a place on, and keeps count of what was handed out.
fn walk(
    inner: &Inner,
    conversation: ConversationId,
    next: &mut u64,
    each: Each<'_>,
) -> Result<(), StoreError> {
    let mut reader = inner.moment()?;
    let reader = reader.reader.as_mut().expect("BUG: just borrowed");
    reader.unpacker.limit(inner.bytes());
    let key = match Inner::key_of(&reader.connection, conversation)? {
        Some(key) => key,
        // A damaged index does not find what is there.
        None if key_without_index(&reader.connection, conversation)?.is_some() => {
            let why = String::from("the index of conversations does not find one that is in the table");
            return Err(StoreError::Damaged { place: Place::Store, why });
        }
        None => return Err(StoreError::NotFound(conversation)),
    };
    let mut page = None;
    let mut stopped = false;
    let (from, last) = (*next, Cell::new(*next));
    let mut hand = |(seq, loose): Read| {
        last.set(seq + 1);
        let mut give = |item: Item| {
            stopped |= each(item).is_break();
            if stopped { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        if seq > *next {
            give(Item::Damage(lost(*next, seq - 1)))?;
        }
        *next = seq;
        match loose {
            Err(broken) if broken.page => {
                page = Some(broken.damage.why);
                return ControlFlow::Break(());
            }
            Err(broken) => give(Item::Damage(broken.damage))?,
            Ok(loose) => match loose.fasten() {
                Err(damage) => give(Item::Damage(damage))?,
                Ok(fast) => {
                    let doubt = fast.doubt();
                    give(Item::Entry(fast.entry))?;
                    doubt.map_or(ControlFlow::Continue(()), |doubt| give(Item::Damage(doubt)))?;
                }
            },
        }
        *next = seq + 1;
        ControlFlow::Continue(())
    };
    // A few rows are not worth a thread; whoever reads many waits for two instead of one.
    let mut walked = rows_from(reader, key, from, FEW, &mut hand);
    if matches!(walked, Ok(FEW)) {
        let from = last.get();
        walked = in_two_steps(|hand| rows_from(reader, key, from, usize::MAX, hand), &mut hand);
    }
    match (page, walked) {
        (Some(why), _) => Err(StoreError::Damaged { place: Place::Row(*next), why }),
        (None, Err(why)) if !stopped => Err(failed("reading the conversation")(why)),
        _ => Ok(()),
    }
}

/// What is handed out in the place of entries that are not there any more.
fn lost(first: u64, last: u64) -> Damage {
    let why = if first == last {
        String::from("the entry is lost")
    } else {
        format!("the entries up to number {last} are lost")
    };
    Damage { place: Place::Row(first), why, bytes: Vec::new(), torn: false }
}

/// A row, read and not checked yet, with its place.
pub(super) type Read = (u64, Result<rows::Loose, rows::Broken>);

/// Hands out the rows of a conversation from a place on, and says how many; none, if it was stopped.
pub(super) fn rows_from(
    Reader { connection, unpacker, columns }: &mut Reader,
    key: i64,
    from: u64,
    most: usize,
    hand: &mut dyn FnMut(Read) -> ControlFlow<()>,
) -> rusqlite::Result<usize> {
    let mut parents = Parents::default();
    let query = format!("{} AND place.seq >= ?2 ORDER BY place.seq", rows::in_order(columns));
    let mut statement = connection.prepare_cached(&query)?;
    let mut rows = statement.query((key, from as i64))?;
    let mut handed = 0;
    while let Some(row) = rows.next()? {
        let seq = row.get::<_, i64>(0)?.unsigned_abs();
        handed += 1;
        let loose = if rows::is_in_place(row, key)? {
            rows::loosen(row, key, connection, unpacker, &mut parents)
        } else {
            Err(rows::Broken::misplaced(seq))
        };
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
fn key_without_index(
    connection: &Connection,
    conversation: ConversationId,
) -> Result<Option<i64>, StoreError> {
    let query = "SELECT key FROM conversation NOT INDEXED WHERE id = ?1";
    let found = connection.query_row(query, [conversation.to_string()], |row| row.get(0)).optional();
    found.map_err(failed("looking for the conversation"))
}

/// The conversations whose ids begin in some way, in order.
pub(super) fn ids(
    connection: &Connection,
    prefix: &str,
    limit: usize,
) -> rusqlite::Result<Vec<ConversationId>> {
    let bare = prefix.strip_prefix(ConversationId::PREFIX).unwrap_or(prefix);
    let mut statement = connection
        .prepare_cached("SELECT id FROM conversation WHERE id >= ?1 AND id < ?2 ORDER BY id LIMIT ?3")?;
    // A tilde comes behind every letter of an id.
    let from = format!("{}{bare}", ConversationId::PREFIX);
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let rows = statement.query_map((&from, format!("{from}~"), limit), |row| row.get::<_, String>(0))?;
    Ok(rows.collect::<rusqlite::Result<Vec<_>>>()?.into_iter().filter_map(|id| id.parse().ok()).collect())
}

/// The conversations whose headers can be read and that the list of conversations lacks.
pub(super) fn unlisted(reader: &mut Reader) -> rusqlite::Result<Vec<ConversationId>> {
    let listed: std::collections::HashSet<_> =
        ids(&reader.connection, "", usize::MAX).unwrap_or_default().into_iter().collect();
    Ok(headers(reader)?.into_iter().map(|(id, _)| id).filter(|id| !listed.contains(id)).collect())
}

/// The conversations whose headers can be read, with their keys.
pub(super) fn headers(reader: &mut Reader) -> rusqlite::Result<Vec<(ConversationId, i64)>> {
    let Reader { connection, unpacker, columns } = reader;
    let mut found = Vec::new();
    let mut statement =
        connection.prepare(&format!("SELECT {columns} FROM entry NOT INDEXED WHERE seq = 0"))?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let key = row.get(13)?;
        let entry = rows::decode(row, key, connection, unpacker, &mut Parents::default());
        if let Some(Content::Header(header)) = entry.ok().map(|entry| Content::of(&entry)) {
            found.push((header.conversation, key));
        }
    }
    Ok(found)
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

/// One row of the way back: its place, the entry if it is what it was, and the place of its parent.
type Step = (u64, Option<Entry>, Option<u64>);

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
    let mut reader = inner.moment()?;
    let Reader { connection, unpacker, columns } = reader.reader.as_mut().expect("BUG: just borrowed");
    unpacker.limit(inner.bytes());
    // Whoever reads all of it finds out why it is not found, and does something about it.
    let Ok(Some(key)) = Inner::key_of(connection, conversation) else { return Ok(Walked::Stuck(0)) };
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
            let query =
                format!("{} AND place.seq <= ?2 ORDER BY place.seq DESC LIMIT 64", rows::in_order(columns));
            let mut statement = connection.prepare_cached(&query)?;
            let mut rows = statement.query((key, wanted as i64))?;
            let mut found = Vec::new();
            while let Some(row) = rows.next()? {
                let seq = row.get::<_, i64>(0)?.unsigned_abs();
                let parent = row.get::<_, Option<i64>>(2).ok().flatten().map(i64::unsigned_abs);
                if !rows::is_in_place(row, key)? {
                    found.push((seq, None, parent));
                    continue;
                }
                let loose = rows::loosen(row, key, connection, unpacker, &mut parents);
                let entry = loose.ok().and_then(|loose| loose.fasten().ok()).filter(|fast| fast.proven);
                found.push((seq, entry.map(|fast| fast.entry), parent));
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
            let Some(entry) = entry else { return Ok(Walked::Stuck(seen)) };
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
