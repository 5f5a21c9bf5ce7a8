//! The faults that OpenAI's two dialects refuse in the same words: names, lengths, and media by their address.

use crate::prelude::*;

pub(crate) const MAX_NAME: usize = 64;
pub(crate) const MAX_TOOLS: usize = 128;
pub(crate) const MAX_TEXT: usize = 10_485_760;

pub(crate) trait OpenAi: Dialect {}

impl<D: OpenAi> Check<'_, D> {
    pub fn tool_name(&mut self, rule: &'static str, name: &str, at: &At<'_>) {
        let reason = match name {
            "" => "empty string. Expected a string with minimum length 1.",
            _ if !is_word(name, "") => {
                "string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'."
            }
            _ if name.len() > MAX_NAME => &too_long("string", MAX_NAME, name.len()),
            _ => return,
        };
        self.refuse_at(rule, at, reason);
    }

    pub fn id_length(&mut self, rule: &'static str, id: &str, max: usize, at: &At<'_>) {
        let reason = match id.chars().count() {
            0 => "empty string. Expected a string with minimum length 1.",
            length if length > max => &too_long("string", max, length),
            _ => return,
        };
        self.refuse_at(rule, at, reason);
    }

    /// Judges the length of a text. Other types are judged elsewhere.
    pub fn text(&mut self, at: &At<'_>) {
        let text = at.text().unwrap_or_default();
        // There are never fewer bytes than characters, and their number needs no counting.
        if text.len() > MAX_TEXT && text.chars().count() > MAX_TEXT {
            let reason = too_long("string", MAX_TEXT, text.chars().count());
            self.refuse_at("OAC-12", at, &reason);
        }
    }

    pub fn array_length(&mut self, rule: &'static str, at: &At<'_>, max: usize) {
        let reason = match at.as_array().map_or(1, Vec::len) {
            0 => "empty array. Expected an array with minimum length 1, but got an empty array instead.",
            length if length > max => &too_long("array", max, length),
            _ => return,
        };
        self.refuse_at(rule, at, reason);
    }

    /// Refuses a value that is neither absent nor an object.
    pub fn optional_object(&mut self, at: &At<'_>) {
        self.check_type(at, |value| value.is_object() || value.is_null(), "an object");
    }

    pub fn repeated_tool(&mut self, name: &str, at: &At<'_>) {
        let message = format!("Invalid 'tools': tool names must be unique, got '{name}' twice.");
        self.refuse(D::PROVIDER.schema, at, message);
    }

    /// Refuses the choice of an undeclared tool.
    pub fn undeclared_tool(&mut self, name: &str) {
        let message = format!("Tool choice '{name}' not found in 'tools' parameter.");
        self.refuse(D::PROVIDER.schema, "tool_choice", message);
    }

    /// Judges the address of an image. A missing one is judged elsewhere.
    pub fn image(&mut self, at: &At<'_>) {
        let url = at.text().unwrap_or_default();
        if url.is_empty() || media::is_address(url, &["https://", "http://"]) {
            return;
        }
        if let Some(got) = media::openai_flaw(url, media::is_image) {
            let message = format!(
                "Invalid '{}'. Expected a base64-encoded data URL with an image MIME type (e.g. \
                 'data:image/png;base64,aW1nIGJ5dGVzIGhlcmU='), but got {got}",
                bracketed(&at.path)
            );
            self.refuse("SAN-09", at, message);
        }
    }

    /// Judges the bytes of a file, if it has any.
    pub fn file_data(&mut self, file: &At<'_>) {
        let data = file["file_data"].as_str().filter(|data| !data.is_empty());
        if let Some(got) = data.and_then(|data| media::openai_flaw(data, media::is_type)) {
            let message = format!(
                "Invalid '{}.file_data'. Expected a base64-encoded data URL (e.g. \
                 'data:application/pdf;base64,JVBERi0xLjQ='), but got {got}",
                bracketed(&file.path)
            );
            self.refuse("SAN-09", file, message);
        }
    }
}

pub(crate) fn too_long(what: &str, max: usize, length: usize) -> String {
    let article = if what == "array" { "an" } else { "a" };
    format!(
        "{what} too long. Expected {article} {what} with maximum length {max}, but got {article} {what} with \
         length {length} instead."
    )
}

/// Pairs of bodies with an image at an accepted address, and at a refused one.
#[cfg(test)]
pub(crate) fn image_cases(shown: impl Fn(&str) -> Value) -> Vec<crate::conformance_tests::Case> {
    let addresses = [
        ("data:image/gif;base64,R0lGODlhAQ==", "data:image/gif;base64,"),
        ("data:image/jpg;base64,/9j/4AA=", "data:image/bmp;base64,Qk0AAA=="),
        ("https://example.org/a.png", "data:image/png;base64,%%%"),
        ("http://example.org/a.png", "data:image/png;base64,/9j/4AA="),
        ("https://example.org/a.png", "./a.png"),
    ];
    addresses.into_iter().map(|(good, bad)| (vec!["SAN-09"], shown(good), shown(bad))).collect()
}
