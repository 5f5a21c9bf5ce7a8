//! Mistral's own API, as it is hosted: strict about ids, and about who may speak after whom.

mod answers;
pub(crate) mod decode;
mod encode;

use super::{
    arriving::Decoder,
    names::wire_name,
    openai_chat,
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
    dialect: Dialect::Mistral,
    name: "mistral",
    provider: "Mistral",
    repeats: &[],
    fields: Fields::COMMON,
    body_names_model: true,
    ends_with_user: true,
    has_cache_marks: false,
    limits: Limits::NONE,
    media: MEDIA,
    tool_name: |name| wire_name(name, 64),
    legal_id: |id| id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric()),
    id_length: 9,
    version: None,
    streams_lines: false,
    other_fields: |message| render::chat_fields(message, Style::OpenAi),
    tools: ToolSyntax::COMMON,
    encoder: encode::encoder,
    decode: decode::decode,
    stream: Some(|| Box::new(Decoder::new(openai_chat::stream::ChatAssembly::of_mistral()))),
    answer: answers::answer,
};
