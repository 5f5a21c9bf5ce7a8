//! Computes what a model sees of a conversation: pure passes over the record.
//!
//! [`path`] turns entries into a [`History`]; [`repair`](repair()) turns any history into a [`SoundView`] and typed [`Finding`]s.
//! This crate never writes a record, fails, panics, does I/O or knows a dialect; codecs are in `rejoin-formats`.
//!
//! For the whole workspace, only `pairing.rs` decides which result answers which call; `repair/emit.rs` decides what a broken state
//! becomes.

pub mod excerpt;
pub mod finding;
pub mod history;
pub mod layers;
pub mod list;
pub mod pairing;
pub mod path;
pub mod path_state;
pub mod repair;
pub mod rules;
pub mod sound;
pub mod tokens;
pub mod window;

pub use finding::{Action, Finding, Position, Severity};
pub use history::{Fate, History, KnownCall};
pub use layers::Layers;
pub use list::List;
pub use pairing::{BlockAt, MatchKind, PairedResult, Pairing};
pub use path_state::{LastWord, PathState, PendingCall};
pub use repair::{
    OnBroken, Repaired, Repairer, UnsoundHistory, recovery_lines, removals, repair, repair_or_refuse,
};
pub use rules::Rule;
pub use sound::{ArgumentsUse, Chunk, ExchangeRef, ItemRef, PartRef, ResultRef, SoundRole, SoundView};
pub use tokens::{Correction, TokenCounter, TokenLedger};
