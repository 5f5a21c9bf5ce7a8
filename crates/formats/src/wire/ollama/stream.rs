//! A response of Ollama as a message. A streamed one is lines of JSON, each a small response; a whole one is the only line.
//! Calls come whole.

use std::sync::Arc;

use rejoin_record::{
    Arguments, Block, CallId, Form, Message, Native, Origin, Raw, Role, Text, ToolCall, hash::short_name,
    json::Value,
};

use super::WIRE;
use crate::wire::{
    arriving::{Assembly, Item, Seen, show, word},
    gathered::Growing,
    stream::Delta,
};

const FORMAT: &str = "ollama";

/// A response, as far as it came: its message.
#[derive(Default)]
pub(super) struct LinesAssembly(Growing);

impl Assembly for LinesAssembly {
    fn event(&mut self, _: &str, event: Value<'_>, seen: &mut Seen, out: &mut Vec<Delta>) -> bool {
        seen.model(event, "model");
        seen.count(&WIRE.usage, Some(event));
        let message = event.given("message").filter(|message| message.as_str().is_none());
        for (key, value) in message.into_iter().flat_map(Value::fields).filter(|(_, value)| !value.is_null())
        {
            let name = key.as_str().unwrap_or_default();
            let piece = if name == "role" { String::new() } else { self.0.add(&name, value) };
            match &*name {
                "thinking" => show(piece, Delta::Reasoning, out),
                "content" => show(piece, Delta::Text, out),
                "tool_calls" => out.extend(
                    value
                        .items()
                        .map(|call| Delta::Call(word(call.given("function").unwrap_or(call), "name"))),
                ),
                _ => {}
            }
        }
        let done = event.given("done").and_then(Value::as_bool);
        if done == Some(true) {
            seen.stop = Some(WIRE.stops.read(&word(event, "done_reason")));
            seen.done = true;
        }
        message.is_some() || done.is_some()
    }

    fn item(mut self, _: &Seen, complete: bool) -> Option<Item> {
        if complete {
            self.0.end();
        }
        let mut json = String::from("{\"role\":\"assistant\"");
        self.0.write_fields(&mut json);
        json.push('}');
        Some(Item { json, whole: complete, halted: true })
    }

    fn read(item: Value<'_>, buffer: &Arc<str>, seen: &Seen) -> Option<Message> {
        Some(message(item, buffer, seen))
    }
}

/// Reads a message of the dialect. Its calls have no ids: they get some that no other response has.
fn message(item: Value<'_>, buffer: &Arc<str>, seen: &Seen) -> Message {
    let base = item.start();
    let mut blocks = Vec::new();
    let written = |name| {
        let text = item.given(name).and_then(|value| value.to_text(base));
        text.filter(|text| !text.is_empty())
    };
    if let Some(text) = written("thinking") {
        blocks.push(Block::reasoning(text, false, Origin::of(FORMAT, seen.model_text())));
    }
    blocks.extend(written("content").map(Block::text));
    for (place, call) in item.given("tool_calls").into_iter().flat_map(Value::items).enumerate() {
        blocks.push(Block::call(tool_call(call, base, &format!("{place} {}", seen.seed))));
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
