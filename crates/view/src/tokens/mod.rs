//! Counts the tokens of texts and messages: exactly for OpenAI's models, by an estimate for all others.
//!
//! `estimate.rs` estimates by script; `exact.rs` is the tokenizer, which the feature `tokenizer` adds. Its vocabulary is loaded at
//! the first exact count: see [`TokenCounter::near`].

mod estimate;
#[cfg(feature = "tokenizer")]
mod exact;

use hashbrown::HashMap;
use rejoin_record::{Block, BlockKind, EntryId, Message, Text, UnreadResult};

use crate::{excerpt::ends, sound::arguments_in_brief};

/// Counts tokens for one model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TokenCounter {
    /// The tokenizer of the model, if the model is known and the tokenizer is built in.
    #[cfg(feature = "tokenizer")]
    encoding: Option<exact::Encoding>,
    /// The factor that counts are multiplied by.
    factor: f64,
    /// The most bytes of a result's text that a request has; `None` if results are sent whole.
    shown: Option<usize>,
}

/// The most bytes per token in texts that people and programs write. Only a few texts, such as long lines of blanks, have longer
/// tokens.
const FAR: u64 = 16;

/// The tokens of a message in addition to those of its text.
const MESSAGE: u64 = 4;

/// The tokens of an image or a document. Its size in pixels or pages is not known here.
const MEDIUM: u64 = 1_500;

/// The tokens of the note in a result without its middle, and its bytes.
const NOTE: (u64, u64) = (90, 400);

/// The estimate fits OpenAI's tokenizers. Those of other makers need up to a third more tokens for the same text.
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
            shown: None,
        }
    }

    /// A counter for requests in which each text of a result has at most `bytes`: longer ones lose their middle before they are
    /// sent.
    #[must_use]
    pub fn showing(self, bytes: usize) -> Self {
        Self { shown: Some(bytes), ..self }
    }

    /// Whether counts of text are exact and not estimated.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        #[cfg(feature = "tokenizer")]
        return self.encoding.is_some();
        #[cfg(not(feature = "tokenizer"))]
        false
    }

    /// The counter for comparing messages with a budget, if they can have at most `most` tokens: this one, or one that only
    /// estimates if the difference does not matter, because the messages certainly fit or are far too long.
    ///
    /// Loading a vocabulary takes a tenth of a second. A process that sends one short message should not wait for it.
    #[must_use]
    pub fn near(&self, most: u64, budget: u64) -> Self {
        let is_far = most < budget || Self::is_far_above(most, budget);
        if is_far { self.estimating() } else { *self }
    }

    /// Whether messages that can have at most `most` tokens are certainly far too long for a budget.
    #[must_use]
    pub fn is_far_above(most: u64, budget: u64) -> bool {
        most / FAR > budget
    }

    /// The most tokens that a message can have with any tokenizer: a token is at least one byte.
    #[must_use]
    pub fn most(message: &Message) -> u64 {
        plain_message(message, Measure::Bytes, None)
    }

    /// The most tokens that a request can have for a message, with any tokenizer.
    #[must_use]
    pub fn most_sent(&self, message: &Message) -> u64 {
        plain_message(message, Measure::Bytes, self.shown)
    }

    /// How many bytes of a result's text a request has, without the note in the middle.
    pub(crate) fn bytes_sent(&self, text: &Text) -> usize {
        text.len().min(self.shown.unwrap_or(usize::MAX))
    }

    /// A counter for the same model that only estimates.
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
        self.scaled(plain_block(block, Measure::Tokens(&|text| self.plain_text(text)), self.shown))
    }

    /// The tokens of the only block of a message whose content was not read.
    pub(crate) fn unread_block(&self, unread: UnreadResult) -> u64 {
        self.scaled(self.unread(unread).tokens.saturating_sub(MESSAGE))
    }

    /// The known facts about a result that was not read, if it is sent: a long one loses its middle.
    #[must_use]
    pub fn unread(&self, unread: UnreadResult) -> UnreadResult {
        match self.shown.map(|shown| shown as u64) {
            Some(shown) if unread.bytes > shown => {
                let tokens = unread.tokens as f64 * shown as f64 / unread.bytes as f64;
                UnreadResult {
                    tokens: (tokens.ceil() as u64).saturating_add(NOTE.0),
                    most_tokens: unread.most_tokens.min(shown.saturating_add(NOTE.1)),
                    ..unread
                }
            }
            _ => unread,
        }
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
        plain_message(message, Measure::Tokens(&|text| self.plain_text(text)), self.shown)
    }
}

/// Results shorter than this, in tokens, are no longer than their tombstones.
pub(crate) const SHORT_RESULT: u64 = 60;

/// Whether a message with one result is long enough to be pruned, whichever model counts it. `message` is its estimate.
pub(crate) fn is_worth_pruning(message: u64) -> bool {
    message.saturating_sub(MESSAGE) > SHORT_RESULT
}

/// The estimated tokens of a message, before the factor of a model is applied.
pub(crate) fn estimated(message: &Message) -> u64 {
    plain_message(message, Measure::Tokens(&estimate::tokens), None)
}

/// How a text is measured.
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

    /// Measures a text of a result, of which a request has at most `shown` bytes and a note.
    fn result(self, text: &Text, shown: Option<usize>) -> u64 {
        match (self, shown.filter(|shown| text.len() > *shown)) {
            (_, None) => self.text(text),
            (Self::Bytes, Some(shown)) => shown as u64 + NOTE.1,
            (Self::Tokens(count), Some(shown)) => text.use_once(|text| {
                let (head, tail) = ends(text, shown);
                count(head) + count(tail) + NOTE.0
            }),
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
fn plain_message(message: &Message, measure: Measure<'_>, shown: Option<usize>) -> u64 {
    MESSAGE + message.blocks.iter().map(|block| plain_block(block, measure, shown)).sum::<u64>()
}

fn plain_block(block: &Block, measure: Measure<'_>, shown: Option<usize>) -> u64 {
    match &block.kind {
        BlockKind::Text(text) => measure.text(text),
        BlockKind::Reasoning(reasoning) => measure.text(&reasoning.text),
        BlockKind::ToolCall(call) => {
            MESSAGE + measure.words(&call.name) + measure.words(&arguments_in_brief(&call.arguments))
        }
        BlockKind::ToolResult(result) => {
            let in_result = |block: &Block| match &block.kind {
                BlockKind::Text(text) => measure.result(text, shown),
                _ => plain_block(block, measure, shown),
            };
            MESSAGE + result.content.iter().map(in_result).sum::<u64>()
        }
        BlockKind::Image(_) | BlockKind::Document(_) => MEDIUM,
        BlockKind::Opaque(opaque) => measure.words(opaque.raw.as_str()),
    }
}

/// The ratio between a provider's counts and those of a [`TokenCounter`]: 1 until a request shows a different ratio.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Correction(f64);

/// The limits of a correction for estimates. If a provider also counts other things, such as images or its own instructions, texts
/// must not seem tiny or huge.
const ESTIMATE_BOUNDS: (f64, f64) = (0.6, 3.0);

/// The limits of a correction for exact counts, which may miss only the tokens around the texts.
const EXACT_BOUNDS: (f64, f64) = (0.9, 1.5);

impl Correction {
    /// The correction, within its limits, for a request that both a counter and its provider have counted. `None` if one of them
    /// counted nothing.
    #[must_use]
    pub fn learned(counter: &TokenCounter, counted: u64, reported: u64) -> Option<Self> {
        let (least, most) = if counter.is_exact() { EXACT_BOUNDS } else { ESTIMATE_BOUNDS };
        (counted > 0 && reported > 0).then(|| Self((reported as f64 / counted as f64).clamp(least, most)))
    }

    /// The tokens that the provider will count for this count.
    #[must_use]
    pub fn provider_tokens(self, counted: u64) -> u64 {
        (counted as f64 * self.0).ceil() as u64
    }

    /// The largest count for which the provider counts at most this many tokens.
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

/// The prefixes of OpenAI's model names, with the tokenizer of each. The longest matching prefix counts.
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

/// The name of the tokenizer of one of OpenAI's models. A maker's name before a slash and the mark of a fine-tuned model are
/// ignored.
fn tokenizer(model: &str) -> Option<&'static str> {
    let name = model.rsplit('/').next().unwrap_or(model);
    let name = name.strip_prefix("ft:").unwrap_or(name);
    let fits = OPENAI.iter().filter(|(prefix, _)| name.starts_with(prefix));
    fits.max_by_key(|(prefix, _)| prefix.len()).map(|(_, tokenizer)| *tokenizer)
}

fn is_of_openai(model: &str) -> bool {
    tokenizer(model).is_some()
}

/// The token counts of a conversation's messages, so that each is counted only once. All of it can be computed again from the
/// record.
#[derive(Debug, Clone)]
pub struct TokenLedger {
    counter: TokenCounter,
    /// The counts before the factor is applied, so that a different factor needs no new counts.
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

    /// Sets the counter. Messages are counted again only if it uses a different tokenizer.
    pub fn set_counter(&mut self, counter: TokenCounter) {
        if (TokenCounter { factor: 1.0, ..counter }) != (TokenCounter { factor: 1.0, ..self.counter }) {
            self.counts.clear();
        }
        self.counter = counter;
    }

    /// The tokens of the message that an entry shows. The message must be the same on each call: if a view now shows the entry
    /// differently, [`forget`](Self::forget) it first.
    pub fn message(&mut self, entry: EntryId, message: &Message) -> u64 {
        let counter = self.counter;
        let plain = *self.counts.entry(entry).or_insert_with(|| counter.plain_message(message));
        counter.scaled(plain)
    }

    /// Takes over estimates from an earlier count, unless the counter uses a tokenizer. Room is reserved for about `messages`
    /// counts.
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
