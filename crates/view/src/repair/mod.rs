//! The repair pass: any history in, a [`SoundView`] and findings out.
//!
//! Total, linear, without recursion, and it copies no text: a view shares the messages it was made from. `pairing.rs`
//! decides who answers whom, `emit.rs` what each state becomes. A running conversation keeps its [`Repairer`]: what was
//! sent is sealed, and a new turn costs its new messages.

mod emit;
mod log;

use std::{
    ops::Range,
    sync::{Arc, OnceLock},
};

use rejoin_record::{BlockKind, Message};

pub use self::log::{recovery_lines, removals};
use crate::{
    finding::Finding,
    history::{Fate, History, KnownCall, Step},
    list::List,
    pairing::Pairing,
    sound::{Chunk, FirstChange, SoundView},
};

/// The setting `on_broken`: what becomes of broken states, such as a call without a result.
///
/// The repair pass itself treats every value but [`OnBroken::Drop`] alike. Refusing and running again are up to the caller,
/// which then repairs the rest like [`OnBroken::Keep`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum OnBroken {
    /// Repair, forgetting nothing that was said or that ran.
    #[default]
    Keep,
    /// Repair, leaving out what is incomplete.
    Drop,
    /// Run calls without a result again, then repair. Only an agent that resumes a conversation can.
    Rerun,
    /// Send only a history that is sound as it is.
    Refuse,
}

impl OnBroken {
    /// Every value with its name, in the order of the documentation.
    pub const ALL: &[(&'static str, Self)] =
        &[("keep", Self::Keep), ("drop", Self::Drop), ("rerun", Self::Rerun), ("refuse", Self::Refuse)];

    /// The value of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }

    /// Whether a view leaves out what is incomplete.
    pub fn drops(self) -> bool {
        self == Self::Drop
    }
}

/// The result of the repair pass.
#[derive(Debug, Clone)]
pub struct Repaired {
    /// The view that a model may see.
    pub view: SoundView,
    /// What was found on the way, in source order.
    pub findings: Vec<Finding>,
}

/// The history is not sound, and repairing it is not allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The reasons.
    pub findings: Vec<Finding>,
}

/// Makes a sound view of any history.
#[must_use]
pub fn repair(history: &History, policy: OnBroken) -> Repaired {
    let (Repairer { sealed, first_change, findings, .. }, open) = repair_all(history, policy);
    let repaired = Repaired { view: SoundView { sealed, open, first_change }, findings };
    log::counts(policy, &repaired.findings, &history.messages, 0, || repaired.view.clone());
    if let Some(session) = &history.session {
        log::recovery(session, policy, &repaired.findings, &repaired.view);
    }
    repaired
}

/// Repairs a history up to its last request, and the stretch after that.
fn repair_all(history: &History, policy: OnBroken) -> (Repairer, Option<Arc<Chunk>>) {
    let mut work = Repairer::new(policy);
    work.pairing.reserve(history.messages.len());
    let (mut start, end) = (0, history.messages.len());
    let mut open = true;
    for step in history.steps() {
        match step {
            Step::Request(index) => {
                work.seal_stretch(&history.messages, start..index, 0);
                (start, open) = (index, index < end);
            }
            Step::Message(index, message, fates) => {
                if index % AHEAD == 0 {
                    fetch(&history.messages[index..end.min(index + AHEAD)]);
                }
                work.pairing.add_known(index, message, fates);
            }
        }
    }
    let open = open.then(|| work.emit(&history.messages, start..end, 0));
    let open = open.and_then(|emitted| work.take(emitted, &history.messages[start..end], start));
    (work, open)
}

/// Makes a sound view, or refuses a history that is not sound as it is.
///
/// # Errors
/// With [`OnBroken::Refuse`], the findings, if one of them is a warning or an error.
pub fn repair_or_refuse(history: &History, on_broken: OnBroken) -> Result<Repaired, Refused> {
    let repaired = repair(history, on_broken);
    if on_broken == OnBroken::Refuse && repaired.findings.iter().any(Finding::is_problem) {
        return Err(Refused { findings: repaired.findings });
    }
    Ok(repaired)
}

/// How many messages are fetched at a time.
const AHEAD: usize = 32;

/// Touches what the pairing is about to look at. In a large history every message is somewhere else in memory; asking for
/// many of them at once lets their waits overlap. At 100,000 messages that saves a fifth or more, and costs nothing
/// below that.
fn fetch(messages: &[Arc<Message>]) {
    let blocks: usize = messages.iter().map(|message| message.blocks.len()).sum();
    let ids = messages.iter().filter_map(|message| match &message.blocks.last()?.kind {
        BlockKind::ToolCall(call) => Some(&call.id),
        BlockKind::ToolResult(result) => result.call_id.as_ref(),
        _ => None,
    });
    let first_bytes: usize = ids.map(|id| usize::from(id.as_str().bytes().next().unwrap_or_default())).sum();
    std::hint::black_box((blocks, first_bytes));
}

/// A stretch of messages as a view shows it, and what carries over to the next one.
#[derive(Debug)]
struct Emission {
    /// None if nothing of it is shown.
    chunk: Option<Arc<Chunk>>,
    findings: Vec<Finding>,
    first_change: Option<FirstChange>,
    state: emit::State,
}

/// Repairs a conversation as it grows.
#[derive(Debug, Default)]
pub struct Repairer {
    policy: OnBroken,
    pairing: Pairing,
    /// What carries over to the next stretch of messages.
    state: emit::State,
    sealed: List<Arc<Chunk>>,
    items: usize,
    findings: Vec<Finding>,
    first_change: Option<FirstChange>,
    /// Messages after the last seal, and the number of messages before them.
    pending: Vec<Arc<Message>>,
    base: usize,
    /// The number of findings from before the last seal.
    earlier: usize,
    /// The emission of the messages after the last seal, once it was computed. Sealing them uses it.
    open: OnceLock<Emission>,
}

impl Repairer {
    /// A conversation without messages.
    pub fn new(policy: OnBroken) -> Self {
        Self { policy, ..Self::default() }
    }

    /// Makes room for messages that are about to be added.
    pub fn reserve(&mut self, messages: usize) {
        self.pending.reserve(messages);
        self.pairing.reserve(messages);
    }

    /// Adds a message, with what is known about its calls, by block.
    pub fn push(&mut self, message: Arc<Message>, fates: &[(usize, Fate)]) {
        let index = self.base + self.pending.len();
        let mut fates: Vec<KnownCall> =
            fates.iter().map(|&(block, fate)| KnownCall { message: index, block, fate }).collect();
        fates.sort_by_key(|fate| fate.block);
        self.pairing.add_known(index, &message, &fates);
        self.pending.push(message);
        self.open.take();
    }

    /// Marks that a request is sent here: the view of everything before it is final. Calls that are still open are closed
    /// as the policy says.
    pub fn seal(&mut self) {
        self.earlier = self.findings.len();
        // If no call is left to be closed, sealing changes nothing about what is shown.
        let is_decided = self.undecided().is_empty();
        let emitted = self.open.take().filter(|_| is_decided);
        let messages = std::mem::take(&mut self.pending);
        let stretch = self.base..self.base + messages.len();
        let chunks = self.sealed.len();
        match emitted {
            Some(emitted) => self.settle(emitted, &messages, stretch.start),
            None => self.seal_stretch(&Arc::new(messages.clone()), stretch.clone(), self.base),
        }
        let sealed = || SoundView {
            sealed: List::default(),
            open: self.sealed.get(chunks).cloned(),
            first_change: None,
        };
        log::counts(self.policy, &self.findings[self.earlier..], &messages, self.base, sealed);
        self.base = stretch.end;
    }

    /// Logs what became of a session that was read back, as [`repair`](repair()) does for one that has a name.
    pub fn log_recovery(&self, session: &str) {
        // Going through all findings costs something.
        if tracing::enabled!(tracing::Level::INFO) {
            log::recovery(session, self.policy, &self.all_findings(), &self.view().view);
        }
    }

    /// The calls since the last seal that a decision has to be recorded about before a request leaves, each with what that
    /// request would make of it: [`Fate::ClosedInterrupted`] or [`Fate::ClosedLeftOut`] for a call without a result,
    /// [`Fate::ClosedWithBatch`] for one that has a result and is left out because another call of its message has none.
    pub fn undecided(&self) -> Vec<KnownCall> {
        self.pairing.decisions(self.policy)
    }

    /// How many messages were added.
    pub fn len(&self) -> usize {
        self.base + self.pending.len()
    }

    /// Whether none was.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What was found in everything that is sealed.
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// The findings so far.
    pub fn all_findings(&self) -> Vec<Finding> {
        let new = if self.pending.is_empty() { Vec::new() } else { self.view().findings };
        self.findings.iter().cloned().chain(new).collect()
    }

    /// The current view, with the findings in the messages since the last seal, or in those that it sealed if none came
    /// after it. Costs only as much as these messages, not the whole conversation.
    pub fn view(&self) -> Repaired {
        if self.pending.is_empty() {
            let view = SoundView { sealed: self.sealed.clone(), open: None, first_change: self.first_change };
            return Repaired { view, findings: self.findings[self.earlier..].to_vec() };
        }
        let emitted = self
            .open
            .get_or_init(|| self.emit(&Arc::new(self.pending.clone()), self.base..self.len(), self.base));
        let first_change = self.first_change.or(emitted.first_change);
        let view = SoundView { sealed: self.sealed.clone(), open: emitted.chunk.clone(), first_change };
        Repaired { view, findings: emitted.findings.clone() }
    }
}

impl Repairer {
    /// Closes the open calls in a stretch of messages, and makes it a chunk that never changes again.
    fn seal_stretch(&mut self, messages: &Arc<Vec<Arc<Message>>>, stretch: Range<usize>, base: usize) {
        self.pairing.close_open(self.policy);
        let emitted = self.emit(messages, stretch.clone(), base);
        self.settle(emitted, &messages[stretch.start - base..stretch.end - base], stretch.start);
    }

    /// Makes a chunk of a stretch of messages, numbered as in the whole conversation; `base` is the number of the first in
    /// the list.
    fn emit(&self, messages: &Arc<Vec<Arc<Message>>>, stretch: Range<usize>, base: usize) -> Emission {
        let list = &messages[stretch.start - base..stretch.end - base];
        let state = self.state.clone();
        let emitted = emit::Emitter::new(self.policy, &self.pairing, list, stretch.start, state).run();
        let emit::Emitter { items, findings, first_change, state, .. } = emitted;
        Emission {
            chunk: (!items.is_empty())
                .then(|| Arc::new(Chunk { messages: Arc::clone(messages), base: base as u32, items })),
            findings,
            // Counted from the beginning of the view.
            first_change: first_change.map(|change| FirstChange { item: change.item + self.items, ..change }),
            state,
        }
    }

    /// Adds what was emitted of these messages, except for the chunk, which is returned.
    fn take(&mut self, emitted: Emission, list: &[Arc<Message>], start: usize) -> Option<Arc<Chunk>> {
        self.state = emitted.state;
        self.first_change = self.first_change.or(emitted.first_change);
        log::orphans(&emitted.findings, list, start);
        self.findings.extend(emitted.findings);
        self.items += emitted.chunk.as_ref().map_or(0, |chunk| chunk.items.len());
        emitted.chunk
    }

    /// Makes what was emitted of these messages a part that nothing changes any more.
    fn settle(&mut self, emitted: Emission, list: &[Arc<Message>], start: usize) {
        let chunk = self.take(emitted, list, start);
        self.sealed.extend(chunk);
        self.state.settle();
        self.pairing.next_epoch();
    }
}

#[cfg(test)]
mod linear_tests;
#[cfg(test)]
mod tests;
