//! Decides which tool results become tombstones.

use std::{collections::HashSet, time::Duration};

use rejoin_record::{EntryId, content::CallAt};

use super::newest_turn;
use crate::{TokenCounter, path::Walk, tokens::SHORT_RESULT};

/// When results are pruned. Every rule is optional, and the strictest one decides. The newest turn and pinned messages are never
/// pruned.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PrunePolicy {
    /// How many of the newest results stay.
    pub keep_last: Option<usize>,
    /// The age from which results are pruned.
    pub max_age: Option<Duration>,
    /// How many tokens all results together may take. The oldest are pruned until the rest fit.
    pub token_budget: Option<u64>,
    /// The fewest results to prune together. With 1, a result is pruned as soon as a rule applies. Without a number, pruning waits
    /// until it can prune many, because each change makes the provider read everything after it again.
    pub batch: Option<usize>,
}

/// The results that pruning would remove.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pruned {
    /// The results to prune, oldest first.
    pub results: Vec<CallAt>,
    /// The tokens that they take now.
    pub tokens: u64,
    /// The results that stay.
    pub survivors: Vec<CallAt>,
}

/// The batch size if none is set and no budget is exceeded.
const BATCH: usize = 8;

/// With a budget, pruning continues until the results take only this fraction of it.
const LOW_MARK: f64 = 0.1;

struct Candidate {
    at: CallAt,
    tokens: u64,
    age: Option<Duration>,
    may_go: bool,
}

/// Chooses the results to prune. `age` returns the age of a message's entry.
#[must_use]
pub fn plan(
    walk: &Walk,
    counter: &TokenCounter,
    policy: &PrunePolicy,
    age: impl Fn(EntryId) -> Option<Duration>,
) -> Pruned {
    let candidates = candidates(walk, counter, age);
    let mut due: HashSet<usize> = HashSet::new();
    if let Some(keep) = policy.keep_last {
        due.extend(0..candidates.len().saturating_sub(keep));
    }
    if let Some(max) = policy.max_age {
        let old = |candidate: &Candidate| candidate.age.is_some_and(|age| age > max);
        due.extend(candidates.iter().enumerate().filter(|(_, old_one)| old(old_one)).map(|(place, _)| place));
    }
    due.retain(|place| candidates[*place].may_go);
    let mut over_budget = false;
    if let Some(budget) = policy.token_budget {
        let mut left: u64 = candidates.iter().map(|candidate| candidate.tokens).sum();
        over_budget = left > budget;
        let low = if policy.batch == Some(1) { budget } else { (budget as f64 * LOW_MARK) as u64 };
        let target = if over_budget { low } else { u64::MAX };
        for (place, candidate) in candidates.iter().enumerate().filter(|(_, candidate)| candidate.may_go) {
            if left <= target {
                break;
            }
            due.insert(place);
            left -= candidate.tokens;
        }
    }
    if !over_budget && due.len() < policy.batch.unwrap_or(BATCH) {
        due.clear();
    }
    let mut pruned = Pruned::default();
    for (place, candidate) in candidates.into_iter().enumerate() {
        if due.contains(&place) {
            pruned.tokens += candidate.tokens;
            pruned.results.push(candidate.at);
        } else {
            pruned.survivors.push(candidate.at);
        }
    }
    pruned
}

/// The results that are shown in full, oldest first.
fn candidates(
    walk: &Walk,
    counter: &TokenCounter,
    age: impl Fn(EntryId) -> Option<Duration>,
) -> Vec<Candidate> {
    let newest_turn = newest_turn(walk);
    let pinned = super::pinned(walk);
    let mut candidates = Vec::new();
    for (place, (message, entry)) in walk.messages().iter().zip(walk.entries()).enumerate() {
        for (block, content) in
            message.blocks.iter().enumerate().filter(|(_, block)| block.as_result().is_some())
        {
            let at = CallAt { entry: *entry, block: block as u64 };
            if walk.is_pruned(*entry, at.block) {
                continue;
            }
            let unread = walk.unread(*entry).map(|unread| counter.unread_block(unread));
            let tokens = unread.unwrap_or_else(|| counter.block(content));
            let may_go = place < newest_turn && !pinned.contains(&place) && tokens > SHORT_RESULT;
            candidates.push(Candidate { at, tokens, age: age(*entry), may_go });
        }
    }
    candidates
}
