//! Codex: rollouts, one JSON object a line. Each line has a time, a type and a payload; what the model saw are the payloads
//! of `response_item` lines, which are Responses items. `read.rs` reads them, `write.rs` makes a rollout that
//! `codex resume` takes, and `origins.rs` tells it which message each line comes from.

mod origins;
mod read;
mod write;

pub use read::{read, read_stream, sniff};
pub use write::write;

/// The format's name.
pub const FORMAT: &str = "codex";
