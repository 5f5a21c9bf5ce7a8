//! Reads the messages of one session in the form of the export.
//!
//! A part of type `tool` is a call and its result in one: the result becomes a separate message after the model's. opencode
//! hides everything before the last finished compaction, messages that failed, and what was undone, and it clears the outputs that it
//! pruned; all of these are kept beside.

use std::sync::Arc;

use rejoin_record::{
    Block, Message, Raw, Role, Text,
    json::{Doc, Value},
};

use rejoin_view::{Action, Finding, Position, Rule};

use super::FORMAT;
use crate::{
    session::{Aside, Detail, Session, SourcePlace},
    sessions::{
        building::{
            self, SessionBuilder, as_text, beside, call, item, medium, opaque, result, text_in, thought,
        },
        lines::{text_of, time_of},
    },
};

/// Parts that hold nothing for a model.
const SILENT: &[&str] = &["step-start", "step-finish", "snapshot", "patch", "retry", "agent"];

/// What opencode sends in place of a part of type `compaction`; the answer to it is the summary.
const COMPACTION: &str = "What did we do so far?";

/// What opencode sends in place of an output that it pruned. The file still has the output.
const PRUNED: &str = "[Old tool result content cleared]";

/// A session whose messages are added one by one.
pub(super) struct Reading {
    builder: SessionBuilder,
    id: Option<String>,
    model: Option<String>,
    /// The message from which on everything was undone.
    undone_from: Option<String>,
    /// The part of that message from which on it is undone; none if all of it is.
    undone_part: Option<String>,
    /// The instructions that the last prompt came with.
    system: Option<Text>,
    /// The first message that a compaction in progress keeps.
    tail_from: Option<String>,
    /// The number of the message that asks for the summary of a compaction in progress.
    asked: Option<usize>,
    /// The id of the message in the source that each message comes from.
    sources: Vec<Option<String>>,
    /// What follows the summary that is being added, with its place and time.
    kept: Vec<(Message, SourcePlace, Option<Text>)>,
}

impl Reading {
    pub(super) fn new() -> Self {
        Self {
            builder: SessionBuilder::new(FORMAT),
            id: None,
            model: None,
            undone_from: None,
            undone_part: None,
            system: None,
            tail_from: None,
            asked: None,
            sources: Vec::new(),
            kept: Vec::new(),
        }
    }

    /// Takes what the source says about the session.
    pub(super) fn info(&mut self, info: Value<'_>) {
        let place = building::nth(0);
        self.id = text_of(info, "id").map(|id| id.to_string()).or(self.id.take());
        let revert = |name| info.given("revert").and_then(|revert| text_of(revert, name));
        self.undone_from = revert("messageID").map(|id| id.to_string());
        self.undone_part = revert("partID").map(|id| id.to_string());
        self.builder.aside(place, Aside::Raw(Text::new(info.raw())));
        if let Some(title) = text_of(info, "title").filter(|title| !title.is_blank()) {
            self.builder.aside(place, Aside::Title(title));
        }
    }

    /// Keeps something that is no message.
    pub(super) fn beside(&mut self, place: SourcePlace, what: Aside) {
        self.builder.aside(place, what);
    }

    /// Names a session that may say nothing about itself.
    pub(super) fn named(&mut self, id: &str) {
        self.id = Some(id.to_owned());
    }

    /// Keeps the beginning of a message that was cut off.
    pub(super) fn cut_off(&mut self, place: SourcePlace, text: &str) {
        self.builder.aside(place, Aside::Raw(Text::new(text)));
    }

    /// Keeps a text that is not read, and says so.
    #[cfg(feature = "sqlite")]
    pub(super) fn unread(&mut self, place: SourcePlace, text: &str, why: &'static str) {
        self.builder.aside(place, Aside::Raw(Text::new(text)));
        let at = Position { message: Some(place.index), ..Position::default() };
        self.builder.findings.push(Finding::new(Rule::UnreadText, at, Action::SetAside).because(why));
    }

    pub(super) fn damaged(&mut self, place: SourcePlace, text: &str, why: &str) {
        self.builder.damaged(place, Text::new(text), Text::new(why));
    }

    /// Adds a message that consists of one text.
    pub(super) fn message_text(&mut self, text: &str, place: SourcePlace) {
        let buffer: Arc<str> = Arc::from(text);
        match Doc::parse(&buffer) {
            Ok(doc) => {
                let doc = doc.shared_as(&buffer);
                doc.root().into_iter().for_each(|root| self.message(root, &buffer, place));
            }
            Err(error) => self.damaged(place, text, error.reason()),
        }
    }

    /// Adds a message, `{"info":…,"parts":[…]}`.
    pub(super) fn message(&mut self, root: Value<'_>, buffer: &Arc<str>, place: SourcePlace) {
        let raw =
            Raw::slice(buffer, root.start(), root.end()).unwrap_or_else(|| Raw::new(root.raw().to_owned()));
        let Some(info) = root.given("info").filter(|info| info.given("role").is_some()) else {
            self.builder.findings.push(building::damage(place, "it is not a message"));
            return self.builder.aside(place, Aside::Unknown(Text::new(root.raw())));
        };
        let id = text_of(info, "id");
        let time = info.given("time").and_then(|time| time.given("created")).map(time_of);
        let detail = Detail { id: id.clone(), time, ..Detail::default() };
        let model = info.given("model").and_then(|model| text_of(model, "modelID"));
        let model = text_of(info, "modelID").or(model).map(|model| model.to_string());
        self.model = model.clone().or(self.model.take());
        let mut parts: Vec<Value<'_>> = root.get("parts").into_iter().flat_map(Value::items).collect();
        let mut undone_parts = Vec::new();
        let mut hidden = self.undone_from.as_deref() == Some("");
        if self.undone_from.is_some() && self.undone_from.as_deref() == id.as_deref() {
            // This one and everything after it, or this one from a part on.
            self.undone_from = Some(String::new());
            let from = |part: &Value<'_>| self.undone_part.as_deref() == text_of(*part, "id").as_deref();
            let from = parts.iter().position(|part| self.undone_part.is_some() && from(part));
            undone_parts = parts.split_off(from.unwrap_or(0).min(parts.len()));
            hidden = parts.is_empty();
            if hidden {
                std::mem::swap(&mut parts, &mut undone_parts);
            }
        }
        let (mut steps, mut pruned) = (Vec::new(), Vec::new());
        let mut asks = false;
        match &*info.word("role") {
            "user" => {
                self.tail_from = None;
                if let Some(compaction) = parts.iter().find(|part| part.says("type", "compaction")) {
                    asks = !hidden;
                    self.tail_from = text_of(*compaction, "tail_start_id").map(|id| id.to_string());
                }
                if let Some(system) = text_of(info, "system").filter(|system| !system.is_blank()) {
                    if self.system.as_ref() != Some(&system) && !hidden {
                        let said = beside(Role::System, vec![Block::text(system.clone())]);
                        self.push(said, place, Detail::default(), None);
                    }
                    self.system = Some(system);
                }
                let sent = parts.iter().filter(|part| !is_true(**part, "ignored"));
                let blocks: Vec<Block> = sent.filter_map(|part| block(*part, None)).collect();
                if blocks.is_empty() && !parts.is_empty() && !hidden {
                    return self.builder.aside(place, Aside::Raw(Text::new(raw.as_str())));
                }
                steps.push(item(FORMAT, Role::User, blocks, raw.clone()));
                let kept: Vec<Block> = parts
                    .iter()
                    .filter(|part| is_true(**part, "ignored"))
                    .filter_map(|part| block(*part, None))
                    .collect();
                if !kept.is_empty() {
                    self.builder.hide(beside(Role::User, kept), place, Detail::default());
                }
            }
            "assistant" => {
                steps = answer(&parts, &raw, model.as_deref());
                pruned = parts.iter().filter(|part| is_pruned(**part)).copied().collect();
            }
            other => {
                let blocks = parts.iter().filter_map(|part| block(*part, None)).collect();
                steps.push(item(FORMAT, Role::named(other), blocks, raw.clone()));
            }
        }
        let summary = is_true(info, "summary") && info.given("error").is_none();
        let left_out = hidden || failed(info, &parts);
        if summary && !left_out {
            self.compact(place);
        }
        let details = std::iter::once(detail.clone())
            .chain(std::iter::repeat(Detail { time: detail.time.clone(), ..Detail::default() }));
        if asks {
            self.asked = Some(self.builder.messages.len());
        }
        for (message, detail) in steps.into_iter().zip(details) {
            if left_out {
                self.builder.hide(message, place, detail);
            } else {
                self.push(message, place, detail, id.as_deref());
            }
        }
        self.keep_pruned(&pruned, place);
        if !undone_parts.is_empty() {
            for message in answer(&undone_parts, &raw, model.as_deref()) {
                self.builder.hide(message, place, Detail::default());
            }
        }
        if summary && !left_out {
            self.keep_tail();
        }
    }

    fn push(&mut self, message: Message, place: SourcePlace, detail: Detail, source: Option<&str>) {
        self.builder.say(message, place, detail);
        self.sources.push(source.map(str::to_owned));
    }

    /// Keeps the outputs that opencode does not send any more beside the messages, so that they are found by a search.
    fn keep_pruned(&mut self, parts: &[Value<'_>], place: SourcePlace) {
        let outputs: Vec<Block> = parts.iter().filter_map(|part| full_result(*part)).collect();
        if outputs.is_empty() {
            return;
        }
        let named = |part: &Value<'_>| text_of(*part, "callID").map(|id| id.to_string());
        let calls: Vec<String> = parts.iter().filter_map(named).collect();
        let at = Position { message: Some(place.index), ..Position::default() };
        let finding = Finding::new(Rule::PrunedResult, at, Action::SetAside);
        self.builder.findings.push(finding.about(calls.join(", ")));
        self.builder.hide(beside(Role::Tool, outputs), place, Detail::default());
    }

    /// Hides everything before a summary, except the question that it answers. What the compaction keeps word for word follows the
    /// summary.
    fn compact(&mut self, place: SourcePlace) {
        let question = self.asked.take().filter(|at| *at < self.builder.messages.len()).map(|at| {
            self.sources.remove(at);
            let message = self.builder.messages.remove(at);
            (message, self.builder.places.remove(at), self.builder.details.remove(at))
        });
        let tail = self
            .tail_from
            .take()
            .and_then(|from| self.sources.iter().position(|source| source.as_deref() == Some(from.as_str())));
        self.kept = tail.map_or_else(Vec::new, |from| {
            let places = self.builder.places[from..].iter().copied();
            let times = self.builder.details[from..].iter().map(|detail| detail.time.clone());
            let messages = self.builder.messages[from..].iter().map(|message| (**message).clone());
            messages.zip(places).zip(times).map(|((message, place), time)| (message, place, time)).collect()
        });
        self.builder.replace(place);
        self.sources.clear();
        if let Some((message, place, detail)) = question {
            self.push((*message).clone(), place, detail, None);
        }
    }

    fn keep_tail(&mut self) {
        for (message, place, time) in std::mem::take(&mut self.kept) {
            // Under its id it is already kept as a hidden message.
            let detail = Detail { time, ..Detail::default() };
            self.builder.push(message, place, detail);
            self.sources.push(None);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.builder.messages.is_empty() && self.builder.set_aside.is_empty()
    }

    pub(super) fn finish(self, name: &str) -> Session {
        let context = building::context(self.model.as_deref());
        self.builder.finish(name, self.id.as_deref(), context)
    }
}

fn is_true(value: Value<'_>, name: &str) -> bool {
    value.get(name).and_then(Value::as_bool) == Some(true)
}

/// Whether opencode leaves a message out: the request failed, and nothing was said before.
fn failed(info: Value<'_>, parts: &[Value<'_>]) -> bool {
    let Some(error) = info.given("error") else { return false };
    let said = parts.iter().any(|part| !matches!(&*part.word("type"), "step-start" | "reasoning"));
    !(error.says("name", "MessageAbortedError") && said)
}

/// The messages of an answer: what the model said in each step, and the results of its calls.
fn answer(parts: &[Value<'_>], raw: &Raw, model: Option<&str>) -> Vec<Message> {
    let mut steps = vec![item(FORMAT, Role::Assistant, Vec::new(), raw.clone())];
    let mut results = Vec::new();
    for part in parts {
        // Another request to the model, which saw the results so far.
        if part.says("type", "step-start") && !results.is_empty() {
            steps.push(beside(Role::Tool, std::mem::take(&mut results)));
            steps.push(beside(Role::Assistant, Vec::new()));
        }
        if let Some(step) = steps.last_mut() {
            step.blocks.extend(block(*part, model));
        }
        if part.says("type", "tool") {
            results.extend(tool_result(*part));
        }
    }
    if !results.is_empty() {
        steps.push(beside(Role::Tool, results));
    }
    // A step that ended before the model said anything.
    steps.retain(|step| step.native.is_some() || !step.blocks.is_empty());
    steps
}

/// What a part says. `None` if it says nothing to a model.
fn block(part: Value<'_>, model: Option<&str>) -> Option<Block> {
    let kind = part.word("type");
    let text = |name| text_in(part, name);
    Some(match &*kind {
        "text" => Block::text(text("text").filter(|text| !text.is_empty())?),
        "reasoning" => thought(text("text").filter(|text| !text.is_empty())?, FORMAT, model),
        "file" => {
            let (mime, name) = (text("mime"), text("filename"));
            medium(&text("url")?, mime.as_deref(), name.as_deref())
        }
        "tool" => {
            let state = part.given("state");
            let (id, name) = (text("callID"), text("tool"));
            call(id.as_deref(), name.as_deref(), state.and_then(|state| state.given("input")))
        }
        "compaction" => Block::text(COMPACTION),
        kind if SILENT.contains(&kind) => return None,
        kind => opaque(kind, part),
    })
}

/// Whether opencode pruned the output of a call.
fn is_pruned(part: Value<'_>) -> bool {
    let time = || part.given("state").filter(|state| state.says("status", "completed"))?.given("time");
    part.says("type", "tool") && time().is_some_and(|time| time.given("compacted").is_some())
}

/// The result in a part with a call, as opencode sends it. `None` while the tool runs.
fn tool_result(part: Value<'_>) -> Option<Block> {
    if is_pruned(part) {
        let (id, name) = (text_of(part, "callID"), text_of(part, "tool"));
        return Some(result(id.as_deref(), name.as_deref(), vec![Block::text(PRUNED)], false));
    }
    full_result(part)
}

/// The result in a part with a call, as the tool gave it.
fn full_result(part: Value<'_>) -> Option<Block> {
    let state = part.given("state")?;
    let (id, name) = (text_of(part, "callID"), text_of(part, "tool"));
    let (field, is_error) = match &*state.word("status") {
        "completed" => ("output", false),
        "error" => ("error", true),
        _ => return None,
    };
    let said = state.given(field).map(as_text).unwrap_or_else(|| Text::new(""));
    let mut content = vec![Block::text(said)];
    let attached = state.given("attachments").into_iter().flat_map(Value::items);
    content.extend(attached.filter_map(|part| block(part, None)));
    Some(result(id.as_deref(), name.as_deref(), content, is_error))
}
