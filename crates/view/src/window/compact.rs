//! Decides which messages a summary replaces.

use std::collections::{BTreeMap, HashSet};

use rejoin_record::{
    EntryId, Message, Role, Text,
    content::{Compacted, KeptMessage},
};

use super::{Scene, pinned, text};
use crate::{TokenCounter, path::Walk};

/// How many messages a compaction keeps in addition to the summary.
#[derive(Debug, Clone, PartialEq)]
pub struct CompactPolicy {
    /// How many tokens of the newest messages stay unchanged.
    pub tail_tokens: u64,
    /// How many tokens of the user's older messages are kept as well, newest first.
    pub user_tokens: u64,
    /// The fewest turns that stay unchanged, however long they are.
    pub turns: usize,
}

/// A compaction without its summary.
#[derive(Debug, Clone, PartialEq)]
pub struct CompactionPlan {
    /// The first of the newest messages, which stay unchanged; `None` if all are summarised.
    pub keep_from: Option<EntryId>,
    /// The index of that message.
    pub tail: usize,
    /// Older messages that stay.
    pub kept: Vec<KeptMessage>,
    /// The tokens of all messages now.
    pub tokens_before: u64,
    /// The tokens of the messages that stay, without the summary.
    pub tokens_kept: u64,
}

/// A message of the user that would be cut shorter than this, in tokens, is left out instead.
const SHORTEST: u64 = 100;

/// Chooses the messages that stay next to a summary. Messages from `unanswered` on always stay, because the model has not seen them
/// yet. `None` if there is nothing to summarise.
#[must_use]
pub fn plan(
    walk: &Walk,
    counter: &TokenCounter,
    policy: &CompactPolicy,
    unanswered: usize,
) -> Option<CompactionPlan> {
    let scene = Scene::new(walk, counter);
    let tail = tail(&scene, policy, unanswered);
    let kept = kept(&scene, counter, policy, tail);
    let stays_whole = |place: &usize| {
        let stays = kept.get(place).is_some_and(|(tokens, _)| *tokens == scene.tokens[*place]);
        stays || walk.summary() == Some(*place)
    };
    if (0..tail).all(|place| stays_whole(&place)) {
        return None;
    }
    let of_kept: u64 = kept.values().map(|(tokens, _)| tokens).sum();
    Some(CompactionPlan {
        keep_from: walk.entries().get(tail).copied(),
        tail,
        tokens_before: scene.tokens_from(0),
        tokens_kept: of_kept + scene.tokens_from(tail),
        kept: kept.into_values().map(|(_, kept)| kept).collect(),
    })
}

impl CompactionPlan {
    /// The compaction's content, with its summary.
    #[must_use]
    pub fn with(self, summary: impl Into<Text>) -> Compacted {
        let kept = Some(self.kept).filter(|kept| !kept.is_empty());
        Compacted { kept, tokens_before: Some(self.tokens_before), ..Compacted::new(summary, self.keep_from) }
    }
}

/// The index of the first message that stays unchanged.
fn tail(scene: &Scene<'_>, policy: &CompactPolicy, unanswered: usize) -> usize {
    let length = scene.tokens.len();
    // Messages that an earlier compaction hid must not come back, so the tail begins after its summary.
    let first = scene.walk.summary().map_or(0, |summary| summary + 1);
    let last = (first..=unanswered.clamp(first, length))
        .rev()
        .find(|place| *place == length || scene.may_cut[*place]);
    let last = last.unwrap_or(first);
    let turns: Vec<usize> =
        (first..length).filter(|place| scene.is_said(*place) && scene.may_cut[*place]).collect();
    let wanted = match policy.turns {
        0 => length,
        turns_kept => turns[turns.len().saturating_sub(turns_kept)..].first().copied().unwrap_or(first),
    };
    let last = last.min(wanted);
    let mut best = last;
    let mut turn = None;
    let mut tokens = scene.tokens_from(last);
    for place in (first..last).rev() {
        tokens += scene.tokens[place];
        if tokens > policy.tail_tokens {
            break;
        }
        if scene.may_cut[place] {
            best = place;
            if scene.is_said(place) {
                turn = Some(place);
            }
        }
    }
    // Prefer to cut at the beginning of a turn, if one is near enough.
    turn.unwrap_or(best)
}

/// The indexes of the older messages that stay, with their tokens.
fn kept(
    scene: &Scene<'_>,
    counter: &TokenCounter,
    policy: &CompactPolicy,
    tail: usize,
) -> BTreeMap<usize, (u64, KeptMessage)> {
    let (walk, messages) = (scene.walk, scene.walk.messages());
    let whole = |place: usize| {
        let text = walk.shortened(walk.entries()[place]).cloned();
        (scene.tokens[place], KeptMessage { entry: walk.entries()[place], text })
    };
    let instructions =
        messages.iter().take_while(|message| matches!(message.role, Role::System | Role::Developer)).count();
    let stay: HashSet<usize> = (0..instructions).chain(pinned(walk)).filter(|place| *place < tail).collect();
    let mut kept: BTreeMap<usize, _> = stay.iter().map(|place| (*place, whole(*place))).collect();
    let mut left = policy.user_tokens;
    for place in (0..tail).rev().filter(|place| !stay.contains(place) && scene.is_said(*place)) {
        let tokens = scene.tokens[place];
        if tokens <= left {
            left -= tokens;
            kept.insert(place, whole(place));
            continue;
        }
        if left >= SHORTEST {
            let said = messages[place].content().unwrap_or_default();
            let around = counter.message(&Message::user(""));
            let text = Text::from(text::middle_left_out(&said, left.saturating_sub(around), counter));
            // Count it as it will be shown.
            let tokens = counter.message(&Message::user(text.clone()));
            kept.insert(place, (tokens, KeptMessage { entry: walk.entries()[place], text: Some(text) }));
        }
        break;
    }
    kept
}
