//! The dialects. Adding one: a folder, a `mod` line in `wire/mod.rs`, and a variant and a line here.

use std::{fmt, str::FromStr, sync::Arc};

use rejoin_view::{Rule, SoundView};

use super::{
    Encoded, TooLarge, anthropic, bedrock, gemini, mistral, ollama, openai_chat, openai_responses,
    outline::{Encode, Outline},
    stream::{Received, StreamDecoder},
};
use crate::convert::{Settings, Target};

/// What a dialect can do.
pub trait Wire: Sync {
    /// Its name.
    fn name(&self) -> &'static str;
    /// Who speaks it, for messages to people.
    fn provider(&self) -> &'static str;
    /// Turns a sound view into a request body.
    ///
    /// # Errors
    /// Only for size: the provider takes no body, list or text this large.
    fn encode(&self, view: &SoundView, target: &Target<'_>) -> Result<Encoded, TooLarge> {
        let mut encoder = self.encoder(&Settings::of(target), view);
        encoder.changed_from(view.first_change());
        view.items().enumerate().for_each(|(place, item)| encoder.item(place, item));
        encoder.finish(view).map(Outline::into_encoded)
    }
    /// An encoder that has taken nothing yet, for views that begin as this one does.
    fn encoder(&self, settings: &Arc<Settings>, view: &SoundView) -> Box<dyn Encode>;
    /// A decoder of one response, whether it streams or comes as a whole.
    fn decoder(&self) -> Box<dyn StreamDecoder>;
    /// Decodes a response that is here already.
    fn decode(&self, response: &[u8]) -> Received {
        let mut decoder = self.decoder();
        decoder.feed(response, &mut Vec::new());
        decoder.finish()
    }
    /// The provider's own words for what a rule is about, with `{…}` where it names ids and indexes.
    fn answer(&self, rule: Rule) -> Option<&'static str>;
}

/// A provider dialect: the shape of a request body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Dialect {
    /// OpenAI Chat Completions and the many services that speak it.
    OpenAiChat,
    /// OpenAI Responses.
    OpenAiResponses,
    /// Anthropic Messages.
    Anthropic,
    /// Google Gemini, `generateContent`.
    Gemini,
    /// Ollama, `/api/chat`.
    Ollama,
    /// Mistral's own API.
    Mistral,
    /// AWS Bedrock, Converse.
    Bedrock,
}

const REGISTRY: &[(Dialect, &dyn Wire)] = &[
    (Dialect::OpenAiChat, &openai_chat::OpenAiChat),
    (Dialect::OpenAiResponses, &openai_responses::OpenAiResponses),
    (Dialect::Anthropic, &anthropic::Anthropic),
    (Dialect::Gemini, &gemini::Gemini),
    (Dialect::Ollama, &ollama::Ollama),
    (Dialect::Mistral, &mistral::Mistral),
    (Dialect::Bedrock, &bedrock::Bedrock),
];

impl Dialect {
    /// Every dialect.
    pub fn all() -> impl Iterator<Item = Self> {
        REGISTRY.iter().map(|(dialect, _)| *dialect)
    }

    /// What it can do.
    #[must_use]
    pub fn wire(self) -> &'static dyn Wire {
        REGISTRY
            .iter()
            .find(|(dialect, _)| *dialect == self)
            .expect("BUG: every dialect is in the registry")
            .1
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.wire().name()
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// No dialect has that name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a dialect")]
pub struct NoSuchDialect(pub String);

impl FromStr for Dialect {
    type Err = NoSuchDialect;
    fn from_str(name: &str) -> Result<Self, NoSuchDialect> {
        Self::all().find(|dialect| dialect.name() == name).ok_or_else(|| NoSuchDialect(name.to_owned()))
    }
}
