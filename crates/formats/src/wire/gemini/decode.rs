//! A whole response of `generateContent` as a message.

use std::{borrow::Cow, sync::Arc};

use rejoin_record::json::{Doc, Value};

use super::super::{DecodeError, Decoded};
use crate::gemini::ContentReader;

pub(super) fn decode(response: &[u8]) -> Result<Decoded, DecodeError> {
    let text: Arc<str> = String::from_utf8_lossy(response).into();
    let doc = Doc::parse(&text)?;
    let root = doc.root().ok_or(DecodeError::Missing("candidates"))?;
    // Errors of a stream come in a list.
    let holder = root.items().next().unwrap_or(root);
    if let Some(error) = holder.given("error") {
        let words = error.get("message").and_then(Value::as_str).unwrap_or_else(|| error.raw().into());
        return Err(DecodeError::Provider(words.into_owned()));
    }
    let candidate = root
        .get("candidates")
        .and_then(|list| list.items().next())
        .ok_or(DecodeError::Missing("candidates"))?;
    let content = candidate.given("content").ok_or(DecodeError::Missing("content"))?;
    let field = |value: Value<'_>, name| value.given(name).and_then(Value::as_str).map(Cow::into_owned);
    let model = field(root, "modelVersion");
    let mut reader = ContentReader::of_response(model.clone().map(Into::into), &text);
    let message = reader.answer(content, &text).ok_or(DecodeError::Missing("content"))?;
    let usage = root.given("usageMetadata").and_then(|usage| {
        let count = |name| usage.get(name).and_then(Value::as_u64);
        // What was thought is part of the answer; nothing is counted that did not occur.
        let answer = count("candidatesTokenCount").unwrap_or(0) + count("thoughtsTokenCount").unwrap_or(0);
        Some((count("promptTokenCount")?, answer))
    });
    Ok(Decoded { message, model, stop_reason: field(candidate, "finishReason"), usage })
}
