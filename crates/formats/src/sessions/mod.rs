//! Session formats: other tools' files, read into conversations. The list is in `registry.rs`.

mod claude_code;
pub mod codex;
mod instructions;
pub mod jsonl;
mod lines;
pub mod markdown;
pub mod registry;
pub mod resend;
pub(crate) mod sample;
pub mod turns;
pub mod writing;

pub use registry::{FORMATS, Format, Reading, detect, named, read, write};
pub use resend::Resent;
pub use sample::Sample;
pub use writing::{Writing, Written};
