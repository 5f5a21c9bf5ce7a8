//! The values of arguments: dialects, formats, agents, states and rules by their names, from the registries.

use std::{ffi::OsStr, str::FromStr};

use clap::{
    Arg, Command,
    builder::{PossibleValue, PossibleValuesParser, TypedValueParser},
};
use jiff::tz::TimeZone;
use rejoin::{
    Dialect, OnBroken, Rule, Timestamp,
    approval::ApprovalMode,
    destination::Destination,
    installation::{readable, writable},
    moment,
    places::AGENTS,
    sessions::FORMATS,
    stats::Grouping,
    store::{OWN_AGENT, SessionState},
};

/// The ways to break statistics down.
pub fn ways() -> impl TypedValueParser<Value = Grouping> {
    PossibleValuesParser::new(Grouping::ALL.iter().map(|way| way.name())).map(|name| {
        let way = Grouping::ALL.iter().find(|way| way.name() == name);
        *way.expect("BUG: the choices are the names of the ways")
    })
}

/// Parses a point in time: a day in local time, a time, or how long ago it was.
pub fn time(given: &str) -> Result<Timestamp, String> {
    moment::moment(given.trim(), Timestamp::now(), TimeZone::system()).ok_or_else(|| {
        String::from("it must be a day (2026-08-01), a time (2026-08-01T12:00:00Z) or how long ago (24h, 7d)")
    })
}

/// A whole number from 0.
pub fn whole_number<N: FromStr>(given: &str) -> Result<N, String> {
    given.trim().parse().map_err(|_| String::from("it must be a whole number from 0"))
}

/// A whole number from 1.
pub fn from_one<N: FromStr + PartialOrd + From<u8>>(given: &str) -> Result<N, String> {
    let number = given.trim().parse().ok().filter(|number| *number >= N::from(1));
    number.ok_or_else(|| String::from("it must be a whole number from 1"))
}

/// The dialects.
pub fn dialects() -> impl TypedValueParser<Value = Dialect> {
    PossibleValuesParser::new(Dialect::all().map(Dialect::name))
        .map(|name| name.parse().expect("BUG: the choices are the dialects' own names"))
}

/// The dialects, and the formats that can be written.
pub fn destinations() -> impl TypedValueParser<Value = Destination> {
    let names = Dialect::all().map(Dialect::name).chain(writable());
    let value = |name: &'static str| PossibleValue::new(name).aliases(Destination::short_names(name));
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

/// The agents whose sessions are looked for on this machine.
pub fn found_agents() -> impl TypedValueParser<Value = String> {
    PossibleValuesParser::new(AGENTS.iter().map(|agent| agent.format).collect::<Vec<_>>())
}

/// The agents to which a session can be given.
pub fn taking_agents() -> impl TypedValueParser<Value = Destination> {
    let taking = AGENTS.iter().filter(|agent| agent.installs.is_some()).map(|agent| agent.format);
    PossibleValuesParser::new(taking.collect::<Vec<_>>())
        .map(|name| Destination::named(&name).expect("BUG: the choices are the names of formats"))
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

/// The values of `convert --on-broken`.
pub const CONVERTING: &[(OnBroken, &str)] = &[
    (OnBroken::Keep, "Repair and keep everything"),
    (OnBroken::Drop, "Repair and leave out what is incomplete"),
    (OnBroken::Refuse, "Print what is wrong and write nothing"),
];

/// The values of `resume --on-broken`.
pub const RESUMING: &[(OnBroken, &str)] = &[
    (OnBroken::Keep, "Tell the model that no result was recorded"),
    (OnBroken::Drop, "Leave them out"),
    (OnBroken::Rerun, "Run calls without a result again"),
    (OnBroken::Refuse, "Print what is wrong and send nothing"),
];

/// The treatments of broken states that a command supports.
pub fn policies(allowed: &'static [(OnBroken, &'static str)]) -> impl TypedValueParser<Value = OnBroken> {
    let help = |value: OnBroken| allowed.iter().find(|(allowed, _)| *allowed == value).map(|(_, help)| *help);
    let values =
        OnBroken::ALL.iter().filter_map(|(name, value)| Some(PossibleValue::new(*name).help(help(*value)?)));
    PossibleValuesParser::new(values.collect::<Vec<_>>())
        .map(|name| OnBroken::named(&name).expect("BUG: the choices are the policies' own names"))
}

/// The name of a rule. Any text is accepted, because `explain` itself suggests the intended name. Help and completions list the
/// findings, but not the rules of providers, which are too many.
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
