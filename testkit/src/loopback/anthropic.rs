//! Anthropic Messages: `thinking` with a signature, sometimes `redacted_thinking`, prompt caching, named events.

use rejoin_formats::Dialect;
use serde_json::{Value, json};

use super::{
    brain::{Ask, Called, PromptMessage, Say, Stop, Tool, streamed},
    issue::{Asker, Issued, Issuer, Piece, Secret, Why, Wrong, canonical_without},
    speak::{Answer, Asked, Objection, Speaker, Tokens, event, list, object, text, text_of},
};

/// The dialect.
pub(super) struct Anthropic;

impl Speaker for Anthropic {
    fn dialect(&self) -> Dialect {
        Dialect::Anthropic
    }

    fn ask(&self, asked: &Asked<'_>) -> Ask {
        let body = asked.body;
        let mut said = Vec::new();
        for message in list(body, "messages") {
            let of_the_model = message["role"] == "assistant";
            let (mut spoken, mut calls) = (String::new(), Vec::new());
            for block in blocks(&message["content"]) {
                match text(&block, "type") {
                    "text" if of_the_model => spoken.push_str(text(&block, "text")),
                    "text" => said.push(PromptMessage::User(text(&block, "text").to_owned())),
                    "tool_use" => calls.push(Called {
                        id: text(&block, "id").to_owned(),
                        name: text(&block, "name").to_owned(),
                        arguments: block["input"].to_string(),
                    }),
                    "tool_result" => said.push(PromptMessage::Result {
                        id: text(&block, "tool_use_id").to_owned(),
                        text: text_of(&block["content"]),
                    }),
                    _ => {}
                }
            }
            if of_the_model {
                said.push(PromptMessage::Model { text: spoken, calls });
            }
        }
        let tools = list(body, "tools").iter().filter(|tool| tool["input_schema"].is_object());
        let tools = tools
            .map(|tool| Tool { name: text(tool, "name").to_owned(), schema: tool["input_schema"].clone() });
        Ask {
            service: asked.service,
            dialect: Dialect::Anthropic,
            model: asked.model.clone(),
            system: text_of(&body["system"]),
            tools: if body["tool_choice"]["type"] == "none" { Vec::new() } else { tools.collect() },
            said,
            reasoning: body["thinking"]["type"] == "enabled",
            stream: asked.stream,
            body: body.clone(),
        }
    }

    fn pieces(&self, body: &Value) -> Vec<Piece> {
        let mut pieces = Vec::new();
        for block in blocks(&body["system"]) {
            pieces.push(piece("system", "system", &block));
        }
        for (k, tool) in list(body, "tools").iter().enumerate() {
            pieces.push(piece("tools", format!("tools.{k}"), tool));
        }
        for (i, message) in list(body, "messages").iter().enumerate() {
            for (j, block) in blocks(&message["content"]).iter().enumerate() {
                pieces.push(piece(text(message, "role"), format!("messages.{i}.content.{j}"), block));
            }
        }
        pieces
    }

    fn required(&self, asked: &Asked<'_>) -> Vec<Objection> {
        let body = asked.body;
        let mut found = Vec::new();
        let mut refuse =
            |place: &str, message: &str| found.push(Objection::new("ANT-schema", place, message));
        if !body["model"].is_string() {
            refuse("model", "model: Field required");
        }
        match body.get("max_tokens") {
            None => refuse("max_tokens", "max_tokens: Field required"),
            Some(most) => match most.as_u64() {
                None => refuse("max_tokens", "max_tokens: Input should be a valid integer"),
                Some(0) => refuse("max_tokens", "max_tokens: must be greater than or equal to 1"),
                Some(most) if body["thinking"]["type"] == "enabled" => {
                    match body["thinking"]["budget_tokens"].as_u64() {
                        None => refuse("thinking", "thinking.enabled.budget_tokens: Field required"),
                        Some(..1024) => refuse(
                            "thinking",
                            "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024",
                        ),
                        Some(budget) if budget >= most => {
                            refuse(
                                "max_tokens",
                                "`max_tokens` must be greater than `thinking.budget_tokens`.",
                            );
                        }
                        Some(_) => {}
                    }
                }
                Some(_) => {}
            },
        }
        found
    }

    /// ANT-19: of the last message of the model no thinking may be taken away, as long as its calls are being answered.
    fn missing(&self, asked: &Asked<'_>, issued: &Issued, asker: &Asker) -> Vec<Objection> {
        let messages = list(asked.body, "messages");
        let last = messages.iter().rposition(|message| message["role"] == "assistant");
        let Some(last) = last.filter(|_| asked.body["thinking"]["type"] == "enabled") else {
            return Vec::new();
        };
        let blocks = blocks(&messages[last]["content"]);
        let calls = blocks.iter().filter(|block| block["type"] == "tool_use");
        let wanted: Vec<String> = calls.flat_map(|call| issued.attached(text(call, "id"), asker)).collect();
        let given: Vec<&str> = blocks.iter().filter_map(|block| Some(secret(block)?.0)).collect();
        let place = format!("messages.{last}.content.0");
        if wanted.iter().any(|key| !given.contains(&key.as_str())) {
            vec![Objection::new("ANT-19", &*place, modified(&place))]
        } else {
            Vec::new()
        }
    }

    fn wrong(&self, wrong: &Wrong, body: &Value) -> Objection {
        let place = &wrong.place;
        let last = list(body, "messages").iter().rposition(|message| message["role"] == "assistant");
        let in_the_last = last.is_some_and(|last| place.starts_with(&format!("messages.{last}.")));
        let redacted = format!("{place}: Invalid `data` in `redacted_thinking` block");
        match wrong.why {
            Why::Altered if in_the_last => Objection::new("ANT-19", place, modified(place)),
            Why::Moved | Why::Bereft => Objection::new(
                "ANT-21",
                place,
                format!(
                    "{place}: Invalid `signature` in `thinking` block. The block is bound to a different conversation. \
                     Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to \"drop_block\"."
                ),
            ),
            _ if wrong.key.starts_with(REDACTED) => Objection::new("ANT-20", place, redacted),
            _ => Objection::new("ANT-20", place, format!("{place}: Invalid `signature` in `thinking` block")),
        }
    }

    fn answer(&self, ask: &Ask, say: &Say, mut issuer: Issuer<'_>, tokens: Tokens) -> Answer {
        let id = issuer.id("msg_01", 22);
        let mut content = Vec::new();
        let mut secrets = Vec::new();
        let may_think = ["enabled", "adaptive"].contains(&text(&ask.body["thinking"], "type"));
        // A model that must think does.
        let thought = say.reasoning.clone().or_else(|| ask.reasoning.then(|| String::from("Let me think.")));
        if let Some(thought) = thought.filter(|_| may_think) {
            let block = match issuer.dice().as_bytes()[0] % 8 {
                0 => {
                    json!({"type": "redacted_thinking", "data": format!("{REDACTED}{}", issuer.secret(&thought, 160))})
                }
                // Some models hide their reasoning, but still sign it.
                1 => json!({"type": "thinking", "thinking": "", "signature": issuer.secret("", 120)}),
                _ => {
                    json!({"type": "thinking", "thinking": thought, "signature": issuer.secret(&thought, 120)})
                }
            };
            secrets.extend(secret(&block).map(|(key, _)| key.to_owned()));
            issuer.say(&piece("assistant", "", &block));
            content.push(block);
        }
        if !say.text.is_empty() {
            let block = json!({"type": "text", "text": say.text});
            issuer.say(&piece("assistant", "", &block));
            content.push(block);
        }
        for call in &say.calls {
            let id = issuer.id("toolu_01", 22);
            issuer.attach(&id, &secrets);
            let block =
                json!({"type": "tool_use", "id": id, "name": call.name, "input": object(&call.arguments)});
            issuer.say(&piece("assistant", "", &block));
            content.push(block);
        }
        issuer.done();
        let reason = match say.stop {
            Stop::Length => "max_tokens",
            Stop::Refused => "refusal",
            Stop::Done if say.calls.is_empty() => "end_turn",
            Stop::Done => "tool_use",
        };
        let marked = ask.body.to_string().contains("\"cache_control\"");
        let cached = if marked { tokens.cached.min(tokens.input - 1) } else { 0 };
        let written = if marked { tokens.input - 1 - cached } else { 0 };
        let usage = json!({
            "input_tokens": tokens.input - cached - written,
            "cache_creation_input_tokens": written,
            "cache_read_input_tokens": cached,
            "cache_creation": {"ephemeral_5m_input_tokens": written, "ephemeral_1h_input_tokens": 0},
            "output_tokens": tokens.output,
            "service_tier": "standard",
        });
        let whole = json!({
            "model": ask.model, "id": id, "type": "message", "role": "assistant", "content": content,
            "stop_reason": reason, "stop_sequence": null, "usage": usage,
        });
        let pieces = events(&whole, say);
        Answer { whole, pieces }
    }
}

/// The beginning of the data of redacted thinking.
const REDACTED: &str = "EmwKAhgB";

fn modified(place: &str) -> String {
    format!(
        "{place}: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified. These \
         blocks must remain as they were in the original response."
    )
}

/// The blocks of a content; a text is one block, and an empty one is none.
fn blocks(content: &Value) -> Vec<Value> {
    match content {
        Value::String(text) if !text.is_empty() => vec![json!({"type": "text", "text": text})],
        Value::Array(blocks) => blocks.clone(),
        _ => Vec::new(),
    }
}

/// The secret of a block, and the block in the form for comparing.
fn secret(block: &Value) -> Option<(&str, String)> {
    let key = match text(block, "type") {
        "thinking" => text(block, "signature"),
        "redacted_thinking" => text(block, "data"),
        _ => return None,
    };
    Some((key, canonical_without(block, &["cache_control"])))
}

fn piece(role: &str, place: impl Into<String>, block: &Value) -> Piece {
    let mut block = block.clone();
    if block["type"] == "tool_result" {
        block["content"] = Value::Array(blocks(&block["content"]));
        if block["is_error"] == false {
            block.as_object_mut().map(|fields| fields.remove("is_error"));
        }
    }
    let secret = secret(&block).map(|(key, block)| Secret { key: key.to_owned(), block, next: None });
    let feed = format!("{role} {}", canonical_without(&block, &["cache_control"]));
    Piece { place: place.into(), feed: Some(feed), secret }
}

/// The same message as a stream.
fn events(whole: &Value, say: &Say) -> Vec<Vec<u8>> {
    let mut start = whole.clone();
    start["content"] = json!([]);
    start["stop_reason"] = Value::Null;
    start["usage"]["output_tokens"] = json!(1);
    let mut events = vec![event("message_start", &json!({"type": "message_start", "message": start}))];
    let mut calls = say.calls.iter();
    for (index, block) in list(whole, "content").iter().enumerate() {
        let mut begun = block.clone();
        let mut deltas = Vec::new();
        match text(block, "type") {
            "thinking" => {
                begun["thinking"] = json!("");
                begun["signature"] = json!("");
                for piece in streamed(text(block, "thinking")) {
                    deltas.push(json!({"type": "thinking_delta", "thinking": piece}));
                }
                deltas.push(json!({"type": "signature_delta", "signature": block["signature"]}));
            }
            "text" => {
                begun["text"] = json!("");
                for piece in streamed(text(block, "text")) {
                    deltas.push(json!({"type": "text_delta", "text": piece}));
                }
            }
            "tool_use" => {
                begun["input"] = json!({});
                // A text that is not JSON is sent unchanged: a cut answer looks like that.
                let arguments = calls.next().map_or("{}", |call| call.arguments.as_str());
                deltas.push(json!({"type": "input_json_delta", "partial_json": ""}));
                for piece in streamed(arguments) {
                    deltas.push(json!({"type": "input_json_delta", "partial_json": piece}));
                }
            }
            _ => {}
        }
        let begun = json!({"type": "content_block_start", "index": index, "content_block": begun});
        events.push(event("content_block_start", &begun));
        if index == 0 {
            events.push(b"event: ping\ndata: {\"type\": \"ping\"}\n\n".to_vec());
        }
        for delta in deltas {
            let delta = json!({"type": "content_block_delta", "index": index, "delta": delta});
            events.push(event("content_block_delta", &delta));
        }
        events.push(event("content_block_stop", &json!({"type": "content_block_stop", "index": index})));
    }
    let usage = &whole["usage"];
    let usage = json!({
        "input_tokens": usage["input_tokens"],
        "cache_creation_input_tokens": usage["cache_creation_input_tokens"],
        "cache_read_input_tokens": usage["cache_read_input_tokens"],
        "output_tokens": usage["output_tokens"],
    });
    let delta = json!({"stop_reason": whole["stop_reason"], "stop_sequence": null});
    events.push(event("message_delta", &json!({"type": "message_delta", "delta": delta, "usage": usage})));
    events.push(event("message_stop", &json!({"type": "message_stop"})));
    events
}
