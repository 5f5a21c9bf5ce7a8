//! How each family of servers words a fault in a table of fields.

use serde_json::Value;

use crate::shape::{Fault, What};

/// Servers that validate with pydantic: Anthropic, Mistral.
pub(crate) fn pydantic(fault: &Fault<'_>) -> String {
    let reason = match &fault.what {
        What::Unknown => String::from("Extra inputs are not permitted"),
        What::Missing => String::from("Field required"),
        What::Type { expected, .. } => {
            let expected = match *expected {
                "an object" => "a valid dictionary",
                "an array" => "a valid list",
                "a string" => "a valid string",
                "a boolean" => "a valid boolean",
                "an integer" => "a valid integer",
                "a number" => "a valid number",
                other => other,
            };
            format!("Input should be {expected}")
        }
        What::TooSmall { least, .. } => format!("Input should be greater than or equal to {least}"),
        What::TooLarge { most, .. } => format!("Input should be less than or equal to {most}"),
        What::Empty => String::from("String should have at least 1 character"),
        What::TooMany { most, found } => {
            format!("List should have at most {most} items after validation, not {found}")
        }
        What::NotOneOf { allowed, .. } => format!("Input should be {}", quoted(allowed, "or")),
    };
    format!("{}: {reason}", fault.path)
}

/// OpenAI's servers.
pub(crate) fn openai(fault: &Fault<'_>) -> String {
    let path = &fault.path;
    match &fault.what {
        What::Unknown => format!("Unknown parameter: '{path}'."),
        What::Missing => format!("Missing required parameter: '{path}'."),
        What::Type { expected, found } => {
            format!("Invalid type for '{path}': expected {expected}, but got {} instead.", kind_of(found))
        }
        What::TooSmall { least, found } => {
            format!(
                "Invalid '{path}': value below minimum. Expected a value >= {least}, but got {found} instead."
            )
        }
        What::TooLarge { most, found } => {
            format!(
                "Invalid '{path}': value above maximum. Expected a value <= {most}, but got {found} instead."
            )
        }
        What::Empty => {
            format!(
                "Invalid '{path}': empty string. Expected a string with minimum length 1, but got an empty string instead."
            )
        }
        What::TooMany { most, found } => {
            format!("Invalid '{path}': too many entries. Expected at most {most}, but got {found} instead.")
        }
        What::NotOneOf { allowed, found } => {
            let found = found.as_str().unwrap_or_default();
            format!("Invalid value: '{found}'. Supported values are: {}.", quoted(allowed, "and"))
        }
    }
}

/// Google's servers, which read JSON as protocol buffers.
pub(crate) fn google(fault: &Fault<'_>) -> String {
    let path = &fault.path;
    let (above, name) = path.rsplit_once('.').unwrap_or(("", path));
    match &fault.what {
        What::Unknown if above.is_empty() => {
            format!("Invalid JSON payload received. Unknown name \"{name}\": Cannot find field.")
        }
        What::Unknown => {
            format!("Invalid JSON payload received. Unknown name \"{name}\" at '{above}': Cannot find field.")
        }
        What::Missing => format!("* GenerateContentRequest.{path}: {path} is not specified"),
        What::Type { found, .. } | What::NotOneOf { found, .. } => {
            format!("Invalid value at '{path}', {found}")
        }
        What::TooSmall { .. } | What::TooLarge { .. } | What::TooMany { .. } | What::Empty => {
            format!("* GenerateContentRequest.{path}: the value is out of the supported range")
        }
    }
}

/// Bedrock's servers.
pub(crate) fn aws(fault: &Fault<'_>) -> String {
    let path = &fault.path;
    match &fault.what {
        What::Unknown => format!("Unknown parameter in input: \"{path}\""),
        What::Missing => format!("Value at '{path}' failed to satisfy constraint: Member must not be null"),
        What::Type { expected, .. } => {
            format!("Value at '{path}' failed to satisfy constraint: Member must be {expected}")
        }
        What::TooSmall { least, .. } => format!(
            "Value at '{path}' failed to satisfy constraint: Member must have value greater than or equal to {least}"
        ),
        What::TooLarge { most, .. } => format!(
            "Value at '{path}' failed to satisfy constraint: Member must have value less than or equal to {most}"
        ),
        What::Empty => format!(
            "Value at '{path}' failed to satisfy constraint: Member must have length greater than or equal to 1"
        ),
        What::TooMany { most, .. } => format!(
            "Value at '{path}' failed to satisfy constraint: Member must have length less than or equal to {most}"
        ),
        What::NotOneOf { allowed, .. } => format!(
            "Value at '{path}' failed to satisfy constraint: Member must satisfy enum value set: [{}]",
            allowed.join(", ")
        ),
    }
}

/// Servers written in Go: Ollama.
pub(crate) fn go(fault: &Fault<'_>) -> String {
    let path = &fault.path;
    match &fault.what {
        What::Missing | What::Empty => format!("{path} is required"),
        What::Type { expected, found } => format!(
            "json: cannot unmarshal {} into Go struct field ChatRequest.{path} of type {expected}",
            kind_of(found)
        ),
        other => format!("{path}: {other:?}"),
    }
}

fn quoted(words: &[&str], last: &str) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
    match quoted.split_last() {
        Some((only, [])) => only.clone(),
        Some((end, rest)) => format!("{} {last} {end}", rest.join(", ")),
        None => String::new(),
    }
}

/// A value's type, with its article.
pub(crate) fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// A path as OpenAI and Google write it: `messages.3.content.0` becomes `messages[3].content[0]`.
pub(crate) fn bracketed(path: &str) -> String {
    let mut written = String::new();
    for segment in path.split('.') {
        if segment.bytes().all(|byte| byte.is_ascii_digit()) {
            written.extend(["[", segment, "]"]);
        } else {
            let dot = if written.is_empty() { "" } else { "." };
            written.extend([dot, segment]);
        }
    }
    written
}
