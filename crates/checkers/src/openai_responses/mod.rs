//! The strict checker of OpenAI Responses request bodies: an oracle that answers as the strictest known
//! server would, for tests and for `check --for`. Judges the `RSP-…` rules that a body alone can break, as if
//! nothing were stored: even with `store` set, an item must be sent whole and not by its id.
//! Shares nothing with the codec of this dialect and never patches a body. The item types are those of the API's own
//! types; of the calls that the provider runs itself, only the fields that a replay needs are checked.

mod settings;

use std::collections::{HashMap, HashSet};

use crate::{openai::*, prelude::*};

const MAX_CALL_ID: usize = 64;
const MAX_ITEM_ID: usize = 64;

/// The calls that wait for an output. Its type is theirs with `_output` at the end, except for a search.
const ANSWERED: [&str; 7] = [
    "tool_search_call",
    "function_call",
    "custom_tool_call",
    "local_shell_call",
    "shell_call",
    "apply_patch_call",
    "computer_call",
];

/// The types of items, the prefix of their ids, and their fields, each with its type; a question mark allows that it is
/// missing. Items with `-` have rules of their own.
const ITEMS: [(&str, &str, &str); 26] = [
    ("message", "msg_", "-"),
    ("reasoning", "rs_", "-"),
    ("function_call", "fc_", "-"),
    ("custom_tool_call", "ctc_", "-"),
    ("local_shell_call", "lsh_", "-"),
    ("shell_call", "sh_", "-"),
    ("apply_patch_call", "apc_", "-"),
    ("computer_call", "cu_", "-"),
    ("web_search_call", "ws_", "action:object? status:text?"),
    ("file_search_call", "fs_", "id:text queries:texts status:text results:objects?"),
    ("code_interpreter_call", "ci_", "id:text container_id:text status:text code:text? outputs:objects?"),
    ("image_generation_call", "ig_", "id:text status:text result:text?"),
    ("mcp_list_tools", "mcpl_", "id:text server_label:text tools:objects"),
    ("mcp_call", "mcp_", "id:text server_label:text name:text arguments:text output:text?"),
    ("mcp_approval_request", "mcpr_", "id:text server_label:text name:text arguments:text"),
    ("mcp_approval_response", "", "approval_request_id:text approve:flag reason:text?"),
    ("tool_search_call", "", "arguments:object status:text?"),
    ("tool_search_output", "", "tools:objects status:text?"),
    ("program", "", "id:text call_id:text code:text fingerprint:text"),
    ("program_output", "", "id:text call_id:text result:text status:text"),
    ("compaction", "", "encrypted_content:text"),
    ("compaction_summary", "", "encrypted_content:text"),
    ("context_compaction", "", "encrypted_content:text?"),
    ("additional_tools", "", "role:text tools:objects"),
    ("configuration_update", "", "reasoning:object? text:object?"),
    ("compaction_trigger", "", ""),
];

/// OpenAI's Responses API.
pub(crate) struct OpenAiResponses;

impl OpenAi for OpenAiResponses {}

dialect!(OpenAiResponses, State<'a>, settings::SETTINGS, Provider { schema: "RSP-schema", ..words::OPENAI });

/// Who wrote a list of parts, which decides the types they may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Words {
    OfTheModel,
    ForTheModel,
}

/// A call's type and `call_id`.
type Call<'a> = (&'a str, &'a str);

#[derive(Default)]
pub(crate) struct State<'a> {
    item_ids: HashSet<&'a str>,
    call_ids: HashSet<&'a str>,
    /// Where the last output is that could answer a call.
    last_output: HashMap<Call<'a>, usize>,
    open: HashSet<Call<'a>>,
    /// Ids of the requests for approval.
    approvals: HashSet<&'a str>,
    answered: HashSet<Call<'a>>,
    /// Whether calls may be in an earlier response that this request continues.
    chained: bool,
}

/// The request and the rules between its items.
impl<'a> Check<'a, OpenAiResponses> {
    fn request(&mut self, fields: &'a Fields) {
        self.check_settings(fields);
        self.optional_text(fields.get("instructions").unwrap_or(&Value::Null), "instructions");
        let names = self.tools(fields.get("tools"));
        self.tool_choice(fields, &names);
        let chain = ["previous_response_id", "conversation"];
        self.state.chained = chain.iter().any(|name| fields.get(*name).is_some_and(|value| !value.is_null()));
        match fields.get("input") {
            Some(Value::String(text)) => self.text(text, "input"),
            Some(Value::Array(items)) => self.items(items),
            Some(other) => self.mistyped("input", "one of a string or array of objects", other),
            None => self.missing("input"),
        }
    }

    fn items(&mut self, items: &'a [Value]) {
        self.array_length("RSP-schema", "input", items.len(), usize::MAX);
        for (i, item) in items.iter().enumerate() {
            if let (Some(call), Some(id)) = (answered_by(type_of(item)), item["call_id"].as_str()) {
                self.state.last_output.insert((call, id), i);
            }
        }
        for (i, item) in items.iter().enumerate() {
            match item {
                Value::Object(fields) => self.item(item, fields, &format!("input.{i}")),
                other => self.mistyped(&format!("input.{i}"), "an object", other),
            }
            self.reasoning_is_followed(i, items);
            self.calls_and_outputs_are_paired(i, item);
        }
    }

    fn reasoning_is_followed(&mut self, i: usize, items: &[Value]) {
        if type_of(&items[i]) == "reasoning" && !items.get(i + 1).is_some_and(is_of_the_model) {
            let id = items[i]["id"].as_str().unwrap_or_default();
            let message =
                format!("Item '{id}' of type 'reasoning' was provided without its required following item.");
            self.refuse("RSP-04", format!("input.{i}"), message);
        }
    }

    fn calls_and_outputs_are_paired(&mut self, i: usize, item: &'a Value) {
        let kind = type_of(item);
        let Some(id) = item["call_id"].as_str() else { return };
        let path = format!("input.{i}");
        if ANSWERED.contains(&kind) {
            if !self.state.call_ids.insert(id) {
                self.refuse("RSP-10", &*path, format!("Duplicate 'call_id': {id}"));
            }
            self.state.open.insert((kind, id));
            if self.state.last_output.get(&(kind, id)).is_none_or(|&output| output < i) {
                let message = format!("No tool output found for {} {id}.", spaced(kind));
                self.refuse("RSP-01", path, message);
            }
        } else if let Some(call) = answered_by(kind) {
            if self.state.open.remove(&(call, id)) {
                self.state.answered.insert((call, id));
            } else if self.state.answered.contains(&(call, id)) {
                self.refuse("RSP-10", path, format!("Duplicate 'call_id': {id}"));
            } else if !self.state.chained {
                let message = format!("No tool call found for {} output with call_id {id}.", spaced(call));
                self.refuse("RSP-02", path, message);
            }
        }
    }
}

/// The settings beside the items.
impl<'a> Check<'a, OpenAiResponses> {
    /// Returns the declared names, each with the type of its tool.
    fn tools(&mut self, tools: Option<&'a Value>) -> HashSet<(&'a str, &'a str)> {
        let mut names = HashSet::new();
        let Some(tools) = tools else { return names };
        let tools = self.list(Some(tools), "an array of objects", "tools").unwrap_or_default();
        if !tools.is_empty() {
            self.array_length("RSP-schema", "tools", tools.len(), MAX_TOOLS);
        }
        for (k, tool) in tools.iter().enumerate() {
            let path = format!("tools.{k}");
            match tool["type"].as_str() {
                Some(kind @ ("function" | "custom")) => {
                    self.name(&tool["name"], &format!("{path}.name"));
                    self.optional_object(&tool["parameters"], &format!("{path}.parameters"));
                    if let Some(name) = tool["name"].as_str()
                        && !names.insert((kind, name))
                    {
                        self.repeated_tool(name, &path);
                    }
                }
                Some(_) => {}
                None if tool.is_object() => self.mistyped(&format!("{path}.type"), "a string", &tool["type"]),
                None => self.mistyped(&path, "an object", tool),
            }
        }
        names
    }

    fn tool_choice(&mut self, request: &Fields, names: &HashSet<(&str, &str)>) {
        let declared = request.get("tools").and_then(Value::as_array).is_some_and(|tools| !tools.is_empty());
        match request.get("tool_choice") {
            None => {}
            Some(Value::String(mode)) if mode == "none" || mode == "auto" => {}
            Some(Value::String(mode)) if mode == "required" && declared => {}
            Some(Value::String(mode)) if mode == "required" => {
                let message = "Tool choice 'required' must be specified with 'tools' parameter.";
                self.refuse("RSP-schema", "tool_choice", message);
            }
            Some(Value::Object(choice)) => match choice.get("type").and_then(Value::as_str) {
                Some(kind @ ("function" | "custom")) => {
                    let name = choice.get("name").and_then(Value::as_str).unwrap_or_default();
                    if !names.contains(&(kind, name)) {
                        self.undeclared_tool(name);
                    }
                }
                Some(_) => {}
                None => self.missing("tool_choice.type"),
            },
            Some(other) => self.invalid_value("tool_choice", other, &["none", "auto", "required"]),
        }
    }
}

/// One item.
impl<'a> Check<'a, OpenAiResponses> {
    fn item(&mut self, item: &'a Value, fields: &'a Fields, path: &str) {
        let kind = type_of(item);
        if kind == "item_reference" {
            return self.not_stored(fields, path);
        }
        self.item_id(kind, fields, path);
        let waits = !kind.starts_with("tool_search") || !item["call_id"].is_null();
        if waits && (ANSWERED.contains(&kind) || answered_by(kind).is_some()) {
            self.call_id(fields.get("call_id"), &format!("{path}.call_id"));
        }
        let at = |field: &str| format!("{path}.{field}");
        match kind {
            "" => match fields.get("type") {
                Some(other) => self.mistyped(&at("type"), "a string", other),
                None => self.missing(&at("type")),
            },
            "message" => self.message(fields, path),
            "reasoning" => self.reasoning(fields, path),
            "function_call" | "custom_tool_call" => {
                let given = if kind == "function_call" { "arguments" } else { "input" };
                self.name(&item["name"], &at("name"));
                self.free_text("RSP-16", fields.get(given), &at(given));
            }
            "function_call_output" | "custom_tool_call_output" => {
                self.words(Words::ForTheModel, fields.get("output"), &at("output"));
            }
            "local_shell_call" => self.local_shell_action(&item["action"], &at("action")),
            "local_shell_call_output" => self.free_text("RSP-schema", fields.get("output"), &at("output")),
            "shell_call" => self.strings(&item["action"]["commands"], &at("action.commands")),
            "shell_call_output" => self.shell_output(&item["output"], &at("output")),
            "apply_patch_call" => self.patch(&item["operation"], &at("operation")),
            "apply_patch_call_output" => self.optional_text(&item["output"], &at("output")),
            "computer_call" => {}
            "computer_call_output" if !item["output"].is_object() => {
                self.mistyped(&at("output"), "an object", &item["output"]);
            }
            "computer_call_output" => {
                self.source(&["image_url", "file_id"], &item["output"], &at("output"));
                let url = item["output"]["image_url"].as_str().unwrap_or_default();
                self.image(url, &at("output.image_url"));
            }
            _ => self.other(kind, item, path),
        }
        self.status(kind, fields.get("status"), &format!("{path}.status"));
    }

    /// Judges an item that is neither a message nor a call, or that the API does not know.
    fn other(&mut self, kind: &str, item: &'a Value, path: &str) {
        let Some((.., fields)) = ITEMS.iter().find(|(known, ..)| *known == kind) else {
            let message = format!("Invalid value: '{kind}'. Supported values are the types of input items.");
            return self.refuse("RSP-schema", format!("{path}.type"), message);
        };
        for (name, form) in fields.split(' ').filter_map(|field| field.split_once(':')) {
            let (value, path) = (&item[name], format!("{path}.{name}"));
            let of = |is: fn(&Value) -> bool| value.as_array().is_some_and(|list| list.iter().all(is));
            let required = form.trim_end_matches('?');
            let fits = match required {
                "text" => value.is_string(),
                "texts" => of(Value::is_string),
                "objects" => of(Value::is_object),
                "object" => value.is_object(),
                _ => value.is_boolean(),
            };
            if value.is_null() && form == required {
                self.missing(&path);
            } else if !value.is_null() && !fits {
                self.mistyped(&path, required, value);
            }
        }
        match (kind, item["id"].as_str(), item["approval_request_id"].as_str()) {
            ("mcp_approval_request", Some(id), _) => {
                self.state.approvals.insert(id);
            }
            ("mcp_approval_response", _, Some(id))
                if !self.state.approvals.contains(id) && !self.state.chained =>
            {
                let message = format!("No approval request found with id {id}.");
                self.refuse("RSP-02", path, message);
            }
            ("additional_tools", ..) if item["role"] != "developer" => {
                self.invalid_value(&format!("{path}.role"), &item["role"], &["developer"]);
            }
            _ => {}
        }
    }

    fn not_stored(&mut self, fields: &Fields, path: &str) {
        let id = fields.get("id").and_then(Value::as_str).unwrap_or_default();
        let message = format!(
            "Item with id '{id}' not found. Items are not persisted when `store` is set to false. Try again \
             with `store` set to true, or remove this item from your input."
        );
        self.refuse("RSP-06", path, message);
    }

    fn item_id(&mut self, kind: &str, fields: &'a Fields, path: &str) {
        let needs_id = ITEMS.iter().any(|(known, _, fields)| *known == kind && fields.starts_with("id:"));
        let is_optional = kind.ends_with("_output") || prefix_of(kind).is_none() || kind == "web_search_call";
        let path = format!("{path}.id");
        let id = match fields.get("id") {
            None => return,
            Some(Value::Null) if is_optional && !needs_id => return,
            Some(Value::String(id)) => id.as_str(),
            Some(other) => return self.mistyped(&path, "a string", other),
        };
        if let Some(reason) = prefix_of(kind).and_then(|prefix| id_fault(id, prefix)) {
            self.refuse_at("RSP-09", &path, &reason);
        } else if id.is_empty() && kind == "tool_search_call" {
            self.refuse_at("RSP-09", &path, "empty string.");
        }
        // The id of this output is, by the API's types, that of the call.
        if kind != "local_shell_call_output" && !self.state.item_ids.insert(id) {
            let message = format!(
                "Duplicate item found with id {id}. Remove duplicate items from your input and try again."
            );
            self.refuse("RSP-10", path, message);
        }
    }

    fn call_id(&mut self, id: Option<&Value>, path: &str) {
        match id {
            Some(Value::String(id)) => self.id_length("RSP-11", id, MAX_CALL_ID, path),
            Some(other) => self.mistyped(path, "a string", other),
            None => self.missing(path),
        }
    }

    fn status(&mut self, kind: &str, status: Option<&Value>, path: &str) {
        let supported: &[&str] = match kind {
            "apply_patch_call" => &["in_progress", "completed"],
            "apply_patch_call_output" => &["completed", "failed"],
            "message" | "reasoning" => &["in_progress", "completed", "incomplete"],
            _ if ANSWERED.contains(&kind) || answered_by(kind).is_some() => {
                &["in_progress", "completed", "incomplete"]
            }
            _ => return,
        };
        let required = ["local_shell_call", "apply_patch_call", "apply_patch_call_output"].contains(&kind);
        match status {
            None if required => self.missing(path),
            None => {}
            Some(Value::Null) if kind == "tool_search_call" => {}
            Some(Value::Null) if answered_by(kind).is_some() && !required => {}
            Some(Value::String(status)) if supported.contains(&status.as_str()) => {}
            Some(other) => self.invalid_value(path, other, supported),
        }
    }

    fn message(&mut self, fields: &'a Fields, path: &str) {
        let words = match fields.get("role") {
            Some(Value::String(role)) if role == "assistant" => Words::OfTheModel,
            Some(Value::String(role)) if ["system", "developer", "user"].contains(&role.as_str()) => {
                Words::ForTheModel
            }
            other => {
                let role = other.map_or("", |role| role.as_str().unwrap_or(kind_of(role)));
                let message = format!(
                    "Invalid value: '{role}'. Supported values are: 'assistant', 'system', 'developer', and \
                     'user'."
                );
                return self.refuse("RSP-13", format!("{path}.role"), message);
            }
        };
        self.words(words, fields.get("content"), &format!("{path}.content"));
    }

    fn reasoning(&mut self, fields: &'a Fields, path: &str) {
        let summary = format!("{path}.summary");
        if let Some(parts) = self.list(fields.get("summary"), "an array of objects", &summary) {
            self.reasoning_parts("summary_text", parts, &summary);
        }
        let content = format!("{path}.content");
        match fields.get("content") {
            None | Some(Value::Null) => {}
            Some(Value::Array(parts)) => self.reasoning_parts("reasoning_text", parts, &content),
            Some(other) => self.mistyped(&content, "an array of objects", other),
        }
        match fields.get("encrypted_content") {
            None | Some(Value::Null) => self.not_stored(fields, path),
            Some(Value::String(blob)) if !blob.is_empty() => {
                self.text(blob, &format!("{path}.encrypted_content"));
            }
            Some(other) => {
                let blob = other.as_str().unwrap_or(kind_of(other));
                let message = format!(
                    "The encrypted content {blob} could not be verified. Reason: Encrypted content could not \
                     be decrypted or parsed."
                );
                self.refuse("RSP-07", format!("{path}.encrypted_content"), message);
            }
        }
    }

    fn reasoning_parts(&mut self, kind: &str, parts: &'a [Value], path: &str) {
        for (j, part) in parts.iter().enumerate() {
            let path = format!("{path}.{j}");
            if part["type"] != kind {
                self.invalid_value(&format!("{path}.type"), &part["type"], &[kind]);
            } else {
                self.free_text("RSP-schema", part.get("text"), &format!("{path}.text"));
            }
        }
    }

    fn local_shell_action(&mut self, action: &'a Value, path: &str) {
        if action["type"] != "exec" {
            self.invalid_value(&format!("{path}.type"), &action["type"], &["exec"]);
        }
        self.strings(&action["command"], &format!("{path}.command"));
        self.optional_object(&action["env"], &format!("{path}.env"));
    }

    fn shell_output(&mut self, output: &'a Value, path: &str) {
        let Some(chunks) = self.list(Some(output), "an array of objects", path) else { return };
        for (j, chunk) in chunks.iter().enumerate() {
            let path = format!("{path}.{j}");
            self.free_text("RSP-schema", chunk.get("stdout"), &format!("{path}.stdout"));
            self.free_text("RSP-schema", chunk.get("stderr"), &format!("{path}.stderr"));
            let outcome = &chunk["outcome"];
            match outcome["type"].as_str() {
                Some("timeout") => {}
                Some("exit") if outcome["exit_code"].is_i64() => {}
                Some("exit") => {
                    let path = format!("{path}.outcome.exit_code");
                    self.mistyped(&path, "an integer", &outcome["exit_code"]);
                }
                _ => {
                    let path = format!("{path}.outcome.type");
                    self.invalid_value(&path, &outcome["type"], &["timeout", "exit"]);
                }
            }
        }
    }

    fn patch(&mut self, operation: &'a Value, path: &str) {
        let kinds = ["create_file", "delete_file", "update_file"];
        let Some(kind) = operation["type"].as_str().filter(|kind| kinds.contains(kind)) else {
            return self.invalid_value(&format!("{path}.type"), &operation["type"], &kinds);
        };
        self.free_text("RSP-schema", operation.get("path"), &format!("{path}.path"));
        if kind != "delete_file" {
            self.free_text("RSP-schema", operation.get("diff"), &format!("{path}.diff"));
        }
    }
}

/// Texts and lists of parts.
impl<'a> Check<'a, OpenAiResponses> {
    fn words(&mut self, whose: Words, words: Option<&'a Value>, path: &str) {
        match words {
            Some(Value::String(text)) => self.text(text, path),
            Some(Value::Array(parts)) => {
                self.array_length("RSP-schema", path, parts.len(), usize::MAX);
                for (j, part) in parts.iter().enumerate() {
                    self.part(whose, part, &format!("{path}.{j}"));
                }
            }
            Some(other) => self.mistyped(path, "one of a string or array of objects", other),
            None => self.missing(path),
        }
    }

    fn part(&mut self, whose: Words, part: &'a Value, path: &str) {
        if !part.is_object() {
            return self.mistyped(path, "an object", part);
        }
        let kind = part["type"].as_str().unwrap_or_default();
        match (whose, kind) {
            (Words::ForTheModel, "input_text") => {
                self.free_text("RSP-schema", part.get("text"), &format!("{path}.text"));
            }
            (Words::ForTheModel, "input_image") => {
                self.optional_text(&part["detail"], &format!("{path}.detail"));
                self.source(&["image_url", "file_id"], part, path);
                self.image(part["image_url"].as_str().unwrap_or_default(), &format!("{path}.image_url"));
            }
            (Words::ForTheModel, "input_file") => {
                self.optional_text(&part["filename"], &format!("{path}.filename"));
                self.source(&["file_id", "file_data", "file_url"], part, path);
                self.file(part, path);
            }
            (Words::OfTheModel, "output_text") => {
                self.free_text("RSP-schema", part.get("text"), &format!("{path}.text"));
                let fits = |value: &Value| value.is_array() || value.is_null();
                let path = format!("{path}.annotations");
                self.check_type(part.get("annotations"), fits, "an array of objects", &path);
            }
            (Words::OfTheModel, "refusal") => {
                self.free_text("RSP-schema", part.get("refusal"), &format!("{path}.refusal"));
            }
            _ => {
                let kind = part["type"].as_str().unwrap_or(kind_of(&part["type"]));
                let supported = match whose {
                    Words::OfTheModel => "'output_text' and 'refusal'",
                    Words::ForTheModel => "'input_text', 'input_image', and 'input_file'",
                };
                let message = format!("Invalid value: '{kind}'. Supported values are: {supported}.");
                self.refuse("RSP-12", format!("{path}.type"), message);
            }
        }
    }

    /// Judges the fields of which exactly one must name the source of a part's bytes.
    fn source(&mut self, fields: &[&str], part: &'a Value, path: &str) {
        for field in fields {
            self.optional_text(&part[field], &format!("{path}.{field}"));
        }
        let given: Vec<&&str> =
            fields.iter().filter(|field| !part[**field].is_null() && part[**field] != "").collect();
        if given.is_empty()
            || part["file_id"].as_str().is_some_and(|id| !id.is_empty() && id.trim().is_empty())
        {
            self.missing(&format!("{path}.{}", fields[0]));
        } else if given.len() > 1 {
            let message = format!("Mutually exclusive parameters: '{}' and '{}'.", given[0], given[1]);
            self.refuse("RSP-schema", path, message);
        }
    }

    fn file(&mut self, part: &Value, path: &str) {
        self.file_data(part, path);
        let url = part["file_url"].as_str().unwrap_or_default();
        if !url.is_empty() && !media::is_address(url, &["https://", "http://"]) {
            let place = bracketed(path);
            let message = format!(
                "Invalid '{place}.file_url'. Expected a valid URL, but got a value with an invalid format."
            );
            self.refuse("SAN-09", path, message);
        }
    }

    fn free_text(&mut self, rule: &'static str, text: Option<&'a Value>, path: &str) {
        match text {
            Some(Value::String(text)) => self.text(text, path),
            Some(found) => self.fault(rule, path, &What::Type { expected: "a string", found }),
            None => self.fault(rule, path, &What::Missing),
        }
    }

    fn optional_text(&mut self, text: &'a Value, path: &str) {
        match text {
            Value::Null => {}
            Value::String(text) => self.text(text, path),
            other => self.mistyped(path, "a string", other),
        }
    }

    fn strings(&mut self, list: &'a Value, path: &str) {
        let Some(texts) = self.list(Some(list), "an array of strings", path) else { return };
        for (j, text) in texts.iter().enumerate() {
            self.free_text("RSP-schema", Some(text), &format!("{path}.{j}"));
        }
    }

    fn name(&mut self, name: &Value, path: &str) {
        match name {
            Value::String(name) => self.tool_name("RSP-schema", name, path),
            Value::Null => self.missing(path),
            other => self.mistyped(path, "a string", other),
        }
    }

    fn invalid_value(&mut self, path: &str, got: &Value, supported: &[&str]) {
        let got = got.as_str().unwrap_or(kind_of(got));
        let supported = supported.join("', '");
        let message = format!("Invalid value: '{got}'. Supported values are: '{supported}'.");
        self.refuse("RSP-schema", path, message);
    }
}

/// The type of an item, which a message and a reference may leave out; empty if there is none.
fn type_of(item: &Value) -> &str {
    match item.get("type") {
        Some(kind) => kind.as_str().unwrap_or_default(),
        None if item.get("role").is_some() => "message",
        None if item.get("id").is_some() => "item_reference",
        None => "",
    }
}

/// The type of call that an output answers.
fn answered_by(output: &str) -> Option<&str> {
    if output == "tool_search_output" {
        return Some("tool_search_call");
    }
    output.strip_suffix("_output").filter(|call| ANSWERED.contains(call))
}

/// True for an item that a model can produce after its reasoning.
fn is_of_the_model(item: &Value) -> bool {
    match type_of(item) {
        "message" => item["role"] == "assistant",
        "reasoning" | "mcp_approval_request" | "mcp_list_tools" | "tool_search_output" => true,
        "program" | "program_output" | "compaction" | "compaction_summary" | "context_compaction" => true,
        kind => kind.ends_with("_call"),
    }
}

/// The prefix that the ids of an item type need. Outputs come from the client, which may choose any id.
fn prefix_of(kind: &str) -> Option<&'static str> {
    let (_, prefix, _) = ITEMS.iter().find(|(known, ..)| *known == kind)?;
    (!prefix.is_empty()).then_some(*prefix)
}

fn id_fault(id: &str, prefix: &str) -> Option<String> {
    if !id.starts_with(prefix) {
        return Some(format!("'{id}'. Expected an ID that begins with '{}'.", prefix.trim_end_matches('_')));
    }
    // A separator at the end is refused in the same words, though they do not fit it.
    if !is_word(id, "") || id.ends_with(['_', '-']) {
        return Some(format!(
            "'{id}'. Expected an ID that contains letters, numbers, underscores, or dashes, but this value \
             contained additional characters."
        ));
    }
    (id.len() > MAX_ITEM_ID).then(|| too_long("string", MAX_ITEM_ID, id.len()))
}

/// A type as it reads in the API's sentences: `function_call` becomes `function call`.
fn spaced(kind: &str) -> String {
    kind.replace('_', " ")
}

#[cfg(test)]
mod tests;
