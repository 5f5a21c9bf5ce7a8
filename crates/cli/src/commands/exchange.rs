//! Shows the last exchange and the unanswered calls before `resume` continues a conversation.

use std::sync::Arc;

use rejoin::{
    Message,
    record::{Block, Role},
    resume::OpenCall,
};

use crate::output::{harmless, harmless_lines};

/// How many lines of a message are shown, and how many characters of each: enough to recognise it.
const LINES: usize = 6;
const WIDTH: usize = 160;

const ARGUMENTS: usize = 80;

const CALLS: usize = 10;

/// Lists calls, one per line.
pub fn listed(calls: &[OpenCall]) -> Vec<String> {
    let line = |call: &OpenCall| {
        let arguments = shortened(&call.arguments, ARGUMENTS);
        format!("{} {arguments}", harmless(&call.name)).trim_end().to_owned()
    };
    let mut lines: Vec<String> = calls.iter().take(CALLS).map(line).collect();
    if calls.len() > CALLS {
        lines.push(format!("and {} more", calls.len() - CALLS));
    }
    lines
}

/// The last text of the user and the model's answer to it, if they have text.
pub fn last(messages: &[Arc<Message>]) -> Vec<(&'static str, String)> {
    let asked = messages.iter().rposition(|message| message.role == Role::User && text_of(message).is_some());
    let from = asked.unwrap_or(0);
    let answered = messages[from..]
        .iter()
        .rfind(|message| message.role == Role::Assistant)
        .and_then(|message| text_of(message));
    let asked = asked.and_then(|place| text_of(&messages[place]));
    [("you", asked), ("model", answered)].into_iter().filter_map(|(who, text)| Some((who, text?))).collect()
}

/// The first lines of a message.
pub fn excerpt(text: &str) -> Vec<String> {
    let text = harmless_lines(text);
    let all: Vec<&str> = text.trim().lines().collect();
    let mut lines: Vec<String> = all.iter().take(LINES).map(|line| shortened_line(line, WIDTH)).collect();
    if all.len() > LINES {
        lines.push(format!("… ({} more lines)", all.len() - LINES));
    }
    lines
}

fn text_of(message: &Message) -> Option<String> {
    let texts: Vec<&str> =
        message.blocks.iter().filter_map(Block::as_text).map(|text| text.as_str()).collect();
    let text = texts.join("\n");
    (!text.trim().is_empty()).then_some(text)
}

/// The beginning of a text, on one line.
pub fn shortened(text: &str, most: usize) -> String {
    shortened_line(&harmless(&text.split_whitespace().collect::<Vec<_>>().join(" ")), most)
}

pub fn shortened_line(line: &str, most: usize) -> String {
    let short: String = line.chars().take(most).collect();
    if short.len() < line.len() { format!("{short}…") } else { short }
}
