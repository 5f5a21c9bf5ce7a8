//! Removing a conversation: its file, its draft and what was set aside of it. The only place where one is removed.

use std::{fs, io};

use rejoin_record::ConversationId;

use super::{Jsonl, append, erase};
use crate::error::StoreError;
use crate::files;

/// Removes a conversation. Whoever waits to append to it finds that it is gone.
pub(super) fn delete(store: &Jsonl, conversation: ConversationId) -> Result<(), StoreError> {
    let path = store.path(conversation);
    let failed = || StoreError::io(format!("deleting {}", path.display()));
    let locked = append::lock(store, conversation, false)?.ok_or(StoreError::NotFound(conversation))?;
    fs::remove_file(&path).map_err(failed())?;
    store.forget(conversation);
    match fs::remove_file(erase::draft(store, conversation)) {
        Err(why) if why.kind() != io::ErrorKind::NotFound => return Err(failed()(why)),
        _ => {}
    }
    store.drafts.remove(conversation)?;
    store.forget_asides(conversation, None).map_err(failed())?;
    files::sync_folder(&store.folder).map_err(failed())?;
    drop(locked);
    Ok(())
}
