//! Reading lists of chat messages in the styles of OpenAI Chat and Anthropic.
//!
//! Either style accepts the other's blocks, since agents that switch providers mix them. The style decides only whether a message
//! may be sent again unchanged.
//!
//! `detect.rs` recognises the style, `list.rs` finds the messages in a text, `within.rs` in other JSON, `message.rs` and
//! `blocks.rs` read them, `roles.rs` finds the author.

pub(crate) mod blocks;
pub mod detect;
pub mod list;
mod message;
pub(crate) mod roles;
mod within;

use crate::accounting::Known;

pub(crate) use blocks::document_source;
pub(crate) use message::DEEPEST;
pub use message::{MessageReader, REASONING_FIELDS, ReadMessage, more_fields};
pub(crate) use within::{around_list, holds_speech};

/// Fields that programs keep beside the content of a message.
pub(crate) const KNOWN: &[Known] = &[
    // What a text refers to; the text itself is the content.
    Known::fields("content.citations content.content.citations annotations"),
    // How a document is to be read; it goes along with the document.
    Known::fields("content.context content.content.context"),
    // Reasoning that only its provider can read is kept sealed.
    Known::fields("reasoning_details"),
    // mini-swe-agent: the answer as it came, the output before it was formatted, and what went wrong.
    Known::fields(
        "extra.actions extra.response extra.raw_output extra.traceback extra.exception \
         extra.exception_info extra.submission",
    ),
    // SWE-agent: the command that the call or the text asks for.
    Known::beside("message_type", "action"),
    Known::beside("thought", "action"),
];

/// Where messages keep calls and results. Many agents use one of the two forms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Calls in a field `tool_calls` beside the content, results as messages.
    ToolCalls,
    /// Calls and results as content blocks.
    Blocks,
}

impl Style {
    /// The name of the dialect that has this form.
    pub fn format(self) -> &'static str {
        list::Shape::wire(self).name
    }
}
