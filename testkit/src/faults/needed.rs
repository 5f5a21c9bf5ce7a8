//! Tests that need the shim fail if it cannot be built, unless the caller asked to skip them.

use std::path::Path;

use super::shim::{NoShim, Shim};
use crate::skipped::skip;

/// Set to anything, it skips the tests that need the shim instead of failing them.
pub const SKIP_SHIM: &str = "REJOIN_SKIP_SHIM";

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
