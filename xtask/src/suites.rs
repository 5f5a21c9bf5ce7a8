//! Commands that run cargo: longer runs of test suites, and programs of the workspace.

use std::{
    path::Path,
    process::Command,
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::{Context as _, Result, ensure};

use crate::run::{cargo, run};

/// Suites with more cases than an ordinary test run has time for: the command, its number of cases, the variable that sets that
/// number, and the tests.
const SUITES: &[(&str, u32, &str, &str)] = &[
    ("laws", 100_000, "REJOIN_LAW_CASES", "--release -p rejoin-formats --test laws"),
    ("faults", 500, "REJOIN_FAULTS", "-p rejoin-store -p rejoin-engine --test faults -- --nocapture"),
    ("faults --long", 10_000, "REJOIN_LONG_KILLS", "-p rejoin-engine --test faults kills:: -- --nocapture"),
    ("corrupt", 5_000, "REJOIN_CORRUPTIONS", "-p rejoin-store --test faults corrupt:: -- --nocapture"),
    (
        "servers",
        60,
        "REJOIN_KILL_SECONDS",
        "-p rejoin-store --test postgres nothing_is_lost_when_the_server_is_killed -- --nocapture",
    ),
    ("kill", 500, "REJOIN_KILLS", "--locked -p rejoin-cli --test kill -- --nocapture"),
];

const WASM: &str = "wasm32-unknown-unknown";

/// Runs a suite with its own number of cases, or with another one: `[OPTION] [CASES]`.
pub fn suite(command: &str, arguments: &[String]) -> Result<()> {
    let options = arguments.iter().take_while(|argument| argument.starts_with('-')).count();
    let (options, cases) = arguments.split_at(options);
    let name = [&[command.to_owned()], options].concat().join(" ");
    let suite = SUITES.iter().find(|(suite, ..)| *suite == name);
    let (_, promised, variable, tests) = suite.with_context(|| format!("no suite `{name}`"))?;
    let cases: u32 = cases.first().map_or(Ok(*promised), |cases| cases.parse())?;
    ensure!(cases > 0, "no cases, no proof");
    // Kills happen at different moments each time; the seed repeats them.
    let seed = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_secs());
    println!("{name}: {cases} cases, seed of kills {seed}");
    run(cargo(&["test"])
        .args(tests.split(' '))
        .env(variable, cases.to_string())
        .env("REJOIN_KILL_SEED", seed.to_string()))
}

/// Fuzzes in release mode. The program explains its options.
pub fn fuzz(arguments: &[String]) -> Result<()> {
    run(cargo(&["run", "--release", "--quiet", "--package", "testkit", "--bin", "fuzz", "--"])
        .args(arguments))
}

/// Runs the loopback provider alone. The program explains its options.
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
