//! Codex: rollouts, one JSON object a line. Each line has a time, a type and a payload; what the model saw are the payloads
//! of `response_item` lines, which are Responses items. `read.rs` reads them, `write.rs` makes a rollout that
//! `codex resume` takes, and `origins.rs` tells it which message each line comes from.

mod origins;
mod read;
mod resend;
mod write;

use crate::accounting::Known;

pub use read::{read_stream, sniff};
pub use resend::resend;
pub use write::write;

/// Fields of a line that hold no words of the conversation: those of its item.
pub(crate) const KNOWN: &[Known] = &[
    Known::field("payload.content.annotations"),
    Known::field("payload.content.logprobs"),
    Known::field("payload.pending_safety_checks"),
    Known::field("payload.acknowledged_safety_checks"),
    // What the program itself notes about an item.
    Known::field("payload.internal_chat_message_metadata_passthrough"),
];

/// The format's name.
pub const FORMAT: &str = "codex";
