//! The session formats. Adding one: a module, and a line in [`FORMATS`].

use rejoin_view::{OnBroken, SoundView};

#[cfg(feature = "sqlite")]
use super::database::Database;
use crate::{
    accounting::{Known, Refuse, account, likeness},
    convert::{ConvertError, Converted, repaired},
    input::{Files, Input, Stream},
    messages::{self, Style, list},
    session::{ReadError, Session},
    sessions::{
        agents::{
            self, antigravity, cline, codex_exec, copilot_cli, cursor, droid, gemini_cli, iflow, kiro, pi,
            qwen_code,
        },
        claude_code, codex, cody, instructions, jsonl, lines, markdown, orchestration, ploke, prometheus,
        resend::Resent,
        sample::{Claim, Sample},
        turns,
        writing::{Writing, Written},
        xzatoma,
    },
    wire::TooLarge,
    wire::gemini,
    wire::openai_responses,
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
    /// The agent that writes such files, and what it would send on resuming one.
    pub agent: Option<Agent>,
}

/// An agent that keeps its sessions in a format.
pub struct Agent {
    /// What people call it.
    pub name: &'static str,
    /// The messages that it would send on resuming a session.
    pub resend: fn(&Session) -> Resent,
}

type ReadText = fn(&Input, Sample<'_>) -> Result<Vec<Session>, ReadError>;
type ReadStream = fn(Stream<'_>) -> Result<Vec<Session>, ReadError>;

/// How conversations are read from a format.
pub struct Reading {
    /// How surely a text, or the beginning of one, is in it, and why.
    pub sniff: fn(&Sample<'_>) -> Option<Claim>,
    /// Reads every conversation in a text; `None` for files of lines, which are always read as a stream.
    text: Option<ReadText>,
    /// Reads every conversation in a stream of lines.
    stream: ReadStream,
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
    /// How surely these are files of the format, judged by their names and perhaps one of them.
    pub sniff: fn(&dyn Files) -> Option<Claim>,
    /// Reads every conversation in them.
    pub read: fn(&dyn Files) -> Result<Vec<Session>, ReadError>,
}

/// How conversations are read from a database.
#[cfg(feature = "sqlite")]
pub struct DatabaseReading {
    /// How surely it is one of the format, judged by its tables.
    pub sniff: fn(&Database) -> Option<Claim>,
    /// Reads every conversation in it.
    pub read: fn(&Database) -> Result<Vec<Session>, ReadError>,
}

impl Reading {
    /// Also reads folders and archives.
    const fn with_files(self, reading: FilesReading) -> Self {
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
        account(self.sessions(input, Sample::new(&input.text))?, self.refuse(Refuse::AnyFile))
    }

    /// Reads every conversation in a stream of lines, and reports the text that was not understood.
    ///
    /// # Errors
    /// If there is no conversation in it, it cannot be read, or most of its text was not understood.
    pub fn read_stream(&self, stream: Stream<'_>) -> Result<Vec<Session>, ReadError> {
        account((self.stream)(stream)?, self.refuse(Refuse::AnyFile))
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

    fn refuse(&self, refuse: Refuse) -> Refuse {
        if self.own { Refuse::Nothing } else { refuse }
    }
}

/// How another program's format is read.
const fn reading(
    sniff: fn(&Sample<'_>) -> Option<Claim>,
    text: Option<ReadText>,
    stream: ReadStream,
    known: &'static [Known],
) -> Option<Reading> {
    Some(plain_reading(sniff, text, stream, known))
}

/// The same, to which more may be added.
const fn plain_reading(
    sniff: fn(&Sample<'_>) -> Option<Claim>,
    text: Option<ReadText>,
    stream: ReadStream,
    known: &'static [Known],
) -> Reading {
    Reading {
        sniff,
        text,
        stream,
        files: None,
        #[cfg(feature = "sqlite")]
        database: None,
        own: false,
        known,
    }
}

/// How a document is read that may also lie in a folder.
const fn history(
    sniff: fn(&Sample<'_>) -> Option<Claim>,
    text: ReadText,
    stream: ReadStream,
    files: FilesReading,
) -> Option<Reading> {
    Some(plain_reading(sniff, Some(text), stream, cline::KNOWN).with_files(files))
}

/// A format of another agent that is only read.
const fn read_only(name: &'static str, about: &'static str, read: Option<Reading>) -> Format {
    Format { name, about, read, write: None, agent: None }
}

/// The requests of a dialect. Its encoder writes them, not a session format.
const fn body(
    name: &'static str,
    about: &'static str,
    sniff: fn(&Sample<'_>) -> Option<Claim>,
    text: ReadText,
    stream: ReadStream,
    known: &'static [Known],
) -> Format {
    Format { name, about, read: reading(sniff, Some(text), stream, known), write: None, agent: None }
}

/// Every format, in the order in which they are tried.
pub const FORMATS: &[Format] = &[
    Format {
        name: "claude-code",
        about: "a Claude Code transcript, of a session or of one of its sub-agents",
        read: reading(claude_code::sniff, None, claude_code::read_stream, claude_code::KNOWN),
        write: Some(claude_code::write),
        agent: Some(Agent { name: "Claude Code", resend: claude_code::resend }),
    },
    Format {
        name: codex::FORMAT,
        about: "a rollout of Codex, `~/.codex/sessions/…/rollout-*.jsonl`",
        read: reading(codex::sniff, None, codex::read_stream, codex::KNOWN),
        write: Some(codex::write),
        agent: Some(Agent { name: "Codex", resend: codex::resend }),
    },
    Format {
        name: cody::FORMAT,
        about: "a conversation of cody, `~/.cody/conversations/*.jsonl`",
        read: reading(cody::sniff, None, cody::read_stream, openai_responses::read::KNOWN),
        write: Some(cody::write),
        agent: None,
    },
    Format {
        name: orchestration::FORMAT,
        about: "events of agent-orchestration-system, `.agent-sessions/*/events.jsonl`; each delegated run is a conversation",
        read: reading(orchestration::sniff, None, orchestration::read_stream, orchestration::KNOWN),
        write: None,
        agent: None,
    },
    Format {
        name: prometheus::FORMAT,
        about: "a dump of the tables of Prometheus Protocol's Discord bot, as JSON, CSV or SQL",
        read: reading(prometheus::sniff, Some(prometheus::read), prometheus::read_stream, prometheus::KNOWN),
        write: None,
        agent: None,
    },
    Format {
        name: ploke::FORMAT,
        about: "the Markdown that ploke's `save history` writes, `.ploke_history.md`; it holds less than was said",
        read: Some(ploke::and_backups(plain_reading(
            ploke::sniff,
            Some(ploke::read),
            ploke::read_stream,
            ploke::KNOWN,
        ))),
        write: None,
        agent: None,
    },
    Format {
        name: xzatoma::FORMAT,
        about: "the database of xzatoma, `history.db`",
        read: Some(xzatoma::and_databases(
            plain_reading(|_| None, Some(xzatoma::read), xzatoma::read_stream, xzatoma::KNOWN)
                .with_files(xzatoma::SUBAGENTS),
        )),
        write: None,
        agent: None,
    },
    Format {
        name: gemini_cli::FORMAT,
        about: "a session of Gemini CLI, `~/.gemini/tmp/…/chats/session-*.jsonl` or `.json`",
        read: reading(gemini_cli::sniff, Some(gemini_cli::read), gemini_cli::read_stream, gemini_cli::KNOWN),
        write: Some(gemini_cli::write),
        agent: None,
    },
    Format {
        name: pi::FORMAT,
        about: "a session of pi or OpenClaw, `~/.pi/agent/sessions/…/*.jsonl`",
        read: reading(pi::sniff, None, pi::read_stream, pi::KNOWN),
        write: Some(pi::write),
        agent: None,
    },
    read_only(
        qwen_code::FORMAT,
        "a chat of Qwen Code, `~/.qwen/projects/…/chats/*.jsonl`",
        reading(qwen_code::sniff, None, qwen_code::read_stream, qwen_code::KNOWN),
    ),
    read_only(
        copilot_cli::FORMAT,
        "the events of GitHub Copilot CLI, `~/.copilot/session-state/…/events.jsonl`",
        reading(copilot_cli::sniff, None, copilot_cli::read_stream, copilot_cli::KNOWN),
    ),
    read_only(
        cursor::FORMAT,
        "a transcript of Cursor, `~/.cursor/projects/…/agent-transcripts/*.jsonl`, which holds no results of tools",
        reading(cursor::sniff, None, cursor::read_stream, cursor::KNOWN),
    ),
    read_only(
        droid::FORMAT,
        "a session of Droid, `~/.factory/sessions/…/*.jsonl`, or the stream of `droid exec`",
        reading(droid::sniff, None, droid::read_stream, droid::KNOWN),
    ),
    read_only(
        kiro::FORMAT,
        "an export of Kiro, or a session of its command line",
        reading(kiro::sniff, Some(kiro::read), kiro::read_stream, kiro::KNOWN),
    ),
    read_only(
        iflow::FORMAT,
        "a session of iFlow",
        reading(iflow::sniff, None, iflow::read_stream, iflow::KNOWN),
    ),
    read_only(
        antigravity::FORMAT,
        "an export of Antigravity",
        reading(
            antigravity::sniff,
            Some(antigravity::read),
            |stream| agents::document_of(stream, antigravity::read),
            messages::KNOWN,
        ),
    ),
    read_only(
        codex_exec::FORMAT,
        "the output of `codex exec --json`, which does not hold what a person said",
        reading(codex_exec::sniff, None, codex_exec::read_stream, codex_exec::KNOWN),
    ),
    read_only(
        cline::CLINE,
        "a history of Cline, `api_conversation_history.json`, or the folder of a task",
        history(
            cline::sniff_cline,
            cline::read_cline,
            |stream| agents::document_of(stream, cline::read_cline),
            FilesReading { sniff: cline::sniff_cline_files, read: cline::read_cline_files },
        ),
    ),
    read_only(
        cline::ROO,
        "a history of Roo Code, `api_conversation_history.json`, or the folder of a task",
        history(
            cline::sniff_roo,
            cline::read_roo,
            |stream| agents::document_of(stream, cline::read_roo),
            FilesReading { sniff: cline::sniff_roo_files, read: cline::read_roo_files },
        ),
    ),
    Format {
        name: turns::FORMAT,
        about: "one turn a line, `{timestamp, items, metadata}`",
        read: reading(turns::sniff, None, turns::read_stream, openai_responses::read::KNOWN),
        write: Some(turns::write),
        agent: None,
    },
    Format {
        name: jsonl::FORMAT,
        about: "rejoin's own record, one entry a line",
        read: Some(Reading {
            sniff: jsonl::sniff,
            text: None,
            stream: jsonl::read_stream,
            files: None,
            #[cfg(feature = "sqlite")]
            database: None,
            own: true,
            known: &[],
        }),
        write: Some(jsonl::write),
        agent: None,
    },
    body(
        "openai-chat",
        "an OpenAI Chat request body, or just its list of messages",
        |sample| {
            Claim::new(Claim::SHARED, list::sniff(sample) == Some(Style::OpenAi), "messages with a `role`")
        },
        |input, sample| list::read(input, sample, Style::OpenAi),
        |stream| list::read_stream(Style::OpenAi, stream),
        messages::KNOWN,
    ),
    body(
        "openai-responses",
        "an OpenAI Responses request body, or just its list of items",
        |sample| {
            let is_so = openai_responses::read::list::sniff(sample);
            Claim::new(Claim::SHARED - 5, is_so, "items of the Responses API")
        },
        openai_responses::read::list::read,
        openai_responses::read::list::read_stream,
        openai_responses::read::KNOWN,
    ),
    body(
        "anthropic",
        "an Anthropic Messages request body, or just its list of messages",
        |sample| {
            let is_so = list::sniff(sample) == Some(Style::Anthropic);
            Claim::new(Claim::SHARED - 10, is_so, "messages whose blocks are Anthropic's")
        },
        |input, sample| list::read(input, sample, Style::Anthropic),
        |stream| list::read_stream(Style::Anthropic, stream),
        messages::KNOWN,
    ),
    body(
        "gemini",
        "a Gemini request body, just its list of contents, or a checkpoint of one",
        |sample| Claim::new(Claim::SHARED - 15, gemini::read::sniff(sample), "contents with `parts`"),
        |input, sample| list::read(input, sample, gemini::read::Contents),
        |stream| list::read_stream(gemini::read::Contents, stream),
        gemini::read::KNOWN,
    ),
    Format {
        name: markdown::FORMAT,
        about: "for people: what was said, called and answered",
        read: None,
        write: Some(markdown::write),
        agent: None,
    },
];

/// The formats of agents that give a model their own instructions, which are not passed on to another agent.
const AGENTS: [&str; 6] =
    ["claude-code", codex::FORMAT, cody::FORMAT, gemini_cli::FORMAT, pi::FORMAT, copilot_cli::FORMAT];

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

/// Every format that claims a text, the surest first.
pub fn claims(text: &str) -> Vec<(&'static Format, Claim)> {
    claims_among(&Sample::new(text), |_| true)
}

fn detect_in(sample: &Sample<'_>) -> Result<Option<&'static Format>, ReadError> {
    surest(&claims_among(sample, |_| true))
}

fn claims_among(sample: &Sample<'_>, among: impl Fn(&Reading) -> bool) -> Vec<(&'static Format, Claim)> {
    let one = sample.is_one_value();
    let claim = |format: &'static Format| {
        let reading =
            format.read.as_ref().filter(|reading| among(reading) && !(one && reading.is_lines()))?;
        Some((format, (reading.sniff)(sample)?))
    };
    let is_sure = |claims: &Vec<(&Format, Claim)>| {
        claims.iter().any(|(_, claim)| claim.certainty >= Claim::SURE - SLIGHTLY)
    };
    let mut claims = sample.ask(|| FORMATS.iter().filter_map(claim).collect(), is_sure);
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
    let refuse = if format.is_some() { Refuse::AllButBodies } else { Refuse::AnyFile };
    let sample = Sample::new(&input.text);
    let format_read = match format {
        Some(format) => Some(format),
        None => detect_in(&sample)?,
    };
    match format_read.and_then(|format| format.read.as_ref()) {
        Some(reading) => match reading.sessions(input, sample) {
            Ok(sessions) => account(sessions, reading.refuse(refuse)),
            Err(ReadError::NoConversation(why)) if format.is_none() => {
                let nothing = ReadError::NoConversation(why);
                Err(likeness::of_text(&input.text).map_or(nothing, |shape| ReadError::Foreign { shape }))
            }
            Err(error) => Err(error),
        },
        None => Err(unknown(input, &sample)),
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
    account((reading(format).ok_or(nothing)?.read)(files)?, Refuse::AnyFile)
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
    let format = chosen(format, |format| (reading(format)?.sniff)(database))?;
    let nothing = ReadError::NoConversation("the format is not one of databases");
    account((reading(format).ok_or(nothing)?.read)(database)?, Refuse::AnyFile)
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

/// Repairs a session and writes it as a file of a format. The positions of findings refer to the source.
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
fn unknown(input: &Input, sample: &Sample<'_>) -> ReadError {
    match sample.whole().1 {
        Some(error) if !error.reason.contains("after the end") => ReadError::NotJson {
            reason: error.reason,
            line: input.line_of(error.offset),
            offset: error.offset,
        },
        _ => likeness::of_text(&input.text)
            .or_else(|| likeness::by_its_fields(&input.text))
            .map_or(ReadError::UnknownFormat, |shape| ReadError::Foreign { shape }),
    }
}
