//! `entire`: compact transcripts of Entire, one message per line. A call holds its result.

use super::{Chat, ChatMessage};
use crate::sessions::prelude::*;

const FORMAT: &str = "entire";

pub(crate) const ENTIRE: Chat = Chat {
    name: FORMAT,
    reason: "lines with `v`, `agent`, `cli_version` and `content`",
    lists: &[],
    is_message: |value| {
        ["v", "agent", "cli_version", "content", "type"].iter().all(|name| value.get(name).is_some())
    },
    read,
    known: &[Known::fields("content.result.file content.result.matchCount")],
};

fn read(message: Value<'_>) -> ChatMessage {
    let (mut blocks, mut results) = (Vec::new(), Vec::new());
    let content = message.get("content");
    let plain =
        content.filter(|content| content.kind() == ValueKind::String).map(|text| Block::text(as_text(text)));
    blocks.extend(plain);
    for part in content.into_iter().flat_map(Value::items) {
        let text = |name| text_in(part, name);
        match &*part.word("type") {
            "text" | "" if part.given("text").is_some() => blocks.extend(text("text").map(Block::text)),
            "thinking" => blocks
                .extend(text("thinking").or_else(|| text("text")).map(|text| thought(text, FORMAT, None))),
            "image" => {
                let source = part.given("source").unwrap_or(part);
                let kind = text_of(source, "media_type");
                let data = text_of(source, "data").unwrap_or_else(|| Text::new(""));
                let url = format!("data:{};base64,{data}", kind.as_deref().unwrap_or("image/png"));
                blocks.push(medium(&url, kind.as_deref(), None));
            }
            "tool_use" => {
                let id = text("id");
                blocks.push(call(id.as_deref(), text("name").as_deref(), part.get("input")));
                if let Some(given) = part.given("result") {
                    let said = given.get("output").map(as_text).unwrap_or_else(|| Text::new(""));
                    let is_error = given.says("status", "error");
                    results.push(result(id.as_deref(), None, vec![Block::text(said)], is_error));
                }
            }
            kind => blocks.push(opaque(kind, part)),
        }
    }
    let detail =
        Detail { id: text_of(message, "id"), time: message.given("ts").map(time_of), ..Detail::default() };
    ChatMessage { role: roles::named(&message.word("type")), blocks, results, detail }
}
