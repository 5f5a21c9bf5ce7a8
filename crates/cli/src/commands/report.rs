//! Formats findings for people.

use std::{cmp::Reverse, collections::BTreeMap};

use rejoin::{Dialect, Finding, Position, Rule, Severity, Verdict, check::Refusal};

use crate::output::{self, harmless, paint};

pub fn refusal_line(refusal: &Refusal, severity: Severity) -> String {
    let violation = &refusal.violation;
    let place = match refusal.at.message {
        Some(_) => place_of(refusal.at),
        None => format!("at `{}`", harmless(&violation.path)),
    };
    let rule = paint(&format!("[{}]", violation.rule), output::DIM);
    format!("{} {place}: {} {rule}", severity_word(severity), harmless(&violation.message))
}

/// The flags of `convert` that would set what only the caller of a request can choose.
pub fn missing_flags(verdict: &Verdict) -> Vec<&'static str> {
    let flags = verdict.violations.iter().filter_map(|violation| match violation.path.as_str() {
        "model" => Some("`--model MODEL`"),
        "max_tokens" => Some("`--max-tokens N`"),
        _ => None,
    });
    flags.collect()
}

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

/// Whether a rule is about how a conversation is stored, not about its content.
pub fn is_of_storage(rule: Rule) -> bool {
    matches!(rule, Rule::DamagedEntry | Rule::BrokenChain | Rule::TornTail)
}

pub fn line(finding: &Finding) -> String {
    let rule = paint(&format!("[{}]", finding.rule), output::DIM);
    let words = harmless(&finding.to_string());
    format!("{} {}: {words} {rule}", severity_word(finding.severity), place(finding))
}

/// A finding and what was done about it, in one line.
pub fn line_with_action(finding: &Finding) -> String {
    format!("{} — {}", line(finding), finding.action_text())
}

/// The name of a severity, in its colour.
pub fn severity_word(severity: Severity) -> String {
    let style = match severity {
        Severity::Error => output::ERROR,
        Severity::Warning => output::WARNING,
        Severity::Note => output::NOTE,
    };
    paint(severity.name(), style)
}

/// The provider's error for a finding, in the provider's words.
pub fn answer(finding: &Finding, dialect: Dialect) -> Option<String> {
    let wire = dialect.wire();
    let number =
        |number: Option<usize>| number.map_or_else(|| String::from("…"), |number| number.to_string());
    let words = wire
        .answer(finding.rule)?
        .replace("{id}", finding.subject.as_deref().unwrap_or("…"))
        .replace("{i}", &number(finding.at.message))
        .replace("{j}", &number(finding.at.block));
    Some(format!("{} would answer 400: {}", wire.provider, harmless(&words)))
}

/// Up to this many findings, all are shown.
const ALL_SHOWN: usize = 10;
/// Beyond that, this many warnings and errors are shown and the rest is counted.
const PROBLEMS_SHOWN: usize = 5;

/// Findings in the form that `convert` shows, each with what was done: all if they are few, otherwise some problems and the counts.
pub fn summary(
    findings: &[Finding],
    verbose: bool,
    action: impl Fn(&Finding) -> &'static str,
) -> Vec<String> {
    let with_action = |finding: &Finding| format!("{} — {}", line(finding), action(finding));
    if verbose || findings.len() <= ALL_SHOWN {
        return findings.iter().map(with_action).collect();
    }
    let is_problem = |finding: &&Finding| finding.severity != Severity::Note;
    let mut lines: Vec<String> =
        findings.iter().filter(is_problem).take(PROBLEMS_SHOWN).map(with_action).collect();
    let rest = findings.iter().filter(is_problem).skip(PROBLEMS_SHOWN);
    let notes = findings.iter().filter(|finding| !is_problem(finding));
    let mut counts: BTreeMap<(Reverse<Severity>, Rule), usize> = BTreeMap::new();
    for finding in rest.chain(notes) {
        *counts.entry((Reverse(finding.severity), finding.rule)).or_default() += 1;
    }
    for ((severity, rule), count) in counts {
        let name = paint(&format!("[{rule}]"), output::DIM);
        let word = severity_word(severity.0);
        lines.push(format!("{word}: {count} × {} {name}", rule.summary()));
    }
    let all = findings.len();
    lines.push(format!("hint: -v shows all {all} findings, --report FILE writes them to a file"));
    lines
}
