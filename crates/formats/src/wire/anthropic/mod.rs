//! Anthropic Messages (`/v1/messages`), in its strictest profile: no prefill, no system messages inside the list.

mod answers;
mod around;
mod decode;
mod encode;
mod marks;
mod pieces;
mod results;

mod stream;

use super::{
    arriving::Decoder,
    names::{ID_LENGTH, wire_name},
    registry::{Dialect, Fields, Limits, ToolSyntax, Wire},
    render,
};
use crate::chat::Style;
use crate::media::{self, Accepts};

/// The images and documents that the API takes.
pub(crate) const MEDIA: Accepts =
    Accepts { images: Some(media::PICTURES), documents: Some(&["application/pdf"]), schemes: &["https://"] };

/// The dialect.
pub static WIRE: Wire = Wire {
    dialect: Dialect::Anthropic,
    name: "anthropic",
    provider: "Anthropic",
    repeats: &["anthropic", "claude-code"],
    fields: Fields { system: &["system"], ..Fields::COMMON },
    body_names_model: true,
    ends_with_user: true,
    has_cache_marks: true,
    limits: Limits {
        messages: Some(("ANT-28", 100_000)),
        body: Some(("ANT-28", 32_000_000)),
        ..Limits::NONE
    },
    media: MEDIA,
    tool_name: |name| wire_name(name, 128),
    legal_id: |id| {
        !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
    },
    id_length: ID_LENGTH,
    version: Some("/v1"),
    streams_lines: false,
    other_fields: |message| render::chat_fields(message, Style::Anthropic),
    tools: ToolSyntax::COMMON,
    encoder: encode::encoder,
    decode: decode::decode,
    stream: Some(|| Box::new(Decoder::new(stream::MessagesAssembly::default()))),
    answer: answers::answer,
};
