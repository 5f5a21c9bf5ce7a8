//! Reading JSON without losing a byte of it.
//!
//! A [`Doc`] is a flat list of nodes over the source text. Every node knows its exact span, so any value can be
//! given back as it was written: big numbers, key order, duplicate keys, escapes and spacing included. Parsing is
//! iterative (nesting costs memory, never stack) and forgiving where real files are wrong: lone surrogates, raw
//! control characters, `NaN`. What was forgiven is remembered, so that such text is not taken for clean JSON.
//!
//! Writing lives in [`mod@write`], whole objects in [`Object`], turning a literal into text in [`literal`]. Nothing here knows a
//! provider.

pub mod literal;
mod object;
mod parse;
pub mod write;

use std::{borrow::Cow, cell::RefCell, sync::Arc};

pub use object::{Object, list, quoted};
pub use parse::{Fault, SyntaxError};

use crate::text::{Raw, Span, Text};

/// What a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueKind {
    /// `null`
    Null,
    /// `true` or `false`
    Bool,
    /// A number, kept as it was spelled.
    Number,
    /// A string literal.
    String,
    /// An array.
    Array,
    /// An object.
    Object,
    /// `NaN`, `Infinity` or `-Infinity`: not JSON, but written by real programs.
    NotANumber,
}

#[derive(Debug, Clone, Copy)]
struct Node {
    start: u32,
    end: u32,
    /// Index just past this node's subtree.
    next: u32,
    kind: ValueKind,
    /// A container that the text ended in before it was closed.
    cut: bool,
    /// A string with a backslash in it. Any other string is what is between its quotes.
    escaped: bool,
}

/// A parsed JSON text.
#[derive(Debug)]
pub struct Doc<'a> {
    text: &'a str,
    layout: Layout,
    /// The text as its owner shares it. Long strings are not decoded then, but point to it.
    shared: Option<&'a Arc<str>>,
    /// Where strings are decoded before they are copied into a text of the right size.
    decoded: RefCell<String>,
}

/// A parsed document apart from its text. Unlike a [`Doc`] it borrows nothing, so another thread may make it.
#[derive(Debug)]
pub struct Layout {
    nodes: Vec<Node>,
    /// Byte offsets of what strict JSON refuses, in order.
    faults: Vec<(u32, Fault)>,
    max_depth: usize,
    /// How long the text is, in bytes.
    length: usize,
}

impl Layout {
    /// Parses as far as possible, as [`Doc::parse_prefix`] does.
    #[must_use]
    pub fn parse_prefix(text: &str) -> (Self, Option<SyntaxError>) {
        parse::run(text, &[])
    }

    /// The document of the text that was parsed. Strings are decoded in a buffer that another document is done with.
    ///
    /// # Panics
    /// If it is a text of another length.
    #[must_use]
    pub fn into_doc(self, text: &str, buffer: String) -> Doc<'_> {
        assert_eq!(self.length, text.len(), "BUG: this is not the text that was parsed");
        Doc { text, shared: None, layout: self, decoded: RefCell::new(buffer) }
    }
}

impl<'a> Doc<'a> {
    /// Parses a whole text that must hold exactly one value.
    ///
    /// # Errors
    /// The offset and reason of the first thing that cannot be read.
    pub fn parse(text: &'a str) -> Result<Self, SyntaxError> {
        match Self::parse_prefix(text) {
            (doc, None) => Ok(doc),
            (_, Some(error)) => Err(error),
        }
    }

    /// Parses a text some of whose string literals are known to be clean, from the byte of their first quote to the byte after
    /// their last one. They are not looked at again.
    ///
    /// # Errors
    /// Those of [`parse`](Self::parse).
    pub fn parse_around(text: &'a str, known: &[(usize, usize)]) -> Result<Self, SyntaxError> {
        match parse::run(text, known) {
            (layout, None) => Ok(layout.into_doc(text, String::new())),
            (_, Some(error)) => Err(error),
        }
    }

    /// Parses a text that may be something else than JSON: then the document has no root.
    #[must_use]
    pub fn of(text: &'a str) -> Self {
        let (mut layout, error) = parse::run(text, &[]);
        if error.is_some() {
            layout.nodes.clear();
        }
        layout.into_doc(text, String::new())
    }

    /// Parses as far as possible. The document holds everything that was complete before the error; containers
    /// that were still open are closed there and answer `true` to [`Value::is_cut`].
    #[must_use]
    pub fn parse_prefix(text: &'a str) -> (Self, Option<SyntaxError>) {
        let (layout, error) = parse::run(text, &[]);
        (layout.into_doc(text, String::new()), error)
    }

    /// The same document, which now shares its text: long strings are decoded only when they are read.
    ///
    /// # Panics
    /// If it is another text.
    #[must_use]
    pub fn shared_as(self, text: &'a Arc<str>) -> Self {
        assert!(std::ptr::eq(self.text, &**text), "BUG: this is not the text that was parsed");
        Doc { shared: Some(text), ..self }
    }

    /// Gives back what it was made of: the layout, and the buffer that strings were decoded in, for the next document.
    #[must_use]
    pub fn into_layout(self) -> (Layout, String) {
        (self.layout, self.decoded.into_inner())
    }

    /// The outermost value, unless nothing at all could be read.
    #[must_use]
    pub fn root(&self) -> Option<Value<'_>> {
        (!self.layout.nodes.is_empty()).then_some(Value { doc: self, index: 0 })
    }

    /// Every string in it, keys included, decoded.
    pub fn strings(&self) -> impl Iterator<Item = Cow<'_, str>> {
        (0..self.layout.nodes.len()).filter_map(|index| Value { doc: self, index }.as_str())
    }

    /// How deep the nesting goes; a scalar has depth 0, `[]` depth 1.
    #[must_use]
    pub fn max_depth(&self) -> usize {
        self.layout.max_depth
    }

    /// Whether lone surrogates are all that strict JSON would refuse.
    #[must_use]
    pub fn only_lone_surrogates(&self) -> bool {
        self.layout.faults.iter().all(|&(_, fault)| fault == Fault::LoneSurrogate)
    }

    /// Whether strict JSON would refuse the text, and why, at the first place.
    #[must_use]
    pub fn first_fault(&self) -> Option<(usize, Fault)> {
        self.layout.faults.first().map(|&(at, fault)| (at as usize, fault))
    }
}

/// Literals of at least this many bytes are not decoded before they are read.
const LONG: usize = 512;

/// One value inside a [`Doc`].
#[derive(Debug, Clone, Copy)]
pub struct Value<'d> {
    doc: &'d Doc<'d>,
    index: usize,
}

impl<'d> Value<'d> {
    fn node(self) -> Node {
        self.doc.layout.nodes[self.index]
    }

    /// What it is.
    #[must_use]
    pub fn kind(self) -> ValueKind {
        self.node().kind
    }

    /// The exact source text of this value.
    #[must_use]
    pub fn raw(self) -> &'d str {
        let node = self.node();
        &self.doc.text[node.start as usize..node.end as usize]
    }

    /// Where it starts in the parsed text, in bytes.
    #[must_use]
    pub fn start(self) -> usize {
        self.node().start as usize
    }

    /// Where it ends in the parsed text, in bytes.
    #[must_use]
    pub fn end(self) -> usize {
        self.node().end as usize
    }

    /// Whether the text ended before this value was closed.
    #[must_use]
    pub fn is_cut(self) -> bool {
        self.node().cut
    }

    /// Whether it is `null`.
    #[must_use]
    pub fn is_null(self) -> bool {
        self.kind() == ValueKind::Null
    }

    /// Whether it holds nothing that strict JSON refuses.
    #[must_use]
    pub fn is_clean(self) -> bool {
        let node = self.node();
        let first = self.doc.layout.faults.partition_point(|&(at, _)| at < node.start);
        self.doc.layout.faults.get(first).is_none_or(|&(at, _)| at >= node.end)
    }

    /// Whether the nesting inside it goes deeper than `limit`.
    #[must_use]
    pub fn is_deeper_than(self, limit: usize) -> bool {
        if self.doc.layout.max_depth <= limit {
            return false;
        }
        let mut ends: Vec<u32> = Vec::new();
        (self.index..self.node().next as usize).any(|index| {
            let node = self.doc.layout.nodes[index];
            while ends.last().is_some_and(|end| *end <= index as u32) {
                ends.pop();
            }
            if matches!(node.kind, ValueKind::Array | ValueKind::Object) {
                ends.push(node.next);
            }
            ends.len() > limit
        })
    }

    /// Whether a string in it holds half of a surrogate pair.
    #[must_use]
    pub fn has_lone_surrogate(self) -> bool {
        let node = self.node();
        let first = self.doc.layout.faults.partition_point(|&(at, _)| at < node.start);
        self.doc.layout.faults[first..]
            .iter()
            .take_while(|&&(at, _)| at < node.end)
            .any(|&(_, fault)| fault == Fault::LoneSurrogate)
    }

    /// The decoded text of a string; lone surrogates come out as U+FFFD.
    #[must_use]
    pub fn as_str(self) -> Option<Cow<'d, str>> {
        (self.kind() == ValueKind::String).then(|| match self.node().escaped {
            true => literal::decode(self.raw()).0,
            false => Cow::Borrowed(literal::within(self.raw())),
        })
    }

    /// The decoded beginning of a string, from at most this many bytes of its literal. An escape at the end may be cut.
    #[must_use]
    pub fn beginning(self, bytes: usize) -> Option<Cow<'d, str>> {
        let body = (self.kind() == ValueKind::String).then(|| literal::within(self.raw()))?;
        Some(literal::decode_body(&body[..body.floor_char_boundary(bytes)]).0)
    }

    /// Whether it is the string `expected`.
    #[must_use]
    pub fn is_str(self, expected: &str) -> bool {
        let node = self.node();
        if node.kind != ValueKind::String {
            return false;
        }
        if node.escaped {
            return literal::equals(self.raw(), expected);
        }
        let (start, end) = (node.start as usize + 1, node.end as usize - 1);
        end - start == expected.len() && self.doc.text.as_bytes()[start..end] == *expected.as_bytes()
    }

    /// The truth of a boolean.
    #[must_use]
    pub fn as_bool(self) -> Option<bool> {
        (self.kind() == ValueKind::Bool).then(|| self.raw() == "true")
    }

    /// A number that is a plain unsigned integer.
    #[must_use]
    pub fn as_u64(self) -> Option<u64> {
        (self.kind() == ValueKind::Number).then(|| self.raw().parse().ok()).flatten()
    }

    /// The string as shareable text that remembers the place of its literal, relative to `base`. A `base` before the source
    /// wraps around, and moves the place forward.
    #[must_use]
    pub fn to_text(self, base: usize) -> Option<Text> {
        if self.kind() != ValueKind::String {
            return None;
        }
        let raw = self.raw();
        let span = Span::literal(self.start().wrapping_sub(base), raw.len());
        if !self.node().escaped {
            let shared =
                self.doc.shared.and_then(|shared| Raw::slice(shared, self.start() + 1, self.end() - 1));
            return Some(match shared {
                Some(slice) => Text::slice(slice).at(span),
                None => Text::located(literal::within(raw), span, false),
            });
        }
        if let Some(shared) = self.doc.shared.filter(|_| raw.len() >= LONG)
            && let Some(body) = Raw::slice(shared, self.start() + 1, self.end() - 1)
        {
            return Some(Text::undecoded(body, span, self.has_lone_surrogate()));
        }
        let mut decoded = self.doc.decoded.borrow_mut();
        decoded.clear();
        let lossy = literal::decode_into(&mut decoded, literal::within(raw));
        Some(Text::located(decoded.as_str(), span, lossy))
    }

    /// The exact source of this value as shareable text that remembers its place, relative to `base`.
    #[must_use]
    pub fn to_raw_text(self, base: usize) -> Text {
        let raw = self.raw();
        Text::located(
            raw,
            Span::verbatim(self.start().wrapping_sub(base), raw.len()),
            self.has_lone_surrogate(),
        )
    }

    /// The elements of an array; nothing for any other value.
    pub fn items(self) -> impl Iterator<Item = Value<'d>> {
        let node = self.node();
        let array = node.kind == ValueKind::Array;
        let mut index = self.index + 1;
        std::iter::from_fn(move || {
            if !array || index >= node.next as usize {
                return None;
            }
            let value = Value { doc: self.doc, index };
            index = value.node().next as usize;
            Some(value)
        })
    }

    /// The fields of an object, duplicates included; nothing for any other value.
    pub fn fields(self) -> impl Iterator<Item = (Value<'d>, Value<'d>)> {
        let node = self.node();
        let object = node.kind == ValueKind::Object;
        let mut index = self.index + 1;
        std::iter::from_fn(move || {
            // A cut object may end after a key.
            if !object || index + 1 >= node.next as usize {
                return None;
            }
            let key = Value { doc: self.doc, index };
            let value = Value { doc: self.doc, index: index + 1 };
            index = value.node().next as usize;
            Some((key, value))
        })
    }

    /// The field `name`; of duplicates the last one, as every common JSON reader has it.
    #[must_use]
    pub fn get(self, name: &str) -> Option<Value<'d>> {
        self.fields().filter(|(key, _)| key.is_str(name)).last().map(|(_, value)| value)
    }

    /// The field `name`, unless it is absent or `null`.
    #[must_use]
    pub fn given(self, name: &str) -> Option<Value<'d>> {
        self.get(name).filter(|value| !value.is_null())
    }

    /// The text of the field `name`; empty if it is no text.
    #[must_use]
    pub fn word(self, name: &str) -> Cow<'d, str> {
        self.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    /// Whether the field `name` is the string `expected`.
    #[must_use]
    pub fn says(self, name: &str, expected: &str) -> bool {
        self.get(name).is_some_and(|value| value.is_str(expected))
    }

    /// Whether the field `name` is of this kind.
    #[must_use]
    pub fn holds(self, name: &str, kind: ValueKind) -> bool {
        self.get(name).is_some_and(|value| value.kind() == kind)
    }
}

#[cfg(test)]
mod tests;
