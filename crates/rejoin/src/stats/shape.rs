//! Statistics as one JSON object.

use rejoin_record::json::{self, Object};

use super::{Calls, Stats, TokenSpending};
use crate::shape::{dollars, tokens};

/// How the numbers are broken down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grouping {
    /// Provider and model.
    Model,
    /// Tool.
    Tool,
    /// Day in UTC.
    Day,
    /// The rule of a repair.
    Rule,
}

impl Grouping {
    /// Every way.
    pub const ALL: &[Self] = &[Self::Model, Self::Tool, Self::Day, Self::Rule];

    /// The name, as an argument.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Tool => "tool",
            Self::Day => "day",
            Self::Rule => "rule",
        }
    }
}

impl Stats {
    /// The statistics as a JSON object: the totals, and a breakdown for each requested way.
    #[must_use]
    pub fn to_json(&self, ways: &[Grouping]) -> String {
        let totals = Object::new()
            .number("conversations", self.conversations)
            .number("turns", self.turns)
            .number("requests", self.requests);
        let totals = spent(totals, &self.spent)
            .raw("calls", &calls(Object::new(), &self.calls).finish())
            .number("repairs", self.repairs)
            .number("pruned_results", self.pruned)
            .number("compactions", self.compactions);
        ways.iter().fold(totals, |object, way| self.broken_down(object, *way)).finish()
    }

    fn broken_down(&self, object: Object, way: Grouping) -> Object {
        let list = match way {
            Grouping::Model => json::list(self.models.iter().map(|(name, part)| {
                let named = Object::new().text("provider", &name.provider).text("model", &name.model);
                spent(named.number("requests", part.requests), part).finish()
            })),
            Grouping::Tool => json::list(
                self.tools.iter().map(|(name, part)| calls(Object::new().text("tool", name), part).finish()),
            ),
            Grouping::Day => json::list(self.days.iter().map(|(day, part)| {
                spent(Object::new().text("day", day).number("requests", part.requests), part).finish()
            })),
            Grouping::Rule => json::list(
                self.rules
                    .iter()
                    .map(|(rule, count)| Object::new().text("rule", rule).number("count", *count).finish()),
            ),
        };
        object.raw(&format!("{}s", way.name()), &list)
    }
}

fn spent(object: Object, spent: &TokenSpending) -> Object {
    // The cost is known only if some requests were counted and some of their prices are known.
    let cost = (spent.requests > 0 && spent.unpriced < spent.tokens().max(1)).then_some(spent.cost);
    object
        .raw("usage", &tokens(&spent.usage))
        .raw("cost_usd", &dollars(cost))
        .number("unpriced_tokens", spent.unpriced)
}

fn calls(object: Object, calls: &Calls) -> Object {
    object.number("count", calls.count).number("failed", calls.failed).number("took_ms", calls.took_ms)
}
