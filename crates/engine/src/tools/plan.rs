//! The plan of a call, made before the call runs, and the input of a running call.

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

/// The effect that a call would have.
#[allow(clippy::large_enum_variant, reason = "there is one plan per call, and it is moved only a few times")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Plan {
    /// It only reads. It needs no approval and runs in parallel with other such calls.
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
    /// The part of the call that rules look at.
    pub subject: ChangeSubject,
    /// The text for the person who decides: a diff, or the command and the folder in which it runs. Not escaped for a terminal.
    pub preview: String,
    /// Whether it stays inside the workspace, so that mode `auto` allows it.
    pub reach: Reach,
    /// The file to change, if the call changes one.
    pub file: Option<PlannedFile>,
    /// The argument that a person may edit before the call runs; `None` if there is no such argument.
    pub editable: Option<Editable>,
}

impl PlannedChange {
    /// A change for which mode `auto` asks, with its preview for a person.
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

/// A change of a file, with the facts to record about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedFile {
    /// The change. The file's old content is recorded before the call runs.
    pub change: FileChange,
    /// The hash of the commit that is checked out in the workspace; `None` if it is not known.
    pub commit: Option<String>,
    /// The model's confidence in the change; `None` if it did not state any.
    pub confidence: Option<Confidence>,
}

/// The part of a call that rules look at, besides the tool's name.
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
    /// The call in the form that rules look at. A path in it is already relative, so any workspace will do.
    pub(crate) fn for_rules<'a>(&'a self, tool: &'a str) -> CallSubject<'a> {
        match self {
            Self::Command(command) => CallSubject::Command(command),
            Self::File(path) => CallSubject::File { tool, path, workspace: "/" },
            Self::Url(url) => CallSubject::Url(url),
            Self::Other => CallSubject::Other { tool },
        }
    }
}

/// Whether the effects of a change stay inside the workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reach {
    /// They do: the sandbox or the tool guarantees it. Mode `auto` allows it.
    Confined,
    /// They may not, for this reason. Mode `auto` asks for approval.
    Open(String),
}

/// The input of a call that runs.
#[derive(Clone, Copy)]
pub struct RunningCall<'a> {
    /// The arguments: a JSON object, exactly as the model wrote it, unless a person edited it.
    pub arguments: &'a str,
    /// The planned and recorded change, if the call changes a file.
    pub file: Option<&'a FileChange>,
    /// Shows output while the call runs.
    pub live: &'a LiveOutput,
    /// Set when the turn is stopped. A call that watches it can return its result so far; other calls are dropped.
    pub stop: &'a Stop,
    /// For a call that [delegates](Plan::Delegates): starts the other conversation.
    pub delegation: Option<&'a Delegation>,
}

impl<'a> RunningCall<'a> {
    /// A call outside a turn, with nothing but its arguments.
    pub fn with(arguments: &'a str, live: &'a LiveOutput, stop: &'a Stop) -> Self {
        Self { arguments, file: None, live, stop, delegation: None }
    }
}

impl std::fmt::Debug for RunningCall<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RunningCall({})", self.arguments)
    }
}

/// The most bytes of live output that wait to be shown. Output beyond that is not shown live, but is in the result.
const WAITING: usize = 1024 * 1024;

/// Shows the output of a call while it runs. The result, which is recorded, is separate.
#[derive(Debug, Clone, Default)]
pub struct LiveOutput {
    call: String,
    waiting: Arc<AtomicUsize>,
    events: Option<mpsc::UnboundedSender<Event>>,
}

impl LiveOutput {
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

    /// Shows a warning to the person before the call continues.
    pub fn warn(&self, text: impl Into<String>) {
        self.send(Event::Warning(text.into()));
    }

    /// Passes an event on.
    pub(crate) fn send(&self, event: Event) {
        if let Some(events) = &self.events {
            // After the end of the turn, events are dropped.
            let _ = events.send(event);
        }
    }

    /// Makes room again after a piece of output was shown.
    pub(crate) fn shown(&self, event: &Event) {
        if let Event::CallOutput { id, text } = event
            && *id == self.call
        {
            self.waiting.fetch_sub(text.len(), Ordering::Relaxed);
        }
    }
}
