//! Looking into a finished request body, without any code of the product: which tokens stand where.

use std::collections::VecDeque;

use serde_json::Value;

/// A token that was found, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The token.
    pub token: String,
    /// The role of its message, or `system` for the field of that name.
    pub role: String,
    /// The call id that the text belongs to, for arguments and results.
    pub call_id: Option<String>,
}

/// Every token of a body, in order.
pub fn tokens(body: &str) -> Vec<Found> {
    let body: Value = parse(body);
    let mut found = Vec::new();
    if let Some(system) = body.get("system") {
        collect(system, "system", None, &mut found);
    }
    // Where calls have no ids, results follow in their order: the place of a call stands for its id.
    let mut waiting = VecDeque::new();
    for (place, message) in body["messages"].as_array().into_iter().flatten().enumerate() {
        let role = message["role"].as_str().unwrap_or("?").to_owned();
        let by_place: Option<String> = message.get("tool_name").and_then(|_| waiting.pop_front());
        let own = message["tool_call_id"].as_str().or(by_place.as_deref());
        match &message["content"] {
            Value::Array(blocks) => {
                for block in blocks {
                    let ids = [
                        &block["id"],
                        &block["tool_use_id"],
                        &block["toolUse"]["toolUseId"],
                        &block["toolResult"]["toolUseId"],
                    ];
                    let id = ids.iter().find_map(|id| id.as_str()).or(own);
                    collect(block, &role, id, &mut found);
                }
            }
            other => collect(other, &role, own, &mut found),
        }
        collect(&message["refusal"], &role, None, &mut found);
        for (call_place, call) in message["tool_calls"].as_array().into_iter().flatten().enumerate() {
            let by_place = format!("{place}.{call_place}");
            collect(call, &role, Some(call["id"].as_str().unwrap_or(&by_place)), &mut found);
            if call.get("id").is_none() {
                waiting.push_back(by_place);
            }
        }
    }
    found
}

/// Parses a body of any depth and with numbers of any size.
pub fn parse(body: &str) -> Value {
    // Numbers that no float holds would be refused; their value does not matter here.
    let tame = body.replace("e400", "");
    let mut reader = serde_json::Deserializer::from_str(&tame);
    reader.disable_recursion_limit();
    serde::de::Deserialize::deserialize(&mut reader).unwrap_or_else(|error| panic!("{error}: {body}"))
}

fn collect(value: &Value, role: &str, call_id: Option<&str>, found: &mut Vec<Found>) {
    let mut stack = vec![value];
    while let Some(value) = stack.pop() {
        match value {
            Value::String(text) => {
                for piece in text.split('⟦').skip(1) {
                    if let Some((token, _)) = piece.split_once('⟧') {
                        found.push(Found {
                            token: format!("⟦{token}⟧"),
                            role: role.to_owned(),
                            call_id: call_id.map(str::to_owned),
                        });
                    }
                }
            }
            Value::Array(items) => stack.extend(items.iter().rev()),
            Value::Object(fields) => stack.extend(fields.values().rev()),
            _ => {}
        }
    }
}
