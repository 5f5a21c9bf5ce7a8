//! The state of a conversation, derived from its record.

use rejoin_store::SessionState;
use rejoin_view::{LastWord, PathState, PendingCall};

use crate::conversation::Conversation;

impl Conversation {
    /// The conversation's state. It takes one walk along the path to the head.
    pub fn state(&self) -> SessionState {
        let path = PathState::of(&self.tree());
        // If the user wrote after a call, the turn does not wait for that call: the next request decides about it.
        state_of(&path, |call| path.waits_for(call))
    }
}

/// The state for a list. Unlike [`Conversation::state`], it counts every call that the next request must decide about.
pub(crate) fn listed(path: &PathState) -> SessionState {
    state_of(path, |_| true)
}

fn state_of(path: &PathState, counts: impl Fn(&PendingCall) -> bool) -> SessionState {
    let mut pending = path.pending_calls().filter(|call| counts(call)).peekable();
    match path.last_word() {
        None => SessionState::Empty,
        Some(_) if pending.peek().is_some() => {
            if pending.any(|call| call.awaits_approval) {
                SessionState::WaitingForApproval
            } else {
                SessionState::WaitingForTools
            }
        }
        Some(_) if path.is_interrupted() => SessionState::Interrupted,
        Some(LastWord::Answer) => SessionState::Complete,
        Some(LastWord::Calls | LastWord::Other) => SessionState::WaitingForModel,
    }
}
