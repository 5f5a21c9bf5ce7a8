//! The path: from the entries of a conversation to the history that a view is computed from.
//!
//! Follows the tree from the root to the head, takes the messages, and applies what `closed` and `turn` entries record
//! about their calls. A compaction hides what it replaced. Every other kind of entry is skipped here.

use std::{collections::HashMap, sync::Arc};

use rejoin_record::{
    CallId, Content, EntryId, Message, Tree,
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
    /// What was found on the way, each with the entry that it is about.
    pub findings: Vec<(EntryId, Finding)>,
}

/// The history that leads to the head of the tree, and what was found on the way.
pub fn path(tree: &Tree<'_>) -> Path {
    let (entries, broken) = tree.path();
    // In the order of the path.
    let mut broken = broken.into_iter().peekable();
    let mut walk = Walk::default();
    for entry in entries {
        if let Some(link) = broken.next_if(|link| link.entry == entry.id()) {
            let at = Position::message(walk.messages.len());
            let finding = Finding::new(Rule::BrokenChain, at, Action::Kept);
            walk.findings.push((entry.id(), finding.about(link.parent.to_string())));
        }
        walk.add(entry.id(), Content::of(entry));
    }
    let findings = std::mem::take(&mut walk.findings);
    let (history, entries) = walk.into_history();
    Path { history, entries, findings }
}

/// A path as it is walked, entry by entry. A running conversation keeps it and adds to it.
#[derive(Debug, Default)]
pub struct Walk {
    messages: Vec<Arc<Message>>,
    entries: Vec<EntryId>,
    calls: Calls,
    sent: Vec<usize>,
    findings: Vec<(EntryId, Finding)>,
    /// A turn of ours is in progress: a call in it runs only after an entry that records its start.
    in_turn: bool,
    compactions: usize,
    results: Results,
}

/// The entry of the newest result of each call id, among the first `read` messages. A path on which nothing was closed never
/// needs it, so it is read when it is needed.
#[derive(Debug, Default)]
struct Results {
    newest: HashMap<CallId, EntryId>,
    read: usize,
}

impl Walk {
    /// Takes the next entry of the path.
    pub fn add(&mut self, entry: EntryId, content: Content) {
        match content {
            Content::Message(message) => self.message(entry, Arc::new(message)),
            Content::Compacted(compacted) => {
                self.compact(compacted.keep_from);
                if !compacted.summary.is_blank() {
                    self.message(entry, Arc::new(Message::user(compacted.summary)));
                    // It goes before everything that stays.
                    self.messages.rotate_right(1);
                    self.entries.rotate_right(1);
                    let newest = self.messages.len() - 1;
                    self.calls.renumber(|place| Some(if place == newest { 0 } else { place + 1 }));
                }
            }
            Content::Closed(closed) => {
                for call in closed.calls {
                    let fate = match call.decision {
                        Decision::LeftOut if self.has_result(call.entry, call.block) => Fate::ClosedWithBatch,
                        Decision::LeftOut => Fate::ClosedLeftOut,
                        Decision::Interrupted => Fate::ClosedInterrupted,
                        Decision::Rerun => Fate::Unknown,
                    };
                    self.calls.set(call.entry, call.block, fate);
                }
            }
            Content::Turn(turn) => self.turn(turn.state, turn.call.map(|call| (call.entry, call.block))),
            Content::Unreadable(_) => {
                let at = Position::message(self.messages.len());
                let finding = Finding::new(Rule::DamagedEntry, at, Action::SetAside);
                self.findings.push((entry, finding.about(entry.to_string())));
            }
            _ => {}
        }
    }

    fn turn(&mut self, state: TurnState, call: Option<(EntryId, u64)>) {
        match (state, call) {
            (TurnState::Started, _) => {
                self.in_turn = true;
                self.sent.push(self.messages.len());
            }
            (TurnState::CallRunning, Some((entry, block))) => self.calls.set(entry, block, Fate::Started),
            (TurnState::CallAwaitingApproval, Some((entry, block))) => {
                self.calls.set(entry, block, Fate::AwaitingApproval);
            }
            (TurnState::Ended | TurnState::Interrupted, _) => self.in_turn = false,
            (TurnState::CallRunning | TurnState::CallAwaitingApproval, None) => {}
        }
    }

    /// Whether a result with the id of a call comes after the call's message, as far as the path was walked.
    fn has_result(&mut self, entry: EntryId, block: u64) -> bool {
        for (message, entry) in self.messages.iter().zip(&self.entries).skip(self.results.read) {
            for id in message.tool_results().filter_map(|result| result.call_id.as_ref()) {
                self.results.newest.insert(id.clone(), *entry);
            }
        }
        self.results.read = self.messages.len();
        let called = || {
            let message = self.message_of(entry)?;
            let call = message.blocks.get(usize::try_from(block).ok()?)?.as_call()?;
            let result = self.results.newest.get(&call.id)?;
            Some(self.calls.places.get(result)? > self.calls.places.get(&entry)?)
        };
        called().unwrap_or(false)
    }

    /// Takes the next entry of the path, a message that has been parsed already.
    pub fn message(&mut self, entry: EntryId, message: Arc<Message>) {
        let place = self.messages.len();
        self.calls.places.insert(entry, place);
        if self.in_turn {
            for (block, _) in message.blocks.iter().enumerate().filter(|(_, block)| block.as_call().is_some())
            {
                self.calls.fates.insert((place, block), Fate::NotStarted);
            }
        }
        self.messages.push(message);
        self.entries.push(entry);
    }

    /// Hides everything before an entry; before this place, if none is named.
    fn compact(&mut self, keep_from: Option<EntryId>) {
        let kept = keep_from.and_then(|entry| self.calls.places.get(&entry).copied());
        let from = kept.unwrap_or(self.messages.len());
        self.messages.drain(..from);
        self.entries.drain(..from);
        self.calls.renumber(|place| place.checked_sub(from));
        // Earlier requests were sent with another list.
        self.sent.clear();
        self.results = Results::default();
        self.compactions += 1;
    }

    /// The history that was walked, and the entry of each message.
    pub fn into_history(self) -> (History, Vec<EntryId>) {
        (History::with(self.messages, self.calls.into_fates(), self.sent), self.entries)
    }

    /// The messages so far.
    pub fn messages(&self) -> &[Arc<Message>] {
        &self.messages
    }

    /// The entry of each message.
    pub fn entries(&self) -> &[EntryId] {
        &self.entries
    }

    /// The message of an entry.
    pub fn message_of(&self, entry: EntryId) -> Option<&Arc<Message>> {
        self.messages.get(*self.calls.places.get(&entry)?)
    }

    /// The messages before which requests were sent, in order.
    pub fn sent(&self) -> &[usize] {
        &self.sent
    }

    /// How many compactions have replaced the list.
    pub fn compactions(&self) -> usize {
        self.compactions
    }

    /// What is known about one call.
    #[must_use]
    pub fn fate(&self, entry: EntryId, block: usize) -> Option<Fate> {
        let place = *self.calls.places.get(&entry)?;
        self.calls.fates.get(&(place, block)).copied()
    }

    /// What is known about the calls of a message, by block.
    pub fn fates(&self, message: usize) -> Vec<(usize, Fate)> {
        let Some(blocks) = self.messages.get(message).map(|message| message.blocks.len()) else {
            return Vec::new();
        };
        (0..blocks).filter_map(|block| Some((block, *self.calls.fates.get(&(message, block))?))).collect()
    }
}

#[derive(Debug, Default)]
struct Calls {
    /// The place of an entry's message.
    places: HashMap<EntryId, usize>,
    fates: HashMap<(usize, usize), Fate>,
}

impl Calls {
    fn set(&mut self, entry: EntryId, block: u64, fate: Fate) {
        let (Some(&message), Ok(block)) = (self.places.get(&entry), usize::try_from(block)) else { return };
        let known = self.fates.entry((message, block)).or_insert(fate);
        // A decision that was sent to a model is final, unless the call is run again.
        if !known.is_closed() || fate.is_closed() || fate == Fate::Unknown {
            *known = fate;
        }
    }

    /// Gives every message a new place, or none.
    fn renumber(&mut self, place: impl Fn(usize) -> Option<usize>) {
        let places = std::mem::take(&mut self.places).into_iter();
        self.places = places.filter_map(|(entry, old)| Some((entry, place(old)?))).collect();
        let fates = std::mem::take(&mut self.fates).into_iter();
        self.fates = fates.filter_map(|((old, block), fate)| Some(((place(old)?, block), fate))).collect();
    }

    fn into_fates(self) -> Vec<KnownCall> {
        self.fates.into_iter().map(|((message, block), fate)| KnownCall { message, block, fate }).collect()
    }
}
