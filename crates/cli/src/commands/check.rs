//! `rejoin check`: for a request body, whether its provider would accept it; for a session, whether its history is sound.

use std::{collections::BTreeMap, ops::Deref};

use rejoin::{
    Aside, Dialect, Finding, Rule, Session, Severity,
    check::{self, ProviderVerdict, Report, RequestBytes, Sender},
    engine::Mode,
    places::quoted,
    sessions,
};

use super::report;
use crate::{
    args::CheckArguments,
    commands::prelude::*,
    source,
    subject::{self, ReadOptions},
};

/// Checks every input. If one cannot be read, the others are still checked.
pub fn run(arguments: &CheckArguments, flags: &Flags) -> Result<u8, Failure> {
    if arguments.describe {
        return describe(arguments);
    }
    let mode = if arguments.strict { Mode::Strict } else { Mode::Recover };
    let reading = ReadOptions { from: arguments.from.as_deref(), mode, flags, bodies: true };
    let (mut read, mut found, mut unreadable, mut no_store) = (0usize, false, false, false);
    for (number, given) in arguments.subjects.iter().enumerate() {
        match subject::read(given, &reading) {
            Err(failure) => {
                // A damaged input was read, and the damage is a finding.
                let damaged = failure.is_damage();
                no_store |= failure.is_store_trouble();
                read += usize::from(damaged);
                found |= damaged;
                unreadable |= !damaged;
                failure.say();
            }
            Ok((subject, _)) => {
                read += 1;
                for report in check::reports(&subject, arguments.dialect) {
                    found |= !report.checked.is_sound();
                    if arguments.json {
                        output::json_data(&report.to_json())?;
                    } else {
                        ForPeople(&report).print()?;
                    }
                }
                // Do not free the last subject: taking a large session apart takes time, and the process ends now.
                if number + 1 == arguments.subjects.len() {
                    std::mem::forget(subject);
                }
            }
        }
    }
    Ok(match (read, found, unreadable) {
        // An unreadable store is not a usage error; it fails as in every other command.
        (0, _, _) if no_store => FAILED,
        (0, _, _) => UNREADABLE,
        (_, true, _) | (_, _, true) => FAILED,
        _ => 0,
    })
}

/// Prints the shape of each file.
fn describe(arguments: &CheckArguments) -> Result<u8, Failure> {
    for path in &arguments.subjects {
        let shape = source::shape_of(path)?;
        if arguments.json {
            output::json_data(&shape.to_json())?;
        } else {
            output::data(shape.to_string().trim_end())?;
        }
    }
    Ok(0)
}

struct ForPeople<'r>(&'r Report<'r>);

impl<'r> Deref for ForPeople<'r> {
    type Target = Report<'r>;
    fn deref(&self) -> &Report<'r> {
        self.0
    }
}

impl ForPeople<'_> {
    /// The dialect that the verdict is about, or in which the conversation was recorded.
    fn speaker(&self) -> Dialect {
        let judged = self.checked.judged.as_ref().map(|judged| judged.dialect);
        let own = self.session.and_then(|session| session.context.dialect);
        judged.or(own).unwrap_or(Dialect::STRICTEST)
    }

    fn print(&self) -> Result<(), Failure> {
        // For a stored conversation, the title says more than the format.
        let title = self.session.filter(|_| self.subject.record.is_some()).map(Session::headline);
        let label = match (&self.body, title) {
            (Some(body), _) => {
                let (what, whose) = if body.whole { ("request", "its") } else { ("messages", "their") };
                let mark =
                    body.mark.map(|mark| format!(", recognized by {whose} {mark}")).unwrap_or_default();
                format!("{} {what}{mark}", self.format())
            }
            (None, Some(title)) => title,
            (None, None) => self.format().to_owned(),
        };
        let label = if label.is_empty() { label } else { format!(" ({})", harmless(&label)) };
        output::data(&format!("{}{}", harmless(&self.name), paint(&label, output::DIM)))?;
        for line in self.refusals() {
            output::data(&format!("  {line}"))?;
        }
        let asked = self.checked.judged.is_some();
        let dead = self.unopened_by().is_none() && self.resumed().is_none_or(|resumed| !resumed.accepted());
        for finding in &self.checked.findings {
            output::data(&format!("  {}", report::line(finding)))?;
            let answer = report::answer(finding, self.speaker()).filter(|_| self.body.is_none() && dead);
            if let Some(answer) = answer.filter(|_| finding.is_problem()) {
                output::data(&format!("      {answer}"))?;
            }
            if finding.is_problem() || asked {
                output::data(&format!("      {} {}", paint("rejoin:", output::HINT), finding.action_text()))?;
            }
        }
        output::data(&format!("  {}", self.summary()))
    }

    fn refusals(&self) -> Vec<String> {
        let Some(judged) = &self.checked.judged else { return Vec::new() };
        let refused = judged.refusals.iter().map(|refusal| report::refusal_line(refusal, Severity::Error));
        refused.chain(judged.notes.iter().map(|note| report::refusal_line(note, Severity::Note))).collect()
    }

    /// One line: the verdict, the size, and what to do.
    fn summary(&self) -> String {
        let counted = counted(self);
        match (&self.body, &self.checked.judged) {
            (Some(body), Some(judged)) => self.verdict(body, judged, &counted),
            _ => self.state(&counted),
        }
    }

    /// For a body: the provider's answer, and what would help.
    fn verdict(&self, body: &RequestBytes<'_>, judged: &ProviderVerdict, counted: &str) -> String {
        let provider = check::checker(judged.dialect).provider;
        let what = if body.whole { "this request" } else { "these messages" };
        let about = if counted.is_empty() { String::new() } else { format!(": {counted}") };
        let unread = self.count(Rule::UnreadText);
        if !judged.accepted() {
            let errors = plural(judged.refusals.len(), "error");
            let way = match body.dialect.wire().unread_calls {
                None => self.suggest_conversion(judged.dialect),
                Some(_) => {
                    String::from("rejoin does not read the calls in such a request, so it cannot mend it.")
                }
            };
            let (state, answer) = if judged.is_taken_with_faults() {
                ("broken:", format!("would accept {what}, but the model would not see it unchanged"))
            } else {
                ("refused:", String::from("would answer 400"))
            };
            let state = paint(state, output::ERROR);
            return format!("{state} {provider} {answer}: {errors}. {way}{}", self.by_model());
        }
        if unread > 0 {
            let texts = plural(unread, "text");
            return format!(
                "{} {provider} would accept {what}, but {texts} in it could not be understood{about}.",
                paint("unread:", output::ERROR)
            );
        }
        format!(
            "{} {provider} would accept {what}{about}.{}",
            paint("accepted:", output::GOOD),
            self.by_model()
        )
    }

    /// Says that the provider whose model a request names would answer otherwise.
    fn by_model(&self) -> String {
        let Some(other) = &self.by_model else { return String::new() };
        let says = match other.refusals.first() {
            Some(refusal) => format!("answer 400: {}", harmless(&refusal.violation.message)),
            None => String::from("accept it"),
        };
        let provider = check::checker(other.dialect).provider;
        format!(" But {provider}, whose model it names, would {says} (`--for {}`)", other.dialect)
    }

    /// Suggests a command that makes an acceptable request, after trying that it does.
    fn suggest_conversion(&self, dialect: Dialect) -> String {
        let command = format!("`rejoin convert {} --to {dialect}`", self.given());
        let Some(session) = self.session else {
            return String::from("It holds no conversation that could be mended.");
        };
        let Ok(verdict) = check::of_conversion(session, dialect) else {
            return String::from("It exceeds the provider's limits, mended or not.");
        };
        let rest = if self.lost() { "" } else { ", and no text is lost" };
        let left: Vec<&str> = verdict.violations.iter().map(|violation| violation.message.as_str()).collect();
        if left.is_empty() {
            return format!("{command} writes a request that is accepted{rest}.");
        }
        let flags = report::missing_flags(&verdict);
        if !flags.is_empty() && flags.len() == left.len() {
            return format!("{command} mends the messages{rest}; add {}.", flags.join(" and "));
        }
        let left: Vec<String> = left.into_iter().map(harmless).collect();
        format!("{command} mends the messages{rest}; this is left to change: {}", left.join("; "))
    }

    /// For a session: whether its history is sound, and how to continue it.
    fn state(&self, counted: &str) -> String {
        let findings = &self.checked.findings;
        let mut by_severity: BTreeMap<Severity, usize> = BTreeMap::new();
        for finding in findings {
            *by_severity.entry(finding.severity).or_default() += 1;
        }
        let found: Vec<String> =
            by_severity.iter().rev().map(|(severity, count)| plural(*count, severity.name())).collect();
        let found = if found.is_empty() { String::new() } else { format!(": {}", found.join(", ")) };
        let request = self.request();
        let judged = self.checked.judged.as_ref().or_else(|| self.resumed());
        if !findings.iter().any(Finding::is_problem) {
            if let Some(refusal) = judged.and_then(|judged| judged.refusals.first()) {
                let words = harmless(&refusal.violation.message);
                // With --dialect the question was about the request; otherwise, whether the history is sound.
                let state = match self.checked.judged {
                    Some(_) => format!("{} the history is sound: ", paint("refused:", output::ERROR)),
                    None => format!("{} ", paint("sound:", output::GOOD)),
                };
                return format!("{state}{counted}{found}. But{request} It would answer 400: {words}");
            }
            return format!("{} {counted}{found}.{request}", paint("sound:", output::GOOD));
        }
        format!(
            "{} {counted}{found}. {}.{request}",
            paint("broken:", output::ERROR),
            self.suggest_next_step()
        )
    }

    /// The provider's answer to the request that is made from a session.
    fn request(&self) -> String {
        let Some(judged) = self.checked.judged.as_ref().or_else(|| self.resumed()) else {
            let agent = self.unopened_by();
            return agent.map_or_else(String::new, |agent| format!(" {agent} refuses to open it."));
        };
        let provider = check::checker(judged.dialect).provider;
        let says = if judged.accepted() { "would accept" } else { "would refuse" };
        match judged.sender {
            Sender::Agent(agent) if judged.accepted() => {
                if !self.checked.findings.iter().any(Finding::is_problem) {
                    return String::new();
                }
                format!(" {agent} mends its history before it sends it: {provider} {says} its next request.")
            }
            Sender::Agent(agent) => format!(" {provider} {says} the next request of {agent}."),
            Sender::AsTheyStand => format!(" {provider} {says} these messages as they stand."),
            Sender::Rejoin => format!(" {provider} {says} the request that rejoin makes of it."),
            Sender::Source => String::new(),
        }
    }

    /// The agent that wrote the session and refuses to open it, if no verdict about a request was asked for.
    fn unopened_by(&self) -> Option<&'static str> {
        let is_asked = self.checked.judged.is_some() || self.subject.record.is_some();
        let session = self.session.filter(|_| !is_asked && self.count(Rule::CannotBeOpened) > 0)?;
        let agent = sessions::named(session.format)?.agent.as_ref()?;
        Some(agent.of(session).name)
    }

    fn suggest_next_step(&self) -> String {
        // A packed file that is cut off has lost more than a last write that was never acknowledged.
        let is_damage = |found: &Finding| {
            found.rule == Rule::DamagedEntry || (found.rule == Rule::TornTail && found.is_problem())
        };
        let rest = match (self.checked.findings.iter().any(is_damage), self.lost()) {
            (false, false) => "; nothing is lost",
            (false, true) => "",
            _ => "; everything that can be read is used",
        };
        let Some(session) = self.session else { return String::new() };
        if self.count(Rule::TooLarge) > 0 {
            String::from("Remove messages you no longer need from the request; the file can keep them")
        } else if self.subject.record.is_some() {
            // A conversation in the store can be resumed directly.
            format!("`rejoin resume {}` continues it{rest}", session.id)
        } else if session.format != "jsonl"
            && sessions::named(session.format).is_some_and(|format| format.write.is_some())
        {
            format!("`rejoin convert {} --to {}` writes a mended copy{rest}", self.given(), session.format)
        } else {
            format!("`rejoin convert {} --to {}` mends it{rest}", self.given(), self.speaker())
        }
    }

    /// The conversation, in the form that `convert` takes as an argument.
    fn given(&self) -> String {
        let file = shown(&self.subject.name);
        self.number.map_or_else(|| file.clone(), |number| format!("{file} --session {number}"))
    }

    fn count(&self, rule: Rule) -> usize {
        self.checked.findings.iter().filter(|finding| finding.rule == rule).count()
    }

    /// Whether a part of the source is in no request.
    fn lost(&self) -> bool {
        let session = self.session.into_iter().flat_map(|session| &session.findings);
        let gone = |finding: &&Finding| {
            matches!(finding.rule, Rule::UnreadText | Rule::DamagedEntry | Rule::BrokenChain)
        };
        session.filter(gone).count() > 0
    }
}

/// A name, quoted for a shell if needed.
fn shown(name: &str) -> String {
    if name == "standard input" || name == "-" { String::from("FILE") } else { quoted(&harmless(name)) }
}

fn counted(report: &Report<'_>) -> String {
    let Some(session) = report.session else { return String::new() };
    let (messages, calls, results) = report.counts();
    let mut counted =
        format!("{}, {}, {}", plural(messages, "message"), plural(calls, "call"), plural(results, "result"));
    let hidden = session.set_aside.iter().filter(|item| matches!(item.what, Aside::Hidden(..))).count();
    if hidden > 0 {
        counted.push_str(&format!(", {hidden} more hidden by a compaction or on other branches"));
    }
    counted
}
