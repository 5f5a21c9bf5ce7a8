//! The library for the browser and for other hosts of WebAssembly.

use std::process::Command;

use anyhow::Result;

use crate::run::{cargo, run};

const TARGET: &str = "wasm32-unknown-unknown";

pub fn wasm() -> Result<()> {
    let sysroot = Command::new("rustc").args(["--print", "sysroot"]).output()?;
    let sysroot = String::from_utf8_lossy(&sysroot.stdout).trim().to_owned();
    if !std::path::Path::new(&sysroot).join("lib/rustlib").join(TARGET).is_dir() {
        println!("skipped: the target {TARGET} is not installed");
        return Ok(());
    }
    run(&mut cargo(&["build", "--package", "rejoin", "--no-default-features", "--target", TARGET]))
}
