//! Which messages a summary replaces.

use std::collections::{BTreeMap, HashSet};

use rejoin_record::{
    EntryId, Role, Text,
    content::{Compacted, KeptMessage},
};

use super::{Scene, places, text};
use crate::{TokenCounter, path::Walk};

/// How many messages a compaction keeps beside the summary.
#[derive(Debug, Clone, PartialEq)]
pub struct CompactPolicy {
    /// The tokens of the newest messages, which stay as they are.
    pub tail_tokens: u64,
    /// The tokens of older messages of the user, which stay too, newest first.
    pub user_tokens: u64,
    /// The fewest turns that stay as they are, however long they are.
    pub turns: usize,
}

/// A compaction that lacks only its summary.
#[derive(Debug, Clone, PartialEq)]
pub struct CompactionPlan {
    /// The first of the newest messages, which stay as they are; none if all are summarised.
    pub keep_from: Option<EntryId>,
    /// Its place.
    pub tail: usize,
    /// Older messages that stay.
    pub kept: Vec<KeptMessage>,
    /// The tokens of all messages now.
    pub tokens_before: u64,
    /// The tokens of what stays, without the summary.
    pub tokens_kept: u64,
}

/// A message of the user that would be cut shorter than this, in tokens, is left out instead.
const SHORTEST: u64 = 100;

/// Chooses what stays beside a summary. Messages from `unanswered` on stay in any case: the model has not seen them yet. None if
/// there would be nothing to summarise.
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
    /// The entry, with its summary.
    #[must_use]
    pub fn with(self, summary: impl Into<Text>) -> Compacted {
        let kept = Some(self.kept).filter(|kept| !kept.is_empty());
        Compacted { kept, tokens_before: Some(self.tokens_before), ..Compacted::new(summary, self.keep_from) }
    }
}

/// The place of the first message that stays as it is.
fn tail(scene: &Scene<'_>, policy: &CompactPolicy, unanswered: usize) -> usize {
    let length = scene.tokens.len();
    // What an earlier compaction hid must not come back: the older messages that it kept stand alone.
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
    // Cutting at the beginning of a turn is better, if one is near enough.
    turn.unwrap_or(best)
}

/// The older messages that stay, by their places, with their tokens.
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
    let places = places(walk);
    let pinned = walk.pinned().iter().filter_map(|entry| places.get(entry).copied());
    let stay: HashSet<usize> = (0..instructions)
        .chain(pinned.flat_map(|place| scene.group(place)))
        .filter(|place| *place < tail)
        .collect();
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
            let text = text::middle_left_out(&said, left, counter);
            let tokens = counter.text(&text);
            let message = KeptMessage { entry: walk.entries()[place], text: Some(Text::from(text)) };
            kept.insert(place, (tokens, message));
        }
        break;
    }
    kept
}
