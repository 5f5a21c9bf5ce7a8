//! Session files of other coding agents. Each module reads the files of one of them as that agent would resume them.
//!
//! Files of lines whose later lines decide which earlier ones count are collected by `entries.rs` first. `parts.rs` has what
//! several of the readers share, and `writing.rs` what the writers do.

pub(super) mod antigravity;
pub(super) mod cline;
pub(super) mod codex_exec;
pub(super) mod copilot_cli;
pub(super) mod cursor;
mod displayed;
pub(super) mod droid;
mod entries;
pub(super) mod gemini_cli;
pub(super) mod iflow;
pub(super) mod kiro;
mod parts;
pub(super) mod pi;
pub(super) mod qwen_code;
pub(super) mod writing;

pub(super) use parts::document_of;
