//! Gemini CLI: `session-….jsonl`, a log that is replayed, or `session-….json`, the older single document.
//!
//! A line is a header, a message, a change of the session (`$set`), or a rewind (`$rewindTo`). A message replaces
//! an earlier one with the same id. `replay.rs` finds what is left, `read.rs` reads the messages, `write.rs` writes a log.

mod read;
mod replay;
mod write;

use crate::sessions::prelude::*;

pub(crate) use read::{read, read_stream};
pub(crate) use write::write;

pub(crate) const FORMAT: &str = "gemini-cli";

/// Fields of a message that hold no words of the conversation, or the same words for display.
pub(crate) const KNOWN: &[Known] = &[
    Known::fields("displayContent"),
    // What people see of a call; the model gets `args` and `result`.
    Known::fields("toolCalls.resultDisplay toolCalls.description toolCalls.displayName"),
    // Thoughts that the content repeats as parts.
    Known::beside("thought", "thoughts"),
    Known::fields("content.thoughtSignature"),
];

/// Whether a text is a session of Gemini CLI.
pub(crate) fn sniff(sample: &Sample<'_>) -> Option<Claim> {
    let is_header = |root: Value<'_>| {
        root.holds("sessionId", ValueKind::String) && root.holds("projectHash", ValueKind::String)
    };
    let is_message = |root: Value<'_>| {
        root.says("type", "gemini") && root.holds("id", ValueKind::String) && root.get("message").is_none()
    };
    // A document that was cut off before its header, which may come after the messages.
    let is_torn = |root: Value<'_>| {
        let messages = root.get("messages").filter(|_| root.is_cut()).into_iter().flat_map(Value::items);
        messages.take(LOOK_AT).any(|message| {
            message.holds("id", ValueKind::String)
                && message.holds("timestamp", ValueKind::String)
                && ["user", "gemini", "info", "warning", "error"]
                    .iter()
                    .any(|kind| message.says("type", kind))
        })
    };
    let whole = sample.beginning().0.root();
    let sure = whole.is_some_and(is_header) || sample.any_line(LOOK_AT, is_header);
    Claim::sure(sure, "a `sessionId` and a `projectHash`").or_else(|| {
        let is_so = whole.is_some_and(is_torn) || sample.any_line(LOOK_AT, is_message);
        Claim::likely(is_so, "messages with an `id` and the type `gemini`")
    })
}
