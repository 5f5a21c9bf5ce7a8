//! Requests of a running conversation: its own instructions and tools, reasoning that goes back to who issued it, cache marks,
//! and bodies that grow.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

mod growing;
mod marks;
mod own;
mod replay;
mod support;
