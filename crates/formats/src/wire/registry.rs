//! The dialects. To add one: a folder with its descriptor, a `mod` line in `wire/mod.rs`, and a variant and a line here.

use std::{borrow::Cow, fmt, str::FromStr, sync::Arc};

use rejoin_record::{Block, Message, json::Value};
use rejoin_view::{Rule, SoundView};

use super::{
    Encoded, TooLarge, anthropic, bedrock, gemini, mistral, ollama, openai_chat, openai_responses,
    outline::{Encode, Outline},
    stream::{Received, StopWords, StreamDecoder},
    usage::UsageFields,
};
use crate::{
    context::{ToolChoice, ToolDeclaration},
    convert::{Settings, Target},
    media::Accepts,
};

/// A dialect's descriptor: every fact about it that code outside its folder needs, and what it can do.
pub struct Wire {
    /// Which one it is.
    pub dialect: Dialect,
    /// Its name.
    pub name: &'static str,
    /// Who speaks it, for messages to people.
    pub provider: &'static str,
    /// The formats of messages whose own items a request repeats byte for byte: its own, and those of agents that store
    /// what it says. None where every message is written from scratch.
    pub repeats: &'static [&'static str],
    /// The names of fields in its request bodies.
    pub fields: Fields,
    /// Whether a body names the model. Where it does not, the address of the request does.
    pub body_names_model: bool,
    /// Whether a request may not end with what the model said.
    pub ends_with_user: bool,
    /// Whether blocks can be marked for the provider's cache.
    pub has_cache_marks: bool,
    /// What a request may have at most.
    pub limits: Limits,
    /// Images and documents that it takes.
    pub media: Accepts,
    /// The spelling of a tool's name. It depends on nothing else, so declarations, history and choice agree.
    pub tool_name: fn(&str) -> Cow<'_, str>,
    /// Which call ids are legal.
    pub legal_id: fn(&str) -> bool,
    /// How long an id is that replaces an illegal one.
    pub id_length: usize,
    /// What an address must have between the host and the path, where people tend to leave it out.
    pub version: Option<&'static str>,
    /// Whether a stream is lines of JSON and not events.
    pub streams_lines: bool,
    /// The names of a message's fields that have no counterpart in other dialects.
    pub other_fields: fn(Value<'_>) -> Vec<String>,
    /// How tools and the tool choice are read.
    pub tools: ToolSyntax,
    /// Where it counts tokens.
    pub(crate) usage: UsageFields,
    /// Its words for why a model stopped.
    pub(crate) stops: StopWords,
    /// An encoder that has taken nothing yet: see [`Wire::encoder`].
    pub encoder: fn(&Arc<Settings>, &SoundView) -> Box<dyn Encode>,
    /// Makes a decoder of one response: see [`Wire::decoder`].
    pub decoder: fn() -> Box<dyn StreamDecoder>,
    /// The provider's own words for what a rule is about: see [`Wire::answer`].
    pub answer: fn(Rule) -> Option<&'static str>,
}

/// The names of fields in a dialect's request bodies.
pub struct Fields {
    /// The list of messages.
    pub messages: &'static str,
    /// The names that the system prompt may stand under; none where it is a message.
    pub system: &'static [&'static str],
    /// The object that the system prompt stands in the field of, where it is not the value itself.
    pub system_parts: Option<&'static str>,
    /// The tools.
    pub tools: &'static str,
    /// The names that the tool choice may stand under.
    pub choice: &'static [&'static str],
    /// The length of an answer, and the field inside it, where it is an object.
    pub max_tokens: (&'static str, Option<&'static str>),
}

impl Fields {
    /// What most dialects call them.
    pub const COMMON: Self = Self {
        messages: "messages",
        system: &[],
        system_parts: None,
        tools: "tools",
        choice: &["tool_choice"],
        max_tokens: ("max_tokens", None),
    };
}

/// Where tools and the tool choice are not written as others write them.
pub struct ToolSyntax {
    /// Whether a tool of type `custom` takes free text.
    pub custom_is_free_text: bool,
    /// Reads a schema as JSON schema, where the dialect has one of its own.
    pub schema: Option<fn(Value<'_>) -> String>,
    /// Reads an element of the list of tools, where it may hold several.
    pub several: Option<fn(Value<'_>) -> Vec<ToolDeclaration>>,
    /// Reads the tool choice.
    pub choice: Option<fn(Value<'_>) -> Option<ToolChoice>>,
}

impl ToolSyntax {
    /// As most dialects write them.
    pub const COMMON: Self = Self { custom_is_free_text: false, schema: None, several: None, choice: None };
}

/// What a request may have at most, and the rule that says so.
pub struct Limits {
    /// Messages.
    pub messages: Option<(&'static str, usize)>,
    /// Tools.
    pub tools: Option<(&'static str, usize)>,
    /// Characters of one text.
    pub text: Option<(&'static str, usize)>,
    /// Bytes of the body.
    pub body: Option<(&'static str, usize)>,
    /// The least that the length of an answer may be limited to.
    pub least_answer: u64,
}

impl Limits {
    /// None.
    pub const NONE: Self = Self { messages: None, tools: None, text: None, body: None, least_answer: 0 };
}

impl Wire {
    /// A tool's name as the dialect spells it.
    #[must_use]
    pub fn spell<'n>(&self, name: &'n str) -> Cow<'n, str> {
        (self.tool_name)(name)
    }

    /// Whether a message was said in this dialect, or to an agent that speaks it, so that its own items can be repeated.
    #[must_use]
    pub fn is_own(&self, message: &Message) -> bool {
        message.native.as_ref().is_some_and(|native| self.repeats.contains(&&*native.format))
    }

    /// The source's own bytes of a block, if they may be sent again.
    #[must_use]
    pub fn own_bytes<'i>(&self, message: &'i Message, block: &'i Block) -> Option<&'i str> {
        if self.is_own(message) && self.media.keeps(block) { message.native_block(block) } else { None }
    }

    /// Whether a message of this very dialect is complete and may be sent again as it is.
    #[must_use]
    pub fn is_regular(&self, message: &Message) -> bool {
        message.native.as_ref().is_some_and(|native| native.regular && &*native.format == self.name)
            && message.blocks.iter().all(|block| self.media.keeps(block))
    }

    /// Turns a sound view into a request body.
    ///
    /// # Errors
    /// Only for size: the provider takes no body, list or text this large.
    pub fn encode(&self, view: &SoundView, target: &Target<'_>) -> Result<Encoded, TooLarge> {
        let mut encoder = self.encoder(&Settings::of(target), view);
        encoder.changed_from(view.first_change());
        view.items().enumerate().for_each(|(place, item)| encoder.item(place, item));
        encoder.finish(view).map(Outline::into_encoded)
    }

    /// An encoder that has taken nothing yet, for views that begin as this one does.
    #[must_use]
    pub fn encoder(&self, settings: &Arc<Settings>, view: &SoundView) -> Box<dyn Encode> {
        (self.encoder)(settings, view)
    }

    /// A decoder of one response, whether it streams or comes as a whole.
    #[must_use]
    pub fn decoder(&self) -> Box<dyn StreamDecoder> {
        (self.decoder)()
    }

    /// Decodes a response that is here already.
    #[must_use]
    pub fn decode(&self, response: &[u8]) -> Received {
        let mut decoder = self.decoder();
        decoder.feed(response, &mut Vec::new());
        decoder.finish()
    }

    /// The provider's own words for what a rule is about, with `{…}` where it names ids and indexes.
    #[must_use]
    pub fn answer(&self, rule: Rule) -> Option<&'static str> {
        (self.answer)(rule)
    }
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

/// The descriptors, in the order of the variants.
static REGISTRY: [&Wire; 7] = [
    &openai_chat::WIRE,
    &openai_responses::WIRE,
    &anthropic::WIRE,
    &gemini::WIRE,
    &ollama::WIRE,
    &mistral::WIRE,
    &bedrock::WIRE,
];

impl Dialect {
    /// Every dialect.
    pub fn all() -> impl Iterator<Item = Self> {
        REGISTRY.iter().map(|wire| wire.dialect)
    }

    /// The strictest one, for whoever has to name one and was told none.
    pub const STRICTEST: Self = Self::Anthropic;

    /// The one whose fields are known where a format is no dialect.
    pub const OF_FILES: Self = Self::OpenAiChat;

    /// The dialect that messages of a format were said in: the format is its name, or that of an agent that speaks it.
    #[must_use]
    pub fn of_format(format: &str) -> Option<Self> {
        Self::all().find(|dialect| dialect.name() == format || dialect.wire().repeats.contains(&format))
    }

    /// Its descriptor.
    #[must_use]
    pub fn wire(self) -> &'static Wire {
        REGISTRY[self as usize]
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.wire().name
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_registry_is_in_the_order_of_the_variants() {
        for (place, dialect) in Dialect::all().enumerate() {
            assert_eq!(dialect as usize, place, "{dialect}");
        }
    }
}
