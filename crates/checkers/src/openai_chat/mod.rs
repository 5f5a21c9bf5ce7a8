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
    fn request(&mut self, body: At<'a>) {
        self.settings(&body);
        for legacy in ["functions", "function_call"] {
            if body.get(legacy).value.is_some() {
                self.refuse("OAC-13", legacy, format!("'{legacy}' is deprecated in favor of 'tools'"));
            }
        }
        let names = self.tools(&body.get("tools"));
        self.tool_choice(&body.get("tool_choice"), &names);
        let Some(messages) = self.list(&body.get("messages"), "an array of objects") else { return };
        self.array_length("OAC-11", &body.get("messages"), usize::MAX);
        for (i, message) in messages.iter().enumerate() {
            if self.object(message, "an object") {
                self.message(i, message);
            }
            self.calls_are_answered_next(i, &messages);
            self.result_answers_a_call(i, message);
        }
    }

    fn settings(&mut self, body: &At<'a>) {
        for fault in self.setting_faults(body) {
            let elsewhere = settings::ELSEWHERE.split(' ').any(|name| name == fault.path);
            let message = (words::OPENAI.words)(&fault.path, &fault.what);
            if fault.what == FaultKind::Unknown && elsewhere {
                self.note("OAC-schema", fault.path, message);
            } else {
                self.refuse("OAC-schema", fault.path, message);
            }
        }
        let given = |name: &str| !body[name].is_null();
        let on = |name: &str| body[name] == true;
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
        let format = body.get("response_format");
        match format["type"].as_str() {
            Some("json_schema") => self.name(&format.get("json_schema").get("name")),
            Some("text" | "json_object") => {}
            _ if format.is_null() => {}
            _ => self.invalid_value(&format.get("type"), "'text', 'json_object' and 'json_schema'"),
        }
    }

    fn calls_are_answered_next(&mut self, i: usize, messages: &[At<'a>]) {
        let calls = match role_of(&messages[i]) {
            Some(Role::Tool) => return,
            Some(Role::Assistant) => messages[i].get("tool_calls").items(),
            _ => Vec::new(),
        };
        let ids: Vec<&str> = calls.iter().filter_map(|call| call.get("id").text()).collect();
        self.state.pending = ids.iter().copied().collect();
        let answers = messages[i + 1..].iter().take_while(|message| role_of(message) == Some(Role::Tool));
        let answered: HashSet<&str> =
            answers.filter_map(|message| message.get("tool_call_id").text()).collect();
        let missing: Vec<&str> = ids.into_iter().filter(|id| !answered.contains(id)).collect();
        if !missing.is_empty() {
            let message = format!(
                "An assistant message with 'tool_calls' must be followed by tool messages responding to each \
                 'tool_call_id'. The following tool_call_ids did not have response messages: {}",
                missing.join(", ")
            );
            self.refuse("OAC-01", &messages[i], message);
        }
    }

    fn result_answers_a_call(&mut self, i: usize, message: &At<'a>) {
        if role_of(message) != Some(Role::Tool) {
            return;
        }
        let Some(id) = self.string(&message.get("tool_call_id")) else { return };
        if self.state.pending.remove(id) {
            self.state.answered.insert(id, i);
        } else if let Some(first) = self.state.answered.get(id) {
            let reason = format!(
                "Invalid parameter: Duplicate value for 'tool_call_id' of '{id}', in messages[{first}] and \
                 messages[{i}]."
            );
            self.refuse("OAC-03", message, reason);
        } else {
            let reason = "Invalid parameter: messages with role 'tool' must be a response to a preceeding \
                          message with 'tool_calls'.";
            self.refuse("OAC-02", message, reason);
        }
    }
}

/// The settings beside the messages.
impl<'a> Check<'a, OpenAiChat> {
    /// Returns the declared names.
    fn tools(&mut self, tools: &At<'a>) -> HashSet<&'a str> {
        let mut names = HashSet::new();
        if tools.value.is_none() {
            return names;
        }
        let Some(list) = self.list(tools, "an array of objects") else { return names };
        self.array_length("OAC-11", tools, MAX_TOOLS);
        for tool in list {
            let Some(kind @ ("function" | "custom")) = tool["type"].as_str() else {
                self.invalid_value(&tool.get("type"), "'function' and 'custom'");
                continue;
            };
            let of_kind = tool.get(kind);
            if !self.object(&of_kind, "an object") {
                continue;
            }
            self.optional_object(&of_kind.get("parameters"));
            self.name(&of_kind.get("name"));
            if let Some(name) = of_kind.get("name").text()
                && !names.insert(name)
            {
                self.repeated_tool(name, &of_kind);
            }
        }
        names
    }

    fn tool_choice(&mut self, choice: &At<'a>, names: &HashSet<&str>) {
        let name = match choice.value {
            None => return,
            Some(Value::String(mode)) if mode == "none" || mode == "auto" || mode == "required" => None,
            Some(Value::Object(_)) => match choice["type"].as_str() {
                Some(kind @ ("function" | "custom")) => {
                    Some(choice[kind]["name"].as_str().unwrap_or_default())
                }
                Some("allowed_tools") => None,
                _ => {
                    let supported = "'function', 'custom' and 'allowed_tools'";
                    return self.invalid_value(&choice.get("type"), supported);
                }
            },
            Some(_) => return self.invalid_value(choice, "'none', 'auto' and 'required'"),
        };
        if names.is_empty() {
            let message =
                "Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are specified.";
            self.refuse("OAC-schema", choice, message);
        } else if let Some(name) = name.filter(|name| !names.contains(name)) {
            self.undeclared_tool(name);
        }
    }
}

/// One message, its parts and its calls.
impl<'a> Check<'a, OpenAiChat> {
    fn message(&mut self, i: usize, message: &At<'a>) {
        let place = bracketed(&message.path);
        if message.get("function_call").value.is_some() {
            let what = FaultKind::Other("deprecated in favor of 'tool_calls'.");
            self.refuse("OAC-13", &message.get("function_call"), (words::OPENAI.words)(&place, &what));
        }
        let is_known = |field: &str| settings::MESSAGE.split(' ').any(|known| known == field);
        for field in message.keys().filter(|field| !is_known(field)) {
            let path = message.get(field).path;
            let words = (words::OPENAI.words)(&bracketed(&path), &FaultKind::Unknown);
            self.note("OAC-schema", path, words);
        }
        let Some(role) = role_of(message) else { return self.foreign_role(&message.get("role")) };
        self.content(role, message);
        if role == Role::Assistant {
            // These two fields can replace the content.
            let fits = |value: &Value| value.is_string() || value.is_null();
            self.check_type(&message.get("refusal"), fits, "a string");
            self.optional_object(&message.get("audio"));
        }
        let calls = message.get("tool_calls");
        if calls.value.is_some() && role != Role::Assistant {
            let message = format!(
                "Invalid '{place}': 'tool_calls' is only allowed for messages with role 'assistant'."
            );
            return self.refuse("OAC-schema", &calls, message);
        }
        self.check_type(&calls, Value::is_array, "an array of objects");
        self.array_length("OAC-05", &calls, MAX_CALLS);
        for call in calls.items() {
            self.call(i, &call);
        }
    }

    fn foreign_role(&mut self, role: &At<'_>) {
        if **role == "function" {
            let message = "messages with role 'function' are deprecated in favor of role 'tool'";
            return self.refuse("OAC-13", role, message);
        }
        let name = role.text().unwrap_or(kind_of(role));
        let message = format!(
            "Invalid value: '{name}'. Supported values are: 'system', 'developer', 'assistant', 'user', and \
             'tool'."
        );
        self.refuse("OAC-09", role, message);
    }

    fn content(&mut self, role: Role, message: &At<'a>) {
        let content = message.get("content");
        match &*content {
            Value::Null => {
                let stands_in = !calls_of(message).is_empty()
                    || message["audio"].is_object()
                    || message["refusal"].is_string();
                if role != Role::Assistant || !stands_in {
                    let reason = "Invalid value for 'content': expected a string, got null.";
                    self.refuse("OAC-07", &content, reason);
                }
            }
            Value::String(_) => self.text(&content),
            Value::Array(_) => {
                self.array_length("OAC-schema", &content, usize::MAX);
                content.items().iter().for_each(|part| self.part(role, message, part));
            }
            _ => self.mistyped(&content, "one of a string or array of objects"),
        }
    }

    fn part(&mut self, role: Role, message: &At<'a>, part: &At<'a>) {
        let kind = part["type"].as_str().unwrap_or_default();
        let of_kind = part.get(kind);
        let (field, whole) = match (kind, role) {
            ("text", _) | ("refusal", Role::Assistant) => {
                self.text(&of_kind);
                (of_kind.clone(), of_kind.is_string())
            }
            ("image_url", Role::User) => {
                let url = of_kind.get("url");
                self.image(&url);
                (url.clone(), is_filled(&url))
            }
            ("input_audio", Role::User) => {
                let known = of_kind["format"] == "wav" || of_kind["format"] == "mp3";
                let whole = of_kind["data"].as_str().is_some_and(media::is_base64) && known;
                (of_kind, whole)
            }
            ("file", Role::User) => {
                self.file(&of_kind);
                let whole = is_filled(&of_kind["file_id"]) || is_filled(&of_kind["file_data"]);
                (of_kind, whole)
            }
            ("image_url", _) => {
                let (place, role) = (bracketed(&message.path), role.name());
                let message = format!(
                    "Invalid '{place}'. Image URLs are only allowed for messages with role 'user', but this \
                     message with role '{role}' contains an image URL."
                );
                return self.refuse("OAC-10", part, message);
            }
            _ => {
                let supported = match role {
                    Role::User => "'text', 'image_url', 'input_audio', and 'file'",
                    Role::Assistant => "'text' and 'refusal'",
                    Role::System | Role::Tool => "'text'",
                };
                return self.invalid_value(&part.get("type"), supported);
            }
        };
        if !whole {
            self.missing(&field);
        }
    }

    /// Judges the source of a file's bytes. A missing one is judged elsewhere.
    fn file(&mut self, file: &At<'a>) {
        let given = |field: &str| file[field].as_str().filter(|text| !text.is_empty());
        if given("file_id").is_some() && given("file_data").is_some() {
            let message = "Mutually exclusive parameters: 'file_id' and 'file_data'.";
            return self.refuse("OAC-schema", file, message);
        }
        if given("file_id").is_some_and(|id| id.trim().is_empty()) {
            return self.missing(&file.get("file_id"));
        }
        self.file_data(file);
    }

    fn call(&mut self, i: usize, call: &At<'a>) {
        self.call_id(i, &call.get("id"));
        let Some(kind @ ("function" | "custom")) = call["type"].as_str() else {
            return self.invalid_value(&call.get("type"), "'function' and 'custom'");
        };
        let of_kind = call.get(kind);
        if !self.object(&of_kind, "an object") {
            return;
        }
        self.name(&of_kind.get("name"));
        if kind == "function" {
            return self.arguments(&of_kind.get("arguments"));
        }
        self.needs_type(&of_kind.get("input"), Value::is_string, "a string");
        self.text(&of_kind.get("input"));
    }

    fn call_id(&mut self, i: usize, at: &At<'a>) {
        let Some(id) = at.text() else {
            return self.fault("OAC-04", at, &FaultKind::Type { expected: "a string", found: at });
        };
        self.id_length("OAC-04", id, MAX_CALL_ID, at);
        if let Some(first) = self.state.call_ids.get(id) {
            let message = format!(
                "Invalid parameter: Duplicate value for 'tool_calls.id' of '{id}', in messages[{first}] and \
                 messages[{i}]."
            );
            self.refuse("OAC-03", at, message);
        } else {
            self.state.call_ids.insert(id, i);
        }
    }

    fn arguments(&mut self, at: &At<'a>) {
        let Some(arguments) = at.text() else {
            return self.fault("OAC-08", at, &FaultKind::Type { expected: "a string", found: at });
        };
        self.text(at);
        // A raw value only needs correct grammar, so numbers of any size pass, as in Python.
        match serde_json::from_str::<&RawValue>(arguments) {
            Err(error) => self.refuse("VLL-01", at, format!("arguments are not valid JSON: {error}")),
            Ok(raw) if !raw.get().starts_with('{') => {
                self.refuse("VLL-01", at, "arguments are not a JSON object");
            }
            Ok(raw) if nesting(raw.get().as_bytes()) > MAX_ARGUMENT_NESTING => {
                let message = format!("arguments are nested deeper than {MAX_ARGUMENT_NESTING} levels");
                self.refuse("VLL-01", at, message);
            }
            Ok(_) => {}
        }
    }
}

/// Checks that several of the above share.
impl Check<'_, OpenAiChat> {
    fn name(&mut self, at: &At<'_>) {
        match at.text() {
            Some(name) => self.tool_name("OAC-06", name, at),
            None => self.fault("OAC-06", at, &FaultKind::Missing),
        }
    }

    fn invalid_value(&mut self, at: &At<'_>, supported: &str) {
        let (place, got) = (bracketed(&at.path), at.text().unwrap_or(kind_of(at)));
        let message = format!("Invalid value for '{place}': '{got}'. Supported values are: {supported}.");
        self.refuse("OAC-schema", at, message);
    }
}

#[cfg(test)]
mod tests;
