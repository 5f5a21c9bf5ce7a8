//! Token counts. Each dialect's descriptor lists the fields that count tokens; this adds them up.

use rejoin_record::{content::TokenUsage, json::Value};

/// Tokens, as the provider counts them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens of the request, including those from the cache.
    pub input: u64,
    /// Tokens of the answer, including reasoning.
    pub output: u64,
    /// Tokens of the request that came from the provider's cache.
    pub cached: u64,
    /// Tokens of the answer that were reasoning.
    pub reasoning: u64,
}

impl Usage {
    /// Adds the tokens of another request. A provider may count as it likes, so this never overflows.
    pub fn add(&mut self, other: Self) {
        self.input = self.input.saturating_add(other.input);
        self.output = self.output.saturating_add(other.output);
        self.cached = self.cached.saturating_add(other.cached);
        self.reasoning = self.reasoning.saturating_add(other.reasoning);
    }
}

impl From<Usage> for TokenUsage {
    fn from(usage: Usage) -> Self {
        let Usage { input, output, cached, reasoning } = usage;
        Self { input, output, cached, reasoning }
    }
}

/// The fields that count tokens. A dot leads into an object.
pub(crate) struct UsageFields {
    /// Fields to add up. Without the first one, there is no count at all.
    pub(crate) input: &'static [&'static str],
    /// Fields to add up.
    pub(crate) output: &'static [&'static str],
    /// Fields of which the first one present counts.
    pub(crate) cached: &'static [&'static str],
    /// Fields of which the first one present counts.
    pub(crate) reasoning: &'static [&'static str],
}

/// The counts so far. A stream may send some at its beginning and others at its end.
#[derive(Default)]
pub(crate) struct Counted(Vec<(&'static str, u64)>);

impl Counted {
    /// Takes the counts of an object, which replace earlier ones.
    pub(crate) fn add(&mut self, fields: &UsageFields, usage: Value<'_>) {
        let names = [fields.input, fields.output, fields.cached, fields.reasoning].concat();
        for name in names {
            let count = name.split('.').try_fold(usage, |holder, name| holder.given(name));
            let Some(count) = count.and_then(Value::as_u64) else { continue };
            match self.0.iter_mut().find(|(known, _)| *known == name) {
                Some((_, known)) => *known = count,
                None => self.0.push((name, count)),
            }
        }
    }

    /// The totals, if tokens were counted.
    pub(crate) fn usage(&self, fields: &UsageFields) -> Option<Usage> {
        let count = |name: &&str| self.0.iter().find(|(known, _)| known == name).map(|(_, count)| *count);
        let sum = |names: &[&str]| names.iter().filter_map(count).fold(0, u64::saturating_add);
        let first = |names: &[&str]| names.iter().find_map(count).unwrap_or(0);
        fields.input.first().and_then(count)?;
        Some(Usage {
            input: sum(fields.input),
            output: sum(fields.output),
            cached: first(fields.cached),
            reasoning: first(fields.reasoning),
        })
    }
}
