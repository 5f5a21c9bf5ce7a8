//! What a model still sees when a conversation outgrows its window. Pure choices: which results become tombstones
//! ([`prune`]), and which messages a summary replaces ([`compact`]). Nothing here calls a model or writes an entry.

pub mod compact;
pub mod prune;
mod text;

use std::collections::HashMap;

use rejoin_record::{Block, BlockKind, EntryId, Message, Role};

pub use compact::{CompactPolicy, CompactionPlan};
pub use prune::{PrunePolicy, Pruned};
pub use text::{digest, middle_left_out, told, transcript};

use crate::{Pairing, TokenCounter, path::Walk};

/// The format of messages that the engine adds by itself.
pub const SYNTHETIC: &str = "synthetic";

/// Whether a person wrote a message: not a result, not a summary, and not something that the engine added.
fn is_said(message: &Message) -> bool {
    let is_result = |block: &Block| matches!(block.kind, BlockKind::ToolResult(_));
    message.role == Role::User
        && !message.blocks.iter().all(is_result)
        && message.native.as_ref().is_none_or(|native| &*native.format != SYNTHETIC)
}

/// The messages of a walk with what the choices need to know about them.
struct Scene<'w> {
    walk: &'w Walk,
    /// The tokens of each message.
    tokens: Vec<u64>,
    /// Whether the list may be cut before each message: no call before it has its result after it.
    may_cut: Vec<bool>,
}

impl<'w> Scene<'w> {
    fn new(walk: &'w Walk, counter: &TokenCounter) -> Self {
        let messages = walk.messages();
        let tokens = messages.iter().map(|message| counter.message(message)).collect();
        Self { walk, tokens, may_cut: places_to_cut(walk) }
    }

    /// Whether a person wrote the message at a place.
    fn is_said(&self, place: usize) -> bool {
        is_said_at(self.walk, place)
    }

    /// The tokens from a place on.
    fn tokens_from(&self, place: usize) -> u64 {
        self.tokens[place..].iter().sum()
    }

    /// The messages that must be shown together with the one at a place: its calls and their results.
    fn group(&self, place: usize) -> std::ops::Range<usize> {
        let start = (0..=place).rev().find(|place| self.may_cut[*place]).unwrap_or(0);
        let end = (place + 1..self.may_cut.len()).find(|place| self.may_cut[*place]);
        start..end.unwrap_or(self.may_cut.len())
    }
}

/// Whether a person wrote the message at a place.
fn is_said_at(walk: &Walk, place: usize) -> bool {
    walk.summary() != Some(place) && is_said(&walk.messages()[place])
}

/// The first message of the newest turn.
pub(crate) fn newest_turn(walk: &Walk) -> usize {
    (0..walk.messages().len()).rev().find(|place| is_said_at(walk, *place)).unwrap_or(0)
}

/// The tokens of everything that a walk shows.
#[must_use]
pub fn tokens(walk: &Walk, counter: &TokenCounter) -> u64 {
    walk.messages().iter().map(|message| counter.message(message)).sum()
}

fn places_to_cut(walk: &Walk) -> Vec<bool> {
    let messages = walk.messages();
    let mut pairing = Pairing::default();
    messages.iter().for_each(|message| pairing.add(message));
    // How many pairs begin or end around each place.
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

/// The place of each entry.
fn places(walk: &Walk) -> HashMap<EntryId, usize> {
    walk.entries().iter().enumerate().map(|(place, entry)| (*entry, place)).collect()
}

#[cfg(test)]
mod tests;
