//! Removes a conversation: its file, its draft, and copies of its damage. No other code removes one.

use rejoin_record::ConversationId;

use super::{Jsonl, append, erase, name, tail};
use crate::error::{StoreError, StoreResult};

/// Removes a conversation. A process that waits to append to it then finds that it is gone.
pub(super) fn delete(store: &Jsonl, conversation: ConversationId) -> StoreResult<()> {
    let failed = || store.failed("deleting", conversation);
    let locked = append::lock(store, conversation, false)?.ok_or(StoreError::NotFound(conversation))?;
    // Remove the file last: if the process is killed before that, the conversation can still be deleted.
    store.folder.remove(erase::draft(conversation)).map_err(failed())?;
    store.drafts.remove(conversation)?;
    store.asides.forget(&conversation.to_string(), |_| true).map_err(failed())?;
    append::sweep(store).map_err(failed())?;
    if store.index.exists(&store.no_files()) {
        // The file is locked, so reading it must not lock it again.
        let newest = tail::tail(&locked.0, true, &mut |_, _| {}).ok().flatten();
        let newest = newest.map_or(u64::MAX, |tail| tail.seq);
        if let Err(why) = store.no_files().let_go(conversation, newest) {
            tracing::debug!("the index does not follow: {why}");
        }
    }
    store.folder.remove(name(conversation)).map_err(failed())?;
    drop(store.take(conversation));
    store.folder.sync().map_err(failed())?;
    drop(locked);
    Ok(())
}
