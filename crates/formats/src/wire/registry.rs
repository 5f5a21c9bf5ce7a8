//! The list of dialects. To add one, write a folder with its descriptor, add a `mod` line to `wire/mod.rs`, and a variant and
//! a line here.

use std::{borrow::Cow, fmt, str::FromStr, sync::Arc};

use rejoin_record::{Block, Message, json::Value};
use rejoin_view::{Rule, SoundView};

use super::{
    Encoded, TooLarge, anthropic, bedrock, gemini, mistral, ollama, openai_chat, openai_responses,
    outline::{Encode, Outline},
    plain::{PlainList, Turn},
    settings::{RequestSettings, SettingFields},
    stream::{Received, StopWords, StreamDecoder},
    usage::UsageFields,
};
use crate::{
    context::{ToolChoice, ToolDeclaration},
    convert::Target,
    media::AcceptedMedia,
};

/// The descriptor of a dialect: everything that code outside its folder needs to know about it.
pub struct Wire {
    /// The dialect that it describes.
    pub dialect: Dialect,
    /// Name in settings, on the command line and in the record.
    pub name: &'static str,
    /// The provider's name in messages to the user.
    pub provider: &'static str,
    /// Formats whose messages are repeated byte for byte: the dialect's own, and those of agents that store its items. Empty
    /// where every message is written from scratch.
    pub repeats: &'static [&'static str],
    /// Field names in request bodies.
    pub fields: Fields,
    /// Whether the body names the model; otherwise the address of the request does.
    pub body_names_model: bool,
    /// Whether the last message must not be the model's.
    pub ends_with_user: bool,
    /// Whether blocks can be marked for the provider's cache.
    pub has_cache_marks: bool,
    /// Size limits of a request.
    pub limits: RequestLimits,
    /// Images and documents that the provider accepts.
    pub media: AcceptedMedia,
    /// Spells a tool's name. The result depends on nothing else, so declarations, history and tool choice agree.
    pub tool_name: fn(&str) -> Cow<'_, str>,
    /// Whether a call id is legal.
    pub legal_id: fn(&str) -> bool,
    /// Length of the ids that replace illegal ones.
    pub id_length: usize,
    /// Path segment between host and path, where users tend to leave it out.
    pub version: Option<&'static str>,
    /// Whether a stream consists of lines of JSON instead of events.
    pub streams_lines: bool,
    /// Lists the fields of a message that have no counterpart in other dialects.
    pub other_fields: fn(Value<'_>) -> Vec<String>,
    /// How tools and the tool choice are read.
    pub tools: ToolSyntax,
    /// Fields that count tokens.
    pub(crate) usage: UsageFields,
    /// The provider's words for why a model stopped.
    pub(crate) stops: StopWords,
    /// Writes calls and results without any repair; none if they are not written here. Comparing an agent with the real program
    /// needs it.
    pub(crate) plain: Option<fn(&Turn, &mut PlainList)>,
    /// Whether an item of a request's list means nothing without the one before it, because it answers a call or is one call of
    /// several.
    pub continues: fn(before: Value<'_>, item: Value<'_>) -> bool,
    /// Begins to encode a view, and every view that starts with the same items.
    pub encoder: fn(&Arc<Target>, &SoundView) -> Box<dyn Encode>,
    /// Whether an item of a list of messages can only be one of this dialect.
    pub own_item: fn(Value<'_>) -> bool,
    /// What tells that a request, or a bare list of its messages, is one of this dialect, where requests of it are read as another
    /// dialect's or not at all: a field, or words for several.
    pub own_mark: fn(Value<'_>) -> Option<&'static str>,
    /// Whether only the provider itself gives a model this name. A request may look like one of another dialect in all else.
    pub own_model: fn(&str) -> bool,
    /// Counts the calls and the results in a request, or in a list of its messages, where no reader understands them.
    pub unread_calls: Option<fn(Value<'_>) -> (usize, usize)>,
    /// The rules of its checker that the provider itself does not enforce: the model does not see what breaks them.
    pub unenforced: &'static [&'static str],
    /// Whether the provider signed a part of its message other than reasoning.
    pub is_signed: fn(&Message) -> bool,
    /// Spells what a request asks for besides its messages, instructions and tools.
    pub settings: fn(&RequestSettings) -> SettingFields,
    /// Begins to decode a response, streamed or not.
    pub decoder: fn() -> Box<dyn StreamDecoder>,
    /// The provider's refusals, one per line after the names of their rules: see [`Wire::answer`].
    pub answers: &'static str,
}

/// The field names in the request bodies of a dialect.
pub struct Fields {
    /// The list of messages.
    pub messages: &'static str,
    /// Names of the system prompt; none where it is a message.
    pub system: &'static [&'static str],
    /// The list inside the system prompt, where that is an object.
    pub system_parts: Option<&'static str>,
    /// The tools.
    pub tools: &'static str,
    /// Names of the tool choice.
    pub choice: &'static [&'static str],
    /// The limit on the length of an answer; if it is an object, also the field inside it.
    pub max_tokens: (&'static str, Option<&'static str>),
}

impl Fields {
    /// The names in most dialects.
    pub const COMMON: Self = Self {
        messages: "messages",
        system: &[],
        system_parts: None,
        tools: "tools",
        choice: &["tool_choice"],
        max_tokens: ("max_tokens", None),
    };
}

/// Where a dialect declares and chooses tools differently from the others.
pub struct ToolSyntax {
    /// Whether a tool of type `custom` takes free text.
    pub custom_is_free_text: bool,
    /// Translates a schema into JSON Schema, where the dialect has its own.
    pub schema: Option<fn(Value<'_>) -> String>,
    /// Reads an element of the list of tools, where it may declare several.
    pub several: Option<fn(Value<'_>) -> Vec<ToolDeclaration>>,
    /// Reads the tool choice.
    pub choice: Option<fn(Value<'_>) -> Option<ToolChoice>>,
}

impl ToolSyntax {
    /// The syntax of most dialects.
    pub const COMMON: Self = Self { custom_is_free_text: false, schema: None, several: None, choice: None };
}

/// Upper limits of a request, each with the rule that sets it.
pub struct RequestLimits {
    /// Number of messages.
    pub messages: Option<(&'static str, usize)>,
    /// Number of tools.
    pub tools: Option<(&'static str, usize)>,
    /// Characters in one text.
    pub text: Option<(&'static str, usize)>,
    /// Bytes in the body.
    pub body: Option<(&'static str, usize)>,
    /// The smallest limit that a request can set on the length of an answer, in tokens.
    pub least_answer: u64,
}

impl RequestLimits {
    /// No limits.
    pub const NONE: Self = Self { messages: None, tools: None, text: None, body: None, least_answer: 0 };
}

impl Wire {
    /// Spells a tool's name as the dialect demands.
    pub fn spell<'n>(&self, name: &'n str) -> Cow<'n, str> {
        (self.tool_name)(name)
    }

    /// Whether a message is in a format whose items this dialect repeats.
    pub fn is_own(&self, message: &Message) -> bool {
        message.native.as_ref().is_some_and(|native| self.repeats.contains(&&*native.format))
    }

    /// The source's own bytes of a block, if they may be sent again.
    pub fn own_bytes<'i>(&self, message: &'i Message, block: &'i Block) -> Option<&'i str> {
        if self.is_own(message) && self.media.keeps(block) { message.native_block(block) } else { None }
    }

    /// Whether a message in exactly this dialect is complete and may be sent again unchanged.
    pub fn is_regular(&self, message: &Message) -> bool {
        message.native.as_ref().is_some_and(|native| native.regular && &*native.format == self.name)
            && message.blocks.iter().all(|block| self.media.keeps(block))
    }

    /// Turns a sound view into a request body.
    ///
    /// # Errors
    /// If the provider takes no body, list or text this large.
    pub fn encode(&self, view: &SoundView, target: &Target) -> Result<Encoded, TooLarge> {
        let mut encoder = (self.encoder)(&Arc::new(target.clone()), view);
        encoder.changed_from(view.first_change());
        view.items().enumerate().for_each(|(place, item)| encoder.item(place, item));
        encoder.finish(view).map(Outline::into_text)
    }

    /// A decoder for one response, streamed or not.
    pub fn decoder(&self) -> Box<dyn StreamDecoder> {
        (self.decoder)()
    }

    /// Decodes a complete response.
    pub fn decode(&self, response: &[u8]) -> Received {
        let mut decoder = self.decoder();
        decoder.feed(response, &mut Vec::new());
        decoder.finish()
    }

    /// The words in which the provider refuses what breaks a rule, with `{…}` in place of ids and indexes.
    pub fn answer(&self, rule: Rule) -> Option<&'static str> {
        let mut rows = self.answers.lines().filter_map(|line| line.split_once(": "));
        rows.find(|(rules, _)| rules.split(' ').any(|name| name == rule.name())).map(|row| row.1)
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
    /// Lists every dialect.
    pub fn all() -> impl Iterator<Item = Self> {
        REGISTRY.iter().map(|wire| wire.dialect)
    }

    /// The strictest dialect, for checks that name none.
    pub const STRICTEST: Self = Self::Anthropic;

    /// The dialect whose field names apply to formats that are no dialect.
    pub const OF_FILES: Self = Self::OpenAiChat;

    /// The dialect of the messages in a format: the format has its name, or belongs to an agent that uses it.
    pub fn of_format(format: &str) -> Option<Self> {
        Self::all().find(|dialect| dialect.name() == format || dialect.wire().repeats.contains(&format))
    }

    /// Whether an item of a list of messages can only be one of a certain dialect.
    pub(crate) fn owns_item(item: Value<'_>) -> bool {
        REGISTRY.iter().any(|wire| (wire.own_item)(item))
    }

    /// The dialect whose requests are not read, and that a request or a list of messages is written in all the same; and what
    /// tells it.
    pub fn marked(request: Value<'_>) -> Option<(Self, &'static str)> {
        REGISTRY.iter().find_map(|wire| Some((wire.dialect, (wire.own_mark)(request)?)))
    }

    /// The dialect that a provider with this name speaks; most speak Chat Completions.
    pub fn of_provider(name: &str) -> Self {
        let name = name.to_ascii_lowercase();
        let own = [Self::Anthropic].into_iter().find(|dialect| name.contains(dialect.name()));
        own.unwrap_or(Self::OF_FILES)
    }

    /// The dialect that the maker of a model serves it in, as far as its name tells.
    pub fn of_model(model: &str) -> Option<Self> {
        let made = [("claude", Self::Anthropic), ("gemini", Self::Gemini)];
        made.into_iter().find(|(beginning, _)| model.starts_with(beginning)).map(|(_, dialect)| dialect)
    }

    /// Returns the descriptor.
    pub fn wire(self) -> &'static Wire {
        REGISTRY[self as usize]
    }

    /// Returns the name, such as `openai-chat`.
    pub fn name(self) -> &'static str {
        self.wire().name
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// There is no dialect of this name.
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
