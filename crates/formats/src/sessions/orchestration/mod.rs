//! `agent-orchestration`: the events of a session of agent-orchestration-system, `.agent-sessions/<id>/events.jsonl`.
//!
//! All agents of a session write into one file, and not in the order in which things happened. Each delegated run is a separate
//! conversation: `event.rs` reads a line, `runs.rs` tells which run it belongs to, `read.rs` makes conversations of them.

mod event;
mod read;
mod runs;

pub(super) use read::read_stream;
use rejoin_record::json::{Value, ValueKind};

use super::sample::{Claim, Sample};
use crate::accounting::Known;

/// The name of the format.
pub(super) const FORMAT: &str = "agent-orchestration";

/// What a line says of the model and its settings.
pub(super) const KNOWN: &[Known] = &[Known::fields("metadata")];

/// The number of lines that are examined to detect the format.
const LOOK_AT: usize = 20;

/// Whether a text looks like the events of a session.
pub(super) fn sniff(sample: &Sample<'_>) -> Option<Claim> {
    let is_event = |root: Value<'_>| {
        let kind = root.word("type");
        let told = event::SAID.split(' ').chain(event::NOTED.split(' ')).any(|known| known == kind);
        told && root.holds("timestamp", ValueKind::Number) && root.holds("data", ValueKind::Object)
    };
    Claim::sure(
        sample.any_line(LOOK_AT, is_event),
        "lines with a `type`, a `timestamp` in numbers and `data`",
    )
}
