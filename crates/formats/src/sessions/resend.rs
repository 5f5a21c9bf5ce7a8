//! The messages of a session as its own agent would send them when it is resumed: with that agent's repairs, and without
//! ours. What the provider would say to them tells whether the session is dead.
//!
//! For two agents this is known word for word, from comparing with the real programs. For others only what they do about calls
//! and results is known: `habits.rs` applies that, and `known.rs` lists it by agent, with where it is known from.

mod habits;
pub(super) mod known;

use std::sync::Arc;

use rejoin_record::{
    BlockKind, Message, NativeItem,
    json::{self as source, Doc, ValueKind},
    text::is_blank,
};
use serde_json::{Value, json};

pub use habits::{
    DuplicateResults, Habits, LateResults, Orphans, ReusedIdHandling, SearchRange, TargetDialect, Unanswered,
};

use crate::{parallel, session::Session};

/// The messages that an agent would send.
#[derive(Debug, Clone, Default)]
pub struct ResentMessages {
    /// The messages, in the dialect that the agent speaks. Of a long text only the beginning is here.
    pub list: Vec<Value>,
    /// The message of the session that each of them comes from; none for what the agent adds.
    pub places: Vec<Option<usize>>,
    /// About how many bytes they take.
    pub bytes: usize,
}

impl ResentMessages {
    pub(crate) fn push(&mut self, item: Value, place: Option<usize>) {
        self.list.push(item);
        self.places.push(place);
    }
}

/// The messages without changes, for a tool whose repairs are not known, followed by a prompt to continue if the model spoke
/// last.
pub fn continued(session: &Session) -> ResentMessages {
    let mut resent = ResentMessages::default();
    let items = natives(session, &mut resent.bytes, |item| Some(item), Some);
    items.into_iter().for_each(|(place, item)| resent.push(item, Some(place)));
    match resent.list.last().and_then(|last| last["role"].as_str()) {
        Some("assistant") => resent.push(next_word(), None),
        Some("model") => resent.push(json!({"role": "user", "parts": [{"text": "Continue."}]}), None),
        _ => {}
    }
    resent
}

/// Finds the part of an item that is sent.
pub(crate) type Part = for<'d> fn(source::Value<'d>) -> Option<source::Value<'d>>;

/// The part that is sent of each of the source's items, as `each` makes it, with the place of its message. Adds their length
/// to `bytes`. An item that is not strict JSON cannot be checked and is left out.
pub(crate) fn natives<T: Send>(
    session: &Session,
    bytes: &mut usize,
    part: Part,
    each: impl Fn(Value) -> Option<T> + Sync,
) -> Vec<(usize, T)> {
    let sources: Vec<Source<'_>> = session.messages.iter().enumerate().flat_map(sources_of).collect();
    *bytes += sources.iter().map(|source| source.text.len()).sum::<usize>();
    parallel::filter_map(&sources, |_, source| Some((source.place, each(source.shortened(part)?)?)))
}

/// One item, and the message that it is part of.
#[derive(Clone, Copy)]
struct Source<'s> {
    place: usize,
    text: &'s str,
    message: &'s Message,
    /// Whether the reader found nothing in it that strict JSON refuses.
    clean: bool,
}

fn sources_of((place, message): (usize, &Arc<Message>)) -> Vec<Source<'_>> {
    let Some(native) = &message.native else { return Vec::new() };
    let raw = native.raw.as_str();
    if native.items.is_empty() {
        return vec![Source { place, text: raw, message, clean: native.regular }];
    }
    let source =
        |item: &NativeItem| Some(Source { place, text: item.span.of(raw)?, message, clean: item.regular });
    native.items.iter().filter_map(source).collect()
}

impl Source<'_> {
    fn shortened(&self, part: Part) -> Option<Value> {
        let known = if self.clean { self.known_literals() } else { Vec::new() };
        let doc = Doc::parse_around(self.text, &known).ok();
        let doc = doc.filter(|doc| doc.max_depth() <= DEEPEST && doc.first_fault().is_none())?;
        Some(value_of(part(doc.root()?)?, false))
    }

    /// Where the long texts of the message are in the item, as far as they still are slices of it.
    fn known_literals(&self) -> Vec<(usize, usize)> {
        let results = self.message.tool_results().flat_map(|result| &result.content);
        let texts = self.message.blocks.iter().chain(results).filter_map(|block| match &block.kind {
            BlockKind::Text(text) => text.literal(),
            _ => None,
        });
        let item = self.text.as_ptr() as usize;
        let places = texts.filter_map(|literal| {
            let start = (literal.as_ptr() as usize).checked_sub(item + 1)?;
            let end = start + literal.len() + 2;
            (end <= self.text.len()).then_some((start, end))
        });
        let mut places: Vec<(usize, usize)> = places.collect();
        places.sort_unstable();
        places
    }
}

/// Items that are nested deeper cannot be judged.
const DEEPEST: usize = 127;

/// The fields that hold texts, or reasoning that only the provider can read.
const TEXTS: [&str; 4] = ["text", "output", "content", "encrypted_content"];

/// Texts of these lengths in bytes are cut: no provider looks at more of them than whether they are blank, and whether they end with
/// white space. A longer one may be longer than a provider allows, so it is kept whole.
const CUT: std::ops::Range<usize> = 64..1024 * 1024;

/// A value with long texts cut.
fn value_of(value: source::Value<'_>, is_text: bool) -> Value {
    match value.kind() {
        ValueKind::Array => value.items().map(|item| value_of(item, is_text)).collect(),
        ValueKind::Object => {
            let fields = value.fields().map(|(name, value)| {
                let name = name.as_str().unwrap_or_default();
                let is_text = TEXTS.contains(&&*name);
                (name.into_owned(), value_of(value, is_text))
            });
            let mut object = serde_json::Map::with_capacity(value.fields().count());
            object.extend(fields);
            Value::Object(object)
        }
        ValueKind::String if is_text && CUT.contains(&value.raw().len()) => {
            let beginning = value.beginning(CUT.start).filter(|text| !is_blank(text));
            // Some providers refuse a text that ends with a space, so the cut text ends with one only if the whole one does.
            let cut = beginning.map(|text| {
                let end = if ends_blank(value.raw()) { "\n" } else { "" };
                format!("{}{end}", text.trim_end())
            });
            Value::from(cut.or_else(|| value.as_str().map(Into::into)))
        }
        ValueKind::String => Value::from(value.as_str()),
        _ => serde_json::from_str(value.raw()).unwrap_or_default(),
    }
}

/// Whether the text of a string literal ends with white space.
fn ends_blank(literal: &str) -> bool {
    let body = literal.strip_suffix('"').unwrap_or(literal);
    // Of several backslashes in a row, every second one is the text of an escape.
    let is_escape = |length: usize| {
        let start = body.len().checked_sub(length).filter(|start| body.is_char_boundary(*start))?;
        let before = body[..start].bytes().rev().take_while(|byte| *byte == b'\\').count();
        body[start..].strip_prefix('\\').filter(|_| before % 2 == 0)
    };
    if let Some(letter) = is_escape(2) {
        return matches!(letter, "n" | "r" | "t" | "f");
    }
    if let Some(digits) = is_escape(6).and_then(|escape| escape.strip_prefix('u')) {
        let letter = u32::from_str_radix(digits, 16).ok().and_then(char::from_u32);
        return letter.is_some_and(char::is_whitespace);
    }
    body.chars().next_back().is_none_or(char::is_whitespace)
}

/// A person's message that asks the model to continue.
pub(crate) fn next_word() -> Value {
    json!({"role": "user", "content": "Continue."})
}

#[cfg(test)]
mod tests;
