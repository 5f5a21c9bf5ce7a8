//! A folder with one append-only file of entries a conversation, readable with ordinary tools.
//!
//! `{id}.jsonl` holds one entry a line. A file is only ever appended to (`append.rs`); only `erase.rs` writes one anew and only
//! `delete.rs` removes one. Whatever became of a file, it is read (`read.rs`, `resolve.rs`): every entry that is
//! handed out was verified, and what is none is handed out as damage and set aside (`aside.rs`) before more is written.
//!
//! Lists and search come from an index beside the files (`../index/folder.rs`), which is never needed: without it everything is
//! read, and what was found out is kept in memory by the size and time of each file ([`Mark`]).

mod append;
mod aside;
mod delete;
mod erase;
mod known;
mod lines;
mod pieces;
mod read;
mod resolve;
mod tail;

use std::{
    collections::HashMap,
    fs::{self, File},
    io,
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{SystemTime, UNIX_EPOCH},
};

use jiff::Timestamp;
use rejoin_record::{ConversationId, Entry, EntryId, Tail};

use self::{append::End, read::Span};
#[cfg(feature = "sqlite")]
use crate::index::{Folder, lost};
use crate::{
    aside::Asides,
    digest::Digester,
    drafts::Drafts,
    error::StoreError,
    files::{self, PrivateFolder},
    location::Location,
    lock::{Holder, Lock, Locks},
    open::{Access, Options},
    scan,
    store::{Damage, Each, Hit, Item, Page, Place, Problem, Query, Search, Size, Store, Verified},
    summary::Summary,
};

/// How many conversations' ends and summaries are kept in memory.
const KEPT: usize = 10_000;

/// A store in a folder of files.
#[derive(Debug)]
pub struct Jsonl {
    folder: PrivateFolder,
    location: Location,
    access: Access,
    read_only: Option<String>,
    locks: Locks,
    asides: Asides,
    drafts: Drafts,
    digester: Digester,
    ends: Mutex<HashMap<ConversationId, End>>,
    summaries: Mutex<HashMap<ConversationId, (Mark, Summary)>>,
    #[cfg(feature = "sqlite")]
    index: Folder,
}

/// What tells whether a file changed since somebody looked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// How long it is.
    pub size: u64,
    /// When it was last written, if the system knows.
    pub modified: Option<SystemTime>,
    /// Which file it is: one that was written anew is another one.
    pub identity: u64,
}

impl Jsonl {
    /// Opens a folder, or makes it.
    ///
    /// # Errors
    /// [`StoreError::Missing`] if it is opened to be read and is not there; otherwise why it cannot be made.
    pub fn open(folder: &Path, options: Options) -> Result<Self, StoreError> {
        let mut read_only = None;
        match options.access {
            Access::Read if !files::is_there(folder)? => return Err(StoreError::Missing(folder.to_owned())),
            Access::Read => read_only = Some(String::from("it was opened to be read")),
            Access::Write => {
                files::make_folder(folder)?;
                if let Err(why) = try_writing(&PrivateFolder::new(folder)) {
                    read_only = Some(format!("{} cannot be written: {why}", folder.display()));
                }
            }
        }
        // A folder whose names can be read, but nothing behind them, would look empty.
        fs::read_dir(folder)
            .and_then(|_| fs::metadata(folder.join(".")))
            .map_err(StoreError::io(format!("opening {}", folder.display())))?;
        Ok(Self {
            folder: PrivateFolder::new(folder),
            location: Location::Jsonl(folder.to_owned()),
            access: options.access,
            read_only,
            locks: Locks::new(folder.join(".locks")),
            asides: Asides::new(folder.join("aside")),
            drafts: Drafts::new(folder.join("drafts")),
            digester: options.digester,
            ends: Mutex::default(),
            summaries: Mutex::default(),
            #[cfg(feature = "sqlite")]
            index: Folder::new(folder, options.digester),
        })
    }

    /// Every conversation, in the order of ids, with what tells whether it changed. Whoever keeps an index of the folder
    /// reads again what has another mark than when it was last read.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn marks(&self) -> Result<Vec<(ConversationId, Mark)>, StoreError> {
        let folder = self.folder.path();
        let failed = || StoreError::io(format!("reading {}", folder.display()));
        let mut marks = Vec::new();
        for file in fs::read_dir(&folder).map_err(failed())? {
            let file = file.map_err(failed())?;
            // Whatever else lies in the folder is not ours.
            let name = file.file_name();
            let id = name.to_str().and_then(|name| name.strip_suffix(".jsonl")?.parse().ok());
            let Some(id) = id else { continue };
            // A folder is not ours either. A link is: whoever opens it says that it is one, and nobody misses the conversation.
            match file.metadata() {
                Ok(metadata) if metadata.is_dir() => {}
                Ok(metadata) => marks.push((id, mark(&metadata))),
                // It was deleted a moment ago.
                Err(why) if why.kind() == io::ErrorKind::NotFound => {}
                Err(why) => return Err(failed()(why)),
            }
        }
        marks.sort_unstable_by_key(|(id, _)| *id);
        Ok(marks)
    }

    /// The path of a conversation's file, to be shown.
    fn path(&self, conversation: ConversationId) -> PathBuf {
        self.folder.path_of(name(conversation))
    }

    fn file(&self, conversation: ConversationId) -> Result<File, StoreError> {
        self.folder.open(name(conversation)).map_err(|why| match why.kind() {
            io::ErrorKind::NotFound => StoreError::NotFound(conversation),
            _ => StoreError::Io { what: format!("opening {}", self.path(conversation).display()), why },
        })
    }

    /// A refusal of the system while a conversation was read.
    fn unreadable(&self, conversation: ConversationId) -> impl FnOnce(io::Error) -> StoreError {
        StoreError::io(format!("reading {}", self.path(conversation).display()))
    }

    fn ends(&self) -> MutexGuard<'_, HashMap<ConversationId, End>> {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, conversation: ConversationId) -> Option<End> {
        self.ends().remove(&conversation)
    }

    fn keep(&self, conversation: ConversationId, end: End) {
        let mut ends = self.ends();
        if ends.len() >= KEPT {
            // What an append failed to undo is all that must not be forgotten.
            ends.retain(|_, end| end.is_doubtful());
        }
        ends.insert(conversation, end);
    }

    fn forget(&self, conversation: ConversationId) {
        self.ends().remove(&conversation);
    }
}

/// The name of a conversation's file. An id can be nothing but a safe name.
fn name(conversation: ConversationId) -> String {
    format!("{conversation}.jsonl")
}

/// Whether files can be made in a folder.
fn try_writing(folder: &PrivateFolder) -> io::Result<()> {
    let name = format!(".writable-{}", std::process::id());
    match folder.make_new(&name) {
        Err(why) if why.kind() != io::ErrorKind::AlreadyExists => Err(why),
        _ => folder.remove(&name).map(drop),
    }
}

/// What tells whether a file changed.
fn mark(metadata: &fs::Metadata) -> Mark {
    Mark { size: metadata.len(), modified: metadata.modified().ok(), identity: files::identity(metadata).1 }
}

fn timestamp(time: SystemTime) -> Option<Timestamp> {
    let since = time.duration_since(UNIX_EPOCH).ok()?;
    Timestamp::from_microsecond(i64::try_from(since.as_micros()).ok()?).ok()
}

impl Store for Jsonl {
    fn location(&self) -> &Location {
        &self.location
    }

    fn read_only(&self) -> Option<&str> {
        self.read_only.as_deref()
    }

    fn tail(&self, conversation: ConversationId) -> Result<Option<Tail>, StoreError> {
        let file = match self.file(conversation) {
            Err(StoreError::NotFound(_)) => return Ok(None),
            file => file?,
        };
        let metadata = file.metadata().map_err(self.unreadable(conversation))?;
        if let Some(end) = self.ends().get(&conversation).filter(|end| end.is_of(&metadata)) {
            return Ok(end.tail);
        }
        tail::tail(&file, false, &mut |_, _| ()).map_err(self.unreadable(conversation))
    }

    fn append(
        &self,
        conversation: ConversationId,
        after: Option<Tail>,
        entries: &[Entry],
    ) -> Result<Tail, StoreError> {
        append::append(self, conversation, after, entries)
    }

    fn read(&self, conversation: ConversationId, from: u64, each: Each<'_>) -> Result<(), StoreError> {
        let file = self.file(conversation)?;
        read::read(&file, Span { from, locked: false }, &mut |read| each(read.item))
            .map_err(self.unreadable(conversation))
    }

    fn list(&self, query: &Query) -> Result<Page, StoreError> {
        let marks = self.marks()?;
        #[cfg(feature = "sqlite")]
        match self.index.list(self, &marks, query) {
            // Files without entries have no summary there.
            Ok(mut page) if page.total == marks.len() as u64 => {
                for summary in &mut page.conversations {
                    // The index knows what was in it; nobody can read that now.
                    summary.damaged |= matches!(self.file(summary.id), Err(StoreError::Io { .. }));
                }
                return Ok(page);
            }
            Ok(_) => {}
            Err(why) => tracing::debug!("listing without the index: {why}"),
        }
        let mut all = Vec::new();
        for (id, mark) in marks {
            match self.summary_of(id, mark) {
                Ok(summary) => all.push(summary),
                // It was deleted a moment ago.
                Err(StoreError::NotFound(_)) => {}
                // One file that cannot be opened does not hide the others, and is not hidden by them.
                Err(why) => {
                    tracing::warn!("{why}");
                    all.push(empty_summary(id, mark));
                }
            }
        }
        Ok(scan::page(all, query))
    }

    fn summary(&self, conversation: ConversationId) -> Result<Summary, StoreError> {
        let metadata = self.file(conversation)?.metadata().map_err(self.unreadable(conversation))?;
        self.summary_of(conversation, mark(&metadata))
    }

    fn ids(&self, prefix: &str, limit: usize) -> Result<Vec<ConversationId>, StoreError> {
        let ids = self.marks()?.into_iter().map(|(id, _)| id);
        Ok(ids.filter(|id| id.has_prefix(prefix)).take(limit).collect())
    }

    fn search(&self, search: &Search) -> Result<Vec<Hit>, StoreError> {
        let marks = self.marks()?;
        #[cfg(feature = "sqlite")]
        match self.index.search(self, &marks, search) {
            Ok(hits) => return Ok(hits),
            Err(why) => tracing::debug!("searching without the index: {why}"),
        }
        let ids: Vec<ConversationId> = marks.into_iter().map(|(id, _)| id).collect();
        scan::search(self, &ids, self.digester, search)
    }

    fn lock(&self, conversation: ConversationId, holder: &Holder) -> Result<Lock, StoreError> {
        self.locks.acquire(conversation, holder)
    }

    fn erase_all(
        &self,
        conversation: ConversationId,
        after: Tail,
        erasures: &[(EntryId, Entry)],
    ) -> Result<Tail, StoreError> {
        let erased = erase::erase(self, conversation, after, erasures);
        // The words of what is gone must not stay behind anywhere.
        #[cfg(feature = "sqlite")]
        self.index.wipe()?;
        erased
    }

    fn delete(&self, conversation: ConversationId) -> Result<(), StoreError> {
        delete::delete(self, conversation)?;
        #[cfg(feature = "sqlite")]
        if let Err(why) = self.index.list(self, &self.marks()?, &Query { limit: Some(1), after: None }) {
            tracing::debug!("the index does not follow: {why}");
            self.index.wipe()?;
        }
        #[cfg(feature = "sqlite")]
        if self.index.path().exists() {
            self.index.is_gone(conversation)?;
        }
        Ok(())
    }

    fn set_aside(
        &self,
        conversation: ConversationId,
        damage: &Damage,
    ) -> Result<Option<PathBuf>, StoreError> {
        #[cfg(feature = "sqlite")]
        if !damage.torn {
            self.index.note_damage(conversation);
        }
        self.asides.keep(&conversation.to_string(), &damage.bytes)
    }

    fn files_that_go(
        &self,
        conversation: ConversationId,
        entries: Option<&[EntryId]>,
    ) -> Result<Vec<PathBuf>, StoreError> {
        let file = self.file(conversation)?;
        let unreadable = || self.unreadable(conversation);
        let Some(entries) = entries else {
            let mut files = vec![self.path(conversation)];
            files.extend(self.drafts.file_of(conversation));
            files.extend(self.asides_of(conversation, None).map_err(unreadable())?);
            return Ok(files);
        };
        let sought = erase::contents(&file, entries).map_err(unreadable())?;
        self.asides_of(conversation, Some(&sought)).map_err(unreadable())
    }

    fn drafts(&self) -> Option<&Drafts> {
        Some(&self.drafts)
    }

    fn verify(
        &self,
        conversation: Option<ConversationId>,
        each: &mut dyn FnMut(Problem),
    ) -> Result<Verified, StoreError> {
        if let Some(conversation) = conversation {
            return self.verify_one(conversation, each);
        }
        let mut all = Verified::default();
        for (id, _) in self.marks()? {
            match self.verify_one(id, each) {
                Ok(one) => {
                    all.conversations += one.conversations;
                    all.entries += one.entries;
                }
                Err(StoreError::NotFound(_)) => {}
                Err(why) => each(Problem {
                    conversation: Some(id),
                    place: Place::Store,
                    what: why.to_string(),
                    torn: false,
                }),
            }
        }
        Ok(all)
    }

    fn size(&self) -> Result<Size, StoreError> {
        Ok(Size { record: self.marks()?.iter().map(|(_, mark)| mark.size).sum(), index: self.index_size() })
    }

    fn settle(&self) -> Result<(), StoreError> {
        #[cfg(feature = "sqlite")]
        if let Err(why) = self.index.list(self, &self.marks()?, &Query { limit: Some(1), after: None }) {
            // It is made anew by whoever needs it.
            tracing::debug!("the index does not follow: {why}");
        }
        Ok(())
    }

    fn rebuild(&self) -> Result<(), StoreError> {
        #[cfg(feature = "sqlite")]
        self.index.forget();
        self.summaries.lock().unwrap_or_else(PoisonError::into_inner).clear();
        Ok(())
    }
}

impl Jsonl {
    fn index_size(&self) -> u64 {
        #[cfg(feature = "sqlite")]
        return self.index.size();
        #[cfg(not(feature = "sqlite"))]
        0
    }

    /// The summary of a conversation whose file has that mark.
    fn summary_of(&self, conversation: ConversationId, mark: Mark) -> Result<Summary, StoreError> {
        let kept = || self.summaries.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, summary)) = kept().get(&conversation).filter(|(other, _)| *other == mark) {
            return Ok(summary.clone());
        }
        let mut summary = scan::summary(self, conversation, self.digester)?;
        if summary.entries == 0 {
            summary = empty_summary(conversation, mark);
        }
        let mut kept = kept();
        if kept.len() >= KEPT {
            kept.clear();
        }
        kept.insert(conversation, (mark, summary.clone()));
        Ok(summary)
    }

    fn verify_one(
        &self,
        conversation: ConversationId,
        each: &mut dyn FnMut(Problem),
    ) -> Result<Verified, StoreError> {
        #[cfg(feature = "sqlite")]
        let mut seen = self.index.seen_of(conversation);
        #[cfg(feature = "sqlite")]
        let mut newest = None;
        let file = self.file(conversation)?;
        let verified = scan::verify_with(conversation, each, |sink| {
            read::read(&file, Span { from: 0, locked: false }, &mut |read| {
                #[cfg(feature = "sqlite")]
                if let Item::Entry(entry) = &read.item {
                    newest = Some(entry.envelope().seq);
                    seen.retain(|seen| seen.seq != entry.envelope().seq || seen.hash != entry.hash());
                }
                // Reading has checked the bodies; of a long conversation they need not all be in memory.
                let item = match read.item {
                    Item::Entry(entry) if entry.envelope().seq > 0 => Item::Entry(entry.erased()),
                    item => item,
                };
                sink(Place::Line(read.line), item);
                ControlFlow::Continue(())
            })
            .map_err(self.unreadable(conversation))
        })?;
        // A file that was cut off between two lines, or emptied, looks whole. Whoever listed it before knows better.
        #[cfg(feature = "sqlite")]
        {
            // Somebody may have deleted it meanwhile, and imported it again.
            if !seen.is_empty() {
                let still = self.index.seen_of(conversation);
                seen.retain(|seen| still.contains(seen));
            }
            for mut lost in seen.iter().cloned() {
                lost.rest = lost.rest.or(newest);
                each(lost.problem());
            }
            if !seen.is_empty() {
                each(lost::advice(self.index.path()));
            }
        }
        Ok(verified)
    }
}

/// The summary of a file without entries that can be read: it is as old as the file.
fn empty_summary(conversation: ConversationId, mark: Mark) -> Summary {
    let mut summary = Summary { damaged: true, ..Summary::new(conversation) };
    if let Some(time) = mark.modified.and_then(timestamp) {
        summary.created = time;
        summary.updated = time;
    }
    summary
}
