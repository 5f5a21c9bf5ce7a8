//! The session formats. Adding one: a module, and a line in [`FORMATS`].

use rejoin_view::{OnBroken, SoundView};

#[cfg(feature = "sqlite")]
use super::{crush, database::Database, llm, openai_agents};
use crate::{
    accounting::{Known, Refuse, account, likeness},
    convert::{ConvertError, Converted, repaired},
    input::{Files, Input, Stream},
    messages::{self, Style, list},
    session::{ReadError, Session},
    sessions::{
        chats, claude_code, codex, goose, inspect, instructions, jsonl, lines, markdown, notes, opencode,
        openhands,
        resend::Resent,
        sample::{Claim, Sample},
        trajectories, turns,
        writing::{Writing, Written},
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
    const fn with_files(
        self,
        sniff: fn(&dyn Files) -> Option<Claim>,
        read: fn(&dyn Files) -> Result<Vec<Session>, ReadError>,
    ) -> Self {
        Self { files: Some(FilesReading { sniff, read }), ..self }
    }

    /// Also reads databases.
    #[cfg(feature = "sqlite")]
    const fn with_database(
        self,
        sniff: fn(&Database) -> Option<Claim>,
        read: fn(&Database) -> Result<Vec<Session>, ReadError>,
    ) -> Self {
        Self { database: Some(DatabaseReading { sniff, read }), ..self }
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
    Some(of_texts(sniff, text, stream, known))
}

const fn of_texts(
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

/// A format of single documents that is only read.
const fn document(
    name: &'static str,
    about: &'static str,
    sniff: fn(&Sample<'_>) -> Option<Claim>,
    text: ReadText,
    known: &'static [Known],
) -> Format {
    let read = reading(sniff, Some(text), trajectories::too_large, known);
    Format { name, about, read, write: None, agent: None }
}

/// A format that is only read, from a database.
#[cfg(feature = "sqlite")]
const fn database(
    name: &'static str,
    about: &'static str,
    sniff: fn(&Database) -> Option<Claim>,
    read: fn(&Database) -> Result<Vec<Session>, ReadError>,
    known: &'static [Known],
) -> Format {
    const NO_TEXT: ReadError = ReadError::NoConversation("the format is one of databases");
    let texts = of_texts(|_| None, Some(|_, _| Err(NO_TEXT)), |_| Err(NO_TEXT), known);
    Format { name, about, read: Some(texts.with_database(sniff, read)), write: None, agent: None }
}

/// A form of messages, in a list or one per line, that is only read.
macro_rules! chat {
    ($chat:path, $about:literal) => {
        Format {
            name: $chat.name,
            about: $about,
            read: reading(
                |sample| $chat.sniff(sample),
                Some(|input, sample| $chat.read(input, sample)),
                |stream| $chat.read_stream(stream),
                $chat.known,
            ),
            write: None,
            agent: None,
        }
    };
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

const OPENCODE: Reading = {
    let reading = of_texts(opencode::sniff, Some(opencode::read), trajectories::too_large, opencode::KNOWN)
        .with_files(opencode::sniff_files, opencode::read_files);
    #[cfg(feature = "sqlite")]
    let reading = reading.with_database(opencode::sniff_database, opencode::read_database);
    reading
};

const GOOSE: Reading = {
    let reading = of_texts(goose::sniff, Some(goose::read), goose::read_stream, goose::KNOWN);
    #[cfg(feature = "sqlite")]
    let reading = reading.with_database(goose::sniff_database, goose::read_database);
    reading
};

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
        name: opencode::FORMAT,
        about: "a session of opencode: its export, its storage folder or its database",
        read: Some(OPENCODE),
        write: Some(opencode::write),
        agent: None,
    },
    Format {
        name: goose::FORMAT,
        about: "a session of goose: its database, an older `.jsonl` file or an export",
        read: Some(GOOSE),
        write: None,
        agent: None,
    },
    #[cfg(feature = "sqlite")]
    database(
        crush::FORMAT,
        "the database of Crush, `.crush/crush.db`",
        crush::sniff,
        crush::read,
        crush::KNOWN,
    ),
    #[cfg(feature = "sqlite")]
    database(llm::FORMAT, "the database of `llm`, `logs.db`", llm::sniff, llm::read, llm::KNOWN),
    #[cfg(feature = "sqlite")]
    database(
        openai_agents::FORMAT,
        "a database of sessions of the OpenAI Agents SDK",
        openai_agents::sniff,
        openai_agents::read,
        openai_responses::read::KNOWN,
    ),
    Format {
        name: openhands::FORMAT,
        about: "events of OpenHands: an `output.jsonl`, a trajectory or a folder of events",
        read: Some(
            of_texts(openhands::sniff, Some(openhands::read), openhands::read_stream, openhands::KNOWN)
                .with_files(openhands::sniff_files, openhands::read_files),
        ),
        write: None,
        agent: None,
    },
    document(
        trajectories::SWE_AGENT,
        "a trajectory of SWE-agent, `.traj`, or the history out of one",
        trajectories::sniff_swe_agent,
        trajectories::read_swe_agent,
        messages::KNOWN,
    ),
    document(
        trajectories::MINI_SWE_AGENT,
        "a trajectory of mini-swe-agent, `.traj.json`, also as YAML",
        trajectories::sniff_mini_swe_agent,
        trajectories::read_mini_swe_agent,
        messages::KNOWN,
    ),
    document(
        trajectories::TAU_BENCH,
        "runs of tau-bench",
        trajectories::sniff_tau_bench,
        trajectories::read_tau_bench,
        messages::KNOWN,
    ),
    document(
        trajectories::TAU2_BENCH,
        "simulations of tau2-bench",
        trajectories::sniff_tau2_bench,
        trajectories::read_tau2_bench,
        messages::KNOWN,
    ),
    Format {
        name: inspect::FORMAT,
        about: "a log of Inspect, as JSON or as an `.eval` archive",
        read: Some(
            of_texts(inspect::sniff, Some(inspect::read), trajectories::too_large, inspect::KNOWN)
                .with_files(inspect::sniff_files, inspect::read_files),
        ),
        write: None,
        agent: None,
    },
    chat!(chats::AGENT_FRAMEWORK, "messages of Microsoft's Agent Framework"),
    chat!(chats::LANGCHAIN, "messages of LangChain, as `messages_to_dict` or `dumps` writes them"),
    chat!(chats::SHAREGPT, "conversations in the form of ShareGPT, `from` and `value`"),
    chat!(chats::ENTIRE, "a compact transcript of Entire"),
    document(
        notes::AIDER,
        "the chat history of aider, `.aider.chat.history.md`, with losses",
        notes::sniff_aider,
        notes::read_aider,
        notes::KNOWN,
    ),
    document(
        notes::SPECSTORY,
        "a file of SpecStory, `.specstory/history/*.md`, with losses",
        notes::sniff_specstory,
        notes::read_specstory,
        notes::KNOWN,
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
const AGENTS: [&str; 2] = ["claude-code", codex::FORMAT];

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

/// The format that claims the files of a folder or an archive. `None` also if two formats are equally sure.
pub fn claim_files(files: &dyn Files) -> Option<&'static Format> {
    chosen(None, |format| (format.read.as_ref()?.files.as_ref()?.sniff)(files)).ok()
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
            .map_or(ReadError::UnknownFormat, |shape| ReadError::Foreign { shape }),
    }
}
