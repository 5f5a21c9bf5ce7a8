//! Conversations inside other JSON: the runs of a benchmark, the trajectory of an agent. Their lists stand under names of
//! their own, and one file may hold many.

use rejoin_record::json::{Kind, Value};

use super::list::looks_like_message;
use crate::gemini;

/// What such a list is called.
const NAMES: &[&str] = &["messages", "history", "traj", "trajectory", "conversation"];

/// How many elements are looked at to tell whether they hold conversations.
const LOOK_AT: usize = 20;

/// The conversations in a value that is not itself a request body: what holds each, the name of its list, and the list.
#[must_use]
pub fn conversations(root: Value<'_>) -> Vec<(Value<'_>, &'static str, Value<'_>)> {
    match root.kind() {
        Kind::Array => each(root),
        Kind::Object if root.get("messages").is_none() => match held(root) {
            Some(found) => vec![found],
            // One field of many may be the list of runs.
            None => root
                .fields()
                .map(|(_, value)| each(value))
                .find(|found| !found.is_empty())
                .unwrap_or_default(),
        },
        _ => Vec::new(),
    }
}

/// The conversations that the elements of a list hold, one each.
fn each(list: Value<'_>) -> Vec<(Value<'_>, &'static str, Value<'_>)> {
    if !list.items().take(LOOK_AT).any(|item| held(item).is_some()) {
        return Vec::new();
    }
    list.items().filter_map(held).collect()
}

fn held(holder: Value<'_>) -> Option<(Value<'_>, &'static str, Value<'_>)> {
    if holder.kind() != Kind::Object || holder.get("role").is_some() {
        return None;
    }
    NAMES.iter().find_map(|name| {
        let list = holder.get(name).filter(|list| list.kind() == Kind::Array)?;
        let ours = |item: Value<'_>| looks_like_message(item) && !gemini::is_content(item);
        list.items().take(LOOK_AT).any(ours).then_some((holder, *name, list))
    })
}
