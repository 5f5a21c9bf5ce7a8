//! Statistics of conversations: turns, requests, tokens and money, tools, repairs, prunes and compactions.
//!
//! Everything is folded from the entries of the record. An entry that several conversations share, because one is a fork of the
//! other, counts once. `shape.rs` has the JSON.

mod shape;

use std::collections::{BTreeMap, HashSet};

use rejoin_engine::{
    CallKey, CallRecord, CallStatus, ProviderChoice, Recorded,
    calls::calls,
    provider::catalogue::{self, Dollars, Price},
    time_of,
    turn::is_synthetic,
};
use rejoin_record::{
    Content, Entry, EntryId, Message, Role, Timestamp,
    content::{TokenUsage, TurnState},
};
use rejoin_view::{Finding, OnBroken, repair};
pub use shape::By;

/// The name of a model, or a provider, that the record does not name.
const UNKNOWN: &str = "unknown";

/// The statistics of one conversation or several.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Stats {
    /// Conversations with at least one entry that counts.
    pub conversations: u64,
    /// Messages of people.
    pub turns: u64,
    /// Requests, summaries included.
    pub requests: u64,
    /// The tokens of all requests that a provider counted, and what they cost.
    pub spent: Spent,
    /// Calls of tools.
    pub calls: Calls,
    /// Problems that are repaired in what a model sees now.
    pub repairs: u64,
    /// Results that were pruned.
    pub pruned: u64,
    /// Summaries that replaced older messages.
    pub compactions: u64,
    /// By provider and model.
    pub models: BTreeMap<ModelName, Spent>,
    /// By tool.
    pub tools: BTreeMap<String, Calls>,
    /// By day in UTC, such as `2026-08-14`.
    pub days: BTreeMap<String, Spent>,
    /// Repairs by rule.
    pub rules: BTreeMap<&'static str, u64>,
}

/// A provider and its model.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ModelName {
    /// The provider's name.
    pub provider: String,
    /// The model's name.
    pub model: String,
}

impl std::fmt::Display for ModelName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.provider, self.model)
    }
}

/// Tokens and their cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spent {
    /// Requests that a provider counted.
    pub requests: u64,
    /// The tokens of these requests and their answers.
    pub usage: TokenUsage,
    /// The cost of those whose price is known.
    pub cost: Dollars,
    /// Tokens of requests and answers whose price is not known.
    pub unpriced: u64,
}

impl Spent {
    /// The tokens of requests and answers.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        self.usage.total()
    }

    /// The share of the requests' tokens that came from a provider's cache, from 0 to 1; none if there was no request.
    #[must_use]
    pub fn cached_share(&self) -> Option<f64> {
        (self.usage.input > 0).then(|| self.usage.cached as f64 / self.usage.input as f64)
    }

    fn add(&mut self, requests: u64, usage: &TokenUsage, price: Option<Price>) {
        self.requests = self.requests.saturating_add(requests);
        self.usage.add(usage);
        match price {
            Some(price) => self.cost = self.cost + price.of(usage),
            None => self.unpriced = self.unpriced.saturating_add(usage.total()),
        }
    }
}

/// Calls of tools.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Calls {
    /// How many there were.
    pub count: u64,
    /// How many of them failed.
    pub failed: u64,
    /// How long they took in all, in milliseconds.
    pub took_ms: u64,
}

impl Calls {
    fn add(&mut self, call: &CallRecord) {
        self.count += 1;
        self.failed += u64::from(call.status == CallStatus::Failed);
        let took = call.times.latency_ms().and_then(|took| u64::try_from(took).ok());
        self.took_ms = self.took_ms.saturating_add(took.unwrap_or(0));
    }
}

/// Adds up conversations, one after the other.
#[derive(Debug, Default)]
pub struct Tally {
    stats: Stats,
    /// Only entries from this time on count.
    since: Option<Timestamp>,
    /// Entries that were counted.
    seen: HashSet<EntryId>,
}

impl Tally {
    /// Counts entries from a time on; from the beginning if there is none.
    #[must_use]
    pub fn since(since: Option<Timestamp>) -> Self {
        Self { since, ..Self::default() }
    }

    /// Adds a conversation.
    pub fn add(&mut self, recorded: &Recorded) {
        let mut fold = Fold::default();
        let mut counted = false;
        for entry in &recorded.entries {
            let content = Content::of(entry);
            // An entry that is too old to count may still name the model that answers later ones.
            fold.target(&content);
            let counts = self.is_new(entry);
            counted |= counts;
            self.entry(entry, content, &mut fold, counts);
        }
        self.stats.conversations += u64::from(counted);
        // The arguments are not looked at, so any key will do.
        for call in calls(recorded, &CallKey([0; 32])) {
            let in_time = self.since.is_none_or(|since| call.times.started.is_some_and(|time| time >= since));
            if in_time && fold.new_messages.contains(&call.request) {
                self.stats.calls.add(&call);
                self.stats.tools.entry(call.tool.clone()).or_default().add(&call);
            }
        }
        if counted {
            let repaired = repair(&recorded.session.history(), OnBroken::Keep);
            for finding in repaired.findings.iter().filter(|finding| Finding::is_problem(finding)) {
                self.stats.repairs += 1;
                *self.stats.rules.entry(finding.rule.name()).or_default() += 1;
            }
        }
    }

    /// What was added up.
    #[must_use]
    pub fn finish(self) -> Stats {
        self.stats
    }

    /// Whether an entry counts: it is not too old, and no other conversation has counted it. An entry without a known time counts
    /// only if all times do.
    fn is_new(&mut self, entry: &Entry) -> bool {
        let in_time = self.since.is_none_or(|since| time_of(entry).is_some_and(|time| time >= since));
        in_time && self.seen.insert(entry.id())
    }

    fn entry(&mut self, entry: &Entry, content: Content, fold: &mut Fold, counts: bool) {
        match content {
            Content::Message(message) => {
                let asked = message.role == Role::Assistant && !fold.answers_request();
                if counts {
                    fold.new_messages.insert(entry.id());
                    self.stats.turns += u64::from(begins_turn(&message));
                    // Imported answers have no entry that says when the request was sent.
                    self.stats.requests += u64::from(asked);
                }
            }
            Content::Turn(turn) => {
                if turn.state == TurnState::Started {
                    fold.requests_sent += 1;
                    self.stats.requests += u64::from(counts);
                }
                match (turn.usage.filter(|_| counts), &turn.unused_summary) {
                    (Some(usage), Some(unused)) => {
                        let by = fold.summariser(Some(&unused.model));
                        self.summary(entry, by, unused.requests, &usage);
                    }
                    (Some(usage), None) => {
                        self.spend(entry, (fold.model.clone(), fold.price), 1, &usage);
                    }
                    (None, _) => {}
                }
            }
            Content::Compacted(compacted) if counts => {
                self.stats.compactions += 1;
                let Some(usage) = compacted.usage else { return };
                let by = fold.summariser(compacted.model.as_deref());
                self.summary(entry, by, compacted.requests.unwrap_or(1), &usage);
            }
            Content::Prune(prune) if counts => self.stats.pruned += prune.results.len() as u64,
            _ => {}
        }
    }

    /// Counts the requests for a summary, which no other entry tells of.
    fn summary(&mut self, entry: &Entry, by: (ModelName, Option<Price>), requests: u64, usage: &TokenUsage) {
        self.stats.requests = self.stats.requests.saturating_add(requests);
        self.spend(entry, by, requests, usage);
    }

    fn spend(
        &mut self,
        entry: &Entry,
        (model, price): (ModelName, Option<Price>),
        requests: u64,
        usage: &TokenUsage,
    ) {
        self.stats.spent.add(requests, usage, price);
        self.stats.models.entry(model).or_default().add(requests, usage, price);
        if let Some(time) = time_of(entry) {
            let day = time.to_string().chars().take_while(|char| *char != 'T').collect();
            self.stats.days.entry(day).or_default().add(requests, usage, price);
        }
    }
}

/// What earlier entries of a conversation say about later ones.
#[derive(Debug)]
struct Fold {
    model: ModelName,
    base_url: Option<String>,
    price: Option<Price>,
    /// Requests that were sent and not answered yet.
    requests_sent: u64,
    /// The messages that count.
    new_messages: HashSet<EntryId>,
}

impl Default for Fold {
    fn default() -> Self {
        Self {
            model: ModelName { provider: UNKNOWN.to_owned(), model: UNKNOWN.to_owned() },
            base_url: None,
            price: None,
            requests_sent: 0,
            new_messages: HashSet::new(),
        }
    }
}

impl Fold {
    /// Notes which model answers from here on.
    fn target(&mut self, content: &Content) {
        let (provider, model, base_url) = match content {
            Content::Header(header) => (header.provider.as_deref(), header.model.as_deref(), None),
            Content::Context(context) => match ProviderChoice::in_context(context) {
                Some(wanted) => {
                    let ProviderChoice { provider, model, base_url, .. } = wanted;
                    return self.set(provider, model, base_url);
                }
                None => return,
            },
            _ => return,
        };
        self.set(provider.map(str::to_owned), model.map(str::to_owned), base_url);
    }

    fn set(&mut self, provider: Option<String>, model: Option<String>, base_url: Option<String>) {
        let named =
            |name: Option<String>| name.filter(|name| !name.is_empty()).unwrap_or_else(|| UNKNOWN.to_owned());
        self.model = ModelName { provider: named(provider), model: named(model) };
        self.price = catalogue::price(&self.model.provider, &self.model.model, base_url.as_deref());
        self.base_url = base_url;
    }

    /// The model that wrote a summary, and its price.
    fn summariser(&self, by: Option<&str>) -> (ModelName, Option<Price>) {
        match by.filter(|by| *by != self.model.model) {
            None => (self.model.clone(), self.price),
            Some(by) => {
                let model = ModelName { model: by.to_owned(), ..self.model.clone() };
                (model, catalogue::price(&self.model.provider, by, self.base_url.as_deref()))
            }
        }
    }

    /// Whether an answer belongs to a request that was counted when it was sent.
    fn answers_request(&mut self) -> bool {
        let sent = self.requests_sent > 0;
        self.requests_sent = self.requests_sent.saturating_sub(1);
        sent
    }
}

/// Whether a person said it: more than results, and not a message that the engine added.
fn begins_turn(message: &Message) -> bool {
    message.role == Role::User
        && !is_synthetic(message)
        && message.blocks.iter().any(|block| block.as_result().is_none())
}
