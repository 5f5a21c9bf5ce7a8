//! Fuzzing, in release mode. What it can do is said by the program itself: `testkit/src/bin/fuzz.rs`.

use anyhow::Result;

use crate::run::{cargo, run};

pub fn fuzz(arguments: &[String]) -> Result<()> {
    let mut command = cargo(&["run", "--release", "--quiet", "--package", "testkit", "--bin", "fuzz", "--"]);
    command.args(arguments);
    run(&mut command)
}
