//! The repair pass: any history in, a [`SoundView`] and findings out.
//!
//! It is total, linear, and not recursive, and it copies no text: a view shares the messages it was made from. `pairing.rs`
//! decides which result answers which call, and `emit.rs` how each message is shown. A running conversation keeps its
//! [`Repairer`]: sent messages are sealed, and a new turn costs only its new messages.

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

/// The setting `on_broken`: how broken states, such as a call without a result, are repaired.
///
/// The repair pass itself treats every value except [`OnBroken::Drop`] alike. The caller refuses or runs calls again, and then
/// repairs the rest as with [`OnBroken::Keep`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum OnBroken {
    /// Repair, and keep every text and every result.
    #[default]
    Keep,
    /// Repair, and leave out incomplete calls.
    Drop,
    /// Run calls without a result again, then repair. Only an agent that resumes a conversation can do this.
    Rerun,
    /// Refuse a history that is not sound without repair.
    Refuse,
}

impl OnBroken {
    /// Every value with its name, in the order of the documentation.
    pub const ALL: &[(&'static str, Self)] =
        &[("keep", Self::Keep), ("drop", Self::Drop), ("rerun", Self::Rerun), ("refuse", Self::Refuse)];

    /// The value with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }

    /// Whether a view leaves out incomplete calls.
    pub fn drops(self) -> bool {
        self == Self::Drop
    }
}

/// The result of the repair pass.
#[derive(Debug, Clone)]
pub struct Repaired {
    /// The view that a model may see.
    pub view: SoundView,
    /// The findings, in source order.
    pub findings: Vec<Finding>,
}

/// The history is not sound, and repairing it is not allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnsoundHistory {
    /// All findings. At least one is a warning or an error.
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

/// Repairs a history up to its last request, and then the stretch after it.
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

/// Makes a sound view, or refuses a history that is not sound without repair.
///
/// # Errors
/// With [`OnBroken::Refuse`], the findings, if any of them is a warning or an error.
pub fn repair_or_refuse(history: &History, on_broken: OnBroken) -> Result<Repaired, UnsoundHistory> {
    let repaired = repair(history, on_broken);
    if on_broken == OnBroken::Refuse && repaired.findings.iter().any(Finding::is_problem) {
        return Err(UnsoundHistory { findings: repaired.findings });
    }
    Ok(repaired)
}

/// How many messages are prefetched at a time.
const AHEAD: usize = 32;

/// Reads the memory that the pairing will need next. In a large history every message is somewhere else in memory; touching many of
/// them at once lets the waits overlap. At 100,000 messages that saves a fifth or more, and below that it costs nothing.
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

/// The items of a stretch of messages, and the state that carries over to the next one.
#[derive(Debug)]
struct Emission {
    /// `None` if no message of the stretch is shown.
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
    /// The state that carries over to the next stretch of messages.
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
    /// The emission of the messages after the last seal, once it was computed. Sealing reuses it.
    open: OnceLock<Emission>,
}

impl Repairer {
    /// A conversation without messages.
    pub fn new(policy: OnBroken) -> Self {
        Self { policy, ..Self::default() }
    }

    /// Reserves room for messages that will be added.
    pub fn reserve(&mut self, messages: usize) {
        self.pending.reserve(messages);
        self.pairing.reserve(messages);
    }

    /// Adds a message, with the known fates of its calls, by block.
    pub fn push(&mut self, message: Arc<Message>, fates: &[(usize, Fate)]) {
        let index = self.base + self.pending.len();
        let mut fates: Vec<KnownCall> =
            fates.iter().map(|&(block, fate)| KnownCall { message: index, block, fate }).collect();
        fates.sort_by_key(|fate| fate.block);
        self.pairing.add_known(index, &message, &fates);
        self.pending.push(message);
        self.open.take();
    }

    /// Marks that a request is sent here: the view of everything before it is final. Calls that are still open are closed as the
    /// policy requires.
    pub fn seal(&mut self) {
        self.earlier = self.findings.len();
        // If no call needs closing, sealing changes nothing that is shown.
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

    /// Logs the repairs of a session that was read back, as [`repair`](repair()) does for a history with a session name.
    pub fn log_recovery(&self, session: &str) {
        // Skip the work of collecting all findings if they are not logged.
        if tracing::enabled!(tracing::Level::INFO) {
            log::recovery(session, self.policy, &self.all_findings(), &self.view().view);
        }
    }

    /// The calls since the last seal about which a decision must be recorded before a request leaves, each with the fate that this
    /// request would give it: [`Fate::ClosedInterrupted`] or [`Fate::ClosedLeftOut`] for a call without a result,
    /// [`Fate::ClosedWithBatch`] for one that has a result and is left out because another call of its message has none.
    pub fn undecided(&self) -> Vec<KnownCall> {
        self.pairing.decisions(self.policy)
    }

    /// The number of added messages.
    pub fn len(&self) -> usize {
        self.base + self.pending.len()
    }

    /// Whether no message was added.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The findings about all sealed messages.
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// The findings so far.
    pub fn all_findings(&self) -> Vec<Finding> {
        let new = if self.pending.is_empty() { Vec::new() } else { self.view().findings };
        self.findings.iter().cloned().chain(new).collect()
    }

    /// The current view, with the findings about the messages since the last seal, or about those that it sealed if none came after
    /// it. It costs only as much as these messages, not the whole conversation.
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
    /// Closes the open calls in a stretch of messages, and makes a final chunk of the stretch.
    fn seal_stretch(&mut self, messages: &Arc<Vec<Arc<Message>>>, stretch: Range<usize>, base: usize) {
        self.pairing.close_open(self.policy);
        let emitted = self.emit(messages, stretch.clone(), base);
        self.settle(emitted, &messages[stretch.start - base..stretch.end - base], stretch.start);
    }

    /// Makes a chunk of a stretch of messages, which are numbered as in the whole conversation; `base` is the number of the first
    /// one in the list.
    fn emit(&self, messages: &Arc<Vec<Arc<Message>>>, stretch: Range<usize>, base: usize) -> Emission {
        let list = &messages[stretch.start - base..stretch.end - base];
        let state = self.state.clone();
        let emitted = emit::Emitter::new(self.policy, &self.pairing, list, stretch.start, state).run();
        let emit::Emitter { items, findings, first_change, state, .. } = emitted;
        Emission {
            chunk: (!items.is_empty())
                .then(|| Arc::new(Chunk { messages: Arc::clone(messages), base: base as u32, items })),
            findings,
            // Count from the beginning of the view.
            first_change: first_change.map(|change| FirstChange { item: change.item + self.items, ..change }),
            state,
        }
    }

    /// Takes over the emission of these messages, and returns its chunk.
    fn take(&mut self, emitted: Emission, list: &[Arc<Message>], start: usize) -> Option<Arc<Chunk>> {
        self.state = emitted.state;
        self.first_change = self.first_change.or(emitted.first_change);
        log::orphans(&emitted.findings, list, start);
        self.findings.extend(emitted.findings);
        self.items += emitted.chunk.as_ref().map_or(0, |chunk| chunk.items.len());
        emitted.chunk
    }

    /// Takes over the emission of these messages as final.
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
