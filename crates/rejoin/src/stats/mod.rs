//! Statistics of conversations: turns, requests, tokens and money, tools, repairs, prunes and compactions.
//!
//! Everything is computed from the entries of the record. An entry that several conversations share, because one is a fork of the
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
    content::{Compacted, TokenUsage, TurnState},
};
use rejoin_view::{Finding, OnBroken, repair};
pub use shape::Grouping;

/// The name for a model or provider that the record does not name.
const UNKNOWN: &str = "unknown";

/// The statistics of one conversation or several.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Stats {
    /// Conversations with at least one counted entry.
    pub conversations: u64,
    /// Messages of people.
    pub turns: u64,
    /// Requests, including those for summaries.
    pub requests: u64,
    /// The tokens of all requests that a provider counted, and their cost.
    pub spent: TokenSpending,
    /// Calls of tools.
    pub calls: Calls,
    /// Faults that are repaired in what a model sees now.
    pub repairs: u64,
    /// Results that were pruned.
    pub pruned: u64,
    /// Summaries that replaced older messages.
    pub compactions: u64,
    /// By provider and model.
    pub models: BTreeMap<ModelName, TokenSpending>,
    /// By tool.
    pub tools: BTreeMap<String, Calls>,
    /// By day in UTC, such as `2026-08-14`.
    pub days: BTreeMap<String, TokenSpending>,
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
pub struct TokenSpending {
    /// Requests that a provider counted.
    pub requests: u64,
    /// The tokens of these requests and their answers.
    pub usage: TokenUsage,
    /// The cost of those whose price is known.
    pub cost: Dollars,
    /// Tokens of requests and answers whose price is not known.
    pub unpriced: u64,
}

impl TokenSpending {
    /// The tokens of requests and answers.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        self.usage.total()
    }

    /// The fraction of the requests' tokens that came from a provider's cache, from 0 to 1; `None` if there was no request.
    #[must_use]
    pub fn cached_share(&self) -> Option<f64> {
        // Some providers do not count cached tokens as part of the request.
        (self.usage.input > 0).then(|| (self.usage.cached as f64 / self.usage.input as f64).min(1.0))
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
    /// The number of calls.
    pub count: u64,
    /// The number of calls that failed.
    pub failed: u64,
    /// Their total time, in milliseconds.
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

/// Adds up conversations, one after another.
#[derive(Debug, Default)]
pub struct Tally {
    stats: Stats,
    /// Only entries from this time on count; `None` for all.
    since: Option<Timestamp>,
    /// The entries that were already counted.
    seen: HashSet<EntryId>,
}

impl Tally {
    /// Counts entries from a time on, or all entries for `None`.
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
            // An entry that is too old to count may still name the model of later answers.
            fold.target(&content);
            let counts = self.is_new(entry);
            counted |= counts;
            self.entry(entry, content, &mut fold, counts);
        }
        self.stats.conversations += u64::from(counted);
        // The hashes of arguments are not used, so any key will do.
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

    /// The sums.
    #[must_use]
    pub fn finish(self) -> Stats {
        self.stats
    }

    /// Whether an entry counts: it is recent enough, and no other conversation has counted it. An entry without a known time counts
    /// only if no time limit is set.
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
                    // Imported answers have no entry that records when the request was sent.
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
                    (None, Some(unused)) if counts => self.requests(unused.requests),
                    (None, _) => {}
                }
            }
            // A pin records the compaction again.
            Content::Compacted(compacted) if fold.repeats_compaction(&compacted) => {}
            Content::Compacted(compacted) if counts => {
                self.stats.compactions += 1;
                let requests = compacted.requests.unwrap_or(1);
                match (compacted.usage, compacted.model.as_deref()) {
                    (Some(usage), model) => self.summary(entry, fold.summariser(model), requests, &usage),
                    // A model wrote it, and its provider counted nothing.
                    (None, Some(_)) => self.requests(requests),
                    (None, None) => {}
                }
            }
            Content::Prune(prune) if counts => self.stats.pruned += prune.results.len() as u64,
            _ => {}
        }
    }

    /// Counts the requests for a summary, which no other entry records.
    fn summary(&mut self, entry: &Entry, by: (ModelName, Option<Price>), requests: u64, usage: &TokenUsage) {
        self.requests(requests);
        self.spend(entry, by, requests, usage);
    }

    fn requests(&mut self, requests: u64) {
        self.stats.requests = self.stats.requests.saturating_add(requests);
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

/// The state that earlier entries of a conversation pass on to later ones.
#[derive(Debug)]
struct Fold {
    model: ModelName,
    base_url: Option<String>,
    price: Option<Price>,
    /// Requests that were sent but not answered yet.
    requests_sent: u64,
    /// The messages that are counted.
    new_messages: HashSet<EntryId>,
    /// The last compaction.
    compacted: Option<Compacted>,
}

impl Default for Fold {
    fn default() -> Self {
        Self {
            model: ModelName { provider: UNKNOWN.to_owned(), model: UNKNOWN.to_owned() },
            base_url: None,
            price: None,
            requests_sent: 0,
            new_messages: HashSet::new(),
            compacted: None,
        }
    }
}

impl Fold {
    /// Records which model answers from here on.
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

    /// Takes a compaction. Returns whether it records the last one again.
    fn repeats_compaction(&mut self, compacted: &Compacted) -> bool {
        let last = self.compacted.replace(compacted.clone());
        last.is_some_and(|last| compacted.repeats(&last))
    }

    /// Whether an answer belongs to a request that was already counted when it was sent.
    fn answers_request(&mut self) -> bool {
        let sent = self.requests_sent > 0;
        self.requests_sent = self.requests_sent.saturating_sub(1);
        sent
    }
}

/// Whether a person wrote the message: it has more than results, and the engine did not add it.
fn begins_turn(message: &Message) -> bool {
    message.role == Role::User
        && !is_synthetic(message)
        && message.blocks.iter().any(|block| block.as_result().is_none())
}
