//! The path: from the entries of a conversation to the history that a view is made of.
//!
//! Follows the tree from the root to the head, takes the messages, and applies what `closed` and `turn` entries say of
//! their calls. A compaction hides what it replaced. Every other kind is skipped here.

use std::{collections::HashMap, sync::Arc};

use rejoin_record::{
    Content, EntryId, Message, Tree,
    content::{Decision, TurnState},
};

use crate::{
    finding::{Action, Finding, Position},
    history::{Fate, History, KnownCall},
    rules::Rule,
};

/// The history that leads to the head of a tree.
#[derive(Debug, Default)]
pub struct Path {
    /// The history.
    pub history: History,
    /// The entry of each message; a compaction's summary has the compaction's.
    pub entries: Vec<EntryId>,
    /// What was found on the way.
    pub findings: Vec<Finding>,
    /// The entry that each of them is about.
    pub found_at: Vec<EntryId>,
}

/// The history that leads to the head of the tree, and what was found on the way.
#[must_use]
pub fn path(tree: &Tree<'_>) -> Path {
    let (entries, broken) = tree.path();
    // In the order of the path.
    let mut broken = broken.into_iter().peekable();
    let mut walk = Walk::default();
    for entry in entries {
        if let Some(link) = broken.next_if(|link| link.entry == entry.id()) {
            let at = Position::message(walk.messages.len());
            let finding = Finding::new(Rule::BrokenChain, at, Action::Kept);
            walk.found(entry.id(), finding.about(link.parent.to_string()));
        }
        match Content::of(entry) {
            Content::Message(message) => walk.message(entry.id(), message),
            Content::Compacted(compacted) => {
                walk.compact(compacted.keep_from);
                if !compacted.summary.is_blank() {
                    walk.message(entry.id(), Message::user(compacted.summary));
                    // It stands before what stays.
                    walk.messages.rotate_right(1);
                    walk.entries.rotate_right(1);
                    walk.calls.shift(1);
                }
            }
            Content::Closed(closed) => {
                for call in closed.calls {
                    let fate = match call.decision {
                        Decision::LeftOut => Fate::ClosedLeftOut,
                        Decision::Interrupted => Fate::ClosedInterrupted,
                        Decision::Rerun => Fate::Unknown,
                    };
                    walk.calls.set(call.entry, call.block, fate);
                }
            }
            Content::Turn(turn) => match (turn.state, turn.call) {
                (TurnState::Started, _) => walk.sent.push(walk.messages.len()),
                (TurnState::CallRunning, Some(call)) => {
                    walk.calls.set(call.entry, call.block, Fate::Started);
                }
                (TurnState::CallAwaitingApproval, Some(call)) => {
                    walk.calls.set(call.entry, call.block, Fate::AwaitingApproval);
                }
                _ => {}
            },
            Content::Unreadable(_) => {
                let at = Position::message(walk.messages.len());
                let finding = Finding::new(Rule::DamagedEntry, at, Action::SetAside);
                walk.found(entry.id(), finding.about(entry.id().to_string()));
            }
            _ => {}
        }
    }
    let history = History::with(walk.messages, walk.calls.into_fates(), walk.sent);
    Path { history, entries: walk.entries, findings: walk.findings, found_at: walk.found_at }
}

/// The path, as far as it was walked.
#[derive(Default)]
struct Walk {
    messages: Vec<Arc<Message>>,
    entries: Vec<EntryId>,
    calls: Calls,
    sent: Vec<usize>,
    findings: Vec<Finding>,
    found_at: Vec<EntryId>,
}

impl Walk {
    fn found(&mut self, entry: EntryId, finding: Finding) {
        self.findings.push(finding);
        self.found_at.push(entry);
    }

    fn message(&mut self, entry: EntryId, message: Message) {
        self.calls.places.insert(entry, self.messages.len());
        self.messages.push(Arc::new(message));
        self.entries.push(entry);
    }

    /// Hides everything before an entry; before this place, if none is named.
    fn compact(&mut self, keep_from: Option<EntryId>) {
        let kept = keep_from.and_then(|entry| self.calls.places.get(&entry).copied());
        let from = kept.unwrap_or(self.messages.len());
        self.messages.drain(..from);
        self.entries.drain(..from);
        self.calls.cut(from);
        // What was sent before the compaction was another list.
        self.sent.clear();
    }
}

/// What the entries say of calls.
#[derive(Default)]
struct Calls {
    /// Where the message of an entry stands.
    places: HashMap<EntryId, usize>,
    fates: HashMap<(usize, usize), Fate>,
}

impl Calls {
    fn set(&mut self, entry: EntryId, block: u64, fate: Fate) {
        let (Some(&message), Ok(block)) = (self.places.get(&entry), usize::try_from(block)) else { return };
        let known = self.fates.entry((message, block)).or_insert(fate);
        // What was sent to a model stays decided, unless it is run again.
        if !known.is_closed() || fate.is_closed() || fate == Fate::Unknown {
            *known = fate;
        }
    }

    /// Forgets the messages before this one; those behind it move to the front.
    fn cut(&mut self, from: usize) {
        self.places.retain(|_, place| *place >= from);
        self.places.values_mut().for_each(|place| *place -= from);
        let fates = std::mem::take(&mut self.fates).into_iter();
        let kept =
            fates.filter_map(|((message, block), fate)| Some(((message.checked_sub(from)?, block), fate)));
        self.fates = kept.collect();
    }

    /// Everything but the newest message moves back by so many places.
    fn shift(&mut self, by: usize) {
        let newest = self.places.len() - 1;
        for place in self.places.values_mut() {
            *place = if *place == newest { 0 } else { *place + by };
        }
        let fates = std::mem::take(&mut self.fates).into_iter();
        self.fates = fates.map(|((message, block), fate)| ((message + by, block), fate)).collect();
    }

    fn into_fates(self) -> Vec<KnownCall> {
        self.fates.into_iter().map(|((message, block), fate)| KnownCall { message, block, fate }).collect()
    }
}
