//! The abilities of each dialect of the server: reading a request, finding faults beyond its shape, writing an answer.

use rejoin_formats::Dialect;
use serde_json::Value;

use super::{
    Service,
    brain::{Ask, Say},
    issue::{Asker, Issued, Issuer, Piece, Wrong},
};

/// A request of a model, as far as HTTP knows it.
#[derive(Debug, Clone)]
pub(super) struct Asked<'a> {
    pub service: Service,
    pub model: String,
    pub stream: bool,
    pub body: &'a Value,
    /// Whether the reasoning next to calls must come back (DS-01).
    pub reasoning_required: bool,
}

/// Something that a provider would not take.
#[derive(Debug, Clone)]
pub(super) struct Objection {
    pub rule: &'static str,
    pub place: String,
    pub message: String,
}

impl Objection {
    pub fn new(rule: &'static str, place: impl Into<String>, message: impl Into<String>) -> Self {
        Self { rule, place: place.into(), message: message.into() }
    }
}

/// Tokens that an answer says it took.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tokens {
    pub input: u64,
    pub cached: u64,
    pub output: u64,
    pub reasoning: u64,
}

impl Tokens {
    /// Four bytes make a token.
    pub fn of(bytes: u64, cached: u64, say: &Say) -> Self {
        let calls: usize = say.calls.iter().map(|call| call.name.len() + call.arguments.len()).sum();
        let reasoning = say.reasoning.as_ref().map_or(0, String::len) as u64 / 4;
        Self {
            input: bytes / 4 + 1,
            cached: cached / 4,
            output: (say.text.len() + calls) as u64 / 4 + 1 + reasoning,
            reasoning,
        }
    }
}

/// An answer in both forms.
#[derive(Debug, Clone)]
pub(super) struct Answer {
    /// At once.
    pub whole: Value,
    /// As a stream.
    pub pieces: Vec<Vec<u8>>,
}

/// One dialect.
pub(super) trait Speaker: Sync {
    /// Its name.
    fn dialect(&self) -> Dialect;
    /// The type of its streams.
    fn stream_type(&self) -> &'static str {
        "text/event-stream; charset=utf-8"
    }
    /// The request to the model.
    fn ask(&self, asked: &Asked<'_>) -> Ask;
    /// The request in canonical pieces, in order, to which secrets are bound.
    fn pieces(&self, body: &Value) -> Vec<Piece>;
    /// The fields that a request must have besides its messages.
    fn required(&self, asked: &Asked<'_>) -> Vec<Objection>;
    /// Reasoning that should have come back but did not.
    fn missing(&self, _: &Asked<'_>, _: &Issued, _: &Asker) -> Vec<Objection> {
        Vec::new()
    }
    /// The provider's words for a secret that must not be there.
    fn wrong(&self, wrong: &Wrong, body: &Value) -> Objection;
    /// Writes the answer, and issues its secrets.
    fn answer(&self, ask: &Ask, say: &Say, issuer: Issuer<'_>, tokens: Tokens) -> Answer;
}

/// One event of a stream, with its name if the dialect has names.
pub(super) fn event(name: &str, data: &Value) -> Vec<u8> {
    if name.is_empty() { format!("data: {data}\n\n") } else { format!("event: {name}\ndata: {data}\n\n") }
        .into_bytes()
}

/// The text of a content: a string, or the texts of its parts.
pub(super) fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            parts.iter().filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}

/// The items of a list; none if it is none.
pub(super) fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The text of a field, empty without one.
pub(super) fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// Now, in seconds.
pub(super) fn seconds() -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |now| i64::try_from(now.as_secs()).unwrap_or_default())
}

/// Arguments as an object; other values become an empty one.
pub(super) fn object(arguments: &str) -> Value {
    serde_json::from_str(arguments).ok().filter(Value::is_object).unwrap_or_else(|| serde_json::json!({}))
}
