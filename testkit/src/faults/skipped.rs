//! Tests that cannot run on this machine fail, unless the caller asked to skip them; then they are counted.
//!
//! A test that prints a line and passes looks like one that ran. So a skipped test leaves a line in the file that
//! `REJOIN_SKIPPED` names; `cargo xtask ci` sets it and prints the count at its end.

use std::{fs::OpenOptions, io::Write as _, path::Path};

use super::shim::{NoShim, Shim};

/// Set to anything, it skips the tests that need the shim instead of failing them.
pub const SKIP_SHIM: &str = "REJOIN_SKIP_SHIM";

/// Names the file that gets a line for each skipped test.
pub const SKIPPED: &str = "REJOIN_SKIPPED";

/// The shim, or none where the test is skipped: on a system that has no such thing, or because [`SKIP_SHIM`] is set.
/// `folder` is `CARGO_TARGET_TMPDIR`.
///
/// # Panics
/// If there should be a shim and it cannot be built.
#[must_use]
pub fn shim(folder: &str) -> Option<Shim> {
    match Shim::build(Path::new(folder)) {
        Ok(shim) => Some(shim),
        Err(NoShim::NotHere) => {
            skip("the shim exists for Linux only");
            None
        }
        Err(NoShim::NotBuilt(why)) if std::env::var_os(SKIP_SHIM).is_some() => {
            skip(&why);
            None
        }
        Err(NoShim::NotBuilt(why)) => panic!(
            "the library that makes files fail cannot be built: {why}\n\
             hint: install a C compiler that answers to `cc`, or set {SKIP_SHIM}=1 to skip the tests that need it"
        ),
    }
}

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
