//! Decoding for Anthropic's Messages API.
//!
//! In a stream, each block begins with an object and grows by deltas until the content is complete. Unknown blocks are kept
//! and grow by the fields of their deltas.

use std::collections::HashMap;

use rejoin_record::{Arguments, ArgumentsClass, json::quoted};

use super::WIRE;
use crate::{
    messages::{MessageReader, Style},
    wire::{prelude::*, render::text_block},
};

/// The part of a response that was received.
#[derive(Default)]
pub(super) struct MessagesAssembly {
    blocks: Vec<Growth>,
    places: HashMap<u64, usize>,
}

/// The part of a block that was received.
#[derive(Default)]
struct Growth {
    kind: String,
    fields: GrowingObject,
    /// The arguments of a call, as text.
    input: Streamed,
    citations: Vec<String>,
    ended: bool,
}

impl MessagesAssembly {
    fn begin(&mut self, index: u64, block: Value<'_>, out: &mut Vec<Delta>) {
        let kind = block.word("type");
        // Half a character at its end is shown when the other half arrives.
        let beginning =
            |name| block.given(name).map(|text| Streamed::default().push(text)).unwrap_or_default();
        match &*kind {
            "tool_use" => show(word(block, "name"), Delta::Call, out),
            "text" => show(beginning("text"), Delta::Text, out),
            "thinking" => show(beginning("thinking"), Delta::Reasoning, out),
            _ => {}
        }
        self.places.insert(index, self.blocks.len());
        self.blocks.push(Growth {
            kind: kind.into_owned(),
            fields: GrowingObject::of(block),
            ..Growth::default()
        });
    }

    fn grow(&mut self, index: u64, delta: Value<'_>, out: &mut Vec<Delta>) {
        let kind = delta.word("type");
        let place = match self.places.get(&index) {
            Some(place) => *place,
            // The server did not announce the block; for these two kinds, nothing is missing.
            None => {
                match &*kind {
                    "text_delta" => self.begin_with(index, r#"{"type":"text","text":""}"#, out),
                    "thinking_delta" => {
                        self.begin_with(index, r#"{"type":"thinking","thinking":"","signature":""}"#, out);
                    }
                    _ => return,
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

    /// Begins a block that the server did not announce.
    fn begin_with(&mut self, index: u64, block: &str, out: &mut Vec<Delta>) {
        let doc = Doc::parse(block).expect("BUG: a block of our own is JSON");
        doc.root().into_iter().for_each(|block| self.begin(index, block, out));
    }

    /// Takes the blocks of a response that is not streamed.
    fn whole(&mut self, content: Value<'_>, out: &mut Vec<Delta>) {
        if let Some(text) = content.as_str() {
            self.begin_with(0, &text_block(&text), out);
        }
        for (index, block) in content.items().enumerate() {
            self.begin(index as u64, block, out);
        }
        self.blocks.iter_mut().for_each(|block| block.ended = true);
    }
}

impl Assembly for MessagesAssembly {
    fn event(&mut self, name: &str, event: Value<'_>, seen: &mut Facts, out: &mut Vec<Delta>) -> bool {
        let kind = event.given("type").and_then(Value::as_str).unwrap_or_else(|| name.into());
        let index = event.given("index").and_then(Value::as_u64).unwrap_or(0);
        let mut stop = |holder: Value<'_>| {
            let reason = holder.given("stop_reason").and_then(Value::as_str);
            seen.stop = reason.map(|reason| WIRE.stops.read(&reason)).or(seen.stop.take());
        };
        match &*kind {
            "message_start" => {
                if let Some(message) = event.given("message") {
                    seen.model(message, "model");
                    seen.count(&WIRE.usage, message.given("usage"));
                }
            }
            "content_block_start" => {
                event.given("content_block").inspect(|block| self.begin(index, *block, out));
            }
            "content_block_delta" => {
                event.given("delta").inspect(|delta| self.grow(index, *delta, out));
            }
            "content_block_stop" => {
                if let Some(place) = self.places.get(&index) {
                    self.blocks[*place].ended = true;
                }
            }
            "message_delta" => {
                event.given("delta").into_iter().for_each(&mut stop);
                seen.count(&WIRE.usage, event.given("usage"));
            }
            "message_stop" => {
                seen.stop.get_or_insert(StopReason::Done);
                seen.done = true;
            }
            "message" | "" => {
                let Some(content) = event.given("content") else { return false };
                stop(event);
                self.whole(content, out);
                seen.model(event, "model");
                seen.count(&WIRE.usage, event.given("usage"));
                seen.stop.get_or_insert(StopReason::Done);
                seen.done = true;
            }
            other => return other == "ping",
        }
        true
    }

    fn item(mut self, _: &Facts, complete: bool) -> Option<Item> {
        let mut whole = complete;
        let halted = !complete && self.blocks.last().is_some_and(|block| !block.ended);
        self.blocks.iter_mut().for_each(|block| whole &= block.end(complete));
        let blocks = self.blocks.iter().map(|block| block.fields.json());
        let json = Object::new().text("role", "assistant").list("content", blocks).finish();
        Some(Item { json, whole, halted })
    }

    fn read(item: Value<'_>, buffer: &Arc<str>, seen: &Facts) -> Option<Message> {
        let mut reader = MessageReader::new(Style::Blocks, seen.model_text());
        reader.read(item, buffer, 0).map(|read| read.message)
    }
}

impl Growth {
    /// Completes the fields; false if they are not what the API would have given, because the input is no object.
    fn end(&mut self, complete: bool) -> bool {
        if complete {
            self.input.end();
            self.fields.end();
        }
        let arguments = Arguments::new(self.input.as_str());
        let whole = match arguments.class() {
            ArgumentsClass::Object => {
                self.fields.put("input", arguments.text());
                true
            }
            // Every call begins with `{}`, which are its arguments only if none follow.
            ArgumentsClass::Blank if !complete && !self.ended && self.fields.has("input") => {
                self.fields.put("input", "\"\"");
                false
            }
            ArgumentsClass::Blank => true,
            ArgumentsClass::OtherJson | ArgumentsClass::Malformed => {
                self.fields.put("input", &quoted(arguments.text()));
                false
            }
        };
        if !self.citations.is_empty() {
            self.fields.put("citations", &format!("[{}]", self.citations.join(",")));
        }
        whole
    }
}
