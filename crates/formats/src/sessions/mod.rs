//! Session formats: the files in which tools store conversations. `registry.rs` lists them.

mod claude_code;
mod codex;
mod instructions;
pub mod jsonl;
mod lines;
mod markdown;
pub mod registry;
pub mod resend;
pub(crate) mod sample;
pub mod turns;
mod writing;

pub use registry::{FORMATS, Format, Reading, detect, detect_lines, named, read, write};
pub use resend::Resent;
pub use sample::Sample;
pub use writing::{Writing, Written};
