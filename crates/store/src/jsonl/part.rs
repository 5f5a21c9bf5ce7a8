//! Reads single entries and the end of a file without reading all of it.
//!
//! In a sound file the lines are in the order of their `seq`, so a line is found by halving. Each entry is verified by the hash of its
//! parent, which is on the line before it, or was read already. Where anything is not as it was written, one piece of damage is
//! handed out, and the caller reads the whole file.

use std::{
    fs::File,
    io::{self, BufRead as _, BufReader, Seek as _, SeekFrom},
    ops::ControlFlow,
};

use rejoin_record::Entry;

use super::{
    known::{Known, Verdict},
    lines::Lines,
    read::exact,
};
use crate::store::{Damage, Each, Item, Place, Selected};

/// Below this many bytes, lines are read one after the other.
const NEAR: u64 = 1 << 14;

/// Reads a part of a conversation.
pub(super) fn read(file: &File, Selected { earlier, from }: Selected<'_>, each: Each<'_>) -> io::Result<()> {
    let mut known = Known::default();
    let mut low = 0;
    for seq in earlier {
        let found = found(file, low, *seq, &mut known)?;
        let Some((start, entry)) = found else { return give_up(*seq, each) };
        low = start;
        known.add(&entry, true);
        if each(Item::Entry(entry)).is_break() {
            return Ok(());
        }
    }
    let Some((start, entry)) = found(file, low, from, &mut known)? else { return give_up(from, each) };
    let mut next = from;
    let mut lines = Lines::from(file, start, 1, false)?;
    let mut bytes = Vec::new();
    let mut first = Some(entry);
    while let Some(at) = lines.next(&mut bytes)? {
        // The first was verified already.
        let entry = match first.take() {
            Some(entry) => Some(entry),
            None => exact(at, &bytes).filter(|entry| known.judge(entry, true) == Verdict::Sure),
        };
        let Some(entry) = entry.filter(|entry| entry.envelope().seq == next && !known.has(entry.id())) else {
            return give_up(next, each);
        };
        known.add(&entry, true);
        next += 1;
        if each(Item::Entry(entry)).is_break() {
            break;
        }
    }
    Ok(())
}

/// Says that something is not as it was written.
fn give_up(seq: u64, each: Each<'_>) -> io::Result<()> {
    let damage = Damage::at(Place::Line(seq + 1), "the file has to be read as a whole", Vec::new());
    let _: ControlFlow<()> = each(Item::Damage(damage));
    Ok(())
}

/// The entry with a `seq`, verified, and where its line begins. None if it is not there, or cannot be verified.
fn found(file: &File, low: u64, seq: u64, known: &mut Known) -> io::Result<Option<(u64, Entry)>> {
    let Some(start) = search(file, low, seq.saturating_sub(1))? else { return Ok(None) };
    let mut lines = Lines::from(file, start, 1, false)?;
    let mut bytes = Vec::new();
    while let Some(at) = lines.next(&mut bytes)? {
        let Some(entry) = exact(at, &bytes) else { break };
        if entry.envelope().seq == seq {
            let is_sound = known.judge(&entry, true) == Verdict::Sure;
            return Ok(is_sound.then_some((at.start, entry)));
        }
        // The line before: its hash is what the next one was sealed onto.
        known.claim(&entry);
    }
    Ok(None)
}

/// Where the line with a `seq` begins. The line at `low` has no higher one.
fn search(file: &File, mut low: u64, seq: u64) -> io::Result<Option<u64>> {
    let mut high = file.metadata()?.len();
    while high > low + NEAR {
        let middle = low + (high - low) / 2;
        match line_after(file, middle)? {
            Some((start, found)) if start < high => match found {
                Some(found) if found <= seq => low = start,
                Some(_) => high = middle,
                None => return Ok(None),
            },
            _ => high = middle,
        }
    }
    let mut lines = Lines::from(file, low, 1, false)?;
    let mut bytes = Vec::new();
    while let Some(at) = lines.next(&mut bytes)? {
        match exact(at, &bytes).map(|entry| entry.envelope().seq) {
            Some(found) if found == seq => return Ok(Some(at.start)),
            Some(found) if found < seq => {}
            _ => break,
        }
    }
    Ok(None)
}

/// The first line that begins after a position, with its `seq` if it is an entry.
fn line_after(mut file: &File, position: u64) -> io::Result<Option<(u64, Option<u64>)>> {
    file.seek(SeekFrom::Start(position))?;
    let mut reader = BufReader::new(file);
    let skipped = reader.skip_until(b'\n')?;
    let mut lines = Lines::from(file, position + skipped as u64, 1, false)?;
    let mut bytes = Vec::new();
    let line = lines.next(&mut bytes)?;
    Ok(line.map(|at| (at.start, exact(at, &bytes).map(|entry| entry.envelope().seq))))
}
