//! Provider dialects: one folder each, listed in `registry.rs`.
//!
//! A folder holds `encode.rs` (a sound view into a request body), `decode.rs` (a whole response into a message),
//! `checker.rs` (what the provider would refuse, over raw JSON, sharing nothing with the other two) and `answers.rs`
//! (the provider's own words for each rule).

pub mod anthropic;
pub(crate) mod body;
pub mod encoded;
pub mod gemini;
pub(crate) mod names;
pub mod openai_chat;
pub mod registry;
pub(crate) mod render;
pub(crate) mod violation;

pub use encoded::{DecodeError, Decoded, Encoded, TooLarge};
pub use violation::Violation;
