//! Anthropic Messages (`/v1/messages`), in its strictest profile: no prefill, no system messages inside the list.

mod around;
mod marks;
mod pieces;
mod plain;
mod results;
mod settings;
mod stream;
mod write;

use super::{names::wire_name, prelude::*};
use crate::messages::Style;

pub(crate) const STOPS: StopWords = StopWords {
    done: "end_turn tool_use stop_sequence",
    length: "max_tokens model_context_window_exceeded",
    refused: "refusal",
    paused: "pause_turn",
};

/// The descriptor of Anthropic's dialect.
pub static WIRE: Wire = Wire {
    dialect: Dialect::Anthropic,
    name: "anthropic",
    provider: "Anthropic",
    repeats: &["anthropic", "claude-code", "cline", "roo-code"],
    fields: Fields { system: &["system"], ..Fields::COMMON },
    ends_with_user: true,
    has_cache_marks: true,
    limits: RequestLimits {
        messages: Some(("ANT-28", 100_000)),
        body: Some(("ANT-28", 32_000_000)),
        ..RequestLimits::NONE
    },
    media: AcceptedMedia {
        images: Some(media::PICTURES),
        documents: Some(&["application/pdf"]),
        schemes: &["https://"],
    },
    tool_name: |name| wire_name(name, 128),
    legal_id: |id| {
        !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
    },
    version: Some("/v1"),
    other_fields: |message| render::chat_fields(message, Style::Blocks),
    // The API counts tokens read from its cache and written to it separately.
    usage: UsageFields {
        input: &["input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"],
        output: &["output_tokens"],
        cached: &["cache_read_input_tokens"],
        reasoning: &[],
    },
    stops: STOPS,
    plain: Some(plain::write),
    continues: |_, item| {
        let mut blocks = item.given("content").into_iter().flat_map(Value::items);
        blocks.any(|block| block.given("type").is_some_and(|kind| kind.is_str("tool_result")))
    },
    encoder: write::encoder,
    settings: settings::fields,
    decoder: Decoder::<stream::MessagesAssembly>::boxed,
    answers: include_str!("answers.txt"),
    ..CHAT
};
