//! What `check` and `convert` are about: a file, standard input, or a conversation of the store.

use std::path::{Path, PathBuf};

use rejoin::{
    ConversationId, Finding, Input, Rule, Session,
    engine::{EngineError, Mode},
    record::Entry,
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
    /// The store of a stored one.
    store: Option<Location>,
}

/// How to read it.
pub struct Reading<'r> {
    /// The format of a file, if it was named.
    pub from: Option<&'r str>,
    /// What becomes of damage.
    pub mode: Mode,
    /// Where the store is.
    pub flags: &'r Flags,
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
        let (input, sessions) = source::read(path, reading.from)?;
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
            store: None,
        })
    }

    fn of_store(given: &str, reading: &Reading<'_>) -> Result<Self, Failure> {
        let desk = Desk::new(reading.flags)?;
        let (store, id) = desk.find(given)?;
        let mut recorded = desk::read(&*store, id, reading.mode)?;
        let lines = numbers::as_shown(&recorded.entries, &mut recorded.session);
        Ok(Self {
            name: id.to_string(),
            input: None,
            sessions: vec![recorded.session],
            lines,
            record: Some(recorded.entries),
            store: Some(desk.location.clone()),
        })
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
