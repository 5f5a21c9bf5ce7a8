//! Turns the messages that remain after the replay into a session.

use std::{collections::HashSet, sync::Arc};

use rejoin_record::{
    Block, BlockKind, Message, Origin, Raw, Role, Text,
    json::{Doc, Object, Value, ValueKind},
};

use super::{
    FORMAT,
    replay::{Item, ItemContent, Replay},
};
use crate::{
    context::Context,
    input::{Input, Stream},
    session::{
        Aside, Detail, ReadError, Session, SetAside, SourcePlace, derive_id, replaced_bytes, unreadable_rest,
    },
    sessions::{
        agents::parts::{around, unplaced},
        building::{SessionBuilder, beside, call, item, result},
        lines::{self, text_of, time_of},
        sample::Sample,
    },
    wire::{gemini::read::ContentReader, registry::Dialect},
};

/// Reads a log, line by line.
pub(crate) fn read_stream(mut stream: Stream<'_>) -> Result<Vec<Session>, ReadError> {
    let mut replay = Replay::default();
    lines::read(&mut stream, &mut replay)?;
    session(replay, stream.name)
}

/// Reads a log or a document.
pub(crate) fn read(input: &Input, sample: Sample<'_>) -> Result<Vec<Session>, ReadError> {
    let (doc, error) = sample.into_whole();
    let whole =
        |root: &Value<'_>| root.holds("messages", ValueKind::Array) && (error.is_none() || root.is_cut());
    let Some(root) = doc.root().filter(whole) else { return lines::of_text(input, read_stream) };
    let mut replay = Replay::default();
    replay.findings.extend(replaced_bytes(input));
    let list = root.get("messages");
    for (index, message) in list.into_iter().flat_map(Value::items).enumerate() {
        let place = SourcePlace { index, offset: message.start(), line: None };
        if message.is_cut() {
            replay.aside(place, Aside::Raw(Text::new(&input.text[message.start()..])));
        } else if message.kind() == ValueKind::Object {
            replay.message(place, message, &Arc::from(message.raw()));
        } else {
            replay.aside(place, Aside::Unknown(Text::new(message.raw())));
        }
    }
    let place = SourcePlace { index: replay.items.len(), offset: root.start(), line: None };
    if let Some(text) = list.and_then(|list| around(input, list)) {
        replay.aside(place, Aside::Raw(text));
    }
    replay.findings.extend(error.map(|error| unreadable_rest(input, error, place.index)));
    replay.header(place, root);
    session(replay, &input.name)
}

fn session(mut replay: Replay, name: &str) -> Result<Vec<Session>, ReadError> {
    if !replay.is_known || replay.current.is_empty() {
        return Err(ReadError::NoConversation("no line of it is a message that was not taken back"));
    }
    let mut builder = SessionBuilder::new(FORMAT);
    builder.findings = std::mem::take(&mut replay.findings);
    let reader = ContentReader::new(None);
    let mut session = SessionReader { builder, reader, answered: HashSet::new(), model: None };
    let mut visible = vec![false; replay.items.len()];
    replay.current.iter().for_each(|number| visible[*number] = true);
    // A compaction hides everything before it.
    let boundary = replay.compacted.unwrap_or(0).min(replay.items.len());
    let new = replay.compacted_from..boundary;
    let mut others = (0..replay.items.len()).filter(|number| !visible[*number]).peekable();
    while let Some(number) = others.next_if(|number| *number < boundary) {
        session.beside(&replay.items[number]);
    }
    if let Some(last) = replay.compacted.and_then(|at| replay.items.get(at.saturating_sub(1))) {
        session.builder.aside(last.place, Aside::Compacted { summary: Text::new("") });
    }
    for &number in &replay.current {
        while let Some(other) = others.next_if(|other| *other < number) {
            session.beside(&replay.items[other]);
        }
        let from = session.builder.messages.len();
        session.visible(&replay.items[number]);
        if new.contains(&number) {
            // The program puts its summary first.
            let is_first = replay.current.iter().find(|number| new.contains(number)) == Some(&number);
            session.builder.came_with_compaction(from, is_first.then_some(from));
        }
    }
    others.for_each(|number| session.beside(&replay.items[number]));
    if let Some(parent) = parent_of(name) {
        let parent = derive_id(FORMAT, Some(parent), name, None);
        let link = Object::new().text("delegated_by", parent).finish();
        let place = SourcePlace { index: 0, offset: 0, line: None };
        session.builder.set_aside.insert(0, SetAside { place, after: 0, what: Aside::Raw(Text::from(link)) });
    }
    let context = Context::of_model(Dialect::Gemini, session.model.as_deref());
    Ok(vec![session.builder.finish(name, replay.session.as_deref(), context)])
}

/// The session that a sub-agent works for, from the path of its file, `chats/<session>/<sub-agent>.jsonl`.
fn parent_of(path: &str) -> Option<&str> {
    let mut parts = path.rsplit(['/', '\\']);
    let (_, parent, folder) = (parts.next()?, parts.next()?, parts.next()?);
    (folder == "chats").then_some(parent)
}

/// A session while its messages are read.
struct SessionReader {
    builder: SessionBuilder,
    reader: ContentReader,
    /// The calls whose results were found in the same message.
    answered: HashSet<String>,
    model: Option<String>,
}

/// A message of the file, and the results that it holds beside its calls.
struct FileMessage {
    message: Message,
    results: Vec<Block>,
    id: String,
    time: Option<Text>,
    model: Option<String>,
}

impl SessionReader {
    fn visible(&mut self, item: &Item) {
        let ItemContent::Message(text) = &item.what else { return self.beside(item) };
        let raw = || Text::new(Arc::clone(text));
        let Some(spoken) = self.read(text, item.place) else {
            return self.builder.aside(item.place, unsaid(text));
        };
        let again = |block: &Block| {
            let id = block.as_result().and_then(|result| result.call_id.as_ref());
            id.is_some_and(|id| self.answered.contains(id.as_str()))
        };
        // The program writes each result a second time, in a separate message.
        let repeated = spoken.message.role == Role::Tool && spoken.message.blocks.iter().all(again);
        if repeated {
            return self.builder.aside(item.place, Aside::Raw(raw()));
        }
        self.model = spoken.model.or(self.model.take());
        let detail = Detail::of(&*spoken.id, spoken.time.clone());
        self.builder.say(spoken.message, item.place, detail);
        let answers = spoken.results.iter().filter_map(|block| block.as_result()?.call_id.as_ref());
        self.answered.extend(answers.map(ToString::to_string));
        if !spoken.results.is_empty() {
            let detail = Detail::of(format!("{} results", spoken.id), spoken.time);
            self.builder.say(beside(Role::Tool, spoken.results), item.place, detail);
        }
    }

    fn beside(&mut self, item: &Item) {
        match &item.what {
            ItemContent::Aside(aside) => self.builder.aside(item.place, aside.clone()),
            ItemContent::Message(text) => match self.read(text, item.place) {
                Some(spoken) => {
                    let detail = Detail::of(&*spoken.id, spoken.time.clone());
                    self.builder.hide(spoken.message, item.place, detail);
                    if !spoken.results.is_empty() {
                        let detail = Detail::of(format!("{} results", spoken.id), spoken.time);
                        self.builder.hide(beside(Role::Tool, spoken.results), item.place, detail);
                    }
                }
                None => self.builder.aside(item.place, unsaid(text)),
            },
        }
    }

    /// Reads a message. `None` if it is a note of the program or of an unknown type.
    fn read(&self, text: &Arc<str>, place: SourcePlace) -> Option<FileMessage> {
        let doc = Doc::of(text).shared_as(text);
        let root = doc.root()?;
        let role = match &*root.word("type") {
            "user" => Role::User,
            "gemini" => Role::Assistant,
            _ => return None,
        };
        let content = root.given("content").filter(|content| !content.is_str(""));
        let mut blocks =
            content.map(|content| self.reader.parts(content, &role, text, 0)).unwrap_or_default();
        let has = |blocks: &[Block], is: fn(&BlockKind) -> bool| blocks.iter().any(|block| is(&block.kind));
        let model = root.given("model").and_then(Value::as_str);
        if !has(&blocks, |kind| matches!(kind, BlockKind::Reasoning(_))) {
            let origin = Origin::of("gemini", model.as_deref().map(Text::from));
            let thoughts = root.given("thoughts").into_iter().flat_map(Value::items);
            let thoughts = thoughts.filter_map(|thought| thought_of(thought, &origin));
            blocks.splice(0..0, thoughts.collect::<Vec<_>>());
        }
        let calls: Vec<Value<'_>> = root.given("toolCalls").into_iter().flat_map(Value::items).collect();
        if !has(&blocks, |kind| matches!(kind, BlockKind::ToolCall(_))) {
            blocks.extend(calls.iter().map(|own| {
                let (id, name) = named(*own);
                call(id.as_deref(), name.as_deref(), own.get("args"))
            }));
        }
        let ids: Vec<Option<Text>> = calls.iter().map(|call| named(*call).0).collect();
        let results: Vec<Block> = calls.iter().flat_map(|call| self.results(*call, &ids, text)).collect();
        let answers = role == Role::User && has(&blocks, |kind| matches!(kind, BlockKind::ToolResult(_)));
        let role = if answers { Role::Tool } else { role };
        let id = root.given("id").and_then(Value::as_str);
        let id = id.map_or_else(|| format!("line {}", place.index), std::borrow::Cow::into_owned);
        Some(FileMessage {
            message: item_of(role, blocks, text),
            results,
            id,
            time: root.given("timestamp").map(time_of),
            model: model.map(std::borrow::Cow::into_owned),
        })
    }

    /// The results that a call holds. After a resume, each call of a message holds the results of all its calls. `ids` are the
    /// ids of these calls, so that the results of the other ones can be left out.
    fn results(&self, own: Value<'_>, ids: &[Option<Text>], text: &Arc<str>) -> Vec<Block> {
        let Some(given) = own.given("result") else { return Vec::new() };
        let (id, name) = named(own);
        let parts = unplaced(self.reader.parts(given, &Role::Tool, text, 0));
        let failed = own.says("status", "error");
        let (mut results, others): (Vec<Block>, Vec<Block>) =
            parts.into_iter().partition(|block| block.as_result().is_some());
        let own_id = id.as_ref();
        let is_of_another = |block: &Block| {
            let answered = block.as_result().and_then(|result| result.call_id.as_ref()).map(|id| id.as_str());
            let other = |id: &Text| Some(id.as_str()) == answered && Some(id) != own_id;
            ids.iter().flatten().any(other)
        };
        if results.iter().any(is_of_another) {
            results.retain(|block| !is_of_another(block));
            if results.is_empty() && others.is_empty() {
                return Vec::new();
            }
        }
        if results.is_empty() {
            // An empty list is a result as well: the call ran and gave nothing.
            return vec![result(id.as_deref(), name.as_deref(), others, failed)];
        }
        for block in &mut results {
            if let BlockKind::ToolResult(result) = &mut block.kind {
                let call_id = || id.as_deref().map(rejoin_record::CallId::from);
                result.call_id = result.call_id.take().or_else(call_id);
                result.is_error |= failed;
            }
        }
        if let Some(BlockKind::ToolResult(first)) = results.first_mut().map(|block| &mut block.kind) {
            first.content.extend(others);
        }
        results
    }
}

fn item_of(role: Role, blocks: Vec<Block>, text: &Arc<str>) -> Message {
    item(FORMAT, role, blocks, Raw::new(Arc::clone(text)))
}

/// The id and the name of a call.
fn named(call: Value<'_>) -> (Option<Text>, Option<Text>) {
    (text_of(call, "id").filter(|id| !id.is_empty()), text_of(call, "name"))
}

fn thought_of(thought: Value<'_>, origin: &Origin) -> Option<Block> {
    let told = |name| text_of(thought, name).filter(|text| !text.is_blank());
    let told: Vec<Text> = ["subject", "description"].into_iter().filter_map(told).collect();
    let words: Vec<&str> = told.iter().map(Text::as_str).collect();
    (!words.is_empty()).then(|| Block::reasoning(words.join("\n\n"), false, origin.clone()))
}

/// Sets a message aside that no model sees: a note of the program, or something unknown.
fn unsaid(text: &Arc<str>) -> Aside {
    let doc = Doc::of(text);
    let note = doc.root().is_some_and(|root| matches!(&*root.word("type"), "info" | "error" | "warning"));
    let text = Text::new(Arc::clone(text));
    if note { Aside::Raw(text) } else { Aside::Unknown(text) }
}
