//! What reports are made from: messages and calls as plain rows, for programs that ask a database directly.
//!
//! The rows follow from the entries and can be made again from them. Only a store that others query by themselves keeps them.

use jiff::Timestamp;
use rejoin_record::EntryId;

/// The rows of a conversation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReportRows {
    /// What was said, in the order of appending, on all branches.
    pub messages: Vec<MessageRow>,
    /// The calls of tools, on all branches.
    pub calls: Vec<CallRow>,
    /// Whether a result answers a call that is not among the entries. Then the rows have to be made from all of them.
    pub lacks_calls: bool,
}

/// A message, or one of the results in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageRow {
    /// The `seq` of its entry.
    pub seq: u64,
    /// Its number in the entry, from 0.
    pub part: u32,
    /// Who speaks: `system`, `user`, `assistant` or `tool`.
    pub role: String,
    /// The text; none if there is none.
    pub content: Option<String>,
    /// The calls, as a JSON list in the form of OpenAI's API; none if there are none.
    pub tool_calls: Option<String>,
    /// The columns for calls and results that an imported row had, as JSON, if it was written before there was one for calls.
    pub functions: FunctionColumns,
    /// The call that a result answers; none in any other message.
    pub answers: Option<AnsweredCall>,
    /// When it was said.
    pub at: Timestamp,
}

/// The values of the columns `function_calls` and `function_results`, as JSON.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FunctionColumns {
    /// The calls; none if the column was empty.
    pub calls: Option<String>,
    /// Their results; none if the column was empty.
    pub results: Option<String>,
}

/// The call that a result answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnsweredCall {
    /// The call's id.
    pub id: String,
    /// The tool's name; none if the call is not known.
    pub tool: Option<String>,
}

/// A call of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallRow {
    /// The entry of the message that asks for it.
    pub request: EntryId,
    /// The `seq` of that entry.
    pub seq: u64,
    /// Its number among the calls of that message, from 0: a message may use an id twice.
    pub number: u32,
    /// The call's id.
    pub call_id: String,
    /// The tool's name.
    pub tool: String,
    /// How far it came: `requested`, `running`, `completed`, `failed` or `interrupted`.
    pub status: &'static str,
    /// When it began to run, or was asked for.
    pub started: Option<Timestamp>,
    /// When its result came.
    pub ended: Option<Timestamp>,
    /// Why it failed or was interrupted.
    pub error_kind: Option<&'static str>,
    /// The keyed hash of the arguments.
    pub args_sha256: String,
    /// The arguments. A store keeps them only if its operator wants that.
    pub arguments: String,
    /// The text of a result that is an error; kept like the arguments.
    pub error: Option<String>,
    /// The text of any other result; kept like the arguments.
    pub outcome: Option<String>,
}
