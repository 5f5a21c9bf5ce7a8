//! The strict checker of Mistral chat request bodies: an oracle that answers as the hosted API would, for
//! tests and for `check --for`. Judges the `MIS-…` rules in their hosted form and the fields of messages,
//! chunks and calls, since Mistral refuses unknown ones. Arguments are not looked into.
//! Shares nothing with the codec of this dialect and never patches a body; what the rulebook leaves unsure
//! is refused.

mod settings;

use std::collections::HashSet;

use crate::prelude::*;

const CALL_ID_LENGTH: usize = 9;
const NOT_AN_OBJECT: &str = "body: Input should be a valid dictionary";
const MAX_NAME: usize = 64;

/// Mistral's chat API.
pub(crate) struct Mistral;

#[derive(Default)]
pub(crate) struct State<'a> {
    /// The ids of the calls whose results are being read.
    expected: HashSet<&'a str>,
    /// Those of them that have been answered.
    observed: HashSet<&'a str>,
}

dialect!(
    Mistral,
    State<'a>,
    settings::SETTINGS,
    Provider { schema: "MIS-schema", not_an_object: NOT_AN_OBJECT, ..words::PYDANTIC }
);

fn role_of(message: &Value) -> Option<Role> {
    Role::named(message["role"].as_str()?)
}

/// Every field that a message of this role may have.
fn fields_of(role: Role) -> &'static str {
    match role {
        Role::System | Role::User => "role content",
        Role::Assistant => "role content tool_calls prefix",
        Role::Tool => "role content tool_call_id name",
    }
}

/// The chunk types that a message of this role may have.
fn chunks_of(role: Role) -> &'static [&'static str] {
    match role {
        Role::System => &["text", "thinking"],
        Role::User => &["text", "image_url", "document_url", "reference", "input_audio", "file"],
        Role::Assistant => &["text", "thinking", "reference"],
        Role::Tool => &["text", "reference"],
    }
}

/// The request and the rules between its messages.
impl<'a> Check<'a, Mistral> {
    fn request(&mut self, fields: &'a Fields) {
        self.check_settings(fields);
        let names = self.tools(fields.get("tools"));
        self.tool_choice(fields.get("tool_choice"), &names);
        let Some(messages) = self.list(fields.get("messages"), "an array", "messages") else { return };
        self.count(messages);
        for (i, message) in messages.iter().enumerate() {
            match message {
                Value::Object(fields) => self.message(i, message, fields),
                other => self.mistyped(&format!("messages.{i}"), "an object", other),
            }
            self.prefix_is_last(i, messages);
            let misplaced = self.is_misplaced(i, messages);
            match role_of(message) {
                Some(Role::Assistant) => self.calls_are_answered(i, messages),
                Some(Role::Tool) if misplaced => self.observe(message),
                Some(Role::Tool) => self.result_answers_a_call(i, message),
                _ => {}
            }
        }
        self.last_role(messages);
    }

    fn count(&mut self, messages: &[Value]) {
        match messages {
            [] => self.refuse("MIS-10", "messages", "Conversation must have at least one message"),
            [only] if matches!(role_of(only), Some(Role::Assistant | Role::Tool)) => {
                let message = "Conversation must start with a user message or system message";
                self.refuse("MIS-10", "messages.0", message);
            }
            _ => {}
        }
    }

    /// Refuses a message that may not follow the one before it, and returns whether it did.
    fn is_misplaced(&mut self, i: usize, messages: &[Value]) -> bool {
        let Some(role) = role_of(&messages[i]) else { return false };
        let Some(before) = i.checked_sub(1) else {
            // A lone result has been refused already.
            if role == Role::Tool && messages.len() > 1 {
                let message = "Unexpected role 'tool' at the start of the conversation";
                self.refuse("MIS-02", "messages.0", message);
            }
            return role == Role::Tool;
        };
        let Some(previous) = role_of(&messages[before]) else { return false };
        let rule = match (previous, role) {
            (Role::System | Role::User, Role::Tool) => "MIS-02",
            (Role::Tool, Role::User) => "MIS-03",
            (Role::Assistant | Role::Tool, Role::System) => "MIS-04",
            _ => return false,
        };
        let message = format!("Unexpected role '{}' after role '{}'", role.name(), previous.name());
        self.refuse(rule, format!("messages.{i}"), message);
        true
    }

    fn calls_are_answered(&mut self, i: usize, messages: &'a [Value]) {
        let ids: HashSet<&str> =
            calls_of(&messages[i]).iter().filter_map(|call| call["id"].as_str()).collect();
        let until_the_next =
            messages[i + 1..].iter().take_while(|next| role_of(next) != Some(Role::Assistant));
        let results = until_the_next.filter(|next| role_of(next) == Some(Role::Tool));
        let answered: HashSet<&str> = results.filter_map(|result| result["tool_call_id"].as_str()).collect();
        // The validator overlooks the calls of the first message, and then rejects their results as unexpected.
        let overlooked = i == 0 && !ids.is_empty();
        if overlooked || !ids.is_subset(&answered) {
            let message = "Not the same number of function calls and responses";
            self.refuse("MIS-01", format!("messages.{i}"), message);
        }
        self.state.expected = ids;
        self.state.observed.clear();
    }

    /// Counts a result that is in the wrong place, so that it is refused once.
    fn observe(&mut self, message: &'a Value) {
        self.state
            .observed
            .extend(message["tool_call_id"].as_str().filter(|id| self.state.expected.contains(id)));
    }

    fn result_answers_a_call(&mut self, i: usize, message: &'a Value) {
        let Some(id) = message["tool_call_id"].as_str() else { return };
        let fault = if self.state.observed.contains(id) {
            "Duplicate"
        } else if !self.state.expected.contains(id) {
            "Unexpected"
        } else {
            return self.observe(message);
        };
        let message = format!("{fault} tool call id {id} in tool results");
        self.refuse("MIS-06", format!("messages.{i}.tool_call_id"), message);
    }

    fn prefix_is_last(&mut self, i: usize, messages: &[Value]) {
        let continued = role_of(&messages[i]) == Some(Role::Assistant) && messages[i]["prefix"] == true;
        if continued && i + 1 < messages.len() {
            let message = "Assistant message with prefix True must be last message";
            self.refuse("MIS-07", format!("messages.{i}.prefix"), message);
        }
    }

    fn last_role(&mut self, messages: &[Value]) {
        let [_, .., last] = messages else { return };
        let refused = match role_of(last) {
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
impl<'a> Check<'a, Mistral> {
    /// Returns the declared names.
    fn tools(&mut self, tools: Option<&'a Value>) -> HashSet<&'a str> {
        let mut names = HashSet::new();
        let Some(tools) = tools.filter(|tools| !tools.is_null()) else { return names };
        let tools = self.list(Some(tools), "an array", "tools").unwrap_or_default();
        for (k, tool) in tools.iter().enumerate() {
            let path = format!("tools.{k}");
            if tool.get("type").is_some_and(|kind| kind != "function") {
                self.schema(&format!("{path}.type"), "Input should be 'function'");
                continue;
            }
            let path = format!("{path}.function");
            let Some(function) = tool["function"].as_object() else {
                self.mistyped(&path, "an object", &tool["function"]);
                continue;
            };
            self.name(function.get("name"), &path);
            let parameters = function.get("parameters").unwrap_or(&Value::Null);
            self.check_type(Some(parameters), Value::is_object, "an object", &format!("{path}.parameters"));
            self.check_type(
                function.get("description"),
                Value::is_string,
                "a string",
                &format!("{path}.description"),
            );
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
impl<'a> Check<'a, Mistral> {
    fn message(&mut self, i: usize, message: &'a Value, fields: &'a Fields) {
        let path = format!("messages.{i}");
        let Some(role) = role_of(message) else {
            let reason = "Input should be 'system', 'user', 'assistant' or 'tool'";
            return self.refuse_at("MIS-09", &format!("{path}.role"), reason);
        };
        self.only_fields(fields, fields_of(role), &path);
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
                    self.chunk(chunks_of(role), chunk, &format!("{path}.{j}"));
                }
            }
            Some(other) => self.mistyped(&path, "a valid string or list", other),
            None => self.missing(&path),
        }
    }

    fn chunk(&mut self, allowed: &[&str], chunk: &'a Value, path: &str) {
        let Some(fields) = chunk.as_object() else { return self.mistyped(path, "an object", chunk) };
        let kind = chunk["type"].as_str().unwrap_or_default();
        if !allowed.contains(&kind) {
            let expected = allowed.join("', '");
            let reason = format!(
                "Input tag '{kind}' found using 'type' does not match any of the expected tags: '{expected}'"
            );
            return self.schema(path, &reason);
        }
        let (field, more) = match kind {
            "document_url" => ("document_url", "document_name"),
            "reference" => ("reference_ids", "type"),
            "thinking" => ("thinking", "closed"),
            "file" => ("file_id", "type"),
            _ => (kind, "type"),
        };
        self.only_fields(fields, &format!("type {field} {more}"), path);
        let path = format!("{path}.{field}");
        let value = &chunk[field];
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
            self.only_fields(fields, "url detail", path);
        }
        let Some(url) = [image, &image["url"]].into_iter().find(|url| is_filled(url)) else {
            return self.schema(path, "Input should be a valid string or an object with a url");
        };
        self.medium(url.as_str().unwrap_or_default(), media::is_image, path);
    }

    /// Judges an address, and the data in it.
    fn medium(&mut self, url: &str, is_taken: impl Fn(&str) -> bool, path: &str) {
        if media::is_address(url, &["https://", "http://"]) {
            return;
        }
        let sound = media::data_url(url)
            .is_some_and(|(kind, data)| is_taken(kind) && media::flaw(kind, data).is_none());
        if !sound {
            let reason = "the file could not be loaded as a valid URL or base64 data";
            self.refuse_at("SAN-09", path, reason);
        }
    }

    fn thinking(&mut self, chunk: &'a Value, path: &str) {
        let thoughts = self.list(Some(&chunk["thinking"]), "an array", path).unwrap_or_default();
        for (k, thought) in thoughts.iter().enumerate() {
            // Without `thinking` among them, so that nothing nests.
            self.chunk(&["text", "reference"], thought, &format!("{path}.{k}"));
        }
        self.check_type(
            chunk.get("closed"),
            Value::is_boolean,
            "a boolean",
            &path.replace("thinking", "closed"),
        );
    }

    fn assistant(&mut self, message: &'a Value, path: &str) {
        match message.get("tool_calls") {
            None | Some(Value::Null) => {}
            Some(Value::Array(calls)) => self.calls(calls, path),
            Some(other) => self.mistyped(&format!("{path}.tool_calls"), "an array", other),
        }
        self.check_type(message.get("prefix"), Value::is_boolean, "a boolean", &format!("{path}.prefix"));
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
                self.mistyped(&format!("{path}.function"), "an object", &Value::Null);
                continue;
            };
            self.only_fields(fields, "id type function index", &path);
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
            self.check_type(fields.get("index"), Value::is_u64, "an integer", &format!("{path}.index"));
            let path = format!("{path}.function");
            self.only_fields(function, "name arguments", &path);
            self.name(function.get("name"), &path);
            let arguments = function.get("arguments").unwrap_or(&Value::Null);
            let fits = |value: &Value| value.is_string() || value.is_object();
            self.check_type(
                Some(arguments),
                fits,
                "a valid string or dictionary",
                &format!("{path}.arguments"),
            );
        }
    }

    fn tool(&mut self, message: &'a Value, path: &str) {
        self.call_id(message.get("tool_call_id"), &format!("{path}.tool_call_id"));
        if message.get("name").is_some_and(|name| !name.is_null()) {
            self.name(message.get("name"), path);
        }
    }
}

/// Checks that several of the above share.
impl Check<'_, Mistral> {
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
            Some(other) => self.mistyped(path, "a string", other),
        }
    }

    fn name(&mut self, name: Option<&Value>, path: &str) {
        let path = format!("{path}.name");
        let Some(name) = name.and_then(Value::as_str) else {
            return self.mistyped(&path, "a string", &Value::Null);
        };
        if name.len() > MAX_NAME || !is_word(name, "") {
            let message = format!(
                "Function name was {name} but must be a-z, A-Z, 0-9, or contain underscores and dashes, with \
                 a maximum length of {MAX_NAME}."
            );
            self.refuse("MIS-09", path, message);
        }
    }
}

#[cfg(test)]
mod tests;
