//! What Claude Code sends when it resumes a transcript, as seen with version 2.1.325: it joins what one side said in a row,
//! answers calls that have no result with an error, and leaves out results that answer no call of the message before them,
//! second results, and blank texts of the assistant. Everything else goes out as it was recorded.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::{
    session::Session,
    sessions::resend::{ResentMessages, natives, next_word},
};

/// The messages that Claude Code would send, followed by a prompt to continue.
pub(crate) fn resend(session: &Session) -> ResentMessages {
    let mut resent = ResentMessages::default();
    for (place, spoken) in natives(session, &mut resent.bytes, |line| line.get("message"), Some) {
        say(&mut resent, spoken, Some(place));
    }
    say(&mut resent, next_word(), None);
    let mut called = Vec::new();
    for message in &mut resent.list {
        let user = message["role"] == "user";
        let Some(blocks) = message["content"].as_array_mut() else { continue };
        if user {
            answer(&called, blocks);
        } else {
            let calls = blocks.iter().filter(|block| block["type"] == "tool_use");
            called = calls.filter_map(|call| Some(call["id"].as_str()?.to_owned())).collect();
        }
    }
    resent
}

/// Adds a message, or joins it with the one before.
fn say(resent: &mut ResentMessages, mut spoken: Value, place: Option<usize>) {
    let role = spoken["role"].take();
    let mut blocks = match spoken["content"].take() {
        Value::Array(blocks) => blocks,
        Value::String(text) => vec![json!({"type": "text", "text": text})],
        _ => Vec::new(),
    };
    if role == "assistant" {
        let blank = |block: &Value| block["text"].as_str().is_some_and(|text| text.trim().is_empty());
        blocks.retain(|block| block["type"] != "text" || !blank(block));
    }
    // Empty results are sent as they are, and conversations have been seen to continue after them.
    let empty = |block: &Value| block["type"] == "tool_result" && block["content"] == "";
    for block in blocks.iter_mut().filter(|block| empty(block)).filter_map(Value::as_object_mut) {
        block.remove("content");
    }
    let before = resent.list.last_mut().filter(|last| last["role"] == role);
    match before.and_then(|last| last["content"].as_array_mut()) {
        Some(before) => before.extend(blocks),
        None if blocks.is_empty() => {}
        None => resent.push(json!({"role": role, "content": blocks}), place),
    }
}

/// Leaves one answer to each call in a content, before everything else.
fn answer(called: &[String], blocks: &mut Vec<Value>) {
    let mut answered: HashSet<String> = HashSet::new();
    blocks.retain(|block| {
        let id = block["tool_use_id"].as_str().unwrap_or_default();
        let answers = called.iter().any(|call| call == id) && answered.insert(id.to_owned());
        block["type"] != "tool_result" || answers
    });
    let missing = called
        .iter()
        .filter(|id| !answered.contains(*id))
        .map(|id| json!({"type": "tool_result", "tool_use_id": id, "content": "missing", "is_error": true}));
    blocks.splice(0..0, missing.collect::<Vec<_>>());
    blocks.sort_by_key(|block| block["type"] != "tool_result");
}
