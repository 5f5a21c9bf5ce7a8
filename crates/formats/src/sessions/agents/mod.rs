//! Session files of other coding agents. Each module reads the files of one of them as that agent would resume them.
//!
//! In some formats, later lines decide which earlier lines count; `entries.rs` first collects all lines of such a file.
//! `parts.rs` has the code that several readers share, and `writing.rs` the code that writers share.

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
