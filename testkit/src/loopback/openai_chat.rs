//! Chat Completions of OpenAI and similar services.
//!
//! Their differences: OpenRouter has `reasoning_details` that must come back unchanged, DeepSeek `reasoning_content`, Mistral short
//! ids and calls in one piece, Copilot a first chunk without choices; Groq refuses unknown fields.

use rejoin_formats::Dialect;
use serde_json::{Value, json};

use super::{
    Service,
    brain::{Ask, Called, PromptMessage, Say, Stop, Tool, streamed},
    issue::{Asker, Issued, Issuer, Piece, Secret, Wrong, canonical},
    speak::{Answer, Asked, Objection, Speaker, Tokens, event, list, seconds, text, text_of},
};

/// The dialect. Mistral's is a different one with the same protocol.
pub(super) struct Chat(pub Dialect);

impl Speaker for Chat {
    fn dialect(&self) -> Dialect {
        self.0
    }

    fn ask(&self, asked: &Asked<'_>) -> Ask {
        let body = asked.body;
        let (mut said, mut system) = (Vec::new(), Vec::new());
        for message in list(body, "messages") {
            let words = text_of(&message["content"]);
            match text(message, "role") {
                "system" | "developer" => system.push(words),
                "user" => said.push(PromptMessage::User(words)),
                "tool" => said.push(PromptMessage::Result {
                    id: text(message, "tool_call_id").to_owned(),
                    text: words,
                }),
                _ => {
                    let calls = list(message, "tool_calls").iter().map(|call| Called {
                        id: text(call, "id").to_owned(),
                        name: text(&call["function"], "name").to_owned(),
                        arguments: text(&call["function"], "arguments").to_owned(),
                    });
                    said.push(PromptMessage::Model { text: words, calls: calls.collect() });
                }
            }
        }
        let tools = list(body, "tools").iter().filter(|tool| tool["type"] == "function").map(|tool| Tool {
            name: text(&tool["function"], "name").to_owned(),
            schema: tool["function"]["parameters"].clone(),
        });
        let thinks = match asked.service {
            Service::DeepSeek => body["thinking"]["type"] != "disabled",
            Service::OpenRouter => body["reasoning"].is_object() || body["include_reasoning"] == true,
            _ => false,
        };
        Ask {
            service: asked.service,
            dialect: self.0,
            model: asked.model.clone(),
            system: system.join("\n"),
            tools: if body["tool_choice"] == "none" { Vec::new() } else { tools.collect() },
            said,
            reasoning: thinks,
            stream: asked.stream,
            body: body.clone(),
        }
    }

    fn pieces(&self, body: &Value) -> Vec<Piece> {
        let tools = list(body, "tools").iter().enumerate();
        let mut pieces: Vec<Piece> =
            tools.map(|(k, tool)| Piece::plain(format!("tools.{k}"), canonical(tool))).collect();
        let messages = list(body, "messages").iter().enumerate();
        pieces.extend(messages.map(|(i, message)| piece(format!("messages.{i}"), message)));
        pieces
    }

    fn required(&self, asked: &Asked<'_>) -> Vec<Objection> {
        let body = asked.body;
        let mut found = Vec::new();
        if !body["model"].is_string() {
            found.push(Objection::new("OAC-schema", "model", "you must provide a model parameter"));
        }
        if !body["stream_options"].is_null() && !asked.stream {
            let words = "The 'stream_options' parameter is only allowed when 'stream' is enabled.";
            found.push(Objection::new("OAC-schema", "stream_options", words));
        }
        if asked.service == Service::Groq {
            let known = ["role", "content", "name", "tool_calls", "tool_call_id"];
            for (i, message) in list(body, "messages").iter().enumerate() {
                for name in message.as_object().into_iter().flat_map(|fields| fields.keys()) {
                    if !known.contains(&name.as_str()) {
                        let role = text(message, "role");
                        let words = format!(
                            "'messages.{i}' : for 'role:{role}' the following must be satisfied[('messages.{i}' : \
                             property '{name}' is unsupported)]"
                        );
                        found.push(Objection::new("GRQ-01", format!("messages.{i}.{name}"), words));
                    }
                }
            }
        }
        found
    }

    /// DS-01: reasoning before a call must come back with the call.
    fn missing(&self, asked: &Asked<'_>, issued: &Issued, asker: &Asker) -> Vec<Objection> {
        if !asked.reasoning_required || asked.body["thinking"]["type"] == "disabled" {
            return Vec::new();
        }
        let mut found = Vec::new();
        for (i, message) in list(asked.body, "messages").iter().enumerate() {
            let calls = list(message, "tool_calls");
            let thought = text(message, "reasoning_content");
            let known: Vec<String> =
                calls.iter().flat_map(|call| issued.attached(text(call, "id"), asker)).collect();
            if !calls.is_empty() && (thought.is_empty() || known.iter().any(|known| known != thought)) {
                let words = "The `reasoning_content` in the thinking mode must be passed back to the API.";
                found.push(Objection::new("DS-01", format!("messages.{i}.reasoning_content"), words));
            }
        }
        found
    }

    fn wrong(&self, wrong: &Wrong, _: &Value) -> Objection {
        let words = "reasoning_details must be passed back exactly as they were received";
        Objection::new("OR-01", format!("{}.reasoning_details", wrong.place), words)
    }

    fn answer(&self, ask: &Ask, say: &Say, mut issuer: Issuer<'_>, tokens: Tokens) -> Answer {
        let id = match ask.service {
            Service::OpenRouter => issuer.id(&format!("gen-{}-", seconds()), 20),
            Service::Mistral => issuer.id("", 32).to_ascii_lowercase(),
            _ => issuer.id("chatcmpl-", 29),
        };
        let mut message = json!({"role": "assistant", "content": say.text});
        let thought = say.reasoning.as_deref();
        if !say.calls.is_empty() {
            if say.text.is_empty() && ask.service != Service::Mistral {
                message["content"] = Value::Null;
            }
            let mut calls = Vec::new();
            for call in &say.calls {
                let id = if self.0 == Dialect::Mistral { issuer.id("", 9) } else { issuer.id("call_", 24) };
                if ask.service == Service::DeepSeek
                    && let Some(thought) = thought
                {
                    issuer.attach(&id, &[thought.to_owned()]);
                }
                let function = json!({"name": call.name, "arguments": call.arguments});
                calls.push(json!({"id": id, "type": "function", "function": function}));
            }
            message["tool_calls"] = json!(calls);
        }
        match (ask.service, thought) {
            (Service::DeepSeek, Some(thought)) => message["reasoning_content"] = json!(thought),
            (Service::OpenRouter, Some(thought)) => {
                let detail = if issuer.dice().as_bytes()[0].is_multiple_of(4) {
                    let data = issuer.secret(thought, 160);
                    json!({"type": "reasoning.encrypted", "data": data, "id": issuer.id("rs_", 24), "format": "openai-responses-v1", "index": 0})
                } else {
                    let signature = issuer.secret(thought, 120);
                    json!({"type": "reasoning.text", "text": thought, "signature": signature, "format": "anthropic-claude-v1", "index": 0})
                };
                message["reasoning"] = if detail["data"].is_null() { json!(thought) } else { Value::Null };
                message["reasoning_details"] = json!([detail]);
            }
            _ => {}
        }
        issuer.say(&piece("", &message));
        issuer.done();
        if [Service::OpenAi, Service::OpenRouter].contains(&ask.service) {
            message["refusal"] = Value::Null;
        }
        if ask.service == Service::OpenAi {
            message["annotations"] = json!([]);
        }
        let finish = match say.stop {
            Stop::Length => "length",
            Stop::Refused => "content_filter",
            Stop::Done if say.calls.is_empty() => "stop",
            Stop::Done => "tool_calls",
        };
        let mut usage = json!({
            "prompt_tokens": tokens.input,
            "completion_tokens": tokens.output,
            "total_tokens": tokens.input + tokens.output,
        });
        match ask.service {
            Service::Mistral => {}
            Service::DeepSeek => {
                usage["prompt_cache_hit_tokens"] = json!(tokens.cached);
                usage["prompt_cache_miss_tokens"] = json!(tokens.input - tokens.cached.min(tokens.input));
                usage["completion_tokens_details"] = json!({"reasoning_tokens": tokens.reasoning});
            }
            _ => {
                usage["prompt_tokens_details"] = json!({"cached_tokens": tokens.cached, "audio_tokens": 0});
                usage["completion_tokens_details"] = json!({
                    "reasoning_tokens": tokens.reasoning, "audio_tokens": 0,
                    "accepted_prediction_tokens": 0, "rejected_prediction_tokens": 0,
                });
            }
        }
        let mut choice = json!({"index": 0, "message": message, "logprobs": null, "finish_reason": finish});
        if ask.service == Service::Mistral {
            choice.as_object_mut().map(|choice| choice.remove("logprobs"));
        }
        let mut whole = json!({
            "id": id, "object": "chat.completion", "created": seconds(), "model": ask.model, "choices": [choice],
            "usage": usage,
        });
        match ask.service {
            Service::OpenAi => {
                whole["service_tier"] = json!("default");
                whole["system_fingerprint"] = json!("fp_loopback");
            }
            Service::OpenRouter => {
                whole["provider"] = json!("Loopback");
                whole["choices"][0]["native_finish_reason"] = json!(finish);
            }
            Service::DeepSeek | Service::Groq => whole["system_fingerprint"] = json!("fp_loopback"),
            _ => {}
        }
        let pieces = stream(ask, &whole);
        Answer { whole, pieces }
    }
}

/// The canonical form of a message, without its reasoning, which is checked separately.
fn piece(place: impl Into<String>, message: &Value) -> Piece {
    let content = match &message["content"] {
        Value::String(text) if text.is_empty() => json!([]),
        Value::String(text) => json!([{"type": "text", "text": text}]),
        Value::Null => json!([]),
        other => other.clone(),
    };
    let calls = list(message, "tool_calls").iter().map(|call| {
        let function = &call["function"];
        json!([call["id"], function["name"], function["arguments"]])
    });
    let calls: Vec<Value> = calls.collect();
    let feed = canonical(&json!([message["role"], content, calls, message["tool_call_id"], message["name"]]));
    let details = list(message, "reasoning_details");
    let secret = (!details.is_empty()).then(|| {
        let merged = merged(details);
        let keys = merged.iter().flat_map(|detail| [text(detail, "signature"), text(detail, "data")]);
        let key: Vec<&str> = keys.filter(|key| !key.is_empty()).collect();
        Secret { key: key.join(" "), block: canonical(&Value::Array(merged.clone())), next: None }
    });
    Piece { place: place.into(), feed: Some(feed), secret }
}

/// Details as they would be if they had not been streamed: pieces of one detail have one index.
fn merged(details: &[Value]) -> Vec<Value> {
    let mut whole: Vec<Value> = Vec::new();
    for detail in details {
        let same = |other: &&mut Value| other["index"] == detail["index"] && other["type"] == detail["type"];
        let last = whole.last_mut().filter(same);
        let Some(last) = last else {
            let mut detail = detail.clone();
            if let Some(fields) = detail.as_object_mut() {
                fields.retain(|_, value| !value.is_null());
            }
            whole.push(detail);
            continue;
        };
        for (name, value) in detail.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null()) {
            let grows = ["text", "summary", "data"].contains(&name.as_str());
            match (grows, last[name].as_str(), value.as_str()) {
                (true, Some(before), Some(more)) => last[name] = json!(format!("{before}{more}")),
                _ => last[name] = value.clone(),
            }
        }
    }
    whole
}

/// The same answer as a stream.
fn stream(ask: &Ask, whole: &Value) -> Vec<Vec<u8>> {
    let choice = &whole["choices"][0];
    let message = &choice["message"];
    let asks_usage = ask.body["stream_options"]["include_usage"] == true;
    let chunk = |delta: Value, finish: Value| {
        let mut chunk = json!({
            "id": whole["id"], "object": "chat.completion.chunk", "created": whole["created"], "model": whole["model"],
        });
        for name in ["service_tier", "system_fingerprint", "provider"] {
            if let Some(value) = whole.get(name) {
                chunk[name] = value.clone();
            }
        }
        let mut choice = json!({"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish});
        if ask.service == Service::OpenRouter {
            choice["native_finish_reason"] = choice["finish_reason"].clone();
        }
        chunk["choices"] = json!([choice]);
        if asks_usage && ask.service == Service::OpenAi {
            chunk["usage"] = Value::Null;
        }
        chunk
    };
    let mut chunks: Vec<Value> = Vec::new();
    if ask.service == Service::Copilot {
        chunks.push(json!({"choices": [], "created": 0, "id": "", "prompt_filter_results": [{"content_filter_results": {}, "prompt_index": 0}]}));
    }
    let opening = if message["content"].is_null() { Value::Null } else { json!("") };
    chunks.push(chunk(json!({"role": "assistant", "content": opening}), Value::Null));
    for piece in streamed(text(message, "reasoning_content")) {
        chunks.push(chunk(json!({"content": null, "reasoning_content": piece}), Value::Null));
    }
    for detail in list(message, "reasoning_details") {
        let mut part = detail.clone();
        for piece in streamed(text(detail, "text")) {
            part["text"] = json!(piece);
            part.as_object_mut().map(|part| part.remove("signature"));
            chunks.push(chunk(
                json!({"role": "assistant", "content": "", "reasoning": piece, "reasoning_details": [part]}),
                Value::Null,
            ));
        }
        let mut last = detail.clone();
        last.as_object_mut().map(|last| last.remove("text"));
        chunks.push(chunk(
            json!({"role": "assistant", "content": "", "reasoning": null, "reasoning_details": [last]}),
            Value::Null,
        ));
    }
    for piece in streamed(text(message, "content")) {
        chunks.push(chunk(json!({"content": piece}), Value::Null));
    }
    for (index, call) in list(message, "tool_calls").iter().enumerate() {
        let function = &call["function"];
        let at_once = ask.service == Service::Mistral;
        let arguments = if at_once { text(function, "arguments") } else { "" };
        let head = json!({"name": function["name"], "arguments": arguments});
        let head = json!({"index": index, "id": call["id"], "type": "function", "function": head});
        chunks.push(chunk(json!({"tool_calls": [head]}), Value::Null));
        for piece in streamed(text(function, "arguments")).into_iter().filter(|_| !at_once) {
            let more = json!({"index": index, "function": {"arguments": piece}});
            chunks.push(chunk(json!({"tool_calls": [more]}), Value::Null));
        }
    }
    chunks.push(chunk(json!({}), choice["finish_reason"].clone()));
    let always =
        [Service::Mistral, Service::DeepSeek, Service::Copilot, Service::OpenRouter].contains(&ask.service);
    if always && let Some(last) = chunks.last_mut() {
        last["usage"] = whole["usage"].clone();
    } else if asks_usage {
        let mut last = chunk(json!({}), Value::Null);
        last["choices"] = json!([]);
        last["usage"] = whole["usage"].clone();
        chunks.push(last);
    }
    let mut events: Vec<Vec<u8>> = match ask.service {
        Service::OpenRouter => vec![b": OPENROUTER PROCESSING\n\n".to_vec()],
        Service::DeepSeek => vec![b": keep-alive\n\n".to_vec()],
        _ => Vec::new(),
    };
    events.extend(chunks.iter().map(|chunk| event("", chunk)));
    events.push(b"data: [DONE]\n\n".to_vec());
    events
}
