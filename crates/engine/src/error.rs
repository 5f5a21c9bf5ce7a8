//! Errors of conversations.

use rejoin_record::ConversationId;
use rejoin_store::{StoragePlace, StoreError};

use crate::resolve::NamedConversation;

/// Why an operation on a conversation failed.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The store refused or failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The conversation exists, and the store cannot read it.
    #[error("Failed to load conversation: {0}")]
    Load(#[source] StoreError),
    /// No conversation has that name.
    #[error("Conversation not found: id={0}")]
    Unknown(String),
    /// The text matches the ids or titles of several conversations.
    #[error("`{given}` could mean several conversations")]
    Ambiguous {
        /// The text that was given.
        given: String,
        /// The conversations that it matches, at most ten.
        found: Vec<NamedConversation>,
    },
    /// There is no active conversation here.
    #[error("there is no active conversation here")]
    NoActive,
    /// In strict mode: a part of the conversation is damaged.
    #[error("Conversation {id} is damaged at {place}: {why}")]
    Corrupted {
        /// The conversation.
        id: ConversationId,
        /// The place of the damage.
        place: StoragePlace,
        /// What is wrong.
        why: String,
    },
    /// In strict mode: the conversation is empty.
    #[error("Conversation {0} has no turns")]
    Empty(ConversationId),
    /// The conversation has no such message.
    #[error("there is no message {0} in the conversation")]
    NoSuchMessage(String),
    /// Both stores have the conversation, with different entries after some point.
    #[error("Conversation {0} has diverged in the other store")]
    Diverged(ConversationId),
    /// A file of rejoin's own entries cannot be imported like a session of another agent: see
    /// [`Writer::import_record`](crate::Writer::import_record).
    #[error("Conversation {0} is rejoin's own record: import it as a record, so that its hashes stay")]
    OwnRecord(ConversationId),
    /// A line of a file of entries is not an entry.
    #[error("line {line} is not an entry of a conversation: {why}")]
    NoRecord {
        /// The line, from 1.
        line: u64,
        /// What is wrong with it.
        why: String,
    },
}

impl EngineError {
    /// The error's code, for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Store(error) | Self::Load(error) => error.code(),
            Self::Unknown(_) => "CONVERSATION_NOT_FOUND",
            Self::Ambiguous { .. } => "AMBIGUOUS_ID",
            Self::NoActive => "NO_ACTIVE_CONVERSATION",
            Self::Corrupted { .. } => "CORRUPTED_ROLLOUT",
            Self::Empty(_) => "EMPTY_ROLLOUT",
            Self::NoSuchMessage(_) => "NO_SUCH_MESSAGE",
            Self::Diverged(_) => "DIVERGED",
            Self::OwnRecord(_) => "OWN_RECORD",
            Self::NoRecord { .. } => "CORRUPTED_ROLLOUT",
        }
    }
}
