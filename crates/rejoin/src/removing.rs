//! Deletes a conversation: from its store, and from everything else in rejoin's data folder that remembers it.
//!
//! Nothing here asks whether it is wanted: the caller does, because it cannot be undone.

use std::{io, path::Path};

use rejoin_engine::{self as engine, EngineError, Mode};
use rejoin_record::{ConversationId, Entry};
use rejoin_store::{Holder, Store};

use crate::{active, prompts};

/// Deletes a conversation under its lock, so that no other process writes to it meanwhile. A conversation that cannot be read is
/// deleted, too. The inner error is that of [`forget`]: the conversation is gone nevertheless.
///
/// # Errors
/// If another process holds the conversation, or the store cannot delete it.
pub fn delete(
    store: &dyn Store,
    id: ConversationId,
    holder: &Holder,
    data: &Path,
) -> Result<io::Result<()>, EngineError> {
    let lock = store.lock(id, holder).map_err(EngineError::Store)?;
    // Read it first: its entries say which texts of the prompt go, too.
    let entries = engine::read(store, id, Mode::Recover).map(|recorded| recorded.entries).unwrap_or_default();
    store.delete(id).map_err(EngineError::Store)?;
    let forgotten = forget(data, id, &entries);
    drop(lock);
    Ok(forgotten)
}

/// Removes what the data folder remembers of a deleted conversation: pointers to it, and its messages in the history of the prompt.
///
/// # Errors
/// If the history of the prompt cannot be changed.
pub fn forget(data: &Path, id: ConversationId, entries: &[Entry]) -> io::Result<()> {
    active::forget(data, id);
    prompts::forget(data, entries)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rejoin_engine::{Conversation, New};
    use rejoin_record::{Message, Timestamp};
    use rejoin_store::{Access, Location, ScopeFilter};

    use super::*;
    use crate::{active::Pointer, prompts::SentFile};

    #[test]
    fn a_deleted_conversation_leaves_no_trace() {
        let data = tempfile::tempdir().unwrap();
        let data = data.path();
        let store: Arc<dyn Store> = engine::open_store(&Location::Memory, Access::Write).unwrap().into();
        let mut conversation = Conversation::create(Arc::clone(&store), &New::default(), "test");
        conversation.say(Message::user("my secret"));
        let id = conversation.id();
        let pointer = Pointer::new(data, data, &Location::Memory, &ScopeFilter::OPEN);
        let sent = SentFile::of_folder(data, data);
        pointer.set(id).unwrap();
        for text in ["something else", "my secret"] {
            sent.add(text).unwrap();
        }
        let holder = Holder::this("test", Timestamp::UNIX_EPOCH);
        assert!(delete(&*store, id, &holder, data).is_err(), "it is still open");
        drop(conversation);
        delete(&*store, id, &holder, data).unwrap().unwrap();
        assert!(store.tail(id).unwrap().is_none());
        assert_eq!(pointer.get().unwrap(), None);
        assert_eq!(sent.read(), ["something else"]);
    }
}
