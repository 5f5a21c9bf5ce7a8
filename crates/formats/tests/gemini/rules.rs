//! What the tests ask of a request body: turns, pairs, names, signatures. Written from the API's rules over plain JSON; it
//! shares nothing with the codec.

use serde_json::Value;

/// What a content is.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Turn {
    Said,
    Model(usize),
    Results,
}

/// Everything that is wrong with a body.
pub fn problems(body: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let Some(contents) = body["contents"].as_array().filter(|contents| !contents.is_empty()) else {
        return vec!["contents is not specified".into()];
    };
    let mut before: Option<Turn> = None;
    let mut called: Vec<&Value> = Vec::new();
    for (index, content) in contents.iter().enumerate() {
        let mut problem = |words: &str| found.push(format!("contents[{index}]: {words}"));
        if content
            .as_object()
            .is_none_or(|fields| fields.keys().any(|name| name != "role" && name != "parts"))
        {
            problem("unknown field");
        }
        let Some(parts) = content["parts"].as_array().filter(|parts| !parts.is_empty()) else {
            problem("parts must not be empty");
            continue;
        };
        let of = |camel: &str, snake: &str| -> Vec<&Value> {
            parts
                .iter()
                .filter_map(|part| part.get(camel).or(part.get(snake)))
                .filter(|v| !v.is_null())
                .collect()
        };
        let (calls, results) =
            (of("functionCall", "function_call"), of("functionResponse", "function_response"));
        let turn = match (content["role"].as_str(), results.is_empty()) {
            (Some("model"), true) => Turn::Model(calls.len()),
            (Some("user"), true) if calls.is_empty() => Turn::Said,
            (Some("user"), false) if calls.is_empty() => Turn::Results,
            _ => {
                problem("role");
                continue;
            }
        };
        if turn == Turn::Results && results.len() != parts.len() {
            problem("results stand with something else");
        }
        if matches!(before, Some(Turn::Model(n)) if n > 0) && turn != Turn::Results {
            problem("calls are not answered");
        }
        match (before, turn) {
            (None | Some(Turn::Model(0)), Turn::Results)
            | (Some(Turn::Said | Turn::Results), Turn::Results) => {
                problem("results without calls");
            }
            (None, Turn::Model(calls)) if calls > 0 => problem("the model calls first"),
            (Some(Turn::Said), Turn::Said) | (Some(Turn::Model(_)), Turn::Model(_)) => {
                problem("roles do not alternate")
            }
            _ => {}
        }
        for part in parts {
            let about = ["thought", "thoughtSignature", "thought_signature", "videoMetadata"];
            let fields = part.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null());
            if part["thought"] == true && turn != Turn::Model(calls.len()) {
                problem("a user does not think");
            }
            for name in ["thoughtSignature", "thought_signature"] {
                if part.get(name).and_then(Value::as_str).is_some_and(|text| text.contains(' ')) {
                    problem("corrupted thought signature");
                }
            }
            if fields.filter(|(name, _)| !about.contains(&name.as_str())).count() != 1 {
                problem("a part holds one thing");
            }
        }
        if turn == Turn::Results {
            if called.len() != results.len() {
                problem("number of results");
            }
            let id = |item: &Value| item["id"].as_str().filter(|id| !id.is_empty()).map(str::to_owned);
            let one_sided = !called.iter().any(|call| id(call).is_some())
                || !results.iter().any(|result| id(result).is_some());
            if !one_sided && called.iter().zip(&results).any(|(call, result)| id(call) != id(result)) {
                problem("ids on either side");
            }
            for (call, result) in called.iter().zip(&results) {
                if call["name"] != result["name"] {
                    problem("names differ");
                }
                if !result["response"].is_object() {
                    problem("response is no object");
                }
            }
        }
        for call in &calls {
            if !(call["args"].is_object() || call["args"].is_null()) {
                problem("args are no object");
            }
            let name = call["name"].as_str().unwrap_or_default();
            let legal =
                name.chars().all(|c| c.is_ascii_alphanumeric() || "_.:-".contains(c)) && name.len() <= 64;
            if !legal || !name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
                problem("name");
            }
        }
        let first =
            parts.iter().find(|part| part.get("functionCall").or(part.get("function_call")).is_some());
        if let Some(first) = first {
            let signature = first.get("thoughtSignature").or(first.get("thought_signature"));
            if signature.and_then(Value::as_str).is_none_or(str::is_empty) {
                problem("missing a thought_signature");
            }
        }
        called = calls;
        before = Some(turn);
    }
    if matches!(before, Some(Turn::Model(_))) {
        found.push("ends with the model".into());
    }
    found
}
