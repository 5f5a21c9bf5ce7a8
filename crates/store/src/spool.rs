//! Entries that a server could not take, in files of this machine, until the server can be reached again.
//!
//! One file for each conversation: a line that says after which entry they come, then the entries, as lines. A process locks the files
//! that it writes. If a file is not locked, its process has ended, and the next process delivers the entries.

use std::{
    fs::File,
    io::{Read as _, Seek as _, Write as _},
    path::PathBuf,
};

use rejoin_record::{
    ConversationId, Entry, Tail,
    json::{Doc, Object},
    limits,
};

use crate::{
    error::{StoreError, StoreResult},
    files::{self, PrivateFolder},
    scoped::{Allowed, Allows},
};

/// How the names of the files end.
const ENDING: &str = ".unsaved";

/// The folder with the entries that a store could not take.
#[derive(Debug, Clone)]
pub struct Spool {
    folder: PrivateFolder,
    allows: Allowed,
}

/// A file with entries of one conversation.
#[derive(Debug)]
pub struct Spooled {
    folder: PrivateFolder,
    name: String,
    file: File,
}

/// What a process that ended has left in a file.
#[derive(Debug)]
pub struct LeftUnsaved {
    /// The entry after which they come; none if the conversation is new.
    pub after: Option<Tail>,
    /// The entries.
    pub entries: Vec<Entry>,
    /// The file. It is removed when the entries are stored.
    pub file: Spooled,
}

impl Spool {
    #[cfg_attr(not(feature = "postgres"), allow(dead_code, reason = "only servers need it"))]
    pub(crate) fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: PrivateFolder::inside(folder), allows: Allowed::default() }
    }

    /// The same folder, limited to the conversations that a function allows.
    pub(crate) fn limited(self, allows: Allows) -> Self {
        Self { allows: self.allows.and(allows), ..self }
    }

    /// Begins the file of a conversation.
    ///
    /// # Errors
    /// If it cannot be created, or if another process has one for the same conversation.
    pub fn begin(&self, conversation: ConversationId, after: Option<Tail>) -> StoreResult<Spooled> {
        self.allows.check(conversation)?;
        let name = format!("{conversation}{ENDING}");
        let failed = || StoreError::io(format!("making {}", self.folder.path_of(&name).display()));
        self.folder.make().map_err(failed())?;
        let file = self.folder.make_new(&name).map_err(failed())?;
        files::lock(&file).map_err(failed())?;
        let mut spooled = Spooled { folder: self.folder.clone(), name, file };
        let first = match after {
            None => Object::new(),
            Some(tail) => Object::new().number("seq", tail.seq).text("id", tail.id).text("hash", tail.hash),
        };
        spooled.write(&format!("{}\n", first.finish()))?;
        self.folder.sync().map_err(StoreError::io("syncing the folder of unsaved entries"))?;
        Ok(spooled)
    }

    /// The conversations of which there are files.
    pub fn conversations(&self) -> Vec<ConversationId> {
        let names = self.folder.names().unwrap_or_default();
        let all = names.iter().filter_map(|name| name.to_str()?.strip_suffix(ENDING)?.parse().ok());
        all.filter(|id| self.allows.check(*id).is_ok()).collect()
    }

    /// What is left of a conversation; none if there is no file, or if the process that writes it is alive. A torn line at the end was
    /// never acknowledged.
    pub fn left(&self, conversation: ConversationId) -> StoreResult<Option<LeftUnsaved>> {
        if self.allows.check(conversation).is_err() {
            return Ok(None);
        }
        let name = format!("{conversation}{ENDING}");
        let path = self.folder.path_of(&name);
        let failed = || StoreError::io(format!("reading {}", path.display()));
        let Ok(mut file) = self.folder.open_to_append(&name, false) else { return Ok(None) };
        if file.try_lock().is_err() || !self.folder.is_named(&file, &name) {
            return Ok(None);
        }
        file.rewind().map_err(failed())?;
        let mut text = Vec::new();
        (&file).take(limits::BODY_BYTES as u64 * 4).read_to_end(&mut text).map_err(failed())?;
        let text = String::from_utf8_lossy(&text);
        let mut lines = text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
        let after = lines.next().and_then(tail_in);
        let entries = lines.map_while(|line| Entry::from_line(line).ok()).collect();
        Ok(Some(LeftUnsaved { after, entries, file: Spooled { folder: self.folder.clone(), name, file } }))
    }
}

fn tail_in(line: &str) -> Option<Tail> {
    let doc = Doc::parse(line).ok()?;
    let root = doc.root()?;
    let text = |name: &str| root.given(name).and_then(|value| value.as_str().map(|text| text.into_owned()));
    Some(Tail {
        seq: root.given("seq")?.as_u64()?,
        id: text("id")?.parse().ok()?,
        hash: text("hash")?.parse().ok()?,
    })
}

impl Spooled {
    /// The path of the file.
    pub fn path(&self) -> PathBuf {
        self.folder.path_of(&self.name)
    }

    /// Adds entries. When it returns, they are durable on this machine.
    pub fn add(&mut self, entries: &[Entry]) -> StoreResult<()> {
        let mut text = String::new();
        for entry in entries {
            text.push_str(&entry.to_line());
            text.push('\n');
        }
        self.write(&text)
    }

    fn write(&mut self, text: &str) -> StoreResult<()> {
        let written = self.file.write_all(text.as_bytes()).and_then(|()| self.file.sync_data());
        written.map_err(StoreError::io(format!("writing {}", self.path().display())))
    }

    /// Removes the file: the store has what it holds.
    pub fn remove(self) -> StoreResult<()> {
        let removed = self.folder.remove(&self.name).map(drop);
        removed.map_err(StoreError::io(format!("removing {}", self.path().display())))
    }
}
