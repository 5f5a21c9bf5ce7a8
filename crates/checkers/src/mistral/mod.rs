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

pub(crate) struct Mistral;

#[derive(Default)]
pub(crate) struct State<'a> {
    /// The ids of the calls whose results are being read.
    expected: HashSet<&'a str>,
    /// The ids among them that were answered.
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
    fn request(&mut self, body: At<'a>) {
        self.check_settings(&body);
        let names = self.tools(&body.get("tools"));
        self.tool_choice(&body.get("tool_choice"), &names);
        let Some(messages) = self.list(&body.get("messages"), "an array") else { return };
        self.count(&messages);
        for (i, message) in messages.iter().enumerate() {
            if self.object(message, "an object") {
                self.message(message);
            }
            self.prefix_is_last(i, &messages);
            let misplaced = self.is_misplaced(i, &messages);
            match role_of(message) {
                Some(Role::Assistant) => self.calls_are_answered(i, &messages),
                Some(Role::Tool) if misplaced => self.observe(message),
                Some(Role::Tool) => self.result_answers_a_call(message),
                _ => {}
            }
        }
        self.last_role(&messages);
    }

    fn count(&mut self, messages: &[At<'a>]) {
        match messages {
            [] => self.refuse("MIS-10", "messages", "Conversation must have at least one message"),
            [only] if matches!(role_of(only), Some(Role::Assistant | Role::Tool)) => {
                let message = "Conversation must start with a user message or system message";
                self.refuse("MIS-10", only, message);
            }
            _ => {}
        }
    }

    /// Refuses a message that must not follow the previous one, and returns whether it did.
    fn is_misplaced(&mut self, i: usize, messages: &[At<'a>]) -> bool {
        let Some(role) = role_of(&messages[i]) else { return false };
        let Some(before) = i.checked_sub(1) else {
            // A lone result was already refused.
            if role == Role::Tool && messages.len() > 1 {
                let message = "Unexpected role 'tool' at the start of the conversation";
                self.refuse("MIS-02", &messages[i], message);
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
        self.refuse(rule, &messages[i], message);
        true
    }

    fn calls_are_answered(&mut self, i: usize, messages: &[At<'a>]) {
        let calls = messages[i].get("tool_calls").items();
        let ids: HashSet<&str> = calls.iter().filter_map(|call| call.get("id").text()).collect();
        let until_the_next =
            messages[i + 1..].iter().take_while(|next| role_of(next) != Some(Role::Assistant));
        let results = until_the_next.filter(|next| role_of(next) == Some(Role::Tool));
        let answered: HashSet<&str> =
            results.filter_map(|result| result.get("tool_call_id").text()).collect();
        // The validator overlooks the calls of the first message, and then rejects their results as unexpected.
        let overlooked = i == 0 && !ids.is_empty();
        if overlooked || !ids.is_subset(&answered) {
            let message = "Not the same number of function calls and responses";
            self.refuse("MIS-01", &messages[i], message);
        }
        self.state.expected = ids;
        self.state.observed.clear();
    }

    /// Counts a result in a wrong position, so that it is refused only once.
    fn observe(&mut self, message: &At<'a>) {
        let id = message.get("tool_call_id").text().filter(|id| self.state.expected.contains(id));
        self.state.observed.extend(id);
    }

    fn result_answers_a_call(&mut self, message: &At<'a>) {
        let at = message.get("tool_call_id");
        let Some(id) = at.text() else { return };
        let fault = if self.state.observed.contains(id) {
            "Duplicate"
        } else if !self.state.expected.contains(id) {
            "Unexpected"
        } else {
            return self.observe(message);
        };
        self.refuse("MIS-06", &at, format!("{fault} tool call id {id} in tool results"));
    }

    fn prefix_is_last(&mut self, i: usize, messages: &[At<'a>]) {
        let continued = role_of(&messages[i]) == Some(Role::Assistant) && messages[i]["prefix"] == true;
        if continued && i + 1 < messages.len() {
            let message = "Assistant message with prefix True must be last message";
            self.refuse("MIS-07", &messages[i].get("prefix"), message);
        }
    }

    fn last_role(&mut self, messages: &[At<'a>]) {
        let [_, .., last] = messages else { return };
        let refused = match role_of(last) {
            Some(Role::User | Role::Tool) | None => return,
            Some(Role::Assistant) if last["prefix"] == true => return,
            Some(role) => role.name(),
        };
        let message = format!(
            "Expected last role User or Tool (or Assistant with prefix True) for serving but got {refused}"
        );
        self.refuse("MIS-07", last, message);
    }
}

/// The settings beside the messages.
impl<'a> Check<'a, Mistral> {
    /// Returns the declared names.
    fn tools(&mut self, tools: &At<'a>) -> HashSet<&'a str> {
        let mut names = HashSet::new();
        if !tools.is_given() {
            return names;
        }
        for tool in self.list(tools, "an array").unwrap_or_default() {
            let function = tool.get("function");
            if self.is_function(&tool) && self.object(&function, "an object") {
                self.name(&function.get("name"));
                self.object(&function.get("parameters"), "an object");
                self.check_type(&function.get("description"), Value::is_string, "a string");
                names.extend(function.get("name").text());
            }
        }
        names
    }

    fn tool_choice(&mut self, choice: &At<'a>, names: &HashSet<&str>) {
        match choice.value {
            None | Some(Value::Null) => {}
            Some(Value::String(mode)) if ["auto", "none", "any", "required"].contains(&mode.as_str()) => {}
            Some(Value::Object(_)) => {
                let name = choice.get("function").get("name");
                if !name.text().is_some_and(|name| names.contains(name)) {
                    self.schema(&name, "Input should be the name of a declared tool");
                }
            }
            Some(_) => self.schema(choice, "Input should be 'auto', 'none', 'any' or 'required'"),
        }
    }
}

/// One message, its chunks and its calls.
impl<'a> Check<'a, Mistral> {
    fn message(&mut self, message: &At<'a>) {
        let Some(role) = role_of(message) else {
            let reason = "Input should be 'system', 'user', 'assistant' or 'tool'";
            return self.refuse_at("MIS-09", &message.get("role"), reason);
        };
        self.only_fields(message, fields_of(role));
        self.content(role, &message.get("content"));
        match role {
            Role::Assistant => self.assistant(message),
            Role::Tool => self.tool(message),
            Role::System | Role::User => {}
        }
    }

    fn content(&mut self, role: Role, content: &At<'a>) {
        match content.value {
            Some(Value::String(_)) => {}
            None | Some(Value::Null) if role == Role::Assistant => {}
            Some(Value::Array(chunks)) => {
                if chunks.is_empty() && matches!(role, Role::System | Role::User) {
                    self.schema(content, "List should have at least 1 item after validation, not 0");
                }
                content.items().iter().for_each(|chunk| self.chunk(chunks_of(role), chunk));
            }
            Some(_) => self.mistyped(content, "a valid string or list"),
            None => self.missing(content),
        }
    }

    fn chunk(&mut self, allowed: &[&str], chunk: &At<'a>) {
        if !self.object(chunk, "an object") {
            return;
        }
        let kind = chunk["type"].as_str().unwrap_or_default();
        if !allowed.contains(&kind) {
            let expected = allowed.join("', '");
            let reason = format!(
                "Input tag '{kind}' found using 'type' does not match any of the expected tags: '{expected}'"
            );
            return self.schema(chunk, &reason);
        }
        let (field, more) = match kind {
            "document_url" => ("document_url", "document_name"),
            "reference" => ("reference_ids", "type"),
            "thinking" => ("thinking", "closed"),
            "file" => ("file_id", "type"),
            _ => (kind, "type"),
        };
        self.only_fields(chunk, &format!("type {field} {more}"));
        let value = chunk.get(field);
        match kind {
            "text" if value.is_string() => {}
            "image_url" => self.image(&value),
            "document_url" if is_filled(&value) => {
                self.medium(value.text().unwrap_or_default(), media::is_type, &value);
            }
            "file" if is_filled(&value) => {}
            "input_audio" if is_filled(&value) || is_filled(&value["data"]) => {}
            "reference" => {
                let is_id = |id: &Value| id.is_u64() || id.is_string();
                if !value.as_array().is_some_and(|ids| ids.iter().all(is_id)) {
                    self.schema(&value, "Input should be a valid list");
                }
            }
            "thinking" => {
                for thought in self.list(&value, "an array").unwrap_or_default() {
                    // `thinking` is not allowed inside, so nothing nests.
                    self.chunk(&["text", "reference"], &thought);
                }
                self.check_type(&chunk.get("closed"), Value::is_boolean, "a boolean");
            }
            _ => self.schema(&value, "Input should be a valid string"),
        }
    }

    fn image(&mut self, image: &At<'a>) {
        self.only_fields(image, "url detail");
        let Some(url) = [image, &image["url"]].into_iter().find(|url| is_filled(url)) else {
            return self.schema(image, "Input should be a valid string or an object with a url");
        };
        self.medium(url.as_str().unwrap_or_default(), media::is_image, image);
    }

    /// Judges an address, and the data in it.
    fn medium(&mut self, url: &str, is_taken: impl Fn(&str) -> bool, at: &At<'a>) {
        if media::is_address(url, &["https://", "http://"]) {
            return;
        }
        let sound = media::data_url(url)
            .is_some_and(|(kind, data)| is_taken(kind) && media::flaw(kind, data).is_none());
        if !sound {
            self.refuse_at("SAN-09", at, "the file could not be loaded as a valid URL or base64 data");
        }
    }

    fn assistant(&mut self, message: &At<'a>) {
        let calls = message.get("tool_calls");
        if calls.is_given() {
            self.needs_type(&calls, Value::is_array, "an array");
        }
        self.calls(&calls);
        self.check_type(&message.get("prefix"), Value::is_boolean, "a boolean");
        let says_nothing = match &message["content"] {
            Value::Null => true,
            Value::String(text) => text.is_empty(),
            Value::Array(chunks) => chunks.is_empty(),
            _ => false,
        };
        if says_nothing && calls_of(message).is_empty() {
            let reason = "Assistant message must have either content or tool_calls, but not both.";
            self.refuse("MIS-08", message, reason);
        }
    }

    fn calls(&mut self, calls: &At<'a>) {
        let mut ids = HashSet::new();
        for call in calls.items() {
            let function = call.get("function");
            if !self.object(&function, "an object") {
                continue;
            }
            self.only_fields(&call, "id type function index");
            let id = call.get("id");
            self.call_id(&id);
            if let Some(text) = id.text()
                && !ids.insert(text)
            {
                self.refuse("MIS-06", &id, format!("Duplicate tool call id {text} in assistant message"));
            }
            self.is_function(&call);
            self.check_type(&call.get("index"), Value::is_u64, "an integer");
            self.only_fields(&function, "name arguments");
            self.name(&function.get("name"));
            let fits = |value: &Value| value.is_string() || value.is_object();
            self.needs_type(&function.get("arguments"), fits, "a valid string or dictionary");
        }
    }

    fn tool(&mut self, message: &At<'a>) {
        self.call_id(&message.get("tool_call_id"));
        if message.get("name").is_given() {
            self.name(&message.get("name"));
        }
    }
}

/// Checks that several of the above share.
impl Check<'_, Mistral> {
    /// Refuses a tool or call of any other type; returns whether it is a function.
    fn is_function(&mut self, at: &At<'_>) -> bool {
        let kind = at.get("type");
        let is_function = kind.value.is_none_or(|kind| kind == "function");
        if !is_function {
            self.schema(&kind, "Input should be 'function'");
        }
        is_function
    }

    fn call_id(&mut self, at: &At<'_>) {
        match at.value {
            None | Some(Value::Null) => self.refuse("MIS-05", at, "Tool call id has to be defined."),
            Some(Value::String(id)) => {
                if id.len() != CALL_ID_LENGTH || !id.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
                    let message = format!(
                        "Tool call id was {id} but must be a-z, A-Z, 0-9, with a length of {CALL_ID_LENGTH}."
                    );
                    self.refuse("MIS-05", at, message);
                }
            }
            Some(_) => self.mistyped(at, "a string"),
        }
    }

    fn name(&mut self, at: &At<'_>) {
        let Some(name) = at.text() else { return self.mistyped(at, "a string") };
        if name.len() > MAX_NAME || !is_word(name, "") {
            let message = format!(
                "Function name was {name} but must be a-z, A-Z, 0-9, or contain underscores and dashes, with \
                 a maximum length of {MAX_NAME}."
            );
            self.refuse("MIS-09", at, message);
        }
    }
}

#[cfg(test)]
mod tests;
