//! Reading a file backwards: an entry and what leads to it, newest first.
//!
//! As long as all is well, lines are read from the end in blocks, and stopping early costs what was read. An entry is handed
//! out once its parent is found, since only the parent's hash proves it. At the first thing that is not as it should be, the
//! whole file is looked at (`resolve.rs`) and the way goes on from there.

use std::{collections::HashMap, fs::File, io, ops::ControlFlow};

use rejoin_record::{Entry, EntryId, Kind, Tail};

use super::{
    files,
    known::Known,
    lines::{self, Backwards, LineAt, Lines},
    pieces,
    read::{self, Around, Broken, Read, Remainder, Sink, Span, misspelled},
    resolve::{self, Found, Resolved},
};
use crate::store::{Damage, Item};

/// How a walk ended.
#[derive(Debug)]
enum Walk {
    /// At the first entry, or because nobody wanted more.
    Done,
    /// Something is not as it should be. The way goes on behind the entry that was handed out last, if there is one.
    Lost(Option<Step>),
}

/// An entry on the way, and what it follows.
#[derive(Debug, Clone, Copy)]
struct Step {
    seq: u64,
    parent: Option<EntryId>,
}

/// Hands out an entry (the head, if none is named) and its ancestors. False: there is no such entry.
pub(super) fn ancestors(file: &File, of: Option<EntryId>, locked: bool, sink: Sink<'_>) -> io::Result<bool> {
    match walk(file, of, locked, sink)? {
        Walk::Done => Ok(true),
        Walk::Lost(last) => around(file, of, last, locked, sink),
    }
}

/// The newest entry of a file. Damage that is met is handed out, with whether a newer version wrote it.
pub(super) fn tail(
    file: &File,
    locked: bool,
    damaged: &mut dyn FnMut(Damage, bool),
) -> io::Result<Option<Tail>> {
    let mut tail: Option<Tail> = None;
    let walked = walk(file, None, locked, &mut |read| match read.item {
        Item::Entry(entry) => {
            tail = Some(Tail::of(&entry));
            ControlFlow::Break(())
        }
        Item::Damage(damage) => {
            damaged(damage, read.newer);
            ControlFlow::Continue(())
        }
    })?;
    if let Walk::Lost(_) = walked {
        read::read(file, Span { from: 0, locked }, &mut |read| {
            match read.item {
                Item::Entry(entry) if tail.is_none_or(|tail| tail.seq <= entry.envelope().seq) => {
                    tail = Some(Tail::of(&entry));
                }
                Item::Entry(_) => {}
                Item::Damage(damage) => damaged(damage, read.newer),
            }
            ControlFlow::Continue(())
        })?;
    }
    Ok(tail)
}

/// The way back while all is well.
fn walk(file: &File, of: Option<EntryId>, locked: bool, sink: Sink<'_>) -> io::Result<Walk> {
    if !begins_well(file, locked)? {
        return Ok(Walk::Lost(None));
    }
    let mut back = Backwards::new(file, settled_len(file, locked)?)?;
    // The entry that waits for its parent.
    let mut held: Option<Entry> = None;
    // Remainders that were passed since. If the way is lost they are met again.
    let mut passed: Vec<Broken> = Vec::new();
    let mut behind: Vec<Broken> = Vec::new();
    // The entry that was handed out last. Before the first, what is held is only believed to be the right one.
    let mut last: Option<Step> = None;
    let mut last_seq: Option<u64> = None;
    while let Some((start, bytes, ended)) = back.next()? {
        let mut found = pieces::of(&bytes, start == 0);
        if let Some(rest) = found.rest.take() {
            let at = LineAt { number: 0, start, len: bytes.len() as u64, ended, too_long: false };
            let mut broken = Broken::new(at, &bytes, rest, found.entries.len());
            if broken.remainder != Remainder::Surely || !found.entries.is_empty() {
                return Ok(Walk::Lost(last));
            }
            broken.line = lines::number_at(file, start)?;
            passed.push(broken);
            continue;
        }
        let Some(piece) = found.entries.pop() else { continue };
        if !found.entries.is_empty() || !piece.is_exact(&bytes) {
            return Ok(Walk::Lost(last));
        }
        let entry = piece.entry;
        let seq = entry.envelope().seq;
        if last_seq.is_some_and(|last| last != seq + 1) {
            return Ok(Walk::Lost(last));
        }
        last_seq = Some(seq);
        // The header is the first line, and nothing else is.
        if (seq == 0) != (start == 0) {
            return Ok(Walk::Lost(last));
        }
        match held.take() {
            Some(child) if child.envelope().parent == Some(entry.id()) => {
                if !child.verifies(Some(entry.hash())) {
                    return Ok(Walk::Lost(last));
                }
                if hand_out(file, &mut behind, sink)?.is_break() {
                    return Ok(Walk::Done);
                }
                last = Some(Step { seq: child.envelope().seq, parent: Some(entry.id()) });
                if sink(of_entry(child)).is_break() || hand_out(file, &mut passed, sink)?.is_break() {
                    return Ok(Walk::Done);
                }
                held = Some(entry);
            }
            Some(child) => held = Some(child),
            None if of.is_none_or(|of| of == entry.id()) => {
                held = Some(entry);
                // What stands behind the head belongs to the head. Behind an entry that was asked for it is no part of
                // the way.
                let remainders = std::mem::take(&mut passed);
                if of.is_none() {
                    behind = remainders;
                }
            }
            None => {}
        }
        if held.as_ref().is_some_and(|held| held.envelope().parent.is_none()) {
            break;
        }
    }
    match held.take() {
        Some(root) if root.envelope().seq == 0 && root.verifies(None) => {
            if hand_out(file, &mut behind, sink)?.is_continue() && sink(of_entry(root)).is_continue() {
                let _ = hand_out(file, &mut passed, sink)?;
            }
            Ok(Walk::Done)
        }
        _ => Ok(Walk::Lost(last)),
    }
}

fn hand_out(file: &File, passed: &mut Vec<Broken>, sink: Sink<'_>) -> io::Result<ControlFlow<()>> {
    for broken in passed.drain(..) {
        if sink(broken.read(file, Around::Gapless)?).is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    Ok(ControlFlow::Continue(()))
}

fn of_entry(entry: Entry) -> Read {
    Read { line: 0, item: Item::Entry(entry), newer: false }
}

/// Whether a file begins with a header. If not, its lines may be in any order.
fn begins_well(file: &File, locked: bool) -> io::Result<bool> {
    let mut bytes = Vec::new();
    let first = Lines::from(file, 0, 1, locked)?.next(&mut bytes)?;
    let Some(first) = first.filter(|first| !first.too_long) else { return Ok(false) };
    let found = pieces::of(&bytes, first.number == 1);
    Ok(found.rest.is_none()
        && found.entries.first().is_some_and(|piece| {
            let envelope = piece.entry.envelope();
            envelope.seq == 0 && envelope.kind == Kind::Header && piece.entry.verifies(None)
        }))
}

/// The length of a file when nobody is in the middle of appending to it.
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

/// The way back around damage: the whole file is looked at, and only what is handed out is loaded.
fn around(
    file: &File,
    of: Option<EntryId>,
    last: Option<Step>,
    locked: bool,
    sink: Sink<'_>,
) -> io::Result<bool> {
    let mut all: Vec<Passed> = Vec::new();
    let mut places: HashMap<EntryId, usize> = HashMap::new();
    let lines = Lines::from(file, 0, 1, locked)?;
    resolve::each(file, lines, Vec::new(), &mut Known::default(), &mut |resolved| {
        all.push(match resolved {
            Resolved::Entry(found, _) => {
                places.insert(found.id, all.len());
                Passed::Entry(found)
            }
            Resolved::Broken(broken, around) => Passed::Broken(broken, around),
            Resolved::Misspelled(line) => Passed::Misspelled(line),
        });
        Ok(ControlFlow::Continue(()))
    })?;
    let newest_below = |all: &[Passed], seq: u64| {
        all.iter().rposition(|passed| matches!(passed, Passed::Entry(other) if other.seq < seq))
    };
    // Where the entry stands that a step leads to. One that cannot be read is passed over.
    let parent_of = |step: Step, below: usize| {
        let known = step.parent.map(|parent| places.get(&parent).copied().filter(|place| *place < below));
        known.and_then(|known| known.or_else(|| newest_below(&all[..below], step.seq)))
    };
    // What comes next is the entry that is wanted; what stands before that is handed out on the way.
    let (mut at, mut wanted) = match (last, of) {
        (Some(last), _) => {
            let below =
                all.iter().position(|passed| matches!(passed, Passed::Entry(other) if other.seq >= last.seq));
            let below = below.unwrap_or(all.len());
            (below, parent_of(last, below))
        }
        (None, Some(of)) => match places.get(&of) {
            Some(place) => (*place + 1, Some(*place)),
            None => return Ok(false),
        },
        (None, None) => (all.len(), newest_below(&all, u64::MAX)),
    };
    loop {
        let until = wanted.map_or(0, |place| place + 1);
        for passed in all[until.min(at)..at].iter().rev() {
            let read = match passed {
                Passed::Entry(_) => continue,
                Passed::Broken(broken, around) => broken.read(file, *around)?,
                Passed::Misspelled(line) => misspelled(*line),
            };
            if sink(read).is_break() {
                return Ok(true);
            }
        }
        let Some((place, Passed::Entry(found))) = wanted.map(|place| (place, &all[place])) else {
            return Ok(true);
        };
        if let Some((entry, _)) = read::entry_at(file, found.range.clone())?
            && sink(Read { line: found.line, item: Item::Entry(entry), newer: false }).is_break()
        {
            return Ok(true);
        }
        at = place;
        wanted = parent_of(Step { seq: found.seq, parent: found.parent }, place);
    }
}

/// What a walk around damage passes.
enum Passed {
    Entry(Found),
    Broken(Broken, Around),
    Misspelled(u64),
}
