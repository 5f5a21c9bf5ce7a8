//! Google Gemini: a `thoughtSignature` on the first call of each step, and sometimes on text.
//!
//! As in protocol buffers, a field may be written `functionCall` or `function_call`.

use rejoin_formats::Dialect;
use serde_json::{Value, json};

use super::{
    brain::{Ask, Called, PromptMessage, Say, Stop, Tool, streamed},
    issue::{Issuer, Piece, Secret, Why, Wrong, canonical},
    speak::{Answer, Asked, Objection, Speaker, Tokens, object, text},
};

/// The values for a call that was made elsewhere, as bytes in JSON.
const SENTINELS: [&str; 2] =
    ["c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I=", "Y29udGV4dF9lbmdpbmVlcmluZ19pc190aGVfd2F5X3RvX2dv"];

/// The dialect.
pub(super) struct Gemini;

impl Speaker for Gemini {
    fn dialect(&self) -> Dialect {
        Dialect::Gemini
    }

    fn stream_type(&self) -> &'static str {
        "text/event-stream"
    }

    fn ask(&self, asked: &Asked<'_>) -> Ask {
        let body = asked.body;
        let mut said = Vec::new();
        for content in items(body, "contents") {
            let of_the_model = content["role"] == "model";
            let (mut spoken, mut calls) = (String::new(), Vec::new());
            for part in items(content, "parts").iter().filter(|part| !is_thought(part)) {
                if let Some(call) = field(part, "functionCall") {
                    calls.push(Called {
                        id: text(call, "id").to_owned(),
                        name: text(call, "name").to_owned(),
                        arguments: call.get("args").unwrap_or(&json!({})).to_string(),
                    });
                } else if let Some(result) = field(part, "functionResponse") {
                    let response = &result["response"];
                    let words = ["output", "result", "error"].iter().find_map(|name| response[name].as_str());
                    let text_of = words.map_or_else(|| response.to_string(), str::to_owned);
                    said.push(PromptMessage::Result { id: text(result, "id").to_owned(), text: text_of });
                } else if of_the_model {
                    spoken.push_str(text(part, "text"));
                } else if let Some(words) = part["text"].as_str() {
                    said.push(PromptMessage::User(words.to_owned()));
                }
            }
            if of_the_model {
                said.push(PromptMessage::Model { text: spoken, calls });
            }
        }
        let declared = items(body, "tools").iter().flat_map(|tool| items(tool, "functionDeclarations"));
        let tools = declared.map(|tool| {
            let schema = field(tool, "parameters").or_else(|| field(tool, "parametersJsonSchema"));
            Tool { name: text(tool, "name").to_owned(), schema: schema.cloned().unwrap_or(json!({})) }
        });
        let mode = field(body, "toolConfig").and_then(|config| field(config, "functionCallingConfig"));
        let system = field(body, "systemInstruction").map_or(&[][..], |system| items(system, "parts"));
        Ask {
            service: asked.service,
            dialect: Dialect::Gemini,
            model: asked.model.clone(),
            system: system.iter().map(|part| text(part, "text")).collect::<Vec<_>>().join("\n"),
            tools: if mode.is_some_and(|mode| mode["mode"] == "NONE") { Vec::new() } else { tools.collect() },
            said,
            reasoning: wants_thoughts(body),
            stream: asked.stream,
            body: body.clone(),
        }
    }

    fn pieces(&self, body: &Value) -> Vec<Piece> {
        let mut pieces = Vec::new();
        if let Some(system) = field(body, "systemInstruction") {
            for part in items(system, "parts") {
                pieces.push(Piece::plain("systemInstruction", format!("system {}", canonical(part))));
            }
        }
        for (k, tool) in items(body, "tools").iter().enumerate() {
            pieces.push(Piece::plain(format!("tools.{k}"), canonical(tool)));
        }
        for (i, content) in items(body, "contents").iter().enumerate() {
            let role = if content["role"] == "model" { "model" } else { "user" };
            for (j, part) in items(content, "parts").iter().enumerate() {
                let Some(next) = piece(role, format!("contents.{i}.parts.{j}"), part) else { continue };
                // Text that is not signed may be cut anywhere.
                let last = pieces.last_mut().and_then(|last: &mut Piece| {
                    let free = |piece: &Piece| piece.secret.is_none();
                    (free(last) && free(&next)).then_some(last.feed.as_mut()?)
                });
                let opening = format!("{role} text ");
                match (last, next.feed.as_deref().and_then(|feed| feed.strip_prefix(&opening))) {
                    (Some(last), Some(more)) if last.starts_with(&opening) => last.push_str(more),
                    _ => pieces.push(next),
                }
            }
        }
        pieces
    }

    fn required(&self, _: &Asked<'_>) -> Vec<Objection> {
        Vec::new()
    }

    fn wrong(&self, wrong: &Wrong, _: &Value) -> Objection {
        let words = match wrong.why {
            Why::Unknown | Why::Altered => "Corrupted thought signature.",
            Why::Foreign | Why::Moved | Why::Bereft => "Invalid thought signature.",
        };
        Objection::new("GEM-12", format!("{}.thoughtSignature", wrong.place), words)
    }

    fn answer(&self, ask: &Ask, say: &Say, mut issuer: Issuer<'_>, tokens: Tokens) -> Answer {
        let id = issuer.id("", 22);
        // The parts of each chunk of a stream. Together they are the parts of the whole answer, but for text that is cut.
        let mut chunks: Vec<Vec<Value>> = Vec::new();
        if let Some(thought) = say.reasoning.as_ref().filter(|_| wants_thoughts(&ask.body)) {
            chunks.push(vec![json!({"text": thought, "thought": true})]);
        }
        let mut pieces = streamed(&say.text);
        let signed = match issuer.dice().as_bytes()[0] % 4 {
            _ if !say.calls.is_empty() || pieces.is_empty() => None,
            0 => None,
            // The signature comes after all text.
            1 => Some(String::new()),
            _ => pieces.pop(),
        };
        let mut spoken = pieces.concat();
        chunks.extend(pieces.into_iter().map(|text| vec![json!({"text": text})]));
        let mut whole: Vec<Value> =
            chunks.first().filter(|parts| is_thought(&parts[0])).cloned().unwrap_or_default();
        if !spoken.is_empty() {
            let part = json!({"text": std::mem::take(&mut spoken)});
            issuer.say(&piece("model", "", &part).expect("BUG: text is a piece"));
            whole.push(part);
        }
        if let Some(rest) = signed {
            let part = json!({"text": rest, "thoughtSignature": issuer.secret(&rest, 96)});
            if let Some(piece) = piece("model", "", &part) {
                issuer.say(&piece);
            }
            chunks.push(vec![part.clone()]);
            whole.push(part);
        }
        let mut calls = Vec::new();
        for (number, call) in say.calls.iter().enumerate() {
            let mut part = json!({"functionCall": {"name": call.name, "args": object(&call.arguments)}});
            part["functionCall"]["id"] = json!(issuer.id("", 8));
            if number == 0 {
                part["thoughtSignature"] = json!(issuer.secret(&call.arguments, 96));
            }
            issuer.say(&piece("model", "", &part).expect("BUG: a call is a piece"));
            calls.push(part);
        }
        whole.extend(calls.iter().cloned());
        if !calls.is_empty() {
            chunks.push(calls);
        }
        issuer.done();
        let reason = match say.stop {
            Stop::Length => "MAX_TOKENS",
            Stop::Refused => "SAFETY",
            Stop::Done => "STOP",
        };
        let mut usage = json!({
            "promptTokenCount": tokens.input,
            "candidatesTokenCount": tokens.output - tokens.reasoning,
            "totalTokenCount": tokens.input + tokens.output,
            "promptTokensDetails": [{"modality": "TEXT", "tokenCount": tokens.input}],
            "thoughtsTokenCount": tokens.reasoning,
        });
        if tokens.cached > 0 {
            usage["cachedContentTokenCount"] = json!(tokens.cached);
        }
        let response = |parts: &[Value], last: bool| {
            let mut candidate = json!({"content": {"parts": parts, "role": "model"}, "index": 0});
            if last {
                candidate["finishReason"] = json!(reason);
            }
            json!({"candidates": [candidate], "usageMetadata": usage, "modelVersion": ask.model, "responseId": id})
        };
        let last = chunks.len().saturating_sub(1);
        if chunks.is_empty() {
            chunks.push(vec![json!({"text": ""})]);
        }
        let parts: Vec<Value> =
            chunks.iter().enumerate().map(|(number, parts)| response(parts, number == last)).collect();
        Answer { whole: response(&whole, true), pieces: framed(&parts) }
    }
}

/// The chunks of a stream with `alt=sse`.
fn framed(chunks: &[Value]) -> Vec<Vec<u8>> {
    chunks.iter().map(|chunk| format!("data: {chunk}\r\n\r\n").into_bytes()).collect()
}

/// The same chunks as one list, the form without `alt=sse`.
pub(super) fn as_list(chunks: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let last = chunks.len().saturating_sub(1);
    let piece = |(number, chunk): (usize, &Vec<u8>)| {
        let json = String::from_utf8_lossy(chunk).trim().trim_start_matches("data: ").to_owned();
        let before = if number == 0 { "[" } else { ",\r\n" };
        format!("{before}{json}{}", if number == last { "]\n" } else { "\n" }).into_bytes()
    };
    chunks.iter().enumerate().map(piece).collect()
}

fn wants_thoughts(body: &Value) -> bool {
    let config = field(body, "generationConfig").and_then(|config| field(config, "thinkingConfig"));
    config.and_then(|config| field(config, "includeThoughts")).is_some_and(|include| *include == true)
}

fn is_thought(part: &Value) -> bool {
    part["thought"] == true
}

/// A part, canonical. Thoughts need not come back, nor do ids; and an empty text says nothing unless it is signed.
fn piece(role: &str, place: impl Into<String>, part: &Value) -> Option<Piece> {
    if is_thought(part) {
        return None;
    }
    let what = if let Some(call) = field(part, "functionCall") {
        let arguments = call.get("args").filter(|args| !args.is_null()).cloned().unwrap_or(json!({}));
        format!("call {} {}", text(call, "name"), canonical(&arguments))
    } else if let Some(result) = field(part, "functionResponse") {
        format!("result {} {}", text(result, "name"), canonical(&result["response"]))
    } else if let Some(words) = part["text"].as_str() {
        format!("text {words}")
    } else {
        canonical(part)
    };
    let feed = format!("{role} {what}");
    let key = field(part, "thoughtSignature").and_then(Value::as_str).map(bytes);
    let key = key.filter(|key| !SENTINELS.iter().any(|sentinel| bytes(sentinel) == *key));
    let secret = key.map(|key| Secret { key, block: feed.clone(), next: None });
    let empty = part["text"].as_str().is_some_and(str::is_empty);
    match (&secret, empty) {
        (None, true) => None,
        (_, empty) => Some(Piece { place: place.into(), feed: (!empty).then_some(feed), secret }),
    }
}

/// Base64 in one spelling: clients that decode it may write it with another alphabet, and without its padding.
fn bytes(base64: &str) -> String {
    base64.trim_end_matches('=').replace('-', "+").replace('_', "/")
}

/// A field in either spelling.
fn field<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    let snake = || {
        let letter = |letter: char| {
            if letter.is_ascii_uppercase() {
                format!("_{}", letter.to_ascii_lowercase())
            } else {
                letter.into()
            }
        };
        name.chars().map(letter).collect::<String>()
    };
    value.get(name).or_else(|| value.get(snake())).filter(|value| !value.is_null())
}

/// The items of a list in either spelling.
fn items<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    field(value, name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}
