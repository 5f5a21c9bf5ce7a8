//! Questions about a value that the rules of several dialects ask.

use serde_json::Value;

/// The roles in dialects with system, user, assistant and tool.
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

/// The items of a list; empty for other types.
pub(crate) fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// True for a text that is not empty.
pub(crate) fn is_filled(value: &Value) -> bool {
    value.as_str().is_some_and(|text| !text.is_empty())
}

/// True for a non-empty text of letters, digits, `_`, `-` and the characters in `more`.
pub(crate) fn is_word(text: &str, more: &str) -> bool {
    let is_legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-' || more.contains(c);
    !text.is_empty() && text.chars().all(is_legal)
}

/// White space by Unicode, or by Python and Java, which also count the four separator controls.
pub(crate) fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

/// True if arrays and objects in a value are nested deeper than this. It does not recurse.
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
