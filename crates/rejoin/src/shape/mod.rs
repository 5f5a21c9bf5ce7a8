//! The JSON for programs: one function for each kind of thing, shared by the command line and a server. The fields are stable,
//! because programs read them.
//!
//! Larger types write themselves: [`check::Report`], [`Diagnosis`](crate::doctor::Diagnosis) and the rows of
//! [`history`](crate::history) have a `to_json`.

use std::path::Path;

use rejoin_checkers::ProviderRule;
use rejoin_record::json::{self, Object};
use rejoin_view::{Action, Finding, Position, Rule, Severity};

use crate::check::{self, Refusal};

#[cfg(feature = "agent")]
mod changes;
#[cfg(feature = "mcp")]
mod mcp;
mod room;
#[cfg(feature = "store")]
mod stored;
#[cfg(feature = "agent")]
mod turns;

#[cfg(feature = "agent")]
pub use changes::{change_state, edit, undone};
#[cfg(feature = "mcp")]
pub use mcp::{McpListed, mcp_entry, mcp_server};
pub use room::{compaction, pinned, pruned};
#[cfg(feature = "store")]
pub use stored::{
    StoreFacts, call, conversation, copied, created, enabled, forked, hit, imported, removal, skipped, store,
    verified, whole_conversation,
};
#[cfg(feature = "agent")]
pub use turns::{dollars, event, key, tokens, turn_error};

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

/// The error of a provider about a part of a request, in the shape of a finding.
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

/// A kind of finding, with the page that explains it.
#[must_use]
pub fn rule(rule: Rule) -> String {
    Object::new()
        .text("rule", rule)
        .text("severity", rule.severity().name())
        .text("summary", rule.summary())
        .text("page", rule.page())
        .finish()
}

/// A rule of a provider.
#[must_use]
pub fn provider_rule(rule: &ProviderRule) -> String {
    Object::new().text("rule", rule.name).text("summary", rule.demands).finish()
}

/// A setting: its value and the source of that, the variable that sets it, and its purpose.
#[must_use]
pub fn setting(key: &str, value: Option<(&str, &str)>, variable: &str, about: &str) -> String {
    Object::new()
        .text("key", key)
        .text_or_null("value", value.map(|(value, _)| value))
        .text("from", value.map_or("not set", |(_, from)| from))
        .text("variable", variable)
        .text("about", about)
        .finish()
}

/// A session file that was put where its agent finds it.
#[derive(Debug)]
pub struct InstalledSession<'s> {
    /// The agent, under the name that people use.
    pub agent: &'s str,
    /// The format of the file.
    pub format: &'s str,
    /// The id of the session.
    pub id: &'s str,
    /// The file.
    pub path: &'s Path,
    /// The folder to resume it in.
    pub directory: &'s Path,
    /// The command that resumes it.
    pub command: &'s str,
}

impl InstalledSession<'_> {
    /// As a JSON object.
    #[must_use]
    pub fn to_json(&self) -> String {
        Object::new()
            .text("agent", self.agent)
            .text("format", self.format)
            .text("id", self.id)
            .text("path", self.path.display())
            .text("directory", self.directory.display())
            .text("command", self.command)
            .finish()
    }
}

fn place(at: Position) -> Object {
    let place = Object::new().number_or_null("message", at.message).number_or_null("block", at.block);
    place.number_or_null("line", at.line)
}
