//! Ollama's `/api/chat`: one JSON object per line, `thinking` in plain text, no signatures.

use rejoin_formats::Dialect;
use serde_json::{Value, json};

use super::{
    brain::{Ask, Called, PromptMessage, Say, Stop, Tool, streamed},
    issue::{Issuer, Piece, Wrong, canonical},
    speak::{Answer, Asked, Objection, Speaker, Tokens, list, object, seconds, text},
};

/// The dialect.
pub(super) struct Ollama;

impl Speaker for Ollama {
    fn dialect(&self) -> Dialect {
        Dialect::Ollama
    }

    fn stream_type(&self) -> &'static str {
        "application/x-ndjson"
    }

    fn ask(&self, asked: &Asked<'_>) -> Ask {
        let body = asked.body;
        let (mut said, mut system) = (Vec::new(), Vec::new());
        for message in list(body, "messages") {
            let words = text(message, "content").to_owned();
            match text(message, "role") {
                "system" => system.push(words),
                "user" => said.push(PromptMessage::User(words)),
                "tool" => said.push(PromptMessage::Result {
                    id: text(message, "tool_call_id").to_owned(),
                    text: words,
                }),
                _ => {
                    let calls = list(message, "tool_calls").iter().map(|call| Called {
                        id: text(call, "id").to_owned(),
                        name: text(&call["function"], "name").to_owned(),
                        arguments: call["function"]["arguments"].to_string(),
                    });
                    said.push(PromptMessage::Model { text: words, calls: calls.collect() });
                }
            }
        }
        let tools = list(body, "tools").iter().map(|tool| Tool {
            name: text(&tool["function"], "name").to_owned(),
            schema: tool["function"]["parameters"].clone(),
        });
        Ask {
            service: asked.service,
            dialect: Dialect::Ollama,
            model: asked.model.clone(),
            system: system.join("\n"),
            tools: tools.collect(),
            said,
            reasoning: thinks(body) == Some(true),
            stream: asked.stream,
            body: body.clone(),
        }
    }

    fn pieces(&self, body: &Value) -> Vec<Piece> {
        let tools = list(body, "tools").iter().enumerate();
        let tools = tools.map(|(k, tool)| Piece::plain(format!("tools.{k}"), canonical(tool)));
        let messages = list(body, "messages").iter().enumerate();
        tools
            .chain(messages.map(|(i, message)| Piece::plain(format!("messages.{i}"), canonical(message))))
            .collect()
    }

    fn required(&self, asked: &Asked<'_>) -> Vec<Objection> {
        if asked.model.is_empty() {
            return vec![Objection::new("OLL-schema", "model", "model is required")];
        }
        Vec::new()
    }

    fn wrong(&self, wrong: &Wrong, _: &Value) -> Objection {
        Objection::new("OLL-schema", &*wrong.place, "nothing is signed here")
    }

    fn answer(&self, ask: &Ask, say: &Say, mut issuer: Issuer<'_>, tokens: Tokens) -> Answer {
        let mut message = json!({"role": "assistant", "content": say.text});
        // Models that can reason do so, unless the request forbids it.
        if let Some(thought) = say.reasoning.as_ref().filter(|_| thinks(&ask.body) != Some(false)) {
            message["thinking"] = json!(thought);
        }
        let mut calls = Vec::new();
        for (index, call) in say.calls.iter().enumerate() {
            let function = json!({"index": index, "name": call.name, "arguments": object(&call.arguments)});
            calls.push(json!({"id": issuer.id("call_", 8).to_ascii_lowercase(), "function": function}));
        }
        if !calls.is_empty() {
            message["tool_calls"] = json!(calls);
        }
        issuer.trail.feed(&canonical(&message));
        issuer.done();
        let created = jiff::Timestamp::from_second(seconds()).unwrap_or_default().to_string();
        let line = |message: Value, done: bool| {
            let mut line =
                json!({"model": ask.model, "created_at": created, "message": message, "done": done});
            if done {
                line["done_reason"] = json!(if say.stop == Stop::Length { "length" } else { "stop" });
                for (name, value) in [
                    ("total_duration", 5_191_566_416_u64),
                    ("load_duration", 2_154_458),
                    ("prompt_eval_count", tokens.input),
                    ("prompt_eval_duration", 383_809_000),
                    ("eval_count", tokens.output),
                    ("eval_duration", 4_799_921_000),
                ] {
                    line[name] = json!(value);
                }
            }
            line
        };
        let mut lines = Vec::new();
        for piece in streamed(text(&message, "thinking")) {
            lines.push(line(json!({"role": "assistant", "content": "", "thinking": piece}), false));
        }
        for piece in streamed(&say.text) {
            lines.push(line(json!({"role": "assistant", "content": piece}), false));
        }
        for call in &calls {
            lines.push(line(json!({"role": "assistant", "content": "", "tool_calls": [call]}), false));
        }
        lines.push(line(json!({"role": "assistant", "content": ""}), true));
        let pieces = lines.iter().map(|line| format!("{line}\n").into_bytes()).collect();
        Answer { whole: line(message, true), pieces }
    }
}

/// Whether the request wants reasoning; `None` if it does not say.
fn thinks(body: &Value) -> Option<bool> {
    match &body["think"] {
        Value::Null => None,
        Value::Bool(think) => Some(*think),
        _ => Some(true),
    }
}
