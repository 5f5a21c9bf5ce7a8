//! What the provider would say to the request that a session's own agent makes on resuming it.
//!
//! For agents whose requests are known word for word, the request is judged like any other. For those of which only the habits about
//! calls and results are known, only that is judged, and only in a session that is broken: nothing is said about the rest.

use rejoin_formats::{
    Dialect, Session,
    sessions::{
        self, Resend, ResentMessages,
        registry::KnownAgent,
        resend::{self, Habits, TargetDialect},
    },
};
use rejoin_view::{Finding, Position, Rule};

use super::{ProviderVerdict, Sender, checker, history_findings};

/// The rules of the checkers that are about calls and results. A request made from habits breaks others only because it holds
/// nothing else.
const ABOUT_PAIRS: &[&str] = &[
    "ANT-01", "ANT-02", "ANT-03", "ANT-04", "ANT-05", "OAC-01", "OAC-02", "OAC-03", "RSP-01", "RSP-02",
    "RSP-10", "GEM-02", "GEM-03", "GEM-04",
];

/// The kinds of finding that are about calls and results. What an agent does about others is not part of its habits.
const PAIRS: &[Rule] = &[
    Rule::UnansweredCall,
    Rule::PartialBatch,
    Rule::OrphanResult,
    Rule::ResultBeforeCall,
    Rule::DetachedResult,
    Rule::DuplicateResult,
    Rule::ReusedCallId,
];

/// What the provider would say to the request that a session's own agent makes on resuming it. None if the session is not
/// another agent's, if that agent refuses to open it, if nothing is known about it, or if what is known is not enough to tell.
#[must_use]
pub fn resumed(session: &Session) -> Option<ProviderVerdict> {
    let agent = agent_that_opens(session)?.map(|agent| agent.of(session));
    match agent.map(|agent| (agent.name, &agent.resend)) {
        Some((name, Resend::Pairs { to, habits })) => {
            let judged = pairs(session, name, to.dialect(session)?, habits)?;
            // What one provider refuses, another service may take.
            (judged.accepted() || !matches!(to, TargetDialect::Like(_))).then_some(judged)
        }
        _ => exactly(session),
    }
}

/// The same, for agents whose requests are known word for word, and for messages that are sent as they stand.
pub(super) fn exactly(session: &Session) -> Option<ProviderVerdict> {
    let dialect = session.context.dialect?;
    let agent = agent_that_opens(session)?;
    match agent.map(|agent| (agent.name, &agent.resend)) {
        Some((name, Resend::Exactly(resend))) => {
            Some(judged(session, dialect, Sender::Agent(name), resend(session)))
        }
        None if session.format == dialect.name() => {
            Some(judged(session, dialect, Sender::AsTheyStand, resend::continued(session)))
        }
        _ => None,
    }
}

/// The agent of a session's format, if it has one. None if the agent makes no request because it refuses to open the session.
fn agent_that_opens(session: &Session) -> Option<Option<&'static KnownAgent>> {
    let is_refused = session.findings.iter().any(|finding| finding.rule == Rule::CannotBeOpened);
    let format = sessions::named(session.format).filter(|_| !is_refused)?;
    Some(format.agent.as_ref())
}

fn judged(session: &Session, dialect: Dialect, sender: Sender, resent: ResentMessages) -> ProviderVerdict {
    let ResentMessages { list, places, bytes } = resent;
    let verdict = checker(dialect).check_messages(list, bytes);
    let place = |index: usize| {
        let message = places.get(index).copied().flatten()?;
        Some(session.source_position(Position::message(message)))
    };
    ProviderVerdict::new(dialect, sender, verdict, place)
}

/// Judges the calls and results that an agent would send. If versions differ, only what all of them come to is told.
fn pairs(
    session: &Session,
    agent: &'static str,
    dialect: Dialect,
    habits: &[Habits],
) -> Option<ProviderVerdict> {
    let problems: Vec<Finding> = history_findings(session).filter(Finding::is_problem).collect();
    if problems.is_empty() {
        return None;
    }
    let judge = |habits: &Habits| {
        let mut judged = judged(session, dialect, Sender::Agent(agent), habits.resend(session, dialect)?);
        judged.refusals.retain(|refusal| ABOUT_PAIRS.contains(&refusal.violation.rule));
        judged.notes.clear();
        Some(judged)
    };
    let all = habits.iter().map(judge).collect::<Option<Vec<ProviderVerdict>>>()?;
    let accepted = all.first()?.accepted();
    let is_told = |finding: &Finding| PAIRS.contains(&finding.rule);
    if all.iter().any(|judged| judged.accepted() != accepted) || (accepted && !problems.iter().all(is_told)) {
        return None;
    }
    all.into_iter().next()
}
