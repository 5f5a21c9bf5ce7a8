//! What the tool `recall` returns: messages of the path that a view may no longer show, by their numbers or by words in them.

use rejoin_record::{Content, Entry, Tree};
use rejoin_view::{path::is_numbered, window::told};

use super::Worker;
use crate::tools::{ToolOutput, recall};

/// The matches that one call returns.
const MATCHES: usize = 12;

/// The bytes that are shown around a match, on each side.
const AROUND: usize = 400;

impl Worker {
    /// The output of a call of `recall`.
    pub(super) fn recalled(&self, arguments: &str) -> ToolOutput {
        match recall::wanted(arguments) {
            Err(output) => output,
            Ok(wanted) => self.found(&wanted).unwrap_or_else(|output| output),
        }
    }

    fn found(&self, wanted: &recall::Wanted) -> Result<ToolOutput, ToolOutput> {
        let unreadable = |why| ToolOutput::error(format!("the conversation cannot be read just now: {why}"));
        let mut numbered = numbered(&self.conversation.all_entries().map_err(unreadable)?);
        if matches!(wanted, recall::Wanted::Query(_)) {
            // The call that asks is the newest message, and holds every word.
            numbered.pop();
        }
        Ok(output(numbered, wanted))
    }
}

/// What a call of `recall` with these arguments returns about a conversation that it is no part of.
pub fn recalled_from(entries: &[Entry], arguments: &str) -> ToolOutput {
    recall::wanted(arguments).map_or_else(|output| output, |wanted| output(numbered(entries), &wanted))
}

fn output(numbered: Vec<(usize, String)>, wanted: &recall::Wanted) -> ToolOutput {
    match wanted {
        recall::Wanted::Message(number) => message_numbered(&numbered, *number),
        recall::Wanted::Query(query) => messages_with(numbered, query),
    }
}

/// The messages of the path in the order of their numbers. Commands and summaries have numbers too.
fn numbered(entries: &[Entry]) -> Vec<(usize, String)> {
    let path = Tree::new(entries).path().0;
    let mut numbered = Vec::new();
    let mut next = 0;
    for entry in path {
        let content = Content::of(entry);
        if !is_numbered(entry, &content) {
            continue;
        }
        match content {
            Content::Message(message) => numbered.push((next, told(&message))),
            Content::Compacted(compacted) => numbered.push((next, compacted.summary.to_string())),
            _ => {}
        }
        next += 1;
    }
    numbered
}

fn message_numbered(numbered: &[(usize, String)], number: usize) -> ToolOutput {
    match numbered.iter().find(|(own, _)| *own == number) {
        Some((_, text)) => ToolOutput::of(format!("message {number}:\n{text}")),
        None => {
            let last = numbered.last().map_or(0, |(last, _)| *last);
            ToolOutput::error(format!("there is no message {number}: the numbers go from 0 to {last}"))
        }
    }
}

fn messages_with(numbered: Vec<(usize, String)>, query: &str) -> ToolOutput {
    let words: Vec<String> = query.split_whitespace().map(str::to_lowercase).collect();
    let mut found: Vec<(usize, usize, String)> = Vec::new();
    for (number, text) in numbered {
        let lower = text.to_lowercase();
        let whole = lower.find(&query.to_lowercase());
        let count = words.iter().filter(|word| lower.contains(word.as_str())).count();
        if count == 0 {
            continue;
        }
        let rarest = words.iter().filter(|word| lower.contains(word.as_str())).max_by_key(|word| word.len());
        let at = whole.or_else(|| lower.find(rarest?.as_str())).unwrap_or(0);
        let score = count + if whole.is_some() { words.len() } else { 0 };
        found.push((score, number, around(&text, at)));
    }
    if found.is_empty() {
        return ToolOutput::of(format!("no message contains any of these words: {query}"));
    }
    // The best matches first, and of equal ones the newest.
    found.sort_by_key(|(score, number, _)| std::cmp::Reverse((*score, *number)));
    let more = found.len().saturating_sub(MATCHES);
    let shown = found.into_iter().take(MATCHES).map(|(_, number, text)| format!("message {number}: {text}"));
    let mut out = shown.collect::<Vec<_>>().join("\n\n");
    if more > 0 {
        out.push_str(&format!("\n\n[{more} more messages contain some of these words: use more of them]"));
    }
    ToolOutput::of(out)
}

/// The part of a text around a place.
fn around(text: &str, at: usize) -> String {
    let at = at.min(text.len());
    let start = text.floor_char_boundary(at.saturating_sub(AROUND));
    let end = text.ceil_char_boundary((at + AROUND).min(text.len()));
    let before = if start > 0 { "… " } else { "" };
    let after = if end < text.len() { " …" } else { "" };
    format!("{before}{}{after}", &text[start..end])
}
