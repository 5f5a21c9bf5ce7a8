//! The strict checker of Ollama `/api/chat` request bodies, for tests and for `check --for`. Judges what
//! Ollama's own types refuse, and two things that Ollama lets through but its chat templates spoil: foreign
//! roles (`OLL-03`) and calls that are not answered by the messages directly after them (`OLL-04`).
//! Shares nothing with the codec of this dialect and never patches a body. As in Go, a `null` in an optional
//! field is the same as none.

mod settings;

use std::collections::HashMap;

use crate::prelude::*;

const MAX_ARGUMENT_NESTING: usize = 128;

pub(crate) struct Ollama;

dialect!(Ollama, (), settings::SETTINGS, Provider { schema: "OLL-schema", ..words::GO });

/// The request and the rules between its messages.
impl<'a> Check<'a, Ollama> {
    fn request(&mut self, body: At<'a>) {
        for fault in self.setting_faults(&body).into_iter().filter(|fault| fault.what != FaultKind::Unknown) {
            self.fault("OLL-schema", fault.path, &fault.what);
        }
        self.tools(&body.get("tools"));
        let messages = body.get("messages");
        if messages.value.is_none() || messages.as_array().is_some_and(Vec::is_empty) {
            return self.schema(&messages, "at least one message is required");
        } else if !messages.is_array() {
            return self.unfit("OLL-schema", &messages, "[]api.Message");
        }
        let messages = messages.items();
        // The messages that answer the calls of the last assistant message.
        let mut answers = 0..0;
        for (i, message) in messages.iter().enumerate() {
            if message.is_object() {
                self.message(message);
            } else {
                self.unfit("OLL-schema", message, "api.Message");
            }
            if message["role"] == "tool" && !answers.contains(&i) {
                let reason = "a tool message answers no call of an assistant message before it";
                self.refuse_at("OLL-04", message, reason);
            } else if message["role"] == "assistant" {
                let following = messages[i + 1..].iter().take_while(|next| next["role"] == "tool").count();
                answers = i + 1..i + 1 + following;
                self.calls_are_answered_next(message, &messages[answers.clone()]);
            }
        }
    }

    fn calls_are_answered_next(&mut self, message: &At<'a>, results: &[At<'a>]) {
        let calls = calls_of(message);
        if calls.len() != results.len() {
            let (calls, results) = (calls.len(), results.len());
            let reason = format!("{calls} tool calls, but {results} tool messages directly after them");
            self.refuse_at("OLL-04", message, &reason);
        }
        self.are_among(message, results, "tool_name", calls.iter().map(|call| &call["function"]["name"]));
        if calls.iter().any(|call| call["id"].is_string()) {
            self.are_among(message, results, "tool_call_id", calls.iter().map(|call| &call["id"]));
        }
    }

    /// Judges a field of results that have it: at most one of them may name each call.
    fn are_among<'v>(
        &mut self,
        message: &At<'a>,
        results: &[At<'a>],
        field: &str,
        called: impl Iterator<Item = &'v Value>,
    ) {
        let mut open: HashMap<&str, usize> = HashMap::new();
        for name in called.filter_map(Value::as_str) {
            *open.entry(name).or_default() += 1;
        }
        for named in results.iter().map(|result| result.get(field)) {
            let Some(name) = named.text() else { continue };
            match open.get_mut(name) {
                Some(count) if *count > 0 => *count -= 1,
                _ => {
                    let reason = format!("'{name}' answers no call of {}", message.path);
                    self.refuse_at("OLL-04", &named, &reason);
                }
            }
        }
    }

    fn tools(&mut self, tools: &At<'a>) {
        self.optional(tools, Value::is_array, "api.Tools");
        for function in tools.items().iter().map(|tool| tool.get("function")) {
            if !function.is_object() {
                self.unfit("OLL-schema", &function, "api.ToolFunction");
                continue;
            }
            self.name(&function.get("name"));
            self.optional(&function.get("parameters"), Value::is_object, "api.ToolFunctionParameters");
        }
    }
}

/// One message and its calls.
impl Check<'_, Ollama> {
    fn message(&mut self, message: &At<'_>) {
        let role = message["role"].as_str().unwrap_or_default();
        if Role::named(role).is_none() {
            let reason = format!("'{role}' is none of 'system', 'user', 'assistant' and 'tool'");
            self.refuse_at("OLL-03", &message.get("role"), &reason);
        }
        let content = message.get("content");
        let holds_something =
            |field: &&str| is_filled(&message[*field]) || !list(&message[*field]).is_empty();
        let stands_in = ["tool_calls", "thinking", "images"].iter().any(holds_something);
        let fits = content.is_string() || (content.is_null() && stands_in);
        if !fits {
            self.unfit("OLL-02", &content, "string");
        }
        let images = message.get("images");
        self.optional(&images, Value::is_array, "[]api.ImageData");
        images.items().iter().for_each(|image| self.image(image));
        for (field, of_role) in [("thinking", "assistant"), ("tool_name", "tool"), ("tool_call_id", "tool")] {
            let field = message.get(field);
            self.optional(&field, Value::is_string, "string");
            if field.is_string() && role != of_role {
                self.only_for(&field, of_role);
            }
        }
        let calls = message.get("tool_calls");
        self.optional(&calls, Value::is_array, "[]api.ToolCall");
        if calls.is_array() && role != "assistant" {
            return self.only_for(&calls, "assistant");
        }
        calls.items().iter().for_each(|call| self.call(call));
    }

    fn image(&mut self, image: &At<'_>) {
        match image.text() {
            Some(data) if media::is_base64(data) => {
                if !media::type_of(data).is_some_and(|kind| kind.starts_with("image/")) {
                    self.refuse_at("SAN-09", image, "Failed to load image or audio file");
                }
            }
            Some(_) => self.schema(image, "illegal base64 data at input byte 0"),
            None => self.unfit("OLL-schema", image, "api.ImageData"),
        }
    }

    fn call(&mut self, call: &At<'_>) {
        self.optional(&call.get("id"), Value::is_string, "string");
        let function = call.get("function");
        if !function.is_object() {
            return self.unfit("OLL-schema", &function, "api.ToolCallFunction");
        }
        self.name(&function.get("name"));
        self.optional(&function.get("index"), Value::is_i64, "int");
        self.arguments(&function.get("arguments"));
    }

    fn arguments(&mut self, arguments: &At<'_>) {
        if !arguments.is_object() {
            self.unfit("OLL-01", arguments, "api.ToolCallFunctionArguments");
        } else if nests_deeper(arguments, MAX_ARGUMENT_NESTING) {
            let reason = format!("arguments are nested deeper than {MAX_ARGUMENT_NESTING} levels");
            self.refuse_at("OLL-01", arguments, &reason);
        }
    }
}

/// Checks that several of the above share.
impl Check<'_, Ollama> {
    fn name(&mut self, name: &At<'_>) {
        match name.text() {
            Some("") => self.schema(name, "a function needs a name"),
            Some(_) => {}
            None => self.unfit("OLL-schema", name, "string"),
        }
    }

    fn only_for(&mut self, at: &At<'_>, role: &str) {
        self.schema(at, &format!("only messages with role '{role}' have this field"));
    }

    /// Refuses a field that is set to a value of the wrong type.
    fn optional(&mut self, at: &At<'_>, fits: fn(&Value) -> bool, expected: &str) {
        if at.is_given() && !fits(at) {
            self.unfit("OLL-schema", at, expected);
        }
    }

    /// Refuses a value whose type differs from Go's, in words without the indexes.
    fn unfit(&mut self, rule: &'static str, at: &At<'_>, expected: &str) {
        let fields = at.path.split('.').filter(|segment| segment.parse::<usize>().is_err());
        let place = fields.collect::<Vec<_>>().join(".");
        let message = format!(
            "json: cannot unmarshal {} into Go struct field ChatRequest.{place} of type {expected}",
            words::go_kind_of(at)
        );
        self.refuse(rule, at, message);
    }
}

#[cfg(test)]
mod tests;
