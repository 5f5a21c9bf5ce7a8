//! Turns paired messages into the items of a sound view, with a finding for every change.
//!
//! See [`Emitter::result`] for orphans, and [`Emitter::plan`] for unanswered calls.

use std::sync::Arc;

use rejoin_record::{ArgumentsClass, Block, BlockKind, CallId, Message, Role, Text, text::agreeing};

use super::OnBroken;
use crate::{
    finding::{Action, Finding, Position, Severity},
    history::Fate,
    layers::Layers,
    pairing::{CallSlot, MatchKind, MessageSlot, NONE, Pairing, decide},
    rules::Rule,
    sound::{
        Answer, ArgumentsUse, Exchange, FirstChange, Item, LONGEST_ARGUMENTS, Part, Parts, Place, SoundRole,
    },
};

/// The state that carries over from one stretch of messages to the next.
#[derive(Debug, Clone, Default)]
pub(super) struct State {
    /// The numbers of calls and results seen so far.
    next_call: usize,
    next_result: usize,
    /// The ids that the repair made up, with their number for each original id.
    derived: Layers<CallId, u32>,
    /// Steps taken, for the test that repairing is linear.
    #[cfg(test)]
    pub steps: usize,
}

impl State {
    /// Lets copies made from here on share this state.
    pub(super) fn settle(&mut self) {
        self.derived.settle();
    }
}

enum Outcome {
    Shown(Answer),
    LeftOut,
}

/// Turns a stretch of messages into items. [`Emitter::run`] fills the lists.
pub(super) struct Emitter<'h> {
    policy: OnBroken,
    pairing: &'h Pairing,
    messages: &'h [Arc<Message>],
    base: usize,
    pub state: State,
    /// The number of the first call of this stretch, and for each call from there on whether it is left out.
    first_call: usize,
    left_out: Vec<bool>,
    pub items: Vec<Item>,
    pub findings: Vec<Finding>,
    pub first_change: Option<FirstChange>,
}

/// A piece of a message under one role, while it is built.
struct Segment {
    role: SoundRole,
    parts: Vec<Part>,
    /// Whether the results of its calls have changed.
    results_changed: bool,
}

impl<'h> Emitter<'h> {
    pub(super) fn new(
        policy: OnBroken,
        pairing: &'h Pairing,
        messages: &'h [Arc<Message>],
        base: usize,
        state: State,
    ) -> Self {
        Self {
            policy,
            pairing,
            messages,
            base,
            first_call: state.next_call,
            state,
            left_out: Vec::new(),
            items: Vec::with_capacity(messages.len()),
            findings: Vec::new(),
            first_change: None,
        }
    }

    pub(super) fn run(mut self) -> Self {
        for offset in 0..self.messages.len() {
            self.message(self.base + offset);
        }
        self
    }

    fn source(&self, index: u32) -> &'h Arc<Message> {
        &self.messages[index as usize - self.base]
    }

    /// Counts steps. Every loop in this file that can run over more than one block reports its number of rounds.
    fn count(&mut self, steps: usize) {
        #[cfg(test)]
        {
            self.state.steps += steps;
        }
        let _ = steps;
    }

    fn message(&mut self, index: usize) {
        let slot = self.pairing.messages[index];
        self.count(1 + slot.blocks as usize);
        if self.as_it_is(index, slot) {
            return;
        }
        let message = self.source(index as u32);
        let first = self.state.next_call;
        let role = self.role(index, message);
        if slot.calls == 0 && slot.results == 0 {
            if slot.of_tool {
                self.change(0);
                self.find(Rule::MisplacedBlock, Position::message(index), Action::Replaced, |f| {
                    f.about("tool")
                });
            }
            self.items.push(Item { role, index: index as u32, parts: Parts::Whole, complete: false });
            return;
        }
        let outcomes = self.plan(index, first..first + slot.calls as usize);
        self.mixed(index, message, role, outcomes);
    }

    /// Handles the common case, in which the slot alone shows that the message is sent unchanged. Reading the message again would
    /// take longer than the rest of the repair.
    fn as_it_is(&mut self, index: usize, slot: MessageSlot) -> bool {
        let Some(role) = slot.role else { return false };
        let index = index as u32;
        if slot.calls == 0 && slot.results == 0 {
            if slot.of_tool {
                return false;
            }
            self.items.push(Item { role, index, parts: Parts::Whole, complete: true });
            return true;
        }
        if slot.calls == 0 {
            // The message has only results, each right after its call, so they are sent with their calls.
            let first = self.state.next_result;
            let results = &self.pairing.results[first..first + slot.results as usize];
            let in_place = results.iter().all(|result| {
                let call = (result.call as usize).checked_sub(self.first_call);
                result.kind == MatchKind::Answer
                    && result.direct
                    && !result.out_of_order
                    && call.is_some_and(|c| !self.left_out[c])
            });
            if slot.results == slot.blocks && role == SoundRole::User && in_place {
                self.state.next_result += results.len();
                return true;
            }
            return false;
        }
        let first = self.state.next_call;
        let calls = &self.pairing.calls[first..first + slot.calls as usize];
        let in_place = |call: &CallSlot| {
            let result = call.first;
            call.answered && result != NONE && call.fate != Fate::ClosedWithBatch && {
                let result = &self.pairing.results[result as usize];
                result.kind == MatchKind::Answer
                    && result.direct
                    && !result.out_of_order
                    && result.next == NONE
            }
        };
        let renamed = !self.state.derived.is_empty();
        let regular = role == SoundRole::Assistant
            && slot.results == 0
            && slot.calls_from != NONE
            && slot.calls_are_clean;
        if !regular || renamed || !calls.iter().all(in_place) {
            return false;
        }
        let mut parts = Vec::with_capacity(slot.blocks as usize);
        parts.extend((0..slot.calls_from).map(Part::Block));
        for (offset, call) in calls.iter().enumerate() {
            let result = &self.pairing.results[call.first as usize];
            parts.push(Part::Exchange(Exchange {
                block: slot.calls_from + offset as u32,
                arguments: ArgumentsUse::AsWritten,
                renamed: None,
                answer: Answer::InPlace(Place { message: result.message, block: result.block }),
            }));
        }
        self.left_out.resize(self.left_out.len() + calls.len(), false);
        self.state.next_call += calls.len();
        self.items.push(Item { role, index, parts: Parts::Some(parts), complete: true });
        true
    }

    fn role(&mut self, index: usize, message: &Message) -> SoundRole {
        if let Role::Other(name) = &message.role {
            self.change(0);
            let at = Position::message(index);
            self.find(Rule::UnknownRole, at, Action::Replaced, |f| f.about(name.clone()));
        }
        SoundRole::of(&message.role).unwrap_or(SoundRole::User)
    }

    /// Decides for each call of one message what becomes of it.
    fn plan(&mut self, index: usize, calls: std::ops::Range<usize>) -> Vec<Outcome> {
        let (pairing, policy) = (self.pairing, self.policy);
        let shown = |slot: &CallSlot| slot.has_answer(policy) && slot.fate != Fate::ClosedWithBatch;
        let open = |slot: &&CallSlot| !shown(slot) && slot.fate != Fate::ClosedInterrupted;
        let slots = &pairing.calls[calls.clone()];
        let unanswered = slots.iter().filter(open).count();
        let partial = slots.iter().any(|slot| !shown(slot) && !slot.fate.is_closed())
            && slots.iter().any(shown)
            && slots.len() > 1;
        if partial {
            let action = if !policy.drops() { Action::Kept } else { Action::LeftOut };
            let has = agreeing(unanswered as u64, "has", "have");
            let missing = format!("{unanswered} of {} calls {has} no result", slots.len());
            let calls = self.source(index as u32).tool_calls().zip(slots);
            let ids: Vec<&str> =
                calls.filter(|(_, slot)| open(slot)).map(|(call, _)| call.id.as_str()).collect();
            let ids = ids.join(", ");
            self.find(Rule::PartialBatch, Position::message(index), action, |f| {
                f.about(ids).because(missing)
            });
        }
        let all_out = policy.drops() && unanswered > 0;
        calls
            .map(|call| {
                let slot = &pairing.calls[call];
                let closed = decide(policy, slot.fate, slot.malformed);
                let gone = all_out || (!shown(slot) && closed != Fate::ClosedInterrupted);
                self.left_out.push(gone);
                if gone { Outcome::LeftOut } else { Outcome::Shown(self.answer(slot)) }
            })
            .collect()
    }

    /// The results of a call that is shown.
    fn answer(&mut self, call: &CallSlot) -> Answer {
        let mut gathered = Vec::new();
        let mut next = call.first;
        while next != NONE {
            self.count(1);
            let slot = &self.pairing.results[next as usize];
            let wanted = match slot.kind {
                MatchKind::Answer => true,
                _ => !self.policy.drops(),
            };
            if wanted {
                let result = Place { message: slot.message, block: slot.block };
                // The common case first: one result, right after its call.
                if slot.direct && !slot.out_of_order && call.first == next && slot.next == NONE {
                    return Answer::InPlace(result);
                }
                gathered.push(result);
            }
            next = slot.next;
        }
        if gathered.is_empty() { Answer::Missing } else { Answer::Gathered(gathered) }
    }

    /// A message with calls or results in it.
    fn mixed(&mut self, index: usize, message: &'h Arc<Message>, role: SoundRole, outcomes: Vec<Outcome>) {
        let before = self.items.len();
        let mut outcomes = outcomes.into_iter();
        let mut segment = Segment { role, parts: Vec::new(), results_changed: false };
        let mut complete = true;
        let mut something_left_out = false;
        for (place, block) in message.blocks.iter().enumerate() {
            match &block.kind {
                BlockKind::ToolCall(_) => {
                    let outcome = outcomes.next().unwrap_or(Outcome::LeftOut);
                    if role != SoundRole::Assistant {
                        complete = false;
                        self.misplaced(index, place, message, &segment);
                        self.flush(index, message, &mut segment, Flush::Part);
                        segment.role = SoundRole::Assistant;
                    }
                    match self.call(index, place, block, outcome, &mut segment) {
                        Some(unchanged) => complete &= unchanged,
                        None => {
                            complete = false;
                            something_left_out = true;
                        }
                    }
                    if role != SoundRole::Assistant {
                        self.flush(index, message, &mut segment, Flush::Part);
                        segment.role = role;
                    }
                }
                BlockKind::ToolResult(_) => {
                    complete = false;
                    if !matches!(message.role, Role::User | Role::Tool) {
                        self.misplaced(index, place, message, &segment);
                    }
                    if self.result(index, place, message, &segment) {
                        self.flush(index, message, &mut segment, Flush::Part);
                        segment.parts.push(Part::Orphan(place as u32));
                        let own = std::mem::replace(&mut segment.role, SoundRole::User);
                        self.flush(index, message, &mut segment, Flush::Part);
                        segment.role = own;
                    }
                }
                _ => {
                    if message.role == Role::Tool {
                        complete = false;
                        self.misplaced(index, place, message, &segment);
                    }
                    segment.parts.push(Part::Block(place as u32));
                }
            }
        }
        let flush = match (complete && self.items.len() == before, something_left_out) {
            (true, _) => Flush::Complete,
            (false, true) => Flush::UnlessBlank,
            (false, false) => Flush::Part,
        };
        self.flush(index, message, &mut segment, flush);
    }

    fn flush(&mut self, index: usize, message: &Arc<Message>, segment: &mut Segment, flush: Flush) {
        let parts = std::mem::take(&mut segment.parts);
        let results_changed = std::mem::take(&mut segment.results_changed);
        let blank = |part: &Part| match part {
            Part::Block(block) => message.blocks[*block as usize].as_text().is_some_and(Text::is_blank),
            _ => false,
        };
        if parts.is_empty() || (flush == Flush::UnlessBlank && parts.iter().all(blank)) {
            return;
        }
        self.items.push(Item {
            role: segment.role,
            index: index as u32,
            parts: Parts::Some(parts),
            complete: flush == Flush::Complete,
        });
        if results_changed {
            self.change(0);
        }
    }

    /// Adds a call to the segment. `None` if it was left out; otherwise whether it is sent as written.
    fn call(
        &mut self,
        index: usize,
        place: usize,
        block: &Block,
        outcome: Outcome,
        segment: &mut Segment,
    ) -> Option<bool> {
        let slot = &self.pairing.calls[self.state.next_call];
        self.state.next_call += 1;
        let call = block.as_call().expect("BUG: a call slot is made for a call block");
        let at = Position::block(index, place);
        let about = |finding: Finding| finding.about(call.id.text().clone()).of_tool(&call.name);
        let malformed = call.arguments.are_no_object();
        let answered = slot.has_answer(self.policy);

        let answer = match outcome {
            Outcome::LeftOut => {
                self.change(segment.parts.len());
                self.unanswered(slot, at, Action::LeftOut, about);
                if malformed && !answered {
                    self.find(Rule::MalformedArguments, at, Action::LeftOut, about);
                }
                if !call.id_given {
                    self.find(Rule::MissingCallId, at, Action::LeftOut, |f| f.of_tool(&call.name));
                }
                if slot.answered {
                    // A complete pair that is left out with its batch. If a request was already sent without it, nothing needs
                    // repair.
                    let decided = slot.fate == Fate::ClosedWithBatch;
                    let severity = if decided { Severity::Note } else { Rule::PartialBatch.severity() };
                    self.find(Rule::PartialBatch, at, Action::LeftOut, |f| Finding { severity, ..about(f) });
                }
                return None;
            }
            Outcome::Shown(answer) => answer,
        };
        if matches!(answer, Answer::Missing) {
            self.unanswered(slot, at, Action::Synthesized, about);
        }
        segment.results_changed |= !matches!(answer, Answer::InPlace(_));
        if !call.id_given {
            self.change(segment.parts.len());
            self.find(Rule::MissingCallId, at, Action::Renamed, |f| f.of_tool(&call.name));
        }
        let renamed = self.rename(&call.id, slot.reused);
        if let Some(new) = &renamed {
            self.change(segment.parts.len());
            let detail = format!("this one becomes {new}");
            self.find(Rule::ReusedCallId, at, Action::Renamed, |f| about(f).because(detail));
        }
        let arguments = match call.arguments.class() {
            ArgumentsClass::Object if call.arguments.text().as_str().len() > LONGEST_ARGUMENTS => {
                self.change(segment.parts.len());
                self.find(Rule::TooLarge, at, Action::Replaced, about);
                ArgumentsUse::Wrapped
            }
            ArgumentsClass::Object => ArgumentsUse::AsWritten,
            ArgumentsClass::Blank => ArgumentsUse::Empty,
            ArgumentsClass::OtherJson | ArgumentsClass::Malformed => {
                self.change(segment.parts.len());
                self.find(Rule::MalformedArguments, at, Action::Wrapped, about);
                ArgumentsUse::Wrapped
            }
        };
        let unchanged = renamed.is_none() && call.id_given && arguments == ArgumentsUse::AsWritten;
        let renamed = renamed.map(Box::new);
        segment.parts.push(Part::Exchange(Exchange { block: place as u32, arguments, renamed, answer }));
        Some(unchanged)
    }

    /// Reports an unanswered call.
    fn unanswered(
        &mut self,
        slot: &CallSlot,
        at: Position,
        action: Action,
        about: impl FnOnce(Finding) -> Finding,
    ) {
        if slot.has_answer(self.policy) {
            return;
        }
        match slot.fate {
            Fate::AwaitingApproval => self.find(Rule::AwaitingApproval, at, action, about),
            Fate::ClosedLeftOut | Fate::ClosedInterrupted | Fate::ClosedWithBatch => {
                self.find(Rule::UnansweredCall, at, action, |finding| {
                    // The decision was already sent, so nothing needs repair.
                    Finding { severity: Severity::Note, ..about(finding) }
                })
            }
            Fate::NotStarted => {
                self.find(Rule::UnansweredCall, at, action, |f| about(f).because("it never ran"));
            }
            Fate::Unknown | Fate::Started => self.find(Rule::UnansweredCall, at, action, about),
        }
    }

    /// A new id for a call, if an earlier call has the same id.
    fn rename(&mut self, id: &CallId, reused: bool) -> Option<CallId> {
        if !reused && !self.state.derived.contains(id) {
            return None;
        }
        let this = (self.state.next_call - 1) as u32;
        let mut count = *self.state.derived.get(id).unwrap_or(&1);
        loop {
            self.count(1);
            count += 1;
            let candidate = CallId::from(format!("{id}_{count}"));
            // Only earlier calls count, because later ones must not change what was already sent.
            let natural = self.pairing.ids.get(&candidate).is_some_and(|state| state.first_call < this);
            if !natural && !self.state.derived.contains(&candidate) {
                self.state.derived.insert(id.clone(), count);
                self.state.derived.insert(candidate.clone(), 1);
                return Some(candidate);
            }
        }
    }

    /// Reports a result. Returns true if it must be shown as labelled text.
    fn result(&mut self, index: usize, place: usize, message: &Message, segment: &Segment) -> bool {
        let slot = &self.pairing.results[self.state.next_result];
        self.state.next_result += 1;
        let result =
            message.blocks[place].as_result().expect("BUG: a result slot is made for a result block");
        let at = Position::block(index, place);
        let about = |mut finding: Finding| {
            finding.subject = result.call_id.as_ref().map(|id| id.text().clone());
            finding.tool.clone_from(&result.name);
            finding
        };
        let keep = !self.policy.drops();
        let call_left_out = slot.call != NONE
            && slot.kind != MatchKind::Early
            && (slot.call as usize).checked_sub(self.first_call).is_none_or(|call| self.left_out[call]);
        let unless_dropped =
            |stays: bool, action: Action| if keep && stays { action } else { Action::LeftOut };
        let with_batch = || self.pairing.calls[slot.call as usize].fate == Fate::ClosedWithBatch;
        let (rule, action) = match slot.kind {
            MatchKind::NoId => (Rule::MissingCallId, unless_dropped(true, Action::Labelled)),
            MatchKind::Orphan => (Rule::OrphanResult, unless_dropped(true, Action::Labelled)),
            MatchKind::Early => (Rule::ResultBeforeCall, unless_dropped(!with_batch(), Action::Moved)),
            MatchKind::Duplicate => (Rule::DuplicateResult, unless_dropped(!call_left_out, Action::Joined)),
            MatchKind::Answer if call_left_out => (Rule::PartialBatch, Action::LeftOut),
            MatchKind::Answer if !slot.direct => (Rule::DetachedResult, Action::Moved),
            MatchKind::Answer if slot.out_of_order => (Rule::ResultOrder, Action::Moved),
            MatchKind::Answer => return false,
        };
        let severity =
            if rule == Rule::PartialBatch && with_batch() { Severity::Note } else { rule.severity() };
        self.change(segment.parts.len());
        self.find(rule, at, action, |f| Finding { severity, ..about(f) });
        keep && matches!(slot.kind, MatchKind::Orphan | MatchKind::NoId)
    }

    fn misplaced(&mut self, index: usize, place: usize, message: &Message, segment: &Segment) {
        self.change(segment.parts.len());
        let role = Text::new(message.role.as_str());
        self.find(Rule::MisplacedBlock, Position::block(index, place), Action::Moved, |f| f.about(role));
    }

    /// Records that the view differs from the source from here on.
    fn change(&mut self, part: usize) {
        self.first_change.get_or_insert(FirstChange { item: self.items.len(), part });
    }

    fn find(&mut self, rule: Rule, at: Position, action: Action, fill: impl FnOnce(Finding) -> Finding) {
        self.findings.push(fill(Finding::new(rule, at, action)));
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Flush {
    /// The whole message, unchanged.
    Complete,
    /// The rest of the message, or a piece of it.
    Part,
    /// A message from which something was left out. If the rest is blank, it is dropped.
    UnlessBlank,
}
