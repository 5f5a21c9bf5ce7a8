//! Writing to a store: begin a conversation, rename, fork, erase, import, copy.

use rejoin_formats::Session;
use rejoin_record::{ConversationId, EntryId};
use rejoin_store::Store;

use crate::{clock::Clock, error::EngineError};

/// What a new conversation begins with.
#[derive(Debug, Clone, Default)]
pub struct New {
    /// A title, if somebody gave one.
    pub title: Option<String>,
    /// The provider.
    pub provider: Option<String>,
    /// The model.
    pub model: Option<String>,
    /// The folder that it belongs to.
    pub directory: Option<String>,
}

/// What an import did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Imported {
    /// The conversation.
    pub id: ConversationId,
    /// Whether it was not there before.
    pub new: bool,
    /// How many entries were added.
    pub added: u64,
    /// How many messages it has.
    pub messages: u64,
}

/// What copying did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Copied {
    /// How many entries were added.
    pub added: u64,
    /// How many it has.
    pub total: u64,
}

/// Somebody who writes to a store.
pub struct Writer<'s> {
    /// The store.
    pub store: &'s dyn Store,
    /// Time and chance.
    pub clock: &'s dyn Clock,
    /// What is being done, for whoever waits for the lock.
    pub command: &'s str,
}

impl Writer<'_> {
    /// Begins a conversation.
    ///
    /// # Errors
    /// If the store cannot be written.
    pub fn create(&self, new: &New) -> Result<ConversationId, EngineError> {
        let _ = new;
        todo!()
    }

    /// Gives a conversation a title.
    ///
    /// # Errors
    /// If it is not there, or another process writes to it.
    pub fn rename(&self, id: ConversationId, title: &str) -> Result<(), EngineError> {
        let _ = (id, title);
        todo!()
    }

    /// Makes a conversation of its own out of what leads to a message (to the head, if none is named).
    ///
    /// # Errors
    /// If it is not there.
    pub fn fork(&self, id: ConversationId, at: Option<EntryId>) -> Result<ConversationId, EngineError> {
        let _ = (id, at);
        todo!()
    }

    /// Removes the content of entries for good; their hashes stay.
    ///
    /// # Errors
    /// If one of them is not there, or another process writes to the conversation.
    pub fn erase(
        &self,
        id: ConversationId,
        entries: &[EntryId],
        reason: Option<&str>,
    ) -> Result<(), EngineError> {
        let _ = (id, entries, reason);
        todo!()
    }

    /// Takes in another tool's session: what is not there yet.
    ///
    /// # Errors
    /// If the store cannot be written, or another process writes to the conversation.
    pub fn import(&self, session: &Session) -> Result<Imported, EngineError> {
        let _ = session;
        todo!()
    }

    /// Copies a conversation from another store, entry by entry, hashes included: what is not there yet.
    ///
    /// # Errors
    /// If it is not there, is damaged, or went on differently here.
    pub fn copy_from(&self, other: &dyn Store, id: ConversationId) -> Result<Copied, EngineError> {
        let _ = (other, id);
        todo!()
    }
}
