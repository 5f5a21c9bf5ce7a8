//! Reads single entries and the end of a file without reading all of it.
//!
//! In a sound file the lines are ordered by `seq`, so a line is found by binary search. Each entry is verified by the hash of its
//! parent, which is on the previous line or was read already. If any check fails, the caller must read the whole file.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, BufRead as _, BufReader, Seek as _, SeekFrom},
};

use rejoin_record::Entry;

use super::{
    known::{EntriesRead, Verdict},
    lines::Lines,
    read::exact,
};
use crate::store::{OnItem, PartRead, Selection, StoredItem};

/// Below this many bytes, lines are read one after another.
const NEAR: u64 = 1 << 14;

/// Reads a part of a conversation.
pub(super) fn read(
    file: &File,
    Selection { earlier, from }: Selection<'_>,
    each: OnItem<'_>,
) -> io::Result<PartRead> {
    let mut known = EntriesRead::default();
    let mut search = Search::new(file)?;
    for seq in earlier {
        let Some((_, entry)) = search.entry(*seq, &mut known)? else { return Ok(PartRead::Impossible) };
        known.add(&entry, true);
        if each(StoredItem::Entry(entry)).is_break() {
            return Ok(PartRead::Done);
        }
    }
    let Some((start, entry)) = search.entry(from, &mut known)? else { return Ok(PartRead::Impossible) };
    let mut next = from;
    let mut lines = Lines::from(file, start, 1, false)?;
    let mut bytes = Vec::new();
    let mut first = Some(entry);
    while let Some(at) = lines.next(&mut bytes)? {
        // The first entry is already verified.
        let entry = match first.take() {
            Some(entry) => Some(entry),
            None => exact(at, &bytes).filter(|entry| known.judge(entry, true) == Verdict::Sure),
        };
        let Some(entry) = entry.filter(|entry| entry.envelope().seq == next && !known.has(entry.id())) else {
            return Ok(PartRead::Impossible);
        };
        known.add(&entry, true);
        next += 1;
        if each(StoredItem::Entry(entry)).is_break() {
            break;
        }
    }
    Ok(PartRead::Done)
}

/// A search for lines.
struct Search<'f> {
    file: &'f File,
    length: u64,
    /// The positions of lines that were seen, by their `seq`.
    seen: BTreeMap<u64, u64>,
    /// How many more bytes may be read. Beyond that, reading the whole file costs as much.
    budget: u64,
}

impl<'f> Search<'f> {
    fn new(file: &'f File) -> io::Result<Self> {
        let length = file.metadata()?.len();
        Ok(Self { file, length, seen: BTreeMap::new(), budget: length })
    }

    /// The entry with a `seq`, verified, and the position of its line. `None` if it is missing, cannot be verified, or takes too
    /// long to find.
    fn entry(&mut self, seq: u64, known: &mut EntriesRead) -> io::Result<Option<(u64, Entry)>> {
        let Some(start) = self.line(seq.saturating_sub(1))? else { return Ok(None) };
        let mut lines = Lines::from(self.file, start, 1, false)?;
        let mut bytes = Vec::new();
        while let Some(at) = lines.next(&mut bytes)? {
            let Some(entry) = exact(at, &bytes) else { break };
            if entry.envelope().seq == seq {
                self.seen.insert(seq, at.start);
                let is_sound = known.judge(&entry, true) == Verdict::Sure;
                return Ok(is_sound.then_some((at.start, entry)));
            }
            // Remember the hash on the previous line: the next entry was sealed onto it.
            known.claim(&entry);
        }
        Ok(None)
    }

    /// The position of the line with a `seq`.
    fn line(&mut self, seq: u64) -> io::Result<Option<u64>> {
        let mut low = self.seen.range(..=seq).next_back().map_or(0, |(_, start)| *start);
        let mut high = self.seen.range(seq + 1..).next().map_or(self.length, |(_, start)| *start);
        while high > low + NEAR {
            let middle = low + (high - low) / 2;
            match self.line_after(middle)? {
                Some((start, found)) if start < high => {
                    let Some(found) = found else { return Ok(None) };
                    if found <= seq {
                        low = start;
                    } else {
                        high = middle;
                    }
                }
                _ => high = middle,
            }
            if self.budget == 0 {
                return Ok(None);
            }
        }
        let mut lines = Lines::from(self.file, low, 1, false)?;
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

    /// The position of the first line that begins after `position`, and its `seq` if it is an entry.
    fn line_after(&mut self, position: u64) -> io::Result<Option<(u64, Option<u64>)>> {
        let mut file = self.file;
        file.seek(SeekFrom::Start(position))?;
        let skipped = BufReader::new(file).skip_until(b'\n')? as u64;
        let mut lines = Lines::from(file, position + skipped, 1, false)?;
        let mut bytes = Vec::new();
        let line = lines.next(&mut bytes)?;
        self.budget = self.budget.saturating_sub(skipped + bytes.len() as u64);
        Ok(line.map(|at| {
            let seq = exact(at, &bytes).map(|entry| entry.envelope().seq);
            self.seen.extend(seq.map(|seq| (seq, at.start)));
            (at.start, seq)
        }))
    }
}
