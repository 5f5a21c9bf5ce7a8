//! `cargo xtask kill`: turns on every provider, killed at random moments and resumed.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Result;

use crate::run::{cargo, run};

/// How many runs prove something.
const RUNS: &str = "500";

/// Runs the kill test at length, with other moments each time.
pub fn kill(runs: Option<&str>) -> Result<()> {
    let seed = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_secs());
    println!("seed {seed}");
    let mut command = cargo(&["test", "--locked", "-p", "rejoin-cli", "--test", "kill", "--", "--nocapture"]);
    command.env("REJOIN_KILLS", runs.unwrap_or(RUNS)).env("REJOIN_KILL_SEED", seed.to_string());
    run(&mut command)
}
