//! Decoding for Ollama. A stream is lines of JSON, each a small response; calls are never split. A complete response is a
//! single line.

use rejoin_record::{Arguments, CallId, Native, Role, hash::short_name};

use super::WIRE;
use crate::wire::prelude::*;

const FORMAT: &str = "ollama";

/// The part of a message that was received.
#[derive(Default)]
pub(super) struct LinesAssembly(GrowingObject);

impl Assembly for LinesAssembly {
    fn event(&mut self, _: &str, event: Value<'_>, seen: &mut Facts, out: &mut Vec<Delta>) -> bool {
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
                "tool_calls" => {
                    let functions = value.items().map(|call| call.given("function").unwrap_or(call));
                    out.extend(functions.map(|function| Delta::Call(word(function, "name"))));
                }
                _ => {}
            }
        }
        let done = event.given("done").and_then(Value::as_bool);
        if done == Some(true) {
            let reason = word(event, "done_reason");
            seen.stop = Some(if reason.is_empty() { StopReason::Done } else { WIRE.stops.read(&reason) });
            seen.done = true;
        }
        message.is_some() || done.is_some()
    }

    fn item(mut self, _: &Facts, complete: bool) -> Option<Item> {
        if complete {
            self.0.end();
        }
        let json = self.0.add_to(Object::new().text("role", "assistant")).finish();
        Some(Item { json, whole: complete, halted: true })
    }

    /// Reads a message. Its calls have no ids and get some that no other response has.
    fn read(item: Value<'_>, buffer: &Arc<str>, seen: &Facts) -> Option<Message> {
        let base = item.start();
        let written = |name| {
            let text = item.given(name).and_then(|value| value.to_text(base));
            text.filter(|text| !text.is_empty())
        };
        let thought = written("thinking")
            .map(|text| Block::reasoning(text, false, Origin::of(FORMAT, seen.model_text())));
        let calls = item.given("tool_calls").into_iter().flat_map(Value::items).enumerate();
        let calls = calls.map(|(place, call)| tool_call(call, base, &format!("{place} {}", seen.seed)));
        let blocks =
            thought.into_iter().chain(written("content").map(Block::text)).chain(calls.map(Block::call));
        let native = Native::one(FORMAT, Raw::slice(buffer, base, item.end())?, item.is_clean());
        Some(Message {
            role: Role::Assistant,
            blocks: blocks.collect(),
            form: Form::Text,
            native: Some(native),
        })
    }
}

/// A call. Without an id, it gets one from the `seed`: the same for the same response, another for any other.
fn tool_call(call: Value<'_>, base: usize, seed: &str) -> ToolCall {
    let function = call.given("function").unwrap_or(call);
    let own_id = [call, function].into_iter().find_map(|holder| holder.given("id")?.to_text(base));
    let id = own_id
        .filter(|id| !id.is_blank())
        .map_or_else(|| CallId::from(format!("call_{}", short_name(seed, 16))), CallId::new);
    let arguments = function.given("arguments").map_or_else(Arguments::absent, |value| {
        Arguments::new(value.to_text(base).unwrap_or_else(|| value.to_raw_text(base)))
    });
    let name = function.given("name").and_then(|name| name.to_text(base)).unwrap_or_else(|| Text::new(""));
    // The dialect has no ids by design, so nothing is missing.
    ToolCall { id, id_given: true, name, arguments }
}
