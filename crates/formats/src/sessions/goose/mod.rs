//! `goose`: sessions of goose, from its database, from the JSONL files of older releases and from its export.
//!
//! A message is `{"id","role","created","content":[…],"metadata"}` in all of them; rows of the database are put into that form.
//! Results are in messages of the user. A message that only people see, and output that is addressed to them, is set aside.

#[cfg(feature = "sqlite")]
mod database;
#[cfg(feature = "sqlite")]
mod write;

use std::sync::Arc;

use rejoin_record::{
    Arguments, Block, CallId, Raw, Role, Text, ToolCall,
    json::{Doc, Object, Value, ValueKind},
};
use rejoin_view::Finding;

use super::{
    building::{self, SessionBuilder, as_text, beside, call, item, medium, opaque, result, text_in, thought},
    lines::{self, Line, LineReader, text_of, time_of},
    sample::{Claim, Sample},
};
use crate::{
    accounting::Known,
    input::{Input, Stream},
    session::{Aside, Detail, ReadError, Session, SourcePlace, replaced_bytes},
};

#[cfg(feature = "sqlite")]
pub(crate) use database::DATABASE;
#[cfg(feature = "sqlite")]
pub(crate) use write::write;

/// The name of the format.
pub const FORMAT: &str = "goose";

/// The number of lines that are examined to detect the format.
const LOOK_AT: usize = 20;

/// What is shown to people only: questions for approval, notices, and how a call is described.
pub(crate) const KNOWN: &[Known] =
    &[Known::fields("metadata content.data content.msg content.metadata content._meta content.prompt")];

/// Content that no model gets.
const SILENT: &[&str] =
    &["actionRequired", "systemNotification", "toolConfirmationRequest", "conversationCompacted"];

/// Whether a text is a session file or an export of goose.
pub(crate) fn sniff(sample: &Sample<'_>) -> Option<Claim> {
    let reason = "messages with `toolRequest` or `toolResponse`, or a header with `working_dir`";
    let whole = sample.any_line(LOOK_AT, |root| is_header(root) || is_export(root));
    Claim::sure(whole || sample.any_line(LOOK_AT, is_own_message), reason)
}

fn is_header(root: Value<'_>) -> bool {
    root.get("role").is_none()
        && root.get("messages").is_none()
        && root.holds("working_dir", ValueKind::String)
        && ["description", "message_count", "total_tokens"].iter().any(|name| root.get(name).is_some())
}

fn is_export(root: Value<'_>) -> bool {
    root.holds("conversation", ValueKind::Array) && root.holds("working_dir", ValueKind::String)
}

fn is_own_message(root: Value<'_>) -> bool {
    let own = |part: Value<'_>| matches!(&*part.word("type"), "toolRequest" | "toolResponse");
    root.get("created").is_some() && root.get("content").into_iter().flat_map(Value::items).any(own)
}

/// Reads a session that is one text: an export, or a file of lines.
pub(crate) fn read(input: &Input, sample: Sample<'_>) -> Result<Vec<Session>, ReadError> {
    let (doc, error) = sample.into_whole();
    let doc = doc.shared_as(&input.text);
    if let Some(root) = doc.root().filter(|root| error.is_none() && is_export(*root)) {
        let mut reading = Reading::new();
        let around = crate::wire::render::with_field_of(root, "conversation", "[]");
        Doc::of(&around).root().into_iter().for_each(|header| reading.header(header, building::nth(0)));
        for (number, message) in root.get("conversation").into_iter().flat_map(Value::items).enumerate() {
            let place = SourcePlace { offset: message.start(), ..building::nth(number) };
            reading.message(message, &input.text, place);
        }
        let mut session = reading.finish(&input.name);
        session.findings.splice(0..0, replaced_bytes(input));
        return Ok(vec![session]);
    }
    lines::of_text(input, read_stream)
}

/// Reads a file of lines.
///
/// # Errors
/// If it has no messages, or cannot be read.
pub(crate) fn read_stream(mut stream: Stream<'_>) -> Result<Vec<Session>, ReadError> {
    let mut reading = Reading::new();
    lines::read(&mut stream, &mut reading)?;
    if !reading.known {
        return Err(ReadError::NoConversation("no line of it is a message"));
    }
    Ok(vec![reading.finish(stream.name)])
}

struct Reading {
    builder: SessionBuilder,
    id: Option<Text>,
    model: Option<String>,
    known: bool,
}

impl LineReader for Reading {
    fn value(&mut self, line: &Line, root: Value<'_>) {
        match root.get("role") {
            Some(_) => self.message(root, &line.text, line.place),
            None if is_header(root) => self.header(root, line.place),
            None => {
                self.builder.findings.push(building::damage(line.place, "it is not a message"));
                self.builder.aside(line.place, Aside::Unknown(Text::new(line.text.clone())));
            }
        }
    }

    fn damaged(&mut self, line: &Line, finding: Finding) {
        self.builder.aside(line.place, Aside::Raw(Text::new(line.text.clone())));
        self.builder.findings.push(finding);
    }

    fn found(&mut self, finding: Finding) {
        self.builder.findings.push(finding);
    }
}

impl Reading {
    fn new() -> Self {
        Self { builder: SessionBuilder::new(FORMAT), id: None, model: None, known: false }
    }

    fn header(&mut self, header: Value<'_>, place: SourcePlace) {
        self.known = true;
        self.id = text_of(header, "id").or(self.id.take());
        let config = header.given("model_config");
        let model = config.and_then(|config| text_of(config, "model_name"));
        self.model = model.map(|model| model.to_string()).or(self.model.take());
        self.builder.aside(place, Aside::Raw(Text::new(header.raw())));
        let title = text_of(header, "name").or_else(|| text_of(header, "description"));
        if let Some(title) = title.filter(|title| !title.is_blank()) {
            self.builder.aside(place, Aside::Title(title));
        }
    }

    fn message(&mut self, root: Value<'_>, buffer: &Arc<str>, place: SourcePlace) {
        self.known = true;
        let raw = Raw::slice(buffer, root.start(), root.end()).unwrap_or_else(|| Raw::new(root.raw()));
        let role = Role::named(&root.word("role"));
        let (mut blocks, mut for_people) = (Vec::new(), Vec::new());
        let mut is_silent = false;
        for part in root.get("content").into_iter().flat_map(Value::items) {
            is_silent |= SILENT.contains(&&*part.word("type"));
            let (sent, shown) = self.blocks(part);
            blocks.extend(sent);
            for_people.extend(shown);
        }
        let detail =
            Detail { id: text_of(root, "id"), time: root.given("created").map(time_of), ..Detail::default() };
        let visible = root.given("metadata").and_then(|metadata| metadata.get("agentVisible")?.as_bool());
        if blocks.is_empty() && is_silent {
            self.builder.aside(place, Aside::Raw(Text::new(raw.as_str())));
        } else if visible == Some(false) {
            self.builder.hide(item(FORMAT, role, blocks, raw), place, detail);
        } else {
            self.builder.say(item(FORMAT, role, blocks, raw), place, detail);
        }
        if !for_people.is_empty() {
            self.builder.hide(beside(Role::User, for_people), place, Detail::default());
        }
    }

    /// What a model gets of a part, and what only people get.
    fn blocks(&self, part: Value<'_>) -> (Option<Block>, Option<Block>) {
        let kind = part.word("type");
        let id = text_of(part, "id");
        let sent = match &*kind {
            "text" => text_in(part, "text").map(Block::text),
            "thinking" => text_in(part, "thinking").map(|text| thought(text, FORMAT, self.model.as_deref())),
            "reasoning" => text_in(part, "text").map(|text| thought(text, FORMAT, self.model.as_deref())),
            "redactedThinking" => Some(thought(Text::new(""), FORMAT, self.model.as_deref())),
            "image" => Some(image(part)),
            "toolRequest" | "frontendToolRequest" => {
                match part.given("toolCall").and_then(|call| call.given("value").or(Some(call))) {
                    Some(value) if value.given("name").is_some() => {
                        let arguments = value.given("arguments").map_or_else(Arguments::absent, arguments);
                        let name = text_of(value, "name");
                        Some(Block::call(ToolCall::read(id.as_deref().map(CallId::from), name, arguments)))
                    }
                    // A call that goose could not parse. Its response says so, and belongs to it.
                    Some(refused) if refused.given("error").is_some() => {
                        Some(call(id.as_deref(), text_of(refused, "name").as_deref(), refused.get("error")))
                    }
                    _ => Some(opaque(&kind, part)),
                }
            }
            "toolResponse" => return response(part, id.as_deref()),
            kind if SILENT.contains(&kind) => None,
            kind => Some(opaque(kind, part)),
        };
        (sent, None)
    }

    fn finish(self, name: &str) -> Session {
        let context = building::context(self.model.as_deref());
        self.builder.finish(name, self.id.as_deref(), context)
    }
}

/// The arguments of a call. goose puts anything that is not an object into one.
fn arguments(given: Value<'_>) -> Arguments {
    if given.kind() == ValueKind::Object {
        return Arguments::new(as_text(given));
    }
    Arguments::new(Object::new().raw("value", given.raw()).finish())
}

fn image(part: Value<'_>) -> Block {
    let (data, kind) = (part.word("data"), text_of(part, "mimeType"));
    let url = format!("data:{};base64,{data}", kind.as_deref().unwrap_or("image/png"));
    medium(&url, kind.as_deref(), None)
}

/// A result: what the model gets of it, and what only people get.
fn response(part: Value<'_>, id: Option<&str>) -> (Option<Block>, Option<Block>) {
    let Some(given) = part.given("toolResult") else { return (Some(opaque("toolResponse", part)), None) };
    if let Some(error) = given.given("error") {
        return (Some(result(id, None, vec![Block::text(as_text(error))], true)), None);
    }
    let value = given.given("value").unwrap_or(given);
    let is_error = value.get("isError").and_then(Value::as_bool) == Some(true);
    // Older releases keep the list itself as the value.
    let list = if value.kind() == ValueKind::Array { Some(value) } else { value.get("content") };
    let (mut sent, mut shown) = (Vec::new(), Vec::new());
    for content in list.into_iter().flat_map(Value::items) {
        let block = match &*content.word("type") {
            "text" => text_in(content, "text").map_or_else(|| opaque("text", content), Block::text),
            "image" => image(content),
            kind => opaque(kind, content),
        };
        let audience = content.given("annotations").and_then(|annotations| annotations.given("audience"));
        let to_model = |audience: Value<'_>| audience.items().any(|reader| reader.is_str("assistant"));
        if audience.is_none_or(to_model) { sent.push(block) } else { shown.push(block) }
    }
    if list.is_none() {
        sent.push(Block::text(as_text(value)));
    }
    let shown = (!shown.is_empty()).then(|| result(id, None, shown, is_error));
    (Some(result(id, None, sent, is_error)), shown)
}
