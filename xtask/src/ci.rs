//! Everything that must pass before anything lands.

use anyhow::Result;

use crate::{
    rows, run,
    run::{cargo, run},
    tidy,
};

pub fn ci() -> Result<()> {
    run(&mut cargo(&["fmt", "--all", "--check"]))?;
    run(&mut cargo(&["clippy", "--locked", "--workspace", "--all-targets", "--", "-D", "warnings"]))?;
    tidy::tidy()?;
    run(&mut cargo(&["test", "--locked", "--workspace"]))?;
    run(cargo(&["doc", "--locked", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings"))?;
    rows::rows(rows::Listing::Count)?;
    println!("{}: everything passed", run::root().display());
    Ok(())
}
