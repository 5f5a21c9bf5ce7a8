//! What reading each session format costs, next to parsing the same bytes into `serde_json::Value`.
//!
//! A fixture of each format is made large: its messages are repeated under new ids, each after the one before, and its texts are
//! made as long as those of real sessions. A format that is not JSON is compared with the same texts as JSON strings, and a database
//! with its columns that hold JSON. The best rounds of both are compared.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark may")]

mod databases;

use std::{
    collections::{HashMap, HashSet},
    fs,
    hint::black_box,
    path::Path,
};

use rejoin_formats::{Input, Session, input::Stream, session::Aside, sessions};
use rejoin_record::{BlockKind, Message};
use serde_json::{Value, json};
use testkit::timing::best;

/// The allocator of the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The size of a file, about.
const BYTES: usize = 8 * 1024 * 1024;

/// The length of a text in it, about.
const TEXT: usize = 600;

/// Names of fields with ids of messages and calls, and those with the id of another message.
const IDS: &[&str] = &[
    "id",
    "uuid",
    "callID",
    "callId",
    "call_id",
    "tool_call_id",
    "toolCallId",
    "tool_use_id",
    "messageId",
    "messageID",
    "message_id",
    "toolUseId",
    "ts",
];
const PARENTS: &[&str] = &["parentUuid", "parentId", "parent_id", "parentID"];

/// The fixture of each format that is made large.
const FIXTURES: &[(&str, &str)] = &[
    ("agent-framework", "sound.jsonl"),
    ("agent-orchestration", "sound.jsonl"),
    ("aider", "sound.md"),
    ("antigravity", "export.json"),
    ("cline", "history.json"),
    ("codex-exec", "sound.jsonl"),
    ("cody", "sound.jsonl"),
    ("copilot-cli", "sound.jsonl"),
    ("cursor", "sound.jsonl"),
    ("droid", "sound.jsonl"),
    ("entire", "sound.jsonl"),
    ("gemini-cli", "sound.jsonl"),
    ("goose", "sound.jsonl"),
    ("iflow", "sound.jsonl"),
    ("inspect", "log.json"),
    ("kiro", "export.json"),
    ("langchain", "dict.json"),
    ("mini-swe-agent", "sound.traj.json"),
    ("opencode", "sound.json"),
    ("openhands", "trajectory.json"),
    ("pi", "sound.jsonl"),
    ("ploke", "history.md"),
    ("prometheus", "rows.json"),
    ("qwen-code", "sound.jsonl"),
    ("roo-code", "history.json"),
    ("sharegpt", "lines.jsonl"),
    ("specstory", "sound.md"),
    ("swe-agent", "sound.traj"),
    ("tau-bench", "runs.json"),
    ("tau2-bench", "simulations.json"),
];

fn main() {
    println!("\nreading a session, as a ratio to parsing the same bytes into serde_json::Value");
    println!("{:>20} {:>7} {:>10} {:>9} {:>7}", "format", "MB", "value", "messages", "ratio");
    let wanted = std::env::args().nth(1).filter(|name| !name.starts_with('-'));
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/sessions");
    for (format, name) in
        FIXTURES.iter().filter(|(format, _)| wanted.as_ref().is_none_or(|wanted| wanted == format))
    {
        let mut path = folder.join(format).join(name);
        if !path.exists() {
            // Named otherwise: any file of the format will do.
            let mut files: Vec<_> =
                fs::read_dir(folder.join(format)).unwrap().flatten().map(|file| file.path()).collect();
            files.retain(|path| path.is_file());
            files.sort();
            path = files[0].clone();
        }
        measure(format, &large(&fs::read_to_string(&path).unwrap()));
    }
    databases::measure_all(wanted.as_deref());
}

fn measure(format: &str, text: &str) {
    let input = Input::new("large", text.as_bytes()).unwrap();
    let found = sessions::read(&input, None).unwrap_or_else(|error| panic!("{format}: {error}"));
    assert_eq!(found[0].format, format);
    let messages: usize = found.iter().map(|session| session.messages.len()).sum();
    let reading = sessions::named(format).unwrap().read.as_ref().unwrap();
    let read = || {
        // As the binary reads: files of lines as a stream, others as a text.
        if reading.is_lines() {
            let mut source = text.as_bytes();
            let stream = Stream { name: "large", source: &mut source, companions: None };
            drop(black_box(reading.read_stream(stream)));
        } else {
            drop(black_box(sessions::read(&input, None)));
        }
    };
    let values = Values::of(text, &found);
    compare(format, text.len(), messages, &|| values.parse(), &read);
}

fn compare(format: &str, bytes: usize, messages: usize, parse: &dyn Fn(), read: &dyn Fn()) {
    // More rounds for a profile, or on a machine that has other work.
    let rounds = std::env::var("REJOIN_BENCH_ROUNDS").ok().and_then(|rounds| rounds.parse().ok());
    let [value, read] = best(rounds.unwrap_or(9), [parse, read]);
    let ratio = read.as_secs_f64() / value.as_secs_f64();
    let size = bytes as f64 / 1e6;
    println!("{format:>20} {size:>7.2} {value:>10.2?} {messages:>9} {ratio:>7.2}");
}

/// The same bytes as JSON.
enum Values<'t> {
    Document(&'t str),
    Lines(&'t str),
    Many(Vec<String>),
}

impl<'t> Values<'t> {
    fn of(text: &'t str, sessions: &[Session]) -> Self {
        if serde_json::from_str::<Value>(text).is_ok() {
            Self::Document(text)
        } else if text.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()) {
            Self::Lines(text)
        } else {
            Self::Many(sessions.iter().map(as_json).collect())
        }
    }

    fn parse(&self) {
        let parse = |text: &str| drop(black_box(serde_json::from_str::<Value>(text).unwrap()));
        match self {
            Self::Document(text) => parse(text),
            Self::Lines(text) => {
                let values: Vec<Value> =
                    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
                drop(black_box(values));
            }
            Self::Many(texts) => {
                let values: Vec<Value> =
                    texts.iter().map(|text| serde_json::from_str(text).unwrap()).collect();
                drop(black_box(values));
            }
        }
    }
}

/// Everything that a session keeps, as a list of messages and texts. A request would leave out reasoning and what is set aside,
/// which reading has to keep.
fn as_json(session: &Session) -> String {
    let message = |message: &Message| {
        let text = |kind: &BlockKind| match kind {
            BlockKind::Reasoning(reasoning) => Some(reasoning.text.to_string()),
            _ => None,
        };
        let mut texts: Vec<String> = message.blocks.iter().filter_map(|block| text(&block.kind)).collect();
        texts.extend(message.content());
        json!({"role": message.role.as_str(), "content": texts.join("\n")})
    };
    let mut all: Vec<Value> = session.messages.iter().map(|said| message(said)).collect();
    all.extend(session.set_aside.iter().filter_map(|item| match &item.what {
        Aside::Hidden(hidden, _) => Some(message(hidden)),
        Aside::Raw(text) | Aside::Unknown(text) => Some(Value::from(text.as_str())),
        _ => None,
    }));
    Value::from(all).to_string()
}

/// A large text of the same form.
fn large(text: &str) -> String {
    if let Ok(mut document) = serde_json::from_str::<Value>(text) {
        lengthen(&mut document, None);
        let list = longest(&mut document).unwrap();
        let items = std::mem::take(list);
        let size = serde_json::to_string(&items).unwrap().len();
        *list = repeated(&items, BYTES / size + 1);
        return serde_json::to_string(&document).unwrap();
    }
    // The last line of a fixture may be torn, which only the last line of a large file can be.
    let mut values: Vec<Value> = text.lines().map_while(|line| serde_json::from_str(line).ok()).collect();
    if values.is_empty() {
        let long: String = text.lines().map(|line| lengthened(line) + "\n").collect();
        return long.repeat(BYTES / long.len() + 1);
    }
    values.iter_mut().for_each(|value| lengthen(value, None));
    // The first line may say what the file is.
    let rest = values.split_off(1.min(values.len() - 1));
    let size: usize = rest.iter().map(|value| value.to_string().len()).sum();
    let lines = values.into_iter().chain(repeated(&rest, BYTES / size + 1));
    lines.map(|value| value.to_string() + "\n").collect()
}

/// A line of Markdown; one of plain words becomes long.
fn lengthened(line: &str) -> String {
    let plain = line.starts_with(char::is_alphabetic) && line.split_whitespace().count() > 2;
    if plain { format!("{line} ").repeat(TEXT / line.len() + 1) } else { line.to_owned() }
}

/// Makes texts as long as those of real sessions.
fn lengthen(value: &mut Value, name: Option<&str>) {
    match value {
        // A string may hold JSON, which stays what it is.
        Value::String(text)
            if text.split_whitespace().count() > 1
                && name != Some("timestamp")
                && serde_json::from_str::<Value>(text).is_err() =>
        {
            *text = format!("{text} ").repeat(TEXT / text.len().max(1) + 1);
        }
        Value::Array(items) => items.iter_mut().for_each(|item| lengthen(item, name)),
        Value::Object(fields) => fields.iter_mut().for_each(|(name, value)| lengthen(value, Some(name))),
        _ => {}
    }
}

/// The list of objects that takes the most room.
fn longest(value: &mut Value) -> Option<&mut Vec<Value>> {
    fn size(value: &Value) -> usize {
        match value {
            Value::Array(items) if items.iter().any(Value::is_object) => items.len().max(1) * 2,
            _ => 0,
        }
    }
    fn path(value: &Value, at: &mut Vec<String>, best: &mut (usize, Vec<String>)) {
        let depth = at.len();
        // A message of a real session has few parts.
        let in_message = at.last().is_some_and(|name| ["parts", "content"].contains(&&**name));
        if size(value) > best.0 && depth <= 4 && !in_message {
            *best = (size(value), at.clone());
        }
        let named: Vec<(String, &Value)> = match value {
            Value::Object(fields) => fields.iter().map(|(name, value)| (name.clone(), value)).collect(),
            Value::Array(items) => items.iter().enumerate().map(|(n, item)| (n.to_string(), item)).collect(),
            _ => Vec::new(),
        };
        for (name, inner) in named {
            at.push(name);
            path(inner, at, best);
            at.pop();
        }
    }
    let mut best = (0, Vec::new());
    path(value, &mut Vec::new(), &mut best);
    let mut at = value;
    for name in best.1 {
        at = match at {
            Value::Object(fields) => fields.get_mut(&name)?,
            Value::Array(items) => items.get_mut(name.parse::<usize>().ok()?)?,
            _ => return None,
        };
    }
    at.as_array_mut()
}

/// The items again and again, each time under new ids and after the ones before.
fn repeated(items: &[Value], times: usize) -> Vec<Value> {
    let mut known = HashSet::new();
    items.iter().for_each(|item| collect(item, &mut known));
    let last = items
        .iter()
        .rev()
        .find_map(|item| IDS.iter().find_map(|name| item.get(name)?.as_str()))
        .map(str::to_owned);
    let mut all = Vec::with_capacity(items.len() * times);
    for time in 0..times {
        let names: HashMap<&str, String> =
            known.iter().map(|id: &String| (id.as_str(), format!("{id}-{time}"))).collect();
        let before = last.as_ref().filter(|_| time > 0).map(|last| format!("{last}-{}", time - 1));
        for item in items {
            let mut item = item.clone();
            rename(&mut item, &names, before.as_deref());
            all.push(item);
        }
    }
    all
}

fn collect(value: &Value, known: &mut HashSet<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                match value.as_str() {
                    Some(id) if IDS.contains(&name.as_str()) => drop(known.insert(id.to_owned())),
                    _ => collect(value, known),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, known)),
        _ => {}
    }
}

fn rename(value: &mut Value, names: &HashMap<&str, String>, before: Option<&str>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let is_parent = PARENTS.contains(&name.as_str());
                let is_id = is_parent || IDS.contains(&name.as_str());
                match value {
                    Value::String(id) if is_id => match (names.get(id.as_str()), before) {
                        (Some(new), _) => *id = new.clone(),
                        (None, Some(before)) if is_parent => *id = before.to_owned(),
                        _ => {}
                    },
                    Value::Null if is_parent => {
                        if let Some(before) = before {
                            *value = Value::from(before);
                        }
                    }
                    value => rename(value, names, before),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| rename(item, names, before)),
        _ => {}
    }
}
