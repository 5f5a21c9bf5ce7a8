//! The tool calls of a conversation as an auditor wants them: status, times, and a keyed hash in place of the arguments.

use jiff::Timestamp;
use rejoin_record::EntryId;

use crate::reading::Recorded;

/// The secret that arguments are hashed with, so that small ones cannot be guessed.
#[derive(Clone)]
pub struct CallKey(pub [u8; 32]);

/// How a call went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallStatus {
    /// Asked for, and no result.
    Requested,
    /// Answered.
    Completed,
    /// Answered with an error.
    Failed,
}

/// One tool call.
#[derive(Debug, Clone)]
pub struct CallRecord {
    /// The entry of the message that asks for it: together with `call_id`, what it is known by.
    pub request: EntryId,
    /// The call's id.
    pub call_id: String,
    /// The tool.
    pub tool: String,
    /// How it went.
    pub status: CallStatus,
    /// When it was asked for, or began to run where that is known.
    pub started: Option<Timestamp>,
    /// When its result came.
    pub ended: Option<Timestamp>,
    /// The keyed hash of the arguments in canonical form, in hexadecimal.
    pub args_sha256: String,
    /// The arguments.
    pub arguments: String,
    /// For a failed one, what the result says.
    pub error: Option<String>,
    /// What the result says, for a completed one.
    pub outcome: Option<String>,
}

impl CallRecord {
    /// How long it took, in milliseconds.
    #[must_use]
    pub fn latency_ms(&self) -> Option<i64> {
        Some((self.ended?.as_millisecond() - self.started?.as_millisecond()).max(0))
    }
}

/// The calls of a conversation, in order.
#[must_use]
pub fn calls(recorded: &Recorded, key: &CallKey) -> Vec<CallRecord> {
    let _ = (recorded, key);
    todo!()
}
