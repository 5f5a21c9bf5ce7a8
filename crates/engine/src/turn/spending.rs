//! What a turn has spent, what its next request would take, and the limits on both.

use rejoin_record::{Content, Role, content::TokenUsage};
use rejoin_view::TokenCounter;

use super::{Ending, Limit, Limits, TurnInProgress, Worker};
use crate::provider::catalogue::{self, Dollars, Price};

impl Worker {
    /// The price of the model that answers, if it is known.
    #[must_use]
    pub fn price(&self) -> Option<Price> {
        let endpoint = self.provider.endpoint();
        catalogue::price(&endpoint.provider, &endpoint.model, endpoint.base_url.as_deref())
    }

    /// What the turn has cost so far, if the model's price is known.
    pub(super) fn cost(&self, running: &TurnInProgress<'_>) -> Option<Dollars> {
        Some(self.price()?.of(&running.usage.into()))
    }

    /// The limit that the next request would cross, if any. Nothing is counted unless there is such a limit.
    pub(super) fn limit_ahead(&self, running: &TurnInProgress<'_>) -> Option<Ending> {
        let limits = &self.settings.limits;
        if limits.tokens.is_none() && limits.cost.is_none() {
            return None;
        }
        let next = self.next_request(running);
        let spent = running.usage.input.saturating_add(running.usage.output);
        let more = next.input.saturating_add(next.output);
        if let Some(limit) = limits.tokens
            && spent.saturating_add(more) > limit
        {
            return Some(Ending::Limit(Limit::Tokens { spent, next: more, limit }));
        }
        let (limit, price) = (limits.cost?, self.price()?);
        let (spent, next) = (price.of(&running.usage.into()), price.of(&next));
        (spent + next > limit).then_some(Ending::Limit(Limit::Cost { spent, next, limit }))
    }

    /// The limits of a task that this turn delegates: what it may still spend itself.
    pub(super) fn limits_left(&self, running: &TurnInProgress<'_>) -> Limits {
        let limits = self.settings.limits.clone();
        let spent = running.usage.input.saturating_add(running.usage.output);
        let cost = self.cost(running).unwrap_or_default();
        Limits {
            tokens: limits.tokens.map(|limit| limit.saturating_sub(spent)),
            cost: limits.cost.map(|limit| limit - cost),
            ..limits
        }
    }

    /// What the next request would take, about: what the last one and its answer took, and what was said since. Its answer is
    /// expected to be as long as the last one in this turn.
    ///
    /// What a provider counted is better than any count of ours, and it is in the record. Only where nothing was counted, or where
    /// the view is no longer the one that was sent, everything is counted here.
    fn next_request(&self, running: &TurnInProgress<'_>) -> TokenUsage {
        let counter = TokenCounter::for_model(&self.provider.endpoint().model);
        let mut since = 0;
        for entry in self.conversation.entries().iter().rev() {
            let base = match Content::of(entry) {
                Content::Turn(turn) => turn.usage,
                Content::Message(message)
                    if message.role == Role::Assistant && running.unrecorded.is_some() =>
                {
                    running.unrecorded
                }
                Content::Message(message) => {
                    since += counter.message(&message);
                    None
                }
                Content::Compacted(_) | Content::Uncompacted(_) | Content::Prune(_) | Content::Branch(_) => {
                    break;
                }
                _ => None,
            };
            if let Some(last) = base {
                let output = if running.requests > 0 { last.output } else { 0 };
                let input = last.input.saturating_add(last.output).saturating_add(since);
                return TokenUsage { input, output, cached: last.cached, reasoning: 0 };
            }
        }
        TokenUsage { input: self.count_all(&counter), ..TokenUsage::default() }
    }

    /// The tokens of instructions, tools and all messages.
    fn count_all(&self, counter: &TokenCounter) -> u64 {
        let context = self.context.as_deref();
        let instructions = self.settings.system.as_deref().map_or(0, |system| counter.text(system));
        let tools = context
            .map_or(0, |context| context.offered.iter().map(|tool| counter.tool(tool_parts(tool))).sum());
        let messages: u64 = self.composer.messages().iter().map(|message| counter.message(message)).sum();
        messages.saturating_add(instructions).saturating_add(tools)
    }
}

/// The parts of a declaration that a model is shown: name, description and parameters.
fn tool_parts(tool: &rejoin_formats::context::ToolDeclaration) -> [&str; 3] {
    let description = tool.description.as_deref().unwrap_or_default();
    let schema = tool.schema.as_ref().map_or("", rejoin_record::Raw::as_str);
    [&tool.name, description, schema]
}
