//! A streamed response of `streamGenerateContent`: every chunk is a small response, and a whole response is one large chunk.
//!
//! Words that follow words make one part, as long as neither is signed; any other part stays as it came.

use std::sync::Arc;

use rejoin_record::{
    Message,
    json::{Doc, Kind, Value, write},
};

use crate::{
    gemini::{ContentReader, fields::Fields},
    wire::{
        arriving::{Assembly, Seen, without_item},
        gathered::Streamed,
        stream::{Delta, Stop, Usage},
    },
};

/// A response, as far as it came.
#[derive(Default)]
pub(super) struct ContentAssembly {
    parts: Vec<Part>,
}

enum Part {
    /// Words, or thoughts, without a signature.
    Words { thought: bool, text: Streamed },
    /// Anything else, as it came.
    Other(String),
}

impl ContentAssembly {
    fn part(&mut self, part: Value<'_>, out: &mut Vec<Delta>) {
        let fields = Fields::of(part);
        let thought = fields.given("thought").and_then(Value::as_bool) == Some(true);
        let show = if thought { Delta::Reasoning } else { Delta::Text };
        let words = fields.given("text").filter(|text| text.kind() == Kind::String);
        let Some(words) = words.filter(|_| fields.are_among(&["text", "thought"])) else {
            let said = words.and_then(Value::as_str).filter(|text| !text.is_empty());
            out.extend(said.map(|text| show(text.into_owned())));
            let call = fields.given("functionCall").and_then(|call| Fields::of(call).given("name")?.as_str());
            out.extend(call.map(|name| Delta::Call(name.into_owned())));
            self.parts.push(Part::Other(part.raw().to_owned()));
            return;
        };
        if !matches!(self.parts.last(), Some(Part::Words { thought: last, .. }) if *last == thought) {
            self.parts.push(Part::Words { thought, text: Streamed::default() });
        }
        if let Some(Part::Words { text, .. }) = self.parts.last_mut() {
            let piece = text.push(words);
            out.extend((!piece.is_empty()).then(|| show(piece)));
        }
    }
}

impl Assembly for ContentAssembly {
    fn event(&mut self, _: &str, event: Value<'_>, seen: &mut Seen, out: &mut Vec<Delta>) -> bool {
        let chunk = event.given("response").unwrap_or(event);
        seen.model(chunk, "modelVersion");
        let counted = chunk.given("usageMetadata");
        seen.usage = counted.and_then(usage).or(seen.usage);
        let blocked = chunk.given("promptFeedback").and_then(|feedback| feedback.given("blockReason"));
        if blocked.is_some() {
            seen.stop = Some(Stop::Refused);
        }
        let candidates = chunk.given("candidates");
        let first =
            |candidate: &Value<'_>| candidate.given("index").and_then(Value::as_u64).unwrap_or(0) == 0;
        if let Some(candidate) = candidates.and_then(|list| list.items().find(first)) {
            let parts = candidate.given("content").and_then(|content| content.given("parts"));
            parts.into_iter().flat_map(Value::items).for_each(|part| self.part(part, out));
            if let Some(word) = candidate.given("finishReason").and_then(Value::as_str) {
                seen.stop = stop(&word).or(seen.stop.take());
            }
        }
        candidates.is_some() || blocked.is_some() || counted.is_some()
    }

    fn message(mut self, seen: &Seen, complete: bool) -> Option<Message> {
        // An empty text that nobody signed says nothing.
        self.parts.retain(|part| !matches!(part, Part::Words { text, .. } if text.is_empty()));
        if self.parts.is_empty() {
            return None;
        }
        let halted = matches!(self.parts.last(), Some(Part::Words { .. }));
        let mut item = String::from("{\"role\":\"model\",\"parts\":[");
        for (place, part) in self.parts.iter_mut().enumerate() {
            if place > 0 {
                item.push(',');
            }
            match part {
                Part::Other(raw) => item.push_str(raw),
                Part::Words { thought, text } => {
                    if complete {
                        text.end();
                    }
                    item.push_str(if *thought { "{\"thought\":true" } else { "{" });
                    write::key(&mut item, "text");
                    write::string(&mut item, text.as_str());
                    item.push('}');
                }
            }
        }
        item.push_str("]}");
        // An answer may be large: what it was put together from goes before it is copied.
        drop(self);
        let item: Arc<str> = item.into();
        let doc = Doc::parse(&item).ok()?;
        let mut reader = ContentReader::of_response(seen.model_text(), &seen.seed);
        let message = reader.answer(doc.root()?, &item)?;
        Some(if complete { message } else { without_item(message, halted) })
    }
}

fn stop(word: &str) -> Option<Stop> {
    Some(match word {
        "" | "FINISH_REASON_UNSPECIFIED" => return None,
        "STOP" => Stop::Done,
        "MAX_TOKENS" => Stop::Length,
        "SAFETY"
        | "RECITATION"
        | "BLOCKLIST"
        | "PROHIBITED_CONTENT"
        | "SPII"
        | "IMAGE_SAFETY"
        | "IMAGE_PROHIBITED_CONTENT"
        | "IMAGE_RECITATION" => Stop::Refused,
        other => Stop::Other(other.to_owned()),
    })
}

fn usage(counted: Value<'_>) -> Option<Usage> {
    let count = |name| counted.given(name).and_then(Value::as_u64);
    let thoughts = count("thoughtsTokenCount").unwrap_or(0);
    Some(Usage {
        input: count("promptTokenCount")?.saturating_add(count("toolUsePromptTokenCount").unwrap_or(0)),
        output: count("candidatesTokenCount").unwrap_or(0).saturating_add(thoughts),
        cached: count("cachedContentTokenCount").unwrap_or(0),
        reasoning: thoughts,
    })
}
