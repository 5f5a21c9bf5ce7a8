//! Reads JSON without losing a byte of it.
//!
//! A [`Doc`] is a flat list of nodes over the source text. Every node knows its exact span, so every value can be returned exactly
//! as written, including big numbers, key order, duplicate keys, escapes and spacing. Parsing is iterative (nesting costs memory,
//! never stack) and accepts common faults of real files: lone surrogates, raw control characters, `NaN`. Accepted faults are
//! remembered, so that such text is not taken for clean JSON.
//!
//! [`mod@write`] writes values, [`Object`] whole objects; [`literal`] decodes string literals. This module knows no provider.

pub mod literal;
mod object;
mod parse;
pub mod write;

use std::{borrow::Cow, cell::RefCell, sync::Arc};

pub use object::{Object, list, quoted};
pub use parse::{Fault, SyntaxError, SyntaxErrorKind};

use crate::text::{Raw, Span, Text};

/// The type of a value.
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
    /// Whether the text ended before this container was closed.
    cut: bool,
    /// Whether the string contains a backslash. Other strings need no decoding.
    escaped: bool,
}

/// A parsed JSON text.
#[derive(Debug)]
pub struct Doc<'a> {
    text: &'a str,
    layout: Layout,
    /// The text as its owner shares it, if set. Long strings are then not decoded but refer to it.
    shared: Option<&'a Arc<str>>,
    /// A buffer in which strings are decoded before they are copied into a text of the right size.
    decoded: RefCell<String>,
}

/// A parsed document without its text. Unlike a [`Doc`], it borrows nothing, so another thread may make it.
#[derive(Debug)]
pub struct Layout {
    nodes: Vec<Node>,
    /// Byte offsets of faults that strict JSON refuses, in order.
    faults: Vec<(u32, Fault)>,
    max_depth: usize,
    /// The length of the text, in bytes.
    length: usize,
}

impl Layout {
    /// Parses as far as possible, as [`Doc::parse_prefix`] does.
    #[must_use]
    pub fn parse_prefix(text: &str) -> (Self, Option<SyntaxError>) {
        parse::run(text, &[])
    }

    /// The document for the text that was parsed. `buffer` is used to decode strings; it may come from an earlier document.
    ///
    /// # Panics
    /// If the text has a different length.
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

    /// Parses a text in which some string literals are known to be clean. `known` has the offset of the first quote and the offset
    /// after the last quote of each. They are not examined again.
    ///
    /// # Errors
    /// Those of [`parse`](Self::parse).
    pub fn parse_around(text: &'a str, known: &[(usize, usize)]) -> Result<Self, SyntaxError> {
        match parse::run(text, known) {
            (layout, None) => Ok(layout.into_doc(text, String::new())),
            (_, Some(error)) => Err(error),
        }
    }

    /// Parses a text that may not be JSON; if it is not, the document has no root.
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

    /// The same document, sharing its text: long strings are decoded only when they are read.
    ///
    /// # Panics
    /// If the text is a different one.
    #[must_use]
    pub fn shared_as(self, text: &'a Arc<str>) -> Self {
        assert!(std::ptr::eq(self.text, &**text), "BUG: this is not the text that was parsed");
        Doc { shared: Some(text), ..self }
    }

    /// Splits the document into its layout and the buffer for decoding strings, which the next document can use.
    #[must_use]
    pub fn into_layout(self) -> (Layout, String) {
        (self.layout, self.decoded.into_inner())
    }

    /// The outermost value; `None` if nothing could be parsed.
    #[must_use]
    pub fn root(&self) -> Option<Value<'_>> {
        (!self.layout.nodes.is_empty()).then_some(Value { doc: self, index: 0 })
    }

    /// Every string in the document, including keys, decoded.
    pub fn strings(&self) -> impl Iterator<Item = Cow<'_, str>> {
        (0..self.layout.nodes.len()).filter_map(|index| Value { doc: self, index }.as_str())
    }

    /// The depth of the nesting; a scalar has depth 0, `[]` depth 1.
    #[must_use]
    pub fn max_depth(&self) -> usize {
        self.layout.max_depth
    }

    /// Whether strict JSON would accept the text except for lone surrogates.
    #[must_use]
    pub fn only_lone_surrogates(&self) -> bool {
        self.layout.faults.iter().all(|&(_, fault)| fault == Fault::LoneSurrogate)
    }

    /// The first place at which strict JSON would refuse the text, and the reason; `None` if it would not.
    #[must_use]
    pub fn first_fault(&self) -> Option<(usize, Fault)> {
        self.layout.faults.first().map(|&(at, fault)| (at as usize, fault))
    }
}

/// Literals of at least this many bytes are decoded only when they are read.
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

    /// Its type.
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

    /// The offset in the parsed text at which it starts, in bytes.
    #[must_use]
    pub fn start(self) -> usize {
        self.node().start as usize
    }

    /// The offset in the parsed text at which it ends, in bytes.
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

    /// Whether strict JSON would accept it.
    #[must_use]
    pub fn is_clean(self) -> bool {
        let node = self.node();
        let first = self.doc.layout.faults.partition_point(|&(at, _)| at < node.start);
        self.doc.layout.faults.get(first).is_none_or(|&(at, _)| at >= node.end)
    }

    /// Whether it is nested deeper than `limit`.
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

    /// Whether a string in it contains half of a surrogate pair.
    #[must_use]
    pub fn has_lone_surrogate(self) -> bool {
        let node = self.node();
        let first = self.doc.layout.faults.partition_point(|&(at, _)| at < node.start);
        self.doc.layout.faults[first..]
            .iter()
            .take_while(|&&(at, _)| at < node.end)
            .any(|&(_, fault)| fault == Fault::LoneSurrogate)
    }

    /// The decoded text of a string, with lone surrogates replaced by U+FFFD; `None` for other types.
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

    /// The value of a boolean; `None` for other types.
    #[must_use]
    pub fn as_bool(self) -> Option<bool> {
        (self.kind() == ValueKind::Bool).then(|| self.raw() == "true")
    }

    /// The value of a number that is a plain unsigned integer; `None` for all others.
    #[must_use]
    pub fn as_u64(self) -> Option<u64> {
        (self.kind() == ValueKind::Number).then(|| self.raw().parse().ok()).flatten()
    }

    /// The string as shareable text that remembers the position of its literal, relative to `base`. A `base` before the source
    /// wraps around and moves the position forward.
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

    /// The exact source of this value as shareable text that remembers its position, relative to `base`.
    #[must_use]
    pub fn to_raw_text(self, base: usize) -> Text {
        let raw = self.raw();
        Text::located(
            raw,
            Span::verbatim(self.start().wrapping_sub(base), raw.len()),
            self.has_lone_surrogate(),
        )
    }

    /// The elements of an array; empty for other types.
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

    /// The fields of an object, including duplicates; empty for other types.
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

    /// The field `name`; of duplicates the last one, as in every common JSON reader.
    #[must_use]
    pub fn get(self, name: &str) -> Option<Value<'d>> {
        self.fields().filter(|(key, _)| key.is_str(name)).last().map(|(_, value)| value)
    }

    /// The field `name`; `None` if it is absent or `null`.
    #[must_use]
    pub fn given(self, name: &str) -> Option<Value<'d>> {
        self.get(name).filter(|value| !value.is_null())
    }

    /// The text of the field `name`; empty if it is not a string.
    #[must_use]
    pub fn word(self, name: &str) -> Cow<'d, str> {
        self.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    /// Whether the field `name` is the string `expected`.
    #[must_use]
    pub fn says(self, name: &str, expected: &str) -> bool {
        self.get(name).is_some_and(|value| value.is_str(expected))
    }

    /// Whether the field `name` has this type.
    #[must_use]
    pub fn holds(self, name: &str, kind: ValueKind) -> bool {
        self.get(name).is_some_and(|value| value.kind() == kind)
    }
}

#[cfg(test)]
mod tests;
