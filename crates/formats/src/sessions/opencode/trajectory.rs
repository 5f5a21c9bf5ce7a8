//! Reads the trajectory that opencode records on request, `.opencode/trajectories/*.jsonl`: one event per line.
//!
//! An `llm_interaction` holds every message that was sent to the model, but only the length of the answer. The answer is in the
//! events of its stream and its tools. A history usually repeats the one before it, followed by that one's answer: what it
//! repeats is read once, and what it no longer holds is hidden, as opencode hides it.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use rejoin_record::{
    Block, BlockKind, CallId, Message, Raw, Role, Text,
    json::{Object, Value, ValueKind},
};
use rejoin_view::Finding;

use super::FORMAT;
use crate::{
    input::Stream,
    session::{Aside, Detail, ReadError, Session, SourcePlace},
    sessions::{
        building::{self, SessionBuilder, as_text, call, item, medium, opaque, result, thought},
        lines::{self, Line, LineReader, text_of, time_of},
        sample::Sample,
    },
};

/// The number of lines that are examined to recognise a trajectory.
const LOOK_AT: usize = 20;

/// The types of events. The last four say nothing to a model.
const TYPES: &[&str] = &[
    "llm_interaction",
    "stream_event",
    "tool_execution",
    "session_start",
    "session_end",
    "agent_step",
    "compaction",
];

/// Stream events that hold no words.
const SILENT: &[&str] = &[
    "start",
    "finish",
    "step-start",
    "step-finish",
    "text-start",
    "text-end",
    "reasoning-start",
    "reasoning-end",
];

/// Whether a text is a trajectory.
pub(super) fn sniff(sample: &Sample<'_>) -> bool {
    sample.any_line(LOOK_AT, |root| {
        root.word("sessionID").starts_with("ses")
            && root.holds("timestamp", ValueKind::Number)
            && TYPES.contains(&&*root.word("type"))
    })
}

/// Reads the sessions of a trajectory.
///
/// # Errors
/// If no line of it is an event.
pub(super) fn read_stream(mut stream: Stream<'_>) -> Result<Vec<Session>, ReadError> {
    let mut events = Events { sessions: vec![Trajectory::new()], places: HashMap::new(), current: 0 };
    lines::read(&mut stream, &mut events)?;
    let mut sessions = events.sessions.into_iter();
    // The first one takes what is before the first event.
    let mut first = sessions.next().map_or_else(Vec::new, |first| vec![first]);
    first.retain(|first| first.id.is_some());
    if first.is_empty() {
        return Err(ReadError::NoConversation("no line of it is an event of a session"));
    }
    Ok(first.into_iter().chain(sessions).map(|session| session.finish(stream.name)).collect())
}

/// The sessions of a file. One file usually has one.
struct Events {
    sessions: Vec<Trajectory>,
    /// The place of each session in the list, by its id.
    places: HashMap<String, usize>,
    /// The session of the last event.
    current: usize,
}

impl LineReader for Events {
    fn value(&mut self, line: &Line, root: Value<'_>) {
        if let Some(id) = text_of(root, "sessionID").filter(|id| !id.is_empty()) {
            let next = self.places.len();
            self.current = *self.places.entry(id.to_string()).or_insert(next);
            if self.current == self.sessions.len() {
                self.sessions.push(Trajectory::new());
            }
            self.sessions[self.current].id.get_or_insert_with(|| id.to_string());
        }
        self.sessions[self.current].event(line, root);
    }

    fn damaged(&mut self, line: &Line, finding: Finding) {
        let builder = &mut self.sessions[self.current].builder;
        builder.aside(line.place, Aside::Raw(Text::new(Arc::clone(&line.text))));
        builder.findings.push(finding);
    }

    fn found(&mut self, finding: Finding) {
        self.sessions[self.current].builder.findings.push(finding);
    }
}

/// One session under construction.
struct Trajectory {
    builder: SessionBuilder,
    id: Option<String>,
    model: Option<String>,
    /// Answers that may still grow, in the order in which they began.
    answers: Vec<Answer>,
    /// The place of each answer in the list, by the id of its message and its step.
    places: HashMap<(String, u64), usize>,
    /// Answers that are summaries, by the ids of their messages.
    summaries: HashSet<String>,
}

/// What the model did in one step, from the events of that step.
struct Answer {
    message: String,
    step: u64,
    place: SourcePlace,
    time: Option<Text>,
    said: Vec<Piece>,
    results: Vec<Block>,
    /// The calls in `said`, and those that `results` answer.
    calls: [HashSet<CallId>; 2],
    /// The lines that `said` comes from, and those that `results` comes from.
    lines: [Vec<Arc<str>>; 2],
}

/// A part of an answer.
enum Piece {
    /// Text, as far as it was streamed.
    Text(String),
    /// Reasoning, as far as it was streamed.
    Thought(String),
    Call(Block),
}

impl Trajectory {
    fn new() -> Self {
        Self {
            builder: SessionBuilder::new(FORMAT),
            id: None,
            model: None,
            answers: Vec::new(),
            places: HashMap::new(),
            summaries: HashSet::new(),
        }
    }

    fn event(&mut self, line: &Line, root: Value<'_>) {
        let raw = || Text::new(Arc::clone(&line.text));
        match &*root.word("type") {
            "llm_interaction" if root.says("purpose", "agent_step") => self.interaction(line, root),
            "stream_event" | "tool_execution" => self.answered(line, root),
            kind if TYPES.contains(&kind) => {
                if root.says("purpose", "compaction") {
                    self.summaries.insert(root.word("messageID").into_owned());
                }
                let model = root.given("model").and_then(|model| text_of(model, "id"));
                self.model = model.map(|model| model.to_string()).or(self.model.take());
                self.builder.aside(line.place, Aside::Raw(raw()));
            }
            _ => self.builder.aside(line.place, Aside::Unknown(raw())),
        }
    }

    /// Takes a request to the model: what it repeats is kept, the rest of what is known is hidden, and the rest of it is new.
    fn interaction(&mut self, line: &Line, root: Value<'_>) {
        let (message, step) = (root.word("messageID"), number(root, "step"));
        // The events of its answer may precede the line with the request.
        let own = |answer: &Answer| answer.message == *message && answer.step >= step;
        let (answers, before): (Vec<Answer>, _) =
            std::mem::take(&mut self.answers).into_iter().partition(own);
        self.places = (answers.iter().map(Answer::key)).zip(0..).collect();
        self.add(before);
        let list = root.given("input").and_then(|input| input.given("messages"));
        let Some(list) = list.filter(|list| list.kind() == ValueKind::Array) else {
            self.answers = answers;
            return self.builder.aside(line.place, Aside::Unknown(Text::new(Arc::clone(&line.text))));
        };
        let sent: Vec<Message> =
            list.items().filter_map(|item| message_of(item, &line.text, self.model.as_deref())).collect();
        let known = self.builder.messages.iter().zip(&sent).take_while(|(known, sent)| same(known, sent));
        let common = known.count();
        if common < self.builder.messages.len() {
            self.builder.roll_back_to(common);
        }
        // Texts that a message holds byte for byte are not kept a second time.
        let held: HashSet<&str> = self.builder.messages.iter().map(|message| message.native_text()).collect();
        let new: HashSet<&str> = sent[common..].iter().map(Message::native_text).collect();
        let rest = list.items().map(Value::raw).filter(|raw| !held.contains(raw) && !new.contains(raw));
        let rest: Vec<&str> = rest.collect();
        let (start, end) = (list.start(), list.end());
        let around = format!("{}[{}]{}", &line.text[..start], rest.join(","), &line.text[end..]);
        for message in sent.into_iter().skip(common) {
            self.builder.say(message, line.place, Detail::default());
        }
        // Words around the history that no message holds are reported.
        self.builder.aside(line.place, Aside::Unknown(Text::from(around)));
        self.answers = answers;
    }

    /// Takes an event of an answer.
    fn answered(&mut self, line: &Line, root: Value<'_>) {
        let data = root.given("data").unwrap_or(root);
        let event = root.word("eventType");
        let is_tool = root.says("type", "tool_execution");
        if SILENT.contains(&&*event) {
            return self.builder.aside(line.place, Aside::Raw(Text::new(Arc::clone(&line.text))));
        }
        let (id, name) = match is_tool {
            true => (text_of(root, "callID"), text_of(root, "tool")),
            false => (text_of(data, "toolCallId"), text_of(data, "toolName")),
        };
        let (id, name) = (id.as_deref(), name.as_deref());
        let told = |value: Option<Value<'_>>, is_error| {
            let content = vec![Block::text(value.map_or_else(|| Text::new(""), as_text))];
            Some(result(id, name, content, is_error))
        };
        let field = |of: &str, name: &str| root.given(of).and_then(|of| of.given(name));
        let words = |name| text_of(data, name).filter(|text| !text.is_empty()).map(|text| text.to_string());
        let (said, answer) = match &*event {
            "text" | "text-delta" | "response" => (words("text").map(Piece::Text), None),
            "reasoning" | "reasoning-delta" => (words("reasoning").map(Piece::Thought), None),
            "tool-call" => (Some(Piece::Call(call(id, name, data.given("input")))), None),
            "tool-result" => (None, told(data.given("output"), false)),
            "tool-error" => (None, told(data.given("error"), true)),
            _ if is_tool => {
                // A tool that ran was called, even if no other event says so.
                let called = Piece::Call(call(id, name, root.given("input")));
                let answer = match &*root.word("status") {
                    "completed" => told(field("result", "output"), false),
                    "error" => told(field("error", "message"), true),
                    _ => None,
                };
                (Some(called), answer)
            }
            _ => (None, None),
        };
        if said.is_none() && answer.is_none() {
            return self.builder.aside(line.place, Aside::Unknown(Text::new(Arc::clone(&line.text))));
        }
        let own = self.answer(line, root);
        own.lines[usize::from(answer.is_some())].push(Arc::clone(&line.text));
        said.into_iter().for_each(|said| own.say(said, event.ends_with("-delta")));
        let is_new = |answer: &Block| answered_call(answer).is_none_or(|id| own.calls[1].insert(id.clone()));
        own.results.extend(answer.filter(is_new));
    }

    /// The answer that an event belongs to.
    fn answer(&mut self, line: &Line, root: Value<'_>) -> &mut Answer {
        let (message, step) = (root.word("messageID"), number(root, "step"));
        let next = self.answers.len();
        let index = *self.places.entry((message.to_string(), step)).or_insert(next);
        if index == next {
            self.answers.push(Answer {
                message: message.into_owned(),
                step,
                place: line.place,
                time: root.given("timestamp").map(time_of),
                said: Vec::new(),
                results: Vec::new(),
                calls: [HashSet::new(), HashSet::new()],
                lines: [Vec::new(), Vec::new()],
            });
        }
        &mut self.answers[index]
    }

    /// Adds answers that are complete. A call or a result that a history already holds is not added again.
    fn add(&mut self, answers: Vec<Answer>) {
        if answers.is_empty() {
            return;
        }
        let blocks = || self.builder.messages.iter().flat_map(|message| &message.blocks);
        let mut called: HashSet<CallId> = blocks().filter_map(call_of).cloned().collect();
        let mut done: HashSet<CallId> = blocks().filter_map(answered_call).cloned().collect();
        for answer in answers {
            let Answer { message, place, time, said, mut results, lines: [said_in, answered_in], .. } =
                answer;
            let said = said.into_iter().map(|piece| match piece {
                Piece::Text(text) => Block::text(text),
                Piece::Thought(text) => thought(Text::from(text), FORMAT, self.model.as_deref()),
                Piece::Call(block) => block,
            });
            let mut said: Vec<Block> = said.collect();
            said.retain(|block| call_of(block).is_none_or(|id| called.insert(id.clone())));
            results.retain(|block| answered_call(block).is_none_or(|id| done.insert(id.clone())));
            if self.summaries.contains(&message) {
                self.builder.replace(place);
            }
            for (role, blocks, lines, id) in [
                (Role::Assistant, said, said_in, message.clone()),
                (Role::Tool, results, answered_in, format!("{message} results")),
            ] {
                if blocks.is_empty() {
                    lines.into_iter().for_each(|line| self.builder.aside(place, Aside::Raw(Text::new(line))));
                    continue;
                }
                let raw = Object::new().list("events", lines).finish();
                let detail = Detail::of(id, time.clone());
                self.builder.say(item(FORMAT, role, blocks, Raw::new(raw)), place, detail);
            }
        }
    }

    fn finish(mut self, name: &str) -> Session {
        let answers = std::mem::take(&mut self.answers);
        self.add(answers);
        let context = building::context(self.model.as_deref());
        self.builder.finish(name, self.id.as_deref(), context)
    }
}

impl Answer {
    fn key(&self) -> (String, u64) {
        (self.message.clone(), self.step)
    }

    /// Adds a part. A delta continues the text before it, and a call that was made is not made again.
    fn say(&mut self, piece: Piece, is_delta: bool) {
        match (self.said.last_mut(), piece) {
            (Some(Piece::Text(before)), Piece::Text(delta)) if is_delta => before.push_str(&delta),
            (Some(Piece::Thought(before)), Piece::Thought(delta)) if is_delta => before.push_str(&delta),
            (_, Piece::Call(block)) => {
                if call_of(&block).is_none_or(|id| self.calls[0].insert(id.clone())) {
                    self.said.push(Piece::Call(block));
                }
            }
            (_, piece) => self.said.push(piece),
        }
    }
}

fn number(root: Value<'_>, name: &str) -> u64 {
    root.given(name).and_then(Value::as_u64).unwrap_or_default()
}

/// The id of a call that the source named.
fn call_of(block: &Block) -> Option<&CallId> {
    match &block.kind {
        BlockKind::ToolCall(call) if call.id_given => Some(&call.id),
        _ => None,
    }
}

/// The call that a result answers.
fn answered_call(block: &Block) -> Option<&CallId> {
    match &block.kind {
        BlockKind::ToolResult(result) => result.call_id.as_ref(),
        _ => None,
    }
}

/// Whether two messages say the same.
fn same(one: &Message, other: &Message) -> bool {
    let blocks = |message: &Message| message.blocks.len();
    let mut pairs = one.blocks.iter().zip(&other.blocks);
    one.role == other.role
        && blocks(one) == blocks(other)
        && pairs.all(|(one, other)| match (&one.kind, &other.kind) {
            // The history names no model.
            (BlockKind::Reasoning(one), BlockKind::Reasoning(other)) => one.text == other.text,
            (one, other) => one == other,
        })
}

/// A message of a history, in the form of the AI SDK. `None` if it is none.
fn message_of(root: Value<'_>, line: &Arc<str>, model: Option<&str>) -> Option<Message> {
    let role = text_of(root, "role")?;
    let raw = Raw::slice(line, root.start(), root.end())?;
    let content = root.given("content")?;
    let blocks = match content.as_str() {
        Some(text) => vec![Block::text(&*text)],
        None => content.items().map(|part| block(part, model)).collect(),
    };
    Some(item(FORMAT, Role::named(&role), blocks, raw))
}

/// A part of a message.
fn block(part: Value<'_>, model: Option<&str>) -> Block {
    let kind = part.word("type");
    let text = |name| text_of(part, name);
    let said = match &*kind {
        "text" => text("text").map(Block::text),
        "reasoning" => text("text").map(|text| thought(text, FORMAT, model)),
        "file" | "image" => text("data").or_else(|| text("image")).map(|data| {
            let media_type = text("mediaType").or_else(|| text("mimeType"));
            let media_type =
                media_type.unwrap_or_else(|| Text::new(if kind == "image" { "image/png" } else { "" }));
            let inline = !data.contains(':');
            let url = if inline { format!("data:{media_type};base64,{data}") } else { data.to_string() };
            medium(&url, Some(&media_type), text("filename").as_deref())
        }),
        "tool-call" => {
            Some(call(text("toolCallId").as_deref(), text("toolName").as_deref(), part.given("input")))
        }
        "tool-result" => Some(result_of(part)),
        _ => None,
    };
    said.unwrap_or_else(|| opaque(&kind, part))
}

/// A result: its output is a text, a value or a list of parts.
fn result_of(part: Value<'_>) -> Block {
    let (id, name) = (text_of(part, "toolCallId"), text_of(part, "toolName"));
    let output = part.given("output").or_else(|| part.given("result"));
    let value = output.and_then(|output| output.given("value")).or(output);
    let kind = output.map(|output| output.word("type")).unwrap_or_default();
    let content = match (value, &*kind) {
        (Some(value), "content") => value.items().map(|part| block(part, None)).collect(),
        (Some(value), _) => vec![Block::text(as_text(value))],
        (None, _) => vec![Block::text("")],
    };
    result(id.as_deref(), name.as_deref(), content, kind.starts_with("error"))
}
