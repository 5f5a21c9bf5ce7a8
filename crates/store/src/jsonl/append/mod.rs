//! Appends to a file: one lock, one write, one sync.
//!
//! A new conversation is written under a temporary name and renamed once it is durable, so a killed process leaves all of it or
//! nothing.
//!
//! The end of each file is remembered, so that an append only has to compare the length. If a write or its sync fails, the file is
//! truncated to the synced length. If even that fails, it is truncated before the next append.

use std::{
    collections::HashMap,
    fs::{self, File},
    io::{self, Write as _},
    ops::ControlFlow,
    path::PathBuf,
};

use rejoin_record::{ConversationId, Entry, EntryId, Hash, Tail, limits};

use super::{
    Jsonl,
    lines::Backwards,
    name, pieces,
    read::{self, MARK, Span},
    tail,
};
use crate::{
    error::{StoreError, StoreResult},
    files,
    open::Access,
    scan,
    store::StoredItem,
};

/// The remembered end of a file.
#[derive(Debug)]
pub(super) struct End {
    identity: files::Identity,
    len: u64,
    /// The synced length. Bytes after it were never acknowledged.
    synced: u64,
    pub(super) tail: Option<Tail>,
    /// The text to write before the next entry, so that the entry begins a new line.
    pub(super) before_next: String,
    /// The known entries of the file, with their `seq` and hash.
    seen: HashMap<EntryId, (u64, Hash)>,
}

impl End {
    /// Whether this still describes the end of the file.
    pub(super) fn is_of(&self, metadata: &fs::Metadata) -> bool {
        self.identity == files::identity(metadata) && self.len == metadata.len()
    }

    /// Whether the file has bytes that were never acknowledged.
    pub(super) fn is_doubtful(&self) -> bool {
        self.synced < self.len
    }
}

/// A conversation's file, open and locked.
pub(super) struct Locked {
    pub(super) file: File,
    pub(super) end: End,
    /// Whether this process opens the file for the first time. In that case its name may not be durable yet.
    first_look: bool,
    name_state: NameState,
    path: PathBuf,
}

impl Locked {
    /// An error of the system, with the operation on the file.
    pub(super) fn failed(&self, what: &str) -> impl FnOnce(io::Error) -> StoreError + use<> {
        StoreError::io(format!("{what} {}", self.path.display()))
    }
}

/// Whether a file already has its conversation's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NameState {
    /// It already had the name.
    Known,
    /// It is being written under a temporary name.
    Unnamed,
    /// This append gave it the name.
    Named,
}

/// The temporary name of a new file.
fn unnamed(conversation: ConversationId) -> String {
    format!(".{conversation}{UNNAMED}")
}

/// The ending of temporary names.
const UNNAMED: &str = ".new";

/// Appends entries after a tail.
pub(super) fn append(
    store: &Jsonl,
    conversation: ConversationId,
    after: Option<Tail>,
    entries: &[Entry],
) -> StoreResult<Tail> {
    scan::check_batch(after, entries)?;
    let make = after.is_none() && !entries.is_empty();
    let Some(mut locked) = open(store, conversation, make)? else {
        return Err(if after.is_none() {
            StoreError::BrokenBatch("there is nothing to append")
        } else {
            StoreError::TailMoved { expected: after, found: None }
        });
    };
    let appended = append_to(store, conversation, &mut locked, after, entries);
    // Hold the lock until the end of the file is remembered.
    let Locked { file, end, name_state, .. } = locked;
    // If nothing was stored, remove a new file.
    let gone = appended.is_err()
        && match name_state {
            NameState::Known => false,
            NameState::Unnamed => {
                // A file that cannot be removed now is reused or swept up later.
                let _ = store.folder.remove(unnamed(conversation));
                true
            }
            NameState::Named => store.folder.remove(name(conversation)).is_ok(),
        };
    if !gone {
        store.keep(conversation, end);
    }
    drop(file);
    appended
}

fn append_to(
    store: &Jsonl,
    conversation: ConversationId,
    locked: &mut Locked,
    after: Option<Tail>,
    entries: &[Entry],
) -> StoreResult<Tail> {
    let known = stored_already(locked, after, entries)?;
    let (done, new) = entries.split_at(known);
    if let Some(last) = done.last() {
        locked.end.tail = Some(Tail::of(last));
    }
    if new.is_empty() {
        let tail = locked.end.tail.ok_or(StoreError::BrokenBatch("there is nothing to append"))?;
        // This may be a retry after a write that succeeded and a sync that failed.
        sync(store, conversation, locked)?;
        return Ok(tail);
    }
    check_parents(locked, new)?;
    let written = write(locked, new).and_then(|written| {
        sync(store, conversation, locked)?;
        Ok(written)
    });
    let written = match written {
        Ok(written) => written,
        Err(failure) => {
            cut_back(locked);
            return Err(failure);
        }
    };
    let end = &mut locked.end;
    end.before_next.clear();
    end.len += written;
    end.synced = end.len;
    end.seen.extend(new.iter().map(|entry| (entry.id(), (entry.envelope().seq, entry.hash()))));
    end.tail = new.last().map(Tail::of);
    end.tail.ok_or(StoreError::BrokenBatch("there is nothing to append"))
}

/// How many bytes of a new conversation are written at once, so that a long one is not in memory twice.
const PIECE_BYTES: usize = 1024 * 1024;

/// Writes entries at the end, in one write if other processes can see the file. Returns the number of bytes.
fn write(locked: &Locked, entries: &[Entry]) -> StoreResult<u64> {
    let mut written = 0;
    let mut before = locked.end.before_next.as_str();
    let mut rest = entries;
    while !rest.is_empty() {
        let mut bytes = 0;
        let fits = |entry: &&Entry| {
            bytes += entry.body().map_or(0, |body| body.as_str().len());
            locked.name_state != NameState::Unnamed || bytes <= PIECE_BYTES
        };
        let count = rest.iter().take_while(fits).count().max(1);
        let (piece, others) = rest.split_at(count);
        let mut lines = lines_of(piece)?;
        lines.insert_str(0, before);
        (&locked.file).write_all(lines.as_bytes()).map_err(locked.failed("writing"))?;
        written += lines.len() as u64;
        (before, rest) = ("", others);
    }
    Ok(written)
}

/// Opens and locks a conversation's file, and reads its end. `None` if it does not exist and `make` is not set.
pub(super) fn open(store: &Jsonl, conversation: ConversationId, make: bool) -> StoreResult<Option<Locked>> {
    let Some((file, metadata, name_state)) = lock(store, conversation, make)? else { return Ok(None) };
    let kept = store.take(conversation).filter(|end| end.is_of(&metadata));
    let first_look = kept.is_none();
    let mut end = match kept {
        Some(end) => end,
        None => look(store, conversation, &file, &metadata)?,
    };
    if end.is_doubtful() {
        // An earlier append failed and could not be undone. Undo it first: nothing can be added before.
        let cut = file.set_len(end.synced).and_then(|()| file.sync_data());
        if let Err(why) = cut {
            store.keep(conversation, end);
            return Err(store.failed("cutting back", conversation)(why));
        }
        end.len = end.synced;
    }
    Ok(Some(Locked { file, end, first_look, name_state, path: store.path(conversation) }))
}

/// Opens and locks a conversation's file. `None` if it does not exist and `make` is not set.
pub(super) fn lock(
    store: &Jsonl,
    conversation: ConversationId,
    make: bool,
) -> StoreResult<Option<(File, fs::Metadata, NameState)>> {
    if store.access == Access::Read {
        return Err(StoreError::ReadOnly(String::from("it was opened to be read")));
    }
    let failed = |what| store.failed(what, conversation);
    loop {
        let (file, name_state) = match store.folder.open_to_append(name(conversation), false) {
            Ok(file) => (file, NameState::Known),
            Err(why) if why.kind() == io::ErrorKind::NotFound && make => {
                // The folder existed when the store was opened. Creating it again might hide a disk that is mounted later.
                if !store.folder.has_outer() {
                    return Err(StoreError::Missing(store.folder.path()));
                }
                let file = store.folder.open_to_append(unnamed(conversation), true);
                (file.map_err(failed("making"))?, NameState::Unnamed)
            }
            Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(why) => return Err(failed("opening")(why)),
        };
        files::lock(&file).map_err(failed("locking"))?;
        if name_state == NameState::Unnamed
            && !is_ours_to_name(store, conversation, &file).map_err(failed("making"))?
        {
            continue;
        }
        let metadata = file.metadata().map_err(failed("reading"))?;
        // The previous holder of the lock may have replaced or deleted the file.
        if files::names(&metadata) > 0 {
            return Ok(Some((file, metadata, name_state)));
        }
    }
}

/// Whether a locked file can become a new conversation. While this process waited for the lock, another one may have renamed or
/// removed it. Bytes that a killed process left in it are removed.
fn is_ours_to_name(store: &Jsonl, conversation: ConversationId, file: &File) -> io::Result<bool> {
    let unnamed = unnamed(conversation);
    if !store.folder.is_named(file, &unnamed) {
        return Ok(false);
    }
    if store.folder.has(name(conversation))? {
        store.folder.remove(&unnamed)?;
        return Ok(false);
    }
    file.set_len(0)?;
    Ok(true)
}

/// Removes unfinished files of killed processes: they may hold content that is being erased.
pub(super) fn sweep(store: &Jsonl) -> io::Result<()> {
    let id = |name: &str| name.strip_prefix('.')?.strip_suffix(UNNAMED)?.parse::<ConversationId>().ok();
    for left in store.folder.names()? {
        let Some(left) = left.to_str().filter(|left| id(left).is_some()) else { continue };
        // A locked file is being written; a file that cannot be opened is not ours.
        let Ok(file) = store.folder.open_to_append(left, false) else { continue };
        if file.try_lock().is_ok() && store.folder.is_named(&file, left) {
            store.folder.remove(left)?;
        }
    }
    Ok(())
}

/// Reads the end of a file that this process has not appended to. Damage is set aside.
fn look(
    store: &Jsonl,
    conversation: ConversationId,
    file: &File,
    metadata: &fs::Metadata,
) -> StoreResult<End> {
    let failed = || store.failed("reading", conversation);
    let mut newer = None;
    let tail = tail::tail(file, true, &mut |damage, is_newer| {
        if is_newer {
            newer.get_or_insert_with(|| damage.why.clone());
        }
        if let Err(why) = store.asides.keep(&conversation.to_string(), &damage.bytes) {
            // Its bytes also stay in the file, which is only appended to.
            tracing::warn!("{} of {conversation} could not be set aside: {why}", damage.place);
        }
    })
    .map_err(failed())?;
    if let Some(why) = newer {
        return Err(StoreError::ReadOnly(format!(
            "{conversation} has entries that a newer version wrote ({why})"
        )));
    }
    let len = metadata.len();
    let before_next = before_next(file, len).map_err(failed())?;
    let identity = files::identity(metadata);
    Ok(End { identity, len, synced: len, tail, before_next, seen: HashMap::new() })
}

/// The text that must end the last line if it has no newline: a newline, after a mark unless the line is a whole entry.
fn before_next(file: &File, len: u64) -> io::Result<String> {
    if len == 0 || files::read_at(file, len - 1, 1)? == b"\n" {
        return Ok(String::new());
    }
    let last = Backwards::new(file, len)?.next()?;
    let whole = last.is_some_and(|(start, bytes, _)| {
        let found = pieces::of(&bytes, start == 0);
        found.rest.is_none() && found.entries.len() == 1
    });
    Ok(if whole { String::from("\n") } else { format!("{MARK}\n") })
}

/// How many of the entries are already stored after the tail that the caller knows.
pub(super) fn stored_already(locked: &Locked, after: Option<Tail>, entries: &[Entry]) -> StoreResult<usize> {
    let found = locked.end.tail;
    if found == after {
        return Ok(0);
    }
    let mut later: Vec<(EntryId, Hash)> = Vec::new();
    let mut reached = after.is_none();
    let span = Span { from: after.map_or(0, |tail| tail.seq), locked: true };
    let read = read::read(&locked.file, span, &mut |read| {
        if let StoredItem::Entry(entry) = read.item {
            match after {
                Some(after) if entry.envelope().seq <= after.seq => reached |= Tail::of(&entry) == after,
                _ => later.push((entry.id(), entry.hash())),
            }
        }
        // Reading more than the given number of entries is not needed.
        if later.len() > entries.len() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    read.map_err(locked.failed("reading"))?;
    let already = if reached { scan::already(&later, entries) } else { None };
    already.ok_or(StoreError::TailMoved { expected: after, found })
}

/// Checks that each entry is sealed onto an existing entry, and that its id is new.
pub(super) fn check_parents(locked: &mut Locked, entries: &[Entry]) -> StoreResult<()> {
    let failed = locked.failed("reading");
    let Locked { file, end, .. } = locked;
    let mut read_all = Some(|seen: &mut HashMap<EntryId, (u64, Hash)>| {
        read::read(file, Span { from: 0, locked: true }, &mut |read| {
            if let StoredItem::Entry(entry) = read.item {
                seen.insert(entry.id(), (entry.envelope().seq, entry.hash()));
            }
            ControlFlow::Continue(())
        })
        .map_err(failed)
    });
    if let Some(tail) = end.tail {
        end.seen.insert(tail.id, (tail.seq, tail.hash));
    }
    scan::check_seals(end.tail, entries, |parent| {
        if !end.seen.contains_key(&parent)
            && let Some(read_all) = read_all.take()
        {
            read_all(&mut end.seen)?;
        }
        Ok(end.seen.get(&parent).copied())
    })?;
    if entries.iter().any(|entry| end.seen.contains_key(&entry.id())) {
        return Err(StoreError::BrokenBatch("an id occurs twice"));
    }
    Ok(())
}

pub(super) fn lines_of(entries: &[Entry]) -> StoreResult<String> {
    let mut lines = String::new();
    for entry in entries {
        let line = entry.to_line();
        if line.len() > limits::BODY_BYTES {
            return Err(StoreError::BrokenBatch("an entry is larger than entries may be"));
        }
        if line.contains('\n') {
            return Err(StoreError::BrokenBatch("an entry is not one line"));
        }
        if lines.is_empty() {
            lines = line;
        } else {
            lines.push_str(&line);
        }
        lines.push('\n');
    }
    Ok(lines)
}

/// Makes a file durable, then its name.
fn sync(store: &Jsonl, conversation: ConversationId, locked: &mut Locked) -> StoreResult<()> {
    let failed = locked.failed("syncing");
    let mut work = || -> io::Result<()> {
        locked.file.sync_data()?;
        if locked.name_state == NameState::Unnamed {
            store.folder.rename_new(&unnamed(conversation), &name(conversation))?;
            locked.name_state = NameState::Named;
        }
        if locked.first_look {
            store.folder.sync()?;
            locked.first_look = false;
        }
        Ok(())
    };
    work().map_err(failed)
}

/// Removes the bytes that a failed append may have written.
fn cut_back(locked: &mut Locked) {
    let Locked { file, end, .. } = locked;
    if let Err(why) = file.set_len(end.len).and_then(|()| file.sync_data()) {
        tracing::warn!("a failed append could not be undone yet: {why}");
        if let Ok(metadata) = file.metadata() {
            end.len = metadata.len();
        }
    }
}

#[cfg(test)]
mod tests;
