//! Calls and results without any repair: see `wire/plain.rs`.

use serde_json::{Value, json};

use crate::wire::plain::{Pair, PlainList, Turn, WORD};

/// Adds the messages of a turn.
pub(super) fn write(turn: &Turn, list: &mut PlainList) {
    for result in &turn.results {
        list.push(json!({"role": "tool", "tool_call_id": result.id, "content": WORD}), turn.place);
    }
    let content = if turn.says { json!(WORD) } else { Value::Null };
    if !turn.calls.is_empty() {
        let call = |call: &Pair| {
            let function = json!({"name": call.name, "arguments": "{}"});
            json!({"id": call.id, "type": "function", "function": function})
        };
        let calls: Vec<Value> = turn.calls.iter().map(call).collect();
        list.push(json!({"role": "assistant", "content": content, "tool_calls": calls}), turn.place);
    } else if turn.says {
        let role = if turn.by_model { "assistant" } else { "user" };
        list.push(json!({"role": role, "content": content}), turn.place);
    }
}
