//! Ollama's `/api/chat`: contents are strings, calls have no ids.

mod settings;
mod stream;
mod write;

use super::prelude::*;

/// The descriptor of Ollama's dialect.
pub static WIRE: Wire = Wire {
    dialect: Dialect::Ollama,
    name: "ollama",
    provider: "Ollama",
    repeats: &[],
    fields: Fields { max_tokens: ("options", Some("num_predict")), ..Fields::COMMON },
    limits: RequestLimits::NONE,
    tool_name: |name| Cow::Borrowed(if name.is_empty() { "unknown_tool" } else { name }),
    legal_id: |_| true,
    streams_lines: true,
    usage: UsageFields {
        input: &["prompt_eval_count"],
        output: &["eval_count"],
        cached: &[],
        reasoning: &[],
    },
    stops: StopWords { done: "stop", length: "length", refused: "", paused: "" },
    encoder: write::encoder,
    settings: settings::fields,
    decoder: Decoder::<stream::LinesAssembly>::boxed,
    answers: include_str!("answers.txt"),
    ..CHAT
};
