//! The strict checker of Anthropic Messages request bodies: an oracle that answers as the strictest known
//! server would, for tests and for `check --for`. Judges every `ANT-…` rule that a body alone can break.
//! Shares nothing with the codec of this dialect and never patches a body; what the rulebook leaves unsure
//! is refused.

mod model;
mod settings;

use std::collections::{HashMap, HashSet};

use crate::{
    media::Flaw,
    prelude::*,
    turns::{self, MisplacedResult, Turn},
};

/// "32 MB" read as the smaller of its two meanings.
const MAX_BODY_BYTES: usize = 32_000_000;
const MAX_MESSAGES: usize = 100_000;
const MAX_CACHE_MARKS: usize = 4;
const MAX_NAME: usize = 128;
const MAX_REFERENCE_NAME: usize = 64;

pub(crate) struct Anthropic;

#[derive(Default)]
pub(crate) struct State<'a> {
    call_ids: HashSet<&'a str>,
    cache_marks: usize,
    model: Option<model::Version>,
}

dialect!(
    Anthropic,
    State<'a>,
    settings::SETTINGS,
    Provider { schema: "ANT-schema", largest_body: (MAX_BODY_BYTES, "ANT-28"), ..words::PYDANTIC }
);

/// The positions where a block may be, in the words of an error.
mod place {
    pub const SYSTEM: &str = "`system`";
    pub const USER: &str = "`user` messages";
    pub const ASSISTANT: &str = "`assistant` messages";
    pub const TOOL_RESULT: &str = "`tool_result` blocks";
    pub const DOCUMENT: &str = "`document` blocks";
    pub const SEARCH_RESULT: &str = "`search_result` blocks";

    /// The positions of a block type; empty for a type that does not exist.
    pub fn of(kind: &str) -> &'static [&'static str] {
        match kind {
            "text" => &[SYSTEM, USER, ASSISTANT, TOOL_RESULT, DOCUMENT, SEARCH_RESULT],
            "image" => &[USER, TOOL_RESULT, DOCUMENT],
            "document" | "search_result" => &[USER, TOOL_RESULT],
            "tool_result" => &[USER],
            "tool_reference" => &[TOOL_RESULT],
            "container_upload" => &[USER, ASSISTANT],
            "thinking" | "redacted_thinking" | "compaction" => &[ASSISTANT],
            "tool_use" | "server_tool_use" | "mcp_tool_use" => &[ASSISTANT],
            _ if kind.ends_with("_tool_result") => &[ASSISTANT],
            _ => &[],
        }
    }
}

impl Turn<'_> {
    fn has(&self, kind: &str) -> bool {
        self.blocks.iter().any(|block| kind_of(block) == kind)
    }

    /// True for a message of a tool loop: it calls tools, or contains only results.
    fn loops(&self) -> bool {
        let only_results =
            !self.blocks.is_empty() && self.blocks.iter().all(|block| kind_of(block) == "tool_result");
        if self.role == "assistant" { self.has("tool_use") } else { self.role == "user" && only_results }
    }
}

/// The request and the rules between its messages.
impl<'a> Check<'a, Anthropic> {
    fn request(&mut self, body: At<'a>) {
        self.state.model = body["model"].as_str().and_then(model::Version::of);
        self.settings(&body);
        self.cache_mark(&body, "body");
        self.system(&body.get("system"));
        let tool_names = self.tools(&body.get("tools"));
        let thinking = self.thinking_type(&body.get("thinking"));
        self.tool_choice(&body, &tool_names, thinking);
        let Some(messages) = self.list(&body.get("messages"), "an array") else { return };
        let turns: Vec<Turn> =
            messages.iter().map(|message| Turn::read(message, call_id, result_id)).collect();
        self.request_wide(&turns, &body);
        for (i, message) in messages.iter().enumerate() {
            self.message(message);
            self.results_answer_the_previous(i, &turns);
            self.calls_are_answered_next(i, &turns);
            self.server_tools_are_paired(i, &turns[i]);
        }
        self.tool_loop_starts_with_thinking(&turns, thinking);
        self.trailing_assistant(&messages, &turns, thinking);
    }

    fn request_wide(&mut self, turns: &[Turn], body: &At<'a>) {
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
        if self.extent != Extent::Messages
            && !declares_tools(body)
            && turns.iter().any(|turn| turn.uses_tools)
        {
            let message = "Requests which include `tool_use` or `tool_result` blocks must define tools.";
            self.refuse("ANT-09", "tools", message);
        }
    }

    fn results_answer_the_previous(&mut self, i: usize, turns: &[Turn]) {
        let mut late = Vec::new();
        for (path, id, misfit) in turns::misfits(i, turns) {
            match misfit {
                MisplacedResult::Late => late.push((path, id)),
                MisplacedResult::Unexpected => {
                    let reason = format!(
                        "unexpected `tool_use_id` found in `tool_result` blocks: {id}. Each `tool_result` block \
                         must have a corresponding `tool_use` block in the previous message."
                    );
                    self.refuse_at("ANT-02", path, &reason);
                }
                MisplacedResult::Repeated => {
                    let reason =
                        "each tool_use must have a single result. Found multiple `tool_result` blocks";
                    self.refuse_at("ANT-04", path, &format!("{reason} with id: {id}"));
                }
            }
        }
        if let Some((path, _)) = late.first() {
            let ids: Vec<&str> = late.iter().map(|(_, id)| *id).collect();
            self.refuse("ANT-03", path.clone(), unanswered(i.saturating_sub(1), &ids));
        }
    }

    fn calls_are_answered_next(&mut self, i: usize, turns: &[Turn]) {
        let missing = turns::unanswered(i, turns);
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
            let reason = format!("`{kind}` id {id} was found without a corresponding result block after it");
            self.refuse_at("ANT-27", path, &reason);
        }
    }

    fn tool_loop_starts_with_thinking(&mut self, turns: &[Turn], thinking: &str) {
        // The loop of the last assistant message, even if the user wrote something after it.
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

    fn trailing_assistant(&mut self, messages: &[At<'a>], turns: &[Turn], thinking: &str) {
        let (Some(message), Some(turn)) = (messages.last(), turns.last()) else { return };
        if turn.role != "assistant" {
            return;
        }
        let text = turn.blocks.last().map_or(&message["content"], |block| &block["text"]);
        if text.as_str().is_some_and(|text| text.ends_with(is_space)) {
            let reason = "messages: final assistant content cannot end with trailing whitespace";
            self.refuse("ANT-13", message, reason);
        }
        let prefill = "This model does not support assistant message prefill. The conversation must end \
                       with a user message.";
        if !self.state.model.is_some_and(model::Version::takes_prefill) {
            self.refuse("ANT-14", message, prefill);
        }
        let thinking_is_on = ["enabled", "adaptive"].contains(&thinking);
        if !thinking_is_on && (turn.has("thinking") || turn.has("redacted_thinking")) {
            let reason = "When thinking is disabled, an `assistant` message in the final position cannot \
                          contain `thinking`.";
            self.refuse("ANT-22", message, reason);
        }
    }
}

/// The settings beside the messages.
impl<'a> Check<'a, Anthropic> {
    fn settings(&mut self, body: &At<'_>) {
        for fault in self.setting_faults(body) {
            let rule = if fault.what == FaultKind::Missing { "ANT-30" } else { "ANT-schema" };
            let message = (words::PYDANTIC.words)(&fault.path, &fault.what);
            self.refuse(rule, fault.path, message);
        }
        let thinking = &body["thinking"];
        let Some("enabled") = thinking["type"].as_str() else { return };
        match (thinking["budget_tokens"].as_u64(), body["max_tokens"].as_u64()) {
            (None, _) => self.missing("thinking.enabled.budget_tokens"),
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
        if body["temperature"].as_f64().is_some_and(|temperature| temperature != 1.0) {
            let message = "`temperature` may only be set to 1 when thinking is enabled.";
            self.refuse("ANT-schema", "temperature", message);
        }
    }

    fn system(&mut self, system: &At<'a>) {
        match system.value {
            None => {}
            Some(Value::String(text)) if text.is_empty() => {}
            Some(Value::String(text)) => self.text(text, system),
            Some(Value::Array(_)) => self.blocks(place::SYSTEM, system),
            Some(_) => self.schema(system, "Input should be a valid string or list"),
        }
    }

    /// Returns the declared names.
    fn tools(&mut self, tools: &At<'a>) -> HashSet<&'a str> {
        let mut names = HashSet::new();
        if !tools.is_given() {
            return names;
        }
        for tool in self.list(tools, "an array").unwrap_or_default() {
            if !self.object(&tool, "an object") {
                continue;
            }
            self.cache_mark(&tool, &tool.path);
            if let Some(name) = self.tool(&tool)
                && !names.insert(name)
            {
                self.refuse("ANT-schema", &tool, "tools: Tool names must be unique.");
            }
        }
        names
    }

    fn tool(&mut self, tool: &At<'a>) -> Option<&'a str> {
        match tool.get("type").value {
            None | Some(Value::Null) => {}
            Some(Value::String(kind)) if kind == "custom" => {}
            // A toolset has no name; other server tools have a fixed one.
            Some(Value::String(kind)) if kind == "mcp_toolset" => return None,
            Some(Value::String(kind)) => return self.tool_name(&tool.under(kind), "name"),
            Some(_) => self.mistyped(&tool.get("type"), "a string"),
        }
        let tool = tool.under("custom");
        let schema = tool.get("input_schema");
        match schema.value {
            None => self.missing(&schema),
            Some(Value::Object(_)) if schema["type"] == "object" => {}
            Some(Value::Object(_)) => self.schema(&schema.get("type"), "Input should be 'object'"),
            Some(_) => self.mistyped(&schema, "an object"),
        }
        self.tool_name(&tool, "name")
    }

    /// Returns the type of thinking that the request sets; empty if it sets none.
    fn thinking_type(&mut self, thinking: &At<'a>) -> &'a str {
        if !thinking.is_given() {
            return "";
        }
        let kind = thinking.get("type").text().unwrap_or_default();
        if !["enabled", "disabled", "adaptive"].contains(&kind) {
            self.schema("thinking.type", "Input should be 'enabled', 'disabled' or 'adaptive'");
        }
        kind
    }

    fn tool_choice(&mut self, body: &At<'_>, names: &HashSet<&str>, thinking: &str) {
        let choice = body.get("tool_choice");
        // Anything but an object was already refused for its type.
        if !choice.is_object() {
            return;
        }
        let kind = choice["type"].as_str().unwrap_or_default();
        if !["auto", "any", "tool", "none"].contains(&kind) {
            return self.schema(&choice.get("type"), "Input should be 'auto', 'any', 'tool' or 'none'");
        }
        if !declares_tools(body) {
            self.schema(&choice, "tool_choice may only be specified while providing tools");
        } else if kind == "tool" && !choice["name"].as_str().is_some_and(|name| names.contains(name)) {
            let name = choice["name"].as_str().unwrap_or_default();
            self.schema(&choice.get("name"), &format!("Tool '{name}' not found in provided tools"));
        }
        if thinking == "enabled" && ["any", "tool"].contains(&kind) {
            let message = "Thinking may not be enabled when tool_choice forces tool use.";
            self.refuse("ANT-23", &choice, message);
        }
    }
}

/// One message and its blocks.
impl<'a> Check<'a, Anthropic> {
    fn message(&mut self, message: &At<'a>) {
        if !self.object(message, "an object") {
            return;
        }
        let role = message.get("role");
        let place = match role.text() {
            Some("user") => place::USER,
            Some("assistant") => place::ASSISTANT,
            Some("system") => {
                let message = "messages: Unexpected role \"system\". The Messages API accepts a top-level \
                               `system` parameter, not \"system\" as an input message role.";
                if self.state.model.is_some_and(model::Version::takes_system_messages) {
                    // Their position and content follow rules that differ from model to model.
                    return self.note("ANT-16", &role, message);
                }
                self.refuse("ANT-16", &role, message);
                place::USER
            }
            _ => {
                self.refuse_at("ANT-17", &role, "Input should be 'user' or 'assistant'");
                place::USER
            }
        };
        for field in message.keys().filter(|field| !["role", "content"].contains(&field.as_str())) {
            self.fault("ANT-29", &message.get(field), &FaultKind::Unknown);
        }
        let content = message.get("content");
        match content.value {
            Some(Value::String(text)) if !text.is_empty() => self.text(text, &content),
            Some(Value::Array(blocks)) if !blocks.is_empty() => self.blocks(place, &content),
            Some(Value::String(_) | Value::Array(_)) => {
                let reason = "all messages must have non-empty content except for the optional final assistant message";
                self.refuse_at("ANT-11", message, reason);
            }
            Some(_) => self.mistyped(&content, "a valid string or list"),
            None => self.missing(&content),
        }
    }

    fn blocks(&mut self, place: &str, blocks: &At<'a>) {
        for block in blocks.items() {
            if self.object(&block, "an object") {
                self.block(place, &block);
            }
        }
    }

    fn block(&mut self, place: &str, block: &At<'a>) {
        self.cache_mark(block, &block.path);
        let Some(kind) = self.string(&block.get("type")) else { return };
        let places = place::of(kind);
        if places.is_empty() {
            let reason = "found using 'type' does not match any of the expected tags";
            return self.schema(block, &format!("Input tag '{kind}' {reason}"));
        }
        if !places.contains(&place) {
            return self.schema(block, &format!("`{kind}` blocks can only be in {}", places.join(" or ")));
        }
        match kind {
            "text" => self.text_block(block),
            "image" | "document" => self.media(kind, block),
            "search_result" => self.search_result(block),
            "thinking" | "redacted_thinking" => self.reasoning(kind, block),
            "tool_use" | "server_tool_use" | "mcp_tool_use" => self.call(kind, block),
            "tool_result" => self.tool_result(block),
            "tool_reference" => {
                self.tool_name(&block.under(kind), "tool_name");
            }
            "container_upload" => {
                self.string(&block.get("file_id"));
            }
            "compaction" => {}
            _ => self.id(block, "tool_use_id", kind),
        }
    }

    fn text_block(&mut self, block: &At<'a>) {
        self.only_fields(block, "type text citations cache_control");
        self.optional(&block.get("citations"), Value::is_array, "an array");
        let Some(text) = self.string(&block.get("text")) else { return };
        self.text(text, block);
        if text.chars().all(is_space) && block.get("cache_control").is_given() {
            self.refuse_at("ANT-26", block, "cache_control cannot be set for empty text blocks");
        }
    }

    /// Judges a text wherever it is: in a block, as bare content, or in a result.
    fn text(&mut self, text: &str, at: &At<'_>) {
        let field = at.path.split('.').next().unwrap_or_default();
        if text.chars().all(is_space) {
            let reason = if text.is_empty() { "be non-empty" } else { "contain non-whitespace text" };
            self.refuse("ANT-10", at, format!("{field}: text content blocks must {reason}"));
        }
    }

    /// Judges the type of a field that may be absent or null.
    fn optional(&mut self, field: &At<'a>, fits: fn(&Value) -> bool, expected: &'static str) {
        if field.is_given() {
            self.needs_type(field, fits, expected);
        }
    }

    fn media(&mut self, kind: &str, block: &At<'a>) {
        if kind == "image" {
            self.only_fields(block, "type source cache_control");
        } else {
            self.only_fields(block, "type source title context citations cache_control");
            for text in ["title", "context"].map(|field| block.under(kind).get(field)) {
                if text.is_given() {
                    self.string(&text);
                }
            }
            self.optional(&block.under(kind).get("citations"), Value::is_object, "an object");
        }
        let source = block.under(kind).get("source");
        let filled = |field: &str| is_filled(&source[field]);
        let form = source["type"].as_str().unwrap_or_default();
        let whole = match (form, kind) {
            ("base64", _) => return self.bytes(kind, &source.under("base64")),
            ("text", "document") if source["media_type"] == "text/plain" => filled("data"),
            ("text", "document") => {
                let media_type = source.under("text").get("media_type");
                return self.schema(&media_type, "Input should be 'text/plain'");
            }
            ("url", _) if filled("url") => {
                if !media::is_address(source["url"].as_str().unwrap_or_default(), &["https://"]) {
                    let message = format!("{}.url: Only HTTPS URLs are supported.", source.path);
                    self.refuse("ANT-25", &source, message);
                }
                return;
            }
            ("file", _) => filled("file_id"),
            ("content", "document") if source["content"].is_array() => {
                self.blocks(place::DOCUMENT, &source.get("content"));
                !list(&source["content"]).is_empty()
            }
            ("content", "document") => filled("content"),
            _ => {
                let reason = "found using 'type' does not match any expected tag";
                return self.refuse_at("ANT-25", &source, &format!("Input tag '{form}' {reason}"));
            }
        };
        if !whole {
            let message = format!("{}.{form}: {kind} cannot be empty", source.path);
            self.refuse("ANT-25", &source, message);
        }
    }

    /// Judges base64 data and the type that it names.
    fn bytes(&mut self, kind: &str, source: &At<'_>) {
        let media_type = source["media_type"].as_str().unwrap_or_default();
        let (taken, expected): (&[&str], _) = match kind {
            "image" => (&media::IMAGES, "'image/jpeg', 'image/png', 'image/gif' or 'image/webp'"),
            _ => (&["application/pdf"], "'application/pdf'"),
        };
        if !taken.contains(&media_type) {
            let reason = format!("Input should be {expected}");
            return self.refuse_at("ANT-25", &source.get("media_type"), &reason);
        }
        let path = &source.path;
        let reason = match media::flaw(media_type, source["data"].as_str().unwrap_or_default()) {
            None => return,
            Some(Flaw::Empty) => format!("{path}: {kind} cannot be empty"),
            Some(Flaw::NotBase64) => format!("{path}: invalid base64 data"),
            Some(Flaw::OtherType) if kind == "image" => {
                format!("{path}.data: Image does not match the provided media type {media_type}")
            }
            Some(Flaw::OtherType) => format!("{path}.data: The PDF specified was not valid."),
        };
        self.refuse("ANT-25", source, reason);
    }

    fn search_result(&mut self, block: &At<'a>) {
        self.string(&block.get("source"));
        self.string(&block.get("title"));
        let content = block.get("content");
        self.needs_type(&content, Value::is_array, "an array");
        self.blocks(place::SEARCH_RESULT, &content);
    }

    fn reasoning(&mut self, kind: &str, block: &At<'a>) {
        if kind == "redacted_thinking" {
            self.only_fields(block, "type data");
            self.string(&block.get("data"));
            return;
        }
        self.only_fields(block, "type thinking signature");
        self.string(&block.get("thinking"));
        match block.get("signature").value {
            None => {
                let message = format!("{}.thinking.signature: Field required", block.path);
                self.refuse("ANT-20", block, message);
            }
            Some(signature) if is_filled(signature) => {}
            Some(_) => self.refuse_at("ANT-20", block, "Invalid `signature` in `thinking` block"),
        }
    }

    fn call(&mut self, kind: &'a str, block: &At<'a>) {
        if kind == "tool_use" {
            self.only_fields(block, "type id name input caller cache_control");
        }
        self.id(block, "id", kind);
        if let Some(id) = block.get("id").text()
            && !self.state.call_ids.insert(id)
        {
            self.refuse_at("ANT-05", block, "`tool_use` ids must be unique");
        }
        self.tool_name(&block.under(kind), "name");
        if kind == "mcp_tool_use" {
            self.string(&block.get("server_name"));
        }
        let reason = match block.get("input").value {
            Some(Value::Object(_)) => return,
            Some(_) => "Input should be a valid dictionary",
            None => "Field required",
        };
        self.refuse("ANT-07", block, format!("{}.{kind}.input: {reason}", block.path));
    }

    fn tool_result(&mut self, block: &At<'a>) {
        self.only_fields(block, "type tool_use_id content is_error cache_control");
        self.id(block, "tool_use_id", "tool_result");
        let content = block.get("content");
        match content.value {
            None => {}
            Some(Value::String(text)) => self.text(text, &content),
            Some(Value::Array(blocks)) if blocks.is_empty() => self.text("", &content),
            Some(Value::Array(_)) => self.blocks(place::TOOL_RESULT, &content),
            Some(_) => self.mistyped(&content, "a valid string or list"),
        }
        self.check_type(&block.get("is_error"), Value::is_boolean, "a boolean");
        let holds_media = list(&content).iter().any(|block| kind_of(block) != "text");
        if block["is_error"] == true && holds_media {
            self.refuse_at("ANT-24", block, "all content must be type `text` if `is_error` is true");
        }
    }

    fn id(&mut self, block: &At<'a>, field: &str, kind: &str) {
        let Some(id) = self.string(&block.get(field)) else { return };
        let of_server = !["tool_use", "tool_result", "mcp_tool_use", "mcp_tool_result"].contains(&kind);
        let (legal, pattern) = if of_server {
            let rest = id.strip_prefix("srvtoolu_").unwrap_or_default();
            (is_word(rest, "") && !rest.contains('-'), "^srvtoolu_[a-zA-Z0-9_]+$")
        } else {
            (is_word(id, ""), "^[a-zA-Z0-9_-]+$")
        };
        if !legal {
            let path = &block.path;
            let message = format!("{path}.{kind}.{field}: String should match pattern '{pattern}'");
            self.refuse("ANT-06", block, message);
        }
    }

    /// Returns the name, legal or not, if there is one.
    fn tool_name(&mut self, holder: &At<'a>, field: &str) -> Option<&'a str> {
        let max = if field == "tool_name" { MAX_REFERENCE_NAME } else { MAX_NAME };
        let at = holder.get(field);
        let name = self.string(&at)?;
        if name.chars().count() > max {
            self.refuse_at("ANT-08", &at, &format!("String should have at most {max} characters"));
        } else if !is_word(name, "") {
            let reason = format!("String should match pattern '^[a-zA-Z0-9_-]{{1,{max}}}$'");
            self.refuse_at("ANT-08", &at, &reason);
        }
        Some(name)
    }
}

/// Marks for the cache.
impl Check<'_, Anthropic> {
    fn cache_mark(&mut self, holder: &At<'_>, path: &str) {
        let mark = &holder["cache_control"];
        if mark.is_null() {
            return;
        }
        if mark["type"] != "ephemeral" {
            self.schema(format!("{path}.cache_control.type"), "Input should be 'ephemeral'");
        }
        self.state.cache_marks += 1;
        if self.state.cache_marks > MAX_CACHE_MARKS {
            let found = self.state.cache_marks;
            let message = format!(
                "A maximum of {MAX_CACHE_MARKS} blocks with cache_control may be provided. Found {found}."
            );
            self.refuse("ANT-26", path, message);
        }
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

fn declares_tools(body: &Value) -> bool {
    !list(&body["tools"]).is_empty()
}

/// The id of a block that is a call.
fn call_id(block: &Value) -> Option<&Value> {
    (kind_of(block) == "tool_use").then(|| &block["id"])
}

/// The id that a block answers if it is a result.
fn result_id(block: &Value) -> Option<&Value> {
    (kind_of(block) == "tool_result").then(|| &block["tool_use_id"])
}

#[cfg(test)]
mod tests;
