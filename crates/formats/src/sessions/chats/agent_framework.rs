//! `agent-framework`: messages of Microsoft's Agent Framework, `{"role":…,"contents":[…]}`.

use super::{Chat, ChatMessage};
use crate::sessions::prelude::*;

const FORMAT: &str = "agent-framework";

pub(crate) const AGENT_FRAMEWORK: Chat = Chat {
    name: FORMAT,
    reason: "messages with `contents`",
    lists: &["messages"],
    is_message: |value| value.holds("contents", ValueKind::Array) && value.get("role").is_some(),
    read,
    known: &[Known::fields("additional_properties contents.additional_properties contents.annotations")],
};

fn read(message: Value<'_>) -> ChatMessage {
    let role = message.get("role").and_then(|role| role.get("value").unwrap_or(role).as_str());
    let contents = message.get("contents").into_iter().flat_map(Value::items);
    let blocks = contents.filter_map(|content| {
        let text = |name| text_in(content, name);
        Some(match &*content.word("type") {
            "text" => Block::text(text("text").unwrap_or_else(|| Text::new(""))),
            "text_reasoning" => thought(text("text").unwrap_or_else(|| Text::new("")), FORMAT, None),
            "data" | "uri" => medium(&text("uri")?, text("media_type").as_deref(), None),
            "function_call" => {
                call(text("call_id").as_deref(), text("name").as_deref(), content.get("arguments"))
            }
            "function_result" => {
                let failed = content.given("exception");
                let said = content.given("result").or(failed).map(as_text);
                let said = vec![Block::text(said.unwrap_or_else(|| Text::new("")))];
                result(text("call_id").as_deref(), None, said, failed.is_some())
            }
            "usage" => return None,
            kind => opaque(kind, content),
        })
    });
    let blocks = blocks.collect();
    let id = text_of(message, "message_id");
    ChatMessage {
        detail: Detail { id, ..Detail::default() },
        ..ChatMessage::new(roles::named(&role.unwrap_or_default()), blocks)
    }
}
