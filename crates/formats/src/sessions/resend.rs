//! The messages of a session as its own agent would send them when it is resumed: with that agent's repairs, and without
//! ours. What the provider would say to them tells whether the session is dead.

use rejoin_record::Message;
use serde_json::{Value, json};

use crate::session::Session;

/// The messages that an agent would send.
#[derive(Debug, Clone, Default)]
pub struct Resent {
    /// The messages, in the dialect that the agent speaks.
    pub list: Vec<Value>,
    /// The message of the session that each of them comes from; none for what the agent adds.
    pub places: Vec<Option<usize>>,
}

impl Resent {
    /// The messages as a JSON list.
    #[must_use]
    pub fn to_json(&self) -> String {
        Value::from(self.list.clone()).to_string()
    }

    pub(crate) fn push(&mut self, item: Value, place: Option<usize>) {
        self.list.push(item);
        self.places.push(place);
    }
}

/// The messages without changes, for a tool whose repairs are not known.
#[must_use]
pub fn as_they_stand(session: &Session) -> Resent {
    let mut resent = Resent::default();
    for (place, message) in session.messages.iter().enumerate() {
        natives(message).into_iter().for_each(|item| resent.push(item, Some(place)));
    }
    resent
}

/// The messages without changes, followed by a prompt to continue if the model spoke last.
#[must_use]
pub fn continued(session: &Session) -> Resent {
    let mut resent = as_they_stand(session);
    match resent.list.last().and_then(|last| last["role"].as_str()) {
        Some("assistant") => resent.push(next_word(), None),
        Some("model") => resent.push(json!({"role": "user", "parts": [{"text": "Continue."}]}), None),
        _ => {}
    }
    resent
}

/// The source's items for a message. An item that is not strict JSON cannot be checked and is left out.
pub(crate) fn natives(message: &Message) -> Vec<Value> {
    let Some(native) = &message.native else { return Vec::new() };
    let raw = native.raw.as_str();
    let texts: Vec<&str> = if native.items.is_empty() {
        vec![raw]
    } else {
        native.items.iter().filter_map(|item| item.span.of(raw)).collect()
    };
    texts.into_iter().filter_map(|text| serde_json::from_str(text).ok()).collect()
}

/// A person's message that asks the model to continue.
pub(crate) fn next_word() -> Value {
    json!({"role": "user", "content": "Continue."})
}
