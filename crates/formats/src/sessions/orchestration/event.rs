//! One line of the file.

use std::sync::Arc;

use rejoin_record::{
    Block, Origin, Text,
    json::{Value, ValueKind},
};

use crate::{
    session::{SourcePlace, instant},
    sessions::{
        building::{as_text, call, result},
        lines::{Line, text_of, time_of},
    },
};

/// The types of lines that hold words of the conversation.
pub(super) const SAID: &str = "user assistant tool_call tool_result";

/// The types of lines about runs, errors and settings.
pub(super) const NOTED: &str = "agent_start agent_iteration agent_complete delegation agent_error delegation_complete \
                                todo_update safety_limit session_recovery model_selection mcp_server_connected";

/// The name under which the program itself speaks.
const PROGRAM: &str = "system";

/// What a line begins with that holds a model's reasoning.
const THINKING: &str = "🧠 Agent Thinking:";

/// The tools that start another agent, under their names over time.
const DELEGATING: &str = "delegate Task task";

pub(super) struct Event {
    pub line: Arc<str>,
    pub place: SourcePlace,
    /// The time as written.
    pub written: Option<Text>,
    /// In microseconds. A line without a time has that of the line before it.
    pub time: i64,
    /// What the program says of the model's response. All lines of one response have the same.
    pub metadata: Option<Text>,
    pub model: Option<Text>,
    pub provider: Option<Text>,
    pub what: EventKind,
}

pub(super) enum EventKind {
    User(Text),
    /// A model's text, and the agent that it speaks for.
    Answer {
        agent: Text,
        text: Text,
    },
    /// A model's reasoning, before its next line.
    Thinking(Text),
    Call(Call),
    /// The result of a call with this id.
    Result {
        call: Option<Text>,
        block: Block,
    },
    Start {
        agent: Text,
        depth: u64,
    },
    Iteration {
        agent: Text,
    },
    /// The end of a run, and how long it took in microseconds.
    Complete {
        agent: Text,
        duration: i64,
    },
    Delegation {
        parent: Text,
        child: Text,
        task: Text,
    },
    /// Known, and no part of the conversation.
    Bookkeeping,
    Unknown,
}

pub(super) struct Call {
    pub agent: Text,
    pub id: Option<Text>,
    pub tool: Text,
    pub arguments: Text,
    /// What another agent is to do, if the call starts one.
    pub task: Option<Text>,
    pub block: Block,
}

impl EventKind {
    /// The order of lines with the same time.
    pub fn rank(&self) -> u8 {
        match self {
            Self::Start { .. } | Self::Delegation { .. } => 0,
            Self::User(_) => 1,
            Self::Iteration { .. } => 2,
            Self::Thinking(_) => 3,
            Self::Answer { .. } => 4,
            Self::Call(_) => 5,
            Self::Result { .. } => 6,
            Self::Bookkeeping | Self::Unknown => 7,
            Self::Complete { .. } => 8,
        }
    }
}

impl Event {
    /// A line that cannot be read, or says nothing.
    pub fn noted(line: &Line, before: i64) -> Self {
        Self {
            line: Arc::clone(&line.text),
            place: line.place,
            written: None,
            time: before,
            metadata: None,
            model: None,
            provider: None,
            what: EventKind::Bookkeeping,
        }
    }

    /// Reads a line. `before` is the time of the line before it.
    pub fn read(line: &Line, root: Value<'_>, before: i64) -> Self {
        let written = root.given("timestamp").map(time_of);
        let time = written.as_ref().and_then(|time| instant(time)).map(|time| time.as_microsecond());
        let metadata = root.given("metadata").filter(|metadata| metadata.kind() == ValueKind::Object);
        let data = root.given("data").filter(|data| data.kind() == ValueKind::Object);
        Self {
            written,
            time: time.unwrap_or(before),
            metadata: metadata.map(|metadata| Text::new(metadata.raw())),
            model: metadata.and_then(|metadata| text_of(metadata, "model")),
            provider: metadata.and_then(|metadata| text_of(metadata, "provider")),
            what: data
                .filter(|_| time.is_some())
                .map_or(EventKind::Unknown, |data| what(&root.word("type"), data)),
            ..Self::noted(line, before)
        }
    }
}

fn what(kind: &str, data: Value<'_>) -> EventKind {
    let word = |name: &str| text_of(data, name).unwrap_or_else(|| Text::new(""));
    let millis = |name: &str| data.get(name).and_then(|value| value.raw().parse::<f64>().ok()).unwrap_or(0.0);
    match kind {
        "user" => {
            data.given("content").map_or(EventKind::Unknown, |content| EventKind::User(as_text(content)))
        }
        "assistant" => match data.given("content").map(as_text) {
            Some(text) if data.says("agent", PROGRAM) => {
                let thought =
                    text.trim_start().strip_prefix(THINKING).map(|thought| Text::new(thought.trim()));
                thought
                    .filter(|thought| !thought.is_blank())
                    .map_or(EventKind::Bookkeeping, EventKind::Thinking)
            }
            Some(text) if !text.is_blank() => EventKind::Answer { agent: word("agent"), text },
            _ => EventKind::Bookkeeping,
        },
        "tool_call" => {
            let (id, tool, params) = (text_of(data, "id"), word("tool"), data.given("params"));
            let starts = DELEGATING.split(' ').any(|name| name == tool.as_str());
            EventKind::Call(Call {
                agent: word("agent"),
                arguments: params.map_or_else(|| Text::new(""), |params| Text::new(params.raw())),
                task: params.filter(|_| starts).and_then(|params| text_of(params, "prompt")),
                block: call(id.as_deref(), Some(&tool), params),
                id,
                tool,
            })
        }
        "tool_result" => {
            let id = text_of(data, "toolCallId");
            let (content, is_error) = data.given("result").map_or((Vec::new(), false), outcome);
            EventKind::Result { block: result(id.as_deref(), None, content, is_error), call: id }
        }
        "agent_start" => {
            let depth = data.get("depth").and_then(Value::as_u64).unwrap_or(0);
            EventKind::Start { agent: word("agent"), depth }
        }
        "agent_iteration" => EventKind::Iteration { agent: word("agent") },
        "agent_complete" => {
            EventKind::Complete { agent: word("agent"), duration: (millis("duration") * 1e3) as i64 }
        }
        "delegation" => {
            EventKind::Delegation { parent: word("parent"), child: word("child"), task: word("task") }
        }
        noted if NOTED.split(' ').any(|known| known == noted) => EventKind::Bookkeeping,
        _ => EventKind::Unknown,
    }
}

/// What a tool gave, and whether it failed: a text, an object with the content, or one with an error.
fn outcome(result: Value<'_>) -> (Vec<Block>, bool) {
    let error = result.given("error").filter(|error| error.as_bool() != Some(false));
    let content = result.given("content").filter(|_| result.kind() == ValueKind::Object);
    let others = result.fields().any(|(key, _)| !key.is_str("content") && !key.is_str("error"));
    match (content, error) {
        (Some(content), None) => (texts(content), false),
        (None, Some(error)) if !others && error.kind() == ValueKind::String => {
            (vec![Block::text(as_text(error))], true)
        }
        (_, error) => (vec![Block::text(as_text(result))], error.is_some()),
    }
}

/// The texts of a content: several if it is a list of text blocks.
fn texts(content: Value<'_>) -> Vec<Block> {
    let is_text = |block: Value<'_>| block.says("type", "text") && block.holds("text", ValueKind::String);
    if content.kind() == ValueKind::Array && content.items().next().is_some() && content.items().all(is_text)
    {
        let texts = content.items().filter_map(|block| block.get("text"));
        return texts.map(|text| Block::text(as_text(text))).collect();
    }
    vec![Block::text(as_text(content))]
}

/// Reasoning that was stored without its signature.
pub(super) fn reasoning(thought: Text) -> Block {
    Block::reasoning(thought, false, Origin { incomplete: true, ..Origin::default() })
}
