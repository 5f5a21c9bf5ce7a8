//! Inspects a finished request body without any code of the product: the positions of tokens, and the order in which a provider
//! sees them.
//!
//! Each dialect has its own walk, which splits a body into pieces: a role, the call that the piece belongs to, and the JSON. Roles
//! have the names of OpenAI Chat. Gemini and Ollama pair calls and results by position; for them the walk makes up an id for each
//! position, such as `#3.1` for the second call of the fourth message.

use serde_json::Value;

#[cfg(test)]
mod tests;

/// A token that was found, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The token.
    pub token: String,
    /// The role of its message, or `system` for the field of that name.
    pub role: String,
    /// The call id that the text belongs to, for arguments and results.
    pub call_id: Option<String>,
}

/// Every token of a dialect's body, in order.
///
/// # Panics
/// If the body is not JSON, or the dialect is unknown.
pub fn tokens(body: &str, dialect: &str) -> Vec<Found> {
    let body = parse(body);
    let mut found = Vec::new();
    for piece in system(&body, dialect).into_iter().chain(pieces(&body, dialect)) {
        // Texts of the conversation do not belong next to the content.
        if !piece.beside {
            collect(&piece, &mut found);
        }
    }
    found
}

/// The role and the JSON of every block of a dialect's body, in order, without cache marks and without the system prompt.
///
/// # Panics
/// If the body is not JSON, or the dialect is unknown.
pub fn blocks(body: &str, dialect: &str) -> Vec<(String, String)> {
    let body = parse(body);
    let mut blocks = Vec::new();
    for piece in pieces(&body, dialect) {
        let mut value = piece.value.clone();
        if let Some(fields) = value.as_object_mut() {
            fields.shift_remove("cache_control");
        }
        // A whole input that is one text is that user's message.
        let bare = |fields: &serde_json::Map<String, Value>| {
            fields.keys().all(|name| matches!(name.as_str(), "type" | "role" | "content"))
        };
        if dialect == "openai-responses" && piece.role == "user" && value.as_object().is_some_and(bare) {
            value = value["content"].take();
        }
        if !value.is_null() && value.get("cachePoint").is_none() {
            // A block with its id next to it is a different block if the id differs.
            let id = piece.call_id.filter(|id| !id.starts_with('#')).unwrap_or_default();
            blocks.push((piece.role, format!("{id} {value}").trim_start().to_owned()));
        }
    }
    blocks
}

/// The field of a dialect's body that holds the conversation.
///
/// # Panics
/// If the dialect is unknown.
pub fn list(dialect: &str) -> &'static str {
    match dialect {
        "openai-chat" | "anthropic" | "mistral" | "ollama" | "bedrock" => "messages",
        "openai-responses" => "input",
        "gemini" => "contents",
        _ => panic!("no walk for a body of `{dialect}`"),
    }
}

/// Parses a body of any depth and with numbers of any size.
///
/// # Panics
/// If it is no JSON.
pub fn parse(body: &str) -> Value {
    // Numbers that no float holds would be refused; their value does not matter here.
    let tame = body.replace("e400", "");
    let mut reader = serde_json::Deserializer::from_str(&tame);
    reader.disable_recursion_limit();
    serde::de::Deserialize::deserialize(&mut reader).unwrap_or_else(|error| panic!("{error}: {body}"))
}

/// A piece of a body.
struct Piece<'b> {
    role: String,
    call_id: Option<String>,
    value: &'b Value,
    /// Whether it is in a field of its message that holds neither content nor calls.
    beside: bool,
}

impl<'b> Piece<'b> {
    fn new(role: &str, call_id: Option<&str>, value: &'b Value) -> Self {
        Self { role: role.to_owned(), call_id: call_id.map(str::to_owned), value, beside: false }
    }
}

/// The text of the system field, in any of its spellings.
fn system<'b>(body: &'b Value, dialect: &str) -> Vec<Piece<'b>> {
    let fields: &[&str] = match dialect {
        "anthropic" | "bedrock" => &["system"],
        "openai-responses" => &["instructions"],
        "gemini" => &["systemInstruction", "system_instruction"],
        _ => &[],
    };
    fields.iter().filter_map(|field| body.get(field)).map(|value| Piece::new("system", None, value)).collect()
}

fn pieces<'b>(body: &'b Value, dialect: &str) -> Vec<Piece<'b>> {
    let list = if body.is_array() { body } else { &body[list(dialect)] };
    let items = list.as_array().map_or(std::slice::from_ref(list), Vec::as_slice);
    match dialect {
        "openai-responses" => items.iter().map(response_item).collect(),
        "gemini" => contents(items),
        "bedrock" => items.iter().flat_map(bedrock_message).collect(),
        "ollama" => chat_messages(items, &mut Some(Positions::default())),
        _ => chat_messages(items, &mut None),
    }
}

/// OpenAI Chat, Anthropic, Mistral and Ollama: content, and calls next to it.
fn chat_messages<'b>(messages: &'b [Value], positions: &mut Option<Positions>) -> Vec<Piece<'b>> {
    let mut pieces = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        let role = message["role"].as_str().unwrap_or("?");
        let role = if role == "function" { "tool" } else { role };
        let mut own = message["tool_call_id"].as_str().map(str::to_owned);
        if let Some(positions) = positions {
            match role {
                "assistant" => positions.calls(index),
                "tool" => own = positions.result(own.as_deref()),
                _ => {}
            }
        }
        match &message["content"] {
            Value::Array(blocks) => {
                for block in blocks {
                    let id = block["id"].as_str().or(block["tool_use_id"].as_str()).or(own.as_deref());
                    pieces.push(Piece::new(role, id, block));
                }
            }
            other => pieces.push(Piece::new(role, own.as_deref(), other)),
        }
        pieces.push(Piece::new(role, None, &message["refusal"]));
        pieces.push(Piece::new(role, own.as_deref(), &message["images"]));
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            let mut id = call["id"].as_str().map(str::to_owned);
            if let Some(positions) = positions {
                id = Some(positions.call(id.as_deref()));
            }
            pieces.push(Piece::new(role, id.as_deref(), call));
        }
        let told = ["role", "content", "refusal", "images", "tool_calls", "tool_call_id"];
        for (_, value) in
            message.as_object().into_iter().flatten().filter(|(key, _)| !told.contains(&key.as_str()))
        {
            pieces.push(Piece { beside: true, ..Piece::new(role, None, value) });
        }
    }
    pieces
}

/// OpenAI Responses: each item is one piece.
fn response_item(item: &Value) -> Piece<'_> {
    let kind = item["type"].as_str();
    let role = match (item["role"].as_str(), kind) {
        (Some(role), _) => role,
        // The whole input as one text.
        (None, None) if item.is_string() => "user",
        (None, Some("mcp_approval_response")) => "user",
        // Calls that the provider answered itself.
        (None, Some("program" | "program_output" | "mcp_list_tools" | "mcp_approval_request")) => "assistant",
        (None, Some("tool_search_output")) if item["call_id"].is_null() => "assistant",
        (None, Some(kind)) if kind.ends_with("_output") => "tool",
        (None, Some(kind)) if kind.ends_with("_call") || kind == "reasoning" => "assistant",
        _ => "?",
    };
    Piece::new(role, item["call_id"].as_str(), item)
}

/// Gemini: each part is one piece.
fn contents(contents: &[Value]) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut positions = Positions::default();
    for (index, content) in contents.iter().enumerate() {
        let role = match content["role"].as_str() {
            Some("model") => "assistant",
            Some("function") => "tool",
            Some(role) => role,
            // The field may be left out.
            None => "user",
        };
        if role == "assistant" {
            positions.calls(index);
        }
        let parts = &content["parts"];
        for part in parts.as_array().map_or(std::slice::from_ref(parts), Vec::as_slice) {
            let either = |camel: &str, snake: &str| part.get(camel).or_else(|| part.get(snake));
            let id = if let Some(call) = either("functionCall", "function_call") {
                Some(positions.call(call["id"].as_str()))
            } else if let Some(result) = either("functionResponse", "function_response") {
                positions.result(result["id"].as_str())
            } else {
                None
            };
            pieces.push(Piece::new(role, id.as_deref(), part));
        }
    }
    pieces
}

/// Bedrock: each block is one piece.
fn bedrock_message(message: &Value) -> impl Iterator<Item = Piece<'_>> {
    let role = message["role"].as_str().unwrap_or("?");
    message["content"].as_array().into_iter().flatten().map(move |block| {
        let id = block["toolUse"]["toolUseId"].as_str().or(block["toolResult"]["toolUseId"].as_str());
        Piece::new(role, id, block)
    })
}

/// Calls and results that belong together by their position: the n-th call of a message, and the n-th result
/// after it.
#[derive(Default)]
struct Positions {
    message: usize,
    /// The calls' own ids, where they have any.
    calls: Vec<Option<String>>,
    results: usize,
}

impl Positions {
    /// Here comes the `message`-th message, which may call.
    fn calls(&mut self, message: usize) {
        *self = Self { message, ..Self::default() };
    }

    fn call(&mut self, own: Option<&str>) -> String {
        self.calls.push(own.map(str::to_owned));
        format!("#{}.{}", self.message, self.calls.len() - 1)
    }

    /// The id of the call that the next result answers, if there is one. A result with its own id belongs to nothing
    /// else: where its call has another, the two are no pair.
    fn result(&mut self, own: Option<&str>) -> Option<String> {
        let place = self.results;
        self.results += 1;
        match (self.calls.get(place)?, own) {
            (Some(call), Some(own)) if call != own => Some(own.to_owned()),
            _ => Some(format!("#{}.{place}", self.message)),
        }
    }
}

fn collect(piece: &Piece<'_>, found: &mut Vec<Found>) {
    let mut stack = vec![piece.value];
    while let Some(value) = stack.pop() {
        match value {
            Value::String(text) => {
                for piece_of_text in text.split('⟦').skip(1) {
                    if let Some((token, _)) = piece_of_text.split_once('⟧') {
                        found.push(Found {
                            token: format!("⟦{token}⟧"),
                            role: piece.role.clone(),
                            call_id: piece.call_id.clone(),
                        });
                    }
                }
            }
            Value::Array(items) => stack.extend(items.iter().rev()),
            Value::Object(fields) => stack.extend(fields.values().rev()),
            _ => {}
        }
    }
}
