//! What the codecs have in common: pieces of a message, labels, and whether the prefix is still what it was.

use std::{borrow::Cow, collections::HashSet};

use super::registry::Dialect;
use crate::{
    context::{ToolDeclaration, ToolKind},
    media::{self, Accepts, Fault, Usable},
    messages::{Style, more_fields},
};
use rejoin_record::{
    BlockKind, Media, MediaSource, Message, Text, ToolResult,
    json::{Doc, Object, Value, write},
};
use rejoin_view::{Action, Finding, Position, Rule, sound};

/// Stands before a leading assistant message where that is refused, and where there would be no message at all.
pub const OPENING: &str = "[conversation resumed]";
/// Stands after a trailing assistant message where that is refused.
pub const CLOSING: &str = "Continue.";
/// Stands for a user message, or a result, with nothing in it.
pub const EMPTY: &str = "(empty)";

/// A content block on its way out.
pub struct Piece<'i> {
    /// Its JSON.
    pub json: Cow<'i, str>,
    /// Whether these are the source's own bytes, or would be if the source wrote a block.
    pub exact: bool,
}

/// A content of the Chat Completions kind as it is being put together.
#[derive(Default)]
pub struct Content {
    /// Parts, as JSON; a text part also as text.
    pub parts: Vec<(String, Option<String>)>,
}

impl Content {
    /// Adds a text.
    pub fn text(&mut self, text: &str) {
        self.parts.push((text_block(text), Some(text.to_owned())));
    }

    /// Adds a part that is not text.
    pub fn part(&mut self, json: String) {
        self.parts.push((json, None));
    }

    /// One of these texts.
    #[must_use]
    pub fn of(texts: &[String]) -> Self {
        let mut content = Self::default();
        texts.iter().for_each(|text| content.text(text));
        content
    }

    /// A string if it is one text, else a list; `None` if it is nothing.
    #[must_use]
    pub fn json(&self) -> Option<String> {
        match &self.parts[..] {
            [] => None,
            [(_, Some(text))] => Some(literal(text)),
            parts => {
                let mut out = String::new();
                array(&mut out, parts.iter().map(|(json, _)| json.as_str()));
                Some(out)
            }
        }
    }
}

/// The names of a chat message's fields that have no counterpart in other dialects.
#[must_use]
pub fn chat_fields(message: Value<'_>, style: Style) -> Vec<String> {
    more_fields(message, style).filter_map(|key| Some(key.as_str()?.into_owned())).collect()
}

/// Notes taken while encoding, and whether everything so far is what the source had.
#[derive(Debug, Clone)]
pub struct Ledger {
    /// What was found.
    pub findings: Vec<Finding>,
    /// The images and documents that the dialect takes.
    pub media: Accepts,
    intact: bool,
    first_change: Option<sound::FirstChange>,
    /// The message whose fields were looked at last.
    fields_of: Option<usize>,
    /// Names of tools that were translated.
    declared: HashSet<String>,
}

impl Ledger {
    /// A fresh ledger of a dialect that takes these images and documents.
    #[must_use]
    pub fn new(intact: bool, media: Accepts) -> Self {
        Self {
            findings: Vec::new(),
            media,
            intact,
            first_change: None,
            fields_of: None,
            declared: HashSet::new(),
        }
    }

    /// Where the repair pass first changed something, as far as that is known now.
    pub fn changed_from(&mut self, first: Option<sound::FirstChange>) {
        self.first_change = first;
    }

    /// Whether nothing before this piece was changed, here or by the repair pass.
    #[must_use]
    pub fn is_intact(&self, item: usize, part: usize) -> bool {
        self.intact && self.first_change.is_none_or(|change| (item, part) < (change.item, change.part))
    }

    /// Notes a change of what a model sees.
    pub fn change(&mut self, finding: Finding) {
        self.intact = false;
        self.findings.push(finding);
    }

    /// Notes something that a model does not see.
    pub fn note(&mut self, finding: Finding) {
        self.findings.push(finding);
    }

    /// Notes reasoning that does not go out.
    pub fn foreign_reasoning(&mut self, at: Position) {
        self.change(Finding::new(Rule::ForeignReasoning, at, Action::LeftOut));
    }

    /// Notes a message of which nothing goes out.
    pub fn nothing_left(&mut self, at: Position) {
        self.change(Finding::new(Rule::EmptyMessage, at, Action::LeftOut));
    }

    /// Notes something that goes out in other words because its own are not quite the API's.
    pub fn irregular(&mut self, at: Position) {
        self.note(Finding::new(Rule::IrregularContent, at, Action::Replaced));
    }

    /// Notes fields of a message of another dialect that have no counterpart.
    pub fn left_out_fields(&mut self, message: &Message, index: usize) {
        let Some(native) = message.native.as_ref().filter(|native| native.more) else { return };
        // A message may be shown in many pieces.
        if self.fields_of.replace(index) == Some(index) {
            return;
        }
        let doc = Doc::parse(native.raw.as_str());
        let Some(root) = doc.as_ref().ok().and_then(Doc::root) else { return };
        // What stands in files of agents is written as Chat Completions write it.
        let dialect = native.format.parse().unwrap_or(Dialect::OF_FILES);
        let names = (dialect.wire().other_fields)(root);
        if !names.is_empty() {
            let finding = Finding::new(Rule::UnknownField, Position::message(index), Action::LeftOut);
            self.note(finding.about(names.join(", ")));
        }
    }

    /// Notes what becomes of a tool declaration. False if another dialect has nothing like it, or has it already.
    pub fn declares(&mut self, tool: &ToolDeclaration, wire_name: &str, same: bool) -> bool {
        let about =
            |rule, action, subject: String| Finding::new(rule, Position::default(), action).about(subject);
        // What was written in this very dialect may repeat itself, but not what the conversation offers.
        let taken = if same {
            self.declared.contains(wire_name)
        } else {
            !self.declared.insert(wire_name.to_owned())
        };
        if taken {
            let finding = about(Rule::ForeignField, Action::LeftOut, format!("tool {}", tool.name));
            self.note(finding.because("it is declared twice"));
            return false;
        }
        if *wire_name != *tool.name {
            self.note(about(Rule::IllegalName, Action::Renamed, tool.name.to_string()));
        }
        if same {
            return true;
        }
        if tool.kind == ToolKind::Provider {
            self.note(about(Rule::ForeignField, Action::LeftOut, format!("tool {}", tool.name)));
            return false;
        }
        if !tool.more.is_empty() {
            let fields = format!("{} of tool {}", tool.more.join(", "), tool.name);
            self.note(about(Rule::ForeignField, Action::LeftOut, fields));
        }
        true
    }

    /// A block that cannot stand where it stands, as text.
    pub fn as_text(&mut self, kind: &BlockKind, at: Position) -> String {
        let (rule, text) = match kind {
            BlockKind::Image(_) | BlockKind::Document(_) => match self.media.judge(kind) {
                Err(fault) => return self.unavailable(kind, &fault, at),
                Ok(_) => (Rule::MovedMedia, media_label(kind)),
            },
            BlockKind::Opaque(opaque) => {
                (Rule::ForeignBlock, opaque_label(&opaque.kind, opaque.raw.as_str()))
            }
            // Calls, results, text and reasoning are handled where they stand.
            _ => (Rule::ForeignBlock, String::new()),
        };
        self.change(Finding::new(rule, at, Action::Replaced));
        text
    }

    /// An image or a document that the dialect cannot have, as text that says why.
    fn unavailable(&mut self, kind: &BlockKind, fault: &Fault, at: Position) -> String {
        let finding = Finding::new(Rule::UnusableMedia, at, Action::Replaced);
        self.change(finding.because(fault.to_string()));
        unavailable_label(kind, fault)
    }

    /// Notes a text that lost half of a surrogate pair.
    pub fn lossy(&mut self, text: &Text, at: Position) {
        if text.is_lossy() {
            self.change(Finding::new(Rule::LoneSurrogate, at, Action::Replaced));
        }
    }
}

/// A result without a call, as one labelled text; its media come apart.
#[must_use]
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

/// A block that has no counterpart, as text: nothing of it is lost.
#[must_use]
pub fn opaque_label(kind: &str, raw: &str) -> String {
    let kind = if kind.is_empty() { "block" } else { kind };
    let mut clean = String::new();
    write::clean_copy(&mut clean, raw);
    format!("[{kind}] {}", without_long_base64(&clean))
}

/// Base64 of more characters is left out of a label: it says nothing to a reader, and may be longer than a whole context.
const LONG_BASE64: usize = 4096;

/// JSON whose long strings of base64 are named instead of written.
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

/// An image or a document as text, where it cannot stand as what it is.
#[must_use]
pub fn media_label(kind: &BlockKind) -> String {
    if let Err(fault) = Accepts::ANYTHING.judge(kind) {
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

fn unavailable_label(kind: &BlockKind, fault: &Fault) -> String {
    medium(kind).map_or_else(String::new, |(what, media)| media::unavailable(what, media, fault))
}

fn medium(kind: &BlockKind) -> Option<(&'static str, &Media)> {
    match kind {
        BlockKind::Image(media) => Some(("image", media)),
        BlockKind::Document(media) => Some(("document", media)),
        _ => None,
    }
}

/// Stands in a result for a medium that goes into the next user message.
#[must_use]
pub fn shown_next(kind: &BlockKind) -> &'static str {
    match kind {
        BlockKind::Image(_) => "[image, shown in the next user message]",
        _ => "[document, shown in the next user message]",
    }
}

/// Adds a document to an object as OpenAI's APIs take it; `None` if they cannot have it. A file's id is good only for its `own` API.
#[must_use]
pub fn file_fields(object: Object, media: &Media, usable: &Usable<'_>, own: bool) -> Option<Object> {
    match usable {
        Usable::Bytes { media_type, data } => {
            let name = media.name.as_deref().unwrap_or("document.pdf");
            let data = format!("data:{media_type};base64,{data}");
            Some(object.text("filename", name).text("file_data", data))
        }
        Usable::Address(url) => Some(object.text("file_url", url)),
        Usable::File(id) if own => Some(object.text("file_id", id)),
        Usable::File(_) | Usable::Plain(_) => None,
    }
}

/// The address of an image that has one, or one that holds its bytes; `None` if a file's id is all there is.
#[must_use]
pub fn image_url(image: &Usable<'_>) -> Option<String> {
    match image {
        Usable::Address(url) => Some((*url).to_owned()),
        Usable::Bytes { media_type, data } => Some(format!("data:{media_type};base64,{data}")),
        Usable::File(_) | Usable::Plain(_) => None,
    }
}

/// `{"type":"text","text":…}`
#[must_use]
pub fn text_block(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 8 + 32);
    write_text_block(&mut out, text);
    out
}

/// Appends `{"type":"text","text":…}`.
pub fn write_text_block(out: &mut String, text: &str) {
    out.push_str("{\"type\":\"text\",\"text\":");
    write::string(out, text);
    out.push('}');
}

/// A string literal.
#[must_use]
pub fn literal(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    write::string(&mut out, text);
    out
}

/// Appends a JSON array of ready values.
pub fn array<'p>(out: &mut String, values: impl IntoIterator<Item = &'p str>) {
    out.push('[');
    for (index, value) in values.into_iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        out.push_str(value);
    }
    out.push(']');
}

/// A JSON array of ready values.
#[must_use]
pub fn list(values: &[String]) -> String {
    let mut out = String::with_capacity(values.iter().map(|value| value.len() + 1).sum::<usize>() + 2);
    array(&mut out, values.iter().map(String::as_str));
    out
}

/// An object with one of its fields given a value; the field is added if there is none.
pub fn with_field(raw: &str, name: &str, json: &str) -> String {
    let doc = Doc::parse(raw);
    let mut out = String::from("{");
    let mut found = false;
    for (key, value) in doc.as_ref().ok().and_then(Doc::root).into_iter().flat_map(Value::fields) {
        write::key(&mut out, &key.as_str().unwrap_or_default());
        if key.is_str(name) {
            found = true;
            out.push_str(json);
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
