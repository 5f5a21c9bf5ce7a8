//! `sharegpt`: lists of `{"from":…,"value":…}`, the form of many collections of conversations.

use rejoin_record::{
    Block, Role,
    json::{Value, ValueKind},
};

use super::{Chat, ChatMessage};
use crate::{
    messages::roles,
    sessions::building::{as_text, call, result},
};

pub(crate) const SHAREGPT: Chat = Chat {
    name: "sharegpt",
    reason: "turns with `from` and `value`",
    lists: &["conversations", "conversation", "items", "messages"],
    is_message: |value| {
        value.holds("from", ValueKind::String) && value.get("value").is_some() && value.get("role").is_none()
    },
    read,
    known: &[],
};

fn read(message: Value<'_>) -> ChatMessage {
    let from = message.word("from");
    let value = message.get("value");
    let text = || Block::text(value.map_or_else(|| "".into(), as_text));
    match &*from {
        "function_call" => {
            let said = value.map_or_else(|| "".into(), as_text);
            let doc = rejoin_record::json::Doc::parse(&said);
            let called =
                doc.as_ref().ok().and_then(|doc| doc.root()).filter(|root| root.given("name").is_some());
            let block = match called {
                Some(root) => {
                    let name = root.word("name");
                    call(None, Some(&name), root.get("arguments").or_else(|| root.get("parameters")))
                }
                None => text(),
            };
            ChatMessage::new(Role::Assistant, vec![block])
        }
        "observation" | "tool" | "function" | "function_response" => {
            ChatMessage::new(Role::Tool, vec![result(None, None, vec![text()], false)])
        }
        "bing" | "bard" => ChatMessage::new(Role::Assistant, vec![text()]),
        from => ChatMessage::new(roles::named(from), vec![text()]),
    }
}
