//! Converts entries to rows, and back.

use std::collections::HashMap;

use jiff::Timestamp;
use rejoin_record::{
    Entry, EntryId, Envelope, Hash, Kind, Raw, Salt, Text,
    entry::{SaltedBody, VERSION},
};
use rusqlite::{
    Connection, Row,
    types::{Value, ValueRef},
};

use super::body::{PackedBody, Packer, Unpacker, Unreadable};
use crate::{
    row::{UnverifiedRow, damaged},
    sql,
    store::Damage,
};

/// The columns of an entry, in the order in which [`read_row`] takes them.
const COLUMNS: [&str; 14] = [
    "seq",
    "id",
    "parent",
    "at",
    "kind",
    "source_time",
    "inner",
    "hash",
    "salt",
    "body",
    "envelope",
    "key",
    "before",
    "conversation",
];

/// The columns that a file with this schema version has.
pub(super) fn columns_of(schema: i64) -> String {
    let column = |name: &&str| match *name {
        "before" if schema < BEFORE => String::from("NULL AS before"),
        name => format!("entry.{name}"),
    };
    COLUMNS.iter().map(column).collect::<Vec<_>>().join(", ")
}

/// The query for the rows of a conversation. It finds them by the index and reads them from the table, so that the two can be
/// compared. The last column is the `seq` in the index.
pub(super) fn in_order(columns: &str) -> String {
    format!(
        "SELECT {columns}, place.seq FROM entry AS place INDEXED BY entry_place CROSS JOIN entry ON entry.key = place.key \
         WHERE place.conversation = ?1"
    )
}

/// Whether a row agrees with the index entry that led to it.
pub(super) fn is_in_place(row: &Row<'_>, conversation: i64) -> rusqlite::Result<bool> {
    Ok(row.get::<_, i64>(13)? == conversation && row.get::<_, i64>(0)? == row.get::<_, i64>(14)?)
}

/// The first schema version with the column `before`.
const BEFORE: i64 = 3;

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Parent {
    /// Its `seq`; `None` if it is not in the store.
    pub(super) seq: Option<u64>,
    /// Its hash; `None` if it is not known.
    pub(super) hash: Option<Hash>,
}

/// Inserts an entry under a key.
pub(super) fn insert(
    connection: &Connection,
    packer: &mut Packer,
    (key, conversation): (i64, i64),
    entry: &Entry,
    parent: Parent,
) -> rusqlite::Result<()> {
    let envelope = entry.envelope();
    let mut used = Vec::new();
    let packed = entry.content().map(|content| packer.pack(content.body.as_str(), connection, &mut used));
    let body = match packed.transpose()? {
        None => Value::Null,
        Some(PackedBody::Text(text)) => Value::Text(text),
        Some(PackedBody::Block(block)) => Value::Blob(block),
    };
    let before = envelope
        .parent
        .zip(parent.hash)
        .map(|(id, hash)| [&id.as_uuid().as_bytes()[..], hash.as_bytes()].concat());
    let parent = match (parent.seq, envelope.parent) {
        (Some(seq), _) => Value::Integer(seq as i64),
        (None, Some(id)) => Value::Blob(id.as_uuid().as_bytes().to_vec()),
        (None, None) => Value::Null,
    };
    connection
        .prepare_cached(
            "INSERT INTO entry (key, conversation, seq, id, parent, at, kind, source_time, inner, hash, salt, body, \
             envelope, before) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
        )?
        .execute((
            key,
            conversation,
            envelope.seq as i64,
            envelope.id.as_uuid().as_bytes(),
            parent,
            envelope.timestamp.as_microsecond(),
            envelope.kind.as_str(),
            envelope.source_time.as_ref().map(Text::as_str),
            // Stored for erased entries only; otherwise it is computed from the body.
            entry.content().is_none().then(|| *entry.inner().as_bytes()),
            entry.hash().as_bytes(),
            entry.content().map(|content| content.salt.0),
            body,
            entry.spelling(),
            before,
        ))?;
    for blob in used {
        let insert = "INSERT OR IGNORE INTO blob_use (blob, entry) VALUES (?1, ?2)";
        sql::run(connection, insert, (blob, key))?;
    }
    Ok(())
}

/// Ids and hashes of entries by their `seq`, to verify their children.
#[derive(Default)]
pub(super) struct Parents {
    known: HashMap<u64, (EntryId, Hash)>,
    /// Whether the row's own data about its parent is trusted. The hash of the entry then verifies it.
    trust_rows: bool,
}

impl Parents {
    /// For single rows, whose parents are not read.
    pub(super) fn as_rows_say() -> Self {
        Self { trust_rows: true, ..Self::default() }
    }

    fn get(
        &mut self,
        seq: u64,
        conversation: i64,
        connection: &Connection,
    ) -> Result<Option<(EntryId, Hash)>, rusqlite::Error> {
        if let Some(known) = self.known.get(&seq) {
            return Ok(Some(*known));
        }
        let query = "SELECT id, hash FROM entry WHERE conversation = ?1 AND seq = ?2";
        let found = sql::first(connection, query, (conversation, seq as i64), |row| {
            Ok(bytes(row, 0).map(EntryId::from_bytes).zip(bytes(row, 1).map(Hash::from_bytes)))
        })?;
        let found = found.flatten();
        self.known.extend(found.map(|found| (seq, found)));
        Ok(found)
    }
}

fn bytes<const N: usize>(row: &Row<'_>, column: usize) -> Option<[u8; N]> {
    row.get_ref(column).ok()?.as_blob().ok()?.try_into().ok()
}

/// A row that cannot be read as an entry.
pub(super) struct BrokenRow {
    pub(super) damage: Damage,
    /// Whether a page of it cannot be read. The entry may be found elsewhere.
    pub(super) page: bool,
}

pub(super) fn read_row(
    row: &Row<'_>,
    conversation: i64,
    connection: &Connection,
    unpacker: &mut Unpacker,
    parents: &mut Parents,
) -> Result<UnverifiedRow, BrokenRow> {
    let seq = row.get::<_, i64>(0).unwrap_or(-1).unsigned_abs();
    columns(row, seq, conversation, connection, unpacker, parents).map_err(|why| {
        let (why, page) = match why {
            Unreadable::Changed(why) => (why, false),
            Unreadable::Page(why) => (why, true),
        };
        BrokenRow { damage: damaged(seq, why, raw_row(row)), page }
    })
}

fn columns(
    row: &Row<'_>,
    seq: u64,
    conversation: i64,
    connection: &Connection,
    unpacker: &mut Unpacker,
    parents: &mut Parents,
) -> Result<UnverifiedRow, Unreadable> {
    let missing = |what: &'static str| move || Unreadable::Changed(format!("its {what} cannot be read"));
    let text = |error: rusqlite::Error| Unreadable::database(error, "it cannot be read");
    let id = EntryId::from_bytes(bytes(row, 1).ok_or_else(missing("id"))?);
    let hash = Hash::from_bytes(bytes(row, 7).ok_or_else(missing("hash"))?);
    if !parents.trust_rows {
        parents.known.insert(seq, (id, hash));
    }
    let before = bytes::<48>(row, 12).map(|before| {
        let (id, hash) = before.split_at(16);
        let id = EntryId::from_bytes(id.try_into().expect("BUG: 16 of 48 bytes"));
        (id, Hash::from_bytes(hash.try_into().expect("BUG: 32 of 48 bytes")))
    });
    let mut candidates = Vec::new();
    let parent_id = match row.get_ref(2).map_err(text)? {
        ValueRef::Null => None,
        ValueRef::Integer(parent) => {
            let parent = u64::try_from(parent).ok().filter(|parent| *parent < seq);
            let parent = parent.ok_or_else(missing("parent"))?;
            if before.is_none() || !parents.trust_rows {
                candidates.extend(parents.get(parent, conversation, connection).map_err(text)?);
            }
            candidates.extend(before.filter(|before| !candidates.contains(before)));
            let first = candidates.first();
            let lost = || Unreadable::Changed(format!("its parent, number {parent}, is missing"));
            Some(first.ok_or_else(lost)?.0)
        }
        ValueRef::Blob(parent) => {
            let id = EntryId::from_bytes(parent.try_into().map_err(|_| missing("parent")())?);
            candidates.extend(before.filter(|before| before.0 == id));
            Some(id)
        }
        _ => return Err(missing("parent")()),
    };
    let timestamp = row.get(3).ok().and_then(|at| Timestamp::from_microsecond(at).ok());
    let kind = row.get_ref(4).ok().and_then(|kind| kind.as_str().ok()).ok_or_else(missing("kind"))?;
    let source_time = row.get_ref(5).ok().and_then(|time| time.as_str_or_null().ok());
    let content = match row.get_ref(8).map_err(text)? {
        ValueRef::Null => None,
        _ => {
            let salt = Salt(bytes(row, 8).ok_or_else(missing("salt"))?);
            let body = row.get_ref(9).map_err(text)?;
            Some(SaltedBody { salt, body: Raw::new(unpacker.unpack(body, connection)?) })
        }
    };
    let inner = match content {
        Some(_) => None,
        None => Some(Hash::from_bytes(bytes(row, 6).ok_or_else(missing("inner hash"))?)),
    };
    let spelling = row.get_ref(10).ok().and_then(|text| text.as_str_or_null().ok());
    let envelope = Envelope {
        version: VERSION,
        id,
        parent: parent_id,
        seq,
        timestamp: timestamp.ok_or_else(missing("time"))?,
        kind: Kind::named(kind),
        source_time: source_time.ok_or_else(missing("source time"))?.map(Text::new),
    };
    let spelling = spelling.ok_or_else(missing("envelope"))?.map(str::to_owned);
    Ok(UnverifiedRow { envelope, candidates, inner, hash, content, spelling })
}

/// The readable columns of a row that is not an entry, one per line.
fn raw_row(row: &Row<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    for (number, name) in COLUMNS.iter().enumerate() {
        let value = match row.get_ref(number) {
            Ok(ValueRef::Null) | Err(_) => vec![b'-'],
            Ok(ValueRef::Integer(value)) => value.to_string().into_bytes(),
            Ok(ValueRef::Real(value)) => value.to_string().into_bytes(),
            Ok(ValueRef::Text(text)) => text.to_vec(),
            Ok(ValueRef::Blob(bytes)) => {
                bytes.iter().flat_map(|byte| format!("{byte:02x}").into_bytes()).collect()
            }
        };
        out.extend([name.as_bytes(), b": ", &value, b"\n"].concat());
    }
    out
}
