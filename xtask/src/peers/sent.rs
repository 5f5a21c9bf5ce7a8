//! Compares Codex's request to its provider with the rollout that it resumed and with the original texts.
//!
//! Codex repairs silently: it leaves out lines that it cannot read, answers open calls with `aborted` and drops orphans. So a sent
//! request proves little; it must match the rollout exactly.

use anyhow::{Context as _, Result};
use serde_json::{Map, Value, json};

use super::conversations::{ExpectedText, Speaker, lost};

/// The parts of a rollout that matter here.
pub struct Rollout {
    pub id: String,
    /// The rollout's provider. Codex resumes it with no other.
    pub provider: Option<String>,
    /// The items that a model should see, in order.
    items: Vec<Value>,
}

impl Rollout {
    pub fn read(text: &str) -> Result<Self> {
        let read = |(number, line)| {
            serde_json::from_str::<Value>(line).with_context(|| format!("line {}", number + 1))
        };
        let lines: Vec<Value> = text.lines().enumerate().map(read).collect::<Result<_>>()?;
        let meta = lines.first().filter(|line| line["type"] == "session_meta");
        let meta = &meta.context("the first line is no session_meta")?["payload"];
        let id = meta["id"].as_str().context("session_meta has no id")?.to_owned();
        let provider = meta["model_provider"].as_str().map(str::to_owned);
        let mut items = Vec::new();
        for line in &lines {
            let payload = &line["payload"];
            if line["type"] == "response_item" {
                items.push(payload.clone());
            } else if let Some(replacement) = payload["replacement_history"].as_array()
                && line["type"] == "compacted"
            {
                items = replacement.clone();
            }
        }
        Ok(Self { id, provider, items })
    }
}

/// The faults in a request that Codex made from a rollout.
pub fn problems(rollout: &Rollout, said: &[ExpectedText], prompt: &str, request: &str) -> Vec<String> {
    let body: Value = match serde_json::from_str(request) {
        Ok(body) => body,
        Err(error) => return vec![format!("the request is no JSON: {error}")],
    };
    let Some(input) = body["input"].as_array() else { return vec!["the request has no input".into()] };
    let mut problems: Vec<String> = not_as_written(rollout, input).into_iter().collect();
    problems.extend(unpaired(input));
    problems.extend(lost(said, &input.iter().flat_map(spoken).collect::<Vec<_>>()));
    let last = input.last().map(spoken).unwrap_or_default();
    if last.as_slice() != [(Speaker::User, prompt)] {
        problems.push("the request does not end with the prompt".into());
    }
    problems
}

/// The rollout's items must be in the request unchanged, in one piece. Codex puts instructions before and its own texts after;
/// anything else there, such as an output, was made up.
fn not_as_written(rollout: &Rollout, input: &[Value]) -> Option<String> {
    let written: Vec<Value> = rollout.items.iter().map(essence).collect();
    let sent: Vec<Value> = input.iter().map(essence).collect();
    if let Some(item) = written.iter().find(|item| !sent.contains(item)) {
        return Some(format!("the rollout has this item, the request has not: {item}"));
    }
    let as_written = (0..=sent.len() - written.len().min(sent.len())).any(|start| {
        let end = start + written.len();
        sent.get(start..end) == Some(&written)
            && sent[..start].iter().all(|item| item["role"] == "developer")
            && sent[end..].iter().all(|item| item["role"] == "developer" || item["role"] == "user")
    });
    (!as_written).then(|| "the items of the rollout are in the request, but not alone or not in order".into())
}

/// The fields of an item that reach a model, without ids, states and Codex's own fields.
fn essence(item: &Value) -> Value {
    const FIELDS: &str =
        "type role content name namespace arguments call_id output input summary encrypted_content action";
    let fields = FIELDS.split(' ').filter_map(|name| Some((name.to_owned(), distilled(item.get(name)?))));
    Value::Object(fields.filter(|(_, value)| !value.is_null()).collect())
}

/// A value without nulls and without the detail of images; images at addresses become the text with which Codex replaces them.
fn distilled(value: &Value) -> Value {
    match value {
        Value::Array(values) => Value::Array(values.iter().map(distilled).collect()),
        Value::Object(fields) if fields.get("type") == Some(&json!("input_image")) => {
            let url = fields.get("image_url").and_then(Value::as_str).unwrap_or_default();
            if url.starts_with("http") {
                json!({
                    "type": "input_text",
                    "text": "image content omitted because remote image URLs are not supported",
                })
            } else {
                json!({"type": "input_image", "image_url": url})
            }
        }
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(_, value)| !value.is_null());
            Value::Object(kept.map(|(name, value)| (name.clone(), distilled(value))).collect::<Map<_, _>>())
        }
        other => other.clone(),
    }
}

/// Outputs come directly after their group of calls. Between the calls of a group, only other items of one model reply may occur.
fn unpaired(input: &[Value]) -> Vec<String> {
    let mut problems = Vec::new();
    let mut open: Vec<(&str, &str)> = Vec::new();
    let mut answering = false;
    for item in input {
        let kind = item["type"].as_str().unwrap_or("message");
        let id = item["call_id"].as_str().unwrap_or_default();
        if let Some(answer) = answer_of(kind) {
            if answering && !open.is_empty() {
                problems.push(format!("call {id} comes before the outputs of {open:?}"));
            }
            answering = false;
            open.push((id, answer));
        } else if kind.ends_with("_output") {
            answering = true;
            match open.iter().position(|(call, answer)| *call == id && *answer == kind) {
                Some(at) => drop(open.remove(at)),
                None => problems.push(format!("{kind} {id} has no call directly before it")),
            }
        } else {
            let in_reply = kind == "reasoning" || item["role"] == "assistant";
            if !open.is_empty() && (answering || !in_reply) {
                problems.push(format!("{kind} stands between {open:?} and their outputs"));
                open.clear();
            }
        }
    }
    if !open.is_empty() {
        problems.push(format!("{open:?} have no output"));
    }
    problems
}

/// The kind of item that answers a kind of call in Codex. Searches and the like are answered elsewhere.
fn answer_of(kind: &str) -> Option<&'static str> {
    match kind {
        "function_call" | "local_shell_call" => Some("function_call_output"),
        "custom_tool_call" => Some("custom_tool_call_output"),
        _ => None,
    }
}

/// The texts in an item of the request, with their speaker.
fn spoken(item: &Value) -> Vec<(Speaker, &str)> {
    let speaker = match item["role"].as_str() {
        Some("user") => Speaker::User,
        Some("assistant") => Speaker::Assistant,
        Some(_) => Speaker::Instruction,
        None => return Vec::new(),
    };
    match &item["content"] {
        Value::String(text) => vec![(speaker, text.as_str())],
        Value::Array(parts) => {
            parts.iter().filter_map(|part| Some((speaker, part["text"].as_str()?))).collect()
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests;
