//! What `check` and `convert` are about: a file, standard input, or a conversation of the store.

use std::path::{Path, PathBuf};

use rejoin::{
    ConversationId, Dialect, Finding, Input, Position, ReadError, Rule, Session, accounting,
    engine::{EngineError, Mode},
    record::{
        Entry,
        json::{Doc, Kind},
    },
    sessions,
    store::Location,
};

use crate::{
    commands::{
        numbers::{self, Lines},
        report,
    },
    desk::{self, Desk, Flags},
    failure::Failure,
    outfile::Source,
    source,
};

/// Conversations to look at.
pub struct Subject {
    /// What to call it.
    pub name: String,
    /// The text they were read from, if it was a file.
    input: Option<Input>,
    /// The conversations.
    pub sessions: Vec<Session>,
    /// Where the messages of a stored one stand.
    lines: Lines,
    /// The entries of a stored one.
    pub record: Option<Vec<Entry>>,
    /// The dialect that was named as the format of the file, or that a request has whose text was not understood.
    named: Option<Dialect>,
    /// Why no conversation was read from a request.
    pub unread: Option<ReadError>,
    /// The store of a stored one.
    store: Option<Location>,
}

/// The bytes of a request, or of a list of messages.
pub struct Body<'s> {
    /// The dialect that they are written in.
    pub dialect: Dialect,
    /// The bytes, as they would be sent.
    pub bytes: &'s [u8],
    /// Whether it is a whole request, with its settings.
    pub whole: bool,
}

/// How to read it.
pub struct Reading<'r> {
    /// The format of a file, if it was named.
    pub from: Option<&'r str>,
    /// What becomes of damage.
    pub mode: Mode,
    /// Where the store is.
    pub flags: &'r Flags,
    /// Whether a JSON object in a named dialect is wanted even if it holds no conversation.
    pub bodies: bool,
}

impl Subject {
    /// Reads it: a path that is there is a file, anything else that could be one is a conversation of the store.
    pub fn read(given: &str, reading: &Reading<'_>) -> Result<Self, Failure> {
        let file = given == "-" || reading.from.is_some() || Path::new(given).exists();
        if file || looks_like_path(given) {
            return Self::of_file(given, reading);
        }
        match Self::of_store(given, reading) {
            // No id by its looks, and no title: most likely a file was meant.
            Err(Failure::Engine(error))
                if !is_surely_id(given) && !matches!(*error, EngineError::Ambiguous { .. }) =>
            {
                Self::of_file(given, reading)
            }
            read => read,
        }
    }

    fn of_file(path: &str, reading: &Reading<'_>) -> Result<Self, Failure> {
        let (input, sessions) = source::read_input(path, reading.from)?;
        let mut named = reading.from.and_then(|from| from.parse().ok());
        let mut unread = None;
        let sessions = match sessions {
            Ok(sessions) => sessions,
            Err(error) => {
                named = named.or_else(|| dialect_of_request(&input.text));
                if !reading.bodies || named.is_none() || !is_object(&input.text) {
                    return Err(source::unreadable(path, error, reading.from));
                }
                unread = Some(error);
                Vec::new()
            }
        };
        if reading.mode == Mode::Strict {
            let findings = sessions.iter().flat_map(|session| &session.findings);
            if let Some(finding) = findings.into_iter().find(|finding| finding.rule == Rule::DamagedEntry) {
                return Err(Failure::Damaged {
                    name: path.to_owned(),
                    line: finding.at.line.unwrap_or(1),
                    why: finding.detail.as_ref().map_or_else(|| finding.to_string(), ToString::to_string),
                });
            }
        }
        Ok(Self {
            name: path.to_owned(),
            input: Some(input),
            sessions,
            lines: Lines::default(),
            record: None,
            named,
            unread,
            store: None,
        })
    }

    fn of_store(given: &str, reading: &Reading<'_>) -> Result<Self, Failure> {
        let desk = Desk::new(reading.flags)?;
        let (store, id) = desk.find(given)?;
        let mut recorded = desk::read(&*store, id, reading.mode)?;
        let lines = numbers::as_shown(&recorded.entries, &mut recorded.session);
        let unread = accounting::report(&recorded.session);
        recorded.session.findings.extend(unread);
        Ok(Self {
            name: id.to_string(),
            input: None,
            sessions: vec![recorded.session],
            lines,
            record: Some(recorded.entries),
            named: None,
            unread: None,
            store: Some(desk.location.clone()),
        })
    }

    /// The bytes of the file, if they are one request or one list of messages rather than a session that a program stored.
    pub fn body(&self) -> Option<Body<'_>> {
        let input = self.input.as_ref().filter(|input| !input.text.is_empty())?;
        let bytes = if input.replaced_at.is_some() { NOT_TEXT } else { input.text.as_bytes() };
        match &self.sessions[..] {
            [] => Some(Body { dialect: self.named?, bytes, whole: true }),
            [session] => {
                let own = session.context.dialect.filter(|dialect| dialect.name() == session.format)?;
                let whole = session.context.whole_body;
                let dialect = self.named.unwrap_or(own);
                (whole || session.context.bare_list).then_some(Body { dialect, bytes, whole })
            }
            _ => None,
        }
    }

    /// Gives places of a session in a file their lines.
    pub fn fill_lines<'p>(&self, session: &Session, places: impl Iterator<Item = &'p mut Position>) {
        if let Some(input) = &self.input {
            report::fill_lines(input, session, places);
        }
    }

    /// What it was read from, and what must not be overwritten.
    pub fn source(&self) -> Source {
        let file = self.input.as_ref().map(|_| PathBuf::from(&self.name));
        Source { file, store: self.store.clone() }
    }

    /// Gives findings of a session their lines.
    pub fn with_lines(&self, session: &Session, findings: Vec<Finding>) -> Vec<Finding> {
        match &self.input {
            Some(input) => report::with_lines(input, session, findings),
            None => self.lines.fill(findings),
        }
    }
}

/// Stands for bytes that are no text: no server reads them as JSON either.
const NOT_TEXT: &[u8] = b"\xff";

/// The dialect of a text that is a request by its fields, whatever its messages look like.
fn dialect_of_request(text: &str) -> Option<Dialect> {
    let doc = Doc::parse(text).ok()?;
    let root = doc.root()?;
    let list = |name: &str| root.get(name).is_some_and(|list| list.kind() == Kind::Array);
    let by_list = |dialect: &Dialect| list(dialect.wire().fields.messages);
    if !Dialect::all().any(|dialect| by_list(&dialect)) {
        return None;
    }
    let named = root.given("model").is_some();
    let by_its_list = || {
        let complete = |dialect: &Dialect| !dialect.wire().body_names_model || named;
        let mut read =
            Dialect::all().filter(|dialect| !dialect.wire().repeats.is_empty() && complete(dialect));
        read.find(by_list)
    };
    let detected = sessions::detect(text).and_then(|format| format.name.parse().ok());
    detected.filter(|_| named).or_else(by_its_list)
}

fn is_object(text: &str) -> bool {
    Doc::parse(text).is_ok_and(|doc| doc.root().is_some_and(|root| root.kind() == Kind::Object))
}

/// Whether a text is spelled like a path, so that the store need not be asked: a separator, or one word with an ending.
fn looks_like_path(given: &str) -> bool {
    let ending = Path::new(given).extension().is_some() && !given.contains(char::is_whitespace);
    given.is_empty() || given.contains(std::path::is_separator) || ending
}

/// Whether a text is an id by its looks.
fn is_surely_id(given: &str) -> bool {
    given.starts_with(ConversationId::PREFIX) || given.starts_with('@')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_ids_are_told_apart() {
        for id in ["@", "@1", "conv_abc", "abc", "A title", "Fix main.rs, please", "ABC"] {
            assert!(!looks_like_path(id), "{id}");
        }
        for file in ["a.json", "/abc", "./abc", "some folder/a file", ""] {
            assert!(looks_like_path(file), "{file}");
        }
    }
}
