//! Codex: rollouts, one JSON object a line. Each line has a time, a type and a payload; what the model saw are the payloads
//! of `response_item` lines, which are Responses items. `read.rs` reads them, `write.rs` makes a rollout that
//! `codex resume` takes.

mod read;
mod resend;
mod write;

pub use read::{read, read_stream, sniff};
pub use resend::resend;
pub use write::write;

/// The format's name.
pub const FORMAT: &str = "codex";
