//! Conversations inside other JSON, such as the runs of a benchmark or the trajectory of an agent. Their lists have various
//! names, and one file may hold many.

use rejoin_record::{
    Role, Text,
    json::{Doc, Value, ValueKind},
};

use super::{list::looks_like_message, roles};
use crate::{
    Dialect,
    accounting::has_words,
    session::{Aside, SetAside},
    wire::render,
};

/// The names of such lists.
const NAMES: &[&str] = &["messages", "history", "traj", "trajectory", "conversation"];

const LOOK_AT: usize = 20;

/// The conversations in a value that is not a request body: the holder of each, the name of its list, and the list.
pub fn conversations(root: Value<'_>) -> Vec<(Value<'_>, &'static str, Value<'_>)> {
    match root.kind() {
        ValueKind::Array => each(root),
        ValueKind::Object if root.get("messages").is_none() => match held(root) {
            Some(found) => vec![found],
            // One of the fields may be the list of runs.
            None => root
                .fields()
                .map(|(_, value)| each(value))
                .find(|found| !found.is_empty())
                .unwrap_or_default(),
        },
        _ => Vec::new(),
    }
}

/// The conversations in the elements of a list.
fn each(list: Value<'_>) -> Vec<(Value<'_>, &'static str, Value<'_>)> {
    if !list.items().take(LOOK_AT).any(|item| held(item).is_some()) {
        return Vec::new();
    }
    list.items().filter_map(held).collect()
}

fn held(holder: Value<'_>) -> Option<(Value<'_>, &'static str, Value<'_>)> {
    if holder.kind() != ValueKind::Object || holder.get("role").is_some() {
        return None;
    }
    NAMES.iter().find_map(|name| {
        let list = holder.get(name).filter(|list| list.kind() == ValueKind::Array)?;
        let ours = |item: Value<'_>| looks_like_message(item) && !Dialect::owns_item(item);
        list.items().take(LOOK_AT).any(ours).then_some((holder, *name, list))
    })
}

/// Fields beside a list of messages in which programs keep instructions or an answer.
const SPOKEN: &str =
    "answer completion instructions output prompt reply response system system_prompt systemPrompt";

/// The JSON around a conversation, such as the task, the score or settings. It is mere data unless it holds a message, or a text
/// under a name for instructions or an answer.
pub fn around(text: String) -> Aside {
    let spoken = Doc::parse(&text)
        .is_ok_and(|doc| doc.root().is_some_and(|root| holds_speech(root) || holds_instructions(root)));
    data_unless(spoken, text)
}

fn data_unless(spoken: bool, text: impl Into<Text>) -> Aside {
    if spoken { Aside::Unknown(text.into()) } else { Aside::Raw(text.into()) }
}

/// The JSON around a conversation that is the list `name` of an object. The list is not looked at.
pub fn around_list(holder: Value<'_>, name: &str) -> Aside {
    let text = render::with_field_of(holder, name, "[]");
    // Values that strict JSON refuses are rewritten, so they differ from the object's own.
    if !holder.is_clean() || holder.is_cut() {
        return around(text);
    }
    let beside = || holder.fields().filter(|(key, _)| !key.is_str(name)).map(|(_, value)| value);
    data_unless(is_spoken(holder) || beside().any(holds_speech) || holds_instructions(holder), text)
}

/// Whether an object has a text under a name for instructions or an answer.
fn holds_instructions(root: Value<'_>) -> bool {
    root.fields().any(|(key, value)| {
        // Of two fields with one name, the last one counts.
        let counts = || {
            key.as_str().and_then(|name| root.get(&name)).is_some_and(|last| last.start() == value.start())
        };
        value.kind() == ValueKind::String
            && SPOKEN.split(' ').any(|name| key.is_str(name))
            && value.as_str().is_some_and(|text| has_words(&text))
            && counts()
    })
}

/// Everything in a value besides its conversations.
pub fn beside(root: Value<'_>) -> Vec<SetAside> {
    let aside = |value: Value<'_>, what: Aside| SetAside::around(value.start(), what);
    // A list of runs, some of which hold no conversation.
    let strange = |list: Value<'_>| -> Vec<SetAside> {
        let strange = list.items().filter(|item| held(*item).is_none());
        strange.map(|item| aside(item, Aside::Unknown(Text::new(item.raw())))).collect()
    };
    match root.kind() {
        ValueKind::Array => strange(root),
        ValueKind::Object if held(root).is_none() => {
            let runs = root.fields().position(|(_, value)| !each(value).is_empty());
            let fields = root.fields().enumerate().flat_map(|(place, (_, value))| {
                if Some(place) == runs {
                    strange(value)
                } else if matches!(value.kind(), ValueKind::Array | ValueKind::Object | ValueKind::String) {
                    let spoken = holds_speech(value) || holds_instructions(value);
                    vec![aside(value, data_unless(spoken, value.raw()))]
                } else {
                    Vec::new()
                }
            });
            fields.collect()
        }
        _ => Vec::new(),
    }
}

/// Whether a value holds a message: an object in it names a known author, or has a role and content.
pub(crate) fn holds_speech(value: Value<'_>) -> bool {
    let mut open = vec![value];
    while let Some(value) = open.pop() {
        if is_spoken(value) {
            return true;
        }
        let inside = value.items().chain(value.fields().map(|(_, value)| value));
        open.extend(inside.filter(|value| matches!(value.kind(), ValueKind::Array | ValueKind::Object)));
    }
    false
}

/// Whether a value is a message itself.
fn is_spoken(value: Value<'_>) -> bool {
    let named = value.given("role").and_then(Value::as_str).map(|name| (roles::named(&name), "role"));
    let speaker = named.or_else(|| roles::by_another_field(value));
    let says = || ["content", "text", "parts"].iter().any(|name| value.given(name).is_some());
    match speaker {
        Some((Role::User | Role::Assistant, _)) => true,
        // Anything may have a type.
        Some((_, field)) => !matches!(field, "type" | "kind") && says(),
        None => false,
    }
}
