//! Writing one JSON object field by field, in the order of the calls.
//!
//! For shapes that programs read (what a command prints with `--json`, what a server answers, small files of our own) and for the
//! small objects of a request. Encoders of dialects write long texts straight into their body instead.

use std::fmt::Display;

use super::write;

/// A JSON object under construction.
///
/// ```
/// use rejoin_record::json::Object;
///
/// let place = Object::new().count("message", 3).number_or_null("line", None);
/// let json = Object::new().text("rule", "orphan-result").object("at", place).finish();
/// assert_eq!(json, r#"{"rule":"orphan-result","at":{"message":3,"line":null}}"#);
/// ```
#[derive(Debug, Clone)]
#[must_use = "`finish` gives the text"]
pub struct Object(String);

impl Default for Object {
    fn default() -> Self {
        Self(String::from("{"))
    }
}

impl Object {
    /// Begins an object without fields.
    pub fn new() -> Self {
        Self::default()
    }

    /// Begins an object without fields, with room for this many bytes.
    pub fn with_room(bytes: usize) -> Self {
        let mut out = String::with_capacity(bytes);
        out.push('{');
        Self(out)
    }

    /// Adds a string.
    pub fn text(mut self, name: &str, value: impl Display) -> Self {
        write::key(&mut self.0, name);
        write::shown(&mut self.0, value);
        self
    }

    /// Adds a string, or `null`.
    pub fn text_or_null(self, name: &str, value: Option<impl Display>) -> Self {
        match value {
            Some(value) => self.text(name, value),
            None => self.raw(name, "null"),
        }
    }

    /// Adds a string, or nothing.
    pub fn text_if(self, name: &str, value: Option<impl Display>) -> Self {
        match value {
            Some(value) => self.text(name, value),
            None => self,
        }
    }

    /// Adds a number.
    pub fn number(self, name: &str, value: u64) -> Self {
        self.raw(name, &value.to_string())
    }

    /// Adds the length of something, or a place in a list.
    pub fn count(self, name: &str, value: usize) -> Self {
        self.raw(name, &value.to_string())
    }

    /// Adds a number, or `null`.
    pub fn number_or_null(self, name: &str, value: Option<usize>) -> Self {
        match value {
            Some(value) => self.count(name, value),
            None => self.raw(name, "null"),
        }
    }

    /// Adds `true` or `false`.
    pub fn flag(self, name: &str, value: bool) -> Self {
        self.raw(name, if value { "true" } else { "false" })
    }

    /// Adds a nested object.
    pub fn object(self, name: &str, value: Self) -> Self {
        self.raw(name, &value.finish())
    }

    /// Adds a list of values that are JSON already.
    pub fn list(self, name: &str, items: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        self.raw(name, &list(items))
    }

    /// Adds a value that is JSON already.
    pub fn raw(mut self, name: &str, json: &str) -> Self {
        write::key(&mut self.0, name);
        self.0.push_str(json);
        self
    }

    /// Adds a value that is JSON already, or nothing.
    pub fn raw_if(self, name: &str, json: Option<&str>) -> Self {
        match json {
            Some(json) => self.raw(name, json),
            None => self,
        }
    }

    /// Closes the object and returns its text.
    #[must_use]
    pub fn finish(mut self) -> String {
        self.0.push('}');
        self.0
    }
}

/// A string literal.
#[must_use]
pub fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    write::string(&mut out, text);
    out
}

/// A list of values that are JSON already.
#[must_use]
pub fn list(items: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    let mut out = String::new();
    write::list(&mut out, items, |out, item| out.push_str(item.as_ref()));
    out
}
