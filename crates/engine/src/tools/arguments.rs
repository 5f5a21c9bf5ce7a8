//! The arguments of a built-in tool. Each is read by name and type, and an error tells the model which argument is wrong and which
//! values it takes. Unknown arguments are errors, too, because a model that passes one expects an effect.

use rejoin_record::content::Confidence;
use serde_json::{Map, Value};

/// The most bytes of arguments that are parsed. They may include a whole file to write.
const ARGUMENTS: usize = 32 * 1024 * 1024;
/// The most bytes of a path, the same as Linux allows.
const PATH: usize = 4096;

/// The arguments of one call.
#[derive(Debug)]
pub(super) struct CallArguments {
    fields: Map<String, Value>,
    /// The position of the fields, for errors: `edits[2].`, or empty.
    at: String,
}

impl CallArguments {
    /// Parses the arguments of a tool that takes these names.
    pub(super) fn parse(arguments: &str, known: &[&str]) -> Result<Self, String> {
        if arguments.len() > ARGUMENTS {
            return Err(format!(
                "the arguments have {} bytes, and at most {ARGUMENTS} are accepted",
                arguments.len()
            ));
        }
        let text = if arguments.trim().is_empty() { "{}" } else { arguments };
        let value = serde_json::from_str(text).map_err(|why| format!("the arguments are not JSON: {why}"))?;
        Self::object(value, known, String::new())
    }

    fn object(value: Value, known: &[&str], at: String) -> Result<Self, String> {
        let Value::Object(fields) = value else {
            let name = if at.is_empty() { "the arguments" } else { at.trim_end_matches('.') };
            return Err(format!("{name} must be an object, not {}", kind(&value)));
        };
        if let Some(unknown) = fields.keys().find(|name| !known.contains(&name.as_str())) {
            return Err(format!(
                "there is no argument `{at}{}`; there are: {}",
                unknown.chars().take(100).collect::<String>(),
                known.join(", ")
            ));
        }
        Ok(Self { fields, at })
    }

    /// An argument that was passed. `null` counts as absent, because some models write it for arguments that they leave out.
    fn take(&mut self, name: &str) -> Option<Value> {
        self.fields.remove(name).filter(|value| !value.is_null())
    }

    fn wrong(&self, name: &str, wanted: &str, value: &Value) -> String {
        format!("`{}{name}` must be {wanted}, not {}", self.at, kind(value))
    }

    /// A text; `None` if it was not passed.
    pub(super) fn text(&mut self, name: &str) -> Result<Option<String>, String> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(self.wrong(name, "a string", &other)),
        }
    }

    /// A text that must be passed.
    pub(super) fn needed(&mut self, name: &str) -> Result<String, String> {
        let text = self.text(name)?;
        text.ok_or_else(|| format!("`{}{name}` is missing: it must be a string", self.at))
    }

    /// A text of at most this many bytes.
    pub(super) fn short(&mut self, name: &str, most: usize) -> Result<Option<String>, String> {
        let text = self.text(name)?;
        match text {
            Some(text) if text.len() > most => {
                Err(format!("`{}{name}` has {} bytes, and at most {most} are accepted", self.at, text.len()))
            }
            text => Ok(text),
        }
    }

    /// A path that must be passed.
    pub(super) fn path(&mut self) -> Result<String, String> {
        match self.short("path", PATH)? {
            None => Err(String::from("`path` is missing: it must be a string")),
            Some(path) if path.contains('\0') => Err(String::from("`path` contains a NUL character")),
            Some(path) => Ok(path),
        }
    }

    /// A path, by default the working folder.
    pub(super) fn path_or_here(&mut self) -> Result<String, String> {
        if self.fields.get("path").is_none_or(Value::is_null) {
            return Ok(String::from("."));
        }
        self.path()
    }

    /// A whole number in a range; `None` if it was not passed.
    pub(super) fn number(&mut self, name: &str, least: u64, most: u64) -> Result<Option<u64>, String> {
        let Some(value) = self.take(name) else { return Ok(None) };
        let wanted = match most {
            u64::MAX => format!("a whole number, {least} or more"),
            most => format!("a whole number from {least} to {most}"),
        };
        let whole = value.as_u64().or_else(|| {
            // Some models write `1.0`.
            let float = value.as_f64().filter(|float| float.fract() == 0.0 && (0.0..9e15).contains(float))?;
            Some(float as u64)
        });
        match whole {
            Some(number) if (least..=most).contains(&number) => Ok(Some(number)),
            Some(number) => Err(format!("`{}{name}` must be {wanted}, not {number}", self.at)),
            None if value.is_number() => Err(format!("`{}{name}` must be {wanted}, not {value}", self.at)),
            None => Err(self.wrong(name, &wanted, &value)),
        }
    }

    /// The model's confidence in a change; `None` if it was not passed.
    pub(super) fn confidence(&mut self) -> Result<Option<Confidence>, String> {
        let (name, wanted) = ("confidence", "a number from 0 to 1");
        let Some(value) = self.take(name) else { return Ok(None) };
        match value.as_f64().map(Confidence::new) {
            Some(Some(confidence)) => Ok(Some(confidence)),
            Some(None) => Err(format!("`{}{name}` must be {wanted}, not {value}", self.at)),
            None => Err(self.wrong(name, wanted, &value)),
        }
    }

    /// A boolean; false if it was not passed.
    pub(super) fn flag(&mut self, name: &str) -> Result<bool, String> {
        match self.take(name) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(flag),
            Some(other) => Err(self.wrong(name, "true or false", &other)),
        }
    }

    /// A list of objects that take these names. It must have at least one object.
    pub(super) fn objects(&mut self, name: &str, most: usize, known: &[&str]) -> Result<Vec<Self>, String> {
        let items = match self.take(name) {
            None => return Err(format!("`{}{name}` is missing: it must be a list", self.at)),
            Some(Value::Array(items)) => items,
            Some(other) => return Err(self.wrong(name, "a list", &other)),
        };
        if items.is_empty() || items.len() > most {
            return Err(format!("`{}{name}` must have 1 to {most} items, not {}", self.at, items.len()));
        }
        let items = items.into_iter().enumerate();
        items.map(|(n, item)| Self::object(item, known, format!("{}{name}[{n}].", self.at))).collect()
    }
}

/// The type of a value, in words.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_argument_and_what_it_takes() {
        let parse = |json: &str| CallArguments::parse(json, &["path", "from", "all", "edits"]);
        for (json, why) in [
            ("[]", "the arguments must be an object, not a list"),
            ("{", "the arguments are not JSON: EOF while parsing an object at line 1 column 1"),
            (r#"{"offset":3}"#, "there is no argument `offset`; there are: path, from, all, edits"),
        ] {
            assert_eq!(parse(json).unwrap_err(), why);
        }
        for (json, why) in [
            ("{}", "`path` is missing: it must be a string"),
            (r#"{"path":null}"#, "`path` is missing: it must be a string"),
            (r#"{"path":3}"#, "`path` must be a string, not a number"),
            (r#"{"path":"a\u0000"}"#, "`path` contains a NUL character"),
        ] {
            assert_eq!(parse(json).unwrap().path().unwrap_err(), why);
        }
        let long = format!(r#"{{"path":"{}"}}"#, "x".repeat(PATH + 1));
        assert!(parse(&long).unwrap().path().unwrap_err().contains("4097 bytes"));
        for (json, number) in [
            (r#"{"from":3}"#, Ok(Some(3))),
            (r#"{"from":3.0}"#, Ok(Some(3))),
            ("{}", Ok(None)),
            (r#"{"from":0}"#, Err("`from` must be a whole number from 1 to 9, not 0")),
            (r#"{"from":-1}"#, Err("`from` must be a whole number from 1 to 9, not -1")),
            (r#"{"from":1.5}"#, Err("`from` must be a whole number from 1 to 9, not 1.5")),
            (r#"{"from":"1"}"#, Err("`from` must be a whole number from 1 to 9, not a string")),
        ] {
            assert_eq!(parse(json).unwrap().number("from", 1, 9), number.map_err(String::from), "{json}");
        }
        let confidence = |json: &str| CallArguments::parse(json, &["confidence"]).unwrap().confidence();
        assert_eq!(confidence(r#"{"confidence":0.85}"#), Ok(Confidence::new(0.85)));
        assert_eq!(confidence(r#"{"confidence":1}"#), Ok(Confidence::new(1.0)));
        assert_eq!(confidence(r#"{"confidence":null}"#), Ok(None));
        for (json, why) in [
            (r#"{"confidence":85}"#, "`confidence` must be a number from 0 to 1, not 85"),
            (r#"{"confidence":"high"}"#, "`confidence` must be a number from 0 to 1, not a string"),
        ] {
            assert_eq!(confidence(json).unwrap_err(), why);
        }
        assert_eq!(
            parse(r#"{"all":"yes"}"#).unwrap().flag("all").unwrap_err(),
            "`all` must be true or false, not a string"
        );
        for (json, why) in [
            ("{}", "`edits` is missing: it must be a list"),
            (r#"{"edits":[]}"#, "`edits` must have 1 to 2 items, not 0"),
            (r#"{"edits":["x"]}"#, "edits[0] must be an object, not a string"),
            (r#"{"edits":[{},{"neu":1}]}"#, "there is no argument `edits[1].neu`; there are: old, new"),
        ] {
            assert_eq!(parse(json).unwrap().objects("edits", 2, &["old", "new"]).unwrap_err(), why);
        }
        let mut edits = parse(r#"{"edits":[{}]}"#).unwrap().objects("edits", 2, &["old"]).unwrap();
        assert_eq!(edits[0].needed("old").unwrap_err(), "`edits[0].old` is missing: it must be a string");
    }
}
