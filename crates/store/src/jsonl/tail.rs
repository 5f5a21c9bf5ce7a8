//! Finds the newest entry of a file from its end.

use std::{fs::File, io, ops::ControlFlow};

use rejoin_record::{Entry, Kind, Tail};

use super::{
    files,
    lines::{Backwards, LineAt, Lines},
    read::{self, Span},
};
use crate::store::{Damage, StoredItem};

/// The newest entry of a file. If the last lines are not plain entries, the whole file is read, and `sink` receives the damage,
/// with whether a newer version wrote it.
pub(super) fn tail(
    file: &File,
    locked: bool,
    damaged: &mut dyn FnMut(Damage, bool),
) -> io::Result<Option<Tail>> {
    let mut tail = from_the_end(file, locked)?;
    if tail.is_none() {
        read::read(file, Span { from: 0, locked }, &mut |read| {
            match read.item {
                StoredItem::Entry(entry) if tail.is_none_or(|tail| tail.seq <= entry.envelope().seq) => {
                    tail = Some(Tail::of(&entry));
                }
                StoredItem::Entry(_) => {}
                StoredItem::Damage(damage) => damaged(damage, read.newer),
            }
            ControlFlow::Continue(())
        })?;
    }
    Ok(tail)
}

/// The last entry, if the last lines up to its parent are entries in order: only the parent's hash verifies it.
fn from_the_end(file: &File, locked: bool) -> io::Result<Option<Tail>> {
    if !begins_with_header(file, locked)? {
        return Ok(None);
    }
    let mut back = Backwards::new(file, settled_len(file, locked)?)?;
    let mut newest: Option<Entry> = None;
    let mut behind: Option<u64> = None;
    while let Some((start, bytes, ended)) = back.next()? {
        let at = LineAt { number: 0, start, len: bytes.len() as u64, ended, too_long: false };
        let Some(entry) = read::exact(at, &bytes) else { return Ok(None) };
        let seq = entry.envelope().seq;
        // The header is the first line, and no other entry is.
        if (seq == 0) != (start == 0) || behind.is_some_and(|behind| behind != seq + 1) {
            return Ok(None);
        }
        behind = Some(seq);
        let child = newest.get_or_insert_with(|| entry.clone());
        let parent = child.envelope().parent;
        if parent.is_none() || parent == Some(entry.id()) {
            let is_sound = child.verifies(parent.map(|_| entry.hash()));
            return Ok(is_sound.then(|| Tail::of(child)));
        }
    }
    Ok(None)
}

/// Whether a file begins with a header. If not, its lines may be in any order.
fn begins_with_header(file: &File, locked: bool) -> io::Result<bool> {
    let mut bytes = Vec::new();
    let first = Lines::from(file, 0, 1, locked)?.next(&mut bytes)?;
    let first = first.and_then(|at| read::exact(at, &bytes));
    Ok(first.is_some_and(|entry| {
        let envelope = entry.envelope();
        envelope.seq == 0 && envelope.kind == Kind::Header && entry.verifies(None)
    }))
}

/// The length of a file at a moment when no process is appending to it.
fn settled_len(file: &File, locked: bool) -> io::Result<u64> {
    let len = file.metadata()?.len();
    if locked || len == 0 || files::read_at(file, len - 1, 1)? == b"\n" {
        return Ok(len);
    }
    files::lock_shared(file)?;
    let settled = file.metadata().map(|metadata| metadata.len());
    files::unlock(file)?;
    settled
}
