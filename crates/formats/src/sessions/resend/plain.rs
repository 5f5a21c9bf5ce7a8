//! Calls and results as a dialect writes them, without any repair, with a word in place of each text. The encoders of dialects only
//! write what is sound, and here the question is what a provider says to what is not.

use serde_json::{Value, json};

use super::Resent;
use crate::wire::registry::Dialect;

/// A message, as far as calls and results are concerned.
#[derive(Debug, Clone, Default)]
pub(super) struct Turn {
    /// The message of the session that it comes from; none for what an agent adds.
    pub place: Option<usize>,
    /// Whether the model said it.
    pub by_model: bool,
    /// Whether there is anything in it besides calls and results.
    pub says: bool,
    pub calls: Vec<Pair>,
    pub results: Vec<Pair>,
}

impl Turn {
    pub(super) fn is_empty(&self) -> bool {
        !self.says && self.calls.is_empty() && self.results.is_empty()
    }
}

/// A call or a result. The two halves of a pair are equal.
#[derive(Debug, Clone)]
pub(super) struct Pair {
    pub id: String,
    name: String,
}

impl Pair {
    pub(super) fn new(id: &str, name: &str) -> Self {
        // Only results may be without a name, and dialects that want one there do not compare it with other names.
        Self { id: id.to_owned(), name: if name.is_empty() { WORD.to_owned() } else { name.to_owned() } }
    }
}

impl PartialEq for Pair {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

/// Stands for a text.
const WORD: &str = "text";

/// Writes messages in a dialect. None if it is not written here.
pub(super) fn write(turns: &[Turn], dialect: Dialect) -> Option<Resent> {
    let mut resent = Resent::default();
    for turn in turns {
        match dialect {
            Dialect::OpenAiChat => chat(turn, &mut resent),
            Dialect::OpenAiResponses => responses(turn, &mut resent),
            Dialect::Anthropic => {
                joined(&mut resent, turn, ["user", "assistant"], "content", anthropic(turn));
            }
            Dialect::Gemini => {
                // Gemini CLI puts a text of the model between results at the end and the next prompt.
                let ends =
                    resent.list.last().is_some_and(|last| !last["parts"][0]["functionResponse"].is_null());
                if ends && turn.place.is_none() && turn.says {
                    resent.push(json!({"role": "model", "parts": [{"text": WORD}]}), None);
                }
                joined(&mut resent, turn, ["user", "model"], "parts", gemini(turn));
            }
            _ => return None,
        }
    }
    Some(resent)
}

fn chat(turn: &Turn, resent: &mut Resent) {
    for result in &turn.results {
        resent.push(json!({"role": "tool", "tool_call_id": result.id, "content": WORD}), turn.place);
    }
    let content = if turn.says { json!(WORD) } else { Value::Null };
    if !turn.calls.is_empty() {
        let call = |call: &Pair| {
            let function = json!({"name": call.name, "arguments": "{}"});
            json!({"id": call.id, "type": "function", "function": function})
        };
        let calls: Vec<Value> = turn.calls.iter().map(call).collect();
        resent.push(json!({"role": "assistant", "content": content, "tool_calls": calls}), turn.place);
    } else if turn.says {
        let role = if turn.by_model { "assistant" } else { "user" };
        resent.push(json!({"role": role, "content": content}), turn.place);
    }
}

fn responses(turn: &Turn, resent: &mut Resent) {
    for result in &turn.results {
        let item = json!({"type": "function_call_output", "call_id": result.id, "output": WORD});
        resent.push(item, turn.place);
    }
    if turn.says {
        let (role, kind) = if turn.by_model { ("assistant", "output_text") } else { ("user", "input_text") };
        let content = json!([{"type": kind, "text": WORD}]);
        resent.push(json!({"type": "message", "role": role, "content": content}), turn.place);
    }
    for call in &turn.calls {
        let item = json!({"type": "function_call", "call_id": call.id, "name": call.name, "arguments": "{}"});
        resent.push(item, turn.place);
    }
}

fn anthropic(turn: &Turn) -> Vec<Value> {
    let result = |result: &Pair| json!({"type": "tool_result", "tool_use_id": result.id, "content": WORD});
    let call = |call: &Pair| json!({"type": "tool_use", "id": call.id, "name": call.name, "input": {}});
    let mut blocks: Vec<Value> = turn.results.iter().map(result).collect();
    blocks.extend(turn.says.then(|| json!({"type": "text", "text": WORD})));
    blocks.extend(turn.calls.iter().map(call));
    blocks
}

fn gemini(turn: &Turn) -> Vec<Value> {
    let result = |result: &Pair| json!({"functionResponse": {"id": result.id, "name": result.name, "response": {"output": WORD}}});
    let call = |call: &Pair| json!({"functionCall": {"id": call.id, "name": call.name, "args": {}}});
    let mut parts: Vec<Value> = turn.results.iter().map(result).collect();
    parts.extend(turn.says.then(|| json!({"text": WORD})));
    parts.extend(turn.calls.iter().map(call));
    parts
}

/// Adds blocks to the message before if the same side said it: these providers read messages of one side in a row as one.
fn joined(resent: &mut Resent, turn: &Turn, roles: [&str; 2], field: &str, blocks: Vec<Value>) {
    let role = roles[usize::from(turn.by_model)];
    let before = resent.list.last_mut().filter(|last| last["role"] == role);
    match before.and_then(|last| last[field].as_array_mut()) {
        Some(before) => before.extend(blocks),
        None => resent.push(json!({"role": role, field: blocks}), turn.place),
    }
}
