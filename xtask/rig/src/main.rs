//! rejoin's whole conversion beside rig-core's: from the bytes of an OpenAI Chat body to those of an Anthropic request.
//!
//! rig-core reads no foreign request bodies. So the body is read with serde into rig's messages here, without looking at
//! anything twice, and rig's own encoder writes the request. Unlike rejoin it repairs nothing, so the conversation is a
//! sound one.

use std::{collections::HashMap, hint::black_box};

use rejoin_formats::{Dialect, Input, convert, sessions};
use rejoin_view::OnBroken;
use rig_core::{
    completion::CompletionRequest,
    message::{
        AssistantContent, AssistantMessage, CallId, Message, ToolCall, ToolFunction, ToolName, UserContent,
    },
    providers::anthropic::wire::{AnthropicConfig, Messages},
    wire::{Body, Mode, Wire},
};
use serde::Deserialize;
use serde_json::Value;
use testkit::{timing::best, varied::chat_body};

/// How often everything is done, one after the other; the best rounds count.
const ROUNDS: usize = 15;

fn main() {
    let body = chat_body(10_000, false);
    let sizes = (with_rejoin(&body).len(), with_rig(&body).len());
    let best = best(
        ROUNDS,
        [
            &|| drop(black_box(serde_json::from_str::<Value>(&body))),
            &|| drop(black_box(with_rejoin(&body))),
            &|| drop(black_box(with_rig(&body))),
        ],
    );
    let ratio = |at: usize| best[at].as_secs_f64() / best[0].as_secs_f64();
    let megabytes = body.len() as f64 / 1e6;
    println!("\n10,000 messages ({megabytes:.1} MB) of OpenAI Chat to Anthropic, best of {ROUNDS} rounds");
    println!("  into serde_json::Value  1.00  ({:.1?})", best[0]);
    println!("  rejoin                  {:.2}  ({} bytes out)", ratio(1), sizes.0);
    println!("  rig-core                {:.2}  ({} bytes out)", ratio(2), sizes.1);
}

fn with_rejoin(body: &str) -> String {
    let input = Input::new("body", body.as_bytes()).expect("BUG: the body is text");
    let session = sessions::read(&input, None).expect("BUG: the body is a conversation").remove(0);
    convert(&session, Dialect::Anthropic, None, OnBroken::Keep).expect("BUG: the body fits").body
}

fn with_rig(body: &str) -> Vec<u8> {
    let chat: Chat = serde_json::from_str(body).expect("BUG: the body is JSON");
    let mut names: HashMap<String, ToolName> = HashMap::new();
    let mut history: Vec<Message> = Vec::with_capacity(chat.messages.len());
    for message in chat.messages {
        match message.role.as_str() {
            "system" => history.push(Message::System { content: text(message.content) }),
            "tool" => {
                let id = message.tool_call_id.unwrap_or_default();
                let name = names.get(&id).expect("BUG: the conversation is sound").clone();
                history.push(Message::tool_result(CallId::from_wire(id), name, text(message.content)));
            }
            "assistant" => {
                let mut content = Vec::new();
                if !message.content.is_null() {
                    content.push(AssistantContent::text(text(message.content)));
                }
                for call in message.tool_calls.unwrap_or_default() {
                    let name = ToolName::new(call.function.name).expect("BUG: calls have names");
                    names.insert(call.id.clone(), name.clone());
                    let function = ToolFunction::parse(name, &call.function.arguments);
                    content.push(AssistantContent::ToolCall(ToolCall::new(
                        CallId::from_wire(call.id),
                        function,
                    )));
                }
                history.push(Message::Assistant(AssistantMessage::new(content)));
            }
            _ => {
                let content = match message.content {
                    Value::Array(parts) => parts
                        .into_iter()
                        .map(|mut part| UserContent::text(text(part["text"].take())))
                        .collect(),
                    other => vec![UserContent::text(text(other))],
                };
                history.push(Message::User { content });
            }
        }
    }
    let last = history.pop().expect("BUG: there are messages");
    let mut request = CompletionRequest::new(last);
    history.append(&mut request.chat_history);
    request.chat_history = history;
    let wire = Messages {
        provider: AnthropicConfig::new("none"),
        model: String::from("claude-sonnet-4-5"),
        default_max_tokens: Some(1024),
        prompt_caching: false,
        static_prefix_cache_ttl: None,
        strict_tools: false,
        tool_input_streaming: Default::default(),
    };
    match wire.encode(request, Mode::Unary).expect("BUG: rig encodes it").request.into_body() {
        Body::Bytes(bytes) => bytes,
        Body::Multipart(_) => Vec::new(),
    }
}

fn text(value: Value) -> String {
    match value {
        Value::String(text) => text,
        _ => String::new(),
    }
}

#[derive(Deserialize)]
struct Chat {
    messages: Vec<ChatMessage>,
}

#[derive(Deserialize)]
struct ChatMessage {
    role: String,
    #[serde(default)]
    content: Value,
    tool_calls: Option<Vec<Call>>,
    tool_call_id: Option<String>,
}

#[derive(Deserialize)]
struct Call {
    id: String,
    function: Function,
}

#[derive(Deserialize)]
struct Function {
    name: String,
    arguments: String,
}
