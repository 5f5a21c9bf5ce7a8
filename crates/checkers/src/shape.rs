//! Tables of the fields that an object may have, and the comparison of an object with such a table. Each provider words a
//! fault differently (`words.rs`).

use serde_json::{Map, Value};

use crate::Extent;

/// Fields of an object that take the same kind of value.
#[derive(Debug)]
pub(crate) struct Row {
    pub need: Need,
    pub kind: Kind,
    /// The names of the fields, separated by spaces.
    pub names: &'static str,
}

/// Fields that may be absent, but not null.
pub(crate) const fn optional(names: &'static str, kind: Kind) -> Row {
    Row { need: Need::Optional, kind, names }
}

/// Fields that may be absent or null.
pub(crate) const fn nullable(names: &'static str, kind: Kind) -> Row {
    Row { need: Need::Nullable, kind, names }
}

/// Fields that every request needs and that only the caller can choose.
pub(crate) const fn required(names: &'static str, kind: Kind) -> Row {
    Row { need: Need::Required, kind, names }
}

/// Whether a field may be missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    Optional,
    Nullable,
    Required,
}

/// The values that a field may have.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    /// Any value. If it is checked, then elsewhere.
    Any,
    Text,
    FilledText,
    Flag,
    /// A whole number in this range.
    Integer(i64, i64),
    /// A number in this range.
    Number(f64, f64),
    OneOf(&'static [&'static str]),
    List,
    /// A list of strings, at most this many.
    Texts(usize),
    /// A string, or a list of strings, at most this many.
    TextOrTexts(usize),
    Object,
    /// An object with these fields and no others.
    Fields(&'static [Row]),
    /// An object whose values are strings, at most this many.
    TextMap(usize),
}

/// A whole number that must be positive.
pub(crate) const POSITIVE: Kind = Kind::Integer(1, i64::MAX);
/// A whole number that must not be negative.
pub(crate) const NATURAL: Kind = Kind::Integer(0, i64::MAX);

/// How an object differs from its table.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Fault<'v> {
    /// The path of the field, such as `inferenceConfig.topP`.
    pub path: String,
    pub what: FaultKind<'v>,
}

/// The kind of a fault in a field.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum FaultKind<'v> {
    Unknown,
    Missing,
    /// The value should have another type, given by its JSON name.
    Type {
        expected: &'static str,
        found: &'v Value,
    },
    TooSmall {
        least: f64,
        found: &'v Value,
    },
    TooLarge {
        most: f64,
        found: &'v Value,
    },
    Empty,
    TooMany {
        most: usize,
        found: usize,
    },
    NotOneOf {
        allowed: &'static [&'static str],
        found: &'v Value,
    },
    /// Any other fault, in words of the provider that only need the position.
    Other(&'v str),
}

/// Compares the fields of an object with a table, in the order of the document; missing fields come last.
///
/// `spelling` turns a field's name into the spelling of the table.
pub(crate) fn faults<'v>(
    object: &'v Map<String, Value>,
    table: &[Row],
    extent: Extent,
    spelling: fn(&str) -> String,
) -> Vec<Fault<'v>> {
    let mut comparison = Comparison { extent, spelling, faults: Vec::new() };
    if extent != Extent::Messages {
        comparison.fields(object, table, "");
    }
    comparison.faults
}

struct Comparison<'v> {
    extent: Extent,
    spelling: fn(&str) -> String,
    faults: Vec<Fault<'v>>,
}

impl<'v> Comparison<'v> {
    fn fields(&mut self, object: &'v Map<String, Value>, table: &[Row], above: &str) {
        for (name, value) in object {
            let path = format!("{above}{name}");
            let spelled = (self.spelling)(name);
            match table.iter().find(|row| row.names.split(' ').any(|name| name == spelled)) {
                None => self.faults.push(Fault { path, what: FaultKind::Unknown }),
                Some(row) if value.is_null() && row.need == Need::Nullable => {}
                Some(row) => self.value(value, row.kind, path),
            }
        }
        if self.extent == Extent::Request {
            let required = table.iter().filter(|row| row.need == Need::Required);
            let missing =
                required.flat_map(|row| row.names.split(' ')).filter(|name| !object.contains_key(*name));
            let fault = |name| Fault { path: format!("{above}{name}"), what: FaultKind::Missing };
            self.faults.extend(missing.map(fault));
        }
    }

    fn value(&mut self, value: &'v Value, kind: Kind, path: String) {
        let wrong = |expected| Some(FaultKind::Type { expected, found: value });
        let texts = |items: &[Value], most: usize| match items.iter().find(|item| !item.is_string()) {
            Some(_) => wrong("an array of strings"),
            None => (items.len() > most).then_some(FaultKind::TooMany { most, found: items.len() }),
        };
        let what = match (kind, value) {
            (Kind::Any, _)
            | (Kind::Text | Kind::TextOrTexts(_), Value::String(_))
            | (Kind::Flag, Value::Bool(_))
            | (Kind::List, Value::Array(_))
            | (Kind::Object, Value::Object(_)) => None,
            (Kind::FilledText, Value::String(text)) => text.is_empty().then_some(FaultKind::Empty),
            (Kind::Integer(least, most), Value::Number(number)) => match number.as_i64() {
                Some(number) if number < least => {
                    Some(FaultKind::TooSmall { least: least as f64, found: value })
                }
                Some(number) if number > most => {
                    Some(FaultKind::TooLarge { most: most as f64, found: value })
                }
                Some(_) => None,
                // Some clients write whole numbers as 8.0, which every provider reads as 8.
                None if number.as_f64().is_some_and(|number| number.fract() == 0.0) => None,
                None => wrong("an integer"),
            },
            (Kind::Number(least, most), Value::Number(number)) => match number.as_f64() {
                Some(number) if number < least => Some(FaultKind::TooSmall { least, found: value }),
                Some(number) if number > most => Some(FaultKind::TooLarge { most, found: value }),
                _ => None,
            },
            (Kind::OneOf(allowed), Value::String(text)) => {
                (!allowed.contains(&text.as_str())).then_some(FaultKind::NotOneOf { allowed, found: value })
            }
            (Kind::Texts(most) | Kind::TextOrTexts(most), Value::Array(items)) => texts(items, most),
            (Kind::Fields(table), Value::Object(object)) => {
                return self.fields(object, table, &format!("{path}."));
            }
            (Kind::TextMap(most), Value::Object(object)) => {
                if object.values().any(|value| !value.is_string()) {
                    wrong("an object of strings")
                } else {
                    (object.len() > most).then_some(FaultKind::TooMany { most, found: object.len() })
                }
            }
            (Kind::Text | Kind::FilledText | Kind::OneOf(_), _) => wrong("a string"),
            (Kind::Flag, _) => wrong("a boolean"),
            (Kind::Integer(..), _) => wrong("an integer"),
            (Kind::Number(..), _) => wrong("a number"),
            (Kind::List, _) => wrong("an array"),
            (Kind::Texts(_), _) => wrong("an array of strings"),
            (Kind::TextOrTexts(_), _) => wrong("a string or an array of strings"),
            (Kind::Object | Kind::Fields(_) | Kind::TextMap(_), _) => wrong("an object"),
        };
        self.faults.extend(what.map(|what| Fault { path, what }));
    }
}
