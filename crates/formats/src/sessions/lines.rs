//! Files of lines, read as they come: one line in memory at a time, damage told apart from a torn end.

use std::sync::Arc;

use rejoin_record::{
    Text,
    json::{Doc, Kind, Scratch, Value},
    lines::Lines,
};
use rejoin_view::{Action, Finding, Position, Rule, Severity};

use crate::{
    input::{Input, InputError, Stream},
    session::{Place, ReadError, Session},
};

/// One line, or the part of one that is a JSON value by itself.
pub struct Line {
    /// Its text, without the line break.
    pub text: Arc<str>,
    /// Where it stands; its index is the number of its line from 0.
    pub place: Place,
}

/// What a reader of lines does with them.
pub trait LineReader {
    /// A line that holds one JSON value.
    fn value(&mut self, line: &Line, value: Value<'_>);
    /// A line that does not: it is set aside, with a finding.
    fn damaged(&mut self, line: &Line, finding: Finding);
    /// Something about the file that belongs to no line.
    fn found(&mut self, finding: Finding);
}

/// Reads a text as the file of lines that it is.
///
/// # Errors
/// Those of the reader.
pub fn of_text(
    input: &Input,
    read: fn(Stream<'_>) -> Result<Vec<Session>, ReadError>,
) -> Result<Vec<Session>, ReadError> {
    let mut source = input.text.as_bytes();
    let companions = input.companions.as_deref();
    let mut sessions = read(Stream { name: &input.name, source: &mut source, companions })?;
    // What was no text was replaced before the lines were looked at.
    if let (Some(at), Some(first)) = (input.replaced_at, sessions.first_mut()) {
        let at = Position { line: Some(input.line_of(at)), ..Position::default() };
        first.findings.insert(0, Finding::new(Rule::InvalidUtf8, at, Action::Replaced));
    }
    Ok(sessions)
}

/// Reads every line of a stream.
///
/// # Errors
/// If the stream cannot be read, or there is nothing in it.
pub fn read(stream: &mut Stream<'_>, reader: &mut impl LineReader) -> Result<(), ReadError> {
    let mut bytes = Vec::new();
    let mut anything = false;
    let mut scratch = Scratch::default();
    let mut lines = Lines::new(&mut *stream.source);
    while let Some(line_at) = lines.next(&mut bytes).map_err(ReadError::io)? {
        let mut place = Place {
            index: line_at.number as usize - 1,
            offset: line_at.start as usize,
            line: Some(line_at.number as usize),
        };
        if line_at.too_long {
            let length = line_at.len + u64::from(line_at.ended);
            let why = format!("{length} bytes are more than a line may have");
            let finding = Finding::new(Rule::DamagedEntry, at(place), Action::SetAside).because(why);
            reader.damaged(&Line { text: "".into(), place }, finding);
            continue;
        }
        let mut line = bytes.trim_ascii_end();
        if let Some(rest) = line.strip_prefix(b"\xef\xbb\xbf").filter(|_| place.index == 0) {
            line = rest;
            place.offset += 3;
        }
        // The line is the value and nothing else: spans count from its first byte.
        place.offset += line.len() - line.trim_ascii_start().len();
        line = line.trim_ascii_start();
        if line.is_empty() {
            continue;
        }
        anything = true;
        let text = match std::str::from_utf8(line) {
            Ok(text) => Arc::from(text),
            Err(_) => {
                reader.found(Finding::new(Rule::InvalidUtf8, at(place), Action::Replaced));
                Arc::from(String::from_utf8_lossy(line))
            }
        };
        scratch = one(&Line { text, place }, line_at.ended, scratch, reader);
    }
    if anything { Ok(()) } else { Err(InputError::Empty.into()) }
}

/// One line: usually one value. Two programs, or one that was killed and came back, may have left more on it.
fn one(line: &Line, ended: bool, scratch: Scratch, reader: &mut impl LineReader) -> Scratch {
    let text = &*line.text;
    let (doc, error) = Doc::parse_in(text, scratch);
    if error.is_none() {
        doc.root().into_iter().for_each(|root| reader.value(line, root));
    } else {
        several(line, ended, reader);
    }
    doc.into_scratch()
}

/// A line that is not one value.
fn several(line: &Line, ended: bool, reader: &mut impl LineReader) {
    let text = &*line.text;
    let mut at_byte = 0;
    let (mut values, mut damage) = (0, false);
    while !text[at_byte..].trim_start().is_empty() {
        let rest = &text[at_byte..];
        let (doc, error) = Doc::parse_prefix(rest);
        let whole = |root: &Value<'_>| !root.is_cut() && matches!(root.kind(), Kind::Object | Kind::Array);
        if let Some(root) = doc.root().filter(whole) {
            let piece =
                Line { text: Arc::from(root.raw()), place: shifted(line.place, at_byte + root.start()) };
            if let Ok(doc) = Doc::parse(&piece.text) {
                doc.root().into_iter().for_each(|root| reader.value(&piece, root));
            }
            at_byte += root.end();
            values += 1;
            continue;
        }
        damage = true;
        let next = whole_value_inside(rest);
        let damaged = rest[..next.unwrap_or(rest.len())].trim_end();
        let indent = damaged.len() - damaged.trim_start().len();
        let piece =
            Line { text: Arc::from(&damaged[indent..]), place: shifted(line.place, at_byte + indent) };
        // Only the end of the file can be torn.
        let rule = if next.is_none() && !ended { Rule::TornTail } else { Rule::DamagedEntry };
        let finding = Finding::new(rule, at(line.place), Action::SetAside);
        reader.damaged(&piece, error.map_or(finding.clone(), |error| finding.because(error.reason)));
        let Some(next) = next else { return };
        at_byte += next;
    }
    // The program that wrote it reads a line as one value, so it may not see the others.
    if values > 1 && !damage {
        let finding = Finding::new(Rule::DamagedEntry, at(line.place), Action::Kept);
        let finding = finding.because(format!("{values} values stand on one line; all of them were read"));
        reader.found(Finding { severity: Severity::Warning, ..finding });
    }
}

/// Where a whole value begins that was written behind one that was cut off: the program went on in the middle of a line.
fn whole_value_inside(text: &str) -> Option<usize> {
    /// What lines of the tools that write such files begin with.
    const BEGINNINGS: [&str; 5] =
        ["{\"timestamp\":", "{\"parentUuid\":", "{\"type\":\"", "{\"v\":\"", "{\"uuid\":"];
    /// What only such a line has, and nothing inside one.
    const OWN_FIELDS: [&str; 7] = ["payload", "items", "hash", "uuid", "sessionId", "leafUuid", "messageId"];
    /// Looking closer costs a read of the rest; more than this many look-alikes are not worth it.
    const LOOK_AT: usize = 16;
    BEGINNINGS.iter().find_map(|beginning| {
        let places = text.match_indices(beginning).map(|(at, _)| at).filter(|at| *at > 0);
        places.take(LOOK_AT).find(|at| {
            let (doc, error) = Doc::parse_prefix(&text[*at..]);
            doc.root().is_some_and(|root| {
                // What stands inside another value has its closing brackets behind it.
                let alone = error.is_none() || text[*at + root.end()..].trim_start().starts_with('{');
                alone && !root.is_cut() && OWN_FIELDS.iter().any(|name| root.get(name).is_some())
            })
        })
    })
}

fn shifted(place: Place, by: usize) -> Place {
    Place { offset: place.offset + by, ..place }
}

/// The position of a line that is no message.
#[must_use]
pub fn at(place: Place) -> Position {
    Position { line: place.line, ..Position::default() }
}

/// The text of a string field.
#[must_use]
pub fn text_of(value: Value<'_>, name: &str) -> Option<Text> {
    value.given(name)?.as_str().map(|text| Text::new(&*text))
}
