//! What `convert` says of its findings: all of a few, and of many the problems and a count for each rule.

use std::collections::BTreeMap;

use rejoin::{Finding, Rule, Severity};

use super::report;
use crate::output::{self, paint};

/// With at most this many findings, all are shown.
const ALL: usize = 10;
/// With more, this many warnings and errors are shown and the rest is counted.
const PROBLEMS: usize = 5;

/// The lines for these findings, each with what was done about it.
pub fn lines(findings: &[Finding], verbose: bool, deed: impl Fn(&Finding) -> &'static str) -> Vec<String> {
    let line = |finding: &Finding| format!("{} — {}", report::line(finding), deed(finding));
    if verbose || findings.len() <= ALL {
        return findings.iter().map(line).collect();
    }
    let is_problem = |finding: &&Finding| finding.severity != Severity::Note;
    let mut lines: Vec<String> = findings.iter().filter(is_problem).take(PROBLEMS).map(line).collect();
    let rest = findings.iter().filter(is_problem).skip(PROBLEMS);
    let notes = findings.iter().filter(|finding| !is_problem(finding));
    let mut counts: BTreeMap<(std::cmp::Reverse<Severity>, Rule), usize> = BTreeMap::new();
    for finding in rest.chain(notes) {
        *counts.entry((std::cmp::Reverse(finding.severity), finding.rule)).or_default() += 1;
    }
    for ((severity, rule), count) in counts {
        let name = paint(&format!("[{rule}]"), output::DIM);
        let word = report::severity_word(severity.0);
        lines.push(format!("{word}: {count} × {} {name}", rule.summary()));
    }
    let all = findings.len();
    lines.push(format!("hint: -v shows all {all} findings, --report FILE writes them to a file"));
    lines
}
