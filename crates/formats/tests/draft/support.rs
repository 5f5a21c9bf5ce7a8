//! What the tests of requests share.

use proptest::prelude::*;
use rejoin_formats::{
    Dialect, Input, Session,
    context::ToolDeclaration,
    sessions::{self, FORMATS},
};
use rejoin_record::{Chain, Content, ConversationId, EntryId, Kind, Raw, Salt, Timestamp, chain::Stamp};
use serde_json::Value;
use testkit::bodies::{self, Body};

/// What the conversation is told first.
pub const INSTRUCTIONS: &str = "You keep \"every\" word.\n⟦own⟧";

pub fn any_body() -> BoxedStrategy<Body> {
    bodies::body_of(&bodies::Shape::ALL)
}

pub fn session(json: &str, format: &str) -> Option<Session> {
    let input = Input::new("body.json", json.as_bytes()).unwrap();
    let format = FORMATS.iter().find(|known| known.name == format).expect("a format that can be read");
    sessions::read(&input, Some(format)).ok()?.pop()
}

pub fn tool(name: &str) -> ToolDeclaration {
    let schema = r#"{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}"#;
    ToolDeclaration::function(name, format!("what {name} does"), Raw::new(schema))
}

/// The names that a body declares, in order.
pub fn declared(body: &Value, dialect: Dialect) -> Vec<String> {
    let texts = |list: &Value, pointer: &str| -> Vec<String> {
        let list = list.as_array().cloned().unwrap_or_default();
        list.iter().filter_map(|tool| Some(tool.pointer(pointer)?.as_str()?.to_owned())).collect()
    };
    match dialect {
        Dialect::Anthropic | Dialect::OpenAiResponses => texts(&body["tools"], "/name"),
        Dialect::OpenAiChat | Dialect::Ollama | Dialect::Mistral => texts(&body["tools"], "/function/name"),
        Dialect::Bedrock => texts(&body["toolConfig"]["tools"], "/toolSpec/name"),
        Dialect::Gemini => {
            let list = body["tools"].as_array().cloned().unwrap_or_default();
            list.iter().flat_map(|tool| texts(&tool["functionDeclarations"], "/name")).collect()
        }
    }
}

/// The first text that a model reads.
pub fn first_text(body: &Value, dialect: Dialect) -> String {
    let at = |pointer: &str| body.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    match dialect {
        Dialect::Anthropic => at("/system").or_else(|| at("/system/0/text")),
        Dialect::OpenAiChat | Dialect::Ollama | Dialect::Mistral => at("/messages/0/content"),
        Dialect::OpenAiResponses => at("/instructions"),
        Dialect::Gemini => {
            at("/systemInstruction/parts/0/text").or_else(|| at("/system_instruction/parts/0/text"))
        }
        Dialect::Bedrock => at("/system/0/text"),
    }
    .unwrap_or_default()
}

/// The session of a conversation of these entries.
pub fn recorded(contents: &[(Kind, Content)]) -> Session {
    let id = ConversationId::from_random(7);
    let mut chain = Chain::empty();
    let mut entries = Vec::new();
    for (number, (kind, content)) in contents.iter().enumerate() {
        let stamp = Stamp {
            id: EntryId::new(number as u64, [number as u8; 10]),
            timestamp: Timestamp::UNIX_EPOCH,
            salt: Salt([number as u8; 16]),
            source_time: None,
        };
        entries.push((chain.append(kind.clone(), content, stamp), number + 1));
    }
    sessions::jsonl::session_of(id, entries, Vec::new())
}
