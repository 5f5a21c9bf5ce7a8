//! Schemas of tools, made fit for every provider: each describes an object, and is neither too large nor too deep.
//!
//! Any other schema is replaced by one that allows any object; the server checks the arguments itself.

use serde_json::{Value, json};

/// Largest schema, in bytes. One tool must not fill a model's window.
const LARGEST: usize = 64 * 1024;

/// Deepest nesting of a schema. Providers refuse deep ones, and some crash on them.
const DEEPEST: usize = 24;

/// A schema that every provider accepts, and the reason if it differs from the given one.
pub(super) fn cleaned(given: Option<&Value>) -> (String, Option<&'static str>) {
    let why = match given {
        Some(Value::Object(fields)) => match fields.get("type") {
            _ if is_deeper(fields.values(), DEEPEST) => "its schema is nested too deeply",
            None | Some(Value::String(_)) if fields.get("type").is_none_or(|kind| kind == "object") => {
                let mut fields = fields.clone();
                // It names the version of JSON Schema, which no provider looks at.
                fields.remove("$schema");
                fields.insert(String::from("type"), json!("object"));
                // A field of the wrong type makes a provider refuse the whole request.
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

/// Whether values are nested more than `left` levels deep. The recursion stops at that depth.
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
