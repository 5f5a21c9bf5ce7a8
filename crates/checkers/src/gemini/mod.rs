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

/// The fields of a part in addition to its data.
const BESIDE_DATA: &str = "thought thoughtSignature partMetadata videoMetadata mediaResolution";

pub(crate) struct Gemini;

dialect!(Gemini, (), settings::SETTINGS, Provider { schema: "GEM-schema", spelling: camel, ..words::GOOGLE });

/// The role that a content plays in the order of turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A user's content that is not a response to a call.
    User,
    /// A model's content without a call.
    Model,
    Calls,
    Responses,
    /// A content of an unknown role, whose position cannot be judged.
    Other,
}

/// The facts about a content that the rules between contents need.
struct Turn<'a> {
    kind: Kind,
    /// Name and id of each call in a model's content, or of each response in any other.
    ends: Vec<End<'a>>,
    /// The index of the part with the first call, and whether that call is signed.
    first_call: Option<(usize, bool)>,
}

/// A call or a response, with the values that must match between them.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct End<'a> {
    name: &'a str,
    /// Empty if there is none, as in protocol buffers.
    id: &'a str,
}

impl<'a> Turn<'a> {
    fn read(content: &At<'a>, is_only: bool) -> Self {
        let role = role_of(content, is_only);
        let parts = content.get("parts").items();
        let held = if role == Some("model") { "functionCall" } else { "functionResponse" };
        let ends: Vec<End> = parts.iter().filter_map(|part| End::read(&field(part, held))).collect();
        let kind = match (role, ends.is_empty()) {
            (Some("model"), true) => Kind::Model,
            (Some("model"), false) => Kind::Calls,
            (_, false) => Kind::Responses,
            (Some("user"), true) => Kind::User,
            (_, true) => Kind::Other,
        };
        let first_call = parts.iter().position(|part| field(part, "functionCall").is_given());
        let first_call = first_call.map(|j| (j, field(&parts[j], "thoughtSignature").is_given()));
        Turn { kind, ends, first_call }
    }
}

impl<'a> End<'a> {
    fn read(end: &At<'a>) -> Option<Self> {
        let text = |name| end.get(name).text().unwrap_or_default();
        end.is_object().then(|| End { name: text("name"), id: text("id") })
    }
}

/// The request and the rules between its contents.
impl<'a> Check<'a, Gemini> {
    fn request(&mut self, body: At<'a>) {
        self.check_settings(&body);
        self.one_spelling(&At { path: "body".to_owned(), ..body.clone() });
        let system = field(&body, "systemInstruction");
        if system.is_given() {
            self.system(&system);
        }
        self.tools(&field(&body, "tools"));
        let contents = field(&body, "contents");
        if contents.is_given() && !contents.is_array() {
            return self.invalid(&contents, "Content list");
        }
        let contents = contents.items();
        if contents.is_empty() {
            return self.fault("GEM-07", "contents", &FaultKind::Missing);
        }
        let is_only = contents.len() == 1;
        let turns: Vec<Turn> = contents.iter().map(|content| Turn::read(content, is_only)).collect();
        // The current turn is everything after the user's last text, or everything if there is none.
        let current = turns.iter().rposition(|turn| turn.kind == Kind::User).unwrap_or(0);
        for (i, content) in contents.iter().enumerate() {
            self.content(content, is_only);
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
impl<'a> Check<'a, Gemini> {
    fn system(&mut self, system: &At<'a>) {
        if !system.is_object() {
            return self.invalid(system, "Content");
        }
        self.known_fields(system, "role parts");
        self.optional_string(system, "role");
        for part in self.parts(system) {
            self.part(&part, "user");
            if let Some(kind) = DATA.split(' ').skip(1).find(|kind| field(&part, kind).is_given()) {
                let message = format!("{}: {kind} is not supported: text only.", bracketed(&part.path));
                self.refuse("GEM-schema", &part, message);
            }
        }
    }

    fn tools(&mut self, tools: &At<'a>) {
        let mut names = HashSet::new();
        for tool in self.optional_list(tools, "Tool list") {
            if !tool.is_object() {
                self.invalid(&tool, "Tool");
                continue;
            }
            self.one_spelling(&tool);
            let declarations = field(&tool, "functionDeclarations");
            for declaration in self.optional_list(&declarations, "FunctionDeclaration list") {
                self.declaration(&declaration, &mut names);
            }
        }
    }

    fn declaration(&mut self, declaration: &At<'a>, names: &mut HashSet<&'a str>) {
        if !declaration.is_object() {
            return self.invalid(declaration, "FunctionDeclaration");
        }
        self.one_spelling(declaration);
        self.name(declaration);
        if let Some(name) = field(declaration, "name").text()
            && !names.insert(name)
        {
            self.refuse("GEM-schema", declaration, format!("Duplicate function declaration found: {name}"));
        }
        for schema in ["parameters", "parametersJsonSchema"] {
            let schema = field(declaration, schema);
            if schema.is_given() && !schema.is_object() {
                self.invalid(&schema, "Schema");
            }
        }
    }
}

/// One content and its parts.
impl<'a> Check<'a, Gemini> {
    fn content(&mut self, content: &At<'a>, is_only: bool) {
        if !content.is_object() {
            return self.invalid(content, "Content");
        }
        self.known_fields(content, "role parts");
        let (role, given) = (role_of(content, is_only), field(content, "role"));
        match role {
            Some("user" | "model") => {}
            Some(role) => {
                let message =
                    format!("Role '{role}' is not supported. Please use a valid role: user, model.");
                self.refuse("GEM-08", &given, message);
            }
            None if given.is_given() && !given.is_string() => self.invalid(&given, "TYPE_STRING"),
            None => self.refuse("GEM-schema", &given, "Please use a valid role: user, model."),
        }
        let parts = self.parts(content);
        for part in &parts {
            self.part(part, role.unwrap_or_default());
        }
        self.responses_stand_alone(&parts, role);
    }

    /// Returns the parts; empty if there is no list of them.
    fn parts(&mut self, content: &At<'a>) -> Vec<At<'a>> {
        let parts = field(content, "parts");
        if !parts.is_given() || parts.as_array().is_some_and(Vec::is_empty) {
            self.refuse_at("GEM-07", &parts, "contents.parts must not be empty.");
        }
        self.optional_list(&parts, "Part list")
    }

    fn responses_stand_alone(&mut self, parts: &[At<'a>], role: Option<&str>) {
        let is_response = |part: &At<'_>| field(part, "functionResponse").is_given();
        if role == Some("user")
            && parts.iter().any(is_response)
            && let Some(other) = parts.iter().find(|part| !is_response(part))
        {
            self.refuse("GEM-04", other, UNEQUAL);
        }
    }

    fn part(&mut self, part: &At<'a>, role: &str) {
        if !part.is_object() {
            return self.invalid(part, "Part");
        }
        self.known_fields(part, &format!("{DATA} {BESIDE_DATA}"));
        let data = DATA.split(' ').map(|kind| (kind, field(part, kind)));
        let mut data = data.filter(|(_, value)| value.is_given());
        let place = bracketed(&part.path);
        let Some((kind, value)) = data.next() else {
            let reason = "required oneof field 'data' must have one initialized field";
            let message = (words::GOOGLE.words)(&format!("{place}.data"), &FaultKind::Other(reason));
            return self.refuse("GEM-07", part, message);
        };
        if let Some((second, _)) = data.next() {
            let message = format!(
                "Invalid value at '{place}' (oneof), oneof field 'data' is already set. Cannot set '{second}'"
            );
            self.refuse("GEM-schema", part, message);
        }
        self.data(kind, &value);
        self.speaker(kind, role, part);
        self.thought(kind, role, part);
    }

    fn data(&mut self, kind: &str, value: &At<'a>) {
        if kind == "text" {
            if !value.is_string() {
                self.invalid(value, "TYPE_STRING");
            }
            return;
        }
        if !value.is_object() {
            return self.invalid(value, kind);
        }
        match kind {
            "inlineData" => self.blob(value),
            "fileData" => {
                self.known_fields(value, "mimeType fileUri displayName");
                let is_filled = self.filled(value, "fileUri");
                let uri = field(value, "fileUri").text().unwrap_or_default();
                if is_filled && !media::is_address(uri, &["https://", "http://", "gs://"]) {
                    self.refuse("SAN-09", value, format!("Invalid or unsupported file uri: {uri}"));
                }
                self.optional_string(value, "mimeType");
            }
            "functionCall" => self.call(value),
            "functionResponse" => self.response(value),
            "executableCode" => {
                self.filled(value, "language");
                self.optional_string(value, "code");
            }
            _ => {
                self.filled(value, "outcome");
                self.optional_string(value, "output");
            }
        }
    }

    fn blob(&mut self, blob: &At<'a>) {
        self.known_fields(blob, "mimeType data displayName");
        self.filled(blob, "mimeType");
        let is_filled = self.filled(blob, "data");
        let at = field(blob, "data");
        let data = at.text().unwrap_or_default();
        if is_filled && !is_base64(data) {
            let place = bracketed(&at.path);
            let message = format!("Invalid value at '{place}' (TYPE_BYTES), Base64 decoding failed");
            return self.refuse("GEM-schema", &at, message);
        }
        let mime = field(blob, "mimeType").text().unwrap_or_default().to_ascii_lowercase();
        let mime = mime.split(';').next().unwrap_or_default().trim();
        if is_filled && !mime.is_empty() && !media::is_type(mime) {
            self.refuse("SAN-09", blob, format!("Unsupported MIME type: {mime}"));
        } else if is_filled && !mime.is_empty() && media::names_another_type(mime, data) {
            let message = "Unable to process input image. Please retry or report in \
                           https://developers.generativeai.google/guide/troubleshooting";
            self.refuse("SAN-09", blob, message);
        }
    }

    fn call(&mut self, call: &At<'a>) {
        self.known_fields(call, "id name args partialArgs willContinue");
        self.optional_string(call, "id");
        self.name(call);
        let args = field(call, "args");
        if args.is_given() {
            self.structure(&args);
        }
    }

    fn response(&mut self, response: &At<'a>) {
        self.known_fields(response, "id name response parts willContinue scheduling");
        self.optional_string(response, "id");
        self.name(response);
        // Unlike arguments, the response of a function is a required field.
        self.structure(&field(response, "response"));
        for part in self.optional_list(&field(response, "parts"), "FunctionResponsePart list") {
            if part.is_object() {
                self.known_fields(&part, "inlineData");
            }
            let blob = field(&part, "inlineData");
            match blob.value.or(part.value) {
                Some(Value::Object(_)) if blob.is_given() => self.blob(&blob),
                other => self.invalid(&At { value: other, ..part }, "inlineData"),
            }
        }
    }

    fn structure(&mut self, at: &At<'_>) {
        let place = bracketed(&at.path);
        if !at.is_object() {
            let got = kind_of(at);
            let message =
                format!("Invalid value at '{place}' (type.googleapis.com/google.protobuf.Struct), {got}");
            self.refuse("GEM-10", at, message);
        } else if nests_deeper(at, MAX_NESTING) {
            let message = format!("{place}: Message too deep. Max recursion depth reached.");
            self.refuse("SAN-07", at, message);
        }
    }

    fn speaker(&mut self, kind: &str, role: &str, part: &At<'_>) {
        let of_role = match kind {
            "functionCall" if role == "user" => "model",
            "functionResponse" if role == "model" => "user",
            _ => return,
        };
        let place = bracketed(&part.path);
        let message = format!(
            "{place}: a {kind} is not supported under role '{role}'. Please use a valid role: {of_role}."
        );
        self.refuse("GEM-08", part, message);
    }

    fn thought(&mut self, kind: &str, role: &str, part: &At<'_>) {
        let thought = field(part, "thought");
        if thought.is_given() && !thought.is_boolean() {
            self.invalid(&thought, "TYPE_BOOL");
        } else if *thought == true && (role != "model" || !["text", "inlineData"].contains(&kind)) {
            let message = format!("{}: thought is not supported here.", bracketed(&part.path));
            self.refuse("GEM-schema", &thought, message);
        }
        let signature = field(part, "thoughtSignature");
        let sound = signature.text().is_some_and(|text| !text.is_empty() && is_base64(text));
        if signature.is_given() && !sound {
            self.refuse("GEM-12", &signature, "Corrupted thought signature.");
        }
    }
}

/// Checks that several of the above share.
impl<'a> Check<'a, Gemini> {
    fn name(&mut self, holder: &At<'_>) {
        let name = field(holder, "name");
        let is_legal = name.text().is_some_and(|name| {
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
            self.refuse_at("GEM-09", &name, &reason);
        }
    }

    /// The items of an optional list.
    fn optional_list(&mut self, at: &At<'a>, expected: &str) -> Vec<At<'a>> {
        if at.is_given() && !at.is_array() {
            self.invalid(at, expected);
        }
        at.items()
    }

    /// Refuses a missing or empty text; returns whether it is present.
    fn filled(&mut self, holder: &At<'_>, name: &str) -> bool {
        let at = field(holder, name);
        if at.is_given() && !at.is_string() {
            self.invalid(&at, "TYPE_STRING");
        } else if !is_filled(&at) {
            self.schema(&at, "must not be empty.");
        }
        is_filled(&at)
    }

    fn optional_string(&mut self, holder: &At<'_>, name: &str) {
        let at = field(holder, name);
        if at.is_given() && !at.is_string() {
            self.invalid(&at, "TYPE_STRING");
        }
    }

    /// Refuses every field that is not listed in `known`, which is separated by spaces, in either spelling.
    fn known_fields(&mut self, at: &At<'_>, known: &str) {
        for name in at.keys().filter(|name| !known.split(' ').any(|known| known == camel(name))) {
            let message = format!(
                "Invalid JSON payload received. Unknown name \"{name}\" at '{}': Cannot find field.",
                bracketed(&at.path)
            );
            self.refuse("GEM-schema", at, message);
        }
        self.one_spelling(at);
    }

    /// Refuses a field that is written in both of its spellings.
    fn one_spelling(&mut self, at: &At<'_>) {
        for name in at.keys().filter(|name| name.contains('_')) {
            let other = camel(name);
            if other != *name && at.get(&other).value.is_some() {
                let place = bracketed(&at.path);
                let message = format!("Invalid value at '{place}': field '{name}' is already set.");
                self.refuse("GEM-schema", at, message);
            }
        }
    }

    fn invalid(&mut self, at: &At<'_>, expected: &str) {
        let (place, got) = (bracketed(&at.path), kind_of(at));
        self.refuse("GEM-schema", at, format!("Invalid value at '{place}' ({expected}), {got}"));
    }
}

/// The role of a content. A lone content without one is the user's.
fn role_of<'a>(content: &At<'a>, is_only: bool) -> Option<&'a str> {
    match content.get("role").value {
        Some(Value::String(role)) if !role.is_empty() => Some(role),
        None | Some(Value::Null | Value::String(_)) if is_only => Some("user"),
        _ => None,
    }
}

/// True if each call has a response with its name and, if both sides have ids, with its id; in any order.
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

/// A field by its name in either spelling; null is absence.
fn field<'a>(at: &At<'a>, name: &str) -> At<'a> {
    let value = at.value.and_then(|value| value.get(name).or_else(|| value.get(snake(name))));
    at.child(name, value.filter(|value| !value.is_null()))
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

/// `function_call` becomes `functionCall`; other spellings stay unchanged.
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
