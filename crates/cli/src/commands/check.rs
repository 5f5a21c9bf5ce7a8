//! `rejoin check`: what is wrong with a conversation, what the provider would answer, what rejoin does about it.

use std::collections::BTreeMap;

use rejoin::{
    Action, Aside, ConvertError, Dialect, Finding, OnBroken, Policy, Rule, Session, Severity, convert,
    engine::Mode, record::json::write, repair, sessions,
};

use super::report;
use crate::{
    args::CheckArguments,
    desk::Flags,
    failure::{FAILED, Failure, UNREADABLE},
    output::{self, harmless, paint},
    subject::{Reading, Subject},
};

/// Checks every input; one that cannot be read does not keep the others from being checked.
pub fn run(arguments: &CheckArguments, flags: &Flags) -> Result<u8, Failure> {
    let mode = if arguments.strict { Mode::Strict } else { Mode::Recover };
    let reading = Reading { from: arguments.from.as_deref(), mode, flags };
    let (mut read, mut found, mut unreadable) = (0usize, false, false);
    for (number, given) in arguments.subjects.iter().enumerate() {
        match Subject::read(given, &reading) {
            Err(failure) => {
                // What is damaged was read, and something was found in it.
                let damaged = failure.is_damage();
                read += usize::from(damaged);
                found |= damaged;
                unreadable |= !damaged;
                failure.say();
            }
            Ok(subject) => {
                read += 1;
                for (place, session) in subject.sessions.iter().enumerate() {
                    let name = &subject.name;
                    let name = if subject.sessions.len() == 1 {
                        name.clone()
                    } else {
                        format!("{name} #{}", place + 1)
                    };
                    // What a stored one is in is the store's business; its title says more.
                    let title = subject.record.is_some().then(|| session.headline());
                    let label = title.as_deref().unwrap_or(session.format);
                    let report = examine(&subject, session, arguments.dialect);
                    found |= report.iter().any(Finding::is_problem);
                    if arguments.json {
                        output::raw_data(&as_json(session, &report))?;
                    } else {
                        for_people(&name, label, session, &report, arguments.dialect)?;
                    }
                }
                // What is read last goes with the process: taking a large session apart piece by piece takes time.
                if number + 1 == arguments.subjects.len() {
                    std::mem::forget(subject);
                }
            }
        }
    }
    Ok(match (read, found, unreadable) {
        (0, _, _) => UNREADABLE,
        (_, true, _) | (_, _, true) => FAILED,
        _ => 0,
    })
}

/// Everything that is found in a session; for a dialect, its notes too.
fn examine(subject: &Subject, session: &Session, dialect: Option<Dialect>) -> Vec<Finding> {
    let findings = match dialect.map(|dialect| convert(session, dialect, None, OnBroken::Keep)) {
        Some(Ok(converted)) => converted.findings,
        Some(Err(ConvertError::TooLarge(error))) => {
            let finding = Finding::new(Rule::TooLarge, error.at, Action::Kept);
            pairing(session).chain([finding.because(error.to_string())]).collect()
        }
        Some(Err(ConvertError::Refused(_))) | None => pairing(session).collect(),
    };
    let mut findings = subject.with_lines(session, findings);
    findings.sort_by_key(|finding| (finding.at.message.is_none(), finding.at.message, finding.at.block));
    findings
}

/// What reading and pairing found.
fn pairing(session: &Session) -> impl Iterator<Item = Finding> {
    let repaired = repair(&session.history(), Policy::Keep);
    let found = repaired.findings.into_iter().map(|finding| session.place(finding));
    session.findings.iter().cloned().chain(found)
}

fn counts(session: &Session) -> (usize, usize, usize) {
    let calls = session.messages.iter().map(|message| message.tool_calls().count()).sum();
    let results = session.messages.iter().map(|message| message.tool_results().count()).sum();
    (session.messages.len(), calls, results)
}

fn as_json(session: &Session, findings: &[Finding]) -> String {
    let (messages, calls, results) = counts(session);
    let mut out = String::from("{");
    write::key(&mut out, "id");
    write::string(&mut out, &session.id.to_string());
    write::key(&mut out, "format");
    write::string(&mut out, session.format);
    for (name, count) in [("messages", messages), ("calls", calls), ("results", results)] {
        write::key(&mut out, name);
        out.push_str(&count.to_string());
    }
    write::key(&mut out, "findings");
    out.push_str(&report::json_list(findings));
    write::key(&mut out, "sound");
    out.push_str(if findings.iter().any(Finding::is_problem) { "false" } else { "true" });
    out.push('}');
    out
}

fn for_people(
    name: &str,
    label: &str,
    session: &Session,
    findings: &[Finding],
    dialect: Option<Dialect>,
) -> Result<(), Failure> {
    let label = if label.is_empty() { String::new() } else { format!(" ({})", harmless(label)) };
    output::data(&format!("{}{}", harmless(name), paint(&label, output::DIM)))?;
    let speaker = dialect.or(session.context.dialect).unwrap_or(Dialect::Anthropic);
    for finding in findings {
        output::data(&format!("  {}", report::line(finding)))?;
        if let Some(answer) =
            report::answer(finding, speaker).filter(|_| finding.is_problem() || dialect.is_some())
        {
            output::data(&format!("      {answer}"))?;
        }
        if finding.is_problem() || dialect.is_some() {
            output::data(&format!("      {} {}", paint("rejoin:", output::HINT), finding.deed()))?;
        }
    }
    // What is in the store can simply go on.
    let stored = name == session.id.to_string();
    output::data(&format!("  {}", summary(session, findings, speaker, stored)))
}

/// One line of counts, and what to do.
fn summary(session: &Session, findings: &[Finding], speaker: Dialect, stored: bool) -> String {
    let (messages, calls, results) = counts(session);
    let mut counted =
        format!("{}, {}, {}", plural(messages, "message"), plural(calls, "call"), plural(results, "result"));
    let hidden = session.set_aside.iter().filter(|item| matches!(item.what, Aside::Hidden(..))).count();
    if hidden > 0 {
        counted.push_str(&format!(", {hidden} more hidden by a compaction or on other branches"));
    }
    let mut by_severity: BTreeMap<Severity, usize> = BTreeMap::new();
    for finding in findings {
        *by_severity.entry(finding.severity).or_default() += 1;
    }
    let found: Vec<String> =
        by_severity.iter().rev().map(|(severity, count)| plural(*count, severity.name())).collect();
    if findings.iter().any(Finding::is_problem) {
        let damaged = findings.iter().any(|finding| finding.rule == Rule::DamagedEntry);
        let rest = if damaged { "everything that can be read is used" } else { "nothing is lost" };
        let way = if findings.iter().any(|finding| finding.rule == Rule::TooLarge) {
            String::from("leave out what is no longer needed; the file can keep it")
        } else if stored {
            format!("`rejoin resume {}` continues it; {rest}", session.id)
        } else if session.format != "jsonl"
            && sessions::named(session.format).is_some_and(|format| format.write.is_some())
        {
            format!("`rejoin convert … --to {}` writes a mended copy; {rest}", session.format)
        } else {
            format!("`rejoin convert … --to {speaker}` gives a request that works; {rest}")
        };
        format!("{} {counted}: {}. {way}.", paint("broken:", output::ERROR), found.join(", "))
    } else if found.is_empty() {
        format!("{} {counted}.", paint("sound:", output::GOOD))
    } else {
        format!("{} {counted}: {}.", paint("sound:", output::GOOD), found.join(", "))
    }
}

fn plural(count: usize, word: &str) -> String {
    if count == 1 { format!("1 {word}") } else { format!("{count} {word}s") }
}
