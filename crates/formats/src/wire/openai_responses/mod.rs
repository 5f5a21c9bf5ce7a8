//! OpenAI Responses, and the backend that Codex speaks to.

mod answers;
mod around;
mod decode;
mod encode;
mod pieces;

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
    Accepts { images: Some(media::PICTURES), documents: None, schemes: media::WEB };

/// The dialect.
pub static WIRE: Wire = Wire {
    dialect: Dialect::OpenAiResponses,
    name: crate::responses::FORMAT,
    provider: "OpenAI",
    repeats: &["openai-responses", "codex", "turns"],
    fields: Fields {
        messages: "input",
        system: &["instructions"],
        max_tokens: ("max_output_tokens", None),
        ..Fields::COMMON
    },
    body_names_model: true,
    ends_with_user: false,
    has_cache_marks: false,
    limits: Limits {
        tools: Some(("OAC-11", 128)),
        text: Some(("OAC-12", 10_485_760)),
        least_answer: 16,
        ..Limits::NONE
    },
    media: MEDIA,
    tool_name: |name| wire_name(name, 64),
    legal_id: |id| !id.is_empty() && id.chars().count() <= 64,
    id_length: ID_LENGTH,
    version: None,
    streams_lines: false,
    other_fields: |message| render::chat_fields(message, Style::OpenAi),
    tools: ToolSyntax { custom_is_free_text: true, ..ToolSyntax::COMMON },
    encoder: encode::encoder,
    decode: decode::decode,
    stream: Some(|| Box::new(Decoder::new(stream::ResponseAssembly::default()))),
    answer: answers::answer,
};
