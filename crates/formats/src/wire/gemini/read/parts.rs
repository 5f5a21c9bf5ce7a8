//! Reading one part. A part gets a span only if the API accepts it unchanged, so a span means: these bytes may be sent again.

use rejoin_record::{Arguments, CallId, Media, MediaSource, Role, Span, ToolResult, limits};

use super::{
    FORMAT,
    fields::{CamelFields, Signature, is_bytes},
};
use crate::{
    messages::{blocks::BlockReader, document_source, roles::is_among},
    wire::{gemini, prelude::*},
};

/// The fields that hold a part's data, of which a part has one.
pub(super) const HELD: &str =
    "text inlineData fileData functionCall functionResponse executableCode codeExecutionResult";
const ABOUT: &str = "thought thoughtSignature videoMetadata mediaResolution partMetadata";
/// How many fields a part can have.
const MOST_FIELDS: usize = 12;
const INLINE: &[&str] = &["mimeType", "data", "displayName"];
const FILE: &[&str] = &["mimeType", "fileUri", "displayName"];
const CALL: &[&str] = &["id", "name", "args", "partialArgs", "willContinue"];
const RESPONSE: &[&str] = &["id", "name", "response", "parts", "willContinue", "scheduling"];

pub(super) struct PartReader<'b>(pub BlockReader<'b>);

impl PartReader<'_> {
    fn text(&self, value: Value<'_>) -> Option<Text> {
        self.0.text(value)
    }

    /// Reads a part: one block, unless it holds several things.
    pub(super) fn part(&self, item: Value<'_>, role: &Role, blocks: &mut Vec<Block>) {
        if let Some(text) = self.text(item) {
            blocks.push(Block::text(text));
            return;
        }
        let fields = CamelFields::of(item);
        let held: Vec<(&str, Value<'_>)> = fields.all().filter(|(name, _)| is_among(name, HELD)).collect();
        let signature = Signature::of(&fields);
        let whole = held.len() == 1
            && unknown_fields(&fields).next().is_none()
            && fields.are_distinct(MOST_FIELDS)
            && about_fits(&fields)
            // The search for signatures does not find a name with escapes.
            && (signature == Signature::Absent || item.raw().contains("ignature\""))
            && signature != Signature::Corrupt
            && item.is_clean();
        let span = self.0.span(item);
        let thought = fields.given("thought").and_then(Value::as_bool) == Some(true);
        for (name, value) in &held {
            let (block, fits) = match *name {
                "text" if thought => self.thought(*value, signature),
                "text" => self.text_block(*value),
                "inlineData" => self.inline_data(*value),
                "fileData" => self.file_data(*value),
                "functionCall" => self.call(*value),
                "functionResponse" => self.response(*value),
                name => (None, fits_opaque(name, *value, role)),
            };
            // Only text can be a thought.
            let fits = fits && whole && (!thought || *name == "text");
            blocks.push(match block {
                Some(block) if fits => block.at(span),
                Some(block) => block,
                // If a part holds several things, each is kept separately.
                None if held.len() == 1 => self.opaque(name, item, fits.then_some(span)),
                None => self.opaque(name, *value, None),
            });
        }
        if held.is_empty() && signature != Signature::Absent {
            // A signature alone cannot be sent.
            blocks.push(self.reasoning(Text::new(""), true));
        } else if held.is_empty() {
            let kind = unknown_fields(&fields).next().unwrap_or_default();
            blocks.push(self.opaque(kind, item, None));
        }
    }

    fn opaque(&self, kind: &str, item: Value<'_>, span: Option<Span>) -> Block {
        Block { span, ..Block::opaque(kind, self.0.raw(item), span.is_some()) }
    }

    fn text_block(&self, value: Value<'_>) -> (Option<Block>, bool) {
        match self.text(value) {
            Some(text) => (Some(Block::text(text)), true),
            None => (Some(Block::text(value.to_raw_text(self.0.base))), false),
        }
    }

    fn thought(&self, value: Value<'_>, signature: Signature) -> (Option<Block>, bool) {
        let text = self.text(value);
        let written = text.is_some();
        let text = text.unwrap_or_else(|| value.to_raw_text(self.0.base));
        (Some(self.reasoning(text, signature == Signature::Bound)), written)
    }

    fn reasoning(&self, text: Text, sealed: bool) -> Block {
        Block::reasoning(text, sealed, Origin::of(FORMAT, self.0.model.cloned()))
    }

    fn inline_data(&self, value: Value<'_>) -> (Option<Block>, bool) {
        let fields = CamelFields::of(value);
        let field = |name| fields.given(name).and_then(|value| self.text(value));
        let (media_type, data) = (field("mimeType"), field("data"));
        let image = media_type.as_ref().is_some_and(is_image);
        let written = data.as_ref().is_some_and(|data| is_bytes(data))
            && media_type.as_ref().is_some_and(|kind| !kind.is_blank())
            && fields.are_among(INLINE);
        let source = match data {
            None => MediaSource::Unusable,
            Some(data) if image => MediaSource::Base64(data),
            Some(data) => document_source(media_type.as_deref().unwrap_or_default(), &data),
        };
        let block = media_block(image, Media { media_type, source, name: field("displayName") });
        let whole = written && gemini::WIRE.media.takes_named(&block.kind);
        (Some(block), whole)
    }

    fn file_data(&self, value: Value<'_>) -> (Option<Block>, bool) {
        let fields = CamelFields::of(value);
        let field = |name| fields.given(name).and_then(|value| self.text(value));
        let media_type = field("mimeType");
        let uri = field("fileUri");
        let typed = fields.given("mimeType").is_none() || media_type.is_some();
        let written =
            uri.as_deref().is_some_and(|uri| !media::is_data_url(uri)) && typed && fields.are_among(FILE);
        let image = media_type.as_ref().is_some_and(is_image);
        let source = uri.map_or(MediaSource::Unusable, MediaSource::Url);
        let block = media_block(image, Media { media_type, source, name: field("displayName") });
        let whole = written && gemini::WIRE.media.keeps(&block);
        (Some(block), whole)
    }

    /// The fields of a call or of its result, with the call's id and the tool's name.
    fn named<'v>(&self, value: Value<'v>) -> (CamelFields<'v>, Option<CallId>, Option<Text>) {
        let fields = CamelFields::of(value);
        let id = self.0.call_id(fields.given("id"));
        let name = fields.given("name").and_then(|name| self.text(name));
        (fields, id, name)
    }

    fn call(&self, value: Value<'_>) -> (Option<Block>, bool) {
        if value.kind() != ValueKind::Object {
            return (None, false);
        }
        let (fields, id, name) = self.named(value);
        let args = fields.given("args");
        let arguments = match args {
            // Missing arguments mean no arguments.
            None => Arguments::new("{}"),
            args => self.0.arguments(args),
        };
        let written = args.is_none_or(|args| args.kind() == ValueKind::Object);
        let whole = written
            && name.as_ref().is_some_and(|name| !name.is_empty())
            && id_fits(&fields)
            && fields.are_among(CALL);
        (Some(Block::call(ToolCall::read(id, name, arguments))), whole)
    }

    fn response(&self, value: Value<'_>) -> (Option<Block>, bool) {
        if value.kind() != ValueKind::Object {
            return (None, false);
        }
        let (fields, call_id, name) = self.named(value);
        let (mut content, is_error) = match fields.given("response") {
            Some(response) => self.response_content(response),
            None => (Vec::new(), false),
        };
        let mut media_fit = true;
        let parts = fields.given("parts");
        for part in parts.into_iter().flat_map(Value::items) {
            // Media in a result are sent with it or written from scratch, so they need no span.
            let (block, fits) = self.response_media(part);
            media_fit &= fits;
            content.push(block);
        }
        let listed = parts.is_none_or(|parts| parts.kind() == ValueKind::Array);
        let object = fields.given("response").is_some_and(|response| {
            response.kind() == ValueKind::Object && !response.is_deeper_than(limits::NESTING)
        });
        let whole = object
            && listed
            && media_fit
            && name.as_ref().is_some_and(|name| !name.is_empty())
            && id_fits(&fields)
            && fields.are_among(RESPONSE);
        let form = if content.len() == 1 { Form::Text } else { Form::Parts };
        (Some(Block::result(ToolResult { call_id, name, content, form, is_error })), whole)
    }

    /// The content of a result, and whether it reports an error.
    fn response_content(&self, response: Value<'_>) -> (Vec<Block>, bool) {
        let mut fields = response.fields();
        let only = match (fields.next(), fields.next()) {
            (Some((key, value)), None) => {
                let error = key.is_str("error");
                let known = error || key.is_str("output") || key.is_str("result");
                self.text(value).filter(|_| known).map(|text| (text, error))
            }
            _ => None,
        };
        match only.or_else(|| Some((self.text(response)?, false))) {
            Some((text, error)) => (vec![Block::text(text)], error),
            None => (vec![Block::text(response.to_raw_text(self.0.base))], false),
        }
    }

    fn response_media(&self, part: Value<'_>) -> (Block, bool) {
        let fields = CamelFields::of(part);
        let (block, fits) = match (fields.given("inlineData"), fields.given("fileData")) {
            (Some(data), None) => self.inline_data(data),
            (None, Some(file)) => self.file_data(file),
            _ => (None, false),
        };
        // In a result, the API accepts no files that it would have to fetch.
        let whole = fits && fields.are_among(&["inlineData"]);
        (block.unwrap_or_else(|| self.opaque("", part, None)), whole)
    }
}

/// Lists the fields of a part that the API does not know.
pub(super) fn unknown_fields<'f>(part: &'f CamelFields<'_>) -> impl Iterator<Item = &'f str> {
    part.names().filter(|name| !is_among(name, HELD) && !is_among(name, ABOUT))
}

/// Whether the other fields of a part have the types that the API demands.
fn about_fits(fields: &CamelFields<'_>) -> bool {
    let is = |name, kind| fields.given(name).is_none_or(|value: Value<'_>| value.kind() == kind);
    is("thought", ValueKind::Bool)
        && is("thoughtSignature", ValueKind::String)
        && is("videoMetadata", ValueKind::Object)
        && is("partMetadata", ValueKind::Object)
        && ["mediaResolution", "partMetadata"]
            .iter()
            .all(|name| fields.given(name).is_none_or(|value| !value.is_deeper_than(limits::NESTING)))
}

fn id_fits(fields: &CamelFields<'_>) -> bool {
    match fields.given("id") {
        Some(value) => value.kind() == ValueKind::String,
        None => true,
    }
}

/// Whether the API accepts a part that only it understands.
fn fits_opaque(name: &str, value: Value<'_>, role: &Role) -> bool {
    let (needed, text) = match name {
        "executableCode" => ("language", "code"),
        _ => ("outcome", "output"),
    };
    let fields = CamelFields::of(value);
    let filled = fields.given(needed).and_then(Value::as_str).is_some_and(|word| !word.is_empty());
    filled
        && fields.given(text).is_none_or(|text| text.kind() == ValueKind::String)
        && matches!(role, Role::User | Role::Assistant)
        && value.kind() == ValueKind::Object
        && !value.is_deeper_than(limits::NESTING)
}

fn is_image(media_type: &Text) -> bool {
    media_type.starts_with("image/")
}

fn media_block(image: bool, media: Media) -> Block {
    let media = Box::new(media);
    Block::new(if image { BlockKind::Image(media) } else { BlockKind::Document(media) })
}
