//! What can go wrong in a store.

use std::{io, path::PathBuf};

use rejoin_record::{ConversationId, EntryId, Tail};

use crate::{lock::Holder, store::Place};

/// Why a store did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// There is no such conversation.
    #[error("Conversation not found: id={0}")]
    NotFound(ConversationId),
    /// There is no such entry.
    #[error("there is no entry {0} in the conversation")]
    NoSuchEntry(EntryId),
    /// There is no store at that place yet.
    #[error("there is no store at {0}")]
    Missing(PathBuf),
    /// Somebody appended since the caller last looked.
    #[error("the conversation went on elsewhere: {}", moved(.found.as_ref()))]
    TailMoved {
        /// The tail that the caller knew.
        expected: Option<Tail>,
        /// The tail that is there.
        found: Option<Tail>,
    },
    /// Another process writes to the conversation.
    #[error("another process is writing to the conversation: {0}")]
    Locked(Holder),
    /// The store can be read only.
    #[error("the store can only be read: {0}")]
    ReadOnly(String),
    /// A newer version wrote it.
    #[error("the store was written by a newer version (its schema is {found}, this version knows {known})")]
    TooNew {
        /// Its schema.
        found: i64,
        /// The newest that is known here.
        known: i64,
    },
    /// It holds something that no store of ours holds, and that would act when it is read or written.
    #[error("the store is refused: {0}")]
    Refused(String),
    /// Something in it cannot be read.
    #[error("{place} is damaged: {why}")]
    Damaged {
        /// Where.
        place: Place,
        /// What is wrong.
        why: String,
    },
    /// Entries were handed in that do not follow each other. A bug of the caller.
    #[error("the entries do not follow each other: {0}")]
    BrokenBatch(&'static str),
    /// The system refused.
    #[error("{what}: {why}")]
    Io {
        /// What was tried.
        what: String,
        /// The refusal.
        why: io::Error,
    },
    /// The database refused.
    #[error("{what}: {why}")]
    Database {
        /// What was tried.
        what: &'static str,
        /// The refusal, in its own words.
        why: String,
        /// Whether it could not be written: no room, no right, no answer of the disk.
        unwritable: bool,
    },
}

fn moved(found: Option<&Tail>) -> String {
    found.map_or_else(
        || String::from("it is not there any more"),
        |tail| format!("its newest entry is {} (number {})", tail.id, tail.seq),
    )
}

impl StoreError {
    /// A refusal of the system, with what was tried.
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |why| Self::Io { what, why }
    }

    /// Whether what is stored is at fault, not the disk or the caller: then what can still be read is worth saving.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        matches!(self, Self::Damaged { .. })
    }

    /// A name for programs.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotFound(_) => "CONVERSATION_NOT_FOUND",
            Self::NoSuchEntry(_) => "ENTRY_NOT_FOUND",
            Self::Missing(_) => "NO_STORE",
            Self::TailMoved { .. } => "TAIL_MOVED",
            Self::Locked(_) => "LOCKED",
            Self::ReadOnly(_) => "READ_ONLY",
            Self::TooNew { .. } => "STORE_TOO_NEW",
            Self::Refused(_) => "STORE_REFUSED",
            Self::Damaged { .. } => "CORRUPTED_ROLLOUT",
            Self::BrokenBatch(_) => "BROKEN_BATCH",
            Self::Io { .. } | Self::Database { .. } => "STORE_FAILED",
        }
    }

    /// Whether the conversation can go on in memory and be saved later: the store could not be written, and nothing is
    /// wrong with what was to be written.
    #[must_use]
    pub fn is_unwritable(&self) -> bool {
        match self {
            Self::ReadOnly(_) | Self::Io { .. } | Self::Missing(_) => true,
            Self::Database { unwritable, .. } => *unwritable,
            _ => false,
        }
    }
}
