//! Where a conversation stands, derived from its record. Nothing waits for a state: every entry is stored at once, and a safe
//! point is something that can be seen, not something that is waited for.

use std::fmt;

use rejoin_record::Tree;
use rejoin_store::State;
use rejoin_view::{LastWord, PathState, PendingCall};

use crate::conversation::Conversation;

/// Where a conversation stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SessionState {
    /// Nothing was said yet.
    Empty,
    /// A person or a tool had the last word, and the model has not answered.
    WaitingForModel,
    /// Calls have no result yet.
    WaitingForTools,
    /// A call waits for a person's approval.
    WaitingForApproval,
    /// The turn was stopped by a person or by an error. Every call has a result.
    Interrupted,
    /// The model had the last word, and asked for nothing.
    Complete,
}

impl SessionState {
    /// Every state.
    pub const ALL: &[Self] = &[
        Self::Empty,
        Self::WaitingForModel,
        Self::WaitingForTools,
        Self::WaitingForApproval,
        Self::Interrupted,
        Self::Complete,
    ];

    /// Its name for programs.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Empty => "EMPTY",
            Self::WaitingForModel => "WAITING_FOR_MODEL",
            Self::WaitingForTools => "WAITING_FOR_TOOLS",
            Self::WaitingForApproval => "WAITING_FOR_APPROVAL",
            Self::Interrupted => "INTERRUPTED",
            Self::Complete => "COMPLETE",
        }
    }

    /// Whether every call of the last answer has its result: a list of messages that was copied now would end whole.
    #[must_use]
    pub fn is_safe_point(self) -> bool {
        !matches!(self, Self::WaitingForTools | Self::WaitingForApproval)
    }
}

impl fmt::Display for SessionState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Conversation {
    /// Where it stands. Costs a walk along the path to the head.
    #[must_use]
    pub fn state(&self) -> SessionState {
        let path = PathState::of(&Tree::new(self.entries()));
        // A call that somebody spoke after is nobody's to wait for: the next request decides about it.
        let awaited = |call: &PendingCall| path.waits_for(call);
        match state_of(&path, awaited) {
            State::New => SessionState::Empty,
            State::Ready => SessionState::Complete,
            State::Waiting => SessionState::WaitingForModel,
            State::Approval => SessionState::WaitingForApproval,
            State::Interrupted if path.pending_calls().any(awaited) => SessionState::WaitingForTools,
            State::Interrupted | State::Damaged => SessionState::Interrupted,
        }
    }
}

/// Where a conversation stands, as a list shows it. Unlike [`SessionState`], it counts every call that the next request has to
/// decide about.
pub(crate) fn listed(path: &PathState) -> State {
    state_of(path, |_| true)
}

fn state_of(path: &PathState, counts: impl Fn(&PendingCall) -> bool) -> State {
    let mut pending = path.pending_calls().filter(|call| counts(call)).peekable();
    match path.last_word() {
        None => State::New,
        Some(_) if pending.peek().is_some() => {
            if pending.any(|call| call.awaits_approval) {
                State::Approval
            } else {
                State::Interrupted
            }
        }
        Some(_) if path.is_interrupted() => State::Interrupted,
        Some(LastWord::Answer) => State::Ready,
        Some(LastWord::Calls | LastWord::Other) => State::Waiting,
    }
}
