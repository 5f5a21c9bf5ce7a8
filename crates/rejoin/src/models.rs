//! Facts about models: from their provider's list, else from the built-in table.

use rejoin_engine::provider::{Model, catalogue};
use rejoin_record::json::{Object, quoted};

/// Facts about a model.
#[derive(Debug)]
pub struct ModelFacts {
    /// The model's name in requests.
    pub id: String,
    /// Its name for people, if that differs.
    pub name: Option<String>,
    /// The size of its window; `None` if it is not known.
    pub window: Option<TokenCount>,
    /// The longest answer; `None` if it is not known.
    pub max_output: Option<TokenCount>,
    /// The provider that lists the model; `None` if no provider was asked, or none lists it.
    pub provider: Option<String>,
}

/// A number of tokens, and its source.
#[derive(Debug, Clone, Copy)]
pub struct TokenCount {
    /// The number.
    pub tokens: u64,
    /// Whether it comes from the built-in table, because the provider does not state it.
    pub from_table: bool,
}

impl ModelFacts {
    /// A model that a provider lists.
    #[must_use]
    pub fn listed(provider: &str, model: Model) -> Self {
        let known = catalogue::known(&model.id);
        let count = |told: Option<u64>, known: Option<u64>| {
            let from_table = told.is_none();
            told.or(known).map(|tokens| TokenCount { tokens, from_table })
        };
        Self {
            name: model.name,
            window: count(model.window, known.map(|family| family.window)),
            max_output: count(model.max_output, known.map(|family| family.max_output)),
            provider: Some(provider.to_owned()),
            id: model.id,
        }
    }

    /// A model that the built-in table knows.
    #[must_use]
    pub fn known(id: &str) -> Option<Self> {
        catalogue::known(id)?;
        let unlisted = Model { id: id.to_owned(), name: None, window: None, max_output: None };
        Some(Self { provider: None, ..Self::listed("", unlisted) })
    }

    /// As a JSON object.
    #[must_use]
    pub fn to_json(&self) -> String {
        let facts = [("window", self.window), ("max_output", self.max_output)];
        let facts: Vec<_> = facts.into_iter().filter_map(|(name, fact)| Some((name, fact?))).collect();
        let object = Object::new()
            .text("id", &self.id)
            .text_or_null("provider", self.provider.as_deref())
            .text_or_null("name", self.name.as_deref());
        let object = facts.iter().fold(object, |object, (name, fact)| object.number(name, fact.tokens));
        let from_table = facts.iter().filter(|(_, fact)| fact.from_table);
        object.list("from_table", from_table.map(|(name, _)| quoted(name))).finish()
    }
}
