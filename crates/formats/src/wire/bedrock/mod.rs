//! AWS Bedrock's Converse API, as Claude accepts it: two alternating roles, content blocks.

mod around;
mod media;
mod stream;
mod write;

use super::{anthropic, prelude::*};
use crate::media::{DOCUMENTS, PICTURES, WEB};

/// The descriptor of Bedrock's dialect.
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
    limits: RequestLimits::NONE,
    media: Accepts { images: Some(PICTURES), documents: Some(DOCUMENTS), schemes: WEB },
    legal_id,
    usage: UsageFields {
        input: &["inputTokens", "cacheReadInputTokens", "cacheWriteInputTokens"],
        output: &["outputTokens"],
        cached: &["cacheReadInputTokens"],
        reasoning: &[],
    },
    stops: StopWords { refused: "guardrail_intervened content_filtered", paused: "", ..anthropic::STOPS },
    continues: |_, item| {
        let mut blocks = item.given("content").into_iter().flat_map(Value::items);
        blocks.any(|block| block.given("toolResult").is_some())
    },
    encoder: write::encoder,
    settings: |wanted| {
        let limit = wanted.limit.set().map(|max| Object::new().number("maxTokens", max).finish());
        limit.map(|limit| ("inferenceConfig", limit)).into_iter().collect()
    },
    decoder: Decoder::<stream::ConverseAssembly>::boxed,
    answers: include_str!("answers.txt"),
    ..CHAT
};

fn legal_id(id: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b':' | b'-');
    !id.is_empty() && id.len() <= 64 && id.bytes().all(legal)
}
