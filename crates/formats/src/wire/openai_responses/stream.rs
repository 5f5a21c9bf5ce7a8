//! Decoding for the Responses API.
//!
//! In a stream, `response.output_item.done` carries the complete item, including encrypted reasoning. Deltas serve for showing,
//! and for responses that break off.

use std::{borrow::Cow, collections::BTreeMap};

use super::{
    WIRE,
    read::{Assembler, FORMAT, Source},
};
use crate::{
    session::SourcePlace,
    wire::{
        arriving::{fault_in, without_item},
        prelude::*,
    },
};

/// The part of a response that was received.
#[derive(Default)]
pub(super) struct ResponseAssembly {
    /// Items by their number in the output.
    items: BTreeMap<u64, Growth>,
    /// The number of the last event's item.
    current: u64,
    refused: bool,
}

/// The part of an item that was received.
#[derive(Default)]
struct Growth {
    /// The JSON of the complete item; empty for a message that holds less than was shown.
    done: Option<String>,
    kind: String,
    call_id: String,
    name: String,
    /// Texts that the complete item does not hold, with their numbers, and whether each is a refusal.
    texts: Vec<(u64, Streamed, bool)>,
    /// The reasoning, or the arguments of a call.
    input: Streamed,
    shown: bool,
}

impl ResponseAssembly {
    fn item(&mut self, event: Value<'_>) -> &mut Growth {
        if let Some(index) = event.given("output_index").and_then(Value::as_u64) {
            self.current = index;
        }
        self.items.entry(self.current).or_default()
    }

    /// Moves to the item after the last one, for servers that send no numbers.
    fn next(&mut self) {
        self.current = self.items.last_key_value().map_or(0, |(last, _)| last.saturating_add(1));
    }

    fn begin(&mut self, event: Value<'_>, out: &mut Vec<Delta>) {
        let Some(item) = event.given("item") else { return };
        if event.given("output_index").is_none() {
            self.next();
        }
        let growth = self.item(event);
        growth.kind = word(item, "type");
        growth.call_id = word(item, "call_id");
        growth.name = word(item, "name");
        if is_call(&growth.kind) && !growth.name.is_empty() {
            growth.shown = true;
            out.push(Delta::Call(growth.name.clone()));
        }
    }

    fn done(&mut self, event: Value<'_>, out: &mut Vec<Delta>) {
        let Some(item) = event.given("item") else { return };
        let refuses = refuses(item);
        let is_done = self.items.get(&self.current).is_some_and(|growth| growth.done.is_some());
        if is_done && event.given("output_index").is_none() {
            self.next();
        }
        self.item(event).complete(item, out);
        self.refused |= refuses;
    }

    fn text(&mut self, event: Value<'_>, refusal: bool, out: &mut Vec<Delta>) {
        self.refused |= refusal;
        let growth = self.item(event);
        let part = event.given("content_index").and_then(Value::as_u64).unwrap_or(0);
        if growth.texts.last().is_none_or(|(last, ..)| *last != part) {
            growth.texts.push((part, Streamed::default(), refusal));
        }
        let Some(((_, text, _), delta)) = growth.texts.last_mut().zip(event.given("delta")) else { return };
        let piece = text.push(delta);
        growth.shown |= !piece.is_empty();
        show(piece, Delta::Text, out);
    }

    /// Separates the next paragraph of reasoning.
    fn next_thought(&mut self, event: Value<'_>, out: &mut Vec<Delta>) {
        let growth = self.item(event);
        if !growth.input.is_empty() {
            growth.input.push_str("\n\n");
            out.push(Delta::Reasoning(String::from("\n\n")));
        }
    }

    fn thought(&mut self, event: Value<'_>, out: &mut Vec<Delta>) {
        let growth = self.item(event);
        let piece = event.given("delta").map(|delta| growth.input.push(delta)).unwrap_or_default();
        if growth.kind.is_empty() {
            growth.kind = String::from("reasoning");
        }
        growth.shown |= !piece.is_empty();
        show(piece, Delta::Reasoning, out);
    }

    /// Takes the complete response, at the end of a stream or without one.
    fn response(&mut self, response: Value<'_>, ended_as: &str, seen: &mut Facts, out: &mut Vec<Delta>) {
        seen.model(response, "model");
        seen.count(&WIRE.usage, response.given("usage"));
        for (index, item) in response.given("output").into_iter().flat_map(Value::items).enumerate() {
            self.refused |= refuses(item);
            let growth = self.items.entry(index as u64).or_default();
            // Some servers complete an item only here.
            growth.complete(item, out);
        }
        let status = word(response, "status");
        let status = if status.is_empty() { ended_as } else { &status };
        let reason = response.given("incomplete_details").map(|details| word(details, "reason"));
        seen.stop = match (status, reason.as_deref()) {
            ("completed", _) if self.refused => Some(StopReason::Refused),
            ("completed", _) => Some(StopReason::Done),
            ("incomplete", Some("max_output_tokens" | "max_tokens")) => Some(StopReason::Length),
            ("incomplete", Some("content_filter")) => Some(StopReason::Refused),
            ("incomplete", Some(other)) if !other.is_empty() => Some(StopReason::Other(other.to_owned())),
            // It still runs at the provider, but we do not wait for it.
            ("in_progress" | "queued" | "failed", _) => None,
            (other, _) => Some(StopReason::Other(other.to_owned())),
        };
        if let Some(error) = response.given("error") {
            seen.fault.get_or_insert_with(|| fault_in(error));
        } else if status == "failed" {
            seen.fault.get_or_insert_with(|| fault_in(response));
        }
        seen.done = true;
    }
}

/// The kind of an event.
fn kind<'e>(name: &'e str, event: Value<'e>) -> Cow<'e, str> {
    event.given("type").and_then(Value::as_str).unwrap_or_else(|| name.into())
}

impl Assembly for ResponseAssembly {
    fn repeats(name: &str, event: Value<'_>) -> bool {
        // What came in pieces comes once more when a part is done, when its item is done, and at the end. The item is what is kept.
        let kind = kind(name, event);
        let is_end = matches!(&*kind, "response.completed" | "response.incomplete");
        is_end || kind.ends_with(".done") && kind != "response.output_item.done"
    }

    fn event(&mut self, name: &str, event: Value<'_>, seen: &mut Facts, out: &mut Vec<Delta>) -> bool {
        let kind = kind(name, event);
        if event
            .given("output")
            .is_some_and(|output| event.get("type").is_none() && output.raw().starts_with('['))
        {
            self.response(event, "completed", seen, out);
            return true;
        }
        match &*kind {
            "response.created" | "response.in_progress" | "response.queued" => {
                event.given("response").inspect(|response| seen.model(*response, "model"));
            }
            "response.output_item.added" => self.begin(event, out),
            "response.output_item.done" => self.done(event, out),
            "response.output_text.delta" => self.text(event, false, out),
            "response.refusal.delta" => self.text(event, true, out),
            "response.reasoning_summary_part.added" => self.next_thought(event, out),
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                self.thought(event, out);
            }
            "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta" => {
                let growth = self.item(event);
                event.given("delta").map(|delta| growth.input.push(delta));
            }
            "response.completed"
            | "response.incomplete"
            | "response.failed"
            | "response.cancelled"
            | "response.done" => {
                let ended_as = kind.strip_prefix("response.").filter(|word| *word != "done");
                let response = event.given("response").unwrap_or(event);
                self.response(response, ended_as.unwrap_or("completed"), seen, out);
            }
            other => return other.starts_with("response."),
        }
        true
    }

    fn item(self, _: &Facts, complete: bool) -> Option<Item> {
        let whole = complete && self.items.values().all(|growth| growth.done.is_some());
        let halted = self.items.last_key_value().is_some_and(|(_, growth)| growth.done.is_none());
        let mut json = String::from("[");
        self.items.into_values().for_each(|growth| growth.write(&mut json));
        json.push(']');
        Some(Item { json, whole, halted })
    }

    fn read(list: Value<'_>, buffer: &Arc<str>, seen: &Facts) -> Option<Message> {
        let mut assembler = Assembler::new(FORMAT);
        assembler.set_model(seen.model_text());
        for (index, item) in list.items().enumerate() {
            let place = SourcePlace { index, offset: item.start(), line: None };
            assembler.add(item, &Source::of(item, buffer, place, None));
        }
        assembler.flush();
        let mut messages = assembler.session.messages.into_iter().map(Arc::unwrap_or_clone);
        let mut message = messages.next()?;
        let rest: Vec<Block> = messages.flat_map(|message| message.blocks).collect();
        if rest.is_empty() {
            return Some(message);
        }
        // Not all items are the model's own: the answer stays one message, without its items.
        message.blocks.extend(rest);
        Some(without_item(message, false))
    }
}

/// The text of a part of a message.
fn text_of_part(part: Value<'_>) -> Option<String> {
    match &*word(part, "type") {
        "output_text" => Some(word(part, "text")),
        "refusal" => Some(word(part, "refusal")),
        _ => None,
    }
}

impl Growth {
    /// Takes the first item that is said to be complete, and shows it if nothing of it was shown before.
    fn complete(&mut self, item: Value<'_>, out: &mut Vec<Delta>) {
        if self.done.is_some() {
            return;
        }
        let is_message = word(item, "type") == "message";
        let parts = item.given("content").into_iter().flat_map(Value::items).filter(|_| is_message);
        let told: usize = parts.filter_map(text_of_part).map(|text| text.len()).sum();
        // Text that was shown is kept, whatever the complete item holds.
        if self.streamed() <= told {
            self.texts.clear();
        }
        let replaced = is_message && !self.texts.is_empty();
        self.done = Some(if replaced { String::new() } else { item.raw().to_owned() });
        if std::mem::replace(&mut self.shown, true) {
            return;
        }
        let kind = word(item, "type");
        let texts = |list: &str| -> Vec<String> {
            let parts = item.given(list).into_iter().flat_map(Value::items);
            parts.map(|part| word(part, "text")).filter(|text| !text.is_empty()).collect()
        };
        match &*kind {
            "message" => {
                for text in item.given("content").into_iter().flat_map(Value::items).filter_map(text_of_part)
                {
                    show(text, Delta::Text, out);
                }
            }
            "reasoning" => {
                show([texts("summary"), texts("content")].concat().join("\n\n"), Delta::Reasoning, out);
            }
            call if is_call(call) => out.push(Delta::Call(word(item, "name"))),
            _ => {}
        }
    }

    /// Writes the item as far as it was received, and a message with the texts that it does not hold. A text may be as large as an
    /// answer can be, so it is copied only once.
    fn write(self, out: &mut String) {
        let comma = |out: &mut String| out.push_str(if out.ends_with('[') { "" } else { "," });
        let item = self.done.clone().unwrap_or_else(|| self.cut());
        if !item.is_empty() {
            comma(out);
            out.push_str(&item);
        }
        if self.streamed() == 0 {
            return;
        }
        comma(out);
        Object::append(out, |message| {
            let message = message.text("type", "message").text("role", "assistant");
            message.with("content", |out| {
                write::list(out, &self.texts, |out, (_, said, refusal)| {
                    let (kind, field) =
                        if *refusal { ("refusal", "refusal") } else { ("output_text", "text") };
                    Object::append(out, |part| part.str("type", kind).str(field, said.as_str()));
                });
            })
        });
    }

    /// An incomplete item; empty for a message, which consists of its texts.
    fn cut(&self) -> String {
        let item = Object::new().text("type", &self.kind);
        match &*self.kind {
            "reasoning" => {
                let summary = Object::new().text("type", "summary_text").text("text", self.input.as_str());
                item.list("summary", [summary.finish()]).finish()
            }
            kind if is_call(kind) => {
                let field = if kind == "custom_tool_call" { "input" } else { "arguments" };
                let item = item.text("call_id", &self.call_id).text("name", &self.name);
                item.text(field, self.input.as_str()).finish()
            }
            _ => String::new(),
        }
    }

    /// Bytes of text that were received in pieces.
    fn streamed(&self) -> usize {
        self.texts.iter().map(|(_, text, _)| text.as_str().len()).sum()
    }
}

/// Whether an item is a call that names its tool.
fn is_call(kind: &str) -> bool {
    matches!(kind, "function_call" | "custom_tool_call")
}

fn refuses(item: Value<'_>) -> bool {
    let mut parts = item.given("content").into_iter().flat_map(Value::items);
    parts.any(|part| part.says("type", "refusal"))
}
