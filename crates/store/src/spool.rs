//! Entries that a server could not accept, in files on this machine until the server can be reached again.
//!
//! A process writes one file for each conversation: a line that names the entry after which they come, then the entries, one per line.
//! It locks the files that it writes. If a file is not locked, its process has ended, and the next process delivers the entries. A
//! process that cannot save either begins a file with the next number, so a conversation may have several.

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
    scoped::{Allowed, AllowsConversation},
};

/// The name of the folder, next to the other data that a server does not keep.
pub(crate) const FOLDER: &str = "unsaved";

/// The ending of the files' names.
const ENDING: &str = ".unsaved";

/// The ending of the names of files whose conversation no longer exists.
const SET_ASIDE: &str = ".deleted";

/// The folder with the entries that a server could not accept.
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

/// The entries that an ended process left in a file.
#[derive(Debug)]
pub struct UnsavedEntries {
    /// The entry after which they come; `None` if the conversation is new.
    pub after: Option<Tail>,
    lines: Lines<BufReader<File>>,
    has_ended: bool,
    /// The file. The caller removes it once the entries are stored.
    pub file: Spooled,
}

impl UnsavedEntries {
    /// Returns the next entries, about `bytes` in total; empty at the end. A torn last line was never acknowledged and is skipped.
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

    /// Renames the file, so that it is no longer delivered. Returns its new path.
    ///
    /// # Errors
    /// If it cannot be renamed.
    pub fn set_aside(self) -> StoreResult<PathBuf> {
        let Spooled { folder, name, .. } = self.file;
        let failed = || StoreError::io(format!("renaming {}", folder.path_of(&name).display()));
        let mut aside = format!("{}{SET_ASIDE}", name.trim_end_matches(ENDING));
        // A file may have been set aside under that name before, so try numbers.
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

    /// The same folder, limited to the conversations that `allows` accepts.
    pub(crate) fn limited(self, allows: AllowsConversation) -> Self {
        Self { allows: self.allows.and(allows), ..self }
    }

    /// Begins the file of a conversation.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn begin(&self, conversation: ConversationId, after: Option<Tail>) -> StoreResult<Spooled> {
        self.allows.check(conversation)?;
        self.folder.make().map_err(StoreError::io("making the folder of unsaved entries"))?;
        let (name, file) = self.make_next(conversation)?;
        let failed = || StoreError::io(format!("making {}", self.folder.path_of(&name).display()));
        files::lock(&file).map_err(failed())?;
        let mut spooled = Spooled { folder: self.folder.clone(), name, file };
        spooled.write(&first_line(after))?;
        self.folder.sync().map_err(StoreError::io("syncing the folder of unsaved entries"))?;
        Ok(spooled)
    }

    /// Makes a file under the first name that no other process has used.
    fn make_next(&self, conversation: ConversationId) -> StoreResult<(String, File)> {
        for number in 1..=MOST_FILES {
            let name = name(conversation, number);
            match self.folder.make_new(&name) {
                Err(why) if why.kind() == io::ErrorKind::AlreadyExists => {}
                made => {
                    let path = self.folder.path_of(&name);
                    return Ok((name, made.map_err(StoreError::io(format!("making {}", path.display())))?));
                }
            }
        }
        let what = format!("making {}", self.folder.path_of(name(conversation, MOST_FILES)).display());
        Err(StoreError::io(what)(io::ErrorKind::AlreadyExists.into()))
    }

    /// The conversations that have a file.
    pub fn conversations(&self) -> Vec<ConversationId> {
        let mut all: Vec<ConversationId> = self.files().into_iter().map(|(id, ..)| id).collect();
        all.dedup();
        all
    }

    /// The files of all conversations that this handle may see: the conversation, the number and the name of each, in this order.
    fn files(&self) -> Vec<(ConversationId, u32, String)> {
        let names = self.folder.names().unwrap_or_default();
        let mut files: Vec<_> = names
            .iter()
            .filter_map(|name| {
                let name = name.to_str()?;
                let stem = name.strip_suffix(ENDING)?;
                let (id, number) =
                    stem.split_once('.').map_or((stem, Some(1)), |(id, number)| (id, number.parse().ok()));
                Some((id.parse().ok()?, number?, name.to_owned()))
            })
            .filter(|(id, ..)| self.allows.check(*id).is_ok())
            .collect();
        files.sort();
        files
    }

    /// The names of a conversation's files, the first file first.
    fn names(&self, conversation: ConversationId) -> impl Iterator<Item = String> {
        self.files().into_iter().filter(move |(id, ..)| *id == conversation).map(|(.., name)| name)
    }

    /// The waiting entries of a conversation in the first file whose process has ended; `None` if there is none. The caller removes
    /// the file or sets it aside before it asks for the next one.
    pub fn left(&self, conversation: ConversationId) -> StoreResult<Option<UnsavedEntries>> {
        for name in self.names(conversation) {
            if let Some(left) = self.left_in(name)? {
                return Ok(Some(left));
            }
        }
        Ok(None)
    }

    /// The entries in a file; `None` if it is gone, or if the process that writes it still runs.
    fn left_in(&self, name: String) -> StoreResult<Option<UnsavedEntries>> {
        let path = self.folder.path_of(&name);
        let failed = || StoreError::io(format!("reading {}", path.display()));
        let Ok(mut file) = self.folder.open_to_append(&name, false) else { return Ok(None) };
        if file.try_lock().is_err() || !self.folder.is_named(&file, &name) {
            return Ok(None);
        }
        file.rewind().map_err(failed())?;
        // The cloned handle shares the lock.
        let lines = Lines::new(BufReader::new(file.try_clone().map_err(failed())?));
        let file = Spooled { folder: self.folder.clone(), name, file };
        let mut left = UnsavedEntries { after: None, lines, has_ended: false, file };
        left.after = left.next_line()?.as_deref().and_then(tail_in);
        Ok(Some(left))
    }

    /// The files of a conversation.
    #[cfg_attr(not(feature = "postgres"), allow(dead_code, reason = "only servers need it"))]
    pub(crate) fn files_of(&self, conversation: ConversationId) -> impl Iterator<Item = PathBuf> {
        self.names(conversation).map(|name| self.folder.path_of(&name))
    }

    /// Removes the files of a conversation.
    #[cfg_attr(not(feature = "postgres"), allow(dead_code, reason = "only servers need it"))]
    pub(crate) fn remove(&self, conversation: ConversationId) -> StoreResult<()> {
        self.names(conversation).try_for_each(|name| remove(&self.folder, &name))
    }

    /// Removes the content of entries from the files of a conversation.
    ///
    /// # Errors
    /// If a process that writes one of them still runs.
    #[cfg_attr(not(feature = "postgres"), allow(dead_code, reason = "only servers need it"))]
    pub(crate) fn erase(&self, conversation: ConversationId, erased: &[EntryId]) -> StoreResult<()> {
        self.names(conversation).try_for_each(|name| self.erase_in(name, erased))
    }

    fn erase_in(&self, name: String, erased: &[EntryId]) -> StoreResult<()> {
        let what = format!("erasing entries in {}", self.folder.path_of(&name).display());
        let Some(mut left) = self.left_in(name.clone())? else {
            return match self.folder.has(&name).unwrap_or(true) {
                true => Err(StoreError::io(what)(io::Error::other("another process is writing it"))),
                false => Ok(()),
            };
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
        self.folder.replace(&name, text.as_bytes()).map_err(StoreError::io(what))
    }
}

/// The most files of one conversation: as many processes ended without saving it.
const MOST_FILES: u32 = 10_000;

fn name(conversation: ConversationId, number: u32) -> String {
    match number {
        1 => format!("{conversation}{ENDING}"),
        number => format!("{conversation}.{number}{ENDING}"),
    }
}

fn remove(folder: &PrivateFolder, name: &str) -> StoreResult<()> {
    let removed = folder.remove(name).map(drop);
    removed.map_err(StoreError::io(format!("removing {}", folder.path_of(name).display())))
}

/// The line that names the entry after which the others come.
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

    /// Removes the file, because the store has its entries now.
    pub fn remove(self) -> StoreResult<()> {
        remove(&self.folder, &self.name)
    }
}
