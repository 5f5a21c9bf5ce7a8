//! Provider dialects: one folder each, listed in `registry.rs`.
//!
//! A folder holds `write.rs` (a sound view becomes a request body), `stream.rs` (a response becomes a message), `answers.rs` (the
//! provider's own words for each rule), and `read/` for requests that are not lists of messages; those are read in `messages/`. What a provider refuses is judged in a room of its own, `crates/checkers`, which
//! shares nothing with the codecs.
//!
//! There is one decoder for responses that stream and for those that come as a whole: `stream.rs` puts the item together that
//! the provider would have given at once, and reads that. `arriving.rs` does what all of them need: it cuts bytes into events
//! (`sse.rs`, `documents.rs`) and says how a response ended; `gathered.rs` holds what comes in pieces, `usage.rs` counts tokens.
//!
//! What several codecs need stands beside the folders: `render.rs` (labels, findings), `fragments.rs` (texts and media, for
//! dialects that are written from scratch), `names.rs`, `calls.rs`, `tools.rs`, `base64.rs`; `scroll.rs` is the list of messages as it
//! grows, `body.rs` what stands around it, `outline.rs` all of that together. `pass.rs` is the walk over a view that all encoders
//! share.

pub mod anthropic;
pub(crate) mod arriving;
pub mod base64;
pub mod bedrock;
pub(crate) mod body;
pub(crate) mod calls;
pub(crate) mod documents;
pub mod encoded;
pub(crate) mod fragments;
pub(crate) mod gathered;
pub mod gemini;
pub mod mistral;
pub mod names;
pub mod ollama;
pub mod openai_chat;
pub mod openai_responses;
pub mod outline;
pub(crate) mod pass;
pub mod registry;
pub(crate) mod render;
pub(crate) mod scroll;
pub(crate) mod sse;
pub mod stream;
pub(crate) mod tools;
pub(crate) mod usage;

pub use encoded::{Encoded, TooLarge};
