//! Removes the content of entries permanently. Only this code rewrites a file: a new file is written next to it, synced, and
//! renamed, so that a crash leaves either the old or the new one.

use std::{
    fs::File,
    io::{self, BufWriter, Read as _, Seek as _, SeekFrom, Write},
    ops::ControlFlow,
};

use rejoin_record::{ConversationId, Entry, EntryId, Raw, Tail};

use super::{
    Jsonl,
    append::{self, Locked},
    lines::{LineAt, Lines},
    pieces::{self, Pieces},
    read::{self, Span},
};
use crate::{
    aside::ErasedContent,
    error::{StoreError, StoreResult},
    scan,
    store::{Erasure, StoredItem},
};

/// The name of the new file until it is renamed.
pub(super) fn draft(conversation: ConversationId) -> String {
    format!(".{conversation}.erasing")
}

/// Removes the salt and body of entries, and appends the notes about the erasure.
pub(super) fn erase(
    store: &Jsonl,
    conversation: ConversationId,
    after: Tail,
    erasures: &[Erasure],
) -> StoreResult<Tail> {
    let notes: &[Entry] = &erasures.iter().map(|(_, note)| note.clone()).collect::<Vec<_>>();
    let ids: Vec<EntryId> = erasures.iter().map(|(entry, _)| *entry).collect();
    scan::check_batch(Some(after), notes)?;
    let mut locked = append::open(store, conversation, false)?.ok_or(StoreError::NotFound(conversation))?;
    let sought = contents(&locked.file, &ids).map_err(locked.failed("reading"))?;
    if let Some(missing) = ids.iter().find(|id| !sought.iter().any(|sought| sought.entry == **id)) {
        return Err(StoreError::NoSuchEntry(*missing));
    }
    let known = append::stored_already(&locked, Some(after), notes)?;
    let new = &notes[known..];
    if !new.is_empty() {
        append::check_parents(&mut locked, new)?;
    }
    let draft = draft(conversation);
    let written = write(store, &draft, &locked, &ids, &append::lines_of(new)?)
        .and_then(|()| store.folder.rename(&draft, &super::name(conversation)))
        .and_then(|()| append::sweep(store))
        .and_then(|()| store.folder.sync());
    if let Err(why) = written {
        let _ = store.folder.remove(&draft);
        return Err(locked.failed("rewriting")(why));
    }
    // Copies of the entry may have been set aside when it was found damaged.
    let forgotten = store.asides.forget(&conversation.to_string(), ErasedContent::any(&sought));
    forgotten.map_err(locked.failed("removing what was set aside of"))?;
    drop(store.take(conversation));
    let last = notes.last().map(Tail::of);
    last.ok_or(StoreError::BrokenBatch("there is nothing to erase"))
}

/// The content of the entries that exist.
pub(super) fn contents(file: &File, ids: &[EntryId]) -> io::Result<Vec<ErasedContent>> {
    let mut found = Vec::new();
    read::read(file, Span { from: 0, locked: true }, &mut |read| {
        if let StoredItem::Entry(entry) = &read.item
            && ids.contains(&entry.id())
        {
            let body = entry.body().cloned().unwrap_or_else(|| Raw::new(String::new()));
            found.push(ErasedContent { entry: entry.id(), body });
        }
        if found.len() == ids.len() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    Ok(found)
}

/// Writes the new file: every other line unchanged, the entries without their content, and the notes at the end.
fn write(store: &Jsonl, draft: &str, locked: &Locked, ids: &[EntryId], notes: &str) -> io::Result<()> {
    // A killed process may have left such a file.
    store.folder.remove(draft)?;
    let file = store.folder.make_new(draft)?;
    let mut out = BufWriter::with_capacity(1 << 16, &file);
    let names: Vec<(EntryId, String)> = ids.iter().map(|id| (*id, id.to_string())).collect();
    let mut lines = Lines::from(&locked.file, 0, 1, true)?;
    let mut bytes = Vec::new();
    while let Some(at) = lines.next(&mut bytes)? {
        if at.too_long {
            copy(&locked.file, at, &mut out)?;
        } else {
            for (entry, name) in &names {
                if pieces::find(&bytes, name.as_bytes()).is_some() {
                    let mut line = Vec::with_capacity(bytes.len());
                    rewrite(&mut line, &bytes, pieces::of(&bytes, at.number == 1), *entry)?;
                    bytes = line;
                }
            }
            out.write_all(&bytes)?;
        }
        if at.ended {
            out.write_all(b"\n")?;
        }
    }
    if !notes.is_empty() {
        out.write_all(locked.end.before_next.as_bytes())?;
        out.write_all(notes.as_bytes())?;
    }
    out.flush()?;
    drop(out);
    file.sync_all()
}

/// Writes a line that names the entry, without the entry's content. A piece that is not an entry but names it may be a damaged
/// copy, so it is left out.
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

/// Copies a line that is too long to load.
fn copy(mut file: &File, at: LineAt, out: &mut impl Write) -> io::Result<()> {
    let before = file.stream_position()?;
    file.seek(SeekFrom::Start(at.start))?;
    io::copy(&mut file.take(at.len), out)?;
    file.seek(SeekFrom::Start(before)).map(drop)
}
