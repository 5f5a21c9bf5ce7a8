//! Line coverage per crate, computed from the executed lines.
//!
//! It needs `cargo-llvm-cov` and LLVM tools that match the compiler: the rustup component `llvm-tools`, or a distribution's LLVM of
//! the same major version, named by `LLVM_COV` and `LLVM_PROFDATA`.

use std::{collections::BTreeMap, fs, process::Command};

use anyhow::{Result, bail, ensure};

use crate::run::{cargo, run};

/// The required coverage of each part of the source, in percent of its lines: every crate, and the sanitizer separately. The latest
/// figures are in docs/testing.md; a floor may only be raised.
const FLOORS: &[(&str, f64)] = &[
    ("crates/view/src/repair/", 100.0),
    ("crates/rejoin/src/compat/sequence.rs", 100.0),
    ("crates/record/src/", 85.0),
    ("crates/view/src/", 85.0),
    ("crates/checkers/src/", 85.0),
    ("crates/formats/src/", 85.0),
    ("crates/store/src/", 85.0),
    ("crates/engine/src/", 85.0),
    ("crates/rejoin/src/", 85.0),
    // Code for terminals and signals is tested in processes that are killed, which write no counts.
    ("crates/cli/src/", 75.0),
];

/// The floor for all crates together.
const OVERALL: f64 = 80.0;

pub fn coverage() -> Result<()> {
    if !Command::new("cargo").args(["llvm-cov", "--version"]).output()?.status.success() {
        bail!("cargo-llvm-cov is not installed\nhint: cargo install cargo-llvm-cov --version 0.9.1 --locked");
    }
    let report = "target/coverage.lcov";
    let mut tests = cargo(&["llvm-cov", "--workspace", "--no-report"]);
    // A killed process leaves unreadable counts; there are thousands of others.
    let mut lines =
        cargo(&["llvm-cov", "report", "--failure-mode", "all", "--lcov", "--output-path", report]);
    for (variable, tool) in [("LLVM_COV", "llvm-cov-22"), ("LLVM_PROFDATA", "llvm-profdata-22")] {
        if std::env::var_os(variable).is_none() && Command::new(tool).arg("--version").output().is_ok() {
            tests.env(variable, tool);
            lines.env(variable, tool);
        }
    }
    run(&mut tests)?;
    run(&mut lines)?;
    let lines = executed(&fs::read_to_string(report)?);
    for entry in fs::read_dir("crates")? {
        let room = format!("crates/{}/src/", entry?.file_name().to_string_lossy());
        ensure!(FLOORS.iter().any(|(part, _)| *part == room), "{room} has no floor");
    }
    let mut short = Vec::new();
    for (part, floor) in FLOORS.iter().chain([&("crates/", OVERALL)]) {
        let (mut hit, mut all) = (0usize, 0usize);
        for (file, lines) in lines.iter().filter(|(file, _)| file.contains(part) && !is_of_tests(file)) {
            let missed: Vec<u32> =
                lines.iter().filter(|(_, hits)| **hits == 0).map(|(line, _)| *line).collect();
            hit += lines.len() - missed.len();
            all += lines.len();
            if *floor >= 100.0 && !missed.is_empty() {
                println!("  {file}: lines {missed:?} are never executed");
            }
        }
        let percent = 100.0 * hit as f64 / all.max(1) as f64;
        println!("{part:<30} {percent:6.2} % of {all} lines (floor {floor} %)");
        if percent < *floor {
            short.push(*part);
        }
    }
    ensure!(short.is_empty(), "below the floor: {short:?}");
    Ok(())
}

/// Whether a file holds tests or their helpers.
fn is_of_tests(file: &str) -> bool {
    file.contains("/tests/") || file.contains("/benches/") || file.ends_with("tests.rs")
}

/// The line where the test module of a file begins. Single items for tests may be anywhere.
fn tests_begin(source: &str) -> Option<usize> {
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    let begins =
        |two: &[&str]| two[0] == "#[cfg(test)]" && two[1].starts_with("mod ") && two[1].ends_with('{');
    lines.windows(2).position(begins)
}

/// For each file, how often each line was executed: the union over all test binaries. Lines of test modules do not count.
fn executed(report: &str) -> BTreeMap<String, BTreeMap<u32, u64>> {
    let mut files: BTreeMap<String, BTreeMap<u32, u64>> = BTreeMap::new();
    let mut current = String::new();
    let mut tests_from = u32::MAX;
    for line in report.lines() {
        if let Some(path) = line.strip_prefix("SF:") {
            current = path.to_owned();
            let source = fs::read_to_string(path).unwrap_or_default();
            tests_from = tests_begin(&source).map_or(u32::MAX, |line| line as u32 + 1);
        } else if let Some(row) = line.strip_prefix("DA:") {
            let mut numbers = row.split(',').filter_map(|number| number.parse::<u64>().ok());
            if let (Some(line), Some(hits)) = (numbers.next(), numbers.next())
                && (line as u32) < tests_from
            {
                *files.entry(current.clone()).or_default().entry(line as u32).or_default() += hits;
            }
        }
    }
    files
}
