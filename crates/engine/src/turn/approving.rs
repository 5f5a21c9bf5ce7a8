//! Decides whether a call that changes something may run, and records the question, the answer and the file's old content.
//!
//! The order is: deny rules, the mode `read-only`, allow rules (from the settings, and those added in this conversation), the mode
//! `auto`, and then the answer of a person or program. A call that waits for an answer is recorded. If the process is killed
//! meanwhile, nothing has run, and the next process asks again.

use rejoin_formats::wire::base64;
use rejoin_record::{
    Content, Kind, Text, ToolCall,
    content::{CallAt, Change, ChangeState, TurnState},
    json::{Doc, Object},
};

use super::{
    Event, TurnInProgress, Worker,
    calls::{self, CallInEntry, NEVER_RAN},
};
use crate::{
    approval::{
        ApprovalAnswer, ApprovalMode, ApprovalRequest,
        rules::{RuleVerdict, rule_for},
    },
    tools::{Plan, PlannedChange, PlannedFile, Reach, Tool, ToolOutput},
};

/// A call that may run.
#[derive(Debug, Default)]
pub(super) struct Permission {
    /// The planned change; `None` for a call that needs no approval.
    pub(super) planned: Option<PlannedChange>,
    /// The arguments, if a person edited them.
    pub(super) arguments: Option<String>,
    /// A note that the model gets in addition to the result.
    pub(super) note: Option<String>,
}

/// The decision of the rules and the mode about a call.
enum Ruling {
    Allowed { by: &'static str, rule: Option<String> },
    Denied { by: &'static str, rule: Option<String>, why: String },
    Asked { why: String },
}

impl Worker {
    /// Decides whether a planned change may be made. An error is the call's result.
    pub(super) async fn approve(
        &mut self,
        running: &mut TurnInProgress<'_>,
        call: &ToolCall,
        at: &CallAt,
        tool: &dyn Tool,
        planned: PlannedChange,
    ) -> Result<Permission, ToolOutput> {
        match self.ruling(call, &planned) {
            Ruling::Allowed { by, rule } => {
                let change = Change {
                    by: Some(by.into()),
                    rule: rule.map(Into::into),
                    ..of_file(Change::new(ChangeState::Approved, at.clone()), &planned)
                };
                self.change_entry(running, change);
                Ok(Permission { planned: Some(planned), ..Permission::default() })
            }
            Ruling::Denied { by, rule, why } => {
                let change = Change {
                    by: Some(by.into()),
                    rule: rule.map(Into::into),
                    reason: Some(why.as_str().into()),
                    ..of_file(Change::new(ChangeState::Denied, at.clone()), &planned)
                };
                self.change_entry(running, change);
                Err(ToolOutput::error(format!("[not run: {why}]")))
            }
            Ruling::Asked { why } => self.ask_about(running, call, at, tool, planned, why).await,
        }
    }

    /// Applies the rules and the mode to a call.
    fn ruling(&self, call: &ToolCall, planned: &PlannedChange) -> Ruling {
        let approvals = &self.settings.approvals;
        let subject = planned.subject.for_rules(&call.name);
        let verdict = match approvals.rules.verdict(&subject) {
            RuleVerdict::Ask(why) => match self.own_rules.0.verdict(&subject) {
                RuleVerdict::Allow(rules) => RuleVerdict::Allow(rules),
                _ => RuleVerdict::Ask(why),
            },
            verdict => verdict,
        };
        match (verdict, approvals.mode, &planned.reach) {
            (RuleVerdict::Deny(rule), _, _) => {
                Ruling::Denied { by: "rule", why: format!("the rule `{rule}` denies it"), rule: Some(rule) }
            }
            (_, ApprovalMode::ReadOnly, _) => Ruling::Denied {
                by: "mode",
                rule: None,
                why: String::from("the mode is read-only, so nothing may be changed"),
            },
            (RuleVerdict::Allow(rules), _, _) => Ruling::Allowed { by: "rule", rule: Some(rules.join("\n")) },
            (RuleVerdict::Ask(_), ApprovalMode::Auto, Reach::Confined) => {
                Ruling::Allowed { by: "mode", rule: None }
            }
            (RuleVerdict::Ask(_), ApprovalMode::Auto, Reach::Open(why)) => Ruling::Asked { why: why.clone() },
            (RuleVerdict::Ask(why), ApprovalMode::Ask, _) => Ruling::Asked { why: why.to_string() },
        }
    }

    /// Asks about a change. Records the question first, and then the answer.
    async fn ask_about(
        &mut self,
        running: &mut TurnInProgress<'_>,
        call: &ToolCall,
        at: &CallAt,
        tool: &dyn Tool,
        mut planned: PlannedChange,
        why: String,
    ) -> Result<Permission, ToolOutput> {
        self.change_entry(running, of_file(Change::new(ChangeState::Proposed, at.clone()), &planned));
        self.turn_entry(running, TurnState::CallAwaitingApproval, Some(at.clone()));
        let subject = planned.subject.for_rules(&call.name);
        let request = ApprovalRequest {
            call: call.clone(),
            preview: planned.preview.clone(),
            why,
            rule: rule_for(&subject),
            editable: planned.editable.clone(),
        };
        running.tell(Event::ApprovalWanted(Box::new(request.clone())));
        let approve = std::sync::Arc::clone(&self.settings.approvals.approve);
        let answer = tokio::select! {
            biased;
            answer = approve.answer(&request) => answer,
            () = running.stop.asked() => ApprovalAnswer::Stop,
        };
        let by = Some(approve.answered_by().into());
        let denied = |reason: &str| Change {
            by: by.clone(),
            reason: Some(reason.into()),
            ..Change::new(ChangeState::Denied, at.clone())
        };
        let mut approved = Change { by: by.clone(), ..Change::new(ChangeState::Approved, at.clone()) };
        let mut permission = Permission::default();
        match answer {
            ApprovalAnswer::Yes => {}
            ApprovalAnswer::Always => {
                if let Some(rule) = request.rule.filter(|rule| self.own_rules.0.allow(rule).is_ok()) {
                    approved.rule = Some(rule.into());
                }
            }
            ApprovalAnswer::No { reason } => {
                self.change_entry(running, denied(reason.as_deref().unwrap_or_default()));
                let reason = reason.filter(|reason| !reason.trim().is_empty());
                let reason = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
                return Err(ToolOutput::error(format!("[not run: it was not approved{reason}]")));
            }
            ApprovalAnswer::Stop => {
                self.change_entry(running, denied("the turn was stopped"));
                running.stop.stop();
                return Err(ToolOutput::error(NEVER_RAN));
            }
            ApprovalAnswer::Edited { text } => {
                let edited = edited(call, tool, &mut planned, &text).await;
                let (arguments, note) = match edited {
                    Ok(edited) => edited,
                    Err(output) => {
                        self.change_entry(running, denied("the edited call cannot run"));
                        return Err(output);
                    }
                };
                // Record the file again: it may have changed while the person was editing.
                approved = of_file(approved, &planned);
                approved.arguments = Some(arguments.as_str().into());
                permission.arguments = Some(arguments);
                permission.note = Some(note);
            }
        }
        // The old content is already in the proposal.
        approved.path = planned.file.as_ref().map(|file| file.change.path.as_str().into());
        approved.after = planned.file.as_ref().map(|file| hash(&file.change.after));
        self.change_entry(running, approved);
        permission.planned = Some(planned);
        Ok(permission)
    }

    /// Asks again about calls that were waiting for approval when the last process ended, and runs the approved ones. The calls
    /// after them in the same message did not start either, so they run as well.
    pub(super) async fn ask_again(&mut self, running: &mut TurnInProgress<'_>) {
        self.composer.read(&self.conversation);
        let waiting = self.composer.awaiting_approval();
        let again: Vec<CallInEntry> = waiting
            .into_iter()
            .filter_map(|at| {
                let message = self.composer.message(at.entry)?;
                let call = message.blocks.get(usize::try_from(at.block).ok()?)?.as_call()?;
                Some((at.entry, at.block, call.clone()))
            })
            .collect();
        if !again.is_empty() {
            self.run(running, again).await;
        }
    }

    /// Records a step of a change.
    pub(super) fn change_entry(&mut self, running: &mut TurnInProgress<'_>, change: Change) {
        let saved = self.conversation.append(&Content::Change(change)).saved;
        self.saved(running, saved);
    }

    /// Reads the rules that were added in this conversation since the last call of this function.
    pub(super) fn read_own_rules(&mut self) {
        let (rules, read) = &mut self.own_rules;
        let entries = self.conversation.entries();
        for entry in entries.get(*read..).unwrap_or_default() {
            if entry.envelope().kind == Kind::Change
                && let Content::Change(change) = Content::of(entry)
                && matches!(change.by.as_deref(), Some("person" | "program"))
                && let Some(rule) = change.rule
            {
                // A rule of a newer version that cannot be parsed only means that the person is asked again.
                let _ = rules.allow(&rule);
            }
        }
        *read = entries.len();
    }
}

/// Applies a person's edit to a call: returns its new arguments and the note for the model, and updates the plan.
async fn edited(
    call: &ToolCall,
    tool: &dyn Tool,
    planned: &mut PlannedChange,
    text: &str,
) -> Result<(String, String), ToolOutput> {
    if let Some(file) = &mut planned.file {
        file.change.after = text.as_bytes().to_vec();
        // The model's confidence was about the content that it proposed, not about the person's.
        file.confidence = None;
        let arguments = Object::new().text("path", &file.change.path).text("content", text).finish();
        let note = "[a person edited the new content before it was written: read the file before you change it again]";
        return Ok((arguments, note.to_owned()));
    }
    let argument = planned.editable.as_ref().map_or("command", |editable| editable.argument);
    let mut arguments = Object::new();
    let given = calls::arguments(call.arguments.text());
    if let Ok(doc) = Doc::parse(&given)
        && let Some(root) = doc.root()
    {
        for (name, value) in root.fields().filter(|(name, _)| !name.is_str(argument)) {
            arguments = arguments.raw(&name.as_str().unwrap_or_default(), value.raw());
        }
    }
    let arguments = arguments.text(argument, text).finish();
    match tool.plan(&arguments).await? {
        Plan::Changes(changed) => *planned = changed,
        Plan::Reads | Plan::Delegates | Plan::Recalls => {}
    }
    let note = format!("[a person changed the {argument} before it ran: {text}]");
    Ok((arguments, note))
}

/// Adds a file to a recorded step: its path, its old content, the hash of its new content, the checked-out commit, and the model's
/// confidence.
fn of_file(change: Change, planned: &PlannedChange) -> Change {
    let Some(PlannedFile { change: file, commit, confidence }) = &planned.file else { return change };
    let before = file.before.as_deref().map(std::str::from_utf8);
    Change {
        path: Some(file.path.as_str().into()),
        before: before.and_then(Result::ok).map(Text::new),
        before_base64: match before {
            Some(Err(_)) => file.before.as_deref().map(|bytes| base64::encode(bytes).into()),
            _ => None,
        },
        after: Some(hash(&file.after)),
        commit: commit.as_deref().map(Into::into),
        confidence: *confidence,
        ..change
    }
}

/// The hash by which undoing recognises a file's content.
pub(crate) fn hash(content: &[u8]) -> Text {
    Text::from(blake3::hash(content).to_hex().as_str())
}
