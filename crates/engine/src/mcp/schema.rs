//! Schemas of tools, made fit for every provider: the schema of an object, not too large and not too deep.
//!
//! A schema that is not is replaced by one that allows any object: the server checks the arguments anyway.

use serde_json::{Value, json};

/// The largest schema, in bytes. One tool must not fill a model's window.
const LARGEST: usize = 64 * 1024;

/// The deepest schema. Providers refuse deep ones, and some crash.
const DEEPEST: usize = 24;

/// A schema that every provider accepts, and why it is not the given one, if it is not.
pub(super) fn cleaned(given: Option<&Value>) -> (String, Option<&'static str>) {
    let why = match given {
        Some(Value::Object(fields)) => match fields.get("type") {
            _ if is_deeper(fields.values(), DEEPEST) => "its schema is nested too deeply",
            None | Some(Value::String(_)) if fields.get("type").is_none_or(|kind| kind == "object") => {
                let mut fields = fields.clone();
                // It says where the rules of the schema are, which no provider looks up.
                fields.remove("$schema");
                fields.insert(String::from("type"), json!("object"));
                // Fields of the wrong kind make a provider refuse the whole request.
                if fields.get("properties").is_some_and(|properties| !properties.is_object()) {
                    fields.remove("properties");
                }
                let names =
                    |list: &Value| list.as_array().is_some_and(|names| names.iter().all(Value::is_string));
                if fields.get("required").is_some_and(|required| !names(required)) {
                    fields.remove("required");
                }
                let text = Value::Object(fields).to_string();
                if text.len() <= LARGEST {
                    return (text, None);
                }
                "its schema is too large"
            }
            _ => "its schema is not the schema of an object",
        },
        None => return (json!({"type": "object"}).to_string(), None),
        Some(_) => "its schema is not an object",
    };
    (json!({"type": "object", "additionalProperties": true}).to_string(), Some(why))
}

/// Whether values are nested deeper than this. It never goes deeper itself.
fn is_deeper<'v>(values: impl IntoIterator<Item = &'v Value>, left: usize) -> bool {
    values.into_iter().any(|value| match value {
        Value::Object(fields) => left == 0 || is_deeper(fields.values(), left - 1),
        Value::Array(items) => left == 0 || is_deeper(items, left - 1),
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_good_schema_stays() {
        let schema =
            json!({"properties": {"a": {"$ref": "#/$defs/x"}}, "required": ["a"], "$defs": {"x": {}}});
        let (text, why) = cleaned(Some(&schema));
        assert_eq!(why, None);
        let text: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&text["type"], &text["properties"]), (&json!("object"), &schema["properties"]));
    }

    #[test]
    fn lies_become_an_open_object() {
        let mut deep = json!({"type": "object"});
        for _ in 0..200 {
            deep = json!({"type": "object", "properties": {"a": deep}});
        }
        let large = json!({"type": "object", "description": "x".repeat(LARGEST)});
        for lie in
            [json!("string"), json!([]), json!({"type": "string"}), json!({"type": ["object"]}), deep, large]
        {
            let (text, why) = cleaned(Some(&lie));
            assert!(why.is_some());
            assert_eq!(text, r#"{"type":"object","additionalProperties":true}"#);
        }
        let (text, _) = cleaned(Some(&json!({"type": "object", "properties": 3, "required": [1]})));
        assert_eq!(text, r#"{"type":"object"}"#);
    }
}
