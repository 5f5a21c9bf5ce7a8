//! Google Gemini, `generateContent`.

mod answers;
mod around;
mod decode;
mod edit;
mod encode;
mod pieces;
mod results;

mod stream;

use super::{
    arriving::Decoder,
    names::ID_LENGTH,
    registry::{Dialect, Fields, Limits, ToolSyntax, Wire},
};
use crate::media::Accepts;

/// The images and documents that the API takes: what it can do with a type depends on the model.
pub(crate) const MEDIA: Accepts =
    Accepts { images: None, documents: None, schemes: &["https://", "http://", "gs://"] };

/// The dialect.
pub static WIRE: Wire = Wire {
    dialect: Dialect::Gemini,
    name: crate::gemini::FORMAT,
    provider: "Google",
    repeats: &["gemini"],
    fields: Fields {
        messages: "contents",
        system: &["systemInstruction", "system_instruction"],
        system_parts: Some("parts"),
        choice: &["toolConfig", "tool_config"],
        max_tokens: ("generationConfig", Some("maxOutputTokens")),
        ..Fields::COMMON
    },
    body_names_model: false,
    ends_with_user: true,
    has_cache_marks: false,
    limits: Limits::NONE,
    media: MEDIA,
    tool_name: around::gemini_name,
    legal_id: |_| true,
    id_length: ID_LENGTH,
    version: Some("/v1beta"),
    streams_lines: false,
    other_fields: crate::gemini::more_fields,
    tools: ToolSyntax {
        custom_is_free_text: false,
        schema: Some(crate::gemini::json_schema),
        several: Some(around::tools_in),
        choice: Some(around::choice_in),
    },
    encoder: encode::encoder,
    decode: decode::decode,
    stream: Some(|| Box::new(Decoder::new(stream::ContentAssembly::default()))),
    answer: answers::answer,
};
