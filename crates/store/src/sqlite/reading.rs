//! Reads conversations, around damaged rows and pages.

use std::{cell::Cell, ops::ControlFlow};

use rejoin_record::{Content, ConversationId};
use rusqlite::Connection;

use super::{
    ErrorContext as _, Inner, PooledReader, Reader,
    body::Unpacker,
    rows::{self, Parents},
};
use crate::{
    error::{StoreError, StoreResult},
    row::{InOrder, UnverifiedRow, lost},
    scan, sql,
    store::{Damage, OnItem, StoragePlace, StoredItem},
};

/// Reads a conversation from a `seq` on. If a page cannot be read, the store is rescued, and reading continues from there.
pub(super) fn read(
    inner: &Inner,
    conversation: ConversationId,
    from: u64,
    each: OnItem<'_>,
) -> StoreResult<()> {
    let mut next = from;
    loop {
        let why = match walk(inner, conversation, &mut next, each) {
            Err(why) if why.is_damage() => why,
            walked => return walked,
        };
        if !inner.rescue(&why) {
            return Err(why);
        }
        let damage = Damage::at(StoragePlace::Row(next), format!("a page is damaged ({why})"), Vec::new());
        if each(StoredItem::Damage(damage)).is_break() {
            return Ok(());
        }
    }
}

/// A reader in a transaction, so that it sees one moment of the store, and the key of a conversation in it.
fn reader_of(inner: &Inner, id: ConversationId) -> StoreResult<(PooledReader<'_>, i64)> {
    let mut reader = inner.moment()?;
    reader.unpacker.limit(inner.bytes());
    let key = key(&reader.connection, id)?;
    Ok((reader, key))
}

/// Reads single entries by their `seq`.
pub(super) fn read_at(
    inner: &Inner,
    id: ConversationId,
    places: &[u64],
    each: OnItem<'_>,
) -> StoreResult<()> {
    let (mut reader, key) = reader_of(inner, id)?;
    let reader = &mut *reader;
    let mut hand = |(_, unverified): Read| {
        each(match unverified.map_err(|broken| broken.damage).and_then(UnverifiedRow::verify) {
            Err(damage) => StoredItem::Damage(damage),
            Ok(verified) => verified.doubt().map_or(StoredItem::Entry(verified.entry), StoredItem::Damage),
        })
    };
    let read = if places.len() <= FEW {
        rows_at(reader, key, places, &mut hand)
    } else {
        scan::in_two_threads(|hand| rows_at(reader, key, places, hand), &mut hand)
    };
    read.during("reading an entry")
}

/// Passes single rows of a conversation to the caller.
fn rows_at(
    Reader { connection, unpacker, columns }: &mut Reader,
    key: i64,
    places: &[u64],
    hand: &mut dyn FnMut(Read) -> ControlFlow<()>,
) -> rusqlite::Result<()> {
    let mut parents = Parents::as_rows_say();
    let query = format!("{} AND place.seq = ?2", rows::in_order(columns));
    let mut statement = connection.prepare_cached(&query)?;
    for place in places {
        let mut rows = statement.query((key, *place as i64))?;
        let read = match rows.next()? {
            Some(row) => read_one(row, key, connection, unpacker, &mut parents)?,
            None => (*place, Err(rows::BrokenRow { damage: lost(*place, *place), page: false })),
        };
        if hand(read).is_break() {
            break;
        }
    }
    Ok(())
}

/// Reads the current row of a query.
fn read_one(
    row: &rusqlite::Row<'_>,
    key: i64,
    connection: &Connection,
    unpacker: &mut Unpacker,
    parents: &mut Parents,
) -> rusqlite::Result<Read> {
    let seq = row.get::<_, i64>(0)?.unsigned_abs();
    let unverified = if rows::is_in_place(row, key)? {
        rows::read_row(row, key, connection, unpacker, parents)
    } else {
        let why = "the index of entries leads to another entry";
        Err(rows::BrokenRow { damage: Damage::at(StoragePlace::Row(seq), why, Vec::new()), page: true })
    };
    Ok((seq, unverified))
}

/// The key of a conversation.
fn key(connection: &Connection, conversation: ConversationId) -> StoreResult<i64> {
    match Inner::key_of(connection, conversation)? {
        Some(key) => Ok(key),
        // A damaged index may fail to find an existing row.
        None if key_without_index(connection, conversation)?.is_some() => {
            let why = String::from("the index of conversations does not find one that is in the table");
            Err(StoreError::Damaged { place: StoragePlace::Store, why })
        }
        None => Err(StoreError::NotFound(conversation)),
    }
}

/// Passes on everything from a `seq` on, and counts it.
pub(super) fn walk(
    inner: &Inner,
    conversation: ConversationId,
    next: &mut u64,
    each: OnItem<'_>,
) -> StoreResult<()> {
    let (mut reader, key) = reader_of(inner, conversation)?;
    let reader = &mut *reader;
    let mut page = None;
    let (from, last) = (*next, Cell::new(*next));
    let mut rows = InOrder::from(*next, each);
    let mut hand = |(seq, unverified): Read| {
        last.set(seq + 1);
        match unverified {
            Err(broken) if broken.page => {
                rows.skip_to(seq)?;
                page = Some(broken.damage.why);
                ControlFlow::Break(())
            }
            unverified => rows.hand(seq, unverified.map_err(|broken| broken.damage)),
        }
    };
    // A few rows are not worth starting a thread.
    let mut walked = rows_from(reader, key, from, FEW, &mut hand);
    if matches!(walked, Ok(FEW)) {
        let from = last.get();
        walked = scan::in_two_threads(|hand| rows_from(reader, key, from, usize::MAX, hand), &mut hand);
    }
    let _ = rows.flush();
    *next = rows.next;
    match (page, walked) {
        (Some(why), _) => Err(StoreError::Damaged { place: StoragePlace::Row(*next), why }),
        (None, Err(why)) if !rows.stopped => Err(why).during("reading the conversation"),
        _ => Ok(()),
    }
}

/// A row that was read but not verified, with its `seq`.
pub(super) type Read = (u64, Result<UnverifiedRow, rows::BrokenRow>);

/// Passes on the rows of a conversation from a `seq` on, and returns their number; 0 if the caller stopped.
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
        handed += 1;
        if hand(read_one(row, key, connection, unpacker, &mut parents)?).is_break() {
            return Ok(0);
        }
        if handed == most {
            break;
        }
    }
    Ok(handed)
}

/// How many rows are read before a second thread is used. Tests cover both ways.
const FEW: usize = if cfg!(debug_assertions) { 5 } else { 256 };

/// The key of a conversation, found in the table itself and not by its index.
fn key_without_index(connection: &Connection, conversation: ConversationId) -> StoreResult<Option<i64>> {
    let query = "SELECT key FROM conversation NOT INDEXED WHERE id = ?1";
    sql::one(connection, query, [conversation.to_string()]).during("looking for the conversation")
}

/// The conversations whose ids begin with a prefix, in order.
pub(super) fn ids(
    connection: &Connection,
    prefix: &str,
    limit: usize,
) -> rusqlite::Result<Vec<ConversationId>> {
    let bare = prefix.strip_prefix(ConversationId::PREFIX).unwrap_or(prefix);
    let query = "SELECT id FROM conversation WHERE id >= ?1 AND id < ?2 ORDER BY id LIMIT ?3";
    // A tilde sorts after every letter of an id.
    let from = format!("{}{bare}", ConversationId::PREFIX);
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let ids: Vec<String> = sql::all(connection, query, (&from, format!("{from}~"), limit), |row| row.get(0))?;
    Ok(ids.into_iter().filter_map(|id| id.parse().ok()).collect())
}

/// The conversations that have readable headers but are missing from the list of conversations.
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
        let unverified = rows::read_row(row, key, connection, unpacker, &mut Parents::default());
        let verified = unverified.ok().and_then(|unverified| unverified.verify().ok());
        if let Some(Content::Header(header)) = verified.map(|verified| Content::of(&verified.entry)) {
            found.push((header.conversation, key));
        }
    }
    Ok(found)
}
