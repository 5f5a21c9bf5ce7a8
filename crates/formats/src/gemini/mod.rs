//! Reading Gemini's contents: whole request bodies, bare lists, and the checkpoints that a command-line agent makes of them.
//!
//! The API takes every field name in two spellings, `functionCall` and `function_call`; `fields.rs` makes them one. Calls
//! and results need no ids there: `pairing.rs` finds out who answers whom. `parts.rs` and `content.rs` read one content,
//! `list.rs` says where contents stand, `schema.rs` translates the schemas of tools.

mod content;
pub mod fields;
pub mod list;
mod pairing;
mod parts;
mod schema;

pub use content::{ContentReader, more_fields, unknown_fields};
pub use list::{Contents, is_content, sniff};
pub use schema::json_schema;

/// The name of the format and of the dialect.
pub const FORMAT: &str = "gemini";
