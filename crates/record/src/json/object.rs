//! Writes one JSON object field by field, in the order of the calls.
//!
//! All objects that rejoin writes are written here: in requests, in other agents' files, in the output with `--json`. An object can
//! be [appended](Object::append) to a text, and a value be written [into](Object::with) it, so a long text is copied only once.

use std::{
    fmt::{Display, Write as _},
    mem,
};

use super::{Value, write};

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

    /// Appends an object to a text. `fields` adds its fields.
    ///
    /// ```
    /// use rejoin_record::json::Object;
    ///
    /// let mut list = String::from("[1,");
    /// Object::append(&mut list, |object| object.text("a", "b"));
    /// assert_eq!(list, r#"[1,{"a":"b"}"#);
    /// ```
    #[inline]
    pub fn append(out: &mut String, fields: impl FnOnce(Self) -> Self) {
        let mut text = mem::take(out);
        text.push('{');
        *out = fields(Self(text)).finish();
    }

    /// Adds a string. For a text in an encoder, [`str`](Self::str) is faster.
    pub fn text(mut self, name: &str, value: impl Display) -> Self {
        write::key(&mut self.0, name);
        write::shown(&mut self.0, value);
        self
    }

    /// Adds a text, which needs no formatting.
    #[inline]
    pub fn str(mut self, name: &str, text: &str) -> Self {
        write::key(&mut self.0, name);
        write::string(&mut self.0, text);
        self
    }

    /// Adds a string, or `null`.
    pub fn text_or_null(self, name: &str, value: Option<impl Display>) -> Self {
        match value {
            Some(value) => self.text(name, value),
            None => self.raw(name, "null"),
        }
    }

    /// Adds a string; adds no field for `None`.
    pub fn text_if(self, name: &str, value: Option<impl Display>) -> Self {
        match value {
            Some(value) => self.text(name, value),
            None => self,
        }
    }

    /// Adds a number.
    pub fn number(self, name: &str, value: u64) -> Self {
        self.with(name, |out| write!(out, "{value}").unwrap_or_default())
    }

    /// Adds a length or an index.
    pub fn count(self, name: &str, value: usize) -> Self {
        self.number(name, value as u64)
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

    /// Adds a list of values that are already JSON.
    pub fn list(self, name: &str, items: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        self.with(name, |out| write::list(out, items, |out, item| out.push_str(item.as_ref())))
    }

    /// Adds a value that is already JSON.
    #[inline]
    pub fn raw(self, name: &str, json: &str) -> Self {
        self.with(name, |out| out.push_str(json))
    }

    /// Adds a value that `value` appends as JSON.
    #[inline]
    pub fn with(mut self, name: &str, value: impl FnOnce(&mut String)) -> Self {
        write::key(&mut self.0, name);
        value(&mut self.0);
        self
    }

    /// Adds a field of another object with this value. Its name keeps its spelling.
    pub fn field(mut self, name: Value<'_>, json: &str) -> Self {
        write::comma(&mut self.0);
        self.0.push_str(name.raw());
        self.0.push(':');
        self.0.push_str(json);
        self
    }

    /// Adds all fields of another object exactly as they are written.
    pub fn fields(mut self, object: Value<'_>) -> Self {
        let inside = object.raw().strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
        let inside = inside.unwrap_or_default();
        if !inside.trim().is_empty() {
            write::comma(&mut self.0);
            self.0.push_str(inside);
        }
        self
    }

    /// Adds a value that is already JSON; adds no field for `None`.
    pub fn raw_if(self, name: &str, json: Option<&str>) -> Self {
        match json {
            Some(json) => self.raw(name, json),
            None => self,
        }
    }

    /// Closes the object and returns its text.
    #[inline]
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

/// A list of values that are already JSON.
#[must_use]
pub fn list(items: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    let mut out = String::new();
    write::list(&mut out, items, |out, item| out.push_str(item.as_ref()));
    out
}
