//! The reading of bytes into JSON with which every check starts. Knows no dialect.

use serde_json::{Map, Value, value::RawValue};

use crate::Violation;

/// Bodies nested deeper are refused unread: dropping a value takes stack by its depth.
const MAX_NESTING: usize = 1000;

/// Parses a request body, or returns the reason why no server could.
///
/// Numbers too large for an `f64` read as zero: they are legal JSON, and no checker looks at their values.
pub(crate) fn read_body(body: &[u8], schema_rule: &'static str) -> Result<Value, Violation> {
    if nesting(body) > MAX_NESTING {
        let message = format!("The request body is nested deeper than {MAX_NESTING} levels");
        return Err(Violation::new("SAN-07", "body", message));
    }
    let grammatical: &RawValue = serde_json::from_slice(body).map_err(|error| {
        Violation::new(schema_rule, "body", format!("The request body is not valid JSON: {error}"))
    })?;
    build(grammatical).map_err(|at| {
        let message = format!("The request body is not valid JSON: no low surrogate in string: char {at}");
        Violation::new("SAN-02", "body", message)
    })
}

/// The depth of the deepest array or object in a JSON text; `{}` has depth 1. Total on any bytes, and never
/// less than the depth a parser reaches before it gives up on them.
pub(crate) fn nesting(json: &[u8]) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    let (mut in_string, mut escaped) = (false, false);
    for &byte in json {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'[' | b'{' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// Builds the value of a text whose grammar was checked, without recursion: `serde_json` takes some kilobytes
/// of stack for each level, more than a test thread has for [`MAX_NESTING`]. The error is the position of a
/// string that cannot be decoded, which of all faults only a lone surrogate causes.
fn build(grammatical: &RawValue) -> Result<Value, usize> {
    let json = grammatical.get();
    let mut open: Vec<(Value, Option<String>)> = Vec::new();
    let mut at = 0;
    while at < json.len() {
        let rest = &json[at..];
        let mut width = 1;
        let complete = match rest.as_bytes()[0] {
            b'{' => {
                open.push((Value::Object(Map::new()), None));
                None
            }
            b'[' => {
                open.push((Value::Array(Vec::new()), None));
                None
            }
            b'}' | b']' => open.pop().map(|(container, _)| container),
            b'"' => {
                width = string_width(rest);
                let text = serde_json::from_str(&rest[..width]).map_err(|_| at)?;
                match open.last_mut() {
                    Some((Value::Object(_), key @ None)) => {
                        *key = Some(text);
                        None
                    }
                    _ => Some(Value::String(text)),
                }
            }
            b',' | b':' | b' ' | b'\t' | b'\n' | b'\r' => None,
            _ => {
                width = rest.find([',', ']', '}', ' ', '\t', '\n', '\r']).unwrap_or(rest.len());
                Some(serde_json::from_str(&rest[..width]).unwrap_or(Value::from(0)))
            }
        };
        at += width;
        let Some(value) = complete else { continue };
        match open.last_mut() {
            Some((Value::Object(fields), key)) => {
                fields.insert(key.take().expect("BUG: a member without a key in checked JSON"), value);
            }
            Some((Value::Array(items), _)) => items.push(value),
            _ => return Ok(value),
        }
    }
    unreachable!("BUG: checked JSON that holds no value")
}

/// The width of the string literal that a JSON text starts with, quotes included.
fn string_width(json: &str) -> usize {
    let mut escaped = false;
    let closing = json.bytes().skip(1).position(|byte| {
        let closes = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        closes
    });
    closing.map_or(json.len(), |at| at + 2)
}

#[cfg(test)]
mod tests;
