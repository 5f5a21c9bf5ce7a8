//! Streamed responses: what each dialect makes of one, however it is cut, wherever it ends, and how it goes back.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

mod bytes;
mod golden;
mod quirks;
mod replay;
mod whole;

use rejoin_formats::{
    Dialect,
    wire::stream::{Delta, Received},
};
use rejoin_record::{BlockKind, Message};

/// A response of each dialect, and of services that speak one in their own way.
const STREAMS: &[(Dialect, &str)] = &[
    (Dialect::OpenAiChat, include_str!("data/openai-chat.sse")),
    (Dialect::OpenAiChat, include_str!("data/openrouter.sse")),
    (Dialect::Mistral, include_str!("data/mistral.sse")),
    (Dialect::OpenAiResponses, include_str!("data/openai-responses.sse")),
    (Dialect::Anthropic, include_str!("data/anthropic.sse")),
    (Dialect::Gemini, include_str!("data/gemini.sse")),
    (Dialect::Ollama, include_str!("data/ollama.ndjson")),
];

/// Decodes bytes that come in these pieces.
fn decoded<'p>(dialect: Dialect, pieces: impl IntoIterator<Item = &'p [u8]>) -> (Vec<Delta>, Received) {
    let mut decoder = dialect.wire().decoder();
    let mut deltas = Vec::new();
    for piece in pieces {
        decoder.feed(piece, &mut deltas);
    }
    (deltas, decoder.finish())
}

fn received(dialect: Dialect, bytes: impl AsRef<[u8]>) -> Received {
    decoded(dialect, [bytes.as_ref()]).1
}

/// Server-sent events of these data.
fn events(data: &[&str]) -> String {
    data.iter().map(|data| format!("data: {data}\n\n")).collect()
}

/// Chunks of Chat Completions with these deltas, then the end.
fn chat(deltas: &[&str], finish: &str) -> String {
    let chunk = |delta: &str, finish: &str| {
        format!(
            r#"{{"id":"c","model":"m","choices":[{{"index":0,"delta":{delta},"finish_reason":{finish}}}]}}"#
        )
    };
    let mut data: Vec<String> = deltas.iter().map(|delta| chunk(delta, "null")).collect();
    data.push(chunk("{}", &format!("\"{finish}\"")));
    data.push("[DONE]".into());
    events(&data.iter().map(String::as_str).collect::<Vec<_>>())
}

fn text(message: &Message) -> String {
    message.blocks.iter().filter_map(|block| block.as_text()).map(|text| text.as_str()).collect()
}

fn thoughts(message: &Message) -> String {
    let thoughts = message.blocks.iter().filter_map(|block| match &block.kind {
        BlockKind::Reasoning(held) => Some(held.text.as_str()),
        _ => None,
    });
    thoughts.collect()
}

/// Id, tool and arguments of each call.
fn calls(message: &Message) -> Vec<(String, String, String)> {
    let call = |call: &rejoin_record::ToolCall| {
        (call.id.to_string(), call.name.to_string(), call.arguments.text().to_string())
    };
    message.tool_calls().map(call).collect()
}

/// What was shown as it came: text, thoughts, tools.
fn shown(deltas: &[Delta]) -> (String, String, Vec<String>) {
    let mut shown = (String::new(), String::new(), Vec::new());
    for delta in deltas {
        match delta {
            Delta::Text(text) => shown.0 += text,
            Delta::Reasoning(text) => shown.1 += text,
            Delta::Call(name) => shown.2.push(name.clone()),
        }
    }
    shown
}

fn native(message: &Message) -> &str {
    message.native.as_ref().expect("it has its item").raw.as_str()
}
