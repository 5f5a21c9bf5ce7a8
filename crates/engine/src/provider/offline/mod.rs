//! `offline`: a small built-in responder without a network or a model. The same conversation always gets the same answer.
//!
//! It remembers facts, does sums and reads files through tools, recalls earlier questions, and summarises. `intents.rs` finds the
//! requests in a text, `memory.rs` the facts in the conversation.

mod intents;
mod memory;

use intents::Intent;
use memory::Remembered;
use rejoin_formats::wire::stream::{Delta, End, Received, StopReason, Usage};
use rejoin_record::{Block, Message, Role, ToolCall};
use rejoin_view::{SoundView, TokenCounter};

use super::{BoxFuture, Endpoint, Listener, Model, Provider, ProviderError, Request, SendProgress, Sending};
use crate::turn::context_tokens;

/// The provider's name.
pub const NAME: &str = "offline";
/// The default model.
pub const MODEL: &str = "offline";
/// A model with a small window, to try out compaction.
pub const TINY: &str = "tiny";

/// How it introduces itself.
const WHAT_IT_IS: &str = "I am rejoin's offline responder: built in, no network, no language model.";
const WHAT_IT_DOES: &str = "I remember what you tell me (\"my name is …\"), do sums, list and read files here, run commands \
(\"run `ls`\"), write files (\"write `hello` to notes.txt\"), say what you asked before, and summarise. For a real model: `rejoin auth login`, or `--provider`.";

/// The responder.
#[derive(Debug, Clone)]
pub struct Offline {
    endpoint: Endpoint,
}

impl Default for Offline {
    fn default() -> Self {
        Self::new(MODEL)
    }
}

impl Offline {
    /// The responder with one of its models.
    pub fn new(model: &str) -> Self {
        let endpoint = Endpoint { provider: NAME.to_owned(), model: model.to_owned(), ..Endpoint::default() };
        Self { endpoint }
    }

    /// The models that it offers.
    pub fn known_models() -> Vec<Model> {
        let model = |id: &str, window| Model { id: id.to_owned(), window: Some(window), ..Model::default() };
        vec![model(MODEL, 128_000), model(TINY, 4_096)]
    }
}

impl Provider for Offline {
    fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    fn window(&self) -> Option<u64> {
        Self::known_models().iter().find(|model| model.id == self.endpoint.model)?.window
    }

    fn send<'a>(&'a self, request: &'a Request, listener: Listener<'a>) -> Sending<'a> {
        Box::pin(async move {
            if !Self::known_models().iter().any(|model| model.id == self.endpoint.model) {
                let fault = super::ProviderFault {
                    provider: NAME.to_owned(),
                    status: None,
                    kind: None,
                    message: format!(
                        "there is no model `{}`; there are {MODEL} and {TINY}",
                        self.endpoint.model
                    ),
                };
                return Err(ProviderError::NotFound(fault));
            }
            let messages = request.messages();
            let can = |tool: &str| request.context.offered.iter().any(|offered| &*offered.name == tool);
            let message = answer(&request.view, &request.retold, &can);
            let mut output = 0;
            for block in &message.blocks {
                if let Some(text) = block.as_text() {
                    for word in text.split_inclusive(' ') {
                        listener(SendProgress::Delta(Delta::Text(word.to_owned())));
                        output += 1;
                    }
                } else if let Some(call) = block.as_call() {
                    listener(SendProgress::Delta(Delta::Call(call.name.to_string())));
                    output += 8;
                }
            }
            let counter = TokenCounter::for_model(&self.endpoint.model);
            let said: u64 = messages.iter().map(|message| counter.message(message)).sum();
            let (instructions, tools) = context_tokens(&request.context, &counter);
            let input = said + instructions + tools;
            Ok(Received {
                message: Some(message),
                end: End::Complete(StopReason::Done),
                model: Some(self.endpoint.model.clone()),
                usage: Some(Usage { input, output, ..Usage::default() }),
            })
        })
    }

    fn models(&self) -> BoxFuture<'_, Result<Vec<Model>, ProviderError>> {
        Box::pin(async { Ok(Self::known_models()) })
    }
}

/// The answer to a conversation: tool calls, or text.
fn answer(view: &SoundView, retold: &[usize], can: &dyn Fn(&str) -> bool) -> Message {
    let memory = Remembered::of(view, retold);
    let Some(said) = memory.last() else {
        return Message::assistant(format!("{WHAT_IT_IS} {WHAT_IT_DOES}"));
    };
    let intents = intents::of(&said.text);
    if said.results.is_empty() {
        let wanted = intents.iter().filter_map(Intent::call).filter(|(tool, _)| can(tool));
        let calls: Vec<Block> = wanted
            .enumerate()
            .map(|(number, (tool, arguments))| {
                Block::call(ToolCall::new(memory.call_id(number), tool, arguments.finish()))
            })
            .collect();
        if !calls.is_empty() {
            // No text before the calls: scripts take the text of a turn as its answer.
            return Message::new(Role::Assistant, calls);
        }
    }
    Message::assistant(reply(&memory, &intents))
}

/// The text of an answer, after the tools have run.
fn reply(memory: &Remembered, intents: &[Intent]) -> String {
    let Some(said) = memory.last() else { return WHAT_IT_IS.to_owned() };
    let mut parts: Vec<String> = Vec::new();
    for result in &said.results {
        parts.push(match (&*result.tool, result.is_error) {
            ("calculate", false) => format!("{} = {}", result.asked, result.text),
            ("list_dir", false) => format!("In this folder:\n{}", result.text),
            ("read_file", false) => format!("{} says:\n{}", result.asked, result.text),
            ("run", false) => format!("`{}` printed:\n{}", result.asked, result.text),
            ("write_file", false) => result.text.clone(),
            (tool, _) => format!("{tool} did not work: {}", result.text),
        });
    }
    for intent in intents {
        match intent {
            Intent::Fact(fact) => {
                parts.push(format!("I will remember that your {} is {}.", fact.what, fact.value));
            }
            Intent::Note(note) => parts.push(format!("I will remember: {note}.")),
            Intent::Ask(what) => parts.push(match memory.fact(what) {
                Some(value) => format!("Your {what} is {value}."),
                None => format!("You have not told me your {what}."),
            }),
            Intent::AskAll => parts.push(memory.all_facts()),
            Intent::WhatSum => parts.push(match memory.last_sum() {
                Some(sum) => format!("You asked: {sum}"),
                None => String::from("You have not asked a math question yet."),
            }),
            Intent::WhatAsked => parts.push(match memory.before_last() {
                Some(text) => format!("You said: \"{text}\""),
                None => String::from("That was the first thing you said."),
            }),
            Intent::Summarise => parts.push(memory.summary()),
            Intent::Sum(sum) if said.results.is_empty() => {
                parts.push(format!("I cannot calculate {sum} without the calculate tool."));
            }
            Intent::Sum(_) | Intent::Read(_) | Intent::List(_) | Intent::Run(_) | Intent::Write { .. } => {}
        }
    }
    if parts.is_empty() {
        let first = memory.said.len() == 1;
        let heard = format!("You said: \"{}\".", memory::short(&said.text, 200));
        return if first {
            format!("{WHAT_IT_IS} {heard} {WHAT_IT_DOES}")
        } else {
            format!("{heard} I have no model to think about it. {WHAT_IT_DOES}")
        };
    }
    parts.join("\n")
}

#[cfg(test)]
mod tests;
