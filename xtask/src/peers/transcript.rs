//! Compares Claude Code's request to its provider with the transcript that it resumed and with the original texts.
//!
//! Claude Code leaves out what it cannot use, answers open calls, and adds its own texts around and between messages. So a sent
//! request proves little: it must contain everything of the transcript, in order, and no call or result that is not in the
//! transcript.

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::conversations::{ExpectedText, Speaker, lost};

/// The text that Claude Code inserts for a missing answer at the end.
const STAND_IN: &str = "No response requested.";

/// A part of a message that reaches a model.
#[derive(Debug, Clone, PartialEq)]
enum Piece {
    Text(Speaker, String),
    Call(Value),
    Result(Value, String),
}

/// The faults in a request that Claude Code made from a transcript.
pub fn problems(transcript: &str, said: &[ExpectedText], prompt: &str, request: &str) -> Vec<String> {
    let sent = match serde_json::from_str::<Value>(request) {
        Ok(body) => pieces(body["messages"].as_array().into_iter().flatten()),
        Err(error) => return vec![format!("the request is no JSON: {error}")],
    };
    let lines: Vec<Value> = transcript.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let written = pieces(lines.iter().map(|line| &line["message"]));
    let mut problems = Vec::new();
    // Everything in the transcript must be sent, in order.
    let mut rest = sent.iter();
    let missing = |piece: &&Piece| !rest.any(|sent| is_in(piece, sent));
    if let Some(piece) = written.iter().find(missing) {
        problems.push(format!(
            "the transcript has this, and the request has not, or not in its place: {piece:?}"
        ));
    }
    // And nothing that the transcript does not contain.
    let made_up = sent.iter().filter(|piece| match piece {
        Piece::Text(Speaker::Assistant, text) => {
            text != STAND_IN && !written.iter().any(|own| is_in(own, piece))
        }
        Piece::Text(..) => false,
        Piece::Call(_) | Piece::Result(..) => !written.contains(piece),
    });
    problems.extend(made_up.map(|piece| format!("Claude Code made this up: {piece:?}")));
    let texts = sent.iter().filter_map(|piece| match piece {
        Piece::Text(speaker, text) => Some((*speaker, text.as_str())),
        _ => None,
    });
    let texts: Vec<(Speaker, &str)> = texts.collect();
    problems.extend(lost(said, &texts));
    let last = texts.iter().rfind(|(speaker, _)| *speaker == Speaker::User).map(|(_, text)| *text);
    if last != Some(prompt) {
        problems.push(format!("the request ends with {last:?} and not with the prompt"));
    }
    problems
}

/// The request with only the transcript's content, for a checker that does not know the program's own fields.
pub fn plain(request: &str) -> Result<String> {
    let body: Value = serde_json::from_str(request).context("a request of Claude Code")?;
    let messages: Vec<&Value> = body["messages"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|message| message["role"] != "system")
        .collect();
    let blocks = messages.iter().flat_map(|message| message["content"].as_array().into_iter().flatten());
    let mut names: Vec<&str> = blocks.filter_map(|block| block["name"].as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let tools: Vec<Value> =
        names.iter().map(|name| json!({"name": name, "input_schema": {"type": "object"}})).collect();
    Ok(json!({"model": "claude-opus-4-5", "max_tokens": 1000, "tools": tools, "messages": messages})
        .to_string())
}

fn pieces<'m>(messages: impl Iterator<Item = &'m Value>) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for message in messages {
        let speaker = match message["role"].as_str() {
            Some("user") => Speaker::User,
            Some("assistant") => Speaker::Assistant,
            _ => continue,
        };
        if let Some(text) = message["content"].as_str() {
            pieces.push(Piece::Text(speaker, text.trim().to_owned()));
        }
        for block in message["content"].as_array().into_iter().flatten() {
            match block["type"].as_str() {
                Some("text") => {
                    pieces.push(Piece::Text(
                        speaker,
                        block["text"].as_str().unwrap_or_default().trim().to_owned(),
                    ));
                }
                Some("tool_use") => {
                    pieces.push(Piece::Call(json!([block["id"], block["name"], block["input"]])));
                }
                Some("tool_result") => {
                    pieces.push(Piece::Result(block["tool_use_id"].clone(), words(&block["content"])));
                }
                // Reasoning and images may be treated in any way.
                _ => {}
            }
        }
    }
    pieces
}

/// The text of a result.
fn words(content: &Value) -> String {
    let parts = content.as_array().into_iter().flatten().filter_map(|part| part["text"].as_str());
    content.as_str().into_iter().chain(parts).collect::<Vec<_>>().join("\n").trim().to_owned()
}

/// Whether a written piece is in a sent one. A text may be part of a longer one.
fn is_in(written: &Piece, sent: &Piece) -> bool {
    match (written, sent) {
        (Piece::Text(who, text), Piece::Text(speaker, all)) => who == speaker && all.contains(text.as_str()),
        _ => written == sent,
    }
}

#[cfg(test)]
mod tests;
