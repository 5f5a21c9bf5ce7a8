//! Reads a file from its beginning.
//!
//! While each line is an entry that continues the previous ones, entries are returned line by line. From the first other line on,
//! `resolve.rs` reads the rest of the file.

use std::{
    fs::File,
    io,
    ops::{ControlFlow, Range},
};

use rejoin_record::Entry;

use super::{
    files,
    known::{EntriesRead, Verdict},
    lines::{LineAt, Lines},
    pieces::{NonEntryBytes, Shape},
    resolve,
};
use crate::{
    scan,
    store::{Damage, StoragePlace, StoredItem},
};

/// An entry or damage that a reader returns.
#[derive(Debug)]
pub(super) struct Read {
    pub line: u64,
    pub item: StoredItem,
    /// Whether a newer version wrote it.
    pub newer: bool,
}

pub(super) type Sink<'s> = &'s mut dyn FnMut(Read) -> ControlFlow<()>;

/// The part of a file to read, and how.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    /// The first `seq` to return.
    pub from: u64,
    /// Whether the caller holds the file's lock.
    pub locked: bool,
}

/// Bytes on a line that cannot be used. They stay in the file until they are needed.
#[derive(Debug, Clone)]
pub(super) struct BrokenLine {
    pub line: u64,
    /// The positions of its pieces in the file.
    pub ranges: Vec<Range<u64>>,
    /// What is wrong.
    pub why: String,
    /// Whether they may be the remainder of a write that was cut off.
    pub remainder: Remainder,
    /// Whether a newer version wrote it.
    pub newer: bool,
    /// The entry that they would be with our version number. It is judged once everything before it is known.
    pub ours: Option<Box<Entry>>,
}

/// How surely bytes are the remainder of a write that was cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Remainder {
    /// They are one: they are at the end without a newline, or the next writer marked them.
    Surely,
    /// They are one if no entry is missing around them.
    IfGapless,
    /// They contain a hole of zeros, as after a power failure. They are a remainder if no entry is missing around them, and also at
    /// the end of the file: acknowledged entries were synced and have no holes.
    Hole,
    /// They are not one.
    No,
}

/// The entries around bytes that are not an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Neighbours {
    /// Entries without a gap between them.
    Gapless,
    /// Entries between which some are missing.
    Gap,
    /// No entry follows.
    End,
}

/// The text that is written before a newline to end a line that was cut off. No complete line ends like that, so the mark shows
/// that the line's content was never acknowledged.
pub(super) const MARK: &str = " ";

impl BrokenLine {
    /// Describes bytes on a line that also has `entries` entries.
    pub(super) fn new(at: LineAt, bytes: &[u8], rest: NonEntryBytes, entries: usize) -> Self {
        let isolated = !at.ended || bytes.ends_with(MARK.as_bytes());
        let remainder = match rest.shape {
            Shape::Complete => Remainder::No,
            // An append ends with a newline, so only zeros can follow a whole entry, and only once.
            Shape::Zeros if isolated && entries < 2 => Remainder::Surely,
            _ if entries > 0 => Remainder::No,
            _ if !isolated && has_hole(bytes) => Remainder::Hole,
            Shape::Zeros => Remainder::IfGapless,
            _ if isolated => Remainder::Surely,
            // An entry with a damaged quote looks cut off, too, but it still has its end.
            Shape::Cut if bytes.trim_ascii_end().last() != Some(&b'}') => Remainder::IfGapless,
            Shape::Cut | Shape::Other => Remainder::No,
        };
        let range = |range: Range<usize>| at.start + range.start as u64..at.start + range.end as u64;
        Self {
            line: at.number,
            ranges: rest.ranges.into_iter().map(range).collect(),
            why: rest.why,
            remainder,
            newer: rest.newer,
            ours: rest.ours,
        }
    }

    /// Decides whether a newer version wrote it. A flipped bit must not make a conversation read-only for this version.
    pub(super) fn settle(mut self, known: &EntriesRead) -> Self {
        if let Some(ours) = self.ours.take()
            && known.judge(&ours, false) == Verdict::Sure
        {
            self.newer = false;
            self.why = format!("entry {} has changed since it was appended: {}", ours.id(), self.why);
        }
        self
    }

    /// A line that is longer than any entry.
    pub(super) fn too_long(at: LineAt) -> Self {
        Self {
            line: at.number,
            ranges: Vec::new(),
            why: format!("{} bytes are more than a line may have", at.len),
            remainder: Remainder::No,
            newer: false,
            ours: None,
        }
    }

    /// The damage to report, with its bytes.
    pub(super) fn read(&self, file: &File, neighbours: Neighbours) -> io::Result<Read> {
        let torn = match self.remainder {
            Remainder::Surely => true,
            Remainder::IfGapless => neighbours == Neighbours::Gapless,
            Remainder::Hole => neighbours != Neighbours::Gap,
            Remainder::No => false,
        };
        let mut bytes = Vec::new();
        for range in &self.ranges {
            bytes.extend(files::read_at(file, range.start, (range.end - range.start) as usize)?);
        }
        let why = if torn { format!("a write that was cut off ({})", self.why) } else { self.why.clone() };
        let item = StoredItem::Damage(Damage { place: StoragePlace::Line(self.line), why, bytes, torn });
        Ok(Read { line: self.line, item, newer: self.newer })
    }
}

/// Whether a line has a run of zeros, which JSON never has.
fn has_hole(bytes: &[u8]) -> bool {
    const STRETCH: usize = 16;
    bytes.windows(STRETCH).any(|window| window.iter().all(|byte| *byte == 0))
}

/// The damage of a whole entry on a line that was changed.
pub(super) fn misspelled(line: u64) -> Read {
    let why = "the entry is whole, but the line is not as it was written";
    Read {
        line,
        item: StoredItem::Damage(Damage::at(StoragePlace::Line(line), why, Vec::new())),
        newer: false,
    }
}

/// Reads a file from its beginning, and passes everything from a `seq` on to the sink.
pub(super) fn read(file: &File, span: Span, sink: Sink<'_>) -> io::Result<()> {
    let mut known = EntriesRead::default();
    match plain(file, span, &mut known, sink)? {
        Some(rest) => resolve::resolve(file, span, rest, &mut known, sink),
        None => Ok(()),
    }
}

/// Files below this size, in bytes, are read by one thread. Tests cover both ways.
const SMALL: u64 = if cfg!(debug_assertions) { 2000 } else { 256 * 1024 };

/// Returns entries while every line is exactly as it was written. One thread reads the lines, another checks the hashes. Returns
/// the position and the number of the first other line; `None` if the sink stops.
fn plain(file: &File, span: Span, known: &mut EntriesRead, sink: Sink<'_>) -> io::Result<Option<(u64, u64)>> {
    let (mut next, mut stopped) = ((0, 1), false);
    let mut take = |(at, entry): (LineAt, Option<Entry>)| {
        let Some(entry) = entry.filter(|entry| known.goes_on_with(entry)) else {
            return ControlFlow::Break(());
        };
        next = (at.start + at.len + 1, at.number + 1);
        let wanted = known.expected() >= span.from;
        known.add(&entry, true);
        stopped =
            wanted && sink(Read { line: at.number, item: StoredItem::Entry(entry), newer: false }).is_break();
        if stopped { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let mut lines = Lines::from(file, 0, 1, span.locked)?;
    let mut read = |take: &mut dyn FnMut(_) -> ControlFlow<()>| -> io::Result<()> {
        let mut bytes = Vec::new();
        while let Some(at) = lines.next(&mut bytes)? {
            let entry = exact(at, &bytes);
            let is_last = entry.is_none();
            if take((at, entry)).is_break() || is_last {
                break;
            }
        }
        Ok(())
    };
    if file.metadata()?.len() < SMALL { read(&mut take) } else { scan::in_two_threads(read, &mut take) }?;
    Ok(if stopped { None } else { Some(next) })
}

/// The entry of a line that is written exactly as we write lines. Its hash is not checked here.
pub(super) fn exact(at: LineAt, bytes: &[u8]) -> Option<Entry> {
    if at.too_long || !at.ended {
        return None;
    }
    Entry::from_exact_line(std::str::from_utf8(bytes).ok()?)
}

/// Reads an entry at a position again. Also returns whether its line is exactly as we write it.
pub(super) fn entry_at(file: &File, range: Range<u64>) -> io::Result<Option<(Entry, bool)>> {
    let bytes = files::read_at(file, range.start, (range.end - range.start) as usize)?;
    let text = std::str::from_utf8(&bytes).ok();
    let entry = text.and_then(|text| Entry::from_line(text).ok());
    Ok(entry.map(|entry| {
        let exact = entry.to_line().as_bytes() == bytes;
        (entry, exact)
    }))
}
