//! What an argument may be: dialects, formats, agents, states and rules by their names, from the registries.

use std::ffi::OsStr;

use clap::{
    Arg, Command,
    builder::{PossibleValue, PossibleValuesParser, TypedValueParser},
};
use rejoin::{
    Dialect, OnBroken, Rule,
    approval::ApprovalMode,
    installation::{readable, writable},
    sessions::{self, FORMATS, Format},
    store::{OWN_AGENT, SessionState},
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

impl Destination {
    /// The one of that name. A dialect's name always means a request body.
    pub fn named(name: &str) -> Option<Self> {
        let name = SHORT.iter().find(|(short, _)| *short == name).map_or(name, |(_, long)| long);
        let dialect = name.parse().ok().map(Self::Dialect);
        dialect.or_else(|| sessions::named(name).filter(|format| format.write.is_some()).map(Self::Format))
    }

    /// Whether it is JSON, or lines of JSON. Markdown is the one format for people.
    pub fn is_json(self) -> bool {
        !matches!(self, Self::Format(format) if format.name == "markdown")
    }
}

/// Formats by the short names that people type.
const SHORT: &[(&str, &str)] = &[("md", "markdown")];

/// The dialects, and the formats that can be written.
pub fn destinations() -> impl TypedValueParser<Value = Destination> {
    let names = Dialect::all().map(Dialect::name).chain(writable());
    let value = |name: &'static str| {
        let short = SHORT.iter().filter(move |(_, long)| *long == name).map(|(short, _)| *short);
        PossibleValue::new(name).aliases(short)
    };
    PossibleValuesParser::new(names.map(value).collect::<Vec<_>>())
        .map(|name| Destination::named(&name).expect("BUG: the choices are the names of both"))
}

/// The formats that can be read.
pub fn formats() -> impl TypedValueParser<Value = String> {
    PossibleValuesParser::new(readable().collect::<Vec<_>>())
}

/// The formats that can be read, and the dialects whose bodies can be checked.
pub fn formats_and_dialects() -> impl TypedValueParser<Value = String> {
    let more =
        Dialect::all().map(Dialect::name).filter(|name| FORMATS.iter().all(|format| format.name != *name));
    PossibleValuesParser::new(readable().chain(more).collect::<Vec<_>>())
}

/// The agents whose conversations may be in a store: rejoin itself, and those whose sessions can be read.
pub fn agents() -> impl TypedValueParser<Value = String> {
    let others = readable().filter(|name| *name != "jsonl");
    PossibleValuesParser::new([OWN_AGENT].into_iter().chain(others).collect::<Vec<_>>())
}

/// The words that lists use for states.
pub fn states() -> impl TypedValueParser<Value = String> {
    PossibleValuesParser::new(SessionState::WORDS)
}

/// The APIs of a provider that has several.
pub fn apis() -> impl TypedValueParser<Value = String> {
    let values = [("chat", "Chat Completions"), ("responses", "Responses")];
    PossibleValuesParser::new(values.map(|(name, help)| PossibleValue::new(name).help(help)))
}

/// Which calls run without asking.
pub fn modes() -> impl TypedValueParser<Value = ApprovalMode> {
    let help = |mode: ApprovalMode| match mode {
        ApprovalMode::Ask => "Ask before anything changes",
        ApprovalMode::Auto => "Run everything that stays inside the sandbox",
        ApprovalMode::ReadOnly => "Change nothing",
    };
    let values = ApprovalMode::ALL.iter().map(|mode| PossibleValue::new(mode.name()).help(help(*mode)));
    PossibleValuesParser::new(values.collect::<Vec<_>>())
        .map(|name| ApprovalMode::named(&name).expect("BUG: the choices are the modes' own names"))
}

/// What `convert --on-broken` takes.
pub const CONVERTING: &[(OnBroken, &str)] = &[
    (OnBroken::Keep, "Repair and keep everything"),
    (OnBroken::Drop, "Repair and leave out what is incomplete"),
    (OnBroken::Refuse, "Print what is wrong and write nothing"),
];

/// What `resume --on-broken` takes.
pub const RESUMING: &[(OnBroken, &str)] = &[
    (OnBroken::Keep, "Tell the model that no result was recorded"),
    (OnBroken::Drop, "Leave them out"),
    (OnBroken::Rerun, "Run calls without a result again"),
    (OnBroken::Refuse, "Print what is wrong and send nothing"),
];

/// What becomes of broken states, as far as a command can do it.
pub fn policies(allowed: &'static [(OnBroken, &'static str)]) -> impl TypedValueParser<Value = OnBroken> {
    let help = |value: OnBroken| allowed.iter().find(|(allowed, _)| *allowed == value).map(|(_, help)| *help);
    let values =
        OnBroken::ALL.iter().filter_map(|(name, value)| Some(PossibleValue::new(*name).help(help(*value)?)));
    PossibleValuesParser::new(values.collect::<Vec<_>>())
        .map(|name| OnBroken::named(&name).expect("BUG: the choices are the policies' own names"))
}

/// The name of a rule: any text, because `explain` itself suggests what was meant. The findings are listed in help and
/// completions; the rules of providers are too many for that.
#[derive(Clone)]
pub struct RuleName;

impl TypedValueParser for RuleName {
    type Value = String;

    fn parse_ref(&self, _: &Command, _: Option<&Arg>, given: &OsStr) -> Result<String, clap::Error> {
        Ok(given.to_string_lossy().into_owned())
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(Rule::ALL.iter().map(|rule| PossibleValue::new(rule.name()))))
    }
}
