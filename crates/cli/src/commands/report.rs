//! How findings look: as JSON for programs, as sentences for people.

use std::collections::HashMap;

use rejoin::{Dialect, Finding, Input, Position, Rule, Session, Severity, Verdict, check::Refusal};

use crate::{
    json::Object,
    output::{self, harmless, paint},
};

/// Gives findings of a session their lines in the input.
pub fn with_lines(input: &Input, session: &Session, mut findings: Vec<Finding>) -> Vec<Finding> {
    fill_lines(input, session, findings.iter_mut().map(|finding| &mut finding.at));
    findings
}

/// Gives places of a session their lines in the input.
pub fn fill_lines<'p>(input: &Input, session: &Session, places: impl Iterator<Item = &'p mut Position>) {
    // Most readers know the lines; a large session is not gone through for nothing.
    let mut missing = places.filter(|at| at.line.is_none() && at.message.is_some()).peekable();
    if missing.peek().is_none() {
        return;
    }
    let places = session.source_places();
    let mut lines = Lines { input, known: vec![(0, 1)], cache: HashMap::new() };
    for at in missing {
        let place = at.message.and_then(|message| places.get(&message));
        at.line = place.map(|place| place.line.unwrap_or_else(|| lines.of(place.offset)));
    }
}

/// Line numbers by offset, counting each stretch of the input once.
struct Lines<'i> {
    input: &'i Input,
    known: Vec<(usize, usize)>,
    cache: HashMap<usize, usize>,
}

impl Lines<'_> {
    fn of(&mut self, offset: usize) -> usize {
        if let Some(line) = self.cache.get(&offset) {
            return *line;
        }
        let place = self.known.partition_point(|(known, _)| *known <= offset);
        let (from, line) = self.known[place - 1];
        let bytes = &self.input.text.as_bytes()[from..offset.min(self.input.text.len())];
        let line = line + bytes.iter().filter(|&&byte| byte == b'\n').count();
        self.known.insert(place, (offset, line));
        self.cache.insert(offset, line);
        line
    }
}

/// A finding as JSON.
pub fn json(finding: &Finding) -> String {
    Object::new()
        .text("rule", finding.rule)
        .text("severity", finding.severity.name())
        .object("at", place_json(finding.at))
        .text("message", finding)
        .text("action", finding.action.name())
        .finish()
}

/// A place as JSON.
fn place_json(at: Position) -> Object {
    let place = Object::new().number_or_null("message", at.message).number_or_null("block", at.block);
    place.number_or_null("line", at.line)
}

/// What a provider would say to a part of a request, as JSON in the shape of a finding.
pub fn refusal_json(refusal: &Refusal, severity: Severity) -> String {
    let violation = &refusal.violation;
    Object::new()
        .text("rule", violation.rule)
        .text("severity", severity.name())
        .object("at", place_json(refusal.at))
        .text("path", &violation.path)
        .text("message", &violation.message)
        .text("action", rejoin::Action::Kept.name())
        .finish()
}

/// What a provider would say to a part of a request, in one line.
pub fn refusal_line(refusal: &Refusal, severity: Severity) -> String {
    let violation = &refusal.violation;
    let place = match refusal.at.message {
        Some(_) => place_of(refusal.at),
        None => format!("at `{}`", harmless(&violation.path)),
    };
    let rule = paint(&format!("[{}]", violation.rule), output::DIM);
    format!("{} {place}: {} {rule}", severity_word(severity), harmless(&violation.message))
}

/// The flags of `convert` that would give a request what only its caller can choose.
pub fn missing_flags(verdict: &Verdict) -> Vec<&'static str> {
    let flags = verdict.violations.iter().filter_map(|violation| match violation.path.as_str() {
        "model" => Some("`--model MODEL`"),
        "max_tokens" => Some("`--max-tokens N`"),
        _ => None,
    });
    flags.collect()
}

/// A list of findings as JSON.
pub fn json_list(findings: &[Finding]) -> String {
    crate::json::list(findings.iter().map(json))
}

/// Where a finding is, for a person.
pub fn place(finding: &Finding) -> String {
    match (finding.at.message, finding.at.line) {
        (None, None) if is_of_storage(finding.rule) => String::from("in the store"),
        _ => place_of(finding.at),
    }
}

fn place_of(at: Position) -> String {
    let mut place = match (at.message, at.block) {
        (Some(message), Some(block)) => format!("at message {message}, block {block}"),
        (Some(message), None) => format!("at message {message}"),
        (None, _) => match at.line {
            Some(line) => return format!("at line {line}"),
            None => String::from("in the request"),
        },
    };
    if let Some(line) = at.line {
        place.push_str(&format!(" (line {line})"));
    }
    place
}

/// Whether a rule is about how a conversation is stored, not about what is said in it.
pub fn is_of_storage(rule: Rule) -> bool {
    matches!(rule, Rule::DamagedEntry | Rule::BrokenChain | Rule::TornTail)
}

/// A finding in one line.
pub fn line(finding: &Finding) -> String {
    let rule = paint(&format!("[{}]", finding.rule), output::DIM);
    let words = harmless(&finding.to_string());
    format!("{} {}: {words} {rule}", severity_word(finding.severity), place(finding))
}

/// The word for how bad something is.
pub fn severity_word(severity: Severity) -> String {
    let style = match severity {
        Severity::Error => output::ERROR,
        Severity::Warning => output::WARNING,
        Severity::Note => output::NOTE,
    };
    paint(severity.name(), style)
}

/// What the provider would answer to it, in its own words.
pub fn answer(finding: &Finding, dialect: Dialect) -> Option<String> {
    let wire = dialect.wire();
    let number =
        |number: Option<usize>| number.map_or_else(|| String::from("…"), |number| number.to_string());
    let words = wire
        .answer(finding.rule)?
        .replace("{id}", finding.subject.as_deref().unwrap_or("…"))
        .replace("{i}", &number(finding.at.message))
        .replace("{j}", &number(finding.at.block));
    Some(format!("{} would answer 400: {}", wire.provider(), harmless(&words)))
}
