//! Versions of Anthropic's models, read from their names: some rules depend on the version.

/// A model's version, such as 4.5 of `claude-sonnet-4-5-20250929`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Version(u64, u64);

impl Version {
    /// The version in a model's name, if there is one.
    pub fn of(model: &str) -> Option<Self> {
        let (_, name) = model.rsplit_once("claude")?;
        // Larger numbers are dates; everything after `@` or `:` is the platform's.
        let name = name.split(['@', ':']).next().unwrap_or_default();
        let mut numbers =
            name.split(['-', '.', '_']).filter_map(|word| word.parse().ok()).filter(|n| *n < 1000);
        Some(Self(numbers.next()?, numbers.next().unwrap_or(0)))
    }

    /// Whether the model can continue an assistant message at the end.
    pub fn takes_prefill(self) -> bool {
        self < Self(4, 6)
    }

    /// Whether the list of messages may contain system messages.
    pub fn takes_system_messages(self) -> bool {
        self >= Self(4, 8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_names_of_every_platform() {
        for (model, version) in [
            ("claude-sonnet-4-5-20250929", Some(Version(4, 5))),
            ("claude-sonnet-4-20250514", Some(Version(4, 0))),
            ("claude-3-5-sonnet-20241022", Some(Version(3, 5))),
            ("claude-3-opus-latest", Some(Version(3, 0))),
            ("anthropic/claude-opus-4.8", Some(Version(4, 8))),
            ("us.anthropic.claude-opus-4-1-20250805-v1:0", Some(Version(4, 1))),
            ("claude-opus-4-8@20260401", Some(Version(4, 8))),
            ("claude-fable-5-1", Some(Version(5, 1))),
            ("claude-test", None),
            ("gpt-5", None),
            ("", None),
        ] {
            assert_eq!(Version::of(model), version, "{model}");
        }
    }
}
