//! The shape of a file with all values removed: which fields there are, of which types, and how often.
//!
//! It is for reports about files that rejoin cannot read. It shows only names of fields, and only those made of words that are common
//! in session files: any other name may be a key, a user or a path, and becomes `*`. If an object may be a table with the user's own
//! names, such as `{"alice":1,"bob":2}`, all its names become `*`. In such a table, all values are of one type, and few names are
//! made of the words that programs use.
//!
//! To find the format that a file resembles, names that only look as if a program chose them are needed, too.

use std::{collections::BTreeMap, fmt};

use rejoin_record::json::{Doc, Object, Value, ValueKind};
#[cfg(feature = "sqlite")]
use rusqlite::types::ValueRef;

#[cfg(feature = "sqlite")]
use crate::sessions::Database;

/// The most places that are listed. A file with more places uses data as names.
const PLACES: usize = 400;

/// The most fields of one object that are listed by their names.
const FIELDS: usize = 60;

/// The longest name of a field that a program chose.
const LONGEST_NAME: usize = 40;

/// How many rows of each table of a database are examined.
#[cfg(feature = "sqlite")]
const ROWS: usize = 1_000;

/// How deep places are listed.
const DEEPEST: usize = 16;

/// Which names of fields are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ListedNames {
    /// Those made of common words: the list may be shown to others.
    Common,
    /// Those that a program may have chosen.
    Likely,
}

impl ListedNames {
    fn include(self, name: &str) -> bool {
        is_chosen_by_a_program(name) && (self == Self::Likely || is_made_of_known_words(name))
    }
}

/// The shape of a file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FileShape {
    /// The number of bytes.
    pub bytes: usize,
    /// Whether it is a database.
    pub is_database: bool,
    /// The number of lines that are not blank, or of rows. One value over several lines counts as one line.
    pub lines: usize,
    /// The number of JSON objects or lists in them.
    pub values: usize,
    /// Each place in these values, such as `message.content[].text`, with the number of values of each type there. The first, without a
    /// name, is the value itself.
    pub places: BTreeMap<String, BTreeMap<&'static str, usize>>,
    /// Whether some places are not listed, because there are too many.
    pub has_more: bool,
}

impl FileShape {
    /// The shape of a text, for a report.
    #[must_use]
    pub fn of(text: &str) -> Self {
        Self::with_names(text, ListedNames::Common)
    }

    /// The shape of a text with more names, for finding the format that it resembles.
    #[must_use]
    pub fn with_likely_names(text: &str) -> Self {
        Self::with_names(text, ListedNames::Likely)
    }

    fn with_names(text: &str, names: ListedNames) -> Self {
        let mut shape = Self { bytes: text.len(), ..Self::default() };
        let (doc, error) = Doc::parse_prefix(text);
        match doc.root().filter(|root| error.is_none() && is_container(*root)) {
            Some(root) => {
                (shape.lines, shape.values) = (1, 1);
                shape.add(String::new(), root, names);
            }
            None => {
                for line in text.lines().filter(|line| !line.trim().is_empty()) {
                    shape.lines += 1;
                    let (doc, error) = Doc::parse_prefix(line);
                    if let Some(root) = doc.root().filter(|root| error.is_none() && is_container(*root)) {
                        shape.values += 1;
                        shape.add(String::new(), root, names);
                    }
                }
            }
        }
        shape
    }

    /// The shape of a database: its tables, their columns, and the JSON in these. Each row of the first 1,000 counts as a value.
    #[cfg(feature = "sqlite")]
    #[must_use]
    pub fn of_database(bytes: usize, database: &Database) -> Self {
        let mut shape = Self { bytes, is_database: true, ..Self::default() };
        for (table, columns) in database.tables() {
            let name =
                |name: &str| if is_chosen_by_a_program(name) { name.to_owned() } else { String::from("*") };
            let places: Vec<String> =
                columns.iter().map(|column| format!("{}.{}", name(table), name(column))).collect();
            let sql = format!("SELECT * FROM \"{}\" LIMIT {ROWS}", table.replace('"', "\"\""));
            // A table that cannot be read, such as one of an extension, has no rows here.
            let _unread = database.each(&sql, [], |row| {
                shape.lines += 1;
                for (number, place) in places.iter().enumerate() {
                    let (kind, text) = match row.get_ref(number)? {
                        ValueRef::Null => ("null", None),
                        ValueRef::Integer(_) | ValueRef::Real(_) => ("number", None),
                        ValueRef::Text(bytes) => ("string", std::str::from_utf8(bytes).ok()),
                        ValueRef::Blob(_) => ("bytes", None),
                    };
                    shape.count(place, kind);
                    let doc = text.filter(|text| text.starts_with(['{', '['])).map(Doc::of);
                    if let Some(root) = doc.as_ref().and_then(Doc::root) {
                        shape.values += 1;
                        shape.add(format!("{place}:"), root, ListedNames::Common);
                    }
                }
                Ok(())
            });
        }
        shape
    }

    /// Counts a value at a place. False if the place is not listed.
    fn count(&mut self, place: &str, kind: &'static str) -> bool {
        if !self.places.contains_key(place) && self.places.len() >= PLACES {
            self.has_more = true;
            return false;
        }
        *self.places.entry(place.to_owned()).or_default().entry(kind).or_default() += 1;
        true
    }

    /// Adds the places of a value. It does not recurse, because a file may be nested deeply enough to exhaust the stack.
    fn add(&mut self, root_place: String, root: Value<'_>, names: ListedNames) {
        let mut open = vec![(root_place, root, 0)];
        while let Some((place, value, depth)) = open.pop() {
            if !self.count(&place, type_of(value)) {
                continue;
            }
            if depth == DEEPEST {
                self.has_more |= is_container(value);
                continue;
            }
            open.extend(value.items().map(|item| (format!("{place}[]"), item, depth + 1)));
            // The fields of a line or of a document: without their names, nothing would be said of it.
            let is_line = || names == ListedNames::Likely && matches!(&*place, "" | "[]") && is_small(value);
            let is_record = is_record(value) || is_line();
            open.extend(value.fields().map(|(key, field)| {
                let name = key.as_str().filter(|name| is_record && names.include(name));
                let name = name.as_deref().unwrap_or("*");
                let dot = if place.is_empty() || place.ends_with(':') { "" } else { "." };
                (format!("{place}{dot}{name}"), field, depth + 1)
            }));
        }
    }

    /// The names of the fields directly below a place, most frequent first. The place ends with a dot, such as `messages[].`.
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
        let Self { bytes, is_database, lines, values, places, has_more } = self;
        match (*values, *lines) {
            (values, lines) if *is_database => {
                writeln!(f, "{bytes} bytes, a database: {lines} rows, {values} JSON values in their columns")?
            }
            (0, 0) => writeln!(f, "{bytes} bytes, nothing in it")?,
            (0, 1) => writeln!(f, "{bytes} bytes, one line of text that is not JSON")?,
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
        if places.keys().any(|place| is_hidden(place)) {
            writeln!(f, "  (`*` stands for names that may be your own)")?;
        }
        if *has_more {
            writeln!(f, "  (more places are not listed)")?;
        }
        Ok(())
    }
}

/// Whether a place contains a hidden name, `*`.
fn is_hidden(place: &str) -> bool {
    place.split(['.', ':', '[', ']']).any(|name| name == "*")
}

fn is_container(value: Value<'_>) -> bool {
    matches!(value.kind(), ValueKind::Object | ValueKind::Array)
}

fn type_of(value: Value<'_>) -> &'static str {
    match value.kind() {
        ValueKind::Object => "object",
        ValueKind::Array => "list",
        ValueKind::String => "string",
        ValueKind::Number | ValueKind::NotANumber => "number",
        ValueKind::Bool => "boolean",
        ValueKind::Null => "null",
    }
}

/// Whether the names in an object are names of fields, and not data. There are few of them, and either the values are of several
/// types or most names are made of known words.
fn is_record(object: Value<'_>) -> bool {
    let mut kinds = object.fields().map(|(_, value)| type_of(value)).filter(|kind| *kind != "null");
    let first = kinds.next();
    let is_mixed = kinds.any(|kind| Some(kind) != first);
    let are_known = || {
        let names = object.fields().filter_map(|(key, _)| key.as_str());
        let names: Vec<_> = names.filter(|name| is_chosen_by_a_program(name)).collect();
        names.iter().filter(|name| is_made_of_known_words(name)).count() * 2 > names.len()
    };
    is_small(object) && (is_mixed || are_known())
}

fn is_small(object: Value<'_>) -> bool {
    object.fields().nth(FIELDS).is_none()
}

/// Whether a name looks as if a program chose it: short, one word of letters, and neither an id nor a key.
pub(super) fn is_chosen_by_a_program(name: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '$' | '@');
    let digits = name.bytes().filter(u8::is_ascii_digit).count();
    let is_name =
        !name.is_empty() && name.len() <= LONGEST_NAME && digits <= 3 && name.chars().all(is_letter);
    is_name && (name.len() <= SHORT_NAME || is_made_of_known_words(name) || words(name).all(is_pronounceable))
}

/// The longest name that is accepted without a check of its words.
const SHORT_NAME: usize = 12;

/// Whether a word of a long name can be pronounced: it has no long run of consonants and is mostly in one case. Random letters
/// often fail this test.
fn is_pronounceable(word: &str) -> bool {
    let consonants = word.as_bytes().split(|byte| b"aeiouyAEIOUY".contains(byte));
    let count = |is: fn(&u8) -> bool| word.bytes().filter(is).count();
    let is_mixed = count(u8::is_ascii_lowercase).min(count(u8::is_ascii_uppercase)) > 3;
    word.len() > 1 && !is_mixed && consonants.map(<[u8]>::len).max().unwrap_or_default() <= 4
}

fn is_made_of_known_words(name: &str) -> bool {
    let is_known = |word: &str| {
        let word = word.to_ascii_lowercase();
        let is_listed = |word: &str| WORDS.split_ascii_whitespace().any(|known| known == word);
        is_listed(&word) || word.strip_suffix('s').is_some_and(is_listed)
    };
    name.is_ascii() && words(name).next().is_some() && words(name).all(is_known)
}

/// The words of a name such as `toolCallId`, `tool_call_id` or `Tool-Call`.
fn words(name: &str) -> impl Iterator<Item = &str> {
    let mut rest = name;
    std::iter::from_fn(move || {
        rest = rest.trim_start_matches(['_', '-', '$', '@']);
        let begins = |at: usize| {
            let (before, here) = (rest.as_bytes()[at - 1], rest.as_bytes()[at]);
            !here.is_ascii_alphanumeric() || (before.is_ascii_lowercase() && here.is_ascii_uppercase())
        };
        let end = (1..rest.len()).find(|at| begins(*at)).unwrap_or(rest.len());
        let (word, after) = rest.split_at_checked(end)?;
        rest = after;
        (!word.is_empty()).then_some(word)
    })
}

/// The words that are common in names of fields in sessions, in the singular.
const WORDS: &str = "action agent answer api app arg argument artifact assistant attachment author base body bot branch browser bytes \
    cache call chat checkpoint child chunk citation client code command comment commit completion config content context conversation \
    cost count created creator cursor cwd data date delta description dialogue diff directory document duration edit end entry env error \
    eval event exception exit external feedback field file finish first flag format from full function generation git group hash head \
    header history host human id image index info input instruction is item job json key kind label language last length level line link \
    list location log max media memory message meta metadata method mime min mini mode model modified name new next node note number \
    object observation old operation option order origin output owner page param parameter parent part path payload permission plan \
    platform position preview previous project prompt provider query question reason reasoning ref reply repo request response result \
    role root run said sample say score seq sequence server session settings sha sidechain signature simulation size snapshot source span speaker \
    stamp start state status step stderr stdout steps stop stream string success summary system tag task temperature text thinking \
    thought thread time timestamp title to token tool total trace traj trajectory ts turn type updated uri url usage use user utc uuid v \
    value version who window with word workspace \
    asker dialog intent says utterance and as at by for has in of on \
    cached deleted inner leaf range read visible write";

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
    fn tables_with_names_of_users_show_none_of_them() {
        let text = r#"{"scores":{"alice":1,"bob":2,"carol":null},"files":{"Makefile":{"lines":3},"notes":{"lines":4}},
            "env":{"SECRET_PROJECT":"x","HOME":"y"},"one":{"alice":"x"},
            "usage":{"input_tokens":1,"cacheReadTokens":2},"tools":[{"speed":3,"colour":"red"}],
            "ghp_abcdefABCDEFabcdefABCDEFabcdefABCDEF":1,"sk-proj-bcdfghjklmnpqrstvwxz":2,"dataVEVSWVNFQ1JFVEJBU0U":3,
            "a sentence of the user":4,"conversationHistoryDeletedRange":[1,2]}"#;
        let shape = FileShape::of(text);
        let (shown, json) = (shape.to_string(), shape.to_json());
        assert!(shown.contains("(`*` stands for names that may be your own)"), "{shown}");
        let people = ["alice", "bob", "carol", "Makefile", "notes", "SECRET", "HOME"];
        for hidden in people.into_iter().chain(["ghp_", "sk-", "VEV", "sentence", "speed", "colour"]) {
            assert!(!shown.contains(hidden) && !json.contains(hidden), "{hidden}: {shown}{json}");
        }
        for place in [
            "scores.*",
            "files.*.lines",
            "usage.input_tokens",
            "usage.cacheReadTokens",
            "tools[].*",
            "conversationHistoryDeletedRange[]",
        ] {
            assert!(shape.having(place) > 0, "{place}: {shown}");
        }
    }

    /// Beside names of fields, too, a name may be a key or a user.
    #[test]
    fn names_that_may_be_secrets_are_not_shown_beside_common_ones() {
        for secret in [
            "hunter",
            "swordfish",
            "bob-laptop",
            "AKIAIOSFODNN",
            "deadbeefcafe",
            "glpat-abcdef",
            "my-project",
        ] {
            let text = format!(r#"{{"version":1,"created_at":"x","title":"y","{secret}":{{"lines":3}}}}"#);
            let shown = FileShape::of(&text).to_string();
            assert!(!shown.contains(secret) && shown.contains("created_at"), "{secret}: {shown}");
        }
    }

    #[test]
    fn names_are_split_into_words() {
        for (name, expected) in [
            ("toolCallId", &["tool", "Call", "Id"][..]),
            ("tool_call-id", &["tool", "call", "id"]),
            ("$ref", &["ref"]),
            ("_", &[]),
            ("", &[]),
            ("URL", &["URL"]),
        ] {
            assert_eq!(words(name).collect::<Vec<_>>(), expected, "{name}");
        }
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
