//! The strict checker of Ollama `/api/chat` request bodies, for tests and for `check --for`. Judges what
//! Ollama's own types refuse, and two things that Ollama lets through but its chat templates spoil: foreign
//! roles (`OLL-03`) and calls that are not answered by the messages directly after them (`OLL-04`).
//! Shares nothing with the codec of this dialect and never patches a body. As in Go, a `null` in an optional
//! field is the same as none.

mod settings;

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::{
    Scope, Verdict, media, shape,
    violation::{Violation, read_body},
    words,
};

const MAX_ARGUMENT_NESTING: usize = 128;

/// Tells every reason why a request body should not be sent to Ollama; none means it is accepted.
///
/// The order is that of the document: first the settings of the request, then message by message.
pub(crate) fn check(body: &[u8], scope: Scope) -> Verdict {
    let request = read_body(body, "OLL-schema");
    let mut checker = Checker { scope, ..Checker::default() };
    match &request {
        Ok(Value::Object(fields)) => checker.request(fields),
        Ok(other) => {
            let message =
                format!("json: cannot unmarshal {} into Go value of type api.ChatRequest", kind_of(other));
            checker.refuse("OLL-schema", "body", message);
        }
        Err(violation) => checker.verdict.violations.push(violation.clone()),
    }
    checker.verdict
}

#[derive(Default)]
struct Checker {
    scope: Scope,
    verdict: Verdict,
}

/// The request and the rules between its messages.
impl Checker {
    fn request(&mut self, fields: &Map<String, Value>) {
        self.settings(fields);
        self.tools(fields.get("tools"));
        let messages = match fields.get("messages") {
            Some(Value::Array(messages)) if !messages.is_empty() => messages,
            Some(Value::Array(_)) | None => {
                return self.refuse("OLL-schema", "messages", "messages: at least one message is required");
            }
            Some(other) => return self.mistyped("OLL-schema", "messages", other, "[]api.Message"),
        };
        // Messages that an earlier one has been found to be answered by.
        let mut answers = 0..0;
        for (i, message) in messages.iter().enumerate() {
            let path = format!("messages.{i}");
            match message {
                Value::Object(fields) => self.message(fields, &path),
                other => self.mistyped("OLL-schema", &path, other, "api.Message"),
            }
            if message["role"] == "tool" && !answers.contains(&i) {
                let message =
                    format!("{path}: a tool message answers no call of an assistant message before it");
                self.refuse("OLL-04", path, message);
            } else if message["role"] == "assistant" {
                let following = messages[i + 1..].iter().take_while(|next| next["role"] == "tool").count();
                answers = i + 1..i + 1 + following;
                self.calls_are_answered_next(i, calls_of(message), &messages[answers.clone()]);
            }
        }
    }

    fn settings(&mut self, fields: &Map<String, Value>) {
        for fault in shape::faults(fields, settings::SETTINGS, self.scope, str::to_owned) {
            if fault.what != shape::What::Unknown {
                self.refuse("OLL-schema", fault.path.clone(), words::go(&fault));
            }
        }
    }

    fn calls_are_answered_next(&mut self, i: usize, calls: &[Value], results: &[Value]) {
        if calls.len() != results.len() {
            let (calls, results) = (calls.len(), results.len());
            let message =
                format!("messages.{i}: {calls} tool calls, but {results} tool messages directly after them");
            self.refuse("OLL-04", format!("messages.{i}"), message);
        }
        self.are_among(i, results, "tool_name", calls.iter().map(|call| &call["function"]["name"]));
        if calls.iter().any(|call| call["id"].is_string()) {
            self.are_among(i, results, "tool_call_id", calls.iter().map(|call| &call["id"]));
        }
    }

    /// Judges a field of the results, where they have it: each call is named by one of them at most.
    fn are_among<'a>(
        &mut self,
        i: usize,
        results: &'a [Value],
        field: &str,
        called: impl Iterator<Item = &'a Value>,
    ) {
        let mut open: HashMap<&str, usize> = HashMap::new();
        for name in called.filter_map(Value::as_str) {
            *open.entry(name).or_default() += 1;
        }
        for (k, result) in results.iter().enumerate() {
            let Some(name) = result[field].as_str() else { continue };
            match open.get_mut(name) {
                Some(count) if *count > 0 => *count -= 1,
                _ => {
                    let path = format!("messages.{}.{field}", i + 1 + k);
                    let message = format!("{path}: '{name}' answers no call of messages.{i}");
                    self.refuse("OLL-04", path, message);
                }
            }
        }
    }

    fn tools(&mut self, tools: Option<&Value>) {
        let tools = match tools {
            None | Some(Value::Null) => return,
            Some(Value::Array(tools)) => tools,
            Some(other) => return self.mistyped("OLL-schema", "tools", other, "api.Tools"),
        };
        for (k, tool) in tools.iter().enumerate() {
            let path = format!("tools.{k}.function");
            let function = &tool["function"];
            if !function.is_object() {
                self.mistyped("OLL-schema", &path, function, "api.ToolFunction");
                continue;
            }
            self.name(&function["name"], &format!("{path}.name"));
            let parameters = &function["parameters"];
            if !parameters.is_object() && !parameters.is_null() {
                let path = format!("{path}.parameters");
                self.mistyped("OLL-schema", &path, parameters, "api.ToolFunctionParameters");
            }
        }
    }
}

/// One message and its calls.
impl Checker {
    fn message(&mut self, fields: &Map<String, Value>, path: &str) {
        let role = fields.get("role").and_then(Value::as_str).unwrap_or_default();
        if !["system", "user", "assistant", "tool"].contains(&role) {
            let message =
                format!("{path}.role: '{role}' is none of 'system', 'user', 'assistant' and 'tool'");
            self.refuse("OLL-03", format!("{path}.role"), message);
        }
        self.content(fields, path);
        self.images(fields.get("images"), &format!("{path}.images"));
        for (field, of_role) in [("thinking", "assistant"), ("tool_name", "tool"), ("tool_call_id", "tool")] {
            let path = format!("{path}.{field}");
            match fields.get(field) {
                None | Some(Value::Null) => {}
                Some(Value::String(_)) if role == of_role => {}
                Some(Value::String(_)) => self.only_for(&path, of_role),
                Some(other) => self.mistyped("OLL-schema", &path, other, "string"),
            }
        }
        let path = format!("{path}.tool_calls");
        match fields.get("tool_calls") {
            None | Some(Value::Null) => {}
            Some(Value::Array(_)) if role != "assistant" => self.only_for(&path, "assistant"),
            Some(Value::Array(calls)) => self.calls(calls, &path),
            Some(other) => self.mistyped("OLL-schema", &path, other, "[]api.ToolCall"),
        }
    }

    fn content(&mut self, fields: &Map<String, Value>, path: &str) {
        let path = format!("{path}.content");
        let content = fields.get("content").unwrap_or(&Value::Null);
        let is_filled = |value: &Value| match value {
            Value::String(text) => !text.is_empty(),
            Value::Array(items) => !items.is_empty(),
            _ => false,
        };
        let stands_in = |field: &&str| fields.get(*field).is_some_and(is_filled);
        match content {
            Value::String(_) => {}
            Value::Null if ["tool_calls", "thinking", "images"].iter().any(stands_in) => {}
            other => self.mistyped("OLL-02", &path, other, "string"),
        }
    }

    fn images(&mut self, images: Option<&Value>, path: &str) {
        let images = match images {
            None | Some(Value::Null) => return,
            Some(Value::Array(images)) => images,
            Some(other) => return self.mistyped("OLL-schema", path, other, "[]api.ImageData"),
        };
        for (k, image) in images.iter().enumerate() {
            let path = format!("{path}.{k}");
            match image.as_str() {
                Some(data) if media::is_base64(data) => {
                    if !media::type_of(data).is_some_and(|kind| kind.starts_with("image/")) {
                        let message = format!("{path}: Failed to load image or audio file");
                        self.refuse("SAN-09", &*path, message);
                    }
                }
                Some(_) => {
                    self.refuse("OLL-schema", &*path, format!("{path}: illegal base64 data at input byte 0"));
                }
                None => self.mistyped("OLL-schema", &path, image, "api.ImageData"),
            }
        }
    }

    fn calls(&mut self, calls: &[Value], path: &str) {
        for (k, call) in calls.iter().enumerate() {
            let path = format!("{path}.{k}");
            if !call["id"].is_null() && !call["id"].is_string() {
                self.mistyped("OLL-schema", &format!("{path}.id"), &call["id"], "string");
            }
            let function = &call["function"];
            let path = format!("{path}.function");
            if !function.is_object() {
                self.mistyped("OLL-schema", &path, function, "api.ToolCallFunction");
                continue;
            }
            self.name(&function["name"], &format!("{path}.name"));
            if !function["index"].is_null() && !function["index"].is_i64() {
                self.mistyped("OLL-schema", &format!("{path}.index"), &function["index"], "int");
            }
            self.arguments(&function["arguments"], &format!("{path}.arguments"));
        }
    }

    fn arguments(&mut self, arguments: &Value, path: &str) {
        if !arguments.is_object() {
            self.mistyped("OLL-01", path, arguments, "api.ToolCallFunctionArguments");
        } else if nesting_of(arguments) > MAX_ARGUMENT_NESTING {
            let message = format!("{path}: arguments are nested deeper than {MAX_ARGUMENT_NESTING} levels");
            self.refuse("OLL-01", path, message);
        }
    }
}

/// What all of the above is made of.
impl Checker {
    fn name(&mut self, name: &Value, path: &str) {
        match name.as_str() {
            Some("") => self.refuse("OLL-schema", path, format!("{path}: a function needs a name")),
            Some(_) => {}
            None => self.mistyped("OLL-schema", path, name, "string"),
        }
    }

    fn only_for(&mut self, path: &str, role: &str) {
        self.refuse("OLL-schema", path, format!("{path}: only messages with role '{role}' have this field"));
    }

    /// In Go's words, which leave out the indexes.
    fn mistyped(&mut self, rule: &'static str, path: &str, got: &Value, expected: &str) {
        let fields = path.split('.').filter(|segment| segment.parse::<usize>().is_err());
        let place = fields.collect::<Vec<_>>().join(".");
        let message = format!(
            "json: cannot unmarshal {} into Go struct field ChatRequest.{place} of type {expected}",
            kind_of(got)
        );
        self.refuse(rule, path, message);
    }

    fn refuse(&mut self, rule: &'static str, path: impl Into<String>, message: impl Into<String>) {
        self.verdict.violations.push(Violation::new(rule, path, message));
    }
}

fn calls_of(message: &Value) -> &[Value] {
    message["tool_calls"].as_array().map_or(&[], Vec::as_slice)
}

/// The depth of the deepest array or object; `{}` has depth 1.
fn nesting_of(value: &Value) -> usize {
    let mut deepest = 0;
    let mut open = vec![(value, 1)];
    while let Some((value, depth)) = open.pop() {
        match value {
            Value::Array(items) => open.extend(items.iter().map(|item| (item, depth + 1))),
            Value::Object(fields) => open.extend(fields.values().map(|field| (field, depth + 1))),
            _ => continue,
        }
        deepest = deepest.max(depth);
    }
    deepest
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests;
