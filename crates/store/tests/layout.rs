//! Checks by hand what `docs/reference/storage.md` says about the bytes on disk: hashes by BLAKE3 over the layout on that page, LZ4
//! blocks by the few lines that the format needs. It does not call the code that wrote them.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

mod support;

use std::{collections::HashMap, fs, path::Path};

use rejoin_record::{Entry, Kind, Message, Text};
use rejoin_store::{Location, Store};
use rusqlite::{Connection, types::Value};
use support::{Talk, WRITE, folder, jsonl, tail};

/// BLAKE3 over fields, each after its length: eight bytes, little end first.
fn hash_of(fields: &[&[u8]]) -> String {
    let mut bytes = Vec::new();
    for field in fields {
        bytes.extend((field.len() as u64).to_le_bytes());
        bytes.extend_from_slice(field);
    }
    blake3::hash(&bytes).to_hex().to_string()
}

fn unhex(digits: &str) -> Vec<u8> {
    (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap()).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Every shape that an entry can have: small and large bodies, a branch, a source's time, an unknown kind.
fn entries() -> (Talk, Vec<Entry>) {
    let (mut talk, mut entries) = Talk::of(3, 4);
    let words: String = (0..400).map(|number| format!("word {number} of many; ")).collect();
    entries.push(talk.user(&words));
    entries.push(talk.say(Message::tool("c1", format!("the same output: {words}"))));
    entries.push(talk.say(Message::tool("c2", format!("the same output: {words}"))));
    let early = entries[2].clone();
    entries.push(talk.under(&early, "somewhere else"));
    entries.push(talk.body(Kind::named("mood"), &entries[7].clone(), r#"{"mood":"good","n":1.50}"#));
    entries.push(talk.body(Kind::Raw, &entries[8].clone(), &format!(r#"{{"text":"{}"}}"#, "ab".repeat(600))));
    let mut stamp = talk.stamp();
    stamp.source_time = Some(Text::new("1763200000.5 \"soon\""));
    let content = rejoin_record::Content::Message(Message::user("imported"));
    entries.push(talk.chain.append(Kind::Message, &content, stamp));
    (talk, entries)
}

/// The second entry of the two is erased, and the note about it appended.
fn fill(store: &dyn Store) -> (Talk, Vec<Entry>) {
    let (mut talk, mut entries) = entries();
    store.append(talk.id, None, &entries).unwrap();
    let note = talk.erased(entries[6].id());
    store.erase(talk.id, tail(&entries).unwrap(), entries[6].id(), &note).unwrap();
    entries[6] = entries[6].erased();
    entries.push(note);
    (talk, entries)
}

/// A line, split at the marks that the page names.
struct Line<'l> {
    envelope: &'l str,
    inner: &'l str,
    hash: &'l str,
    content: Option<(&'l str, &'l str)>,
}

fn take_apart(line: &str) -> Line<'_> {
    let line = line.strip_prefix('{').unwrap().strip_suffix('}').unwrap();
    let (envelope, rest) = line.split_once(r#","inner":""#).unwrap();
    let (inner, rest) = rest.split_once(r#"","hash":""#).unwrap();
    let (hash, rest) = rest.split_at(64);
    let content = rest.strip_prefix(r#"","salt":""#).map(|rest| {
        let (salt, body) = rest.split_once('"').unwrap();
        (salt, body.strip_prefix(r#","body":"#).or(body.strip_prefix(r#","metadata":"#)).unwrap())
    });
    assert_eq!(content.is_none(), rest == "\"", "an erased line ends behind its hash: {rest}");
    Line { envelope, inner, hash, content }
}

#[test]
fn lines_hash_as_the_page_says() {
    let folder = folder();
    let (talk, entries) = fill(&*jsonl(folder.path()));
    let text = fs::read_to_string(folder.path().join(format!("{}.jsonl", talk.id))).unwrap();
    assert_eq!(text.lines().count(), entries.len());
    let mut hashes: HashMap<String, String> = HashMap::new();
    for (seq, line) in text.lines().enumerate() {
        let parts = take_apart(line);
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!((value["seq"].as_u64(), &value["v"]), (Some(seq as u64), &"1.0".into()));
        assert_eq!(parts.content.is_none(), seq == 6, "only what was erased has no content");
        if let Some((salt, body)) = parts.content {
            assert_eq!(hash_of(&[b"rejoin body 1", &unhex(salt), body.as_bytes()]), parts.inner, "{line}");
        }
        let parent = value["parent"].as_str().map_or_else(Vec::new, |parent| unhex(&hashes[parent]));
        let hash = hash_of(&[b"rejoin entry 1", parts.envelope.as_bytes(), &parent, &unhex(parts.inner)]);
        assert_eq!(hash, parts.hash, "{line}");
        hashes.insert(value["id"].as_str().unwrap().to_owned(), hash);
    }
    assert!(text.contains(r#""type":"message","source_time":"1763200000.5 \"soon\"","inner":"#));
}

/// An LZ4 block after four bytes of length.
fn unlz4(block: &[u8]) -> Vec<u8> {
    let size = u32::from_le_bytes(block[..4].try_into().unwrap()) as usize;
    let mut input = block[4..].iter().copied();
    let mut out: Vec<u8> = Vec::new();
    let more = |input: &mut dyn Iterator<Item = u8>, nibble: u8| {
        let mut length = usize::from(nibble);
        while length >= 15 {
            let byte = input.next().unwrap();
            length += usize::from(byte);
            if byte < 255 {
                break;
            }
        }
        length
    };
    while let Some(token) = input.next() {
        let literals = more(&mut input, token >> 4);
        out.extend(input.by_ref().take(literals));
        let Some(low) = input.next() else { break };
        let back = usize::from(low) | usize::from(input.next().unwrap()) << 8;
        for _ in 0..more(&mut input, token & 15) + 4 {
            out.push(out[out.len() - back]);
        }
    }
    assert_eq!(out.len(), size);
    out
}

/// The body in a column, with the blobs that it refers to.
fn body_of(column: Value, blobs: &HashMap<i64, String>, met: &mut [usize; 3]) -> String {
    let text = match column {
        Value::Text(text) => {
            met[0] += 1;
            text
        }
        Value::Blob(block) => {
            met[1] += 1;
            String::from_utf8(unlz4(&block)).unwrap()
        }
        other => panic!("{other:?}"),
    };
    let pieces = text.split('\u{1}').enumerate().map(|(number, piece)| {
        if number % 2 == 0 {
            return piece.to_owned();
        }
        met[2] += 1;
        blobs[&piece.parse::<i64>().unwrap()].clone()
    });
    pieces.collect()
}

fn blobs_of(database: &Connection) -> HashMap<i64, String> {
    let mut query = database.prepare("SELECT key, hash, size, bytes FROM blob").unwrap();
    let rows = query.query_map([], |row| {
        Ok((
            row.get::<_, i64>(0)?,
            row.get::<_, Vec<u8>>(1)?,
            row.get::<_, i64>(2)?,
            row.get::<_, Vec<u8>>(3)?,
        ))
    });
    let blob = |row: rusqlite::Result<(i64, Vec<u8>, i64, Vec<u8>)>| {
        let (key, hash, size, bytes) = row.unwrap();
        let bytes = if bytes.len() as i64 == size { bytes } else { zstd::decode_all(&bytes[..]).unwrap() };
        assert_eq!(bytes.len() as i64, size);
        assert_eq!(hash_of(&[b"rejoin bytes 1", &bytes]), hex(&hash));
        (key, String::from_utf8(bytes).unwrap())
    };
    rows.unwrap().map(blob).collect()
}

fn uuid(bytes: &[u8]) -> String {
    let digits = hex(bytes);
    [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]].join("-")
}

/// The lines of a database, put together from its columns alone.
fn lines_of(path: &Path, met: &mut [usize; 3]) -> Vec<String> {
    let database = Connection::open(path).unwrap();
    let blobs = blobs_of(&database);
    let mut query = database
        .prepare(
            "SELECT seq, id, parent, at, kind, source_time, inner, hash, salt, body, envelope FROM entry \
             WHERE conversation = (SELECT key FROM conversation) ORDER BY seq",
        )
        .unwrap();
    let mut rows = query.query([]).unwrap();
    let (mut lines, mut known): (Vec<String>, Vec<(String, Vec<u8>)>) = (Vec::new(), Vec::new());
    while let Some(row) = rows.next().unwrap() {
        let (seq, id): (i64, Vec<u8>) = (row.get(0).unwrap(), row.get(1).unwrap());
        let (id, hash): (String, Vec<u8>) = (uuid(&id), row.get(7).unwrap());
        let (parent, parent_hash) = match row.get(2).unwrap() {
            Value::Null => (String::from("null"), Vec::new()),
            Value::Integer(parent) => {
                let (id, hash) = &known[usize::try_from(parent).unwrap()];
                (format!("\"{id}\""), hash.clone())
            }
            other => panic!("a parent that is not here: {other:?}"),
        };
        let at = jiff::Timestamp::from_microsecond(row.get(3).unwrap()).unwrap();
        let kind: String = row.get(4).unwrap();
        let mut envelope = format!(
            r#""v":"1.0","id":"{id}","parent":{parent},"seq":{seq},"timestamp":"{at:.6}","type":"{kind}""#
        );
        if let Some(time) = row.get::<_, Option<String>>(5).unwrap() {
            envelope += &format!(r#","source_time":{}"#, serde_json::to_string(&time).unwrap());
        }
        assert_eq!(
            row.get::<_, Option<String>>(10).unwrap(),
            None,
            "only what a newer version wrote has its own"
        );
        let salt: Option<Vec<u8>> = row.get(8).unwrap();
        let kept: Option<Vec<u8>> = row.get(6).unwrap();
        let (inner, content) = match salt {
            None => (kept.expect("what was erased keeps its inner hash"), String::new()),
            Some(salt) => {
                assert_eq!(kept, None, "the inner hash follows from the body");
                let body = body_of(row.get(9).unwrap(), &blobs, met);
                let name = if kind == "header" { "metadata" } else { "body" };
                let inner = unhex(&hash_of(&[b"rejoin body 1", &salt, body.as_bytes()]));
                (inner, format!(r#","salt":"{}","{name}":{body}"#, hex(&salt)))
            }
        };
        let computed = hash_of(&[b"rejoin entry 1", envelope.as_bytes(), &parent_hash, &inner]);
        assert_eq!(computed, hex(&hash), "entry {seq}");
        lines.push(format!(r#"{{{envelope},"inner":"{}","hash":"{computed}"{content}}}"#, hex(&inner)));
        known.push((id, hash));
    }
    lines
}

#[test]
fn rows_are_what_the_page_says() {
    let folder = folder();
    let path = folder.path().join("rejoin.db");
    let entries = {
        let store = rejoin_store::open(&Location::Sqlite(path.clone()), WRITE).unwrap();
        fill(&*store).1
    };
    let mut met = [0; 3];
    let lines = lines_of(&path, &mut met);
    assert_eq!(lines, entries.iter().map(Entry::to_line).collect::<Vec<_>>());
    assert!(met.iter().all(|count| *count > 0), "text, blocks and blobs were all met: {met:?}");
    let database = Connection::open(&path).unwrap();
    let one = |query: &str| database.query_row(query, [], |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!(one("PRAGMA user_version"), 3);
    assert_eq!(one("PRAGMA application_id"), i64::from(u32::from_be_bytes(*b"rejo")));
    assert_eq!(one("PRAGMA page_size"), 8192);
    // An output that occurs twice and was erased once is still there for the other message.
    assert_eq!((one("SELECT count(*) FROM blob"), one("SELECT count(*) FROM blob_use")), (2, 2));
    drop(database);
    // The index can be deleted, and is made again.
    let index = folder.path().join("rejoin.db-index");
    assert!(index.is_file());
    fs::remove_file(&index).unwrap();
    let store = rejoin_store::open(&Location::Sqlite(path), WRITE).unwrap();
    assert_eq!(store.list(&Default::default()).unwrap().total, 1);
    assert!(index.is_file());
}
