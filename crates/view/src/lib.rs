//! What a model sees of a conversation: pure passes over the record.
//!
//! [`path`] reads entries into a [`History`]; [`repair`](repair()) turns any history into a [`SoundView`] and typed
//! [`Finding`]s. Nothing here writes a record, fails, panics, does I/O or knows a dialect; codecs live in
//! `rejoin-formats`.
//!
//! What a broken state becomes is decided in `repair/emit.rs`; who answers whom in `repair/pairing.rs`.

pub mod finding;
pub mod history;
pub mod layers;
pub mod list;
pub mod path;
pub mod repair;
pub mod rules;
pub mod sound;

pub use finding::{Action, Finding, Position, Severity};
pub use history::{Fate, History, KnownCall};
pub use layers::Layers;
pub use list::List;
pub use repair::{OnBroken, Refused, Repaired, Repairer, repair, repair_or_refuse};
pub use rules::Rule;
pub use sound::{ArgumentsUse, Chunk, ExchangeRef, ItemRef, PartRef, ResultRef, SoundRole, SoundView};
