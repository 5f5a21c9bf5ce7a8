//! Where a conversation stands, derived from its record. Nothing waits for a state: every entry is stored at once, and a safe
//! point is something that can be seen, not something that is waited for.

use std::fmt;

use rejoin_record::{Content, Kind, Role, Tree, content::TurnState};
use rejoin_view::{Fate, OnBroken, Repairer, path::Walk};

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
        let tree = Tree::new(self.entries());
        let head = self.head().and_then(|head| tree.get(head));
        let path = head.map(|head| tree.path_to(head).0).unwrap_or_default();
        let mut walk = Walk::default();
        let mut interrupted = false;
        for entry in path {
            let content = Content::of(entry);
            match (&entry.envelope().kind, &content) {
                (Kind::Message | Kind::Compacted, _) => interrupted = false,
                (_, Content::Turn(turn)) => interrupted = turn.state == TurnState::Interrupted,
                _ => {}
            }
            walk.add(entry.id(), content);
        }
        let mut repairer = Repairer::new(OnBroken::Keep);
        let mut sent = walk.sent().iter().peekable();
        for (place, message) in walk.messages().iter().enumerate() {
            while sent.next_if(|sent| **sent <= place).is_some() {
                repairer.seal();
            }
            repairer.push(message.clone(), &walk.fates(place));
        }
        if sent.next().is_some() {
            repairer.seal();
        }
        // A call that somebody spoke after is nobody's to wait for: the next request decides about it.
        let asking = walk.messages().iter().rposition(|message| message.role != Role::Tool);
        let mut open = repairer.undecided();
        open.retain(|call| Some(call.message) == asking);
        // They are all of one message, so what is known of it is asked for once, in the order of its blocks.
        let fates = asking.map(|message| walk.fates(message)).unwrap_or_default();
        let awaits = |call: &rejoin_view::KnownCall| {
            let known = fates.binary_search_by_key(&call.block, |(block, _)| *block);
            known.is_ok_and(|known| fates[known].1 == Fate::AwaitingApproval)
        };
        match walk.messages().last() {
            None => SessionState::Empty,
            Some(_) if open.iter().any(awaits) => SessionState::WaitingForApproval,
            Some(_) if !open.is_empty() => SessionState::WaitingForTools,
            Some(_) if interrupted => SessionState::Interrupted,
            Some(last) if last.role == Role::Assistant => SessionState::Complete,
            Some(_) => SessionState::WaitingForModel,
        }
    }
}
