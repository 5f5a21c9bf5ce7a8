//! Logs to stderr, at the levels in `RUST_LOG`. Without it nothing is logged, except that warnings which no command prints itself
//! are printed like those of a command.

use std::{fmt, sync::Arc};

use tracing::{Event, Subscriber, field::Field};
use tracing_subscriber::{
    Layer as _,
    filter::{LevelFilter, Targets},
    fmt::{FmtContext, FormatEvent, FormatFields, format::Writer},
    layer::SubscriberExt as _,
    registry::LookupSpan,
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
    // Some commands read settings and keys several times, but a person needs each warning only once. With RUST_LOG, everything is
    // shown.
    let shown = given.is_none().then(Arc::default);
    let writer = move || output::LogLines { shown: shown.clone() };
    let lines = tracing_subscriber::fmt::layer().with_writer(writer).with_ansi(false);
    let lines = match given {
        Some(_) => lines.without_time().boxed(),
        None => lines.event_format(Plain).boxed(),
    };
    // A subscriber that is already installed stays.
    let _ = tracing_subscriber::registry().with(lines).with(targets).try_init();
}

/// Formats an event like a command's warning: without level, target and fields.
struct Plain;

impl<S, N> FormatEvent<S, N> for Plain
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut out: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut message = String::new();
        event.record(&mut |field: &Field, value: &dyn fmt::Debug| {
            if field.name() == "message" {
                message = format!("{value:?}");
            }
        });
        writeln!(out, "warning: {message}")
    }
}

fn warnings() -> Targets {
    // The commands themselves report problems with saving, providers and MCP servers, once.
    let told =
        ["rejoin_engine::conversation", "rejoin_engine::draft", "rejoin_engine::provider::http", "rmcp"]
            .map(|target| (target, LevelFilter::OFF));
    Targets::new().with_default(LevelFilter::WARN).with_targets(told)
}
