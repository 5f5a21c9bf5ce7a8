//! The fault suites, with as many kills and cases as an ordinary test run has no time for.

use anyhow::{Result, bail, ensure};

use crate::run::{cargo, run};

/// What `cargo xtask faults` promises.
const KILLS: u32 = 500;

/// What `cargo xtask faults --long` promises, over both stores.
const LONG_KILLS: u32 = 10_000;

/// What `cargo xtask corrupt` promises.
const CORRUPTIONS: u32 = 5_000;

pub fn faults(arguments: &[String]) -> Result<()> {
    match arguments.first().map(String::as_str) {
        Some("--long") => long(count(arguments.get(1), LONG_KILLS)?),
        Some("--corrupt") => corrupt(&arguments[1..]),
        Some(option) if option.starts_with('-') => {
            bail!("no option `{option}`: there are --long and --corrupt")
        }
        _ => short(count(arguments.first(), KILLS)?),
    }
}

/// Damage of every kind to every file of a store.
pub fn corrupt(arguments: &[String]) -> Result<()> {
    let cases = count(arguments.first(), CORRUPTIONS)?;
    println!("{cases} corruptions");
    run(cargo(&["test", "--package", "rejoin-store", "--test", "faults", "corrupt::", "--", "--nocapture"])
        .env("REJOIN_CORRUPTIONS", cases.to_string()))
}

fn count(given: Option<&String>, otherwise: u32) -> Result<u32> {
    let count = given.map_or(Ok(otherwise), |given| given.parse())?;
    ensure!(count > 0, "no cases, no proof");
    Ok(count)
}

fn short(kills: u32) -> Result<()> {
    println!("{kills} kills for each store, every failure at every call, eight writers for half a minute");
    for package in ["rejoin-store", "rejoin-engine"] {
        run(cargo(&["test", "--package", package, "--test", "faults", "--", "--nocapture"])
            .env("REJOIN_FAULTS", kills.to_string()))?;
    }
    Ok(())
}

/// Kills in everything that a store is asked to do, half of them at a chosen call.
fn long(kills: u32) -> Result<()> {
    println!("{kills} kills over both stores, half of them at the n-th call that changes a file");
    run(cargo(&["test", "--package", "rejoin-engine", "--test", "faults", "kills::", "--", "--nocapture"])
        .env("REJOIN_LONG_KILLS", kills.to_string()))
}
