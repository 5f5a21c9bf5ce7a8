//! The strict checker of Gemini `generateContent` request bodies: an oracle that answers as the strictest
//! known server would, for tests and for `check --for`. Judges every `GEM-…` rule that a body alone can break,
//! in the profile of Gemini 3. Shares nothing with the codec of this dialect and never patches a body; what
//! the rulebook leaves unsure is refused. The API reads JSON as protocol buffers do: a field may be written
//! `functionCall` or `function_call`, null is absence, and a field it does not know is an error.

mod settings;

use std::collections::{HashMap, HashSet};

use crate::prelude::*;

const MAX_NAME: usize = 64;
/// How deep arguments and responses may be nested; the rulebook only says that there is a limit.
const MAX_NESTING: usize = 128;

/// The fields that hold a part's data. A part has exactly one of them.
const DATA: &str =
    "text inlineData fileData functionCall functionResponse executableCode codeExecutionResult";

/// The fields of a part beside its data.
const BESIDE_DATA: &str = "thought thoughtSignature partMetadata videoMetadata mediaResolution";

/// Google's `generateContent` API.
pub(crate) struct Gemini;

dialect!(Gemini, (), settings::SETTINGS, Provider { schema: "GEM-schema", spelling: camel, ..words::GOOGLE });

/// The part that a content plays in the order of turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Of the user, and no response to a call.
    User,
    /// Of the model, without a call.
    Model,
    Calls,
    Responses,
    /// Of an unknown role, so that nothing is known about its place.
    Other,
}

/// A content reduced to what the rules between contents look at.
struct Turn<'a> {
    kind: Kind,
    /// Name and id of each call of a model's content, or of each response in any other.
    ends: Vec<End<'a>>,
    /// The part that holds the first call, and whether it is signed.
    first_call: Option<(usize, bool)>,
}

/// A call or a response, by what must match between them.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct End<'a> {
    name: &'a str,
    /// Empty where there is none, as protocol buffers have it.
    id: &'a str,
}

impl<'a> Turn<'a> {
    fn read(content: &'a Value, is_only: bool) -> Self {
        let role = role_of(content, is_only);
        let parts = list(&content["parts"]);
        let held = if role == Some("model") { "functionCall" } else { "functionResponse" };
        let ends: Vec<End> = parts.iter().filter_map(|part| End::read(field(part, held)?)).collect();
        let kind = match (role, ends.is_empty()) {
            (Some("model"), true) => Kind::Model,
            (Some("model"), false) => Kind::Calls,
            (_, false) => Kind::Responses,
            (Some("user"), true) => Kind::User,
            (_, true) => Kind::Other,
        };
        let first_call = parts.iter().position(|part| field(part, "functionCall").is_some());
        let first_call = first_call.map(|j| (j, field(&parts[j], "thoughtSignature").is_some()));
        Turn { kind, ends, first_call }
    }
}

impl<'a> End<'a> {
    fn read(end: &'a Value) -> Option<Self> {
        let text = |name| end.get(name).and_then(Value::as_str).unwrap_or_default();
        end.is_object().then(|| End { name: text("name"), id: text("id") })
    }
}

/// The request and the rules between its contents.
impl<'a> Check<'a, Gemini> {
    fn request(&mut self, fields: &'a Fields) {
        self.check_settings(fields);
        self.one_spelling(fields, "body");
        if let Some(system) = named(fields, "systemInstruction") {
            self.system(system);
        }
        if let Some(tools) = named(fields, "tools") {
            self.tools(tools);
        }
        let contents = match named(fields, "contents") {
            Some(Value::Array(contents)) => contents.as_slice(),
            None => &[],
            Some(other) => return self.invalid("contents", "Content list", other),
        };
        if contents.is_empty() {
            return self.fault("GEM-07", "contents", &What::Missing);
        }
        let is_only = contents.len() == 1;
        let turns: Vec<Turn> = contents.iter().map(|content| Turn::read(content, is_only)).collect();
        // The current turn is everything after the user's last words, or all of it if there are none.
        let current = turns.iter().rposition(|turn| turn.kind == Kind::User).unwrap_or(0);
        for (i, content) in contents.iter().enumerate() {
            self.content(content, is_only, &format!("contents.{i}"));
            self.order(i, &turns);
            self.responses_match_the_calls(i, &turns);
            if i >= current {
                self.step_is_signed(i, &turns[i]);
            }
            self.calls_are_answered_next(i, &turns);
        }
        if let Some(Turn { kind: Kind::Model | Kind::Calls, .. }) = turns.last() {
            let message =
                "Please ensure that multiturn requests ends with a user role or a function response.";
            self.refuse("GEM-06", format!("contents.{}", turns.len() - 1), message);
        }
    }

    fn order(&mut self, i: usize, turns: &[Turn]) {
        let before = i.checked_sub(1).map(|before| turns[before].kind);
        let (rule, message) = match (before, turns[i].kind) {
            (None | Some(Kind::Model | Kind::Calls), Kind::Calls) => (
                "GEM-01",
                "Please ensure that function call turn comes immediately after a user turn or after a function \
                 response turn.",
            ),
            (None | Some(Kind::User | Kind::Model | Kind::Other), Kind::Responses) => (
                "GEM-02",
                "Please ensure that function response turn comes immediately after a function call turn.",
            ),
            // All responses of a batch belong in one content.
            (Some(Kind::Responses), Kind::Responses) => ("GEM-03", UNEQUAL),
            (Some(Kind::User), Kind::User) | (Some(Kind::Model | Kind::Calls), Kind::Model) => {
                ("GEM-05", "Please ensure that multiturn requests alternate between user and model.")
            }
            _ => return,
        };
        self.refuse(rule, format!("contents.{i}"), message);
    }

    fn responses_match_the_calls(&mut self, i: usize, turns: &[Turn]) {
        let calls = i.checked_sub(1).map(|before| &turns[before]).filter(|turn| turn.kind == Kind::Calls);
        let (Some(calls), Kind::Responses) = (calls, turns[i].kind) else { return };
        let (path, calls, responses) = (format!("contents.{i}"), &calls.ends, &turns[i].ends);
        if calls.len() != responses.len() {
            self.refuse("GEM-03", path, UNEQUAL);
        } else if !are_matched(calls, responses) {
            let message = "Please ensure that the names and ids of the function responses are those of the \
                           function calls of the function call turn.";
            self.refuse("GEM-14", path, message);
        }
    }

    fn calls_are_answered_next(&mut self, i: usize, turns: &[Turn]) {
        if turns[i].kind != Kind::Calls {
            return;
        }
        let path = format!("contents.{i}");
        let ids = || turns[i].ends.iter().map(|call| call.id).filter(|id| !id.is_empty());
        if ids().collect::<HashSet<_>>().len() < ids().count() {
            let message = "Please ensure that the ids of the function calls of a turn are unique.";
            self.refuse("GEM-14", &*path, message);
        }
        if turns.get(i + 1).is_none_or(|next| next.kind != Kind::Responses) {
            self.refuse("GEM-03", path, UNEQUAL);
        }
    }

    fn step_is_signed(&mut self, i: usize, turn: &Turn) {
        if let (Kind::Calls, Some((j, false))) = (turn.kind, turn.first_call) {
            let name = turn.ends.first().map_or("", |call| call.name);
            let message = format!(
                "Function call is missing a thought_signature in functionCall parts. This is required for \
                 tools to work correctly. Additional data, function call `default_api:{name}` , position {}.",
                i + 1
            );
            self.refuse("GEM-11", format!("contents.{i}.parts.{j}"), message);
        }
    }
}

const UNEQUAL: &str = "Please ensure that the number of function response parts is equal to the number of \
                       function call parts of the function call turn.";

/// The settings beside the contents.
impl Check<'_, Gemini> {
    fn system(&mut self, system: &Value) {
        let Some(fields) = system.as_object() else {
            return self.invalid("systemInstruction", "Content", system);
        };
        self.known_fields(fields, "role parts", "systemInstruction");
        self.optional_string(fields, "role", "systemInstruction");
        for (j, part) in self.parts(fields, "systemInstruction").iter().enumerate() {
            let path = format!("systemInstruction.parts.{j}");
            self.part(part, "user", &path);
            if let Some(kind) = DATA.split(' ').skip(1).find(|kind| field(part, kind).is_some()) {
                let message = format!("{}: {kind} is not supported: text only.", bracketed(&path));
                self.refuse("GEM-schema", path, message);
            }
        }
    }

    fn tools(&mut self, tools: &Value) {
        let Some(tools) = tools.as_array() else { return self.invalid("tools", "Tool list", tools) };
        let mut names = HashSet::new();
        for (k, tool) in tools.iter().enumerate() {
            let path = format!("tools.{k}");
            let Some(fields) = tool.as_object() else {
                self.invalid(&path, "Tool", tool);
                continue;
            };
            self.one_spelling(fields, &path);
            let path = format!("{path}.functionDeclarations");
            match named(fields, "functionDeclarations") {
                None => {}
                Some(Value::Array(declarations)) => {
                    for (n, declaration) in declarations.iter().enumerate() {
                        self.declaration(declaration, &mut names, &format!("{path}.{n}"));
                    }
                }
                Some(other) => self.invalid(&path, "FunctionDeclaration list", other),
            }
        }
    }

    fn declaration<'a>(&mut self, declaration: &'a Value, names: &mut HashSet<&'a str>, path: &str) {
        let Some(fields) = declaration.as_object() else {
            return self.invalid(path, "FunctionDeclaration", declaration);
        };
        self.one_spelling(fields, path);
        self.name(fields, path);
        if let Some(name) = named(fields, "name").and_then(Value::as_str)
            && !names.insert(name)
        {
            self.refuse("GEM-schema", path, format!("Duplicate function declaration found: {name}"));
        }
        for schema in ["parameters", "parametersJsonSchema"] {
            if let Some(other) = named(fields, schema).filter(|schema| !schema.is_object()) {
                self.invalid(&format!("{path}.{schema}"), "Schema", other);
            }
        }
    }
}

/// One content and its parts.
impl Check<'_, Gemini> {
    fn content(&mut self, content: &Value, is_only: bool, path: &str) {
        let Some(fields) = content.as_object() else { return self.invalid(path, "Content", content) };
        self.known_fields(fields, "role parts", path);
        let role = role_of(content, is_only);
        match (named(fields, "role"), role) {
            (_, Some("user" | "model")) => {}
            (_, Some(role)) => {
                let message =
                    format!("Role '{role}' is not supported. Please use a valid role: user, model.");
                self.refuse("GEM-08", format!("{path}.role"), message);
            }
            (Some(other), None) if !other.is_string() => {
                self.invalid(&format!("{path}.role"), "TYPE_STRING", other);
            }
            (_, None) => {
                let message = "Please use a valid role: user, model.";
                self.refuse("GEM-schema", format!("{path}.role"), message);
            }
        }
        let parts = self.parts(fields, path);
        for (j, part) in parts.iter().enumerate() {
            self.part(part, role.unwrap_or_default(), &format!("{path}.parts.{j}"));
        }
        self.responses_stand_alone(parts, role, path);
    }

    /// Returns the parts; none if there is no list of them.
    fn parts<'a>(&mut self, content: &'a Fields, path: &str) -> &'a [Value] {
        let path = format!("{path}.parts");
        match named(content, "parts") {
            Some(Value::Array(parts)) if !parts.is_empty() => return parts,
            None | Some(Value::Array(_)) => {
                self.refuse_at("GEM-07", &path, "contents.parts must not be empty.");
            }
            Some(other) => self.invalid(&path, "Part list", other),
        }
        &[]
    }

    fn responses_stand_alone(&mut self, parts: &[Value], role: Option<&str>, path: &str) {
        let is_response = |part: &Value| field(part, "functionResponse").is_some();
        if role == Some("user")
            && parts.iter().any(is_response)
            && let Some(j) = parts.iter().position(|part| !is_response(part))
        {
            self.refuse("GEM-04", format!("{path}.parts.{j}"), UNEQUAL);
        }
    }

    fn part(&mut self, part: &Value, role: &str, path: &str) {
        let Some(fields) = part.as_object() else { return self.invalid(path, "Part", part) };
        self.known_fields(fields, &format!("{DATA} {BESIDE_DATA}"), path);
        let mut data = DATA.split(' ').filter_map(|kind| Some((kind, named(fields, kind)?)));
        let Some((kind, value)) = data.next() else {
            let reason = "required oneof field 'data' must have one initialized field";
            let place = format!("{}.data", bracketed(path));
            return self.refuse("GEM-07", path, (words::GOOGLE.words)(&place, &What::Other(reason)));
        };
        if let Some((second, _)) = data.next() {
            let message = format!(
                "Invalid value at '{}' (oneof), oneof field 'data' is already set. Cannot set '{second}'",
                bracketed(path)
            );
            self.refuse("GEM-schema", path, message);
        }
        self.data(kind, value, &format!("{path}.{kind}"));
        self.speaker(kind, role, path);
        self.thought(kind, fields, role, path);
    }

    fn data(&mut self, kind: &str, value: &Value, path: &str) {
        if kind == "text" {
            if !value.is_string() {
                self.invalid(path, "TYPE_STRING", value);
            }
            return;
        }
        let Some(fields) = value.as_object() else { return self.invalid(path, kind, value) };
        match kind {
            "inlineData" => self.blob(fields, path),
            "fileData" => {
                self.known_fields(fields, "mimeType fileUri displayName", path);
                let is_filled = self.filled(fields, "fileUri", path);
                let uri = named(fields, "fileUri").and_then(Value::as_str).unwrap_or_default();
                if is_filled && !media::is_address(uri, &["https://", "http://", "gs://"]) {
                    self.refuse("SAN-09", path, format!("Invalid or unsupported file uri: {uri}"));
                }
                self.optional_string(fields, "mimeType", path);
            }
            "functionCall" => self.call(fields, path),
            "functionResponse" => self.response(fields, path),
            "executableCode" => {
                self.filled(fields, "language", path);
                self.optional_string(fields, "code", path);
            }
            _ => {
                self.filled(fields, "outcome", path);
                self.optional_string(fields, "output", path);
            }
        }
    }

    fn blob(&mut self, blob: &Fields, path: &str) {
        self.known_fields(blob, "mimeType data displayName", path);
        self.filled(blob, "mimeType", path);
        let is_filled = self.filled(blob, "data", path);
        if let Some(data) = named(blob, "data").and_then(Value::as_str)
            && is_filled
            && !is_base64(data)
        {
            let path = format!("{path}.data");
            let message =
                format!("Invalid value at '{}' (TYPE_BYTES), Base64 decoding failed", bracketed(&path));
            return self.refuse("GEM-schema", path, message);
        }
        let mime = named(blob, "mimeType").and_then(Value::as_str).unwrap_or_default().to_ascii_lowercase();
        let mime = mime.split(';').next().unwrap_or_default().trim();
        let data = named(blob, "data").and_then(Value::as_str).unwrap_or_default();
        if is_filled && !mime.is_empty() && !media::is_type(mime) {
            self.refuse("SAN-09", path, format!("Unsupported MIME type: {mime}"));
        } else if is_filled && !mime.is_empty() && media::names_another_type(mime, data) {
            let message = "Unable to process input image. Please retry or report in \
                           https://developers.generativeai.google/guide/troubleshooting";
            self.refuse("SAN-09", path, message);
        }
    }

    fn call(&mut self, call: &Fields, path: &str) {
        self.known_fields(call, "id name args partialArgs willContinue", path);
        self.optional_string(call, "id", path);
        self.name(call, path);
        self.structure(named(call, "args"), &format!("{path}.args"));
    }

    fn response(&mut self, response: &Fields, path: &str) {
        self.known_fields(response, "id name response parts willContinue scheduling", path);
        self.optional_string(response, "id", path);
        self.name(response, path);
        // Unlike arguments, the response of a function is a required field.
        let given = named(response, "response").unwrap_or(&Value::Null);
        self.structure(Some(given), &format!("{path}.response"));
        let path = format!("{path}.parts");
        match named(response, "parts") {
            None => {}
            Some(Value::Array(parts)) => {
                for (j, part) in parts.iter().enumerate() {
                    let path = format!("{path}.{j}");
                    if let Some(fields) = part.as_object() {
                        self.known_fields(fields, "inlineData", &path);
                    }
                    match field(part, "inlineData") {
                        Some(Value::Object(blob)) => self.blob(blob, &format!("{path}.inlineData")),
                        other => self.invalid(&path, "inlineData", other.unwrap_or(part)),
                    }
                }
            }
            Some(other) => self.invalid(&path, "FunctionResponsePart list", other),
        }
    }

    fn structure(&mut self, value: Option<&Value>, path: &str) {
        let Some(value) = value else { return };
        let place = bracketed(path);
        if !value.is_object() {
            let got = kind_of(value);
            let message =
                format!("Invalid value at '{place}' (type.googleapis.com/google.protobuf.Struct), {got}");
            self.refuse("GEM-10", path, message);
        } else if nests_deeper(value, MAX_NESTING) {
            let message = format!("{place}: Message too deep. Max recursion depth reached.");
            self.refuse("SAN-07", path, message);
        }
    }

    fn speaker(&mut self, kind: &str, role: &str, path: &str) {
        let of_role = match kind {
            "functionCall" if role == "user" => "model",
            "functionResponse" if role == "model" => "user",
            _ => return,
        };
        let place = bracketed(path);
        let message = format!(
            "{place}: a {kind} is not supported under role '{role}'. Please use a valid role: {of_role}."
        );
        self.refuse("GEM-08", path, message);
    }

    fn thought(&mut self, kind: &str, part: &Fields, role: &str, path: &str) {
        match named(part, "thought") {
            None | Some(Value::Bool(false)) => {}
            Some(Value::Bool(true)) => {
                if role != "model" || !["text", "inlineData"].contains(&kind) {
                    let message = format!("{}: thought is not supported here.", bracketed(path));
                    self.refuse("GEM-schema", format!("{path}.thought"), message);
                }
            }
            Some(other) => self.invalid(&format!("{path}.thought"), "TYPE_BOOL", other),
        }
        match named(part, "thoughtSignature") {
            None => {}
            Some(Value::String(signature)) if !signature.is_empty() && is_base64(signature) => {}
            Some(_) => {
                self.refuse("GEM-12", format!("{path}.thoughtSignature"), "Corrupted thought signature.")
            }
        }
    }
}

/// Checks that several of the above share.
impl Check<'_, Gemini> {
    fn name(&mut self, fields: &Fields, path: &str) {
        let is_legal = named(fields, "name").and_then(Value::as_str).is_some_and(|name| {
            name.len() <= MAX_NAME
                && name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
                && is_word(name, ".:")
        });
        if !is_legal {
            let reason = format!(
                "Invalid function name. Must start with a letter or an underscore. Must be alphanumeric (a-z, \
                 A-Z, 0-9), underscores (_), dots (.), colons (:), or dashes (-), with a maximum length of \
                 {MAX_NAME}."
            );
            self.refuse_at("GEM-09", &format!("{path}.name"), &reason);
        }
    }

    /// Judges a text that must be there and hold something; returns whether it does.
    fn filled(&mut self, fields: &Fields, name: &str, path: &str) -> bool {
        let path = format!("{path}.{name}");
        match named(fields, name) {
            Some(Value::String(text)) if !text.is_empty() => return true,
            None | Some(Value::String(_)) => self.schema(&path, "must not be empty."),
            Some(other) => self.invalid(&path, "TYPE_STRING", other),
        }
        false
    }

    fn optional_string(&mut self, fields: &Fields, name: &str, path: &str) {
        if let Some(other) = named(fields, name).filter(|value| !value.is_string()) {
            self.invalid(&format!("{path}.{name}"), "TYPE_STRING", other);
        }
    }

    /// Refuses every field that is not among the known ones, which spaces separate, in either spelling.
    fn known_fields(&mut self, fields: &Fields, known: &str, path: &str) {
        for name in fields.keys().filter(|name| !known.split(' ').any(|known| known == camel(name))) {
            let message = format!(
                "Invalid JSON payload received. Unknown name \"{name}\" at '{}': Cannot find field.",
                bracketed(path)
            );
            self.refuse("GEM-schema", path, message);
        }
        self.one_spelling(fields, path);
    }

    /// Refuses a field that is written in both of its spellings.
    fn one_spelling(&mut self, fields: &Fields, path: &str) {
        for name in fields.keys().filter(|name| name.contains('_')) {
            let other = camel(name);
            if other != *name && fields.contains_key(&other) {
                let message =
                    format!("Invalid value at '{}': field '{name}' is already set.", bracketed(path));
                self.refuse("GEM-schema", path, message);
            }
        }
    }

    fn invalid(&mut self, path: &str, expected: &str, got: &Value) {
        let (place, got) = (bracketed(path), kind_of(got));
        self.refuse("GEM-schema", path, format!("Invalid value at '{place}' ({expected}), {got}"));
    }
}

/// The role of a content. A lone content without one is the user's.
fn role_of(content: &Value, is_only: bool) -> Option<&str> {
    match content.get("role") {
        Some(Value::String(role)) if !role.is_empty() => Some(role),
        None | Some(Value::Null | Value::String(_)) if is_only => Some("user"),
        _ => None,
    }
}

/// True if each call has a response of its name and, where both sides have ids, of its id; in any order.
fn are_matched<'a>(calls: &[End<'a>], responses: &[End<'a>]) -> bool {
    let have_ids = |ends: &[End]| ends.iter().any(|end| !end.id.is_empty());
    let by_id = have_ids(calls) && have_ids(responses);
    let key = |end: &End<'a>| End { name: end.name, id: if by_id { end.id } else { "" } };
    let mut open: HashMap<End, usize> = HashMap::new();
    for call in calls {
        *open.entry(key(call)).or_default() += 1;
    }
    responses.iter().all(|response| match open.get_mut(&key(response)) {
        Some(left) if *left > 0 => {
            *left -= 1;
            true
        }
        _ => false,
    })
}

fn field<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    named(value.as_object()?, name)
}

/// A field by its name in either spelling; null is absence.
fn named<'a>(fields: &'a Fields, name: &str) -> Option<&'a Value> {
    fields.get(name).or_else(|| fields.get(&snake(name))).filter(|value| !value.is_null())
}

/// `functionCall` becomes `function_call`.
fn snake(name: &str) -> String {
    let mut written = String::new();
    for c in name.chars() {
        if c.is_ascii_uppercase() {
            written.push('_');
        }
        written.push(c.to_ascii_lowercase());
    }
    written
}

/// `function_call` becomes `functionCall`; other spellings stay as they are.
fn camel(name: &str) -> String {
    let mut written = String::new();
    for word in name.split('_') {
        let (first, rest) = word.split_at_checked(1).unwrap_or((word, ""));
        written += if written.is_empty() { first.to_owned() } else { first.to_ascii_uppercase() }.as_str();
        written += rest;
    }
    if snake(&written) == name { written } else { name.to_owned() }
}

/// True for base64 in the standard or the URL-safe alphabet, with or without its padding.
fn is_base64(text: &str) -> bool {
    let digits = text.trim_end_matches('=');
    let padding = text.len() - digits.len();
    let of =
        |marks: [u8; 2]| digits.bytes().all(|byte| byte.is_ascii_alphanumeric() || marks.contains(&byte));
    let whole =
        if padding == 0 { digits.len() % 4 != 1 } else { padding <= 2 && text.len().is_multiple_of(4) };
    whole && (of(*b"+/") || of(*b"-_"))
}

#[cfg(test)]
mod tests;
