//! Tools that come and go between turns, such as those of servers.

use std::sync::Arc;

use super::Tool;
use crate::{
    provider::BoxFuture,
    turn::{Sink, Stop},
};

/// Where a conversation gets further tools from. They are asked for at the beginning of each turn and stay the same during the turn.
pub trait ToolSource: Send + Sync {
    /// The tools for the next turn. May wait a bounded time for them, and less if `stop` is set; `tell` gets what a person should
    /// know about them.
    fn tools<'a>(&'a self, tell: Sink<'a>, stop: &'a Stop) -> BoxFuture<'a, Vec<Arc<dyn Tool>>>;
}
