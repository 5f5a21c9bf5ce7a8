//! Writes a log that Gemini CLI resumes with `--session-file`, or from its own folder.
//!
//! A result is written only in the message of its call. The program also writes it in a separate message; then the resumed
//! request would contain it twice.

use std::{borrow::Cow, collections::HashSet};

use rejoin_record::{
    EntryId,
    hash::short_name,
    json::{Doc, Object, Value, ValueKind, list},
};
use rejoin_view::{Action, Finding, Position, Rule, SoundView};

use super::FORMAT;
use crate::{
    session::Session,
    sessions::{
        agents::writing::{Clock, as_said, findings, one_line, text_parts},
        writing::{Writing, Written},
    },
    wire::{TooLarge, registry::Dialect},
};

/// The answer that the program itself adds after results that no model has answered. Without it, the program would join the
/// results and the next text of a person into one content, which Gemini refuses.
const INTERRUPTED: &str = "[The previous response was interrupted before it completed.]";

pub(crate) fn write(session: &Session, view: &SoundView, writing: &Writing<'_>) -> Result<Written, TooLarge> {
    let model = writing.model.map(str::to_owned);
    let encoded = writing.encode(session, view, Dialect::Gemini)?;
    let doc = Doc::of(&encoded.body);
    let Some(body) = doc.root() else {
        return Ok(Written::text(String::new(), encoded.findings));
    };
    let own = ["contents", "systemInstruction", "system_instruction", "model"];
    let mut found = findings(session, encoded.findings.clone(), body, &own);
    let mut log = Log {
        text: String::new(),
        id: EntryId::derive(&session.id, FORMAT, "session").to_string(),
        clock: Clock::new(session, writing.now),
        model: model.or_else(|| session.context.model()),
        messages: 0,
        open: None,
        ids: HashSet::new(),
    };
    log.header(session, writing);
    let system = ["systemInstruction", "system_instruction"].iter().find_map(|name| body.given(name));
    let texts = system.and_then(|system| system.get("parts")).into_iter().flat_map(Value::items);
    for text in texts.filter_map(|part| part.get("text")?.as_str()).filter(|text| !text.is_empty()) {
        log.user(&text_parts(&as_said(&text)), Some(0));
    }
    let contents = body.get("contents").into_iter().flat_map(Value::items);
    let sources = encoded.sources.iter().copied();
    for (content, source) in contents.zip(sources) {
        let parts: Vec<Value<'_>> = content.get("parts").into_iter().flat_map(Value::items).collect();
        if content.says("role", "model") {
            log.model(&parts, source);
        } else {
            let (answers, said): (Vec<Value<'_>>, Vec<Value<'_>>) =
                parts.into_iter().partition(|part| part.get("functionResponse").is_some());
            let mut strange = Vec::new();
            for part in answers {
                match log.answer(part) {
                    None => strange.push(part),
                    Some(ResponseForm::Unchanged) => {}
                    Some(ResponseForm::AsText) => {
                        let at = source.map_or_else(Position::default, Position::message);
                        let finding = Finding::new(Rule::IrregularContent, at, Action::Replaced);
                        let why =
                            "a line holds no line breaks: a response with some between its values is a text";
                        found.push(finding.because(why));
                    }
                }
            }
            let rest: Vec<String> =
                strange.into_iter().chain(said).map(|part| one_line(part.raw()).into_owned()).collect();
            if !rest.is_empty() {
                if log.separate(source) {
                    let at = source.map_or_else(Position::default, Position::message);
                    let finding = Finding::new(Rule::RoleOrder, at, Action::Inserted);
                    found.push(finding.because("Gemini CLI would join it with the results before it"));
                }
                log.user(&list(rest), source);
            }
        }
    }
    log.close();
    if let Some(title) = session.title() {
        let set = Object::new().object("$set", Object::new().text("summary", title));
        log.line(set);
    }
    Ok(Written::text(log.text, found))
}

/// A message of the model that is not written yet, because the results of its calls follow.
struct Open {
    line: Object,
    calls: Vec<Call>,
    time: String,
}

struct Call {
    id: String,
    given: Option<String>,
    name: String,
    args: String,
    result: Option<String>,
    failed: bool,
}

/// How a response was written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ResponseForm {
    /// As it was, or its texts joined.
    Unchanged,
    /// As the text of its JSON.
    AsText,
}

struct Log<'s> {
    text: String,
    id: String,
    clock: Clock<'s>,
    model: Option<String>,
    messages: usize,
    open: Option<Open>,
    /// The ids of the calls so far, to find an id that is used twice.
    ids: HashSet<String>,
}

impl Log<'_> {
    fn line(&mut self, line: Object) {
        self.text.push_str(&line.finish());
        self.text.push('\n');
    }

    fn header(&mut self, session: &Session, writing: &Writing<'_>) {
        let folder = session.directory().unwrap_or_else(|| writing.directory.to_owned());
        let time = self.time(Some(0));
        let header = Object::new().text("sessionId", &self.id).text("projectHash", short_name(&folder, 32));
        // At its start, the program deletes sessions that were last updated more than 30 days ago. So the time of writing counts.
        let updated = format!("{:.3}", writing.now);
        self.line(header.text("startTime", &time).text("lastUpdated", updated).text("kind", "main"));
    }

    fn time(&mut self, source: Option<usize>) -> String {
        format!("{:.3}", self.clock.at(source))
    }

    /// Begins a message. Its id derives from its number, so that writing twice gives the same file.
    fn begin(&mut self, kind: &str, time: &str) -> Object {
        self.messages += 1;
        let id = short_name(&format!("{} {}", self.id, self.messages), 24);
        Object::new().text("id", id).text("timestamp", time).text("type", kind)
    }

    fn user(&mut self, parts: &str, source: Option<usize>) {
        self.close();
        let time = self.time(source);
        let line = self.begin("user", &time).raw("content", parts);
        self.line(line);
    }

    /// Adds a message of the model if the last message has calls, so that a text of a person does not directly follow their
    /// results. Returns whether one was added.
    fn separate(&mut self, source: Option<usize>) -> bool {
        let unanswered = self.open.as_ref().is_some_and(|open| !open.calls.is_empty());
        self.close();
        if unanswered {
            let time = self.time(source);
            let line = self.begin("gemini", &time).raw("content", &text_parts(INTERRUPTED));
            self.line(line);
        }
        unanswered
    }

    fn model(&mut self, parts: &[Value<'_>], source: Option<usize>) {
        self.close();
        let time = self.time(source);
        let is_thought =
            |part: &Value<'_>| part.get("thought").and_then(|value| value.as_bool()) == Some(true);
        let thoughts: Vec<String> = parts
            .iter()
            .filter(|part| is_thought(part))
            .filter_map(|part| {
                let thought =
                    Object::new().text("subject", "").text("description", part.get("text")?.as_str()?);
                Some(thought.text("timestamp", &time).finish())
            })
            .collect();
        let said = parts.iter().filter(|part| part.get("functionCall").is_none() && !is_thought(part));
        // A signature is bound to its request, and the program stores none, so signatures are left out.
        let said: Vec<String> = said
            .map(|part| match part.get("text").filter(|_| part.get("thoughtSignature").is_some()) {
                Some(text) => Object::new().raw("text", text.raw()).finish(),
                None => one_line(part.raw()).into_owned(),
            })
            .collect();
        let mut line = self.begin("gemini", &time).list("content", said);
        if !thoughts.is_empty() {
            line = line.list("thoughts", thoughts);
        }
        if let Some(model) = &self.model {
            line = line.text("model", model);
        }
        let number = self.messages;
        let calls = parts.iter().filter_map(|part| part.get("functionCall")).enumerate();
        let calls = calls.map(|(place, call)| {
            let given = call.given("id").and_then(Value::as_str).map(Cow::into_owned);
            let name = call.word("name").into_owned();
            // After a resume, the program looks results up by id. If calls shared an id, all of them would get the last result.
            let unused = given.clone().filter(|id| self.ids.insert(id.clone()));
            let id = unused.unwrap_or_else(|| format!("{name}-{number}-{place}"));
            let args =
                call.get("args").map_or_else(|| String::from("{}"), |args| one_line(args.raw()).into_owned());
            Call { id, given, name, args, result: None, failed: false }
        });
        self.open = Some(Open { line, calls: calls.collect(), time });
    }

    /// Puts a result beside its call. Returns `None` if no call of the open message waits for it.
    fn answer(&mut self, part: Value<'_>) -> Option<ResponseForm> {
        let (open, response) = self.open.as_mut().zip(part.get("functionResponse"))?;
        let id = response.given("id").and_then(Value::as_str);
        let waits = |call: &&mut Call| {
            call.result.is_none()
                && (id.is_none() || call.given.is_none() || call.given.as_deref() == id.as_deref())
        };
        let call = open.calls.iter_mut().find(waits)?;
        let mut form = ResponseForm::Unchanged;
        let mut answer = Object::new().text("id", &call.id).text("name", &call.name);
        for (key, value) in response.fields().filter(|(key, _)| !key.is_str("id") && !key.is_str("name")) {
            let own = Some(value).filter(|_| key.is_str("response"));
            let text = || own.and_then(as_text).inspect(|_| form = ResponseForm::AsText);
            let json = own.and_then(joined).or_else(text).map_or_else(|| one_line(value.raw()), Cow::Owned);
            answer = answer.raw(&key.as_str().unwrap_or_default(), &json);
        }
        call.failed = response.get("response").is_some_and(|response| response.given("error").is_some());
        call.result = Some(list([Object::new().object("functionResponse", answer).finish()]));
        Some(form)
    }

    /// Writes the open message, if there is one, with the results that arrived.
    fn close(&mut self) {
        let Some(open) = self.open.take() else { return };
        let call = |call: &Call| {
            let line = Object::new().text("id", &call.id).text("name", &call.name).raw("args", &call.args);
            let status = match (&call.result, call.failed) {
                (None, _) => "cancelled",
                (Some(_), true) => "error",
                (Some(_), false) => "success",
            };
            let line = line.raw("result", call.result.as_deref().unwrap_or("null")).text("status", status);
            line.text("timestamp", &open.time).finish()
        };
        let mut line = open.line;
        if !open.calls.is_empty() {
            line = line.list("toolCalls", open.calls.iter().map(call));
        }
        self.line(line);
    }
}

/// Joins a response of several texts into one text, because the program would show a list to the model as JSON. `None` for any
/// other response, which is the tool's own data and is written unchanged.
fn joined(response: Value<'_>) -> Option<String> {
    let mut fields = response.fields();
    let (Some((key, texts)), None) = (fields.next(), fields.next()) else { return None };
    let name = ["output", "error"].into_iter().find(|name| key.is_str(name))?;
    let list: Vec<Cow<'_, str>> = texts.items().map(Value::as_str).collect::<Option<_>>()?;
    (list.len() > 1).then(|| Object::new().text(name, list.join("\n\n")).finish())
}

/// A response that has line breaks between its values, as a text: on one line, it would be another text. `None` for a response
/// without them, and for one of a single text, which no line break is part of.
fn as_text(response: Value<'_>) -> Option<String> {
    let mut fields = response.fields();
    let is_text = match (fields.next(), fields.next()) {
        (Some((key, value)), None) => {
            value.kind() == ValueKind::String
                && ["output", "error", "result"].iter().any(|name| key.is_str(name))
        }
        _ => false,
    };
    let raw = response.raw();
    (!is_text && raw.contains(['\n', '\r'])).then(|| Object::new().text("output", raw).finish())
}
