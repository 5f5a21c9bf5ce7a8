//! Conversations from rows: one for each user and channel, and one for each thread.

use std::sync::Arc;

use hashbrown::{HashMap, HashSet, hash_map::Entry};
use rejoin_record::{
    Block, Message, Raw, Role, Scope, Text,
    json::{Doc, Value, ValueKind},
};
use rejoin_view::{Action, Finding, Position, Rule};

use super::{
    FORMAT,
    rows::{Row, Rows},
};
use crate::{
    context::Context,
    input::Input,
    messages::roles,
    session::{Aside, Detail, ReadError, Session, SourcePlace, instant, replaced_bytes},
    sessions::{
        building::{self, SessionBuilder, as_text, beside, call, item, result},
        lines::{text_of, time_of},
    },
    wire::{registry::Dialect, render},
};

/// The tool by which the model answers: the answer stands nowhere but in its arguments, and it has no result.
const ANSWER: &str = "respond_to_user";

/// How often JSON may be inside a string inside JSON.
const ENCODED: usize = 4;

/// The conversations in the rows of a dump.
pub(super) fn conversations(input: &Input, found: Rows) -> Result<Vec<Session>, ReadError> {
    let Rows { rows, mut beside, mut findings } = found;
    let mut channels: Vec<Channel> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    for Row { raw, place, own_id, scope, what } in rows {
        let number = *places.entry(own_id).or_insert_with_key(|own_id| {
            let own_id = own_id.clone();
            let (messages, beside, findings) = (Vec::new(), Vec::new(), Vec::new());
            channels.push(Channel { own_id, scope, messages, beside, findings });
            channels.len() - 1
        });
        let channel = &mut channels[number];
        match what {
            RowContent::Message(said) => channel.messages.push(said),
            RowContent::Thread { around, history: Some(history) } => channel.thread(around, place, &history),
            RowContent::Thread { history: None, .. } => {
                let finding = Finding::new(Rule::DamagedEntry, position(place), Action::SetAside);
                findings.push(finding.because("its `conversation_history` cannot be read"));
                beside.push((place, Aside::Raw(Text::new(raw.as_str()))));
            }
        }
    }
    // What is in a thread without messages is kept with the first conversation.
    let (channels, silent): (Vec<Channel>, Vec<Channel>) =
        channels.into_iter().partition(|channel| !channel.messages.is_empty());
    for channel in silent {
        beside.extend(channel.beside);
        findings.extend(channel.findings);
    }
    let mut sessions: Vec<Session> =
        channels.into_iter().map(|channel| channel.into_session(&input.name)).collect();
    let none =
        ReadError::NoConversation("no row of `conversation_history` or `chat_threads` holds a message");
    let first = sessions.first_mut().ok_or(none)?;
    first.findings.splice(0..0, replaced_bytes(input).into_iter().chain(findings));
    let around = beside.into_iter().map(|(place, what)| crate::session::SetAside { place, after: 0, what });
    first.set_aside.splice(0..0, around);
    Ok(sessions)
}

fn position(place: SourcePlace) -> Position {
    Position { message: place.line.is_none().then_some(place.index), block: None, line: place.line }
}

/// A list or object that may be JSON inside a string.
fn decoded(value: Value<'_>) -> Option<Arc<str>> {
    if matches!(value.kind(), ValueKind::Array | ValueKind::Object) {
        return Some(value.raw().into());
    }
    let mut text = value.as_str()?.into_owned();
    for _ in 1..ENCODED {
        let doc = Doc::parse(&text).ok()?;
        let root = doc.root()?;
        match root.kind() {
            ValueKind::Array | ValueKind::Object => return Some(text.into()),
            ValueKind::String => {
                let inside = root.as_str()?.into_owned();
                text = inside;
            }
            _ => return None,
        }
    }
    None
}

/// What a row says.
pub(super) enum RowContent {
    Message(PlacelessMessage),
    /// A thread: its row without its messages, and these.
    Thread {
        around: Text,
        history: Option<Arc<str>>,
    },
}

impl Row {
    pub(super) fn read(root: Value<'_>, raw: Raw, place: SourcePlace) -> Self {
        let name = |name: &str| match root.given(name) {
            Some(value) => value.as_str().unwrap_or_else(|| value.raw().into()).into_owned(),
            None => String::new(),
        };
        let (user, channel) = (name("user_id"), name("channel_id"));
        if root.get("message_type").is_some() {
            let own_id = format!("{user}\n{channel}");
            let scope = Scope { user, channel, thread: String::new() };
            let what = RowContent::Message(PlacelessMessage::row(raw.clone(), root, place));
            return Self { what, raw, place, own_id, scope };
        }
        let around = match root.holds("conversation_history", ValueKind::Array) {
            true => Text::from(render::with_field_of(root, "conversation_history", "[]")),
            false => Text::new(raw.as_str()),
        };
        let history = root.given("conversation_history").and_then(decoded);
        let thread = name("thread_id");
        Self {
            what: RowContent::Thread { around, history },
            raw,
            place,
            own_id: format!("thread\n{thread}"),
            scope: Scope { user, channel, thread },
        }
    }
}

/// One message, before it is known where it stands.
pub(super) struct PlacelessMessage {
    raw: Raw,
    place: SourcePlace,
    role: Role,
    id: Option<Text>,
    time: Option<Text>,
    content: Option<Text>,
    /// The call that it answers.
    answers: Option<Text>,
    calls: Calls,
}

/// The calls of a message.
enum Calls {
    None,
    /// A list, or another value, as JSON.
    Given(Arc<str>),
    Unreadable,
    /// The values of the columns that held calls and results before there was one for calls.
    Older(Box<[OlderColumn]>),
}

impl PlacelessMessage {
    fn row(raw: Raw, root: Value<'_>, place: SourcePlace) -> Self {
        let role = roles::named(&root.word("message_type"));
        let time = root.given("created_at").map(time_of);
        let id = root.given("id").map(as_text);
        Self { id, time, ..Self::read(raw, root, place, role) }
    }

    /// Reads what a message says. Its place in its conversation decides what a call means.
    fn read(raw: Raw, root: Value<'_>, place: SourcePlace, role: Role) -> Self {
        let calls = root.given("tool_calls").filter(|calls| !calls.is_str(""));
        let older = || if role == Role::Assistant { older(root) } else { Calls::None };
        Self {
            raw,
            place,
            id: None,
            time: None,
            content: root.given("content").map(as_text).filter(|text| !text.is_empty()),
            // The name beside it is only the beginning of the id.
            answers: text_of(root, "tool_call_id").filter(|_| role == Role::Tool),
            calls: calls.map_or_else(older, |calls| decoded(calls).map_or(Calls::Unreadable, Calls::Given)),
            role,
        }
    }

    /// The order of rows with the same time: a question and its answer are stored at once.
    fn rank(&self) -> u8 {
        match self.role {
            Role::System | Role::Developer => 0,
            Role::User => 1,
            Role::Assistant => 2,
            _ => 3,
        }
    }
}

/// One conversation.
struct Channel {
    own_id: String,
    scope: Scope,
    messages: Vec<PlacelessMessage>,
    beside: Vec<(SourcePlace, Aside)>,
    findings: Vec<Finding>,
}

impl Channel {
    /// Adds the messages of a thread, which are a list in its row.
    fn thread(&mut self, around: Text, place: SourcePlace, history: &Arc<str>) {
        self.beside.push((place, Aside::Raw(around)));
        let doc = Doc::of(history).shared_as(history);
        for (index, element) in doc.root().into_iter().flat_map(Value::items).enumerate() {
            let place = SourcePlace { index, ..place };
            if element.kind() != ValueKind::Object {
                self.beside.push((place, Aside::Unknown(Text::new(element.raw()))));
                let finding = Finding::new(Rule::DamagedEntry, position(place), Action::SetAside);
                self.findings.push(finding.because("it is not a message"));
                continue;
            }
            let role = roles::named(&element.word("role"));
            let raw = Raw::slice(history, element.start(), element.end());
            let raw = raw.unwrap_or_else(|| Raw::new(element.raw()));
            self.messages.push(PlacelessMessage::read(raw, element, place, role));
        }
    }

    fn into_session(mut self, name: &str) -> Session {
        let mut last = i64::MIN;
        let mut keyed: Vec<(i64, PlacelessMessage)> = Vec::with_capacity(self.messages.len());
        for said in self.messages.drain(..) {
            // A row without a time stays behind the one before it.
            let time = said.time.as_ref().and_then(|time| instant(time)).map(|time| time.as_microsecond());
            last = time.unwrap_or(last);
            keyed.push((last, said));
        }
        if keyed.iter().any(|(_, said)| said.time.is_some()) {
            keyed.sort_by_key(|(time, said)| (*time, said.rank()));
        }
        let answered: HashSet<Text> = keyed.iter().filter_map(|(_, said)| said.answers.clone()).collect();
        let mut builder = SessionBuilder::new(FORMAT);
        builder.aside(building::nth(0), Aside::Scope(self.scope));
        self.beside.into_iter().for_each(|(place, what)| builder.aside(place, what));
        builder.findings.extend(self.findings);
        // The first row of each id, and the others.
        let mut seen: HashMap<Text, (Raw, Vec<Raw>)> = HashMap::with_capacity(keyed.len());
        for (_, said) in keyed {
            // Two dumps in one file hold the same row twice. Only rows with the same id can be the same.
            if let Some(id) = &said.id {
                match seen.entry(id.clone()) {
                    Entry::Vacant(new) => _ = new.insert((said.raw.clone(), Vec::new())),
                    Entry::Occupied(mut known) => {
                        let (first, others) = known.get_mut();
                        if *first == said.raw || others.contains(&said.raw) {
                            builder.aside(said.place, Aside::Raw(Text::new(said.raw.as_str())));
                            continue;
                        }
                        others.push(said.raw.clone());
                    }
                }
            }
            said.put(&mut builder, &answered);
        }
        builder.finish(name, Some(&self.own_id), Context::of_model(Dialect::OpenAiChat, None))
    }
}

impl PlacelessMessage {
    fn put(self, builder: &mut SessionBuilder, answered: &HashSet<Text>) {
        let mut blocks: Vec<Block> = self.content.map(Block::text).into_iter().collect();
        if self.role == Role::Tool {
            blocks = vec![result(self.answers.as_deref(), None, blocks, false)];
        }
        if matches!(self.calls, Calls::Given(_) | Calls::Unreadable) {
            let list = if let Calls::Given(list) = &self.calls { Some(&**list) } else { None };
            let doc = list.map(Doc::of);
            let list = doc.as_ref().and_then(Doc::root).filter(|list| list.kind() == ValueKind::Array);
            if list.is_none() {
                let finding = Finding::new(Rule::DamagedEntry, position(self.place), Action::SetAside);
                builder.findings.push(finding.because("its `tool_calls` cannot be read"));
            }
            blocks.extend(list.into_iter().flat_map(Value::items).map(|call| called(call, answered)));
        }
        let mut results = Vec::new();
        let older = if let Calls::Older(older) = self.calls { older } else { Box::default() };
        for (column, values) in older {
            let Some(values) = values else {
                let finding = Finding::new(Rule::DamagedEntry, position(self.place), Action::SetAside);
                builder.findings.push(finding.because(format!("its `{column}` cannot be read")));
                continue;
            };
            let doc = Doc::of(&values);
            let Some(root) = doc.root() else { continue };
            let one = Some(root).filter(|root| root.kind() == ValueKind::Object);
            let values = root.items().filter(|_| one.is_none()).chain(one);
            if column == OLDER[0] {
                blocks.extend(values.map(|call| called(call, answered)));
            } else {
                results.extend(values.map(returned));
            }
        }
        let is_blank = blocks.iter().all(|block| block.as_text().is_some_and(|text| text.is_blank()));
        let skipped = is_blank && matches!(self.role, Role::User | Role::Assistant);
        let of_row = Detail { time: self.time.clone(), ..Detail::default() };
        let detail = Detail { id: self.id, time: self.time, ..Detail::default() };
        let message: Message = item(FORMAT, self.role, blocks, self.raw);
        if skipped {
            // The bot skips a row without words.
            builder.hide(message, self.place, detail);
        } else {
            builder.say(message, self.place, detail);
        }
        if !results.is_empty() {
            builder.say(beside(Role::Tool, results), self.place, of_row);
        }
    }
}

/// The columns that `tool_calls` and the rows of tools took the place of.
const OLDER: [&str; 2] = ["function_calls", "function_results"];

/// The name and the value of an older column; no value if it holds no JSON list or object.
type OlderColumn = (&'static str, Option<Arc<str>>);

/// The values of the older columns of a row, in their order.
fn older(root: Value<'_>) -> Calls {
    let filled = |column: &str| root.given(column).filter(|value| !value.is_str(""));
    Calls::Older(OLDER.iter().filter_map(|column| Some((*column, decoded(filled(column)?)))).collect())
}

/// The values of the older columns of a row, as JSON, if any of them is filled.
pub(super) fn function_columns(row: Value<'_>) -> [Option<Arc<str>>; 2] {
    let Calls::Older(columns) = older(row) else { return [None, None] };
    OLDER.map(|name| {
        let (_, value) = columns.iter().find(|(column, _)| *column == name)?;
        value.clone()
    })
}

/// A result of the older column. Without an id it answers the calls of its row in their order.
fn returned(given: Value<'_>) -> Block {
    let id = text_of(given, "tool_call_id").or_else(|| text_of(given, "id"));
    let inside = ["result", "output", "content", "response"].iter().find_map(|name| given.given(name));
    let text = as_text(inside.filter(|_| given.kind() == ValueKind::Object).unwrap_or(given));
    result(id.as_deref(), None, vec![Block::text(text)], false)
}

/// A call, or the answer that it stands for.
fn called(given: Value<'_>, answered: &HashSet<Text>) -> Block {
    let function = given.given("function").unwrap_or(given);
    let (id, name) = (text_of(given, "id"), text_of(function, "name"));
    let arguments = function.get("arguments");
    if name.as_deref() == Some(ANSWER) && id.as_ref().is_none_or(|id| !answered.contains(id)) {
        let inside = arguments.and_then(decoded);
        let doc = inside.as_deref().map(Doc::of);
        if let Some(message) = doc.as_ref().and_then(Doc::root).and_then(|root| text_of(root, "message")) {
            return Block::text(message);
        }
    }
    call(id.as_deref(), name.as_deref(), arguments)
}
