//! What a turn has spent, what its next request would take, and the limits on both.

use std::{ops::Range, sync::Arc};

use rejoin_record::{Content, EntryId, Kind, Message, Role, content::TokenUsage};
use rejoin_view::TokenCounter;

use super::{Ending, Limit, Limits, TurnInProgress, Worker};
use crate::provider::catalogue::{self, Dollars, Price};

impl Worker {
    /// The price of the model that answers, if it is known.
    #[must_use]
    pub fn price(&self) -> Option<Price> {
        let endpoint = self.provider.endpoint();
        catalogue::price(&endpoint.provider, &endpoint.model, endpoint.address.base_url.as_deref())
    }

    /// What the turn has cost so far, if the model's price is known.
    pub(super) fn cost(&self, running: &TurnInProgress<'_>) -> Option<Dollars> {
        Some(self.price()?.of(&running.usage))
    }

    /// The limit that the next request would cross, if any. Nothing is counted unless there is such a limit.
    pub(super) fn limit_ahead(&mut self, running: &TurnInProgress<'_>) -> Option<Ending> {
        let Limits { tokens, cost, .. } = self.settings.limits;
        if tokens.is_none() && cost.is_none() {
            return None;
        }
        let next = self.next_request(running);
        let spent = running.usage.total();
        let more = next.total();
        if let Some(limit) = tokens
            && spent.saturating_add(more) > limit
        {
            return Some(Ending::Limit(Limit::Tokens { spent, next: more, limit }));
        }
        let (limit, price) = (cost?, self.price()?);
        let (spent, next) = (price.of(&running.usage), price.of(&next));
        (spent + next > limit).then_some(Ending::Limit(Limit::Cost { spent, next, limit }))
    }

    /// The limits of a task that this turn delegates: what is left of its own.
    pub(super) fn limits_left(&self, running: &TurnInProgress<'_>) -> Limits {
        let limits = self.settings.limits.clone();
        let spent = running.usage.total();
        let cost = self.cost(running).unwrap_or_default();
        Limits {
            tokens: limits.tokens.map(|limit| limit.saturating_sub(spent)),
            cost: limits.cost.map(|limit| limit - cost),
            ..limits
        }
    }

    /// Estimates the tokens of the next request: those of the last one and its answer, and of everything said since. Its answer is
    /// expected to be as long as the last one in this turn.
    ///
    /// The provider's counts are more reliable than ours, and they are in the record. Only if it counted nothing, or if the view no
    /// longer begins with what was sent, everything is counted here.
    fn next_request(&mut self, running: &TurnInProgress<'_>) -> TokenUsage {
        self.composer.read(&self.conversation);
        self.counter();
        let Some((last, answer)) = self.last_counted(running.unrecorded) else {
            return TokenUsage { input: self.count_all(), ..TokenUsage::default() };
        };
        let since = self.count_messages(|entries| {
            let answered = entries.iter().position(|entry| *entry == answer);
            answered.map_or(entries.len(), |place| place + 1)..entries.len()
        });
        let input = last.total().saturating_add(since);
        let output = if running.requests > 0 { last.output } else { 0 };
        TokenUsage { input, output, cached: last.cached, reasoning: 0 }
    }

    /// The tokens of the last request as they are counted here, and as the provider counted them, if what is shown now begins with it.
    pub(super) fn last_reported(&mut self) -> Option<(u64, u64)> {
        let (last, answer) = self.last_counted(None)?;
        let sent =
            self.count_messages(|entries| 0..entries.iter().position(|entry| *entry == answer).unwrap_or(0));
        (sent > 0).then(|| (sent.saturating_add(self.count_context()), last.input))
    }

    /// The counter for the model that answers, which the ledger uses from now on. It estimates while everything certainly fits into
    /// the window, and if the window is not known.
    pub(super) fn counter(&mut self) -> TokenCounter {
        let counter = TokenCounter::for_model(&self.provider.endpoint().model);
        let counter = match self.window() {
            Some(window) => {
                let (messages, entries) = self.composer.messages();
                let walk = self.composer.walk();
                let (list, measured, most) = &mut self.measured;
                if *list != self.composer.lists() || *measured > messages.len() {
                    (*list, *measured, *most) = (self.composer.lists(), 0, 0);
                }
                let new = entries.iter().zip(messages).skip(*measured);
                let at_most = |(entry, message): (&EntryId, &Arc<Message>)| {
                    let unread = walk.unread(*entry).map(|unread| unread.most_tokens);
                    unread.unwrap_or_else(|| TokenCounter::most(message))
                };
                *most += new.map(at_most).sum::<u64>();
                *measured = messages.len();
                counter.near(*most, window)
            }
            None => counter.estimating(),
        };
        self.ledger.set_counter(counter);
        counter
    }

    /// The tokens that a provider counted for the last request, and the entry of its answer; none if what would be sent now no
    /// longer continues what was sent then. `unrecorded` are the tokens of an answer that no `turn` entry has yet.
    fn last_counted(&self, unrecorded: Option<TokenUsage>) -> Option<(TokenUsage, EntryId)> {
        let mut counted = unrecorded;
        for entry in self.conversation.entries().iter().rev() {
            match entry.envelope().kind {
                Kind::Turn if counted.is_none() => {
                    let Content::Turn(turn) = Content::of(entry) else { continue };
                    counted = turn.usage;
                }
                Kind::Message if counted.is_some() => {
                    let Content::Message(message) = Content::of(entry) else { continue };
                    if message.role == Role::Assistant {
                        return counted.map(|usage| (usage, entry.id()));
                    }
                }
                Kind::Compacted | Kind::Uncompacted | Kind::Prune | Kind::Branch | Kind::Context => {
                    return None;
                }
                _ => {}
            }
        }
        None
    }

    /// The tokens of instructions, tools and all messages.
    fn count_all(&mut self) -> u64 {
        let context = self.count_context();
        self.count_messages(|entries| 0..entries.len()).saturating_add(context)
    }

    /// The tokens of instructions and tools.
    pub(super) fn count_context(&self) -> u64 {
        let counter = self.ledger.counter();
        let instructions = self.settings.system.as_deref().map_or(0, |system| counter.text(system));
        let tools = self.tools.declarations();
        tools.iter().map(|tool| counter.tool(tool.shown())).sum::<u64>().saturating_add(instructions)
    }

    /// The tokens of some messages, chosen among their entries.
    fn count_messages(&mut self, chosen: impl FnOnce(&[EntryId]) -> Range<usize>) -> u64 {
        let (messages, entries) = self.composer.messages();
        let chosen = chosen(entries);
        let (messages, entries) = (&messages[chosen.clone()], &entries[chosen]);
        entries.iter().zip(messages).map(|(entry, message)| self.ledger.message(*entry, message)).sum()
    }
}
