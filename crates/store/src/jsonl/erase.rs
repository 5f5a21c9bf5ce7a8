//! Removing the content of an entry for good. The only place where a file is written anew: a draft beside it, synced, then put
//! in its place in one step, so that a crash leaves the one or the other.

use std::{
    fs::{self, File},
    io::{self, BufWriter, Read as _, Seek as _, SeekFrom, Write},
    ops::ControlFlow,
    path::PathBuf,
};

use rejoin_record::{ConversationId, Entry, EntryId, Tail};

use super::{
    Jsonl,
    append::{self, Locked},
    files,
    lines::{LineAt, Lines},
    pieces::{self, Pieces},
    read::{self, Span},
};
use crate::{error::StoreError, scan, store::Item};

/// Where the file is written anew.
pub(super) fn draft(store: &Jsonl, conversation: ConversationId) -> PathBuf {
    store.folder.join(format!(".{conversation}.erasing"))
}

/// Removes salt and body of an entry and appends the note about it.
pub(super) fn erase(
    store: &Jsonl,
    conversation: ConversationId,
    after: Tail,
    entry: EntryId,
    note: &Entry,
) -> Result<Tail, StoreError> {
    let notes = std::slice::from_ref(note);
    scan::check_batch(Some(after), notes)?;
    let mut locked = append::open(store, conversation, false)?.ok_or(StoreError::NotFound(conversation))?;
    let about = |failure: append::Failure| failure.about(store, conversation);
    if !holds(&locked.file, entry).map_err(append::system("reading")).map_err(about)? {
        return Err(StoreError::NoSuchEntry(entry));
    }
    let known = append::stored_already(&locked, Some(after), notes).map_err(about)?;
    let new = &notes[known..];
    if !new.is_empty() {
        append::check_parents(&mut locked, new).map_err(about)?;
    }
    let path = draft(store, conversation);
    let written = write(&path, &locked, entry, &append::lines_of(new)?)
        .and_then(|()| fs::rename(&path, store.path(conversation)))
        .and_then(|()| files::sync_folder(&store.folder));
    if let Err(why) = written {
        let _ = fs::remove_file(&path);
        return Err(about(append::Failure::System("rewriting", why)));
    }
    // Copies of the entry may have been set aside when they were found damaged.
    let forgotten = store.forget_asides(conversation, Some(&entry.to_string()));
    forgotten.map_err(append::system("removing what was set aside of")).map_err(about)?;
    store.forget(conversation);
    Ok(Tail::of(note))
}

fn holds(file: &File, entry: EntryId) -> io::Result<bool> {
    let mut found = false;
    read::read(file, Span { from: 0, locked: true }, &mut |read| {
        found |= matches!(&read.item, Item::Entry(other) if other.id() == entry);
        if found { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    Ok(found)
}

/// Writes a draft: every line as it is, but the entry without its content, and the note behind them.
fn write(path: &PathBuf, locked: &Locked, entry: EntryId, note: &str) -> io::Result<()> {
    // One may be left of a process that was killed.
    match fs::remove_file(path) {
        Err(why) if why.kind() != io::ErrorKind::NotFound => return Err(why),
        _ => {}
    }
    let file = files::make_new(path)?;
    let mut out = BufWriter::with_capacity(1 << 16, &file);
    let name = entry.to_string();
    let mut lines = Lines::from(&locked.file, 0, 1, true)?;
    let mut bytes = Vec::new();
    while let Some(at) = lines.next(&mut bytes)? {
        if at.too_long {
            copy(&locked.file, at, &mut out)?;
        } else if pieces::find(&bytes, name.as_bytes()).is_some() {
            rewrite(&mut out, &bytes, pieces::of(&bytes, at.number == 1), entry)?;
        } else {
            out.write_all(&bytes)?;
        }
        if at.ended {
            out.write_all(b"\n")?;
        }
    }
    if !note.is_empty() {
        out.write_all(locked.end.before_next.as_bytes())?;
        out.write_all(note.as_bytes())?;
    }
    out.flush()?;
    drop(out);
    file.sync_all()
}

/// Writes a line that names the entry. What is no entry but names it may be a damaged copy: that goes as well.
fn rewrite(out: &mut impl Write, line: &[u8], found: Pieces, entry: EntryId) -> io::Result<()> {
    let name = entry.to_string();
    let concerned = found.entries.iter().any(|piece| piece.entry.id() == entry);
    let ranges = found.rest.map(|rest| rest.ranges).unwrap_or_default();
    let named =
        |range: &std::ops::Range<usize>| pieces::find(&line[range.clone()], name.as_bytes()).is_some();
    if !concerned && !ranges.iter().any(named) {
        return out.write_all(line);
    }
    let mut first = true;
    let mut put = |bytes: &[u8]| {
        if !std::mem::replace(&mut first, false) {
            out.write_all(b"\n")?;
        }
        out.write_all(bytes)
    };
    for piece in &found.entries {
        if piece.entry.id() == entry {
            put(piece.entry.erased().to_line().as_bytes())?;
        } else {
            put(&line[piece.range.clone()])?;
        }
    }
    for range in ranges.iter().filter(|range| !named(range)) {
        put(&line[range.clone()])?;
    }
    Ok(())
}

/// Copies a line that is too long to be loaded.
fn copy(mut file: &File, at: LineAt, out: &mut impl Write) -> io::Result<()> {
    let before = file.stream_position()?;
    file.seek(SeekFrom::Start(at.start))?;
    io::copy(&mut file.take(at.len), out)?;
    file.seek(SeekFrom::Start(before)).map(drop)
}
