//! The messages in a row: those of a conversation, in the form of OpenAI Chat with a few fields of xzatoma's own, and those of a run,
//! in the form of the Agent Communication Protocol.

use std::sync::Arc;

use rejoin_record::{
    Block, BlockKind, Media, MediaSource, Message, Raw, Text,
    json::{Value, ValueKind},
};

use super::FORMAT;
use crate::{
    messages::{MessageReader, ReadMessage, blocks::irregular, roles},
    sessions::{
        building::{as_text, item},
        lines::text_of,
    },
    wire::base64,
};

/// Reads a message of a conversation, an item of the text in `buffer`.
pub(super) fn stored(
    reader: &mut MessageReader,
    value: Value<'_>,
    buffer: &Arc<str>,
    index: usize,
) -> Option<ReadMessage> {
    let ReadMessage { mut message, findings } = reader.read(value, buffer, index)?;
    let parts = value.given("content_parts").filter(|parts| parts.kind() == ValueKind::Array);
    if let Some(parts) = parts {
        // The content repeats the texts of the parts.
        message.blocks.retain(|block| block.as_text().is_none());
        let parts: Vec<Block> = parts.items().map(part).collect();
        message.blocks.splice(0..0, parts);
    }
    message.blocks = message.blocks.into_iter().map(irregular).collect();
    if let Some(native) = &mut message.native {
        native.format = Text::new(FORMAT);
        native.regular = false;
        // What xzatoma does not know, it ignores.
        native.more = false;
    }
    Some(ReadMessage { message, findings })
}

fn part(part: Value<'_>) -> Block {
    match &*part.word("type") {
        "text" => Block::text(part.given("text").map_or_else(|| Text::new(""), as_text)),
        "image" => image(part),
        kind => Block::opaque(kind, Raw::new(part.raw()), false),
    }
}

fn image(part: Value<'_>) -> Block {
    let holder = part.get("source");
    let value = holder.and_then(|source| source.get("value"));
    let text = || value.map(as_text).unwrap_or_else(|| Text::new(""));
    let kind = holder.map(|source| source.word("source")).unwrap_or_default();
    let mut name = text_of(part, "name");
    let source = match &*kind {
        "inline_base64" => MediaSource::Base64(text()),
        "inline_bytes" => {
            let bytes =
                value.into_iter().flat_map(Value::items).filter_map(|byte| byte.raw().parse::<u8>().ok());
            MediaSource::Base64(Text::from(base64::encode(&bytes.collect::<Vec<u8>>())))
        }
        "remote_url" => MediaSource::Url(text()),
        // A file on the machine on which it was said.
        _ => {
            name = name.or_else(|| Some(text()));
            MediaSource::Unusable
        }
    };
    let media = Media { media_type: text_of(part, "mime_type"), source, name };
    Block::new(BlockKind::Image(Box::new(media)))
}

/// Reads a message of a run. None if it has no parts.
pub(super) fn of_run(value: Value<'_>) -> Option<Message> {
    let parts = value.given("parts").filter(|parts| parts.kind() == ValueKind::Array)?;
    let word = value.word("role");
    let role = roles::named(word.split('/').next().unwrap_or_default());
    let block = |part: Value<'_>| {
        let data = part.get("data");
        match data.and_then(|data| data.given("text")).or_else(|| part.given("text")) {
            Some(text) if part.says("type", "text") => Block::text(as_text(text)),
            _ => Block::opaque(&*part.word("type"), Raw::new(part.raw()), false),
        }
    };
    Some(item(FORMAT, role, parts.items().map(block).collect(), Raw::new(value.raw())))
}
