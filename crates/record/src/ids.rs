//! The ids of conversations, entries and calls, each with its own type.

use std::{borrow::Borrow, fmt, str::FromStr};

use uuid::Uuid;

use crate::{
    hash::Hasher,
    text::{Text, made_of_strings},
};

/// Why a text is not an id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` is not {expected}")]
pub struct IdError {
    /// The text that was parsed.
    pub given: String,
    /// A description of a valid id of this kind.
    pub expected: &'static str,
}

impl IdError {
    /// The parsed id, or the error for a text that is not an id.
    pub(crate) fn unless<T>(id: Option<T>, given: &str, expected: &'static str) -> Result<T, Self> {
        id.ok_or_else(|| Self { given: given.to_owned(), expected })
    }
}

const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// A conversation: `conv_` and 12 lower-case base-32 characters.
///
/// No other text is an id, so an id is always a safe file name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConversationId([u8; 12]);

impl ConversationId {
    /// The beginning of every id.
    pub const PREFIX: &'static str = "conv_";

    /// Derives the id of an imported conversation from its format and the source's id, which stay the same when the source
    /// grows.
    pub fn derive(format: &str, source_id: &str) -> Self {
        Self::derive_of(format, &[source_id])
    }

    /// Derives an id as [`derive`](Self::derive) does, from the concatenation of these parts of the source id.
    pub fn derive_of(format: &str, source_id: &[&str]) -> Self {
        let parts: Vec<&[u8]> = source_id.iter().map(|part| part.as_bytes()).collect();
        let hash = Hasher::new("rejoin conversation id 1").field(format).parts(&parts).finish();
        let mut bits = [0; 8];
        bits.copy_from_slice(&hash.as_bytes()[..8]);
        Self::from_random(u64::from_le_bytes(bits))
    }

    /// Creates an id from 60 random bits.
    pub fn from_random(random: u64) -> Self {
        Self(std::array::from_fn(|place| ALPHABET[(random >> (5 * place) & 31) as usize]))
    }

    /// Whether the printed id begins with `prefix`, which may omit the `conv_`.
    pub fn has_prefix(&self, prefix: &str) -> bool {
        let bare = prefix.strip_prefix(Self::PREFIX).unwrap_or(prefix);
        self.letters().starts_with(bare)
    }

    fn letters(&self) -> &str {
        std::str::from_utf8(&self.0).expect("BUG: the alphabet is ASCII")
    }
}

impl fmt::Display for ConversationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", Self::PREFIX, self.letters())
    }
}

impl FromStr for ConversationId {
    type Err = IdError;
    fn from_str(given: &str) -> Result<Self, IdError> {
        let letters = given.strip_prefix(Self::PREFIX);
        let letters = letters.and_then(|letters| <[u8; 12]>::try_from(letters.as_bytes()).ok());
        let letters = letters.filter(|letters| letters.iter().all(|letter| ALPHABET.contains(letter)));
        IdError::unless(letters.map(Self), given, "a conversation id (`conv_` and 12 of a–z, 2–7)")
    }
}

/// An entry: a UUIDv7 for a new entry, a UUIDv8 derived from the source for an imported one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EntryId(Uuid);

impl EntryId {
    /// Creates an id from the time and 80 random bits.
    pub fn new(unix_millis: u64, random: [u8; 10]) -> Self {
        Self(uuid::Builder::from_unix_timestamp_millis(unix_millis, &random).into_uuid())
    }

    /// Derives the id of an imported entry from its conversation, `own` (the source's id for it, or the id derived for its
    /// parent) and its exact bytes.
    pub fn derive(conversation: &ConversationId, own: &str, bytes: &str) -> Self {
        let hash = Hasher::new("rejoin entry id 1")
            .field(&conversation.to_string())
            .field(own)
            .field(bytes)
            .finish();
        let mut custom = [0; 16];
        custom.copy_from_slice(&hash.as_bytes()[..16]);
        Self(uuid::Builder::from_custom_bytes(custom).into_uuid())
    }

    /// An id that was stored as bytes.
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(Uuid::from_bytes(bytes))
    }

    /// Whether it was derived from a source; importing that source again gives the same id.
    pub fn is_derived(&self) -> bool {
        self.0.get_version_num() == 8
    }

    /// The UUID.
    pub fn as_uuid(&self) -> Uuid {
        self.0
    }
}

impl fmt::Display for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0.hyphenated(), f)
    }
}

impl FromStr for EntryId {
    type Err = IdError;
    fn from_str(given: &str) -> Result<Self, IdError> {
        // Accept only the spelling that we write.
        let parsed = Uuid::try_parse(given).ok().map(Self).filter(|id| id.to_string() == given);
        IdError::unless(parsed, given, "an entry id (a lower-case UUID)")
    }
}

/// The id that links a tool call to its result: any text that a provider or a reader chose.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CallId(Text);

impl CallId {
    /// Takes an id unchanged.
    pub fn new(id: impl Into<Text>) -> Self {
        Self(id.into())
    }

    /// The id.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// The id as shared text.
    pub fn text(&self) -> &Text {
        &self.0
    }
}

impl Borrow<str> for CallId {
    fn borrow(&self) -> &str {
        self.0.as_str()
    }
}

made_of_strings!(CallId);

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Sixteen random bytes that prevent guessing an erased body from its hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Salt(pub [u8; 16]);

impl fmt::Display for Salt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::hash::to_hex(&self.0, f)
    }
}

impl FromStr for Salt {
    type Err = IdError;
    fn from_str(given: &str) -> Result<Self, IdError> {
        IdError::unless(crate::hash::from_hex(given).map(Self), given, "a salt (32 hexadecimal digits)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_print_and_parse() {
        let id = ConversationId::from_random(0x0123_4567_89ab_cdef);
        assert_eq!(id.to_string().len(), 17);
        assert_eq!(id.to_string().parse::<ConversationId>().unwrap(), id);
        assert!(id.has_prefix(&id.to_string()[..8]) && id.has_prefix(&id.to_string()[5..8]));
        for bad in [
            "",
            "conv_",
            "conv_ABCDEFGHIJKL",
            "conv_abcdefghijk1",
            "conv_abcdefghijklm",
            "../../etc/passwd",
            "conv_abcdé",
        ] {
            assert!(bad.parse::<ConversationId>().is_err(), "{bad}");
        }
        let entry = EntryId::new(1_700_000_000_000, [7; 10]);
        assert_eq!(entry.as_uuid().get_version_num(), 7);
        assert_eq!(entry.to_string().parse::<EntryId>().unwrap(), entry);
        assert!(entry.to_string().to_uppercase().parse::<EntryId>().is_err());
        let salt = Salt([0xab; 16]);
        assert_eq!(salt.to_string().parse::<Salt>().unwrap(), salt);
        assert!("xyz".parse::<Salt>().is_err());
    }

    #[test]
    fn derived_ids_depend_on_source_only() {
        let a = ConversationId::derive("openai-chat", "chat.json");
        assert_eq!(a, ConversationId::derive("openai-chat", "chat.json"));
        assert_ne!(a, ConversationId::derive("openai-chatc", "hat.json"), "fields are length-prefixed");
        let entry = EntryId::derive(&a, "m1", "{}");
        assert_eq!(entry.as_uuid().get_version_num(), 8);
        assert_ne!(entry, EntryId::derive(&a, "m1", "{ }"));
    }
}
