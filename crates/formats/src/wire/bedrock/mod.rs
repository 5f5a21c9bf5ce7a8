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
    media: AcceptedMedia { images: Some(PICTURES), documents: Some(DOCUMENTS), schemes: WEB },
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
        blocks.any(|block| block.given(RESULT).is_some())
    },
    encoder: write::encoder,
    own_mark,
    unread_calls: Some(calls_and_results),
    settings: |wanted| {
        let limit = wanted.limit.set().map(|max| Object::new().number("maxTokens", max).finish());
        limit.map(|limit| ("inferenceConfig", limit)).into_iter().collect()
    },
    decoder: Decoder::<stream::ConverseAssembly>::boxed,
    answers: include_str!("answers.txt"),
    ..CHAT
};

/// Fields that only a Converse request has.
const FIELDS: [&str; 4] =
    ["toolConfig", "inferenceConfig", "guardrailConfig", "additionalModelRequestFields"];

/// Blocks of a content that only Converse has. Its blocks are named by their field and have no type.
const BLOCKS: [&str; 4] = [CALL, RESULT, "reasoningContent", "cachePoint"];
const CALL: &str = "toolUse";
const RESULT: &str = "toolResult";

fn own_mark(request: Value<'_>) -> Option<&'static str> {
    let list = request.get("messages").unwrap_or(request);
    let untyped = |block: &Value<'_>| block.kind() == ValueKind::Object && block.get("type").is_none();
    let block = |name: &str| blocks(list).filter(untyped).any(|block| block.holds(name, ValueKind::Object));
    let is_text = |block: Value<'_>| untyped(&block) && block.holds("text", ValueKind::String);
    // A request that names its model is meant for another provider.
    let all_texts = || {
        let mut contents = list.items().map(|message| message.get("content"));
        let texts = |content: Value<'_>| content.items().next().is_some() && content.items().all(is_text);
        request.get("model").is_none()
            && list.items().next().is_some()
            && contents.all(|content| content.is_some_and(texts))
    };
    let field = FIELDS.into_iter().find(|name| request.holds(name, ValueKind::Object));
    let field = field.filter(|_| list.kind() == ValueKind::Array);
    field
        .or_else(|| BLOCKS.into_iter().find(|name| block(name)))
        .or_else(|| all_texts().then_some("contents, whose parts have no type"))
}

fn blocks(list: Value<'_>) -> impl Iterator<Item = Value<'_>> {
    list.items().filter_map(|message| message.get("content")).flat_map(Value::items)
}

fn calls_and_results(request: Value<'_>) -> (usize, usize) {
    let list = request.get("messages").unwrap_or(request);
    let count = |name: &str| blocks(list).filter(|block| block.given(name).is_some()).count();
    (count(CALL), count(RESULT))
}

fn legal_id(id: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b':' | b'-');
    !id.is_empty() && id.len() <= 64 && id.bytes().all(legal)
}
