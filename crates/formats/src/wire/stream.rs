//! A response as it arrives: bytes in, deltas out, and in the end the message that the provider would have given at once.
//!
//! A decoder takes bytes in any pieces, and a response that does not stream is a single piece; how it was cut never shows.
//! A decoder never fails: what came before trouble is kept, and [`End`] says how it ended.

use rejoin_record::Message;

pub use super::usage::Usage;

/// A piece of a response, to be shown as it arrives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delta {
    /// More text.
    Text(String),
    /// More of what the model thinks, as far as it can be read.
    Reasoning(String),
    /// A call begins: its tool. Its arguments come with the message.
    Call(String),
}

/// Why a model stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// It is done, or waits for the results of its calls.
    Done,
    /// It ran into the limit of its answer: the last block may be cut.
    Length,
    /// It, or a filter, would not go on.
    Refused,
    /// The provider paused a long turn and wants the same history again.
    Paused,
    /// Another reason, in the provider's word.
    Other(String),
}

/// A dialect's words for why a model stopped.
pub(crate) struct StopWords {
    pub(crate) done: &'static [&'static str],
    pub(crate) length: &'static [&'static str],
    pub(crate) refused: &'static [&'static str],
    pub(crate) paused: &'static [&'static str],
}

impl StopWords {
    /// What a word means.
    pub(crate) fn read(&self, word: &str) -> Stop {
        let Self { done, length, refused, paused } = self;
        let meanings =
            [(done, Stop::Done), (length, Stop::Length), (refused, Stop::Refused), (paused, Stop::Paused)];
        let known = meanings.into_iter().find(|(words, _)| words.contains(&word));
        known.map_or_else(|| Stop::Other(word.to_owned()), |(_, stop)| stop)
    }
}

/// What a provider says that failed, in the middle of a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The provider's word for its kind, such as `overloaded_error`.
    pub kind: Option<String>,
    /// What it says.
    pub message: String,
}

/// How a response ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// As it should.
    Complete(Stop),
    /// The bytes stopped before the end.
    Cut,
    /// The provider said that something failed.
    Failed(Fault),
    /// What came is not a response: why.
    Garbage(String),
}

/// A response, as far as it arrived.
#[derive(Debug, Clone)]
pub struct Received {
    /// What the model said; none if it said nothing at all. Read from its native item wherever that is whole; what was cut in
    /// the middle has none: a half-received call keeps the text of its arguments, and half-received reasoning is marked
    /// incomplete.
    pub message: Option<Message>,
    /// How it ended.
    pub end: End,
    /// The model that answered, as the response names it.
    pub model: Option<String>,
    /// Tokens, where they were counted.
    pub usage: Option<Usage>,
}

/// Decodes one response.
pub trait StreamDecoder: Send {
    /// Takes the next bytes, however they were cut, and appends what they say.
    fn feed(&mut self, bytes: &[u8], out: &mut Vec<Delta>);
    /// Whether the end was seen: nothing more needs to be read.
    fn is_done(&self) -> bool;
    /// How many events said something so far. Comments, pings and repeated empty events say nothing, so a stream whose count
    /// stands still is silent, however many bytes come.
    fn said(&self) -> u64;
    /// There are no more bytes: the response, as far as it came.
    fn finish(self: Box<Self>) -> Received;
}
