//! Messages in the form for programs: as JSON, and in the shape of OpenAI Chat.

use rejoin_record::{
    Block, BlockKind, Message, ToolResult,
    json::{self, Object, quoted},
};

use super::{Shown, ShownContent};

impl Shown<'_> {
    /// The role of a message; `system` for commands and summaries.
    #[must_use]
    pub fn role(&self) -> String {
        match &self.what {
            ShownContent::Message(message) => message.role.as_str().to_owned(),
            ShownContent::Command(_) | ShownContent::Summary(_) => String::from("system"),
            ShownContent::Erased => String::from("erased"),
            ShownContent::Unreadable => String::from("unreadable"),
        }
    }

    /// The time of the item, in RFC 3339, or the source's own time in the source's own form.
    #[must_use]
    pub fn time(&self) -> String {
        let envelope = self.entry.envelope();
        envelope.source_time.as_ref().map_or_else(|| envelope.timestamp.to_string(), ToString::to_string)
    }

    /// The text, with a bracketed word for each part that is not text; `None` if it is empty.
    #[must_use]
    pub fn content(&self) -> Option<String> {
        match &self.what {
            ShownContent::Message(message) => text_of(message),
            ShownContent::Command(command) => {
                let ran = format!("User executed command: {}", command.command);
                let printed =
                    (!command.output.is_blank()).then(|| format!("Command result: {}", command.output));
                Some([Some(ran), printed].into_iter().flatten().collect::<Vec<_>>().join("\n"))
            }
            ShownContent::Summary(compacted) => Some(compacted.summary.to_string()),
            ShownContent::Erased => Some(String::from("(the content was erased)")),
            ShownContent::Unreadable => Some(String::from("(this version cannot read it)")),
        }
    }

    /// The item as a JSON object, with its number.
    #[must_use]
    pub fn to_json(&self, number: usize) -> String {
        let object = Object::new()
            .count("index", number)
            .text("entry", self.entry.id())
            .text("type", self.entry.envelope().kind.as_str())
            .text("time", self.time())
            .text("role", self.role());
        match &self.what {
            ShownContent::Message(message) if self.interrupted => {
                with_message(object, message).flag("interrupted", true).finish()
            }
            ShownContent::Message(message) => with_message(object, message).finish(),
            ShownContent::Erased | ShownContent::Unreadable => object.raw("content", "null").finish(),
            _ => object.text_or_null("content", self.content().as_deref()).finish(),
        }
    }

    /// The item in the shape of OpenAI Chat, in which each result is a separate message.
    #[must_use]
    pub fn to_openai(&self) -> Vec<String> {
        match &self.what {
            ShownContent::Message(message) => openai(message),
            ShownContent::Erased | ShownContent::Unreadable => {
                vec![Object::new().text("role", self.role()).raw("content", "null").finish()]
            }
            _ => {
                let object = Object::new().text("role", self.role());
                vec![object.text_or_null("content", self.content().as_deref()).finish()]
            }
        }
    }
}

/// The texts of a message in order, with a bracketed word for each part that is not text; `None` if there are no parts.
#[must_use]
pub fn text_of(message: &Message) -> Option<String> {
    let blocks = message.blocks.iter();
    joined(blocks.flat_map(|block| match &block.kind {
        BlockKind::ToolResult(result) => &result.content[..],
        _ => std::slice::from_ref(block),
    }))
}

fn joined<'b>(blocks: impl IntoIterator<Item = &'b Block>) -> Option<String> {
    let pieces: Vec<String> = blocks.into_iter().filter_map(piece).collect();
    (!pieces.is_empty()).then(|| pieces.join("\n"))
}

fn piece(block: &Block) -> Option<String> {
    Some(match &block.kind {
        BlockKind::Text(text) => text.to_string(),
        BlockKind::Image(media) => format!("[image{}]", kind(media.media_type.as_deref())),
        BlockKind::Document(media) => format!("[document{}]", kind(media.media_type.as_deref())),
        BlockKind::Opaque(opaque) => format!("[{}]", opaque.kind),
        BlockKind::Reasoning(_) | BlockKind::ToolCall(_) | BlockKind::ToolResult(_) => return None,
    })
}

fn kind(media_type: Option<&str>) -> String {
    media_type.map_or_else(String::new, |media_type| format!(": {media_type}"))
}

pub(crate) fn with_message(object: Object, message: &Message) -> Object {
    let calls = json::list(message.tool_calls().map(|call| {
        let object = Object::new().text("id", call.id.as_str()).text("name", &call.name);
        object.text("arguments", call.arguments.text()).finish()
    }));
    let results = json::list(message.tool_results().map(|result| {
        let id = result.call_id.as_ref().map(|id| id.as_str());
        let object = Object::new().text_or_null("tool_call_id", id);
        object.text_or_null("content", joined(&*result.content)).flag("is_error", result.is_error).finish()
    }));
    object
        .text_or_null("content", joined(own_blocks(message)))
        .raw_if("tool_calls", Some(calls.as_str()).filter(|calls| *calls != "[]"))
        .raw_if("tool_results", Some(results.as_str()).filter(|results| *results != "[]"))
}

/// A message in the shape of OpenAI Chat: its results as separate messages, then its other parts.
fn openai(message: &Message) -> Vec<String> {
    let mut out: Vec<String> = message.tool_results().map(openai_result).collect();
    if out.is_empty() || own_blocks(message).next().is_some() {
        let calls = json::list(message.tool_calls().map(|call| {
            let function = Object::new().text("name", &call.name).text("arguments", call.arguments.text());
            let object = Object::new().text("id", call.id.as_str()).text("type", "function");
            object.raw("function", &function.finish()).finish()
        }));
        let object = Object::new()
            .text("role", message.role.as_str())
            .text_or_null("content", joined(own_blocks(message)))
            .raw_if("tool_calls", Some(calls.as_str()).filter(|calls| *calls != "[]"));
        out.push(object.finish());
    }
    out
}

fn openai_result(result: &ToolResult) -> String {
    Object::new()
        .text("role", "tool")
        .raw_if("tool_call_id", result.call_id.as_ref().map(|id| quoted(id.as_str())).as_deref())
        .text("content", joined(&*result.content).unwrap_or_default())
        .finish()
}

fn own_blocks(message: &Message) -> impl Iterator<Item = &Block> {
    message.blocks.iter().filter(|block| block.as_result().is_none())
}

#[cfg(test)]
mod tests {
    use rejoin_record::ToolCall;

    use super::*;

    #[test]
    fn results_are_messages_of_their_own_in_the_shape_of_openai() {
        let both = Message::new(
            rejoin_record::Role::User,
            vec![
                Block::result(ToolResult::new("c1", "one")),
                Block::result(ToolResult::new("c2", "two")),
                Block::text("and now?"),
            ],
        );
        let made = openai(&both);
        assert_eq!(
            made,
            [
                r#"{"role":"tool","tool_call_id":"c1","content":"one"}"#,
                r#"{"role":"tool","tool_call_id":"c2","content":"two"}"#,
                r#"{"role":"user","content":"and now?"}"#,
            ]
        );
        let calls = Message::assistant_with_tools(vec![ToolCall::new("c1", "ls", "{\"a\":1e400}")]);
        assert_eq!(
            openai(&calls),
            [
                r#"{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"ls","arguments":"{\"a\":1e400}"}}]}"#
            ]
        );
    }
}
