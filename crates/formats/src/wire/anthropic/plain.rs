//! Calls and results without any repair: see `wire/plain.rs`.

use serde_json::{Value, json};

use crate::wire::plain::{Pair, PlainList, Turn, WORD};

/// Adds the message of a turn.
pub(super) fn write(turn: &Turn, list: &mut PlainList) {
    let result = |result: &Pair| json!({"type": "tool_result", "tool_use_id": result.id, "content": WORD});
    let call = |call: &Pair| json!({"type": "tool_use", "id": call.id, "name": call.name, "input": {}});
    let mut blocks: Vec<Value> = turn.results.iter().map(result).collect();
    blocks.extend(turn.says.then(|| json!({"type": "text", "text": WORD})));
    blocks.extend(turn.calls.iter().map(call));
    list.join(turn, ["user", "assistant"], "content", blocks);
}
