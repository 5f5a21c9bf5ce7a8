//! A streamed response of Ollama: lines of JSON, each a small response; a whole response is the only line. Calls come whole.

use std::sync::Arc;

use rejoin_record::{
    Message,
    json::{Doc, Value, write},
};

use super::decode;
use crate::wire::{
    arriving::{Assembly, Seen, without_item},
    gathered::Streamed,
    stream::{Delta, Stop, Usage},
};

/// A response, as far as it came.
#[derive(Default)]
pub(super) struct LinesAssembly {
    thinking: Streamed,
    content: Streamed,
    /// As they came.
    calls: Vec<String>,
}

impl Assembly for LinesAssembly {
    fn event(&mut self, _: &str, event: Value<'_>, seen: &mut Seen, out: &mut Vec<Delta>) -> bool {
        seen.model(event, "model");
        let message = event.given("message").filter(|message| message.as_str().is_none());
        let grow = |text: &mut Streamed, name, kind: fn(String) -> Delta, out: &mut Vec<Delta>| {
            let piece = message.and_then(|message| message.given(name)).map(|value| text.push(value));
            out.extend(piece.filter(|piece| !piece.is_empty()).map(kind));
        };
        grow(&mut self.thinking, "thinking", Delta::Reasoning, out);
        grow(&mut self.content, "content", Delta::Text, out);
        let calls = message.and_then(|message| message.given("tool_calls"));
        for call in calls.into_iter().flat_map(Value::items) {
            let name = call.given("function").unwrap_or(call).given("name").and_then(Value::as_str);
            out.push(Delta::Call(name.unwrap_or_default().into_owned()));
            self.calls.push(call.raw().to_owned());
        }
        let count = |name| event.given(name).and_then(Value::as_u64);
        if let Some(input) = count("prompt_eval_count") {
            let output = count("eval_count").unwrap_or(0);
            seen.usage = Some(Usage { input, output, ..Usage::default() });
        }
        let done = event.given("done").and_then(Value::as_bool);
        if done == Some(true) {
            let word = event.given("done_reason").and_then(Value::as_str).unwrap_or_default();
            seen.stop = Some(match &*word {
                "" | "stop" => Stop::Done,
                "length" => Stop::Length,
                other => Stop::Other(other.to_owned()),
            });
            seen.done = true;
        }
        message.is_some() || done.is_some()
    }

    fn message(mut self, seen: &Seen, complete: bool) -> Option<Message> {
        if complete {
            self.thinking.end();
            self.content.end();
        }
        let mut item = String::from("{\"role\":\"assistant\"");
        write::key(&mut item, "content");
        write::string(&mut item, self.content.as_str());
        if !self.thinking.is_empty() {
            write::key(&mut item, "thinking");
            write::string(&mut item, self.thinking.as_str());
        }
        if !self.calls.is_empty() {
            write::key(&mut item, "tool_calls");
            item.push('[');
            item.push_str(&self.calls.join(","));
            item.push(']');
        }
        item.push('}');
        // An answer may be large: what it was put together from goes before it is copied.
        drop(self);
        let item: Arc<str> = item.into();
        let doc = Doc::parse(&item).ok()?;
        let message = decode::message(doc.root()?, &item, seen.model.as_deref(), &seen.seed);
        Some(if complete { message } else { without_item(message, true) })
    }
}
