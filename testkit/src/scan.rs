//! Looking into a finished request body, without any code of the product: which tokens stand where.

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
    for system in
        ["system", "systemInstruction", "system_instruction"].iter().filter_map(|name| body.get(name))
    {
        collect(system, "system", None, &mut found);
    }
    contents(&body, &mut found);
    for message in body["messages"].as_array().into_iter().flatten() {
        let role = message["role"].as_str().unwrap_or("?").to_owned();
        let own = message["tool_call_id"].as_str();
        match &message["content"] {
            Value::Array(blocks) => {
                for block in blocks {
                    let id = block["id"].as_str().or(block["tool_use_id"].as_str()).or(own);
                    collect(block, &role, id, &mut found);
                }
            }
            other => collect(other, &role, own, &mut found),
        }
        collect(&message["refusal"], &role, None, &mut found);
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            collect(call, &role, call["id"].as_str(), &mut found);
        }
    }
    found
}

/// The tokens of contents, whose calls and results belong together by their order.
fn contents(body: &Value, found: &mut Vec<Found>) {
    let mut batch = 0;
    for (place, content) in body["contents"].as_array().into_iter().flatten().enumerate() {
        let role = if content["role"] == "model" { "assistant" } else { "user" };
        let (mut calls, mut results) = (0, 0);
        for part in content["parts"].as_array().into_iter().flatten() {
            let id = if part.get("functionCall").is_some() {
                (batch, calls) = (place, calls + 1);
                Some(format!("{batch}.{calls}"))
            } else if part.get("functionResponse").is_some() {
                results += 1;
                Some(format!("{batch}.{results}"))
            } else {
                None
            };
            collect(part, role, id.as_deref(), found);
        }
    }
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
