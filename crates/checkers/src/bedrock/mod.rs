//! The strict checker of Bedrock Converse request bodies: an oracle that answers as Claude on Bedrock would,
//! for tests and for `check --for`. Judges every `BED-…` rule that a body alone can break.
//! Shares nothing with the codec of this dialect and never patches a body; what the rulebook leaves unsure
//! is refused, and so is `null` in a known field. Unknown block types pass, since models add their own.

mod settings;

use std::collections::HashSet;

use crate::{
    prelude::*,
    turns::{self, MisplacedResult, Turn},
};

const MAX_WORD: usize = 64;
const MAX_INPUT_NESTING: usize = 128;
const MAX_DOCUMENT_NAME: usize = 200;
/// How many images a message may have, and how many bytes each. "3.75 MB" and "4.5 MB" are read in the smaller of their two
/// meanings.
const MAX_IMAGES: (usize, usize) = (20, 3_750_000);
/// How many documents a message may have, and how many bytes each.
const MAX_DOCUMENTS: (usize, usize) = (5, 4_500_000);

const IMAGE_FORMATS: &[&str] = &["png", "jpeg", "gif", "webp"];
const DOCUMENT_FORMATS: &[&str] = &["pdf", "csv", "doc", "docx", "xls", "xlsx", "html", "txt", "md"];
const VIDEO_FORMATS: &[&str] = &["mkv", "mov", "mp4", "webm", "flv", "mpeg", "mpg", "wmv", "three_gp"];

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
    fn request(&mut self, body: At<'a>) {
        self.check_settings(&body);
        self.system(&body.get("system"));
        let declares_tools = self.tool_config(&body.get("toolConfig"));
        let Some(messages) = self.list(&body.get("messages"), "a list") else { return };
        let id = |kind: &'static str| move |block: &'a Value| Some(&block.get(kind)?["toolUseId"]);
        let read = |message: &At<'a>| Turn::read(message, id("toolUse"), id("toolResult"));
        let turns: Vec<Turn> = messages.iter().map(read).collect();
        if self.extent != Extent::Messages && !declares_tools && turns.iter().any(|turn| turn.uses_tools) {
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
            self.message(message);
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
            if matches!(misfit, MisplacedResult::Late) {
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
    fn system(&mut self, system: &At<'a>) {
        if system.value.is_none() {
            return;
        }
        for block in self.list(system, "a list").unwrap_or_default() {
            match member(&block) {
                Some(("text", text)) => self.text("SystemContentBlock", &text, &block),
                Some(("cachePoint", mark)) => self.cache_point(&mark),
                Some(("guardContent", content)) => self.guarded(&content),
                _ => self.union(&block, "text, guardContent, cachePoint"),
            }
        }
    }

    /// Returns whether at least one tool is declared.
    fn tool_config(&mut self, config: &At<'a>) -> bool {
        if config.value.is_none() {
            return false;
        }
        if !config.is_object() {
            self.schema(config, "Member must be a structure");
            return false;
        }
        let tools = config.get("tools");
        if !tools.is_array() {
            self.mistyped(&tools, "a list");
            return false;
        }
        let mut names = HashSet::new();
        let mut declares_tools = false;
        for tool in tools.items() {
            match member(&tool) {
                Some(("cachePoint", mark)) => self.cache_point(&mark),
                Some((kind, of_kind)) => {
                    declares_tools = true;
                    if kind == "toolSpec" {
                        self.tool_spec(&of_kind);
                    }
                    if let Some(name) = of_kind.get("name").text()
                        && !names.insert(name)
                    {
                        let message = format!("The toolConfig field contains duplicate tool names: {name}");
                        self.refuse("BED-schema", &of_kind, message);
                    }
                }
                None => self.union(&tool, "toolSpec, systemTool, cachePoint"),
            }
        }
        if !declares_tools {
            self.fault("BED-06", &tools, &FaultKind::Empty);
        }
        self.tool_choice(&config.get("toolChoice"), &names);
        true // faults of a declaration are reported above
    }

    fn tool_spec(&mut self, spec: &At<'a>) {
        self.word(&spec.get("name"), "[a-zA-Z0-9_-]+");
        let description = spec.get("description");
        if description.value.is_some() && !is_filled(&description) {
            self.fault("BED-schema", &description, &FaultKind::Empty);
        }
        let schema = spec.get("inputSchema");
        let Some(("json", json)) = member(&schema) else { return self.union(&schema, "json") };
        if !json.is_object() {
            let path = &json.path;
            let message = format!("The format of the value at {path} is invalid. Provide a json object.");
            self.refuse("BED-schema", &json, message);
        } else if json["type"] != "object" {
            let kind = json.get("type");
            let message = format!("The value at {} must be one of the following: object.", kind.path);
            self.refuse("BED-schema", &kind, message);
        }
    }

    fn tool_choice(&mut self, choice: &At<'a>, names: &HashSet<&str>) {
        match member(choice) {
            None if choice.value.is_none() => {}
            Some(("auto" | "any", mode)) if mode.is_object() => {}
            Some(("tool", tool)) => {
                if !tool["name"].as_str().is_some_and(|name| names.contains(name)) {
                    let message = "The toolChoice.tool.name field must be the name of a tool in toolConfig.";
                    self.refuse("BED-schema", &tool, message);
                }
            }
            _ => self.union(choice, "auto, any, tool"),
        }
    }
}

/// One message and its blocks.
impl<'a> Check<'a, Bedrock> {
    fn message(&mut self, message: &At<'a>) {
        if !self.object(message, "a structure") {
            return;
        }
        let role = match message["role"].as_str() {
            Some(role @ ("user" | "assistant" | "system")) => role,
            Some(_) => {
                let reason = "Member must satisfy enum value set: [user, assistant]";
                return self.schema(&message.get("role"), reason);
            }
            None => return self.missing(&message.get("role")),
        };
        let content = message.get("content");
        if !content.is_array() {
            return self.mistyped(&content, "a list");
        }
        let blocks = content.items();
        // A cache point is not content.
        if blocks.iter().all(|block| block.get("cachePoint").value.is_some()) {
            let message = format!(
                "The content field in the Message object at {} is empty. Add a ContentBlock object to \
                 the content field and try again.",
                message.path
            );
            self.refuse("BED-09", &content, message);
        }
        self.state = Media::default();
        for block in &blocks {
            match member(block) {
                Some((kind, of_kind)) => self.block(role, kind, &of_kind, block),
                None => self.union(block, "text, image, document, toolUse, toolResult, …"),
            }
        }
        self.documents_have_a_text(&content);
        self.media_are_few(&content);
    }

    /// Judges a block by its only member, whose name is its kind.
    fn block(&mut self, role: &str, kind: &str, member: &At<'a>, block: &At<'a>) {
        let path = &block.path;
        let is_media = ["image", "document", "video", "audio"].contains(&kind);
        if is_media && role == "assistant" {
            let message = format!(
                "The {kind} field at {path} is not supported for the assistant role. Include media only in \
                 user messages."
            );
            return self.refuse("BED-11", block, message);
        }
        let only_in = match kind {
            "toolUse" | "reasoningContent" | "citationsContent" => "assistant",
            "toolResult" | "guardContent" => "user",
            _ => role,
        };
        if role != only_in && role != "system" {
            let message = format!("The {kind} block at {path} is only supported for the {only_in} role.");
            return self.refuse("BED-schema", block, message);
        }
        match kind {
            "text" => self.text("ContentBlock", member, block),
            "toolUse" => self.call(member),
            "toolResult" => self.tool_result(member),
            "reasoningContent" => self.reasoning(member),
            "cachePoint" => self.cache_point(member),
            "guardContent" => self.guarded(member),
            "citationsContent" => self.cited(member),
            _ if is_media => self.medium(kind, member),
            _ => {}
        }
    }

    fn call(&mut self, call: &At<'a>) {
        self.word(&call.get("toolUseId"), "[a-zA-Z0-9_.:-]+");
        self.word(&call.get("name"), "[a-zA-Z0-9_-]+");
        let input = call.get("input");
        if !input.is_object() || nests_deeper(&input, MAX_INPUT_NESTING) {
            let message = format!("The format of the value at {} is invalid.", input.path);
            self.refuse("BED-08", &input, message);
        }
    }

    fn tool_result(&mut self, result: &At<'a>) {
        self.word(&result.get("toolUseId"), "[a-zA-Z0-9_.:-]+");
        let content = result.get("content");
        if let Some(blocks) = self.list(&content, "a list") {
            if blocks.is_empty() {
                let path = &result.path;
                let message = format!("The content field in the ToolResultBlock object at {path} is empty.");
                self.refuse("BED-09", &content, message);
            }
            blocks.iter().for_each(|block| self.result_block(block));
            self.documents_have_a_text(&content);
        }
        if result.get("status").value.is_some() {
            self.one_of(&result.get("status"), &["success", "error"]);
        }
    }

    fn result_block(&mut self, block: &At<'a>) {
        match member(block) {
            Some(("text", text)) => self.text("ToolResultContentBlock", &text, block),
            Some(("json", json)) => {
                if !json.is_object() {
                    let message = format!(
                        "The format of the value at {} is invalid. Provide a json object for the \
                         field and try again.",
                        json.path
                    );
                    self.refuse("BED-schema", &json, message);
                }
            }
            Some((kind @ ("image" | "document" | "video"), medium)) => self.medium(kind, &medium),
            Some(("searchResult", _)) => {}
            _ => self.union(block, "json, text, image, document, video, searchResult"),
        }
    }

    fn reasoning(&mut self, reasoning: &At<'a>) {
        match member(reasoning) {
            Some(("reasoningText", thought)) => {
                // A model that hides its reasoning sends an empty text with a signature.
                if !thought["text"].is_string() {
                    self.missing(&thought.get("text"));
                }
                if !is_filled(&thought["signature"]) {
                    let message = format!("{}: thinking.signature: Field required", thought.path);
                    self.refuse("BED-10", &thought, message);
                }
            }
            Some(("redactedContent", sealed)) => {
                if sealed.text().and_then(media::decoded_length).is_none() {
                    self.schema(&sealed, "Member must be a base64 blob");
                }
            }
            _ => self.union(reasoning, "reasoningText, redactedContent"),
        }
    }

    fn guarded(&mut self, content: &At<'a>) {
        match member(content) {
            Some(("text", text)) => self.text("GuardrailConverseTextBlock", &text.get("text"), content),
            Some(("image", image)) => {
                let image = At { path: content.path.clone(), ..image };
                self.one_of(&image.get("format"), &["png", "jpeg"]);
                self.source("image", &image.get("source"));
            }
            _ => self.union(content, "text, image"),
        }
    }

    fn cited(&mut self, block: &At<'a>) {
        if !self.object(block, "a structure") {
            return;
        }
        for field in ["content", "citations"] {
            self.check_type(&block.get(field), Value::is_array, "a list");
        }
        self.texts("CitationGeneratedContent", &block.get("content"));
    }
}

/// Images, documents and videos.
impl<'a> Check<'a, Bedrock> {
    fn medium(&mut self, kind: &str, medium: &At<'a>) {
        if !self.object(medium, "a structure") {
            return;
        }
        let format = medium.get("format");
        match kind {
            "image" => {
                self.state.images += 1;
                self.one_of(&format, IMAGE_FORMATS);
            }
            "document" => {
                self.state.documents += 1;
                if format.value.is_some() {
                    self.one_of(&format, DOCUMENT_FORMATS);
                }
                self.document_name(&medium.get("name"));
            }
            "video" => self.one_of(&format, VIDEO_FORMATS),
            _ => {}
        }
        self.source(kind, &medium.get("source"));
        self.format_fits(kind, medium);
    }

    fn format_fits(&mut self, kind: &str, medium: &At<'_>) {
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
            let path = &medium.path;
            let message = format!("The {kind} at {path} could not be processed: its bytes are not {said}.");
            self.refuse("SAN-09", medium, message);
        }
    }

    fn source(&mut self, kind: &str, source: &At<'a>) {
        match member(source) {
            Some(("bytes", bytes)) => {
                let Some(length) = bytes.text().and_then(media::decoded_length) else {
                    let reason = "Member must be a base64 blob of length greater than or equal to 1";
                    return self.schema(&bytes, reason);
                };
                let max = match kind {
                    "image" => MAX_IMAGES.1,
                    "document" => MAX_DOCUMENTS.1,
                    _ => usize::MAX,
                };
                if length > max {
                    let path = &source.path;
                    let message =
                        format!("The {kind} at {path} has {length} bytes, above the maximum of {max}.");
                    self.refuse("BED-11", source, message);
                }
            }
            Some(("s3Location", location)) => {
                let uri = location.get("uri");
                let bucket = uri.text().and_then(|uri| uri.strip_prefix("s3://"));
                if bucket.is_none_or(str::is_empty) {
                    let reason = "Member must satisfy regular expression pattern: s3://[a-z0-9][\\.\\-a-z0-9]\
                                  {1,61}[a-z0-9](/.*)?";
                    self.schema(&uri, reason);
                }
            }
            Some(("text", text)) if kind == "document" => self.text("DocumentSource", &text, source),
            Some(("content", parts)) if kind == "document" && !list(&parts).is_empty() => {
                self.texts("DocumentContentBlock", &parts);
            }
            _ if kind == "document" => self.union(source, "bytes, s3Location, text, content"),
            _ => self.union(source, "bytes, s3Location"),
        }
    }

    fn document_name(&mut self, at: &At<'a>) {
        let Some(name) = at.text() else { return self.missing(at) };
        let path = &at.path;
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
            self.refuse("BED-11", at, message);
        }
        if !self.state.names.insert(name) {
            let message = format!("The document name at {path} is not unique in its message: {name}");
            self.refuse("BED-11", at, message);
        }
    }

    fn documents_have_a_text(&mut self, content: &At<'_>) {
        let has = |kind: &str| list(content).iter().any(|block| block.get(kind).is_some());
        if has("document") && !has("text") {
            let path = &content.path;
            let message =
                format!("The content at {path} has a document field and must also have a text field.");
            self.refuse("BED-11", content, message);
        }
    }

    fn media_are_few(&mut self, content: &At<'_>) {
        let counted = [
            ("images", self.state.images, MAX_IMAGES.0),
            ("documents", self.state.documents, MAX_DOCUMENTS.0),
        ];
        for (what, count, max) in counted {
            if count > max {
                let path = &content.path;
                let message =
                    format!("The content at {path} has {count} {what}, above the maximum of {max}.");
                self.refuse("BED-11", content, message);
            }
        }
    }
}

/// Checks that several of the above share.
impl<'a> Check<'a, Bedrock> {
    fn text(&mut self, holder: &str, text: &At<'_>, block: &At<'_>) {
        match text.text() {
            Some(text) if text.chars().all(is_space) => {
                let message = format!(
                    "The text field in the {holder} object at {} is blank. Add text to the text field, \
                     and try again.",
                    block.path
                );
                self.refuse("BED-09", block, message);
            }
            Some(_) => {}
            None => self.mistyped(&block.child("text", text.value), "a string"),
        }
    }

    fn texts(&mut self, holder: &str, parts: &At<'a>) {
        for part in parts.items() {
            match member(&part) {
                Some(("text", text)) => self.text(holder, &text, &part),
                _ => self.union(&part, "text"),
            }
        }
    }

    /// Judges an id or a name.
    fn word(&mut self, at: &At<'a>, pattern: &str) {
        let Some(word) = at.text() else { return self.missing(at) };
        if !is_word(word, if pattern.contains('.') { ".:" } else { "" }) {
            let reason = format!("Member must satisfy regular expression pattern: {pattern}");
            self.refuse_at("BED-07", at, &reason);
        }
        let found = word.chars().count();
        if found > MAX_WORD {
            self.fault("BED-07", at, &FaultKind::TooMany { most: MAX_WORD, found });
        }
    }

    fn one_of(&mut self, at: &At<'_>, allowed: &'static [&'static str]) {
        if !at.text().is_some_and(|value| allowed.contains(&value)) {
            self.fault("BED-schema", at, &FaultKind::NotOneOf { allowed, found: at });
        }
    }

    fn cache_point(&mut self, mark: &At<'_>) {
        self.one_of(&mark.get("type"), &["default"]);
    }

    fn union(&mut self, at: &At<'_>, members: &str) {
        self.schema(at, &format!("Exactly one member must be set of: {members}"));
    }
}

fn unanswered(i: usize, ids: &[&str]) -> String {
    format!("Expected toolResult blocks at messages.{i}.content for the following Ids: {}", ids.join(", "))
}

/// The only member of a union; `None` if it has none or several.
fn member<'a>(union: &At<'a>) -> Option<(&'a str, At<'a>)> {
    let fields = union.value?.as_object()?;
    let (name, value) = fields.iter().next()?;
    (fields.len() == 1).then(|| (name.as_str(), union.child(name, Some(value))))
}

#[cfg(test)]
mod tests;
