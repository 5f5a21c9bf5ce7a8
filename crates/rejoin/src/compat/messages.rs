//! Messages in the form that a provider gets, without the request around them.

use rejoin_formats::{Context, Dialect, Target};
use rejoin_record::{
    Message, Raw,
    json::{Doc, Value},
};
use rejoin_view::{History, OnBroken, repair};

/// The messages in the dialect's form, one JSON object each. Everything that a provider would refuse is removed first, as
/// [`validate_message_sequence`](super::validate_message_sequence) does. Empty if they exceed the dialect's size limit.
///
/// ```
/// use rejoin::{Dialect, Message, compat::convert_messages};
///
/// let converted = convert_messages(Dialect::Ollama, &[Message::user("Hello."), Message::tool("call_9", "left over")]);
/// assert_eq!(converted.len(), 1);
/// assert_eq!(converted[0].as_str(), r#"{"role":"user","content":"Hello."}"#);
/// ```
#[must_use]
pub fn convert_messages(dialect: Dialect, messages: &[Message]) -> Vec<Raw> {
    let history: History = messages.iter().cloned().collect();
    let view = repair(&history, OnBroken::Drop).view;
    let context = Context::default();
    let target = Target { closes: false, ..Target::of(&context) };
    let Ok(encoded) = dialect.wire().encode(&view, &target) else { return Vec::new() };
    let doc = Doc::parse(&encoded.body).ok();
    let list =
        doc.as_ref().and_then(Doc::root).and_then(|root| root.get(crate::check::checker(dialect).list));
    list.into_iter().flat_map(Value::items).map(|item| Raw::new(item.raw())).collect()
}
