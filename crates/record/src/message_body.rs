//! The stored form of a message: the source's item once, and blocks that refer to spans of it.
//!
//! A text in the native item is stored as `[start,len]` (a JSON string literal there) or `{"raw":[start,len]}` (the bytes
//! themselves); any other text as a JSON string. So the item is kept verbatim, nothing is stored twice, and the line shows the
//! provider's JSON to ordinary tools. An item with line breaks is stored as one string, `item_text`. Blocks are nested only in
//! results, and results do not nest, so reading does not recurse with the depth of its input.

use crate::{
    arguments::Arguments,
    block::{Block, BlockKind, Media, MediaSource, Opaque, Origin, Reasoning, ToolCall, ToolResult},
    ids::CallId,
    json::{Doc, Object, Value, ValueKind, literal, write},
    message::{Form, Message, Native, NativeItem, Role},
    text::{Raw, Span, Text},
};

pub(crate) fn write(out: &mut String, message: &Message) {
    let item = message.native.as_ref().map(|native| native.raw.as_str());
    out.push('{');
    write::key(out, "role");
    write::string(out, message.role.as_str());
    write::key(out, "form");
    write::string(out, message.form.as_str());
    write::key(out, "blocks");
    Writer { out, item }.blocks(&message.blocks);
    if let Some(native) = &message.native {
        write::key(out, "native");
        out.push('{');
        write::key(out, "format");
        write::string(out, &native.format);
        write_flag(out, "regular", native.regular);
        write_flag(out, "more", native.more);
        if native.items.is_empty() {
            write_raw(out, "item", native.raw.as_str());
        } else {
            write_items(out, &native.items);
            write_raw(out, "list", &format!("[{}]", native.raw.as_str()));
        }
        out.push('}');
    }
    out.push('}');
}

/// Writes the span and the number of blocks of each item as `[start,len,blocks]`, followed by a `0` if it is not regular.
fn write_items(out: &mut String, items: &[NativeItem]) {
    write::key(out, "items");
    for (index, item) in items.iter().enumerate() {
        let opening = if index == 0 { "[[" } else { ",[" };
        let closing = if item.regular { "]" } else { ",0]" };
        out.push_str(&format!("{opening}{},{},{}{closing}", item.span.start, item.span.len, item.blocks));
    }
    out.push(']');
}

fn read_items(native: Value<'_>) -> Option<Vec<NativeItem>> {
    let Some(list) = native.given("items") else { return Some(Vec::new()) };
    let item = |item: Value<'_>| {
        let mut numbers = item.items().map(|number| number.as_u64().and_then(|n| u32::try_from(n).ok()));
        let (start, len, blocks) = (numbers.next()??, numbers.next()??, numbers.next()??);
        let regular = numbers.next().is_none();
        Some(NativeItem { span: Span::verbatim(start as usize, len as usize), blocks, regular })
    };
    exactly(list.items().count(), list.items().map(item))
}

/// A list without spare capacity, because messages live long. `None` if an item is missing.
fn exactly<T>(count: usize, items: impl Iterator<Item = Option<T>>) -> Option<Vec<T>> {
    let mut list = Vec::with_capacity(count);
    for item in items {
        list.push(item?);
    }
    Some(list)
}

/// Writes a foreign value unchanged, or as a string if it has line breaks, because an entry is one line.
fn write_raw(out: &mut String, name: &str, raw: &str) {
    if raw.contains(['\n', '\r']) {
        write::key(out, &format!("{name}_text"));
        write::string(out, raw);
    } else {
        write::key(out, name);
        out.push_str(raw);
    }
}

/// The bytes of a body, from which a message takes the native item.
#[derive(Clone, Copy)]
pub(crate) enum Buffer<'b> {
    /// The caller keeps the bytes, so the item becomes a slice of them.
    Kept(&'b Raw),
    /// The caller does not keep the bytes, so the item is copied.
    Passing(&'b str),
}

impl<'b> Buffer<'b> {
    fn text(self) -> &'b str {
        match self {
            Self::Kept(raw) => raw.as_str(),
            Self::Passing(text) => text,
        }
    }

    fn cut(self, start: usize, end: usize) -> Option<Raw> {
        match self {
            Self::Kept(raw) => raw.sub(start, end),
            Self::Passing(text) => text.get(start..end).map(Raw::new),
        }
    }
}

/// Reads a value that [`write_raw`] wrote. `without` bytes are removed from each end.
fn read_raw(body: Buffer<'_>, holder: Value<'_>, name: &str, without: usize) -> Option<Raw> {
    match holder.get(name) {
        Some(item) => body.cut(item.start() + without, item.end().checked_sub(without)?),
        None => {
            let text = holder.get(&format!("{name}_text"))?.as_str()?;
            text.get(without..text.len().checked_sub(without)?).map(Raw::new)
        }
    }
}

fn write_flag(out: &mut String, name: &str, value: bool) {
    if value {
        write::key(out, name);
        out.push_str("true");
    }
}

struct Writer<'o, 'i> {
    out: &'o mut String,
    item: Option<&'i str>,
}

impl Writer<'_, '_> {
    fn blocks(&mut self, blocks: &[Block]) {
        self.out.push('[');
        for (index, block) in blocks.iter().enumerate() {
            if index > 0 {
                self.out.push(',');
            }
            self.block(block);
        }
        self.out.push(']');
    }

    fn block(&mut self, block: &Block) {
        self.out.push('{');
        match &block.kind {
            BlockKind::Text(text) => self.text("text", text),
            BlockKind::Reasoning(reasoning) => self.object("reasoning", |w| w.reasoning(reasoning)),
            BlockKind::ToolCall(call) => self.object("call", |w| {
                w.text("id", call.id.text());
                write_flag(w.out, "id_assigned", !call.id_given);
                w.text("name", &call.name);
                w.text("arguments", call.arguments.text());
            }),
            BlockKind::ToolResult(result) => self.object("result", |w| {
                w.optional("for", result.call_id.as_ref().map(CallId::text));
                w.optional("name", result.name.as_ref());
                write::key(w.out, "form");
                write::string(w.out, result.form.as_str());
                write_flag(w.out, "error", result.is_error);
                write::key(w.out, "content");
                w.blocks(&result.content);
            }),
            BlockKind::Image(media) => self.object("image", |w| w.media(media)),
            BlockKind::Document(media) => self.object("document", |w| w.media(media)),
            BlockKind::Opaque(opaque) => {
                let stored = block.span.and_then(|span| span.of(self.item?)) == Some(opaque.raw.as_str());
                self.object("opaque", |w| {
                    w.text("kind", &opaque.kind);
                    write_flag(w.out, "fits", opaque.fits);
                    if !stored {
                        write_raw(w.out, "raw", opaque.raw.as_str());
                    }
                });
            }
        }
        if let Some(span) = block.span {
            write::key(self.out, "at");
            write_span(self.out, span);
        }
        self.out.push('}');
    }

    fn object(&mut self, name: &str, fill: impl FnOnce(&mut Self)) {
        write::key(self.out, name);
        self.out.push('{');
        fill(self);
        self.out.push('}');
    }

    fn reasoning(&mut self, reasoning: &Reasoning) {
        self.text("text", &reasoning.text);
        write_flag(self.out, "sealed", reasoning.sealed);
        let mut origin = reasoning.origin.clone();
        self.object("origin", |w| {
            for (name, value) in origin_fields(&mut origin) {
                w.optional(name, value.as_ref());
            }
            write_flag(w.out, "incomplete", origin.incomplete);
        });
    }

    fn media(&mut self, media: &Media) {
        self.optional("media_type", media.media_type.as_ref());
        self.optional("name", media.name.as_ref());
        match &media.source {
            MediaSource::Base64(data) => self.text("base64", data),
            MediaSource::Url(url) => self.text("url", url),
            MediaSource::ProviderFile(id) => self.text("file", id),
            MediaSource::Plain(text) => self.text("plain", text),
            MediaSource::Unusable => {}
        }
    }

    fn optional(&mut self, name: &str, text: Option<&Text>) {
        if let Some(text) = text {
            self.text(name, text);
        }
    }

    fn text(&mut self, name: &str, text: &Text) {
        write::key(self.out, name);
        // Write a span only if it leads back to exactly this text.
        let leads_back = |span: &Span| self.item.is_some_and(|item| text.is_at(*span, item));
        match text.span().filter(leads_back) {
            Some(span) if span.literal => write_span(self.out, span),
            Some(span) => Object::append(self.out, |object| object.with("raw", |out| write_span(out, span))),
            None => write::string(self.out, text),
        }
    }
}

fn write_span(out: &mut String, span: Span) {
    out.push_str(&format!("[{},{}]", span.start, span.len));
}

fn origin_fields(origin: &mut Origin) -> [(&'static str, &mut Option<Text>); 6] {
    let Origin { dialect, provider, endpoint, account, model, prefix, incomplete: _ } = origin;
    [
        ("dialect", dialect),
        ("provider", provider),
        ("endpoint", endpoint),
        ("account", account),
        ("model", model),
        ("prefix", prefix),
    ]
}

/// When the literal of a text is decoded.
#[derive(Clone, Copy, PartialEq)]
enum Decoding {
    AtOnce,
    /// On first use, if it is long: most old messages are only passed on.
    Late,
}

/// The length in bytes from which a literal is decoded late. Keeping it findable takes about 90 bytes.
const LONG: usize = 160;

fn resolve(span: Span, item: &Raw, decoding: Decoding) -> Option<Text> {
    let bytes = span.of(item.as_str())?;
    if !span.literal {
        return Some(Text::located(bytes, span, bytes_are_lossy(bytes)));
    }
    let body = bytes.strip_prefix('"')?.strip_suffix('"')?;
    if decoding == Decoding::AtOnce || body.len() < LONG {
        let (text, lossy) = literal::decode(bytes);
        return Some(Text::located(text, span, lossy));
    }
    let start = span.start as usize + 1;
    let kept = item.sub(start, start + body.len())?;
    let (length, lossy) = literal::measure(body);
    // Every escape is longer than its meaning, so equal lengths mean no escapes.
    let is_plain = length == body.len();
    Some(if is_plain { Text::slice(kept).at(span) } else { Text::undecoded(kept, span, lossy) })
}

fn bytes_are_lossy(bytes: &str) -> bool {
    bytes.contains("\\u")
        && Doc::parse(bytes).is_ok_and(|doc| doc.root().is_some_and(|root| root.has_lone_surrogate()))
}

/// Reads a body. `None` if it is not a message.
pub(crate) fn read(body: Buffer<'_>) -> Option<Message> {
    let doc = Doc::parse(body.text()).ok()?;
    let root = doc.root()?;
    let native = match root.given("native") {
        None => None,
        Some(native) => {
            let items = read_items(native)?;
            // A list is stored without its brackets.
            let (name, without) = if items.is_empty() { ("item", 0) } else { ("list", 1) };
            let raw = read_raw(body, native, name, without)?;
            Some(Native {
                format: Text::new(&*native.get("format")?.as_str()?),
                regular: flag(native, "regular"),
                more: flag(native, "more"),
                raw,
                items,
            })
        }
    };
    let reader = Reader { body, item: native.as_ref().map(|native| &native.raw) };
    let blocks = root.get("blocks").filter(|blocks| blocks.kind() == ValueKind::Array)?;
    let blocks = reader.blocks(blocks, Nested::Allowed)?;
    Some(Message {
        role: Role::named(&root.get("role")?.as_str()?),
        form: Form::named(&root.get("form")?.as_str()?)?,
        blocks,
        native,
    })
}

/// Whether results are allowed here: in a message, but not inside another result.
#[derive(Clone, Copy, PartialEq)]
enum Nested {
    Allowed,
    Refused,
}

struct Reader<'i> {
    body: Buffer<'i>,
    item: Option<&'i Raw>,
}

impl Reader<'_> {
    fn blocks(&self, list: Value<'_>, nested: Nested) -> Option<Vec<Block>> {
        exactly(list.items().count(), list.items().map(|block| self.block(block, nested)))
    }

    fn block(&self, value: Value<'_>, nested: Nested) -> Option<Block> {
        let span = match value.get("at") {
            None => None,
            Some(at) => Some(read_span(at, Span::verbatim)?),
        };
        let (key, body) = value.fields().next()?;
        let kind = match &*key.as_str()? {
            "text" => BlockKind::Text(self.text(body)?),
            "reasoning" => BlockKind::Reasoning(Box::new(self.reasoning(body)?)),
            "call" => BlockKind::ToolCall(ToolCall {
                id: CallId::new(self.text(body.get("id")?)?),
                id_given: !flag(body, "id_assigned"),
                name: self.text(body.get("name")?)?,
                // Decode at once, because the class of the arguments must be known.
                arguments: Arguments::new(self.decoded(body.get("arguments")?, Decoding::AtOnce)?),
            }),
            "result" if nested == Nested::Allowed => BlockKind::ToolResult(ToolResult {
                call_id: self.optional(body, "for")?.map(CallId::new),
                name: self.optional(body, "name")?,
                form: Form::named(&body.get("form")?.as_str()?)?,
                is_error: flag(body, "error"),
                content: self.blocks(body.get("content")?, Nested::Refused)?,
            }),
            "image" => BlockKind::Image(Box::new(self.media(body)?)),
            "document" => BlockKind::Document(Box::new(self.media(body)?)),
            "opaque" => BlockKind::Opaque(Box::new(Opaque {
                kind: self.text(body.get("kind")?)?,
                fits: flag(body, "fits"),
                raw: match read_raw(self.body, body, "raw", 0) {
                    Some(raw) => raw,
                    None => Raw::new(span?.of(self.item?.as_str())?),
                },
            })),
            _ => return None,
        };
        Some(Block { kind, span })
    }

    fn reasoning(&self, body: Value<'_>) -> Option<Reasoning> {
        let given = body.get("origin")?;
        let mut origin = Origin { incomplete: flag(given, "incomplete"), ..Origin::default() };
        for (name, value) in origin_fields(&mut origin) {
            *value = self.optional(given, name)?;
        }
        Some(Reasoning { text: self.text(body.get("text")?)?, sealed: flag(body, "sealed"), origin })
    }

    fn media(&self, body: Value<'_>) -> Option<Media> {
        let mut source = MediaSource::Unusable;
        for (name, make) in [
            ("base64", MediaSource::Base64 as fn(Text) -> MediaSource),
            ("url", MediaSource::Url),
            ("file", MediaSource::ProviderFile),
            ("plain", MediaSource::Plain),
        ] {
            if let Some(text) = self.optional(body, name)? {
                source = make(text);
            }
        }
        let (media_type, name) = (self.optional(body, "media_type")?, self.optional(body, "name")?);
        Some(Media { media_type, source, name })
    }

    fn optional(&self, body: Value<'_>, name: &str) -> Option<Option<Text>> {
        match body.get(name) {
            None => Some(None),
            Some(value) => self.text(value).map(Some),
        }
    }

    fn text(&self, value: Value<'_>) -> Option<Text> {
        self.decoded(value, Decoding::Late)
    }

    fn decoded(&self, value: Value<'_>, decoding: Decoding) -> Option<Text> {
        match value.kind() {
            ValueKind::String => value.as_str().map(Text::new),
            ValueKind::Array => resolve(read_span(value, Span::literal)?, self.item?, decoding),
            ValueKind::Object => resolve(read_span(value.get("raw")?, Span::verbatim)?, self.item?, decoding),
            _ => None,
        }
    }
}

fn flag(body: Value<'_>, name: &str) -> bool {
    body.get(name).and_then(Value::as_bool).unwrap_or(false)
}

fn read_span(value: Value<'_>, make: fn(usize, usize) -> Span) -> Option<Span> {
    let mut numbers = value.items().map(|number| number.as_u64().and_then(|n| u32::try_from(n).ok()));
    let (start, len) = (numbers.next()??, numbers.next()??);
    numbers.next().is_none().then(|| make(start as usize, len as usize))
}
