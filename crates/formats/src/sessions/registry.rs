//! Recognising, reading and writing session files. Adding a format: a module, and an entry in `table.rs`.

use std::sync::Arc;

use rejoin_record::{Message, json::SyntaxErrorKind};
use rejoin_view::{OnBroken, SoundView};

#[cfg(feature = "sqlite")]
use super::database::Database;
#[cfg(feature = "sqlite")]
use super::nearest;
pub use super::table::FORMATS;
use super::{
    growing::GrowingReader,
    instructions, lines, opening,
    resend::{Habits, ResentMessages, TargetDialect},
    sample::{Claim, Sample},
    table::{AGENTS, FUNCTION_COLUMNS},
    writing::{Writing, Written},
};
use crate::{
    accounting::{Known, Refuse, account, likeness},
    convert::{ConvertError, repaired},
    input::{Files, Input, Stream},
    session::{ReadError, Session},
    wire::{TooLarge, registry::Dialect},
};

/// How a conversation is written: from what is sound in it, with what the session says of it.
pub type Write = fn(&Session, &SoundView, &Writing<'_>) -> Result<Written, TooLarge>;

/// The JSON in the columns `function_calls` and `function_results` of a row, where they are filled.
pub(super) type FunctionColumns = fn(&str) -> [Option<Arc<str>>; 2];

/// The columns `function_calls` and `function_results` of the row that a message was imported from, as JSON. Both are none for other
/// messages, and where the column was empty or held no JSON list or object.
pub fn function_columns(message: &Message) -> [Option<Arc<str>>; 2] {
    let Some(native) = &message.native else { return [None, None] };
    let known = FUNCTION_COLUMNS.iter().find(|(format, _)| **format == *native.format);
    known.map_or([None, None], |(_, columns)| columns(native.raw.as_str()))
}

/// A format of session files.
pub struct Format {
    /// Its name.
    pub name: &'static str,
    /// What it is, for help texts.
    pub about: &'static str,
    /// How conversations are read from it.
    pub read: Option<Reading>,
    /// How a conversation is written in it.
    pub write: Option<Write>,
    /// The agent that writes such files, and what it would send on resuming one.
    pub agent: Option<KnownAgent>,
}

/// An agent that keeps its sessions in a format.
pub struct KnownAgent {
    /// What people call it.
    pub name: &'static str,
    /// What it would send on resuming a session.
    pub resend: Resend,
}

/// What an agent would send on resuming a session, as far as that is known.
pub enum Resend {
    /// These messages.
    Exactly(fn(&Session) -> ResentMessages),
    /// Only what it does about calls and results is known. If versions differ, one of these.
    Pairs {
        /// The API that the request goes to.
        to: TargetDialect,
        /// What it does, by version.
        habits: &'static [Habits],
    },
    /// Several programs keep their sessions in the format: finds the one that wrote a session.
    ByWriter(fn(&Session) -> &'static KnownAgent),
}

impl KnownAgent {
    /// The agent that wrote a session, where several programs write the format.
    pub fn of<'a>(&'a self, session: &Session) -> &'a Self {
        match self.resend {
            Resend::ByWriter(writer) => writer(session),
            Resend::Exactly(_) | Resend::Pairs { .. } => self,
        }
    }
}

pub(super) type ReadText = fn(&Input, Sample<'_>) -> Result<Vec<Session>, ReadError>;
pub(super) type ReadStream = fn(Stream<'_>) -> Result<Vec<Session>, ReadError>;

/// How conversations are read from a format.
pub struct Reading {
    /// How surely a text, or the beginning of one, is in it, and why.
    pub sniff: fn(&Sample<'_>) -> Option<Claim>,
    /// Reads every conversation in a text; `None` for files of lines, which are always read as a stream.
    pub(super) text: Option<ReadText>,
    /// Reads every conversation in a stream of lines.
    pub(super) stream: ReadStream,
    /// Makes a reader for files of lines that grow; `None` if they are always read whole.
    pub(super) growing: Option<fn() -> Box<dyn GrowingReader>>,
    /// How conversations are read from the files of a folder or an archive.
    pub files: Option<FilesReading>,
    /// How conversations are read from a database.
    #[cfg(feature = "sqlite")]
    pub database: Option<DatabaseReading>,
    /// Whether it is our own record, which keeps what other formats could not place.
    pub own: bool,
    /// Fields that the reader knows and that hold no words of the conversation.
    pub known: &'static [Known],
}

/// How conversations are read from the files of a folder or an archive.
pub struct FilesReading {
    /// Takes the path of a file. If only a folder that is itself a task or a storage contains such a file, returns that folder:
    /// the beginning of the path, empty or with its `/`. The folder may still belong to another program.
    pub root: fn(&str) -> Option<&str>,
    /// Whether a file of such a folder, named by its path from there, is one of the format's. Others may be sessions themselves.
    pub owns: fn(&str) -> bool,
    /// How surely these are files of the format, judged by their names and perhaps one of them.
    pub sniff: fn(&dyn Files) -> Option<Claim>,
    /// Reads every conversation in them.
    pub read: fn(&dyn Files) -> Result<Vec<Session>, ReadError>,
}

/// How conversations are read from a database.
#[cfg(feature = "sqlite")]
pub struct DatabaseReading {
    /// The tables and columns without which it is not one of the format. They tell what an unknown database comes near to.
    pub(super) needs: TablesNeeded,
    /// Why a database is taken for one of the format.
    pub(super) evidence: Evidence,
    /// The names of all tables that the program makes, separated by spaces. Others are reported.
    pub(super) tables: &'static str,
    /// Reads every conversation in it. No conversation is an error, which need not be made here.
    pub read: fn(&Database) -> Result<Vec<Session>, ReadError>,
}

/// Tables, each with the columns that a format needs of it.
#[cfg(feature = "sqlite")]
pub(super) type TablesNeeded = &'static [(&'static str, &'static [&'static str])];

/// Why a database is taken for one of a format.
#[cfg(feature = "sqlite")]
pub(super) enum Evidence {
    /// It has all tables and columns that the format needs, which are described here.
    Tables(&'static str),
    /// More than that must be looked at.
    Sniffed(fn(&Database) -> Option<Claim>),
}

#[cfg(feature = "sqlite")]
impl DatabaseReading {
    /// How surely a database is one of the format, judged by its tables.
    pub fn claim(&self, database: &Database) -> Option<Claim> {
        match self.evidence {
            Evidence::Tables(described) => Claim::sure(database.has_all(self.needs), described),
            Evidence::Sniffed(sniff) => sniff(database),
        }
    }
}

impl Reading {
    /// Also reads folders and archives.
    pub(super) const fn with_files(self, reading: FilesReading) -> Self {
        Self { files: Some(reading), ..self }
    }

    /// Also reads databases.
    #[cfg(feature = "sqlite")]
    pub(super) const fn with_database(self, reading: DatabaseReading) -> Self {
        Self { database: Some(reading), ..self }
    }

    /// Reads every conversation in a text, and reports the text that was not understood.
    ///
    /// # Errors
    /// If there is no conversation in it, or most of its text was not understood.
    pub fn read(&self, input: &Input) -> Result<Vec<Session>, ReadError> {
        checked(self.sessions(input, Sample::new(&input.text))?, self.refuses())
    }

    /// Reads every conversation in a stream of lines, and reports the text that was not understood.
    ///
    /// # Errors
    /// If there is no conversation in it, it cannot be read, or most of its text was not understood.
    pub fn read_stream(&self, stream: Stream<'_>) -> Result<Vec<Session>, ReadError> {
        checked((self.stream)(stream)?, self.refuses())
    }

    /// Whether it is always a file of lines, which need not be one text to be read.
    pub fn is_lines(&self) -> bool {
        self.text.is_none()
    }

    fn sessions(&self, input: &Input, sample: Sample<'_>) -> Result<Vec<Session>, ReadError> {
        match self.text {
            Some(read) => read(input, sample),
            None => lines::of_text(input, self.stream),
        }
    }

    /// Which files are refused if their format was detected.
    pub(super) fn refuses(&self) -> Refuse {
        self.refuse(Refuse::AnyFile)
    }

    fn refuse(&self, refuse: Refuse) -> Refuse {
        if self.own { Refuse::Nothing } else { refuse }
    }
}

/// The format of that name.
pub fn named(name: &str) -> Option<&'static Format> {
    FORMATS.iter().find(|format| format.name == name)
}

/// The format that a text is in. None if nothing claims it, or if two formats are equally sure.
pub fn detect(text: &str) -> Option<&'static Format> {
    detect_in(&Sample::new(text)).ok().flatten()
}

/// The format of lines that the beginning of a text is in.
pub fn detect_lines(beginning: &str) -> Option<&'static Format> {
    surest(&claims_among(&Sample::new(beginning), Reading::is_lines)).ok().flatten()
}

/// Every format that claims a text, the surest first. Requests, which are never sure, only if nothing else claims it.
pub fn claims(text: &str) -> Vec<(&'static Format, Claim)> {
    claims_among(&Sample::new(text), |_| true)
}

fn detect_in(sample: &Sample<'_>) -> Result<Option<&'static Format>, ReadError> {
    surest(&claims_among(sample, |_| true))
}

fn claims_among(sample: &Sample<'_>, among: impl Fn(&Reading) -> bool) -> Vec<(&'static Format, Claim)> {
    #[cfg(test)]
    tests::DETECTIONS.set(tests::DETECTIONS.get() + 1);
    let one = sample.is_one_value();
    let claim = |format: &'static Format| {
        let reading =
            format.read.as_ref().filter(|reading| among(reading) && !(one && reading.is_lines()))?;
        Some((format, (reading.sniff)(sample)?))
    };
    let is_sure = |claims: &Vec<(&Format, Claim)>| {
        claims.iter().any(|(_, claim)| claim.certainty >= Claim::SURE - SLIGHTLY)
    };
    let all = || {
        let mut claims: Vec<(&'static Format, Claim)> = Vec::new();
        for format in FORMATS {
            // To tell a request, much of a text is looked at, and its claim cannot win any more.
            let wins = claims.iter().any(|(_, claim)| claim.certainty > Claim::SHARED);
            if !(wins && Dialect::all().any(|dialect| dialect.name() == format.name)) {
                claims.extend(claim(format));
            }
        }
        claims
    };
    let mut claims = sample.ask(all, is_sure);
    claims.sort_by_key(|(_, claim)| std::cmp::Reverse(claim.certainty));
    claims
}

/// How much less sure than [`Claim::SURE`] a claim may be so that no more lines are looked at.
const SLIGHTLY: u8 = 5;

/// The format with the surest claim.
fn surest(claims: &[(&'static Format, Claim)]) -> Result<Option<&'static Format>, ReadError> {
    match claims {
        [(one, first), (other, second), ..] if first.certainty == second.certainty => {
            let (one, other) = ((one.name, first.reason), (other.name, second.reason));
            Err(ReadError::Ambiguous { one, other })
        }
        claims => Ok(claims.first().map(|(format, _)| *format)),
    }
}

/// Reads an input in a format, or in the one that it looks like.
///
/// # Errors
/// If the format cannot be detected, or nothing can be read.
pub fn read(input: &Input, format: Option<&'static Format>) -> Result<Vec<Session>, ReadError> {
    let sample = Sample::new(&input.text);
    let Some(named) = format else {
        let detected = detect_in(&sample)?;
        return read_in(input, sample, detected);
    };
    let reading = named.read.as_ref().ok_or_else(|| unknown(input, &sample))?;
    checked(reading.sessions(input, sample)?, reading.refuse(Refuse::AllButBodies))
}

/// Reads an input in the format that was detected in it, which is not detected again.
///
/// # Errors
/// If nothing can be read.
pub fn read_detected(input: &Input, detected: &'static Format) -> Result<Vec<Session>, ReadError> {
    read_in(input, Sample::new(&input.text), Some(detected))
}

fn read_in(
    input: &Input,
    sample: Sample<'_>,
    detected: Option<&'static Format>,
) -> Result<Vec<Session>, ReadError> {
    let reading = detected.and_then(|format| format.read.as_ref());
    let reading = reading.ok_or_else(|| unknown(input, &sample))?;
    match reading.sessions(input, sample) {
        Ok(sessions) => checked(sessions, reading.refuses()),
        Err(nothing @ ReadError::NoConversation(_)) => {
            Err(likeness::of_text(&input.text).map_or(nothing, |shape| ReadError::Foreign { shape }))
        }
        Err(error) => Err(error),
    }
}

/// Reads the conversations in the files of a folder or an archive, in a format or in the one that claims them most surely.
///
/// # Errors
/// If no format claims them, two are equally sure, or nothing can be read.
pub fn read_files(files: &dyn Files, format: Option<&'static Format>) -> Result<Vec<Session>, ReadError> {
    let reading = |format: &'static Format| format.read.as_ref()?.files.as_ref();
    let format = chosen(format, |format| (reading(format)?.sniff)(files))?;
    let nothing = ReadError::NoConversation("the format is not one of folders or archives");
    checked((reading(format).ok_or(nothing)?.read)(files)?, Refuse::AnyFile)
}

/// The format that claims the files of a folder or an archive. `None` also if two formats are equally sure.
pub fn claim_files(files: &dyn Files) -> Option<&'static Format> {
    chosen(None, |format| (format.read.as_ref()?.files.as_ref()?.sniff)(files)).ok()
}

/// The folders that may be a task or a storage of an agent because of a file in them, each with the format it would have. A folder
/// is the beginning of the file's path; [`is_storage`] tells whether it is one.
pub fn storages(path: &str) -> impl Iterator<Item = (&'static Format, &str)> {
    FORMATS
        .iter()
        .filter_map(move |format| Some((format, (format.read.as_ref()?.files.as_ref()?.root)(path)?)))
}

/// Whether files are one task or one storage in a format, and no folder with such folders in it.
pub fn is_storage(files: &dyn Files, format: &Format) -> bool {
    let Some(reading) = format.read.as_ref().and_then(|reading| reading.files.as_ref()) else { return false };
    let is_marked = files.paths().iter().any(|path| (reading.root)(path) == Some(""));
    is_marked && (reading.sniff)(files).is_some()
}

/// Whether a file of a task or storage in a format, named by its path from there, belongs to it.
pub fn owns(format: &Format, path: &str) -> bool {
    let reading = format.read.as_ref().and_then(|reading| reading.files.as_ref());
    reading.is_some_and(|reading| (reading.owns)(path))
}

/// Reads the conversations in a database, in a format or in the one that claims it most surely.
///
/// # Errors
/// If no format claims it, two are equally sure, or nothing can be read.
#[cfg(feature = "sqlite")]
pub fn read_database(
    database: &Database,
    format: Option<&'static Format>,
) -> Result<Vec<Session>, ReadError> {
    let reading = |format: &'static Format| format.read.as_ref()?.database.as_ref();
    let format = chosen(format, |format| reading(format)?.claim(database)).map_err(|error| match error {
        ReadError::UnknownFormat => {
            nearest::of_database(database).map_or(error, |shape| ReadError::Foreign { shape })
        }
        error => error,
    })?;
    let nothing = ReadError::NoConversation("the format is not one of databases");
    let reading = reading(format).ok_or(nothing)?;
    let read = (reading.read)(database).and_then(|sessions| match sessions.is_empty() {
        true => Err(ReadError::NoConversation("the database holds no session")),
        false => Ok(sessions),
    });
    let mut sessions = read.map_err(|error| match error {
        ReadError::NoConversation(_) if database.is_damaged() => database.damage_error(),
        error => error,
    })?;
    if database.is_damaged() && sessions.iter().all(|session| session.messages.is_empty()) {
        return Err(database.damage_error());
    }
    if let Some(first) = sessions.first_mut() {
        first.findings.extend(database.foreign_tables(reading.tables));
        first.findings.extend(database.astray());
    }
    // Any of them may have lost something.
    for session in &mut sessions {
        session.findings.extend(database.damage());
    }
    opening::check_database(database, &mut sessions);
    checked(sessions, Refuse::AnyFile)
}

/// Reports what the agent of each session would refuse, and the text that was not understood.
fn checked(mut sessions: Vec<Session>, refuse: Refuse) -> Result<Vec<Session>, ReadError> {
    opening::check(&mut sessions);
    account(sessions, refuse)
}

/// The format that was named, or the one with the surest claim.
fn chosen(
    named: Option<&'static Format>,
    claim: impl Fn(&'static Format) -> Option<Claim>,
) -> Result<&'static Format, ReadError> {
    if let Some(format) = named {
        return Ok(format);
    }
    let mut claims: Vec<_> = FORMATS.iter().filter_map(|format| Some((format, claim(format)?))).collect();
    claims.sort_by_key(|(_, claim)| std::cmp::Reverse(claim.certainty));
    surest(&claims)?.ok_or(ReadError::UnknownFormat)
}

/// Repairs a session and writes it in a format, as a file or as rows of a database. The positions of findings refer to the source.
///
/// # Errors
/// If the setting refuses a broken conversation, or the size limits of the format's dialect do.
///
/// # Panics
/// If the format cannot be written.
pub fn write(
    session: &Session,
    format: &Format,
    on_broken: OnBroken,
    writing: &Writing<'_>,
) -> Result<Written, ConvertError> {
    let write = format.write.expect("BUG: asked to write a format that is only read");
    let (session, left_out) = instructions::without_those_of_others(session, format.name, &AGENTS);
    let (content, mut findings) = repaired(&session, on_broken, |view| {
        let written = write(&session, view, writing)?;
        Ok((written.content, written.findings))
    })?;
    findings.extend(left_out);
    Ok(Written { content, findings })
}

/// Nothing looks like a conversation: because it is not JSON, or because it is something else.
fn unknown(input: &Input, sample: &Sample<'_>) -> ReadError {
    match sample.whole().1 {
        Some(error) if error.kind != SyntaxErrorKind::AfterEnd => ReadError::not_json(input, error),
        _ => likeness::of_text(&input.text)
            .map_or(ReadError::UnknownFormat, |shape| ReadError::Foreign { shape }),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    thread_local! {
        /// How often a format was looked for.
        pub(super) static DETECTIONS: Cell<usize> = const { Cell::new(0) };
    }

    #[test]
    fn a_text_is_detected_once() {
        for text in [r#"{"messages":[{"role":"user","content":"Hello."}]}"#, r#"{"model":"m","messages":[]}"#]
        {
            let input = Input::new("chat.json", text.as_bytes()).unwrap();
            let outcome = |read: Result<Vec<Session>, ReadError>| {
                read.map(|sessions| sessions.len()).map_err(|error| error.to_string())
            };
            DETECTIONS.set(0);
            let read = outcome(read(&input, None));
            assert_eq!(DETECTIONS.get(), 1, "{text}");
            let detected = detect(text).unwrap();
            assert_eq!(outcome(read_detected(&input, detected)), read, "{text}");
            assert_eq!(DETECTIONS.get(), 2, "{text}");
        }
    }
}
