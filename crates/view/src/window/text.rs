//! Texts about messages: shortened ones, a transcript, and a summary that needs no model.

use std::{fmt::Write as _, sync::Arc};

use rejoin_record::{Block, BlockKind, Message, text::plural};

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

/// A conversation as plain text, for a model that reads it without taking part. Each message is shortened to at most `longest`
/// tokens.
#[must_use]
pub fn transcript(messages: &[Arc<Message>], longest: u64, counter: &TokenCounter) -> Vec<String> {
    messages.iter().map(|message| middle_left_out(&message_text(message), longest, counter)).collect()
}

/// A message as plain text, with its calls and results.
#[must_use]
pub fn message_text(message: &Message) -> String {
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
            // Reasoning is not part of the conversation's text.
            BlockKind::Reasoning(_) | BlockKind::Opaque(_) => Ok(()),
        };
    }
    out
}

/// The summary that a list of messages continues.
#[derive(Debug, Clone, Copy, Default)]
pub struct EarlierSummary<'t> {
    /// Its text.
    pub text: &'t str,
    /// The byte at which its list begins, if it has one. The text before that was written by a model or a person, and is not taken
    /// apart, whatever it says.
    pub list_at: Option<usize>,
    /// The number of messages that it only counts.
    pub unlisted: u64,
}

impl<'t> EarlierSummary<'t> {
    /// The text before the list, and the lines of the list.
    fn parts(self) -> (&'t str, impl Iterator<Item = &'t str>) {
        let parts = self.list_at.and_then(|at| self.text.split_at_checked(at));
        let (written, list) = parts.unwrap_or((self.text, ""));
        // The first line is the heading. The next one counts messages that are not listed, if there are any.
        let heading = 1 + usize::from(self.unlisted > 0);
        (written, list.split('\n').skip(heading).map(|line| line.strip_prefix(BULLET).unwrap_or(line)))
    }
}

/// A summary that no model wrote: one line per message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// Its text.
    pub text: String,
    /// The byte of the text at which the list begins.
    pub list_at: usize,
    /// The number of messages that are only counted, because their lines did not fit.
    pub unlisted: u64,
}

/// Lists `messages` after `earlier`, the summary so far. If a model wrote that summary, its text stays, in at most half of the room.
/// The list takes about `tokens`. If the lines do not fit, all of them become shorter; if that is not enough, the oldest are only
/// counted.
#[must_use]
pub fn listing(
    earlier: EarlierSummary<'_>,
    messages: &[Arc<Message>],
    tokens: u64,
    counter: &TokenCounter,
) -> Listing {
    let (written, listed) = earlier.parts();
    let mut text = middle_left_out(written.trim_end(), tokens / 2, counter);
    if !text.is_empty() {
        text.push_str("\n\n");
    }
    let list_at = text.len();
    text.push_str(LISTED);
    let in_one_line =
        |message: &Arc<Message>| message_text(message).split_whitespace().collect::<Vec<_>>().join(" ");
    let lines: Vec<String> = listed.map(str::to_owned).chain(messages.iter().map(in_one_line)).collect();
    let left = tokens.saturating_sub(counter.text(&text));
    let (shortest, longer) = LINES.split_last().expect("BUG: there are lengths of lines");
    let fitting = longer.iter().find_map(|bytes| {
        let items = newest_items(&lines, *bytes, left, counter);
        (items.len() == lines.len()).then_some(items)
    });
    let items = fitting.unwrap_or_else(|| newest_items(&lines, *shortest, left, counter));
    let unlisted = earlier.unlisted + (lines.len() - items.len()) as u64;
    if unlisted > 0 {
        // Writing to a string cannot fail.
        let _ =
            write!(text, "\n({} not listed; recall finds everything.)", plural(unlisted, "older message"));
    }
    text.extend(items.iter().rev().map(String::as_str));
    Listing { text, list_at, unlisted }
}

/// The newest lines that fit, as items of a list, newest first, each shortened to `bytes`.
fn newest_items(lines: &[String], bytes: usize, tokens: u64, counter: &TokenCounter) -> Vec<String> {
    let mut left = tokens;
    let mut items = Vec::new();
    for line in lines.iter().rev() {
        let end = line.floor_char_boundary(bytes);
        let item = format!("\n{BULLET}{}{}", &line[..end], if end < line.len() { " …" } else { "" });
        let Some(rest) = left.checked_sub(counter.text(&item)) else { break };
        left = rest;
        items.push(item);
    }
    items
}

/// The line before the list.
const LISTED: &str = "Earlier messages were summarized without a model. What was said, in short:";

/// The beginning of each line of the list.
const BULLET: &str = "- ";

/// The possible lengths of lines, in bytes: the first with which all lines fit, or else the last.
const LINES: [usize; 4] = [160, 100, 60, 40];
