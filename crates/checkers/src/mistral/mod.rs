//! The strict checker of Mistral chat request bodies: an oracle that answers as the hosted API would, for
//! tests and for `check --for`. Judges the `MIS-…` rules in their hosted form and the fields of messages,
//! chunks and calls, of which Mistral takes no unknown ones; what arguments say is not looked at.
//! Shares nothing with the codec of this dialect and never patches a body; what the rulebook leaves unsure
//! is refused.

mod settings;

use std::collections::HashSet;

use serde_json::{Map, Value};

use crate::{
    Scope, Verdict, media, shape,
    violation::{Violation, read_body},
    words,
};

const CALL_ID_LENGTH: usize = 9;
const MAX_NAME: usize = 64;

/// Tells every reason why Mistral's chat API would refuse a request body; none means it is accepted.
///
/// The order is that of the document: first the settings of the request, then message by message.
pub(crate) fn check(body: &[u8], scope: Scope) -> Verdict {
    let request = read_body(body, "MIS-schema");
    let mut checker = Checker { scope, ..Checker::default() };
    match &request {
        Ok(Value::Object(fields)) => checker.request(fields),
        Ok(_) => checker.schema("body", "Input should be a valid dictionary"),
        Err(violation) => checker.verdict.violations.push(violation.clone()),
    }
    checker.verdict
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    System,
    User,
    Assistant,
    Tool,
}

impl Role {
    fn of(message: &Value) -> Option<Role> {
        match message["role"].as_str()? {
            "system" => Some(Role::System),
            "user" => Some(Role::User),
            "assistant" => Some(Role::Assistant),
            "tool" => Some(Role::Tool),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Role::System => "system",
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::Tool => "tool",
        }
    }

    /// Every field that a message of this role may have.
    fn fields(self) -> &'static [&'static str] {
        match self {
            Role::System | Role::User => &["role", "content"],
            Role::Assistant => &["role", "content", "tool_calls", "prefix"],
            Role::Tool => &["role", "content", "tool_call_id", "name"],
        }
    }

    /// The rule that a message of this role breaks after one of that role.
    fn misplaced_after(self, previous: Role) -> Option<&'static str> {
        match (previous, self) {
            (Role::System | Role::User, Role::Tool) => Some("MIS-02"),
            (Role::Tool, Role::User) => Some("MIS-03"),
            (Role::Assistant | Role::Tool, Role::System) => Some("MIS-04"),
            _ => None,
        }
    }

    /// The chunk types that a message of this role may have.
    fn chunks(self) -> &'static [&'static str] {
        match self {
            Role::System => &["text", "thinking"],
            Role::User => &["text", "image_url", "document_url", "reference", "input_audio", "file"],
            Role::Assistant => &["text", "thinking", "reference"],
            Role::Tool => &["text", "reference"],
        }
    }
}

#[derive(Default)]
struct Checker<'a> {
    scope: Scope,
    verdict: Verdict,
    /// The ids of the calls whose results are being read.
    expected: HashSet<&'a str>,
    /// Those of them that have been answered.
    observed: HashSet<&'a str>,
}

/// The request and the rules between its messages.
impl<'a> Checker<'a> {
    fn request(&mut self, fields: &'a Map<String, Value>) {
        self.settings(fields);
        let names = self.tools(fields.get("tools"));
        self.tool_choice(fields.get("tool_choice"), &names);
        let messages = match fields.get("messages") {
            Some(Value::Array(messages)) => messages,
            Some(_) => return self.schema("messages", "Input should be a valid list"),
            None => return self.schema("messages", "Field required"),
        };
        self.count(messages);
        for (i, message) in messages.iter().enumerate() {
            match message {
                Value::Object(fields) => self.message(i, message, fields),
                _ => self.schema(&format!("messages.{i}"), "Input should be a valid dictionary"),
            }
            self.prefix_is_last(i, messages);
            let misplaced = self.is_misplaced(i, messages);
            match Role::of(message) {
                Some(Role::Assistant) => self.calls_are_answered(i, messages),
                Some(Role::Tool) if misplaced => self.observe(message),
                Some(Role::Tool) => self.result_answers_a_call(i, message),
                _ => {}
            }
        }
        self.last_role(messages);
    }

    fn settings(&mut self, fields: &Map<String, Value>) {
        for fault in shape::faults(fields, settings::SETTINGS, self.scope, str::to_owned) {
            self.refuse("MIS-schema", fault.path.clone(), words::pydantic(&fault));
        }
    }

    fn count(&mut self, messages: &[Value]) {
        match messages {
            [] => self.refuse("MIS-10", "messages", "Conversation must have at least one message"),
            [only] if matches!(Role::of(only), Some(Role::Assistant | Role::Tool)) => {
                let message = "Conversation must start with a user message or system message";
                self.refuse("MIS-10", "messages.0", message);
            }
            _ => {}
        }
    }

    /// Refuses a message that may not follow the one before it, and returns whether it did.
    fn is_misplaced(&mut self, i: usize, messages: &[Value]) -> bool {
        let Some(role) = Role::of(&messages[i]) else { return false };
        let Some(before) = i.checked_sub(1) else {
            // A lone result has been told already.
            if role == Role::Tool && messages.len() > 1 {
                let message = "Unexpected role 'tool' at the start of the conversation";
                self.refuse("MIS-02", "messages.0", message);
            }
            return role == Role::Tool;
        };
        let Some(previous) = Role::of(&messages[before]) else { return false };
        let Some(rule) = role.misplaced_after(previous) else { return false };
        let message = format!("Unexpected role '{}' after role '{}'", role.name(), previous.name());
        self.refuse(rule, format!("messages.{i}"), message);
        true
    }

    fn calls_are_answered(&mut self, i: usize, messages: &'a [Value]) {
        let ids: HashSet<&str> =
            calls_of(&messages[i]).iter().filter_map(|call| call["id"].as_str()).collect();
        let until_the_next =
            messages[i + 1..].iter().take_while(|next| Role::of(next) != Some(Role::Assistant));
        let results = until_the_next.filter(|next| Role::of(next) == Some(Role::Tool));
        let answered: HashSet<&str> = results.filter_map(|result| result["tool_call_id"].as_str()).collect();
        // The validator overlooks the calls of the first message, and then finds their results unexpected.
        let overlooked = i == 0 && !ids.is_empty();
        if overlooked || !ids.is_subset(&answered) {
            let message = "Not the same number of function calls and responses";
            self.refuse("MIS-01", format!("messages.{i}"), message);
        }
        self.expected = ids;
        self.observed.clear();
    }

    /// Counts a result that stands in the wrong place, so that it is told once.
    fn observe(&mut self, message: &'a Value) {
        self.observed.extend(message["tool_call_id"].as_str().filter(|id| self.expected.contains(id)));
    }

    fn result_answers_a_call(&mut self, i: usize, message: &'a Value) {
        let Some(id) = message["tool_call_id"].as_str() else { return };
        let fault = if self.observed.contains(id) {
            "Duplicate"
        } else if !self.expected.contains(id) {
            "Unexpected"
        } else {
            return self.observe(message);
        };
        let message = format!("{fault} tool call id {id} in tool results");
        self.refuse("MIS-06", format!("messages.{i}.tool_call_id"), message);
    }

    fn prefix_is_last(&mut self, i: usize, messages: &[Value]) {
        let continued = Role::of(&messages[i]) == Some(Role::Assistant) && messages[i]["prefix"] == true;
        if continued && i + 1 < messages.len() {
            let message = "Assistant message with prefix True must be last message";
            self.refuse("MIS-07", format!("messages.{i}.prefix"), message);
        }
    }

    fn last_role(&mut self, messages: &[Value]) {
        let [_, .., last] = messages else { return };
        let refused = match Role::of(last) {
            Some(Role::User | Role::Tool) | None => return,
            Some(Role::Assistant) if last["prefix"] == true => return,
            Some(role) => role.name(),
        };
        let message = format!(
            "Expected last role User or Tool (or Assistant with prefix True) for serving but got {refused}"
        );
        self.refuse("MIS-07", format!("messages.{}", messages.len() - 1), message);
    }
}

/// The settings beside the messages.
impl<'a> Checker<'a> {
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
            let path = format!("tools.{k}");
            if tool.get("type").is_some_and(|kind| kind != "function") {
                self.schema(&format!("{path}.type"), "Input should be 'function'");
                continue;
            }
            let path = format!("{path}.function");
            let Some(function) = tool["function"].as_object() else {
                self.schema(&path, "Input should be a valid dictionary");
                continue;
            };
            self.name(function.get("name"), &path);
            if !function.get("parameters").is_some_and(Value::is_object) {
                self.schema(&format!("{path}.parameters"), "Input should be a valid dictionary");
            }
            if function.get("description").is_some_and(|text| !text.is_string()) {
                self.schema(&format!("{path}.description"), "Input should be a valid string");
            }
            names.extend(function.get("name").and_then(Value::as_str));
        }
        names
    }

    fn tool_choice(&mut self, choice: Option<&Value>, names: &HashSet<&str>) {
        match choice {
            None | Some(Value::Null) => {}
            Some(Value::String(mode)) if ["auto", "none", "any", "required"].contains(&mode.as_str()) => {}
            Some(Value::Object(choice)) => {
                let name = choice.get("function").and_then(|function| function["name"].as_str());
                if !name.is_some_and(|name| names.contains(name)) {
                    self.schema("tool_choice.function.name", "Input should be the name of a declared tool");
                }
            }
            Some(_) => self.schema("tool_choice", "Input should be 'auto', 'none', 'any' or 'required'"),
        }
    }
}

/// One message, its chunks and its calls.
impl<'a> Checker<'a> {
    fn message(&mut self, i: usize, message: &'a Value, fields: &'a Map<String, Value>) {
        let path = format!("messages.{i}");
        let Some(role) = Role::of(message) else {
            let message = format!("{path}.role: Input should be 'system', 'user', 'assistant' or 'tool'");
            return self.refuse("MIS-09", format!("{path}.role"), message);
        };
        self.only_fields(fields, role.fields(), &path);
        self.content(role, message, &path);
        match role {
            Role::Assistant => self.assistant(message, &path),
            Role::Tool => self.tool(message, &path),
            Role::System | Role::User => {}
        }
    }

    fn content(&mut self, role: Role, message: &'a Value, path: &str) {
        let path = format!("{path}.content");
        match message.get("content") {
            Some(Value::String(_)) => {}
            None | Some(Value::Null) if role == Role::Assistant => {}
            Some(Value::Array(chunks)) => {
                if chunks.is_empty() && matches!(role, Role::System | Role::User) {
                    self.schema(&path, "List should have at least 1 item after validation, not 0");
                }
                for (j, chunk) in chunks.iter().enumerate() {
                    self.chunk(role.chunks(), chunk, &format!("{path}.{j}"));
                }
            }
            Some(_) => self.schema(&path, "Input should be a valid string or list"),
            None => self.schema(&path, "Field required"),
        }
    }

    fn chunk(&mut self, allowed: &[&str], chunk: &'a Value, path: &str) {
        let Some(fields) = chunk.as_object() else {
            return self.schema(path, "Input should be a valid dictionary");
        };
        let kind = chunk["type"].as_str().unwrap_or_default();
        if !allowed.contains(&kind) {
            let expected = allowed.join("', '");
            let reason = format!(
                "Input tag '{kind}' found using 'type' does not match any of the expected tags: '{expected}'"
            );
            return self.schema(path, &reason);
        }
        let more: &[&str] = match kind {
            "text" | "image_url" | "input_audio" => &[kind],
            "document_url" => &["document_url", "document_name"],
            "reference" => &["reference_ids"],
            "thinking" => &["thinking", "closed"],
            _ => &["file_id"],
        };
        self.only_fields(fields, &[&["type"], more].concat(), path);
        let path = format!("{path}.{}", more[0]);
        let value = &chunk[more[0]];
        match kind {
            "text" if value.is_string() => {}
            "image_url" => self.image(value, &path),
            "document_url" if is_filled(value) => {
                self.medium(value.as_str().unwrap_or_default(), media::is_type, &path);
            }
            "file" if is_filled(value) => {}
            "input_audio" if is_filled(value) || is_filled(&value["data"]) => {}
            "reference" => {
                let is_id = |id: &Value| id.is_u64() || id.is_string();
                if !value.as_array().is_some_and(|ids| ids.iter().all(is_id)) {
                    self.schema(&path, "Input should be a valid list");
                }
            }
            "thinking" => self.thinking(chunk, &path),
            _ => self.schema(&path, "Input should be a valid string"),
        }
    }

    fn image(&mut self, image: &'a Value, path: &str) {
        if let Some(fields) = image.as_object() {
            self.only_fields(fields, &["url", "detail"], path);
        }
        let Some(url) = [image, &image["url"]].into_iter().find(|url| is_filled(url)) else {
            return self.schema(path, "Input should be a valid string or an object with a url");
        };
        let is_taken = |kind: &str| kind == "image/jpg" || media::IMAGES.contains(&kind);
        self.medium(url.as_str().unwrap_or_default(), is_taken, path);
    }

    /// Judges an address, and what stands in it.
    fn medium(&mut self, url: &str, is_taken: impl Fn(&str) -> bool, path: &str) {
        if media::is_address(url, &["https://", "http://"]) {
            return;
        }
        let sound = media::data_url(url)
            .is_some_and(|(kind, data)| is_taken(kind) && media::flaw(kind, data).is_none());
        if !sound {
            let message = format!("{path}: the file could not be loaded as a valid URL or base64 data");
            self.refuse("SAN-09", path, message);
        }
    }

    fn thinking(&mut self, chunk: &'a Value, path: &str) {
        match &chunk["thinking"] {
            Value::Array(thoughts) => {
                for (k, thought) in thoughts.iter().enumerate() {
                    // Without `thinking` among them, so that nothing nests.
                    self.chunk(&["text", "reference"], thought, &format!("{path}.{k}"));
                }
            }
            _ => self.schema(path, "Input should be a valid list"),
        }
        if chunk.get("closed").is_some_and(|closed| !closed.is_boolean()) {
            self.schema(&path.replace("thinking", "closed"), "Input should be a valid boolean");
        }
    }

    fn assistant(&mut self, message: &'a Value, path: &str) {
        match message.get("tool_calls") {
            None | Some(Value::Null) => {}
            Some(Value::Array(calls)) => self.calls(calls, path),
            Some(_) => self.schema(&format!("{path}.tool_calls"), "Input should be a valid list"),
        }
        if message.get("prefix").is_some_and(|prefix| !prefix.is_boolean()) {
            self.schema(&format!("{path}.prefix"), "Input should be a valid boolean");
        }
        let says_nothing = match &message["content"] {
            Value::Null => true,
            Value::String(text) => text.is_empty(),
            Value::Array(chunks) => chunks.is_empty(),
            _ => false,
        };
        if says_nothing && calls_of(message).is_empty() {
            let message = "Assistant message must have either content or tool_calls, but not both.";
            self.refuse("MIS-08", path, message);
        }
    }

    fn calls(&mut self, calls: &'a [Value], path: &str) {
        let mut ids = HashSet::new();
        for (k, call) in calls.iter().enumerate() {
            let path = format!("{path}.tool_calls.{k}");
            let (Some(fields), Some(function)) = (call.as_object(), call["function"].as_object()) else {
                self.schema(&format!("{path}.function"), "Input should be a valid dictionary");
                continue;
            };
            self.only_fields(fields, &["id", "type", "function", "index"], &path);
            self.call_id(fields.get("id"), &format!("{path}.id"));
            if let Some(id) = call["id"].as_str()
                && !ids.insert(id)
            {
                let message = format!("Duplicate tool call id {id} in assistant message");
                self.refuse("MIS-06", format!("{path}.id"), message);
            }
            if fields.get("type").is_some_and(|kind| kind != "function") {
                self.schema(&format!("{path}.type"), "Input should be 'function'");
            }
            if fields.get("index").is_some_and(|index| !index.is_u64()) {
                self.schema(&format!("{path}.index"), "Input should be a valid integer");
            }
            let path = format!("{path}.function");
            self.only_fields(function, &["name", "arguments"], &path);
            self.name(function.get("name"), &path);
            match function.get("arguments") {
                Some(Value::String(_) | Value::Object(_)) => {}
                _ => {
                    self.schema(&format!("{path}.arguments"), "Input should be a valid string or dictionary")
                }
            }
        }
    }

    fn tool(&mut self, message: &'a Value, path: &str) {
        self.call_id(message.get("tool_call_id"), &format!("{path}.tool_call_id"));
        if message.get("name").is_some_and(|name| !name.is_null()) {
            self.name(message.get("name"), path);
        }
    }
}

/// What all of the above is made of.
impl Checker<'_> {
    fn call_id(&mut self, id: Option<&Value>, path: &str) {
        match id {
            None | Some(Value::Null) => self.refuse("MIS-05", path, "Tool call id has to be defined."),
            Some(Value::String(id)) => {
                if id.len() != CALL_ID_LENGTH || !id.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
                    let message = format!(
                        "Tool call id was {id} but must be a-z, A-Z, 0-9, with a length of {CALL_ID_LENGTH}."
                    );
                    self.refuse("MIS-05", path, message);
                }
            }
            Some(_) => self.schema(path, "Input should be a valid string"),
        }
    }

    fn name(&mut self, name: Option<&Value>, path: &str) {
        let path = format!("{path}.name");
        let Some(name) = name.and_then(Value::as_str) else {
            return self.schema(&path, "Input should be a valid string");
        };
        let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        if name.is_empty() || name.len() > MAX_NAME || !name.bytes().all(is_legal) {
            let message = format!(
                "Function name was {name} but must be a-z, A-Z, 0-9, or contain underscores and dashes, with \
                 a maximum length of {MAX_NAME}."
            );
            self.refuse("MIS-09", path, message);
        }
    }

    fn only_fields(&mut self, fields: &Map<String, Value>, known: &[&str], path: &str) {
        for field in fields.keys().filter(|field| !known.contains(&field.as_str())) {
            self.schema(&format!("{path}.{field}"), "Extra inputs are not permitted");
        }
    }

    fn schema(&mut self, path: &str, reason: &str) {
        self.refuse("MIS-schema", path, format!("{path}: {reason}"));
    }

    fn refuse(&mut self, rule: &'static str, path: impl Into<String>, message: impl Into<String>) {
        self.verdict.violations.push(Violation::new(rule, path, message));
    }
}

fn calls_of(message: &Value) -> &[Value] {
    message["tool_calls"].as_array().map_or(&[], Vec::as_slice)
}

fn is_filled(value: &Value) -> bool {
    value.as_str().is_some_and(|text| !text.is_empty())
}

#[cfg(test)]
mod tests;
