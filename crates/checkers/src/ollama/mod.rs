//! The strict checker of Ollama `/api/chat` request bodies, for tests and for `check --for`. Judges what
//! Ollama's own types refuse, and two things that Ollama lets through but its chat templates spoil: foreign
//! roles (`OLL-03`) and calls that are not answered by the messages directly after them (`OLL-04`).
//! Shares nothing with the codec of this dialect and never patches a body. As in Go, a `null` in an optional
//! field is the same as none.

mod settings;

use std::collections::HashMap;

use crate::prelude::*;

const MAX_ARGUMENT_NESTING: usize = 128;

/// Ollama's `/api/chat`.
pub(crate) struct Ollama;

dialect!(Ollama, (), settings::SETTINGS, Provider { schema: "OLL-schema", ..words::GO });

/// The request and the rules between its messages.
impl<'a> Check<'a, Ollama> {
    fn request(&mut self, fields: &'a Fields) {
        for fault in self.setting_faults(fields).into_iter().filter(|fault| fault.what != What::Unknown) {
            self.fault("OLL-schema", &fault.path, &fault.what);
        }
        self.tools(fields.get("tools"));
        let messages = match fields.get("messages") {
            Some(Value::Array(messages)) if !messages.is_empty() => messages,
            Some(Value::Array(_)) | None => {
                return self.schema("messages", "at least one message is required");
            }
            Some(other) => return self.unfit("OLL-schema", "messages", other, "[]api.Message"),
        };
        // The messages that answer the calls of the last assistant message.
        let mut answers = 0..0;
        for (i, message) in messages.iter().enumerate() {
            let path = format!("messages.{i}");
            match message {
                Value::Object(fields) => self.message(fields, &path),
                other => self.unfit("OLL-schema", &path, other, "api.Message"),
            }
            if message["role"] == "tool" && !answers.contains(&i) {
                let reason = "a tool message answers no call of an assistant message before it";
                self.refuse_at("OLL-04", &path, reason);
            } else if message["role"] == "assistant" {
                let following = messages[i + 1..].iter().take_while(|next| next["role"] == "tool").count();
                answers = i + 1..i + 1 + following;
                self.calls_are_answered_next(i, calls_of(message), &messages[answers.clone()]);
            }
        }
    }

    fn calls_are_answered_next(&mut self, i: usize, calls: &'a [Value], results: &'a [Value]) {
        if calls.len() != results.len() {
            let (calls, results) = (calls.len(), results.len());
            let reason = format!("{calls} tool calls, but {results} tool messages directly after them");
            self.refuse_at("OLL-04", &format!("messages.{i}"), &reason);
        }
        self.are_among(i, results, "tool_name", calls.iter().map(|call| &call["function"]["name"]));
        if calls.iter().any(|call| call["id"].is_string()) {
            self.are_among(i, results, "tool_call_id", calls.iter().map(|call| &call["id"]));
        }
    }

    /// Judges a field of the results, where they have it: at most one of them names each call.
    fn are_among(
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
                    let reason = format!("'{name}' answers no call of messages.{i}");
                    self.refuse_at("OLL-04", &path, &reason);
                }
            }
        }
    }

    fn tools(&mut self, tools: Option<&Value>) {
        let tools = match tools {
            None | Some(Value::Null) => return,
            Some(Value::Array(tools)) => tools,
            Some(other) => return self.unfit("OLL-schema", "tools", other, "api.Tools"),
        };
        for (k, tool) in tools.iter().enumerate() {
            let path = format!("tools.{k}.function");
            let function = &tool["function"];
            if !function.is_object() {
                self.unfit("OLL-schema", &path, function, "api.ToolFunction");
                continue;
            }
            self.name(&function["name"], &format!("{path}.name"));
            let parameters = &function["parameters"];
            if !parameters.is_object() && !parameters.is_null() {
                let path = format!("{path}.parameters");
                self.unfit("OLL-schema", &path, parameters, "api.ToolFunctionParameters");
            }
        }
    }
}

/// One message and its calls.
impl Check<'_, Ollama> {
    fn message(&mut self, fields: &Fields, path: &str) {
        let role = fields.get("role").and_then(Value::as_str).unwrap_or_default();
        if !["system", "user", "assistant", "tool"].contains(&role) {
            let reason = format!("'{role}' is none of 'system', 'user', 'assistant' and 'tool'");
            self.refuse_at("OLL-03", &format!("{path}.role"), &reason);
        }
        self.content(fields, path);
        self.images(fields.get("images"), &format!("{path}.images"));
        for (field, of_role) in [("thinking", "assistant"), ("tool_name", "tool"), ("tool_call_id", "tool")] {
            let path = format!("{path}.{field}");
            match fields.get(field) {
                None | Some(Value::Null) => {}
                Some(Value::String(_)) if role == of_role => {}
                Some(Value::String(_)) => self.only_for(&path, of_role),
                Some(other) => self.unfit("OLL-schema", &path, other, "string"),
            }
        }
        let path = format!("{path}.tool_calls");
        match fields.get("tool_calls") {
            None | Some(Value::Null) => {}
            Some(Value::Array(_)) if role != "assistant" => self.only_for(&path, "assistant"),
            Some(Value::Array(calls)) => self.calls(calls, &path),
            Some(other) => self.unfit("OLL-schema", &path, other, "[]api.ToolCall"),
        }
    }

    fn content(&mut self, fields: &Fields, path: &str) {
        let path = format!("{path}.content");
        let content = fields.get("content").unwrap_or(&Value::Null);
        let holds_something = |value: &Value| is_filled(value) || !list(value).is_empty();
        let stands_in = |field: &&str| fields.get(*field).is_some_and(holds_something);
        match content {
            Value::String(_) => {}
            Value::Null if ["tool_calls", "thinking", "images"].iter().any(stands_in) => {}
            other => self.unfit("OLL-02", &path, other, "string"),
        }
    }

    fn images(&mut self, images: Option<&Value>, path: &str) {
        let images = match images {
            None | Some(Value::Null) => return,
            Some(Value::Array(images)) => images,
            Some(other) => return self.unfit("OLL-schema", path, other, "[]api.ImageData"),
        };
        for (k, image) in images.iter().enumerate() {
            let path = format!("{path}.{k}");
            match image.as_str() {
                Some(data) if media::is_base64(data) => {
                    if !media::type_of(data).is_some_and(|kind| kind.starts_with("image/")) {
                        self.refuse_at("SAN-09", &path, "Failed to load image or audio file");
                    }
                }
                Some(_) => self.schema(&path, "illegal base64 data at input byte 0"),
                None => self.unfit("OLL-schema", &path, image, "api.ImageData"),
            }
        }
    }

    fn calls(&mut self, calls: &[Value], path: &str) {
        for (k, call) in calls.iter().enumerate() {
            let path = format!("{path}.{k}");
            if !call["id"].is_null() && !call["id"].is_string() {
                self.unfit("OLL-schema", &format!("{path}.id"), &call["id"], "string");
            }
            let function = &call["function"];
            let path = format!("{path}.function");
            if !function.is_object() {
                self.unfit("OLL-schema", &path, function, "api.ToolCallFunction");
                continue;
            }
            self.name(&function["name"], &format!("{path}.name"));
            if !function["index"].is_null() && !function["index"].is_i64() {
                self.unfit("OLL-schema", &format!("{path}.index"), &function["index"], "int");
            }
            self.arguments(&function["arguments"], &format!("{path}.arguments"));
        }
    }

    fn arguments(&mut self, arguments: &Value, path: &str) {
        if !arguments.is_object() {
            self.unfit("OLL-01", path, arguments, "api.ToolCallFunctionArguments");
        } else if nests_deeper(arguments, MAX_ARGUMENT_NESTING) {
            let reason = format!("arguments are nested deeper than {MAX_ARGUMENT_NESTING} levels");
            self.refuse_at("OLL-01", path, &reason);
        }
    }
}

/// Checks that several of the above share.
impl Check<'_, Ollama> {
    fn name(&mut self, name: &Value, path: &str) {
        match name.as_str() {
            Some("") => self.schema(path, "a function needs a name"),
            Some(_) => {}
            None => self.unfit("OLL-schema", path, name, "string"),
        }
    }

    fn only_for(&mut self, path: &str, role: &str) {
        self.schema(path, &format!("only messages with role '{role}' have this field"));
    }

    /// Refuses a value of another type than Go's, in words that leave out the indexes.
    fn unfit(&mut self, rule: &'static str, path: &str, got: &Value, expected: &str) {
        let fields = path.split('.').filter(|segment| segment.parse::<usize>().is_err());
        let place = fields.collect::<Vec<_>>().join(".");
        let message = format!(
            "json: cannot unmarshal {} into Go struct field ChatRequest.{place} of type {expected}",
            words::go_kind_of(got)
        );
        self.refuse(rule, path, message);
    }
}

#[cfg(test)]
mod tests;
