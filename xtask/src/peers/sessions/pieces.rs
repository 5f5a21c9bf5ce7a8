//! The content that reaches a model, as a list of pieces in the same form for every dialect: texts, calls and results, in order.
//!
//! Ids differ between dialects and programs, so a result refers to its call by the call's index among all calls.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use crate::peers::conversations::Speaker;

/// A part of a conversation that must reach the model.
#[derive(Debug, Clone, PartialEq)]
pub enum Piece {
    Text(Speaker, String),
    Call {
        name: String,
        arguments: Value,
    },
    Result {
        /// The index of the call among all calls, from 0; `None` if there is no such call.
        call: Option<usize>,
        text: String,
    },
}

impl Piece {
    fn into_text(self) -> Option<String> {
        match self {
            Self::Text(_, text) => Some(text),
            Self::Call { .. } | Self::Result { .. } => None,
        }
    }
}

/// The parts of a request that belong to the conversation.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Request {
    pub pieces: Vec<Piece>,
    /// System prompts.
    pub instructions: Vec<String>,
    /// The images and documents in Base64, in order.
    pub media: Vec<String>,
    /// The indexes of calls without a result, by id, or by name in a dialect without ids.
    open: BTreeMap<String, Vec<usize>>,
    calls: usize,
}

impl Request {
    /// A request of these pieces.
    pub fn of(pieces: Vec<Piece>) -> Self {
        Self { pieces, ..Self::default() }
    }

    /// Reads a body of a dialect; `None` if the dialect or the body is not understood. Texts for which `is_instruction` is true are
    /// instructions, under any role.
    pub fn read(dialect: &str, body: &Value, is_instruction: &dyn Fn(&str) -> bool) -> Option<Self> {
        let mut request = Self::default();
        match dialect {
            "anthropic" => request.anthropic(body)?,
            "gemini" => request.gemini(body)?,
            "openai-chat" => request.openai_chat(body)?,
            _ => return None,
        }
        let is_own = |piece: &mut Piece| matches!(piece, Piece::Text(_, text) if is_instruction(text));
        let own = request.pieces.extract_if(.., is_own).filter_map(Piece::into_text);
        request.instructions.extend(own);
        request.join();
        Some(request)
    }

    /// The texts with their speakers, instructions last.
    pub fn texts(&self) -> Vec<(Speaker, &str)> {
        let said = self.pieces.iter().filter_map(|piece| match piece {
            Piece::Text(speaker, text) => Some((*speaker, text.as_str())),
            _ => None,
        });
        said.chain(self.instructions.iter().map(|text| (Speaker::Instruction, text.as_str()))).collect()
    }

    /// Removes a text of the user from the end.
    pub fn unclose(&mut self, closing: &str) {
        if let Some(Piece::Text(Speaker::User, text)) = self.pieces.last()
            && text == closing
        {
            self.pieces.pop();
        }
    }

    /// The same request with more texts at its end.
    pub fn and(&self, texts: &[(Speaker, &str)]) -> Self {
        let mut longer = self.clone();
        longer.pieces.extend(texts.iter().map(|(speaker, text)| Piece::Text(*speaker, (*text).to_owned())));
        longer.join();
        longer
    }

    /// The pieces that another request lacks, duplicates or has in another position. It may have more instructions.
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let mut problems = Vec::new();
        let length = self.pieces.len().max(other.pieces.len());
        if let Some(at) = (0..length).find(|at| self.pieces.get(*at) != other.pieces.get(*at)) {
            let (expected, found) = (self.pieces.get(at), other.pieces.get(at));
            problems.push(format!("piece {at} should be {expected:?} and is {found:?}"));
        }
        let missing = self
            .instructions
            .iter()
            .filter(|text| !other.instructions.iter().any(|other| other.contains(text.trim())));
        problems.extend(missing.map(|text| format!("the instruction {text:?} is lost")));
        let sorted = |request: &Self| {
            let mut media = request.media.clone();
            media.sort_unstable();
            media
        };
        if sorted(self) != sorted(other) {
            let (given, found) = (self.media.len(), other.media.len());
            problems.push(format!("{given} pictures and documents became {found} or others"));
        }
        problems
    }

    /// Whether every call has its result before any other text, and every result its call, in the same order.
    pub fn is_sound(&self) -> bool {
        let mut open = Vec::new();
        let mut calls = 0;
        let mut answering = false;
        for piece in &self.pieces {
            match piece {
                Piece::Text(..) if !open.is_empty() => return false,
                Piece::Text(..) => {}
                Piece::Call { .. } if answering && !open.is_empty() => return false,
                Piece::Call { arguments, .. } => {
                    if !arguments.is_object() {
                        return false;
                    }
                    answering = false;
                    open.push(calls);
                    calls += 1;
                }
                Piece::Result { call, .. } => {
                    answering = true;
                    if open.is_empty() || open.first() != call.as_ref() {
                        return false;
                    }
                    open.remove(0);
                }
            }
        }
        open.is_empty()
    }

    /// Joins consecutive texts of one speaker, because programs may split them anywhere.
    fn join(&mut self) {
        let mut joined: Vec<Piece> = Vec::new();
        for piece in self.pieces.drain(..) {
            match (joined.last_mut(), piece) {
                (_, Piece::Text(_, text)) if text.is_empty() => {}
                (Some(Piece::Text(before, all)), Piece::Text(speaker, text)) if *before == speaker => {
                    all.push('\n');
                    all.push_str(&text);
                }
                (_, piece) => joined.push(piece),
            }
        }
        self.pieces = joined;
    }

    fn say(&mut self, speaker: Speaker, text: &str) {
        self.pieces.push(Piece::Text(speaker, text.trim().to_owned()));
    }

    fn call(&mut self, id: &str, name: &Value, arguments: Value) {
        self.open.entry(id.to_owned()).or_default().push(self.calls);
        self.calls += 1;
        self.pieces.push(Piece::Call { name: name.as_str().unwrap_or_default().to_owned(), arguments });
    }

    fn answer(&mut self, id: &str, text: &str) {
        // If several calls share an id, the first open one is answered.
        let call = self.open.get_mut(id).filter(|places| !places.is_empty()).map(|places| places.remove(0));
        self.pieces.push(Piece::Result { call, text: text.trim().to_owned() });
    }

    fn anthropic(&mut self, body: &Value) -> Option<()> {
        self.instruct(&body["system"]);
        for message in body["messages"].as_array()? {
            let speaker = speaker(message)?;
            if speaker == Speaker::Instruction {
                self.instruct(&message["content"]);
                continue;
            }
            if let Some(text) = message["content"].as_str() {
                self.say(speaker, text);
            }
            for block in message["content"].as_array().into_iter().flatten() {
                let id = |field: &str| block[field].as_str().unwrap_or_default();
                match block["type"].as_str()? {
                    "text" => self.say(speaker, block["text"].as_str().unwrap_or_default()),
                    "tool_use" => self.call(id("id"), &block["name"], block["input"].clone()),
                    "tool_result" => {
                        let content = &block["content"];
                        self.answer(id("tool_use_id"), &words(content));
                        content.as_array().into_iter().flatten().for_each(|part| self.show(part));
                    }
                    _ => self.show(block),
                }
            }
        }
        Some(())
    }

    fn gemini(&mut self, body: &Value) -> Option<()> {
        let system =
            if body["systemInstruction"].is_null() { "system_instruction" } else { "systemInstruction" };
        self.instruct(&body[system]["parts"]);
        for content in body["contents"].as_array()? {
            let speaker = if content["role"] == "model" { Speaker::Assistant } else { Speaker::User };
            for part in content["parts"].as_array().into_iter().flatten() {
                if part["thought"] == json!(true) {
                    continue;
                }
                if let Some(text) = part["text"].as_str() {
                    self.say(speaker, text);
                }
                let (call, response) = (&part["functionCall"], &part["functionResponse"]);
                let id = |value: &Value| {
                    let name = value["name"].as_str().unwrap_or_default().to_owned();
                    value["id"].as_str().map_or(name, str::to_owned)
                };
                if call.is_object() {
                    let arguments = if call["args"].is_null() { json!({}) } else { call["args"].clone() };
                    self.call(&id(call), &call["name"], arguments);
                }
                if response.is_object() {
                    self.answer(&id(response), &answered(&response["response"]));
                    response["parts"].as_array().into_iter().flatten().for_each(|part| self.show(part));
                }
                self.show(part);
            }
        }
        Some(())
    }

    fn openai_chat(&mut self, body: &Value) -> Option<()> {
        for message in body.get("messages").unwrap_or(body).as_array()? {
            if message["role"] == "tool" {
                self.answer(
                    message["tool_call_id"].as_str().unwrap_or_default(),
                    &words(&message["content"]),
                );
                continue;
            }
            let speaker = speaker(message)?;
            if speaker == Speaker::Instruction {
                self.instruct(&message["content"]);
                continue;
            }
            if let Some(text) = message["content"].as_str() {
                self.say(speaker, text);
            }
            for part in message["content"].as_array().into_iter().flatten() {
                let text = part["text"].as_str().or_else(|| part["refusal"].as_str());
                self.say(speaker, text.unwrap_or_default());
                self.show(part);
            }
            for call in message["tool_calls"].as_array().into_iter().flatten() {
                let function = &call["function"];
                let arguments = function["arguments"].as_str().unwrap_or_default();
                let arguments = serde_json::from_str(arguments).unwrap_or_else(|_| json!(arguments));
                self.call(call["id"].as_str().unwrap_or_default(), &function["name"], arguments);
            }
        }
        Some(())
    }

    fn instruct(&mut self, content: &Value) {
        self.instructions.extend(content.as_str().map(str::to_owned));
        let parts = content.as_array().into_iter().flatten();
        self.instructions.extend(parts.filter_map(|part| part["text"].as_str()).map(str::to_owned));
    }

    /// Records an image or a document that is part of the request. One that is only named does not count.
    fn show(&mut self, part: &Value) {
        let data = [&part["source"]["data"], &part["inlineData"]["data"]].into_iter().find_map(Value::as_str);
        let urls = [&part["image_url"]["url"], &part["file"]["file_data"]];
        let url = urls.into_iter().find_map(|url| Some(url.as_str()?.split_once(";base64,")?.1));
        self.media.extend(data.or(url).map(str::to_owned));
    }
}

fn speaker(message: &Value) -> Option<Speaker> {
    match message["role"].as_str()? {
        "user" => Some(Speaker::User),
        "assistant" => Some(Speaker::Assistant),
        "system" | "developer" => Some(Speaker::Instruction),
        _ => None,
    }
}

/// The text of a result.
fn words(content: &Value) -> String {
    let parts = content.as_array().into_iter().flatten().filter_map(|part| part["text"].as_str());
    content.as_str().into_iter().chain(parts).collect::<Vec<_>>().join("\n")
}

/// The text in a response of Gemini: its only text, or all of it as JSON.
fn answered(response: &Value) -> String {
    let fields: Vec<&Value> = response.as_object().into_iter().flatten().map(|(_, value)| value).collect();
    match fields.as_slice() {
        [Value::String(text)] => text.clone(),
        [Value::Array(texts)] if texts.iter().all(Value::is_string) => {
            texts.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("\n\n")
        }
        _ => response.to_string(),
    }
}

/// A request with only the conversation, for a checker that does not know the program's own fields.
pub fn plain(dialect: &str, request: &str) -> Result<String> {
    let body: Value = serde_json::from_str(request).context("a request")?;
    if dialect == "anthropic" {
        return crate::peers::transcript::plain(request);
    }
    if dialect == "gemini" {
        return Ok(json!({"contents": body["contents"]}).to_string());
    }
    Ok(json!({"model": body["model"], "messages": body["messages"]}).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(dialect: &str, body: Value) -> Request {
        Request::read(dialect, &body, &|text| text == "own").unwrap()
    }

    #[test]
    fn a_conversation_is_the_same_in_every_dialect() {
        let anthropic = read(
            "anthropic",
            json!({"system": "s", "messages": [
                {"role": "user", "content": "a"},
                {"role": "assistant", "content": [{"type": "thinking", "thinking": "t"}, {"type": "text", "text": "b"},
                    {"type": "tool_use", "id": "1", "name": "ls", "input": {"p": 1}}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": [
                    {"type": "text", "text": "x"}, {"type": "image", "source": {"type": "base64", "data": "AA=="}}]},
                    {"type": "text", "text": "c"}]},
                {"role": "user", "content": "d"}]}),
        );
        let gemini = read(
            "gemini",
            json!({"systemInstruction": {"parts": [{"text": "s"}]}, "contents": [
                {"role": "user", "parts": [{"text": "a"}]},
                {"role": "model", "parts": [{"text": "t", "thought": true}, {"text": "b"},
                    {"functionCall": {"name": "ls", "args": {"p": 1}}}]},
                {"role": "user", "parts": [{"functionResponse": {"name": "ls", "response": {"output": "x"},
                    "parts": [{"inlineData": {"data": "AA=="}}]}}, {"text": "c\nd"}]}]}),
        );
        let chat = read(
            "openai-chat",
            json!({"messages": [
                {"role": "system", "content": "s"}, {"role": "user", "content": "a"},
                {"role": "assistant", "content": "b", "tool_calls": [
                    {"id": "9", "function": {"name": "ls", "arguments": "{\"p\":1}"}}]},
                {"role": "tool", "tool_call_id": "9", "content": "x"},
                {"role": "user", "content": [{"type": "text", "text": "c"}, {"type": "text", "text": "d"},
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}]}]}),
        );
        assert_eq!((&anthropic.pieces, &anthropic.instructions), (&gemini.pieces, &gemini.instructions));
        assert_eq!((&anthropic.pieces, &anthropic.media), (&chat.pieces, &chat.media));
        assert_eq!(anthropic.media, gemini.media);
        assert!(anthropic.is_sound());
    }

    #[test]
    fn a_lost_result_and_an_orphan_are_not_sound() {
        let call = json!({"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "ls", "input": {}}]});
        let result =
            json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": "x"}]});
        let sound = |messages: Value| read("anthropic", json!({"messages": messages})).is_sound();
        assert!(sound(json!([call, result])));
        assert!(!sound(json!([call])) && !sound(json!([result])) && !sound(json!([result, call])));
        assert!(!sound(json!([call, result, result])));
    }

    #[test]
    fn what_is_lost_doubled_or_moved_is_a_difference() {
        let request = |texts: &[&str]| {
            let messages: Vec<Value> = texts
                .iter()
                .enumerate()
                .map(|(at, text)| json!({"role": if at % 2 == 0 { "user" } else { "assistant" }, "content": text}))
                .collect();
            read("anthropic", json!({"messages": messages}))
        };
        let whole = request(&["a", "b"]);
        assert!(whole.differences(&whole).is_empty());
        for other in [&["a"][..], &["b", "a"], &["a", "b", "a"], &["a", "b", "a", "b"]] {
            assert_eq!(whole.differences(&request(other)).len(), 1, "{other:?}");
        }
        assert_eq!(whole.and(&[(Speaker::User, "c")]), request(&["a", "b", "c"]));
        let with_own = read(
            "anthropic",
            json!({"messages": [{"role": "user", "content": [
            {"type": "text", "text": "own"}, {"type": "text", "text": "a"}]}, {"role": "assistant", "content": "b"}]}),
        );
        assert_eq!((with_own.pieces, with_own.instructions), (whole.pieces, vec![String::from("own")]));
    }

    #[test]
    fn what_is_not_understood_is_no_request() {
        assert_eq!(Request::read("anthropic", &json!({}), &|_| false), None);
        assert_eq!(Request::read("ollama", &json!({"messages": []}), &|_| false), None);
    }
}
