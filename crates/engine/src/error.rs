//! What can go wrong with conversations.

use rejoin_record::ConversationId;
use rejoin_store::{Place, StoreError};

use crate::resolve::NamedConversation;

/// Why something was not done.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The store did not do it.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// It is there, and the store cannot read it.
    #[error("Failed to load conversation: {0}")]
    Load(#[source] StoreError),
    /// Nothing goes by that name.
    #[error("Conversation not found: id={0}")]
    Unknown(String),
    /// Several conversations have an id that begins like that, or such a title.
    #[error("`{given}` could mean several conversations")]
    Ambiguous {
        /// The text that was given.
        given: String,
        /// Conversations that it fits, the first ten at most.
        found: Vec<NamedConversation>,
    },
    /// There is no active conversation here.
    #[error("there is no active conversation here")]
    NoActive,
    /// Strictly read, something in it is damaged.
    #[error("Conversation {id} is damaged at {place}: {why}")]
    Corrupted {
        /// The conversation.
        id: ConversationId,
        /// Where.
        place: Place,
        /// What is wrong.
        why: String,
    },
    /// Strictly read, it is empty.
    #[error("Conversation {0} has no turns")]
    Empty(ConversationId),
    /// There is no such message in it.
    #[error("there is no message {0} in the conversation")]
    NoSuchMessage(String),
    /// It is in the other store already, and went on differently there.
    #[error("Conversation {0} is in the other store and went on differently there")]
    Diverged(ConversationId),
    /// A file of rejoin's own entries is no session of another tool: its entries are taken in as they are.
    #[error(
        "Conversation {0} is rejoin's own record: its entries are taken in as they are, so that hashes stay"
    )]
    OwnRecord(ConversationId),
    /// A file that should hold entries does not.
    #[error("line {line} is no entry of a conversation: {why}")]
    NoRecord {
        /// The line, from 1.
        line: u64,
        /// What is wrong with it.
        why: String,
    },
}

impl EngineError {
    /// A name for programs.
    #[must_use]
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
