//! Facts about well-known models: window, longest answer, reasoning, price. A model is found by the longest matching prefix of its
//! name. Facts from the provider itself take precedence.
//!
//! A slightly wrong window only shifts the time of a compaction, so one prefix covers a whole family. A wrong price makes a wrong
//! bill, so [`price`] knows only exact names and their dated versions.

use rejoin_formats::wire::settings::Thinking;
use rejoin_record::content::TokenUsage;

/// A family of models.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Family {
    /// The prefix of the models' names.
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

/// Prefixes such as `claude-opus-4-2` match names that continue with a date in the 2020s.
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

/// The window of a model in tokens: from the setting, else from the provider (`told`), else from its family.
#[must_use]
pub fn window(model: &str, told: Option<u64>, setting: Option<u64>) -> Option<u64> {
    setting.or(told).or_else(|| known(model).map(|family| family.window))
}

/// The month in which the prices below were noted.
pub const PRICES_NOTED: &str = "2026-08";

/// What a model's tokens cost with an API key, in US dollars per million.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Price {
    /// Tokens of a request. Writing to Anthropic's cache costs a quarter more, but no token count says how many were written.
    pub input: f64,
    /// Tokens of a request that the provider had in its cache.
    pub cached: f64,
    /// Tokens of an answer, reasoning included.
    pub output: f64,
}

impl Price {
    /// The price of models on the user's own machine.
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
    /// An amount. NaN and negative numbers become 0.
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

/// The difference, or 0 if it would be negative.
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

/// Shows cents; amounts below ten cents get as many decimals as two significant digits need.
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

/// Each line has the provider and name of a model, then the prices of a million tokens of input, cached input and output, in
/// dollars. Models that cost more above some request size, or whose price changes on a known date, are left out.
const PRICES: &str = include_str!("prices.txt");

/// The price of a model, if it is known. Only the provider's own address and the model's exact name count; a date may follow the
/// name. `base_url` is the address that replaces the provider's own, if any. With a subscription, this is the price that the same
/// tokens have with a key.
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

/// Whether the rest of a name after a known model's name still means that model: nothing, a date, or `-latest`.
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
        // Other models of the family, other sellers of the same model, and other addresses have no price.
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
