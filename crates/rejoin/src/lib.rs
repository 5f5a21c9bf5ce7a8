//! rejoin as a library: mend a broken request body in one call, or work with messages, views and dialects.
//!
//! ```
//! use rejoin::{Dialect, mend};
//!
//! // An agent was stopped while a tool ran: the call has no result, and the provider answers 400.
//! let body = r#"{"messages":[
//!     {"role":"user","content":"List the files."},
//!     {"role":"assistant","content":null,"tool_calls":[
//!         {"id":"call_1","type":"function","function":{"name":"list","arguments":"{}"}}]},
//!     {"role":"user","content":"Are you still there?"}]}"#;
//!
//! let mended = mend(Dialect::OpenAiChat, body)?;
//! assert!(mended.body.contains("no result was recorded"));
//! assert_eq!(mended.findings[0].rule.name(), "unanswered-call");
//! # Ok::<(), rejoin::MendError>(())
//! ```
//!
//! This crate is a front door: it re-exports the rooms behind it and holds no logic of its own. [`mend`](mend()) is the
//! one call for people with a broken body in their hands; [`sequence`] has the functions that work on plain messages.

mod mend;
pub mod sequence;

/// What every provider's requests go through before they leave.
pub mod providers {
    pub use crate::sequence::validate_message_sequence;
}

pub use mend::{MendError, Mended, mend};
#[cfg(feature = "store")]
pub use rejoin_engine as engine;
pub use rejoin_formats::{
    Context, ConvertError, Converted, Dialect, Input, ReadError, Session, Target, convert,
    input::{Companions, InputError, Stream},
    session::Aside,
    sessions, wire,
};
pub use rejoin_record::{
    self as record, Arguments, ArgumentsClass, Block, BlockKind, CallId, ConversationId, Message, Role, Text,
    ToolCall, ToolResult,
};
#[cfg(feature = "store")]
pub use rejoin_store as store;
pub use rejoin_view::{
    self as view, Action, Fate, Finding, History, OnBroken, Policy, Position, Repaired, Rule, Severity,
    SoundView, repair,
};
pub use sequence::{
    Sanitized, SequenceError, Validation, find_incomplete_tool_calls, recover_session,
    remove_incomplete_tool_calls, remove_orphaned_tool_results, sanitize_recovered_messages,
    validate_message_sequence, validate_message_structure,
};
