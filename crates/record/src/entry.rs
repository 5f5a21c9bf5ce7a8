//! An entry: one line of the record, with its envelope, its hash and its body.
//!
//! # On-disk form, version 1.0 (frozen; pinned by `tests/golden.rs`)
//!
//! ```text
//! {"v":"1.0","id":…,"parent":…|null,"seq":…,"timestamp":…,"type":…[,"source_time":…],"inner":…,"hash":…[,"salt":…,"body":…]}
//! └──────────────────────────────── envelope ────────────────────────────────────┘
//! ```
//! The header's body is called `metadata`, every other one `body`. An erased entry has neither salt nor body.
//! A later minor version may add fields at the end of the envelope. They are hashed with it, so an entry from a newer minor
//! version still verifies here.

use std::{borrow::Cow, fmt, str::FromStr, sync::Arc};

use jiff::Timestamp;

use crate::{
    hash::{Hash, Hasher, Inputs, Sink},
    ids::{EntryId, Salt},
    json::{self, Doc, write},
    limits,
    text::{Raw, Text},
};

/// The version that this program writes.
pub const VERSION: Version = Version { major: 1, minor: 0 };

/// The version of an entry's on-disk form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// An entry with a higher major version can be shown but not interpreted.
    pub major: u16,
    /// An entry with a higher minor version has additional fields, which are kept.
    pub minor: u16,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl FromStr for Version {
    type Err = EntryError;
    fn from_str(given: &str) -> Result<Self, EntryError> {
        let parsed = given
            .split_once('.')
            .and_then(|(major, minor)| Some(Self { major: major.parse().ok()?, minor: minor.parse().ok()? }));
        parsed.filter(|version| version.to_string() == given).ok_or(EntryError::Field("v"))
    }
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// The kind of an entry.
        #[derive(Debug, Clone, PartialEq, Eq, Hash)]
        pub enum Kind {
            $($(#[$doc])* $variant,)*
            /// A kind that this version does not know. It is kept, shown and verified, and views skip it.
            Unknown(Text),
        }

        impl Kind {
            /// Every kind that this version knows.
            pub const KNOWN: &[Kind] = &[$(Kind::$variant,)*];

            /// The stored name of the kind.
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $name,)*
                    Self::Unknown(name) => name,
                }
            }

            /// The kind with this name.
            pub fn named(name: &str) -> Self {
                match name {
                    $($name => Self::$variant,)*
                    other => Self::Unknown(other.into()),
                }
            }
        }
    };
}

kinds! {
    /// The first entry: metadata of the conversation.
    Header = "header",
    /// A message.
    Message = "message",
    /// A `/command` that a person ran, and its output.
    Command = "command",
    /// System prompt, tool declarations and target, when they change.
    Context = "context",
    /// Decisions about unanswered calls, made before a request was sent.
    Closed = "closed",
    /// A summary that replaces the messages before it.
    Compacted = "compacted",
    /// A compaction that was undone and no longer hides anything.
    Uncompacted = "uncompacted",
    /// The results that a view shows as tombstones.
    Prune = "prune",
    /// Opaque state that survives compaction.
    Snapshot = "snapshot",
    /// The head moved; the parent is the target.
    Branch = "branch",
    /// The title, tags and scope.
    Meta = "meta",
    /// The state of a turn.
    Turn = "turn",
    /// A step in the life of a change that a call makes: proposed, approved, denied, applied, reverted.
    Change = "change",
    /// The removal of an entry's content.
    Erased = "erased",
    /// An imported item that has no other kind.
    Raw = "raw",
}

impl Kind {
    fn body_key(&self) -> &'static str {
        if *self == Self::Header { "metadata" } else { "body" }
    }
}

/// An entry without its content and hashes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Envelope {
    /// The version it was written in.
    pub version: Version,
    /// Its id.
    pub id: EntryId,
    /// The entry that it follows; only a header has none.
    pub parent: Option<EntryId>,
    /// Its number in the order of appending, from 0, without gaps.
    pub seq: u64,
    /// When it was appended, UTC, to the microsecond.
    pub timestamp: Timestamp,
    /// Its kind.
    pub kind: Kind,
    /// The source's own time, verbatim, for an imported entry.
    pub source_time: Option<Text>,
}

impl Envelope {
    fn write(&self) -> String {
        use fmt::Write as _;
        // Ids, numbers and times contain nothing that needs escaping.
        let mut out = String::with_capacity(220);
        let mut id = [0; uuid::fmt::Hyphenated::LENGTH];
        let mut spelled = |out: &mut String, entry: &EntryId| {
            out.push('"');
            out.push_str(entry.as_uuid().hyphenated().encode_lower(&mut id));
            out.push('"');
        };
        // Writing to a string cannot fail.
        let _ = write!(out, "\"v\":\"{}\",\"id\":", self.version);
        spelled(&mut out, &self.id);
        out.push_str(",\"parent\":");
        match &self.parent {
            Some(parent) => spelled(&mut out, parent),
            None => out.push_str("null"),
        }
        let _ = write!(out, ",\"seq\":{},\"timestamp\":\"{:.6}\"", self.seq, self.timestamp);
        write::key(&mut out, "type");
        write::string(&mut out, self.kind.as_str());
        if let Some(time) = &self.source_time {
            write::key(&mut out, "source_time");
            write::string(&mut out, time);
        }
        out
    }
}

/// The number of bodies that this process has hashed, for tests that no body is hashed twice.
#[cfg(debug_assertions)]
#[doc(hidden)]
pub static BODIES_HASHED: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);

/// Salt and exact bytes of a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SaltedBody {
    /// The salt, which is hashed and erased with the body.
    pub salt: Salt,
    /// The body, a JSON object.
    pub body: Raw,
}

impl SaltedBody {
    /// The hash of salt and body.
    pub fn hash(&self) -> Hash {
        let mut hasher = Hasher::new(BODY);
        self.add_to(&mut hasher);
        hasher.finish()
    }

    /// The hashes of many bodies, in order. Together they take less time than one after the other.
    pub fn hash_each<'b>(contents: impl IntoIterator<Item = &'b Self>) -> Vec<Hash> {
        let mut inputs = Inputs::default();
        contents.into_iter().for_each(|content| inputs.next(BODY, |hasher| content.add_to(hasher)));
        inputs.hashes()
    }

    fn add_to<S: Sink>(&self, hasher: &mut Hasher<S>) {
        #[cfg(debug_assertions)]
        BODIES_HASHED.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        hasher.bytes(&self.salt.0).field(self.body.as_str());
    }
}

/// The names of the two kinds of hashes of an entry.
const BODY: &str = "rejoin body 1";
const ENTRY: &str = "rejoin entry 1";

/// One entry of the record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    envelope: Envelope,
    /// The envelope's exact bytes, if this version would write it differently because it has fields of a newer version. Nearly all
    /// entries have none, which saves memory in long conversations.
    spelling: Option<Arc<str>>,
    inner: Hash,
    hash: Hash,
    content: Option<SaltedBody>,
}

/// Why a line is not an entry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EntryError {
    /// It is longer than any entry may be.
    #[error("{0} bytes are more than an entry may have")]
    TooLong(usize),
    /// It is not JSON.
    #[error("not JSON: {0}")]
    NotJson(#[from] json::SyntaxError),
    /// A field is missing, out of place or malformed.
    #[error("field `{0}` is missing, out of place or malformed")]
    Field(&'static str),
    /// A newer major version wrote it.
    #[error("written by version {0}, this is version {VERSION}")]
    NewerMajor(Version),
}

impl Entry {
    /// Seals a new entry: computes its hashes from its envelope, its parent's hash and its body.
    pub(crate) fn seal(envelope: Envelope, parent: Option<Hash>, content: SaltedBody) -> Self {
        let inner = content.hash();
        let hash = chain_hash(&envelope.write(), parent, inner);
        Self { envelope, spelling: None, inner, hash, content: Some(content) }
    }

    /// Its envelope.
    pub fn envelope(&self) -> &Envelope {
        &self.envelope
    }

    /// Its id.
    pub fn id(&self) -> EntryId {
        self.envelope.id
    }

    /// Its hash, which covers everything before it.
    pub fn hash(&self) -> Hash {
        self.hash
    }

    /// The hash of salt and body. It remains when they are erased.
    pub fn inner(&self) -> Hash {
        self.inner
    }

    /// Salt and body, unless they were erased.
    pub fn content(&self) -> Option<&SaltedBody> {
        self.content.as_ref()
    }

    /// The envelope's exact text, if this version would write it differently because it has fields of a newer version.
    pub fn spelling(&self) -> Option<&str> {
        self.spelling.as_deref()
    }

    /// The envelope's exact text, which is hashed.
    pub fn envelope_text(&self) -> Cow<'_, str> {
        self.spelling().map_or_else(|| Cow::Owned(self.envelope.write()), Cow::Borrowed)
    }

    /// Creates an entry from its parts, for stores that keep them apart. No hash is computed; [`Entry::verifies`] checks whether
    /// the parts belong together.
    pub fn from_parts(
        envelope: Envelope,
        spelling: Option<String>,
        inner: Hash,
        hash: Hash,
        content: Option<SaltedBody>,
    ) -> Self {
        let spelling = spelling.and_then(|text| spelled(&envelope, &text));
        Self { envelope, spelling, inner, hash, content }
    }

    /// The hashes that entries with these envelopes, parents' hashes and inner hashes have, in order, if they are spelled as this
    /// version writes them.
    pub fn chain_hashes<'e>(
        links: impl IntoIterator<Item = (&'e Envelope, Option<Hash>, Hash)>,
    ) -> Vec<Hash> {
        let mut inputs = Inputs::default();
        for (envelope, parent, inner) in links {
            inputs.next(ENTRY, |hasher| add_link(hasher, &envelope.write(), parent, inner));
        }
        inputs.hashes()
    }

    /// The exact bytes of its body, unless it was erased.
    pub fn body(&self) -> Option<&Raw> {
        self.content.as_ref().map(|content| &content.body)
    }

    /// The entry without body and salt. It and its children still verify.
    pub fn erased(&self) -> Self {
        Self { content: None, ..self.clone() }
    }

    /// Whether the body and the hashes are consistent, given the parent's hash.
    pub fn verifies(&self, parent: Option<Hash>) -> bool {
        self.body_verifies() && self.follows(parent)
    }

    /// Whether its hash matches its envelope, its parent's hash and the hash of its body.
    pub fn follows(&self, parent: Option<Hash>) -> bool {
        chain_hash(&self.envelope_text(), parent, self.inner) == self.hash
    }

    /// Whether the body matches its hash, regardless of the parent.
    pub fn body_verifies(&self) -> bool {
        self.content.as_ref().is_none_or(|content| content.hash() == self.inner)
    }

    /// The stored line, without its newline.
    pub fn to_line(&self) -> String {
        let body = self.body().map_or(0, |body| body.as_str().len());
        let envelope = self.envelope_text();
        let mut line = String::with_capacity(envelope.len() + body + 240);
        line.push('{');
        line.push_str(&envelope);
        write::key(&mut line, "inner");
        write::string(&mut line, &self.inner.to_string());
        write::key(&mut line, "hash");
        write::string(&mut line, &self.hash.to_string());
        if let Some(content) = &self.content {
            write::key(&mut line, "salt");
            write::string(&mut line, &content.salt.to_string());
            write::key(&mut line, self.envelope.kind.body_key());
            line.push_str(content.body.as_str());
        }
        line.push('}');
        line
    }

    /// Reads a line that is exactly as we write lines, without parsing its body. The caller must check the body's hash with
    /// [`Entry::verifies`]. `None` if the line is written differently.
    pub fn from_exact_line(line: &str) -> Option<Self> {
        if line.len() > limits::BODY_BYTES {
            return None;
        }
        let text = line.strip_prefix('{')?.strip_suffix('}')?;
        // Inside a string the quotes would be escaped.
        let (envelope_text, rest) = text.split_once(",\"inner\":\"")?;
        let (inner, rest) = rest.split_at_checked(64)?;
        let (hash, rest) = rest.strip_prefix("\",\"hash\":\"")?.split_at_checked(64)?;
        let object = format!("{{{envelope_text}}}");
        let doc = Doc::parse(&object).ok()?;
        let mut fields = Fields { fields: doc.root()?.fields().collect(), at: 0 };
        let envelope = fields.envelope().ok()?;
        let content = match rest.strip_prefix("\",\"salt\":\"") {
            None => {
                rest.strip_prefix('"').filter(|end| end.is_empty())?;
                None
            }
            Some(rest) => {
                let (salt, rest) = rest.split_at_checked(32)?;
                let rest = rest.strip_prefix("\",\"")?.strip_prefix(envelope.kind.body_key())?;
                let body = rest.strip_prefix("\":").filter(|body| body.starts_with('{'))?;
                Some(SaltedBody { salt: salt.parse().ok()?, body: Raw::new(body) })
            }
        };
        let (inner, hash) = (inner.parse().ok()?, hash.parse().ok()?);
        let spelling = spelled(&envelope, envelope_text);
        Some(Self { envelope, spelling, inner, hash, content })
    }

    /// Reads a stored line.
    ///
    /// # Errors
    /// If the line is not an entry. Nothing is repaired.
    pub fn from_line(line: &str) -> Result<Self, EntryError> {
        if line.len() > limits::BODY_BYTES {
            return Err(EntryError::TooLong(line.len()));
        }
        let doc = Doc::parse(line)?;
        let root = doc.root().ok_or(EntryError::Field("v"))?;
        let mut fields = Fields { fields: root.fields().collect(), at: 0 };

        let envelope = fields.envelope()?;
        // Skip fields that a newer minor version added at the end of the envelope.
        while fields.peek().is_some_and(|key| key != "inner") {
            fields.at += 1;
        }
        fields.fields.get(fields.at).ok_or(EntryError::Field("inner"))?;
        let envelope_end = fields.fields[fields.at - 1].1.end();
        let (inner, hash) = (fields.parsed("inner")?, fields.parsed("hash")?);
        let content = match fields.peek().as_deref() {
            Some("salt") => {
                let (salt, name) = (fields.parsed("salt")?, envelope.kind.body_key());
                let body = fields.take(name)?;
                if body.kind() != json::ValueKind::Object {
                    return Err(EntryError::Field(name));
                }
                Some(SaltedBody { salt, body: Raw::new(body.raw()) })
            }
            _ => None,
        };
        if fields.peek().is_some() {
            return Err(EntryError::Field("end of entry"));
        }
        let start = root.start() + 1;
        let spelling = spelled(&envelope, &line[start..envelope_end]);
        Ok(Self { envelope, spelling, inner, hash, content })
    }
}

/// The text of an envelope, if this version would write it differently.
fn spelled(envelope: &Envelope, text: &str) -> Option<Arc<str>> {
    (text != envelope.write()).then(|| text.into())
}

fn chain_hash(envelope: &str, parent: Option<Hash>, inner: Hash) -> Hash {
    let mut hasher = Hasher::new(ENTRY);
    add_link(&mut hasher, envelope, parent, inner);
    hasher.finish()
}

fn add_link<S: Sink>(hasher: &mut Hasher<S>, envelope: &str, parent: Option<Hash>, inner: Hash) {
    let parent = parent.as_ref().map_or(&[][..], |hash| hash.as_bytes());
    hasher.field(envelope).bytes(parent).bytes(inner.as_bytes());
}

/// The fields of a line, taken in their required order.
struct Fields<'d> {
    fields: Vec<(json::Value<'d>, json::Value<'d>)>,
    at: usize,
}

impl<'d> Fields<'d> {
    /// The fields of an envelope that every version has.
    fn envelope(&mut self) -> Result<Envelope, EntryError> {
        let version: Version = self.parsed("v")?;
        if version.major > VERSION.major {
            return Err(EntryError::NewerMajor(version));
        }
        let id = self.parsed("id")?;
        let is_root = self.fields.get(self.at).is_some_and(|(_, parent)| parent.is_null());
        let parent = if is_root { self.take("parent").map(|_| None)? } else { Some(self.parsed("parent")?) };
        let seq = self.take("seq")?.as_u64().filter(|seq| *seq < limits::ENTRIES);
        let seq = seq.ok_or(EntryError::Field("seq"))?;
        let timestamp = self.parsed("timestamp")?;
        let kind = Kind::named(&self.text("type")?);
        let source_time = self.optional("source_time").and_then(|value| value.as_str()).map(Text::new);
        Ok(Envelope { version, id, parent, seq, timestamp, kind, source_time })
    }

    fn peek(&self) -> Option<Cow<'d, str>> {
        self.fields.get(self.at)?.0.as_str()
    }

    fn optional(&mut self, name: &str) -> Option<json::Value<'d>> {
        let (_, value) = *self.fields.get(self.at).filter(|(key, _)| key.is_str(name))?;
        self.at += 1;
        Some(value)
    }

    fn take(&mut self, name: &'static str) -> Result<json::Value<'d>, EntryError> {
        self.optional(name).ok_or(EntryError::Field(name))
    }

    fn text(&mut self, name: &'static str) -> Result<Cow<'d, str>, EntryError> {
        self.take(name)?.as_str().ok_or(EntryError::Field(name))
    }

    fn parsed<T: FromStr>(&mut self, name: &'static str) -> Result<T, EntryError> {
        self.text(name)?.parse().map_err(|_| EntryError::Field(name))
    }
}
