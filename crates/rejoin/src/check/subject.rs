//! What is checked or converted: the conversations of a file, or one of a store, and the places of their messages.

use std::collections::HashMap;

use rejoin_formats::{
    Dialect, Input, ReadError, Session, session::SourcePlace, sessions, wire::registry::Fields,
};
use rejoin_record::{
    Entry,
    json::{Doc, ValueKind},
};
use rejoin_view::{Finding, Position};

use crate::history::MessageLines;

/// Conversations to look at, and what they were read from.
#[derive(Debug)]
pub struct Subject {
    /// What to call it: a path, or an id.
    pub name: String,
    /// The conversations.
    pub sessions: Vec<Session>,
    /// The entries of a stored one.
    pub record: Option<Vec<Entry>>,
    /// Why no conversation was read from a request.
    pub unread: Option<ReadError>,
    /// The text they were read from, if it was a file.
    input: Option<Input>,
    /// The lines of a stored one.
    lines: MessageLines,
    /// The dialect that was named as the format of the file, or that a request has whose text was not understood.
    named: Option<Dialect>,
    /// The dialect that only the shape of a request tells, because its requests are not read; and what tells it.
    marked: Option<(Dialect, &'static str)>,
}

/// The bytes of a request, or of a list of messages.
#[derive(Debug, Clone, Copy)]
pub struct RequestBytes<'s> {
    /// The dialect that they are written in.
    pub dialect: Dialect,
    /// The bytes, as they would be sent.
    pub bytes: &'s [u8],
    /// Whether it is a whole request, with its settings.
    pub whole: bool,
    /// What tells the dialect, if its requests are not read.
    pub mark: Option<&'static str>,
}

impl Subject {
    /// The conversations of a file, or of bytes under a name.
    #[must_use]
    pub fn of_file(name: &str, input: Input, sessions: Vec<Session>, named: Option<Dialect>) -> Self {
        let marked = match &sessions[..] {
            [session] if named.is_none() && is_common_request(session) => mark_of(&input.text),
            _ => None,
        };
        Self {
            marked,
            name: name.to_owned(),
            sessions,
            record: None,
            unread: None,
            input: Some(input),
            lines: MessageLines::default(),
            named,
        }
    }

    /// A JSON object that holds no conversation but is a request by its fields, or in the dialect that was named: its checker can
    /// still judge it.
    ///
    /// # Errors
    /// The reason why nothing was read, if it is no such object.
    pub fn of_request(
        name: &str,
        input: Input,
        unread: ReadError,
        named: Option<Dialect>,
    ) -> Result<Self, ReadError> {
        let marked = || mark_of(&input.text).map(|(dialect, _)| dialect);
        let named = named.or_else(marked).or_else(|| dialect_of_request(&input.text));
        if named.is_none() || !is_object(&input.text) {
            return Err(unread);
        }
        Ok(Self { unread: Some(unread), ..Self::of_file(name, input, Vec::new(), named) })
    }

    /// A conversation of a store, with the numbers of [`crate::history`].
    #[cfg(feature = "store")]
    #[must_use]
    pub fn of_record(mut recorded: rejoin_engine::Recorded) -> Self {
        let lines = crate::history::renumber(&recorded.entries, &mut recorded.session);
        let unread = rejoin_formats::accounting::report(&recorded.session);
        recorded.session.findings.extend(unread);
        Self {
            name: recorded.id.to_string(),
            sessions: vec![recorded.session],
            record: Some(recorded.entries),
            unread: None,
            input: None,
            lines,
            named: None,
            marked: None,
        }
    }

    /// Whether it was read from a file.
    #[must_use]
    pub fn is_file(&self) -> bool {
        self.input.is_some()
    }

    /// The bytes of the file, if they are one request or one list of messages rather than a session that a program stored.
    #[must_use]
    pub fn body(&self) -> Option<RequestBytes<'_>> {
        let input = self.input.as_ref().filter(|input| !input.text.is_empty())?;
        let bytes = if input.replaced_at.is_some() { NOT_TEXT } else { input.text.as_bytes() };
        match &self.sessions[..] {
            [] => Some(RequestBytes { dialect: self.named?, bytes, whole: true, mark: None }),
            [session] => {
                let own = session.context.dialect.filter(|dialect| dialect.name() == session.format)?;
                let whole = session.context.whole_body;
                let (dialect, mark) = match self.marked {
                    Some((dialect, mark)) => (dialect, Some(mark)),
                    None => (self.named.unwrap_or(own), None),
                };
                (whole || session.context.bare_list).then_some(RequestBytes { dialect, bytes, whole, mark })
            }
            _ => None,
        }
    }

    /// Adds the lines of their messages to findings of a session.
    #[must_use]
    pub fn with_lines(&self, session: &Session, mut findings: Vec<Finding>) -> Vec<Finding> {
        if self.input.is_none() {
            return self.lines.fill(findings);
        }
        self.fill_lines(session, findings.iter_mut().map(|finding| &mut finding.at));
        findings
    }

    /// Adds lines to places of a session that was read from a file.
    pub(super) fn fill_lines<'p>(&self, session: &Session, places: impl Iterator<Item = &'p mut Position>) {
        let Some(input) = &self.input else { return };
        // Most readers know the lines; a large session is not gone through for nothing.
        let mut missing = places.filter(|at| at.line.is_none() && at.message.is_some()).peekable();
        if missing.peek().is_none() {
            return;
        }
        let places = session.source_places();
        let mut lines = LineCounter { input, known: vec![(0, 1)], cache: HashMap::new() };
        for at in missing {
            let place = at.message.and_then(|message| places.get(&message));
            // A folder, an archive or a database has no text in which lines could be counted.
            let mut count = |place: &SourcePlace| (!input.text.is_empty()).then(|| lines.of(place.offset));
            at.line = place.and_then(|place| place.line.or_else(|| count(place)));
        }
    }
}

/// Line numbers by offset, counting each stretch of the input once.
struct LineCounter<'i> {
    input: &'i Input,
    known: Vec<(usize, usize)>,
    cache: HashMap<usize, usize>,
}

impl LineCounter<'_> {
    fn of(&mut self, offset: usize) -> usize {
        if let Some(line) = self.cache.get(&offset) {
            return *line;
        }
        let end = offset.min(self.input.text.len());
        let place = self.known.partition_point(|(known, _)| *known <= end);
        let (from, line) = self.known[place - 1];
        let bytes = &self.input.text.as_bytes()[from..end];
        let line = line + bytes.iter().filter(|&&byte| byte == b'\n').count();
        self.known.insert(place, (end, line));
        self.cache.insert(offset, line);
        line
    }
}

/// Stands for bytes that are no text: no server reads them as JSON either.
const NOT_TEXT: &[u8] = b"\xff";

/// Whether a session was read from a request, or from a list of messages, that may be one of a dialect which is not read.
fn is_common_request(session: &Session) -> bool {
    let own = session.context.dialect.filter(|dialect| dialect.name() == session.format);
    let request = session.context.whole_body || session.context.bare_list;
    request && own.is_some_and(|dialect| dialect.wire().fields.messages == Fields::COMMON.messages)
}

/// The dialect of a request that is not read in it, and what tells it.
fn mark_of(text: &str) -> Option<(Dialect, &'static str)> {
    let doc = Doc::parse(text).ok()?;
    Dialect::marked(doc.root()?)
}

/// The dialect of a text that is a request by its fields, whatever its messages look like.
fn dialect_of_request(text: &str) -> Option<Dialect> {
    let doc = Doc::parse(text).ok()?;
    let root = doc.root()?;
    let list = |name: &str| root.get(name).is_some_and(|list| list.kind() == ValueKind::Array);
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
    let detected = || sessions::detect(text)?.name.parse().ok();
    named.then(detected).flatten().or_else(by_its_list)
}

fn is_object(text: &str) -> bool {
    Doc::parse(text).is_ok_and(|doc| doc.root().is_some_and(|root| root.kind() == ValueKind::Object))
}
