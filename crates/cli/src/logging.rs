//! What is going on, on stderr: as `RUST_LOG` says. Without it nothing is logged, but a warning that no command prints itself is printed
//! as a command would.

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
    // Some commands read settings and keys several times; a person need not be told as often. With RUST_LOG everything is
    // shown.
    let shown = given.is_none().then(Arc::default);
    let writer = move || output::LogLines { shown: shown.clone() };
    let lines = tracing_subscriber::fmt::layer().with_writer(writer).with_ansi(false);
    let lines = match given {
        Some(_) => lines.without_time().boxed(),
        None => lines.event_format(Plain).boxed(),
    };
    // One that is set up already stays.
    let _ = tracing_subscriber::registry().with(lines).with(targets).try_init();
}

/// Writes an event as commands print warnings: without its level, its place in the program, and its fields.
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
    // Trouble with saving, with providers and with MCP servers is told by the commands themselves, once.
    let told =
        ["rejoin_engine::conversation", "rejoin_engine::draft", "rejoin_engine::provider::http", "rmcp"]
            .map(|target| (target, LevelFilter::OFF));
    Targets::new().with_default(LevelFilter::WARN).with_targets(told)
}
