//! `openhands`: events of OpenHands: the `history` of each line of an `output.jsonl`, a saved trajectory, or a folder of events.
//!
//! An action is a call of the model, and the observation after it the result. Old events have their arguments beside the action and
//! no ids; newer ones have them in `args` and name the call in `tool_call_metadata`. A condensation forgets events by their
//! numbers and puts a summary in their place.

use std::{collections::HashSet, sync::Arc};

use rejoin_record::{
    Block, Raw, Role, Text,
    json::{Doc, Object, Value, ValueKind},
};
use rejoin_view::Finding;

use super::{
    building::{self, SessionBuilder, as_text, beside, call, item, medium, result},
    lines::{self, Line, LineReader, text_of, time_of},
    registry::FilesReading,
    sample::{Claim, Sample},
};
use crate::{
    accounting::Known,
    input::{Files, Input, Stream},
    session::{Aside, Detail, ReadError, Session, SourcePlace, replaced_bytes, unreadable_rest},
    wire::render,
};

/// The name of the format.
pub const FORMAT: &str = "openhands";

/// What the display says about an event, the answer as it came from the provider, and how a tool ran.
pub(crate) const KNOWN: &[Known] = &[Known::fields(
    "message tool_call_metadata llm_metrics extras metrics kernel_init_code args.kernel_init_code args.tools outputs \
     args.outputs",
)];

/// The number of events that are examined to detect the format.
const LOOK_AT: usize = 20;

/// Events that are no part of what a model sees.
const SILENT: &[&str] = &["null", "agent_state_changed", "change_agent_state", "recall", "loop_detection"];

/// Fields of an action that are no arguments of its call.
const NO_ARGUMENTS: &[&str] = &[
    "action",
    "thought",
    "id",
    "timestamp",
    "source",
    "message",
    "cause",
    "args",
    "is_confirmed",
    "confirmation_state",
    "security_risk",
    "action_risk",
    "keep_prompt",
    "kernel_init_code",
    "tool_call_metadata",
    "llm_metrics",
    "hidden",
];

fn is_event(value: Value<'_>) -> bool {
    let named = |name| value.holds(name, ValueKind::String);
    let bare = ["role", "uuid", "trajectory"].iter().all(|name| value.get(name).is_none());
    // A step of SWE-agent has both.
    bare && named("action") != named("observation")
        && (value.get("args").is_some()
            || value.get("extras").is_some()
            || ["content", "thought", "command", "code"].iter().any(|name| value.get(name).is_some()))
}

fn holds_events(list: Option<Value<'_>>) -> bool {
    list.into_iter().flat_map(Value::items).take(LOOK_AT).any(is_event)
}

/// Whether a text holds events of OpenHands.
pub(crate) fn sniff(sample: &Sample<'_>) -> Option<Claim> {
    let tells =
        |root: Value<'_>| holds_events(root.get("history")) || holds_events(Some(root)) || is_event(root);
    let whole = || sample.whole().0.root().is_some_and(tells);
    Claim::sure(sample.any_line(LOOK_AT, tells) || whole(), "events with an `action` or an `observation`")
}

/// Reads every conversation in a text.
///
/// # Errors
/// If there is none.
pub(crate) fn read(input: &Input, sample: Sample<'_>) -> Result<Vec<Session>, ReadError> {
    let (doc, error) = sample.into_whole();
    let root = doc.root();
    let list = root.filter(|root| root.kind() == ValueKind::Array && holds_events(Some(*root)));
    let list = list.or_else(|| {
        root.filter(|_| error.is_none())?.get("history").filter(|list| holds_events(Some(*list)))
    });
    let Some((root, list)) = root.zip(list) else { return lines::of_text(input, read_stream) };
    let mut reading = Reading::new(list);
    if root.kind() == ValueKind::Object {
        let around = render::with_field_of(root, "history", "[]");
        reading.builder.aside(building::nth(0), Aside::Raw(Text::from(around)));
    }
    let mut count = 0;
    for event in list.items() {
        let place = SourcePlace { offset: event.start(), ..building::nth(count) };
        match event.is_cut() {
            true => reading.builder.aside(place, Aside::Raw(Text::new(&input.text[event.start()..]))),
            false => reading.event(event, &input.text, place),
        }
        count += 1;
    }
    if let Some(rest) = building::rest_after(list, &input.text).filter(|_| error.is_some()) {
        let place = SourcePlace { offset: input.text.len() - rest.len(), ..building::nth(count) };
        reading.builder.aside(place, Aside::Raw(Text::new(rest)));
    }
    let mut session = reading.builder.finish(&input.name, None, building::context(None));
    session.findings.splice(0..0, replaced_bytes(input));
    session.findings.extend(error.map(|error| unreadable_rest(input, error, count.saturating_sub(1))));
    Ok(vec![session])
}

/// Reads a file of lines, each of them a run or an event.
///
/// # Errors
/// If it holds neither, or cannot be read.
pub(crate) fn read_stream(mut stream: Stream<'_>) -> Result<Vec<Session>, ReadError> {
    let mut runs = Runs { name: stream.name.to_owned(), ..Runs::default() };
    lines::read(&mut stream, &mut runs)?;
    let events = runs.events.take();
    runs.sessions
        .extend(events.map(|events| events.builder.finish(stream.name, None, building::context(None))));
    if runs.sessions.is_empty() {
        return Err(ReadError::NoConversation("it holds no events"));
    }
    if let Some(first) = runs.sessions.first_mut() {
        first.findings.splice(0..0, runs.findings);
        // After the messages, whose ids must not change when a torn line is completed.
        let after = first.messages.len();
        let aside =
            runs.aside.into_iter().map(|(place, what)| crate::session::SetAside { place, after, what });
        first.set_aside.extend(aside);
    }
    Ok(runs.sessions)
}

#[derive(Default)]
struct Runs {
    name: String,
    sessions: Vec<Session>,
    /// Events that are lines themselves.
    events: Option<Reading>,
    aside: Vec<(SourcePlace, Aside)>,
    findings: Vec<Finding>,
}

impl LineReader for Runs {
    fn value(&mut self, line: &Line, root: Value<'_>) {
        let Some(list) = root.get("history").filter(|list| list.kind() == ValueKind::Array) else {
            let events = self.events.get_or_insert_with(|| Reading::new(root));
            return events.event(root, &line.text, line.place);
        };
        let mut reading = Reading::new(list);
        let around = render::with_field_of(root, "history", "[]");
        reading.builder.aside(line.place, Aside::Raw(Text::from(around)));
        for (number, event) in list.items().enumerate() {
            let offset = line.place.offset + event.start();
            reading.event(event, &line.text, SourcePlace { index: number, offset, line: line.place.line });
        }
        let own_id = ["instance_id", "test_id"].iter().find_map(|name| text_of(root, name));
        let name = format!("{}:{}", self.name, line.place.index + 1);
        self.sessions.push(reading.builder.finish(&name, own_id.as_deref(), building::context(None)));
    }

    fn damaged(&mut self, line: &Line, finding: Finding) {
        self.aside.push((line.place, Aside::Raw(Text::new(line.text.clone()))));
        self.findings.push(finding);
    }

    fn found(&mut self, finding: Finding) {
        self.findings.push(finding);
    }
}

/// The number of an event's file, `events/12.json` or `12.json`.
fn number_of(path: &str) -> Option<u64> {
    path.strip_prefix("events/").unwrap_or(path).strip_suffix(".json")?.parse().ok()
}

/// The folder of a conversation, with its events.
pub(crate) const EVENTS: FilesReading =
    FilesReading { root: folder_of, owns, sniff: sniff_files, read: read_files };

/// The folder of the conversation that a file is an event of.
fn folder_of(path: &str) -> Option<&str> {
    let (folder, name) =
        path.rsplit_once('/').map_or(("", path), |(folder, _)| path.split_at(folder.len() + 1));
    number_of(name)?;
    let is_inside = |folder: &&str| folder.is_empty() || folder.ends_with('/');
    folder.strip_suffix("events/").filter(is_inside).or(Some(folder))
}

/// Whether a file of a conversation's folder belongs to it.
fn owns(path: &str) -> bool {
    const BESIDE: &[&str] = &["events/", "event_cache/", "base_state.json", "metadata.json"];
    number_of(path).is_some() || BESIDE.iter().any(|name| path.starts_with(name))
}

/// Whether files are a folder of events.
fn sniff_files(files: &dyn Files) -> Option<Claim> {
    let first = files.paths().iter().find(|path| number_of(path).is_some());
    let event = first.and_then(|path| files.read(path)).is_some_and(|bytes| {
        let text = String::from_utf8_lossy(&bytes);
        let doc = Doc::parse(&text);
        doc.is_ok_and(|doc| doc.root().is_some_and(is_event))
    });
    Claim::likely(event, "numbered files with an event each")
}

/// Reads the conversation in a folder of events.
///
/// # Errors
/// If there is none.
fn read_files(files: &dyn Files) -> Result<Vec<Session>, ReadError> {
    let mut paths: Vec<(u64, &String)> =
        files.paths().iter().filter_map(|path| Some((number_of(path)?, path))).collect();
    paths.sort_unstable();
    let texts = paths.iter().map(|(_, path)| {
        files.read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    });
    let texts: Vec<Arc<str>> = texts.map(Arc::from).collect();
    if texts.is_empty() {
        return Err(ReadError::NoConversation("no file of it is an event"));
    }
    let mut reading = Reading::new_empty();
    for doc in texts.iter().filter_map(|text| Doc::parse(text).ok()) {
        doc.root().into_iter().for_each(|root| reading.forget(root));
    }
    for (number, text) in texts.iter().enumerate() {
        let place = building::nth(number);
        match Doc::parse(text) {
            Ok(doc) => doc.root().into_iter().for_each(|root| reading.event(root, text, place)),
            Err(error) => reading.builder.damaged(place, Text::new(text.clone()), error.reason()),
        }
    }
    Ok(vec![reading.builder.finish(files.name(), None, building::context(None))])
}

struct Reading {
    builder: SessionBuilder,
    /// The numbers of the events that a condensation removed.
    forgotten: HashSet<u64>,
    /// For each condensation with a summary, its first forgotten event.
    summaries: Vec<(u64, Text)>,
}

impl Reading {
    fn new_empty() -> Self {
        Self { builder: SessionBuilder::new(FORMAT), forgotten: HashSet::new(), summaries: Vec::new() }
    }

    fn new(list: Value<'_>) -> Self {
        let mut reading = Self::new_empty();
        list.items().for_each(|event| reading.forget(event));
        reading
    }

    /// Notes what a condensation removes.
    fn forget(&mut self, event: Value<'_>) {
        let Some(args) = event.given("args").filter(|_| event.says("action", "condensation")) else { return };
        let number = |name| args.given(name).and_then(Value::as_u64);
        let listed =
            args.given("forgotten_event_ids").into_iter().flat_map(Value::items).filter_map(Value::as_u64);
        let mut numbers: Vec<u64> = listed.collect();
        if let (Some(start), Some(end)) =
            (number("forgotten_events_start_id"), number("forgotten_events_end_id"))
        {
            // A file names at most as many events as it has bytes.
            numbers.extend((start..=end).take(1_000_000));
        }
        if let (Some(first), Some(summary)) = (numbers.iter().min(), text_of(args, "summary")) {
            self.summaries.push((*first, summary));
        }
        self.forgotten.extend(numbers);
    }

    fn event(&mut self, event: Value<'_>, buffer: &Arc<str>, place: SourcePlace) {
        let raw = Raw::slice(buffer, event.start(), event.end()).unwrap_or_else(|| Raw::new(event.raw()));
        let number = event.given("id").and_then(Value::as_u64);
        let detail = Detail {
            id: event.given("id").map(as_text),
            time: event.given("timestamp").map(time_of),
            ..Detail::default()
        };
        let due = |(first, _): &mut (u64, Text)| number.is_some_and(|number| *first <= number);
        for (_, summary) in self.summaries.extract_if(.., due).collect::<Vec<_>>() {
            let said = beside(Role::User, vec![Block::text(summary)]);
            self.builder.say(said, place, Detail::default());
        }
        let Some((role, blocks)) = spoken(event) else {
            let kinds = ["action", "observation"].map(|name| event.word(name));
            // An event without a kind is of a newer version, or of another program.
            let mut kinds = kinds.iter().filter(|kind| !kind.is_empty()).peekable();
            let known = kinds.peek().is_some() && kinds.all(|kind| SILENT.contains(&&**kind));
            let text = Text::new(raw.as_str());
            let what = if known || event.says("action", "condensation") {
                Aside::Raw(text)
            } else {
                Aside::Unknown(text)
            };
            return self.builder.aside(place, what);
        };
        let message = item(FORMAT, role, blocks, raw);
        if number.is_some_and(|number| self.forgotten.contains(&number)) {
            self.builder.hide(message, place, detail);
        } else {
            self.builder.say(message, place, detail);
        }
    }
}

/// Who speaks in an event, and what. `None` if the event holds no speech.
fn spoken(event: Value<'_>) -> Option<(Role, Vec<Block>)> {
    let holder = event.given("args").unwrap_or(event);
    let filled = |name| text_of(holder, name).filter(|text: &Text| !text.is_blank());
    let metadata = event.given("tool_call_metadata");
    let of_call = |name| metadata.and_then(|metadata| text_of(metadata, name));
    if let Some(observation) = event.given("observation").and_then(Value::as_str) {
        if SILENT.contains(&&*observation) {
            return None;
        }
        let content = event.given("content").map(as_text).unwrap_or_else(|| Text::new(""));
        let (id, name) = (of_call("tool_call_id"), of_call("function_name"));
        let is_error = matches!(&*observation, "error" | "user_rejected");
        let answer = result(id.as_deref(), name.as_deref(), vec![Block::text(content)], is_error);
        return Some((Role::Tool, vec![answer]));
    }
    let action = event.given("action").and_then(Value::as_str)?;
    match &*action {
        "system" => Some((Role::System, vec![Block::text(filled("content")?)])),
        "message" => {
            let source = event.word("source");
            let waits = holder.get("wait_for_response").and_then(Value::as_bool) == Some(true);
            let agent = source == "agent" || (source.is_empty() && waits);
            let mut blocks: Vec<Block> = filled("content").map(Block::text).into_iter().collect();
            let images = ["image_urls", "images_urls"].iter().find_map(|name| holder.given(name));
            let images = images.into_iter().flat_map(Value::items).filter_map(Value::as_str);
            blocks.extend(images.map(|url| medium(&url, Some("image/*"), None)));
            Some((if agent { Role::Assistant } else { Role::User }, blocks))
        }
        "finish" => {
            let said = filled("final_thought").or_else(|| filled("thought"))?;
            let before = filled("thought").filter(|thought| *thought != said);
            Some((Role::Assistant, before.into_iter().chain([said]).map(Block::text).collect()))
        }
        "condensation" | "condensation_request" => None,
        action if SILENT.contains(&action) => None,
        action => {
            let mut blocks: Vec<Block> = filled("thought").map(Block::text).into_iter().collect();
            let mut arguments = Object::new();
            for (key, value) in holder.fields() {
                let name = key.as_str().unwrap_or_default();
                if !NO_ARGUMENTS.contains(&&*name) && !value.is_null() {
                    arguments = arguments.raw(&name, value.raw());
                }
            }
            let arguments = arguments.finish();
            let doc = Doc::of(&arguments);
            let (id, name) = (of_call("tool_call_id"), of_call("function_name"));
            blocks.push(call(id.as_deref(), Some(name.as_deref().unwrap_or(action)), doc.root()));
            Some((Role::Assistant, blocks))
        }
    }
}
