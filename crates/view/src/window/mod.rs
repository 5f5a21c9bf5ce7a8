//! Decides what a model still sees when a conversation outgrows its window: which results become tombstones ([`prune`]), which lose
//! their middle ([`shorten`]), and which messages a summary replaces ([`compact`]). The code is pure: it does not call a model or
//! write an entry.

pub mod compact;
pub mod prune;
pub mod shorten;
mod text;

use std::collections::{HashMap, HashSet};

use rejoin_record::{Block, BlockKind, EntryId, Message, Role};

pub use compact::{CompactPolicy, CompactionPlan};
pub use prune::{PrunePolicy, Pruned};
pub use shorten::Shortening;
pub use text::{EarlierSummary, Listing, listing, message_text, middle_left_out, transcript};

use crate::{Pairing, TokenCounter, path::Walk};

/// The format name of messages that the engine adds by itself.
pub const SYNTHETIC: &str = "synthetic";

/// Whether a person wrote a message: it is not a result, not a summary, and not added by the engine.
fn is_said(message: &Message) -> bool {
    let is_result = |block: &Block| matches!(block.kind, BlockKind::ToolResult(_));
    message.role == Role::User
        && !message.blocks.iter().all(is_result)
        && message.native.as_ref().is_none_or(|native| &*native.format != SYNTHETIC)
}

/// The messages of a walk, with the facts on which the choices depend.
struct Scene<'w> {
    walk: &'w Walk,
    /// The tokens of each message.
    tokens: Vec<u64>,
    /// Whether the list may be cut before each message: no earlier call has its result after the cut.
    may_cut: Vec<bool>,
}

impl<'w> Scene<'w> {
    fn new(walk: &'w Walk, counter: &TokenCounter) -> Self {
        let messages = walk.messages();
        let tokens = messages.iter().map(|message| counter.message(message)).collect();
        Self { walk, tokens, may_cut: places_to_cut(walk) }
    }

    /// Whether a person wrote the message at an index.
    fn is_said(&self, place: usize) -> bool {
        is_said_at(self.walk, place)
    }

    /// The tokens from an index on.
    fn tokens_from(&self, place: usize) -> u64 {
        self.tokens[place..].iter().sum()
    }
}

/// The indexes of the pinned messages that a walk shows, together with their calls and results.
fn pinned(walk: &Walk) -> HashSet<usize> {
    if walk.pinned().is_empty() {
        return HashSet::new();
    }
    let (places, may_cut) = (places(walk), places_to_cut(walk));
    let pinned = walk.pinned().iter().filter_map(|entry| places.get(entry).copied());
    pinned.flat_map(|place| group(&may_cut, place)).collect()
}

/// The messages that must be shown together with the one at an index: its calls and their results.
fn group(may_cut: &[bool], place: usize) -> std::ops::Range<usize> {
    let start = (0..=place).rev().find(|place| may_cut[*place]).unwrap_or(0);
    let end = (place + 1..may_cut.len()).find(|place| may_cut[*place]);
    start..end.unwrap_or(may_cut.len())
}

/// Whether a person wrote the message at an index.
fn is_said_at(walk: &Walk, place: usize) -> bool {
    walk.summary() != Some(place) && is_said(&walk.messages()[place])
}

/// The index of the newest turn's first message.
pub(crate) fn newest_turn(walk: &Walk) -> usize {
    (0..walk.messages().len()).rev().find(|place| is_said_at(walk, *place)).unwrap_or(0)
}

/// The tokens of all messages that a walk shows.
#[must_use]
pub fn tokens(walk: &Walk, counter: &TokenCounter) -> u64 {
    walk.messages().iter().map(|message| counter.message(message)).sum()
}

fn places_to_cut(walk: &Walk) -> Vec<bool> {
    let messages = walk.messages();
    let mut pairing = Pairing::default();
    messages.iter().for_each(|message| pairing.add(message));
    // At each index: the number of pairs that begin there, minus those that end there.
    let mut pairs = vec![0i64; messages.len() + 1];
    for result in pairing.paired() {
        let Some(call) = result.call else { continue };
        let (first, last) = (call.message.min(result.at.message), call.message.max(result.at.message));
        pairs[first + 1] += 1;
        pairs[last + 1] -= 1;
    }
    let mut open = 0;
    let can_begin = |message: &Message| matches!(message.role, Role::User | Role::Assistant);
    messages
        .iter()
        .zip(pairs)
        .map(|(message, change)| {
            open += change;
            open == 0 && can_begin(message) && message.tool_results().next().is_none()
        })
        .collect()
}

/// The index of each entry.
fn places(walk: &Walk) -> HashMap<EntryId, usize> {
    walk.entries().iter().enumerate().map(|(place, entry)| (*entry, place)).collect()
}

#[cfg(test)]
mod tests;
