//! The shape of a file with all values removed: which fields there are, of which types, and how often.
//!
//! It is for reports about files that rejoin cannot read. Only names of fields are shown, and only those that a program chose: a name
//! that may come from a person, such as a path or a sentence, becomes `*`.

use std::{collections::BTreeMap, fmt};

use rejoin_record::json::{Doc, Kind, Object, Value};

/// The most places that are listed. A file with more of them uses names as data.
const PLACES: usize = 400;

/// The most fields of one object that are listed by their names.
const FIELDS: usize = 60;

/// The longest name of a field that a program chose.
const LONGEST_NAME: usize = 40;

/// How deep places are listed.
const DEEPEST: usize = 16;

/// The shape of a file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FileShape {
    /// The number of bytes.
    pub bytes: usize,
    /// The number of lines that are not blank, and how many of them are JSON. One value over several lines counts as one line.
    pub lines: usize,
    /// How many of them are JSON objects or lists.
    pub values: usize,
    /// Each place in these values, such as `message.content[].text`, with the number of values of each type there. The first, without a
    /// name, is the value itself.
    pub places: BTreeMap<String, BTreeMap<&'static str, usize>>,
    /// Whether there are more places than are listed.
    pub has_more: bool,
}

impl FileShape {
    /// The shape of a text.
    #[must_use]
    pub fn of(text: &str) -> Self {
        let mut shape = Self { bytes: text.len(), ..Self::default() };
        let (doc, error) = Doc::parse_prefix(text);
        match doc.root().filter(|root| error.is_none() && is_container(*root)) {
            Some(root) => {
                (shape.lines, shape.values) = (1, 1);
                shape.add(root);
            }
            None => {
                for line in text.lines().filter(|line| !line.trim().is_empty()) {
                    shape.lines += 1;
                    let (doc, error) = Doc::parse_prefix(line);
                    if let Some(root) = doc.root().filter(|root| error.is_none() && is_container(*root)) {
                        shape.values += 1;
                        shape.add(root);
                    }
                }
            }
        }
        shape
    }

    /// Adds the places of a value, without recursion: a file may be nested as deep as it likes.
    fn add(&mut self, root: Value<'_>) {
        let mut open = vec![(String::new(), root, 0)];
        while let Some((place, value, depth)) = open.pop() {
            if !self.places.contains_key(&place) && self.places.len() >= PLACES {
                self.has_more = true;
                continue;
            }
            *self.places.entry(place.clone()).or_default().entry(type_of(value)).or_default() += 1;
            if depth == DEEPEST {
                self.has_more |= is_container(value);
                continue;
            }
            open.extend(value.items().map(|item| (format!("{place}[]"), item, depth + 1)));
            let many = value.fields().nth(FIELDS).is_some();
            open.extend(value.fields().map(|(key, field)| {
                let name = key.as_str().filter(|name| !many && is_chosen_by_a_program(name));
                let name = name.as_deref().unwrap_or("*");
                let dot = if place.is_empty() { "" } else { "." };
                (format!("{place}{dot}{name}"), field, depth + 1)
            }));
        }
    }

    /// The names of the fields directly below a place, such as `messages[].`, the most frequent first.
    #[must_use]
    pub fn fields(&self, below: &str) -> Vec<&str> {
        let field = |place: &'_ String| {
            let name = place.strip_prefix(below)?;
            let is_name = !name.is_empty() && !name.contains(['.', '[', '*']);
            is_name.then_some(place.len() - name.len())
        };
        let names = self.places.iter().filter_map(|(place, types)| {
            let name = &place[field(place)?..];
            Some((std::cmp::Reverse(types.values().sum::<usize>()), name))
        });
        let mut names: Vec<_> = names.collect();
        names.sort();
        names.into_iter().map(|(_, name)| name).collect()
    }

    /// How many of the values have a field.
    #[must_use]
    pub fn having(&self, field: &str) -> usize {
        self.places.get(field).map_or(0, |types| types.values().sum())
    }

    /// As a JSON object.
    #[must_use]
    pub fn to_json(&self) -> String {
        let types = |types: &BTreeMap<&'static str, usize>| {
            types.iter().fold(Object::new(), |all, (name, count)| all.raw(name, &count.to_string()))
        };
        let places = self.places.iter();
        let places = places.fold(Object::new(), |all, (place, found)| all.object(place, types(found)));
        Object::new()
            .raw("bytes", &self.bytes.to_string())
            .raw("lines", &self.lines.to_string())
            .raw("values", &self.values.to_string())
            .object("places", places)
            .raw("has_more", &self.has_more.to_string())
            .finish()
    }
}

impl fmt::Display for FileShape {
    /// Several lines for people.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { bytes, lines, values, places, has_more } = self;
        match (*values, *lines) {
            (0, 0) => writeln!(f, "{bytes} bytes, nothing in it")?,
            (0, lines) => writeln!(f, "{bytes} bytes, {lines} lines of text, none of them JSON")?,
            (1, 1) => writeln!(f, "{bytes} bytes, one JSON value")?,
            (values, lines) => writeln!(f, "{bytes} bytes, {lines} lines, {values} of them JSON")?,
        }
        let width = places.keys().map(|place| place.len()).max().unwrap_or(0).clamp("(each value)".len(), 60);
        for (place, types) in places {
            let types: Vec<String> = types.iter().map(|(name, count)| format!("{name} × {count}")).collect();
            let place = if place.is_empty() { "(each value)" } else { place };
            writeln!(f, "  {place:<width$}  {}", types.join(", "))?;
        }
        if *has_more {
            writeln!(f, "  (more places are not listed)")?;
        }
        Ok(())
    }
}

fn is_container(value: Value<'_>) -> bool {
    matches!(value.kind(), Kind::Object | Kind::Array)
}

fn type_of(value: Value<'_>) -> &'static str {
    match value.kind() {
        Kind::Object => "object",
        Kind::Array => "list",
        Kind::String => "string",
        Kind::Number | Kind::NotANumber => "number",
        Kind::Bool => "boolean",
        Kind::Null => "null",
    }
}

/// Whether a field's name looks like one that a program has: short, one word of letters, and not an id.
fn is_chosen_by_a_program(name: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '$' | '@');
    let digits = name.bytes().filter(u8::is_ascii_digit).count();
    !name.is_empty() && name.len() <= LONGEST_NAME && digits <= 3 && name.chars().all(is_letter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_value_is_shown() {
        let text = r#"{"type":"secret one","message":{"content":[{"text":"secret two"},{"text":3}]},"/home/ada":true}
{"type":"secret three","0199a6aa-0000":null}
not json secret four"#;
        let shape = FileShape::of(text);
        assert_eq!((shape.lines, shape.values), (3, 2));
        assert_eq!(shape.having("type"), 2);
        let (shown, json) = (shape.to_string(), shape.to_json());
        for hidden in ["secret", "ada", "0199"] {
            assert!(!shown.contains(hidden) && !json.contains(hidden), "{shown}{json}");
        }
        assert!(shown.contains("message.content[].text"), "{shown}");
        assert!(shown.contains("number × 1, string × 1"), "{shown}");
        assert!(Doc::parse(&json).is_ok(), "{json}");
    }

    #[test]
    fn deep_and_wide_values_have_an_end() {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(FileShape::of(&deep).has_more);
        let fields: Vec<String> = (0..100_000).map(|number| format!("\"k{number}\":1")).collect();
        let shape = FileShape::of(&format!("{{{}}}", fields.join(",")));
        assert_eq!(shape.places.len(), 2);
        assert_eq!(FileShape::of("").to_string(), "0 bytes, nothing in it\n");
    }
}
