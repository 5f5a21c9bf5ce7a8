//! Attempts to escape from the sandbox, and work that must be possible inside it.
//!
//! This test has its own `main`, because `sandbox::init` must come first; it takes a filter and `--list` as other tests do. Every
//! attack runs with each set of barriers, and first without a sandbox, where it must succeed: an attack that never works proves
//! nothing.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("test result: ok. 0 passed; 0 failed; skipped: the sandbox is for Linux");
}

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    linux::main()
}

#[cfg(target_os = "linux")]
#[path = "sandbox/mod.rs"]
mod linux;
