//! The strict checker of OpenAI Chat Completions request bodies: an oracle that answers as the strictest
//! known server would, for tests and for `check --for`. Judges the `OAC-…` rules and `VLL-01`.
//! Shares nothing with the codec of this dialect and never patches a body; what the rulebook leaves unsure
//! is refused. Unknown fields of a message are a note, since compatible servers add their own.

mod settings;

use std::collections::{HashMap, HashSet};

use serde_json::value::RawValue;

use crate::{body::nesting, openai::*, prelude::*};

const MAX_CALL_ID: usize = 40;
const MAX_CALLS: usize = 128;
const MAX_ARGUMENT_NESTING: usize = 128;

/// OpenAI's Chat Completions API, and the servers that are compatible with it.
pub(crate) struct OpenAiChat;

impl OpenAi for OpenAiChat {}

#[derive(Default)]
pub(crate) struct State<'a> {
    /// Where each call id was first used.
    call_ids: HashMap<&'a str, usize>,
    /// The unanswered calls of the assistant message whose results are being read.
    pending: HashSet<&'a str>,
    /// Where each call was answered.
    answered: HashMap<&'a str, usize>,
}

dialect!(OpenAiChat, State<'a>, settings::SETTINGS, Provider { schema: "OAC-schema", ..words::OPENAI });

/// The role of a message. The rules for `developer` are those for `system`.
fn role_of(message: &Value) -> Option<Role> {
    match message["role"].as_str()? {
        "developer" => Some(Role::System),
        role => Role::named(role),
    }
}

/// The request and the rules between its messages.
impl<'a> Check<'a, OpenAiChat> {
    fn request(&mut self, fields: &'a Fields) {
        self.settings(fields);
        for legacy in ["functions", "function_call"] {
            if fields.contains_key(legacy) {
                self.refuse("OAC-13", legacy, format!("'{legacy}' is deprecated in favor of 'tools'"));
            }
        }
        let names = self.tools(fields.get("tools"));
        self.tool_choice(fields.get("tool_choice"), &names);
        let messages = self.list(fields.get("messages"), "an array of objects", "messages");
        let Some(messages) = messages else { return };
        self.array_length("OAC-11", "messages", messages.len(), usize::MAX);
        for (i, message) in messages.iter().enumerate() {
            match message {
                Value::Object(fields) => self.message(i, message, fields),
                other => self.mistyped(&format!("messages.{i}"), "an object", other),
            }
            self.calls_are_answered_next(i, messages);
            self.result_answers_a_call(i, message);
        }
    }

    fn settings(&mut self, fields: &Fields) {
        for fault in self.setting_faults(fields) {
            let elsewhere = settings::ELSEWHERE.split(' ').any(|name| name == fault.path);
            let message = (words::OPENAI.words)(&fault.path, &fault.what);
            if fault.what == What::Unknown && elsewhere {
                self.note("OAC-schema", fault.path, message);
            } else {
                self.refuse("OAC-schema", fault.path, message);
            }
        }
        let given = |name: &str| fields.get(name).is_some_and(|value| !value.is_null());
        let on = |name: &str| fields.get(name) == Some(&Value::Bool(true));
        let combinations = [
            (
                given("stream_options") && !on("stream"),
                "stream_options",
                "The 'stream_options' parameter is only allowed when 'stream' is enabled.",
            ),
            (
                given("parallel_tool_calls") && !given("tools"),
                "parallel_tool_calls",
                "Invalid value for 'parallel_tool_calls': 'parallel_tool_calls' is only allowed when 'tools' are \
                 specified.",
            ),
            (
                given("max_tokens") && given("max_completion_tokens"),
                "max_tokens",
                "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.",
            ),
            (
                given("top_logprobs") && !on("logprobs"),
                "top_logprobs",
                "The 'top_logprobs' parameter is only allowed when 'logprobs' is enabled.",
            ),
        ];
        for (_, path, message) in combinations.into_iter().filter(|(refused, ..)| *refused) {
            self.refuse("OAC-schema", path, message);
        }
        let format = fields.get("response_format").unwrap_or(&Value::Null);
        match format["type"].as_str() {
            Some("json_schema") => {
                self.name(&format["json_schema"]["name"], "response_format.json_schema.name");
            }
            Some("text" | "json_object") => {}
            _ if format.is_null() => {}
            _ => {
                let supported = "'text', 'json_object' and 'json_schema'";
                self.invalid_value("response_format.type", &format["type"], supported);
            }
        }
    }

    fn calls_are_answered_next(&mut self, i: usize, messages: &'a [Value]) {
        let calls = match role_of(&messages[i]) {
            Some(Role::Tool) => return,
            Some(Role::Assistant) => calls_of(&messages[i]),
            _ => &[],
        };
        let ids: Vec<&str> = calls.iter().filter_map(|call| call["id"].as_str()).collect();
        self.state.pending = ids.iter().copied().collect();
        let answers = messages[i + 1..].iter().take_while(|message| role_of(message) == Some(Role::Tool));
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
        if role_of(message) != Some(Role::Tool) {
            return;
        }
        let Some(fields) = message.as_object() else { return };
        let Some(id) = self.string(fields, "tool_call_id", &format!("messages.{i}")) else { return };
        if self.state.pending.remove(id) {
            self.state.answered.insert(id, i);
        } else if let Some(first) = self.state.answered.get(id) {
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
impl<'a> Check<'a, OpenAiChat> {
    /// Returns the declared names.
    fn tools(&mut self, tools: Option<&'a Value>) -> HashSet<&'a str> {
        let mut names = HashSet::new();
        let Some(tools) = tools else { return names };
        let tools = self.list(Some(tools), "an array of objects", "tools");
        let Some(tools) = tools else { return names };
        self.array_length("OAC-11", "tools", tools.len(), MAX_TOOLS);
        for (k, tool) in tools.iter().enumerate() {
            let path = format!("tools.{k}");
            let Some(kind @ ("function" | "custom")) = tool["type"].as_str() else {
                self.invalid_value(&format!("{path}.type"), &tool["type"], "'function' and 'custom'");
                continue;
            };
            let path = format!("{path}.{kind}");
            if !tool[kind].is_object() {
                self.mistyped(&path, "an object", &tool[kind]);
                continue;
            }
            self.optional_object(&tool[kind]["parameters"], &format!("{path}.parameters"));
            self.name(&tool[kind]["name"], &format!("{path}.name"));
            if let Some(name) = tool[kind]["name"].as_str()
                && !names.insert(name)
            {
                self.repeated_tool(name, &path);
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
            self.undeclared_tool(name);
        }
    }
}

/// One message, its parts and its calls.
impl<'a> Check<'a, OpenAiChat> {
    fn message(&mut self, i: usize, message: &'a Value, fields: &'a Fields) {
        let path = format!("messages.{i}");
        if fields.contains_key("function_call") {
            let message = (words::OPENAI.words)(
                &bracketed(&path),
                &What::Other("deprecated in favor of 'tool_calls'."),
            );
            self.refuse("OAC-13", format!("{path}.function_call"), message);
        }
        let is_known = |field: &str| settings::MESSAGE.split(' ').any(|known| known == field);
        for field in fields.keys().filter(|field| !is_known(field)) {
            let path = format!("{path}.{field}");
            self.note("OAC-schema", &*path, (words::OPENAI.words)(&bracketed(&path), &What::Unknown));
        }
        let Some(role) = role_of(message) else {
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
                self.mistyped(&format!("{path}.tool_calls"), "an array of objects", other);
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
            other => self.mistyped(&path, "one of a string or array of objects", other),
        }
    }

    /// Judges the fields that an assistant message may have instead of content.
    fn stand_ins(&mut self, message: &Value, path: &str) {
        let fits = |value: &Value| value.is_string() || value.is_null();
        self.check_type(message.get("refusal"), fits, "a string", &format!("{path}.refusal"));
        self.optional_object(&message["audio"], &format!("{path}.audio"));
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
                let (place, role) = (bracketed(message_path), role.name());
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
                    Role::System | Role::Tool => "'text'",
                };
                return self.invalid_value(&format!("{path}.type"), &part["type"], supported);
            }
        };
        if !whole {
            self.missing(&format!("{path}.{field}"));
        }
    }

    /// Judges the source of a file's bytes; that there is one is judged elsewhere.
    fn file(&mut self, file: &Value, path: &str) {
        let given = |field: &str| file[field].as_str().filter(|text| !text.is_empty());
        if given("file_id").is_some() && given("file_data").is_some() {
            let message = "Mutually exclusive parameters: 'file_id' and 'file_data'.";
            return self.refuse("OAC-schema", path, message);
        }
        if given("file_id").is_some_and(|id| id.trim().is_empty()) {
            return self.missing(&format!("{path}.file_id"));
        }
        self.file_data(file, path);
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
                        other => self.mistyped(&format!("{path}.custom.input"), "a string", other),
                    }
                }
                Some(kind @ ("function" | "custom")) => {
                    self.mistyped(&format!("{path}.{kind}"), "an object", &call[kind]);
                }
                _ => self.invalid_value(&format!("{path}.type"), &call["type"], "'function' and 'custom'"),
            }
        }
    }

    fn call_id(&mut self, i: usize, id: &'a Value, path: &str) {
        let Value::String(id) = id else {
            return self.fault("OAC-04", path, &What::Type { expected: "a string", found: id });
        };
        self.id_length("OAC-04", id, MAX_CALL_ID, path);
        if let Some(first) = self.state.call_ids.get(id.as_str()) {
            let message = format!(
                "Invalid parameter: Duplicate value for 'tool_calls.id' of '{id}', in messages[{first}] and \
                 messages[{i}]."
            );
            self.refuse("OAC-03", path, message);
        } else {
            self.state.call_ids.insert(id, i);
        }
    }

    fn arguments(&mut self, arguments: &'a Value, path: &str) {
        let Value::String(arguments) = arguments else {
            return self.fault("OAC-08", path, &What::Type { expected: "a string", found: arguments });
        };
        self.text(arguments, path);
        // A raw value only has to be grammatical, so numbers of any size pass, as they do in Python.
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

/// Checks that several of the above share.
impl Check<'_, OpenAiChat> {
    fn name(&mut self, name: &Value, path: &str) {
        match name.as_str() {
            Some(name) => self.tool_name("OAC-06", name, path),
            None => self.fault("OAC-06", path, &What::Missing),
        }
    }

    fn invalid_value(&mut self, path: &str, got: &Value, supported: &str) {
        let (place, got) = (bracketed(path), got.as_str().unwrap_or(kind_of(got)));
        let message = format!("Invalid value for '{place}': '{got}'. Supported values are: {supported}.");
        self.refuse("OAC-schema", path, message);
    }
}

#[cfg(test)]
mod tests;
