//! `check`: would a provider accept these bytes, and is this history sound?
//!
//! A request body is judged by the strict checker of its dialect and by nothing else; whatever rejoin finds in it besides is a
//! note, except text that was not read. A session is judged by its history; on request, also by the request that its own agent
//! would make of it (`resumed.rs`). [`reports`] does both for whatever was read, and gives the JSON that programs get.

mod report;
mod resumed;
mod subject;

use rejoin_checkers::{Verdict, Violation};
use rejoin_formats::{Choice, ConvertError, Dialect, Session, convert, convert_with};
use rejoin_view::{Action, Finding, OnBroken, Position, Rule, Severity, repair};
pub use report::{Report, reports};
pub use resumed::resumed;
pub use subject::{RequestBytes, Subject};

/// What was found in a conversation, and what the provider would say.
#[derive(Debug, Clone)]
pub struct Checked {
    /// What was found in the history, with source positions. In a body these are notes, unless text was not read.
    pub findings: Vec<Finding>,
    /// The provider's verdict, where one was asked for.
    pub judged: Option<ProviderVerdict>,
}

/// A provider's verdict.
#[derive(Debug, Clone)]
pub struct ProviderVerdict {
    /// The dialect in which it was asked.
    pub dialect: Dialect,
    /// Whose request it is about.
    pub sender: Sender,
    /// Why the provider would refuse it. Empty: it would accept it.
    pub refusals: Vec<Refusal>,
    /// What depends on the model or the server.
    pub notes: Vec<Refusal>,
}

/// Whose request a verdict is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sender {
    /// The bytes of the source, as they are.
    Source,
    /// The agent of that name, on resuming the session.
    Agent(&'static str),
    /// A program that sends its messages as they stand.
    AsTheyStand,
    /// rejoin, which mends what it sends.
    Rejoin,
}

/// One reason for a refusal, and where in the source it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The broken rule, the place in the request, and the provider's words.
    pub violation: Violation,
    /// The place in the source.
    pub at: Position,
}

impl ProviderVerdict {
    /// Whether the provider would accept the request.
    #[must_use]
    pub fn accepted(&self) -> bool {
        self.refusals.is_empty()
    }

    /// Whether the provider would take the request in spite of its faults, because it does not enforce the rules that are broken.
    #[must_use]
    pub fn is_taken_with_faults(&self) -> bool {
        let unenforced = self.dialect.wire().unenforced;
        !self.accepted() && self.refusals.iter().all(|refusal| unenforced.contains(&refusal.violation.rule))
    }
}

impl Checked {
    /// Whether there is nothing to object to.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        !self.findings.iter().any(Finding::is_problem)
            && self.judged.as_ref().is_none_or(ProviderVerdict::accepted)
    }
}

/// The verdict of the provider on the request that `convert` writes if no model and no limit are given.
///
/// # Errors
/// If the conversation is more than the provider takes.
pub fn of_conversion(session: &Session, dialect: Dialect) -> Result<Verdict, ConvertError> {
    let converted = convert_with(session, dialect, Choice::default(), OnBroken::Keep)?;
    Ok(checker(dialect).check(converted.body.as_bytes()))
}

/// Whether the provider of a dialect would accept a request body, or a bare list of messages, as it stands. The session is
/// what was read from the same bytes, if anything was.
///
/// ```
/// use rejoin::{Dialect, check};
///
/// let body = br#"{"model":"m","max_tokens":100,"messages":[{"role":"user","content":""}]}"#;
/// let checked = check::body(Dialect::Anthropic, body, None);
/// assert_eq!(checked.judged.unwrap().refusals[0].violation.rule, "ANT-11");
/// ```
#[must_use]
pub fn body(dialect: Dialect, bytes: &[u8], session: Option<&Session>) -> Checked {
    let note = |finding: Finding| match finding.rule {
        Rule::UnreadText => finding,
        _ => Finding { severity: Severity::Note, ..finding },
    };
    // What rejoin would do to the messages says nothing about another dialect.
    let own = session.filter(|session| session.context.dialect == Some(dialect));
    let findings = own.map(|session| history_findings(session).map(note).collect()).unwrap_or_default();
    let unread = session.filter(|_| own.is_none()).into_iter().flat_map(|session| &session.findings);
    let mut findings: Vec<Finding> = findings;
    findings.extend(unread.filter(|finding| finding.rule == Rule::UnreadText).cloned());
    let verdict = checker(dialect).check(bytes);
    let judged =
        ProviderVerdict::new(dialect, Sender::Source, verdict, |index| Some(Position::message(index)));
    Checked { findings, judged: Some(judged) }
}

/// The verdict of the provider whose model a request names, if the request is judged as one to another.
fn by_model(body: &RequestBytes<'_>, session: &Session) -> Option<ProviderVerdict> {
    let model = session.context.model().filter(|_| body.whole)?;
    let mut others = Dialect::all().filter(|dialect| *dialect != body.dialect);
    let other = others.find(|dialect| (dialect.wire().own_model)(&model))?;
    Some(ProviderVerdict::new(other, Sender::Source, checker(other).check(body.bytes), |_| None))
}

/// Whether a history is sound; for a dialect, also whether the request that its own agent would make of it is accepted.
#[must_use]
pub fn history(session: &Session, dialect: Option<Dialect>) -> Checked {
    let Some(dialect) = dialect else {
        return Checked { findings: history_findings(session).collect(), judged: None };
    };
    if let Some(judged) = resumed::exactly(session).filter(|judged| judged.dialect == dialect) {
        return Checked { findings: history_findings(session).collect(), judged: Some(judged) };
    }
    match convert(session, dialect, None, OnBroken::Keep) {
        Ok(converted) => {
            let verdict = checker(dialect).check_draft(converted.body.as_bytes());
            let judged = ProviderVerdict::new(dialect, Sender::Rejoin, verdict, |_| None);
            Checked { findings: converted.findings, judged: Some(judged) }
        }
        Err(ConvertError::TooLarge(error)) => {
            let finding = Finding::new(Rule::TooLarge, error.at, Action::Kept).because(error.to_string());
            Checked { findings: history_findings(session).chain([finding]).collect(), judged: None }
        }
        Err(ConvertError::Refused(findings)) => Checked { findings, judged: None },
    }
}

impl ProviderVerdict {
    fn new(
        dialect: Dialect,
        sender: Sender,
        verdict: Verdict,
        place: impl Fn(usize) -> Option<Position>,
    ) -> Self {
        let list = checker(dialect).list;
        let placed = |violation: Violation| {
            let at = in_list(&violation.path, list)
                .and_then(|(index, block)| Some(Position { block, ..place(index)? }))
                .unwrap_or_default();
            Refusal { violation, at }
        };
        let Verdict { violations, notes } = verdict;
        let refusals = violations.into_iter().map(placed).collect();
        Self { dialect, sender, refusals, notes: notes.into_iter().map(placed).collect() }
    }
}

/// What reading and pairing found, at its place in the source.
fn history_findings(session: &Session) -> impl Iterator<Item = Finding> {
    let repaired = repair(&session.history(), OnBroken::Keep);
    let found = repaired.findings.into_iter().map(|finding| session.place(finding));
    session.findings.iter().cloned().chain(found)
}

/// The message that a path such as `messages.3.content.0` names, and its block.
fn in_list(path: &str, list: &str) -> Option<(usize, Option<usize>)> {
    let mut words = path.strip_prefix(list)?.strip_prefix('.')?.split('.');
    let message = words.next()?.parse().ok()?;
    let block = match words.next() {
        Some("content" | "parts") => words.next().and_then(|block| block.parse().ok()),
        _ => None,
    };
    Some((message, block))
}

/// The strict checker of a dialect.
///
/// # Panics
/// If there is none, which would be a bug.
#[must_use]
pub fn checker(dialect: Dialect) -> &'static rejoin_checkers::Checker {
    rejoin_checkers::named(dialect.name()).expect("BUG: a dialect without a checker")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_name_messages_and_blocks() {
        assert_eq!(in_list("messages.3.content.0.text", "messages"), Some((3, Some(0))));
        assert_eq!(in_list("messages.3.tool_calls.1.id", "messages"), Some((3, None)));
        assert_eq!(in_list("input.12", "input"), Some((12, None)));
        assert_eq!(in_list("contents.2.parts.1", "contents"), Some((2, Some(1))));
        assert_eq!(in_list("max_tokens", "messages"), None);
        assert_eq!(in_list("messages", "messages"), None);
    }

    #[test]
    fn every_dialect_has_a_checker_and_every_checker_a_dialect() {
        let dialects: Vec<&str> = Dialect::all().map(Dialect::name).collect();
        let checkers: Vec<&str> = rejoin_checkers::CHECKERS.iter().map(|checker| checker.dialect).collect();
        assert_eq!(dialects, checkers);
        for checker in rejoin_checkers::CHECKERS {
            let dialect: Dialect = checker.dialect.parse().unwrap();
            assert_eq!(dialect.wire().provider, checker.provider);
        }
    }
}
