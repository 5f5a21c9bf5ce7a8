//! What Codex sends when it resumes a rollout. It answers calls that have no output with the word `aborted`, leaves out
//! outputs that have no call, and sends no item ids; everything else goes out as it was recorded. Seen with Codex 0.166.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::{
    session::Session,
    sessions::resend::{Resent, as_they_stand, next_word},
};

/// Calls that Codex answers, and the type of their outputs.
const ANSWERED: &[(&str, &str)] = &[
    ("function_call", "function_call_output"),
    ("custom_tool_call", "custom_tool_call_output"),
    ("local_shell_call", "function_call_output"),
    ("tool_search_call", "tool_search_output"),
];

/// Items of a rollout that Codex never sends.
const UNSENT: &[&str] = &["ghost_snapshot", "other"];

/// The items that Codex would send, followed by a prompt to continue.
pub(crate) fn resend(session: &Session) -> Resent {
    let recorded = as_they_stand(session);
    let items: Vec<(Value, Option<usize>)> =
        recorded.list.into_iter().map(item_of).zip(recorded.places).collect();
    let ids = |wanted: fn(&str) -> bool| -> HashSet<String> {
        let of_kind = items.iter().filter(|(item, _)| wanted(kind(item)));
        of_kind.filter_map(|(item, _)| Some(item["call_id"].as_str()?.to_owned())).collect()
    };
    let called = ids(|kind| ANSWERED.iter().any(|(call, _)| *call == kind));
    let answered = ids(|kind| ANSWERED.iter().any(|(_, output)| *output == kind));
    let mut resent = Resent::default();
    for (mut item, place) in items {
        let kind = kind(&item).to_owned();
        let id = item["call_id"].as_str().unwrap_or_default().to_owned();
        let orphan = ANSWERED.iter().any(|(_, output)| *output == kind) && !called.contains(&id);
        if orphan || UNSENT.contains(&kind.as_str()) {
            continue;
        }
        let output = ANSWERED.iter().find(|(call, _)| *call == kind).map(|(_, output)| *output);
        if let Some(fields) = item.as_object_mut() {
            fields.remove("id");
        }
        resent.push(item, place);
        if let Some(output) = output.filter(|_| !id.is_empty() && !answered.contains(&id)) {
            let answer = json!({"type": output, "call_id": id, "output": "aborted"});
            resent.push(answer, None);
        }
    }
    resent.push(next_word(), None);
    resent
}

/// The item of a line: its payload, where it has one.
fn item_of(mut line: Value) -> Value {
    match line.get_mut("payload") {
        Some(payload) => payload.take(),
        None => line,
    }
}

fn kind(item: &Value) -> &str {
    item["type"].as_str().unwrap_or_default()
}
