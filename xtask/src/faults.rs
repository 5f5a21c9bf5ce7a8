//! The fault suites, with as many kills and cases as an ordinary test run has no time for.

use anyhow::{Result, ensure};

use crate::run::{cargo, run};

/// What `cargo xtask faults` promises.
const KILLS: u32 = 500;

pub fn faults(kills: Option<&str>) -> Result<()> {
    let kills: u32 = kills.map_or(Ok(KILLS), str::parse)?;
    ensure!(kills > 0, "no kills, no proof");
    println!("{kills} kills for each store, every failure at every call, eight writers for half a minute");
    for package in ["rejoin-store", "rejoin-engine"] {
        run(cargo(&["test", "--package", package, "--test", "faults", "--", "--nocapture"])
            .env("REJOIN_FAULTS", kills.to_string()))?;
    }
    Ok(())
}
