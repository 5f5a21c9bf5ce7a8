//! Shared text that remembers its place in the source.
//!
//! Text is decoded once and then shared: cloning a [`Text`] copies a pointer. Text from a provider's JSON item remembers its
//! span there, so the record can store only the item and refer to the span.

use std::{
    borrow::{Borrow, Cow},
    fmt, hash,
    ops::Deref,
    sync::{Arc, OnceLock},
};

use crate::json::{literal, write};

/// Whether a text is blank: empty, or only Unicode white space and the four separator control characters, which most providers also
/// treat as white space.
pub fn is_blank(text: &str) -> bool {
    text.chars().all(|c| c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c))
}

/// Formats a count with its noun: `1 entry`, `2 entries`, `0 calls`.
pub fn plural(count: impl fmt::Display, noun: &str) -> String {
    match (format!("{count} {noun}"), noun.strip_suffix('y')) {
        (one, _) if one.starts_with("1 ") => one,
        (_, Some(stem)) => format!("{count} {stem}ies"),
        (many, None) => many + "s",
    }
}

/// Chooses the word that agrees with a count: `one` for 1, `many` for all other numbers.
pub fn agreeing<'w>(count: u64, one: &'w str, many: &'w str) -> &'w str {
    if count == 1 { one } else { many }
}

/// A piece of a message's native item: bytes `start..start + len`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// The offset of the first byte.
    pub start: u32,
    /// Length in bytes.
    pub len: u32,
    /// Whether the bytes are a JSON string literal, which must be decoded, and not the text itself.
    pub literal: bool,
}

impl Span {
    /// The span of a JSON string literal, including its quotes.
    pub fn literal(start: usize, len: usize) -> Self {
        Self::new(start, len, true)
    }

    /// The span of bytes that are the text itself.
    pub fn verbatim(start: usize, len: usize) -> Self {
        Self::new(start, len, false)
    }

    fn new(start: usize, len: usize, literal: bool) -> Self {
        let fit = |value| u32::try_from(value).expect("BUG: limits::BODY_BYTES is far below 4 GiB");
        Self { start: fit(start), len: fit(len), literal }
    }

    /// The bytes in `item`; `None` if the span lies outside it.
    pub fn of(self, item: &str) -> Option<&str> {
        let start = self.start as usize;
        item.get(start..start.checked_add(self.len as usize)?)
    }
}

/// The length in bytes from which a decoded text keeps its buffer.
const LONG: usize = 64 * 1024;

/// The bytes of a [`Text`].
#[derive(Clone)]
pub enum SharedText {
    /// The usual case: copied into one allocation with its reference count.
    Short(Arc<str>),
    /// A long text.
    Long(Arc<LongText>),
}

/// A long text.
pub enum LongText {
    /// It stays in the buffer in which it was decoded, because copying it would briefly need twice the memory.
    Decoded(String),
    /// The text between the quotes of a string literal, decoded on first use: many are only passed on.
    Literal(Raw, OnceLock<String>),
    /// A slice of a text that is in memory anyway.
    Slice(Raw),
}

impl LongText {
    fn as_str(&self) -> &str {
        match self {
            Self::Decoded(text) => text,
            Self::Literal(body, decoded) => {
                decoded.get_or_init(|| literal::decode_body(body.as_str()).0.into_owned())
            }
            Self::Slice(text) => text.as_str(),
        }
    }

    /// The literal, if it was not decoded yet.
    fn pending(&self) -> Option<&str> {
        match self {
            Self::Literal(body, decoded) if decoded.get().is_none() => Some(body.as_str()),
            _ => None,
        }
    }

    /// Whether it is blank. The beginning of a literal usually shows that it is not.
    fn is_blank(&self) -> bool {
        let body = self.pending().unwrap_or_default();
        let beginning = literal::decode_body(&body[..body.floor_char_boundary(BEGINNING)]).0;
        is_blank(&beginning) && is_blank(self.as_str())
    }
}

/// The length in bytes from which a slice is not copied.
const SLICE: usize = 256;

/// How many bytes of a literal are examined first.
const BEGINNING: usize = 64;

impl Deref for SharedText {
    type Target = str;
    fn deref(&self) -> &str {
        match self {
            Self::Short(text) => text,
            Self::Long(text) => text.as_str(),
        }
    }
}

impl From<&str> for SharedText {
    fn from(text: &str) -> Self {
        Self::Short(text.into())
    }
}

impl From<Arc<str>> for SharedText {
    fn from(text: Arc<str>) -> Self {
        Self::Short(text)
    }
}

impl From<String> for SharedText {
    fn from(mut text: String) -> Self {
        if text.len() < LONG {
            return Self::Short(text.into());
        }
        text.shrink_to_fit();
        Self::Long(Arc::new(LongText::Decoded(text)))
    }
}

impl From<Cow<'_, str>> for SharedText {
    fn from(text: Cow<'_, str>) -> Self {
        match text {
            Cow::Borrowed(text) => text.into(),
            Cow::Owned(text) => text.into(),
        }
    }
}

/// Immutable, shared text.
#[derive(Clone)]
pub struct Text {
    value: SharedText,
    at: Option<Span>,
    lossy: bool,
}

impl Text {
    /// Text that was not read from a native item.
    pub fn new(value: impl Into<SharedText>) -> Self {
        Self { value: value.into(), at: None, lossy: false }
    }

    /// Text from the span `at` of a native item; `lossy` if decoding replaced a lone surrogate.
    pub fn located(value: impl Into<SharedText>, at: Span, lossy: bool) -> Self {
        Self { value: value.into(), at: Some(at), lossy }
    }

    /// Text that a string literal stands for, decoded on first use. `body` is the text between its quotes; `at` and `lossy` are as
    /// in [`located`](Self::located).
    pub fn undecoded(body: Raw, at: Span, lossy: bool) -> Self {
        let text = LongText::Literal(body, OnceLock::new());
        Self { value: SharedText::Long(Arc::new(text)), at: Some(at), lossy }
    }

    /// Text that is a slice of a larger one, which stays in memory as long as this text. A short slice is copied instead.
    pub fn slice(text: Raw) -> Self {
        if text.as_str().len() < SLICE {
            return Self::new(text.as_str());
        }
        Self { value: SharedText::Long(Arc::new(LongText::Slice(text))), at: None, lossy: false }
    }

    /// The same text, at the span `at` of a native item.
    #[must_use]
    pub fn at(self, at: Span) -> Self {
        Self { at: Some(at), ..self }
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.value
    }

    /// The same shared text, for a message without a native item.
    pub fn without_place(&self) -> Self {
        Self { value: self.value.clone(), at: None, lossy: false }
    }

    /// Looks for the text at other places in an item, each of which is the current one moved by a number of bytes, wrapping around.
    /// If it is at none of them, the text loses its place.
    pub(crate) fn move_place<'i>(&mut self, item: impl Fn() -> &'i str, by: impl IntoIterator<Item = usize>) {
        let Some(at) = self.at else { return };
        let item = item();
        let moved = |by: usize| {
            let start = u32::try_from((at.start as usize).wrapping_add(by)).ok()?;
            Some(Span { start, ..at }).filter(|span| self.is_at(*span, item))
        };
        match by.into_iter().find_map(moved) {
            Some(found) => self.at = Some(found),
            None => *self = self.without_place(),
        }
    }

    /// Whether the bytes of a span mean this text. A literal that is not decoded yet may stay undecoded.
    pub(crate) fn is_at(&self, span: Span, item: &str) -> bool {
        let Some(bytes) = span.of(item) else { return false };
        if !span.literal {
            return *bytes == **self;
        }
        let body = bytes.strip_prefix('"').and_then(|bytes| bytes.strip_suffix('"'));
        let same = |own: &str| body.is_some_and(|body| std::ptr::eq(body, own) || body == own);
        match self.pending() {
            Some(own) => same(own),
            None => same(self) || (body.is_some() && literal::equals(bytes, self)),
        }
    }

    /// The text between the quotes of a long literal that was not decoded yet.
    fn pending(&self) -> Option<&str> {
        match &self.value {
            SharedText::Short(_) => None,
            SharedText::Long(text) => text.pending(),
        }
    }

    /// Its span in the message's native item.
    pub fn span(&self) -> Option<Span> {
        self.at
    }

    /// Whether the source contained half of a surrogate pair, which became U+FFFD here.
    pub fn is_lossy(&self) -> bool {
        self.lossy
    }

    /// The text between the quotes of its literal, if it is long and was not decoded at once.
    #[must_use]
    pub fn literal(&self) -> Option<&str> {
        match &self.value {
            SharedText::Short(_) => None,
            SharedText::Long(text) => match &**text {
                LongText::Literal(body, _) => Some(body.as_str()).filter(|literal| !literal.is_empty()),
                LongText::Decoded(_) | LongText::Slice(_) => None,
            },
        }
    }

    /// Appends it as a JSON string literal, without decoding a long text for that.
    pub fn write_literal(&self, out: &mut String) {
        match self.pending() {
            Some(body) => {
                out.reserve(body.len() + 2);
                out.push('"');
                write::rewritten(out, body);
                out.push('"');
            }
            None => write::string(out, self),
        }
    }

    /// Its length in bytes, without decoding a long text for that.
    pub fn len(&self) -> usize {
        self.pending().map_or_else(|| self.as_str().len(), |body| literal::measure(body).0)
    }

    /// Uses the text once. A long text is decoded for that, but the decoded form is not kept.
    pub fn use_once<R>(&self, each: impl FnOnce(&str) -> R) -> R {
        match self.pending() {
            Some(body) => each(&literal::decode_body(body).0),
            None => each(self),
        }
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        match &self.value {
            SharedText::Short(text) => text.is_empty(),
            SharedText::Long(text) => text.pending().is_none_or(str::is_empty) && text.as_str().is_empty(),
        }
    }

    /// Whether it is empty or white space only; see [`is_blank`].
    pub fn is_blank(&self) -> bool {
        match &self.value {
            SharedText::Short(text) => is_blank(text),
            SharedText::Long(text) => text.is_blank(),
        }
    }
}

impl Deref for Text {
    type Target = str;
    fn deref(&self) -> &str {
        &self.value
    }
}

impl Borrow<str> for Text {
    fn borrow(&self) -> &str {
        &self.value
    }
}

/// Implements the conversions from strings for a type, with its `new`.
macro_rules! made_of_strings {
    ($made:ty) => {
        impl From<&str> for $made {
            fn from(text: &str) -> Self {
                Self::new(text)
            }
        }

        impl From<String> for $made {
            fn from(text: String) -> Self {
                Self::new(text)
            }
        }
    };
}
pub(crate) use made_of_strings;

made_of_strings!(Text);

impl PartialEq for Text {
    fn eq(&self, other: &Self) -> bool {
        *self.value == *other.value
    }
}

impl Eq for Text {}

impl hash::Hash for Text {
    fn hash<H: hash::Hasher>(&self, state: &mut H) {
        self.value.hash(state);
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.value, f)
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.value)
    }
}

/// The exact bytes of a foreign JSON value. Only readers and codecs interpret it.
#[derive(Clone)]
pub struct Raw(Bytes);

#[derive(Clone)]
enum Bytes {
    /// The usual case: a slice of a shared buffer.
    Slice { buffer: Arc<str>, start: usize, end: usize },
    /// A text that was not JSON, to be written as JSON.
    Plain(Arc<PlainText>),
}

/// A text that was not JSON, and its JSON form, which is written on first use: many are only counted or shown.
struct PlainText {
    text: Raw,
    /// The name of the only field, if the JSON form is an object around the text.
    field: Option<&'static str>,
    written: OnceLock<String>,
}

impl PlainText {
    fn as_json(&self) -> &str {
        self.written.get_or_init(|| self.write())
    }

    fn write(&self) -> String {
        let mut json = String::new();
        if let Some(field) = self.field {
            json.push('{');
            write::key(&mut json, field);
        }
        write::string(&mut json, self.text.as_str());
        json.extend(self.field.map(|_| '}'));
        json
    }
}

impl Raw {
    /// A value in a buffer of its exact size.
    pub fn new(value: impl Into<Arc<str>>) -> Self {
        let buffer = value.into();
        let end = buffer.len();
        Self(Bytes::Slice { buffer, start: 0, end })
    }

    /// A slice of a shared buffer; `None` if the range is invalid.
    pub fn slice(buffer: &Arc<str>, start: usize, end: usize) -> Option<Self> {
        buffer.get(start..end)?;
        Some(Self(Bytes::Slice { buffer: Arc::clone(buffer), start, end }))
    }

    /// A text as a JSON string, or as an object with that string in its only field. The JSON is written on first use.
    pub fn plain(text: Self, field: Option<&'static str>) -> Self {
        Self(Bytes::Plain(Arc::new(PlainText { text, field, written: OnceLock::new() })))
    }

    /// A slice of this value, in the same buffer if possible; `None` if the range is invalid.
    pub fn sub(&self, start: usize, end: usize) -> Option<Self> {
        let slice = self.as_str().get(start..end)?;
        Some(match &self.0 {
            Bytes::Slice { buffer, start: own, .. } => {
                Self(Bytes::Slice { buffer: Arc::clone(buffer), start: own + start, end: own + end })
            }
            Bytes::Plain(_) => Self::new(slice),
        })
    }

    /// The bytes.
    #[inline]
    pub fn as_str(&self) -> &str {
        match &self.0 {
            Bytes::Slice { buffer, start, end } => &buffer[*start..*end],
            Bytes::Plain(plain) => plain.as_json(),
        }
    }

    /// The name of the field around a plain text, if the value was made from one; empty if there is no field and the value is just
    /// a string.
    #[must_use]
    pub fn plain_field(&self) -> Option<&'static str> {
        match &self.0 {
            Bytes::Slice { .. } => None,
            Bytes::Plain(plain) => Some(plain.field.unwrap_or_default()),
        }
    }

    /// The offset at which it begins in its shared buffer.
    pub(crate) fn start(&self) -> usize {
        match &self.0 {
            Bytes::Slice { start, .. } => *start,
            Bytes::Plain(_) => 0,
        }
    }
}

impl PartialEq for Raw {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Raw {}

impl fmt::Debug for Raw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
