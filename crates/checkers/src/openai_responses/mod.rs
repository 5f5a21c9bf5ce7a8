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

/// The types of calls that wait for an output. The output's type is the call's with `_output` appended, except for a search.
const ANSWERED: [&str; 7] = [
    "tool_search_call",
    "function_call",
    "custom_tool_call",
    "local_shell_call",
    "shell_call",
    "apply_patch_call",
    "computer_call",
];

/// The types of items, the prefix of their ids, and their fields, each with its type; a question mark marks an optional field.
/// Items with `-` have separate rules.
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

pub(crate) struct OpenAiResponses;

impl OpenAi for OpenAiResponses {}

dialect!(OpenAiResponses, State<'a>, settings::SETTINGS, Provider { schema: "RSP-schema", ..words::OPENAI });

/// The author of a list of parts, which decides the types that they may have.
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
    /// The position of the last output that could answer each call.
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
    fn request(&mut self, body: At<'a>) {
        self.check_settings(&body);
        self.optional_text(&body.get("instructions"));
        let names = self.tools(&body.get("tools"));
        self.tool_choice(&body, &names);
        self.state.chained = !body["previous_response_id"].is_null() || !body["conversation"].is_null();
        let input = body.get("input");
        match input.value {
            Some(Value::String(_)) => self.text(&input),
            Some(Value::Array(_)) => self.items(&input),
            Some(_) => self.mistyped(&input, "one of a string or array of objects"),
            None => self.missing(&input),
        }
    }

    fn items(&mut self, input: &At<'a>) {
        self.array_length("RSP-schema", input, usize::MAX);
        let items = input.items();
        for (i, item) in items.iter().enumerate() {
            if let (Some(call), Some(id)) = (answered_by(type_of(item)), call_id_of(item)) {
                self.state.last_output.insert((call, id), i);
            }
        }
        for (i, item) in items.iter().enumerate() {
            let kind = type_of(item);
            if self.object(item, "an object") {
                self.item(kind, item);
            }
            if kind == "reasoning" && !items.get(i + 1).is_some_and(is_of_the_model) {
                self.not_followed(item);
            }
            self.calls_and_outputs_are_paired(i, kind, item);
        }
    }

    fn not_followed(&mut self, reasoning: &At<'a>) {
        let id = reasoning["id"].as_str().unwrap_or_default();
        let message =
            format!("Item '{id}' of type 'reasoning' was provided without its required following item.");
        self.refuse("RSP-04", reasoning, message);
    }

    fn calls_and_outputs_are_paired(&mut self, i: usize, kind: &'a str, item: &At<'a>) {
        let Some(id) = call_id_of(item) else { return };
        if ANSWERED.contains(&kind) {
            if !self.state.call_ids.insert(id) {
                self.refuse("RSP-10", item, format!("Duplicate 'call_id': {id}"));
            }
            self.state.open.insert((kind, id));
            if self.state.last_output.get(&(kind, id)).is_none_or(|&output| output < i) {
                self.refuse("RSP-01", item, format!("No tool output found for {} {id}.", spaced(kind)));
            }
        } else if let Some(call) = answered_by(kind) {
            if self.state.open.remove(&(call, id)) {
                self.state.answered.insert((call, id));
            } else if self.state.answered.contains(&(call, id)) {
                self.refuse("RSP-10", item, format!("Duplicate 'call_id': {id}"));
            } else if !self.state.chained {
                let message = format!("No tool call found for {} output with call_id {id}.", spaced(call));
                self.refuse("RSP-02", item, message);
            }
        }
    }
}

/// The settings beside the items.
impl<'a> Check<'a, OpenAiResponses> {
    /// Returns the declared names, each with the type of its tool.
    fn tools(&mut self, tools: &At<'a>) -> HashSet<(&'a str, &'a str)> {
        let mut names = HashSet::new();
        if tools.value.is_none() {
            return names;
        }
        let list = self.list(tools, "an array of objects").unwrap_or_default();
        if !list.is_empty() {
            self.array_length("RSP-schema", tools, MAX_TOOLS);
        }
        for tool in list {
            match tool.get("type").text() {
                Some(kind @ ("function" | "custom")) => {
                    self.name(&tool.get("name"));
                    self.optional_object(&tool.get("parameters"));
                    if let Some(name) = tool.get("name").text()
                        && !names.insert((kind, name))
                    {
                        self.repeated_tool(name, &tool);
                    }
                }
                Some(_) => {}
                None if tool.is_object() => self.mistyped(&tool.get("type"), "a string"),
                None => self.mistyped(&tool, "an object"),
            }
        }
        names
    }

    fn tool_choice(&mut self, body: &At<'a>, names: &HashSet<(&str, &str)>) {
        let choice = body.get("tool_choice");
        match choice.value {
            None => {}
            Some(Value::String(mode)) if mode == "none" || mode == "auto" => {}
            Some(Value::String(mode)) if mode == "required" && !list(&body["tools"]).is_empty() => {}
            Some(Value::String(mode)) if mode == "required" => {
                let message = "Tool choice 'required' must be specified with 'tools' parameter.";
                self.refuse("RSP-schema", &choice, message);
            }
            Some(Value::Object(_)) => match choice["type"].as_str() {
                Some(kind @ ("function" | "custom")) => {
                    let name = choice["name"].as_str().unwrap_or_default();
                    if !names.contains(&(kind, name)) {
                        self.undeclared_tool(name);
                    }
                }
                Some(_) => {}
                None => self.missing(&choice.get("type")),
            },
            Some(_) => self.invalid_value(&choice, &["none", "auto", "required"]),
        }
    }
}

/// One item.
impl<'a> Check<'a, OpenAiResponses> {
    fn item(&mut self, kind: &'a str, item: &At<'a>) {
        if kind == "item_reference" {
            return self.not_stored(item);
        }
        self.item_id(kind, item);
        let waits = !kind.starts_with("tool_search") || !item["call_id"].is_null();
        if waits && (ANSWERED.contains(&kind) || answered_by(kind).is_some()) {
            self.call_id(&item.get("call_id"));
        }
        let output = item.get("output");
        match kind {
            "" => {
                let kind = item.get("type");
                if kind.value.is_some() {
                    self.mistyped(&kind, "a string");
                } else {
                    self.missing(&kind);
                }
            }
            "message" => self.message(item),
            "reasoning" => self.reasoning(item),
            "function_call" | "custom_tool_call" => {
                let given = if kind == "function_call" { "arguments" } else { "input" };
                self.name(&item.get("name"));
                self.free_text("RSP-16", &item.get(given));
            }
            "function_call_output" | "custom_tool_call_output" => self.words(Words::ForTheModel, &output),
            "local_shell_call" => self.local_shell_action(&item.get("action")),
            "local_shell_call_output" => self.free_text("RSP-schema", &output),
            "shell_call" => self.strings(&item.get("action").get("commands")),
            "shell_call_output" => self.shell_output(&output),
            "apply_patch_call" => self.patch(&item.get("operation")),
            "apply_patch_call_output" => self.optional_text(&output),
            "computer_call" => {}
            "computer_call_output" => {
                if self.object(&output, "an object") {
                    self.source(&["image_url", "file_id"], &output);
                    self.image(&output.get("image_url"));
                }
            }
            _ => self.other(kind, item),
        }
        self.status(kind, &item.get("status"));
    }

    /// Judges an item that is neither a message nor a call, or that is unknown to the API.
    fn other(&mut self, kind: &str, item: &At<'a>) {
        let Some((.., fields)) = ITEMS.iter().find(|(known, ..)| *known == kind) else {
            let message = format!("Invalid value: '{kind}'. Supported values are the types of input items.");
            return self.refuse("RSP-schema", &item.get("type"), message);
        };
        for (name, form) in fields.split(' ').filter_map(|field| field.split_once(':')) {
            let value = item.get(name);
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
                self.missing(&value);
            } else if !value.is_null() && !fits {
                self.mistyped(&value, required);
            }
        }
        match (kind, item.get("id").text(), item["approval_request_id"].as_str()) {
            ("mcp_approval_request", Some(id), _) => {
                self.state.approvals.insert(id);
            }
            ("mcp_approval_response", _, Some(id))
                if !self.state.approvals.contains(id) && !self.state.chained =>
            {
                self.refuse("RSP-02", item, format!("No approval request found with id {id}."));
            }
            ("additional_tools", ..) if item["role"] != "developer" => {
                self.invalid_value(&item.get("role"), &["developer"]);
            }
            _ => {}
        }
    }

    fn not_stored(&mut self, item: &At<'_>) {
        let id = item["id"].as_str().unwrap_or_default();
        let message = format!(
            "Item with id '{id}' not found. Items are not persisted when `store` is set to false. Try again \
             with `store` set to true, or remove this item from your input."
        );
        self.refuse("RSP-06", item, message);
    }

    fn item_id(&mut self, kind: &str, item: &At<'a>) {
        let needs_id = ITEMS.iter().any(|(known, _, fields)| *known == kind && fields.starts_with("id:"));
        let is_optional = kind.ends_with("_output") || prefix_of(kind).is_none() || kind == "web_search_call";
        let at = item.get("id");
        let id = match at.value {
            None => return,
            Some(Value::Null) if is_optional && !needs_id => return,
            Some(Value::String(id)) => id.as_str(),
            Some(_) => return self.mistyped(&at, "a string"),
        };
        if let Some(reason) = prefix_of(kind).and_then(|prefix| id_fault(id, prefix)) {
            self.refuse_at("RSP-09", &at, &reason);
        } else if id.is_empty() && kind == "tool_search_call" {
            self.refuse_at("RSP-09", &at, "empty string.");
        }
        // By the API's types, the id of this output is that of the call.
        if kind != "local_shell_call_output" && !self.state.item_ids.insert(id) {
            let message = format!(
                "Duplicate item found with id {id}. Remove duplicate items from your input and try again."
            );
            self.refuse("RSP-10", &at, message);
        }
    }

    fn call_id(&mut self, at: &At<'a>) {
        if let Some(id) = self.string(at) {
            self.id_length("RSP-11", id, MAX_CALL_ID, at);
        }
    }

    fn status(&mut self, kind: &str, status: &At<'_>) {
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
        match status.value {
            None if required => self.missing(status),
            None => {}
            Some(Value::Null) if kind == "tool_search_call" => {}
            Some(Value::Null) if answered_by(kind).is_some() && !required => {}
            Some(Value::String(status)) if supported.contains(&status.as_str()) => {}
            Some(_) => self.invalid_value(status, supported),
        }
    }

    fn message(&mut self, message: &At<'a>) {
        let role = message.get("role");
        let words = match role.text() {
            Some("assistant") => Words::OfTheModel,
            Some("system" | "developer" | "user") => Words::ForTheModel,
            other => {
                let name = other.unwrap_or(if role.value.is_some() { kind_of(&role) } else { "" });
                let message = format!(
                    "Invalid value: '{name}'. Supported values are: 'assistant', 'system', 'developer', and \
                     'user'."
                );
                return self.refuse("RSP-13", &role, message);
            }
        };
        self.words(words, &message.get("content"));
    }

    fn reasoning(&mut self, item: &At<'a>) {
        let summary = item.get("summary");
        if self.list(&summary, "an array of objects").is_some() {
            self.reasoning_parts("summary_text", &summary);
        }
        let content = item.get("content");
        if content.is_given() {
            self.needs_type(&content, Value::is_array, "an array of objects");
        }
        self.reasoning_parts("reasoning_text", &content);
        let blob = item.get("encrypted_content");
        if !blob.is_given() {
            self.not_stored(item);
        } else if is_filled(&blob) {
            self.text(&blob);
        } else {
            let message = format!(
                "The encrypted content {} could not be verified. Reason: Encrypted content could not \
                 be decrypted or parsed.",
                blob.text().unwrap_or(kind_of(&blob))
            );
            self.refuse("RSP-07", &blob, message);
        }
    }

    fn reasoning_parts(&mut self, kind: &str, parts: &At<'a>) {
        for part in parts.items() {
            if part["type"] != kind {
                self.invalid_value(&part.get("type"), &[kind]);
            } else {
                self.free_text("RSP-schema", &part.get("text"));
            }
        }
    }

    fn local_shell_action(&mut self, action: &At<'a>) {
        if action["type"] != "exec" {
            self.invalid_value(&action.get("type"), &["exec"]);
        }
        self.strings(&action.get("command"));
        self.optional_object(&action.get("env"));
    }

    fn shell_output(&mut self, output: &At<'a>) {
        self.needs_type(output, Value::is_array, "an array of objects");
        for chunk in output.items() {
            self.free_text("RSP-schema", &chunk.get("stdout"));
            self.free_text("RSP-schema", &chunk.get("stderr"));
            let outcome = chunk.get("outcome");
            match outcome["type"].as_str() {
                Some("timeout") => {}
                Some("exit") => self.needs_type(&outcome.get("exit_code"), Value::is_i64, "an integer"),
                _ => self.invalid_value(&outcome.get("type"), &["timeout", "exit"]),
            }
        }
    }

    fn patch(&mut self, operation: &At<'a>) {
        let kinds = ["create_file", "delete_file", "update_file"];
        let Some(kind) = operation["type"].as_str().filter(|kind| kinds.contains(kind)) else {
            return self.invalid_value(&operation.get("type"), &kinds);
        };
        self.free_text("RSP-schema", &operation.get("path"));
        if kind != "delete_file" {
            self.free_text("RSP-schema", &operation.get("diff"));
        }
    }
}

/// Texts and lists of parts.
impl<'a> Check<'a, OpenAiResponses> {
    fn words(&mut self, whose: Words, words: &At<'a>) {
        match words.value {
            Some(Value::String(_)) => self.text(words),
            Some(Value::Array(_)) => {
                self.array_length("RSP-schema", words, usize::MAX);
                words.items().iter().for_each(|part| self.part(whose, part));
            }
            Some(_) => self.mistyped(words, "one of a string or array of objects"),
            None => self.missing(words),
        }
    }

    fn part(&mut self, whose: Words, part: &At<'a>) {
        if !self.object(part, "an object") {
            return;
        }
        let kind = part.get("type");
        match (whose, kind.text().unwrap_or_default()) {
            (Words::ForTheModel, "input_text") => self.free_text("RSP-schema", &part.get("text")),
            (Words::ForTheModel, "input_image") => {
                self.optional_text(&part.get("detail"));
                self.source(&["image_url", "file_id"], part);
                self.image(&part.get("image_url"));
            }
            (Words::ForTheModel, "input_file") => {
                self.optional_text(&part.get("filename"));
                self.source(&["file_id", "file_data", "file_url"], part);
                self.file(part);
            }
            (Words::OfTheModel, "output_text") => {
                self.free_text("RSP-schema", &part.get("text"));
                let fits = |value: &Value| value.is_array() || value.is_null();
                self.check_type(&part.get("annotations"), fits, "an array of objects");
            }
            (Words::OfTheModel, "refusal") => self.free_text("RSP-schema", &part.get("refusal")),
            _ => {
                let supported = match whose {
                    Words::OfTheModel => "'output_text' and 'refusal'",
                    Words::ForTheModel => "'input_text', 'input_image', and 'input_file'",
                };
                let name = kind.text().unwrap_or(kind_of(&kind));
                let message = format!("Invalid value: '{name}'. Supported values are: {supported}.");
                self.refuse("RSP-12", &kind, message);
            }
        }
    }

    /// Judges fields of which exactly one must name the source of a part's bytes.
    fn source(&mut self, fields: &[&str], part: &At<'a>) {
        for field in fields {
            self.optional_text(&part.get(field));
        }
        let given: Vec<&&str> =
            fields.iter().filter(|field| !part[**field].is_null() && part[**field] != "").collect();
        if given.is_empty()
            || part["file_id"].as_str().is_some_and(|id| !id.is_empty() && id.trim().is_empty())
        {
            self.missing(&part.get(fields[0]));
        } else if given.len() > 1 {
            let message = format!("Mutually exclusive parameters: '{}' and '{}'.", given[0], given[1]);
            self.refuse("RSP-schema", part, message);
        }
    }

    fn file(&mut self, part: &At<'_>) {
        self.file_data(part);
        let url = part["file_url"].as_str().unwrap_or_default();
        if !url.is_empty() && !media::is_address(url, &["https://", "http://"]) {
            let place = bracketed(&part.path);
            let message = format!(
                "Invalid '{place}.file_url'. Expected a valid URL, but got a value with an invalid format."
            );
            self.refuse("SAN-09", part, message);
        }
    }

    fn free_text(&mut self, rule: &'static str, at: &At<'a>) {
        match at.value {
            Some(Value::String(_)) => self.text(at),
            Some(found) => self.fault(rule, at, &FaultKind::Type { expected: "a string", found }),
            None => self.fault(rule, at, &FaultKind::Missing),
        }
    }

    fn optional_text(&mut self, at: &At<'a>) {
        if at.is_given() {
            self.needs_type(at, Value::is_string, "a string");
        }
        self.text(at);
    }

    fn strings(&mut self, list: &At<'a>) {
        self.needs_type(list, Value::is_array, "an array of strings");
        list.items().iter().for_each(|text| self.free_text("RSP-schema", text));
    }

    fn name(&mut self, at: &At<'_>) {
        match &**at {
            Value::String(name) => self.tool_name("RSP-schema", name, at),
            Value::Null => self.missing(at),
            _ => self.mistyped(at, "a string"),
        }
    }

    fn invalid_value(&mut self, at: &At<'_>, supported: &[&str]) {
        let got = at.text().unwrap_or(kind_of(at));
        let supported = supported.join("', '");
        let message = format!("Invalid value: '{got}'. Supported values are: '{supported}'.");
        self.refuse("RSP-schema", at, message);
    }
}

/// The type of an item, which a message and a reference may omit; empty if there is none.
fn type_of<'a>(item: &At<'a>) -> &'a str {
    match item.field("type") {
        Some(kind) => kind.as_str().unwrap_or_default(),
        None if item.field("role").is_some() => "message",
        None if item.field("id").is_some() => "item_reference",
        None => "",
    }
}

fn call_id_of<'a>(item: &At<'a>) -> Option<&'a str> {
    item.field("call_id")?.as_str()
}

/// The type of call that an output answers.
fn answered_by(output: &str) -> Option<&str> {
    if output == "tool_search_output" {
        return Some("tool_search_call");
    }
    output.strip_suffix("_output").filter(|call| ANSWERED.contains(call))
}

/// True for an item that a model can produce after its reasoning.
fn is_of_the_model(item: &At<'_>) -> bool {
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
    // A separator at the end is refused in the same words, although they do not fit.
    if !is_word(id, "") || id.ends_with(['_', '-']) {
        return Some(format!(
            "'{id}'. Expected an ID that contains letters, numbers, underscores, or dashes, but this value \
             contained additional characters."
        ));
    }
    (id.len() > MAX_ITEM_ID).then(|| too_long("string", MAX_ITEM_ID, id.len()))
}

/// A type in the form of the API's sentences: `function_call` becomes `function call`.
fn spaced(kind: &str) -> String {
    kind.replace('_', " ")
}

#[cfg(test)]
mod tests;
