//! Turns YAML into JSON, event by event: a deep document costs memory, not stack.

use rejoin_record::json::write;
use saphyr_parser::{Event, Parser, ScalarStyle};

/// An open list or object.
struct Open {
    object: bool,
    /// How many values and keys it has so far.
    count: usize,
}

/// A text with one document as JSON.
pub(super) fn to_json(yaml: &str) -> Result<String, &'static str> {
    let mut out = String::new();
    let mut open: Vec<Open> = Vec::new();
    for event in Parser::new_from_str(yaml) {
        let (event, _) = event.map_err(|_| "it is not YAML")?;
        match event {
            Event::SequenceStart(..) | Event::MappingStart(..) => {
                let object = matches!(event, Event::MappingStart(..));
                if before(&mut out, &mut open) {
                    return Err("a key of it is a list or an object");
                }
                out.push(if object { '{' } else { '[' });
                open.push(Open { object, count: 0 });
            }
            Event::SequenceEnd | Event::MappingEnd => {
                out.push(if open.pop().is_some_and(|open| open.object) { '}' } else { ']' });
            }
            Event::Scalar(text, style, ..) => {
                let key = before(&mut out, &mut open);
                let plain = style == ScalarStyle::Plain && !key;
                match &*text {
                    "" | "~" | "null" | "Null" | "NULL" if plain => out.push_str("null"),
                    "true" | "True" | "TRUE" if plain => out.push_str("true"),
                    "false" | "False" | "FALSE" if plain => out.push_str("false"),
                    number if plain && is_number(number) => out.push_str(number),
                    text => write::string(&mut out, text),
                }
            }
            Event::Alias(_) => return Err("it refers to another part of itself, which is not read"),
            // The text of a second one would be lost.
            Event::DocumentStart(..) if !out.is_empty() => return Err("it has several documents"),
            _ => {}
        }
    }
    if out.is_empty() { Err("there is nothing in it") } else { Ok(out) }
}

/// Writes what separates a value from the one before it; true if it is a key.
fn before(out: &mut String, open: &mut [Open]) -> bool {
    let Some(open) = open.last_mut() else { return false };
    let key = open.object && open.count % 2 == 0;
    if open.count > 0 {
        out.push(if open.object && !key { ':' } else { ',' });
    }
    open.count += 1;
    key
}

/// Whether a text is a number in JSON too.
fn is_number(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let starts = digits.starts_with(|c: char| c.is_ascii_digit());
    let leading =
        digits.len() > 1 && digits.starts_with('0') && !digits.starts_with("0.") && !digits.starts_with("0e");
    let letters =
        digits.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E' | b'+' | b'-'));
    starts && !leading && letters && rejoin_record::json::Doc::parse(text).is_ok()
}

#[cfg(test)]
mod tests {
    use super::to_json;

    #[test]
    fn values_keep_their_kinds() {
        let yaml =
            "a: 1\nb: [true, null, \"2\", 01, x]\nc:\n  - d: |\n      one\n      two\n  - {}\n'e f': 1.5e3\n";
        let json = r#"{"a":1,"b":[true,null,"2","01","x"],"c":[{"d":"one\ntwo\n"},{}],"e f":1.5e3}"#;
        assert_eq!(to_json(yaml).unwrap(), json);
        assert!(to_json("a: *b").is_err());
        assert!(to_json("").is_err());
        assert!(to_json("a: 1\n---\nb: 2").is_err());
        assert!(to_json(" content: |\n\"L a t w\"").is_err());
        assert_eq!(to_json("---\na: 1\n...\n").unwrap(), r#"{"a":1}"#);
        to_json(&"- ".repeat(100_000)).ok();
    }
}
