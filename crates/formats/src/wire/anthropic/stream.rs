//! A streamed response of the Messages API.
//!
//! Each block begins with an object and grows by deltas; at the end the blocks are the content that the API would have given
//! at once. Blocks that nobody here knows are kept as they came, and grow by whatever fields their deltas have.

use std::{collections::HashMap, sync::Arc};

use rejoin_record::{
    Arguments, ArgumentsClass, Message,
    json::{Doc, Value, write},
};

use super::decode;
use crate::{
    chat::{MessageReader, Style},
    wire::{
        arriving::{Assembly, Seen, without_item},
        gathered::{Growing, Streamed},
        stream::{Delta, Stop, Usage},
    },
};

/// A response, as far as it came.
#[derive(Default)]
pub(super) struct MessagesAssembly {
    blocks: Vec<Growth>,
    places: HashMap<u64, usize>,
    counted: Counted,
}

/// A block, as far as it came.
#[derive(Default)]
struct Growth {
    kind: String,
    fields: Growing,
    /// What a tool is called with, as text.
    input: Streamed,
    citations: Vec<String>,
    ended: bool,
}

/// Tokens. The API counts what comes from its cache, and what goes there, beside the rest.
#[derive(Default)]
struct Counted {
    input: Option<u64>,
    read: u64,
    written: u64,
    output: u64,
}

impl Counted {
    fn add(&mut self, usage: Value<'_>) {
        let count = |name| usage.given(name).and_then(Value::as_u64);
        self.input = count("input_tokens").or(self.input);
        self.read = count("cache_read_input_tokens").unwrap_or(self.read);
        self.written = count("cache_creation_input_tokens").unwrap_or(self.written);
        self.output = count("output_tokens").unwrap_or(self.output);
    }

    fn usage(&self) -> Option<Usage> {
        let input = self.input?.saturating_add(self.read).saturating_add(self.written);
        Some(Usage { input, output: self.output, cached: self.read, reasoning: 0 })
    }
}

impl MessagesAssembly {
    fn begin(&mut self, index: u64, block: Value<'_>, out: &mut Vec<Delta>) {
        let kind = block.get("type").and_then(Value::as_str).unwrap_or_default();
        let said = |name| block.given(name).and_then(Value::as_str).unwrap_or_default().into_owned();
        let (piece, delta): (String, fn(String) -> Delta) = match &*kind {
            "tool_use" => (said("name"), Delta::Call),
            "text" => (said("text"), Delta::Text),
            "thinking" => (said("thinking"), Delta::Reasoning),
            _ => (String::new(), Delta::Text),
        };
        if !piece.is_empty() {
            out.push(delta(piece));
        }
        self.places.insert(index, self.blocks.len());
        self.blocks.push(Growth { kind: kind.into_owned(), fields: Growing::of(block), ..Growth::default() });
    }

    fn grow(&mut self, index: u64, delta: Value<'_>, out: &mut Vec<Delta>) {
        let kind = delta.get("type").and_then(Value::as_str).unwrap_or_default();
        let place = match self.places.get(&index) {
            Some(place) => *place,
            // A server that forgot to say that a block begins: of these two kinds nothing is missing.
            None => {
                let begun = match &*kind {
                    "text_delta" => r#"{"type":"text","text":""}"#,
                    "thinking_delta" => r#"{"type":"thinking","thinking":"","signature":""}"#,
                    _ => return,
                };
                let doc = Doc::parse(begun);
                if let Some(block) = doc.as_ref().ok().and_then(Doc::root) {
                    self.begin(index, block, out);
                }
                self.blocks.len() - 1
            }
        };
        let block = &mut self.blocks[place];
        match &*kind {
            "input_json_delta" => {
                delta.given("partial_json").map(|json| block.input.push(json));
            }
            "citations_delta" => {
                block.citations.extend(delta.given("citation").map(|citation| citation.raw().to_owned()));
            }
            _ => {
                for (key, value) in delta.fields().filter(|(key, _)| !key.is_str("type")) {
                    let name = key.as_str().unwrap_or_default();
                    let piece = block.fields.add(&name, value);
                    match (&*block.kind, &*name) {
                        _ if piece.is_empty() => {}
                        ("text", "text") => out.push(Delta::Text(piece)),
                        ("thinking", "thinking") => out.push(Delta::Reasoning(piece)),
                        _ => {}
                    }
                }
            }
        }
    }

    fn stop(&mut self, word: &str) -> Stop {
        match word {
            "end_turn" | "tool_use" | "stop_sequence" => Stop::Done,
            "max_tokens" | "model_context_window_exceeded" => Stop::Length,
            "refusal" => Stop::Refused,
            "pause_turn" => Stop::Paused,
            other => Stop::Other(other.to_owned()),
        }
    }

    fn whole(&mut self, response: Value<'_>, seen: &mut Seen, out: &mut Vec<Delta>) -> bool {
        let Ok(decoded) = decode::decode(response.raw().as_bytes()) else { return false };
        response.given("usage").inspect(|usage| self.counted.add(*usage));
        let stop = decoded.stop_reason.map(|word| self.stop(&word));
        seen.whole(decoded.message, stop, out);
        true
    }
}

impl Assembly for MessagesAssembly {
    fn event(&mut self, name: &str, event: Value<'_>, seen: &mut Seen, out: &mut Vec<Delta>) -> bool {
        let kind = event.given("type").and_then(Value::as_str).unwrap_or_else(|| name.into());
        let index = event.given("index").and_then(Value::as_u64).unwrap_or(0);
        let known = match &*kind {
            "message_start" => {
                if let Some(message) = event.given("message") {
                    seen.model(message, "model");
                    message.given("usage").inspect(|usage| self.counted.add(*usage));
                }
                true
            }
            "content_block_start" => {
                event.given("content_block").inspect(|block| self.begin(index, *block, out));
                true
            }
            "content_block_delta" => {
                event.given("delta").inspect(|delta| self.grow(index, *delta, out));
                true
            }
            "content_block_stop" => {
                if let Some(place) = self.places.get(&index) {
                    self.blocks[*place].ended = true;
                }
                true
            }
            "message_delta" => {
                event.given("usage").inspect(|usage| self.counted.add(*usage));
                let word = event.given("delta").and_then(|delta| delta.given("stop_reason")?.as_str());
                if let Some(word) = word {
                    seen.stop = Some(self.stop(&word));
                }
                true
            }
            "message_stop" => {
                seen.stop.get_or_insert(Stop::Done);
                seen.done = true;
                true
            }
            "message" => {
                seen.model(event, "model");
                self.whole(event, seen, out)
            }
            other => other == "ping",
        };
        seen.usage = self.counted.usage();
        known
    }

    fn message(mut self, seen: &Seen, complete: bool) -> Option<Message> {
        let mut whole = complete;
        let halted = !complete && self.blocks.last().is_some_and(|block| !block.ended);
        let mut item = String::from("{\"role\":\"assistant\",\"content\":[");
        for (place, block) in self.blocks.iter_mut().enumerate() {
            if place > 0 {
                item.push(',');
            }
            whole &= block.write(&mut item, complete);
        }
        item.push_str("]}");
        // An answer may be large: what it was put together from goes before it is copied.
        drop(self);
        let item: Arc<str> = item.into();
        let doc = Doc::parse(&item).ok()?;
        let mut reader = MessageReader::new(Style::Anthropic, seen.model_text());
        let message = reader.read(doc.root()?, &item, 0)?.message;
        Some(if whole { message } else { without_item(message, halted) })
    }
}

impl Growth {
    /// Writes the block; false if it is not what the API would have given, because its input is no object.
    fn write(&mut self, out: &mut String, complete: bool) -> bool {
        if complete {
            self.input.end();
        }
        let arguments = Arguments::new(self.input.as_str());
        let whole = match arguments.class() {
            ArgumentsClass::Object => {
                self.fields.put("input", arguments.text());
                true
            }
            // A call begins with `{}`; that these are its arguments shows only when it ends.
            ArgumentsClass::Blank if !complete && !self.ended && self.fields.has("input") => {
                self.fields.put("input", "\"\"");
                false
            }
            ArgumentsClass::Blank => true,
            ArgumentsClass::OtherJson | ArgumentsClass::Malformed => {
                let mut text = String::new();
                write::string(&mut text, arguments.text());
                self.fields.put("input", &text);
                false
            }
        };
        if !self.citations.is_empty() {
            self.fields.put("citations", &format!("[{}]", self.citations.join(",")));
        }
        self.fields.write(out);
        whole
    }
}
