//! The table of session formats: one entry each. `registry.rs` recognises, reads and writes with it.

use super::{
    agents::{
        self, antigravity, cline, codex_exec, copilot_cli, cursor, droid, gemini_cli, iflow, kiro, pi,
        qwen_code,
    },
    chats, claude_code, codex, cody, goose,
    growing::GrowingReader,
    inspect, jsonl, markdown, notes, opencode, openhands, orchestration, ploke, prometheus,
    registry::{
        FilesReading, Format, FunctionColumns, KnownAgent, ReadStream, ReadText, Reading, Resend, Write,
    },
    resend::known,
    sample::{Claim, Sample},
    trajectories, turns, xzatoma,
};
#[cfg(feature = "sqlite")]
use super::{crush, llm, openai_agents, registry::DatabaseReading};
#[cfg(feature = "sqlite")]
use crate::session::ReadError;
use crate::{
    accounting::Known,
    messages::{self, Style, list},
    wire::{gemini, openai_responses},
};

/// How another program's format is read.
const fn reading(
    sniff: fn(&Sample<'_>) -> Option<Claim>,
    text: Option<ReadText>,
    stream: ReadStream,
    known: &'static [Known],
) -> Option<Reading> {
    Some(plain_reading(sniff, text, stream, known))
}

/// How files of lines are read on after they have grown.
const fn growing_reading(
    sniff: fn(&Sample<'_>) -> Option<Claim>,
    stream: ReadStream,
    reader: fn() -> Box<dyn GrowingReader>,
    known: &'static [Known],
) -> Option<Reading> {
    Some(Reading { growing: Some(reader), ..plain_reading(sniff, None, stream, known) })
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
        growing: None,
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

/// A format of single documents that is only read.
const fn document(
    name: &'static str,
    about: &'static str,
    sniff: fn(&Sample<'_>) -> Option<Claim>,
    text: ReadText,
    known: &'static [Known],
) -> Format {
    let read = reading(sniff, Some(text), trajectories::too_large, known);
    read_only(name, about, read)
}

/// A format that is only read, from a database.
#[cfg(feature = "sqlite")]
const fn database(
    name: &'static str,
    about: &'static str,
    reading: DatabaseReading,
    known: &'static [Known],
) -> Format {
    const NO_TEXT: ReadError = ReadError::NoConversation("it is not a database, as files of this format are");
    let texts = plain_reading(|_| None, Some(|_, _| Err(NO_TEXT)), |_| Err(NO_TEXT), known);
    Format { name, about, read: Some(texts.with_database(reading)), write: None, agent: None }
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
    let reading =
        plain_reading(opencode::sniff, Some(opencode::read), trajectories::too_large, opencode::KNOWN)
            .with_files(opencode::STORAGE);
    #[cfg(feature = "sqlite")]
    let reading = reading.with_database(opencode::DATABASE);
    reading
};

const GOOSE: Reading = {
    let reading = plain_reading(goose::sniff, Some(goose::read), goose::read_stream, goose::KNOWN);
    #[cfg(feature = "sqlite")]
    let reading = reading.with_database(goose::DATABASE);
    reading
};

/// Databases are only written where they can be read.
#[cfg(feature = "sqlite")]
const XZATOMA_WRITER: Option<Write> = Some(xzatoma::write);
#[cfg(feature = "sqlite")]
const GOOSE_WRITER: Option<Write> = Some(goose::write);
#[cfg(not(feature = "sqlite"))]
const XZATOMA_WRITER: Option<Write> = None;
#[cfg(not(feature = "sqlite"))]
const GOOSE_WRITER: Option<Write> = None;

/// Every format, in the order in which they are tried.
pub const FORMATS: &[Format] = &[
    Format {
        name: "claude-code",
        about: "a Claude Code transcript, of a session or of one of its sub-agents",
        read: growing_reading(
            claude_code::sniff,
            claude_code::read_stream,
            claude_code::growing,
            claude_code::KNOWN,
        ),
        write: Some(claude_code::write),
        agent: Some(KnownAgent { name: "Claude Code", resend: Resend::Exactly(claude_code::resend) }),
    },
    Format {
        name: codex::FORMAT,
        about: "a rollout of Codex, `~/.codex/sessions/…/rollout-*.jsonl`",
        read: growing_reading(codex::sniff, codex::read_stream, codex::growing, codex::KNOWN),
        write: Some(codex::write),
        agent: Some(KnownAgent { name: "Codex", resend: Resend::Exactly(codex::resend) }),
    },
    Format {
        name: cody::FORMAT,
        about: "a conversation of cody, `~/.cody/conversations/*.jsonl`",
        read: reading(cody::sniff, None, cody::read_stream, openai_responses::read::KNOWN),
        write: Some(cody::write),
        agent: known::CODY,
    },
    Format {
        name: orchestration::FORMAT,
        about: "events of agent-orchestration-system, `.agent-sessions/*/events.jsonl`; each delegated run is a conversation",
        read: reading(orchestration::sniff, None, orchestration::read_stream, orchestration::KNOWN),
        write: None,
        agent: known::ORCHESTRATION,
    },
    Format {
        name: prometheus::FORMAT,
        about: "a dump of the tables of Prometheus Protocol's Discord bot, as JSON, CSV or SQL",
        read: reading(prometheus::sniff, Some(prometheus::read), prometheus::read_stream, prometheus::KNOWN),
        write: None,
        agent: known::PROMETHEUS,
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
        write: XZATOMA_WRITER,
        agent: known::XZATOMA,
    },
    Format {
        name: gemini_cli::FORMAT,
        about: "a session of Gemini CLI, `~/.gemini/tmp/…/chats/session-*.jsonl` or `.json`",
        read: reading(gemini_cli::sniff, Some(gemini_cli::read), gemini_cli::read_stream, gemini_cli::KNOWN),
        write: Some(gemini_cli::write),
        agent: known::GEMINI_CLI,
    },
    Format {
        name: pi::FORMAT,
        about: "a session of pi or OpenClaw, `~/.pi/agent/sessions/…/*.jsonl`",
        read: reading(pi::sniff, None, pi::read_stream, pi::KNOWN),
        write: Some(pi::write),
        agent: known::PI_OR_OPENCLAW,
    },
    Format {
        agent: known::QWEN_CODE,
        ..read_only(
            qwen_code::FORMAT,
            "a chat of Qwen Code, `~/.qwen/projects/…/chats/*.jsonl`",
            reading(qwen_code::sniff, None, qwen_code::read_stream, qwen_code::KNOWN),
        )
    },
    Format {
        agent: known::COPILOT_CLI,
        ..read_only(
            copilot_cli::FORMAT,
            "the events of GitHub Copilot CLI, `~/.copilot/session-state/…/events.jsonl`",
            reading(copilot_cli::sniff, None, copilot_cli::read_stream, copilot_cli::KNOWN),
        )
    },
    read_only(
        cursor::FORMAT,
        "a transcript of Cursor, `~/.cursor/projects/…/agent-transcripts/*.jsonl`, which holds no results of tools",
        reading(cursor::sniff, None, cursor::read_stream, cursor::KNOWN),
    ),
    Format {
        agent: known::DROID,
        ..read_only(
            droid::FORMAT,
            "a session of Droid, `~/.factory/sessions/…/*.jsonl`, or the stream of `droid exec`",
            reading(droid::sniff, None, droid::read_stream, droid::KNOWN),
        )
    },
    Format {
        agent: known::KIRO,
        ..read_only(
            kiro::FORMAT,
            "an export of Kiro, or a session of its command line",
            reading(kiro::sniff, Some(kiro::read), kiro::read_stream, kiro::KNOWN),
        )
    },
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
    Format {
        agent: known::CLINE,
        ..read_only(
            cline::CLINE,
            "a history of Cline, `api_conversation_history.json`, the folder of a task, or just `ui_messages.json`, with losses",
            history(
                cline::sniff_cline,
                cline::read_cline,
                |stream| agents::document_of(stream, cline::read_cline),
                cline::CLINE_TASKS,
            ),
        )
    },
    Format {
        agent: known::ROO_CODE,
        ..read_only(
            cline::ROO,
            "a history of Roo Code, `api_conversation_history.json`, the folder of a task, or just `ui_messages.json`, with losses",
            history(
                cline::sniff_roo,
                cline::read_roo,
                |stream| agents::document_of(stream, cline::read_roo),
                cline::ROO_TASKS,
            ),
        )
    },
    Format {
        name: opencode::FORMAT,
        about: "a session of opencode: its export, its storage folder, its database or a trajectory",
        read: Some(OPENCODE),
        write: Some(opencode::write),
        agent: known::OPENCODE,
    },
    Format {
        name: goose::FORMAT,
        about: "a session of goose: its database, an older `.jsonl` file or an export",
        read: Some(GOOSE),
        write: GOOSE_WRITER,
        agent: known::GOOSE,
    },
    #[cfg(feature = "sqlite")]
    Format {
        agent: known::CRUSH,
        ..database(crush::FORMAT, "the database of Crush, `.crush/crush.db`", crush::DATABASE, crush::KNOWN)
    },
    #[cfg(feature = "sqlite")]
    Format {
        write: Some(llm::write),
        agent: known::LLM,
        ..database(llm::FORMAT, "the database of `llm`, `logs.db`", llm::DATABASE, llm::KNOWN)
    },
    #[cfg(feature = "sqlite")]
    Format {
        agent: known::OPENAI_AGENTS,
        ..database(
            openai_agents::FORMAT,
            "a database of sessions of the OpenAI Agents SDK",
            openai_agents::DATABASE,
            openai_responses::read::KNOWN,
        )
    },
    Format {
        name: openhands::FORMAT,
        about: "events of OpenHands: an `output.jsonl`, a trajectory or a folder of events",
        read: Some(
            plain_reading(openhands::sniff, Some(openhands::read), openhands::read_stream, openhands::KNOWN)
                .with_files(openhands::EVENTS),
        ),
        write: None,
        agent: known::OPENHANDS,
    },
    document(
        trajectories::SWE_AGENT,
        "a trajectory of SWE-agent, `.traj`, or the history out of one",
        trajectories::sniff_swe_agent,
        trajectories::read_swe_agent,
        trajectories::SWE_KNOWN,
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
            plain_reading(inspect::sniff, Some(inspect::read), trajectories::too_large, inspect::KNOWN)
                .with_files(inspect::ARCHIVE),
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
            growing: None,
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
            Claim::new(Claim::SHARED, list::sniff(sample) == Some(Style::ToolCalls), "messages with a `role`")
        },
        |input, sample| list::read(input, sample, Style::ToolCalls),
        |stream| list::read_stream(Style::ToolCalls, stream),
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
            let is_so = list::sniff(sample) == Some(Style::Blocks);
            Claim::new(Claim::SHARED - 10, is_so, "messages whose blocks are Anthropic's")
        },
        |input, sample| list::read(input, sample, Style::Blocks),
        |stream| list::read_stream(Style::Blocks, stream),
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
pub(super) const AGENTS: [&str; 8] = [
    "claude-code",
    codex::FORMAT,
    cody::FORMAT,
    gemini_cli::FORMAT,
    pi::FORMAT,
    copilot_cli::FORMAT,
    goose::FORMAT,
    xzatoma::FORMAT,
];

/// What reads the columns `function_calls` and `function_results` of a row, by the name of its format.
pub(super) const FUNCTION_COLUMNS: [(&str, FunctionColumns); 1] =
    [(prometheus::FORMAT, prometheus::function_columns)];
