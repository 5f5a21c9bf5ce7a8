//! Reads files of lines with a few lines in memory at a time, and distinguishes damage from a torn end.

use std::{
    io::BufRead,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
};

use rejoin_record::{
    Text,
    json::{Doc, Layout, SyntaxError, Value, ValueKind},
    lines::{LineAt, Lines},
};
use rejoin_view::{Action, Finding, Position, Rule, Severity};

use crate::{
    input::{Input, InputError, Stream},
    session::{ReadError, Session, SourcePlace, replaced_bytes},
};

/// Reports a line that repeats an earlier one, id and all.
pub(crate) fn doubled(place: SourcePlace, action: Action, id: &str) -> Finding {
    Finding::new(Rule::DoubledEntry, at(place), action).about(id)
}

/// One line, or the part of one that is a JSON value by itself.
pub struct Line {
    /// Its text, without the line break.
    pub text: Arc<str>,
    /// Its place; the index is the number of its line, from 0.
    pub place: SourcePlace,
}

/// A reader of the lines of one format.
pub trait LineReader {
    /// Takes a line with one JSON value.
    fn value(&mut self, line: &Line, value: Value<'_>);
    /// Takes a line that cannot be read, to set it aside with the finding.
    fn damaged(&mut self, line: &Line, finding: Finding);
    /// Takes a finding about the file.
    fn found(&mut self, finding: Finding);
}

/// Reads a text as a file of lines.
pub fn of_text(
    input: &Input,
    read: fn(Stream<'_>) -> Result<Vec<Session>, ReadError>,
) -> Result<Vec<Session>, ReadError> {
    let mut source = input.text.as_bytes();
    let companions = input.companions.as_deref();
    let mut sessions = read(Stream { name: &input.name, source: &mut source, companions })?;
    // Bytes that are not text were replaced before the lines were read.
    if let Some(first) = sessions.first_mut() {
        first.findings.splice(0..0, replaced_bytes(input));
    }
    Ok(sessions)
}

/// Where in a file a line begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineStart {
    /// The offset of its first byte.
    pub offset: u64,
    /// Its number, from 1.
    pub number: u64,
}

impl LineStart {
    /// The first line of a file.
    pub const FIRST: Self = Self { offset: 0, number: 1 };
}

/// Reads every line of a stream in order. In a long stream, a second thread reads and parses ahead of the reader.
pub fn read(stream: &mut Stream<'_>, reader: &mut impl LineReader) -> Result<(), ReadError> {
    read_made(stream, reader, |_, _| None::<()>, |_, ()| {})
}

/// The same for a stream that begins with a later line of its file. Returns where the line after its last one begins.
pub fn read_on(
    stream: &mut Stream<'_>,
    start: LineStart,
    reader: &mut impl LineReader,
) -> Result<LineStart, ReadError> {
    let mut batches = Batches::from(&mut *stream.source, start)?;
    read_batches(&mut batches, reader, |_, _| None::<()>, |_, ()| {})?;
    let (offset, number) = batches.lines.position();
    Ok(LineStart { offset, number })
}

/// The same for a format some of whose lines are whole by themselves: what `make` makes of them, in the thread that parses them, is
/// handed to `take_made`. All other lines go to the reader.
pub fn read_made<R: LineReader, M: Send>(
    stream: &mut Stream<'_>,
    reader: &mut R,
    make: impl Fn(&Line, Value<'_>) -> Option<M> + Sync,
    take_made: impl Fn(&mut R, M),
) -> Result<(), ReadError> {
    let mut batches = Batches::from(&mut *stream.source, LineStart::FIRST)?;
    if read_batches(&mut batches, reader, make, take_made)? { Ok(()) } else { Err(InputError::Empty.into()) }
}

/// Reads every line of some batches. False if none of them could be read.
fn read_batches<R: LineReader, M: Send>(
    batches: &mut Batches<'_>,
    reader: &mut R,
    make: impl Fn(&Line, Value<'_>) -> Option<M> + Sync,
    take_made: impl Fn(&mut R, M),
) -> Result<bool, ReadError> {
    let mut anything = false;
    let mut buffer = String::new();
    let mut take = |parsed: Vec<Parsed<M>>| {
        let lines = parsed.into_iter();
        lines.for_each(|line| anything |= deliver(line, &mut buffer, reader, &take_made));
    };
    // A short file is parsed before a thread has started.
    if !batches.ended {
        let is_waiting = AtomicBool::new(false);
        thread::scope(|scope| {
            let (sender, ahead) = mpsc::sync_channel(AHEAD);
            let (batches, is_waiting, make) = (&mut *batches, &is_waiting, &make);
            let work = move || {
                while let Some(batch) = batches.next() {
                    // A reader that waits had better parse than wait.
                    let by_reader = is_waiting.swap(false, Ordering::Relaxed);
                    let ahead = batch.map(|batch| match by_reader {
                        true => Ahead::Read(batch),
                        false => Ahead::Parsed(batches.parse(batch, make)),
                    });
                    if sender.send(ahead).is_err() {
                        return;
                    }
                }
            };
            // Some systems have no threads.
            if thread::Builder::new().spawn_scoped(scope, work).is_err() {
                return Ok(());
            }
            let next = || {
                ahead.try_recv().ok().or_else(|| {
                    is_waiting.store(true, Ordering::Relaxed);
                    ahead.recv().ok()
                })
            };
            std::iter::from_fn(next).try_for_each(|batch| {
                take(match batch? {
                    Ahead::Read(batch) => parse(&batch, &make),
                    Ahead::Parsed(parsed) => parsed,
                });
                Ok::<(), ReadError>(())
            })
        })?;
    }
    while let Some(batch) = batches.next() {
        let parsed = batches.parse(batch?, &make);
        take(parsed);
    }
    Ok(anything)
}

/// The number of bytes in a batch, unless a single line is longer.
const BATCH_BYTES: usize = 256 * 1024;

/// The number of batches that are parsed ahead of the reader.
const AHEAD: usize = 3;

/// A batch that a second thread prepared.
enum Ahead<M> {
    Read(Batch),
    Parsed(Vec<Parsed<M>>),
}

/// A few lines that are parsed together.
struct Batch {
    bytes: Vec<u8>,
    /// The place of each line in the file, and its range in `bytes`.
    lines: Vec<(LineAt, Range<usize>)>,
}

/// The batches of a stream.
struct Batches<'s> {
    lines: Lines<&'s mut (dyn BufRead + Send)>,
    /// Read already, to see whether there are more.
    first: Option<Batch>,
    ended: bool,
    /// The buffer of a batch that was parsed: new memory is slow.
    spare: Vec<u8>,
}

impl<'s> Batches<'s> {
    fn from(source: &'s mut (dyn BufRead + Send), start: LineStart) -> Result<Self, ReadError> {
        let lines = Lines::from(source, start.offset, start.number);
        let mut batches = Self { lines, first: None, ended: false, spare: Vec::new() };
        batches.first = batches.next().transpose()?;
        Ok(batches)
    }

    /// Parses a batch, and uses its buffer for the next one.
    fn parse<M>(&mut self, batch: Batch, make: &impl Fn(&Line, Value<'_>) -> Option<M>) -> Vec<Parsed<M>> {
        let parsed = parse(&batch, make);
        self.spare = batch.bytes;
        self.spare.clear();
        parsed
    }
}

impl Iterator for Batches<'_> {
    type Item = Result<Batch, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(first) = self.first.take() {
            return Some(Ok(first));
        }
        let mut bytes = std::mem::take(&mut self.spare);
        bytes.reserve(2 * BATCH_BYTES);
        let mut batch = Batch { bytes, lines: Vec::new() };
        while batch.bytes.len() < BATCH_BYTES && !self.ended {
            let start = batch.bytes.len();
            match self.lines.append(&mut batch.bytes) {
                Ok(Some(line)) => batch.lines.push((line, start..batch.bytes.len())),
                Ok(None) => self.ended = true,
                Err(why) => {
                    self.ended = true;
                    return Some(Err(ReadError::io(why)));
                }
            }
        }
        (!batch.lines.is_empty()).then_some(Ok(batch))
    }
}

/// A parsed line.
enum Parsed<M> {
    /// What was made of the line.
    Made(M),
    TooLong(SourcePlace, u64),
    Line {
        line: Line,
        /// Whether a line break followed.
        ended: bool,
        /// Whether bytes that are not text were replaced.
        replaced: bool,
        layout: Layout,
        error: Option<SyntaxError>,
    },
}

/// Parses the lines of a batch, except blank ones.
fn parse<M>(batch: &Batch, make: &impl Fn(&Line, Value<'_>) -> Option<M>) -> Vec<Parsed<M>> {
    let mut buffer = String::new();
    let parsed = batch.lines.iter().filter_map(|(line_at, range)| {
        let number = line_at.number as usize;
        let mut place = SourcePlace { index: number - 1, offset: line_at.start as usize, line: Some(number) };
        if line_at.too_long {
            return Some(Parsed::TooLong(place, line_at.len + u64::from(line_at.ended)));
        }
        let mut line = batch.bytes[range.clone()].trim_ascii_end();
        if let Some(rest) = line.strip_prefix(b"\xef\xbb\xbf").filter(|_| place.index == 0) {
            line = rest;
            place.offset += 3;
        }
        // Spans count from the first byte of the value, so the line must begin with it.
        place.offset += line.len() - line.trim_ascii_start().len();
        line = line.trim_ascii_start();
        if line.is_empty() {
            return None;
        }
        // Most lines are valid, and checking is several times as fast as replacing.
        let text = std::str::from_utf8(line).map(Arc::from);
        let replaced = text.is_err();
        let text = text.unwrap_or_else(|_| Arc::from(String::from_utf8_lossy(line)));
        let line = Line { text, place };
        let (layout, error) = Layout::parse_prefix(&line.text);
        let doc = layout.into_doc(&line.text, std::mem::take(&mut buffer)).shared_as(&line.text);
        let clean = doc.root().filter(|_| error.is_none() && !replaced);
        let made = clean.and_then(|root| make(&line, root));
        let layout;
        (layout, buffer) = doc.into_layout();
        Some(match made {
            Some(made) => Parsed::Made(made),
            None => Parsed::Line { line, ended: line_at.ended, replaced, layout, error },
        })
    });
    parsed.collect()
}

/// Hands a line to the reader. It is usually one value, but two programs, or one that was killed and restarted, may have left
/// several. False if the line is too long.
fn deliver<R: LineReader, M>(
    parsed: Parsed<M>,
    buffer: &mut String,
    reader: &mut R,
    take_made: &impl Fn(&mut R, M),
) -> bool {
    let (line, ended, replaced, layout, error) = match parsed {
        Parsed::Line { line, ended, replaced, layout, error } => (line, ended, replaced, layout, error),
        Parsed::Made(made) => {
            take_made(reader, made);
            return true;
        }
        Parsed::TooLong(place, length) => {
            let why = format!("{length} bytes are more than a line may have");
            let finding = Finding::new(Rule::DamagedEntry, at(place), Action::SetAside).because(why);
            reader.damaged(&Line { text: "".into(), place }, finding);
            return false;
        }
    };
    if replaced {
        reader.found(Finding::new(Rule::InvalidUtf8, at(line.place), Action::Replaced));
    }
    if error.is_some() {
        several(&line, ended, reader);
    } else {
        let doc = layout.into_doc(&line.text, std::mem::take(buffer)).shared_as(&line.text);
        doc.root().into_iter().for_each(|root| reader.value(&line, root));
        *buffer = doc.into_layout().1;
    }
    true
}

/// Hands the values of a line to the reader, and what is between them as damage.
fn several(line: &Line, ended: bool, reader: &mut impl LineReader) {
    let text = &*line.text;
    let mut at_byte = 0;
    let (mut values, mut damage) = (0, false);
    while !text[at_byte..].trim_start().is_empty() {
        let rest = &text[at_byte..];
        let (doc, error) = Doc::parse_prefix(rest);
        let whole =
            |root: &Value<'_>| !root.is_cut() && matches!(root.kind(), ValueKind::Object | ValueKind::Array);
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
        // Only the last line of a file can be torn.
        let rule = if next.is_none() && !ended { Rule::TornTail } else { Rule::DamagedEntry };
        let finding = Finding::new(rule, at(line.place), Action::SetAside);
        reader.damaged(&piece, error.map_or(finding.clone(), |error| finding.because(error.reason())));
        let Some(next) = next else { return };
        at_byte += next;
    }
    // The program that wrote the line may read only one value of it.
    if values > 1 && !damage {
        let finding = Finding::new(Rule::DamagedEntry, at(line.place), Action::Kept);
        let finding = finding.because(format!("{values} values are on one line; all of them were read"));
        reader.found(Finding { severity: Severity::Warning, ..finding });
    }
}

/// Finds the start of a whole value after one that was cut off, because the program resumed in the middle of a line.
fn whole_value_inside(text: &str) -> Option<usize> {
    /// The beginnings of lines of the tools that write these files.
    const BEGINNINGS: [&str; 5] =
        ["{\"timestamp\":", "{\"parentUuid\":", "{\"type\":\"", "{\"v\":\"", "{\"uuid\":"];
    /// Fields that only a line has, and no value inside one.
    const OWN_FIELDS: [&str; 7] = ["payload", "items", "hash", "uuid", "sessionId", "leafUuid", "messageId"];
    /// The number of candidates that are parsed; each costs a pass over the rest of the line.
    const LOOK_AT: usize = 16;
    BEGINNINGS.iter().find_map(|beginning| {
        let places = text.match_indices(beginning).map(|(at, _)| at).filter(|at| *at > 0);
        places.take(LOOK_AT).find(|at| {
            let (doc, error) = Doc::parse_prefix(&text[*at..]);
            doc.root().is_some_and(|root| {
                // A value inside another one is followed by closing brackets.
                let alone = error.is_none() || text[*at + root.end()..].trim_start().starts_with('{');
                alone && !root.is_cut() && OWN_FIELDS.iter().any(|name| root.get(name).is_some())
            })
        })
    })
}

fn shifted(place: SourcePlace, by: usize) -> SourcePlace {
    SourcePlace { offset: place.offset + by, ..place }
}

/// The position of a line that is not a message.
pub fn at(place: SourcePlace) -> Position {
    Position { line: place.line, ..Position::default() }
}

/// A source's time, verbatim: a text or a number.
pub(crate) fn time_of(time: Value<'_>) -> Text {
    time.as_str().map_or_else(|| Text::new(time.raw()), |text| Text::new(&*text))
}

/// The text of a string field.
pub fn text_of(value: Value<'_>, name: &str) -> Option<Text> {
    value.given(name)?.as_str().map(|text| Text::new(&*text))
}
