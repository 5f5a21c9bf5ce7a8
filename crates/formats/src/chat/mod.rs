//! Reading lists of chat messages, in the shapes that OpenAI Chat and Anthropic bodies share.
//!
//! Both readers understand each other's blocks, since agents that switch providers mix them. What a message looks like
//! in its own dialect decides only whether it may be sent again as it is.
//!
//! `detect.rs` tells the two apart, `list.rs` finds the messages in a text, `within.rs` in other JSON, `message.rs` and `blocks.rs` read them.

pub(crate) mod blocks;
pub mod detect;
pub mod list;
mod message;
mod within;

pub(crate) use blocks::document_source;
pub(crate) use message::DEEPEST;
pub use message::{MessageReader, REASONING_FIELDS, ReadMessage, more_fields};

/// Which of the two shapes a list is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// `tool_calls` beside the content, results as messages.
    OpenAi,
    /// Everything as content blocks.
    Anthropic,
}

impl Style {
    /// The name of the format.
    #[must_use]
    pub fn format(self) -> &'static str {
        match self {
            Self::OpenAi => "openai-chat",
            Self::Anthropic => "anthropic",
        }
    }
}
