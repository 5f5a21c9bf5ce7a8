//! The strict checker of Anthropic Messages request bodies: an oracle that answers as the strictest known
//! server would, for tests and for `check --for`. Judges every `ANT-…` rule that a body alone can break.
//! Shares nothing with the codec of this dialect and never patches a body; what the rulebook leaves unsure
//! is refused.

mod model;
mod settings;

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use crate::{
    Scope, Verdict,
    media::{self, Flaw},
    shape,
    violation::{Violation, read_body},
    words,
};

/// "32 MB" read as the smaller of its two meanings.
const MAX_BODY_BYTES: usize = 32_000_000;
const MAX_MESSAGES: usize = 100_000;
const MAX_CACHE_MARKS: usize = 4;
const MAX_NAME: usize = 128;
const MAX_REFERENCE_NAME: usize = 64;

/// Tells every reason why the Anthropic Messages API would refuse a request body; none means it is accepted.
///
/// The order is that of the document: first the settings of the request, then message by message.
pub(crate) fn check(body: &[u8], scope: Scope) -> Verdict {
    let request = read_body(body, "ANT-schema");
    let mut checker = Checker { scope, ..Checker::default() };
    if body.len() > MAX_BODY_BYTES {
        let message =
            format!("request_too_large: Request exceeds the maximum size of {MAX_BODY_BYTES} bytes");
        checker.refuse("ANT-28", "body", message);
    }
    match &request {
        Ok(Value::Object(fields)) => checker.request(fields),
        Ok(_) => checker.refuse("ANT-schema", "body", "Input should be a valid dictionary"),
        Err(violation) => checker.verdict.violations.push(violation.clone()),
    }
    checker.verdict
}

/// Where a block stands, which decides the types it may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    System,
    User,
    Assistant,
    ToolResult,
    Document,
    SearchResult,
}

impl Place {
    /// The places of a block type; none for a type that does not exist.
    fn of(kind: &str) -> &'static [Place] {
        use Place::*;
        match kind {
            "text" => &[System, User, Assistant, ToolResult, Document, SearchResult],
            "image" => &[User, ToolResult, Document],
            "document" | "search_result" => &[User, ToolResult],
            "tool_result" => &[User],
            "tool_reference" => &[ToolResult],
            "container_upload" => &[User, Assistant],
            "thinking" | "redacted_thinking" | "compaction" => &[Assistant],
            "tool_use" | "server_tool_use" | "mcp_tool_use" => &[Assistant],
            _ if kind.ends_with("_tool_result") => &[Assistant],
            _ => &[],
        }
    }

    fn name(self) -> &'static str {
        match self {
            Place::System => "`system`",
            Place::User => "`user` messages",
            Place::Assistant => "`assistant` messages",
            Place::ToolResult => "`tool_result` blocks",
            Place::Document => "`document` blocks",
            Place::SearchResult => "`search_result` blocks",
        }
    }
}

/// A message reduced to what the rules between messages look at.
struct Turn<'a> {
    role: &'a str,
    blocks: &'a [Value],
    calls: Vec<&'a str>,
    /// Block index and answered id of each result.
    results: Vec<(usize, &'a str)>,
}

impl<'a> Turn<'a> {
    fn read(message: &'a Value) -> Self {
        let role = message["role"].as_str().unwrap_or_default();
        let blocks = message["content"].as_array().map_or(&[][..], Vec::as_slice);
        let ids_of = |kind, field| {
            let wanted = move |(_, block): &(usize, &Value)| kind_of(block) == kind;
            blocks
                .iter()
                .enumerate()
                .filter(wanted)
                .filter_map(move |(j, block)| Some((j, block[field].as_str()?)))
        };
        let calls =
            if role == "assistant" { ids_of("tool_use", "id").map(|(_, id)| id).collect() } else { vec![] };
        let results = if role == "user" { ids_of("tool_result", "tool_use_id").collect() } else { vec![] };
        Turn { role, blocks, calls, results }
    }

    fn has(&self, kind: &str) -> bool {
        self.blocks.iter().any(|block| kind_of(block) == kind)
    }

    /// True for a message of which a tool loop consists: it calls tools, or it does nothing but answer calls.
    fn loops(&self) -> bool {
        let only_results =
            !self.blocks.is_empty() && self.blocks.iter().all(|block| kind_of(block) == "tool_result");
        if self.role == "assistant" { self.has("tool_use") } else { self.role == "user" && only_results }
    }
}

#[derive(Default)]
struct Checker<'a> {
    scope: Scope,
    verdict: Verdict,
    call_ids: HashSet<&'a str>,
    cache_marks: usize,
    model: Option<model::Version>,
}

/// The request and the rules between its messages.
impl<'a> Checker<'a> {
    fn request(&mut self, fields: &'a Map<String, Value>) {
        self.model = fields.get("model").and_then(Value::as_str).and_then(model::Version::of);
        self.settings(fields);
        self.cache_mark(fields, "body");
        self.system(fields.get("system"));
        let tool_names = self.tools(fields.get("tools"));
        let thinking = self.thinking_type(fields.get("thinking"));
        self.tool_choice(fields, &tool_names, thinking);
        let messages = match fields.get("messages") {
            Some(Value::Array(messages)) => messages,
            Some(_) => return self.schema("messages", "Input should be a valid list"),
            None => return self.schema("messages", "Field required"),
        };
        let turns: Vec<Turn> = messages.iter().map(Turn::read).collect();
        self.request_wide(&turns, fields);
        for (i, message) in messages.iter().enumerate() {
            self.message(i, message);
            self.results_answer_the_previous(i, &turns);
            self.calls_are_answered_next(i, &turns);
            self.server_tools_are_paired(i, &turns[i]);
        }
        self.tool_loop_starts_with_thinking(&turns, thinking);
        self.trailing_assistant(messages, &turns, thinking);
    }

    fn request_wide(&mut self, turns: &[Turn], request: &Map<String, Value>) {
        if turns.len() > MAX_MESSAGES {
            let message = format!("request_too_large: messages: at most {MAX_MESSAGES} messages are allowed");
            self.refuse("ANT-28", "messages", message);
        }
        match turns.first() {
            None => self.refuse("ANT-12", "messages", "messages: at least one message is required"),
            Some(first) if first.role != "user" => {
                self.refuse("ANT-12", "messages.0", "messages: first message must use the \"user\" role");
            }
            Some(_) => {}
        }
        if self.scope != Scope::Messages
            && !declares_tools(request)
            && turns.iter().any(|turn| turn.has("tool_use") || turn.has("tool_result"))
        {
            let message = "Requests which include `tool_use` or `tool_result` blocks must define tools.";
            self.refuse("ANT-09", "tools", message);
        }
    }

    fn results_answer_the_previous(&mut self, i: usize, turns: &[Turn]) {
        let turn = &turns[i];
        let previous = i.checked_sub(1).map(|before| &turns[before]);
        let calls: HashSet<&str> = previous.into_iter().flat_map(|turn| turn.calls.iter().copied()).collect();
        let leading = turn.blocks.iter().take_while(|block| kind_of(block) == "tool_result").count();
        let mut answered = HashSet::new();
        let mut misplaced = Vec::new();
        for &(j, id) in &turn.results {
            let path = format!("messages.{i}.content.{j}");
            if !calls.contains(id) {
                let message = format!(
                    "{path}: unexpected `tool_use_id` found in `tool_result` blocks: {id}. Each \
                     `tool_result` block must have a corresponding `tool_use` block in the previous message."
                );
                self.refuse("ANT-02", path, message);
            } else if !answered.insert(id) {
                let message = format!(
                    "{path}: each tool_use must have a single result. Found multiple `tool_result` blocks \
                     with id: {id}"
                );
                self.refuse("ANT-04", path, message);
            } else if j >= leading {
                misplaced.push((path, id));
            }
        }
        if let Some((path, _)) = misplaced.first() {
            let ids: Vec<&str> = misplaced.iter().map(|(_, id)| *id).collect();
            self.refuse("ANT-03", path.clone(), unanswered(i.saturating_sub(1), &ids));
        }
    }

    fn calls_are_answered_next(&mut self, i: usize, turns: &[Turn]) {
        let answers = turns.get(i + 1).map_or(&[][..], |next| next.results.as_slice());
        let answered: HashSet<&str> = answers.iter().map(|(_, id)| *id).collect();
        let missing: Vec<&str> = turns[i].calls.iter().copied().filter(|id| !answered.contains(id)).collect();
        if !missing.is_empty() {
            self.refuse("ANT-01", format!("messages.{i}"), unanswered(i, &missing));
        }
    }

    fn server_tools_are_paired(&mut self, i: usize, turn: &Turn) {
        if turn.role != "assistant" {
            return;
        }
        let mut open = HashMap::new();
        for (j, block) in turn.blocks.iter().enumerate() {
            let kind = kind_of(block);
            if let ("server_tool_use" | "mcp_tool_use", Some(id)) = (kind, block["id"].as_str()) {
                open.insert((kind, id), j);
            } else if let (true, Some(id)) = (kind.ends_with("_tool_result"), block["tool_use_id"].as_str()) {
                let call_kind = if kind == "mcp_tool_result" { "mcp_tool_use" } else { "server_tool_use" };
                if open.remove(&(call_kind, id)).is_some() {
                    continue;
                }
                let path = format!("messages.{i}.content.{j}");
                let message = format!(
                    "{path}: unexpected `tool_use_id` found in `{kind}` blocks: {id}. Each `{kind}` block \
                     must have a corresponding `{call_kind}` block before it."
                );
                self.refuse("ANT-27", path, message);
            }
        }
        let mut open: Vec<_> = open.into_iter().map(|((kind, id), j)| (j, kind, id)).collect();
        open.sort_unstable();
        for (j, kind, id) in open {
            let path = format!("messages.{i}.content.{j}");
            let message =
                format!("{path}: `{kind}` id {id} was found without a corresponding result block after it");
            self.refuse("ANT-27", path, message);
        }
    }

    fn tool_loop_starts_with_thinking(&mut self, turns: &[Turn], thinking: &str) {
        // The loop that the final assistant message belongs to, whatever a user says after it.
        let turns = turns.iter().enumerate().rev().skip_while(|(_, turn)| turn.role != "assistant");
        let in_loop = turns.take_while(|(_, turn)| turn.loops());
        let opener = in_loop.filter(|(_, turn)| turn.role == "assistant").last();
        let (Some((i, turn)), "enabled") = (opener, thinking) else { return };
        let found = turn.blocks.first().map_or("", kind_of);
        if !["thinking", "redacted_thinking"].contains(&found) {
            let path = format!("messages.{i}.content.0");
            let message = format!(
                "{path}.type: Expected `thinking` or `redacted_thinking`, but found `{found}`. When \
                 `thinking` is enabled, a final `assistant` message must start with a thinking block \
                 (preceeding the lastmost set of `tool_use` and `tool_result` blocks)."
            );
            self.refuse("ANT-18", path, message);
        }
    }

    fn trailing_assistant(&mut self, messages: &[Value], turns: &[Turn], thinking: &str) {
        let (Some(message), Some(turn)) = (messages.last(), turns.last()) else { return };
        if turn.role != "assistant" {
            return;
        }
        let path = format!("messages.{}", messages.len() - 1);
        let text = turn.blocks.last().map_or(&message["content"], |block| &block["text"]);
        if text.as_str().is_some_and(|text| text.ends_with(is_space)) {
            let message = "messages: final assistant content cannot end with trailing whitespace";
            self.refuse("ANT-13", path.clone(), message);
        }
        let prefill = "This model does not support assistant message prefill. The conversation must end \
                       with a user message.";
        if !self.model.is_some_and(model::Version::takes_prefill) {
            self.refuse("ANT-14", path.clone(), prefill);
        }
        let thinking_is_on = ["enabled", "adaptive"].contains(&thinking);
        if !thinking_is_on && (turn.has("thinking") || turn.has("redacted_thinking")) {
            let message = "When thinking is disabled, an `assistant` message in the final position cannot \
                           contain `thinking`.";
            self.refuse("ANT-22", path, message);
        }
    }
}

/// The settings beside the messages.
impl<'a> Checker<'a> {
    fn settings(&mut self, fields: &Map<String, Value>) {
        for fault in shape::faults(fields, settings::SETTINGS, self.scope, str::to_owned) {
            let rule = if fault.what == shape::What::Missing { "ANT-30" } else { "ANT-schema" };
            self.refuse(rule, fault.path.clone(), words::pydantic(&fault));
        }
        let thinking = fields.get("thinking").unwrap_or(&Value::Null);
        let Some("enabled") = thinking["type"].as_str() else { return };
        match (thinking["budget_tokens"].as_u64(), fields.get("max_tokens").and_then(Value::as_u64)) {
            (None, _) => self.schema("thinking.enabled.budget_tokens", "Field required"),
            (Some(..1024), _) => {
                let reason = "Input should be greater than or equal to 1024";
                self.schema("thinking.enabled.budget_tokens", reason);
            }
            (Some(budget), Some(most)) if budget >= most => {
                let message = "`max_tokens` must be greater than `thinking.budget_tokens`.";
                self.refuse("ANT-schema", "max_tokens", message);
            }
            _ => {}
        }
        if fields.get("temperature").and_then(Value::as_f64).is_some_and(|temperature| temperature != 1.0) {
            let message = "`temperature` may only be set to 1 when thinking is enabled.";
            self.refuse("ANT-schema", "temperature", message);
        }
    }

    fn system(&mut self, system: Option<&'a Value>) {
        match system {
            None => {}
            Some(Value::String(text)) if text.is_empty() => {}
            Some(Value::String(text)) => self.text(text, "system"),
            Some(Value::Array(blocks)) => self.blocks(Place::System, blocks, "system"),
            Some(_) => self.schema("system", "Input should be a valid string or list"),
        }
    }

    /// Returns the declared names.
    fn tools(&mut self, tools: Option<&'a Value>) -> HashSet<&'a str> {
        let mut names = HashSet::new();
        let tools = match tools {
            None | Some(Value::Null) => return names,
            Some(Value::Array(tools)) => tools,
            Some(_) => {
                self.schema("tools", "Input should be a valid list");
                return names;
            }
        };
        for (k, tool) in tools.iter().enumerate() {
            let Some(fields) = tool.as_object() else {
                self.schema(&format!("tools.{k}"), "Input should be a valid dictionary");
                continue;
            };
            self.cache_mark(fields, &format!("tools.{k}"));
            if let Some(name) = self.tool(fields, &format!("tools.{k}"))
                && !names.insert(name)
            {
                self.refuse("ANT-schema", format!("tools.{k}"), "tools: Tool names must be unique.");
            }
        }
        names
    }

    fn tool(&mut self, tool: &'a Map<String, Value>, path: &str) -> Option<&'a str> {
        match tool.get("type") {
            None | Some(Value::Null) => {}
            Some(Value::String(kind)) if kind == "custom" => {}
            // A set of tools has no name of its own; other server tools have a fixed one.
            Some(Value::String(kind)) if kind == "mcp_toolset" => return None,
            Some(Value::String(kind)) => return self.tool_name(tool, "name", &format!("{path}.{kind}")),
            Some(_) => self.schema(&format!("{path}.type"), "Input should be a valid string"),
        }
        match tool.get("input_schema").map(|schema| (schema.is_object(), schema["type"] == "object")) {
            Some((true, true)) => {}
            Some((true, false)) => {
                self.schema(&format!("{path}.custom.input_schema.type"), "Input should be 'object'");
            }
            Some((false, _)) => {
                self.schema(&format!("{path}.custom.input_schema"), "Input should be a valid dictionary");
            }
            None => self.schema(&format!("{path}.custom.input_schema"), "Field required"),
        }
        self.tool_name(tool, "name", &format!("{path}.custom"))
    }

    /// Returns the type of thinking asked for, empty for none.
    fn thinking_type(&mut self, thinking: Option<&'a Value>) -> &'a str {
        let kind = match thinking {
            None | Some(Value::Null) => return "",
            Some(thinking) => thinking["type"].as_str().unwrap_or_default(),
        };
        if !["enabled", "disabled", "adaptive"].contains(&kind) {
            self.schema("thinking.type", "Input should be 'enabled', 'disabled' or 'adaptive'");
        }
        kind
    }

    fn tool_choice(&mut self, request: &Map<String, Value>, names: &HashSet<&str>, thinking: &str) {
        // What is no object has been refused by its type.
        let Some(choice) = request.get("tool_choice").filter(|choice| choice.is_object()) else { return };
        let kind = choice["type"].as_str().unwrap_or_default();
        if !["auto", "any", "tool", "none"].contains(&kind) {
            return self.schema("tool_choice.type", "Input should be 'auto', 'any', 'tool' or 'none'");
        }
        if !declares_tools(request) {
            self.schema("tool_choice", "tool_choice may only be specified while providing tools");
        } else if kind == "tool" && !choice["name"].as_str().is_some_and(|name| names.contains(name)) {
            let name = choice["name"].as_str().unwrap_or_default();
            self.schema("tool_choice.name", &format!("Tool '{name}' not found in provided tools"));
        }
        if thinking == "enabled" && ["any", "tool"].contains(&kind) {
            let message = "Thinking may not be enabled when tool_choice forces tool use.";
            self.refuse("ANT-23", "tool_choice", message);
        }
    }
}

/// One message and its blocks.
impl<'a> Checker<'a> {
    fn message(&mut self, i: usize, message: &'a Value) {
        let path = format!("messages.{i}");
        let Some(fields) = message.as_object() else {
            return self.schema(&path, "Input should be a valid dictionary");
        };
        let place = match fields.get("role").and_then(Value::as_str) {
            Some("user") => Place::User,
            Some("assistant") => Place::Assistant,
            Some("system") => {
                let message = "messages: Unexpected role \"system\". The Messages API accepts a top-level \
                               `system` parameter, not \"system\" as an input message role.";
                if self.model.is_some_and(model::Version::takes_system_messages) {
                    // Their place and content are judged by rules that differ from model to model.
                    return self.note("ANT-16", format!("{path}.role"), message);
                }
                self.refuse("ANT-16", format!("{path}.role"), message);
                Place::User
            }
            _ => {
                let message = format!("{path}.role: Input should be 'user' or 'assistant'");
                self.refuse("ANT-17", format!("{path}.role"), message);
                Place::User
            }
        };
        for field in fields.keys().filter(|field| !["role", "content"].contains(&field.as_str())) {
            let path = format!("{path}.{field}");
            self.refuse("ANT-29", &*path, format!("{path}: Extra inputs are not permitted"));
        }
        let content = format!("{path}.content");
        match fields.get("content") {
            Some(Value::String(text)) if !text.is_empty() => self.text(text, &content),
            Some(Value::Array(blocks)) if !blocks.is_empty() => self.blocks(place, blocks, &content),
            Some(Value::String(_) | Value::Array(_)) => {
                let message = format!(
                    "{path}: all messages must have non-empty content except for the optional final \
                     assistant message"
                );
                self.refuse("ANT-11", path, message);
            }
            Some(_) => self.schema(&content, "Input should be a valid string or list"),
            None => self.schema(&content, "Field required"),
        }
    }

    fn blocks(&mut self, place: Place, blocks: &'a [Value], path: &str) {
        for (j, block) in blocks.iter().enumerate() {
            let path = format!("{path}.{j}");
            match block.as_object() {
                Some(fields) => self.block(place, fields, &path),
                None => self.schema(&path, "Input should be a valid dictionary"),
            }
        }
    }

    fn block(&mut self, place: Place, block: &'a Map<String, Value>, path: &str) {
        self.cache_mark(block, path);
        let Some(kind) = self.string(block, "type", path) else { return };
        let places = Place::of(kind);
        if places.is_empty() {
            let reason = "found using 'type' does not match any of the expected tags";
            return self.schema(path, &format!("Input tag '{kind}' {reason}"));
        }
        if !places.contains(&place) {
            let names: Vec<&str> = places.iter().map(|place| place.name()).collect();
            return self.schema(path, &format!("`{kind}` blocks can only be in {}", names.join(" or ")));
        }
        match kind {
            "text" => self.text_block(block, path),
            "image" | "document" => self.media(kind, block, path),
            "search_result" => self.search_result(block, path),
            "thinking" | "redacted_thinking" => self.reasoning(kind, block, path),
            "tool_use" | "server_tool_use" | "mcp_tool_use" => self.call(kind, block, path),
            "tool_result" => self.tool_result(block, path),
            "tool_reference" => {
                self.tool_name(block, "tool_name", &format!("{path}.{kind}"));
            }
            "container_upload" => {
                self.string(block, "file_id", path);
            }
            "compaction" => {}
            _ => self.id(block, "tool_use_id", path, kind),
        }
    }

    fn text_block(&mut self, block: &'a Map<String, Value>, path: &str) {
        self.only_fields(block, &["type", "text", "citations", "cache_control"], path);
        let Some(text) = self.string(block, "text", path) else { return };
        self.text(text, path);
        if text.chars().all(is_space) && is_marked(block) {
            self.refuse("ANT-26", path, format!("{path}: cache_control cannot be set for empty text blocks"));
        }
    }

    /// Judges a text wherever one stands: block, bare content, or result.
    fn text(&mut self, text: &str, path: &str) {
        let field = path.split('.').next().unwrap_or_default();
        if text.is_empty() {
            self.refuse("ANT-10", path, format!("{field}: text content blocks must be non-empty"));
        } else if text.chars().all(is_space) {
            self.refuse(
                "ANT-10",
                path,
                format!("{field}: text content blocks must contain non-whitespace text"),
            );
        }
    }

    fn media(&mut self, kind: &str, block: &'a Map<String, Value>, path: &str) {
        if kind == "image" {
            self.only_fields(block, &["type", "source", "cache_control"], path);
        }
        let source = block.get("source").unwrap_or(&Value::Null);
        let filled = |field: &str| source[field].as_str().is_some_and(|text| !text.is_empty());
        let form = source["type"].as_str().unwrap_or_default();
        let path = format!("{path}.{kind}.source");
        let whole = match (form, kind) {
            ("base64", _) => return self.bytes(kind, source, &format!("{path}.base64")),
            ("text", "document") if source["media_type"] == "text/plain" => filled("data"),
            ("text", "document") => {
                return self.schema(&format!("{path}.text.media_type"), "Input should be 'text/plain'");
            }
            ("url", _) if filled("url") => {
                let url = source["url"].as_str().unwrap_or_default();
                if !media::is_address(url, &["https://"]) {
                    self.refuse("ANT-25", &*path, format!("{path}.url: Only HTTPS URLs are supported."));
                }
                return;
            }
            ("file", _) => filled("file_id"),
            ("content", "document") => match &source["content"] {
                Value::Array(blocks) => {
                    self.blocks(Place::Document, blocks, &format!("{path}.content"));
                    !blocks.is_empty()
                }
                _ => filled("content"),
            },
            _ => {
                let message =
                    format!("{path}: Input tag '{form}' found using 'type' does not match any expected tag");
                return self.refuse("ANT-25", path, message);
            }
        };
        if !whole {
            self.refuse("ANT-25", &*path, format!("{path}.{form}: {kind} cannot be empty"));
        }
    }

    /// Judges base64 data and the type that it names.
    fn bytes(&mut self, kind: &str, source: &Value, path: &str) {
        let media_type = source["media_type"].as_str().unwrap_or_default();
        let (taken, expected): (&[&str], _) = match kind {
            "image" => (&media::IMAGES, "'image/jpeg', 'image/png', 'image/gif' or 'image/webp'"),
            _ => (&["application/pdf"], "'application/pdf'"),
        };
        if !taken.contains(&media_type) {
            let message = format!("{path}.media_type: Input should be {expected}");
            return self.refuse("ANT-25", format!("{path}.media_type"), message);
        }
        let reason = match media::flaw(media_type, source["data"].as_str().unwrap_or_default()) {
            None => return,
            Some(Flaw::Empty) => format!("{path}: {kind} cannot be empty"),
            Some(Flaw::NotBase64) => format!("{path}: invalid base64 data"),
            Some(Flaw::OtherType) if kind == "image" => {
                format!("{path}.data: Image does not match the provided media type {media_type}")
            }
            Some(Flaw::OtherType) => format!("{path}.data: The PDF specified was not valid."),
        };
        self.refuse("ANT-25", path, reason);
    }

    fn search_result(&mut self, block: &'a Map<String, Value>, path: &str) {
        self.string(block, "source", path);
        self.string(block, "title", path);
        match block.get("content") {
            Some(Value::Array(blocks)) => {
                self.blocks(Place::SearchResult, blocks, &format!("{path}.content"))
            }
            _ => self.schema(&format!("{path}.content"), "Input should be a valid list"),
        }
    }

    fn reasoning(&mut self, kind: &str, block: &'a Map<String, Value>, path: &str) {
        if kind == "redacted_thinking" {
            self.only_fields(block, &["type", "data"], path);
            self.string(block, "data", path);
            return;
        }
        self.only_fields(block, &["type", "thinking", "signature"], path);
        self.string(block, "thinking", path);
        match block.get("signature") {
            None => self.refuse("ANT-20", path, format!("{path}.thinking.signature: Field required")),
            Some(Value::String(signature)) if !signature.is_empty() => {}
            Some(_) => {
                self.refuse("ANT-20", path, format!("{path}: Invalid `signature` in `thinking` block"))
            }
        }
    }

    fn call(&mut self, kind: &'a str, block: &'a Map<String, Value>, path: &str) {
        if kind == "tool_use" {
            self.only_fields(block, &["type", "id", "name", "input", "caller", "cache_control"], path);
        }
        self.id(block, "id", path, kind);
        if let Some(id) = block.get("id").and_then(Value::as_str)
            && !self.call_ids.insert(id)
        {
            self.refuse("ANT-05", path, format!("{path}: `tool_use` ids must be unique"));
        }
        self.tool_name(block, "name", &format!("{path}.{kind}"));
        if kind == "mcp_tool_use" {
            self.string(block, "server_name", path);
        }
        match block.get("input") {
            Some(Value::Object(_)) => {}
            Some(_) => {
                self.refuse(
                    "ANT-07",
                    path,
                    format!("{path}.{kind}.input: Input should be a valid dictionary"),
                );
            }
            None => self.refuse("ANT-07", path, format!("{path}.{kind}.input: Field required")),
        }
    }

    fn tool_result(&mut self, block: &'a Map<String, Value>, path: &str) {
        self.only_fields(block, &["type", "tool_use_id", "content", "is_error", "cache_control"], path);
        self.id(block, "tool_use_id", path, "tool_result");
        let content = format!("{path}.content");
        match block.get("content") {
            None => {}
            Some(Value::String(text)) => self.text(text, &content),
            Some(Value::Array(blocks)) if blocks.is_empty() => self.text("", &content),
            Some(Value::Array(blocks)) => self.blocks(Place::ToolResult, blocks, &content),
            Some(_) => self.schema(&content, "Input should be a valid string or list"),
        }
        match block.get("is_error") {
            None | Some(Value::Bool(false)) => {}
            Some(Value::Bool(true)) => {
                let blocks = block.get("content").and_then(Value::as_array);
                if blocks.into_iter().flatten().any(|block| kind_of(block) != "text") {
                    let message = format!("{path}: all content must be type `text` if `is_error` is true");
                    self.refuse("ANT-24", path, message);
                }
            }
            Some(_) => self.schema(&format!("{path}.is_error"), "Input should be a valid boolean"),
        }
    }

    fn id(&mut self, block: &'a Map<String, Value>, field: &str, path: &str, kind: &str) {
        let Some(id) = self.string(block, field, path) else { return };
        let of_server = !["tool_use", "tool_result", "mcp_tool_use", "mcp_tool_result"].contains(&kind);
        let (legal, pattern) = if of_server {
            let rest = id.strip_prefix("srvtoolu_").unwrap_or_default();
            (is_word(rest) && !rest.contains('-'), "^srvtoolu_[a-zA-Z0-9_]+$")
        } else {
            (is_word(id), "^[a-zA-Z0-9_-]+$")
        };
        if !legal {
            self.refuse(
                "ANT-06",
                path,
                format!("{path}.{kind}.{field}: String should match pattern '{pattern}'"),
            );
        }
    }

    /// Returns the name, legal or not, if there is one.
    fn tool_name(&mut self, fields: &'a Map<String, Value>, field: &str, path: &str) -> Option<&'a str> {
        let max = if field == "tool_name" { MAX_REFERENCE_NAME } else { MAX_NAME };
        let name = self.string(fields, field, path)?;
        let path = format!("{path}.{field}");
        if name.chars().count() > max {
            self.refuse("ANT-08", &*path, format!("{path}: String should have at most {max} characters"));
        } else if !is_word(name) {
            let message = format!("{path}: String should match pattern '^[a-zA-Z0-9_-]{{1,{max}}}$'");
            self.refuse("ANT-08", path, message);
        }
        Some(name)
    }
}

/// What all of the above is made of.
impl<'a> Checker<'a> {
    fn string(&mut self, fields: &'a Map<String, Value>, field: &str, path: &str) -> Option<&'a str> {
        let value = fields.get(field);
        if value.and_then(Value::as_str).is_none() {
            let reason = if value.is_some() { "Input should be a valid string" } else { "Field required" };
            self.schema(&format!("{path}.{field}"), reason);
        }
        value?.as_str()
    }

    fn only_fields(&mut self, fields: &Map<String, Value>, known: &[&str], path: &str) {
        for field in fields.keys().filter(|field| !known.contains(&field.as_str())) {
            self.schema(&format!("{path}.{field}"), "Extra inputs are not permitted");
        }
    }

    fn cache_mark(&mut self, fields: &Map<String, Value>, path: &str) {
        if !is_marked(fields) {
            return;
        }
        if fields["cache_control"]["type"] != "ephemeral" {
            self.schema(&format!("{path}.cache_control.type"), "Input should be 'ephemeral'");
        }
        self.cache_marks += 1;
        if self.cache_marks > MAX_CACHE_MARKS {
            let found = self.cache_marks;
            let message = format!(
                "A maximum of {MAX_CACHE_MARKS} blocks with cache_control may be provided. Found {found}."
            );
            self.refuse("ANT-26", path, message);
        }
    }

    fn schema(&mut self, path: &str, reason: &str) {
        self.refuse("ANT-schema", path, format!("{path}: {reason}"));
    }

    fn note(&mut self, rule: &'static str, path: impl Into<String>, message: impl Into<String>) {
        self.verdict.notes.push(Violation::new(rule, path, message));
    }

    fn refuse(&mut self, rule: &'static str, path: impl Into<String>, message: impl Into<String>) {
        self.verdict.violations.push(Violation::new(rule, path, message));
    }
}

fn unanswered(i: usize, ids: &[&str]) -> String {
    let ids = ids.join(", ");
    format!(
        "messages.{i}: `tool_use` ids were found without `tool_result` blocks immediately after: {ids}. Each \
         `tool_use` block must have a corresponding `tool_result` block in the next message."
    )
}

fn kind_of(block: &Value) -> &str {
    block["type"].as_str().unwrap_or_default()
}

fn declares_tools(request: &Map<String, Value>) -> bool {
    request.get("tools").and_then(Value::as_array).is_some_and(|tools| !tools.is_empty())
}

fn is_marked(fields: &Map<String, Value>) -> bool {
    fields.get("cache_control").is_some_and(|mark| !mark.is_null())
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}

/// Whitespace to Unicode or to Python, which counts the four separator controls as well.
fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

#[cfg(test)]
mod tests;
