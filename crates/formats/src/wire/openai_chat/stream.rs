//! A streamed response of Chat Completions, in the dress of any of the services that speak it.
//!
//! The pieces become the message that the API would have given at once. Services differ in how they cut it: texts may come as
//! strings or as lists of parts (Mistral), reasoning in several fields, calls whole or in pieces (`stream_calls.rs`).

use std::{collections::HashMap, sync::Arc};

use rejoin_record::{
    Message,
    json::{Doc, Kind, Value, write},
};

use super::{decode, stream_calls::Calls};
use crate::{
    chat::{MessageReader, REASONING_FIELDS, Style},
    wire::{
        arriving::{Assembly, Seen, without_item},
        gathered::{Growing, Streamed},
        mistral,
        stream::{Delta, Stop, Usage},
    },
};

/// A response, as far as it came.
#[derive(Default)]
pub(crate) struct ChatAssembly {
    /// Whether it is Mistral's: its thoughts are parts of the content.
    of_mistral: bool,
    content: Content,
    refusal: Streamed,
    /// Reasoning in fields that are strings, in the order in which they came.
    reasoning: Vec<(&'static str, Streamed)>,
    details: Details,
    /// Lists that belong to the message.
    lists: Vec<(&'static str, Vec<String>)>,
    calls: Calls,
}

/// Fields of a message that are lists and grow.
const LISTS: [&str; 2] = ["annotations", "images"];

impl ChatAssembly {
    /// A response of Mistral's own API.
    pub(crate) fn of_mistral() -> Self {
        Self { of_mistral: true, ..Self::default() }
    }

    fn delta(&mut self, delta: Value<'_>, out: &mut Vec<Delta>) {
        self.reasoning(delta, out);
        if let Some(content) = delta.given("content") {
            self.content.add(content, out);
        }
        if let Some(refusal) = delta.given("refusal") {
            shown(self.refusal.push(refusal), Delta::Text, out);
        }
        for name in LISTS {
            let items =
                delta.given(name).into_iter().flat_map(Value::items).map(|item| item.raw().to_owned());
            let mut items = items.peekable();
            if items.peek().is_none() {
                continue;
            }
            match self.lists.iter_mut().find(|(known, _)| *known == name) {
                Some((_, list)) => list.extend(items),
                None => self.lists.push((name, items.collect())),
            }
        }
        for call in delta.given("tool_calls").into_iter().flat_map(Value::items) {
            self.calls.add(call, out);
        }
        if let Some(call) = delta.given("function_call") {
            self.calls.add_legacy(call, out);
        }
    }

    /// Some services say the same in several fields: it is shown once.
    fn reasoning(&mut self, delta: Value<'_>, out: &mut Vec<Delta>) {
        let mut words = String::new();
        for &(name, sealed) in REASONING_FIELDS {
            let Some(value) = delta.given(name).filter(|value| value.kind() == Kind::String) else {
                continue;
            };
            let place = self.reasoning.iter().position(|(known, _)| *known == name).unwrap_or_else(|| {
                self.reasoning.push((name, Streamed::default()));
                self.reasoning.len() - 1
            });
            let piece = self.reasoning[place].1.push(value);
            if words.is_empty() && !sealed {
                words = piece;
            }
        }
        let details = delta.given("reasoning_details").into_iter().flat_map(Value::items);
        let detailed: String = details.map(|detail| self.details.add(detail)).collect();
        shown(if words.is_empty() { detailed } else { words }, Delta::Reasoning, out);
    }

    /// The message as the API would have given it at once.
    fn item(&self, seed: &str) -> String {
        let mut out = String::from("{\"role\":\"assistant\"");
        write::key(&mut out, "content");
        self.content.write(&mut out);
        for (name, text) in self.reasoning.iter().filter(|(_, text)| !text.is_empty()) {
            write::key(&mut out, name);
            write::string(&mut out, text.as_str());
        }
        if !self.details.list.is_empty() {
            write::key(&mut out, "reasoning_details");
            self.details.write(&mut out);
        }
        if !self.refusal.is_empty() {
            write::key(&mut out, "refusal");
            write::string(&mut out, self.refusal.as_str());
        }
        for (name, list) in &self.lists {
            write::key(&mut out, name);
            out.push('[');
            out.push_str(&list.join(","));
            out.push(']');
        }
        if !self.calls.is_empty() {
            write::key(&mut out, "tool_calls");
            self.calls.write(&mut out, seed);
        }
        out.push('}');
        out
    }
}

impl Assembly for ChatAssembly {
    fn event(&mut self, _: &str, event: Value<'_>, seen: &mut Seen, out: &mut Vec<Delta>) -> bool {
        seen.model(event, "model");
        let counted = event.given("usage").or_else(|| event.given("x_groq")?.given("usage"));
        if let Some(usage) = counted.and_then(usage) {
            seen.usage = Some(usage);
        }
        let Some(choices) = event.given("choices") else { return counted.is_some() };
        // Who asks for one answer gets one; a filter's notes come as a choice without a number.
        let first = |choice: &Value<'_>| choice.given("index").and_then(Value::as_u64).unwrap_or(0) == 0;
        for choice in choices.items().filter(first) {
            let word = choice.given("finish_reason").and_then(Value::as_str).filter(|word| !word.is_empty());
            match choice.given("delta") {
                Some(delta) => self.delta(delta, out),
                None if choice.given("message").is_some() => {
                    self.whole(event, seen, out);
                    return true;
                }
                None => {}
            }
            if let Some(word) = word {
                seen.stop = Some(stop(&word, !self.refusal.is_empty()));
            }
        }
        true
    }

    fn message(mut self, seen: &Seen, complete: bool) -> Option<Message> {
        if complete {
            self.end();
        }
        let (item, of_mistral) = (self.item(&seen.seed), self.of_mistral);
        // An answer may be large: what it was put together from goes before it is copied.
        drop(self);
        let item: Arc<str> = item.into();
        let doc = Doc::parse(&item).ok()?;
        let mut reader = MessageReader::new(Style::OpenAi, seen.model_text());
        let mut message = reader.read(doc.root()?, &item, 0)?.message;
        if of_mistral {
            mistral::decode::name_thoughts(&mut message, seen.model.as_deref());
        }
        Some(if complete { message } else { without_item(message, true) })
    }
}

impl ChatAssembly {
    /// A response that did not stream.
    fn whole(&mut self, response: Value<'_>, seen: &mut Seen, out: &mut Vec<Delta>) {
        let decode = if self.of_mistral { mistral::decode::decode } else { decode::decode };
        let Ok(decoded) = decode(response.raw().as_bytes()) else { return };
        let choice = response.get("choices").and_then(|list| list.items().next());
        let refused = choice.and_then(|choice| choice.given("message")?.given("refusal")).is_some();
        let stop = decoded.stop_reason.map(|word| stop(&word, refused));
        seen.whole(decoded.message, stop, out);
    }

    fn end(&mut self) {
        self.refusal.end();
        self.content.end();
        self.reasoning.iter_mut().for_each(|(_, text)| text.end());
        self.calls.end();
    }
}

/// Shows a piece, if there is something in it.
pub(super) fn shown(piece: String, kind: fn(String) -> Delta, out: &mut Vec<Delta>) {
    if !piece.is_empty() {
        out.push(kind(piece));
    }
}

fn stop(word: &str, refused: bool) -> Stop {
    match word {
        "stop" | "tool_calls" | "function_call" if refused => Stop::Refused,
        "stop" | "tool_calls" | "function_call" | "eos" => Stop::Done,
        "length" | "model_length" | "max_tokens" => Stop::Length,
        "content_filter" => Stop::Refused,
        other => Stop::Other(other.to_owned()),
    }
}

fn usage(counted: Value<'_>) -> Option<Usage> {
    let count = |holder: Option<Value<'_>>, name| holder.and_then(|holder| holder.given(name)?.as_u64());
    let all = Some(counted);
    let from_cache = count(counted.given("prompt_tokens_details"), "cached_tokens");
    Some(Usage {
        input: count(all, "prompt_tokens")?,
        output: count(all, "completion_tokens").unwrap_or(0),
        // DeepSeek counts it beside the others.
        cached: from_cache.or_else(|| count(all, "prompt_cache_hit_tokens")).unwrap_or(0),
        reasoning: count(counted.given("completion_tokens_details"), "reasoning_tokens").unwrap_or(0),
    })
}

/// What is said: one string, or parts.
#[derive(Default)]
struct Content {
    parts: Vec<Part>,
    /// A string came, be it an empty one.
    given: bool,
    /// Parts came.
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
            Kind::String => {
                self.given = true;
                shown(self.text(content), Delta::Text, out);
            }
            Kind::Array => content.items().for_each(|part| self.part(part, out)),
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
        let kind = part.get("type").and_then(Value::as_str).unwrap_or_default();
        match (&*kind, part.given("text"), part.given("thinking")) {
            ("text", Some(text), _) => shown(self.text(text), Delta::Text, out),
            ("thinking", _, Some(thinking)) => {
                if !matches!(self.parts.last(), Some(Part::Thought(_))) {
                    self.parts.push(Part::Thought(Streamed::default()));
                }
                let Some(Part::Thought(thought)) = self.parts.last_mut() else { return };
                let texts = thinking.items().filter_map(|text| text.given("text"));
                let alone = (thinking.kind() == Kind::String).then_some(thinking);
                for text in alone.into_iter().chain(texts) {
                    shown(thought.push(text), Delta::Reasoning, out);
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

    fn write(&self, out: &mut String) {
        match &self.parts[..] {
            [] if self.given => out.push_str("\"\""),
            [] => out.push_str("null"),
            [Part::Text(text)] if !self.listed => write::string(out, text.as_str()),
            parts => {
                for (place, part) in parts.iter().enumerate() {
                    out.push(if place == 0 { '[' } else { ',' });
                    let (opening, text, closing) = match part {
                        Part::Text(text) => ("{\"type\":\"text\",\"text\":", text, "}"),
                        Part::Thought(text) => {
                            ("{\"type\":\"thinking\",\"thinking\":[{\"type\":\"text\",\"text\":", text, "}]}")
                        }
                        Part::Other(raw) => {
                            out.push_str(raw);
                            continue;
                        }
                    };
                    out.push_str(opening);
                    write::string(out, text.as_str());
                    out.push_str(closing);
                }
                out.push(']');
            }
        }
    }
}

/// `reasoning_details`: they must go back as they came, so pieces of one are put together and nothing else is touched.
#[derive(Default)]
struct Details {
    list: Vec<Growing>,
    /// Places by number, kind and id.
    places: HashMap<(u64, String, String), usize>,
    /// Kind and id of the last one, where it has no number.
    last: Option<(String, String)>,
}

impl Details {
    /// Adds a piece; what of it can be read.
    fn add(&mut self, piece: Value<'_>) -> String {
        let word = |name| piece.given(name).and_then(Value::as_str).unwrap_or_default().into_owned();
        let (kind, id) = (word("type"), word("id"));
        let readable = |name: &str| matches!(name, "text" | "summary");
        let place = match piece.given("index").and_then(Value::as_u64) {
            Some(index) => {
                self.last = None;
                let next = self.list.len();
                *self.places.entry((index, kind, id)).or_insert(next)
            }
            // Without a number, only words go on with words.
            None => {
                let goes_on = piece.fields().any(|(key, _)| key.as_str().is_some_and(|name| readable(&name)))
                    && self.last.as_ref().is_some_and(|last| *last == (kind.clone(), id.clone()));
                self.last = Some((kind, id));
                if goes_on { self.list.len().saturating_sub(1) } else { self.list.len() }
            }
        };
        if place >= self.list.len() {
            self.list.push(Growing::default());
        }
        let detail = &mut self.list[place];
        let mut words = String::new();
        for (key, value) in piece.fields() {
            let name = key.as_str().unwrap_or_default();
            let grows = readable(&name) || &*name == "data";
            if grows {
                // What cannot be read may come twice; what can be read never does.
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

    fn write(&self, out: &mut String) {
        for (place, detail) in self.list.iter().enumerate() {
            out.push(if place == 0 { '[' } else { ',' });
            detail.write(out);
        }
        out.push(']');
    }
}
