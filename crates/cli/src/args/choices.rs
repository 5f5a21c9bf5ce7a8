//! What an argument may be: dialects, formats, rules and stores by their names, from the registries.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use rejoin::{
    Dialect, Rule,
    sessions::{FORMATS, Format},
};

/// The dialects.
pub fn dialects() -> impl TypedValueParser<Value = Dialect> {
    PossibleValuesParser::new(Dialect::all().map(Dialect::name))
        .map(|name| name.parse().expect("BUG: the choices are the dialects' own names"))
}

/// What a conversation is turned into.
#[derive(Clone, Copy)]
pub enum Destination {
    /// A request body.
    Dialect(Dialect),
    /// A session file.
    Format(&'static Format),
}

impl std::fmt::Debug for Destination {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Dialect(dialect) => f.write_str(dialect.name()),
            Self::Format(format) => f.write_str(format.name),
        }
    }
}

/// The dialects, and the formats that can be written.
pub fn destinations() -> impl TypedValueParser<Value = Destination> {
    let written = || FORMATS.iter().filter(|format| format.write.is_some());
    let names = Dialect::all().map(Dialect::name).chain(written().map(|format| format.name));
    PossibleValuesParser::new(names.collect::<Vec<_>>()).map(move |name| {
        // A dialect's name always means a request body.
        name.parse().map(Destination::Dialect).unwrap_or_else(|_| {
            let format = written().find(|format| format.name == name);
            Destination::Format(format.expect("BUG: the choices are the names of both"))
        })
    })
}

/// The formats that can be read.
pub fn formats() -> impl TypedValueParser<Value = String> {
    let read = FORMATS.iter().filter(|format| format.read.is_some());
    PossibleValuesParser::new(read.map(|format| format.name).collect::<Vec<_>>())
}

/// The formats that can be read, and the dialects whose bodies can be checked.
pub fn formats_and_dialects() -> impl TypedValueParser<Value = String> {
    let read = FORMATS.iter().filter(|format| format.read.is_some()).map(|format| format.name);
    let more =
        Dialect::all().map(Dialect::name).filter(|name| FORMATS.iter().all(|format| format.name != *name));
    PossibleValuesParser::new(read.chain(more).collect::<Vec<_>>())
}

/// The rules.
pub fn rules() -> impl TypedValueParser<Value = Rule> {
    PossibleValuesParser::new(Rule::ALL.iter().map(|rule| rule.name())).map(|name| {
        let found = Rule::ALL.iter().copied().find(|rule| rule.name() == name);
        found.expect("BUG: the choices are the rules' own names")
    })
}
