//! Finding out what a file holds that is not simply one entry after the other: lines out of order, twice, changed or missing.
//!
//! All lines from some place on are noted first, without their content. Then the entries are read again in the order of their
//! numbers, each is judged by those before it, and what is wrong is handed out where it stands among them.

use std::{
    collections::HashMap,
    fs::File,
    io,
    ops::{ControlFlow, Range},
};

use rejoin_record::{Entry, EntryId};

use super::{
    known::{Known, Verdict},
    lines::{LineAt, Lines},
    pieces,
    read::{Around, Broken, Read, Remainder, Sink, Span, entry_at, misspelled},
};
use crate::{scan, store::Item};

/// A line that holds an entry, as far as can be seen without judging it.
#[derive(Debug, Clone)]
pub(super) struct Found {
    /// The line.
    pub line: u64,
    /// Where in the file it is.
    pub range: Range<u64>,
    /// Its number.
    pub seq: u64,
    /// Its id.
    pub id: EntryId,
    /// What it follows.
    pub parent: Option<EntryId>,
    leads: bool,
}

/// Something that was found out.
#[derive(Debug)]
pub(super) enum Resolved {
    /// An entry.
    Entry(Found, Box<Entry>),
    /// Something that is none, and whether nothing is missing around it.
    Broken(Broken, Around),
    /// The line of an entry that is not written as we write lines.
    Misspelled(u64),
}

/// What findings are handed out to.
type Findings<'s> = &'s mut dyn FnMut(Resolved) -> io::Result<ControlFlow<()>>;

/// Hands out the rest of a file, from a line on. What was passed over just before it is `pending`.
pub(super) fn resolve(
    file: &File,
    span: Span,
    from: LineAt,
    pending: Vec<Broken>,
    known: &mut Known,
    sink: Sink<'_>,
) -> io::Result<()> {
    let mut next = known.expected();
    let rest = Lines::from(file, from.start, from.number, span.locked)?;
    each(file, rest, pending, known, &mut |resolved| {
        let (number, read) = match resolved {
            Resolved::Entry(found, entry) => {
                next = found.seq + 1;
                (found.seq, Read { line: found.line, item: Item::Entry(*entry), newer: false })
            }
            Resolved::Broken(broken, around) => (next, broken.read(file, around)?),
            Resolved::Misspelled(line) => (next.saturating_sub(1), misspelled(line)),
        };
        Ok(if number < span.from { ControlFlow::Continue(()) } else { sink(read) })
    })
}

/// Finds out about lines, in the order of the entries' numbers.
pub(super) fn each(
    file: &File,
    lines: Lines<'_>,
    pending: Vec<Broken>,
    known: &mut Known,
    sink: Findings<'_>,
) -> io::Result<()> {
    let Index { found, mut broken } = index(lines, pending)?;
    let first = known.expected();
    // Whether the numbers before and behind something go on without a gap.
    let around = |after: usize| {
        let before = after.checked_sub(1).map_or(first, |place| found[place].seq + 1);
        match found.get(after) {
            None => Around::End,
            Some(next) if next.seq == before => Around::Gapless,
            Some(_) => Around::Gap,
        }
    };
    let mut order: Vec<usize> = (0..found.len()).collect();
    order.sort_by_key(|place| found[*place].seq);
    let mut last: Option<&Found> = None;
    let mut said = false;
    // Each entry takes along what stands behind it in the file; before the first there is only what stands there.
    for place in std::iter::once(None).chain(order.into_iter().map(Some)) {
        if let Some(one) = place.map(|place| &found[place]) {
            let mut accepted = false;
            for resolved in judge(file, one, known)? {
                accepted |= matches!(resolved, Resolved::Entry(..));
                if sink(resolved)?.is_break() {
                    return Ok(());
                }
            }
            if let Some(before) = last.filter(|last| accepted && !said && last.range.start > one.range.start)
            {
                said = true;
                let why = format!("the lines are out of order: {} stands before {}", one.seq, before.seq);
                let notice = Broken { ranges: Vec::new(), ..wrong(one, why) };
                if sink(Resolved::Broken(notice, Around::Gap))?.is_break() {
                    return Ok(());
                }
            }
            if accepted {
                last = Some(one);
            }
        }
        let after = place.map_or(0, |place| place + 1);
        for one in broken.remove(&after).unwrap_or_default() {
            if sink(Resolved::Broken(one.settle(known), around(after)))?.is_break() {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// What stands on lines, without its content.
struct Index {
    /// The entries, in the order of the file.
    found: Vec<Found>,
    /// What else there is, by how many entries stand before it.
    broken: HashMap<usize, Vec<Broken>>,
}

/// Notes what stands on lines.
fn index(mut lines: Lines<'_>, pending: Vec<Broken>) -> io::Result<Index> {
    let mut found: Vec<Found> = Vec::new();
    let mut broken = HashMap::from([(0, pending)]);
    let mut bytes = Vec::new();
    while let Some(at) = lines.next(&mut bytes)? {
        if at.too_long {
            broken.entry(found.len()).or_default().push(Broken::too_long(at));
            continue;
        }
        let pieces = pieces::of(&bytes, at.number == 1);
        let entries = pieces.entries.len();
        found.extend(pieces.entries.into_iter().map(|piece| {
            let envelope = piece.entry.envelope();
            Found {
                line: at.number,
                range: at.start + piece.range.start as u64..at.start + piece.range.end as u64,
                seq: envelope.seq,
                id: envelope.id,
                parent: envelope.parent,
                leads: piece.leads,
            }
        }));
        if let Some(rest) = pieces.rest {
            broken.entry(found.len()).or_default().push(Broken::new(at, &bytes, rest, entries));
        }
    }
    Ok(Index { found, broken })
}

/// Judges one entry by those before it.
fn judge(file: &File, one: &Found, known: &mut Known) -> io::Result<Vec<Resolved>> {
    let broken = |why| vec![Resolved::Broken(wrong(one, why), Around::Gap)];
    let Some((entry, exact)) = entry_at(file, one.range.clone())? else {
        return Ok(broken(String::from("it changed while it was read")));
    };
    if known.has(one.id) {
        return Ok(broken(format!("a second copy of entry {}", one.id)));
    }
    let sure = match known.judge(&entry, one.leads) {
        Verdict::Wrong(why) => {
            known.claim(&entry);
            return Ok(broken(why));
        }
        verdict => verdict == Verdict::Sure,
    };
    known.add(&entry, sure);
    let doubt = Broken { ranges: Vec::new(), ..wrong(one, scan::unproven(entry.id())) };
    let mut resolved = vec![Resolved::Entry(one.clone(), Box::new(entry))];
    if !sure {
        resolved.push(Resolved::Broken(doubt, Around::Gap));
    }
    if !exact {
        resolved.push(Resolved::Misspelled(one.line));
    }
    Ok(resolved)
}

/// A line that looks like an entry and cannot be used as one.
fn wrong(one: &Found, why: String) -> Broken {
    Broken {
        line: one.line,
        ranges: vec![one.range.clone()],
        why,
        remainder: Remainder::No,
        newer: false,
        ours: None,
    }
}
