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
    own_mark,
    unenforced: &["OLL-03", "OLL-04"],
    settings: settings::fields,
    decoder: Decoder::<stream::LinesAssembly>::boxed,
    answers: include_str!("answers.txt"),
    ..CHAT
};

/// Fields of Chat Completions that mean nothing to Ollama. A request with one of them may be meant for another server.
const OF_CHAT: [&str; 5] =
    ["max_tokens", "max_completion_tokens", "response_format", "tool_choice", "stream_options"];

fn own_mark(request: Value<'_>) -> Option<&'static str> {
    let messages = || request.get("messages").into_iter().flat_map(Value::items);
    let is_text = |value: Value<'_>| value.kind() == ValueKind::String;
    let with_images =
        |message: Value<'_>| message.get("images").and_then(|list| list.items().next()).is_some_and(is_text);
    let is_call_without_id = |call: Value<'_>| {
        let arguments = call.get("function").is_some_and(|body| body.holds("arguments", ValueKind::Object));
        arguments && call.get("id").is_none()
    };
    let calls = || messages().filter_map(|message| message.get("tool_calls")).flat_map(Value::items);
    if request.given("model").is_none() || OF_CHAT.iter().any(|name| request.given(name).is_some()) {
        return None;
    }
    messages().next()?;
    let marks = [
        ("options", request.holds("options", ValueKind::Object)),
        ("keep_alive", request.given("keep_alive").is_some()),
        ("images", messages().any(with_images)),
        (
            "tool_name",
            messages()
                .any(|message| message.says("role", "tool") && message.holds("tool_name", ValueKind::String)),
        ),
        ("arguments, which are objects", calls().any(is_call_without_id)),
    ];
    marks.into_iter().find_map(|(name, there)| there.then_some(name))
}
