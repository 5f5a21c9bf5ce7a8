//! OpenAI Chat Completions, and the many services that speak it.

mod around;
mod plain;
mod settings;
pub(crate) mod stream;
mod stream_calls;
mod write;

use super::{
    names::{ID_LENGTH, wire_name},
    prelude::*,
};
use crate::messages::Style;

/// The descriptor of the Chat Completions dialect.
pub static WIRE: Wire = Wire { plain: Some(plain::write), ..CHAT };

/// The defaults of every descriptor: the other dialects list only their differences.
pub(crate) const CHAT: Wire = Wire {
    dialect: Dialect::OpenAiChat,
    name: "openai-chat",
    provider: "OpenAI",
    repeats: &["openai-chat"],
    fields: Fields::COMMON,
    body_names_model: true,
    ends_with_user: false,
    has_cache_marks: false,
    limits: RequestLimits {
        tools: Some(("OAC-11", 128)),
        text: Some(("OAC-12", 10_485_760)),
        ..RequestLimits::NONE
    },
    media: AcceptedMedia { images: Some(media::PICTURES), documents: None, schemes: media::WEB },
    tool_name: |name| wire_name(name, 64),
    legal_id: |id| !id.is_empty() && id.chars().count() <= 40,
    id_length: ID_LENGTH,
    version: None,
    streams_lines: false,
    other_fields: |message| render::chat_fields(message, Style::ToolCalls),
    tools: ToolSyntax::COMMON,
    usage: UsageFields {
        input: &["prompt_tokens"],
        output: &["completion_tokens"],
        // DeepSeek uses its own field.
        cached: &["prompt_tokens_details.cached_tokens", "prompt_cache_hit_tokens"],
        reasoning: &["completion_tokens_details.reasoning_tokens"],
    },
    stops: StopWords {
        done: "stop tool_calls function_call eos",
        length: "length model_length max_tokens",
        refused: "content_filter",
        paused: "",
    },
    plain: None,
    continues: |_, item| item.given("role").is_some_and(|role| role.is_str("tool")),
    encoder: write::encoder,
    own_item: |_| false,
    own_mark: |_| None,
    own_model: |_| false,
    unread_calls: None,
    unenforced: &[],
    is_signed: |_| false,
    settings: settings::fields,
    decoder: Decoder::<stream::ChatAssembly>::boxed,
    answers: include_str!("answers.txt"),
};
