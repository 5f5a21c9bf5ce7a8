//! A whole response of Ollama as a message.

use std::sync::Arc;

use rejoin_record::{
    Arguments, Block, BlockKind, CallId, Form, Message, Native, Origin, Raw, Reasoning, Role, Text, ToolCall,
    hash::short_name,
    json::{Doc, Value},
};

use super::super::{DecodeError, Decoded};

const FORMAT: &str = "ollama";

pub(super) fn decode(response: &[u8]) -> Result<Decoded, DecodeError> {
    let text: Arc<str> = String::from_utf8_lossy(response).into();
    let doc = Doc::parse(&text)?;
    let root = doc.root().ok_or(DecodeError::Missing("message"))?;
    if let Some(error) = DecodeError::said_by(root) {
        return Err(error);
    }
    let item = root.given("message").ok_or(DecodeError::Missing("message"))?;
    let field = |name| root.given(name).and_then(Value::as_str).map(std::borrow::Cow::into_owned);
    let model = field("model");
    let message = message(item, &text, model.as_deref(), &short_name(&text, 24));
    let count = |name| root.given(name).and_then(Value::as_u64);
    let usage = count("prompt_eval_count").zip(count("eval_count"));
    Ok(Decoded { message, model, stop_reason: field("done_reason"), usage })
}

/// Reads a message of the dialect. Its calls have no ids: they get some from the `seed`.
pub(super) fn message(item: Value<'_>, buffer: &Arc<str>, model: Option<&str>, seed: &str) -> Message {
    let base = item.start();
    let mut blocks = Vec::new();
    let written = |name| {
        let text = item.given(name).and_then(|value| value.to_text(base));
        text.filter(|text| !text.is_empty())
    };
    if let Some(text) = written("thinking") {
        let origin =
            Origin { dialect: Some(FORMAT.into()), model: model.map(Text::new), ..Origin::default() };
        blocks.push(Block::new(BlockKind::Reasoning(Box::new(Reasoning { text, sealed: false, origin }))));
    }
    blocks.extend(written("content").map(Block::text));
    for (place, call) in item.given("tool_calls").into_iter().flat_map(Value::items).enumerate() {
        blocks.push(Block::call(tool_call(call, base, &format!("{place} {seed}"))));
    }
    let raw = Raw::slice(buffer, item.start(), item.end()).unwrap_or_else(|| Raw::new(item.raw()));
    Message {
        role: Role::Assistant,
        blocks,
        form: Form::Text,
        native: Some(Native::one(FORMAT, raw, item.is_clean())),
    }
}

/// A call. Where it has no id, it gets one from the `seed`: the same for the same response, another for any other.
fn tool_call(call: Value<'_>, base: usize, seed: &str) -> ToolCall {
    let function = call.given("function").unwrap_or(call);
    let own_id = [call, function].into_iter().find_map(|holder| holder.given("id")?.to_text(base));
    let id = own_id
        .filter(|id| !id.is_blank())
        .map_or_else(|| CallId::from(format!("call_{}", short_name(seed, 16))), CallId::new);
    let arguments = match function.given("arguments") {
        None => Arguments::absent(),
        Some(value) => Arguments::new(value.to_text(base).unwrap_or_else(|| value.to_raw_text(base))),
    };
    let name = function.given("name").and_then(|name| name.to_text(base)).unwrap_or_else(|| Text::new(""));
    // The dialect has no ids by design: nothing is missing.
    ToolCall { id, id_given: true, name, arguments }
}
