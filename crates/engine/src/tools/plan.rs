//! What a call would do, said before it does it; and what a running call gets.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use rejoin_record::content::Confidence;
use tokio::sync::mpsc;

use super::{FileChange, ToolOutput};
use crate::{
    approval::{Editable, rules::CallSubject},
    provider::BoxFuture,
    turn::{Delegation, Event, Stop},
};

/// What a call would do.
#[allow(clippy::large_enum_variant, reason = "there is one plan per call, and it is moved only a few times")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Plan {
    /// It only reads. It needs no approval and runs beside other calls.
    Reads,
    /// It changes something. It may need approval, and runs alone.
    Changes(PlannedChange),
    /// It hands a task to another conversation, whose calls are approved one by one. It runs alone.
    Delegates,
    /// It reads the record of its own conversation.
    Recalls,
}

impl Plan {
    /// The plan of a call that only reads, for [`Tool::plan`](super::Tool::plan).
    pub fn reads<'a>() -> BoxFuture<'a, Result<Self, ToolOutput>> {
        Box::pin(std::future::ready(Ok(Self::Reads)))
    }
}

/// A change that a call would make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedChange {
    /// What the rules look at.
    pub subject: ChangeSubject,
    /// What a person is shown: a diff, or the command and the folder in which it runs. Not escaped for a terminal.
    pub preview: String,
    /// Whether mode `auto` allows it.
    pub reach: Reach,
    /// The file that changes, if it is one.
    pub file: Option<PlannedFile>,
    /// What a person may edit before the call runs.
    pub editable: Option<Editable>,
}

impl PlannedChange {
    /// A change that mode `auto` asks about, with what a person is shown.
    pub fn new(preview: impl Into<String>) -> Self {
        Self {
            subject: ChangeSubject::Other,
            preview: preview.into(),
            reach: Reach::Open(String::from("it is not confined to the workspace")),
            file: None,
            editable: None,
        }
    }
}

/// A change of a file, and what is recorded with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedFile {
    /// The change. The file is recorded as it was before the call runs.
    pub change: FileChange,
    /// The hash of the commit that is checked out in the workspace, if that is known.
    pub commit: Option<String>,
    /// How sure the model is of the change, if it says so.
    pub confidence: Option<Confidence>,
}

/// What rules look at, besides the tool's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeSubject {
    /// A shell command.
    Command(String),
    /// A path relative to the workspace.
    File(String),
    /// An address.
    Url(String),
    /// Nothing: only rules for the whole tool apply.
    Other,
}

impl ChangeSubject {
    /// The call as rules see it. A path here is relative already, so any workspace will do.
    pub(crate) fn for_rules<'a>(&'a self, tool: &'a str) -> CallSubject<'a> {
        match self {
            Self::Command(command) => CallSubject::Command(command),
            Self::File(path) => CallSubject::File { tool, path, workspace: "/" },
            Self::Url(url) => CallSubject::Url(url),
            Self::Other => CallSubject::Other { tool },
        }
    }
}

/// Whether a change stays inside the workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reach {
    /// It does: the sandbox or the tool sees to that. Mode `auto` allows it.
    Confined,
    /// It may not, for this reason. Mode `auto` asks.
    Open(String),
}

/// A call that runs.
#[derive(Clone, Copy)]
pub struct RunningCall<'a> {
    /// The arguments: a JSON object, exactly as the model wrote it, unless a person edited it.
    pub arguments: &'a str,
    /// The change of a file that was planned and recorded.
    pub file: Option<&'a FileChange>,
    /// Shows output while the call runs.
    pub live: &'a Live,
    /// Is set when the turn is stopped. A call that watches it can return what it has so far; others are dropped.
    pub stop: &'a Stop,
    /// For a call that [delegates](Plan::Delegates): starts the other conversation.
    pub delegation: Option<&'a Delegation>,
}

impl<'a> RunningCall<'a> {
    /// A call outside of a turn, with nothing but its arguments.
    pub fn with(arguments: &'a str, live: &'a Live, stop: &'a Stop) -> Self {
        Self { arguments, file: None, live, stop, delegation: None }
    }
}

impl std::fmt::Debug for RunningCall<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RunningCall({})", self.arguments)
    }
}

/// The most bytes of live output that wait to be shown. The result has everything; what does not fit is not shown live.
const WAITING: usize = 1024 * 1024;

/// Shows what a call puts out while it runs. The result, which is recorded, is separate.
#[derive(Debug, Clone, Default)]
pub struct Live {
    call: String,
    waiting: Arc<AtomicUsize>,
    events: Option<mpsc::UnboundedSender<Event>>,
}

impl Live {
    pub(crate) fn new(call: impl Into<String>, events: mpsc::UnboundedSender<Event>) -> Self {
        Self { call: call.into(), waiting: Arc::default(), events: Some(events) }
    }

    /// Shows a piece of output.
    pub fn show(&self, text: &str) {
        let waits = self.waiting.fetch_add(text.len(), Ordering::Relaxed) + text.len();
        if waits > WAITING || self.events.is_none() {
            self.waiting.fetch_sub(text.len(), Ordering::Relaxed);
            return;
        }
        self.send(Event::CallOutput { id: self.call.clone(), text: text.to_owned() });
    }

    /// Tells the person something that should be known before the call goes on.
    pub fn warn(&self, text: impl Into<String>) {
        self.send(Event::Warning(text.into()));
    }

    /// Passes an event on.
    pub(crate) fn send(&self, event: Event) {
        if let Some(events) = &self.events {
            // If the turn is over, nothing is shown any more.
            let _ = events.send(event);
        }
    }

    /// Notes that a piece of output was shown.
    pub(crate) fn shown(&self, event: &Event) {
        if let Event::CallOutput { id, text } = event
            && *id == self.call
        {
            self.waiting.fetch_sub(text.len(), Ordering::Relaxed);
        }
    }
}
