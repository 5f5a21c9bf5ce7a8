//! The record of a conversation, which is written once and never changed.
//!
//! This crate has the entry and block types, ids, the on-disk encoding, the hash chain, the tree of entries with its head,
//! `verify`, the limits, and the line reader. It does not open files, read the clock, draw random numbers or know a provider by
//! name: time, randomness and bytes are arguments.
//!
//! Start with [`Message`], the form of messages, with [`Entry`], the form in which they are stored, and with [`Tree`], which links
//! entries.

pub mod arguments;
pub mod block;
pub mod chain;
pub mod content;
pub mod entry;
pub mod hash;
pub mod ids;
pub mod json;
pub mod limits;
pub mod lines;
pub mod message;
mod message_body;
mod scope;
pub mod text;
pub mod tree;
pub mod verify;

pub use arguments::{Arguments, ArgumentsClass};
pub use block::{Block, BlockKind, Media, MediaSource, Opaque, Origin, Reasoning, ToolCall, ToolResult};
pub use chain::{Chain, Tail};
pub use content::Content;
pub use entry::{Entry, Envelope, Kind};
pub use hash::Hash;
pub use ids::{CallId, ConversationId, EntryId, Salt};
pub use jiff::Timestamp;
pub use message::{Form, Message, Native, NativeItem, Role};
pub use scope::Scope;
pub use text::{Raw, SharedText, Span, Text};
pub use tree::{EntryGap, EntryGaps, StandIn, StandInResults, Tree, UnreadResult};
