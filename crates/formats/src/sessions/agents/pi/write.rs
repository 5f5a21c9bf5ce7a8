//! Writes a session of version 3 that pi resumes: the messages of an Anthropic request, each line following the one before.

use std::{borrow::Cow, collections::HashMap};

use rejoin_record::{
    EntryId, Timestamp,
    hash::short_name,
    json::{Doc, Object, Value},
};
use rejoin_view::SoundView;

use super::FORMAT;
use crate::{
    session::Session,
    sessions::{
        agents::writing::{Clock, as_said, findings, one_line},
        writing::{Writing, Written},
    },
    wire::{TooLarge, registry::Dialect, render},
};

const VERSION: u64 = 3;

/// The token counts of an answer. pi does not open a session in which an answer has none.
const NO_USAGE: &str = "{\"input\":0,\"output\":0,\"cacheRead\":0,\"cacheWrite\":0,\"totalTokens\":0,\
                        \"cost\":{\"input\":0,\"output\":0,\"cacheRead\":0,\"cacheWrite\":0,\"total\":0}}";

pub(crate) fn write(session: &Session, view: &SoundView, writing: &Writing<'_>) -> Result<Written, TooLarge> {
    let model = writing.model.map(str::to_owned);
    let encoded = writing.encode(session, view, Dialect::Anthropic)?;
    let doc = Doc::of(&encoded.body);
    let Some(body) = doc.root() else {
        return Ok(Written::text(String::new(), encoded.findings));
    };
    let own = ["messages", "system", "model", "max_tokens"];
    let found = findings(session, encoded.findings.clone(), body, &own);
    let mut file = File {
        text: String::new(),
        id: EntryId::derive(&session.id, FORMAT, "session").to_string(),
        clock: Clock::new(session, writing.now),
        model: model.or_else(|| session.context.model()),
        parent: None,
        lines: 0,
        names: HashMap::new(),
    };
    file.header(session, writing);
    if let Some(system) = body.given("system").filter(|system| !system.is_str("")) {
        let texts: Vec<Cow<'_, str>> = match system.as_str() {
            Some(text) => vec![text],
            None => system.items().filter_map(|block| block.get("text")?.as_str()).collect(),
        };
        let blocks: Vec<String> = texts.iter().map(|text| render::text_block(&as_said(text))).collect();
        file.user(&blocks, Some(0));
    }
    let messages = body.get("messages").into_iter().flat_map(Value::items);
    for (message, source) in messages.zip(encoded.sources.iter().copied()) {
        file.message(message, source);
    }
    if let Some(title) = session.title() {
        let time = file.clock.at(None);
        file.line("session_info", time, |line| line.text("name", title));
    }
    Ok(Written::text(file.text, found))
}

struct File<'s> {
    text: String,
    id: String,
    clock: Clock<'s>,
    model: Option<String>,
    parent: Option<String>,
    lines: usize,
    /// The tools of the calls so far, by the ids of the calls.
    names: HashMap<String, String>,
}

impl File<'_> {
    fn header(&mut self, session: &Session, writing: &Writing<'_>) {
        let folder = session.directory().unwrap_or_else(|| writing.directory.to_owned());
        let time = self.clock.at(Some(0));
        let header = Object::new().text("type", "session").number("version", VERSION).text("id", &self.id);
        let header = header.text("timestamp", format!("{time:.3}")).text("cwd", folder);
        self.text.push_str(&header.finish());
        self.text.push('\n');
    }

    fn line(&mut self, kind: &str, time: Timestamp, more: impl FnOnce(Object) -> Object) {
        self.lines += 1;
        let id = short_name(&format!("{} {}", self.id, self.lines), 8);
        let line = Object::new().text("type", kind).text("id", &id);
        let line =
            line.text_or_null("parentId", self.parent.as_ref()).text("timestamp", format!("{time:.3}"));
        self.text.push_str(&more(line).finish());
        self.text.push('\n');
        self.parent = Some(id);
    }

    fn say(&mut self, source: Option<usize>, message: Object) {
        let time = self.clock.at(source);
        let milliseconds = u64::try_from(time.as_millisecond()).unwrap_or_default();
        let message = message.number("timestamp", milliseconds);
        self.line("message", time, |line| line.object("message", message));
    }

    fn user(&mut self, blocks: &[String], source: Option<usize>) {
        self.say(source, Object::new().text("role", "user").list("content", blocks));
    }

    fn message(&mut self, message: Value<'_>, source: Option<usize>) {
        let Some(given) = message.get("content") else { return };
        let blocks: Vec<Value<'_>> = given.items().collect();
        if message.says("role", "assistant") {
            let mut told: Vec<String> = blocks.iter().map(|block| self.block(*block)).collect();
            told.extend(given.as_str().map(|text| render::text_block(&text)));
            let calls = blocks.iter().any(|block| block.says("type", "tool_use"));
            let line = Object::new().text("role", "assistant").list("content", told);
            let line = line.text("api", "anthropic-messages").text("provider", "anthropic");
            let model = self.model.clone().unwrap_or_else(|| String::from("unknown"));
            let line = line.text("model", model).raw("usage", NO_USAGE);
            return self.say(source, line.text("stopReason", if calls { "toolUse" } else { "stop" }));
        }
        for answer in blocks.iter().filter(|block| block.says("type", "tool_result")) {
            let id = answer.word("tool_use_id").into_owned();
            let content = answer.get("content");
            let mut told: Vec<String> =
                content.into_iter().flat_map(Value::items).map(|block| self.block(block)).collect();
            told.extend(content.and_then(Value::as_str).map(|text| render::text_block(&text)));
            let failed = answer.get("is_error").and_then(Value::as_bool).unwrap_or(false);
            let name = self.names.get(&id).cloned().unwrap_or_default();
            let line =
                Object::new().text("role", "toolResult").text("toolCallId", &id).text("toolName", name);
            self.say(source, line.list("content", told).flag("isError", failed));
        }
        let said = blocks.iter().filter(|block| !block.says("type", "tool_result"));
        let mut told: Vec<String> = said.map(|block| self.block(*block)).collect();
        told.extend(given.as_str().map(|text| render::text_block(&text)));
        if !told.is_empty() {
            self.user(&told, source);
        }
    }

    /// A block in pi's form. A block for which pi has no form becomes text.
    fn block(&mut self, block: Value<'_>) -> String {
        match &*block.word("type") {
            "text" => render::text_block(&block.word("text")),
            "thinking" => {
                let thinking =
                    Object::new().text("type", "thinking").text("thinking", block.word("thinking"));
                thinking
                    .text_if("thinkingSignature", block.given("signature").and_then(Value::as_str))
                    .finish()
            }
            "redacted_thinking" => {
                let thinking = Object::new().text("type", "thinking").text("thinking", "");
                thinking.text("thinkingSignature", block.word("data")).flag("redacted", true).finish()
            }
            "tool_use" => {
                let (id, name) = (block.word("id"), block.word("name"));
                self.names.insert(id.clone().into_owned(), name.clone().into_owned());
                let arguments = block.get("input").map_or(Cow::Borrowed("{}"), |input| one_line(input.raw()));
                let call = Object::new().text("type", "toolCall").text("id", id).text("name", name);
                call.raw("arguments", &arguments).finish()
            }
            "image" if block.get("source").is_some_and(|source| source.says("type", "base64")) => {
                let source = block.get("source").unwrap_or(block);
                let image = Object::new().text("type", "image").text("data", source.word("data"));
                image.text("mimeType", source.word("media_type")).finish()
            }
            "document" if block.get("source").is_some_and(|source| source.says("type", "text")) => {
                render::text_block(&block.get("source").unwrap_or(block).word("data"))
            }
            _ => render::text_block(&one_line(block.raw())),
        }
    }
}
