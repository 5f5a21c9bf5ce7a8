//! The arguments of a tool call: exact text and a class, never a JSON value.

use crate::{json, limits, text::Text};

/// The class of an arguments text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArgumentsClass {
    /// A JSON object.
    Object,
    /// Absent, empty, or white space.
    Blank,
    /// JSON, but not an object.
    OtherJson,
    /// Not JSON: cut off, misspelled, or nested deeper than [`limits::NESTING`].
    Malformed,
}

/// The arguments that a model passed to a tool, exactly as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arguments {
    text: Text,
    class: ArgumentsClass,
    lone_surrogate: bool,
}

impl Arguments {
    /// Arguments with this exact text, which is classified.
    pub fn new(text: impl Into<Text>) -> Self {
        let text = text.into();
        let (class, lone_surrogate) = classify(&text);
        Self { text, class, lone_surrogate }
    }

    /// Absent arguments.
    pub fn absent() -> Self {
        Self::new("")
    }

    /// The exact text.
    pub fn text(&self) -> &Text {
        &self.text
    }

    /// The exact text, for moving it elsewhere in memory. Its characters must not change, because the class depends on them.
    pub(crate) fn text_mut(&mut self) -> &mut Text {
        &mut self.text
    }

    /// The class of the text.
    pub fn class(&self) -> ArgumentsClass {
        self.class
    }

    /// Whether the text is neither blank nor a JSON object.
    pub fn are_no_object(&self) -> bool {
        matches!(self.class, ArgumentsClass::OtherJson | ArgumentsClass::Malformed)
    }

    /// Whether the JSON contains an escape for half of a surrogate pair. Providers that take arguments as JSON refuse the whole
    /// body because of it; in arguments that are a string, it is harmless.
    pub fn has_lone_surrogate(&self) -> bool {
        self.lone_surrogate
    }
}

fn classify(text: &str) -> (ArgumentsClass, bool) {
    if text.chars().all(char::is_whitespace) {
        return (ArgumentsClass::Blank, false);
    }
    let Ok(doc) = json::Doc::parse(text) else {
        return (ArgumentsClass::Malformed, false);
    };
    let Some(root) = doc.root() else {
        return (ArgumentsClass::Malformed, false);
    };
    let strict = root.is_clean() || doc.only_lone_surrogates();
    let class = match root.kind() {
        _ if doc.max_depth() > limits::NESTING || !strict => ArgumentsClass::Malformed,
        json::ValueKind::Object => ArgumentsClass::Object,
        _ => ArgumentsClass::OtherJson,
    };
    (class, root.has_lone_surrogate())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes() {
        let nested = |depth: usize| "{\"a\":".repeat(depth - 1) + "{}" + &"}".repeat(depth - 1);
        let (deep, too_deep) = (nested(limits::NESTING), nested(limits::NESTING + 1));
        let objects = ["{}", r#" {"a":1,"a":2,"n":1e999} "#, r#"{"a":"\ud83d"}"#, &deep];
        let malformed = ["{\"a\":", "{\"a\":NaN}", "{\"a\":\"\u{1}\"}", "{} {}", &too_deep];
        for (class, texts) in [
            (ArgumentsClass::Object, objects.as_slice()),
            (ArgumentsClass::Blank, &["", " \n"]),
            (ArgumentsClass::OtherJson, &["null", "[1]", "\"{}\""]),
            (ArgumentsClass::Malformed, &malformed),
        ] {
            for text in texts {
                assert_eq!(Arguments::new(*text).class(), class, "{text}");
            }
        }
        assert!(Arguments::new(r#"{"a":"\ud83d"}"#).has_lone_surrogate());
        assert_eq!(Arguments::absent().class(), ArgumentsClass::Blank);
    }
}
