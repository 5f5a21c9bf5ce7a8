//! The contents of a line: usually one entry. After a crash or a fault it may be several, none, or other bytes.

use std::ops::Range;

use rejoin_record::{
    Entry,
    entry::{EntryError, VERSION},
    json::{Doc, ValueKind},
};

/// How every entry begins.
const BEGINNING: &[u8] = b"{\"v\":\"";

/// The contents of a line.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    /// The entries, in order. None of them is verified.
    pub entries: Vec<Piece>,
    /// All other bytes on the line.
    pub rest: Option<NonEntryBytes>,
}

/// An entry on a line.
#[derive(Debug)]
pub(super) struct Piece {
    pub entry: Entry,
    /// Its position on the line.
    pub range: Range<usize>,
    /// Whether the line begins with it.
    pub leads: bool,
}

/// Bytes on a line that are not an entry.
#[derive(Debug, Clone)]
pub(super) struct NonEntryBytes {
    /// Why they are not an entry.
    pub why: String,
    /// What the bytes look like.
    pub shape: Shape,
    /// Their positions on the line.
    pub ranges: Vec<Range<usize>>,
    /// Whether they claim that a newer version wrote them.
    pub newer: bool,
    /// The entry that they would be with our version number.
    pub ours: Option<Box<Entry>>,
}

/// What bytes that are not an entry look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// The beginning of a value, as a write that was cut off leaves it.
    Cut,
    /// Zeros, as some file systems leave them after a crash.
    Zeros,
    /// A complete value.
    Complete,
    /// Anything else.
    Other,
}

pub(super) fn of(line: &[u8], is_first: bool) -> Pieces {
    let within = trimmed(line, is_first);
    let bytes = &line[within.clone()];
    if bytes.is_empty() {
        return Pieces::default();
    }
    let (why, shape, newer) = match std::str::from_utf8(bytes) {
        Ok(text) => match Entry::from_line(text) {
            Ok(entry) => {
                let piece = Piece { entry, range: within, leads: true };
                return Pieces { entries: vec![piece], rest: None };
            }
            Err(EntryError::NotJson(error)) => {
                let shape = if is_zeros(bytes) {
                    Shape::Zeros
                } else if is_cut(text.trim_end_matches('\0')) {
                    Shape::Cut
                } else {
                    Shape::Other
                };
                (EntryError::NotJson(error).to_string(), shape, false)
            }
            Err(why) => {
                let newer = matches!(why, EntryError::NewerMajor(_));
                (why.to_string(), Shape::Complete, newer)
            }
        },
        Err(error) => {
            // A write may be cut off in the middle of a character.
            let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |place| place + 1);
            let cut = match std::str::from_utf8(&bytes[..end]) {
                Err(error) if error.error_len().is_none() => {
                    std::str::from_utf8(&bytes[..error.valid_up_to()]).is_ok_and(is_cut)
                }
                _ => false,
            };
            let shape = if cut { Shape::Cut } else { Shape::Other };
            (format!("no text at byte {}", error.valid_up_to()), shape, false)
        }
    };
    if shape == Shape::Complete {
        let ours = if newer { std::str::from_utf8(bytes).ok().and_then(as_ours) } else { None };
        let rest = NonEntryBytes { why, shape, ranges: vec![within], newer, ours };
        return Pieces { entries: Vec::new(), rest: Some(rest) };
    }
    several(line, within, NonEntryBytes { why, shape, ranges: Vec::new(), newer, ours: None })
}

/// The entry that a line would be with our version number.
fn as_ours(text: &str) -> Option<Box<Entry>> {
    let beginning = std::str::from_utf8(BEGINNING).ok()?;
    let (_, rest) = text.strip_prefix(beginning)?.split_once('"')?;
    Entry::from_line(&format!("{beginning}{VERSION}\"{rest}")).ok().map(Box::new)
}

/// The part of a line without a byte order mark and without white space around it.
fn trimmed(line: &[u8], is_first: bool) -> Range<usize> {
    let mark = if is_first && line.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
    let rest = &line[mark..];
    let start = mark + (rest.len() - rest.trim_ascii_start().len());
    let end = start + line[start..].trim_ascii_end().len();
    start..end
}

fn is_zeros(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| matches!(byte, 0 | b' '))
}

/// Whether a text is an incomplete JSON value.
fn is_cut(text: &str) -> bool {
    let (_, error) = Doc::parse_prefix(text);
    let Some(rest) = error.and_then(|error| text.get(error.offset..)) else { return false };
    rest.is_empty()
        || is_open_string(rest)
        || ["true", "false", "null"].iter().any(|word| word.starts_with(rest))
        || is_open_number(text, rest)
}

/// Whether a text ends in an incomplete number: one more digit makes it valid.
fn is_open_number(text: &str, rest: &str) -> bool {
    rest.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E')) && {
        let longer = format!("{text}0");
        Doc::parse_prefix(&longer).1.is_none_or(|error| error.offset == longer.len())
    }
}

/// Whether a text begins with a string that has no end.
fn is_open_string(text: &str) -> bool {
    let Some(inside) = text.strip_prefix('"') else { return false };
    let mut escaped = false;
    for byte in inside.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return false,
            _ => {}
        }
    }
    true
}

/// Finds the entries on a line that is not exactly one entry.
fn several(line: &[u8], within: Range<usize>, mut rest: NonEntryBytes) -> Pieces {
    let mut entries: Vec<Piece> = Vec::new();
    // Each attempt to parse an entry may reach the end of the line, so the attempts share a budget of bytes.
    let mut budget = (line.len() as u64) * 8 + 4096;
    let mut base = within.start;
    for chunk in line[within.clone()].utf8_chunks() {
        let text = chunk.valid();
        let mut at = 0;
        while let Some(found) = find(&text.as_bytes()[at..], BEGINNING) {
            let start = at + found;
            let (doc, error) = Doc::parse_prefix(&text[start..]);
            let root = doc.root().filter(|root| !root.is_cut() && root.kind() == ValueKind::Object);
            let read = match (&root, error) {
                (Some(root), _) => root.end(),
                (None, Some(error)) if !is_open_string(text.get(start + error.offset..).unwrap_or("")) => {
                    error.offset
                }
                _ => text.len() - start,
            };
            budget = budget.saturating_sub(read as u64 + BEGINNING.len() as u64);
            at = start + BEGINNING.len();
            if let Some(root) = root {
                let range = start + root.start()..start + root.end();
                if let Ok(entry) = Entry::from_line(&text[range.clone()]) {
                    at = range.end;
                    let range = base + range.start..base + range.end;
                    let leads = range.start == within.start;
                    entries.push(Piece { entry, range, leads });
                }
            }
            if budget == 0 {
                break;
            }
        }
        base += text.len() + chunk.invalid().len();
    }
    let mut at = within.start;
    let ends = entries.iter().map(|piece| (piece.range.start, piece.range.end));
    for (start, end) in ends.chain([(within.end, within.end)]) {
        let between = trimmed(&line[at..start], false);
        if !between.is_empty() {
            rest.ranges.push(at + between.start..at + between.end);
        }
        at = end;
    }
    if !entries.is_empty() {
        let count = entries.len();
        let zeros = !rest.ranges.is_empty() && rest.ranges.iter().all(|range| is_zeros(&line[range.clone()]));
        rest.shape = if zeros { Shape::Zeros } else { Shape::Other };
        rest.why = match (count, rest.ranges.is_empty()) {
            (_, true) => format!("{count} entries share one line"),
            (1, false) => String::from("a line holds an entry and something else"),
            (_, false) => format!("{count} entries share one line with something else"),
        };
    }
    Pieces { entries, rest: Some(rest) }
}

/// The first position of some bytes in others.
pub(super) fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    let first = *what.first()?;
    let mut at = 0;
    while let Some(place) = bytes[at..].iter().position(|byte| *byte == first) {
        at += place;
        if bytes[at..].starts_with(what) {
            return Some(at);
        }
        at += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_beginning_of_a_value_is_cut() {
        let value = r#"{"a":[true,false,null,-1.5e+7,"x\"\\y\u00e9",{}],"b":{"c":"é"}}"#;
        for end in (1..value.len()).filter(|end| value.is_char_boundary(*end)) {
            assert!(is_cut(&value[..end]), "{}", &value[..end]);
        }
        assert!(!is_cut(value));
        for other in ["x", "{\"a\" 1", "{} {", "{]", "{\"a\":tru}"] {
            assert!(!is_cut(other), "{other}");
        }
    }

    #[test]
    fn a_line_of_beginnings_costs_no_more_than_its_length() {
        // Each of them could reach to the end of the line.
        let line = "{\"v\":\"a\",\"b\":[".repeat(40_000);
        let started = std::time::Instant::now();
        let pieces = of(line.as_bytes(), false);
        assert!(pieces.entries.is_empty() && pieces.rest.is_some());
        assert!(started.elapsed().as_secs() < 20, "{:?}", started.elapsed());
    }
}
