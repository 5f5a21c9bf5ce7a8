//! How one thing of a history looks: for people, as JSON, and in the shape of OpenAI Chat.

use rejoin::{Block, BlockKind, Message, ToolCall, ToolResult, record::Timestamp};

use super::numbers::{Shown, What};
use crate::{
    json::{self, Object, quoted},
    output::{self, harmless, harmless_lines, local_time, paint},
};

/// How much of a content is shown.
const CONTENT_CHARS: usize = 500;

impl Shown<'_> {
    /// Who speaks.
    pub fn role(&self) -> String {
        match &self.what {
            What::Message(message) => message.role.as_str().to_owned(),
            What::Command(_) | What::Summary(_) => String::from("system"),
            What::Erased => String::from("erased"),
            What::Unreadable => String::from("unreadable"),
        }
    }

    /// When it was said: the source's own time, if it has one.
    pub fn time(&self) -> String {
        let envelope = self.entry.envelope();
        envelope.source_time.as_ref().map_or_else(|| envelope.timestamp.to_string(), ToString::to_string)
    }

    /// What it says.
    fn content(&self) -> Option<String> {
        match &self.what {
            What::Message(message) => content(message),
            What::Command(command) => {
                let ran = format!("User executed command: {}", command.command);
                let printed =
                    (!command.output.is_blank()).then(|| format!("Command result: {}", command.output));
                Some([Some(ran), printed].into_iter().flatten().collect::<Vec<_>>().join("\n"))
            }
            What::Summary(compacted) => Some(compacted.summary.to_string()),
            What::Erased => Some(String::from("(the content was erased)")),
            What::Unreadable => Some(String::from("(this version cannot read it)")),
        }
    }

    /// For people.
    pub fn for_people(&self, number: usize) -> String {
        let mut out = heading(&number.to_string(), &self.role(), "");
        let time = self.time();
        let time = time.parse::<Timestamp>().map_or(time, local_time);
        out.push_str(&format!("Time: {}\n", harmless(&time)));
        match &self.what {
            What::Message(message) => out.push_str(&said(message)),
            _ => out.push_str(&content_lines(self.content().as_deref())),
        }
        if self.interrupted {
            out.push_str("[interrupted: this may not be all of it]\n");
        }
        out
    }

    /// As a JSON object.
    pub fn json(&self, number: usize) -> String {
        let object = Object::new()
            .count("index", number)
            .text("entry", self.entry.id())
            .text("type", self.entry.envelope().kind.as_str())
            .text("time", &self.time())
            .text("role", &self.role());
        match &self.what {
            What::Message(message) if self.interrupted => {
                fields(object, message).flag("interrupted", true).finish()
            }
            What::Message(message) => fields(object, message).finish(),
            What::Erased | What::Unreadable => object.raw("content", "null").finish(),
            _ => object.text_or_null("content", self.content().as_deref()).finish(),
        }
    }

    /// In the shape of OpenAI Chat: a result is a message of its own there.
    pub fn openai(&self) -> Vec<String> {
        match &self.what {
            What::Message(message) => openai(message),
            What::Erased | What::Unreadable => {
                vec![Object::new().text("role", &self.role()).raw("content", "null").finish()]
            }
            _ => {
                let object = Object::new().text("role", &self.role());
                vec![object.text_or_null("content", self.content().as_deref()).finish()]
            }
        }
    }
}

/// `[3] USER`, after an empty line; a remark stands behind it.
pub fn heading(number: &str, role: &str, remark: &str) -> String {
    let head = paint(&format!("[{number}] {}", harmless(role).to_uppercase()), output::STRONG);
    if remark.is_empty() { format!("\n{head}\n") } else { format!("\n{head}  ({remark})\n") }
}

/// What a message says, for people.
pub fn said(message: &Message) -> String {
    let mut out = String::new();
    for result in message.tool_results() {
        let id = result.call_id.as_ref().map_or("unknown", |id| id.as_str());
        let failed = if result.is_error { " (failed)" } else { "" };
        out.push_str(&format!("Tool Call ID: {}{failed}\n", harmless(id)));
    }
    let calls: Vec<&ToolCall> = message.tool_calls().collect();
    if !calls.is_empty() {
        out.push_str(&format!("Tool Calls: {} total\n", calls.len()));
        for call in calls {
            out.push_str(&format!("  - {} (id: {})\n", harmless(&call.name), harmless(call.id.as_str())));
        }
    }
    let thoughts = message.blocks.iter().filter_map(|block| match &block.kind {
        BlockKind::Reasoning(reasoning) => Some(&reasoning.text).filter(|text| !text.is_blank()),
        _ => None,
    });
    for thought in thoughts {
        out.push_str(&format!("Reasoning:\n{}\n", cut(thought)));
    }
    out.push_str(&content_lines(content(message).as_deref()));
    out
}

fn content_lines(content: Option<&str>) -> String {
    content.map_or_else(String::new, |content| format!("Content:\n{}\n", cut(content)))
}

/// The beginning of a text, made harmless, and how long all of it is.
fn cut(text: &str) -> String {
    match text.char_indices().nth(CONTENT_CHARS) {
        None => harmless_lines(text),
        Some((end, _)) => {
            let total = text.chars().count();
            format!("{}... ({total} chars total)", harmless_lines(&text[..end]))
        }
    }
}

/// Texts of a message in order, with a word for what is no text; none where there is nothing.
fn content(message: &Message) -> Option<String> {
    let mut pieces = Vec::new();
    for block in &message.blocks {
        match &block.kind {
            BlockKind::ToolResult(result) => pieces.extend(result.content.iter().filter_map(piece)),
            _ => pieces.extend(piece(block)),
        }
    }
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

/// The fields of a message as a JSON object has them.
pub fn fields(object: Object, message: &Message) -> Object {
    let own = Message { blocks: own_blocks(message), ..message.clone() };
    let calls = json::list(message.tool_calls().map(|call| {
        let object = Object::new().text("id", call.id.as_str()).text("name", &call.name);
        object.text("arguments", call.arguments.text()).finish()
    }));
    let results = json::list(message.tool_results().map(|result| {
        let id = result.call_id.as_ref().map(|id| id.as_str());
        let object = Object::new().text_or_null("tool_call_id", id);
        object
            .text_or_null("content", result_text(result).as_deref())
            .flag("is_error", result.is_error)
            .finish()
    }));
    object
        .text_or_null("content", content(&own).as_deref())
        .raw_if("tool_calls", Some(calls.as_str()).filter(|calls| *calls != "[]"))
        .raw_if("tool_results", Some(results.as_str()).filter(|results| *results != "[]"))
}

/// A message in the shape of OpenAI Chat: its results as messages of their own, then what else it says.
fn openai(message: &Message) -> Vec<String> {
    let mut out: Vec<String> = message.tool_results().map(openai_result).collect();
    let own = Message { blocks: own_blocks(message), ..message.clone() };
    if out.is_empty() || !own.blocks.is_empty() {
        let calls = json::list(message.tool_calls().map(|call| {
            let function = Object::new().text("name", &call.name).text("arguments", call.arguments.text());
            let object = Object::new().text("id", call.id.as_str()).text("type", "function");
            object.raw("function", &function.finish()).finish()
        }));
        let object = Object::new()
            .text("role", message.role.as_str())
            .text_or_null("content", content(&own).as_deref())
            .raw_if("tool_calls", Some(calls.as_str()).filter(|calls| *calls != "[]"));
        out.push(object.finish());
    }
    out
}

fn openai_result(result: &ToolResult) -> String {
    Object::new()
        .text("role", "tool")
        .raw_if("tool_call_id", result.call_id.as_ref().map(|id| quoted(id.as_str())).as_deref())
        .text("content", &result_text(result).unwrap_or_default())
        .finish()
}

fn result_text(result: &ToolResult) -> Option<String> {
    let pieces: Vec<String> = result.content.iter().filter_map(piece).collect();
    (!pieces.is_empty()).then(|| pieces.join("\n"))
}

/// The blocks that are no results.
fn own_blocks(message: &Message) -> Vec<Block> {
    message.blocks.iter().filter(|block| block.as_result().is_none()).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// B1: a text is cut between characters and counted in characters.
    #[test]
    fn a_cut_never_splits_a_character() {
        assert_eq!(cut(&"é".repeat(500)), "é".repeat(500));
        for letter in ["a", "é", "語", "🦀"] {
            let shown = cut(&letter.repeat(501));
            assert_eq!(shown, format!("{}... (501 chars total)", letter.repeat(500)));
        }
        // A character that stands across byte 500.
        let text = format!("{}語{}", "a".repeat(499), "b".repeat(100));
        assert!(cut(&text).starts_with(&format!("{}語... (600", "a".repeat(499))));
    }

    #[test]
    fn results_are_messages_of_their_own_in_the_shape_of_openai() {
        let both = Message::new(
            rejoin::Role::User,
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
