//! How many tokens texts and messages take: exactly for OpenAI's models, estimated for all others.
//!
//! `estimate.rs` is the estimate by script, `exact.rs` the tokenizer, which the feature `tokenizer` adds. Its vocabulary is loaded
//! when something is first counted exactly: see [`TokenCounter::near`].

mod estimate;
#[cfg(feature = "tokenizer")]
mod exact;

use hashbrown::HashMap;
use rejoin_record::{Block, BlockKind, EntryId, Message, Text};

use crate::sound::arguments_in_brief;

/// Counts tokens for one model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TokenCounter {
    /// The tokenizer of the model, if it is known and was built in.
    #[cfg(feature = "tokenizer")]
    encoding: Option<exact::Encoding>,
    /// The factor that counts are multiplied by.
    factor: f64,
}

/// The bytes of a token, at the very most, in texts that people and programs write. Only a few texts, such as long lines of blanks, have
/// longer ones.
const FAR: u64 = 16;

/// A message takes a few tokens besides its text.
const MESSAGE: u64 = 4;

/// The tokens of a picture or a document. Its size in pixels or pages is not known here.
const MEDIUM: u64 = 1_500;

/// The estimate is made for OpenAI's tokenizers. Those of other makers take more tokens for the same text, up to a third more.
const OTHER_MAKERS: f64 = 1.15;

impl TokenCounter {
    /// The counter for a model, by its name.
    #[must_use]
    pub fn for_model(model: &str) -> Self {
        let of_openai = is_of_openai(model);
        Self {
            #[cfg(feature = "tokenizer")]
            encoding: exact::Encoding::of(model),
            factor: if of_openai { 1.0 } else { OTHER_MAKERS },
        }
    }

    /// Whether counts of text are exact, not estimated.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        #[cfg(feature = "tokenizer")]
        return self.encoding.is_some();
        #[cfg(not(feature = "tokenizer"))]
        false
    }

    /// The counter to compare messages with a budget, given the most tokens that they can have: this one, or one that only estimates
    /// because it makes no difference. Then they certainly fit, or are too long by far.
    ///
    /// Loading a vocabulary takes a tenth of a second. A process that sends one short message should not wait for it.
    #[must_use]
    pub fn near(&self, most: u64, budget: u64) -> Self {
        let is_far = most < budget || most / FAR > budget;
        if is_far { self.estimating() } else { *self }
    }

    /// The most tokens that a message can have, by any tokenizer: a token is at least one byte.
    #[must_use]
    pub fn most(message: &Message) -> u64 {
        plain_message(message, Measure::Bytes)
    }

    /// A counter for the same model that estimates.
    #[must_use]
    pub fn estimating(&self) -> Self {
        Self {
            #[cfg(feature = "tokenizer")]
            encoding: None,
            ..*self
        }
    }

    /// The tokens of a text.
    #[must_use]
    pub fn text(&self, text: &str) -> u64 {
        self.scaled(self.plain_text(text))
    }

    /// The tokens of a message.
    #[must_use]
    pub fn message(&self, message: &Message) -> u64 {
        self.scaled(self.plain_message(message))
    }

    /// The tokens of a block.
    #[must_use]
    pub fn block(&self, block: &Block) -> u64 {
        self.scaled(plain_block(block, Measure::Tokens(&|text| self.plain_text(text))))
    }

    /// The tokens of the only block of a message whose content was not read, from the estimate for the message.
    pub(crate) fn unread_block(&self, message: u64) -> u64 {
        self.scaled(message.saturating_sub(MESSAGE))
    }

    /// The tokens of a tool's declaration: its name, its description and the schema of its parameters.
    #[must_use]
    pub fn tool(&self, parts: [&str; 3]) -> u64 {
        self.scaled(MESSAGE + parts.iter().map(|part| self.plain_text(part)).sum::<u64>())
    }

    fn scaled(&self, plain: u64) -> u64 {
        (plain as f64 * self.factor).ceil() as u64
    }

    fn plain_text(&self, text: &str) -> u64 {
        #[cfg(feature = "tokenizer")]
        if let Some(encoding) = self.encoding {
            return encoding.count(text);
        }
        estimate::tokens(text)
    }

    fn plain_message(&self, message: &Message) -> u64 {
        plain_message(message, Measure::Tokens(&|text| self.plain_text(text)))
    }
}

/// A result shorter than this, in tokens, is no longer than its tombstone.
pub(crate) const SHORT_RESULT: u64 = 60;

/// Whether a message of one result, by the estimate of its tokens, is long enough to be pruned, whatever model counts it.
pub(crate) fn is_worth_pruning(message: u64) -> bool {
    message.saturating_sub(MESSAGE) > SHORT_RESULT
}

/// An estimate of a message's tokens, before it is multiplied for a model.
pub(crate) fn estimated(message: &Message) -> u64 {
    plain_message(message, Measure::Tokens(&estimate::tokens))
}

/// What is counted of a text.
#[derive(Clone, Copy)]
enum Measure<'m> {
    Bytes,
    Tokens(&'m dyn Fn(&str) -> u64),
}

impl Measure<'_> {
    /// Measures a text that may be long, without keeping it decoded.
    fn text(self, text: &Text) -> u64 {
        match self {
            Self::Bytes => text.len() as u64,
            Self::Tokens(count) => text.use_once(count),
        }
    }

    fn words(self, words: &str) -> u64 {
        match self {
            Self::Bytes => words.len() as u64,
            Self::Tokens(count) => count(words),
        }
    }
}

/// Counts a message.
fn plain_message(message: &Message, measure: Measure<'_>) -> u64 {
    MESSAGE + message.blocks.iter().map(|block| plain_block(block, measure)).sum::<u64>()
}

fn plain_block(block: &Block, measure: Measure<'_>) -> u64 {
    match &block.kind {
        BlockKind::Text(text) => measure.text(text),
        BlockKind::Reasoning(reasoning) => measure.text(&reasoning.text),
        BlockKind::ToolCall(call) => {
            MESSAGE + measure.words(&call.name) + measure.words(&arguments_in_brief(&call.arguments))
        }
        BlockKind::ToolResult(result) => {
            MESSAGE + result.content.iter().map(|block| plain_block(block, measure)).sum::<u64>()
        }
        BlockKind::Image(_) | BlockKind::Document(_) => MEDIUM,
        BlockKind::Opaque(opaque) => measure.words(opaque.raw.as_str()),
    }
}

/// How many times as many tokens a provider counts as a [`TokenCounter`] does: 1 until a request shows something else.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Correction(f64);

/// How far reported usage may correct an estimate. A provider that counts something else entirely, such as pictures or its own
/// instructions, must not make every text look tiny or huge.
const ESTIMATE_BOUNDS: (f64, f64) = (0.6, 3.0);

/// The same for an exact count, which may miss only what surrounds the texts.
const EXACT_BOUNDS: (f64, f64) = (0.9, 1.5);

impl Correction {
    /// The correction that follows from a request which a counter and its provider have both counted, within bounds. None if one
    /// of them counted nothing.
    #[must_use]
    pub fn learned(counter: &TokenCounter, counted: u64, reported: u64) -> Option<Self> {
        let (least, most) = if counter.is_exact() { EXACT_BOUNDS } else { ESTIMATE_BOUNDS };
        (counted > 0 && reported > 0).then(|| Self((reported as f64 / counted as f64).clamp(least, most)))
    }

    /// The tokens that the provider will count where the counter counts this many.
    #[must_use]
    pub fn provider_tokens(self, counted: u64) -> u64 {
        (counted as f64 * self.0).ceil() as u64
    }

    /// The tokens that the counter may count so that the provider counts at most this many.
    #[must_use]
    pub fn counted_tokens(self, provider: u64) -> u64 {
        (provider as f64 / self.0).floor() as u64
    }
}

impl Default for Correction {
    fn default() -> Self {
        Self(1.0)
    }
}

/// The prefixes of OpenAI's names, and the tokenizer of each; the longest that fits counts.
const OPENAI: &[(&str, &str)] = &[
    ("chatgpt-", "o200k_base"),
    ("codex-", "o200k_base"),
    ("gpt-", "o200k_base"),
    ("gpt-3.5", "cl100k_base"),
    ("gpt-35", "cl100k_base"),
    ("gpt-4", "cl100k_base"),
    ("gpt-4.", "o200k_base"),
    ("gpt-4o", "o200k_base"),
    ("o1", "o200k_base"),
    ("o3", "o200k_base"),
    ("o4", "o200k_base"),
];

/// The name of the tokenizer of one of OpenAI's models. A maker's name before a slash is ignored, as is the mark of a fine-tuned
/// model.
fn tokenizer(model: &str) -> Option<&'static str> {
    let name = model.rsplit('/').next().unwrap_or(model);
    let name = name.strip_prefix("ft:").unwrap_or(name);
    let fits = OPENAI.iter().filter(|(prefix, _)| name.starts_with(prefix));
    fits.max_by_key(|(prefix, _)| prefix.len()).map(|(_, tokenizer)| *tokenizer)
}

fn is_of_openai(model: &str) -> bool {
    tokenizer(model).is_some()
}

/// The counts of a conversation's messages, each counted once. It holds nothing that the record does not.
#[derive(Debug, Clone)]
pub struct TokenLedger {
    counter: TokenCounter,
    /// The counts before they are multiplied, so that another factor does not mean counting again.
    counts: HashMap<EntryId, u64>,
}

impl TokenLedger {
    /// An empty ledger.
    #[must_use]
    pub fn new(counter: TokenCounter) -> Self {
        Self { counter, counts: HashMap::new() }
    }

    /// The counter.
    #[must_use]
    pub fn counter(&self) -> &TokenCounter {
        &self.counter
    }

    /// Sets the counter. Messages are only counted again if it counts by another tokenizer.
    pub fn set_counter(&mut self, counter: TokenCounter) {
        if (TokenCounter { factor: 1.0, ..counter }) != (TokenCounter { factor: 1.0, ..self.counter }) {
            self.counts.clear();
        }
        self.counter = counter;
    }

    /// The tokens of the message that an entry shows. The message must be the same each time: after a change in what a view shows
    /// of an entry, [`forget`](Self::forget) it.
    pub fn message(&mut self, entry: EntryId, message: &Message) -> u64 {
        let counter = self.counter;
        let plain = *self.counts.entry(entry).or_insert_with(|| counter.plain_message(message));
        counter.scaled(plain)
    }

    /// Takes the estimates of messages that were counted before, unless it counts by a tokenizer. There will be counts of about
    /// `messages` messages.
    pub fn know(&mut self, estimates: impl Iterator<Item = (EntryId, u64)>, messages: usize) {
        if !self.counter.is_exact() {
            self.counts.reserve(messages);
            self.counts.extend(estimates);
        }
    }

    /// Forgets the count of an entry.
    pub fn forget(&mut self, entry: EntryId) {
        self.counts.remove(&entry);
    }
}

#[cfg(test)]
mod tests;
