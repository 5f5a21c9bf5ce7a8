//! Tests of the loopback provider, with a minimal client.
#![allow(clippy::unwrap_used, reason = "a test may")]

mod client;
#[cfg(feature = "fuzz")]
mod codecs;
mod conversations;
mod endpoints;
mod failures;
mod gate;
mod replays;

use serde_json::{Value, json};

use super::{Config, Loopback, Service};
use client::{Client, Got};

const KEY: &str = "sk-loopback-0123456789";

fn server() -> Loopback {
    Loopback::start(Config { key: Some(KEY.into()), ..Config::default() })
}

/// The headers that a service wants.
fn headers(service: Service) -> Vec<(&'static str, String)> {
    let bearer = ("authorization", format!("Bearer {KEY}"));
    match service {
        Service::Anthropic => vec![("x-api-key", KEY.into()), ("anthropic-version", "2023-06-01".into())],
        Service::Gemini => vec![("x-goog-api-key", KEY.into())],
        Service::Ollama => Vec::new(),
        _ => vec![bearer],
    }
}

/// The way to ask a model of a service, streamed or not.
fn path(service: Service, api: &str, stream: bool) -> String {
    let rest = match (service, api) {
        (Service::Anthropic, _) => "/v1/messages",
        (Service::Gemini, _) if stream => "/v1beta/models/gemini-3:streamGenerateContent?alt=sse",
        (Service::Gemini, _) => "/v1beta/models/gemini-3:generateContent",
        (Service::Ollama, _) => "/api/chat",
        (_, "responses") => "/responses",
        _ => "/chat/completions",
    };
    super::route::base("", service) + rest
}

/// Asks a model.
fn ask(server: &Loopback, service: Service, api: &str, body: &Value) -> Got {
    let stream = body["stream"] == true;
    let mut body = body.clone();
    if service == Service::Gemini {
        body.as_object_mut().unwrap().retain(|name, _| name != "stream" && name != "model");
    }
    Client::to(server).post(&path(service, api, stream), &headers(service), body.to_string().as_bytes())
}

/// The dialects as they are asked: a service, and which of its APIs.
const APIS: [(Service, &str); 9] = [
    (Service::OpenAi, "chat"),
    (Service::OpenAi, "responses"),
    (Service::Anthropic, ""),
    (Service::Gemini, ""),
    (Service::Ollama, ""),
    (Service::Mistral, ""),
    (Service::OpenRouter, ""),
    (Service::DeepSeek, ""),
    (Service::Groq, ""),
];

/// A request with one message of a person, one tool, and reasoning if the service has it.
fn first(service: Service, api: &str, said: &str, stream: bool) -> Value {
    let schema = json!({"type": "object", "properties": {"expression": {"type": "string"}}, "required": ["expression"]});
    let function = json!({"name": "calculate", "description": "sums", "parameters": schema});
    let user = json!([{"role": "user", "content": said}]);
    match (service, api) {
        (Service::Anthropic, _) => json!({
            "model": "claude-test", "max_tokens": 4000, "stream": stream, "thinking": {"type": "enabled", "budget_tokens": 1024},
            "tools": [{"name": "calculate", "description": "sums", "input_schema": schema}], "messages": user,
        }),
        (Service::Gemini, _) => json!({
            "stream": stream, "contents": [{"role": "user", "parts": [{"text": said}]}],
            "tools": [{"functionDeclarations": [function]}],
        }),
        (Service::Ollama, _) => json!({
            "model": "qwen", "stream": stream, "think": true, "messages": user,
            "tools": [{"type": "function", "function": function}],
        }),
        (_, "responses") => json!({
            "model": "gpt-test", "stream": stream, "store": false, "include": ["reasoning.encrypted_content"],
            "reasoning": {"effort": "low", "summary": "auto"}, "input": [{"type": "message", "role": "user", "content": said}],
            "tools": [{"type": "function", "name": "calculate", "parameters": schema}],
        }),
        _ => json!({
            "model": "some-model", "stream": stream, "messages": user, "tools": [{"type": "function", "function": function}],
        }),
    }
}

/// The list of messages, under any name.
fn messages(body: &mut Value) -> &mut Vec<Value> {
    let name = ["messages", "input", "contents"].into_iter().find(|name| body[name].is_array()).unwrap();
    body[name].as_array_mut().unwrap()
}

/// Appends an answer that arrived in one piece, and a result for each of its calls. Returns the number of calls.
fn go_on(service: Service, api: &str, body: &mut Value, answer: &Value) -> usize {
    let (said, results): (Vec<Value>, Vec<Value>) = match (service, api) {
        (Service::Anthropic, _) => {
            let calls =
                answer["content"].as_array().unwrap().iter().filter(|block| block["type"] == "tool_use");
            let results =
                calls.map(|call| json!({"type": "tool_result", "tool_use_id": call["id"], "content": "42"}));
            let results: Vec<Value> = results.collect();
            let turn = (!results.is_empty()).then(|| json!({"role": "user", "content": results}));
            (vec![json!({"role": "assistant", "content": answer["content"]})], turn.into_iter().collect())
        }
        (Service::Gemini, _) => {
            let content = &answer["candidates"][0]["content"];
            let calls =
                content["parts"].as_array().unwrap().iter().filter_map(|part| part.get("functionCall"));
            let results = calls.map(|call| json!({"functionResponse": {"id": call["id"], "name": call["name"], "response": {"output": "42"}}}));
            let results: Vec<Value> = results.collect();
            let turn = (!results.is_empty()).then(|| json!({"role": "user", "parts": results}));
            (vec![content.clone()], turn.into_iter().collect())
        }
        (Service::Ollama, _) => {
            let message = answer["message"].clone();
            let calls = message["tool_calls"].as_array().cloned().unwrap_or_default();
            let results = calls
                .iter()
                .map(|call| json!({"role": "tool", "tool_name": call["function"]["name"], "content": "42"}));
            let results = results.collect();
            (vec![message], results)
        }
        (_, "responses") => {
            let output = answer["output"].as_array().unwrap().clone();
            let calls = output.iter().filter(|item| item["type"] == "function_call");
            let results = calls.map(
                |call| json!({"type": "function_call_output", "call_id": call["call_id"], "output": "42"}),
            );
            let results = results.collect();
            (output, results)
        }
        _ => {
            let mut message = answer["choices"][0]["message"].clone();
            message.as_object_mut().unwrap().retain(|_, value| !value.is_null());
            let calls = message["tool_calls"].as_array().cloned().unwrap_or_default();
            let results =
                calls.iter().map(|call| json!({"role": "tool", "tool_call_id": call["id"], "content": "42"}));
            let results = results.collect();
            (vec![message], results)
        }
    };
    let count = results
        .iter()
        .map(|turn| turn["content"].as_array().or(turn["parts"].as_array()).map_or(1, Vec::len))
        .sum();
    let list = messages(body);
    list.extend(said);
    list.extend(results);
    count
}
