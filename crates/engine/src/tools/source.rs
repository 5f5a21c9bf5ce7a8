//! Tools that appear and disappear between turns, such as those of MCP servers.

use std::sync::Arc;

use super::Tool;
use crate::{
    provider::BoxFuture,
    turn::{Sink, Stop},
};

/// A source of further tools for a conversation. It is asked at the beginning of each turn; the tools stay the same during the
/// turn.
pub trait ToolSource: Send + Sync {
    /// The tools for the next turn. May wait for them, for a limited time, and not after `stop` is set. `tell` receives warnings
    /// for the person.
    fn tools<'a>(&'a self, tell: Sink<'a>, stop: &'a Stop) -> BoxFuture<'a, Vec<Arc<dyn Tool>>>;
}
