//! Facts about well-known models: window, longest answer, reasoning, price. A model is found by the longest prefix of its name.
//! What a provider itself says takes precedence.
//!
//! A window that is a little wrong only moves the moment of a compaction, so one prefix stands for a whole family. A wrong price
//! is a wrong bill: [`price`] knows exact names and their dated versions only.

use rejoin_record::content::TokenUsage;

/// How a model is asked to reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Thinking {
    /// It does not reason.
    None,
    /// With a budget in tokens.
    Budget,
    /// As much as it decides, guided by an effort.
    Adaptive,
}

/// A family of models.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Family {
    /// The prefix of their names.
    pub prefix: &'static str,
    /// The size of their window in tokens.
    pub window: u64,
    /// The most tokens of an answer.
    pub max_output: u64,
    /// How they reason.
    pub thinking: Thinking,
}

const fn family(prefix: &'static str, window: u64, max_output: u64, thinking: Thinking) -> Family {
    Family { prefix, window, max_output, thinking }
}

use Thinking::{Adaptive, Budget, None as Never};

/// `claude-opus-4-2` and the like are for names that continue with a date in the 2020s.
const FAMILIES: &[Family] = &[
    family("claude-", 200_000, 32_000, Adaptive),
    family("claude-2", 100_000, 4_096, Never),
    family("claude-3-", 200_000, 4_096, Never),
    family("claude-3-5-", 200_000, 8_192, Never),
    family("claude-3-7-", 200_000, 64_000, Budget),
    family("claude-haiku-4-5", 200_000, 64_000, Budget),
    family("claude-opus-4-0", 200_000, 32_000, Budget),
    family("claude-opus-4-1", 200_000, 32_000, Budget),
    family("claude-opus-4-2", 200_000, 32_000, Budget),
    family("claude-opus-4-5", 200_000, 64_000, Budget),
    family("claude-sonnet-4-0", 200_000, 64_000, Budget),
    family("claude-sonnet-4-2", 200_000, 64_000, Budget),
    family("claude-sonnet-4-5", 200_000, 64_000, Budget),
    family("gpt-3.5", 16_385, 4_096, Never),
    family("gpt-4", 8_192, 8_192, Never),
    family("gpt-4-turbo", 128_000, 4_096, Never),
    family("gpt-4.1", 1_047_576, 32_768, Never),
    family("gpt-4o", 128_000, 16_384, Never),
    family("chatgpt-4o", 128_000, 16_384, Never),
    family("gpt-5", 400_000, 128_000, Adaptive),
    family("gpt-5-chat", 128_000, 16_384, Never),
    family("gpt-oss", 131_072, 32_768, Adaptive),
    family("o1", 200_000, 100_000, Adaptive),
    family("o3", 200_000, 100_000, Adaptive),
    family("o4-mini", 200_000, 100_000, Adaptive),
    family("gemini-1.5-flash", 1_048_576, 8_192, Never),
    family("gemini-1.5-pro", 2_097_152, 8_192, Never),
    family("gemini-2.0", 1_048_576, 8_192, Never),
    family("gemini-2.5", 1_048_576, 65_536, Budget),
    family("gemini-3", 1_048_576, 65_536, Adaptive),
    family("mistral-large", 131_072, 131_072, Never),
    family("deepseek-chat", 131_072, 8_192, Never),
    family("deepseek-reasoner", 131_072, 65_536, Adaptive),
    family("grok-3", 131_072, 131_072, Never),
    family("grok-4", 262_144, 262_144, Adaptive),
    family("llama2", 4_096, 4_096, Never),
    family("llama3", 8_192, 8_192, Never),
    family("llama3.1", 131_072, 131_072, Never),
    family("llama3.2", 131_072, 131_072, Never),
    family("llama3.3", 131_072, 131_072, Never),
    family("llama-3.3-70b", 131_072, 32_768, Never),
    family("qwen3", 40_960, 40_960, Adaptive),
];

/// The family of a model, if it is known. A maker's name before a slash is ignored.
pub fn known(model: &str) -> Option<&'static Family> {
    let name = model.rsplit('/').next().unwrap_or(model);
    let fits = FAMILIES.iter().filter(|family| name.starts_with(family.prefix));
    fits.max_by_key(|family| family.prefix.len())
}

/// The window of a model in tokens: the setting, else what the provider told, else what is known about its family.
#[must_use]
pub fn window(model: &str, told: Option<u64>, setting: Option<u64>) -> Option<u64> {
    setting.or(told).or_else(|| known(model).map(|family| family.window))
}

/// The month in which the prices below were noted.
pub const PRICES_NOTED: &str = "2026-08";

/// What a model's tokens cost with an API key, in US dollars per million.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Price {
    /// Tokens of a request. Writing to Anthropic's cache costs a quarter more, but no count says how many were written.
    pub input: f64,
    /// Tokens of a request that the provider had in its cache.
    pub cached: f64,
    /// Tokens of an answer, reasoning included.
    pub output: f64,
}

impl Price {
    /// What is run on the user's own machine.
    pub const FREE: Self = Self { input: 0.0, cached: 0.0, output: 0.0 };

    /// The cost of a request and its answer.
    #[must_use]
    pub fn of(&self, usage: &TokenUsage) -> Dollars {
        let fresh = usage.input.saturating_sub(usage.cached) as f64;
        let sum = fresh * self.input + usage.cached as f64 * self.cached + usage.output as f64 * self.output;
        Dollars::new(sum / 1_000_000.0)
    }
}

/// An amount of US dollars, from 0, in millionths.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Dollars(u64);

impl Dollars {
    /// An amount. What is no number, or below 0, is 0.
    #[must_use]
    pub fn new(amount: f64) -> Self {
        Self((amount * 1_000_000.0).round() as u64)
    }

    /// The amount as a number.
    #[must_use]
    pub fn amount(self) -> f64 {
        self.0 as f64 / 1_000_000.0
    }
}

impl std::ops::Add for Dollars {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

/// Never goes below 0.
impl std::ops::Sub for Dollars {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl std::iter::Sum for Dollars {
    fn sum<I: Iterator<Item = Self>>(amounts: I) -> Self {
        amounts.fold(Self::default(), |sum, amount| sum + amount)
    }
}

/// Cents; below ten cents as many decimals as it takes to see two digits.
impl std::fmt::Display for Dollars {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let decimals = match self.0 {
            0 | 100_000.. => 2,
            10_000.. => 3,
            1_000.. => 4,
            100.. => 5,
            _ => 6,
        };
        write!(f, "${:.decimals$}", self.amount())
    }
}

/// The provider and name of each model, then the price of a million tokens of input, cached input, and output, in dollars. Left out
/// are models that cost more from some size of the request on, and those whose price changes on a known date.
const PRICES: &str = include_str!("prices.txt");

/// The price of a model, if it is known: only at the provider's own address, and only under its own name, perhaps with a date
/// after it. `base_url` is the address that was
/// given in place of the provider's own. With a subscription in place of a key, this is what the same tokens cost with one.
#[must_use]
pub fn price(provider: &str, model: &str, base_url: Option<&str>) -> Option<Price> {
    if provider == super::offline::NAME {
        return Some(Price::FREE);
    }
    let is_listed = |row: &(&str, &str, Price)| {
        row.0 == provider && model.strip_prefix(row.1).is_some_and(is_version) && base_url.is_none()
    };
    PRICES.lines().filter_map(price_row).find(is_listed).map(|(_, _, price)| price)
}

/// Reads a line of [`PRICES`].
fn price_row(line: &str) -> Option<(&str, &str, Price)> {
    let mut words = line.split_whitespace();
    let (provider, model) = (words.next()?, words.next()?);
    let mut dollars = || words.next()?.parse().ok();
    Some((provider, model, Price { input: dollars()?, cached: dollars()?, output: dollars()? }))
}

/// Whether this follows a model's name without making it another model: nothing, a date, or `-latest`.
fn is_version(rest: &str) -> bool {
    let digits = rest.bytes().filter(u8::is_ascii_digit).count();
    let is_date = rest.starts_with('-')
        && matches!(digits, 4 | 8)
        && rest.bytes().all(|byte| byte == b'-' || byte.is_ascii_digit());
    rest.is_empty() || rest == "-latest" || is_date
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_beginning_counts() {
        assert_eq!(known("gpt-4o-mini").unwrap().window, 128_000);
        assert_eq!(known("gpt-4-0613").unwrap().window, 8_192);
        assert_eq!(known("anthropic/claude-3-5-haiku-latest").unwrap().max_output, 8_192);
        assert_eq!(known("claude-sonnet-4-20250514").unwrap().thinking, Thinking::Budget);
        assert_eq!(known("claude-opus-9").unwrap().thinking, Thinking::Adaptive);
        assert_eq!(known("somebody-elses"), None);
    }

    #[test]
    fn a_setting_wins_over_what_the_provider_tells_and_that_over_the_table() {
        assert_eq!(window("gpt-4o", Some(64_000), Some(1_000)), Some(1_000));
        assert_eq!(window("gpt-4o", Some(64_000), None), Some(64_000));
        assert_eq!(window("gpt-4o", None, None), Some(128_000));
        assert_eq!(window("somebody-elses", None, None), None);
    }

    #[test]
    fn only_exact_names_have_a_price() {
        let input = |provider, model| price(provider, model, None).map(|price| price.input);
        assert_eq!(input("openai", "gpt-5"), Some(1.25));
        assert_eq!(input("openai", "gpt-5-2025-08-07"), Some(1.25));
        assert_eq!(input("openai", "gpt-4-0613"), Some(30.0));
        assert_eq!(input("openai", "gpt-5-mini"), Some(0.25));
        assert_eq!(input("anthropic", "claude-sonnet-4-20250514"), Some(3.0));
        assert_eq!(input("anthropic", "claude-3-5-haiku-latest"), Some(0.8));
        assert_eq!(input("offline", "tiny"), Some(0.0));
        // Others of the same family, other sellers of the same model, and other addresses.
        assert_eq!(input("openai", "gpt-5-codex-max"), None);
        assert_eq!(input("openai", "gpt-5.9"), None);
        assert_eq!(input("anthropic", "claude-opus-4-9"), None);
        assert_eq!(input("openrouter", "openai/gpt-5"), None);
        assert_eq!(price("openai", "gpt-5", Some("https://example.org")), None);
    }

    #[test]
    fn cached_tokens_cost_less() {
        let price = price("openai", "gpt-5", None).unwrap();
        let usage = TokenUsage { input: 1_000_000, cached: 600_000, output: 100_000, reasoning: 50_000 };
        assert_eq!(price.of(&usage), Dollars::new(0.4 * 1.25 + 0.6 * 0.125 + 0.1 * 10.0));
    }

    #[test]
    fn small_amounts_show_their_digits() {
        let shown = |amount| Dollars::new(amount).to_string();
        assert_eq!(shown(12.345), "$12.35");
        assert_eq!(shown(0.0123), "$0.012");
        assert_eq!(shown(0.00123), "$0.0012");
        assert_eq!(shown(0.000_001), "$0.000001");
        assert_eq!(shown(0.0), "$0.00");
        assert_eq!(shown(f64::NAN), "$0.00");
    }

    #[test]
    fn every_price_can_be_read() {
        assert!(PRICES.lines().all(|line| price_row(line).is_some()));
    }

    #[test]
    fn every_beginning_stands_once() {
        let mut prefixes: Vec<_> = FAMILIES.iter().map(|family| family.prefix).collect();
        prefixes.sort_unstable();
        assert!(prefixes.windows(2).all(|pair| pair[0] != pair[1]));
    }
}
