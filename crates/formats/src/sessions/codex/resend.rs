//! What Codex sends when it resumes a rollout. It answers calls that have no output with the word `aborted`, leaves out
//! outputs that have no call, and sends no item ids; everything else goes out as it was recorded. Seen with Codex 0.166.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::{
    session::Session,
    sessions::resend::{Resent, natives, next_word},
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
    let mut resent = Resent::default();
    // The item of a line is its payload, if it has one.
    let items = natives(session, &mut resent.bytes, |line| line.get("payload").or(Some(line)));
    let output_of = |kind: &str| ANSWERED.iter().find(|(call, _)| *call == kind).map(|(_, output)| *output);
    let is_output = |kind: &str| ANSWERED.iter().any(|(_, output)| *output == kind);
    let (mut called, mut answered) = (HashSet::new(), HashSet::new());
    for (_, item) in &items {
        let Some(id) = item["call_id"].as_str() else { continue };
        if output_of(kind(item)).is_some() {
            called.insert(id.to_owned());
        } else if is_output(kind(item)) {
            answered.insert(id.to_owned());
        }
    }
    for (place, mut item) in items {
        let kind = kind(&item);
        let id = item["call_id"].as_str().unwrap_or_default();
        if UNSENT.contains(&kind) || (is_output(kind) && !called.contains(id)) {
            continue;
        }
        let output = output_of(kind).filter(|_| !id.is_empty() && !answered.contains(id));
        let answer = output.map(|output| json!({"type": output, "call_id": id, "output": "aborted"}));
        item.as_object_mut().map(|fields| fields.remove("id"));
        resent.push(item, Some(place));
        answer.into_iter().for_each(|answer| resent.push(answer, None));
    }
    resent.push(next_word(), None);
    resent
}

fn kind(item: &Value) -> &str {
    item["type"].as_str().unwrap_or_default()
}
