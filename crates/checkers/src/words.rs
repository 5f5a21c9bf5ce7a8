//! The words of each family of servers for a fault, and its form of a path.

use serde_json::Value;

use crate::{check::Provider, shape::FaultKind};

/// Anthropic and Mistral validate with pydantic.
pub(crate) const PYDANTIC: Provider = family("Input should be a valid dictionary", pydantic, str::to_owned);
pub(crate) const OPENAI: Provider =
    family("Invalid body: expected an object, but got {a type} instead.", openai, bracketed);
/// Google reads JSON as protocol buffers.
pub(crate) const GOOGLE: Provider =
    family("Invalid JSON payload received. Root element must be a message.", google, bracketed);
pub(crate) const AWS: Provider = family("The request body must be a JSON object", aws, members);
/// Ollama is written in Go.
pub(crate) const GO: Provider =
    family("json: cannot unmarshal {type} into Go value of type api.ChatRequest", go, str::to_owned);

const fn family(
    not_an_object: &'static str,
    words: fn(&str, &FaultKind<'_>) -> String,
    place: fn(&str) -> String,
) -> Provider {
    let largest_body = (usize::MAX, "");
    Provider { schema: "", not_an_object, words, place, spelling: str::to_owned, largest_body }
}

fn pydantic(place: &str, what: &FaultKind<'_>) -> String {
    let reason = match what {
        FaultKind::Unknown => "Extra inputs are not permitted".to_owned(),
        FaultKind::Missing => "Field required".to_owned(),
        FaultKind::Type { expected, .. } => {
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
        FaultKind::TooSmall { least, .. } => format!("Input should be greater than or equal to {least}"),
        FaultKind::TooLarge { most, .. } => format!("Input should be less than or equal to {most}"),
        FaultKind::Empty => "String should have at least 1 character".to_owned(),
        FaultKind::TooMany { most, found } => {
            format!("List should have at most {most} items after validation, not {found}")
        }
        FaultKind::NotOneOf { allowed, .. } => format!("Input should be {}", quoted(allowed, "or")),
        FaultKind::Other(reason) => (*reason).to_owned(),
    };
    format!("{place}: {reason}")
}

fn openai(place: &str, what: &FaultKind<'_>) -> String {
    let reason = match what {
        FaultKind::Unknown => return format!("Unknown parameter: '{place}'."),
        FaultKind::Missing => return format!("Missing required parameter: '{place}'."),
        FaultKind::Type { expected, found } => {
            let found = kind_of(found);
            return format!("Invalid type for '{place}': expected {expected}, but got {found} instead.");
        }
        FaultKind::NotOneOf { allowed, found } => {
            let found = found.as_str().unwrap_or_default();
            return format!("Invalid value: '{found}'. Supported values are: {}.", quoted(allowed, "and"));
        }
        FaultKind::TooSmall { least, found } => {
            format!("value below minimum. Expected a value >= {least}, but got {found} instead.")
        }
        FaultKind::TooLarge { most, found } => {
            format!("value above maximum. Expected a value <= {most}, but got {found} instead.")
        }
        FaultKind::Empty => {
            "empty string. Expected a string with minimum length 1, but got an empty string instead."
                .to_owned()
        }
        FaultKind::TooMany { most, found } => {
            format!("too many entries. Expected at most {most}, but got {found} instead.")
        }
        FaultKind::Other(reason) => (*reason).to_owned(),
    };
    format!("Invalid '{place}': {reason}")
}

fn google(place: &str, what: &FaultKind<'_>) -> String {
    let (above, name) = place.rsplit_once('.').unwrap_or(("", place));
    let reason = match what {
        FaultKind::Unknown => {
            let at = if above.is_empty() { String::new() } else { format!(" at '{above}'") };
            return format!("Invalid JSON payload received. Unknown name \"{name}\"{at}: Cannot find field.");
        }
        FaultKind::Type { found, .. } | FaultKind::NotOneOf { found, .. } => {
            return format!("Invalid value at '{place}', {found}");
        }
        FaultKind::Missing => &format!("{place} is not specified"),
        FaultKind::TooSmall { .. }
        | FaultKind::TooLarge { .. }
        | FaultKind::TooMany { .. }
        | FaultKind::Empty => "the value is out of the supported range",
        FaultKind::Other(reason) => reason,
    };
    format!("* GenerateContentRequest.{place}: {reason}")
}

fn aws(place: &str, what: &FaultKind<'_>) -> String {
    let reason = match what {
        FaultKind::Unknown => return format!("Unknown parameter in input: \"{place}\""),
        FaultKind::Missing => "Member must not be null".to_owned(),
        FaultKind::Type { expected, .. } => format!("Member must be {expected}"),
        FaultKind::TooSmall { least, .. } => {
            format!("Member must have value greater than or equal to {least}")
        }
        FaultKind::TooLarge { most, .. } => format!("Member must have value less than or equal to {most}"),
        FaultKind::Empty => "Member must have length greater than or equal to 1".to_owned(),
        FaultKind::TooMany { most, .. } => format!("Member must have length less than or equal to {most}"),
        FaultKind::NotOneOf { allowed, .. } => {
            format!("Member must satisfy enum value set: [{}]", allowed.join(", "))
        }
        FaultKind::Other(reason) => (*reason).to_owned(),
    };
    format!("Value at '{place}' failed to satisfy constraint: {reason}")
}

fn go(place: &str, what: &FaultKind<'_>) -> String {
    match what {
        FaultKind::Missing | FaultKind::Empty => format!("{place} is required"),
        FaultKind::Type { expected, found } => format!(
            "json: cannot unmarshal {} into Go struct field ChatRequest.{place} of type {expected}",
            kind_of(found)
        ),
        FaultKind::Other(reason) => format!("{place}: {reason}"),
        other => format!("{place}: {other:?}"),
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

/// A value's type as Go calls it.
pub(crate) fn go_kind_of(value: &Value) -> &'static str {
    match kind_of(value) {
        "a boolean" => "bool",
        kind => kind.split_once(' ').map_or(kind, |(_, noun)| noun),
    }
}

/// A path in the form of OpenAI and Google: `messages.3.content.0` becomes `messages[3].content[0]`.
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

/// A path in Amazon's form, which counts from one: `messages.0.role` becomes `messages.1.member.role`.
pub(crate) fn members(path: &str) -> String {
    let segments = path.split('.').map(|segment| match segment.parse::<usize>() {
        Ok(index) => format!("{}.member", index + 1),
        Err(_) => segment.to_owned(),
    });
    segments.collect::<Vec<_>>().join(".")
}
