//! The name of a message in `llm`: the hash of its content and of the message before it.
//!
//! The hash is taken over JSON as Python's `json.dumps` writes it with sorted keys, without spaces and without escaping what is not
//! ASCII. `llm` reads the stored parts, writes them in this form and compares, so numbers are spelled as Python spells them.

use std::collections::BTreeMap;

use rejoin_record::json::{Doc, Object, Value, ValueKind};

use super::blake2b;

/// The name of a message, given as JSON, after the message that is named `parent`.
pub(super) fn hash(parent: Option<&str>, message: &str) -> String {
    let whole = Object::new().raw("message", &canonical(message)).text_or_null("parent", parent).finish();
    format!("b2:{}", blake2b::hex(whole.as_bytes()))
}

fn canonical(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    Doc::of(json).root().into_iter().for_each(|root| value(&mut out, root));
    out
}

fn value(out: &mut String, given: Value<'_>) {
    match given.kind() {
        ValueKind::Object => {
            let fields = given.fields().map(|(key, value)| (key.as_str().unwrap_or_default(), value));
            // Of two fields with one name, Python takes the last.
            let sorted: BTreeMap<_, _> = fields.collect();
            enclosed(out, ['{', '}'], sorted, |out, (name, field)| {
                string(out, &name);
                out.push(':');
                value(out, field);
            });
        }
        ValueKind::Array => enclosed(out, ['[', ']'], given.items(), value),
        ValueKind::String => string(out, &given.as_str().unwrap_or_default()),
        ValueKind::Number => out.push_str(&number(given.raw())),
        _ => out.push_str(given.raw()),
    }
}

fn enclosed<T>(
    out: &mut String,
    [open, close]: [char; 2],
    items: impl IntoIterator<Item = T>,
    mut item: impl FnMut(&mut String, T),
) {
    out.push(open);
    for (place, each) in items.into_iter().enumerate() {
        if place > 0 {
            out.push(',');
        }
        item(out, each);
    }
    out.push(close);
}

fn string(out: &mut String, text: &str) {
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\0'..='\u{1f}' => out.push_str(&format!("\\u{:04x}", u32::from(letter))),
            letter => out.push(letter),
        }
    }
    out.push('"');
}

/// A number as Python writes it: integers of any size as they are, everything else with the fewest digits that name the same
/// 64-bit number.
fn number(raw: &str) -> String {
    if !raw.contains(['.', 'e', 'E']) {
        return if raw == "-0" { String::from("0") } else { raw.to_owned() };
    }
    let Ok(number) = raw.parse::<f64>() else { return raw.to_owned() };
    if number.is_infinite() {
        return String::from(if number < 0.0 { "-Infinity" } else { "Infinity" });
    }
    let shortest = format!("{number:e}");
    let (digits, exponent) = shortest.split_once('e').unwrap_or((&shortest, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    match exponent {
        -4..16 => format!("{number:?}"),
        small @ ..0 => format!("{digits}e-{:02}", -small),
        large => format!("{digits}e+{large:02}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_spelled_as_python_spells_it() {
        for (json, expected) in [
            (r#"{ "b": 1, "a": [true, null], "b": 2 }"#, r#"{"a":[true,null],"b":2}"#),
            (r#"{"\u00e9":"\u0001\n\/\u007f \ud83d\ude00"}"#, "{\"é\":\"\\u0001\\n/\u{7f} 😀\"}"),
            ("[0, -0, 12345678901234567890123]", "[0,0,12345678901234567890123]"),
            ("[1.0, -0.0, 1.50, 1e3, 0.1]", "[1.0,-0.0,1.5,1000.0,0.1]"),
            ("[1e15, 1e16, 123456789e10]", "[1000000000000000.0,1e+16,1.23456789e+18]"),
            ("[1e-4, 0.00001, 2.5e-300, 1e999, -1e999]", "[0.0001,1e-05,2.5e-300,Infinity,-Infinity]"),
        ] {
            assert_eq!(canonical(json), expected);
        }
    }
}
