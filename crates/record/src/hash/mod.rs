//! The hash of ids and of the chain: BLAKE3 over length-prefixed fields.

mod side_by_side;

use std::{fmt, str::FromStr};

use crate::ids::IdError;

/// A BLAKE3 hash.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Hash([u8; 32]);

impl Hash {
    /// A hash that was stored as bytes.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        to_hex(&self.0, f)
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Hash {
    type Err = IdError;
    fn from_str(given: &str) -> Result<Self, IdError> {
        IdError::unless(from_hex(given).map(Self), given, "a hash (64 hexadecimal digits)")
    }
}

/// Hashes bytes, for stores that keep equal ones only once.
pub fn of_bytes(bytes: &[u8]) -> Hash {
    Hasher::new("rejoin bytes 1").bytes(bytes).finish()
}

/// Hashes bytes that arrive in pieces, however they are divided.
#[derive(Default, Clone)]
pub struct StreamHasher(blake3::Hasher);

impl StreamHasher {
    /// Adds the next bytes.
    pub fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The hash of all bytes so far.
    pub fn hash(&self) -> Hash {
        Hash(*self.0.finalize().as_bytes())
    }
}

impl fmt::Debug for StreamHasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StreamHasher").field(&self.0.count()).finish()
    }
}

/// Parses exactly `N` bytes of lower-case hexadecimal.
pub(crate) fn from_hex<const N: usize>(digits: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    if digits.len() != N * 2 {
        return None;
    }
    let value = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    for (byte, pair) in bytes.iter_mut().zip(digits.as_bytes().chunks_exact(2)) {
        *byte = value(pair[0])? << 4 | value(pair[1])?;
    }
    Some(bytes)
}

/// Writes lower-case hexadecimal in one call, which is fast: every line of the record contains three such numbers.
pub(crate) fn to_hex<const N: usize>(bytes: &[u8; N], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut digits = String::with_capacity(N * 2);
    for byte in bytes {
        digits.push(char::from(DIGITS[usize::from(byte >> 4)]));
        digits.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    f.write_str(&digits)
}

/// Takes the bytes to hash.
pub(crate) trait Sink {
    fn add(&mut self, bytes: &[u8]);
}

impl Sink for blake3::Hasher {
    fn add(&mut self, bytes: &[u8]) {
        self.update(bytes);
    }
}

impl Sink for &mut Vec<u8> {
    fn add(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// Hashes fields, each preceded by its length, so that two different lists of fields never produce the same bytes.
pub(crate) struct Hasher<S = blake3::Hasher>(S);

impl Hasher {
    /// Starts with a name for the kind of hash, so that hashes of different kinds of things never coincide.
    pub(crate) fn new(purpose: &str) -> Self {
        Self::into(blake3::Hasher::new(), purpose)
    }

    pub(crate) fn finish(&self) -> Hash {
        Hash(*self.0.finalize().as_bytes())
    }
}

impl<S: Sink> Hasher<S> {
    fn into(sink: S, purpose: &str) -> Self {
        let mut hasher = Self(sink);
        hasher.field(purpose);
        hasher
    }

    pub(crate) fn field(&mut self, field: &str) -> &mut Self {
        self.bytes(field.as_bytes())
    }

    pub(crate) fn bytes(&mut self, field: &[u8]) -> &mut Self {
        self.parts(&[field])
    }

    /// Adds a field that consists of several parts, without joining them first.
    pub(crate) fn parts(&mut self, parts: &[&[u8]]) -> &mut Self {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        self.0.add(&(length as u64).to_le_bytes());
        parts.iter().for_each(|part| self.0.add(part));
        self
    }
}

/// Lists of fields that are hashed together, which takes less time than one after the other.
#[derive(Default)]
pub(crate) struct Inputs {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Inputs {
    /// Begins the next input, to which the caller adds the fields.
    pub(crate) fn next(&mut self, purpose: &str, fields: impl FnOnce(&mut Hasher<&mut Vec<u8>>)) {
        fields(&mut Hasher::into(&mut self.bytes, purpose));
        self.ends.push(self.bytes.len());
    }

    /// The hashes of the inputs, in order.
    pub(crate) fn hashes(&self) -> Vec<Hash> {
        let mut from = 0;
        let inputs: Vec<&[u8]> =
            self.ends.iter().map(|end| &self.bytes[std::mem::replace(&mut from, *end)..*end]).collect();
        side_by_side::hash_each(&inputs).into_iter().map(Hash).collect()
    }
}

/// Derives a short name of letters and digits from `text`, to replace an id or a name that a dialect refuses.
pub fn short_name(text: &str, length: usize) -> String {
    short_name_of(&[text], length)
}

/// Derives a short name as [`short_name`] does, from the concatenation of these parts.
pub fn short_name_of(parts: &[&str], length: usize) -> String {
    const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let parts: Vec<&[u8]> = parts.iter().map(|part| part.as_bytes()).collect();
    let hash = Hasher::new("rejoin short name 1").parts(&parts).finish();
    let bytes = hash.as_bytes().iter().cycle().take(length);
    bytes.map(|byte| char::from(DIGITS[usize::from(*byte) % 62])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_print_and_parse() {
        let hash = Hasher::new("test").field("x").finish();
        assert_eq!(hash.to_string().parse::<Hash>().unwrap(), hash);
        assert_eq!(format!("{hash:?}"), hash.to_string());
        for bad in ["", "00", &"g".repeat(64), &"+1".repeat(32), &hash.to_string().to_uppercase()] {
            assert!(bad.parse::<Hash>().is_err(), "{bad}");
        }
    }

    #[test]
    fn short_names_are_stable() {
        assert_eq!(short_name("functions.x:0", 24), short_name("functions.x:0", 24));
        assert_ne!(short_name("a.b", 24), short_name("a:b", 24));
        assert_eq!(short_name("a.b", 24), short_name_of(&["a", "", ".b"], 24));
        assert!(short_name("é", 24).bytes().all(|byte| byte.is_ascii_alphanumeric()));
    }
}
