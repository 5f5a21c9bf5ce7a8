//! Writes the log lines of a repair, with `tracing`. All repairing code logs through this file.
//!
//! Under [`OnBroken::Drop`] the lines use the words that people know from earlier agents, because scripts look for them. Under
//! [`OnBroken::Keep`] nothing is dropped, so the lines say what was done instead.

use std::{collections::HashSet, sync::Arc};

use rejoin_record::{Block, Message, ToolResult};
use tracing::Level;

use super::OnBroken;
use crate::{
    finding::{Action, Finding},
    rules::Rule,
    sound::SoundView,
};

/// How many characters of an orphan's text are logged.
const PREVIEW_CHARS: usize = 50;

/// Logs each result that belongs to no call: as a warning if it is dropped, at a lower level if it is kept. The findings are about
/// these messages, of which the first has the number `base`.
pub(super) fn orphans(findings: &[Finding], messages: &[Arc<Message>], base: usize) {
    if !tracing::enabled!(Level::WARN) {
        return;
    }
    for finding in findings {
        let Some(result) = orphan(finding, messages, base) else { continue };
        let dropped = finding.action == Action::LeftOut;
        let line = match (&finding.subject, dropped) {
            (Some(id), _) => {
                let done = if dropped { "dropped" } else { "kept as labelled text" };
                let preview = preview(result);
                format!(
                    "Orphan tool message detected and {done}: tool_call_id={id}, content_preview={preview:?}"
                )
            }
            (None, true) => String::from("Tool message missing tool_call_id, dropping message"),
            (None, false) => {
                String::from("Tool message missing tool_call_id, keeping message as labelled text")
            }
        };
        if dropped {
            tracing::warn!("{line}");
        } else {
            tracing::info!("{line}");
        }
    }
}

/// The result without a call or an id that a finding is about. A call without an id does not count as an orphan.
fn orphan<'m>(finding: &Finding, messages: &'m [Arc<Message>], base: usize) -> Option<&'m ToolResult> {
    if !matches!(finding.rule, Rule::OrphanResult | Rule::MissingCallId) {
        return None;
    }
    let message = messages.get(finding.at.message?.checked_sub(base)?)?;
    message.blocks.get(finding.at.block?)?.as_result()
}

fn preview(result: &ToolResult) -> String {
    let texts: Vec<&str> =
        result.content.iter().filter_map(Block::as_text).map(|text| text.as_str()).collect();
    texts.join("\n").chars().take(PREVIEW_CHARS).collect()
}

/// Logs the numbers of messages before and after the repair.
pub(super) fn counts(
    policy: OnBroken,
    findings: &[Finding],
    messages: &[Arc<Message>],
    base: usize,
    view: impl FnOnce() -> SoundView,
) {
    if !tracing::enabled!(Level::DEBUG) {
        return;
    }
    let (input, output) = (messages.len(), view().to_messages().len());
    let orphans = findings.iter().filter(|finding| orphan(finding, messages, base).is_some()).count();
    if orphans > 0 {
        let done = if policy.drops() { "dropped" } else { "labelled" };
        tracing::debug!("Sanitized message sequence: {done} {orphans} orphans, kept {output} valid");
    }
    let dropped = input.saturating_sub(output);
    tracing::debug!("Message validation: input={input}, output={output}, dropped={dropped}");
}

pub(super) fn recovery(session: &str, policy: OnBroken, findings: &[Finding], view: &SoundView) {
    if tracing::enabled!(Level::INFO) {
        for line in recovery_lines(session, policy, findings, view.to_messages().len()) {
            tracing::info!("{line}");
        }
    }
}

/// The summary of a recovery: the number of repairs, if any, and the number of messages that the session now has.
pub fn recovery_lines(session: &str, policy: OnBroken, findings: &[Finding], messages: usize) -> Vec<String> {
    let repaired = if policy.drops() {
        removals(findings).len()
    } else {
        let broken = findings.iter().filter(|finding| finding.is_problem());
        broken.filter_map(|finding| finding.at.message).collect::<HashSet<_>>().len()
    };
    let done = if policy.drops() { "Removed" } else { "Repaired" };
    let mut lines = Vec::new();
    if repaired > 0 {
        lines.push(format!("Session {session}: {done} {repaired} incomplete messages"));
    }
    lines.push(format!("Recovered and sanitized {messages} messages from session {session}"));
    lines
}

/// The removals under [`OnBroken::Drop`], one line each. All calls of one message share a line.
pub fn removals(findings: &[Finding]) -> Vec<String> {
    let with = |rule: Rule| -> HashSet<usize> {
        let found = findings.iter().filter(|finding| finding.rule == rule);
        found.filter_map(|finding| finding.at.message).collect()
    };
    // Messages of which nothing is left, and messages with unanswered calls.
    let (gone, calling) = (with(Rule::EmptyMessage), with(Rule::UnansweredCall));
    let mut seen = HashSet::new();
    let mut lines: Vec<String> = Vec::new();
    for finding in findings.iter().filter(|finding| finding.action == Action::LeftOut) {
        let Some(message) = finding.at.message else { continue };
        let id = finding.subject.as_deref().unwrap_or("none");
        let line = match finding.rule {
            Rule::OrphanResult | Rule::MissingCallId | Rule::DuplicateResult | Rule::ResultBeforeCall => {
                format!("Removed orphaned tool_result {message} (id: {id})")
            }
            Rule::UnansweredCall | Rule::AwaitingApproval if gone.contains(&message) => {
                format!("Removed assistant message {message} (incomplete tool_calls only)")
            }
            Rule::UnansweredCall | Rule::AwaitingApproval => {
                format!("Removed incomplete tool_calls from message {message}")
            }
            // A result that is removed with its batch. The calls of the batch have their own line.
            Rule::PartialBatch if finding.at.block.is_some() && !calling.contains(&message) => {
                format!("Removed orphaned tool_result {message} (id: {id})")
            }
            _ => continue,
        };
        if seen.insert(line.clone()) {
            lines.push(line);
        }
    }
    lines
}
