//! The rows for reports: messages and calls in plain columns, for programs that query a database directly.
//!
//! The rows are derived from the entries and can be derived again. Only a store that other programs query keeps them.

use jiff::Timestamp;
use rejoin_record::EntryId;

/// The rows of a conversation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReportRows {
    /// The messages, in the order of appending, on all branches.
    pub messages: Vec<MessageRow>,
    /// The calls of tools, on all branches.
    pub calls: Vec<CallRow>,
    /// Whether a result answers a call that is not among the entries. Then the rows must be made from all entries.
    pub lacks_calls: bool,
}

/// A message, or one of the results in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageRow {
    /// The `seq` of its entry.
    pub seq: u64,
    /// Its number within the entry, from 0.
    pub part: u32,
    /// The author's role: `system`, `user`, `assistant` or `tool`.
    pub role: String,
    /// The text, if there is one.
    pub content: Option<String>,
    /// The calls, as a JSON list in the form of OpenAI's API; `None` if there are none.
    pub tool_calls: Option<String>,
    /// The function columns of an imported row, as JSON, if the row was written before there was a column for calls.
    pub functions: FunctionColumns,
    /// The call that a result answers; `None` for other messages.
    pub answers: Option<AnsweredCall>,
    /// When the message was written.
    pub at: Timestamp,
}

/// The values of the columns `function_calls` and `function_results`, as JSON.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FunctionColumns {
    /// The calls; `None` if the column was empty.
    pub calls: Option<String>,
    /// Their results; `None` if the column was empty.
    pub results: Option<String>,
}

/// The call that a result answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnsweredCall {
    /// The call's id.
    pub id: String,
    /// The tool's name; `None` if the call is not known.
    pub tool: Option<String>,
}

/// A call of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallRow {
    /// The entry of the message that contains the call.
    pub request: EntryId,
    /// The `seq` of that entry.
    pub seq: u64,
    /// Its number among the calls of that message, from 0. The number is needed because a message may use an id twice.
    pub number: u32,
    /// The call's id.
    pub call_id: String,
    /// The tool's name.
    pub tool: String,
    /// How far the call got: `requested`, `running`, `completed`, `failed` or `interrupted`.
    pub status: &'static str,
    /// When it began to run; if that is not recorded, when the model asked for it.
    pub started: Option<Timestamp>,
    /// When its result arrived.
    pub ended: Option<Timestamp>,
    /// Why it failed or was interrupted.
    pub error_kind: Option<&'static str>,
    /// The keyed hash of the arguments.
    pub args_sha256: String,
    /// The arguments. A store keeps them only if its operator enables that.
    pub arguments: String,
    /// The text of a result that is an error. Kept under the same setting as the arguments.
    pub error: Option<String>,
    /// The text of any other result. Kept under the same setting as the arguments.
    pub outcome: Option<String>,
}
