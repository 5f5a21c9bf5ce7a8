//! Files of lines, read as they come: one line in memory at a time, damage told apart from a torn end.

use std::{
    io::{BufRead as _, Read as _},
    sync::Arc,
};

use rejoin_record::{
    Text,
    json::{Doc, Kind, SyntaxError, Value},
    limits,
};
use rejoin_view::{Action, Finding, Position, Rule};

use crate::{
    input::{InputError, Stream},
    session::{Place, ReadError},
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

/// Reads every line of a stream.
///
/// # Errors
/// If the stream cannot be read, or there is nothing in it.
pub fn read(stream: &mut Stream<'_>, reader: &mut impl LineReader) -> Result<(), ReadError> {
    let mut bytes = Vec::new();
    let mut place = Place { index: 0, offset: 0, line: Some(1) };
    let mut anything = false;
    loop {
        bytes.clear();
        let limit = limits::BODY_BYTES;
        let read =
            stream.source.take(limit as u64 + 1).read_until(b'\n', &mut bytes).map_err(ReadError::io)?;
        if read == 0 {
            break;
        }
        let mut length = read;
        if read > limit {
            length += stream.source.skip_until(b'\n').map_err(ReadError::io)?;
            let why = format!("{length} bytes are more than a line may have");
            let finding = Finding::new(Rule::DamagedEntry, at(place), Action::SetAside).because(why);
            reader.damaged(&Line { text: "".into(), place }, finding);
        } else {
            let ended = bytes.ends_with(b"\n");
            let mut line = bytes.trim_ascii_end();
            if place.index == 0 {
                line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
            }
            if !line.is_empty() {
                anything = true;
                let text = match std::str::from_utf8(line) {
                    Ok(text) => Arc::from(text),
                    Err(_) => {
                        reader.found(Finding::new(Rule::InvalidUtf8, at(place), Action::Replaced));
                        Arc::from(String::from_utf8_lossy(line))
                    }
                };
                one(&Line { text, place }, ended, reader);
            }
        }
        place = Place {
            index: place.index + 1,
            offset: place.offset + length,
            line: place.line.map(|line| line + 1),
        };
    }
    if anything { Ok(()) } else { Err(InputError::Empty.into()) }
}

/// One line: usually one value. A write that was cut off and the next one behind it may share it.
fn one(line: &Line, ended: bool, reader: &mut impl LineReader) {
    match Doc::parse(&line.text) {
        Ok(doc) => {
            if let Some(root) = doc.root() {
                reader.value(line, root);
            }
        }
        Err(error) => glued(line, ended, error, reader),
    }
}

/// Two writes on one line: the first may be cut, the last may be whole.
fn glued(line: &Line, ended: bool, error: SyntaxError, reader: &mut impl LineReader) {
    let text = &*line.text;
    // Nobody writes this inside a value: quotes would be escaped there.
    let mut cuts: Vec<usize> = vec![0];
    cuts.extend(text.match_indices("{\"").map(|(at, _)| at).filter(|at| *at > 0 && follows_a_cut(text, *at)));
    let mut start = 0;
    let mut torn_end = true;
    for (number, cut) in cuts.iter().enumerate().skip(1) {
        let end = cuts.get(number + 1).copied().unwrap_or(text.len());
        let piece = text[*cut..end].trim_end();
        let whole =
            Doc::parse(piece).is_ok_and(|doc| doc.root().is_some_and(|root| root.kind() == Kind::Object));
        if whole {
            tell(line, start, *cut, false, error, reader);
            let piece = Line { text: Arc::from(piece), place: line.place };
            if let Ok(doc) = Doc::parse(&piece.text)
                && let Some(root) = doc.root()
            {
                reader.value(&piece, root);
            }
            start = end;
            torn_end = end < text.len();
        }
    }
    if start == 0 || torn_end {
        tell(line, start, text.len(), !ended, error, reader);
    }
}

/// Whether an object that begins here could be a write of its own.
fn follows_a_cut(text: &str, at: usize) -> bool {
    let rest = &text[at..];
    ["{\"timestamp\"", "{\"type\"", "{\"parentUuid\"", "{\"uuid\"", "{\"id\"", "{\"v\""]
        .iter()
        .any(|opening| rest.starts_with(opening))
        && !matches!(text.as_bytes()[at - 1], b':' | b',' | b'[')
}

/// Reports a piece of a line that is no value, or one that is.
fn tell(line: &Line, start: usize, end: usize, torn: bool, error: SyntaxError, reader: &mut impl LineReader) {
    let piece = line.text[start..end].trim();
    if piece.is_empty() {
        return;
    }
    let line = Line { text: Arc::from(piece), place: line.place };
    if let Ok(doc) = Doc::parse(&line.text)
        && let Some(root) = doc.root().filter(|root| root.kind() == Kind::Object)
    {
        reader.value(&line, root);
        return;
    }
    let rule = if torn { Rule::TornTail } else { Rule::DamagedEntry };
    reader.damaged(&line, Finding::new(rule, at(line.place), Action::SetAside).because(error.reason));
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
