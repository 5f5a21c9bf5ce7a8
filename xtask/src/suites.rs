//! Commands that hand the work to cargo: longer runs of suites, and programs of the workspace that explain themselves.

use std::{
    path::Path,
    process::Command,
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::{Result, ensure};

use crate::run::{cargo, run};

/// What `cargo xtask laws` promises.
const LAW_CASES: u32 = 100_000;

/// What `cargo xtask kill` promises.
const KILLED_TURNS: &str = "500";

const WASM: &str = "wasm32-unknown-unknown";

/// The laws, over many more histories than an ordinary test run has time for.
pub fn laws(cases: Option<&str>) -> Result<()> {
    let cases: u32 = cases.map_or(Ok(LAW_CASES), str::parse)?;
    ensure!(cases > 0, "no cases, no proof");
    println!("{cases} cases for each law");
    run(cargo(&["test", "--release", "--package", "rejoin-formats", "--test", "laws"])
        .env("REJOIN_LAW_CASES", cases.to_string()))
}

/// Turns on every provider, killed at random moments, which differ each time, and resumed.
pub fn kill(turns: Option<&str>) -> Result<()> {
    let seed = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_secs());
    println!("seed {seed}");
    run(cargo(&["test", "--locked", "-p", "rejoin-cli", "--test", "kill", "--", "--nocapture"])
        .env("REJOIN_KILLS", turns.unwrap_or(KILLED_TURNS))
        .env("REJOIN_KILL_SEED", seed.to_string()))
}

/// Fuzzing, in release mode; the program explains its options.
pub fn fuzz(arguments: &[String]) -> Result<()> {
    run(cargo(&["run", "--release", "--quiet", "--package", "testkit", "--bin", "fuzz", "--"])
        .args(arguments))
}

/// The loopback provider on its own; the program explains its options.
pub fn loopback(arguments: &[String]) -> Result<()> {
    run(cargo(&["run", "--quiet", "--package", "testkit", "--no-default-features", "--features", "loopback"])
        .args(["--bin", "loopback", "--"])
        .args(arguments))
}

/// Writes the reference pages from the registries and the command line.
pub fn docs() -> Result<()> {
    run(cargo(&["test", "--quiet", "--package", "rejoin-cli", "--test", "reference"])
        .env("REJOIN_WRITE_DOCS", "1"))
}

/// Builds the library for the browser and other hosts of WebAssembly.
pub fn wasm() -> Result<()> {
    let sysroot = Command::new("rustc").args(["--print", "sysroot"]).output()?;
    let sysroot = String::from_utf8_lossy(&sysroot.stdout).trim().to_owned();
    if !Path::new(&sysroot).join("lib/rustlib").join(WASM).is_dir() {
        println!("skipped: the target {WASM} is not installed");
        return Ok(());
    }
    run(&mut cargo(&["build", "--package", "rejoin", "--no-default-features", "--target", WASM]))
}
