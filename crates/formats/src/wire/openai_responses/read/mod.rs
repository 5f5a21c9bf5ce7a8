//! Reading lists of Responses items, which occur in request bodies, Codex rollouts and files of turns.
//!
//! One answer of a model is several items: reasoning, text, each call. They become one message, so that parallel calls stay one
//! batch; each item keeps its own bytes. `items.rs` reads an item, `hosted.rs` lists items without a counterpart, `assemble.rs`
//! builds messages and a session, `list.rs` finds the items in a request body.

mod assemble;
mod hosted;
mod items;
pub mod list;

use crate::accounting::Known;

/// Fields of an item that hold no text of the conversation.
pub(crate) const KNOWN: &[Known] = &[
    // What a text refers to; the text itself is read.
    Known::fields("content.annotations content.logprobs"),
    // What a person had to confirm before a computer was used.
    Known::fields("pending_safety_checks acknowledged_safety_checks"),
    // A result's text, which its parts hold as well.
    Known::beside("content_items", "output.content"),
];

pub use assemble::{Assembler, Source, is_put_there, is_said_by_a_person};
pub use hosted::{Hosted, Side};
pub use items::{Call, FORMAT};
