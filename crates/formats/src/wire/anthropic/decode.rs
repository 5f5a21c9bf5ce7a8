//! A whole response of the Messages API as a message.

use std::sync::Arc;

use rejoin_record::json::{Doc, Value};

use super::super::{DecodeError, Decoded};
use crate::chat::{MessageReader, Style};

pub(super) fn decode(response: &[u8]) -> Result<Decoded, DecodeError> {
    let text: Arc<str> = String::from_utf8_lossy(response).into();
    let doc = Doc::parse(&text)?;
    let root = doc.root().ok_or(DecodeError::Missing("content"))?;
    if let Some(error) = DecodeError::said_by(root) {
        return Err(error);
    }
    root.given("content").ok_or(DecodeError::Missing("content"))?;
    let field = |name| root.given(name).and_then(Value::as_str).map(std::borrow::Cow::into_owned);
    let model = field("model");
    let mut reader = MessageReader::new(Style::Anthropic, model.clone().map(Into::into));
    let read = reader.read(root, &text, 0).ok_or(DecodeError::Missing("content"))?;
    let usage = root.given("usage").and_then(|usage| {
        Some((usage.get("input_tokens")?.as_u64()?, usage.get("output_tokens")?.as_u64()?))
    });
    Ok(Decoded { message: read.message, model, stop_reason: field("stop_reason"), usage })
}
