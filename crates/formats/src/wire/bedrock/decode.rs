//! A whole response of Converse as a message.

use std::sync::Arc;

use rejoin_record::{
    Arguments, Block, BlockKind, CallId, Form, Message, Native, Opaque, Origin, Raw, Reasoning, Role, Span,
    Text, ToolCall,
    json::{Doc, Value},
};

use super::super::{DecodeError, Decoded};

const FORMAT: &str = "bedrock";

pub(super) fn decode(response: &[u8]) -> Result<Decoded, DecodeError> {
    let text: Arc<str> = String::from_utf8_lossy(response).into();
    let doc = Doc::parse(&text)?;
    let root = doc.root().ok_or(DecodeError::Missing("output"))?;
    if let Some(error) = DecodeError::said_by(root) {
        return Err(error);
    }
    let Some(output) = root.given("output") else {
        // An exception is a message and nothing else.
        let words = ["message", "Message"].iter().find_map(|name| root.given(name)?.as_str());
        let words = words.ok_or(DecodeError::Missing("output"))?;
        return Err(DecodeError::Provider(words.into_owned()));
    };
    let item = output.given("message").ok_or(DecodeError::Missing("message"))?;
    let content = item.given("content").ok_or(DecodeError::Missing("content"))?;
    let base = item.start();
    let blocks = content.items().map(|value| {
        let span = Span::verbatim(value.start() - base, value.raw().len());
        let block = Block::new(block(value, base));
        if value.is_clean() { block.at(span) } else { block }
    });
    let message = Message {
        role: Role::Assistant,
        blocks: blocks.collect(),
        form: Form::Parts,
        native: Some(Native::one(
            FORMAT,
            Raw::slice(&text, item.start(), item.end()).unwrap_or_else(|| Raw::new(item.raw())),
            item.is_clean(),
        )),
    };
    let stop_reason = root.given("stopReason").and_then(Value::as_str).map(std::borrow::Cow::into_owned);
    let usage = root
        .given("usage")
        .and_then(|usage| Some((usage.get("inputTokens")?.as_u64()?, usage.get("outputTokens")?.as_u64()?)));
    // The response does not say which model it was: the address of the request did.
    Ok(Decoded { message, model: None, stop_reason, usage })
}

/// A content block: an object with one field, which says what it is.
fn block(value: Value<'_>, base: usize) -> BlockKind {
    let text = |value: Value<'_>| value.to_text(base);
    let kind = value.fields().next().and_then(|(key, _)| key.as_str()).unwrap_or_default();
    let read = match &*kind {
        "text" => value.given("text").and_then(text).map(BlockKind::Text),
        "toolUse" => value.given("toolUse").and_then(|call| tool_call(call, base)).map(BlockKind::ToolCall),
        "reasoningContent" => value.given("reasoningContent").map(|held| {
            let words = held.given("reasoningText").and_then(|words| words.given("text"));
            let words = words.and_then(text).unwrap_or_else(|| Text::new(""));
            let origin = Origin { dialect: Some(FORMAT.into()), ..Origin::default() };
            BlockKind::Reasoning(Box::new(Reasoning { text: words, sealed: true, origin }))
        }),
        _ => None,
    };
    read.unwrap_or_else(|| {
        let opaque = Opaque { kind: Text::new(&*kind), raw: Raw::new(value.raw()), fits: value.is_clean() };
        BlockKind::Opaque(Box::new(opaque))
    })
}

fn tool_call(call: Value<'_>, base: usize) -> Option<ToolCall> {
    let id = CallId::new(call.given("toolUseId")?.to_text(base)?);
    let name = call.given("name")?.to_text(base)?;
    let arguments = match call.given("input") {
        None => Arguments::absent(),
        Some(input) => Arguments::new(input.to_raw_text(base)),
    };
    Some(ToolCall { id, id_given: true, name, arguments })
}
