//! The limits of a turn and of its tools. All of them are settings.

use std::time::Duration;

use crate::provider::catalogue::Dollars;

/// The limits of a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// How many requests a turn may take. It stops a model that calls tools in circles, so it cannot be switched off.
    pub requests: u32,
    /// How long a turn may take, without the time in which its tools run or wait for approval; `None` for no limit. It stops a
    /// provider that never ends its answer.
    pub time: Option<Duration>,
    /// How many tokens a turn may take, requests and answers together; `None` for no limit. The turn stops before the request that
    /// would exceed it.
    pub tokens: Option<u64>,
    /// How much a turn may cost; `None` for no limit. The turn stops before the request that would exceed it. Has no effect if the
    /// model's price is not known.
    pub cost: Option<Dollars>,
    /// The limits of each tool call.
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

/// The limits of one tool call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToolLimits {
    /// How long it may run. After that, its result reports the time limit, and the turn continues.
    pub time: Duration,
    /// How many bytes of its output a model sees. The record keeps more of it.
    pub shown: usize,
    /// How many bytes of its output the record keeps. The rest is only counted.
    pub kept: usize,
}

impl Default for ToolLimits {
    fn default() -> Self {
        Self {
            time: Duration::from_secs(120),
            // About twenty thousand words: a longer result would fill a window alone.
            shown: 160 * 1024,
            // A quarter of the longest entry that a store reads.
            kept: 64 * 1024 * 1024,
        }
    }
}
