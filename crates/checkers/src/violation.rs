//! One reason for a refusal, and the reading of bytes into JSON with which every checker starts. Knows no dialect.

use std::fmt;

use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// One reason why a provider would refuse a request body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The broken rule as the rulebook names it, such as `ANT-01`, `OAC-02` or `SAN-02`; `ANT-schema` and
    /// `OAC-schema` cover what the API's types refuse and no other rule names.
    pub rule: &'static str,
    /// Where it is broken, such as `messages.3.content.0`; `body` for the request as a whole.
    pub path: String,
    /// The provider's own words, with ids and indexes filled in.
    pub message: String,
}

impl Violation {
    pub(crate) fn new(rule: &'static str, path: impl Into<String>, message: impl Into<String>) -> Self {
        Violation { rule, path: path.into(), message: message.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}: {}", self.rule, self.path, self.message)
    }
}

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
mod tests {
    use super::*;

    #[test]
    fn a_violation_reads_rule_place_words() {
        let violation = Violation::new("ANT-01", "messages.3", "no result");
        assert_eq!(violation.to_string(), "ANT-01 at messages.3: no result");
    }

    #[test]
    fn nesting_ignores_brackets_in_strings() {
        let check = |json: &str, expect| assert_eq!(nesting(json.as_bytes()), expect, "{json}");
        check("1", 0);
        check("{}", 1);
        check(r#"{"a":[[],[]]}"#, 3);
        check(r#"["[[[\"[[["]"#, 1);
        check("]]]]", 0);
        check("]][[", 2);
    }

    #[test]
    fn numbers_of_any_size_are_json_and_malformed_ones_are_not() {
        for good in ["1e999", "[-1e999, 2]", r#"{"1e999":1E+400,"b":"1e999"}"#, "1234567890123456789012345"] {
            assert!(read_body(good.as_bytes(), "schema").is_ok(), "{good}");
        }
        for bad in ["01e999", "+1e999", "1e999.5", ".1e999", "[1e999,]", "1e9991e999 2"] {
            let refused = read_body(bad.as_bytes(), "schema").map_err(|violation| violation.rule);
            assert_eq!(refused, Err("schema"), "{bad}");
        }
    }

    #[test]
    fn a_body_is_read_as_serde_json_reads_it() {
        for json in [
            "null",
            " [ ] ",
            "\"\"",
            r#"{"a":{"b":[1,-2.5e3,true,false,null,"x"]},"c":[],"d":{},"e":[[],{}]}"#,
            r#"{ "quote\"d \\" : "back\\", "ü" : "\ud83d\ude00 \u0000" , "a" : [ "]" , "}" ] }"#,
            r#"{"twice":1,"once":2,"twice":"last"}"#,
        ] {
            assert_eq!(
                read_body(json.as_bytes(), "schema"),
                Ok(serde_json::from_str(json).unwrap()),
                "{json}"
            );
        }
    }

    #[test]
    fn what_is_not_json_is_told_apart_from_lone_surrogates() {
        let check = |json: &[u8], rule| {
            let refused = read_body(json, "schema").map_err(|violation| violation.rule);
            assert_eq!(refused, Err(rule), "{}", String::from_utf8_lossy(json));
        };
        check(br#""\ud83d""#, "SAN-02");
        check(br#""\ud83dx""#, "SAN-02");
        check(br#""\ud83d\n""#, "SAN-02");
        check(br#""\ud83d\u0041""#, "SAN-02");
        check(br#"{"\ude00":1}"#, "SAN-02");
        check(br#"[1e999, "\ude00"]"#, "SAN-02");
        check(b"", "schema");
        check(b"{} {}", "schema");
        check(b"\xef\xbb\xbf{}", "schema");
        check(b"\"\xff\"", "schema");
        check(br#"{"a":NaN}"#, "schema");
        assert!(read_body(br#""\ud83d\ude00""#, "schema").is_ok());
    }

    #[test]
    fn a_thousand_levels_are_read_and_one_more_is_refused() {
        let nested = |depth: usize| r#"{"a":"#.repeat(depth - 1) + "{}" + &"}".repeat(depth - 1);
        let small_stack = std::thread::Builder::new().stack_size(512 * 1024);
        let read = small_stack.spawn(move || read_body(nested(1000).as_bytes(), "schema").is_ok()).unwrap();
        assert!(read.join().unwrap());
        let refused = read_body(nested(1001).as_bytes(), "schema").map_err(|violation| violation.rule);
        assert_eq!(refused, Err("SAN-07"));
    }
}
