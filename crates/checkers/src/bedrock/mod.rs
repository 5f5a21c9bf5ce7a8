//! The strict checker of Bedrock Converse request bodies: an oracle that answers as Claude on Bedrock would,
//! for tests and for `check --for`. Judges every `BED-…` rule that a body alone can break.
//! Shares nothing with the codec of this dialect and never patches a body; what the rulebook leaves unsure
//! is refused, and so is `null` in a known field. Unknown block types pass, since models add their own.

mod settings;

use std::collections::HashSet;

use crate::{
    prelude::*,
    turns::{self, Misfit, Turn},
};

const MAX_WORD: usize = 64;
const MAX_INPUT_NESTING: usize = 128;
const MAX_DOCUMENT_NAME: usize = 200;
/// How many images a message may have, and how many bytes each. "3.75 MB" and "4.5 MB" are read as the smaller of their
/// two meanings.
const MAX_IMAGES: (usize, usize) = (20, 3_750_000);
/// The same for documents.
const MAX_DOCUMENTS: (usize, usize) = (5, 4_500_000);

const IMAGE_FORMATS: &[&str] = &["png", "jpeg", "gif", "webp"];
const DOCUMENT_FORMATS: &[&str] = &["pdf", "csv", "doc", "docx", "xls", "xlsx", "html", "txt", "md"];
const VIDEO_FORMATS: &[&str] = &["mkv", "mov", "mp4", "webm", "flv", "mpeg", "mpg", "wmv", "three_gp"];

/// Bedrock's Converse API.
pub(crate) struct Bedrock;

/// The media in one message and in its results.
#[derive(Default)]
pub(crate) struct Media<'a> {
    images: usize,
    documents: usize,
    names: HashSet<&'a str>,
}

dialect!(Bedrock, Media<'a>, settings::SETTINGS, Provider { schema: "BED-schema", ..words::AWS });

/// The request and the rules between its messages.
impl<'a> Check<'a, Bedrock> {
    fn request(&mut self, fields: &'a Fields) {
        self.check_settings(fields);
        self.system(fields.get("system"));
        let declares_tools = self.tool_config(fields.get("toolConfig"));
        let Some(messages) = self.list(fields.get("messages"), "a list", "messages") else { return };
        let id = |kind: &'static str| move |block: &'a Value| Some(&block.get(kind)?["toolUseId"]);
        let read = |message| Turn::read(message, id("toolUse"), id("toolResult"));
        let turns: Vec<Turn> = messages.iter().map(read).collect();
        if self.scope != Scope::Messages && !declares_tools && turns.iter().any(|turn| turn.uses_tools) {
            let message =
                "The toolConfig field must be defined when using toolUse and toolResult content blocks.";
            self.refuse("BED-06", "toolConfig", message);
        }
        if turns.first().is_none_or(|first| first.role != "user") {
            let path = if turns.is_empty() { "messages" } else { "messages.0" };
            let message = "A conversation must start with a user message. Try again with a conversation \
                           that starts with a user message.";
            self.refuse("BED-05", path, message);
        }
        for (i, message) in messages.iter().enumerate() {
            self.alternates(i, &turns);
            self.message(i, message);
            self.results_answer_the_previous(i, &turns);
            self.calls_are_answered_next(i, &turns);
        }
        if turns.last().is_some_and(|last| last.role != "user") {
            let message = "A conversation must end with a user message. Try again with a conversation that \
                           ends with a user message.";
            self.refuse("BED-05", format!("messages.{}", turns.len() - 1), message);
        }
    }

    fn alternates(&mut self, i: usize, turns: &[Turn]) {
        let role = turns[i].role;
        let repeats = i > 0 && !role.is_empty() && turns[i - 1].role == role;
        if repeats || role == "system" {
            let message = "A conversation must alternate between user and assistant roles. Make sure the \
                           conversation alternates between user and assistant roles and try again.";
            self.refuse("BED-04", format!("messages.{i}"), message);
        }
    }

    fn results_answer_the_previous(&mut self, i: usize, turns: &[Turn]) {
        let mut late = Vec::new();
        for (path, id, misfit) in turns::misfits(i, turns) {
            if matches!(misfit, Misfit::Late) {
                late.push((path, id));
                continue;
            }
            let message = format!(
                "The number of toolResult blocks at messages.{i}.content exceeds the number of toolUse \
                 blocks of previous turn."
            );
            self.refuse("BED-02", path, message);
        }
        if let Some((path, _)) = late.first() {
            let ids: Vec<&str> = late.iter().map(|(_, id)| *id).collect();
            self.refuse("BED-01", path.clone(), unanswered(i, &ids));
        }
    }

    fn calls_are_answered_next(&mut self, i: usize, turns: &[Turn]) {
        let mut seen = HashSet::new();
        let repeated: Vec<&str> = turns[i].calls.iter().copied().filter(|id| !seen.insert(*id)).collect();
        if !repeated.is_empty() {
            let ids = repeated.join(", ");
            let message = format!("The toolUse blocks at messages.{i}.content contain duplicate Ids: {ids}");
            self.refuse("BED-03", format!("messages.{i}.content"), message);
        }
        let missing = turns::unanswered(i, turns);
        if !missing.is_empty() {
            self.refuse("BED-01", format!("messages.{i}"), unanswered(i + 1, &missing));
        }
    }
}

/// The settings beside the messages.
impl<'a> Check<'a, Bedrock> {
    fn system(&mut self, system: Option<&'a Value>) {
        let Some(system) = system else { return };
        let blocks = self.list(Some(system), "a list", "system").unwrap_or_default();
        for (k, block) in blocks.iter().enumerate() {
            let path = format!("system.{k}");
            match member(block) {
                Some(("text", text)) => self.text("SystemContentBlock", text, &path),
                Some(("cachePoint", mark)) => self.cache_point(mark, &path),
                Some(("guardContent", content)) => self.guarded(content, &path),
                _ => self.union(&path, "text, guardContent, cachePoint"),
            }
        }
    }

    /// Returns whether at least one tool is declared.
    fn tool_config(&mut self, config: Option<&'a Value>) -> bool {
        let tools = match config {
            None => return false,
            Some(Value::Object(config)) => config.get("tools").unwrap_or(&Value::Null),
            Some(_) => {
                self.schema("toolConfig", "Member must be a structure");
                return false;
            }
        };
        let Some(tools) = self.list(Some(tools), "a list", "toolConfig.tools") else { return false };
        let mut names = HashSet::new();
        let mut declares_tools = false;
        for (k, tool) in tools.iter().enumerate() {
            let path = format!("toolConfig.tools.{k}");
            match member(tool) {
                Some(("cachePoint", mark)) => self.cache_point(mark, &path),
                Some((kind, of_kind)) => {
                    declares_tools = true;
                    let path = format!("{path}.{kind}");
                    if kind == "toolSpec" {
                        self.tool_spec(of_kind, &path);
                    }
                    if let Some(name) = of_kind["name"].as_str()
                        && !names.insert(name)
                    {
                        let message = format!("The toolConfig field contains duplicate tool names: {name}");
                        self.refuse("BED-schema", path, message);
                    }
                }
                None => self.union(&path, "toolSpec, systemTool, cachePoint"),
            }
        }
        if !declares_tools {
            self.fault("BED-06", "toolConfig.tools", &What::Empty);
        }
        self.tool_choice(config.and_then(|config| config.get("toolChoice")), &names);
        true // faults of a declaration are reported above
    }

    fn tool_spec(&mut self, spec: &'a Value, path: &str) {
        self.word(spec, "name", "[a-zA-Z0-9_-]+", path);
        match spec.get("description") {
            None => {}
            Some(Value::String(text)) if !text.is_empty() => {}
            Some(_) => self.fault("BED-schema", &format!("{path}.description"), &What::Empty),
        }
        let path = format!("{path}.inputSchema");
        match member(&spec["inputSchema"]) {
            Some(("json", Value::Object(schema))) => {
                if schema.get("type").is_none_or(|kind| kind != "object") {
                    let message =
                        format!("The value at {path}.json.type must be one of the following: object.");
                    self.refuse("BED-schema", format!("{path}.json.type"), message);
                }
            }
            Some(("json", _)) => {
                let message =
                    format!("The format of the value at {path}.json is invalid. Provide a json object.");
                self.refuse("BED-schema", format!("{path}.json"), message);
            }
            _ => self.union(&path, "json"),
        }
    }

    fn tool_choice(&mut self, choice: Option<&Value>, names: &HashSet<&str>) {
        match choice.and_then(member) {
            None if choice.is_none() => {}
            Some(("auto" | "any", Value::Object(_))) => {}
            Some(("tool", tool)) => {
                if !tool["name"].as_str().is_some_and(|name| names.contains(name)) {
                    let message = "The toolChoice.tool.name field must be the name of a tool in toolConfig.";
                    self.refuse("BED-schema", "toolConfig.toolChoice.tool", message);
                }
            }
            _ => self.union("toolConfig.toolChoice", "auto, any, tool"),
        }
    }
}

/// One message and its blocks.
impl<'a> Check<'a, Bedrock> {
    fn message(&mut self, i: usize, message: &'a Value) {
        let path = format!("messages.{i}");
        if !message.is_object() {
            return self.mistyped(&path, "a structure", message);
        }
        let role = match message["role"].as_str() {
            Some(role @ ("user" | "assistant" | "system")) => role,
            Some(_) => {
                let reason = "Member must satisfy enum value set: [user, assistant]";
                return self.schema(&format!("{path}.role"), reason);
            }
            None => return self.missing(&format!("{path}.role")),
        };
        let content = format!("{path}.content");
        let Some(blocks) = self.list(Some(&message["content"]), "a list", &content) else { return };
        // A cache point is not content.
        if blocks.iter().all(|block| block.get("cachePoint").is_some()) {
            let message = format!(
                "The content field in the Message object at {path} is empty. Add a ContentBlock object to \
                 the content field and try again."
            );
            self.refuse("BED-09", &*content, message);
        }
        self.state = Media::default();
        for (j, block) in blocks.iter().enumerate() {
            let path = format!("{content}.{j}");
            match member(block) {
                Some((kind, of_kind)) => self.block(role, kind, of_kind, &path),
                None => self.union(&path, "text, image, document, toolUse, toolResult, …"),
            }
        }
        self.documents_have_a_text(blocks, &content);
        self.media_are_few(&content);
    }

    fn block(&mut self, role: &str, kind: &str, block: &'a Value, path: &str) {
        let is_media = ["image", "document", "video", "audio"].contains(&kind);
        if is_media && role == "assistant" {
            let message = format!(
                "The {kind} field at {path} is not supported for the assistant role. Include media only in \
                 user messages."
            );
            return self.refuse("BED-11", path, message);
        }
        let only_in = match kind {
            "toolUse" | "reasoningContent" | "citationsContent" => "assistant",
            "toolResult" | "guardContent" => "user",
            _ => role,
        };
        if role != only_in && role != "system" {
            let message = format!("The {kind} block at {path} is only supported for the {only_in} role.");
            return self.refuse("BED-schema", path, message);
        }
        match kind {
            "text" => self.text("ContentBlock", block, path),
            "toolUse" => self.call(block, path),
            "toolResult" => self.tool_result(block, path),
            "reasoningContent" => self.reasoning(block, path),
            "cachePoint" => self.cache_point(block, path),
            "guardContent" => self.guarded(block, path),
            "citationsContent" => self.cited(block, path),
            _ if is_media => self.medium(kind, block, path),
            _ => {}
        }
    }

    fn call(&mut self, call: &'a Value, path: &str) {
        let path = format!("{path}.toolUse");
        self.word(call, "toolUseId", "[a-zA-Z0-9_.:-]+", &path);
        self.word(call, "name", "[a-zA-Z0-9_-]+", &path);
        let input = &call["input"];
        if !input.is_object() || nests_deeper(input, MAX_INPUT_NESTING) {
            let message = format!("The format of the value at {path}.input is invalid.");
            self.refuse("BED-08", format!("{path}.input"), message);
        }
    }

    fn tool_result(&mut self, result: &'a Value, path: &str) {
        let path = format!("{path}.toolResult");
        self.word(result, "toolUseId", "[a-zA-Z0-9_.:-]+", &path);
        let content = format!("{path}.content");
        if let Some(blocks) = self.list(result.get("content"), "a list", &content) {
            if blocks.is_empty() {
                let message = format!("The content field in the ToolResultBlock object at {path} is empty.");
                self.refuse("BED-09", &*content, message);
            }
            for (k, block) in blocks.iter().enumerate() {
                self.result_block(block, &format!("{content}.{k}"));
            }
            self.documents_have_a_text(blocks, &content);
        }
        if result.get("status").is_some() {
            self.one_of(result, "status", &["success", "error"], &path);
        }
    }

    fn result_block(&mut self, block: &'a Value, path: &str) {
        match member(block) {
            Some(("text", text)) => self.text("ToolResultContentBlock", text, path),
            Some(("json", json)) => {
                if !json.is_object() {
                    let message = format!(
                        "The format of the value at {path}.json is invalid. Provide a json object for the \
                         field and try again."
                    );
                    self.refuse("BED-schema", format!("{path}.json"), message);
                }
            }
            Some((kind @ ("image" | "document" | "video"), medium)) => self.medium(kind, medium, path),
            Some(("searchResult", _)) => {}
            _ => self.union(path, "json, text, image, document, video, searchResult"),
        }
    }

    fn reasoning(&mut self, reasoning: &'a Value, path: &str) {
        let path = format!("{path}.reasoningContent");
        match member(reasoning) {
            Some(("reasoningText", thought)) => {
                // A model that hides its thoughts sends an empty text with a signature.
                if !thought["text"].is_string() {
                    self.missing(&format!("{path}.reasoningText.text"));
                }
                if thought["signature"].as_str().is_none_or(str::is_empty) {
                    let message = format!("{path}.reasoningText: thinking.signature: Field required");
                    self.refuse("BED-10", format!("{path}.reasoningText"), message);
                }
            }
            Some(("redactedContent", sealed)) => {
                if sealed.as_str().and_then(media::decoded_length).is_none() {
                    self.schema(&format!("{path}.redactedContent"), "Member must be a base64 blob");
                }
            }
            _ => self.union(&path, "reasoningText, redactedContent"),
        }
    }

    fn guarded(&mut self, content: &'a Value, path: &str) {
        let path = format!("{path}.guardContent");
        match member(content) {
            Some(("text", text)) => self.text("GuardrailConverseTextBlock", &text["text"], &path),
            Some(("image", image)) => {
                self.one_of(image, "format", &["png", "jpeg"], &path);
                self.source("image", &image["source"], &path);
            }
            _ => self.union(&path, "text, image"),
        }
    }

    fn cited(&mut self, block: &'a Value, path: &str) {
        let path = format!("{path}.citationsContent");
        if !block.is_object() {
            return self.mistyped(&path, "a structure", block);
        }
        for field in ["content", "citations"] {
            self.check_type(block.get(field), Value::is_array, "a list", &format!("{path}.{field}"));
        }
        self.texts("CitationGeneratedContent", list(&block["content"]), &format!("{path}.content"));
    }
}

/// Images, documents and videos.
impl<'a> Check<'a, Bedrock> {
    fn medium(&mut self, kind: &str, medium: &'a Value, path: &str) {
        let path = format!("{path}.{kind}");
        if !medium.is_object() {
            return self.mistyped(&path, "a structure", medium);
        }
        match kind {
            "image" => {
                self.state.images += 1;
                self.one_of(medium, "format", IMAGE_FORMATS, &path);
            }
            "document" => {
                self.state.documents += 1;
                if medium.get("format").is_some() {
                    self.one_of(medium, "format", DOCUMENT_FORMATS, &path);
                }
                self.document_name(&medium["name"], &path);
            }
            "video" => self.one_of(medium, "format", VIDEO_FORMATS, &path),
            _ => {}
        }
        self.source(kind, &medium["source"], &path);
        self.format_fits(kind, medium, &path);
    }

    fn format_fits(&mut self, kind: &str, medium: &Value, path: &str) {
        let (Some(format), Some(data)) = (medium["format"].as_str(), medium["source"]["bytes"].as_str())
        else {
            return;
        };
        let said = match (kind, format) {
            ("image", _) => format!("image/{format}"),
            ("document", "pdf") => "application/pdf".to_owned(),
            ("document", "txt" | "md" | "csv" | "html") => format!("text/{format}"),
            ("document", _) => format!("a document in the format {format}"),
            _ => return,
        };
        if media::decoded_length(data).is_some() && media::names_another_type(&said, data) {
            let message = format!("The {kind} at {path} could not be processed: its bytes are not {said}.");
            self.refuse("SAN-09", path, message);
        }
    }

    fn source(&mut self, kind: &str, source: &'a Value, path: &str) {
        let path = format!("{path}.source");
        match member(source) {
            Some(("bytes", bytes)) => {
                let Some(length) = bytes.as_str().and_then(media::decoded_length) else {
                    let reason = "Member must be a base64 blob of length greater than or equal to 1";
                    return self.schema(&format!("{path}.bytes"), reason);
                };
                let max = match kind {
                    "image" => MAX_IMAGES.1,
                    "document" => MAX_DOCUMENTS.1,
                    _ => usize::MAX,
                };
                if length > max {
                    let message =
                        format!("The {kind} at {path} has {length} bytes, above the maximum of {max}.");
                    self.refuse("BED-11", path, message);
                }
            }
            Some(("s3Location", location)) => {
                let bucket = location["uri"].as_str().and_then(|uri| uri.strip_prefix("s3://"));
                if bucket.is_none_or(str::is_empty) {
                    let reason = "Member must satisfy regular expression pattern: s3://[a-z0-9][\\.\\-a-z0-9]\
                                  {1,61}[a-z0-9](/.*)?";
                    self.schema(&format!("{path}.s3Location.uri"), reason);
                }
            }
            Some(("text", text)) if kind == "document" => self.text("DocumentSource", text, &path),
            Some(("content", Value::Array(parts))) if kind == "document" && !parts.is_empty() => {
                self.texts("DocumentContentBlock", parts, &format!("{path}.content"));
            }
            _ if kind == "document" => self.union(&path, "bytes, s3Location, text, content"),
            _ => self.union(&path, "bytes, s3Location"),
        }
    }

    fn document_name(&mut self, name: &'a Value, path: &str) {
        let path = format!("{path}.name");
        let Some(name) = name.as_str() else {
            return self.missing(&path);
        };
        let is_legal = |c: char| c.is_ascii_alphanumeric() || " -()[]".contains(c);
        let legal = !name.is_empty()
            && name.len() <= MAX_DOCUMENT_NAME
            && name.chars().all(is_legal)
            && !name.contains("  ");
        if !legal {
            let message = format!(
                "The document name at {path} can only contain alphanumeric characters, whitespace \
                 characters, hyphens, parentheses, and square brackets, no more than one consecutive \
                 whitespace character, and 1 to {MAX_DOCUMENT_NAME} characters."
            );
            self.refuse("BED-11", &*path, message);
        }
        if !self.state.names.insert(name) {
            let message = format!("The document name at {path} is not unique in its message: {name}");
            self.refuse("BED-11", path, message);
        }
    }

    fn documents_have_a_text(&mut self, blocks: &[Value], path: &str) {
        let has = |kind: &str| blocks.iter().any(|block| block.get(kind).is_some());
        if has("document") && !has("text") {
            let message =
                format!("The content at {path} has a document field and must also have a text field.");
            self.refuse("BED-11", path, message);
        }
    }

    fn media_are_few(&mut self, path: &str) {
        let counted = [
            ("images", self.state.images, MAX_IMAGES.0),
            ("documents", self.state.documents, MAX_DOCUMENTS.0),
        ];
        for (what, count, max) in counted {
            if count > max {
                let message =
                    format!("The content at {path} has {count} {what}, above the maximum of {max}.");
                self.refuse("BED-11", path, message);
            }
        }
    }
}

/// Checks that several of the above share.
impl<'a> Check<'a, Bedrock> {
    fn text(&mut self, holder: &str, text: &Value, path: &str) {
        match text.as_str() {
            Some(text) if text.chars().all(is_space) => {
                let message = format!(
                    "The text field in the {holder} object at {path} is blank. Add text to the text field, \
                     and try again."
                );
                self.refuse("BED-09", path, message);
            }
            Some(_) => {}
            None => self.mistyped(&format!("{path}.text"), "a string", text),
        }
    }

    /// Judges a list that holds texts only.
    fn texts(&mut self, holder: &str, parts: &[Value], path: &str) {
        for (k, part) in parts.iter().enumerate() {
            let path = format!("{path}.{k}");
            match member(part) {
                Some(("text", text)) => self.text(holder, text, &path),
                _ => self.union(&path, "text"),
            }
        }
    }

    /// Judges an id or a name.
    fn word(&mut self, fields: &'a Value, field: &str, pattern: &str, path: &str) {
        let path = format!("{path}.{field}");
        let Some(word) = fields[field].as_str() else { return self.missing(&path) };
        if !is_word(word, if field == "toolUseId" { ".:" } else { "" }) {
            let reason = format!("Member must satisfy regular expression pattern: {pattern}");
            self.refuse_at("BED-07", &path, &reason);
        }
        let found = word.chars().count();
        if found > MAX_WORD {
            self.fault("BED-07", &path, &What::TooMany { most: MAX_WORD, found });
        }
    }

    fn one_of(&mut self, fields: &Value, field: &str, allowed: &'static [&'static str], path: &str) {
        let found = &fields[field];
        if !found.as_str().is_some_and(|value| allowed.contains(&value)) {
            self.fault("BED-schema", &format!("{path}.{field}"), &What::NotOneOf { allowed, found });
        }
    }

    fn cache_point(&mut self, mark: &Value, path: &str) {
        self.one_of(mark, "type", &["default"], &format!("{path}.cachePoint"));
    }

    fn union(&mut self, path: &str, members: &str) {
        self.schema(path, &format!("Exactly one member must be set of: {members}"));
    }
}

fn unanswered(i: usize, ids: &[&str]) -> String {
    format!("Expected toolResult blocks at messages.{i}.content for the following Ids: {}", ids.join(", "))
}

/// The only member of a union; none if it has more, or none.
fn member(union: &Value) -> Option<(&str, &Value)> {
    let fields = union.as_object()?;
    let (name, value) = fields.iter().next()?;
    (fields.len() == 1).then_some((name.as_str(), value))
}

#[cfg(test)]
mod tests;
