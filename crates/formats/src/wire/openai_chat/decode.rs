//! A whole response of the Chat Completions API as a message.

use std::sync::Arc;

use rejoin_record::json::{Doc, Value};

use super::super::{DecodeError, Decoded};
use crate::chat::{MessageReader, Style};

pub(crate) fn decode(response: &[u8]) -> Result<Decoded, DecodeError> {
    let text: Arc<str> = String::from_utf8_lossy(response).into();
    let doc = Doc::parse(&text)?;
    let root = doc.root().ok_or(DecodeError::Missing("choices"))?;
    if let Some(error) = DecodeError::said_by(root) {
        return Err(error);
    }
    let choice =
        root.get("choices").and_then(|list| list.items().next()).ok_or(DecodeError::Missing("choices"))?;
    let message = choice.given("message").ok_or(DecodeError::Missing("message"))?;
    let field =
        |value: Value<'_>, name| value.given(name).and_then(Value::as_str).map(std::borrow::Cow::into_owned);
    let model = field(root, "model");
    let mut reader = MessageReader::new(Style::OpenAi, model.clone().map(Into::into));
    let read = reader.read(message, &text, 0).ok_or(DecodeError::Missing("message"))?;
    let usage = root.given("usage").and_then(|usage| {
        Some((usage.get("prompt_tokens")?.as_u64()?, usage.get("completion_tokens")?.as_u64()?))
    });
    Ok(Decoded { message: read.message, model, stop_reason: field(choice, "finish_reason"), usage })
}
