//! Functions on plain messages, for agents that keep their own list.
//!
//! They delegate to the repair pass, under the names that people know, with the log lines that scripts look for.
//!
//! ```
//! use rejoin::{Message, ToolCall, compat::validate_message_sequence};
//!
//! let history = vec![
//!     Message::user("What is 2 + 2?"),
//!     Message::assistant_with_tools(vec![ToolCall::new("call_1", "calculate", r#"{"expression":"2 + 2"}"#)]),
//!     Message::tool("call_1", "4"),
//!     Message::tool("call_9", "left over from a pruned turn"),
//! ];
//! let valid = validate_message_sequence(&history);
//! assert_eq!(valid.len(), 3);
//! ```

use std::collections::HashSet;

use rejoin_record::{CallId, Message};
use rejoin_view::{Action, Finding, History, OnBroken, Rule, repair};

/// A fault in a conversation, for callers that must stop.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SequenceError {
    /// A result without its call.
    #[error("Orphan tool message detected: tool_call_id={0}, no matching assistant message found")]
    Orphan(CallId),
    /// Another fault that a provider would refuse.
    #[error("Invalid message sequence in conversation: {0}")]
    InvalidSequence(String),
    /// No such conversation.
    #[error("Conversation not found: id={0}")]
    NotFound(String),
    /// The conversation exists but cannot be read.
    #[error("Failed to load conversation: {0}")]
    LoadFailed(String),
}

impl SequenceError {
    /// The error for a finding; `None` for a note.
    #[must_use]
    pub fn of(finding: &Finding) -> Option<Self> {
        match (&finding.rule, &finding.subject) {
            _ if !finding.is_problem() => None,
            (Rule::OrphanResult, Some(id)) => Some(Self::Orphan(CallId::new(id.clone()))),
            _ => Some(Self::InvalidSequence(finding.to_string())),
        }
    }
}

/// Messages that every provider accepts, and the findings about them.
#[derive(Debug, Clone)]
pub struct Sanitized {
    /// The messages.
    pub messages: Vec<Message>,
    /// What was found.
    pub findings: Vec<Finding>,
}

impl Sanitized {
    /// What was done, one line each, in the form that agents log.
    #[must_use]
    pub fn log_lines(&self) -> Vec<String> {
        rejoin_view::removals(&self.findings)
    }

    /// The summary of a recovery of this session.
    #[must_use]
    pub fn summary(&self, session: &str) -> Vec<String> {
        rejoin_view::recovery_lines(session, OnBroken::Drop, &self.findings, self.messages.len())
    }
}

/// Removes everything that a provider would refuse: results without calls, calls without results, incomplete batches. Text stays.
/// Never fails. Removals are logged with `tracing`; [`sanitize_recovered_messages_with`] takes a logger.
#[must_use]
pub fn sanitize_recovered_messages(messages: &[Message]) -> Sanitized {
    sanitize_recovered_messages_with(messages, &mut |line| tracing::info!("{line}"))
}

/// Does what [`sanitize_recovered_messages`] does, with the caller's logger. The logger is called once, with all removals, or not
/// at all if nothing was removed.
///
/// ```
/// use rejoin::{Message, compat::sanitize_recovered_messages_with};
///
/// let mut log = Vec::new();
/// let history = [Message::user("Hello."), Message::tool("call_9", "left over")];
/// let clean = sanitize_recovered_messages_with(&history, &mut |line| log.push(line.to_owned()));
/// assert_eq!(clean.messages.len(), 1);
/// assert_eq!(log, ["Message sanitization: Removed orphaned tool_result 1 (id: call_9)"]);
/// ```
#[must_use]
pub fn sanitize_recovered_messages_with(messages: &[Message], logger: &mut dyn FnMut(&str)) -> Sanitized {
    sanitize(messages.iter().cloned().collect(), logger)
}

fn sanitize(history: History, logger: &mut dyn FnMut(&str)) -> Sanitized {
    let messages = history.messages();
    let repaired = repair(&history, OnBroken::Drop);
    let kept = repaired.view.to_messages();
    let mut findings = repaired.findings;
    // Messages of which nothing is left, so that the log can name them.
    let shown: HashSet<usize> = repaired.view.items().map(rejoin_view::ItemRef::index).collect();
    let gone = |index: &usize| messages[*index].tool_calls().next().is_some() && !shown.contains(index);
    findings.extend((0..messages.len()).filter(gone).map(|index| {
        Finding::new(Rule::EmptyMessage, rejoin_view::Position::message(index), Action::LeftOut)
    }));
    let sanitized = Sanitized { messages: kept, findings };
    let lines = sanitized.log_lines();
    if !lines.is_empty() {
        logger(&format!("Message sanitization: {}", lines.join("; ")));
    }
    sanitized
}

/// The unanswered calls: the message and the id of each.
#[must_use]
pub fn find_incomplete_tool_calls(messages: &[Message]) -> Vec<(usize, CallId)> {
    let unanswered = found(messages, &[Rule::UnansweredCall]);
    unanswered
        .into_iter()
        .filter_map(|finding| Some((finding.at.message?, CallId::new(finding.subject?))))
        .collect()
}

/// The messages without incomplete batches of calls; results stay in place. A message with nothing left is removed.
#[must_use]
pub fn remove_incomplete_tool_calls(messages: &[Message]) -> Vec<Message> {
    let broken: HashSet<usize> =
        find_incomplete_tool_calls(messages).into_iter().map(|(message, _)| message).collect();
    without(messages, |message, block| {
        broken.contains(&message) && messages[message].blocks[block].as_call().is_some()
    })
}

/// The messages without results that no call waits for. A message with nothing left is removed.
#[must_use]
pub fn remove_orphaned_tool_results(messages: &[Message]) -> Vec<Message> {
    let orphans = found(messages, &[Rule::OrphanResult, Rule::MissingCallId, Rule::ResultBeforeCall]);
    let places: HashSet<_> =
        orphans.into_iter().map(|finding| (finding.at.message, finding.at.block)).collect();
    without(messages, |message, block| {
        places.contains(&(Some(message), Some(block)))
            && messages[message].blocks[block].as_result().is_some()
    })
}

fn found(messages: &[Message], rules: &[Rule]) -> Vec<Finding> {
    let history: History = messages.iter().cloned().collect();
    let findings = repair(&history, OnBroken::Keep).findings;
    findings.into_iter().filter(|finding| rules.contains(&finding.rule)).collect()
}

/// The messages without some blocks, which are given by message and block.
fn without(messages: &[Message], gone: impl Fn(usize, usize) -> bool) -> Vec<Message> {
    let kept = messages.iter().enumerate().map(|(index, message)| {
        let blocks = message.blocks.iter().enumerate().filter(|(block, _)| !gone(index, *block));
        let blocks: Vec<_> = blocks.map(|(_, block)| block.clone()).collect();
        if blocks.len() == message.blocks.len() {
            return Some(message.clone());
        }
        // The rest of the message no longer matches its own item.
        (!blocks.is_empty()).then(|| Message { blocks, native: None, ..message.clone() })
    });
    kept.flatten().collect()
}

/// Sanitizes the messages of this session, and logs the outcome.
#[must_use]
pub fn recover_session(session: &str, messages: &[Message]) -> Sanitized {
    let history: History = messages.iter().cloned().collect();
    sanitize(history.of_session(session), &mut |line| tracing::info!("{line}"))
}

/// The messages to send: those that [`sanitize_recovered_messages`] keeps. Logs a warning for each orphan.
#[must_use]
pub fn validate_message_sequence(messages: &[Message]) -> Vec<Message> {
    sanitize_recovered_messages(messages).messages
}

/// Whether a list of messages is sound, and its faults.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Validation {
    /// Whether there are no errors.
    pub valid: bool,
    /// The faults, one line each.
    pub errors: Vec<String>,
}

/// Checks a list of messages without changing anything.
#[must_use]
pub fn validate_message_structure(messages: &[Message]) -> Validation {
    let history: History = messages.iter().cloned().collect();
    let findings = repair(&history, OnBroken::Keep).findings;
    let mut errors = Vec::new();
    for finding in findings.iter().filter(|finding| finding.is_problem()) {
        let message = finding.at.message.unwrap_or_default();
        let id = finding.subject.as_deref().unwrap_or("none");
        errors.push(match finding.rule {
            // The calls of a partial batch have their own findings.
            Rule::PartialBatch => continue,
            Rule::UnansweredCall => format!("Message {message}: tool_call {id} missing matching tool_result"),
            Rule::OrphanResult | Rule::ResultBeforeCall | Rule::DuplicateResult => {
                format!("Message {message}: tool_result {id} missing matching tool_call")
            }
            _ => format!("Message {message}: {finding}"),
        });
    }
    Validation { valid: errors.is_empty(), errors }
}
