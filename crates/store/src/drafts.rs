//! Drafts of answers: the part of an answer that was already shown, kept in a file until the answer is recorded.
//!
//! A draft is written while a model answers, and removed once its message is durable. It is never synced: it must survive a killed
//! process, not a power cut. The store keeps its bytes and does not look into them.

use std::{
    fs::{File, TryLockError},
    io::{self, Read as _, Write as _},
    path::PathBuf,
};

use rejoin_record::{ConversationId, limits};

use crate::{
    error::{StoreError, StoreResult},
    files::{self, PrivateFolder},
    scoped::{Allowed, AllowsConversation},
};

/// The folder that holds the drafts of a store, one file per conversation.
#[derive(Debug, Clone)]
pub struct Drafts {
    folder: PrivateFolder,
    allows: Allowed,
}

impl Drafts {
    pub(crate) fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: PrivateFolder::inside(folder), allows: Allowed::default() }
    }

    /// The same folder, limited to the conversations that `allows` accepts.
    pub(crate) fn limited(self, allows: AllowsConversation) -> Self {
        Self { allows: self.allows.and(allows), ..self }
    }

    /// Begins the draft of a conversation. Only the holder of the conversation's lock may do this.
    ///
    /// # Errors
    /// If the file cannot be created, or the conversation already has a draft.
    pub fn begin(&self, conversation: ConversationId) -> StoreResult<DraftFile> {
        self.allows.check(conversation)?;
        let name = name(conversation);
        let failed = || StoreError::io(format!("making {}", self.folder.path_of(&name).display()));
        self.folder.make_beside_store()?;
        let file = self.folder.make_new(&name).map_err(failed())?;
        // The lock shows readers that the answer is still being written.
        files::lock(&file).map_err(failed())?;
        Ok(DraftFile { folder: self.folder.clone(), name, file, unwritten: Vec::new() })
    }

    /// The bytes of a draft whose writer is gone; `None` if there is no draft, or if its writer still runs.
    pub fn left_behind(&self, conversation: ConversationId) -> Option<Vec<u8>> {
        self.allows.check(conversation).ok()?;
        let file = self.folder.open(name(conversation)).ok()?;
        if matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)) {
            return None;
        }
        let mut bytes = Vec::new();
        file.take(limits::BODY_BYTES as u64).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    }

    /// The conversations that have a draft, whether its writer still runs or not.
    pub fn conversations(&self) -> Vec<ConversationId> {
        let names = self.folder.names().unwrap_or_default();
        let all = names.iter().filter_map(|name| name.to_str()?.strip_suffix(ENDING)?.parse().ok());
        all.filter(|id| self.allows.check(*id).is_ok()).collect()
    }

    /// The file of a conversation's draft, if there is one.
    pub(crate) fn file_of(&self, conversation: ConversationId) -> Option<PathBuf> {
        let name = name(conversation);
        self.folder.has(&name).unwrap_or(false).then(|| self.folder.path_of(&name))
    }

    /// Removes the draft of a conversation, if there is one.
    pub fn remove(&self, conversation: ConversationId) -> StoreResult<()> {
        self.allows.check(conversation)?;
        remove(&self.folder, &name(conversation))
    }
}

/// How the names of drafts end.
const ENDING: &str = ".draft";

fn name(conversation: ConversationId) -> String {
    format!("{conversation}{ENDING}")
}

fn remove(folder: &PrivateFolder, name: &str) -> StoreResult<()> {
    let removed = folder.remove(name).map(drop);
    removed.map_err(StoreError::io(format!("removing {}", folder.path_of(name).display())))
}

/// A draft that is being written. Dropping it keeps the file.
#[derive(Debug)]
pub struct DraftFile {
    folder: PrivateFolder,
    name: String,
    file: File,
    /// Bytes that could not be written yet. They are written before newer ones, so the file never has a hole.
    unwritten: Vec<u8>,
}

impl DraftFile {
    /// Appends bytes without syncing. Bytes that cannot be written are kept, and tried again with the next ones.
    pub fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.unwritten.extend_from_slice(bytes);
        let mut written = 0;
        let done = loop {
            if written == self.unwritten.len() {
                break Ok(());
            }
            match self.file.write(&self.unwritten[written..]) {
                Ok(0) => break Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => written += count,
                Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
                Err(why) => break Err(why),
            }
        };
        self.unwritten.drain(..written);
        done
    }

    /// Removes the draft, because its answer is recorded.
    pub fn remove(self) -> StoreResult<()> {
        let Self { folder, name, file, .. } = self;
        drop(file);
        remove(&folder, &name)
    }
}
