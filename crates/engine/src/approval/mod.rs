//! Approvals: which calls run without asking, and who answers about the others.
//!
//! A call that only reads needs no approval. For any other call, the rules of the settings and of the conversation decide first
//! (`rules/`), then the [`ApprovalMode`]; an [`Approve`] answers about the rest. Before the call runs, the turn records the
//! question, the answer and the file's content (`turn/approving.rs`).

mod replies;
pub mod rules;

use std::sync::Arc;

use rejoin_record::ToolCall;
pub use replies::Replies;
pub use rules::Rules;

use crate::provider::BoxFuture;

/// Which calls run without asking, unless a rule says otherwise. Reading inside the workspace is always free.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ApprovalMode {
    /// Ask before anything changes.
    #[default]
    Ask,
    /// Run everything that stays inside the sandbox or the workspace. Without a sandbox, every command needs approval.
    Auto,
    /// Change nothing: deny every call that would.
    ReadOnly,
}

impl ApprovalMode {
    /// Every mode.
    pub const ALL: &[Self] = &[Self::Ask, Self::Auto, Self::ReadOnly];

    /// The mode's name in settings and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ask => "ask",
            Self::Auto => "auto",
            Self::ReadOnly => "read-only",
        }
    }

    /// The mode of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|mode| mode.name() == name)
    }
}

/// A call that waits for an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalRequest {
    /// The call, with the arguments that the model wrote. A reply names its id.
    pub call: ToolCall,
    /// What the call would do: a diff, or the command and the folder in which it runs. Not escaped for a terminal.
    pub preview: String,
    /// Why no rule and no mode allows it.
    pub why: String,
    /// The rule that [`ApprovalAnswer::Always`] adds; `None` if no rule can describe the call.
    pub rule: Option<String>,
    /// The part of the arguments that a person may want to edit before the call runs, and its content.
    pub editable: Option<Editable>,
}

/// An argument that a person may edit before the call runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Editable {
    /// The name of the argument in [`ApprovalAnswer::Edited`]: `command`, or `content` for the new content of a file.
    pub argument: &'static str,
    /// Its text now.
    pub text: String,
}

/// An answer to an [`ApprovalRequest`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApprovalAnswer {
    /// Run it.
    Yes,
    /// Run it, and allow the same call for the rest of this conversation.
    Always,
    /// Do not run it. The model reads the reason.
    No {
        /// The reason, if one was given.
        reason: Option<String>,
    },
    /// Run it with another text of its [`Editable`] argument.
    Edited {
        /// The new text.
        text: String,
    },
    /// Do not run it, and stop the turn.
    Stop,
}

/// Answers about calls that no rule and no mode decides.
pub trait Approve: Send + Sync {
    /// Waits for the answer about a call. The future is dropped if the turn is stopped meanwhile.
    fn answer<'a>(&'a self, request: &'a ApprovalRequest) -> BoxFuture<'a, ApprovalAnswer>;

    /// Who answers, as the record names it: `person` or `program`.
    fn answered_by(&self) -> &'static str;
}

/// Denies everything, for programs in which no person can be asked.
#[derive(Debug, Clone, Copy, Default)]
pub struct DenyAll;

/// The reason that [`DenyAll`] gives.
pub const NO_ONE_TO_ASK: &str = "approval is needed, and there is no terminal to ask at";

impl Approve for DenyAll {
    fn answer<'a>(&'a self, _request: &'a ApprovalRequest) -> BoxFuture<'a, ApprovalAnswer> {
        Box::pin(async { ApprovalAnswer::No { reason: Some(NO_ONE_TO_ASK.to_owned()) } })
    }

    fn answered_by(&self) -> &'static str {
        "program"
    }
}

/// Which calls may run: the mode, the rules, and who is asked about the rest.
#[derive(Clone)]
pub struct Approvals {
    /// The mode.
    pub mode: ApprovalMode,
    /// The rules of the settings. Rules that a person adds in a conversation are kept in its record, not here.
    pub rules: Rules,
    /// Answers about calls that no rule and no mode decides.
    pub approve: Arc<dyn Approve>,
}

impl Default for Approvals {
    /// Every change needs approval, and [`DenyAll`] denies it.
    fn default() -> Self {
        Self { mode: ApprovalMode::Ask, rules: Rules::default(), approve: Arc::new(DenyAll) }
    }
}

impl std::fmt::Debug for Approvals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Approvals")
            .field("mode", &self.mode)
            .field("rules", &self.rules)
            .finish_non_exhaustive()
    }
}
