//! The laws, over many more histories than an ordinary test run has time for.

use anyhow::{Result, ensure};

use crate::run::{cargo, run};

/// What `cargo xtask laws` promises.
const CASES: u32 = 100_000;

pub fn laws(cases: Option<&str>) -> Result<()> {
    let cases: u32 = cases.map_or(Ok(CASES), str::parse)?;
    ensure!(cases > 0, "no cases, no proof");
    println!("{cases} cases for each law");
    run(cargo(&["test", "--release", "--package", "rejoin-formats", "--test", "laws"])
        .env("REJOIN_LAW_CASES", cases.to_string()))
}
