//! Finding contents: under `contents` in a request body, under `history` in a checkpoint, or in a bare list.

use super::{ContentReader, fields::CamelFields, parts::HELD};
use crate::{
    messages::{
        list::{Shape, items},
        roles::is_among,
    },
    sessions::sample::{Parsed, Sample},
    wire::{gemini::WIRE, prelude::*},
};

#[derive(Debug, Clone, Copy)]
pub struct Contents;

impl Shape for Contents {
    type Reader = ContentReader;
    const IS_KEPT_INSIDE: bool = false;

    fn wire(self) -> &'static Wire {
        &WIRE
    }

    fn reader(self, model: Option<Text>) -> ContentReader {
        ContentReader::new(model)
    }

    fn find<'d>(self, root: Value<'d>) -> Option<(Option<Value<'d>>, Value<'d>)> {
        if root.kind() == ValueKind::Array {
            return Some((None, root));
        }
        // The API accepts a single content without brackets.
        let listed = |list: &Value<'_>| {
            matches!(list.kind(), ValueKind::Array | ValueKind::Object | ValueKind::String)
        };
        if let Some(list) = root.get("contents").filter(listed) {
            return Some((Some(root), list));
        }
        // A checkpoint is no request: its other fields are not settings.
        root.get("history").filter(|list| list.kind() == ValueKind::Array).map(|list| (None, list))
    }

    fn is_message(self, value: Value<'_>) -> bool {
        is_content(value)
    }
}

/// Whether a value is a content: it has `parts` without types.
pub fn is_content(value: Value<'_>) -> bool {
    let Some(parts) = value.get("parts") else { return false };
    let role = value.given("role").and_then(Value::as_str);
    let named = value.get("role").is_none_or(|role| role.is_null() || role.kind() == ValueKind::String);
    let known = |part: Value<'_>| {
        // Other programs have `parts`, too, but with types.
        part.get("type").is_none()
            && CamelFields::of(part).all().any(|(name, _)| is_among(name, HELD) || name == "thoughtSignature")
    };
    named
        && match parts.kind() {
            ValueKind::Array if parts.items().next().is_none() => {
                matches!(role.as_deref(), Some("user" | "model"))
            }
            ValueKind::Array => parts.items().any(known),
            ValueKind::Object => known(parts),
            _ => false,
        }
        && value.given("content").is_none()
}

pub fn sniff(sample: &Sample<'_>) -> bool {
    let beginning = sample.beginning_text();
    // If the beginning is not enough, the whole text is examined.
    sniff_text(beginning, sample.beginning())
        || (beginning.len() < sample.text().len() && sniff_text(sample.text(), sample.whole()))
}

fn sniff_text(text: &str, (doc, error): &Parsed<'_>) -> bool {
    let whole = |root: &Value<'_>| error.is_none() || root.is_cut();
    if doc.root().filter(whole).is_some_and(sniff_value) {
        return true;
    }
    // In a file of lines, each line may show the format, and some may be damaged.
    error.is_some()
        && text.lines().filter(|line| !line.trim().is_empty()).any(|line| {
            let (doc, _) = Doc::parse_prefix(line);
            doc.root().is_some_and(sniff_value)
        })
}

fn sniff_value(root: Value<'_>) -> bool {
    if is_content(root) {
        return true;
    }
    match root.kind() {
        ValueKind::Array => root.items().any(is_content),
        ValueKind::Object if root.get("messages").is_none() => {
            let contents = root
                .get("contents")
                .filter(|list| matches!(list.kind(), ValueKind::Array | ValueKind::Object));
            let history = root.get("history").filter(|list| list.kind() == ValueKind::Array);
            // An empty list is a conversation that has not begun.
            let not_begun =
                contents.is_some_and(|list| list.kind() == ValueKind::Array && list.items().next().is_none());
            not_begun || contents.or(history).is_some_and(|list| items(list).any(is_content))
        }
        _ => false,
    }
}
