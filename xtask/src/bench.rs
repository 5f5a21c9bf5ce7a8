//! Benchmarks. They print times; what counts are the ratios within one run.

use anyhow::Result;

use crate::run::{cargo, run};

pub fn bench(filter: Option<&str>) -> Result<()> {
    let mut command = cargo(&["bench", "--package", "rejoin-formats", "--bench", "conversation", "--"]);
    command.args(filter);
    run(&mut command)?;
    if filter.is_none_or(|filter| "rollout".contains(filter)) {
        run(&mut cargo(&["bench", "--package", "rejoin-cli", "--bench", "rollout"]))?;
    }
    Ok(())
}
