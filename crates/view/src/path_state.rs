//! The state of the path to the head: the number of messages, the last speaker, and the calls that wait for a result.
//!
//! Lists show this for every conversation, so it must not require walking each whole path. A [`PathState`] follows a conversation
//! entry by entry, can be saved as a short text ([`PathState::to_text`]) and continued from it. It keeps only the open calls, not
//! the history before them. If these are not enough to interpret an entry, the state is lost ([`PathState::is_lost`]), and the
//! caller computes a new one from the entries ([`PathState::of`]). That happens if
//!
//! - the head moved to another branch, or the entry's parent cannot be read;
//! - a compaction kept some of the messages before it;
//! - a decision names a call that is not open;
//! - a call or a result has the id of an earlier result that answered nothing.

use std::collections::{BTreeMap, HashMap, HashSet};

use rejoin_record::{
    CallId, Content, Entry, EntryId, Message, Role, ToolCall, Tree,
    content::{Closed, Compacted, Decision, Turn, TurnState},
    json::{Doc, Value, list, quoted},
};

use crate::{
    history::Fate,
    pairing::{MatchKind, Pairing},
    path::Walk,
};

/// The last speaker, ignoring instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LastWord {
    /// The model, without calls.
    Answer,
    /// The model, with calls of tools.
    Calls,
    /// A person, or a tool.
    Other,
}

impl LastWord {
    const NAMES: &[(Self, &str)] =
        &[(Self::Answer, "answer"), (Self::Calls, "calls"), (Self::Other, "other")];
}

/// A call without a result that no decision has closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingCall {
    /// The entry of the message that asks for it.
    pub entry: EntryId,
    /// Its block in that message.
    pub block: u64,
    /// Its id.
    pub id: CallId,
    /// Whether it waits for a person's approval.
    pub awaits_approval: bool,
}

/// The state of the path to the head.
#[derive(Debug, Default)]
pub struct PathState {
    head: Option<EntryId>,
    messages: u64,
    last_word: Option<LastWord>,
    asking: Option<EntryId>,
    interrupted: bool,
    /// The calls since the last request. Earlier calls are decided.
    pairing: Pairing,
    /// The open ones among them, by their number in the pairing.
    pending: BTreeMap<usize, PendingCall>,
    numbers: HashMap<(EntryId, u64), usize>,
    /// Ids of results since the last request that answered no call.
    strays: HashSet<CallId>,
    lost: bool,
}

impl PathState {
    /// The state of the path to the head of a tree. It takes a walk along the path.
    pub fn of(tree: &Tree<'_>) -> Self {
        let mut state = Self::default();
        let path = tree.path().0;
        let mut walk = Walk::begin(tree, &path);
        for entry in path {
            for known in tree.gap_before(entry.id()).into_iter().flat_map(|gap| &gap.stand_ins) {
                state.note_message(known.entry, &known.message);
            }
            walk.cross(tree, entry.id());
            let content = Content::of(entry);
            state.head = Some(entry.id());
            state.note(entry.id(), &content);
            walk.add(entry, content);
        }
        let (history, entries) = walk.into_history();
        let pairing = Pairing::of(&history);
        let messages = history.messages();
        let mut pending = Vec::new();
        // Both lists are in the order of the calls.
        let mut known = history.known().iter().peekable();
        for at in pairing.open_calls() {
            let Some(call) = messages[at.message].blocks[at.block].as_call() else { continue };
            while known.next_if(|known| (known.message, known.block) < (at.message, at.block)).is_some() {}
            let fate = known.peek().filter(|known| (known.message, known.block) == (at.message, at.block));
            pending.push(PendingCall {
                entry: entries[at.message],
                block: at.block as u64,
                id: call.id.clone(),
                awaits_approval: fate.is_some_and(|known| known.fate == Fate::AwaitingApproval),
            });
        }
        let stray = |at: crate::BlockAt| messages[at.message].blocks[at.block].as_result()?.call_id.clone();
        state.strays = pairing.strays().filter_map(stray).collect();
        state.restore(pending);
        state
    }

    /// Takes the next entry of the conversation.
    pub fn add(&mut self, entry: &Entry, content: &Content) {
        self.lost |= entry.envelope().parent != self.head;
        self.head = Some(entry.id());
        if self.lost {
            return;
        }
        self.note(entry.id(), content);
        match content {
            Content::Message(message) => self.message(entry.id(), message),
            Content::Closed(closed) => self.close(closed),
            Content::Turn(turn) => self.turn(turn),
            Content::Compacted(Compacted { keep_from: None, kept: None, .. }) => self.forget(),
            Content::Compacted(_) | Content::Uncompacted(_) => self.lost = true,
            _ => {}
        }
    }

    /// Takes everything about a message except its calls. A compaction's summary does not count as a last word.
    fn note_message(&mut self, entry: EntryId, message: &Message) {
        self.messages += 1;
        self.interrupted = false;
        self.last_word = match message.role {
            Role::System | Role::Developer => self.last_word,
            Role::Assistant if message.tool_calls().next().is_some() => Some(LastWord::Calls),
            Role::Assistant => Some(LastWord::Answer),
            _ => Some(LastWord::Other),
        };
        if message.role != Role::Tool {
            self.asking = Some(entry);
        }
    }

    fn note(&mut self, entry: EntryId, content: &Content) {
        match content {
            Content::Message(message) => self.note_message(entry, message),
            Content::Compacted(_) | Content::Closed(_) => self.interrupted = false,
            Content::Turn(turn) if turn.unused_summary.is_none() => {
                self.interrupted = turn.state == TurnState::Interrupted;
            }
            _ => {}
        }
    }

    fn message(&mut self, entry: EntryId, message: &Message) {
        let ids = || {
            let called = message.tool_calls().map(|call| &call.id);
            called.chain(message.tool_results().filter_map(|result| result.call_id.as_ref()))
        };
        if !self.strays.is_empty() && ids().any(|id| self.strays.contains(id)) {
            self.lost = true;
            return;
        }
        let (calls, results) = (self.pairing.calls.len(), self.pairing.results.len());
        self.pairing.add(message);
        for result in &self.pairing.results[results..] {
            let id = || message.blocks[result.block as usize].as_result()?.call_id.clone();
            match result.kind {
                MatchKind::Answer => {
                    let answered = self.pending.remove(&(result.call as usize));
                    answered.map(|call| self.numbers.remove(&(call.entry, call.block)));
                }
                MatchKind::Duplicate | MatchKind::Orphan => self.strays.extend(id()),
                // It comes before a call of the same message, and may be a second result of an earlier call.
                MatchKind::Early => self.lost = true,
                MatchKind::NoId => {}
            }
        }
        for (number, slot) in self.pairing.calls.iter().enumerate().skip(calls) {
            let call = message.blocks[slot.block as usize].as_call();
            if let Some(call) = call.filter(|_| slot.is_undecided(crate::OnBroken::Keep)) {
                let block = u64::from(slot.block);
                let call = PendingCall { entry, block, id: call.id.clone(), awaits_approval: false };
                self.numbers.insert((entry, block), number);
                self.pending.insert(number, call);
            }
        }
    }

    fn close(&mut self, closed: &Closed) {
        for call in &closed.calls {
            let Some(&number) = self.numbers.get(&(call.entry, call.block)) else {
                self.lost = true;
                return;
            };
            if call.decision == Decision::Rerun {
                self.set_approval(number, false);
            } else {
                self.pairing.close(number);
                self.pending.remove(&number);
                self.numbers.remove(&(call.entry, call.block));
            }
        }
    }

    fn turn(&mut self, turn: &Turn) {
        let number = turn.call.as_ref().and_then(|call| self.numbers.get(&(call.entry, call.block)).copied());
        match (turn.state, number) {
            (TurnState::Started, _) => self.forget(),
            (TurnState::CallAwaitingApproval, Some(number)) => self.set_approval(number, true),
            (TurnState::CallRunning, Some(number)) => self.set_approval(number, false),
            _ => {}
        }
    }

    fn set_approval(&mut self, number: usize, awaits: bool) {
        if let Some(call) = self.pending.get_mut(&number) {
            call.awaits_approval = awaits;
        }
    }

    /// Drops all calls, because nothing that follows can belong to them.
    fn forget(&mut self) {
        self.strays.clear();
        self.restore(Vec::new());
    }

    /// Continues with these calls as the only ones.
    fn restore(&mut self, pending: Vec<PendingCall>) {
        self.pairing = Pairing::default();
        for calls in pending.chunk_by(|call, next| call.entry == next.entry) {
            let calls = calls.iter().map(|call| ToolCall::new(call.id.clone(), "", "")).collect();
            self.pairing.add(&Message::assistant_with_tools(calls));
        }
        self.numbers =
            pending.iter().enumerate().map(|(number, call)| ((call.entry, call.block), number)).collect();
        self.pending = pending.into_iter().enumerate().collect();
    }

    /// Whether too little was kept to determine the state.
    pub fn is_lost(&self) -> bool {
        self.lost
    }

    /// The number of messages on the path.
    pub fn messages(&self) -> u64 {
        self.messages
    }

    /// The last speaker; `None` if there are only instructions so far.
    pub fn last_word(&self) -> Option<LastWord> {
        self.last_word
    }

    /// Whether the turn was stopped, with no message or decision since.
    pub fn is_interrupted(&self) -> bool {
        self.interrupted
    }

    /// The calls without a result that no decision has closed, in order.
    pub fn pending_calls(&self) -> impl Iterator<Item = &PendingCall> {
        self.pending.values()
    }

    /// Whether the call is in the newest message that is not a tool's, so that only tools have answered since.
    pub fn waits_for(&self, call: &PendingCall) -> bool {
        Some(call.entry) == self.asking
    }

    /// Saves the state as a text for [`PathState::from_text`]. It is only a cache: another version may use a different form.
    pub fn to_text(&self) -> String {
        if self.lost {
            return String::new();
        }
        let id = |id: Option<EntryId>| quoted(&id.map(|id| id.to_string()).unwrap_or_default());
        let last_word = LastWord::NAMES.iter().find(|(word, _)| Some(*word) == self.last_word);
        let pending: Vec<&PendingCall> = self.pending.values().collect();
        let groups = pending.chunk_by(|call, next| call.entry == next.entry).map(|calls| {
            let fields = calls.iter().flat_map(|call| {
                [call.block.to_string(), call.awaits_approval.to_string(), quoted(call.id.as_str())]
            });
            list([id(Some(calls[0].entry))].into_iter().chain(fields))
        });
        let mut strays: Vec<&str> = self.strays.iter().map(CallId::as_str).collect();
        strays.sort_unstable();
        list([
            id(self.head),
            self.messages.to_string(),
            id(self.asking),
            quoted(last_word.map_or("", |(_, name)| name)),
            self.interrupted.to_string(),
            list(groups),
            list(strays.into_iter().map(quoted)),
        ])
    }

    /// Reads the state that [`PathState::to_text`] wrote; if the text cannot be read, the state is lost.
    pub fn from_text(text: &str) -> Self {
        let read = || {
            let doc = Doc::parse(text).ok()?;
            let fields: Vec<Value<'_>> = doc.root()?.items().collect();
            let &[head, messages, asking, last_word, interrupted, open, strays] = fields.as_slice() else {
                return None;
            };
            let id = |value: Value<'_>| value.as_str()?.parse::<EntryId>().ok();
            let call_id = |value: Value<'_>| Some(CallId::from(value.as_str()?.as_ref()));
            let mut pending = Vec::new();
            for group in open.items() {
                let mut fields = group.items();
                let entry = id(fields.next()?)?;
                while let Some(block) = fields.next() {
                    let (block, awaits_approval) = (block.as_u64()?, fields.next()?.as_bool()?);
                    pending.push(PendingCall { entry, block, id: call_id(fields.next()?)?, awaits_approval });
                }
            }
            let mut state = Self {
                head: id(head),
                messages: messages.as_u64()?,
                asking: id(asking),
                last_word: LastWord::NAMES
                    .iter()
                    .find(|(_, name)| last_word.is_str(name))
                    .map(|(word, _)| *word),
                interrupted: interrupted.as_bool()?,
                strays: strays.items().map(call_id).collect::<Option<_>>()?,
                ..Self::default()
            };
            state.restore(pending);
            Some(state)
        };
        read().unwrap_or_else(|| Self { lost: true, ..Self::default() })
    }
}
