//! Decoding for `generateContent`. Every chunk of a stream is a small response; a complete response is one large chunk.
//!
//! Adjacent unsigned texts become one part; any other part stays verbatim.

use super::{
    WIRE,
    read::{ContentReader, fields::CamelFields},
};
use crate::wire::prelude::*;

/// The part of a response that was received.
#[derive(Default)]
pub(super) struct ContentAssembly {
    parts: Vec<Part>,
}

enum Part {
    /// Text or thoughts without a signature.
    Words { thought: bool, text: Streamed },
    /// Anything else, verbatim.
    Other(String),
}

impl ContentAssembly {
    fn part(&mut self, part: Value<'_>, out: &mut Vec<Delta>) {
        let fields = CamelFields::of(part);
        let thought = fields.given("thought").and_then(Value::as_bool) == Some(true);
        let kind = if thought { Delta::Reasoning } else { Delta::Text };
        let words = fields.given("text").filter(|text| text.kind() == ValueKind::String);
        let Some(words) = words.filter(|_| fields.are_among(&["text", "thought"])) else {
            show(words.and_then(Value::as_str).unwrap_or_default().into_owned(), kind, out);
            let call =
                fields.given("functionCall").and_then(|call| CamelFields::of(call).given("name")?.as_str());
            out.extend(call.map(|name| Delta::Call(name.into_owned())));
            self.parts.push(Part::Other(part.raw().to_owned()));
            return;
        };
        if !matches!(self.parts.last(), Some(Part::Words { thought: last, .. }) if *last == thought) {
            self.parts.push(Part::Words { thought, text: Streamed::default() });
        }
        if let Some(Part::Words { text, .. }) = self.parts.last_mut() {
            show(text.push(words), kind, out);
        }
    }
}

impl Assembly for ContentAssembly {
    fn event(&mut self, _: &str, event: Value<'_>, seen: &mut Facts, out: &mut Vec<Delta>) -> bool {
        let chunk = event.given("response").unwrap_or(event);
        seen.model(chunk, "modelVersion");
        let counted = chunk.given("usageMetadata");
        seen.count(&WIRE.usage, counted);
        let blocked = chunk.given("promptFeedback").and_then(|feedback| feedback.given("blockReason"));
        if blocked.is_some() {
            seen.stop = Some(StopReason::Refused);
        }
        let candidates = chunk.given("candidates");
        let first =
            |candidate: &Value<'_>| candidate.given("index").and_then(Value::as_u64).unwrap_or(0) == 0;
        if let Some(candidate) = candidates.and_then(|list| list.items().find(first)) {
            let parts = candidate.given("content").and_then(|content| content.given("parts"));
            parts.into_iter().flat_map(Value::items).for_each(|part| self.part(part, out));
            let reason = word(candidate, "finishReason");
            if !matches!(&*reason, "" | "FINISH_REASON_UNSPECIFIED") {
                seen.stop = Some(WIRE.stops.read(&reason));
            }
        }
        candidates.is_some() || blocked.is_some() || counted.is_some()
    }

    fn item(mut self, _: &Facts, complete: bool) -> Option<Item> {
        // Empty texts without a signature are dropped.
        self.parts.retain(|part| !matches!(part, Part::Words { text, .. } if text.is_empty()));
        let halted = matches!(self.parts.last()?, Part::Words { .. });
        let parts = self.parts.into_iter().map(|part| match part {
            Part::Other(raw) => raw,
            Part::Words { thought, mut text } => {
                if complete {
                    text.end();
                }
                let part = Object::new().raw_if("thought", thought.then_some("true"));
                part.text("text", text.as_str()).finish()
            }
        });
        let json = Object::new().text("role", "model").list("parts", parts).finish();
        Some(Item { json, whole: complete, halted })
    }

    fn read(item: Value<'_>, buffer: &Arc<str>, seen: &Facts) -> Option<Message> {
        ContentReader::of_response(seen.model_text(), &seen.seed).answer(item, buffer)
    }
}
