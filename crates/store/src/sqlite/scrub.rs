//! Taking what was erased or deleted out of every file of the store, not just out of sight.
//!
//! The database leaves copies of rows behind when it moves them between pages, and overwriting a row does not reach those. So
//! the whole file is rewritten, in place and in one transaction, and its log is emptied. What lies beside it goes too: what
//! was set aside, the words in the index, and the content in backups.
//!
//! What is to be done is written down in the transaction that removes the rows. The process that opens the store after a kill finds it
//! there and finishes it.

use std::{
    fs, io,
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use jiff::Timestamp;
use rejoin_record::{ConversationId, EntryId, Hash};
use rusqlite::{Connection, OpenFlags, OptionalExtension as _};

use super::{During as _, Inner, erase, feed, lock, opening, reading, salvage, schema};
use crate::{
    aside::Sought,
    error::{StoreError, StoreResult},
    files,
    index::Feed as _,
    open::Access,
    sql,
    store::{Item, Progress},
};

/// Something that was removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Removal {
    /// The content of an entry; the hash of it stays.
    Content { conversation: ConversationId, entry: EntryId, inner: Hash },
    /// A conversation.
    Conversation(ConversationId),
}

impl Removal {
    pub(super) fn conversation(&self) -> ConversationId {
        match self {
            Self::Content { conversation, .. } | Self::Conversation(conversation) => *conversation,
        }
    }

    fn to_line(&self) -> String {
        match self {
            Self::Content { conversation, entry, inner } => format!("erase {conversation} {entry} {inner}\n"),
            Self::Conversation(conversation) => format!("delete {conversation}\n"),
        }
    }

    fn from_line(line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        match words.next()? {
            "erase" => Some(Self::Content {
                conversation: words.next()?.parse().ok()?,
                entry: words.next()?.parse().ok()?,
                inner: words.next()?.parse().ok()?,
            }),
            "delete" => Some(Self::Conversation(words.next()?.parse().ok()?)),
            _ => None,
        }
    }
}

/// What an entry said, before it is gone.
pub(super) struct Saying {
    sought: Sought,
    inner: Hash,
    since: Timestamp,
}

impl Saying {
    pub(super) fn removal(&self, conversation: ConversationId) -> Removal {
        Removal::Content { conversation, entry: self.sought.entry, inner: self.inner }
    }
}

/// What the entries say that are to be erased, and which of them are not there. What was erased before says nothing.
pub(super) fn contents(
    inner: &Inner,
    conversation: ConversationId,
    entries: &[EntryId],
) -> StoreResult<(Vec<Saying>, Vec<EntryId>)> {
    let mut missing = entries.to_vec();
    let mut found = Vec::new();
    reading::read(inner, conversation, 0, &mut |item| {
        if let Item::Entry(entry) = item
            && let Some(place) = missing.iter().position(|missing| *missing == entry.id())
        {
            missing.remove(place);
            if let Some(body) = entry.body() {
                let sought = Sought { entry: entry.id(), body: body.clone() };
                found.push(Saying { sought, inner: entry.inner(), since: entry.envelope().timestamp });
            }
        }
        if missing.is_empty() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    Ok((found, missing))
}

/// The files beside the store that hold some of what is to be erased.
pub(super) fn files_holding(
    inner: &Inner,
    conversation: ConversationId,
    contents: &[Saying],
) -> StoreResult<Vec<PathBuf>> {
    let holds = |bytes: &[u8]| contents.iter().any(|content| content.sought.is_in(bytes));
    let failed = || StoreError::io("looking through what was set aside");
    let mut files = inner.asides.holding(&conversation.to_string(), holds).map_err(failed())?;
    if let Some(since) = contents.iter().map(|content| content.since).min() {
        files.extend(copies_since(inner, since).map_err(failed())?);
    }
    Ok(files)
}

/// The files beside the store that hold something of a conversation.
pub(super) fn files_of(inner: &Inner, conversation: ConversationId) -> StoreResult<Vec<PathBuf>> {
    let failed = || StoreError::io("looking through what was set aside");
    let mut files = inner.asides.of(&conversation.to_string()).map_err(failed())?;
    let mut since = Timestamp::UNIX_EPOCH;
    reading::read(inner, conversation, 0, &mut |item| {
        if let Item::Entry(entry) = item {
            since = entry.envelope().timestamp;
        }
        ControlFlow::Break(())
    })?;
    files.extend(copies_since(inner, since).map_err(failed())?);
    Ok(files)
}

/// Whole files that were set aside when they were damaged. One that is younger than what is removed may hold it.
fn copies_since(inner: &Inner, since: Timestamp) -> io::Result<Vec<PathBuf>> {
    let mut copies = inner.asides.of("store")?;
    copies.extend(inner.asides.of("log")?);
    let micros = u64::try_from(since.as_microsecond()).unwrap_or(0);
    let since = UNIX_EPOCH + Duration::from_micros(micros);
    let younger = |path: &PathBuf| {
        let modified = fs::metadata(path).and_then(|metadata| metadata.modified());
        modified.unwrap_or(SystemTime::now()) >= since
    };
    copies.retain(younger);
    Ok(copies)
}

/// Writes down what has to be done, in the transaction that removes the rows.
pub(super) fn note(connection: &Connection, removals: &[Removal], files: &[PathBuf]) -> StoreResult<()> {
    let mut plan: String = removals.iter().map(Removal::to_line).collect();
    for file in files {
        if let Some(file) = file.file_name().and_then(|name| name.to_str()) {
            plan.push_str(&format!("aside {file}\n"));
        }
    }
    connection
        .execute("INSERT OR IGNORE INTO meta VALUES ('scrub', '')", [])
        .and_then(|_| connection.execute("UPDATE meta SET value = value || ?1 WHERE name = 'scrub'", [plan]))
        .map(drop)
        .during("removing what was said")
}

fn planned(connection: &Connection) -> StoreResult<String> {
    let query = "SELECT value FROM meta WHERE name = 'scrub'";
    let plan = connection.query_row(query, [], |row| row.get::<_, Option<String>>(0)).optional();
    Ok(plan.during("reading what is left to do")?.flatten().unwrap_or_default())
}

/// Whether a process was stopped while it took something out of the files.
pub(super) fn is_under_way(connection: &Connection) -> bool {
    planned(connection).is_ok_and(|plan| !plan.is_empty())
}

/// Finishes what a killed process left.
pub(super) fn finish_if_left(inner: &Inner) {
    if inner.access == Access::Read || inner.is_not_salvaged().is_err() {
        return;
    }
    let left = lock(&inner.writer).as_ref().map(|pen| planned(&pen.connection));
    if !matches!(left, Some(Ok(plan)) if !plan.is_empty()) {
        return;
    }
    // The one who removes something may just be at it.
    let Ok(one) = files::open_to_append(&files::with_end(&inner.path, ".mending"), true) else { return };
    if one.try_lock().is_err() {
        return;
    }
    tracing::info!("finishing an erasure that was interrupted");
    if let Err(why) = work_off(inner) {
        tracing::warn!("what was erased is not yet out of every file: {why}");
    }
}

/// Does what was written down.
pub(super) fn finish(inner: &Inner) -> StoreResult<()> {
    let failed = || StoreError::io(format!("removing what was said from {}", inner.path.display()));
    let one = files::open_to_append(&files::with_end(&inner.path, ".mending"), true).map_err(failed())?;
    files::lock(&one).map_err(failed())?;
    work_off(inner)
}

fn work_off(inner: &Inner) -> StoreResult<()> {
    let mut writer = lock(&inner.writer);
    let plan = planned(&inner.take_up(&mut writer)?.connection)?;
    drop(writer);
    if plan.is_empty() {
        return Ok(());
    }
    let removals: Vec<Removal> = plan.lines().filter_map(Removal::from_line).collect();
    for name in plan.lines().filter_map(|line| line.strip_prefix("aside ")) {
        let gone = inner.asides.remove(name);
        gone.map_err(StoreError::io("removing what was set aside"))?;
    }
    for removal in &removals {
        if let Removal::Conversation(conversation) = removal {
            inner.drafts.remove(*conversation)?;
            let gone = inner.asides.forget(&conversation.to_string(), |_| true);
            gone.map_err(StoreError::io("removing what was set aside of the conversation"))?;
        }
    }
    salvage::sweep(&inner.path);
    for backup in schema::backups(&inner.path)? {
        scrub_backup(&backup, &removals)?;
    }
    // Its words, and perhaps a title, came from what is gone. Deleting rows would leave some of them behind.
    if let Err(why) = inner.index.wipe(inner).and_then(|()| inner.index.catch_up(inner)) {
        tracing::debug!("the index does not follow: {why}");
        inner.index.discard(inner);
    }
    rewrite(inner)?;
    let mut writer = lock(&inner.writer);
    let pen = inner.take_up(&mut writer)?;
    // Another process may have removed more meanwhile.
    pen.connection
        .execute("UPDATE meta SET value = substr(value, length(?1) + 1) WHERE name = 'scrub'", [&plan])
        .map(drop)
        .during("removing what was said")?;
    // How the file is left is noted, or the next one to open it would have to look it over.
    pen.empty_log()?;
    drop(writer);
    feed::put_seal_in(&inner.path(), &opening::seal(&inner.path));
    Ok(())
}

/// Takes content out of a backup. One that cannot be changed goes as a whole: what was erased must not come back with it.
fn scrub_backup(path: &Path, removals: &[Removal]) -> StoreResult<()> {
    let work = || -> StoreResult<()> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags).during("opening a backup")?;
        let transaction = connection.unchecked_transaction().during("opening a backup")?;
        for removal in removals {
            erase::remove(&transaction, removal)?;
        }
        let write = || {
            transaction.commit()?;
            connection.execute_batch("VACUUM")?;
            sql::empty_log(&connection)
        };
        write().during("changing a backup").map(drop)
    };
    let Err(why) = work() else { return Ok(()) };
    tracing::warn!("{} is removed, since what was erased cannot be taken out of it: {why}", path.display());
    for end in ["", "-wal", "-shm", "-journal"] {
        match fs::remove_file(files::with_end(path, end)) {
            Err(why) if why.kind() != io::ErrorKind::NotFound => {
                return Err(StoreError::Io { what: format!("removing {}", path.display()), why });
            }
            _ => {}
        }
    }
    Ok(())
}

/// A store of at most this size is rewritten without a temporary file.
const IN_MEMORY: u64 = 256 * 1024 * 1024;

/// How often progress is reported.
const TICK: Duration = Duration::from_millis(100);

/// Rewrites the file, so that it holds nothing but what is in its rows.
fn rewrite(inner: &Inner) -> StoreResult<()> {
    let mut writer = lock(&inner.writer);
    let pen = inner.take_up(&mut writer)?;
    let total = inner.bytes();
    let place = if total <= IN_MEMORY { "MEMORY" } else { "FILE" };
    pen.connection.execute_batch(&format!("PRAGMA temp_store = {place}")).during("rewriting the file")?;
    // If it fails, frames are left in the log that belong to nothing.
    pen.failed = true;
    let hook = lock(&inner.progress).clone();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        if let Some(hook) = hook {
            let done = &done;
            scope.spawn(move || {
                // Every page goes through the log, so its length tells how far it is.
                let log = salvage::log_of(&inner.path);
                while !done.load(Ordering::Acquire) {
                    let written = fs::metadata(&log).map_or(0, |metadata| metadata.len());
                    hook(Progress { done: written.min(total), total });
                    std::thread::park_timeout(TICK);
                }
                hook(Progress { done: total, total });
            });
        }
        let written = pen.connection.execute_batch("VACUUM").during("rewriting the file");
        let written = written.and_then(|()| pen.empty_log_for_good());
        done.store(true, Ordering::Release);
        pen.failed = written.is_err();
        written
    })
}
