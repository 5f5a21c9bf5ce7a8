//! Formats the messages of a history for people.

use rejoin::{
    BlockKind, Message, ToolCall,
    history::{Shown, ShownContent, text_of},
    record::Timestamp,
};

use crate::output::{self, harmless, harmless_lines, local_time, paint};

/// Longer content is cut.
const CONTENT_CHARS: usize = 500;

/// How much of a message is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Extent {
    /// Only the beginning of long content, and calls without arguments.
    Beginning,
    Whole,
}

/// A numbered item of a history, for people.
pub fn numbered(shown: &Shown<'_>, number: usize) -> String {
    item(shown, number, Extent::Beginning)
}

/// A numbered item with its whole content, and with the arguments of its calls.
pub fn whole(shown: &Shown<'_>, number: usize) -> String {
    item(shown, number, Extent::Whole)
}

fn item(shown: &Shown<'_>, number: usize, extent: Extent) -> String {
    let mut out = heading(&number.to_string(), &shown.role(), "");
    let time = shown.time();
    let time = time.parse::<Timestamp>().map_or(time, local_time);
    out.push_str(&format!("Time: {}\n", harmless(&time)));
    match &shown.what {
        ShownContent::Message(message) => out.push_str(&content_as(message, extent)),
        _ => out.push_str(&content_lines(shown.content().as_deref(), extent)),
    }
    if shown.interrupted {
        out.push_str("[interrupted: this may not be all of it]\n");
    }
    out
}

/// `[3] USER`, after an empty line, followed by a remark.
pub fn heading(number: &str, role: &str, remark: &str) -> String {
    let head = paint(&format!("[{number}] {}", harmless(role).to_uppercase()), output::STRONG);
    if remark.is_empty() { format!("\n{head}\n") } else { format!("\n{head}  ({remark})\n") }
}

/// The content of a message, for people.
pub fn content_for_people(message: &Message) -> String {
    content_as(message, Extent::Beginning)
}

fn content_as(message: &Message, extent: Extent) -> String {
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
            if extent == Extent::Whole {
                out.push_str(&format!("    {}\n", harmless_lines(call.arguments.text())));
            }
        }
    }
    let thoughts = message.blocks.iter().filter_map(|block| match &block.kind {
        BlockKind::Reasoning(reasoning) => Some(&reasoning.text).filter(|text| !text.is_blank()),
        _ => None,
    });
    for thought in thoughts {
        out.push_str(&format!("Reasoning:\n{}\n", cut(thought, extent)));
    }
    out.push_str(&content_lines(text_of(message).as_deref(), extent));
    out
}

fn content_lines(content: Option<&str>, extent: Extent) -> String {
    content.map_or_else(String::new, |content| format!("Content:\n{}\n", cut(content, extent)))
}

/// The beginning of a text, made safe to print, with the length of the whole text if it was cut.
fn cut(text: &str, extent: Extent) -> String {
    if extent == Extent::Whole {
        return harmless_lines(text);
    }
    match text.char_indices().nth(CONTENT_CHARS) {
        None => harmless_lines(text),
        Some((end, _)) => {
            let total = text.chars().count();
            format!("{}... ({total} chars total)", harmless_lines(&text[..end]))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// B1: a text is cut between characters and counted in characters.
    #[test]
    fn a_cut_never_splits_a_character() {
        let cut = |text: &str| super::cut(text, Extent::Beginning);
        assert_eq!(cut(&"é".repeat(500)), "é".repeat(500));
        for letter in ["a", "é", "語", "🦀"] {
            let shown = cut(&letter.repeat(501));
            assert_eq!(shown, format!("{}... (501 chars total)", letter.repeat(500)));
        }
        // A character that spans byte 500.
        let text = format!("{}語{}", "a".repeat(499), "b".repeat(100));
        assert!(cut(&text).starts_with(&format!("{}語... (600", "a".repeat(499))));
    }
}
