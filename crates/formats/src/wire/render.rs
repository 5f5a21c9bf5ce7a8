//! What several encoders share: pieces of messages, labels, and the ledger of findings.

use std::{borrow::Cow, collections::HashSet};

use super::registry::Dialect;
use crate::{
    context::{Context, ToolDeclaration, ToolKind},
    media::{self, AcceptedMedia, MediaFault, UsableMedia},
    messages::{Style, more_fields},
};
use rejoin_record::{
    Block, BlockKind, Media, MediaSource, Message, Text, ToolResult,
    json::{Doc, Object, Value, write},
};
use rejoin_view::{
    Action, Finding, Position, ResultRef, Rule,
    sound::{self, PartRef},
};

pub(crate) use rejoin_record::json::{list, quoted};

/// The user message that precedes a leading assistant message where that is refused, or is the only message.
pub const OPENING: &str = "[conversation resumed]";
/// The user message that follows a trailing assistant message where that is refused.
pub const CLOSING: &str = "Continue.";
/// The text of an empty user message or result, where the provider refuses it.
pub const EMPTY: &str = "(empty)";

pub struct Piece<'i> {
    pub json: Cow<'i, str>,
    /// Whether these are the source's own bytes, or would be if the source had written a block.
    pub exact: bool,
}

/// The content of a Chat Completions message under construction.
#[derive(Default)]
pub struct ChatContent(Vec<ChatPart>);

/// A part of a content.
enum ChatPart {
    /// A text as a string literal, and the source's own item of it.
    Text(String, Option<String>),
    /// Any other part, as JSON.
    Other(String),
}

impl ChatContent {
    pub fn text(&mut self, text: &str) {
        self.0.push(ChatPart::Text(quoted(text), None));
    }

    /// Adds a text of the source, with its own item if that may be sent. A long text is not decoded for it.
    pub fn source_text(&mut self, text: &Text, own: Option<&str>) {
        let mut literal = String::new();
        text.write_literal(&mut literal);
        self.0.push(ChatPart::Text(literal, own.map(str::to_owned)));
    }

    pub fn part(&mut self, json: String) {
        self.0.push(ChatPart::Other(json));
    }

    pub fn of(texts: &[String]) -> Self {
        let mut content = Self::default();
        texts.iter().for_each(|text| content.text(text));
        content
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The JSON: a string for a single text, else a list; `None` for no parts.
    pub fn into_json(mut self) -> Option<String> {
        match &mut self.0[..] {
            [] => None,
            [ChatPart::Text(literal, _)] => Some(std::mem::take(literal)),
            _ => Some(list(self.0.into_iter().map(|part| match part {
                ChatPart::Text(_, Some(item)) => item,
                ChatPart::Text(literal, None) => {
                    Object::with_room(literal.len() + 32).str("type", "text").raw("text", &literal).finish()
                }
                ChatPart::Other(json) => json,
            }))),
        }
    }
}

/// Lists the fields of a chat message that have no counterpart in other dialects.
pub fn chat_fields(message: Value<'_>, style: Style) -> Vec<String> {
    more_fields(message, style).filter_map(|key| Some(key.as_str()?.into_owned())).collect()
}

/// The findings of an encoder, and whether everything written so far is what the source had.
#[derive(Debug, Clone)]
pub struct Ledger {
    pub findings: Vec<Finding>,
    /// The images and documents that the dialect accepts.
    pub media: AcceptedMedia,
    intact: bool,
    first_change: Option<sound::FirstChange>,
    /// The last message whose fields were reported.
    fields_of: Option<usize>,
    /// Names of the tools declared so far.
    declared: HashSet<String>,
}

impl Ledger {
    pub fn new(intact: bool, media: AcceptedMedia) -> Self {
        Self {
            findings: Vec::new(),
            media,
            intact,
            first_change: None,
            fields_of: None,
            declared: HashSet::new(),
        }
    }

    /// Sets the first place that the repair pass is known to have changed so far.
    pub fn changed_from(&mut self, first: Option<sound::FirstChange>) {
        self.first_change = first;
    }

    /// Whether nothing before a part was changed, by the encoder or by the repair pass.
    pub fn is_intact(&self, item: usize, part: usize) -> bool {
        self.intact && self.first_change.is_none_or(|change| (item, part) < (change.item, change.part))
    }

    /// Reports a change of what the model sees.
    pub fn change(&mut self, rule: Rule, at: Position, action: Action) -> ReportedFinding<'_> {
        self.intact = false;
        self.note(rule, at, action)
    }

    /// Reports something that the model does not see.
    pub fn note(&mut self, rule: Rule, at: Position, action: Action) -> ReportedFinding<'_> {
        ReportedFinding(self.findings.push_mut(Finding::new(rule, at, action)))
    }

    pub fn foreign_reasoning(&mut self, at: Position) {
        self.change(Rule::ForeignReasoning, at, Action::LeftOut);
    }

    /// Reports that the order of roles made a change necessary.
    pub fn role_order(&mut self, at: Position, action: Action, why: &str) {
        self.change(Rule::RoleOrder, at, action).because(why);
    }

    /// Reports a message or block of which nothing is left.
    pub fn nothing_left(&mut self, at: Position) {
        self.change(Rule::EmptyMessage, at, Action::LeftOut);
    }

    /// Reports content that is rewritten because its form is not quite the API's.
    pub fn irregular(&mut self, at: Position) {
        self.note(Rule::IrregularContent, at, Action::Replaced);
    }

    /// Reports that the error flag of a result is left out, where a dialect has none.
    pub fn error_flag(&mut self, at: Position) {
        self.note(Rule::ForeignField, at, Action::LeftOut).about("is_error");
    }

    /// Reports a system prompt of another dialect that lost half of a surrogate pair.
    pub fn lossy_system(&mut self, context: &Context) {
        let raw = context.system_field().map_or("", |(_, raw)| raw.as_str());
        if Doc::parse(raw).is_ok_and(|doc| doc.root().is_some_and(Value::has_lone_surrogate)) {
            self.change(Rule::LoneSurrogate, Position::default(), Action::Replaced);
        }
    }

    /// Reports the fields of another dialect's message that have no counterpart here.
    pub fn left_out_fields(&mut self, message: &Message, index: usize) {
        let Some(native) = message.native.as_ref().filter(|native| native.more) else { return };
        // A message may be split over many items.
        if self.fields_of.replace(index) == Some(index) {
            return;
        }
        let doc = Doc::of(native.raw.as_str());
        let Some(root) = doc.root() else { return };
        // The files of agents use the fields of Chat Completions.
        let dialect = native.format.parse().unwrap_or(Dialect::OF_FILES);
        let names = (dialect.wire().other_fields)(root);
        if !names.is_empty() {
            self.note(Rule::UnknownField, Position::message(index), Action::LeftOut).about(names.join(", "));
        }
    }

    /// Reports what becomes of a tool declaration. False if the dialect has no such tool, or has one of that name already.
    pub fn declares(&mut self, tool: &ToolDeclaration, wire_name: &str, same: bool) -> bool {
        let at = Position::default();
        // A body in this very dialect may declare a tool twice, but not a tool that the conversation offers.
        let taken = if same {
            self.declared.contains(wire_name)
        } else {
            !self.declared.insert(wire_name.to_owned())
        };
        if taken {
            let left_out = self.note(Rule::ForeignField, at, Action::LeftOut);
            left_out.about(format!("tool {}", tool.name)).because("it is declared twice");
            return false;
        }
        if *wire_name != *tool.name {
            self.note(Rule::IllegalName, at, Action::Renamed).about(tool.name.to_string());
        }
        if !same && tool.kind == ToolKind::Provider {
            self.note(Rule::ForeignField, at, Action::LeftOut).about(format!("tool {}", tool.name));
            return false;
        }
        if !same && !tool.more.is_empty() {
            let fields = format!("{} of tool {}", tool.more.join(", "), tool.name);
            self.note(Rule::ForeignField, at, Action::LeftOut).about(fields);
        }
        true
    }

    /// Turns a block into text, where the dialect has no place for it.
    pub fn as_text(&mut self, kind: &BlockKind, at: Position) -> String {
        let (rule, text) = match kind {
            BlockKind::Image(_) | BlockKind::Document(_) => match self.media.judge(kind) {
                Err(fault) => return self.unavailable(kind, &fault, at),
                Ok(_) => (Rule::MovedMedia, media_label(kind)),
            },
            BlockKind::Opaque(opaque) => {
                (Rule::ForeignBlock, opaque_label(&opaque.kind, opaque.raw.as_str()))
            }
            // Inside a result; encoders handle other calls and results, text and reasoning themselves.
            BlockKind::ToolCall(call) => {
                let text = format!("[tool call] {} {}", call.name, call.arguments.text());
                (Rule::ForeignBlock, text.trim_end().to_owned())
            }
            BlockKind::ToolResult(result) => {
                let texts = result.content.iter().filter_map(Block::as_text).map(|text| text.as_str());
                (Rule::ForeignBlock, texts.fold(String::from("[tool result]"), |all, text| all + " " + text))
            }
            BlockKind::Text(_) | BlockKind::Reasoning(_) => (Rule::ForeignBlock, String::new()),
        };
        self.change(rule, at, Action::Replaced);
        text
    }

    /// Turns an image or document into a text that says why it cannot be sent.
    fn unavailable(&mut self, kind: &BlockKind, fault: &MediaFault, at: Position) -> String {
        self.change(Rule::UnusableMedia, at, Action::Replaced).because(fault.to_string());
        unavailable_label(kind, fault)
    }

    /// Reports a text that lost half of a surrogate pair.
    pub fn lossy(&mut self, text: &Text, at: Position) {
        if text.is_lossy() {
            self.change(Rule::LoneSurrogate, at, Action::Replaced);
        }
    }
}

/// A finding that was just reported, for adding details to it.
pub struct ReportedFinding<'l>(&'l mut Finding);

impl ReportedFinding<'_> {
    pub fn about(self, subject: impl Into<Text>) -> Self {
        self.0.subject = Some(subject.into());
        self
    }

    pub fn of_tool(self, tool: &Option<Text>) -> Self {
        self.0.tool = tool.clone().filter(|tool| !tool.is_blank());
        self
    }

    pub fn because(self, detail: impl Into<Text>) -> Self {
        self.0.detail = Some(detail.into());
        self
    }
}

/// A piece of a user or developer item.
pub enum ItemPiece<'i> {
    /// A block of the message, or a medium of a result without a call.
    Block(&'i Block),
    /// The text of a result without a call.
    Label(String),
}

/// Lists the pieces of a part of the item at `index`. A result without a call is a label, followed by its media.
pub fn pieces(part: PartRef<'_>, index: usize) -> impl Iterator<Item = (Position, ItemPiece<'_>)> {
    let (block, label, blocks) = match part {
        PartRef::Block(block, content) => (block, None, std::slice::from_ref(content)),
        PartRef::Orphan(block, result) => (block, Some(orphan_text(result)), &result.content[..]),
        PartRef::Exchange(exchange) => (exchange.block(), None, &[][..]),
    };
    let is_orphan = label.is_some();
    let media = blocks.iter().filter(move |block| !is_orphan || is_media(block)).map(ItemPiece::Block);
    let pieces = label.map(ItemPiece::Label).into_iter().chain(media);
    pieces.map(move |piece| (Position::block(index, block), piece))
}

/// Whether a block is an image or a document.
pub fn is_media(block: &Block) -> bool {
    matches!(block.kind, BlockKind::Image(_) | BlockKind::Document(_))
}

pub fn position(result: ResultRef<'_>) -> Position {
    Position::block(result.at().0, result.at().1)
}

/// A result without a call as one labelled text, without its media.
pub fn orphan_text(result: &ToolResult) -> String {
    let mut text = sound::orphan_label(result);
    for block in &result.content {
        match &block.kind {
            BlockKind::Text(content) if !content.is_empty() => {
                text.push('\n');
                text.push_str(content);
            }
            BlockKind::Opaque(opaque) => {
                text.push('\n');
                text.push_str(&opaque_label(&opaque.kind, opaque.raw.as_str()));
            }
            _ => {}
        }
    }
    text
}

/// A block without a counterpart as a text that holds all of it.
pub fn opaque_label(kind: &str, raw: &str) -> String {
    let kind = if kind.is_empty() { "block" } else { kind };
    format!("[{kind}] {}", without_long_base64(&clean(raw)))
}

/// The most characters of base64 in a label. Longer data tells a model nothing and could fill its whole context.
const LONG_BASE64: usize = 4096;

/// Replaces long strings of base64 in JSON by a remark.
fn without_long_base64(json: &str) -> Cow<'_, str> {
    if json.len() <= LONG_BASE64 {
        return Cow::Borrowed(json);
    }
    let mut out = String::new();
    let mut rest = json;
    while let Some(start) = rest.find('"') {
        let (before, literal) = rest.split_at(start);
        let inside = &literal[1..];
        let mut escaped = false;
        let end = inside.bytes().position(|byte| {
            let ends = byte == b'"' && !escaped;
            escaped = byte == b'\\' && !escaped;
            ends
        });
        let end = end.unwrap_or(inside.len());
        let (text, behind) = inside.split_at(end);
        let data = text.split_once(";base64,").map_or(text, |(_, data)| data);
        let is_base64 = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=-_\\".contains(&byte);
        out.push_str(before);
        if data.len() > LONG_BASE64 && data.bytes().all(is_base64) {
            out.push_str(&format!("\"({} characters of base64, not shown)\"", data.len()));
        } else {
            out.push_str(&format!("\"{text}\""));
        }
        rest = behind.strip_prefix('"').unwrap_or_default();
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// A label for an image or document that is not sent as one.
pub fn media_label(kind: &BlockKind) -> String {
    if let Err(fault) = AcceptedMedia::ANYTHING.judge(kind) {
        return unavailable_label(kind, &fault);
    }
    let Some((what, media)) = medium(kind) else { return String::new() };
    let mut label = format!("[{what}");
    for detail in [media.name.as_ref(), media.media_type.as_ref()].into_iter().flatten() {
        label.push_str(&format!(", {detail}"));
    }
    match &media.source {
        MediaSource::Url(url) if !media::is_data_url(url) => label.push_str(&format!(", {url}")),
        MediaSource::ProviderFile(id) => label.push_str(&format!(", file {id}")),
        MediaSource::Plain(text) => return format!("{label}]\n{text}"),
        MediaSource::Base64(_) | MediaSource::Url(_) | MediaSource::Unusable => label.push_str(", not shown"),
    }
    label.push(']');
    label
}

fn unavailable_label(kind: &BlockKind, fault: &MediaFault) -> String {
    medium(kind).map_or_else(String::new, |(what, media)| media::unavailable(what, media, fault))
}

fn medium(kind: &BlockKind) -> Option<(&'static str, &Media)> {
    match kind {
        BlockKind::Image(media) => Some(("image", media)),
        BlockKind::Document(media) => Some(("document", media)),
        _ => None,
    }
}

/// The text in a result for a medium that is sent with the next user message.
pub fn shown_next(kind: &BlockKind) -> &'static str {
    match kind {
        BlockKind::Image(_) => "[image, shown in the next user message]",
        _ => "[document, shown in the next user message]",
    }
}

/// Adds a document to an object as OpenAI's APIs take it; `None` if they cannot take it. File ids are valid only in the API
/// that issued them (`own`).
pub fn file_fields(object: Object, media: &Media, usable: &UsableMedia<'_>, own: bool) -> Option<Object> {
    match usable {
        UsableMedia::Bytes { media_type, data } => {
            let name = media.name.as_deref().unwrap_or("document.pdf");
            let data = format!("data:{media_type};base64,{data}");
            Some(object.text("filename", name).text("file_data", data))
        }
        UsableMedia::Address(url) => Some(object.text("file_url", url)),
        UsableMedia::File(id) if own => Some(object.text("file_id", id)),
        UsableMedia::File(_) | UsableMedia::Plain(_) => None,
    }
}

/// The address of an image, or a data URL with its bytes; `None` if only a file id is known.
pub fn image_url(image: &UsableMedia<'_>) -> Option<String> {
    match image {
        UsableMedia::Address(url) => Some((*url).to_owned()),
        UsableMedia::Bytes { media_type, data } => Some(format!("data:{media_type};base64,{data}")),
        UsableMedia::File(_) | UsableMedia::Plain(_) => None,
    }
}

/// `{"type":"text","text":…}`
pub fn text_block(text: &str) -> String {
    Object::with_room(text.len() + 32).str("type", "text").str("text", text).finish()
}

/// A message with a role and a content, which is JSON.
pub fn message(role: &str, content: &str) -> String {
    Object::with_room(content.len() + 40).str("role", role).raw("content", content).finish()
}

/// A copy of JSON without lone halves of surrogate pairs.
pub fn clean(raw: &str) -> String {
    let mut out = String::new();
    write::clean_copy(&mut out, raw);
    out
}

/// Adds a field of another object, without lone halves of surrogate pairs.
pub fn cleaned_field(object: Object, (key, value): (Value<'_>, Value<'_>)) -> Object {
    object.with(&key.as_str().unwrap_or_default(), |out| write::clean_copy(out, value.raw()))
}

/// Sets a field of a JSON object; the field is added if it is missing.
pub fn with_field(raw: &str, name: &str, json: &str) -> String {
    with(Doc::of(raw).root().into_iter().flat_map(Value::fields), name, json, |_| true)
}

/// Sets a field of an object that is parsed already: the field may be most of a file. An object that is cut off counts as empty. If the
/// field occurs twice, only the last one is set, because readers use that one. The others are kept as they are.
pub fn with_field_of(object: Value<'_>, name: &str, json: &str) -> String {
    let whole = Some(object).filter(|object| !object.is_cut());
    let last = object.get(name).map(|value| value.start());
    with(whole.into_iter().flat_map(Value::fields), name, json, |value| Some(value.start()) == last)
}

fn with<'d>(
    fields: impl Iterator<Item = (Value<'d>, Value<'d>)>,
    name: &str,
    json: &str,
    is_set: impl Fn(Value<'d>) -> bool,
) -> String {
    let mut out = String::from("{");
    let mut found = false;
    for (key, value) in fields {
        write::key(&mut out, &key.as_str().unwrap_or_default());
        if key.is_str(name) && is_set(value) {
            found = true;
            out.push_str(json);
        } else if value.is_clean() {
            out.push_str(value.raw());
        } else {
            write::clean_copy(&mut out, value.raw());
        }
    }
    if !found {
        write::key(&mut out, name);
        out.push_str(json);
    }
    out.push('}');
    out
}
