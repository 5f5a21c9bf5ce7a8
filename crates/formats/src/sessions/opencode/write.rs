//! Writes the export that `opencode import` takes.
//!
//! The import demands many fields, and stops at the first one that is missing with half of the session imported. So all of them
//! are written, with plain values where the conversation has none.

use std::collections::HashMap;

use rejoin_record::{
    EntryId, Timestamp,
    hash::short_name,
    json::{Doc, Object, Value},
};
use rejoin_view::{Action, Finding, Position, Rule, SoundView};

use crate::{
    session::{Session, instant},
    sessions::{
        agents::writing::as_said,
        writing::{Writing, Written},
    },
    wire::{TooLarge, registry::Dialect},
};

/// The version of opencode whose export this is.
const VERSION: &str = "1.18.0";
const TOKENS: &str = "{\"input\":0,\"output\":0,\"reasoning\":0,\"cache\":{\"read\":0,\"write\":0}}";

pub(crate) fn write(session: &Session, view: &SoundView, writing: &Writing<'_>) -> Result<Written, TooLarge> {
    // Its blocks are closest to opencode's parts.
    let encoded = writing.encode(session, view, Dialect::Anthropic)?;
    let doc = Doc::of(&encoded.body);
    let body = doc.root();
    let mut findings = encoded.findings;
    // Only a request declares tools and settings.
    findings.retain(|finding| !matches!(finding.rule, Rule::StubTools | Rule::ThinkingOff));
    let messages: Vec<Value<'_>> =
        body.and_then(|body| body.get("messages")).into_iter().flat_map(Value::items).collect();
    let mut export = Export::new(session, writing);
    export.system = body.and_then(|body| body.given("system")).map(texts).filter(|text| !text.is_empty());
    export.results = messages.iter().flat_map(|message| blocks(*message)).filter_map(result_of).collect();
    for (message, source) in messages.iter().zip(encoded.sources.iter().copied()) {
        export.message(*message, source, &mut findings);
    }
    Ok(Written::text(export.finish(), findings))
}

/// The result of a call.
struct Answer {
    text: String,
    /// Images and documents, as the fields of parts.
    media: Vec<String>,
    is_error: bool,
}

struct Export<'w> {
    session: &'w Session,
    id: String,
    directory: String,
    model: String,
    provider: String,
    /// The system prompt, until it is written. A message has a field for it, but opencode sends only that of the last user
    /// message, which is the one that continues the session.
    system: Option<String>,
    /// The result of each call, by the call's id.
    results: HashMap<String, Answer>,
    now: Timestamp,
    began: Timestamp,
    /// The last message of the user, which answers refer to.
    parent: String,
    count: usize,
    messages: Vec<String>,
}

/// The message that a part belongs to.
#[derive(Clone, Copy)]
struct Owner<'m> {
    message: &'m str,
    at: Position,
    /// Its time, in milliseconds.
    ms: u64,
}

impl<'w> Export<'w> {
    fn new(session: &'w Session, writing: &Writing<'_>) -> Self {
        let times = || session.details.iter().filter_map(|detail| instant(detail.time.as_ref()?));
        let began = times().next().unwrap_or(writing.now);
        let seed = EntryId::derive(&session.id, super::FORMAT, "session").to_string();
        let named = writing.model.map(str::to_owned).or_else(|| session.context.model()).unwrap_or_default();
        let (provider, model) = named.split_once('/').unwrap_or(("unknown", &named));
        Self {
            id: format!("ses_{}", short_name(&seed, 26)),
            directory: session.directory().unwrap_or_else(|| writing.directory.to_owned()),
            model: if model.is_empty() { String::from("unknown") } else { model.to_owned() },
            provider: provider.to_owned(),
            session,
            system: None,
            results: HashMap::new(),
            now: began,
            began,
            parent: String::new(),
            count: 0,
            messages: Vec::new(),
        }
    }

    /// An id that is greater than all before it.
    fn id(&mut self, prefix: &str) -> String {
        self.count += 1;
        format!("{prefix}_{:012x}{}", self.count, short_name(&format!("{} {}", self.id, self.count), 14))
    }

    fn message(&mut self, message: Value<'_>, source: Option<usize>, findings: &mut Vec<Finding>) {
        let detail = source.and_then(|index| self.session.details.get(index));
        let time = detail.and_then(|detail| instant(detail.time.as_ref()?));
        // The import sorts by time, and two messages of the same time by id.
        self.now = time.map_or(self.now, |time| time.max(self.now));
        let at = source.map_or_else(Position::default, Position::message);
        let assistant = message.says("role", "assistant");
        let (id, ms) = (self.id("msg"), self.now.as_millisecond().max(0).unsigned_abs());
        let mut parts = Vec::new();
        let plain = message.get("content").and_then(Value::as_str);
        let plain = plain.map(|text| Object::new().text("type", "text").text("text", text).finish());
        let blocks = blocks(message);
        let system = if assistant { None } else { self.system.take() };
        let system =
            system.map(|text| Object::new().text("type", "text").text("text", as_said(&text)).finish());
        let owner = Owner { message: &id, at, ms };
        let fields: Vec<String> = system
            .into_iter()
            .chain(plain)
            .chain(blocks.into_iter().filter_map(|block| self.part(block, owner, findings)))
            .collect();
        for fields in fields {
            let ids = Object::new().text("id", self.id("prt")).text("sessionID", &self.id);
            let mut part = ids.text("messageID", &id).finish();
            part.pop();
            parts.push(format!("{part},{}", &fields[1..]));
        }
        // Results were written with their calls.
        if parts.is_empty() && !assistant {
            return;
        }
        let time = Object::new().number("created", ms);
        let info = Object::new().text("id", &id).text("sessionID", &self.id);
        let info = if assistant {
            let path = Object::new().text("cwd", &self.directory).text("root", "/");
            info.text("role", "assistant")
                .object("time", time.number("completed", ms))
                .text("parentID", &self.parent)
                .text("modelID", &self.model)
                .text("providerID", &self.provider)
                .text("mode", "build")
                .text("agent", "build")
                .object("path", path)
                .number("cost", 0)
                .raw("tokens", TOKENS)
        } else {
            self.parent.clone_from(&id);
            let model = Object::new().text("providerID", &self.provider).text("modelID", &self.model);
            info.text("role", "user").object("time", time).text("agent", "build").object("model", model)
        };
        let message = Object::new().object("info", info).list("parts", parts);
        self.messages.push(message.finish());
    }

    /// The fields of a part, as an object.
    fn part(&self, block: Value<'_>, owner: Owner<'_>, findings: &mut Vec<Finding>) -> Option<String> {
        let Owner { message, at, ms } = owner;
        let kind = block.word("type");
        let text = |name: &str| block.get(name).and_then(Value::as_str).unwrap_or_default();
        Some(match &*kind {
            "text" => Object::new().text("type", "text").text("text", text("text")).finish(),
            "thinking" => {
                let time = Object::new().number("start", ms).number("end", ms);
                let part = Object::new().text("type", "reasoning").text("text", text("thinking"));
                part.object("time", time).finish()
            }
            "image" | "document" if file(block).is_some() => file(block)?,
            "document" if block.get("source").is_some_and(|source| source.says("type", "text")) => {
                let data = block.get("source")?.get("data")?.as_str()?;
                Object::new().text("type", "text").text("text", data).finish()
            }
            // Only its provider can read it.
            "redacted_thinking" => {
                findings.push(Finding::new(Rule::ForeignBlock, at, Action::LeftOut).about(&*kind));
                return None;
            }
            "tool_use" => {
                let id = text("id");
                let input = block.get("input").map_or("{}", Value::raw);
                let state = Object::new();
                let time = Object::new().number("start", ms).number("end", ms);
                let state = match self.results.get(&*id) {
                    Some(Answer { text: error, is_error: true, .. }) => state
                        .text("status", "error")
                        .raw("input", input)
                        .text("error", error)
                        .object("time", time),
                    Some(Answer { text: output, media, .. }) => {
                        let state =
                            state.text("status", "completed").raw("input", input).text("output", output);
                        let state = state.text("title", "").raw("metadata", "{}").object("time", time);
                        if media.is_empty() {
                            state
                        } else {
                            state.list("attachments", self.attached(media, message))
                        }
                    }
                    // The repair pass gives every call a result.
                    None => state.text("status", "pending").raw("input", input).text("raw", ""),
                };
                let part = Object::new().text("type", "tool").text("callID", id).text("tool", text("name"));
                part.object("state", state).finish()
            }
            "tool_result" => return None,
            kind => {
                let finding = Finding::new(Rule::ForeignBlock, at, Action::Replaced).about(kind);
                findings.push(finding.because("opencode has no such part: it is written as text"));
                Object::new().text("type", "text").text("text", block.raw()).finish()
            }
        })
    }

    /// Files in a result, which have ids as well.
    fn attached(&self, media: &[String], message: &str) -> Vec<String> {
        let with_ids = media.iter().enumerate().map(|(number, fields)| {
            let id = format!("prt_{:012x}{}", 0, short_name(&format!("{} {number} {fields}", self.id), 14));
            let mut part =
                Object::new().text("id", id).text("sessionID", &self.id).text("messageID", message).finish();
            part.pop();
            format!("{part},{}", &fields[1..])
        });
        with_ids.collect()
    }

    fn finish(self) -> String {
        let title = Some(self.session.headline()).filter(|title| !title.is_empty());
        let ms = |time: Timestamp| time.as_millisecond().max(0).unsigned_abs();
        let time = Object::new().number("created", ms(self.began)).number("updated", ms(self.now));
        let info = Object::new()
            .text("id", &self.id)
            .text("slug", self.id.trim_start_matches("ses_"))
            .text("projectID", "global")
            .text("directory", &self.directory)
            .text("title", title.unwrap_or_else(|| self.session.id.to_string()))
            .text("version", VERSION)
            .object("time", time);
        let mut text = Object::new().object("info", info).list("messages", self.messages).finish();
        text.push('\n');
        text
    }
}

/// The blocks of a message, if its content is a list.
fn blocks<'d>(message: Value<'d>) -> Vec<Value<'d>> {
    message.get("content").into_iter().flat_map(Value::items).collect()
}

/// The text of a system prompt, which may be in several blocks.
fn texts(value: Value<'_>) -> String {
    let one = value.as_str().map(std::borrow::Cow::into_owned);
    let each =
        || value.items().filter_map(|block| block.get("text")?.as_str().map(std::borrow::Cow::into_owned));
    one.unwrap_or_else(|| each().collect::<Vec<_>>().join("\n\n"))
}

/// The call that a block answers, and the answer.
fn result_of(block: Value<'_>) -> Option<(String, Answer)> {
    let id = block.get("tool_use_id").filter(|_| block.says("type", "tool_result"))?.as_str()?.into_owned();
    let content = block.get("content");
    let plain = content.and_then(Value::as_str).map(std::borrow::Cow::into_owned);
    let parts = || content.into_iter().flat_map(Value::items);
    let said = |part: Value<'_>| match part.get("text").filter(|_| part.says("type", "text")) {
        Some(text) => text.as_str().map(std::borrow::Cow::into_owned),
        None => file(part).is_none().then(|| part.raw().to_owned()),
    };
    let text = plain.unwrap_or_else(|| parts().filter_map(said).collect::<Vec<_>>().join("\n"));
    let media: Vec<String> = parts().filter_map(file).collect();
    let is_error = block.get("is_error").and_then(Value::as_bool) == Some(true);
    Some((id, Answer { text, media, is_error }))
}

/// The fields of a part with an image or a document.
fn file(block: Value<'_>) -> Option<String> {
    let source = block.get("source").filter(|_| matches!(&*block.word("type"), "image" | "document"))?;
    let field = |name: &str| source.get(name).and_then(Value::as_str);
    let mime = field("media_type").unwrap_or_else(|| "application/octet-stream".into());
    let url = match &*source.word("type") {
        "base64" => format!("data:{mime};base64,{}", field("data")?),
        "url" => field("url")?.into_owned(),
        _ => return None,
    };
    let name = block.get("title").and_then(Value::as_str);
    let part = Object::new().text("type", "file").text("mime", mime).text_if("filename", name);
    Some(part.text("url", url).finish())
}
