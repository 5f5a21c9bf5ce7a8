//! The interface of a decoder: it takes bytes, emits deltas, and ends with the message that the provider would have sent
//! without streaming.
//!
//! How the bytes are split makes no difference. A decoder never fails: it keeps what it received before an error, and [`End`]
//! says how the response ended.

use rejoin_record::Message;

pub use super::usage::Usage;
use crate::messages::roles::is_among;

/// A piece of a response, for showing it as it arrives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delta {
    /// A piece of text.
    Text(String),
    /// A piece of readable reasoning.
    Reasoning(String),
    /// The tool of a call that begins. Its arguments come with the message.
    Call(String),
}

/// Why a model stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StopReason {
    /// It finished, or waits for the results of its calls.
    Done,
    /// It reached the length limit; the last block may be incomplete.
    Length,
    /// The model or a filter refused to answer.
    Refused,
    /// The provider paused a long turn and expects the same history again.
    Paused,
    /// Another reason, as the provider names it.
    Other(String),
}

/// A dialect's words for why a model stopped; spaces separate them.
pub(crate) struct StopWords {
    pub(crate) done: &'static str,
    pub(crate) length: &'static str,
    pub(crate) refused: &'static str,
    pub(crate) paused: &'static str,
}

impl StopWords {
    pub(crate) fn read(&self, word: &str) -> StopReason {
        let Self { done, length, refused, paused } = self;
        let meanings = [
            (done, StopReason::Done),
            (length, StopReason::Length),
            (refused, StopReason::Refused),
            (paused, StopReason::Paused),
        ];
        let known = meanings.into_iter().find(|(words, _)| !word.is_empty() && is_among(word, words));
        known.map_or_else(|| StopReason::Other(word.to_owned()), |(_, stop)| stop)
    }
}

/// An error that the provider reports in the middle of a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportedFault {
    /// The kind of error, such as `overloaded_error`.
    pub kind: Option<String>,
    /// The provider's message.
    pub message: String,
}

/// How a response ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// Normally.
    Complete(StopReason),
    /// The bytes stopped before the end.
    Cut,
    /// With an error of the provider.
    Failed(ReportedFault),
    /// With bytes that are no response, and the reason why.
    Garbage(String),
}

/// The part of a response that was received.
#[derive(Debug, Clone)]
pub struct Received {
    /// The model's message; `None` if it is empty. A complete message has its native item. An incomplete one has none: an
    /// incomplete call keeps the text of its arguments, and incomplete reasoning is marked.
    pub message: Option<Message>,
    /// How the response ended.
    pub end: End,
    /// The model that answered, as the response names it.
    pub model: Option<String>,
    /// Token counts, if the provider sent them.
    pub usage: Option<Usage>,
}

/// Decodes one response.
pub trait StreamDecoder: Send {
    /// Takes the next bytes and appends their deltas.
    fn feed(&mut self, bytes: &[u8], out: &mut Vec<Delta>);
    /// Whether the end was seen, so that no more bytes are needed.
    fn is_done(&self) -> bool;
    /// The number of events with content. Comments, pings and repeated empty events do not count, so a stream whose count
    /// does not grow is silent, however many bytes arrive.
    fn events_with_content(&self) -> u64;
    /// The bytes of events that only repeat what earlier ones said. They take no memory and do not count for the longest answer.
    fn repeated(&self) -> usize;
    /// Ends the response and returns what was received.
    fn finish(self: Box<Self>) -> Received;
}
