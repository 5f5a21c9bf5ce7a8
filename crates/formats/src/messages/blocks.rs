//! Reading content blocks. A block gets a span only if its own item is well formed in the list's dialect, so a span
//! means: these bytes may be sent again.

use std::{borrow::Cow, sync::Arc};

use rejoin_record::{
    Arguments, Block, BlockKind, CallId, Form, Media, MediaSource, Origin, Raw, Role, Span, Text, ToolCall,
    ToolResult,
    json::{Object, Value, ValueKind},
    limits,
};

use super::{DEEPEST, Style};
use crate::{
    media,
    wire::{anthropic, base64, openai_chat},
};

pub(crate) struct BlockReader<'b> {
    pub style: Style,
    pub buffer: &'b Arc<str>,
    /// The offset in the buffer that spans count from; it wraps around if the native item begins before the buffer.
    pub base: usize,
    pub model: Option<&'b Text>,
}

pub(crate) struct ReadContent {
    pub blocks: Vec<Block>,
    pub form: Form,
    /// Whether it has the form that the dialect demands.
    pub regular: bool,
}

/// The place of a block: some are legal only under one role, or inside a result.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum BlockPlace<'r> {
    Role(&'r Role),
    Result,
}

impl BlockReader<'_> {
    pub(crate) fn text(&self, value: Value<'_>) -> Option<Text> {
        value.to_text(self.base)
    }

    pub(crate) fn span(&self, value: Value<'_>) -> Span {
        Span::verbatim(value.start().wrapping_sub(self.base), value.raw().len())
    }

    pub(crate) fn raw(&self, value: Value<'_>) -> Raw {
        Raw::slice(self.buffer, value.start(), value.end()).unwrap_or_else(|| Raw::new(value.raw()))
    }

    pub(crate) fn content(&self, content: Option<Value<'_>>, under: BlockPlace<'_>) -> ReadContent {
        let Some(given) = content.filter(|content| !content.is_null()) else {
            let form = if content.is_some() { Form::Null } else { Form::Absent };
            return ReadContent { blocks: Vec::new(), form, regular: true };
        };
        match given.kind() {
            ValueKind::Array => {
                let blocks: Vec<Block> = given.items().map(|item| self.block(item, under)).collect();
                let regular = blocks.iter().all(|block| block.span.is_some());
                ReadContent { blocks, form: Form::Parts, regular }
            }
            // One part without its list.
            ValueKind::Object => {
                let block = Block { span: None, ..self.block(given, under) };
                ReadContent { blocks: vec![block], form: Form::Parts, regular: false }
            }
            kind => {
                let text = self.text(given).unwrap_or_else(|| given.to_raw_text(self.base));
                let regular = kind == ValueKind::String;
                ReadContent { blocks: vec![Block::text(text)], form: Form::Text, regular }
            }
        }
    }

    /// A content block in place of a message, and its probable author.
    pub(super) fn loose_block(&self, item: Value<'_>) -> Option<(Role, Block)> {
        if ["role", "content", "tool_calls", "tool_call_id"].iter().any(|name| item.given(name).is_some()) {
            let result = item.says("type", "tool_result");
            if !result || item.given("role").is_some() {
                return None;
            }
        }
        let role = match &*item.get("type")?.as_str()? {
            "tool_use" | "thinking" | "redacted_thinking" => Role::Assistant,
            "text" | "image" | "image_url" | "document" | "tool_result" | "input_text" | "output_text" => {
                Role::User
            }
            _ => return None,
        };
        let block = irregular(self.block(item, BlockPlace::Role(&role)));
        Some((role, block))
    }

    pub(crate) fn block(&self, item: Value<'_>, under: BlockPlace<'_>) -> Block {
        if let Some(text) = self.text(item) {
            return Block::text(text);
        }
        let kind = item.word("type");
        let (user, model) =
            (under == BlockPlace::Role(&Role::User), under == BlockPlace::Role(&Role::Assistant));
        let inside = under == BlockPlace::Result;
        let (calls, blocks) = (Some(Style::ToolCalls), Some(Style::Blocks));
        let (block, style, legal) = match &*kind {
            "text" => (self.text_block(item, "text"), None, true),
            "" | "input_text" | "output_text" if item.get("text").is_some() => {
                (self.text_block(item, "text").map(irregular), None, false)
            }
            "refusal" => (self.text_block(item, "refusal"), calls, model),
            "image_url" | "input_image" => (self.image_url(item), calls, kind == "image_url" && user),
            "file" => (self.file(item), calls, user),
            // Mistral's form of a document.
            "document_url" => (self.document_url(item), None, false),
            "image" => (self.source_media(item, BlockKind::Image), blocks, user || inside),
            "document" => (self.source_media(item, BlockKind::Document), blocks, user || inside),
            "thinking" | "redacted_thinking" => (self.thinking(item), blocks, model),
            "tool_use" if !inside => (Some(self.tool_use(item)), blocks, model),
            "tool_result" if !inside => (Some(self.tool_result(item)), blocks, user),
            _ => (None, None, false),
        };
        let Some(block) = block else { return self.opaque(item, &kind, under) };
        let own = style.is_none_or(|style| style == self.style);
        let known = self.style == Style::ToolCalls || only_known_fields(item, &kind);
        let fits =
            own && legal && known && block.span.is_some() && item.is_clean() && !item.is_deeper_than(DEEPEST);
        if fits { block } else { irregular(block) }
    }

    fn opaque(&self, item: Value<'_>, kind: &str, under: BlockPlace<'_>) -> Block {
        let fits = item.is_clean()
            && !item.is_deeper_than(limits::NESTING)
            && match self.style {
                Style::Blocks => anthropic_opaque_fits(kind, under) && opaque_is_whole(item, kind, self),
                Style::ToolCalls => under == BlockPlace::Role(&Role::User) && is_audio(item, kind),
            };
        Block::opaque(kind, self.raw(item), fits).at_if(fits, self.span(item))
    }

    fn text_block(&self, item: Value<'_>, field: &str) -> Option<Block> {
        let text = self.text(item.get(field)?)?;
        Some(Block::text(text).at(self.span(item)))
    }

    fn thinking(&self, item: Value<'_>) -> Option<Block> {
        let redacted = item.get("data").and_then(|data| self.text(data));
        let text = match (item.get("thinking"), &redacted) {
            (Some(thinking), _) => self.text(thinking)?,
            (None, Some(_)) => Text::new(""),
            (None, None) => return None,
        };
        let signed = item.get("signature").and_then(|s| self.text(s)).is_some_and(|s| !s.is_blank());
        let complete = signed || redacted.is_some();
        let origin =
            Origin { incomplete: !complete, ..Origin::of(Style::Blocks.format(), self.model.cloned()) };
        Some(Block::reasoning(text, true, origin).at_if(complete, self.span(item)))
    }

    /// An id: any text, or a number that some program took for one.
    pub(crate) fn call_id(&self, value: Option<Value<'_>>) -> Option<CallId> {
        let value = value?;
        match value.kind() {
            ValueKind::String => self.text(value).filter(|id| !id.is_empty()).map(CallId::new),
            ValueKind::Number => Some(CallId::new(value.to_raw_text(self.base))),
            _ => None,
        }
    }

    fn tool_use(&self, item: Value<'_>) -> Block {
        let id = self.call_id(item.get("id"));
        let name = item.get("name").and_then(|name| self.text(name));
        let typed = item.holds("id", ValueKind::String) && item.holds("input", ValueKind::Object);
        let whole = id.is_some() && name.is_some() && typed;
        let call = ToolCall::read(id, name, self.arguments(item.get("input")));
        Block::call(call).at_if(whole, self.span(item))
    }

    /// Arguments in either form: a JSON value, or a string that holds one.
    pub(crate) fn arguments(&self, value: Option<Value<'_>>) -> Arguments {
        match value {
            None => Arguments::absent(),
            Some(value) if value.is_null() => Arguments::absent(),
            Some(value) => match self.text(value) {
                Some(text) => Arguments::new(text),
                None => Arguments::new(value.to_raw_text(self.base)),
            },
        }
    }

    fn tool_result(&self, item: Value<'_>) -> Block {
        let given = item.get("tool_use_id").or_else(|| item.get("tool_call_id"));
        let call_id = self.call_id(given);
        let content = self.content(item.get("content"), BlockPlace::Result);
        let is_error = item.get("is_error");
        let whole = content.regular
            && content.form != Form::Null
            && call_id.is_some()
            && item.holds("tool_use_id", ValueKind::String)
            && is_error.is_none_or(|flag| flag.kind() == ValueKind::Bool);
        let result = ToolResult {
            call_id,
            name: None,
            content: content.blocks,
            form: content.form,
            is_error: is_error.and_then(Value::as_bool).unwrap_or(false),
        };
        Block::result(result).at_if(whole, self.span(item))
    }

    fn image_url(&self, item: Value<'_>) -> Option<Block> {
        let holder = item.get("image_url")?;
        let url = holder.get("url").unwrap_or(holder);
        let text = self.text(url)?;
        let (media_type, source) = media::image_at(text.clone());
        let kind = BlockKind::Image(Box::new(Media { media_type, source, name: None }));
        let regular =
            holder.kind() == ValueKind::Object && openai_chat::WIRE.media.takes_address(&kind, &text);
        Some(Block::new(kind).at_if(regular, self.span(item)))
    }

    fn file(&self, item: Value<'_>) -> Option<Block> {
        let file = item.get("file").filter(|file| file.kind() == ValueKind::Object)?;
        let (kind, usable) = self.document(file, &["file_data", "file_id"], &openai_chat::WIRE.media);
        Some(Block::new(kind).at_if(usable, self.span(item)))
    }

    /// A document in OpenAI's form: one of these fields gives its data, its address, or the id of a file. Also returns whether
    /// the API accepts it unchanged.
    pub(crate) fn document(
        &self,
        file: Value<'_>,
        sources: &[&str],
        accepts: &media::AcceptedMedia,
    ) -> (BlockKind, bool) {
        let field = |name| file.given(name).and_then(|value| self.text(value));
        let filled = |name| field(name).filter(|text: &Text| !text.is_empty());
        let given = sources.iter().filter(|name| filled(name).is_some()).count();
        // An empty field is ignored if another is set.
        let source = |name| {
            let known = sources.contains(&name);
            if given == 0 { field(name).filter(|_| known) } else { filled(name).filter(|_| known) }
        };
        let (name, data, url) = (field("filename"), source("file_data"), source("file_url"));
        // Data has to be a data URL, and an address must not be one.
        let held = data.as_deref().is_none_or(media::is_data_url)
            && !url.as_deref().is_some_and(|url| data.is_none() && media::is_data_url(url));
        let address = data.clone().or_else(|| url.clone()).unwrap_or_else(|| Text::new(""));
        let (media_type, source) = match (data, url, source("file_id")) {
            (Some(data), ..) => document_data(data, name.as_deref()),
            (None, Some(url), _) => document_at(url),
            (None, None, Some(id)) => (None, MediaSource::ProviderFile(id)),
            (None, None, None) => (None, MediaSource::Unusable),
        };
        let kind = BlockKind::Document(Box::new(Media { media_type, source, name }));
        let usable = held && given == 1 && accepts.takes_address(&kind, &address);
        (kind, usable)
    }

    fn document_url(&self, item: Value<'_>) -> Option<Block> {
        let url = self.text(item.get("document_url")?)?;
        let name = item.given("document_name").and_then(|name| self.text(name));
        let (media_type, source) = document_at(url);
        Some(Block::new(BlockKind::Document(Box::new(Media { media_type, source, name }))))
    }

    /// A picture in Ollama's form: only its bytes.
    pub(crate) fn bare_image(&self, item: Value<'_>) -> Option<Block> {
        let data = self.text(item)?;
        let source = MediaSource::Base64(data);
        Some(Block::new(BlockKind::Image(Box::new(Media { media_type: None, source, name: None }))))
    }

    fn source_media(&self, item: Value<'_>, make: fn(Box<Media>) -> BlockKind) -> Option<Block> {
        let source = item.get("source").filter(|source| source.kind() == ValueKind::Object);
        let field =
            |name| source.and_then(|source: Value<'_>| source.given(name)).and_then(|value| self.text(value));
        let kind = field("type").unwrap_or_else(|| Text::new(""));
        let image = item.says("type", "image");
        let source = match &*kind {
            "base64" if image => field("data").map(MediaSource::Base64),
            "base64" => field("data")
                .map(|data| document_source(field("media_type").as_deref().unwrap_or_default(), &data)),
            "url" => field("url").map(MediaSource::Url),
            "file" => field("file_id").map(MediaSource::ProviderFile),
            "text" if !image => field("data").map(MediaSource::Plain),
            // A document made of blocks has no counterpart elsewhere.
            "content" => return None,
            _ => None,
        };
        let media_type = field("media_type");
        let typed = match &*kind {
            "base64" => matches!(source, Some(MediaSource::Base64(_))),
            "text" => media_type.as_deref() == Some("text/plain"),
            // In this dialect, an address must not be a data URL.
            "url" => field("url").is_some_and(|url| !media::is_data_url(&url)),
            _ => true,
        };
        let title = item.given("title").and_then(|title| self.text(title));
        let media = Media { media_type, source: source.unwrap_or(MediaSource::Unusable), name: title };
        let kind = make(Box::new(media));
        let usable = typed && anthropic::WIRE.media.takes_fields(&kind);
        Some(Block::new(kind).at_if(usable, self.span(item)))
    }

    /// A call in the form of OpenAI Chat, an element of `tool_calls`.
    pub(crate) fn tool_call(&self, item: Value<'_>) -> Block {
        let id = self.call_id(item.get("id"));
        let id_text = item.holds("id", ValueKind::String);
        let custom = item.given("custom").filter(|_| item.says("type", "custom"));
        let function = custom.or_else(|| item.given("function")).unwrap_or(item);
        let name = function.get("name").and_then(|name| self.text(name));
        let (arguments, written) = match custom {
            Some(custom) => free_text(custom.get("input")),
            None => {
                let given = function.get("arguments");
                (self.arguments(given), given.is_some_and(|given| given.kind() == ValueKind::String))
            }
        };
        let typed = custom.is_some() || item.says("type", "function");
        let nested = custom.is_some() || item.given("function").is_some();
        let whole =
            id.is_some() && id_text && name.is_some() && written && typed && nested && item.is_clean();
        let call = ToolCall::read(id, name, arguments);
        Block::call(call).at_if(whole && self.style == Style::ToolCalls, self.span(item))
    }
}

/// The arguments of a tool that takes free text, as an object; and whether there are any.
pub(crate) fn free_text(input: Option<Value<'_>>) -> (Arguments, bool) {
    let input = input.and_then(Value::as_str);
    let wrapped = Object::new().str("input", input.as_deref().unwrap_or_default()).finish();
    (Arguments::new(wrapped), input.is_some())
}

/// Whether a block has only the fields of its kind, and the other fields have the right types: Anthropic refuses any other.
fn only_known_fields(item: Value<'_>, kind: &str) -> bool {
    let known: &[&str] = match kind {
        "text" => &["type", "text", "citations", "cache_control"],
        "image" => &["type", "source", "cache_control"],
        "document" => &["type", "source", "title", "context", "citations", "cache_control"],
        "tool_use" => &["type", "id", "name", "input", "caller", "cache_control"],
        "tool_result" => &["type", "tool_use_id", "content", "is_error", "cache_control"],
        "thinking" => &["type", "thinking", "signature"],
        "redacted_thinking" => &["type", "data"],
        _ => return true,
    };
    let mark = item.given("cache_control");
    let mark_fits = mark.is_none_or(|mark| mark.says("type", "ephemeral"));
    let is = |name, kind| item.given(name).is_none_or(|value| value.kind() == kind);
    let typed = match kind {
        "text" => is("citations", ValueKind::Array),
        "document" => {
            is("title", ValueKind::String)
                && is("context", ValueKind::String)
                && is("citations", ValueKind::Object)
        }
        _ => true,
    };
    typed && mark_fits && item.fields().all(|(key, _)| known.iter().any(|name| key.is_str(name)))
}

pub(crate) fn irregular(mut block: Block) -> Block {
    if let BlockKind::ToolResult(result) = &mut block.kind {
        result.content.iter_mut().for_each(|inner| inner.span = None);
    }
    Block { span: None, ..block }
}

/// Blocks that Anthropic's own API knows and that have no counterpart in the model.
fn anthropic_opaque_fits(kind: &str, under: BlockPlace<'_>) -> bool {
    match under {
        BlockPlace::Result => matches!(kind, "search_result" | "tool_reference" | "document"),
        BlockPlace::Role(Role::User) => matches!(kind, "search_result" | "container_upload" | "document"),
        BlockPlace::Role(Role::Assistant) => {
            matches!(kind, "server_tool_use" | "mcp_tool_use" | "compaction")
                || (kind.ends_with("_tool_result") && kind != "tool_result")
        }
        BlockPlace::Role(_) => false,
    }
}

/// Whether a part is audio that OpenAI accepts.
fn is_audio(item: Value<'_>, kind: &str) -> bool {
    let audio = item.get("input_audio");
    let text = |name| audio.and_then(|audio| audio.get(name)?.as_str()).unwrap_or_default();
    let strict = matches!(base64::strict(&text("data")), Some(Cow::Borrowed(_)));
    kind == "input_audio" && strict && matches!(&*text("format"), "wav" | "mp3")
}

/// Whether a block that only Anthropic knows has the fields that the API demands.
fn opaque_is_whole(item: Value<'_>, kind: &str, reader: &BlockReader<'_>) -> bool {
    let string = |name| item.holds(name, ValueKind::String);
    let is_name = |field, most: usize| is_word(&item.word(field)) && item.word(field).len() <= most;
    let texts = |list: Option<Value<'_>>| {
        list.is_some_and(|list| list.items().next().is_some() && list.items().all(is_filled))
    };
    match kind {
        "search_result" => string("source") && string("title") && texts(item.get("content")),
        "document" => {
            let content = item.get("source").and_then(|source| source.get("content"));
            let text = content.and_then(Value::as_str);
            let image = |block: Value<'_>| {
                let block = reader.block(block, BlockPlace::Result);
                matches!(block.kind, BlockKind::Image(_)) && block.span.is_some()
            };
            let blocks = || content.into_iter().flat_map(Value::items);
            let pieces = blocks().next().is_some() && blocks().all(|block| is_filled(block) || image(block));
            let filled = pieces || text.is_some_and(|text| !rejoin_record::text::is_blank(&text));
            filled && only_known_fields(item, kind)
        }
        "tool_reference" => is_name("tool_name", 64),
        "server_tool_use" => {
            let tail = item.word("id").strip_prefix("srvtoolu_").unwrap_or_default().to_owned();
            is_word(&tail)
                && !tail.contains('-')
                && is_name("name", 128)
                && item.holds("input", ValueKind::Object)
        }
        "mcp_tool_use" => {
            let named = is_name("name", usize::MAX) && string("server_name");
            is_name("id", usize::MAX)
                && item.word("id").starts_with("mcptoolu_")
                && named
                && item.holds("input", ValueKind::Object)
        }
        "container_upload" => string("file_id"),
        _ => true,
    }
}

/// Whether a block is a text that is not blank.
fn is_filled(block: Value<'_>) -> bool {
    let text = block.get("text").and_then(Value::as_str);
    block.says("type", "text") && text.is_some_and(|text| !rejoin_record::text::is_blank(&text))
}

/// A document that an address leads to or holds.
pub(crate) fn document_at(url: Text) -> (Option<Text>, MediaSource) {
    media::at_address(url, document_source)
}

/// A document's data in a field for data URLs. If it is not a data URL, the document's name may show that it is text.
pub(crate) fn document_data(data: Text, name: Option<&str>) -> (Option<Text>, MediaSource) {
    if media::is_data_url(&data) {
        return document_at(data);
    }
    match media::type_by_name(name).filter(|told| told.starts_with("text/")) {
        Some(told) => (Some(Text::new(told)), document_source(told, &data)),
        None => (None, MediaSource::Base64(data)),
    }
}

/// A document's bytes: text is read, anything else stays base64.
pub(crate) fn document_source(media_type: &str, data: &str) -> MediaSource {
    let plain = media_type.starts_with("text/") || media_type == "application/json";
    let strict = if plain { base64::strict(data) } else { None };
    let bytes = strict.and_then(|data| base64::decode(data.as_bytes()));
    let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
    text.filter(|text| !text.is_empty())
        .map_or_else(|| MediaSource::Base64(Text::new(data)), |text| MediaSource::Plain(Text::from(text)))
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}
