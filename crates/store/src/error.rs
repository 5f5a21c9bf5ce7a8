//! Errors of a store.

use std::{io, path::PathBuf};

use rejoin_record::{ConversationId, EntryId, Tail};

use crate::{lock::Holder, store::StoragePlace};

/// The result of an operation on a store.
pub type StoreResult<T> = Result<T, StoreError>;

/// Why a store refused or failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// There is no such conversation.
    #[error("Conversation not found: id={0}")]
    NotFound(ConversationId),
    /// There is no such entry.
    #[error("the conversation has no entry {0}")]
    NoSuchEntry(EntryId),
    /// There is no store at this path.
    #[error("there is no store at {0}")]
    Missing(PathBuf),
    /// Another writer appended since the caller last looked.
    #[error("another writer changed the conversation: {}", moved(.found.as_ref()))]
    TailMoved {
        /// The tail that the caller knew.
        expected: Option<Tail>,
        /// The tail that the conversation has now.
        found: Option<Tail>,
    },
    /// Another process holds the conversation's lock.
    #[error("another process is writing to the conversation: {0}")]
    Locked(Holder),
    /// The store cannot be written, for this reason.
    #[error("the store can only be read: {0}")]
    ReadOnly(String),
    /// A newer version wrote the store.
    #[error("a newer version wrote the store (schema {found}; this version knows {known})")]
    TooNew {
        /// The schema of the store.
        found: i64,
        /// The newest schema that this version knows.
        known: i64,
    },
    /// The database contains a trigger or a view, which could act when the store is read or written. rejoin's stores contain none.
    #[error("the store is refused: {0}")]
    Refused(String),
    /// A part of the store cannot be read.
    #[error("{place} is damaged: {why}")]
    Damaged {
        /// The place of the damage.
        place: StoragePlace,
        /// What is wrong.
        why: String,
    },
    /// A handle that is limited to a scope tried to write something that belongs to another scope, or to change the whole store.
    #[error(
        "what is to be written belongs to another scope than the one this handle is limited to, or to none"
    )]
    OutOfScope,
    /// The store has no option with this name.
    #[error("the store has no option `{0}`")]
    NoSuchOption(String),
    /// The caller passed entries that do not follow each other.
    #[error("the entries do not follow each other: {0}")]
    BrokenBatch(&'static str),
    /// The operating system refused.
    #[error("{what}: {why}")]
    Io {
        /// The operation that failed.
        what: String,
        /// The system's error.
        why: io::Error,
    },
    /// A database server refused, or cannot be reached.
    #[error("{what}: {why}")]
    Server {
        /// The operation that failed.
        what: &'static str,
        /// The server's own message, or that of the connection.
        why: String,
        /// What a person can do about it.
        hint: &'static str,
        /// Whether the cause is the server and not the entries, so that they can be saved later.
        unwritable: bool,
    },
    /// The database refused.
    #[error("{what}: {why}")]
    Database {
        /// The operation that failed.
        what: &'static str,
        /// SQLite's own message.
        why: String,
        /// Whether the file could not be written: disk full, no permission, disk failure, or locked for too long.
        unwritable: bool,
    },
}

fn moved(found: Option<&Tail>) -> String {
    found.map_or_else(
        || String::from("it was deleted"),
        |tail| format!("its newest entry is now {} (number {})", tail.id, tail.seq),
    )
}

impl StoreError {
    /// Makes an error of the system, with the operation that failed.
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |why| Self::Io { what, why }
    }

    /// Whether stored data is damaged, as opposed to a failing disk or a wrong call.
    pub fn is_damage(&self) -> bool {
        matches!(self, Self::Damaged { .. })
    }

    /// A stable name of the error, for programs.
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
            Self::OutOfScope => "OUT_OF_SCOPE",
            Self::NoSuchOption(_) => "NO_SUCH_OPTION",
            Self::BrokenBatch(_) => "BROKEN_BATCH",
            Self::Io { .. } | Self::Database { .. } | Self::Server { .. } => "STORE_FAILED",
        }
    }

    /// Whether the store could not be written although the entries are valid. The conversation can then continue in memory and be
    /// saved later.
    pub fn is_unwritable(&self) -> bool {
        match self {
            Self::ReadOnly(_) | Self::Io { .. } | Self::Missing(_) => true,
            Self::Database { unwritable, .. } | Self::Server { unwritable, .. } => *unwritable,
            _ => false,
        }
    }
}
