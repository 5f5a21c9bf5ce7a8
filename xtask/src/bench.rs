//! Benchmarks. They print times; what counts are the ratios within one run.

use anyhow::Result;

use crate::run::{cargo, run};

/// Runs all of them, or those that are named. What the store does has parts: `append`, `import`, `repeated`, `load`, `list`,
/// `search`.
pub fn bench(filter: Option<&str>, part: Option<&str>) -> Result<()> {
    if filter != Some("store") {
        let mut command = cargo(&["bench", "--package", "rejoin-formats", "--bench", "conversation", "--"]);
        command.args(filter);
        run(&mut command)?;
    }
    if filter.is_none_or(|filter| "rollout".contains(filter)) {
        run(&mut cargo(&["bench", "--package", "rejoin-cli", "--bench", "rollout"]))?;
    }
    if filter.is_none_or(|filter| filter == "store") {
        let mut command = cargo(&["bench", "--package", "rejoin-store", "--bench", "store", "--"]);
        command.args(part);
        run(&mut command)?;
    }
    Ok(())
}
