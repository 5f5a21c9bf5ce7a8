//! Removes erased or deleted content from every file of the store.
//!
//! When the database moves rows, it leaves copies of them in pages, which overwriting the row does not reach. So the whole file is
//! rewritten, in place and in one transaction, and its log is emptied. Copies in other files are removed, too: damage that was set
//! aside, words in the index, and content in backups.
//!
//! The transaction that removes the rows also records this plan. After a kill, the next process that opens the store finishes the
//! plan.

use std::{
    fs, io,
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use jiff::Timestamp;
use rejoin_record::{ConversationId, EntryId, Hash};
use rusqlite::{Connection, OpenFlags};

use super::{ErrorContext as _, Inner, erase, feed, lock, opening, reading, salvage, schema};
use crate::{
    aside::ErasedContent,
    error::{StoreError, StoreResult},
    files,
    index::Feed as _,
    open::Access,
    sql,
    store::{Progress, StoredItem},
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Removal {
    /// The content of an entry; its hash stays.
    Content { conversation: ConversationId, entry: EntryId, inner: Hash },
    /// A whole conversation.
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

/// The content of an entry that is about to be erased.
pub(super) struct EntryContent {
    sought: ErasedContent,
    inner: Hash,
    since: Timestamp,
}

impl EntryContent {
    pub(super) fn removal(&self, conversation: ConversationId) -> Removal {
        Removal::Content { conversation, entry: self.sought.entry, inner: self.inner }
    }
}

/// The contents of the entries to erase, and the ids that do not exist. Entries that are already erased have no content.
pub(super) fn contents(
    inner: &Inner,
    conversation: ConversationId,
    entries: &[EntryId],
) -> StoreResult<(Vec<EntryContent>, Vec<EntryId>)> {
    let mut missing = entries.to_vec();
    let mut found = Vec::new();
    reading::read(inner, conversation, 0, &mut |item| {
        if let StoredItem::Entry(entry) = item
            && let Some(place) = missing.iter().position(|missing| *missing == entry.id())
        {
            missing.remove(place);
            if let Some(body) = entry.body() {
                let sought = ErasedContent { entry: entry.id(), body: body.clone() };
                found.push(EntryContent { sought, inner: entry.inner(), since: entry.envelope().timestamp });
            }
        }
        if missing.is_empty() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    Ok((found, missing))
}

/// The files next to the store that contain some of the content to erase.
pub(super) fn files_holding(
    inner: &Inner,
    conversation: ConversationId,
    contents: &[EntryContent],
) -> StoreResult<Vec<PathBuf>> {
    let holds = |bytes: &[u8]| contents.iter().any(|content| content.sought.is_in(bytes));
    let failed = || StoreError::io("looking through what was set aside");
    let mut files = inner.asides.holding(&conversation.to_string(), holds).map_err(failed())?;
    if let Some(since) = contents.iter().map(|content| content.since).min() {
        files.extend(copies_since(inner, since).map_err(failed())?);
    }
    Ok(files)
}

/// The files next to the store that contain content of a conversation.
pub(super) fn files_of(inner: &Inner, conversation: ConversationId) -> StoreResult<Vec<PathBuf>> {
    let failed = || StoreError::io("looking through what was set aside");
    let mut files = inner.asides.of(&conversation.to_string()).map_err(failed())?;
    let mut since = Timestamp::UNIX_EPOCH;
    reading::read(inner, conversation, 0, &mut |item| {
        if let StoredItem::Entry(entry) = item {
            since = entry.envelope().timestamp;
        }
        ControlFlow::Break(())
    })?;
    files.extend(copies_since(inner, since).map_err(failed())?);
    Ok(files)
}

/// Copies of whole damaged files that are newer than the removed content and may contain it.
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

/// Records the plan in the transaction that removes the rows.
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
    let plan = sql::one::<Option<String>>(connection, "SELECT value FROM meta WHERE name = 'scrub'", []);
    Ok(plan.during("reading what is left to do")?.flatten().unwrap_or_default())
}

/// Whether a process was killed before it finished its plan.
pub(super) fn is_under_way(connection: &Connection) -> bool {
    planned(connection).is_ok_and(|plan| !plan.is_empty())
}

/// Finishes the plan of a killed process.
pub(super) fn finish_if_left(inner: &Inner) {
    if inner.access == Access::Read || inner.is_not_salvaged().is_err() {
        return;
    }
    let left = lock(&inner.writer).as_ref().map(|pen| planned(&pen.connection));
    if !matches!(left, Some(Ok(plan)) if !plan.is_empty()) {
        return;
    }
    // Another process may be finishing it now.
    let Ok(one) = files::open_to_append(&files::with_end(&inner.path, ".mending"), true) else { return };
    if one.try_lock().is_err() {
        return;
    }
    tracing::info!("finishing an erasure that was interrupted");
    if let Err(why) = carry_out(inner) {
        tracing::warn!("what was erased is not yet out of every file: {why}");
    }
}

/// Carries out the plan.
pub(super) fn finish(inner: &Inner) -> StoreResult<()> {
    let failed = || StoreError::io(format!("removing what was said from {}", inner.path.display()));
    let one = files::open_to_append(&files::with_end(&inner.path, ".mending"), true).map_err(failed())?;
    files::lock(&one).map_err(failed())?;
    carry_out(inner)
}

fn carry_out(inner: &Inner) -> StoreResult<()> {
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
    // The index may contain words of the removed content, and deleting its rows would leave some of them in its file.
    if let Err(why) = inner.index.wipe(inner).and_then(|()| inner.index.catch_up(inner)) {
        tracing::debug!("the index does not follow: {why}");
        inner.index.discard(inner);
    }
    rewrite(inner)?;
    let mut writer = lock(&inner.writer);
    let pen = inner.take_up(&mut writer)?;
    // Another process may have added removals meanwhile; keep those.
    pen.connection
        .execute("UPDATE meta SET value = substr(value, length(?1) + 1) WHERE name = 'scrub'", [&plan])
        .map(drop)
        .during("removing what was said")?;
    // Record the seal, or the next process that opens the file would have to check all of it.
    pen.empty_log()?;
    drop(writer);
    feed::put_seal_in(&inner.path(), &opening::seal(&inner.path));
    Ok(())
}

/// Removes content from a backup. A backup that cannot be changed is deleted, so that restoring it cannot bring erased content
/// back.
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

/// The largest store, in bytes, that is rewritten without a temporary file.
const IN_MEMORY: u64 = 256 * 1024 * 1024;

/// How often progress is reported.
const TICK: Duration = Duration::from_millis(100);

/// Rewrites the file, so that it contains only its current rows.
fn rewrite(inner: &Inner) -> StoreResult<()> {
    let mut writer = lock(&inner.writer);
    let pen = inner.take_up(&mut writer)?;
    let total = inner.bytes();
    let place = if total <= IN_MEMORY { "MEMORY" } else { "FILE" };
    pen.connection.execute_batch(&format!("PRAGMA temp_store = {place}")).during("rewriting the file")?;
    // If this fails, the log contains frames that belong to no transaction.
    pen.failed = true;
    let hook = lock(&inner.progress).clone();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        if let Some(hook) = hook {
            let done = &done;
            scope.spawn(move || {
                // Every page goes through the log, so the length of the log shows the progress.
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
