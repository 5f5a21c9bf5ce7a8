//! Converts entries to rows, and back.

use jiff::Timestamp;
use rejoin_record::{
    Entry, EntryId, Envelope, Hash, Kind, Raw, Salt, Text,
    entry::{SaltedBody, VERSION},
};
use tokio_postgres::{Row, types::ToSql};

use crate::{
    row::{UnverifiedRow, damaged},
    scan::Parent,
    store::Damage,
};

/// The columns of an entry, in the order in which [`read`] takes them.
pub(super) const COLUMNS: &str =
    "seq, id, parent, parent_hash, at, kind, source_time, inner_hash, hash, salt, body, envelope";

/// The number of [`COLUMNS`].
pub(super) const COUNT: usize = 12;

/// The columns of a batch of entries.
#[derive(Default)]
pub(super) struct Columns<'e> {
    pub(super) seq: Vec<i64>,
    pub(super) id: Vec<uuid::Uuid>,
    pub(super) parent: Vec<Option<uuid::Uuid>>,
    pub(super) parent_hash: Vec<Option<Vec<u8>>>,
    pub(super) at: Vec<i64>,
    pub(super) kind: Vec<&'e str>,
    pub(super) source_time: Vec<Option<&'e str>>,
    pub(super) inner_hash: Vec<Option<Vec<u8>>>,
    pub(super) hash: Vec<Vec<u8>>,
    pub(super) salt: Vec<Option<Vec<u8>>>,
    pub(super) body: Vec<Option<&'e [u8]>>,
    pub(super) envelope: Vec<Option<String>>,
}

impl<'e> Columns<'e> {
    pub(super) fn of(entries: &'e [Entry], parents: &[Parent]) -> Self {
        let mut columns = Self::default();
        for (entry, parent) in entries.iter().zip(parents) {
            let envelope = entry.envelope();
            // A PostgreSQL text cannot contain a zero byte. The envelope as JSON escapes it.
            let can_hold = |text: &&str| !text.contains('\0');
            let kind = envelope.kind.as_str();
            let source_time = envelope.source_time.as_ref().map(Text::as_str);
            let is_plain = can_hold(&kind) && source_time.as_ref().is_none_or(can_hold);
            columns.seq.push(envelope.seq as i64);
            columns.id.push(envelope.id.as_uuid());
            columns.parent.push(envelope.parent.map(|parent| parent.as_uuid()));
            columns.parent_hash.push(parent.map(|(_, hash)| hash.as_bytes().to_vec()));
            columns.at.push(envelope.timestamp.as_microsecond());
            columns.kind.push(Some(kind).filter(can_hold).unwrap_or_default());
            columns.source_time.push(source_time.filter(can_hold));
            columns.inner_hash.push(entry.content().is_none().then(|| entry.inner().as_bytes().to_vec()));
            columns.hash.push(entry.hash().as_bytes().to_vec());
            columns.salt.push(entry.content().map(|content| content.salt.0.to_vec()));
            columns.body.push(entry.content().map(|content| content.body.as_str().as_bytes()));
            let spelling = entry.spelling().map(str::to_owned);
            columns.envelope.push(if is_plain { spelling } else { Some(entry.envelope_text().into_owned()) });
        }
        columns
    }

    /// The SQL for the batch as a table `e`, whose columns are the parameters numbered from `first`.
    pub(super) fn unnest(first: usize) -> String {
        let types = [
            "bigint", "uuid", "uuid", "bytea", "bigint", "text", "text", "bytea", "bytea", "bytea", "bytea",
            "text",
        ];
        let columns: Vec<String> =
            (first..).zip(types).map(|(number, of)| format!("${number}::{of}[]")).collect();
        format!("unnest({}) AS e ({COLUMNS})", columns.join(", "))
    }

    pub(super) fn bind<'c>(&'c self, values: &mut Vec<&'c (dyn ToSql + Sync)>) {
        values.extend([
            &self.seq as &(dyn ToSql + Sync),
            &self.id,
            &self.parent,
            &self.parent_hash,
            &self.at,
            &self.kind,
            &self.source_time,
            &self.inner_hash,
            &self.hash,
            &self.salt,
            &self.body,
            &self.envelope,
        ]);
    }
}

/// The inner hash of a row's salt and body; `None` if they were erased or cannot be read.
pub(super) fn inner_hash(salt: Option<&[u8]>, body: Option<&[u8]>) -> Option<Hash> {
    let salt = Salt(salt?.try_into().ok()?);
    let body = Raw::new(std::str::from_utf8(body?).ok()?);
    Some(SaltedBody { salt, body }.hash())
}

/// Reads a row that has [`COLUMNS`].
pub(super) fn read(row: &Row) -> (u64, Result<UnverifiedRow, Damage>) {
    let seq = row.get::<_, i64>(0).unsigned_abs();
    (
        seq,
        columns(row, seq)
            .map_err(|why| damaged(seq, why, row.get::<_, Option<&[u8]>>(10).unwrap_or_default().to_vec())),
    )
}

fn columns(row: &Row, seq: u64) -> Result<UnverifiedRow, String> {
    let missing = |what: &str| format!("its {what} cannot be read");
    let hash = |column: usize, what: &str| -> Result<Option<Hash>, String> {
        let bytes: Option<&[u8]> = row.get(column);
        let bytes = bytes.map(|bytes| bytes.try_into().map_err(|_| missing(what))).transpose()?;
        Ok(bytes.map(Hash::from_bytes))
    };
    let id = |column: usize| {
        row.get::<_, Option<uuid::Uuid>>(column).map(|id| EntryId::from_bytes(*id.as_bytes()))
    };
    let parent = id(2);
    let content = match row.get::<_, Option<&[u8]>>(9) {
        None => None,
        Some(salt) => {
            let salt = Salt(salt.try_into().map_err(|_| missing("salt"))?);
            let body: Option<&[u8]> = row.get(10);
            let body = body.and_then(|body| std::str::from_utf8(body).ok()).ok_or_else(|| missing("body"))?;
            Some(SaltedBody { salt, body: Raw::new(body) })
        }
    };
    let inner = if content.is_some() { None } else { hash(7, "inner hash")? };
    if content.is_none() && inner.is_none() {
        return Err(missing("inner hash"));
    }
    let envelope = Envelope {
        version: VERSION,
        id: id(1).ok_or_else(|| missing("id"))?,
        parent,
        seq,
        timestamp: Timestamp::from_microsecond(row.get(4)).map_err(|_| missing("time"))?,
        kind: Kind::named(row.get(5)),
        source_time: row.get::<_, Option<&str>>(6).map(Text::new),
    };
    let candidates = parent.zip(hash(3, "parent")?).into_iter().collect();
    let spelling = row.get::<_, Option<String>>(11);
    Ok(UnverifiedRow {
        envelope,
        candidates,
        inner,
        hash: hash(8, "hash")?.ok_or_else(|| missing("hash"))?,
        content,
        spelling,
    })
}
