//! Ollama's `/api/chat`: contents are strings, calls have no ids.

mod answers;
mod decode;
mod encode;

mod stream;

use std::borrow::Cow;

use super::{
    arriving::Decoder,
    names::ID_LENGTH,
    registry::{Dialect, Fields, Limits, ToolSyntax, Wire},
    render,
};
use crate::chat::Style;
use crate::media::{self, Accepts};

/// The images that the server decodes; it knows no documents and follows no addresses.
pub(crate) const MEDIA: Accepts =
    Accepts { images: Some(media::PICTURES), documents: None, schemes: media::WEB };

/// The dialect.
pub static WIRE: Wire = Wire {
    dialect: Dialect::Ollama,
    name: "ollama",
    provider: "Ollama",
    repeats: &[],
    fields: Fields { max_tokens: ("options", Some("num_predict")), ..Fields::COMMON },
    body_names_model: true,
    ends_with_user: false,
    has_cache_marks: false,
    limits: Limits::NONE,
    media: MEDIA,
    tool_name: |name| Cow::Borrowed(if name.is_empty() { "unknown_tool" } else { name }),
    legal_id: |_| true,
    id_length: ID_LENGTH,
    version: None,
    streams_lines: true,
    other_fields: |message| render::chat_fields(message, Style::OpenAi),
    tools: ToolSyntax::COMMON,
    encoder: encode::encoder,
    decode: decode::decode,
    stream: Some(|| Box::new(Decoder::new(stream::LinesAssembly::default()))),
    answer: answers::answer,
};
