//! Texts about messages: shortened ones, a transcript, and a summary that needs no model.

use std::{fmt::Write as _, sync::Arc};

use rejoin_record::{Block, BlockKind, Message};

use crate::{TokenCounter, sound::arguments_in_brief};

/// Shortens a text to at most `tokens` by leaving out its middle.
#[must_use]
pub fn middle_left_out(text: &str, tokens: u64, counter: &TokenCounter) -> String {
    let all = counter.text(text);
    if all <= tokens {
        return text.to_owned();
    }
    let marker = |characters: usize| format!("\n[... {characters} characters truncated ...]\n");
    let room = tokens.saturating_sub(counter.text(&marker(text.len())));
    // Start from the average length of a token, and shorten until it fits: the density of a text varies.
    let mut bytes = (text.len() as f64 * room as f64 / all as f64) as usize;
    loop {
        let head = text.floor_char_boundary(bytes / 2);
        let tail = text.ceil_char_boundary(text.len() - bytes / 2).max(head);
        let short = format!("{}{}{}", &text[..head], marker(text[head..tail].chars().count()), &text[tail..]);
        if bytes == 0 || counter.text(&short) <= tokens {
            return short;
        }
        bytes = bytes * 9 / 10;
    }
}

/// A conversation as plain text, for a model that reads it rather than takes part. Each message is shortened to at most `longest` tokens.
#[must_use]
pub fn transcript(messages: &[Arc<Message>], longest: u64, counter: &TokenCounter) -> Vec<String> {
    messages.iter().map(|message| middle_left_out(&told(message), longest, counter)).collect()
}

/// A message as plain text, with its calls and results.
#[must_use]
pub fn told(message: &Message) -> String {
    let mut out = format!("{}:", message.role.as_str());
    for block in &message.blocks {
        // Writing to a string cannot fail.
        let _ = match &block.kind {
            BlockKind::Text(text) => write!(out, "\n{text}"),
            BlockKind::ToolCall(call) => {
                write!(out, "\n[calls {} {}]", call.name, arguments_in_brief(&call.arguments))
            }
            BlockKind::ToolResult(result) => {
                let texts: Vec<&str> =
                    result.content.iter().filter_map(Block::as_text).map(|text| text.as_str()).collect();
                write!(out, "\n[result] {}", texts.join("\n"))
            }
            BlockKind::Image(_) => write!(out, "\n[an image]"),
            BlockKind::Document(_) => write!(out, "\n[a document]"),
            // Reasoning is the model's own, and not part of what was said.
            BlockKind::Reasoning(_) | BlockKind::Opaque(_) => Ok(()),
        };
    }
    out
}

/// A summary that no model wrote: the first line of everything that was said, as much of it as fits. `earlier` is the summary of this kind
/// that it continues.
#[must_use]
pub fn digest(
    earlier: Option<&str>,
    messages: &[Arc<Message>],
    tokens: u64,
    counter: &TokenCounter,
) -> String {
    const ITEM: &str = "\n- ";
    let earlier = earlier.filter(|text| text.contains(DIGEST)).map(|text| text.split(ITEM).skip(1));
    let mut lines: Vec<String> = earlier.into_iter().flatten().map(str::to_owned).collect();
    lines.extend(messages.iter().map(|message| {
        let line: String = told(message).split_whitespace().collect::<Vec<_>>().join(" ");
        let end = line.floor_char_boundary(LINE);
        format!("{}{}", &line[..end], if end < line.len() { " …" } else { "" })
    }));
    let mut out = format!("{DIGEST} What was said, in short:");
    let mut left = tokens.saturating_sub(counter.text(&out));
    // The newest lines are the ones that are still needed.
    let mut from = lines.len();
    while from > 0 {
        let size = counter.text(&lines[from - 1]) + 2;
        if size > left {
            break;
        }
        from -= 1;
        left -= size;
    }
    for line in &lines[from..] {
        out.push_str(ITEM);
        out.push_str(line);
    }
    out
}

/// How a summary of this kind begins.
const DIGEST: &str = "Earlier messages were summarized without a model.";

/// The bytes of one line.
const LINE: usize = 160;
