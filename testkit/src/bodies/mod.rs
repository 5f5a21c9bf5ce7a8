//! Arbitrary request bodies, with all faults that real ones have, and the truth about their content.
//!
//! A body is generated as a plan (`plan.rs`) and then written as JSON text (`writer.rs`), so that it also has spellings that no
//! JSON library would write. Every text contains a token that occurs only once, such as `⟦u7⟧`; [`Truth`] lists the tokens in
//! source order. Each shape has one file; `chat.rs` is shared by the two chat shapes.

mod anthropic;
mod chat;
mod gemini;
mod media;
mod openai;
mod plan;
mod responses;
#[cfg(test)]
mod tests;
mod writer;

use proptest::{collection::vec, prelude::*, strategy::Union};

use plan::{Around, around, sound_call};
use writer::Writer;

/// The shapes of bodies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// OpenAI Chat.
    OpenAi,
    /// Anthropic Messages.
    Anthropic,
    /// OpenAI Responses.
    Responses,
    /// Google Gemini.
    Gemini,
}

impl Shape {
    /// Every shape.
    pub const ALL: [Self; 4] = [Self::OpenAi, Self::Anthropic, Self::Responses, Self::Gemini];

    /// The dialect's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::OpenAi => "openai-chat",
            Self::Anthropic => "anthropic",
            Self::Responses => "openai-responses",
            Self::Gemini => "gemini",
        }
    }

    /// The field of a body that holds the conversation.
    pub fn list(self) -> &'static str {
        match self {
            Self::OpenAi | Self::Anthropic => "messages",
            Self::Responses => "input",
            Self::Gemini => "contents",
        }
    }
}

/// A body, and its content.
#[derive(Debug, Clone)]
pub struct Body {
    /// The JSON.
    pub json: String,
    /// Its shape.
    pub shape: Shape,
    /// Its content.
    pub truth: Truth,
}

/// The content of a body.
#[derive(Debug, Clone, Default)]
pub struct Truth {
    /// Tokens of the texts of people, models and instructions, in source order; the first letter is the role.
    pub said: Vec<String>,
    /// Tokens of results.
    pub results: Vec<String>,
    /// Calls: token in the arguments, id, message; only calls whose arguments are an object, or free text where the shape
    /// has calls of that kind.
    pub calls: Vec<(String, String, usize)>,
    /// Results with ids: token, id, message.
    pub answers: Vec<(String, String, usize)>,
    /// Ids of all calls, with any arguments.
    pub call_ids: Vec<String>,
}

/// An arbitrary body of a shape.
pub fn body(shape: Shape) -> BoxedStrategy<Body> {
    match shape {
        Shape::OpenAi => written(shape, vec(openai::message(), 0..9), Writer::message),
        Shape::Anthropic => written(shape, vec(anthropic::message(), 0..9), Writer::message),
        // Items are smaller than messages.
        Shape::Responses => written(shape, vec(responses::item(), 0..14), Writer::item),
        Shape::Gemini => written(shape, vec(gemini::content(), 0..9), Writer::contents),
    }
}

/// Bodies of planned messages: each is written as one item of the list, or several.
fn written<M: Clone + std::fmt::Debug + 'static>(
    shape: Shape,
    messages: impl Strategy<Value = Vec<M>> + 'static,
    write: fn(&mut Writer, &M) -> Vec<String>,
) -> BoxedStrategy<Body> {
    (messages, around())
        .prop_map(move |(messages, around): (Vec<M>, Around)| {
            let mut writer = Writer::new(shape);
            let before = writer.before(&around);
            let mut list = Vec::new();
            for message in &messages {
                list.extend(write(&mut writer, message));
                writer.message += 1;
            }
            writer.body(before, &list, &around)
        })
        .boxed()
}

/// An arbitrary body of one of these shapes.
pub fn body_of(shapes: &[Shape]) -> BoxedStrategy<Body> {
    Union::new(shapes.iter().map(|shape| body(*shape))).boxed()
}

/// An arbitrary body of any shape.
pub fn any_body() -> BoxedStrategy<Body> {
    body_of(&Shape::ALL)
}

/// The messages that an engine appends after a request was sent: a user message, then an assistant message with calls, then all of
/// its results, as items of the shape's list.
pub fn continuation(shape: Shape) -> BoxedStrategy<Vec<String>> {
    vec(sound_call(), 0..3)
        .prop_map(move |calls| {
            let mut calls = calls;
            calls.dedup_by_key(|call| call.id);
            let mut writer = Writer::new(shape);
            writer.counter = 1000;
            writer.continuation(&calls)
        })
        .boxed()
}
