//! Codex rollouts: one JSON object per line, with a time, a type and a payload. The model saw the payloads of
//! `response_item` lines, which are Responses items. `read.rs` reads them, and `write.rs` writes a rollout that
//! `codex resume` accepts.

mod read;
mod resend;
mod write;

use crate::accounting::Known;

pub(crate) use read::{growing, read_stream, sniff};
pub(crate) use resend::resend;
pub(crate) use write::write;

/// Fields of an item that hold no words of the conversation.
pub(crate) const KNOWN: &[Known] = &[
    Known::fields(
        "payload.content.annotations payload.content.logprobs payload.pending_safety_checks \
         payload.acknowledged_safety_checks",
    ),
    // The program's own notes about an item.
    Known::fields("payload.internal_chat_message_metadata_passthrough"),
];

/// The name of the format.
pub(crate) const FORMAT: &str = "codex";
