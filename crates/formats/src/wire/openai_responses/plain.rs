//! Calls and results without any repair: see `wire/plain.rs`.

use serde_json::json;

use crate::wire::plain::{PlainList, Turn, WORD};

/// Adds the items of a turn.
pub(super) fn write(turn: &Turn, list: &mut PlainList) {
    for result in &turn.results {
        let item = json!({"type": "function_call_output", "call_id": result.id, "output": WORD});
        list.push(item, turn.place);
    }
    if turn.says {
        let (role, kind) = if turn.by_model { ("assistant", "output_text") } else { ("user", "input_text") };
        let content = json!([{"type": kind, "text": WORD}]);
        list.push(json!({"type": "message", "role": role, "content": content}), turn.place);
    }
    for call in &turn.calls {
        let item = json!({"type": "function_call", "call_id": call.id, "name": call.name, "arguments": "{}"});
        list.push(item, turn.place);
    }
}
