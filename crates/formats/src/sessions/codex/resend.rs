//! What Codex sends when it resumes a rollout. It answers calls that have no output with the word `aborted`, leaves out
//! outputs that have no call, and sends no item ids; everything else goes out as it was recorded. Seen with Codex 0.166.

use hashbrown::HashSet;
use serde_json::{Value, json};

use crate::{
    session::Session,
    sessions::resend::{ResentMessages, natives, next_word},
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
pub(crate) fn resend(session: &Session) -> ResentMessages {
    let mut resent = ResentMessages::default();
    // The item of a line is its payload, if it has one.
    let items = natives(session, &mut resent.bytes, |line| line.get("payload").or(Some(line)), Item::of);
    let fates = fates(&items);
    for ((place, item), fate) in items.into_iter().zip(fates) {
        if fate == Fate::LeftOut {
            continue;
        }
        resent.push(item.value, Some(place));
        if let Fate::Answered(output) = fate {
            resent.push(json!({"type": output, "call_id": item.id, "output": "aborted"}), None);
        }
    }
    resent.push(next_word(), None);
    resent
}

/// What becomes of each item.
fn fates(items: &[(usize, Item)]) -> Vec<Fate> {
    let ids = |wanted: fn(&Part) -> bool| -> HashSet<&str> {
        let items = items.iter().filter(|(_, item)| wanted(&item.part));
        items.filter_map(|(_, item)| item.id.as_deref()).collect()
    };
    let called = ids(|part| matches!(part, Part::Call(_)));
    let answered = ids(|part| *part == Part::Output);
    items.iter().map(|(_, item)| item.fate(&called, &answered)).collect()
}

/// An item that may be sent.
struct Item {
    value: Value,
    part: Part,
    /// The `call_id` of a call or an output.
    id: Option<String>,
}

#[derive(PartialEq)]
enum Part {
    /// A call, with the type of its output.
    Call(&'static str),
    Output,
    Other,
}

#[derive(PartialEq)]
enum Fate {
    Sent,
    /// Sent, and followed by an output of this type.
    Answered(&'static str),
    LeftOut,
}

impl Item {
    fn of(mut value: Value) -> Option<Self> {
        let kind = value["type"].as_str().unwrap_or_default();
        if UNSENT.contains(&kind) {
            return None;
        }
        let output = ANSWERED.iter().find(|(call, _)| *call == kind).map(|(_, output)| *output);
        let part = match output {
            Some(output) => Part::Call(output),
            None if ANSWERED.iter().any(|(_, output)| *output == kind) => Part::Output,
            None => Part::Other,
        };
        let id = value["call_id"].as_str().filter(|_| part != Part::Other).map(str::to_owned);
        value.as_object_mut().map(|fields| fields.remove("id"));
        Some(Self { value, part, id })
    }

    fn fate(&self, called: &HashSet<&str>, answered: &HashSet<&str>) -> Fate {
        let id = self.id.as_deref().unwrap_or_default();
        match self.part {
            Part::Output if !called.contains(id) => Fate::LeftOut,
            Part::Call(output) if !id.is_empty() && !answered.contains(id) => Fate::Answered(output),
            _ => Fate::Sent,
        }
    }
}
