//! The loopback provider on its own. What it can do is said by the program itself: `testkit/src/bin/loopback.rs`.

use anyhow::Result;

use crate::run::{cargo, run};

pub fn loopback(arguments: &[String]) -> Result<()> {
    let mut command = cargo(&["run", "--quiet", "--package", "testkit", "--no-default-features"]);
    command.args(["--features", "loopback", "--bin", "loopback", "--"]).args(arguments);
    run(&mut command)
}
