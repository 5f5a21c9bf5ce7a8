//! pi and OpenClaw: one file per session. Its lines form a tree by `id` and `parentId`, and the last line ends the conversation.
//!
//! The first versions had no ids: in their files, each line follows the one before it. `read.rs` reads sessions, `write.rs`
//! writes one. OpenClaw stores its sessions with pi's code, and adds its own kinds of lines.

mod read;
mod write;

use rejoin_record::json::Doc;

use crate::{session::Session, sessions::prelude::*};

pub(crate) use read::read_stream;
pub(crate) use write::write;

pub(crate) const FORMAT: &str = "pi";

/// Fields of a line that hold no words of the conversation, or the same words in another form.
pub(crate) const KNOWN: &[Known] = &[
    // The result of a tool for display, and the data of a hook or an extension.
    Known::fields("message.details details"),
    // Why a request failed.
    Known::fields("message.errorMessage message.diagnostics"),
    // The text of arguments that were cut off while they arrived; the call holds the part that could be parsed.
    Known::fields("message.content.partialJson"),
    // The declarations of tools, and the system prompt that came with a compaction.
    Known::fields("message.toolsAdded message.toolsRemoved systemMessage"),
    Known::fields("message.usage"),
];

/// Whether a text is a session of pi.
pub(crate) fn sniff(sample: &Sample<'_>) -> Option<Claim> {
    let string = |root: Value<'_>, name| root.holds(name, ValueKind::String);
    let is_header = |root: Value<'_>| {
        let own = root.says("type", "session") && string(root, "id") && string(root, "timestamp");
        own && (string(root, "cwd") || root.get("version").is_some())
    };
    let is_own = |root: Value<'_>| {
        let Some(message) = root.get("message").filter(|_| root.says("type", "message")) else {
            return false;
        };
        let calls = message.get("content").into_iter().flat_map(Value::items).take(LOOK_AT);
        message.says("role", "toolResult") || calls.into_iter().any(|block| block.says("type", "toolCall"))
    };
    let is_message = |root: Value<'_>| {
        root.says("type", "message") && root.get("message").is_some_and(|message| string(message, "role"))
    };
    Claim::sure(sample.any_line(LOOK_AT, is_header), "a first line of the type `session`")
        .or_else(|| Claim::sure(sample.any_line(LOOK_AT, is_own), "results of the role `toolResult`"))
        .or_else(|| Claim::likely(sample.any_line(LOOK_AT, is_message), "lines of the type `message`"))
}

/// Whether OpenClaw wrote a session. OpenClaw notes the model of every run, marks its own lines, and adds answers in its own
/// name. Its first versions wrote none of these notes, so their sessions cannot be told from pi's.
pub(crate) fn is_of_openclaw(session: &Session) -> bool {
    let marks = |line: &str| {
        if !line.contains("openclaw") && !line.contains("model-snapshot") {
            return false;
        }
        let doc = Doc::of(line);
        doc.root().is_some_and(|root| {
            let kind = root.word("customType");
            let own = root.get("message").is_some_and(|message| message.says("provider", "openclaw"));
            own || kind == "model-snapshot" || kind.starts_with("openclaw")
        })
    };
    let natives = session.all_messages().filter_map(|message| message.native.as_ref());
    session.set_aside.iter().filter_map(|item| item.raw()).any(|line| marks(line))
        || natives.into_iter().any(|native| marks(native.raw.as_str()))
}
