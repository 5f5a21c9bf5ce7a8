//! Pruning without a model: replaces older turns by a short list of their messages.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    time::Duration,
};

use rejoin_record::{
    Content, EntryId, Message,
    content::{CallAt, Compacted, Meta, Prune, Uncompacted},
};
use rejoin_view::{
    BlockAt, Pairing, TokenCounter,
    path::Walk,
    window::{self, CompactPolicy, EarlierSummary, PrunePolicy, compact, prune},
};

use super::Conversation;

/// The limits at which [`Conversation::prune_if_needed`] prunes older turns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Window {
    /// The most tokens that the conversation may take.
    pub max_tokens: usize,
    /// The number of newest turns that are never pruned.
    pub min_retain_turns: usize,
    /// The fraction of `max_tokens`, from 0 to 1, at which pruning begins.
    pub prune_threshold: f64,
}

impl Default for Window {
    /// Limits that fit the window of most models, with room for an answer.
    fn default() -> Self {
        Self { max_tokens: 100_000, min_retain_turns: 2, prune_threshold: 0.8 }
    }
}

/// The outcome of pruning older turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TurnsPruned {
    /// The number of messages that a model no longer sees.
    pub removed: usize,
    /// The estimated tokens before pruning.
    pub before: u64,
    /// The estimated tokens after pruning.
    pub after: u64,
}

/// The results that stay and those that were pruned, for programs that prune by themselves.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PruneReport {
    /// The results that a model still sees in full.
    pub survivors: Vec<CallAt>,
    /// The results that became tombstones.
    pub pruned: Vec<CallAt>,
}

/// The heading of the list of earlier messages.
const HEADING: &str = "Summary of earlier conversation:\n\n";

/// The tokens that the list may always take, even without room for them: an empty list would hide that anything was said.
const SHORTEST_LIST: u64 = 64;

impl Conversation {
    /// The path to the head, with the last compaction and all prunes applied.
    pub(crate) fn walk(&self) -> Walk {
        Walk::along(&self.tree())
    }

    /// Prunes older turns if the conversation takes more tokens than `prune_threshold` of `max_tokens`. Instructions, pinned
    /// messages and the newest turns stay, and calls stay with their results. A list of the removed messages replaces the rest.
    /// `None` if nothing needs to be pruned, or nothing can be.
    pub fn prune_if_needed(&mut self, model: &str, limits: &Window) -> Option<TurnsPruned> {
        self.prune_turns(&TokenCounter::for_model(model), limits)
    }

    /// Does what [`Conversation::prune_if_needed`] does, with this counter.
    pub(crate) fn prune_turns(&mut self, counter: &TokenCounter, limits: &Window) -> Option<TurnsPruned> {
        self.need_results();
        let walk = self.walk();
        let before = window::tokens(&walk, counter);
        let threshold = (limits.max_tokens as f64 * limits.prune_threshold) as u64;
        if before <= threshold {
            return None;
        }
        tracing::info!("Pruning conversation: tokens={before}/{}, threshold={threshold}", limits.max_tokens);
        let policy = CompactPolicy { tail_tokens: 0, user_tokens: 0, turns: limits.min_retain_turns.max(1) };
        let plan = compact::plan(&walk, counter, &policy, walk.messages().len())?;
        log_pairs(&walk, plan.tail);
        let earlier = walk.summary().and_then(|place| walk.messages()[place].content()).unwrap_or_default();
        let kept: Vec<_> = plan.kept.iter().map(|kept| kept.entry).collect();
        let places = 0..plan.tail;
        let hidden: Vec<_> = places
            .filter(|place| walk.summary() != Some(*place) && !kept.contains(&walk.entries()[*place]))
            .map(|place| walk.messages()[place].clone())
            .collect();
        let room = threshold.saturating_sub(plan.tokens_kept).min(threshold / 4).max(SHORTEST_LIST);
        let earlier = continued(walk.compacted(), &earlier);
        let list = window::listing(earlier, &hidden, room, counter);
        let text = format!("{HEADING}{}", list.text);
        let after = plan.tokens_kept + counter.message(&Message::user(text.as_str()));
        if after >= before {
            tracing::info!("Pruning skipped: a list of the messages would be no shorter than they are");
            return None;
        }
        let mut compacted = plan.with(text);
        compacted.truncated_count = list.unlisted;
        compacted.list_at = Some((HEADING.len() + list.list_at) as u64);
        compacted.tokens_after = Some(after);
        self.append(&Content::Compacted(compacted));
        let removed = hidden.len();
        tracing::info!(
            "Pruning complete: removed {removed} messages, tokens now {after}/{}",
            limits.max_tokens
        );
        Some(TurnsPruned { removed, before, after })
    }

    /// Prunes results by a policy, at once unless it names a batch. Without a policy, nothing happens.
    pub fn prune_tool_calls(&mut self, model: &str, policy: Option<&PrunePolicy>) -> PruneReport {
        let Some(policy) = policy else { return PruneReport::default() };
        // The caller asks for it now, so there is no batch to wait for.
        let policy = &PrunePolicy { batch: Some(policy.batch.unwrap_or(1)), ..policy.clone() };
        self.need_results();
        let counter = TokenCounter::for_model(model);
        let pruned = prune::plan(&self.walk(), &counter, policy, self.ages(policy));
        if !pruned.results.is_empty() {
            self.append(&Content::Prune(Prune { results: pruned.results.clone(), shortened: None }));
        }
        PruneReport { survivors: pruned.survivors, pruned: pruned.results }
    }

    /// A function that returns the age of an entry, or `None` if the policy uses no ages.
    pub(crate) fn ages(&self, policy: &PrunePolicy) -> impl Fn(EntryId) -> Option<Duration> + use<> {
        let now = self.clock().now();
        let entries = self.entries().iter().filter(|_| policy.max_age.is_some());
        let times: HashMap<_, _> = entries.map(|entry| (entry.id(), entry.envelope().timestamp)).collect();
        move |entry| Duration::try_from(now.duration_since(*times.get(&entry)?)).ok()
    }
}

/// The summary that a list continues, without the heading that rejoin's own summaries have.
fn continued<'t>(compacted: Option<&Compacted>, text: &'t str) -> EarlierSummary<'t> {
    let Some(compacted) = compacted else { return EarlierSummary { text, ..EarlierSummary::default() } };
    let is_own = compacted.model.is_some() || compacted.list_at.is_some();
    let stripped = text.strip_prefix(HEADING).filter(|_| is_own).unwrap_or(text);
    let heading = text.len() - stripped.len();
    let list_at = compacted.list_at.and_then(|at| usize::try_from(at).ok()?.checked_sub(heading));
    EarlierSummary { text: stripped, list_at, unlisted: compacted.truncated_count }
}

/// Logs which calls and results stay, and which are pruned.
fn log_pairs(walk: &Walk, tail: usize) {
    if !tracing::enabled!(tracing::Level::DEBUG) {
        return;
    }
    let mut pairing = Pairing::default();
    walk.messages().iter().for_each(|message| pairing.add(message));
    let answered: HashSet<BlockAt> = pairing.paired().filter_map(|result| result.call).collect();
    for (place, message) in walk.messages().iter().enumerate() {
        for (block, call) in
            message.blocks.iter().enumerate().filter_map(|(at, block)| Some((at, block.as_call()?)))
        {
            if !answered.contains(&BlockAt { message: place, block }) {
                continue;
            }
            let (id, name) = (&call.id, &call.name);
            if place >= tail {
                tracing::debug!("Preserved tool call pair: call_id={id}, tool_name={name}");
            } else {
                tracing::debug!("Pruning tool call pair atomically: call_id={id}, tool_name={name}");
                tracing::debug!("Pruning assistant with tool_calls to match pruned tool result: {id}");
            }
        }
    }
}

/// The outcome of pinning or unpinning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pinning {
    /// The list of pinned messages changed.
    Changed,
    /// The message was pinned already, or not pinned.
    Unchanged,
}

impl Conversation {
    /// Undoes the last compaction: from now on, a model sees the messages again that it hid. Returns the compaction's entry; `None`
    /// if no compaction is in force.
    pub fn uncompact(&mut self) -> Option<EntryId> {
        self.need_all();
        let records = self.compaction_records();
        for compaction in &records {
            self.append(&Content::Uncompacted(Uncompacted { compaction: *compaction }));
        }
        records.first().copied()
    }

    /// The entries that record the compaction in force, the newest first. There are several if an earlier version pinned a message that
    /// it hid.
    pub fn compaction_records(&self) -> Vec<EntryId> {
        let tree = self.tree();
        let path = tree.path().0;
        let mut records = Vec::new();
        let mut later: Option<Compacted> = None;
        loop {
            let walk = Walk::begin_without(&tree, &path, &records);
            let Some((entry, compacted)) = walk.compaction().zip(walk.compacted()) else { return records };
            if later.as_ref().is_some_and(|later| !later.repeats(compacted)) {
                return records;
            }
            later = Some(compacted.clone());
            records.push(entry);
        }
    }

    /// Keeps the message of an entry in every view of a path that has it, in full, together with the calls and results that belong to
    /// it. It restores whatever a compaction or pruning hid or shortened of them.
    pub fn pin(&mut self, entry: EntryId) -> Pinning {
        self.need_all();
        let mut pinned = self.walk().pinned().to_vec();
        let before = pinned.len();
        let group = self.belonging_to(entry);
        pinned
            .extend(group.into_iter().filter(|entry| !pinned[..before].contains(entry)).collect::<Vec<_>>());
        if pinned.len() == before {
            return Pinning::Unchanged;
        }
        self.append(&Content::Meta(Meta { pinned: Some(pinned), ..Meta::default() }));
        Pinning::Changed
    }

    /// Unpins a message and the calls and results that belong to it, so that they can be pruned or summarised like any other.
    pub fn unpin(&mut self, entry: EntryId) -> Pinning {
        self.need_all();
        let group = self.belonging_to(entry);
        let mut pinned = self.walk().pinned().to_vec();
        let before = pinned.len();
        pinned.retain(|other| !group.contains(other));
        if pinned.len() == before {
            return Pinning::Unchanged;
        }
        self.append(&Content::Meta(Meta { pinned: Some(pinned), ..Meta::default() }));
        Pinning::Changed
    }

    /// Reads the entries that were skipped on opening. If that fails, the next command works with the entries already read.
    pub(crate) fn need_all(&mut self) {
        if let Err(why) = self.read_all() {
            tracing::warn!("the beginning of conversation {} could not be read: {why}", self.id());
        }
    }

    /// Reads results that were skipped on opening because the first turn would prune them.
    pub(crate) fn need_results(&mut self) {
        #[cfg(feature = "agent")]
        if self.leaves_results_unread() {
            self.need_all();
        }
    }

    /// The entry of a message, with the entries of all messages that hold results of its calls or the calls that it answers.
    fn belonging_to(&self, entry: EntryId) -> Vec<EntryId> {
        let path = self.tree().path().0;
        let messages: Vec<(EntryId, Message)> = path
            .iter()
            .filter_map(|entry| match Content::of(entry) {
                Content::Message(message) => Some((entry.id(), message)),
                _ => None,
            })
            .collect();
        let Some(own) = messages.iter().position(|(id, _)| *id == entry) else { return vec![entry] };
        let mut pairing = Pairing::default();
        messages.iter().for_each(|(_, message)| pairing.add(message));
        let pairs = || pairing.paired().filter_map(|result| Some((result.call?.message, result.at.message)));
        // A result adds the message with its call, which adds the results of its other calls.
        let mut group = BTreeSet::from([own]);
        loop {
            let before = group.len();
            for (call, result) in pairs() {
                if group.contains(&call) || group.contains(&result) {
                    group.extend([call, result]);
                }
            }
            if group.len() == before {
                return group.into_iter().map(|at| messages[at].0).collect();
            }
        }
    }
}
