//! The session formats. Adding one: a module, and a line in [`FORMATS`].

use rejoin_view::{OnBroken, SoundView};

use crate::{
    chat::{Style, list},
    convert::{ConvertError, Converted, repaired},
    gemini,
    input::{Input, Stream},
    responses,
    session::{ReadError, Session},
    sessions::{
        claude_code, codex, instructions, jsonl, markdown, turns,
        writing::{Writing, Written},
    },
    wire::TooLarge,
};

/// How a conversation is written: from what is sound in it, with what the session says of it.
pub type Write = fn(&Session, &SoundView, &Writing<'_>) -> Result<Written, TooLarge>;

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
}

/// How conversations are read from a format.
pub struct Reading {
    /// Whether a text, or the beginning of one, looks like it.
    pub sniff: fn(&str) -> bool,
    /// Reads every conversation in a text.
    pub read: fn(&Input) -> Result<Vec<Session>, ReadError>,
    /// Reads every conversation in a file of lines, as it comes.
    pub read_stream: fn(Stream<'_>) -> Result<Vec<Session>, ReadError>,
    /// Whether it is always a file of lines, which needs not be one text to be read.
    pub lines: bool,
}

/// Every format, in the order in which they are tried.
pub const FORMATS: &[Format] = &[
    Format {
        name: "claude-code",
        about: "a Claude Code transcript, of a session or of one of its sub-agents",
        read: Some(Reading {
            sniff: claude_code::sniff,
            read: claude_code::read,
            read_stream: claude_code::read_stream,
            lines: true,
        }),
        write: Some(claude_code::write),
    },
    Format {
        name: codex::FORMAT,
        about: "a rollout of Codex, `~/.codex/sessions/…/rollout-*.jsonl`",
        read: Some(Reading {
            sniff: codex::sniff,
            read: codex::read,
            read_stream: codex::read_stream,
            lines: true,
        }),
        write: Some(codex::write),
    },
    Format {
        name: turns::FORMAT,
        about: "one turn a line, `{timestamp, items, metadata}`",
        read: Some(Reading {
            sniff: turns::sniff,
            read: turns::read,
            read_stream: turns::read_stream,
            lines: true,
        }),
        write: Some(turns::write),
    },
    Format {
        name: jsonl::FORMAT,
        about: "rejoin's own record, one entry a line",
        read: Some(Reading {
            sniff: jsonl::sniff,
            read: jsonl::read,
            read_stream: jsonl::read_stream,
            lines: true,
        }),
        write: Some(jsonl::write),
    },
    Format {
        name: "openai-chat",
        about: "an OpenAI Chat request body, or just its list of messages",
        read: Some(Reading {
            sniff: |text| list::sniff(text) == Some(Style::OpenAi),
            read: |input| list::read(input, Style::OpenAi),
            read_stream: |stream| list::read_stream(Style::OpenAi, stream),
            lines: false,
        }),
        write: None,
    },
    Format {
        name: "openai-responses",
        about: "an OpenAI Responses request body, or just its list of items",
        read: Some(Reading {
            sniff: responses::list::sniff,
            read: responses::list::read,
            read_stream: responses::list::read_stream,
            lines: false,
        }),
        write: None,
    },
    Format {
        name: "anthropic",
        about: "an Anthropic Messages request body, or just its list of messages",
        read: Some(Reading {
            sniff: |text| list::sniff(text) == Some(Style::Anthropic),
            read: |input| list::read(input, Style::Anthropic),
            read_stream: |stream| list::read_stream(Style::Anthropic, stream),
            lines: false,
        }),
        write: None,
    },
    Format {
        name: "gemini",
        about: "a Gemini request body, just its list of contents, or a checkpoint of one",
        read: Some(Reading {
            sniff: gemini::sniff,
            read: |input| list::read(input, gemini::Contents),
            read_stream: |stream| list::read_stream(gemini::Contents, stream),
            lines: false,
        }),
        write: None,
    },
    Format {
        name: markdown::FORMAT,
        about: "for people: what was said, called and answered",
        read: None,
        write: Some(markdown::write),
    },
];

/// The formats of agents that give a model instructions of their own. One agent's are not given to another.
const AGENTS: [&str; 2] = ["claude-code", codex::FORMAT];

/// The format of that name.
#[must_use]
pub fn named(name: &str) -> Option<&'static Format> {
    FORMATS.iter().find(|format| format.name == name)
}

/// The format that a text is in.
#[must_use]
pub fn detect(text: &str) -> Option<&'static Format> {
    FORMATS.iter().find(|format| format.read.as_ref().is_some_and(|reading| (reading.sniff)(text)))
}

/// Reads an input in a format, or in the one that it looks like.
///
/// # Errors
/// If the format cannot be told, or nothing can be read.
pub fn read(input: &Input, format: Option<&'static Format>) -> Result<Vec<Session>, ReadError> {
    match format.or_else(|| detect(&input.text)).and_then(|format| format.read.as_ref()) {
        Some(reading) => (reading.read)(input),
        None => Err(unknown(input)),
    }
}

/// Writes a session as a file of a format, mended; positions of findings are those of the source.
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
) -> Result<Converted, ConvertError> {
    let write = format.write.expect("BUG: asked to write a format that is only read");
    let (session, left_out) = instructions::without_those_of_others(session, format.name, &AGENTS);
    let mut converted = repaired(&session, on_broken, |view| {
        let written = write(&session, view, writing)?;
        Ok((written.text, written.findings))
    })?;
    converted.findings.extend(left_out);
    Ok(converted)
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
