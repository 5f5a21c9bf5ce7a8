//! Reading Gemini's contents: request bodies, bare lists, and the checkpoints of a command-line agent.
//!
//! The API accepts every field name in two spellings, `functionCall` and `function_call`, which `fields.rs` unifies. Calls and
//! results need no ids; `call_ids.rs` assigns them. `parts.rs` and `content.rs` read one content, `list.rs` finds the contents,
//! `schema.rs` translates the schemas of tools.

mod call_ids;
mod content;
pub mod fields;
pub mod list;
mod parts;
mod schema;

use crate::accounting::Known;

pub use content::{ContentReader, more_fields, unknown_fields};
pub use list::{Contents, is_content, sniff};
pub use schema::json_schema;

/// Whether the provider signed a part of a message other than reasoning.
pub fn is_signed(message: &rejoin_record::Message) -> bool {
    let own = message.native.as_ref().is_some_and(|native| &*native.format == FORMAT);
    let parts = message.blocks.iter().filter_map(|block| message.native_block(block));
    own && parts.into_iter().any(|part| fields::Signature::in_part(part) == fields::Signature::Bound)
}

/// CamelFields of a content that hold no text of the conversation.
pub(crate) const KNOWN: &[Known] = &[
    // A signature that cannot be read is reported as such.
    Known::fields("parts.thoughtSignature parts.thought_signature parts.partMetadata parts.part_metadata"),
];

/// The name of the format and of the dialect.
pub const FORMAT: &str = "gemini";
