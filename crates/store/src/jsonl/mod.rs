//! A folder with one append-only file per conversation, which ordinary tools can read.
//!
//! `{id}.jsonl` holds one entry per line. Files are only appended to (`append/`); only `erase.rs` rewrites a file and only
//! `delete.rs` removes one. A damaged file is still read (`read.rs`, `resolve.rs`): every returned entry is verified, and all other
//! bytes are reported as damage and set aside (`aside.rs`) before anything is written.
//!
//! Lists and searches use an index next to the files (`feed.rs`). Without it, all files are read.

mod append;
mod delete;
mod erase;
mod feed;
mod known;
mod lines;
mod part;
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
    sync::Mutex,
    time::{SystemTime, UNIX_EPOCH},
};

use jiff::Timestamp;
use rejoin_record::{ConversationId, Entry, EntryId, Tail};

use self::{append::End, feed::Files, read::Span};
use crate::{
    backend::*,
    index::{Feed as _, Index, lost},
};

/// The number of conversations whose ends are remembered.
const KEPT: usize = 10_000;

/// A store in a folder of JSONL files.
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
    index: Index,
}

/// The facts that show whether a file changed since it was last read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mark {
    size: u64,
    /// When it was last written, if the system tells.
    modified: Option<SystemTime>,
    /// The inode. A rewritten file has a different one.
    identity: u64,
}

impl Jsonl {
    /// Opens a folder, or creates it.
    pub fn open(folder: &Path, options: Options) -> StoreResult<Self> {
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
        // Check this, too: a folder whose names can be read but not its files would look empty.
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
            index: Index::default(),
        })
    }

    /// Every conversation, in the order of ids, with the mark of its file.
    fn marks(&self) -> StoreResult<Vec<(ConversationId, Mark)>> {
        let folder = self.folder.path();
        let failed = || StoreError::io(format!("reading {}", folder.display()));
        let mut marks = Vec::new();
        for file in fs::read_dir(&folder).map_err(failed())? {
            let file = file.map_err(failed())?;
            // Other files in the folder are not rejoin's.
            let name = file.file_name();
            let id = name.to_str().and_then(|name| name.strip_suffix(".jsonl")?.parse().ok());
            let Some(id) = id else { continue };
            // Neither is a folder. A link is listed, so that the conversation does not seem to be missing: opening it reports why
            // it fails.
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

    /// The path of a conversation's file, for display.
    fn path(&self, conversation: ConversationId) -> PathBuf {
        self.folder.path_of(name(conversation))
    }

    fn file(&self, conversation: ConversationId) -> StoreResult<File> {
        self.folder.open(name(conversation)).map_err(|why| match why.kind() {
            io::ErrorKind::NotFound => StoreError::NotFound(conversation),
            _ => self.failed("opening", conversation)(why),
        })
    }

    /// An error of the system, with the operation on a conversation's file.
    fn failed(
        &self,
        what: &str,
        conversation: ConversationId,
    ) -> impl FnOnce(io::Error) -> StoreError + use<> {
        StoreError::io(format!("{what} {}", self.path(conversation).display()))
    }

    fn take(&self, conversation: ConversationId) -> Option<End> {
        guard(&self.ends).remove(&conversation)
    }

    fn keep(&self, conversation: ConversationId, end: End) {
        let mut ends = guard(&self.ends);
        if ends.len() >= KEPT {
            // Forget all but the failed appends that could not be undone.
            ends.retain(|_, end| end.is_doubtful());
        }
        ends.insert(conversation, end);
    }
}

/// The name of a conversation's file. Ids are safe as names.
fn name(conversation: ConversationId) -> String {
    format!("{conversation}.jsonl")
}

/// Tests whether files can be created in a folder.
fn try_writing(folder: &PrivateFolder) -> io::Result<()> {
    let name = format!(".writable-{}", std::process::id());
    match folder.make_new(&name) {
        Err(why) if why.kind() != io::ErrorKind::AlreadyExists => Err(why),
        _ => folder.remove(&name).map(drop),
    }
}

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

    fn digester(&self) -> Digester {
        self.digester
    }

    fn read_only(&self) -> Option<&str> {
        self.read_only.as_deref()
    }

    fn tail(&self, conversation: ConversationId) -> StoreResult<Option<Tail>> {
        let file = match self.file(conversation) {
            Err(StoreError::NotFound(_)) => return Ok(None),
            file => file?,
        };
        let metadata = file.metadata().map_err(self.failed("reading", conversation))?;
        if let Some(end) = guard(&self.ends).get(&conversation).filter(|end| end.is_of(&metadata)) {
            return Ok(end.tail);
        }
        tail::tail(&file, false, &mut |_, _| ()).map_err(self.failed("reading", conversation))
    }

    fn append(&self, id: ConversationId, after: Option<Tail>, entries: &[Entry]) -> StoreResult<Tail> {
        append::append(self, id, after, entries)
    }

    fn read(&self, conversation: ConversationId, from: u64, each: OnItem<'_>) -> StoreResult<()> {
        let file = self.file(conversation)?;
        read::read(&file, Span { from, locked: false }, &mut |read| each(read.item))
            .map_err(self.failed("reading", conversation))
    }

    fn read_part(&self, id: ConversationId, part: Selection<'_>, each: OnItem<'_>) -> StoreResult<PartRead> {
        let file = self.file(id)?;
        part::read(&file, part, each).map_err(self.failed("reading", id))
    }

    fn single_reads(&self) -> usize {
        // Each single read is a search in the file. Many of them cost as much as reading the whole file.
        1_000
    }

    fn checkpoint(&self, conversation: ConversationId, each: OnPiece<'_>) {
        self.index.checkpoint(&self.no_files(), conversation, each);
    }

    fn keep_checkpoint(&self, conversation: ConversationId, pieces: &[String]) {
        self.index.keep_checkpoint(&self.no_files(), conversation, pieces);
    }

    fn list(&self, query: &Query) -> StoreResult<Page> {
        let files = self.files()?;
        match self.index.list(&files, query) {
            // The index has no summary for files without entries.
            Ok(mut page) if page.total == files.marks.len() as u64 => {
                for summary in &mut page.conversations {
                    // The file is in the index but cannot be read now.
                    summary.damaged |= matches!(self.file(summary.id), Err(StoreError::Io { .. }));
                }
                return Ok(page);
            }
            Ok(_) => {}
            Err(why) => tracing::debug!("listing without the index: {why}"),
        }
        let mut all = Vec::new();
        for (id, mark) in self.marks()? {
            match self.summary_of(id, mark) {
                Ok(summary) => all.push(summary),
                // It was deleted a moment ago.
                Err(StoreError::NotFound(_)) => {}
                // A file that cannot be opened is listed, and must not hide the others.
                Err(why) => {
                    tracing::warn!("{why}");
                    all.push(empty_summary(id, mark));
                }
            }
        }
        Ok(scan::page(all, query))
    }

    fn summary(&self, conversation: ConversationId) -> StoreResult<Summary> {
        let metadata = self.file(conversation)?.metadata().map_err(self.failed("reading", conversation))?;
        match self.index.summary(&self.files()?, conversation) {
            Ok(Some(summary)) => return Ok(summary),
            Ok(None) => {}
            Err(why) => tracing::debug!("summing up without the index: {why}"),
        }
        self.summary_of(conversation, mark(&metadata))
    }

    fn ids(&self, prefix: &str, limit: usize) -> StoreResult<Vec<ConversationId>> {
        let ids = self.marks()?.into_iter().map(|(id, _)| id);
        Ok(ids.filter(|id| id.has_prefix(prefix)).take(limit).collect())
    }

    fn search(&self, search: &Search) -> StoreResult<Vec<Hit>> {
        match self.index.search(&self.files()?, search) {
            Ok(hits) => return Ok(hits),
            Err(why) => tracing::debug!("searching without the index: {why}"),
        }
        scan::search(self, &self.ids("", usize::MAX)?, self.digester, search)
    }

    fn lock(&self, conversation: ConversationId, holder: &Holder) -> StoreResult<Lock> {
        self.locks.acquire(conversation, holder)
    }

    fn erase_all(&self, id: ConversationId, after: Tail, erasures: &[Erasure]) -> StoreResult<Tail> {
        let erased = erase::erase(self, id, after, erasures);
        // The words of removed content must not stay in the index.
        self.index.wipe(&self.no_files())?;
        erased
    }

    fn delete(&self, conversation: ConversationId) -> StoreResult<()> {
        delete::delete(self, conversation)?;
        let files = self.files()?;
        if let Err(why) = self.index.catch_up(&files) {
            tracing::debug!("the index does not follow: {why}");
            self.index.wipe(&files)?;
        }
        if self.index.exists(&files) { files.is_gone(conversation) } else { Ok(()) }
    }

    fn set_aside(&self, conversation: ConversationId, damage: &Damage) -> StoreResult<Option<PathBuf>> {
        if !damage.torn {
            self.index.note_damage(&self.no_files(), conversation);
        }
        self.asides.keep(&conversation.to_string(), &damage.bytes)
    }

    fn files_that_go(
        &self,
        conversation: ConversationId,
        entries: Option<&[EntryId]>,
    ) -> StoreResult<Vec<PathBuf>> {
        let file = self.file(conversation)?;
        let unreadable = || self.failed("reading", conversation);
        let owner = conversation.to_string();
        let Some(entries) = entries else {
            let mut files = vec![self.path(conversation)];
            files.extend(self.drafts.file_of(conversation));
            files.extend(self.asides.holding(&owner, |_| true).map_err(unreadable())?);
            return Ok(files);
        };
        let sought = erase::contents(&file, entries).map_err(unreadable())?;
        self.asides.holding(&owner, ErasedContent::any(&sought)).map_err(unreadable())
    }

    fn drafts(&self) -> Option<&Drafts> {
        Some(&self.drafts)
    }

    fn verify(&self, conversation: Option<ConversationId>, each: EachProblem<'_>) -> StoreResult<Verified> {
        if let Some(conversation) = conversation {
            return self.verify_one(conversation, each);
        }
        let mut all = Verified::default();
        for (id, _) in self.marks()? {
            match self.verify_one(id, each) {
                Ok(one) => all.add(one),
                Err(StoreError::NotFound(_)) => {}
                Err(why) => each(Problem::of(Some(id), StoragePlace::Store, why.to_string())),
            }
        }
        Ok(all)
    }

    fn size(&self) -> StoreResult<Size> {
        let index = fs::metadata(self.folder.path_of(".index")).map_or(0, |metadata| metadata.len());
        Ok(Size { record: self.marks()?.iter().map(|(_, mark)| mark.size).sum(), index })
    }

    fn settle(&self) -> StoreResult<()> {
        if let Err(why) = self.index.catch_up(&self.files()?) {
            // The next query makes a new index.
            tracing::debug!("the index does not follow: {why}");
        }
        Ok(())
    }

    fn rebuild(&self) -> StoreResult<()> {
        self.index.discard(&self.no_files());
        Ok(())
    }
}

impl Jsonl {
    /// The feed of the index.
    fn files(&self) -> StoreResult<Files<'_>> {
        Ok(Files { store: self, marks: self.marks()? })
    }

    /// The feed of the index for calls that do not update it.
    fn no_files(&self) -> Files<'_> {
        Files { store: self, marks: Vec::new() }
    }

    /// The summary of a conversation, computed from its entries. `mark` is that of its file.
    fn summary_of(&self, conversation: ConversationId, mark: Mark) -> StoreResult<Summary> {
        let summary = scan::summary(self, conversation, self.digester)?;
        Ok(if summary.entries == 0 { empty_summary(conversation, mark) } else { summary })
    }

    fn verify_one(&self, conversation: ConversationId, each: EachProblem<'_>) -> StoreResult<Verified> {
        let files = self.no_files();
        let mut seen = files.seen_of(conversation);
        let mut newest = None;
        let file = self.file(conversation)?;
        let verified = scan::verify_with(conversation, each, |sink| {
            read::read(&file, Span { from: 0, locked: false }, &mut |read| {
                if let StoredItem::Entry(entry) = &read.item {
                    newest = Some(entry.envelope().seq);
                    seen.retain(|seen| seen.seq != entry.envelope().seq || seen.hash != entry.hash());
                }
                sink(StoragePlace::Line(read.line), read.item);
                ControlFlow::Continue(())
            })
            .map_err(self.failed("reading", conversation))
        })?;
        // A file that was truncated between two lines, or emptied, looks whole. But the index knows more.
        if !seen.is_empty() {
            // Another process may have deleted and imported it again meanwhile.
            let still = files.seen_of(conversation);
            seen.retain(|seen| still.contains(seen));
        }
        for lost in &mut seen {
            lost.rest = lost.rest.or(newest);
            each(lost.problem());
        }
        if !seen.is_empty() {
            each(lost::advice(&files.path()));
        }
        Ok(verified)
    }
}

/// The summary of a file without readable entries, with the time of the file.
fn empty_summary(conversation: ConversationId, mark: Mark) -> Summary {
    let mut summary = Summary { damaged: true, ..Summary::new(conversation) };
    if let Some(time) = mark.modified.and_then(timestamp) {
        summary.created = time;
        summary.updated = time;
    }
    summary
}
