//! The JSON that programs get: one function for each thing, the same for the command line and for a server. The fields are
//! part of what we promise: programs read them.
//!
//! Larger things write themselves: [`check::Report`], [`Diagnosis`](crate::doctor::Diagnosis) and the rows of
//! [`history`](crate::history) have a `to_json`.

use rejoin_record::json::{self, Object};
use rejoin_view::{Action, Finding, Position, Severity};

use crate::check::{self, Refusal};

#[cfg(feature = "store")]
mod stored;
#[cfg(feature = "agent")]
mod turns;

#[cfg(feature = "store")]
pub use stored::{call, conversation, hit, removal, verified, whole_conversation};
#[cfg(feature = "agent")]
pub use turns::{event, turn_error};

/// A finding.
#[must_use]
pub fn finding(finding: &Finding) -> String {
    Object::new()
        .text("rule", finding.rule)
        .text("severity", finding.severity.name())
        .object("at", place(finding.at))
        .text("message", finding)
        .text("action", finding.action.name())
        .finish()
}

/// A list of findings.
#[must_use]
pub fn findings(findings: &[Finding]) -> String {
    json::list(findings.iter().map(finding))
}

/// What a provider would say to a part of a request, in the shape of a finding.
#[must_use]
pub fn refusal(refusal: &Refusal, severity: Severity) -> String {
    let check::Refusal { violation, at } = refusal;
    Object::new()
        .text("rule", violation.rule)
        .text("severity", severity.name())
        .object("at", place(*at))
        .text("path", &violation.path)
        .text("message", &violation.message)
        .text("action", Action::Kept.name())
        .finish()
}

fn place(at: Position) -> Object {
    let place = Object::new().number_or_null("message", at.message).number_or_null("block", at.block);
    place.number_or_null("line", at.line)
}
