//! The changes that a conversation's calls made to files: the state of each, and undoing them.
//!
//! Files change on disk regardless of the branch that the conversation is on now. So entries count in the order in which they were
//! appended, not along the path to the head.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use rejoin_formats::wire::base64;
use rejoin_record::{
    Content, ConversationId, Entry, EntryId, Message, Role, Timestamp, ToolCall,
    content::{CallAt, Change, ChangeState, Confidence},
};
use rejoin_store::Store;

use crate::{
    conversation::Conversation,
    error::EngineError,
    tools::{ApplyError, ExpectedContent, FileChange, RestoreOutcome, Workspace, replayed},
    turn::is_synthetic,
};

/// A change of a file, and its latest state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileEdit {
    /// The call that makes the change.
    pub at: CallAt,
    /// The id of the call; empty if its message cannot be read.
    pub call_id: String,
    /// The tool; empty if the message cannot be read.
    pub tool: String,
    /// The path relative to the workspace.
    pub path: String,
    /// The state that the last recorded step left.
    pub state: ChangeState,
    /// When the last step was recorded.
    pub time: Timestamp,
    /// Who decided about the change, and why.
    pub decision: EditDecision,
    /// The number of the turn, from 1.
    pub turn: usize,
    /// The content before; none if the file did not exist. Erased content counts as empty.
    pub before: Option<Vec<u8>>,
    /// The BLAKE3 hash of the content after.
    pub after: Option<blake3::Hash>,
    /// The hash of the commit that was checked out when the change was proposed; none outside of a git repository, or before the
    /// first commit.
    pub commit: Option<String>,
    /// How sure the model said it was of the change, from 0 to 1.
    pub confidence: Option<Confidence>,
    /// The arguments that the call runs with.
    arguments: String,
    is_edited: bool,
}

impl FileEdit {
    /// The change as a unified diff; `None` if it can no longer be computed because the call or the old content was erased.
    #[must_use]
    pub fn diff(&self) -> Option<String> {
        let tool = if self.is_edited { crate::tools::WRITE_FILE } else { self.tool.as_str() };
        let after = replayed(tool, &self.arguments, self.before.as_deref())?;
        if self.after.is_some_and(|hash| hash != blake3::hash(&after)) {
            return None;
        }
        Some(FileChange { path: self.path.clone(), before: self.before.clone(), after }.diff())
    }

    /// Whether the change may still be in the file: it may have been made, and was not undone since.
    fn may_hold(&self) -> bool {
        matches!(self.state, ChangeState::Applied | ChangeState::Approved)
    }
}

/// Who decided about a change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EditDecision {
    /// Who: `person`, `program`, `rule` or `mode`.
    pub by: Option<String>,
    /// Why it was denied.
    pub reason: Option<String>,
}

/// A step of a turn that changed files: a change, or a delegated task with its turn and call.
enum Step {
    Edit(usize),
    Child(usize, CallAt, ConversationId),
}

/// The changes of a conversation, in order, and the tasks that it delegated.
#[derive(Default)]
struct RecordedEdits {
    edits: Vec<FileEdit>,
    steps: Vec<Step>,
}

impl RecordedEdits {
    fn in_entries(entries: &[Entry]) -> Self {
        let mut found = Self::default();
        let mut messages: HashMap<_, Message> = HashMap::new();
        let mut known: HashMap<(EntryId, u64), usize> = HashMap::new();
        let mut turn = 0;
        for entry in entries {
            match Content::of(entry) {
                Content::Message(message) => {
                    turn += usize::from(message.role == Role::User && !is_synthetic(&message));
                    if message.tool_calls().next().is_some() {
                        messages.insert(entry.id(), message);
                    }
                }
                Content::Change(change) => {
                    if let Some(child) = change.child {
                        found.steps.push(Step::Child(turn, change.call.clone(), child));
                    }
                    let place = (change.call.entry, change.call.block);
                    let call = messages.get(&change.call.entry).and_then(|message| {
                        message.blocks.get(usize::try_from(change.call.block).ok()?)?.as_call()
                    });
                    match known.get(&place) {
                        Some(&number) => found.edits[number].step(&change, entry),
                        None if change.path.is_some() => {
                            known.insert(place, found.edits.len());
                            found.steps.push(Step::Edit(found.edits.len()));
                            found.edits.push(FileEdit::new(&change, entry, call, turn));
                        }
                        None => {}
                    }
                }
                _ => {}
            }
        }
        found
    }
}

impl FileEdit {
    fn new(change: &Change, entry: &Entry, call: Option<&ToolCall>, turn: usize) -> Self {
        let mut edit = Self {
            at: change.call.clone(),
            call_id: call.map(|call| call.id.to_string()).unwrap_or_default(),
            tool: call.map(|call| call.name.to_string()).unwrap_or_default(),
            path: change.path.as_ref().map(ToString::to_string).unwrap_or_default(),
            state: change.state,
            time: entry.envelope().timestamp,
            decision: EditDecision::default(),
            turn,
            before: before(change),
            after: None,
            commit: None,
            confidence: None,
            arguments: call.map(|call| call.arguments.text().to_string()).unwrap_or_default(),
            is_edited: false,
        };
        edit.step(change, entry);
        edit
    }

    fn step(&mut self, change: &Change, entry: &Entry) {
        let text = |text: &Option<rejoin_record::Text>| text.as_ref().map(ToString::to_string);
        (self.state, self.time) = (change.state, entry.envelope().timestamp);
        let decided = &mut self.decision;
        decided.by = text(&change.by).or(decided.by.take());
        decided.reason = text(&change.reason).or(decided.reason.take());
        // The commit of the proposal counts: a person may have edited the change or checked out another commit since.
        self.commit = self.commit.take().or(text(&change.commit));
        self.confidence = self.confidence.or(change.confidence);
        if let Some(arguments) = text(&change.arguments) {
            // A person edited the call, so the file was read again.
            (self.arguments, self.is_edited, self.before) = (arguments, true, before(change));
        }
        let hash = change.after.as_ref().and_then(|hash| blake3::Hash::from_hex(hash.as_bytes()).ok());
        self.after = hash.or(self.after);
    }
}

fn before(change: &Change) -> Option<Vec<u8>> {
    let text = change.before.as_ref().map(|text| text.as_bytes().to_vec());
    text.or_else(|| base64::decode(change.before_base64.as_ref()?.as_bytes()))
}

/// The changes of files in a conversation, in order.
#[must_use]
pub fn edits(entries: &[Entry]) -> Vec<FileEdit> {
    RecordedEdits::in_entries(entries).edits
}

/// What undoing did to one change.
#[derive(Debug)]
pub enum FileUndo {
    /// The file has its earlier content again.
    Restored,
    /// The file, which did not exist before, is gone.
    Removed,
    /// The file was left alone, for this reason.
    LeftAlone(ApplyError),
}

/// The outcome of undoing one change.
#[derive(Debug)]
pub struct UndoneEdit {
    /// The conversation that made the change: this one, or that of a delegated task.
    pub conversation: ConversationId,
    /// The path relative to the workspace.
    pub path: String,
    /// The outcome.
    pub outcome: FileUndo,
}

/// Whether to undo for real.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UndoMode {
    /// Restore the files and record it.
    Real,
    /// Only compute what would be done.
    DryRun,
}

/// Undoes the changes of the newest turn that made any, including those of delegated tasks, newest first. The list is empty if there is
/// no such turn. A file that something else has changed since is left alone.
///
/// # Errors
/// If a conversation cannot be read, or another process writes to it.
pub fn undo(
    store: &Arc<dyn Store>,
    id: ConversationId,
    workspace: &Workspace,
    mode: UndoMode,
) -> Result<Vec<UndoneEdit>, EngineError> {
    let found = RecordedEdits::in_entries(open(store, id)?.entries());
    let mut turns: Vec<usize> = found
        .steps
        .iter()
        .map(|step| match step {
            Step::Edit(number) => found.edits[*number].turn,
            Step::Child(turn, ..) => *turn,
        })
        .collect();
    turns.sort_unstable();
    turns.dedup();
    for turn in turns.into_iter().rev() {
        let undone = Undo { store, workspace, mode }.of(id, &|of, _| of == turn)?;
        if !undone.is_empty() {
            return Ok(undone);
        }
    }
    Ok(Vec::new())
}

/// Undoes the changes of every call that was recorded after an entry, on any branch, newest first. A file that something else has
/// changed since is left alone.
///
/// # Errors
/// If a conversation cannot be read or has no such entry, or another process writes to it.
pub fn undo_since(
    store: &Arc<dyn Store>,
    id: ConversationId,
    entry: EntryId,
    workspace: &Workspace,
    mode: UndoMode,
) -> Result<Vec<UndoneEdit>, EngineError> {
    let conversation = open(store, id)?;
    let place = |id: EntryId| conversation.entries().iter().position(|entry| entry.id() == id);
    let from = place(entry).ok_or_else(|| EngineError::NoSuchMessage(entry.to_string()))?;
    let later: HashSet<EntryId> = conversation.entries()[from + 1..].iter().map(Entry::id).collect();
    drop(conversation);
    Undo { store, workspace, mode }.of(id, &|_, call| later.contains(&call.entry))
}

fn open(store: &Arc<dyn Store>, id: ConversationId) -> Result<Conversation, EngineError> {
    Conversation::open(Arc::clone(store), id, "undo")
}

struct Undo<'a> {
    store: &'a Arc<dyn Store>,
    workspace: &'a Workspace,
    mode: UndoMode,
}

impl Undo<'_> {
    /// Undoes the changes whose turn and call `chosen` accepts.
    fn of(
        &self,
        id: ConversationId,
        chosen: &dyn Fn(usize, &CallAt) -> bool,
    ) -> Result<Vec<UndoneEdit>, EngineError> {
        let mut conversation = open(self.store, id)?;
        let found = RecordedEdits::in_entries(conversation.entries());
        let mut undone = Vec::new();
        for step in found.steps.iter().rev() {
            match step {
                Step::Child(turn, call, child) if chosen(*turn, call) => {
                    // A child that was never stored changed nothing.
                    match self.of(*child, &|_, _| true) {
                        Err(EngineError::Unknown(_) | EngineError::Store(_)) => {}
                        children => undone.extend(children?),
                    }
                }
                Step::Edit(number) => {
                    let edit = &found.edits[*number];
                    if !chosen(edit.turn, &edit.at) || !edit.may_hold() {
                        continue;
                    }
                    if let Some(outcome) = self.take_back(edit) {
                        let is_back = !matches!(outcome, FileUndo::LeftAlone(_));
                        if is_back && self.mode == UndoMode::Real {
                            let change = Change::new(ChangeState::Reverted, edit.at.clone());
                            conversation.append(&Content::Change(change));
                        }
                        undone.push(UndoneEdit { conversation: id, path: edit.path.clone(), outcome });
                    }
                }
                Step::Child(..) => {}
            }
        }
        Ok(undone)
    }

    /// Undoes one change; `None` if there is nothing to undo because it was never made.
    fn take_back(&self, edit: &FileEdit) -> Option<FileUndo> {
        let changed = || FileUndo::LeftAlone(ApplyError::Changed { path: edit.path.clone() });
        let (before, Some(after)) = (edit.before.as_deref(), edit.after) else { return Some(changed()) };
        if self.mode == UndoMode::DryRun {
            return match self.workspace.current(&edit.path) {
                Ok(now) if now.as_deref() == before => None,
                Ok(Some(now)) if blake3::hash(&now) == after => {
                    Some(if before.is_some() { FileUndo::Restored } else { FileUndo::Removed })
                }
                Ok(_) => Some(changed()),
                Err(why) => Some(FileUndo::LeftAlone(ApplyError::Refused { path: edit.path.clone(), why })),
            };
        }
        match self.workspace.restore(&edit.path, before, ExpectedContent::Blake3(*after.as_bytes())) {
            Ok(RestoreOutcome::Rewritten) => Some(FileUndo::Restored),
            Ok(RestoreOutcome::Removed) => Some(FileUndo::Removed),
            Ok(RestoreOutcome::AlreadyThere) => None,
            Err(why) => Some(FileUndo::LeftAlone(why)),
        }
    }
}
