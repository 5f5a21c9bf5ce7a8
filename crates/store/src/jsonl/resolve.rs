//! Reads a file whose lines are out of order, repeated, changed or missing.
//!
//! First, the position of every line from some point on is collected, without content. Then the entries are read again in the order
//! of their `seq`, each is judged by the previous ones, and damage is returned at its place among them.

use std::{
    collections::HashMap,
    fs::File,
    io,
    ops::{ControlFlow, Range},
};

use rejoin_record::EntryId;

use super::{
    known::{EntriesRead, Verdict},
    lines::Lines,
    pieces,
    read::{BrokenLine, Neighbours, Read, Remainder, Sink, Span, entry_at, misspelled},
};
use crate::{scan, store::StoredItem};

/// A line with an entry that is not judged yet.
#[derive(Debug, Clone)]
struct EntryLine {
    line: u64,
    /// Its bytes in the file.
    range: Range<u64>,
    seq: u64,
    id: EntryId,
    /// Whether the line begins with it.
    leads: bool,
}

/// Returns the rest of a file, from a byte and a line on, in the order of the entries' numbers.
pub(super) fn resolve(
    file: &File,
    span: Span,
    (start, line): (u64, u64),
    known: &mut EntriesRead,
    sink: Sink<'_>,
) -> io::Result<()> {
    let LineContents { found, mut broken } = note(Lines::from(file, start, line, span.locked)?)?;
    let first = known.expected();
    // Whether the numbers before and after a position continue without a gap.
    let neighbours = |after: usize| {
        let before = after.checked_sub(1).map_or(first, |place| found[place].seq + 1);
        match found.get(after) {
            None => Neighbours::End,
            Some(next) if next.seq == before => Neighbours::Gapless,
            Some(_) => Neighbours::Gap,
        }
    };
    let mut order: Vec<usize> = (0..found.len()).collect();
    order.sort_by_key(|place| found[*place].seq);
    // Skip everything below `span.from`, both entries and damage.
    let mut next = first;
    let mut give =
        |number: u64, read: Read| if number < span.from { ControlFlow::Continue(()) } else { sink(read) };
    let mut last: Option<&EntryLine> = None;
    let mut said = false;
    // Each entry is followed by the damage after it in the file. Damage before the first entry comes first.
    for place in std::iter::once(None).chain(order.into_iter().map(Some)) {
        if let Some(one) = place.map(|place| &found[place]) {
            let mut reads = judge(file, one, known)?;
            if reads.iter().any(|read| matches!(read.item, StoredItem::Entry(_))) {
                if let Some(before) = last.filter(|last| !said && last.range.start > one.range.start) {
                    said = true;
                    let why = format!("the lines are out of order: {} stands before {}", one.seq, before.seq);
                    reads.push(
                        BrokenLine { ranges: Vec::new(), ..wrong(one, why) }.read(file, Neighbours::Gap)?,
                    );
                }
                (last, next) = (Some(one), one.seq + 1);
            }
            for read in reads {
                let number = if last.is_some_and(|last| last.id == one.id) { one.seq } else { next };
                if give(number, read).is_break() {
                    return Ok(());
                }
            }
        }
        let after = place.map_or(0, |place| place + 1);
        for one in broken.remove(&after).unwrap_or_default() {
            if give(next, one.settle(known).read(file, neighbours(after))?).is_break() {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// The contents of lines, without text.
struct LineContents {
    /// The entries, in the order of the file.
    found: Vec<EntryLine>,
    /// All other bytes, by the number of entries before them.
    broken: HashMap<usize, Vec<BrokenLine>>,
}

fn note(mut lines: Lines<'_>) -> io::Result<LineContents> {
    let mut found: Vec<EntryLine> = Vec::new();
    let mut broken: HashMap<usize, Vec<BrokenLine>> = HashMap::new();
    let mut bytes = Vec::new();
    while let Some(at) = lines.next(&mut bytes)? {
        if at.too_long {
            broken.entry(found.len()).or_default().push(BrokenLine::too_long(at));
            continue;
        }
        let pieces = pieces::of(&bytes, at.number == 1);
        let entries = pieces.entries.len();
        found.extend(pieces.entries.into_iter().map(|piece| {
            let envelope = piece.entry.envelope();
            EntryLine {
                line: at.number,
                range: at.start + piece.range.start as u64..at.start + piece.range.end as u64,
                seq: envelope.seq,
                id: envelope.id,
                leads: piece.leads,
            }
        }));
        if let Some(rest) = pieces.rest {
            broken.entry(found.len()).or_default().push(BrokenLine::new(at, &bytes, rest, entries));
        }
    }
    Ok(LineContents { found, broken })
}

/// Judges one entry by the previous ones. Returns the entry with any doubts, or the damage.
fn judge(file: &File, one: &EntryLine, known: &mut EntriesRead) -> io::Result<Vec<Read>> {
    let refused = |why| Ok(vec![wrong(one, why).read(file, Neighbours::Gap)?]);
    let Some((entry, exact)) = entry_at(file, one.range.clone())? else {
        return refused(String::from("it changed while it was read"));
    };
    if known.has(one.id) {
        return refused(format!("a second copy of entry {}", one.id));
    }
    let sure = match known.judge(&entry, one.leads) {
        Verdict::Wrong(why) => {
            known.claim(&entry);
            return refused(why);
        }
        verdict => verdict == Verdict::Sure,
    };
    known.add(&entry, sure);
    let mut reads = vec![Read { line: one.line, item: StoredItem::Entry(entry), newer: false }];
    if !sure {
        let doubt = BrokenLine { ranges: Vec::new(), ..wrong(one, scan::unproven(one.id)) };
        reads.push(doubt.read(file, Neighbours::Gap)?);
    }
    if !exact {
        reads.push(misspelled(one.line));
    }
    Ok(reads)
}

/// A line that looks like an entry but cannot be used as one.
fn wrong(one: &EntryLine, why: String) -> BrokenLine {
    BrokenLine {
        line: one.line,
        ranges: vec![one.range.clone()],
        why,
        remainder: Remainder::No,
        newer: false,
        ours: None,
    }
}
