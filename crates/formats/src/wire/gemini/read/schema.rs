//! Schemas of tools. Gemini's `parameters` spell the types of JSON Schema in capitals, which every other API refuses.

use rejoin_record::json::{Doc, Value, ValueKind};

const TYPES: &[&str] = &["STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT", "NULL"];

/// Turns the types of a schema into lower case; everything else stays.
pub fn json_schema(schema: Value<'_>) -> String {
    let raw = schema.raw();
    let doc = Doc::of(raw);
    let mut capitals: Vec<(usize, usize)> = Vec::new();
    let mut stack: Vec<Value<'_>> = doc.root().into_iter().collect();
    while let Some(value) = stack.pop() {
        stack.extend(value.items());
        for (key, value) in value.fields() {
            let is_type = key.is_str("type")
                && value.kind() == ValueKind::String
                && TYPES.contains(&value.raw().trim_matches('"'));
            if is_type {
                capitals.push((value.start(), value.end()));
            } else if matches!(value.kind(), ValueKind::Array | ValueKind::Object) {
                stack.push(value);
            }
        }
    }
    capitals.sort_unstable();
    let mut out = String::with_capacity(raw.len());
    let mut copied = 0;
    for (start, end) in capitals {
        out.push_str(&raw[copied..start]);
        out.push_str(&raw[start..end].to_ascii_lowercase());
        copied = end;
    }
    out.push_str(&raw[copied..]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_in_small_letters() {
        let doc = Doc::parse(
            r#"{"type":"OBJECT", "properties":{"type":{"type":"STRING","enum":["STRING"]},"b":{"anyOf":[{"type":"NULL"},{"type":"odd"}]}}}"#,
        );
        let out = json_schema(doc.unwrap().root().unwrap());
        assert_eq!(
            out,
            r#"{"type":"object", "properties":{"type":{"type":"string","enum":["STRING"]},"b":{"anyOf":[{"type":"null"},{"type":"odd"}]}}}"#
        );
    }
}
