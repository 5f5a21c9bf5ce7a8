//! Entries that a server could not take, in files of this machine, until the server can be reached again.
//!
//! One file for each conversation: a line that says after which entry they come, then the entries, as lines. A process locks the files
//! that it writes. If a file is not locked, its process has ended, and the next process delivers the entries.

use std::{
    fs::File,
    io::{self, BufReader, Seek as _, Write as _},
    path::PathBuf,
};

use rejoin_record::{
    ConversationId, Entry, EntryId, Tail,
    json::{Doc, Object},
    lines::Lines,
};

use crate::{
    error::{StoreError, StoreResult},
    files::{self, PrivateFolder},
    location::Location,
    scoped::{Allowed, Allows},
};

/// The name of the folder, beside the other things that a server does not keep.
pub(crate) const FOLDER: &str = "unsaved";

/// How the names of the files end.
const ENDING: &str = ".unsaved";

/// How the names end of files whose conversation is not there any more.
const SET_ASIDE: &str = ".deleted";

/// The folder with the entries that a store could not take.
#[derive(Debug, Clone)]
pub struct Spool {
    folder: PrivateFolder,
    allows: Allowed,
}

/// Whether entries wait on this machine for the server at a location.
pub fn has_unsaved(location: &Location) -> bool {
    let Location::Postgres(address) = location else { return false };
    address.beside().is_some_and(|folder| !Spool::new(folder.join(FOLDER)).conversations().is_empty())
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
    lines: Lines<BufReader<File>>,
    has_ended: bool,
    /// The file. It is removed when the entries are stored.
    pub file: Spooled,
}

impl LeftUnsaved {
    /// Returns the next entries, about `bytes` in all, or none at the end. A torn line at the end was never acknowledged.
    pub fn next_entries(&mut self, bytes: usize) -> StoreResult<Vec<Entry>> {
        let (mut entries, mut taken) = (Vec::new(), 0);
        while taken < bytes && !self.has_ended {
            match self.next_line()?.and_then(|line| Some((Entry::from_line(&line).ok()?, line.len()))) {
                Some((entry, length)) => {
                    entries.push(entry);
                    taken += length;
                }
                None => self.has_ended = true,
            }
        }
        Ok(entries)
    }

    /// Keeps the file under another name, under which it is not delivered. Returns its path.
    ///
    /// # Errors
    /// If it cannot be renamed.
    pub fn set_aside(self) -> StoreResult<PathBuf> {
        let Spooled { folder, name, .. } = self.file;
        let failed = || StoreError::io(format!("renaming {}", folder.path_of(&name).display()));
        let mut aside = format!("{}{SET_ASIDE}", name.trim_end_matches(ENDING));
        // It may have happened before.
        for number in 2.. {
            match folder.rename_new(&name, &aside) {
                Err(why) if why.kind() == io::ErrorKind::AlreadyExists => {
                    aside = format!("{}.{number}{SET_ASIDE}", name.trim_end_matches(ENDING));
                }
                renamed => {
                    renamed.map_err(failed())?;
                    break;
                }
            }
        }
        folder.sync().map_err(failed())?;
        Ok(folder.path_of(&aside))
    }

    fn next_line(&mut self) -> StoreResult<Option<String>> {
        let mut line = Vec::new();
        let read = self.lines.next(&mut line);
        let read = read.map_err(StoreError::io(format!("reading {}", self.file.path().display())))?;
        Ok(read.filter(|line| line.ended && !line.too_long).and_then(|_| String::from_utf8(line).ok()))
    }
}

impl Spool {
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
        let name = name(conversation);
        let failed = || StoreError::io(format!("making {}", self.folder.path_of(&name).display()));
        self.folder.make().map_err(failed())?;
        let file = self.folder.make_new(&name).map_err(failed())?;
        files::lock(&file).map_err(failed())?;
        let mut spooled = Spooled { folder: self.folder.clone(), name, file };
        spooled.write(&first_line(after))?;
        self.folder.sync().map_err(StoreError::io("syncing the folder of unsaved entries"))?;
        Ok(spooled)
    }

    /// The conversations of which there are files.
    pub fn conversations(&self) -> Vec<ConversationId> {
        let names = self.folder.names().unwrap_or_default();
        let all = names.iter().filter_map(|name| name.to_str()?.strip_suffix(ENDING)?.parse().ok());
        all.filter(|id| self.allows.check(*id).is_ok()).collect()
    }

    /// What is left of a conversation; none if there is no file, or if the process that writes it is alive.
    pub fn left(&self, conversation: ConversationId) -> StoreResult<Option<LeftUnsaved>> {
        if self.allows.check(conversation).is_err() {
            return Ok(None);
        }
        let name = name(conversation);
        let path = self.folder.path_of(&name);
        let failed = || StoreError::io(format!("reading {}", path.display()));
        let Ok(mut file) = self.folder.open_to_append(&name, false) else { return Ok(None) };
        if file.try_lock().is_err() || !self.folder.is_named(&file, &name) {
            return Ok(None);
        }
        file.rewind().map_err(failed())?;
        // Both handles share the lock.
        let lines = Lines::new(BufReader::new(file.try_clone().map_err(failed())?));
        let file = Spooled { folder: self.folder.clone(), name, file };
        let mut left = LeftUnsaved { after: None, lines, has_ended: false, file };
        left.after = left.next_line()?.as_deref().and_then(tail_in);
        Ok(Some(left))
    }

    /// The file of a conversation, if there is one.
    #[cfg_attr(not(feature = "postgres"), allow(dead_code, reason = "only servers need it"))]
    pub(crate) fn file_of(&self, conversation: ConversationId) -> Option<PathBuf> {
        let name = name(conversation);
        self.folder.has(&name).unwrap_or(false).then(|| self.folder.path_of(&name))
    }

    /// Removes the file of a conversation, if there is one.
    #[cfg_attr(not(feature = "postgres"), allow(dead_code, reason = "only servers need it"))]
    pub(crate) fn remove(&self, conversation: ConversationId) -> StoreResult<()> {
        remove(&self.folder, &name(conversation))
    }

    /// Removes the content of entries from the file of a conversation.
    ///
    /// # Errors
    /// If the process that writes the file is alive.
    #[cfg_attr(not(feature = "postgres"), allow(dead_code, reason = "only servers need it"))]
    pub(crate) fn erase(&self, conversation: ConversationId, erased: &[EntryId]) -> StoreResult<()> {
        let Some(path) = self.file_of(conversation) else { return Ok(()) };
        let what = format!("erasing entries in {}", path.display());
        let Some(mut left) = self.left(conversation)? else {
            return Err(StoreError::io(what)(io::Error::other("another process is writing it")));
        };
        let mut text = first_line(left.after);
        let mut has_changed = false;
        loop {
            let entries = left.next_entries(usize::MAX)?;
            if entries.is_empty() {
                break;
            }
            for entry in entries {
                let goes = erased.contains(&entry.id()) && entry.content().is_some();
                has_changed |= goes;
                add_line(&mut text, &if goes { entry.erased() } else { entry });
            }
        }
        if !has_changed {
            return Ok(());
        }
        self.folder.replace(&name(conversation), text.as_bytes()).map_err(StoreError::io(what))
    }
}

fn name(conversation: ConversationId) -> String {
    format!("{conversation}{ENDING}")
}

fn remove(folder: &PrivateFolder, name: &str) -> StoreResult<()> {
    let removed = folder.remove(name).map(drop);
    removed.map_err(StoreError::io(format!("removing {}", folder.path_of(name).display())))
}

/// The line that says after which entry the others come.
fn first_line(after: Option<Tail>) -> String {
    let line = match after {
        None => Object::new(),
        Some(tail) => Object::new().number("seq", tail.seq).text("id", tail.id).text("hash", tail.hash),
    };
    format!("{}\n", line.finish())
}

fn add_line(text: &mut String, entry: &Entry) {
    text.push_str(&entry.to_line());
    text.push('\n');
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
            add_line(&mut text, entry);
        }
        self.write(&text)
    }

    fn write(&mut self, text: &str) -> StoreResult<()> {
        let written = self.file.write_all(text.as_bytes()).and_then(|()| self.file.sync_data());
        written.map_err(StoreError::io(format!("writing {}", self.path().display())))
    }

    /// Removes the file: the store has what it holds.
    pub fn remove(self) -> StoreResult<()> {
        remove(&self.folder, &self.name)
    }
}
