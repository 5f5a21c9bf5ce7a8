//! Decides which result answers which call; no other code does.
//!
//! A result answers the first open call with its id in the newest preceding assistant message that has one, at any distance. If all
//! such calls are answered, it is a second result of the newest one. If only a later call has the id, it came before its call.
//! Otherwise it is an orphan. A closed call is invisible to results. Nothing pairs across a place where a request was sent, because
//! the model has already seen everything before it.
//!
//! [`repair`](mod@crate::repair) turns the pairs into a view, [`PathState`](crate::PathState) follows them entry by entry for
//! lists, and the audit and the readers use them, too.
//!
//! The open calls of one id form a stack of groups (one group per message); each call and result is visited a constant number of
//! times.

use std::sync::Arc;

use hashbrown::HashMap;
use rejoin_record::{ArgumentsClass, Block, BlockKind, CallId, Message, Role};

use crate::{
    history::{Fate, History, KnownCall, Step},
    repair::OnBroken,
    sound::{LONGEST_ARGUMENTS, SoundRole},
};

pub(crate) const NONE: u32 = u32::MAX;

/// A summary of a message, from which a sound one can be emitted without reading it again.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MessageSlot {
    pub calls: u32,
    pub results: u32,
    pub blocks: u32,
    /// The block of the first call, if all calls are together at the end.
    pub calls_from: u32,
    /// The speaker's role in a view; `None` for a role that no provider knows.
    pub role: Option<SoundRole>,
    /// Whether it is a tool's message.
    pub of_tool: bool,
    /// Whether every call has a unique id and an object as arguments.
    pub calls_are_clean: bool,
}

/// A call, and the results that belong to it.
#[derive(Debug, Clone)]
pub(crate) struct CallSlot {
    pub message: u32,
    pub block: u32,
    pub fate: Fate,
    /// The first of its results, in a list linked by [`ResultSlot::next`], and the last.
    pub first: u32,
    last: u32,
    /// Whether a result after it answers it.
    pub answered: bool,
    /// Whether an earlier call has the same id.
    pub reused: bool,
    /// The next call of the same id in the same message.
    next_in_group: u32,
    /// The open call below this group on the stack.
    below: u32,
    /// The previous call with this id.
    previous: u32,
    pub malformed: bool,
    epoch: u32,
}

/// How a result belongs to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MatchKind {
    /// It answers an open call.
    Answer,
    /// Its call was already answered.
    Duplicate,
    /// It comes before its call.
    Early,
    /// No call has its id.
    Orphan,
    /// It has no id.
    NoId,
}

/// A result, and the call that it belongs to.
#[derive(Debug, Clone)]
pub(crate) struct ResultSlot {
    pub message: u32,
    pub block: u32,
    pub call: u32,
    pub kind: MatchKind,
    pub next: u32,
    /// Whether only results are between it and its call.
    pub direct: bool,
    /// Whether it comes before a result of an earlier call of the same batch.
    pub out_of_order: bool,
    epoch: u32,
}

#[derive(Debug)]
pub(crate) struct IdState {
    /// The first call with the id, in order of calls.
    pub first_call: u32,
    /// The newest call that is not closed.
    newest: u32,
    /// The next call to be answered.
    open: u32,
    /// Results whose call has not come yet, in a list linked by [`ResultSlot::next`].
    waiting: u32,
    waiting_last: u32,
}

impl IdState {
    /// The state of an id that no call has used yet, with its first result.
    fn waiting(result: u32) -> Self {
        Self { first_call: NONE, newest: NONE, open: NONE, waiting: result, waiting_last: result }
    }
}

/// The position of a call or a result: the message and the block in it, both counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlockAt {
    /// The message.
    pub message: usize,
    /// The block.
    pub block: usize,
}

/// A result, and how it was paired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PairedResult {
    /// The result.
    pub at: BlockAt,
    /// How it belongs to its call.
    pub kind: MatchKind,
    /// The call that it belongs to; `None` for an orphan or a result without an id.
    pub call: Option<BlockAt>,
}

/// The calls and results of a list of messages, paired as the messages are added.
///
/// ```
/// use rejoin_record::{Message, ToolCall};
/// use rejoin_view::{MatchKind, Pairing};
///
/// let mut pairing = Pairing::default();
/// let calls = vec![ToolCall::new("a", "read", "{}"), ToolCall::new("b", "read", "{}")];
/// pairing.add(&Message::assistant_with_tools(calls));
/// pairing.add(&Message::tool("b", "the second"));
/// pairing.add(&Message::tool("z", "unasked"));
/// assert_eq!(pairing.open_calls().map(|call| call.block).collect::<Vec<_>>(), [0]);
/// assert_eq!(pairing.paired().map(|result| result.kind).collect::<Vec<_>>(), [MatchKind::Answer, MatchKind::Orphan]);
/// ```
#[derive(Debug, Default)]
pub struct Pairing {
    pub(crate) ids: HashMap<CallId, IdState>,
    pub(crate) messages: Vec<MessageSlot>,
    pub(crate) calls: Vec<CallSlot>,
    pub(crate) results: Vec<ResultSlot>,
    epoch: u32,
    /// The first call after the last request.
    epoch_start: usize,
    /// The message whose results may follow now, if only results came after it.
    batch: Option<u32>,
    /// The last call of that batch that was answered so far.
    batch_reached: u32,
    /// Counts the steps of loops that are not bounded by one message, for the test that they stay linear.
    #[cfg(test)]
    pub(crate) steps: usize,
}

impl Pairing {
    /// Pairs a whole history.
    pub fn of(history: &History) -> Self {
        let mut pairing = Self::default();
        for step in history.steps() {
            match step {
                Step::Message(index, message, fates) => pairing.add_known(index, message, fates),
                Step::Request(_) => pairing.seal(),
            }
        }
        pairing
    }

    /// Pairs messages. Nothing is known about the fates of their calls.
    pub(crate) fn of_messages(messages: &[Arc<Message>]) -> Self {
        let mut pairing = Self::default();
        pairing.reserve(messages.len());
        messages.iter().for_each(|message| pairing.add(message));
        pairing
    }

    /// Adds a message. Nothing is known about the fates of its calls.
    pub fn add(&mut self, message: &Message) {
        self.add_known(self.messages.len(), message, &[]);
    }

    /// Marks that a request is sent here. Calls that are open now stay unanswered.
    pub fn seal(&mut self) {
        self.close_open(OnBroken::Keep);
        self.next_epoch();
    }

    /// The calls without a result that no decision has closed, in order.
    pub fn open_calls(&self) -> impl Iterator<Item = BlockAt> {
        let calls = self.calls[self.epoch_start..].iter();
        calls.filter(|call| call.is_undecided(OnBroken::Keep)).map(CallSlot::at)
    }

    /// The results, in order, each with the call that it belongs to.
    pub fn paired(&self) -> impl Iterator<Item = PairedResult> {
        self.results.iter().map(|result| PairedResult {
            at: result.at(),
            kind: result.kind,
            call: self.calls.get(result.call as usize).map(CallSlot::at),
        })
    }

    /// The call that a result belongs to; `None` for an orphan or a result without an id.
    pub fn call_of(&self, result: BlockAt) -> Option<BlockAt> {
        let place = self.results.binary_search_by_key(&result, ResultSlot::at).ok()?;
        self.calls.get(self.results[place].call as usize).map(CallSlot::at)
    }

    /// Whether a result answers a call.
    pub(crate) fn is_answered(&self, call: BlockAt) -> bool {
        self.place_of(call).is_some_and(|place| self.calls[place].answered)
    }

    /// Sets what became of a call that was added.
    pub(crate) fn set_fate(&mut self, call: BlockAt, fate: Fate) {
        if let Some(place) = self.place_of(call) {
            self.calls[place].fate = fate;
        }
    }

    fn place_of(&self, call: BlockAt) -> Option<usize> {
        self.calls.binary_search_by_key(&call, CallSlot::at).ok()
    }

    /// The results since the last request that answer no call: orphans, second results and early ones.
    pub(crate) fn strays(&self) -> impl Iterator<Item = BlockAt> {
        let strays = self.results.iter().filter(|result| result.epoch == self.epoch);
        let strays = strays.filter(|result| !matches!(result.kind, MatchKind::Answer | MatchKind::NoId));
        strays.map(ResultSlot::at)
    }

    pub(crate) fn close(&mut self, call: usize) {
        self.calls[call].fate = Fate::ClosedInterrupted;
    }

    pub(crate) fn reserve(&mut self, messages: usize) {
        self.messages.reserve(messages);
        self.calls.reserve(messages / 2);
        self.results.reserve(messages / 2);
        self.ids.reserve(messages / 2);
    }

    /// Adds the message with this number, with the known fates of its calls.
    pub(crate) fn add_known(&mut self, number: usize, message: &Message, fates: &[KnownCall]) {
        let index = number as u32;
        let mut slot = MessageSlot {
            calls: 0,
            results: 0,
            blocks: message.blocks.len() as u32,
            calls_from: NONE,
            role: SoundRole::of(&message.role),
            of_tool: message.role == Role::Tool,
            calls_are_clean: true,
        };
        let mut only_results = !message.blocks.is_empty();
        for (place, content) in message.blocks.iter().enumerate() {
            let block = place as u32;
            match &content.kind {
                BlockKind::ToolCall(call) => {
                    let known =
                        fates.binary_search_by_key(&(number, place), |call| (call.message, call.block));
                    let fate = known.map_or(Fate::Unknown, |known| fates[known].fate);
                    let class = call.arguments.class();
                    let at = BlockAt { message: number, block: place };
                    let reused = self.add_call(at, &call.id, fate, call.arguments.are_no_object());
                    let is_too_long = call.arguments.text().as_str().len() > LONGEST_ARGUMENTS;
                    slot.calls_are_clean &=
                        call.id_given && class == ArgumentsClass::Object && !is_too_long && !reused;
                    if slot.calls == 0 {
                        slot.calls_from = block;
                    }
                    slot.calls += 1;
                }
                BlockKind::ToolResult(result) => {
                    if !only_results {
                        self.batch = None;
                    }
                    self.add_result(index, block, result.call_id.as_ref());
                    slot.results += 1;
                    continue;
                }
                _ => {}
            }
            only_results = false;
        }
        if slot.calls > 0 {
            self.batch = Some(index);
            self.batch_reached = 0;
            if slot.calls_from + slot.calls != slot.blocks {
                slot.calls_from = NONE;
            }
        } else if !only_results {
            self.batch = None;
        }
        self.messages.push(slot);
    }

    /// Removes calls that were sent or closed meanwhile from the stacks of an id. Returns the number of steps.
    fn settle(state: &mut IdState, calls: &[CallSlot], epoch: u32) -> usize {
        let mut steps = 0;
        while state.open != NONE {
            let call = &calls[state.open as usize];
            if call.epoch == epoch && call.fate.has_results() {
                break;
            }
            state.open = if call.next_in_group == NONE { call.below } else { call.next_in_group };
            steps += 1;
        }
        while state.newest != NONE && !calls[state.newest as usize].fate.has_results() {
            state.newest = calls[state.newest as usize].previous;
            steps += 1;
        }
        steps
    }

    fn count(&mut self, steps: usize) {
        #[cfg(test)]
        {
            self.steps += steps;
        }
        let _ = steps;
    }

    /// Adds a call. Returns whether its id was used before.
    fn add_call(&mut self, at: BlockAt, id: &CallId, fate: Fate, malformed: bool) -> bool {
        let this = self.calls.len() as u32;
        let message = at.message as u32;
        let mut slot = CallSlot {
            message,
            block: at.block as u32,
            fate,
            first: NONE,
            last: NONE,
            answered: false,
            reused: false,
            next_in_group: NONE,
            below: NONE,
            previous: NONE,
            malformed,
            epoch: self.epoch,
        };
        let state = self.ids.entry(id.clone()).or_insert(IdState::waiting(NONE));
        let mut steps = Self::settle(state, &self.calls, self.epoch);
        slot.reused = state.first_call != NONE;
        state.first_call = state.first_call.min(this);
        let reused = slot.reused;
        if !fate.has_results() {
            self.calls.push(slot);
            self.count(steps);
            return reused;
        }
        // Earlier results with this id that came after the last request.
        while state.waiting != NONE {
            steps += 1;
            let early = state.waiting;
            let result = &mut self.results[early as usize];
            state.waiting = std::mem::replace(&mut result.next, NONE);
            if result.epoch == self.epoch {
                result.kind = MatchKind::Early;
                result.call = this;
                append(&mut slot, early, &mut self.results);
            }
        }
        let same_group = state.open != NONE && self.calls[state.open as usize].message == message;
        if same_group {
            slot.below = self.calls[state.open as usize].below;
            // The newest call of this id is the last of the group, because the group is still open.
            self.calls[state.newest as usize].next_in_group = this;
        } else {
            slot.below = state.open;
            state.open = this;
        }
        slot.previous = state.newest;
        state.newest = this;
        self.calls.push(slot);
        self.count(steps);
        reused
    }

    fn add_result(&mut self, message: u32, block: u32, id: Option<&CallId>) {
        let this = self.results.len() as u32;
        let mut slot = ResultSlot {
            message,
            block,
            call: NONE,
            kind: MatchKind::Orphan,
            next: NONE,
            direct: false,
            out_of_order: false,
            epoch: self.epoch,
        };
        let mut state = id.and_then(|id| self.ids.get_mut(id));
        let steps = state.as_deref_mut().map_or(0, |state| Self::settle(state, &self.calls, self.epoch));
        match (id, state) {
            (None, _) => slot.kind = MatchKind::NoId,
            (Some(_), Some(state)) if state.open != NONE => {
                slot.kind = MatchKind::Answer;
                slot.call = state.open;
                let call = &mut self.calls[state.open as usize];
                call.answered = true;
                state.open = if call.next_in_group == NONE { call.below } else { call.next_in_group };
            }
            (Some(_), Some(state))
                if state.newest != NONE && self.calls[state.newest as usize].epoch == self.epoch =>
            {
                slot.kind = MatchKind::Duplicate;
                slot.call = state.newest;
            }
            (Some(_), Some(state)) if state.newest == NONE => {
                link(&mut state.waiting, &mut state.waiting_last, this, &mut self.results);
            }
            (Some(_), Some(_)) => {}
            (Some(id), None) => {
                self.ids.insert(id.clone(), IdState::waiting(this));
            }
        }
        if slot.call != NONE {
            slot.direct = self.batch == Some(self.calls[slot.call as usize].message);
            slot.out_of_order = slot.direct && slot.call < self.batch_reached;
            if slot.direct {
                self.batch_reached = self.batch_reached.max(slot.call);
            }
        }
        self.count(steps);
        self.results.push(slot);
        let call = self.results[this as usize].call;
        if call != NONE {
            append(&mut self.calls[call as usize], this, &mut self.results);
        }
    }

    /// Closes the open calls as the policy decides.
    pub(crate) fn close_open(&mut self, policy: OnBroken) {
        for call in &mut self.calls[self.epoch_start..] {
            if call.is_undecided(policy) {
                call.fate = decide(policy, call.fate, call.malformed);
            }
        }
    }

    /// The decisions that a request sent now would make about the calls since the last request, in order. Calls that need no
    /// decision are left out.
    pub(crate) fn decisions(&self, policy: OnBroken) -> Vec<KnownCall> {
        let mut decisions = Vec::new();
        for batch in self.calls[self.epoch_start..].chunk_by(|call, next| call.message == next.message) {
            // If one call of a batch is left out, the whole batch is.
            let dropped = policy.drops() && batch.iter().any(|call| call.is_undecided(policy));
            decisions.extend(batch.iter().filter_map(|call| {
                let fate = if call.is_undecided(policy) {
                    decide(policy, call.fate, call.malformed)
                } else {
                    (dropped && !call.fate.is_closed()).then_some(Fate::ClosedWithBatch)?
                };
                let BlockAt { message, block } = call.at();
                Some(KnownCall { message, block, fate })
            }));
        }
        decisions
    }

    /// Makes everything so far final: later messages cannot change it.
    pub(crate) fn next_epoch(&mut self) {
        self.epoch += 1;
        self.epoch_start = self.calls.len();
        self.batch = None;
    }
}

/// The most messages that [`call_directly_before`] looks at, so that a large batch of calls takes linear time.
const LOOK_BACK: usize = 8;

/// The call that [`Pairing::call_of`] would find for a result, if the messages just before it are enough to tell: those after the
/// call hold only results of other calls. `None` if all messages must be paired.
pub(crate) fn call_directly_before(messages: &[Arc<Message>], result: BlockAt) -> Option<BlockAt> {
    let (own, _) = messages[result.message].blocks.split_at_checked(result.block)?;
    let id = messages[result.message].blocks.get(result.block)?.as_result()?.call_id.as_ref()?;
    let is_other = |block: &Block| block.as_result().is_some_and(|other| other.call_id.as_ref() != Some(id));
    if !own.iter().all(is_other) {
        return None;
    }
    for place in (0..result.message).rev().take(LOOK_BACK) {
        let blocks = &messages[place].blocks;
        if !blocks.is_empty() && blocks.iter().all(is_other) {
            continue;
        }
        if blocks.iter().any(|block| block.as_result().is_some()) {
            return None;
        }
        let mut calls =
            blocks.iter().enumerate().filter(|(_, block)| block.as_call().is_some_and(|call| call.id == *id));
        let (block, _) = calls.next()?;
        return calls.next().is_none().then_some(BlockAt { message: place, block });
    }
    None
}

impl ResultSlot {
    fn at(&self) -> BlockAt {
        BlockAt { message: self.message as usize, block: self.block as usize }
    }
}

impl CallSlot {
    pub(crate) fn at(&self) -> BlockAt {
        BlockAt { message: self.message as usize, block: self.block as usize }
    }

    /// Whether a view would show it with a result.
    pub(crate) fn has_answer(&self, policy: OnBroken) -> bool {
        self.answered || (!policy.drops() && self.first != NONE)
    }

    /// Whether it is unanswered and no sent request has decided about it.
    pub(crate) fn is_undecided(&self, policy: OnBroken) -> bool {
        !self.has_answer(policy) && !self.fate.is_closed()
    }
}

/// The fate that a request sent now gives an unanswered call.
pub(crate) fn decide(policy: OnBroken, fate: Fate, malformed: bool) -> Fate {
    match fate {
        _ if fate.is_closed() => fate,
        Fate::Unknown | Fate::Started if !policy.drops() && !malformed => Fate::ClosedInterrupted,
        _ => Fate::ClosedLeftOut,
    }
}

fn append(call: &mut CallSlot, result: u32, results: &mut [ResultSlot]) {
    link(&mut call.first, &mut call.last, result, results);
}

/// Appends a result to a list linked by [`ResultSlot::next`].
fn link(first: &mut u32, last: &mut u32, result: u32, results: &mut [ResultSlot]) {
    if *first == NONE {
        *first = result;
    } else {
        results[*last as usize].next = result;
    }
    *last = result;
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rejoin_record::{ToolCall, ToolResult};

    use super::*;

    fn message() -> impl Strategy<Value = Message> {
        let block = prop_oneof![
            Just(Block::text("text")),
            (0..3).prop_map(|id| Block::new(BlockKind::ToolCall(ToolCall::new(format!("c{id}"), "t", "{}")))),
            (0..3).prop_map(|id| Block::new(BlockKind::ToolResult(ToolResult::new(format!("c{id}"), "r")))),
        ];
        let role = prop_oneof![Just(Role::Assistant), Just(Role::Tool), Just(Role::User)];
        (role, prop::collection::vec(block, 0..4)).prop_map(|(role, blocks)| Message::new(role, blocks))
    }

    proptest! {
        #[test]
        fn a_call_directly_before_is_the_one_that_pairing_finds(
            messages in prop::collection::vec(message().prop_map(Arc::new), 1..12)
        ) {
            let pairing = Pairing::of_messages(&messages);
            for (place, message) in messages.iter().enumerate() {
                for block in 0..message.blocks.len() {
                    let at = BlockAt { message: place, block };
                    if let Some(found) = call_directly_before(&messages, at) {
                        prop_assert_eq!(pairing.call_of(at), Some(found));
                    }
                }
            }
        }
    }
}
