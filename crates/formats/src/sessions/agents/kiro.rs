//! Kiro: an export, which is one document with a `history` of turns, and the sessions of its command line, with one message per
//! line.
//!
//! In an export, each turn has two sides: the input, from a person or from tools, and the answer. In a session of the command
//! line, each line is `{version, kind, data}`, and each block of its content is `{kind, data}`.

use rejoin_record::{BlockKind, Media, MediaSource};

use super::parts::around;
use crate::sessions::prelude::*;

pub(crate) const FORMAT: &str = "kiro";

/// Fields that hold no words of the conversation, or the same words in another form.
pub(crate) const KNOWN: &[Known] = &[
    // The arguments of a call before they were corrected, and the folder.
    Known::fields("ToolUse.tool_uses.orig_args user_env_context env_context"),
    // The results of a turn for display.
    Known::fields("data.results"),
];

/// Whether a text is an export of Kiro or a session of its command line.
pub(crate) fn sniff(sample: &Sample<'_>) -> Option<Claim> {
    let is_export = |root: Value<'_>| {
        let first = root.get("history").and_then(|list| list.items().next());
        first.is_some_and(|first| turn(first).is_some()) && root.get("conversation_id").is_some()
    };
    let is_line = |root: Value<'_>| {
        root.holds("kind", ValueKind::String)
            && root.holds("version", ValueKind::String)
            && root.holds("data", ValueKind::Object)
    };
    let export = sample.beginning().0.root().is_some_and(is_export);
    Claim::sure(export, "a `history` of turns with `user` and `assistant`").or_else(|| {
        Claim::likely(sample.any_line(LOOK_AT, is_line), "lines with a `kind`, a `version` and `data`")
    })
}

/// The two sides of a turn: fields of an object, or the elements of a pair.
fn turn(item: Value<'_>) -> Option<(Value<'_>, Option<Value<'_>>)> {
    if item.kind() == ValueKind::Array {
        let mut sides = item.items();
        let user = sides.next().filter(|user| user.get("content").is_some())?;
        return Some((user, sides.next()));
    }
    let user = item.given("user").filter(|user| user.get("content").is_some())?;
    Some((user, item.given("assistant")))
}

/// Reads an export, or the lines of a session.
pub(crate) fn read(input: &Input, sample: Sample<'_>) -> Result<Vec<Session>, ReadError> {
    let (doc, error) = sample.into_whole();
    let doc = doc.shared_as(&input.text);
    let whole =
        |root: &Value<'_>| root.holds("history", ValueKind::Array) && (error.is_none() || root.is_cut());
    let Some(root) = doc.root().filter(whole) else { return lines::of_text(input, read_stream) };
    let mut reader = SessionReader::new();
    reader.builder.findings.extend(replaced_bytes(input));
    // A compaction replaces the first turns with a summary.
    let summary = root.given("latest_summary").map(|given| given.items().next().unwrap_or(given));
    if let Some(text) = summary.and_then(Value::as_str).filter(|text| !text.trim().is_empty()) {
        let place = SourcePlace { index: 0, offset: root.start(), line: None };
        reader.known = true;
        reader.builder.say(Message::user(&*text), place, Detail::default());
    }
    let mut index = 0;
    let list = root.get("history");
    for item in list.into_iter().flat_map(Value::items) {
        let place = |value: Value<'_>, index| SourcePlace { index, offset: value.start(), line: None };
        // If a turn was cut off, one of its sides may still be whole.
        let rest = |value: Value<'_>| Aside::Raw(Text::new(&input.text[value.start()..]));
        let Some((user, answer)) = turn(item).filter(|(user, _)| !user.is_cut()) else {
            let aside = if item.is_cut() { rest(item) } else { Aside::Unknown(Text::new(item.raw())) };
            reader.builder.aside(place(item, index), aside);
            index += 1;
            continue;
        };
        reader.side(user, asked(user), place(user, index));
        index += 1;
        if let Some(answer) = answer {
            match answer.is_cut() {
                true => reader.builder.aside(place(answer, index), rest(answer)),
                false => reader.side(answer, answered(answer), place(answer, index)),
            }
            index += 1;
        }
        if item.is_cut() {
            let end = answer.unwrap_or(user).end();
            let what = Aside::Raw(Text::new(input.text.get(end..).unwrap_or_default()));
            reader.builder.aside(place(item, index), what);
            index += 1;
        }
        let metadata = item.given("request_metadata").or_else(|| item.items().nth(2));
        let metadata = metadata.filter(|metadata| !metadata.is_cut());
        if let Some(metadata) = metadata {
            reader.model = text_of(metadata, "model_id").or(reader.model.take());
            reader.builder.aside(place(metadata, index), Aside::Raw(Text::new(metadata.raw())));
            index += 1;
        }
        // Everything else in a turn is not understood, and is kept.
        let known = [Some(user), answer, metadata].map(|value| value.map(|value| value.start()));
        let all = item.fields().map(|(_, value)| value).chain(item.items());
        let others = all.filter(|value| !value.is_cut() && !known.contains(&Some(value.start())));
        for value in others.filter(|value| !value.is_null()) {
            reader.builder.aside(place(value, index), Aside::Unknown(Text::new(value.raw())));
            index += 1;
        }
    }
    let place = SourcePlace { index, offset: root.start(), line: None };
    if let Some(text) = list.and_then(|list| around(input, list)) {
        reader.builder.aside(place, Aside::Raw(text));
    }
    reader.builder.findings.extend(error.map(|error| unreadable_rest(input, error, index)));
    reader.finish(&input.name, text_of(root, "conversation_id").as_deref())
}

/// Reads the lines of a session.
pub(crate) fn read_stream(mut stream: Stream<'_>) -> Result<Vec<Session>, ReadError> {
    let mut reader = SessionReader::new();
    lines::read(&mut stream, &mut reader)?;
    reader.finish(stream.name, None)
}

struct SessionReader {
    builder: SessionBuilder,
    model: Option<Text>,
    known: bool,
}

/// The role and the blocks of a message; `None` if the value is not a message.
type RoleAndBlocks = Option<(Role, Vec<Block>)>;

impl SessionReader {
    fn new() -> Self {
        Self { builder: SessionBuilder::new(FORMAT), model: None, known: false }
    }

    /// Adds one side of a turn.
    fn side(&mut self, side: Value<'_>, said: RoleAndBlocks, place: SourcePlace) {
        let Some((role, told)) = said else {
            return self.builder.aside(place, Aside::Unknown(Text::new(side.raw())));
        };
        self.known = true;
        let id = format!("side {}", place.index);
        let time = side.given("timestamp").map(time_of);
        let detail = Detail::of(id, time);
        self.builder.say(item(FORMAT, role, told, Raw::new(side.raw())), place, detail);
    }

    fn finish(self, name: &str, id: Option<&str>) -> Result<Vec<Session>, ReadError> {
        if !self.known {
            return Err(ReadError::NoConversation("nothing in it is a message"));
        }
        let context = Context::of_model(Dialect::Anthropic, self.model.as_deref());
        Ok(vec![self.builder.finish(name, id, context)])
    }
}

/// The name of a variant and its value. A variant is an object with one field.
fn variant(value: Value<'_>) -> Option<(std::borrow::Cow<'_, str>, Value<'_>)> {
    let (key, inside) = value.fields().next()?;
    Some((key.as_str()?, inside))
}

/// The input of a turn: the message of a person, or the results of tools.
fn asked(user: Value<'_>) -> RoleAndBlocks {
    let base = user.start();
    let (kind, inside) = variant(user.given("content")?)?;
    let prompt = inside.given("prompt").unwrap_or(inside).to_text(base);
    let prompt = prompt.filter(|text| !text.is_empty()).map(Block::text);
    match &*kind {
        "Prompt" => Some((Role::User, prompt.into_iter().collect())),
        "ToolUseResults" | "CancelledToolUses" => {
            let list = inside.given("tool_use_results").unwrap_or(inside);
            let mut told: Vec<Block> = list.items().map(|own| answer(own, base)).collect();
            let role = if told.is_empty() { Role::User } else { Role::Tool };
            told.extend(prompt.filter(|_| kind == "CancelledToolUses"));
            Some((role, told))
        }
        _ => None,
    }
}

/// The result of a call, with the blocks `{Text: …}` and `{Json: …}`.
fn answer(own: Value<'_>, base: usize) -> Block {
    let parts = own.given("content").into_iter().flat_map(Value::items);
    let told = parts.map(|part| {
        let inside = variant(part).map_or(part, |(_, inside)| inside);
        Block::text(inside.to_text(base).unwrap_or_else(|| inside.to_raw_text(base)))
    });
    let id = text_of(own, "tool_use_id");
    let failed = own.says("status", "Error");
    result(id.as_deref(), None, told.collect(), failed)
}

/// The answer of a turn.
fn answered(side: Value<'_>) -> RoleAndBlocks {
    let base = side.start();
    let (kind, inside) = variant(side)?;
    let said = inside.given("content").and_then(|text| text.to_text(base)).filter(|text| !text.is_empty());
    let mut told: Vec<Block> = said.map(Block::text).into_iter().collect();
    match &*kind {
        "Response" => {}
        "ToolUse" => {
            let calls = inside.given("tool_uses").into_iter().flat_map(Value::items);
            told.extend(calls.map(|own| {
                let id = text_of(own, "id").filter(|id| !id.is_empty());
                call(id.as_deref(), text_of(own, "name").as_deref(), own.get("args"))
            }));
        }
        _ => return None,
    }
    Some((Role::Assistant, told))
}

/// A block of a line: `{kind, data}`.
fn block(own: Value<'_>, text: &Arc<str>) -> Block {
    let kind = own.word("kind");
    let data = own.given("data");
    let read = || {
        let data = data?;
        Some(match &*kind {
            "text" => Block::text(data.to_text(0)?),
            "toolUse" => {
                let id = text_of(data, "toolUseId").filter(|id| !id.is_empty());
                call(id.as_deref(), text_of(data, "name").as_deref(), data.get("input"))
            }
            "toolResult" => {
                let parts = data.given("content").into_iter().flat_map(Value::items);
                let told = parts.map(|part| match part.given("data") {
                    Some(inside) => Block::text(inside.to_text(0).unwrap_or_else(|| as_text(inside))),
                    None => Block::text(as_text(part)),
                });
                let failed = data.says("status", "error");
                result(text_of(data, "toolUseId").as_deref(), None, told.collect(), failed)
            }
            "image" => {
                let source = MediaSource::Base64(text_in(data.given("source")?, "data")?);
                let format = text_of(data, "format").map(|format| Text::from(format!("image/{format}")));
                Block::new(BlockKind::Image(Box::new(Media { media_type: format, source, name: None })))
            }
            _ => return None,
        })
    };
    let raw = || Raw::slice(text, own.start(), own.end()).unwrap_or_else(|| Raw::new(own.raw()));
    read().unwrap_or_else(|| Block::opaque(&*kind, raw(), false))
}

impl LineReader for SessionReader {
    fn value(&mut self, line: &Line, root: Value<'_>) {
        let raw = || Text::new(Arc::clone(&line.text));
        let data = root.given("data");
        let content = data.and_then(|data| data.given("content"));
        let blocks = || -> Vec<Block> {
            let text = content.and_then(|content| content.to_text(0)).map(Block::text);
            let list = content.into_iter().flat_map(Value::items).map(|own| block(own, &line.text));
            text.into_iter().chain(list).collect()
        };
        let (role, told) = match &*root.word("kind") {
            "Prompt" => (Role::User, blocks()),
            "AssistantMessage" => (Role::Assistant, blocks()),
            "ToolResults" => (Role::Tool, blocks()),
            "Compaction" => {
                let summary = data.and_then(|data| text_in(data, "summary"));
                let Some(summary) = summary else {
                    return self.builder.aside(line.place, Aside::Unknown(raw()));
                };
                self.builder.replace(line.place);
                (Role::User, vec![Block::text(summary)])
            }
            "Clear" => {
                self.builder.replace(line.place);
                return self.builder.aside(line.place, Aside::Raw(raw()));
            }
            _ => return self.builder.aside(line.place, Aside::Unknown(raw())),
        };
        self.known = true;
        let is_summary = root.says("kind", "Compaction");
        let id = data.and_then(|data| text_of(data, "message_id")).map(|id| id.to_string());
        let id = id.unwrap_or_else(|| format!("line {}", line.place.index));
        let time = data.and_then(|data| data.given("meta")?.given("timestamp")).map(time_of);
        let detail = Detail::of(id, time);
        self.builder.say(item(FORMAT, role, told, Raw::new(Arc::clone(&line.text))), line.place, detail);
        if is_summary {
            self.builder.came_with_compaction(0, Some(0));
        }
    }

    fn damaged(&mut self, line: &Line, finding: Finding) {
        self.builder.damaged_line(line, finding);
    }

    fn found(&mut self, finding: Finding) {
        self.builder.findings.push(finding);
    }
}
