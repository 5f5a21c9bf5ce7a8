//! What is going on, on stderr: as `RUST_LOG` says, warnings otherwise.

use std::sync::Arc;

use tracing_subscriber::{
    filter::{LevelFilter, Targets},
    layer::SubscriberExt as _,
    util::SubscriberInitExt as _,
};

use crate::output;

pub fn start() {
    let given = std::env::var("RUST_LOG").ok().filter(|given| !given.is_empty());
    let wanted = given.as_deref().map(str::parse::<Targets>);
    let targets = match wanted {
        Some(Ok(targets)) => targets,
        Some(Err(error)) => {
            output::talk(&format!("RUST_LOG is not valid ({error}); warnings are shown"));
            warnings()
        }
        None => warnings(),
    };
    // Some commands read settings and keys several times; a person need not be told as often. With RUST_LOG everything is
    // shown.
    let shown = given.is_none().then(Arc::default);
    let writer = move || output::LogLines { shown: shown.clone() };
    let lines = tracing_subscriber::fmt::layer().with_writer(writer).with_ansi(false).without_time();
    // One that is set up already stays.
    let _ = tracing_subscriber::registry().with(lines).with(targets).try_init();
}

fn warnings() -> Targets {
    // Trouble with saving, and with MCP servers, is told by the commands themselves, in plain words and once.
    let told = ["rejoin_engine::conversation", "rejoin_engine::draft", "rmcp"]
        .map(|target| (target, LevelFilter::OFF));
    Targets::new().with_default(LevelFilter::WARN).with_targets(told)
}
