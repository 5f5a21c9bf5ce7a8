//! The session formats. Adding one: a module, and a line in [`FORMATS`].

use std::io::BufRead;

use crate::{
    chat::{Style, list},
    input::Input,
    session::{ReadError, Session},
};

/// A format that conversations are read from.
pub struct Format {
    /// Its name.
    pub name: &'static str,
    /// What it is, for help texts.
    pub about: &'static str,
    /// Whether a text looks like it.
    pub sniff: fn(&str) -> bool,
    /// Reads every conversation in a text.
    pub read: fn(&Input) -> Result<Vec<Session>, ReadError>,
    /// Reads every conversation in a file of lines that is too large to be one text.
    pub read_stream: fn(&str, &mut dyn BufRead) -> Result<Vec<Session>, ReadError>,
}

/// Every format, in the order in which they are tried.
pub const FORMATS: &[Format] = &[
    Format {
        name: "openai-chat",
        about: "an OpenAI Chat request body, or just its list of messages",
        sniff: |text| list::sniff(text) == Some(Style::OpenAi),
        read: |input| list::read(input, Style::OpenAi),
        read_stream: |name, source| list::read_stream(name, Style::OpenAi, source),
    },
    Format {
        name: "anthropic",
        about: "an Anthropic Messages request body, or just its list of messages",
        sniff: |text| list::sniff(text) == Some(Style::Anthropic),
        read: |input| list::read(input, Style::Anthropic),
        read_stream: |name, source| list::read_stream(name, Style::Anthropic, source),
    },
];

/// The format of that name.
#[must_use]
pub fn named(name: &str) -> Option<&'static Format> {
    FORMATS.iter().find(|format| format.name == name)
}

/// The format that a text is in.
#[must_use]
pub fn detect(text: &str) -> Option<&'static Format> {
    FORMATS.iter().find(|format| (format.sniff)(text))
}

/// Reads an input in a format, or in the one that it looks like.
///
/// # Errors
/// If the format cannot be told, or nothing can be read.
pub fn read(input: &Input, format: Option<&'static Format>) -> Result<Vec<Session>, ReadError> {
    match format.or_else(|| detect(&input.text)) {
        Some(format) => (format.read)(input),
        None => Err(unknown(input)),
    }
}

/// Nothing looks like a conversation: because it is not JSON, or because it is something else.
fn unknown(input: &Input) -> ReadError {
    match rejoin_record::json::Doc::parse(&input.text) {
        Err(error) if !error.reason.contains("after the end") => ReadError::NotJson {
            reason: error.reason,
            line: input.line_of(error.offset),
            offset: error.offset,
        },
        _ => ReadError::UnknownFormat,
    }
}
