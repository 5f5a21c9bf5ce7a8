//! Describes a file that rejoin cannot read: a well-known format by its structure, any other file by its fields.
//!
//! This is only for error messages. Nothing is read because of it.

use rejoin_record::json::{Doc, Value, ValueKind};

use crate::session::{Aside, Session, SetAside};

/// The number of lines or items that are examined.
const LOOK_AT: usize = 50;

/// The number of fields that are named for an unknown format.
const NAMED: usize = 6;

/// The name of a format, and a test for one of its lines or files.
type Guise = (&'static str, fn(Value<'_>) -> bool);

/// The formats; the most specific tests are first.
const GUISES: &[Guise] = &[
    ("a part of an opencode message", |root| begins(root, "id", "prt_") && root.get("messageID").is_some()),
    ("an opencode message without its parts", |root| {
        begins(root, "id", "msg_") && root.get("sessionID").is_some()
    }),
    ("a Codex rollout that holds events only", |root| is(root, "type", &["event_msg"])),
    ("an Agent Client Protocol stream", |root| {
        root.get("sessionUpdate").is_some() || is(root, "method", &["session/update", "session/prompt"])
    }),
    ("a ChatGPT export", |root| root.get("mapping").is_some_and(|map| map.kind() == ValueKind::Object)),
    ("a provider's response, not a request", |root| {
        root.get("choices").is_some_and(|list| list.kind() == ValueKind::Array)
    }),
];

/// Whether a line is iFlow's: Claude Code's envelope with another form of id.
pub(crate) fn is_iflow(root: Value<'_>) -> bool {
    const UUID: usize = 36;
    let id = string(root, "sessionId").unwrap_or_default();
    let own = id.strip_prefix("session-").is_some_and(|id| {
        id.len() == UUID && id.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
    });
    own && root.get("message").is_some() && root.get("parentUuid").is_some()
}

/// Names the well-known format of a text.
pub(crate) fn of_text(text: &str) -> Option<String> {
    let (doc, error) = Doc::parse_prefix(text);
    let whole = doc.root().filter(|root| error.is_none() || root.is_cut()).and_then(of_value);
    whole.or_else(|| {
        let lines = text.lines().filter(|line| !line.trim().is_empty()).take(LOOK_AT);
        of_lines(lines.collect())
    })
}

/// Describes the format of a file by its sessions.
pub(super) fn of_sessions(sessions: &[Session]) -> String {
    let asides = sessions.iter().flat_map(|session| &session.set_aside);
    let unknown = asides.filter(|item| matches!(item.what, Aside::Unknown(_)));
    let unknown = unknown.filter_map(SetAside::raw).map(|text| &**text);
    let messages = sessions.iter().flat_map(|session| &session.messages);
    let natives = messages.filter_map(|message| message.native.as_ref()).map(|native| native.raw.as_str());
    let items: Vec<&str> = natives.take(LOOK_AT).chain(unknown.take(LOOK_AT)).collect();
    let named = || fields_of(&items);
    of_lines(items.clone()).or_else(named).unwrap_or_else(|| String::from("something else"))
}

/// The first format that any of the lines is in.
fn of_lines(lines: Vec<&str>) -> Option<String> {
    let docs: Vec<Doc<'_>> = lines.into_iter().map(|line| Doc::parse_prefix(line).0).collect();
    let told = |(_, tells): &&Guise| docs.iter().filter_map(Doc::root).any(|root| tells(root));
    GUISES.iter().find(told).map(|(name, _)| String::from(*name))
}

fn of_value(root: Value<'_>) -> Option<String> {
    let told = |(_, tells): &&Guise| tells(root) || root.items().take(LOOK_AT).any(tells);
    GUISES.iter().find(told).map(|(name, _)| String::from(*name))
}

/// The fields that the items have, together.
fn fields_of(items: &[&str]) -> Option<String> {
    let mut keys: Vec<String> = Vec::new();
    for item in items {
        let (doc, _) = Doc::parse_prefix(item);
        let names = doc.root().into_iter().flat_map(Value::fields).filter_map(|(key, _)| key.as_str());
        for key in names.map(|key| format!("`{key}`")) {
            if keys.len() < NAMED && !keys.contains(&key) {
                keys.push(key);
            }
        }
    }
    (!keys.is_empty()).then(|| format!("something else (its items have the fields {})", keys.join(", ")))
}

fn string<'d>(root: Value<'d>, name: &str) -> Option<std::borrow::Cow<'d, str>> {
    root.get(name).and_then(Value::as_str)
}

fn begins(root: Value<'_>, name: &str, beginning: &str) -> bool {
    string(root, name).is_some_and(|text| text.starts_with(beginning))
}

fn is(root: Value<'_>, name: &str, words: &[&str]) -> bool {
    root.get(name).is_some_and(|value| words.iter().any(|word| value.is_str(word)))
}
