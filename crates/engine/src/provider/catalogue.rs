//! Facts about well-known models: window, longest answer, reasoning. A model is found by the longest prefix of its name. What a
//! provider itself says takes precedence.

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
    fn every_beginning_stands_once() {
        let mut prefixes: Vec<_> = FAMILIES.iter().map(|family| family.prefix).collect();
        prefixes.sort_unstable();
        assert!(prefixes.windows(2).all(|pair| pair[0] != pair[1]));
    }
}
