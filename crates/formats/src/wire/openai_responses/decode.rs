//! A whole response of the Responses API as a message.

use std::sync::Arc;

use rejoin_record::{
    Text,
    json::{Doc, Value},
};

use super::super::{DecodeError, Decoded};
use crate::{
    responses::{Assembler, FORMAT, Source},
    session::Place,
};

pub(super) fn decode(response: &[u8]) -> Result<Decoded, DecodeError> {
    let text: Arc<str> = String::from_utf8_lossy(response).into();
    let doc = Doc::parse(&text)?;
    let root = doc.root().ok_or(DecodeError::Missing("output"))?;
    if let Some(error) = root.given("error") {
        let words = error.get("message").and_then(Value::as_str).unwrap_or_else(|| error.raw().into());
        return Err(DecodeError::Provider(words.into_owned()));
    }
    let output = root.given("output").ok_or(DecodeError::Missing("output"))?;
    let field =
        |value: Value<'_>, name| value.given(name).and_then(Value::as_str).map(|text| text.into_owned());
    let model = field(root, "model");
    let mut assembler = Assembler::new(FORMAT);
    assembler.set_model(model.clone().map(Text::from));
    for (index, item) in output.items().enumerate() {
        let place = Place { index, offset: item.start(), line: None };
        let source = Source { buffer: &text, start: item.start(), end: item.end(), place, time: None };
        assembler.add(item, &source);
    }
    assembler.flush();
    let message = assembler.messages.pop().ok_or(DecodeError::Missing("output"))?;
    let details = root.given("incomplete_details").and_then(|details| field(details, "reason"));
    let usage = root.given("usage").and_then(|usage| {
        Some((usage.get("input_tokens")?.as_u64()?, usage.get("output_tokens")?.as_u64()?))
    });
    let message = Arc::unwrap_or_clone(message);
    Ok(Decoded { message, model, stop_reason: details.or_else(|| field(root, "status")), usage })
}
