//! The strict checker of OpenAI Chat Completions request bodies: an oracle that answers as the strictest
//! known server would, for tests and for `check --for`. Judges the `OAC-…` rules and `VLL-01`.
//! Shares nothing with the codec of this dialect and never patches a body; what the rulebook leaves unsure
//! is refused. Unknown fields of a message are a note, since compatible servers add their own.

mod settings;

use std::collections::{HashMap, HashSet};

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::{
    Scope, Verdict, media, shape,
    violation::{Violation, nesting, read_body},
    words::{self, bracketed, kind_of},
};

const MAX_CALL_ID: usize = 40;
const MAX_CALLS: usize = 128;
const MAX_NAME: usize = 64;
const MAX_TOOLS: usize = 128;
const MAX_TEXT: usize = 10_485_760;
const MAX_ARGUMENT_NESTING: usize = 128;

/// Tells every reason why a Chat Completions server would refuse a request body; none means it is accepted.
///
/// The order is that of the document: first the settings of the request, then message by message.
pub(crate) fn check(body: &[u8], scope: Scope) -> Verdict {
    let request = read_body(body, "OAC-schema");
    let mut checker = Checker { scope, ..Checker::default() };
    match &request {
        Ok(Value::Object(fields)) => checker.request(fields),
        Ok(other) => {
            let message = format!("Invalid body: expected an object, but got {} instead.", kind_of(other));
            checker.refuse("OAC-schema", "body", message);
        }
        Err(violation) => checker.verdict.violations.push(violation.clone()),
    }
    checker.verdict
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// `system` and `developer`, which differ in nothing a body can break.
    Instructions,
    User,
    Assistant,
    Tool,
}

impl Role {
    fn of(message: &Value) -> Option<Role> {
        match message["role"].as_str()? {
            "system" | "developer" => Some(Role::Instructions),
            "user" => Some(Role::User),
            "assistant" => Some(Role::Assistant),
            "tool" => Some(Role::Tool),
            _ => None,
        }
    }
}

#[derive(Default)]
struct Checker<'a> {
    scope: Scope,
    verdict: Verdict,
    /// Where each call id was first used.
    call_ids: HashMap<&'a str, usize>,
    /// Calls of the assistant message whose results are being read, as far as they are unanswered.
    pending: HashSet<&'a str>,
    /// Where each call was answered.
    answered: HashMap<&'a str, usize>,
}

/// The request and the rules between its messages.
impl<'a> Checker<'a> {
    fn request(&mut self, fields: &'a Map<String, Value>) {
        self.settings(fields);
        for legacy in ["functions", "function_call"] {
            if fields.contains_key(legacy) {
                self.refuse("OAC-13", legacy, format!("'{legacy}' is deprecated in favor of 'tools'"));
            }
        }
        let names = self.tools(fields.get("tools"));
        self.tool_choice(fields.get("tool_choice"), &names);
        let messages = match fields.get("messages") {
            Some(Value::Array(messages)) => messages,
            Some(other) => return self.invalid_type("messages", "an array of objects", other),
            None => return self.missing("messages"),
        };
        self.array_length("OAC-11", "messages", messages.len(), usize::MAX);
        for (i, message) in messages.iter().enumerate() {
            match message {
                Value::Object(fields) => self.message(i, message, fields),
                other => self.invalid_type(&format!("messages.{i}"), "an object", other),
            }
            self.calls_are_answered_next(i, messages);
            self.result_answers_a_call(i, message);
        }
    }

    fn settings(&mut self, fields: &Map<String, Value>) {
        for fault in shape::faults(fields, settings::SETTINGS, self.scope, str::to_owned) {
            let elsewhere = settings::ELSEWHERE.contains(&fault.path.as_str());
            let (path, message) = (fault.path.clone(), words::openai(&fault));
            if fault.what == shape::What::Unknown && elsewhere {
                self.verdict.notes.push(Violation::new("OAC-schema", path, message));
            } else {
                self.refuse("OAC-schema", path, message);
            }
        }
        let given = |name: &str| fields.get(name).is_some_and(|value| !value.is_null());
        if given("stream_options") && fields.get("stream") != Some(&Value::Bool(true)) {
            let message = "The 'stream_options' parameter is only allowed when 'stream' is enabled.";
            self.refuse("OAC-schema", "stream_options", message);
        }
        if given("parallel_tool_calls") && !given("tools") {
            let message = "Invalid value for 'parallel_tool_calls': 'parallel_tool_calls' is only allowed \
                           when 'tools' are specified.";
            self.refuse("OAC-schema", "parallel_tool_calls", message);
        }
        if given("max_tokens") && given("max_completion_tokens") {
            let message =
                "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.";
            self.refuse("OAC-schema", "max_tokens", message);
        }
        if given("top_logprobs") && fields.get("logprobs") != Some(&Value::Bool(true)) {
            let message = "The 'top_logprobs' parameter is only allowed when 'logprobs' is enabled.";
            self.refuse("OAC-schema", "top_logprobs", message);
        }
        let schema =
            fields.get("response_format").map_or(&Value::Null, |format| &format["json_schema"]["name"]);
        if fields.get("response_format").is_some_and(|format| format["type"] == "json_schema") {
            self.name(schema, "response_format.json_schema.name");
        }
        let format = fields.get("response_format").map_or(&Value::Null, |format| &format["type"]);
        if given("response_format")
            && !["text", "json_object", "json_schema"].iter().any(|known| format == known)
        {
            self.invalid_value("response_format.type", format, "'text', 'json_object' and 'json_schema'");
        }
    }

    fn calls_are_answered_next(&mut self, i: usize, messages: &'a [Value]) {
        let calls = match Role::of(&messages[i]) {
            Some(Role::Tool) => return,
            Some(Role::Assistant) => calls_of(&messages[i]),
            _ => &[],
        };
        let ids: Vec<&str> = calls.iter().filter_map(|call| call["id"].as_str()).collect();
        self.pending = ids.iter().copied().collect();
        let answers = messages[i + 1..].iter().take_while(|message| Role::of(message) == Some(Role::Tool));
        let answered: HashSet<&str> =
            answers.filter_map(|message| message["tool_call_id"].as_str()).collect();
        let missing: Vec<&str> = ids.into_iter().filter(|id| !answered.contains(id)).collect();
        if !missing.is_empty() {
            let message = format!(
                "An assistant message with 'tool_calls' must be followed by tool messages responding to each \
                 'tool_call_id'. The following tool_call_ids did not have response messages: {}",
                missing.join(", ")
            );
            self.refuse("OAC-01", format!("messages.{i}"), message);
        }
    }

    fn result_answers_a_call(&mut self, i: usize, message: &'a Value) {
        if Role::of(message) != Some(Role::Tool) {
            return;
        }
        let Some(id) = message["tool_call_id"].as_str() else {
            return match message.get("tool_call_id") {
                Some(other) => self.invalid_type(&format!("messages.{i}.tool_call_id"), "a string", other),
                None => self.missing(&format!("messages.{i}.tool_call_id")),
            };
        };
        if self.pending.remove(id) {
            self.answered.insert(id, i);
        } else if let Some(first) = self.answered.get(id) {
            let message = format!(
                "Invalid parameter: Duplicate value for 'tool_call_id' of '{id}', in messages[{first}] and \
                 messages[{i}]."
            );
            self.refuse("OAC-03", format!("messages.{i}"), message);
        } else {
            let message = "Invalid parameter: messages with role 'tool' must be a response to a preceeding \
                           message with 'tool_calls'.";
            self.refuse("OAC-02", format!("messages.{i}"), message);
        }
    }
}

/// The settings beside the messages.
impl<'a> Checker<'a> {
    /// Returns the declared names.
    fn tools(&mut self, tools: Option<&'a Value>) -> HashSet<&'a str> {
        let mut names = HashSet::new();
        let tools = match tools {
            None => return names,
            Some(Value::Array(tools)) => tools,
            Some(other) => {
                self.invalid_type("tools", "an array of objects", other);
                return names;
            }
        };
        self.array_length("OAC-11", "tools", tools.len(), MAX_TOOLS);
        for (k, tool) in tools.iter().enumerate() {
            let path = format!("tools.{k}");
            let Some(kind @ ("function" | "custom")) = tool["type"].as_str() else {
                self.invalid_value(&format!("{path}.type"), &tool["type"], "'function' and 'custom'");
                continue;
            };
            let path = format!("{path}.{kind}");
            if !tool[kind].is_object() {
                self.invalid_type(&path, "an object", &tool[kind]);
                continue;
            }
            let parameters = &tool[kind]["parameters"];
            if !parameters.is_object() && !parameters.is_null() {
                self.invalid_type(&format!("{path}.parameters"), "an object", parameters);
            }
            self.name(&tool[kind]["name"], &format!("{path}.name"));
            if let Some(name) = tool[kind]["name"].as_str()
                && !names.insert(name)
            {
                let message = format!("Invalid 'tools': tool names must be unique, got '{name}' twice.");
                self.refuse("OAC-schema", path, message);
            }
        }
        names
    }

    fn tool_choice(&mut self, choice: Option<&Value>, names: &HashSet<&str>) {
        let name = match choice {
            None => return,
            Some(Value::String(mode)) if mode == "none" || mode == "auto" || mode == "required" => None,
            Some(Value::Object(choice)) => match choice.get("type").and_then(Value::as_str) {
                Some(kind @ ("function" | "custom")) => {
                    Some(choice.get(kind).and_then(|of_kind| of_kind["name"].as_str()).unwrap_or_default())
                }
                Some("allowed_tools") => None,
                _ => {
                    let kind = choice.get("type").unwrap_or(&Value::Null);
                    let supported = "'function', 'custom' and 'allowed_tools'";
                    return self.invalid_value("tool_choice.type", kind, supported);
                }
            },
            Some(other) => return self.invalid_value("tool_choice", other, "'none', 'auto' and 'required'"),
        };
        if names.is_empty() {
            let message =
                "Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are specified.";
            self.refuse("OAC-schema", "tool_choice", message);
        } else if let Some(name) = name.filter(|name| !names.contains(name)) {
            let message = format!("Tool choice '{name}' not found in 'tools' parameter.");
            self.refuse("OAC-schema", "tool_choice", message);
        }
    }
}

/// One message, its parts and its calls.
impl<'a> Checker<'a> {
    fn message(&mut self, i: usize, message: &'a Value, fields: &'a Map<String, Value>) {
        let path = format!("messages.{i}");
        if fields.contains_key("function_call") {
            let message = format!("Invalid '{}': deprecated in favor of 'tool_calls'.", bracketed(&path));
            self.refuse("OAC-13", format!("{path}.function_call"), message);
        }
        for field in fields.keys().filter(|field| !settings::MESSAGE.contains(&field.as_str())) {
            let path = format!("{path}.{field}");
            let message = format!("Unknown parameter: '{}'.", bracketed(&path));
            self.verdict.notes.push(Violation::new("OAC-schema", path, message));
        }
        let Some(role) = Role::of(message) else {
            return self.foreign_role(&message["role"], &format!("{path}.role"));
        };
        self.content(role, message, &path);
        if role == Role::Assistant {
            self.stand_ins(message, &path);
        }
        match (role, fields.get("tool_calls")) {
            (_, None) => {}
            (Role::Assistant, Some(Value::Array(calls))) => self.calls(i, calls),
            (Role::Assistant, Some(other)) => {
                self.invalid_type(&format!("{path}.tool_calls"), "an array of objects", other);
            }
            (_, Some(_)) => {
                let place = bracketed(&path);
                let message = format!(
                    "Invalid '{place}': 'tool_calls' is only allowed for messages with role 'assistant'."
                );
                self.refuse("OAC-schema", format!("{path}.tool_calls"), message);
            }
        }
    }

    fn foreign_role(&mut self, role: &Value, path: &str) {
        if role == "function" {
            let message = "messages with role 'function' are deprecated in favor of role 'tool'";
            return self.refuse("OAC-13", path, message);
        }
        let role = role.as_str().unwrap_or(kind_of(role));
        let message = format!(
            "Invalid value: '{role}'. Supported values are: 'system', 'developer', 'assistant', 'user', and \
             'tool'."
        );
        self.refuse("OAC-09", path, message);
    }

    fn content(&mut self, role: Role, message: &'a Value, path: &str) {
        let path = format!("{path}.content");
        match &message["content"] {
            Value::Null => {
                let stands_in = !calls_of(message).is_empty()
                    || message["audio"].is_object()
                    || message["refusal"].is_string();
                if role != Role::Assistant || !stands_in {
                    self.refuse("OAC-07", path, "Invalid value for 'content': expected a string, got null.");
                }
            }
            Value::String(text) => self.text(text, &path),
            Value::Array(parts) => {
                self.array_length("OAC-schema", &path, parts.len(), usize::MAX);
                for (j, part) in parts.iter().enumerate() {
                    self.part(role, part, &format!("{path}.{j}"));
                }
            }
            other => self.invalid_type(&path, "one of a string or array of objects", other),
        }
    }

    /// Judges the fields that excuse an assistant message from having content.
    fn stand_ins(&mut self, message: &Value, path: &str) {
        let (refusal, audio) = (&message["refusal"], &message["audio"]);
        if !refusal.is_string() && !refusal.is_null() {
            self.invalid_type(&format!("{path}.refusal"), "a string", refusal);
        }
        if !audio.is_object() && !audio.is_null() {
            self.invalid_type(&format!("{path}.audio"), "an object", audio);
        }
    }

    fn part(&mut self, role: Role, part: &'a Value, path: &str) {
        let kind = part["type"].as_str().unwrap_or_default();
        let (field, whole) = match (kind, role) {
            ("text", _) | ("refusal", Role::Assistant) => {
                if let Some(text) = part[kind].as_str() {
                    self.text(text, &format!("{path}.{kind}"));
                }
                (kind, part[kind].is_string())
            }
            ("image_url", Role::User) => {
                let url = &part["image_url"]["url"];
                self.image(url.as_str().unwrap_or_default(), &format!("{path}.image_url.url"));
                ("image_url.url", is_filled(url))
            }
            ("input_audio", Role::User) => {
                let audio = &part["input_audio"];
                let known = audio["format"] == "wav" || audio["format"] == "mp3";
                ("input_audio", audio["data"].as_str().is_some_and(media::is_base64) && known)
            }
            ("file", Role::User) => {
                self.file(&part["file"], &format!("{path}.file"));
                ("file", is_filled(&part["file"]["file_id"]) || is_filled(&part["file"]["file_data"]))
            }
            ("image_url", _) => {
                let message_path = path.split_once(".content").map_or(path, |(message, _)| message);
                let (place, role) = (bracketed(message_path), role_name(role));
                let message = format!(
                    "Invalid '{place}'. Image URLs are only allowed for messages with role 'user', but this \
                     message with role '{role}' contains an image URL."
                );
                return self.refuse("OAC-10", path, message);
            }
            _ => {
                let supported = match role {
                    Role::User => "'text', 'image_url', 'input_audio', and 'file'",
                    Role::Assistant => "'text' and 'refusal'",
                    Role::Instructions | Role::Tool => "'text'",
                };
                return self.invalid_value(&format!("{path}.type"), &part["type"], supported);
            }
        };
        if !whole {
            self.missing(&format!("{path}.{field}"));
        }
    }

    /// Judges the address of an image; that it is there is judged elsewhere.
    fn image(&mut self, url: &str, path: &str) {
        if url.is_empty() || media::is_address(url, &["https://", "http://"]) {
            return;
        }
        let is_taken = |kind: &str| kind == "image/jpg" || media::IMAGES.contains(&kind);
        if let Some(got) = media::openai_flaw(url, is_taken) {
            let message = format!(
                "Invalid '{}'. Expected a base64-encoded data URL with an image MIME type (e.g. \
                 'data:image/png;base64,aW1nIGJ5dGVzIGhlcmU='), but got {got}",
                bracketed(path)
            );
            self.refuse("SAN-09", path, message);
        }
    }

    /// Judges where the bytes of a file are; that it says so is judged elsewhere.
    fn file(&mut self, file: &Value, path: &str) {
        let given = |field: &str| file[field].as_str().filter(|text| !text.is_empty());
        if given("file_id").is_some() && given("file_data").is_some() {
            let message = "Mutually exclusive parameters: 'file_id' and 'file_data'.";
            return self.refuse("OAC-schema", path, message);
        }
        if given("file_id").is_some_and(|id| id.trim().is_empty()) {
            return self.missing(&format!("{path}.file_id"));
        }
        if let Some(got) = given("file_data").and_then(|data| media::openai_flaw(data, media::is_type)) {
            let message = format!(
                "Invalid '{}.file_data'. Expected a base64-encoded data URL (e.g. \
                 'data:application/pdf;base64,JVBERi0xLjQ='), but got {got}",
                bracketed(path)
            );
            self.refuse("SAN-09", path, message);
        }
    }

    fn calls(&mut self, i: usize, calls: &'a [Value]) {
        self.array_length("OAC-05", &format!("messages.{i}.tool_calls"), calls.len(), MAX_CALLS);
        for (k, call) in calls.iter().enumerate() {
            let path = format!("messages.{i}.tool_calls.{k}");
            self.call_id(i, &call["id"], &format!("{path}.id"));
            match call["type"].as_str() {
                Some("function") if call["function"].is_object() => {
                    self.name(&call["function"]["name"], &format!("{path}.function.name"));
                    self.arguments(&call["function"]["arguments"], &format!("{path}.function.arguments"));
                }
                Some("custom") if call["custom"].is_object() => {
                    self.name(&call["custom"]["name"], &format!("{path}.custom.name"));
                    match &call["custom"]["input"] {
                        Value::String(input) => self.text(input, &format!("{path}.custom.input")),
                        other => self.invalid_type(&format!("{path}.custom.input"), "a string", other),
                    }
                }
                Some(kind @ ("function" | "custom")) => {
                    self.invalid_type(&format!("{path}.{kind}"), "an object", &call[kind]);
                }
                _ => self.invalid_value(&format!("{path}.type"), &call["type"], "'function' and 'custom'"),
            }
        }
    }

    fn call_id(&mut self, i: usize, id: &'a Value, path: &str) {
        let place = bracketed(path);
        let Some(id) = id.as_str() else {
            let message =
                format!("Invalid type for '{place}': expected a string, but got {} instead.", kind_of(id));
            return self.refuse("OAC-04", path, message);
        };
        let length = id.chars().count();
        if length == 0 {
            let message =
                format!("Invalid '{place}': empty string. Expected a string with minimum length 1.");
            self.refuse("OAC-04", path, message);
        } else if length > MAX_CALL_ID {
            let message = format!(
                "Invalid '{place}': string too long. Expected a string with maximum length {MAX_CALL_ID}, \
                 but got a string with length {length} instead."
            );
            self.refuse("OAC-04", path, message);
        }
        if let Some(first) = self.call_ids.get(id) {
            let message = format!(
                "Invalid parameter: Duplicate value for 'tool_calls.id' of '{id}', in messages[{first}] and \
                 messages[{i}]."
            );
            self.refuse("OAC-03", path, message);
        } else {
            self.call_ids.insert(id, i);
        }
    }

    fn arguments(&mut self, arguments: &'a Value, path: &str) {
        let Some(arguments) = arguments.as_str() else {
            let (place, kind) = (bracketed(path), kind_of(arguments));
            let message = format!("Invalid type for '{place}': expected a string, but got {kind} instead.");
            return self.refuse("OAC-08", path, message);
        };
        self.text(arguments, path);
        // A raw value is checked for its grammar alone, so numbers of any size pass, as they do in Python.
        match serde_json::from_str::<&RawValue>(arguments) {
            Err(error) => self.refuse("VLL-01", path, format!("arguments are not valid JSON: {error}")),
            Ok(raw) if !raw.get().starts_with('{') => {
                self.refuse("VLL-01", path, "arguments are not a JSON object");
            }
            Ok(raw) if nesting(raw.get().as_bytes()) > MAX_ARGUMENT_NESTING => {
                let message = format!("arguments are nested deeper than {MAX_ARGUMENT_NESTING} levels");
                self.refuse("VLL-01", path, message);
            }
            Ok(_) => {}
        }
    }
}

/// What all of the above is made of.
impl Checker<'_> {
    fn name(&mut self, name: &Value, path: &str) {
        let place = bracketed(path);
        let reason = match name.as_str() {
            None => format!("Missing required parameter: '{place}'."),
            Some("") => format!("Invalid '{place}': empty string. Expected a string with minimum length 1."),
            Some(name)
                if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-') =>
            {
                format!(
                    "Invalid '{place}': string does not match pattern. Expected a string that matches the \
                     pattern '^[a-zA-Z0-9_-]+$'."
                )
            }
            Some(name) if name.len() > MAX_NAME => format!(
                "Invalid '{place}': string too long. Expected a string with maximum length {MAX_NAME}, but \
                 got a string with length {} instead.",
                name.len()
            ),
            Some(_) => return,
        };
        self.refuse("OAC-06", path, reason);
    }

    fn text(&mut self, text: &str, path: &str) {
        // Bytes are never fewer than characters, and known without counting.
        if text.len() > MAX_TEXT && text.chars().count() > MAX_TEXT {
            let message = format!(
                "Invalid '{}': string too long. Expected a string with maximum length {MAX_TEXT}, but got a \
                 string with length {} instead.",
                bracketed(path),
                text.chars().count()
            );
            self.refuse("OAC-12", path, message);
        }
    }

    fn array_length(&mut self, rule: &'static str, path: &str, length: usize, max: usize) {
        let place = bracketed(path);
        if length == 0 {
            let message = format!(
                "Invalid '{place}': empty array. Expected an array with minimum length 1, but got an empty \
                 array instead."
            );
            self.refuse(rule, path, message);
        } else if length > max {
            let message = format!(
                "Invalid '{place}': array too long. Expected an array with maximum length {max}, but got an \
                 array with length {length} instead."
            );
            self.refuse(rule, path, message);
        }
    }

    fn missing(&mut self, path: &str) {
        self.refuse("OAC-schema", path, format!("Missing required parameter: '{}'.", bracketed(path)));
    }

    fn invalid_type(&mut self, path: &str, expected: &str, got: &Value) {
        let (place, got) = (bracketed(path), kind_of(got));
        let message = format!("Invalid type for '{place}': expected {expected}, but got {got} instead.");
        self.refuse("OAC-schema", path, message);
    }

    fn invalid_value(&mut self, path: &str, got: &Value, supported: &str) {
        let (place, got) = (bracketed(path), got.as_str().unwrap_or(kind_of(got)));
        let message = format!("Invalid value for '{place}': '{got}'. Supported values are: {supported}.");
        self.refuse("OAC-schema", path, message);
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

fn role_name(role: Role) -> &'static str {
    match role {
        Role::Instructions => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    }
}

#[cfg(test)]
mod tests;
