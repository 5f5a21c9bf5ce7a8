//! Pruning without a model: replaces older turns with a short list of what was said in them.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    time::Duration,
};

use rejoin_record::{
    Content, EntryId, Message,
    content::{CallAt, Compacted, KeptMessage, Meta, Uncompacted},
};
use rejoin_view::{
    BlockAt, Pairing, TokenCounter,
    path::Walk,
    window::{self, CompactPolicy, PrunePolicy, compact, prune},
};

use super::Conversation;

/// How much of a conversation a request keeps.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Window {
    /// The most tokens that a conversation may have.
    pub max_tokens: usize,
    /// The number of newest turns that always stay.
    pub min_retain_turns: usize,
    /// The share of `max_tokens`, from 0 to 1, at which pruning of older turns begins.
    pub prune_threshold: f64,
}

impl Default for Window {
    /// Numbers that fit the window of most models, with room for an answer.
    fn default() -> Self {
        Self { max_tokens: 100_000, min_retain_turns: 2, prune_threshold: 0.8 }
    }
}

/// The outcome of pruning older turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TurnsPruned {
    /// The messages that a model no longer sees.
    pub removed: usize,
    /// The tokens before.
    pub before: u64,
    /// The tokens now.
    pub after: u64,
}

/// Which results stay and which go, for programs that prune by themselves.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PruneReport {
    /// The results that a model still sees in full.
    pub survivors: Vec<CallAt>,
    /// The results that became tombstones.
    pub pruned: Vec<CallAt>,
}

/// The heading of the list of what was said.
pub(crate) const HEADING: &str = "Summary of earlier conversation:\n\n";

impl Conversation {
    /// The path to the head, with the last compaction and all prunes applied.
    pub(crate) fn walk(&self) -> Walk {
        Walk::along(&self.tree())
    }

    /// Prunes older turns if the conversation has more tokens than `prune_threshold` of `max_tokens`. Instructions, pinned messages and
    /// the newest turns stay, calls and their results stay together, and a list of what was said replaces the rest. None if nothing had
    /// to be pruned, or nothing can be.
    pub fn prune_if_needed(&mut self, model: &str, limits: &Window) -> Option<TurnsPruned> {
        self.need_results();
        let counter = TokenCounter::for_model(model);
        let walk = self.walk();
        let before = window::tokens(&walk, &counter);
        let threshold = (limits.max_tokens as f64 * limits.prune_threshold) as u64;
        if before <= threshold {
            return None;
        }
        tracing::info!("Pruning conversation: tokens={before}/{}, threshold={threshold}", limits.max_tokens);
        let policy = CompactPolicy { tail_tokens: 0, user_tokens: 0, turns: limits.min_retain_turns.max(1) };
        let plan = compact::plan(&walk, &counter, &policy, walk.messages().len())?;
        log_pairs(&walk, plan.tail);
        let earlier = walk.summary().and_then(|place| walk.messages()[place].content());
        let kept: Vec<_> = plan.kept.iter().map(|kept| kept.entry).collect();
        let places = 0..plan.tail;
        let hidden: Vec<_> = places
            .filter(|place| walk.summary() != Some(*place) && !kept.contains(&walk.entries()[*place]))
            .map(|place| walk.messages()[place].clone())
            .collect();
        let room = threshold.saturating_sub(plan.tokens_kept).min(threshold / 4);
        let text = format!("{HEADING}{}", window::digest(earlier.as_deref(), &hidden, room, &counter));
        let after = plan.tokens_kept + counter.text(&text);
        let mut compacted = plan.with(text);
        compacted.tokens_after = Some(after);
        self.append(&Content::Compacted(compacted));
        let removed = hidden.len();
        tracing::info!(
            "Pruning complete: removed {removed} messages, tokens now {after}/{}",
            limits.max_tokens
        );
        Some(TurnsPruned { removed, before, after })
    }

    /// Prunes results by a policy. Without one, nothing happens.
    pub fn prune_tool_calls(&mut self, model: &str, policy: Option<&PrunePolicy>) -> PruneReport {
        let Some(policy) = policy else { return PruneReport::default() };
        self.need_results();
        let counter = TokenCounter::for_model(model);
        let pruned = prune::plan(&self.walk(), &counter, policy, self.ages(policy));
        if !pruned.results.is_empty() {
            self.append(&Content::Prune(rejoin_record::content::Prune { results: pruned.results.clone() }));
        }
        PruneReport { survivors: pruned.survivors, pruned: pruned.results }
    }

    /// The age of each entry, or nothing if the policy asks for no age.
    pub(crate) fn ages(&self, policy: &PrunePolicy) -> impl Fn(EntryId) -> Option<Duration> + use<> {
        let now = self.clock().now();
        let entries = self.entries().iter().filter(|_| policy.max_age.is_some());
        let times: HashMap<_, _> = entries.map(|entry| (entry.id(), entry.envelope().timestamp)).collect();
        move |entry| Duration::try_from(now.duration_since(*times.get(&entry)?)).ok()
    }
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
    /// Undoes the last compaction: from now on, a model sees the messages again that it hid. Returns the compaction's entry, or none
    /// if nothing is compacted.
    pub fn uncompact(&mut self) -> Option<EntryId> {
        self.need_all();
        let compaction = self.walk().compaction()?;
        self.append(&Content::Uncompacted(Uncompacted { compaction }));
        Some(compaction)
    }

    /// Keeps the message of an entry in every view, together with the calls and results that belong to it.
    pub fn pin(&mut self, entry: EntryId) -> Pinning {
        self.need_all();
        let walk = self.walk();
        let mut pinned = walk.pinned().to_vec();
        if pinned.contains(&entry) {
            return Pinning::Unchanged;
        }
        pinned.push(entry);
        self.append(&Content::Meta(Meta { pinned: Some(pinned), ..Meta::default() }));
        let hidden = !walk.entries().contains(&entry);
        if let Some(mut compacted) = walk.compacted().filter(|_| hidden).cloned() {
            // A compaction has hidden it: the same one, with this message, shows it again.
            let group = self.belonging_to(entry);
            let kept = compacted.kept.get_or_insert_default();
            kept.extend(group.into_iter().map(|entry| KeptMessage { entry, text: None }));
            self.append(&Content::Compacted(Compacted { usage: None, ..compacted }));
        }
        Pinning::Changed
    }

    /// Unpins a message, so that it can be pruned or summarised like any other.
    pub fn unpin(&mut self, entry: EntryId) -> Pinning {
        let mut pinned = self.walk().pinned().to_vec();
        let before = pinned.len();
        pinned.retain(|other| *other != entry);
        if pinned.len() == before {
            return Pinning::Unchanged;
        }
        self.append(&Content::Meta(Meta { pinned: Some(pinned), ..Meta::default() }));
        Pinning::Changed
    }

    /// Reads what was left out when the conversation was opened. If that fails, the next command goes on with what is there.
    pub(crate) fn need_all(&mut self) {
        if let Err(why) = self.read_all() {
            tracing::warn!("the beginning of conversation {} could not be read: {why}", self.id());
        }
    }

    /// Reads results that were left out when the conversation was opened, because its first turn would prune them.
    pub(crate) fn need_results(&mut self) {
        #[cfg(feature = "agent")]
        if self.leaves_results_unread() {
            self.need_all();
        }
    }

    /// A message with the messages that hold its results, or the call that it answers.
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
        // A result brings the message with its call, which brings the results of its other calls.
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
