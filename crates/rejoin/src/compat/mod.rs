//! Names that people know from earlier agents. They delegate to the rest of the library; new code does not need them.
//!
//! | here | in new code |
//! |---|---|
//! | [`validate_message_sequence`], [`sanitize_recovered_messages`] and the others of [`sequence`] | [`repair`](crate::repair()), [`mend`](crate::mend()) |
//! | `Agent::new_from_shared_provider`, `Agent::with_history` (`FromNumbers`) | `Agent::builder` |
//! | `Conversation::new` from three numbers ([`Conversation`]) | `rejoin::Conversation` |
//! | `RolloutRecorder`, `SqliteStorage` | `open_store` and `rejoin::Conversation` |
//! | `DatabaseService`: `save_messages`, `get_conversation_history`, `get_chat_thread`, … | `open_store`, `Store::scoped` |
//! | `StateCommand` | `Conversation::add_tool_message` |
//! | `CompactConfig`, `needs_compaction`, `run_compact_task` | `WindowSettings`, `Agent::compact` |
//! | `OllamaConfig`, [`convert_messages`] | `engine::provider`, [`convert`](crate::convert()) |

#[cfg(feature = "agent")]
mod compaction;
#[cfg(feature = "store")]
mod conversation;
mod messages;
#[cfg(feature = "agent")]
mod ollama;
pub mod sequence;

#[cfg(feature = "agent")]
pub use compaction::{CompactConfig, needs_compaction, run_compact_task};
#[cfg(feature = "store")]
pub use conversation::WindowedConversation as Conversation;
pub use messages::convert_messages;
#[cfg(feature = "agent")]
pub use ollama::OllamaConfig;
#[cfg(feature = "testing")]
pub use rejoin_engine::provider::scripted::MockProvider;
#[cfg(feature = "agent")]
pub use rejoin_engine::{
    Agent, Agent as AgentExecutor, ConversationManager, ConversationManager as SessionManager,
    compat::{Config, FromNumbers, StateCommand},
    turn::{COMPACT_THRESHOLD, COMPACT_USER_MESSAGE_MAX_TOKENS},
};
#[cfg(feature = "store")]
pub use rejoin_engine::{
    SessionState,
    compat::{
        BotError, ChatThread, CompactedTurn, ConversationMessage, ConversationMetadata, DamagedLine,
        DatabaseService, Listed, RecoveredRollout, RolloutError, RolloutLine, RolloutRecorder, RolloutTurn,
        SqliteStorage, TurnMetadata,
    },
};
pub use sequence::{
    Sanitized, SequenceError, Validation, find_incomplete_tool_calls, recover_session,
    remove_incomplete_tool_calls, remove_orphaned_tool_results, sanitize_recovered_messages,
    sanitize_recovered_messages_with, validate_message_sequence, validate_message_structure,
};
