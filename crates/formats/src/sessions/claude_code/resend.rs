//! What Claude Code sends when it resumes a transcript. It joins what one side said in a row, answers calls that have no
//! result with an error, and leaves out results that answer no call of the message before them. Texts go out as they are.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::{
    session::Session,
    sessions::resend::{Resent, natives, next_word},
};

/// The messages that Claude Code would send, and a word to go on with.
#[must_use]
pub fn resend(session: &Session) -> Resent {
    let mut resent = Resent::default();
    let mut called: Vec<String> = Vec::new();
    for (place, message) in session.messages.iter().enumerate() {
        for mut line in natives(message) {
            let mut spoken = line.get_mut("message").map_or(Value::Null, Value::take);
            let role = spoken["role"].as_str().unwrap_or_default().to_owned();
            let mut blocks = blocks_of(spoken["content"].take());
            if role == "user" {
                let answers = |block: &Value| called.iter().any(|id| block["tool_use_id"] == id.as_str());
                blocks.retain(|block| block["type"] != "tool_result" || answers(block));
            }
            let joined = resent.list.last().is_some_and(|last| last["role"] == role.as_str());
            if !joined && role == "user" && !called.is_empty() {
                answer(&called, &mut blocks);
            }
            if joined {
                let last = resent.list.last_mut().and_then(|last| last["content"].as_array_mut());
                if let Some(last) = last {
                    last.extend(blocks);
                    // Results come first, whatever line they were on.
                    last.sort_by_key(|block| role == "user" && block["type"] != "tool_result");
                }
            } else {
                resent.push(json!({"role": role, "content": blocks}), Some(place));
            }
            if role == "assistant" {
                let last = resent.list.last().and_then(|last| last["content"].as_array());
                let calls = last.into_iter().flatten().filter(|block| block["type"] == "tool_use");
                called = calls.filter_map(|call| Some(call["id"].as_str()?.to_owned())).collect();
            }
        }
    }
    let mut next = blocks_of(next_word()["content"].take());
    match resent.list.last_mut() {
        Some(last) if last["role"] == "user" => {
            if let Some(content) = last["content"].as_array_mut() {
                content.extend(next);
            }
        }
        _ => {
            answer(&called, &mut next);
            resent.push(json!({"role": "user", "content": next}), None);
        }
    }
    resent
}

/// A content as blocks.
fn blocks_of(content: Value) -> Vec<Value> {
    match content {
        Value::Array(blocks) => blocks,
        Value::String(text) => vec![json!({"type": "text", "text": text})],
        _ => Vec::new(),
    }
}

/// Puts an error before the blocks for each call that none of them answers, and only the first answer of each call.
fn answer(called: &[String], blocks: &mut Vec<Value>) {
    let mut answered: HashSet<String> = HashSet::new();
    blocks.retain(|block| {
        block["type"] != "tool_result"
            || block["tool_use_id"].as_str().is_some_and(|id| answered.insert(id.to_owned()))
    });
    let missing = called.iter().filter(|id| !answered.contains(*id));
    let errors: Vec<Value> = missing
        .map(|id| json!({"type": "tool_result", "tool_use_id": id, "content": "missing", "is_error": true}))
        .collect();
    blocks.splice(0..0, errors);
}
