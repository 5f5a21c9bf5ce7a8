//! Token counts. Each dialect's descriptor lists the fields that count tokens; this adds them up.

/// Tokens, as the provider counts them.
pub use rejoin_record::content::TokenUsage as Usage;
use rejoin_record::json::Value;

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
