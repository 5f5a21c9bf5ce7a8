//! Claude Code transcripts: one JSON object per line, a tree by `uuid` and `parentUuid`, Anthropic messages inside.
//!
//! `lines.rs` reads single lines, `tree.rs` finds the path of the conversation and the lines that form one message,
//! `read.rs` builds a session from them, and `write.rs` writes one. Nothing here opens a file: an output in a file beside
//! the transcript is requested from the caller.

mod lines;
mod read;
mod resend;
mod tree;
mod write;

use rejoin_record::json::{Value, ValueKind};

use super::sample::{Claim, Sample};
use crate::accounting::{Known, likeness::is_iflow};

pub(crate) use read::{growing, read_as, read_stream};
pub(crate) use resend::resend;
pub(crate) use write::write;

const FORMAT: &str = "claude-code";

/// The field that marks a block for the cache. The provider limits the number of marks, so blocks that have one are written
/// again without it.
const MARK: &str = "\"cache_control\"";

/// Fields of a line that hold no words of the conversation, or the same words in another form.
pub(crate) const KNOWN: &[Known] = &[
    // The result of a tool, for display in the program.
    Known::fields("toolUseResult mcpMeta"),
    // Where the program ran: a folder may have any name.
    Known::fields("cwd gitBranch"),
    // The state of the program.
    Known::fields(
        "todos thinkingMetadata planContent summarizeMetadata classifierMetaLines \
         hookAdditionalContext",
    ),
    // What the program made for the model of a prompt that was queued: the prompt itself is the message.
    Known::fields("rendered"),
    // What an attachment was made of, if the line also has the text that was made of it.
    Known::beside("rendered", "attachment"),
    // Why a request failed; the message contains it too.
    Known::fields("error apiError errorDetails apiRefusalExplanation"),
    // Sources that a text refers to; the text itself is the content.
    Known::fields(
        "message.content.citations message.content.context message.content.content.citations \
         message.content.content.context",
    ),
    // The API's data about its answer.
    Known::fields("message.usage message.diagnostics message.stop_details message.context_management"),
];

/// Whether a text, or the beginning of one, is a transcript. One line that only Claude Code writes is enough: the first
/// lines may be damaged, and the last one may be cut.
pub(crate) fn sniff(sample: &Sample<'_>) -> Option<Claim> {
    Claim::sure(sample.any_line_of_beginning(is_own), "lines with a `message` and a `uuid` or `sessionId`")
}

/// Whether a line is one that Claude Code writes and no other tool.
fn is_own(root: Value<'_>) -> bool {
    let string = |name| root.holds(name, ValueKind::String);
    let object = |name| root.holds(name, ValueKind::Object);
    let Some(kind) = root.get("type").and_then(Value::as_str) else {
        // A long line that is cut inside its message: its type would come after the message.
        return root.is_cut()
            && root.get("parentUuid").is_some()
            && root.get("isSidechain").is_some()
            && string("sessionId");
    };
    match &*kind {
        "user" | "assistant" => {
            let message = root.get("message").filter(|message| message.kind() == ValueKind::Object);
            let spoken = message.is_some_and(|message| {
                message.get("content").is_some() || (message.is_cut() && message.get("role").is_some())
            });
            spoken && (string("uuid") || string("sessionId")) && !is_iflow(root)
        }
        "summary" => string("summary") && string("leafUuid"),
        "file-history-snapshot" => object("snapshot") && string("messageId"),
        "queue-operation" => string("operation") && string("sessionId"),
        "progress" => object("data") && string("toolUseID") && string("uuid"),
        "attachment" => object("attachment") && string("uuid") && string("sessionId"),
        "custom-title" => string("customTitle") && string("sessionId"),
        "ai-title" => string("aiTitle") && string("sessionId"),
        "last-prompt" => string("lastPrompt") && string("sessionId"),
        "permission-mode" => string("permissionMode") && string("sessionId"),
        _ => false,
    }
}
