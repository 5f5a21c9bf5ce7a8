//! Texts and objects that are received in pieces.

use std::collections::HashMap;

use rejoin_record::json::{Object, Value, ValueKind, literal};

/// A text that arrives as string literals. Half of a surrogate pair at the end of one waits for the other half.
#[derive(Debug, Default, Clone)]
pub(crate) struct Streamed {
    text: String,
    half: Option<String>,
}

impl Streamed {
    /// Adds a literal and returns its text. Anything but a string adds nothing.
    pub(crate) fn push(&mut self, value: Value<'_>) -> String {
        if value.kind() != ValueKind::String {
            return String::new();
        }
        let raw = value.raw();
        let body = raw.get(1..raw.len().saturating_sub(1)).unwrap_or_default();
        let (body, half) = split_half(body);
        if body.is_empty() && half.is_none() {
            return String::new();
        }
        let before = std::mem::replace(&mut self.half, half.map(str::to_owned)).unwrap_or_default();
        let joined = format!("\"{before}{body}\"");
        let text = literal::decode(&joined).0.into_owned();
        self.text.push_str(&text);
        text
    }

    pub(crate) fn push_str(&mut self, text: &str) {
        self.text.push_str(text);
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.text.is_empty() && self.half.is_none()
    }

    /// Ends the text: half of a pair that is left over becomes a replacement character.
    pub(crate) fn end(&mut self) {
        if self.half.take().is_some() {
            self.text.push(char::REPLACEMENT_CHARACTER);
        }
    }
}

/// Splits the first half of a surrogate pair off the end of a literal's content.
fn split_half(body: &str) -> (&str, Option<&str>) {
    let Some(at) = body.len().checked_sub(6).filter(|at| body.is_char_boundary(*at)) else {
        return (body, None);
    };
    let (rest, end) = body.split_at(at);
    let escape = end.strip_prefix("\\u").unwrap_or_default();
    let high = escape.len() == 4
        && u32::from_str_radix(escape, 16).is_ok_and(|code| (0xd800..0xdc00).contains(&code));
    // After an odd number of backslashes it is plain text.
    let slashes = rest.bytes().rev().take_while(|byte| *byte == b'\\').count();
    if high && slashes % 2 == 0 { (rest, Some(end)) } else { (body, None) }
}

/// An object whose strings grow. Fields that do not grow stay verbatim.
#[derive(Debug, Default)]
pub(crate) struct GrowingObject {
    fields: Vec<(String, FieldValue)>,
    places: HashMap<String, usize>,
}

#[derive(Debug)]
enum FieldValue {
    Raw(String),
    Text(Streamed),
}

impl GrowingObject {
    pub(crate) fn of(object: Value<'_>) -> Self {
        let mut growing = Self::default();
        for (key, value) in object.fields() {
            growing.put(&key.as_str().unwrap_or_default(), value.raw());
        }
        growing
    }

    pub(crate) fn put(&mut self, name: &str, raw: &str) {
        let held = FieldValue::Raw(raw.to_owned());
        match self.places.get(name) {
            Some(place) => self.fields[*place].1 = held,
            None => {
                self.places.insert(name.to_owned(), self.fields.len());
                self.fields.push((name.to_owned(), held));
            }
        }
    }

    /// Adds to a field and returns the text that was added. Strings and lists grow; anything else is set, but never replaces
    /// text, which may have been shown.
    pub(crate) fn add(&mut self, name: &str, value: Value<'_>) -> String {
        if value.kind() == ValueKind::Array && self.extend(name, value) {
            return String::new();
        }
        if value.kind() != ValueKind::String {
            let held = self.places.get(name).map(|place| &self.fields[*place].1);
            let is_text = held.is_some_and(|held| match held {
                FieldValue::Text(_) => true,
                FieldValue::Raw(raw) => raw.starts_with('"') && raw.len() > 2,
            });
            if held.is_none() || !(value.is_null() || is_text) {
                self.put(name, value.raw());
            }
            return String::new();
        }
        let place = match self.places.get(name) {
            Some(place) => *place,
            None => {
                // If no other piece follows, the first one stays verbatim.
                self.put(name, value.raw());
                let mut text = Streamed::default();
                return text.push(value);
            }
        };
        let held = &mut self.fields[place].1;
        if let FieldValue::Raw(raw) = held {
            let mut text = Streamed::default();
            if let Ok(doc) = rejoin_record::json::Doc::parse(raw) {
                doc.root().map(|begun| text.push(begun));
            }
            *held = FieldValue::Text(text);
        }
        match held {
            FieldValue::Text(text) => text.push(value),
            FieldValue::Raw(_) => String::new(),
        }
    }

    /// Adds to a list; false if there is no list yet.
    fn extend(&mut self, name: &str, list: Value<'_>) -> bool {
        let held = self.places.get(name).map(|place| &mut self.fields[*place].1);
        let Some(FieldValue::Raw(raw)) =
            held.filter(|held| matches!(held, FieldValue::Raw(raw) if raw.ends_with(']')))
        else {
            return false;
        };
        for item in list.items() {
            raw.pop();
            raw.push_str(if raw.trim_end().ends_with('[') { "" } else { "," });
            raw.push_str(item.raw());
            raw.push(']');
        }
        true
    }

    pub(crate) fn end(&mut self) {
        for (_, held) in &mut self.fields {
            if let FieldValue::Text(text) = held {
                text.end();
            }
        }
    }

    pub(crate) fn is(&self, name: &str, expected: &str) -> bool {
        self.places.get(name).is_some_and(|place| match &self.fields[*place].1 {
            FieldValue::Text(text) => text.as_str() == expected,
            FieldValue::Raw(raw) => raw.starts_with('"') && literal::equals(raw, expected),
        })
    }

    /// Whether the object has a field of this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.places.contains_key(name)
    }

    pub(crate) fn json(&self) -> String {
        self.add_to(Object::new()).finish()
    }

    pub(crate) fn add_to(&self, object: Object) -> Object {
        self.fields.iter().fold(object, |object, (name, held)| match held {
            FieldValue::Raw(raw) => object.raw(name, raw),
            FieldValue::Text(text) => object.text(name, text.as_str()),
        })
    }
}

#[cfg(test)]
mod tests {
    use rejoin_record::json::Doc;

    use super::*;

    fn streamed(literals: &[&str]) -> (String, Vec<String>) {
        let mut text = Streamed::default();
        let pieces = literals.iter().map(|literal| text.push(Doc::parse(literal).unwrap().root().unwrap()));
        let pieces = pieces.collect();
        text.end();
        (text.text, pieces)
    }

    #[test]
    fn a_pair_may_be_cut() {
        let cases: &[(&[&str], &str)] = &[
            (&[r#""a\ud83d""#, r#""\ude00b""#], "a😀b"),
            (&[r#""a\ud83d""#, r#""""#, r#""\ude00b""#], "a😀b"),
            (&[r#""a\ud83d""#, r#""b""#], "a\u{fffd}b"),
            (&[r#""a\ud83d""#], "a\u{fffd}"),
            (&[r#""\ud83d""#, r#""\ud83d""#, r#""\ude00""#], "\u{fffd}😀"),
            (&[r#""\\ud83d""#, r#""x""#], "\\ud83dx"),
            (&[r#""\\\ud83d""#, r#""\ude00""#], "\\😀"),
            (&[r#""ü😀""#, "null", r#""\n""#], "ü😀\n"),
        ];
        for (literals, expected) in cases {
            let (text, pieces) = streamed(literals);
            assert_eq!(text, *expected);
            // What was shown is what there is, but for half a pair that nothing followed.
            assert!(text.starts_with(&pieces.concat()), "{pieces:?}");
        }
    }

    #[test]
    fn what_does_not_grow_stays_as_it_was_written() {
        let start = Doc::parse(r#"{"type":"x","a":"\u0041\/","n":1e2,"t":"b","z":null}"#).unwrap();
        let more = Doc::parse(r#"{"t":"\u0041","n":null,"z":"y","new":"\u0042"}"#).unwrap();
        let mut growing = GrowingObject::of(start.root().unwrap());
        for (key, value) in more.root().unwrap().fields() {
            growing.add(&key.as_str().unwrap(), value);
        }
        assert_eq!(growing.json(), r#"{"type":"x","a":"\u0041\/","n":1e2,"t":"bA","z":"y","new":"\u0042"}"#);
        assert!(growing.is("t", "bA") && growing.is("new", "B") && !growing.is("n", "1e2"));
    }
}
