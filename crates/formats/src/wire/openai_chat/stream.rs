//! Decoding for Chat Completions, in the variants of the services that use it.
//!
//! The pieces of a stream become the message that the API would have sent without streaming. Services differ: texts are strings
//! or lists of parts (Mistral), reasoning is in several fields, calls are whole or in pieces (`stream_calls.rs`).

use std::collections::HashMap;

use rejoin_record::json::{list, quoted};

use super::{WIRE, stream_calls::Calls};
use crate::{
    messages::{MessageReader, REASONING_FIELDS, Style},
    wire::{prelude::*, render::text_block},
};

/// The part of a response that was received.
#[derive(Default)]
pub(crate) struct ChatAssembly {
    content: Content,
    details: Details,
    calls: Calls,
    /// Other fields of the message: reasoning in strings, a refusal, lists.
    fields: GrowingObject,
    refused: bool,
}

/// Other lists that belong to a message.
const KEPT: [&str; 2] = ["annotations", "images"];

impl ChatAssembly {
    /// Takes a piece of the message, or the whole message.
    fn delta(&mut self, delta: Value<'_>, out: &mut Vec<Delta>) {
        self.reasoning(delta, out);
        for (key, value) in delta.fields() {
            let name = key.as_str().unwrap_or_default();
            match &*name {
                "content" => self.content.add(value, out),
                "tool_calls" => value.items().for_each(|call| self.calls.add(call, out)),
                "function_call" if !value.is_null() => self.calls.add_legacy(value, out),
                "refusal" => {
                    let piece = self.add("refusal", value);
                    self.refused |= !piece.is_empty();
                    show(piece, Delta::Text, out);
                }
                name if KEPT.contains(&name) => {
                    self.add(name, value);
                }
                // Some services refuse to take other fields back.
                _ => {}
            }
        }
    }

    /// Adds to a field, unless the piece is empty.
    fn add(&mut self, name: &str, value: Value<'_>) -> String {
        let empty_list = value.kind() == ValueKind::Array && value.items().next().is_none();
        if value.is_null() || value.is_str("") || empty_list {
            return String::new();
        }
        self.fields.add(name, value)
    }

    /// Takes reasoning. Some services repeat it in several fields; it is shown once.
    fn reasoning(&mut self, delta: Value<'_>, out: &mut Vec<Delta>) {
        let mut words = String::new();
        for &(name, sealed) in REASONING_FIELDS {
            if let Some(value) = delta.given(name).filter(|value| value.kind() == ValueKind::String) {
                let piece = self.add(name, value);
                if words.is_empty() && !sealed {
                    words = piece;
                }
            }
        }
        let details = delta.given("reasoning_details").into_iter().flat_map(Value::items);
        let detailed: String = details.map(|detail| self.details.add(detail)).collect();
        show(if words.is_empty() { detailed } else { words }, Delta::Reasoning, out);
    }
}

impl Assembly for ChatAssembly {
    fn event(&mut self, _: &str, event: Value<'_>, seen: &mut Facts, out: &mut Vec<Delta>) -> bool {
        seen.model(event, "model");
        let counted = event.given("usage").or_else(|| event.given("x_groq")?.given("usage"));
        seen.count(&WIRE.usage, counted);
        let Some(choices) = event.given("choices") else { return counted.is_some() };
        // Only one answer was asked for. The notes of a filter come as a choice without a number.
        let first = |choice: &Value<'_>| choice.given("index").and_then(Value::as_u64).unwrap_or(0) == 0;
        for choice in choices.items().filter(first) {
            let whole = choice.given("message").filter(|_| choice.given("delta").is_none());
            choice.given("delta").or(whole).into_iter().for_each(|delta| self.delta(delta, out));
            let reason = word(choice, "finish_reason");
            if !reason.is_empty() {
                let stop = WIRE.stops.read(&reason);
                seen.stop =
                    Some(if self.refused && stop == StopReason::Done { StopReason::Refused } else { stop });
            }
            if whole.is_some() {
                seen.stop.get_or_insert(StopReason::Done);
                seen.done = true;
                break;
            }
        }
        true
    }

    fn item(mut self, seen: &Facts, complete: bool) -> Option<Item> {
        if complete {
            self.content.end();
            self.fields.end();
            self.calls.end();
        }
        let mut message = Object::new().text("role", "assistant").raw("content", &self.content.json());
        message = self.fields.add_to(message);
        if !self.details.list.is_empty() {
            message = message.list("reasoning_details", self.details.list.iter().map(GrowingObject::json));
        }
        if !self.calls.is_empty() {
            message = message.list("tool_calls", self.calls.json(&seen.seed));
        }
        Some(Item { json: message.finish(), whole: complete, halted: true })
    }

    fn read(item: Value<'_>, buffer: &Arc<str>, seen: &Facts) -> Option<Message> {
        let mut reader = MessageReader::new(Style::ToolCalls, seen.model_text());
        reader.read(item, buffer, 0).map(|read| read.message)
    }
}

/// The content: one string, or parts.
#[derive(Default)]
struct Content {
    parts: Vec<Part>,
    /// Whether a string was received, even an empty one.
    given: bool,
    listed: bool,
}

enum Part {
    Text(Streamed),
    Thought(Streamed),
    Other(String),
}

impl Content {
    fn add(&mut self, content: Value<'_>, out: &mut Vec<Delta>) {
        match content.kind() {
            ValueKind::String => {
                self.given = true;
                show(self.text(content), Delta::Text, out);
            }
            ValueKind::Array => content.items().for_each(|part| self.part(part, out)),
            _ => {}
        }
    }

    fn text(&mut self, value: Value<'_>) -> String {
        if let Some(Part::Text(text)) = self.parts.last_mut() {
            return text.push(value);
        }
        let mut text = Streamed::default();
        let piece = text.push(value);
        if !text.is_empty() {
            self.parts.push(Part::Text(text));
        }
        piece
    }

    fn part(&mut self, part: Value<'_>, out: &mut Vec<Delta>) {
        self.listed = true;
        let kind = part.word("type");
        match (&*kind, part.given("text"), part.given("thinking")) {
            ("text", Some(text), _) => show(self.text(text), Delta::Text, out),
            ("thinking", _, Some(thinking)) => {
                if !matches!(self.parts.last(), Some(Part::Thought(_))) {
                    self.parts.push(Part::Thought(Streamed::default()));
                }
                let Some(Part::Thought(thought)) = self.parts.last_mut() else { return };
                let texts = thinking.items().filter_map(|text| text.given("text"));
                let alone = (thinking.kind() == ValueKind::String).then_some(thinking);
                for text in alone.into_iter().chain(texts) {
                    show(thought.push(text), Delta::Reasoning, out);
                }
            }
            _ => self.parts.push(Part::Other(part.raw().to_owned())),
        }
    }

    fn end(&mut self) {
        for part in &mut self.parts {
            if let Part::Text(text) | Part::Thought(text) = part {
                text.end();
            }
        }
    }

    fn json(&self) -> String {
        match &self.parts[..] {
            [] if self.given => quoted(""),
            [] => String::from("null"),
            [Part::Text(text)] if !self.listed => quoted(text.as_str()),
            parts => list(parts.iter().map(|part| match part {
                Part::Text(text) => text_block(text.as_str()),
                Part::Thought(text) => {
                    let thought = Object::new().text("type", "thinking");
                    thought.list("thinking", [text_block(text.as_str())]).finish()
                }
                Part::Other(raw) => raw.clone(),
            })),
        }
    }
}

/// `reasoning_details`, which must be sent back unchanged: pieces of one detail are joined, and nothing else is touched.
#[derive(Default)]
struct Details {
    list: Vec<GrowingObject>,
    /// Positions by number, kind and id.
    places: HashMap<(u64, String, String), usize>,
    /// Kind and id of the last detail, if it has no number.
    last: Option<(String, String)>,
}

impl Details {
    /// Adds a piece and returns its readable text.
    fn add(&mut self, piece: Value<'_>) -> String {
        let word = |name| piece.word(name).into_owned();
        let (kind, id) = (word("type"), word("id"));
        let readable = |name: &str| matches!(name, "text" | "summary");
        let place = match piece.given("index").and_then(Value::as_u64) {
            Some(index) => {
                self.last = None;
                let next = self.list.len();
                *self.places.entry((index, kind, id)).or_insert(next)
            }
            // Without a number, only text continues text.
            None => {
                let goes_on = piece.fields().any(|(key, _)| key.as_str().is_some_and(|name| readable(&name)))
                    && self.last.as_ref().is_some_and(|last| *last == (kind.clone(), id.clone()));
                self.last = Some((kind, id));
                if goes_on { self.list.len().saturating_sub(1) } else { self.list.len() }
            }
        };
        if place >= self.list.len() {
            self.list.push(GrowingObject::default());
        }
        let detail = &mut self.list[place];
        let mut words = String::new();
        for (key, value) in piece.fields() {
            let name = key.as_str().unwrap_or_default();
            let grows = readable(&name) || &*name == "data";
            if grows {
                // Sealed data may be repeated; readable text never is.
                let twice = !readable(&name) && value.as_str().is_some_and(|data| detail.is(&name, &data));
                if !twice {
                    let piece = detail.add(&name, value);
                    words.push_str(if readable(&name) { &piece } else { "" });
                }
            } else if !value.is_null() || !detail.has(&name) {
                detail.put(&name, value.raw());
            }
        }
        words
    }
}
