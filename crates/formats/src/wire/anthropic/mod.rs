//! Anthropic Messages (`/v1/messages`), in its strictest profile: no prefill, no system messages inside the list.

mod answers;
mod around;
mod decode;
mod encode;
mod marks;
mod pieces;
mod results;

use super::{
    arriving::Decoder,
    names::wire_name,
    openai_chat::CHAT,
    registry::{Dialect, Fields, Limits, Wire},
    render,
};
use crate::chat::Style;
use crate::media::{self, Accepts};

/// The dialect.
pub static WIRE: Wire = Wire {
    dialect: Dialect::Anthropic,
    name: "anthropic",
    provider: "Anthropic",
    repeats: &["anthropic", "claude-code"],
    fields: Fields { system: &["system"], ..Fields::COMMON },
    ends_with_user: true,
    has_cache_marks: true,
    limits: Limits {
        messages: Some(("ANT-28", 100_000)),
        body: Some(("ANT-28", 32_000_000)),
        ..Limits::NONE
    },
    media: Accepts {
        images: Some(media::PICTURES),
        documents: Some(&["application/pdf"]),
        schemes: &["https://"],
    },
    tool_name: |name| wire_name(name, 128),
    legal_id: |id| {
        !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
    },
    version: Some("/v1"),
    other_fields: |message| render::chat_fields(message, Style::Anthropic),
    encoder: encode::encoder,
    decoder: Decoder::<decode::MessagesAssembly>::boxed,
    answer: answers::answer,
    ..CHAT
};
