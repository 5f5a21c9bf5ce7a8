//! The JSON of operations that make room in a window: compaction, pruning, pins.

use rejoin_record::{ConversationId, json::Object};

/// The effect of a compaction, real or planned.
#[must_use]
pub fn compaction(id: ConversationId, tokens: (u64, u64), messages: (usize, usize), done: bool) -> String {
    Object::new()
        .text("id", id)
        .flag("changed", done)
        .number("tokens_before", tokens.0)
        .number("tokens_after", tokens.1)
        .count("messages_before", messages.0)
        .count("messages_after", messages.1)
        .finish()
}

/// The effect of pruning, real or planned.
#[must_use]
pub fn pruned(id: ConversationId, pruned: &rejoin_view::window::Pruned, done: bool) -> String {
    Object::new()
        .text("id", id)
        .flag("changed", done)
        .count("pruned", pruned.results.len())
        .count("kept", pruned.survivors.len())
        .number("tokens", pruned.tokens)
        .finish()
}

/// The outcome of pinning or unpinning.
#[must_use]
pub fn pinned(id: ConversationId, message: usize, pinned: bool, changed: bool) -> String {
    Object::new()
        .text("id", id)
        .count("message", message)
        .flag("pinned", pinned)
        .flag("changed", changed)
        .finish()
}
