//! The output of the tool `recall`: messages of the path that a view may no longer show, by number or by words in them.

use rejoin_record::{Content, Entry, Tree};
use rejoin_view::{path::is_numbered, window::message_text};

use super::Worker;
use crate::tools::{ToolOutput, recall};

/// The most matches in one result.
const MATCHES: usize = 12;

/// How many bytes of text are shown on each side of a match.
const AROUND: usize = 400;

impl Worker {
    /// The output of a call of `recall`.
    pub(super) fn recalled(&self, arguments: &str) -> ToolOutput {
        match recall::wanted(arguments) {
            Err(output) => output,
            Ok(wanted) => self.found(&wanted).unwrap_or_else(|output| output),
        }
    }

    fn found(&self, wanted: &recall::RecallRequest) -> Result<ToolOutput, ToolOutput> {
        let unreadable = |why| ToolOutput::error(format!("the conversation cannot be read just now: {why}"));
        let mut numbered = numbered(&self.conversation.all_entries().map_err(unreadable)?);
        if matches!(wanted, recall::RecallRequest::Query(_)) {
            // Leave out the newest message: it is the recall itself, which contains every searched word.
            numbered.pop();
        }
        Ok(output(numbered, wanted, self.page()))
    }

    /// The most bytes of one message in an output. A page must be sent whole, so it may have at most as many bytes as the window
    /// has tokens, which is about a quarter of the window.
    fn page(&self) -> usize {
        let window = self.fitting_window().and_then(|window| usize::try_from(window).ok());
        page(self.settings.limits.tool.shown).min(window.unwrap_or(usize::MAX)).max(SHORTEST_PAGE)
    }
}

/// The fewest bytes in a page.
const SHORTEST_PAGE: usize = 1024;

/// The most bytes that an output has in addition to a page.
const AROUND_PAGE: usize = 256;

fn page(shown: usize) -> usize {
    shown.saturating_sub(AROUND_PAGE)
}

/// The output of `recall` with these arguments for a conversation that the caller only reads. A message is returned in pages, so that
/// an output with one takes at most `longest` bytes.
pub fn recalled_from(entries: &[Entry], arguments: &str, longest: usize) -> ToolOutput {
    recall::wanted(arguments).map_or_else(
        |output| output,
        |wanted| output(numbered(entries), &wanted, page(longest).max(SHORTEST_PAGE)),
    )
}

fn output(numbered: Vec<(usize, String)>, wanted: &recall::RecallRequest, page: usize) -> ToolOutput {
    match wanted {
        recall::RecallRequest::Message { number, from } => message_numbered(&numbered, *number, *from, page),
        recall::RecallRequest::Query(query) => messages_with(numbered, query),
    }
}

/// The messages of the path in the order of their numbers. Commands and summaries have numbers, too.
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
            Content::Message(message) => numbered.push((next, message_text(&message))),
            Content::Compacted(compacted) => numbered.push((next, compacted.summary.to_string())),
            _ => {}
        }
        next += 1;
    }
    numbered
}

fn message_numbered(numbered: &[(usize, String)], number: usize, from: usize, page: usize) -> ToolOutput {
    match numbered.iter().find(|(own, _)| *own == number) {
        Some((_, text)) if from == 0 && text.len() <= page => {
            ToolOutput::of(format!("message {number}:\n{text}"))
        }
        Some((_, text)) if from >= text.len() => {
            ToolOutput::error(format!("message {number} has only {} bytes", text.len()))
        }
        Some((_, text)) => {
            let start = text.floor_char_boundary(from);
            let end = text.floor_char_boundary(start.saturating_add(page).min(text.len()));
            let more = match text.len() - end {
                0 => String::new(),
                left => format!(
                    "\n[{left} more bytes: call recall with {{\"message\": {number}, \"from\": {end}}} to read on]"
                ),
            };
            let (length, text) = (text.len(), &text[start..end]);
            ToolOutput::of(format!("message {number}, bytes {start} to {end} of {length}:\n{text}{more}"))
        }
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
    // The best matches come first; of equal ones, the newest.
    found.sort_by_key(|(score, number, _)| std::cmp::Reverse((*score, *number)));
    let more = found.len().saturating_sub(MATCHES);
    let shown = found.into_iter().take(MATCHES).map(|(_, number, text)| format!("message {number}: {text}"));
    let mut out = shown.collect::<Vec<_>>().join("\n\n");
    if more > 0 {
        out.push_str(&format!("\n\n[{more} more messages contain some of these words: use more of them]"));
    }
    ToolOutput::of(out)
}

/// The part of a text around a position.
fn around(text: &str, at: usize) -> String {
    let at = at.min(text.len());
    let start = text.floor_char_boundary(at.saturating_sub(AROUND));
    let end = text.ceil_char_boundary((at + AROUND).min(text.len()));
    let before = if start > 0 { "… " } else { "" };
    let after = if end < text.len() { " …" } else { "" };
    format!("{before}{}{after}", &text[start..end])
}
