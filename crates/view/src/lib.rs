//! What a model sees of a conversation: pure passes over the record.
//!
//! [`path`] reads entries into a [`History`]; [`repair`](repair()) turns any history into a [`SoundView`] and typed
//! [`Finding`]s. Nothing here writes a record, fails, panics, does I/O or knows a dialect; codecs live in
//! `rejoin-formats`.
//!
//! `pairing.rs` alone decides which result answers which call, for the whole workspace; `repair/emit.rs` decides what a
//! broken state becomes.

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
pub use repair::{OnBroken, Refused, Repaired, Repairer, recovery_lines, removals, repair, repair_or_refuse};
pub use rules::Rule;
pub use sound::{ArgumentsUse, Chunk, ExchangeRef, ItemRef, PartRef, ResultRef, SoundRole, SoundView};
pub use tokens::{Correction, TokenCounter, TokenLedger};
