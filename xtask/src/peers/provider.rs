//! The provider of a resumed agent: answers one turn in any API that an agent uses, whatever the request, and keeps the requests.
//! The server is testkit's.

use serde_json::{Value, json};
use testkit::loopback::scripted::{Answer, Asked, Server};

/// The text of its answer.
pub const REPLY: &str = "The loopback provider has read it all.";

/// A provider for one turn.
pub struct Provider(Server);

impl Provider {
    pub fn start() -> Self {
        Self(Server::answering(answer))
    }

    /// The address of the provider, for a client.
    pub fn origin(&self) -> &str {
        &self.0.url
    }

    /// The bodies of the requested turns, without other requests.
    pub fn turns(&self) -> Vec<String> {
        let asked = self.0.asked().into_iter();
        asked.filter(|asked| events(asked).is_some()).map(|asked| asked.body).collect()
    }
}

fn answer(asked: &Asked) -> Answer {
    if asked.line.starts_with("GET ") && asked.line.ends_with("/responses") {
        // A client that prefers a WebSocket falls back at once after this answer.
        return Answer::of(426, "text/plain", "");
    }
    let Some(events) = events(asked) else { return Answer::of(404, "text/plain", "") };
    if is_chat(asked) && !is_streamed(asked) {
        return Answer::json(200, &chat_completion().to_string());
    }
    let event = |event: &Value| match event["type"].as_str() {
        Some(name) => format!("event: {name}\ndata: {event}\n\n"),
        None => format!("data: {event}\n\n"),
    };
    let mut stream: String = events.iter().map(event).collect();
    if is_chat(asked) {
        stream.push_str("data: [DONE]\n\n");
    }
    Answer::stream(&stream)
}

/// The last part of the path of a POST request.
fn last(asked: &Asked) -> Option<&str> {
    asked.line.strip_prefix("POST ")?.split('?').next()?.rsplit('/').next()
}

fn is_chat(asked: &Asked) -> bool {
    last(asked) == Some("completions")
}

fn is_streamed(asked: &Asked) -> bool {
    serde_json::from_str::<Value>(&asked.body).is_ok_and(|body| body["stream"] == json!(true))
}

/// The answer to a turn; `None` for other requests.
fn events(asked: &Asked) -> Option<Vec<Value>> {
    let last = last(asked)?;
    match last {
        "completions" => Some(chat_events()),
        "responses" => Some(responses_events()),
        "messages" => Some(messages_events()),
        _ if last.ends_with(":streamGenerateContent") => Some(gemini_events()),
        _ => None,
    }
}

fn responses_events() -> Vec<Value> {
    let message = json!({
        "type": "message", "id": "msg_loopback", "role": "assistant", "status": "completed",
        "content": [{"type": "output_text", "text": REPLY, "annotations": []}],
    });
    let usage = json!({
        "input_tokens": 1, "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 1, "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 2,
    });
    vec![
        json!({"type": "response.created", "response": {"id": "resp_loopback"}}),
        json!({"type": "response.output_item.done", "output_index": 0, "item": message}),
        json!({"type": "response.completed", "response": {"id": "resp_loopback", "usage": usage}}),
    ]
}

fn messages_events() -> Vec<Value> {
    let message = json!({
        "id": "msg_loopback", "type": "message", "role": "assistant", "model": "loopback", "content": [],
        "stop_reason": null, "stop_sequence": null, "usage": {"input_tokens": 1, "output_tokens": 1},
    });
    vec![
        json!({"type": "message_start", "message": message}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": REPLY}}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": null},
            "usage": {"output_tokens": 1}}),
        json!({"type": "message_stop"}),
    ]
}

fn chat_events() -> Vec<Value> {
    let chunk = |delta: Value, reason: Option<&str>| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": reason});
        json!({"id": "chatcmpl-loopback", "object": "chat.completion.chunk", "created": 1, "model": "loopback", "choices": [choice]})
    };
    let mut end = chunk(json!({}), Some("stop"));
    end["usage"] = chat_usage();
    vec![chunk(json!({"role": "assistant", "content": REPLY}), None), end]
}

fn chat_completion() -> Value {
    let message = json!({"role": "assistant", "content": REPLY});
    json!({
        "id": "chatcmpl-loopback", "object": "chat.completion", "created": 1, "model": "loopback",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": chat_usage(),
    })
}

fn chat_usage() -> Value {
    json!({"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2})
}

fn gemini_events() -> Vec<Value> {
    let content = json!({"role": "model", "parts": [{"text": REPLY}]});
    let usage = json!({"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2});
    vec![
        json!({"candidates": [{"content": content, "finishReason": "STOP", "index": 0}], "usageMetadata": usage}),
    ]
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read as _, Write as _},
        net::TcpStream,
    };

    use super::*;

    #[test]
    fn a_turn_is_answered_and_kept() {
        let provider = Provider::start();
        let ask = |request: &str| {
            let mut stream = TcpStream::connect(provider.origin().trim_start_matches("http://")).unwrap();
            // Close the connection at the end of the answer.
            let request = request.replacen(" HTTP/1.1\r\n", " HTTP/1.1\r\nConnection: close\r\n", 1);
            stream.write_all(request.as_bytes()).unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            answer
        };
        let answer = ask("POST /v1/responses HTTP/1.1\r\nContent-Length: 11\r\n\r\n{\"input\":1}");
        assert!(answer.contains("event: response.completed\n") && answer.contains(REPLY), "{answer}");
        assert!(ask("GET /v1/responses HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 426 "));
        assert!(ask("GET /v1/models HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 "));
        let answer = ask("POST /v1/messages?beta=true HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}");
        assert!(answer.contains("event: message_stop\n") && answer.contains(REPLY), "{answer}");
        let turn = "/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse";
        let answer = ask(&format!("POST {turn} HTTP/1.1\r\nContent-Length: 2\r\n\r\n[]"));
        assert!(answer.contains("data: {\"candidates\":") && answer.contains(REPLY), "{answer}");
        let chat = |body: &str| {
            let length = body.len();
            ask(&format!("POST /v1/chat/completions HTTP/1.1\r\nContent-Length: {length}\r\n\r\n{body}"))
        };
        let answer = chat("{\"stream\":true}");
        assert!(answer.ends_with("data: [DONE]\n\n") && answer.contains(REPLY), "{answer}");
        let answer = chat("{}");
        assert!(answer.contains("\"chat.completion\"") && answer.contains(REPLY), "{answer}");
        assert_eq!(provider.turns(), ["{\"input\":1}", "{}", "[]", "{\"stream\":true}", "{}"]);
    }
}
