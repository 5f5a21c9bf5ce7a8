//! `opencode`: sessions of opencode, from its export, its folder of JSON files, its database and its trajectories.
//!
//! The first three hold the same things, so `sources.rs` and `database.rs` put each message into the form of the export,
//! `{"info":…,"parts":[…]}`, and `read.rs` reads that. `trajectory.rs` reads the fourth. `write.rs` writes the export, which `opencode import` takes.

#[cfg(feature = "sqlite")]
mod database;
mod read;
mod sources;
mod trajectory;
mod write;

use crate::accounting::Known;

#[cfg(feature = "sqlite")]
pub(crate) use database::DATABASE;
pub(crate) use sources::{STORAGE, read, sniff};
pub(crate) use write::write;

/// The name of the format.
pub const FORMAT: &str = "opencode";

/// Fields that hold no words of the conversation: what a tool shows to people, which file a text comes from, what changed on disk.
pub(crate) const KNOWN: &[Known] = &[
    Known::fields(
        "info.path info.summary info.error info.tools info.title parts.metadata parts.source parts.files parts.error \
     parts.snapshot parts.state.metadata parts.state.title parts.state.raw",
    ),
    // Of a trajectory: notes for the provider, and what a tool shows to people.
    Known::fields(
        "providerOptions content.providerOptions content.output.providerOptions content.providerMetadata",
    ),
    // Pieces of a text, which is read as a whole.
    Known::fields("events.data.text events.data.reasoning"),
    Known::fields("events.result.title events.result.metadata events.result.attachments"),
];
