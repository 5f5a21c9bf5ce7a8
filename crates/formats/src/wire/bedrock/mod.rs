//! AWS Bedrock's Converse, as Claude takes it: two roles in turn, content blocks.

mod answers;
mod around;
mod decode;
mod encode;
mod media;

use super::{
    names::{ID_LENGTH, wire_name},
    registry::{Dialect, Fields, Limits, ToolSyntax, Wire},
    render,
};
use crate::chat::Style;
use crate::media::{Accepts, DOCUMENTS, PICTURES, WEB};

/// The images and documents that the API takes.
pub(crate) const MEDIA: Accepts =
    Accepts { images: Some(PICTURES), documents: Some(DOCUMENTS), schemes: WEB };

/// The dialect.
pub static WIRE: Wire = Wire {
    dialect: Dialect::Bedrock,
    name: "bedrock",
    provider: "AWS Bedrock",
    repeats: &[],
    fields: Fields {
        system: &["system"],
        tools: "toolConfig",
        max_tokens: ("inferenceConfig", Some("maxTokens")),
        ..Fields::COMMON
    },
    body_names_model: false,
    ends_with_user: true,
    has_cache_marks: false,
    limits: Limits::NONE,
    media: MEDIA,
    tool_name: |name| wire_name(name, 64),
    legal_id,
    id_length: ID_LENGTH,
    version: None,
    streams_lines: false,
    other_fields: |message| render::chat_fields(message, Style::OpenAi),
    tools: ToolSyntax::COMMON,
    encoder: encode::encoder,
    decode: decode::decode,
    stream: None,
    answer: answers::answer,
};

fn legal_id(id: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b':' | b'-');
    !id.is_empty() && id.len() <= 64 && id.bytes().all(legal)
}
