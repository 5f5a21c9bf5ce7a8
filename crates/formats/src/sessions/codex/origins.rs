//! The source message of each item of a written rollout, so that the item keeps its time and is displayed as what it was.
//! Encoders do not report it, so it is inferred from the order of the view and of the items.

use rejoin_record::{Block, json::Value};
use rejoin_view::{Finding, SoundRole, SoundView};

use crate::{sessions::writing::left_out, wire::openai_responses::read::Call};

/// The number of the source message of each item of a request, if it has one.
pub(super) fn origins(view: &SoundView, findings: &[Finding], items: &[Value<'_>]) -> Vec<Option<usize>> {
    let mut sources = Sources { all: expected(view, findings), at: 0, began: false, calls: 0, outputs: 0 };
    items.iter().map(|item| sources.of(*item)).collect()
}

/// The items that a message of the view becomes.
enum Expected {
    /// One item: words of a person.
    Words(usize),
    /// One item: instructions.
    Instructions(usize),
    /// Items of one answer, and then the outputs of its calls.
    Answer { message: usize, texts: Vec<String>, outputs: Vec<Option<usize>> },
}

fn expected(view: &SoundView, findings: &[Finding]) -> Vec<Expected> {
    let left_out = left_out(findings);
    let items = view.items().filter(|item| !left_out.contains(&item.index()));
    let of = |item: rejoin_view::ItemRef<'_>| match item.role() {
        SoundRole::Assistant => {
            let last = |exchange: rejoin_view::ExchangeRef<'_>| exchange.results().last().map(|it| it.at().0);
            let texts = item.message().blocks.iter().filter_map(Block::as_text).map(|text| text.to_string());
            Expected::Answer {
                message: item.index(),
                texts: texts.collect(),
                outputs: item.exchanges().map(|(exchange, _)| last(exchange)).collect(),
            }
        }
        SoundRole::User => Expected::Words(item.index()),
        SoundRole::System | SoundRole::Developer => Expected::Instructions(item.index()),
    };
    items.map(of).collect()
}

/// A walk through the view in step with the items.
struct Sources {
    all: Vec<Expected>,
    /// The message that the last item came from.
    at: usize,
    /// Whether an item came from it.
    began: bool,
    /// How many of its calls and outputs have been seen.
    calls: usize,
    outputs: usize,
}

impl Sources {
    fn of(&mut self, item: Value<'_>) -> Option<usize> {
        let kind = item.get("type").and_then(Value::as_str).unwrap_or_default();
        let message = matches!(&*kind, "message" | "");
        let role = item.get("role").and_then(Value::as_str).unwrap_or_default();
        match &*role {
            "user" if message => return self.next(|expected| matches!(expected, Expected::Words(_))),
            // Instructions from the request's own field are in no message.
            "system" | "developer" if message => return self.next_if_instructions(),
            _ => {}
        }
        if Call::of_output(&kind).is_some() {
            let Some(Expected::Answer { outputs, .. }) = self.all.get(self.at) else { return None };
            self.outputs += 1;
            return outputs.get(self.outputs - 1).copied().flatten();
        }
        let call = Call::of_call(&kind).is_some();
        let source = if self.goes_on(item, message, call) {
            self.current()
        } else {
            self.next(|expected| matches!(expected, Expected::Answer { .. }))
        };
        self.calls += usize::from(call);
        source
    }

    fn current(&self) -> Option<usize> {
        self.all.get(self.at).map(|expected| match expected {
            Expected::Words(message) | Expected::Instructions(message) | Expected::Answer { message, .. } => {
                *message
            }
        })
    }

    /// Moves to the next message of a kind.
    fn next(&mut self, kind: impl Fn(&Expected) -> bool) -> Option<usize> {
        let from = self.at + usize::from(self.began);
        let found = self.all.get(from..)?.iter().position(kind)?;
        *self =
            Self { at: from + found, began: true, calls: 0, outputs: 0, all: std::mem::take(&mut self.all) };
        self.current()
    }

    fn next_if_instructions(&mut self) -> Option<usize> {
        let from = self.at + usize::from(self.began);
        let here = matches!(self.all.get(from), Some(Expected::Instructions(_)));
        self.next(|_| here).filter(|_| here)
    }

    /// Whether a piece of an answer belongs to the same answer as the item before it.
    fn goes_on(&self, item: Value<'_>, message: bool, call: bool) -> bool {
        let Some(Expected::Answer { texts, outputs, .. }) = self.all.get(self.at).filter(|_| self.began)
        else {
            return false;
        };
        if self.outputs > 0 {
            return false;
        }
        // Only their contents tell two successive answers apart.
        let two = matches!(self.all.get(self.at + 1), Some(Expected::Answer { .. }));
        let is_text = |text: &str| texts.iter().any(|own| own == text);
        let words = || {
            let parts = item.get("content").into_iter().flat_map(Value::items);
            parts.filter_map(|part| part.get("text")?.as_str()).any(|text| is_text(&text))
                || item.get("content").and_then(Value::as_str).is_some_and(|text| is_text(&text))
        };
        !two || if call { self.calls < outputs.len() } else { !message || words() }
    }
}
