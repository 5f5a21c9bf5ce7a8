//! The spending of a turn, the estimate for its next request, and the limits on both.

use std::{ops::Range, sync::Arc};

use rejoin_formats::Context;
use rejoin_record::{Content, Entry, EntryId, Kind, Message, Role, content::TokenUsage};
use rejoin_view::TokenCounter;

use super::{Ending, Limit, Limits, TurnInProgress, Worker};
use crate::provider::{
    Provider,
    catalogue::{self, Dollars, Price},
};

/// The spending on the summaries of a turn.
#[derive(Debug, Default)]
pub(super) struct Summaries {
    /// Their tokens.
    pub(super) usage: TokenUsage,
    /// Their cost in dollars, without those whose price is not known.
    pub(super) cost: Dollars,
    /// Whether some of them have no known price.
    pub(super) is_unpriced: bool,
}

impl Summaries {
    /// Adds the tokens of a summary, used or not.
    pub(super) fn add(&mut self, usage: &TokenUsage, price: Option<Price>) {
        self.usage.add(usage);
        match price {
            Some(price) => self.cost = self.cost + price.of(usage),
            None => self.is_unpriced |= usage.total() > 0,
        }
    }
}

/// The remaining budget. By default nothing is limited.
#[derive(Debug, Default)]
pub(super) struct Budget {
    tokens: Option<u64>,
    cost: Option<Dollars>,
    spent_tokens: u64,
    spent: Dollars,
}

impl Budget {
    fn is_unlimited(&self) -> bool {
        self.tokens.is_none() && self.cost.is_none()
    }

    /// The limit that a request of this size would exceed, if any. Without a known price, its cost is not limited.
    pub(super) fn crossed_by(&self, next: &TokenUsage, price: Option<Price>) -> Option<Limit> {
        let (spent, more) = (self.spent_tokens, next.total());
        if let Some(limit) = self.tokens
            && spent.saturating_add(more) > limit
        {
            return Some(Limit::Tokens { spent, next: more, limit });
        }
        let (limit, spent, next) = (self.cost?, self.spent, price?.of(next));
        (spent + next > limit).then_some(Limit::Cost { spent, next, limit })
    }
}

/// The price of a provider's model, if it is known.
pub(super) fn price_of(provider: &dyn Provider) -> Option<Price> {
    let endpoint = provider.endpoint();
    catalogue::price(&endpoint.provider, &endpoint.model, endpoint.address.base_url.as_deref())
}

/// The tokens of the instructions and of the tools that surround the messages of a request.
#[must_use]
pub fn context_tokens(context: &Context, counter: &TokenCounter) -> (u64, u64) {
    let own = context.own_instructions().map_or(0, |text| counter.text(text));
    let fields: u64 = context.system().iter().map(|piece| counter.text(&piece.text)).sum();
    let tools = context.tools().iter().map(|tool| counter.tool(tool.shown())).sum();
    (own + fields, tools)
}

/// The tokens that a provider counted for the last request, and the entry of its answer; `None` if the next request would no longer
/// begin with that request. `unrecorded` are the tokens of an answer that no `turn` entry has yet.
#[must_use]
pub fn last_counted(entries: &[Entry], unrecorded: Option<TokenUsage>) -> Option<(TokenUsage, EntryId)> {
    let mut counted = unrecorded;
    for entry in entries.iter().rev() {
        match entry.envelope().kind {
            Kind::Turn if counted.is_none() => {
                let Content::Turn(turn) = Content::of(entry) else { continue };
                counted = turn.usage.filter(|_| turn.unused_summary.is_none());
            }
            Kind::Message if counted.is_some() => {
                let Content::Message(message) = Content::of(entry) else { continue };
                if message.role == Role::Assistant {
                    return counted.map(|usage| (usage, entry.id()));
                }
            }
            // This entry only shortens results. Those were in no answered request, so the count still holds.
            Kind::Prune => match Content::of(entry) {
                Content::Prune(prune) if prune.results.is_empty() => {}
                _ => return None,
            },
            Kind::Compacted | Kind::Uncompacted | Kind::Branch | Kind::Context => return None,
            _ => {}
        }
    }
    None
}

impl Worker {
    /// The price of the model that answers, if it is known.
    #[must_use]
    pub fn price(&self) -> Option<Price> {
        price_of(&*self.provider)
    }

    /// The cost of the turn so far; `None` if the price of one of its models is not known.
    pub(super) fn cost(&self, running: &TurnInProgress<'_>) -> Option<Dollars> {
        let answers = self.price()?.of(&running.usage);
        (!running.summaries.is_unpriced).then(|| answers + running.summaries.cost)
    }

    /// The budget that is left to the turn.
    pub(super) fn budget(&self, running: &TurnInProgress<'_>) -> Budget {
        let Limits { tokens, cost, .. } = self.settings.limits;
        let answers = self.price().map_or_else(Dollars::default, |price| price.of(&running.usage));
        Budget {
            tokens,
            cost,
            spent_tokens: running.total_usage().total(),
            spent: answers + running.summaries.cost,
        }
    }

    /// The limit that the next request would exceed, if any. Tokens are counted only if there is a limit.
    pub(super) fn limit_ahead(&mut self, running: &TurnInProgress<'_>) -> Option<Ending> {
        let budget = self.budget(running);
        if budget.is_unlimited() {
            return None;
        }
        let next = self.next_request(running);
        budget.crossed_by(&next, self.price()).map(Ending::Limit)
    }

    /// The limits for a task that this turn delegates: what is left of its own limits.
    pub(super) fn limits_left(&self, running: &TurnInProgress<'_>) -> Limits {
        let limits = self.settings.limits.clone();
        let Budget { spent_tokens, spent, .. } = self.budget(running);
        Limits {
            tokens: limits.tokens.map(|limit| limit.saturating_sub(spent_tokens)),
            cost: limits.cost.map(|limit| limit - spent),
            ..limits
        }
    }

    /// Estimates the tokens of the next request: those of the last request and its answer, and of all later messages. The next
    /// answer is expected to be as long as the last one in this turn.
    ///
    /// The provider's recorded counts are more reliable than our own. We count everything here only if the provider counted
    /// nothing, or if the view no longer begins with the last request.
    fn next_request(&mut self, running: &TurnInProgress<'_>) -> TokenUsage {
        self.composer.read(&self.conversation);
        self.counter();
        let Some((last, answer)) = last_counted(self.conversation.entries(), running.unrecorded) else {
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

    /// Our own count and the provider's count of the last request, if the messages shown now begin with it.
    pub(super) fn last_reported(&mut self) -> Option<(u64, u64)> {
        let (last, answer) = last_counted(self.conversation.entries(), None)?;
        let sent =
            self.count_messages(|entries| 0..entries.iter().position(|entry| *entry == answer).unwrap_or(0));
        (sent > 0).then(|| (sent.saturating_add(self.count_context()), last.input))
    }

    /// The counter for the model that answers, exact if there is a tokenizer for it.
    fn whole_counter(&self) -> TokenCounter {
        TokenCounter::for_model(&self.provider.endpoint().model).showing(self.settings.limits.tool.shown)
    }

    /// The counter for the model that answers, which the ledger uses from now on. It only estimates if everything certainly fits
    /// into the window, or if the window is not known.
    pub(super) fn counter(&mut self) -> TokenCounter {
        let counter = self.whole_counter();
        let counter = match self.window() {
            Some(window) => {
                let (messages, entries) = self.composer.messages();
                let walk = self.composer.walk();
                let (list, measured, most) = &mut self.measured;
                if *list != self.composer.lists() || *measured > messages.len() {
                    (*list, *measured, *most) = (self.composer.lists(), 0, 0);
                }
                let at_most = |(entry, message): (&EntryId, &Arc<Message>)| {
                    let unread = walk.unread(*entry).map(|unread| counter.unread(unread).most_tokens);
                    unread.unwrap_or_else(|| counter.most_sent(message))
                };
                // Messages that are far too long are not all measured.
                for new in entries.iter().zip(messages).skip(*measured) {
                    if TokenCounter::is_far_above(*most, window) {
                        break;
                    }
                    *most += at_most(new);
                    *measured += 1;
                }
                counter.near(*most, window)
            }
            None => counter.estimating(),
        };
        self.ledger.set_counter(counter);
        counter
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

    /// The tokens of the messages in a range, which `chosen` selects by their entries.
    pub(super) fn count_messages(&mut self, chosen: impl FnOnce(&[EntryId]) -> Range<usize>) -> u64 {
        let (messages, entries) = self.composer.messages();
        let chosen = chosen(entries);
        let (messages, entries) = (&messages[chosen.clone()], &entries[chosen]);
        entries.iter().zip(messages).map(|(entry, message)| self.ledger.message(*entry, message)).sum()
    }
}
