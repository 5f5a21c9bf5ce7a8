//! Secrets that only their issuer understands: signatures of thinking, encrypted reasoning, signatures of calls.
//!
//! Each one is bound to the asker (service, model, account) and to the prefix: everything in the request before it, in a form that
//! does not depend on how messages were cut or where cache marks are. A returned secret is compared with that: one that was never
//! issued, or was altered, moved, or sent by another account, is wrong.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use serde_json::Value;

use super::Service;

/// The asker, to which a secret is bound in addition to its prefix.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Asker {
    pub service: Service,
    pub model: String,
    pub account: String,
}

/// Everything that was issued. Clones share it, so that another server can continue after one was stopped.
#[derive(Debug, Clone, Default)]
pub struct Issued(Arc<Mutex<Books>>);

#[derive(Debug, Default)]
struct Books {
    bonds: HashMap<String, Bond>,
    /// Which secrets belong to an item or a call, by its id.
    attached: HashMap<String, (Asker, Vec<String>)>,
    /// Prefixes that were processed before, the content of a provider's cache.
    seen: HashMap<Asker, HashSet<blake3::Hash>>,
}

#[derive(Debug, Clone)]
struct Bond {
    asker: Asker,
    prefix: blake3::Hash,
    block: String,
    next: Option<String>,
}

impl Issued {
    fn books(&self) -> MutexGuard<'_, Books> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many secrets were issued.
    #[must_use]
    pub fn len(&self) -> usize {
        self.books().bonds.len()
    }

    /// Whether nothing was issued.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The secrets that this asker got with the item or call of that id.
    pub(super) fn attached(&self, id: &str, asker: &Asker) -> Vec<String> {
        let books = self.books();
        books.attached.get(id).filter(|(to, _)| to == asker).map(|(_, ids)| ids.clone()).unwrap_or_default()
    }
}

/// A returned secret, with its surroundings.
#[derive(Debug, Clone)]
pub(super) struct Secret {
    pub key: String,
    /// The block that carries it, in canonical form.
    pub block: String,
    /// The block after it, if that matters.
    pub next: Option<String>,
}

/// A piece of a request: the smallest unit that can be moved.
#[derive(Debug, Clone)]
pub(super) struct Piece {
    /// Its path, such as `messages.3.content.0`.
    pub place: String,
    /// Its content, in canonical form; `None` if it may be left out.
    pub feed: Option<String>,
    pub secret: Option<Secret>,
}

impl Piece {
    /// A piece without a secret.
    pub fn plain(place: impl Into<String>, feed: String) -> Self {
        Self { place: place.into(), feed: Some(feed), secret: None }
    }
}

/// The fault in a returned secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    Unknown,
    Altered,
    /// It was issued to another model, account or service.
    Foreign,
    /// The content before it has changed.
    Moved,
    /// The content after it has changed.
    Bereft,
}

/// A secret that must not be there.
#[derive(Debug, Clone)]
pub(super) struct Wrong {
    pub place: String,
    pub key: String,
    pub why: Why,
}

/// The result of reading a request.
#[derive(Debug)]
pub(super) struct Walk {
    pub trail: Trail,
    pub wrong: Vec<Wrong>,
    /// Bytes that count as input.
    pub bytes: u64,
    /// How many of them were processed before.
    pub cached: u64,
}

/// Everything so far, as a hash that grows.
#[derive(Debug, Clone, Default)]
pub(super) struct Trail(blake3::Hasher);

impl Trail {
    pub fn feed(&mut self, text: &str) {
        self.0.update(&(text.len() as u64).to_le_bytes());
        self.0.update(text.as_bytes());
    }

    pub fn hash(&self) -> blake3::Hash {
        self.0.finalize()
    }
}

/// Reads a request from its beginning and compares every secret in it with the issued ones.
pub(super) fn walk(issued: &Issued, asker: &Asker, pieces: &[Piece]) -> Walk {
    let mut books = issued.books();
    let mut seen = books.seen.remove(asker).unwrap_or_default();
    let mut walk = Walk { trail: Trail::default(), wrong: Vec::new(), bytes: 0, cached: 0 };
    for piece in pieces {
        if let Some(secret) = &piece.secret {
            let why = match books.bonds.get(&secret.key) {
                None => Some(Why::Unknown),
                Some(bond) if bond.asker != *asker => Some(Why::Foreign),
                Some(bond) if bond.block != secret.block => Some(Why::Altered),
                Some(bond) if bond.prefix != walk.trail.hash() => Some(Why::Moved),
                Some(bond) if bond.next.is_some() && bond.next != secret.next => Some(Why::Bereft),
                Some(_) => None,
            };
            if let Some(why) = why {
                walk.wrong.push(Wrong { place: piece.place.clone(), key: secret.key.clone(), why });
            }
        }
        if let Some(feed) = &piece.feed {
            walk.trail.feed(feed);
            walk.bytes += feed.len() as u64;
            if seen.contains(&walk.trail.hash()) {
                walk.cached = walk.bytes;
            }
        }
    }
    seen.insert(walk.trail.hash());
    books.seen.insert(asker.clone(), seen);
    walk
}

/// Writes an answer to a request: issues secrets, and makes ids.
pub(super) struct Issuer<'a> {
    pub issued: &'a Issued,
    pub asker: &'a Asker,
    pub trail: Trail,
    count: u64,
}

impl<'a> Issuer<'a> {
    pub fn new(issued: &'a Issued, asker: &'a Asker, trail: Trail) -> Self {
        Self { issued, asker, trail, count: 0 }
    }

    /// Bytes that depend on everything so far and on the asker. They never repeat within one answer.
    pub fn dice(&mut self) -> blake3::Hash {
        self.count += 1;
        let mut hasher = self.trail.0.clone();
        hasher.update(&self.count.to_le_bytes());
        for word in [self.asker.service.name(), &self.asker.model, &self.asker.account] {
            hasher.update(&(word.len() as u64).to_le_bytes());
            hasher.update(word.as_bytes());
        }
        hasher.finalize()
    }

    /// An id: a prefix and this many letters and digits.
    pub fn id(&mut self, prefix: &str, length: usize) -> String {
        const LETTERS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
        let mut dice = self.dice();
        let mut id = String::from(prefix);
        for place in 0..length {
            if place > 0 && place % 32 == 0 {
                dice = blake3::hash(dice.as_bytes());
            }
            id.push(LETTERS[usize::from(dice.as_bytes()[place % 32]) % 62] as char);
        }
        id
    }

    /// A secret of this many bytes, in base64. The block that carries it must be passed to [`Self::bind`].
    pub fn secret(&mut self, content: &str, length: usize) -> String {
        let mut hasher = blake3::Hasher::new();
        hasher.update(self.dice().as_bytes());
        hasher.update(content.as_bytes());
        let mut bytes = vec![0; length];
        hasher.finalize_xof().fill(&mut bytes);
        base64(&bytes)
    }

    /// Binds a secret to what comes before it, and to what carries it.
    pub fn bind(&mut self, secret: &Secret) {
        let bond = Bond {
            asker: self.asker.clone(),
            prefix: self.trail.hash(),
            block: secret.block.clone(),
            next: secret.next.clone(),
        };
        self.issued.books().bonds.insert(secret.key.clone(), bond);
    }

    /// Notes that an item or a call came with these secrets.
    pub fn attach(&mut self, id: &str, secrets: &[String]) {
        self.issued.books().attached.insert(id.to_owned(), (self.asker.clone(), secrets.to_vec()));
    }

    /// The path of the next pieces of the answer.
    pub fn say(&mut self, piece: &Piece) {
        if let Some(secret) = &piece.secret {
            self.bind(secret);
        }
        if let Some(feed) = &piece.feed {
            self.trail.feed(feed);
        }
    }

    /// The answer is complete: a cache would hold it now.
    pub fn done(self) {
        self.issued.books().seen.entry(self.asker.clone()).or_default().insert(self.trail.hash());
    }
}

/// JSON with sorted keys and without white space, so that equal values have equal texts.
pub(super) fn canonical(value: &Value) -> String {
    sorted(value, &|_| true).to_string()
}

/// Canonical JSON without some fields, at any depth.
pub(super) fn canonical_without(value: &Value, left_out: &[&str]) -> String {
    sorted(value, &|name| !left_out.contains(&name)).to_string()
}

fn sorted(value: &Value, keep: &dyn Fn(&str) -> bool) -> Value {
    match value {
        Value::Array(items) => items.iter().map(|item| sorted(item, keep)).collect(),
        Value::Object(fields) => {
            let fields: BTreeMap<_, _> = fields.iter().filter(|(name, _)| keep(name)).collect();
            let fields = fields.into_iter().map(|(name, value)| (name.clone(), sorted(value, keep)));
            Value::Object(fields.collect())
        }
        other => other.clone(),
    }
}

/// Bytes in base64, with padding.
pub(super) fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let number = three.iter().fold(0_u32, |number, byte| number << 8 | u32::from(*byte))
            << (8 * (3 - three.len()));
        for place in 0..4 {
            let letter = LETTERS[(number >> (18 - 6 * place) & 63) as usize] as char;
            text.push(if place > three.len() { '=' } else { letter });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_the_rfc() {
        let cases = [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")];
        for (plain, coded) in cases {
            assert_eq!(base64(plain.as_bytes()), coded);
        }
    }

    #[test]
    fn what_means_the_same_is_spelled_the_same() {
        let one = serde_json::json!({"b": [1, {"z": 1, "a": 2}], "a": "x", "cache_control": {}});
        let two = serde_json::json!({"a": "x", "b": [1, {"a": 2, "cache_control": 1, "z": 1}]});
        assert_eq!(canonical_without(&one, &["cache_control"]), canonical_without(&two, &["cache_control"]));
        assert_ne!(canonical(&one), canonical(&two));
    }
}
