//! The limits of a turn and of its tools. Each can be set.

use std::time::Duration;

use crate::provider::catalogue::Dollars;

/// The limits of a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// How many requests a turn may take. A model that calls tools in circles is stopped here, so this limit cannot be
    /// switched off.
    pub requests: u32,
    /// How long a turn may take, not counting the time in which its tools run or wait for approval; none for no limit. It stops a
    /// provider that never ends its answer.
    pub time: Option<Duration>,
    /// How many tokens a turn may take, requests and answers together; none for no limit. The turn stops before the
    /// request that would cross it.
    pub tokens: Option<u64>,
    /// How much a turn may cost; none for no limit. The turn stops before the request that would cross it. Has no
    /// effect if the model's price is not known.
    pub cost: Option<Dollars>,
    /// The limits of each call of a tool.
    pub tool: ToolLimits,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            requests: 50,
            time: Some(Duration::from_secs(3_600)),
            tokens: None,
            cost: None,
            tool: ToolLimits::default(),
        }
    }
}

/// The limits of one call of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToolLimits {
    /// How long it may run. Then its result says so, and the turn continues.
    pub time: Duration,
    /// How much of its output a model sees, in bytes. The record keeps more of it.
    pub shown: usize,
    /// How much of its output the record keeps, in bytes. The rest is counted.
    pub kept: usize,
}

impl Default for ToolLimits {
    fn default() -> Self {
        Self {
            time: Duration::from_secs(120),
            // Some twenty thousand words: more fills a window with one result.
            shown: 160 * 1024,
            // A quarter of the longest entry that a store reads.
            kept: 64 * 1024 * 1024,
        }
    }
}
