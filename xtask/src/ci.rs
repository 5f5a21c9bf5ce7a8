//! Everything that must pass before a change lands.

use std::{os::unix::fs::MetadataExt as _, process::Command};

use anyhow::{Result, ensure};

use crate::{
    rows, run,
    run::{cargo, run},
    tidy,
};

pub fn ci() -> Result<()> {
    run(&mut cargo(&["fmt", "--all", "--check"]))?;
    run(&mut cargo(&["clippy", "--locked", "--workspace", "--all-targets", "--", "-D", "warnings"]))?;
    // Optional features must also build.
    for features in [
        &["--no-default-features"][..],
        &["--no-default-features", "--features", "store"],
        &["--no-default-features", "--features", "files"],
        &["--no-default-features", "--features", "agent"],
    ] {
        run(cargo(&["check", "--locked", "-p", "rejoin"]).args(features))?;
    }
    run(&mut cargo(&["check", "--locked", "-p", "rejoin-cli", "--features", "keyring"]))?;
    run(&mut cargo(&["check", "--locked", "-p", "rejoin-cli", "--no-default-features"]))?;
    tidy::tidy()?;
    install_postgres()?;
    say_about_the_corpus();
    let skipped = run::root().join("target/skipped-tests.txt");
    let _ = std::fs::remove_file(&skipped);
    run(cargo(&["test", "--locked", "--workspace"]).env("REJOIN_SKIPPED", &skipped))?;
    run(cargo(&["doc", "--locked", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings"))?;
    rows::rows(rows::Listing::Count)?;
    say_what_was_skipped(&skipped);
    println!("{}: everything passed", run::root().display());
    Ok(())
}

/// The tests of stores start their own server, and skip those parts if there is none. Here nothing may be skipped.
fn install_postgres() -> Result<()> {
    let is_there = || testkit::postgres::programs().is_some();
    if !is_there() && std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0) {
        let apt = || {
            let mut apt = Command::new("apt-get");
            apt.env("DEBIAN_FRONTEND", "noninteractive");
            apt
        };
        run(apt().args(["update", "--quiet"]))?;
        run(apt().args(["install", "--yes", "--quiet", "--no-install-recommends", "postgresql"]))?;
    }
    ensure!(is_there(), "PostgreSQL is not installed: run `sudo {}`", testkit::postgres::INSTALL);
    Ok(())
}

/// The corpus test uses real sessions next to the project, and passes silently if there are none.
fn say_about_the_corpus() {
    let given = std::env::var_os("REJOIN_CORPUS").map(std::path::PathBuf::from);
    let folder = given.unwrap_or_else(|| run::root().join("../shared/corpus"));
    if folder.is_dir() {
        println!("corpus: the corpus test runs over {}", folder.display());
    } else {
        println!("corpus: there is none, so the corpus test is skipped (REJOIN_CORPUS names another place)");
    }
}

/// Tests that this machine cannot run leave one line each (`testkit::skipped::skip`); the end of a run counts them.
fn say_what_was_skipped(lines: &std::path::Path) {
    let lines = std::fs::read_to_string(lines).unwrap_or_default();
    println!("skipped: {}", lines.lines().count());
    for line in lines.lines() {
        println!("  {line}");
    }
}
