//! Reading lists of Responses items, as request bodies, Codex rollouts and files of turns have them.
//!
//! One answer of a model is several items there: reasoning, text, each call. They are put together into one message, so
//! that a batch of parallel calls is a batch here too; each item keeps its own bytes. `items.rs` reads an item, `hosted.rs`
//! knows those that have no counterpart, `assemble.rs` puts messages and a session together, `list.rs` finds the items in a request body.

mod assemble;
mod hosted;
mod items;
pub mod list;

use crate::accounting::Known;

/// Fields of an item that hold no words of the conversation.
pub(crate) const KNOWN: &[Known] = &[
    // What a text refers to; the text itself is read.
    Known::fields("content.annotations content.logprobs"),
    // What a person had to confirm before a computer was used.
    Known::fields("pending_safety_checks acknowledged_safety_checks"),
];

pub use assemble::{Assembler, Source, is_put_there, is_said_by_a_person};
pub use hosted::{Hosted, Side};
pub use items::{Call, FORMAT};
