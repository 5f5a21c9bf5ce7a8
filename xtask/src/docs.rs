//! The reference pages, written anew from the registries and the command line.

use anyhow::Result;

use crate::run::{cargo, run};

/// Writes docs/reference.
pub fn docs() -> Result<()> {
    run(cargo(&["test", "--quiet", "--package", "rejoin-cli", "--test", "reference"])
        .env("REJOIN_WRITE_DOCS", "1"))
}
