//! Compaction under its older names.

use rejoin_engine::{
    Agent,
    turn::{COMPACT_THRESHOLD, COMPACT_USER_MESSAGE_MAX_TOKENS, Compaction},
};

/// When a conversation is compacted, and how many of the user's messages stay. New code sets `WindowSettings`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CompactConfig {
    /// The fraction of the window at which a conversation is compacted.
    pub threshold: f64,
    /// How many tokens of the user's messages stay, at most.
    pub user_message_max_tokens: u64,
}

impl Default for CompactConfig {
    fn default() -> Self {
        Self { threshold: COMPACT_THRESHOLD, user_message_max_tokens: COMPACT_USER_MESSAGE_MAX_TOKENS }
    }
}

/// Whether a conversation with this many tokens is compacted after a turn.
///
/// ```
/// use rejoin::compat::{CompactConfig, needs_compaction};
///
/// let config = CompactConfig::default();
/// assert!(!needs_compaction(80_000, 100_000, &config) && needs_compaction(80_001, 100_000, &config));
/// ```
#[must_use]
pub fn needs_compaction(tokens: u64, window: u64, config: &CompactConfig) -> bool {
    tokens > (window as f64 * config.threshold).floor() as u64
}

/// Compacts the conversation of an agent now. `input` tells the model what the summary must keep.
pub async fn run_compact_task(agent: &mut Agent, input: Option<&str>) -> Compaction {
    agent.compact(input).await
}
