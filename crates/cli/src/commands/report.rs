//! How findings look: as JSON for programs, as sentences for people.

use std::collections::HashMap;

use rejoin::{Dialect, Finding, Input, Rule, Session, Severity, record::json::write};

use crate::output::{self, harmless, paint};

/// Gives findings of a session their lines in the input.
pub fn with_lines(input: &Input, session: &Session, findings: Vec<Finding>) -> Vec<Finding> {
    // Most readers know the lines; a large session is not gone through for nothing.
    if findings.iter().all(|finding| finding.at.line.is_some() || finding.at.message.is_none()) {
        return findings;
    }
    let places = session.source_places();
    let mut lines = Lines { input, known: vec![(0, 1)], cache: HashMap::new() };
    findings
        .into_iter()
        .map(|mut finding| {
            if finding.at.line.is_none() {
                let place = finding.at.message.and_then(|message| places.get(&message));
                finding.at.line = place.map(|place| place.line.unwrap_or_else(|| lines.of(place.offset)));
            }
            finding
        })
        .collect()
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
    let mut out = String::from("{");
    write::key(&mut out, "rule");
    write::string(&mut out, finding.rule.name());
    write::key(&mut out, "severity");
    write::string(&mut out, finding.severity.name());
    write::key(&mut out, "at");
    out.push('{');
    let at = [("message", finding.at.message), ("block", finding.at.block), ("line", finding.at.line)];
    for (name, place) in at {
        write::key(&mut out, name);
        out.push_str(&place.map_or_else(|| String::from("null"), |place| place.to_string()));
    }
    out.push('}');
    write::key(&mut out, "message");
    write::string(&mut out, &finding.to_string());
    write::key(&mut out, "action");
    write::string(&mut out, finding.action.name());
    out.push('}');
    out
}

/// A list of findings as JSON.
pub fn json_list(findings: &[Finding]) -> String {
    let list: Vec<String> = findings.iter().map(json).collect();
    format!("[{}]", list.join(","))
}

/// Where a finding is, for a person.
pub fn place(finding: &Finding) -> String {
    let mut place = match (finding.at.message, finding.at.block) {
        (Some(message), Some(block)) => format!("at message {message}, block {block}"),
        (Some(message), None) => format!("at message {message}"),
        (None, _) => match finding.at.line {
            Some(line) => return format!("at line {line}"),
            None if is_of_storage(finding.rule) => String::from("in the store"),
            None => String::from("in the request"),
        },
    };
    if let Some(line) = finding.at.line {
        place.push_str(&format!(" (line {line})"));
    }
    place
}

/// Whether a rule is about how a conversation is stored, not about what is said in it.
pub fn is_of_storage(rule: Rule) -> bool {
    matches!(rule, Rule::DamagedEntry | Rule::BrokenChain | Rule::TornTail)
}

/// The word for how bad something is, and its style.
pub fn word(severity: Severity) -> (&'static str, anstyle::Style) {
    match severity {
        Severity::Error => ("error", output::ERROR),
        Severity::Warning => ("warning", output::WARNING),
        Severity::Note => ("note", output::NOTE),
    }
}

/// A finding in one line.
pub fn line(finding: &Finding) -> String {
    let (word, style) = word(finding.severity);
    let rule = paint(&format!("[{}]", finding.rule), output::DIM);
    format!("{} {}: {} {rule}", paint(word, style), place(finding), harmless(&finding.to_string()))
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
