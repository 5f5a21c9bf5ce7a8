//! Decoding for Bedrock's Converse API.

use std::borrow::Cow;

use rejoin_record::{Arguments, CallId, Native, Role, Span};

use super::WIRE;
use crate::wire::prelude::*;

const FORMAT: &str = "bedrock";

/// A complete response; this dialect is not streamed.
#[derive(Default)]
pub(super) struct ConverseAssembly {
    message: Option<String>,
}

impl Assembly for ConverseAssembly {
    fn event(&mut self, _: &str, event: Value<'_>, seen: &mut Facts, out: &mut Vec<Delta>) -> bool {
        let Some(message) = event.given("output").and_then(|output| output.given("message")) else {
            return false;
        };
        seen.count(&WIRE.usage, event.given("usage"));
        // The response does not name the model; the address of the request did.
        seen.stop = Some(
            WIRE.stops.read(&event.given("stopReason").and_then(Value::as_str).unwrap_or("end_turn".into())),
        );
        seen.done = true;
        for block in message.given("content").into_iter().flat_map(Value::items) {
            let kind = kind_of(block);
            let held = block.given(&kind);
            match &*kind {
                "text" => show(word(block, "text"), Delta::Text, out),
                "toolUse" => held.into_iter().for_each(|call| show(word(call, "name"), Delta::Call, out)),
                "reasoningContent" => {
                    let thought = held.and_then(|held| held.given("reasoningText"));
                    thought
                        .into_iter()
                        .for_each(|thought| show(word(thought, "text"), Delta::Reasoning, out));
                }
                _ => {}
            }
        }
        self.message = Some(message.raw().to_owned());
        true
    }

    fn item(self, _: &Facts, complete: bool) -> Option<Item> {
        self.message.map(|json| Item { json, whole: complete, halted: false })
    }

    fn read(item: Value<'_>, buffer: &Arc<str>, _: &Facts) -> Option<Message> {
        let base = item.start();
        let blocks = item.given("content")?.items().map(|value| {
            let span = Span::verbatim(value.start() - base, value.raw().len());
            block(value, base).at_if(value.is_clean(), span)
        });
        let raw = Raw::slice(buffer, item.start(), item.end())?;
        Some(Message {
            role: Role::Assistant,
            blocks: blocks.collect(),
            form: Form::Parts,
            native: Some(Native::one(FORMAT, raw, item.is_clean())),
        })
    }
}

/// The kind of a content block, which is the name of its only field. If there are several, the first that is known counts.
fn kind_of(block: Value<'_>) -> Cow<'_, str> {
    let names = || block.fields().filter_map(|(key, _)| key.as_str());
    let known = names().find(|name| matches!(&**name, "text" | "toolUse" | "reasoningContent"));
    known.or_else(|| names().next()).unwrap_or_default()
}

fn block(value: Value<'_>, base: usize) -> Block {
    let text = |value: Value<'_>| value.to_text(base);
    let kind = kind_of(value);
    let read = match &*kind {
        "text" => value.given("text").and_then(text).map(Block::text),
        "toolUse" => value.given("toolUse").and_then(|call| tool_call(call, base)).map(Block::call),
        "reasoningContent" => value.given("reasoningContent").map(|held| {
            let words = held.given("reasoningText").and_then(|words| words.given("text"));
            let words = words.and_then(text).unwrap_or_else(|| Text::new(""));
            Block::reasoning(words, true, Origin::of(FORMAT, None))
        }),
        _ => None,
    };
    read.unwrap_or_else(|| Block::opaque(&*kind, Raw::new(value.raw()), value.is_clean()))
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
