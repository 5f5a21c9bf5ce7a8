//! How many tokens a response cost: which fields a dialect counts them in is a table in its folder, and this adds them up.

use rejoin_record::json::Value;

/// Tokens, as the provider counts them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Of the request, those from the cache included.
    pub input: u64,
    /// Of the answer, reasoning included.
    pub output: u64,
    /// Of the request, those that came from the provider's cache.
    pub cached: u64,
    /// Of the answer, those that were reasoning.
    pub reasoning: u64,
}

/// The fields in which a dialect counts tokens. A dot leads into an object.
pub(crate) struct UsageFields {
    /// Added up. Without the first of them nothing was counted.
    pub(crate) input: &'static [&'static str],
    /// Added up.
    pub(crate) output: &'static [&'static str],
    /// The first that is there counts.
    pub(crate) cached: &'static [&'static str],
    /// The first that is there counts.
    pub(crate) reasoning: &'static [&'static str],
}

/// The counts of a response so far. A stream may say some at its beginning and others at its end.
#[derive(Default)]
pub(crate) struct Counted(Vec<(&'static str, u64)>);

impl Counted {
    /// Takes the counts of an object; what it counts again replaces what was said before.
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

    /// The tokens in all, if they were counted.
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
