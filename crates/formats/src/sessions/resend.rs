//! The messages of a session as its own agent would send them when it is resumed: with that agent's repairs, and without
//! ours. What the provider would say to them tells whether the session is dead.

use std::sync::Arc;

use rejoin_record::{
    Message,
    json::{self as source, Doc, Kind},
    text::is_blank,
};
use serde_json::{Value, json};

use crate::{parallel, session::Session};

/// The messages that an agent would send.
#[derive(Debug, Clone, Default)]
pub struct Resent {
    /// The messages, in the dialect that the agent speaks. Of a long text only the beginning is here.
    pub list: Vec<Value>,
    /// The message of the session that each of them comes from; none for what the agent adds.
    pub places: Vec<Option<usize>>,
    /// About how many bytes they take.
    pub bytes: usize,
}

impl Resent {
    pub(crate) fn push(&mut self, item: Value, place: Option<usize>) {
        self.list.push(item);
        self.places.push(place);
    }
}

/// The messages without changes, for a tool whose repairs are not known, followed by a prompt to continue if the model spoke
/// last.
pub fn continued(session: &Session) -> Resent {
    let mut resent = Resent::default();
    let items = natives(session, &mut resent.bytes, |item| Some(item));
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

/// The part that is sent of each of the source's items, with the place of its message. Adds their length to `bytes`. An item
/// that is not strict JSON cannot be checked and is left out.
pub(crate) fn natives(session: &Session, bytes: &mut usize, part: Part) -> Vec<(usize, Value)> {
    let texts: Vec<(usize, &str)> = session.messages.iter().enumerate().flat_map(texts_of).collect();
    *bytes += texts.iter().map(|(_, text)| text.len()).sum::<usize>();
    parallel::filter_map(&texts, |_, (place, text)| Some((*place, shortened(text, part)?)))
}

fn texts_of((place, message): (usize, &Arc<Message>)) -> Vec<(usize, &str)> {
    let Some(native) = &message.native else { return Vec::new() };
    let raw = native.raw.as_str();
    if native.items.is_empty() {
        return vec![(place, raw)];
    }
    native.items.iter().filter_map(|item| Some((place, item.span.of(raw)?))).collect()
}

fn shortened(item: &str, part: Part) -> Option<Value> {
    let doc =
        Doc::parse(item).ok().filter(|doc| doc.max_depth() <= DEEPEST && doc.first_fault().is_none())?;
    Some(value_of(part(doc.root()?)?, false))
}

/// Items that are nested deeper cannot be judged.
const DEEPEST: usize = 127;

/// The fields that hold texts, or reasoning that only the provider can read.
const TEXTS: [&str; 4] = ["text", "output", "content", "encrypted_content"];

/// Texts of these lengths in bytes are cut: no provider looks at more of them than whether they are blank. A longer one may be
/// longer than a provider allows, so it is kept whole.
const CUT: std::ops::Range<usize> = 256..1024 * 1024;

/// A value with long texts cut.
fn value_of(value: source::Value<'_>, is_text: bool) -> Value {
    match value.kind() {
        Kind::Array => value.items().map(|item| value_of(item, is_text)).collect(),
        Kind::Object => {
            let fields = value.fields().map(|(name, value)| {
                let name = name.as_str().unwrap_or_default();
                let is_text = TEXTS.contains(&&*name);
                (name.into_owned(), value_of(value, is_text))
            });
            Value::Object(fields.collect())
        }
        Kind::String if is_text && CUT.contains(&value.raw().len()) => {
            let beginning = value.beginning(CUT.start);
            Value::from(beginning.filter(|text| !is_blank(text)).or_else(|| value.as_str()))
        }
        Kind::String => Value::from(value.as_str()),
        _ => serde_json::from_str(value.raw()).unwrap_or_default(),
    }
}

/// A person's message that asks the model to continue.
pub(crate) fn next_word() -> Value {
    json!({"role": "user", "content": "Continue."})
}
