//! Names that programs know from earlier agents. They delegate to the rest of the engine.
//!
//! The library re-exports them as `rejoin::compat`. Nothing else depends on this folder, except that the manager can write its
//! turns to a [`RolloutRecorder`] and run a [`StateCommand`].

#[cfg(feature = "agent")]
mod agent;
mod bot;
#[cfg(feature = "agent")]
mod command;
#[cfg(feature = "agent")]
mod config;
mod rollout;
mod storage;

#[cfg(feature = "agent")]
pub use agent::FromNumbers;
pub use bot::{BotError, ChatThread, ConversationMessage, DatabaseService};
#[cfg(feature = "agent")]
pub use command::StateCommand;
#[cfg(feature = "agent")]
pub use config::Config;
pub use rollout::{
    CompactedTurn, ConversationMetadata, DamagedLine, RecoveredRollout, RolloutError, RolloutLine,
    RolloutRecorder, RolloutTurn, TurnMetadata,
};
pub use storage::{Listed, SqliteStorage};
