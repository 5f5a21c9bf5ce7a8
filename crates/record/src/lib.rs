//! The record of a conversation: what is written once and never changed.
//!
//! Here live the entry and block types, ids, the on-disk encoding, the hash chain, the tree of entries with its
//! head, `verify`, the limits, and the scanner of lines. Nothing here opens a file, asks for the time, draws random numbers
//! or knows a provider by name: clock, randomness and bytes are arguments.
//!
//! Start at [`Message`] for what people and models said, at [`Entry`] for how it is kept, at [`Tree`] for how
//! entries hang together.

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
pub use text::{Raw, SharedText, Span, Text};
pub use tree::Tree;
