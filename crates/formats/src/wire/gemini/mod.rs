//! Google Gemini, `generateContent`.

mod answers;
mod around;
mod decode;
mod edit;
mod encode;
mod pieces;
mod results;

use super::{
    arriving::Decoder,
    openai_chat::CHAT,
    registry::{Dialect, Fields, Limits, ToolSyntax, Wire},
    stream::StopWords,
    usage::UsageFields,
};
use crate::media::Accepts;

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
    limits: Limits::NONE,
    // What it can do with a type depends on the model.
    media: Accepts { images: None, documents: None, schemes: &["https://", "http://", "gs://"] },
    tool_name: around::gemini_name,
    legal_id: |_| true,
    version: Some("/v1beta"),
    other_fields: crate::gemini::more_fields,
    tools: ToolSyntax {
        custom_is_free_text: false,
        schema: Some(crate::gemini::json_schema),
        several: Some(around::tools_in),
        choice: Some(around::choice_in),
    },
    usage: UsageFields {
        input: &["promptTokenCount", "toolUsePromptTokenCount"],
        output: &["candidatesTokenCount", "thoughtsTokenCount"],
        cached: &["cachedContentTokenCount"],
        reasoning: &["thoughtsTokenCount"],
    },
    stops: StopWords {
        done: &["STOP"],
        length: &["MAX_TOKENS"],
        refused: &[
            "SAFETY",
            "RECITATION",
            "BLOCKLIST",
            "PROHIBITED_CONTENT",
            "SPII",
            "IMAGE_SAFETY",
            "IMAGE_PROHIBITED_CONTENT",
            "IMAGE_RECITATION",
        ],
        paused: &[],
    },
    encoder: encode::encoder,
    decoder: Decoder::<decode::ContentAssembly>::boxed,
    answer: answers::answer,
    ..CHAT
};
