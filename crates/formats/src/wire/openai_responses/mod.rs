//! OpenAI Responses, which Codex uses too.

mod around;
mod pieces;
mod plain;
pub(crate) mod read;
mod settings;
mod stream;
mod write;

use super::prelude::*;

/// The descriptor of the Responses dialect.
pub static WIRE: Wire = Wire {
    dialect: Dialect::OpenAiResponses,
    name: read::FORMAT,
    provider: "OpenAI",
    repeats: &["openai-responses", "codex", "turns", "cody"],
    fields: Fields {
        messages: "input",
        system: &["instructions"],
        max_tokens: ("max_output_tokens", None),
        ..Fields::COMMON
    },
    limits: RequestLimits { least_answer: 16, ..CHAT.limits },
    legal_id: |id| !id.is_empty() && id.chars().count() <= 64,
    tools: ToolSyntax { custom_is_free_text: true, ..ToolSyntax::COMMON },
    usage: UsageFields {
        input: &["input_tokens"],
        output: &["output_tokens"],
        cached: &["input_tokens_details.cached_tokens"],
        reasoning: &["output_tokens_details.reasoning_tokens"],
    },
    plain: Some(plain::write),
    continues: |before, item| {
        let is = |item: Value<'_>, end: &str| item.word("type").ends_with(end);
        is(item, "_output") || (is(item, "_call") && is(before, "_call"))
    },
    encoder: write::encoder,
    settings: settings::fields,
    decoder: Decoder::<stream::ResponseAssembly>::boxed,
    answers: include_str!("answers.txt"),
    ..CHAT
};
