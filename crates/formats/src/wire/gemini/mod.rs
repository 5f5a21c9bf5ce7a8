//! Google Gemini, `generateContent`.

mod around;
mod edit;
mod pieces;
mod plain;
pub(crate) mod read;
mod results;
mod settings;
mod stream;
mod write;

use super::prelude::*;

/// The descriptor of Gemini's dialect.
pub static WIRE: Wire = Wire {
    dialect: Dialect::Gemini,
    name: read::FORMAT,
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
    limits: RequestLimits::NONE,
    // Which types it accepts depends on the model.
    media: AcceptedMedia { images: None, documents: None, schemes: &["https://", "http://", "gs://"] },
    tool_name: around::gemini_name,
    legal_id: |_| true,
    version: Some("/v1beta"),
    other_fields: read::more_fields,
    tools: ToolSyntax {
        custom_is_free_text: false,
        schema: Some(read::json_schema),
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
        done: "STOP",
        length: "MAX_TOKENS",
        refused: "SAFETY RECITATION BLOCKLIST PROHIBITED_CONTENT SPII IMAGE_SAFETY IMAGE_PROHIBITED_CONTENT \
                  IMAGE_RECITATION",
        paused: "",
    },
    plain: Some(plain::write),
    continues: |_, item| {
        let mut parts = item.given("parts").into_iter().flat_map(Value::items);
        parts.any(|part| part.given("functionResponse").is_some())
    },
    encoder: write::encoder,
    own_item: read::is_content,
    is_signed: read::is_signed,
    settings: settings::fields,
    decoder: Decoder::<stream::ContentAssembly>::boxed,
    answers: include_str!("answers.txt"),
    ..CHAT
};
