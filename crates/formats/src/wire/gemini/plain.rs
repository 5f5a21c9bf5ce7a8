//! Calls and results without any repair: see `wire/plain.rs`.

use serde_json::{Value, json};

use crate::wire::plain::{Pair, PlainList, Turn, WORD};

/// Adds the message of a turn. Gemini CLI puts a text of the model between results at the end and the next prompt.
pub(super) fn write(turn: &Turn, list: &mut PlainList) {
    let ends = list.items.last().is_some_and(|last| !last["parts"][0]["functionResponse"].is_null());
    if ends && turn.place.is_none() && turn.says {
        list.push(json!({"role": "model", "parts": [{"text": WORD}]}), None);
    }
    let result = |result: &Pair| json!({"functionResponse": {"id": result.id, "name": result.name, "response": {"output": WORD}}});
    let call = |call: &Pair| json!({"functionCall": {"id": call.id, "name": call.name, "args": {}}});
    let mut parts: Vec<Value> = turn.results.iter().map(result).collect();
    parts.extend(turn.says.then(|| json!({"text": WORD})));
    parts.extend(turn.calls.iter().map(call));
    list.join(turn, ["user", "model"], "parts", parts);
}
