//! What the rules of several dialects ask of a value.

use serde_json::Value;

/// Who speaks, in dialects with the roles system, user, assistant and tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    System,
    User,
    Assistant,
    Tool,
}

impl Role {
    const NAMES: [(Role, &str); 4] = [
        (Role::System, "system"),
        (Role::User, "user"),
        (Role::Assistant, "assistant"),
        (Role::Tool, "tool"),
    ];

    pub fn named(name: &str) -> Option<Role> {
        Role::NAMES.iter().find(|(_, known)| *known == name).map(|(role, _)| *role)
    }

    pub fn name(self) -> &'static str {
        Role::NAMES[self as usize].1
    }
}

/// The calls of a message that keeps them in `tool_calls`.
pub(crate) fn calls_of(message: &Value) -> &[Value] {
    list(&message["tool_calls"])
}

/// The items of a list; none for anything else.
pub(crate) fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// True for a text that is not empty.
pub(crate) fn is_filled(value: &Value) -> bool {
    value.as_str().is_some_and(|text| !text.is_empty())
}

/// True for letters, digits, `_`, `-` and these characters more, at least one of them.
pub(crate) fn is_word(text: &str, more: &str) -> bool {
    let is_legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-' || more.contains(c);
    !text.is_empty() && text.chars().all(is_legal)
}

/// Whitespace to Unicode, or to Python and Java, which count the four separator controls as well.
pub(crate) fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

/// True if arrays and objects in a value nest deeper than this. Does not recurse.
pub(crate) fn nests_deeper(value: &Value, levels: usize) -> bool {
    let mut open = vec![(value, 1)];
    while let Some((value, level)) = open.pop() {
        match value {
            Value::Array(_) | Value::Object(_) if level > levels => return true,
            Value::Array(items) => open.extend(items.iter().map(|item| (item, level + 1))),
            Value::Object(fields) => open.extend(fields.values().map(|value| (value, level + 1))),
            _ => {}
        }
    }
    false
}
