//! The "model". The default brain depends only on the conversation: the last text of a person may contain directives, and otherwise
//! it is echoed. A test may use another brain.
//!
//! Directives, as words of the text: `tools:3` three calls at a time, `steps:2` twice, `think` with reasoning, `words:500` a long
//! answer, `read:PATH` the file for `read_file`, `change` calls that change files and run commands, `call:NAME` a call of that
//! tool, `with:JSON` its arguments (without blanks), `length` an answer that reaches its limit.

use rejoin_formats::Dialect;
use serde_json::{Value, json};

use super::Service;

/// A request to the model, in any dialect.
#[derive(Debug, Clone)]
pub struct Ask {
    /// The service that was asked.
    pub service: Service,
    /// The dialect of the request.
    pub dialect: Dialect,
    /// The model.
    pub model: String,
    /// Instructions.
    pub system: String,
    /// The tools that may be called.
    pub tools: Vec<Tool>,
    /// All messages, in order.
    pub said: Vec<PromptMessage>,
    /// Whether the request wants reasoning.
    pub reasoning: bool,
    /// Whether the answer is streamed.
    pub stream: bool,
    /// The request itself.
    pub body: Value,
}

/// A tool that was declared.
#[derive(Debug, Clone, PartialEq)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// The schema of its arguments.
    pub schema: Value,
}

/// A message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PromptMessage {
    /// By a person.
    User(String),
    /// By the model.
    Model {
        /// Its text.
        text: String,
        /// Its calls.
        calls: Vec<Called>,
    },
    /// By a tool.
    Result {
        /// The id of the call, where the dialect has ids.
        id: String,
        /// The tool's output.
        text: String,
    },
}

/// A call in the history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Called {
    /// Its id, where the dialect has ids.
    pub id: String,
    /// The tool.
    pub name: String,
    /// Its arguments, as JSON.
    pub arguments: String,
}

/// The model's answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Say {
    /// Its reasoning, if the dialect can carry it.
    pub reasoning: Option<String>,
    /// Its text.
    pub text: String,
    /// Its calls.
    pub calls: Vec<Call>,
    /// Why it stops.
    pub stop: Stop,
}

/// A call that the model makes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The tool.
    pub name: String,
    /// Its arguments, as JSON.
    pub arguments: String,
}

/// Why a model stops.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Stop {
    /// It is done, or waits for results.
    #[default]
    Done,
    /// It ran into the limit of its answer.
    Length,
    /// The model refused to continue.
    Refused,
}

impl Say {
    /// Plain text.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }
}

/// A person's directives for the default brain.
#[derive(Debug, Default)]
struct Directives<'a> {
    tools: usize,
    steps: usize,
    words: usize,
    think: bool,
    length: bool,
    change: bool,
    read: Option<&'a str>,
    call: Option<&'a str>,
    with: Option<&'a str>,
}

impl<'a> Directives<'a> {
    fn read(text: &'a str) -> Self {
        let mut found = Self { steps: 1, ..Self::default() };
        for word in text.split_whitespace() {
            let word = word.trim_matches([',', '.', ';', '(', ')', '"', '`']);
            let number = |value: &str| value.parse().unwrap_or(0).min(1_000_000);
            match word.split_once(':') {
                Some(("tools", value)) => found.tools = number(value),
                Some(("steps", value)) => found.steps = number(value),
                Some(("words", value)) => found.words = number(value),
                Some(("read", value)) => found.read = Some(value),
                Some(("call", value)) => (found.call, found.tools) = (Some(value), found.tools.max(1)),
                Some(("with", value)) => found.with = Some(value),
                None if word == "think" => found.think = true,
                None if word == "length" => found.length = true,
                None if word == "change" => found.change = true,
                _ => {}
            }
        }
        found
    }
}

/// The default brain.
#[must_use]
pub fn answer(ask: &Ask) -> Say {
    let last = ask.said.iter().rposition(|said| matches!(said, PromptMessage::User(_)));
    // One text of a person may have arrived in several pieces.
    let first = last.map(|last| {
        ask.said[..last]
            .iter()
            .rposition(|said| !matches!(said, PromptMessage::User(_)))
            .map_or(0, |other| other + 1)
    });
    let heard: Vec<&str> = match (first, last) {
        (Some(first), Some(last)) => ask.said[first..=last]
            .iter()
            .filter_map(|said| if let PromptMessage::User(text) = said { Some(text.as_str()) } else { None })
            .collect(),
        _ => Vec::new(),
    };
    let text = heard.last().copied().unwrap_or_default();
    let since = &ask.said[last.map_or(0, |last| last + 1)..];
    let wanted = Directives::read(text);
    let rounds = since
        .iter()
        .filter(|said| matches!(said, PromptMessage::Model { calls, .. } if !calls.is_empty()))
        .count();
    let reasoning = (wanted.think || ask.reasoning)
        .then(|| format!("They said \"{}\". This is round {}; I think about it.", short(text), rounds + 1));
    let stop = if wanted.length { Stop::Length } else { Stop::Done };
    if wanted.tools > 0 && rounds < wanted.steps && !ask.tools.is_empty() {
        let before: usize = ask
            .said
            .iter()
            .map(|said| if let PromptMessage::Model { calls, .. } = said { calls.len() } else { 0 })
            .sum();
        let calls = (before..before + wanted.tools).map(|number| call(ask, number, &wanted)).collect();
        // Some models explain themselves before they call, some do not.
        let text =
            if rounds % 2 == 0 { format!("Round {}: let me look.", rounds + 1) } else { String::new() };
        return Say { reasoning, text, calls, stop };
    }
    let mut say = if rounds > 0 {
        let results: Vec<String> = since
            .iter()
            .filter_map(
                |said| if let PromptMessage::Result { text, .. } = said { Some(short(text)) } else { None },
            )
            .enumerate()
            .map(|(number, text)| format!("{}. {text}", number + 1))
            .collect();
        format!("After {rounds} rounds I saw {} results:\n{}", results.len(), results.join("\n"))
    } else {
        format!("You said: {text}")
    };
    for number in 0..wanted.words {
        say.push_str(&format!(" word{number}"));
    }
    Say { reasoning, text: say, calls: Vec::new(), stop }
}

/// The beginning of a text.
fn short(text: &str) -> String {
    let line: String = text.chars().take(200).collect();
    line.replace('\n', " / ")
}

/// The call of that number: the tools that are known take turns, or all of them if none is.
fn call(ask: &Ask, number: usize, wanted: &Directives<'_>) -> Call {
    let known: &[&str] = match (wanted.call, wanted.change) {
        (Some(name), _) => &[name],
        (None, true) => {
            &["write_file", "edit_file", "run", "kit__nap", "find", "delegate", "grep", "read_file"]
        }
        (None, false) => &["calculate", "list_dir", "read_file"],
    };
    if let (Some(name), Some(arguments)) = (wanted.call, wanted.with) {
        return Call { name: name.to_owned(), arguments: arguments.to_owned() };
    }
    let mut tools: Vec<&Tool> =
        known.iter().filter_map(|name| ask.tools.iter().find(|tool| tool.name == *name)).collect();
    if tools.is_empty() {
        tools.extend(&ask.tools);
    }
    let tool = tools[number % tools.len()];
    let arguments = match tool.name.as_str() {
        "calculate" => json!({"expression": format!("{} * ({number} + 7)", number + 1)}),
        "list_dir" => json!({"path": "."}),
        "read_file" => json!({"path": wanted.read.unwrap_or("notes.txt")}),
        "write_file" => {
            json!({"path": format!("made/{}.txt", number % 3), "content": format!("number {number}\n")})
        }
        "edit_file" => {
            json!({"path": "notes.txt", "edits": [{"old": "a note", "new": format!("a note, {number}"), "all": true}]})
        }
        "run" => json!({"command": format!("echo {number} >> ran.txt; echo done {number}")}),
        "kit__nap" => json!({"milliseconds": 20 + number % 5 * 10}),
        "find" => json!({"pattern": "*.txt"}),
        "grep" => json!({"pattern": "note"}),
        "delegate" => json!({"task": "change tools:3 steps:1", "tools": ["write_file", "edit_file", "run"]}),
        _ => example(&tool.schema, number, 0),
    };
    Call { name: tool.name.clone(), arguments: arguments.to_string() }
}

/// A value that a schema allows: its required parts, in the simplest form.
fn example(schema: &Value, number: usize, depth: usize) -> Value {
    if let Some(first) = schema["enum"].as_array().and_then(|values| values.first()) {
        return first.clone();
    }
    let kind = match &schema["type"] {
        Value::Array(kinds) => kinds.first().and_then(Value::as_str),
        kind => kind.as_str(),
    };
    // Gemini writes types in capitals.
    match kind.unwrap_or("object").to_ascii_lowercase().as_str() {
        "string" => json!(format!("value {number}")),
        "integer" | "number" => json!(number),
        "boolean" => json!(true),
        "array" => json!([]),
        "null" => Value::Null,
        _ if depth > 8 => json!({}),
        _ => {
            let required = schema["required"].as_array().map_or(&[][..], Vec::as_slice);
            let fields = required.iter().filter_map(Value::as_str);
            let fields =
                fields.map(|name| (name.to_owned(), example(&schema["properties"][name], number, depth + 1)));
            Value::Object(fields.collect())
        }
    }
}

/// A text in the pieces in which a model would stream it: a few letters each. Of more than a mebibyte, large pieces: no test
/// has time for that many small ones.
pub(super) fn streamed(text: &str) -> Vec<String> {
    let is_long = text.len() > 1 << 20;
    let most = if is_long { text.len() / 64 } else { 12 };
    let mut pieces = vec![String::new()];
    for letter in text.chars() {
        let last = pieces.last_mut().expect("BUG: there is always a last piece");
        if !last.is_empty() && ((letter == ' ' && !is_long) || last.len() >= most) {
            pieces.push(String::from(letter));
        } else {
            last.push(letter);
        }
    }
    pieces.retain(|piece| !piece.is_empty());
    pieces
}
