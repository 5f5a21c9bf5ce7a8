//! `langchain`: messages of LangChain, as `messages_to_dict` writes them, `{"type":"human","data":{…}}`, or as `dumps` does,
//! `{"lc":1,"id":[…,"HumanMessage"],"kwargs":{…}}`.

use super::{Chat, ChatMessage};
use crate::sessions::prelude::*;

const FORMAT: &str = "langchain";

pub(crate) const LANGCHAIN: Chat = Chat {
    name: FORMAT,
    reason: "messages of LangChain, with `data` or `kwargs`",
    lists: &["messages", "history", "chat_history"],
    is_message: |value| parts_of(value).is_some(),
    read,
    known: &[Known::fields(
        "data.additional_kwargs data.response_metadata data.usage_metadata data.invalid_tool_calls data.artifact \
         kwargs.additional_kwargs kwargs.response_metadata kwargs.usage_metadata kwargs.invalid_tool_calls \
         kwargs.artifact data.tool_call_chunks kwargs.tool_call_chunks",
    )],
};

/// The role of a message, and the object with its fields.
fn parts_of(message: Value<'_>) -> Option<(Role, Value<'_>)> {
    let (kind, data) = match message.get("kwargs").filter(|_| message.get("lc").is_some()) {
        Some(data) => (message.get("id")?.items().last()?.as_str()?, data),
        None => (message.get("type")?.as_str()?, message.get("data")?),
    };
    let role = match kind.trim_end_matches("Chunk").trim_end_matches("Message") {
        "human" | "Human" => Role::User,
        "ai" | "AI" => Role::Assistant,
        "system" | "System" => Role::System,
        "tool" | "Tool" | "function" | "Function" => Role::Tool,
        "chat" | "Chat" => crate::messages::roles::named(&data.word("role")),
        _ => return None,
    };
    (data.kind() == ValueKind::Object && data.get("content").is_some()).then_some((role, data))
}

fn read(message: Value<'_>) -> ChatMessage {
    let Some((role, data)) = parts_of(message) else { return ChatMessage::new(Role::User, Vec::new()) };
    let content = data.get("content");
    let mut blocks: Vec<Block> = content.into_iter().flat_map(Value::items).filter_map(block).collect();
    let plain = content.filter(|content| content.kind() == ValueKind::String && !content.is_str(""));
    blocks.extend(plain.map(|text| Block::text(as_text(text))));
    if role == Role::Tool {
        let id = text_of(data, "tool_call_id");
        let is_error = data.says("status", "error");
        blocks = vec![result(id.as_deref(), text_of(data, "name").as_deref(), blocks, is_error)];
    }
    let listed = data.given("tool_calls").into_iter().flat_map(Value::items);
    blocks.extend(listed.map(|called| {
        let text = |name| text_of(called, name);
        call(text("id").as_deref(), text("name").as_deref(), called.get("args"))
    }));
    if data.given("tool_calls").is_none_or(|calls| calls.items().next().is_none()) {
        // Older releases keep the provider's own form only.
        let more = data.given("additional_kwargs").and_then(|more| more.given("tool_calls"));
        blocks.extend(more.into_iter().flat_map(Value::items).map(|called| {
            let function = called.given("function").unwrap_or(called);
            let name = text_of(function, "name");
            call(text_of(called, "id").as_deref(), name.as_deref(), function.get("arguments"))
        }));
    }
    let detail = Detail { id: text_of(data, "id"), ..Detail::default() };
    ChatMessage { detail, ..ChatMessage::new(role, blocks) }
}

/// A part of a content that is a list. Calls are in `tool_calls` as well.
fn block(part: Value<'_>) -> Option<Block> {
    let text = |name| text_in(part, name);
    if part.kind() == ValueKind::String {
        return Some(Block::text(as_text(part)));
    }
    Some(match &*part.word("type") {
        "text" => Block::text(text("text")?),
        "thinking" | "reasoning" => {
            let said = text("thinking").or_else(|| text("reasoning")).or_else(|| text("text"));
            thought(said.unwrap_or_else(|| Text::new("")), FORMAT, None)
        }
        "image_url" => {
            let image = part.given("image_url")?;
            medium(&image.given("url").unwrap_or(image).as_str()?, Some("image/*"), None)
        }
        "tool_use" | "tool_call" => return None,
        kind => opaque(kind, part),
    })
}
