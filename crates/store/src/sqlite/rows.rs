//! An entry as a row, and back.

use std::collections::HashMap;

use jiff::Timestamp;
use rejoin_record::{
    Entry, EntryId, Envelope, Hash, Kind, Raw, Salt, Text,
    entry::{SaltedBody, VERSION},
};
use rusqlite::{Connection, Row, types::ValueRef};

use super::body::{Packed, Packer, Unpacker, Unreadable};
use crate::{
    scan, sql,
    store::{Damage, Place},
};

/// The columns that make an entry, in the order in which [`loosen`] takes them.
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

/// The columns as a file of some version of the schema has them.
pub(super) fn columns_of(schema: i64) -> String {
    let column = |name: &&str| match *name {
        "before" if schema < BEFORE => String::from("NULL AS before"),
        name => format!("entry.{name}"),
    };
    COLUMNS.iter().map(column).collect::<Vec<_>>().join(", ")
}

/// The rows of a conversation, found by the index and taken from the table: what the index says of a row and what the row says
/// of itself can be compared. After the columns stands the place that the index has for it.
pub(super) fn in_order(columns: &str) -> String {
    format!(
        "SELECT {columns}, place.seq FROM entry AS place INDEXED BY entry_place CROSS JOIN entry ON entry.key = place.key \
         WHERE place.conversation = ?1"
    )
}

/// Whether a row is the one that the index promised.
pub(super) fn is_in_place(row: &Row<'_>, conversation: i64) -> rusqlite::Result<bool> {
    Ok(row.get::<_, i64>(13)? == conversation && row.get::<_, i64>(0)? == row.get::<_, i64>(14)?)
}

/// The schema that brought the column `before`.
const BEFORE: i64 = 3;

/// What an entry was appended to.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Parent {
    /// Its place, if it is in the store.
    pub(super) seq: Option<u64>,
    /// Its hash, if it is known.
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
    let body: rusqlite::types::Value = match packed.transpose()? {
        None => rusqlite::types::Value::Null,
        Some(Packed::Text(text)) => rusqlite::types::Value::Text(text),
        Some(Packed::Block(block)) => rusqlite::types::Value::Blob(block),
    };
    let before = envelope.parent.zip(parent.hash).map(|(id, hash)| {
        let mut before = id.as_uuid().as_bytes().to_vec();
        before.extend_from_slice(hash.as_bytes());
        before
    });
    let parent = match (parent.seq, envelope.parent) {
        (Some(seq), _) => rusqlite::types::Value::Integer(seq as i64),
        (None, Some(id)) => rusqlite::types::Value::Blob(id.as_uuid().as_bytes().to_vec()),
        (None, None) => rusqlite::types::Value::Null,
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
            // The body has it, as long as it is there.
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

/// Id and hash of entries by their place: what children are rebuilt and verified with.
#[derive(Default)]
pub(super) struct Parents {
    known: HashMap<u64, (EntryId, Hash)>,
}

impl Parents {
    fn get(
        &mut self,
        seq: u64,
        conversation: i64,
        connection: &Connection,
    ) -> Result<Option<(EntryId, Hash)>, rusqlite::Error> {
        if let Some(known) = self.known.get(&seq) {
            return Ok(Some(*known));
        }
        let mut statement =
            connection.prepare_cached("SELECT id, hash FROM entry WHERE conversation = ?1 AND seq = ?2")?;
        let mut rows = statement.query((conversation, seq as i64))?;
        let Some(row) = rows.next()? else { return Ok(None) };
        let (Some(id), Some(hash)) = (bytes(row, 0), bytes(row, 1)) else { return Ok(None) };
        let found = (EntryId::from_bytes(id), Hash::from_bytes(hash));
        self.known.insert(seq, found);
        Ok(Some(found))
    }
}

fn bytes<const N: usize>(row: &Row<'_>, column: usize) -> Option<[u8; N]> {
    row.get_ref(column).ok()?.as_blob().ok()?.try_into().ok()
}

/// A row whose columns were read, and nothing was checked yet. Reading needs the connection; checking takes longer, and can be
/// done by another thread.
pub(super) struct Loose {
    envelope: Envelope,
    /// What the entry may have been appended to, the likeliest first. The hash of the entry tells which one it was.
    candidates: Vec<(EntryId, Hash)>,
    inner: Option<Hash>,
    hash: Hash,
    content: Option<SaltedBody>,
    spelling: Option<String>,
}

fn damaged(seq: u64, why: String, bytes: Vec<u8>) -> Damage {
    Damage { place: Place::Row(seq), why, bytes, torn: false }
}

/// A row that is no entry.
pub(super) struct Broken {
    pub(super) damage: Damage,
    /// Whether a page that belongs to it cannot be read. Without that page, the entry may be found whole.
    pub(super) page: bool,
}

impl Broken {
    /// A row that the index found and that belongs somewhere else.
    pub(super) fn misplaced(seq: u64) -> Self {
        let why = String::from("the index of entries leads to another entry");
        Self { damage: damaged(seq, why, Vec::new()), page: true }
    }
}

/// Reads the columns of a row.
pub(super) fn loosen(
    row: &Row<'_>,
    conversation: i64,
    connection: &Connection,
    unpacker: &mut Unpacker,
    parents: &mut Parents,
) -> Result<Loose, Broken> {
    let seq = row.get::<_, i64>(0).unwrap_or(-1).unsigned_abs();
    columns(row, seq, conversation, connection, unpacker, parents).map_err(|why| {
        let (why, page) = match why {
            Unreadable::Changed(why) => (why, false),
            Unreadable::Page(why) => (why, true),
        };
        Broken { damage: damaged(seq, why, raw_row(row)), page }
    })
}

fn columns(
    row: &Row<'_>,
    seq: u64,
    conversation: i64,
    connection: &Connection,
    unpacker: &mut Unpacker,
    parents: &mut Parents,
) -> Result<Loose, Unreadable> {
    let missing = |what: &'static str| move || Unreadable::from(format!("its {what} cannot be read"));
    let text = |error: rusqlite::Error| Unreadable::database(error, "it cannot be read");
    let id = EntryId::from_bytes(bytes(row, 1).ok_or_else(missing("id"))?);
    let hash = Hash::from_bytes(bytes(row, 7).ok_or_else(missing("hash"))?);
    parents.known.insert(seq, (id, hash));
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
            candidates.extend(parents.get(parent, conversation, connection).map_err(text)?);
            candidates.extend(before.filter(|before| !candidates.contains(before)));
            let first = candidates.first();
            let lost = || Unreadable::from(format!("its parent, number {parent}, is missing"));
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
    Ok(Loose { envelope, candidates, inner, hash, content, spelling })
}

impl Loose {
    /// The entry, verified: its body and its place in the chain are what they were when it was appended.
    pub(super) fn fasten(self) -> Result<Fast, Damage> {
        let Self { mut envelope, candidates, inner, hash, content, spelling } = self;
        let seq = envelope.seq;
        let inner = match (&content, inner) {
            (Some(content), _) => content.hash(),
            (None, Some(inner)) => inner,
            (None, None) => return Err(damaged(seq, String::from("its inner hash is missing"), Vec::new())),
        };
        let made = |envelope: Envelope| match &spelling {
            None => Ok(Entry::from_parts(envelope, None, inner, hash, content.clone())),
            Some(text) => respelled(text, inner, hash, content.as_ref(), &envelope)
                .map_err(|why| damaged(seq, why, text.clone().into_bytes())),
        };
        if envelope.parent.is_none() || candidates.is_empty() {
            // The hash of the body was just computed, so the hash of the whole says whether it is the right one. After an
            // entry that is lost, nothing does.
            let lost = envelope.parent.is_some();
            let entry = made(envelope)?;
            return if lost {
                Ok(Fast { entry, parent: None, proven: false })
            } else if entry.follows(None) {
                Ok(Fast { entry, parent: None, proven: true })
            } else {
                Err(changed(&entry))
            };
        }
        let mut last = None;
        for (id, parent) in candidates {
            envelope.parent = Some(id);
            match made(envelope.clone()) {
                Ok(entry) if entry.follows(Some(parent)) => {
                    return Ok(Fast { entry, parent: Some(parent), proven: true });
                }
                made => last = Some(made),
            }
        }
        Err(match last.expect("BUG: there was a candidate") {
            Ok(entry) => changed(&entry),
            Err(damage) => damage,
        })
    }
}

/// An entry that was checked as far as that is possible.
pub(super) struct Fast {
    pub(super) entry: Entry,
    /// The hash of its parent, if it is known.
    pub(super) parent: Option<Hash>,
    /// Whether its hash proves it. That of an entry whose parent is lost does not.
    pub(super) proven: bool,
}

impl Fast {
    /// What a reader must be told about it.
    pub(super) fn doubt(&self) -> Option<Damage> {
        if self.proven {
            return None;
        }
        let why = scan::unproven(self.entry.id());
        Some(damaged(self.entry.envelope().seq, why, Vec::new()))
    }
}

fn changed(entry: &Entry) -> Damage {
    let why = format!("entry {} is not what it was when it was appended", entry.id());
    damaged(entry.envelope().seq, why, entry.to_line().into_bytes())
}

/// An entry whose envelope has more in it than this version would write.
fn respelled(
    text: &str,
    inner: Hash,
    hash: Hash,
    content: Option<&SaltedBody>,
    columns: &Envelope,
) -> Result<Entry, String> {
    let body = content.map_or_else(String::new, |content| {
        let name = if columns.kind == Kind::Header { "metadata" } else { "body" };
        format!(",\"salt\":\"{}\",\"{name}\":{}", content.salt, content.body.as_str())
    });
    let line = format!("{{{text},\"inner\":\"{inner}\",\"hash\":\"{hash}\"{body}}}");
    let entry = Entry::from_line(&line).map_err(|error| error.to_string())?;
    let same = (entry.id(), entry.envelope().seq, entry.envelope().parent)
        == (columns.id, columns.seq, columns.parent);
    if same { Ok(entry) } else { Err(String::from("its envelope and its columns differ")) }
}

/// What can be read of a row that is no entry: its columns, one a line.
fn raw_row(row: &Row<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    for (number, name) in COLUMNS.iter().enumerate() {
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b": ");
        match row.get_ref(number) {
            Ok(ValueRef::Null) | Err(_) => out.extend_from_slice(b"-"),
            Ok(ValueRef::Integer(value)) => out.extend_from_slice(value.to_string().as_bytes()),
            Ok(ValueRef::Real(value)) => out.extend_from_slice(value.to_string().as_bytes()),
            Ok(ValueRef::Text(text)) => out.extend_from_slice(text),
            Ok(ValueRef::Blob(bytes)) => {
                out.extend(bytes.iter().flat_map(|byte| format!("{byte:02x}").into_bytes()));
            }
        }
        out.push(b'\n');
    }
    out
}
