//! Claude Code transcripts, case by case: small ones that show one thing each. The laws are in `claude_code.rs`.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

mod compaction;
mod reading;
mod transcript;
mod tree;
mod writing;
