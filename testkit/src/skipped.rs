//! Counts the tests that cannot run on this machine.
//!
//! A test that prints a line and passes looks like one that ran. So a skipped test leaves a line in the file that
//! `REJOIN_SKIPPED` names; `cargo xtask ci` sets it and prints the count at its end.

use std::{fs::OpenOptions, io::Write as _};

/// Names the file that gets a line for each skipped test.
pub const SKIPPED: &str = "REJOIN_SKIPPED";

/// Says that a test, or a part of one, is not run here, and counts it.
#[allow(clippy::print_stdout, reason = "a test prints for the person who runs it")]
pub fn skip(why: &str) {
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    println!("skipped: {test}: {why}");
    let Some(file) = std::env::var_os(SKIPPED) else { return };
    let line = format!("{test}: {}\n", why.lines().next().unwrap_or_default());
    let _ = OpenOptions::new()
        .create(true)
        .append(true)
        .open(file)
        .and_then(|mut file| file.write_all(line.as_bytes()));
}
