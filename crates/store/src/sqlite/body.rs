//! How a column stores a body: large strings become references to blobs; the rest is text or compressed, whichever is shorter.
//!
//! JSON contains no raw control characters, so a reference, `\x01N\x01`, is unambiguous.

use std::ops::Range;

use rejoin_record::hash;
use rusqlite::{Connection, types::ValueRef};

use crate::sql;

/// Strings of at least this many bytes are stored once, in a separate table. For shorter ones that would not save space.
pub(super) const LARGE: usize = 2048;

/// Bodies below this size, in bytes, are stored as text, because compression would hardly shorten them.
const COMPRESSED_FROM: usize = 320;

/// The character around a reference.
const MARK: char = '\u{1}';

/// Compresses bodies and separates large strings.
pub(super) struct Packer {
    compressor: zstd::bulk::Compressor<'static>,
}

/// A body in its stored form.
pub(super) enum PackedBody {
    /// Uncompressed.
    Text(String),
    /// Its length in four bytes, little-endian, and an LZ4 block.
    Block(Vec<u8>),
}

impl Packer {
    pub(super) fn new() -> std::io::Result<Self> {
        let mut compressor = zstd::bulk::Compressor::new(1)?;
        // The row already has the size and a hash, so the frame needs no checksum.
        compressor.include_checksum(false)?;
        Ok(Self { compressor })
    }

    /// Packs a body. The keys of the blobs that it refers to are added to `used`.
    pub(super) fn pack(
        &mut self,
        body: &str,
        connection: &Connection,
        used: &mut Vec<i64>,
    ) -> rusqlite::Result<PackedBody> {
        let mut text = String::new();
        let mut at = 0;
        if body.len() >= LARGE {
            for string in large_strings(body) {
                text.push_str(&body[at..string.start]);
                let key = self.blob(body[string.clone()].as_bytes(), connection)?;
                used.push(key);
                text.push(MARK);
                text.push_str(&key.to_string());
                text.push(MARK);
                at = string.end;
            }
        }
        text.push_str(&body[at..]);
        if text.len() < COMPRESSED_FROM {
            return Ok(PackedBody::Text(text));
        }
        // LZ4 is fast, and every entry is packed with it. Blobs are fewer, so they get a stronger compression.
        let block = lz4_flex::block::compress_prepend_size(text.as_bytes());
        Ok(if block.len() < text.len() { PackedBody::Block(block) } else { PackedBody::Text(text) })
    }

    /// The key of a blob with these bytes.
    fn blob(&mut self, bytes: &[u8], connection: &Connection) -> rusqlite::Result<i64> {
        let hash = hash::of_bytes(bytes);
        let known = sql::one(connection, "SELECT key FROM blob WHERE hash = ?1", [hash.as_bytes()])?;
        if let Some(key) = known {
            return Ok(key);
        }
        let frame = self.compressor.compress(bytes).ok().filter(|frame| frame.len() < bytes.len());
        let kept = frame.as_deref().unwrap_or(bytes);
        let insert = "INSERT INTO blob (hash, size, bytes) VALUES (?1, ?2, ?3)";
        sql::run(connection, insert, (hash.as_bytes(), bytes.len() as i64, kept))?;
        Ok(connection.last_insert_rowid())
    }
}

/// Why a body cannot be restored.
#[derive(Debug)]
pub(super) enum Unreadable {
    /// The stored data was changed.
    Changed(String),
    /// A page of the file cannot be read. The body may still be found elsewhere.
    Page(String),
}

impl Unreadable {
    pub(super) fn database(error: rusqlite::Error, about: impl std::fmt::Display) -> Self {
        let why = format!("{about}: {error}");
        if super::is_damage(&error) { Self::Page(why) } else { Self::Changed(why) }
    }
}

impl From<&str> for Unreadable {
    fn from(why: &str) -> Self {
        Self::Changed(why.to_owned())
    }
}

/// Restores bodies.
pub(super) struct Unpacker {
    decompressor: zstd::bulk::Decompressor<'static>,
    /// How many bytes may still be expanded; `None` for no limit.
    allowance: Option<u64>,
}

/// The most bytes of a body.
const MOST: usize = rejoin_record::limits::BODY_BYTES;

/// How many bytes reading one conversation may expand to in any case.
const FREELY: u64 = 512 * 1024 * 1024;

/// The multiple of the file's size that may be expanded in addition. Text that many messages share is stored once, so reading
/// expands to more than the file, but never to this much more.
const TIMES: u64 = 64;

impl Unpacker {
    pub(super) fn new() -> std::io::Result<Self> {
        Ok(Self { decompressor: zstd::bulk::Decompressor::new()?, allowance: None })
    }

    /// Limits further expansion, so that a malicious file cannot fill the memory.
    pub(super) fn limit(&mut self, file_bytes: u64) {
        self.allowance = Some(FREELY.saturating_add(file_bytes.saturating_mul(TIMES)));
    }

    /// Removes the limit, for readers that keep no entry in memory.
    pub(super) fn unlimit(&mut self) {
        self.allowance = None;
    }

    /// Counts bytes before they are expanded.
    fn ask(&mut self, bytes: usize) -> Result<(), Unreadable> {
        let Some(left) = self.allowance else { return Ok(()) };
        let left = left.checked_sub(bytes as u64);
        self.allowance = Some(left.unwrap_or(0));
        left.map(drop).ok_or_else(|| Unreadable::from(BOMB))
    }

    /// Restores a body from its column.
    pub(super) fn unpack(
        &mut self,
        column: ValueRef<'_>,
        connection: &Connection,
    ) -> Result<String, Unreadable> {
        let text = match column {
            ValueRef::Text(text) => text.to_vec(),
            ValueRef::Blob(block) => self.expand(block)?,
            _ => return Err("the body is neither text nor compressed".into()),
        };
        let text = String::from_utf8(text).map_err(|_| Unreadable::from("the body is no text"))?;
        if !text.contains(MARK) {
            return Ok(text);
        }
        let mut whole = String::with_capacity(text.len());
        for (number, piece) in text.split(MARK).enumerate() {
            if number % 2 == 0 {
                whole.push_str(piece);
                continue;
            }
            let key: i64 = piece.parse().map_err(|_| Unreadable::from("a reference to a blob is damaged"))?;
            self.fetch(key, connection, &mut whole)?;
        }
        Ok(whole)
    }

    fn fetch(&mut self, key: i64, connection: &Connection, whole: &mut String) -> Result<(), Unreadable> {
        let failed = |error| Unreadable::database(error, format_args!("blob {key} cannot be read"));
        let changed = |why: &str| Unreadable::Changed(format!("blob {key} {why}"));
        let mut statement =
            connection.prepare_cached("SELECT size, bytes FROM blob WHERE key = ?1").map_err(failed)?;
        let mut rows = statement.query([key]).map_err(failed)?;
        let row = rows.next().map_err(failed)?.ok_or_else(|| changed("is missing"))?;
        let size: i64 = row.get(0).map_err(failed)?;
        let size = usize::try_from(size).ok().filter(|size| *size <= MOST);
        let size = size.ok_or_else(|| changed("has an impossible size"))?;
        let bytes = row.get_ref(1).and_then(|value| Ok(value.as_blob()?)).map_err(failed)?;
        if whole.len() + size > MOST {
            return Err("the body is larger than any body".into());
        }
        self.ask(size)?;
        let inflated;
        let text = if bytes.len() == size {
            bytes
        } else {
            inflated = self.inflate(bytes, size)?;
            &inflated
        };
        whole.push_str(std::str::from_utf8(text).map_err(|_| changed("is no text"))?);
        Ok(())
    }

    fn inflate(&mut self, frame: &[u8], size: usize) -> Result<Vec<u8>, Unreadable> {
        // The frame and the row must agree on the size before memory is allocated.
        let said = zstd::zstd_safe::get_frame_content_size(frame).ok().flatten();
        if said != Some(size as u64) {
            return Err(DAMAGED.into());
        }
        self.decompressor.decompress(frame, size).map_err(|_| DAMAGED.into())
    }

    /// The text of an LZ4 block that begins with its length.
    fn expand(&mut self, block: &[u8]) -> Result<Vec<u8>, Unreadable> {
        let damaged = || Unreadable::from(DAMAGED);
        let (size, _) = lz4_flex::block::uncompressed_size(block).map_err(|_| damaged())?;
        // One byte of LZ4 expands to at most 255 bytes.
        if size > MOST || size / 255 > block.len() {
            return Err(damaged());
        }
        self.ask(size)?;
        lz4_flex::block::decompress_size_prepended(block).map_err(|_| damaged())
    }
}

const DAMAGED: &str = "a compressed text is damaged";
const BOMB: &str =
    "the file holds more compressed text than a conversation of its size can have; it is not expanded";

/// The positions of the large strings of a JSON text, without their quotes.
fn large_strings(text: &str) -> Vec<Range<usize>> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(open) = find(bytes, at, |byte| byte == b'"') {
        let mut end = open + 1;
        loop {
            match find(bytes, end, |byte| byte == b'"' || byte == b'\\') {
                Some(place) if bytes[place] == b'\\' => end = place + 2,
                Some(place) => {
                    end = place;
                    break;
                }
                // The end of the text. A body is valid JSON, so its strings are closed.
                None => return found,
            }
        }
        if end - open > LARGE {
            found.push(open + 1..end);
        }
        at = end + 1;
    }
    found
}

fn find(bytes: &[u8], from: usize, wanted: impl Fn(u8) -> bool) -> Option<usize> {
    bytes.get(from..)?.iter().position(|byte| wanted(*byte)).map(|place| from + place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_strings_are_found_whatever_is_escaped_in_them() {
        let long = "x\\\"\\\\".repeat(LARGE);
        let text = format!(r#"{{"a":"short","b":"{long}","c":["{long}"]}}"#);
        let found = large_strings(&text);
        assert_eq!(found.len(), 2);
        assert!(found.iter().all(|range| text[range.clone()] == long));
    }
}
