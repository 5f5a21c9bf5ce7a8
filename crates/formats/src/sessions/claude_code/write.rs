//! Writes a transcript that Claude Code resumes: the messages of an Anthropic request, wrapped in lines that follow each
//! other.
//!
//! The file is a new session: its ids derive from the conversation, so the file that was read can stay. Ids, times
//! and folders come from the source or from the caller, never from here.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashSet},
};

use rejoin_record::{
    EntryId, Message, Timestamp,
    hash::short_name,
    json::{Doc, Object, Value, ValueKind, write},
};
use rejoin_view::{Action, Finding, Position, Rule, SoundView};

use super::{FORMAT, MARK, lines::is_true};
use crate::{
    session::{Session, instant},
    sessions::writing::{Writing, Written},
    wire::{TooLarge, registry::Dialect, render},
};

/// The version of Claude Code that writes lines like ours, for sources that name none.
const VERSION: &str = "2.1.0";
const UNKNOWN_MODEL: &str = "<unknown>";
/// The usage of a response whose tokens were not counted.
const NO_USAGE: &str = "{\"input_tokens\":0,\"output_tokens\":0}";
/// The field that marks words of the program in the name of a person.
const META: &str = "isMeta";
/// The marks that a line may have beside its message.
const MARKS: [&str; 3] = [META, "isCompactSummary", "isVisibleInTranscriptOnly"];

pub(crate) fn write(session: &Session, view: &SoundView, writing: &Writing<'_>) -> Result<Written, TooLarge> {
    let encoded = writing.encode(session, view, Dialect::Anthropic)?;
    let doc = Doc::parse(&encoded.body).expect("BUG: a codec writes JSON");
    let body = doc.root().expect("BUG: a body is an object");
    let messages: Vec<Value<'_>> = body.get("messages").into_iter().flat_map(Value::items).collect();
    let sources = encoded.sources.iter().copied();
    // Only a request declares tools and settings.
    let mut findings = encoded.findings;
    findings.retain(|finding| !matches!(finding.rule, Rule::StubTools | Rule::ThinkingOff));
    findings.extend(left_out_fields(session, body));
    let mut transcript = Transcript::new(session, writing);
    transcript.ids = misleading_ids(&messages);
    for (id, other) in &transcript.ids {
        let finding = Finding::new(Rule::IllegalId, Position::default(), Action::Renamed).about(id.as_str());
        findings.push(
            finding.because(format!("Claude Code takes it for a part of another call: it is {other} there")),
        );
    }
    if let Some(system) = body.given("system").filter(|system| !system.is_str("")) {
        transcript.system(system);
    }
    for (message, source) in messages.into_iter().zip(sources) {
        if message.raw().contains(['\n', '\r']) {
            let at = source.map_or_else(Position::default, Position::message);
            let finding = Finding::new(Rule::IrregularContent, at, Action::Replaced);
            findings.push(finding.because("a line holds no line breaks: those between values became spaces"));
        }
        if message.raw().contains(MARK) {
            let at = source.map_or_else(Position::default, Position::message);
            let finding = Finding::new(Rule::UnknownField, at, Action::LeftOut).about("cache_control");
            findings.push(finding.because("the program that continues a transcript sets its own marks"));
        }
        transcript.message(message, source);
    }
    transcript.title();
    Ok(Written::text(transcript.text, findings))
}

/// Fields around the messages that have no place in a transcript.
fn left_out_fields(session: &Session, body: Value<'_>) -> Vec<Finding> {
    let names = body.fields().filter_map(|(key, _)| key.as_str());
    let own = |name: &Cow<'_, str>| {
        let stubs = name == "tools" && session.context.tools_field().is_none();
        !stubs && !["messages", "system", "model"].contains(&&**name)
    };
    let finding = |name: Cow<'_, str>| {
        Finding::new(Rule::ForeignField, Position::default(), Action::LeftOut).about(&*name)
    };
    names.filter(own).map(finding).collect()
}

struct Transcript<'w> {
    session: &'w Session,
    text: String,
    id: String,
    folder: String,
    version: String,
    model: String,
    /// Call ids that have to be replaced, with their replacements.
    ids: BTreeMap<String, String>,
    /// The time of the next line.
    now: Timestamp,
    parent: Option<String>,
    responses: usize,
}

struct Outgoing<'o> {
    kind: &'static str,
    message: &'o str,
    marks: &'o [&'static str],
    time: String,
}

impl<'w> Transcript<'w> {
    fn new(session: &'w Session, writing: &Writing<'_>) -> Self {
        let first = |name: &str| session.messages.iter().find_map(|message| source_field(message, &[name]));
        Self {
            session,
            text: String::new(),
            id: EntryId::derive(&session.id, FORMAT, "session").to_string(),
            folder: session.directory().unwrap_or_else(|| writing.directory.to_owned()),
            version: first("version").unwrap_or_else(|| VERSION.to_owned()),
            model: session.context.model().unwrap_or_else(|| UNKNOWN_MODEL.to_owned()),
            ids: BTreeMap::new(),
            now: session
                .details
                .iter()
                .find_map(|detail| instant(detail.time.as_ref()?))
                .unwrap_or(writing.now),
            parent: None,
            responses: 0,
        }
    }

    /// Writes the system prompt as the first message, because a transcript has no place for it.
    fn system(&mut self, system: Value<'_>) {
        let wrapped = |text: &str| format!("<system>{text}</system>");
        let content = match system.as_str() {
            Some(text) => render::quoted(&wrapped(&text)),
            None => {
                let texts = system.items().filter_map(|block| block.get("text")?.as_str());
                render::list(texts.map(|text| render::text_block(&wrapped(&text))))
            }
        };
        let message = render::message("user", &content);
        let time = self.time(Some(0));
        self.line(&Outgoing { kind: "user", message: &message, marks: &[META], time });
    }

    fn message(&mut self, message: Value<'_>, source: Option<usize>) {
        let Some(content) = message.get("content") else { return };
        let time = self.time(source);
        let native = source.and_then(|index| self.session.messages.get(index));
        if message.says("role", "assistant") {
            let model = native.and_then(|native| source_field(native, &["message", "model"]));
            let model = model.unwrap_or_else(|| self.model.clone());
            let usage = native.and_then(|native| usage_of(native)).unwrap_or_else(|| NO_USAGE.to_owned());
            return self.response(content, &model, &usage, &time);
        }
        let mut marks = native.map(|native| marks_of(native)).unwrap_or_default();
        if self.parent.is_some() {
            // A summary hides everything before it, so only the first line may be one.
            marks.retain(|mark| *mark == META);
        }
        let message = render::message("user", &plain_content(content, &self.ids));
        self.line(&Outgoing { kind: "user", message: &message, marks: &marks, time });
    }

    /// Writes a response of the model: a line for each block.
    fn response(&mut self, content: Value<'_>, model: &str, usage: &str, time: &str) {
        self.responses += 1;
        let id = format!("msg_{}", short_name(&format!("{} {}", self.id, self.responses), 24));
        let blocks: Vec<Cow<'_, str>> = match content.as_str() {
            Some(text) => vec![render::text_block(&text).into()],
            None => content.items().map(|block| plain_block(block, &self.ids)).collect(),
        };
        for block in blocks {
            let message = Object::new().text("id", &id).text("type", "message").text("role", "assistant");
            let message = message.text("model", model).raw("content", &format!("[{block}]"));
            let message = message.raw("stop_reason", "null").raw("stop_sequence", "null").raw("usage", usage);
            let (message, time) = (message.finish(), time.to_owned());
            self.line(&Outgoing { kind: "assistant", message: &message, marks: &[], time });
        }
    }

    fn line(&mut self, line: &Outgoing<'_>) {
        let own = self.parent.as_deref().unwrap_or(&self.id);
        let uuid = EntryId::derive(&self.session.id, own, line.message).to_string();
        let mut out = Object::new()
            .text_or_null("parentUuid", self.parent.as_ref())
            .flag("isSidechain", false)
            .text("userType", "external")
            .text("cwd", &self.folder)
            .text("sessionId", &self.id)
            .text("version", &self.version)
            .text("gitBranch", "")
            .text("type", line.kind)
            .raw("message", line.message);
        for mark in line.marks {
            out = out.flag(mark, true);
        }
        self.text.push_str(&out.text("uuid", &uuid).text("timestamp", &line.time).finish());
        self.text.push('\n');
        self.parent = Some(uuid);
    }

    fn title(&mut self) {
        let Some(title) = self.session.title() else { return };
        let line = Object::new().text("type", "custom-title").text("customTitle", title);
        self.text.push_str(&line.text("sessionId", &self.id).finish());
        self.text.push('\n');
    }

    /// The time of a message if the source has a readable one, otherwise the time of the line before. It never goes back.
    fn time(&mut self, source: Option<usize>) -> String {
        let detail = source.and_then(|index| self.session.details.get(index));
        let time = detail.and_then(|detail| instant(detail.time.as_ref()?));
        self.now = time.map_or(self.now, |time| time.max(self.now));
        format!("{:.3}", self.now)
    }
}

/// A text in the source line of a message, by the path of its field.
fn source_field(message: &Message, names: &[&str]) -> Option<String> {
    with_source_line(message, |root| {
        let value = names.iter().try_fold(root, |value, name| value.get(name))?;
        value.as_str().filter(|text| !text.is_empty()).map(Cow::into_owned)
    })
}

/// The usage of a response, from its last line, which has the final counts.
fn usage_of(message: &Message) -> Option<String> {
    let native = message.native.as_ref().filter(|native| &*native.format == FORMAT)?;
    let raw = native.raw.as_str();
    let last = native.items.last().map_or(Some(raw), |item| item.span.of(raw))?;
    let doc = Doc::parse(last).ok()?;
    let usage = doc.root()?.get("message")?.get("usage").filter(|usage| usage.kind() == ValueKind::Object)?;
    Some(one_line(usage.raw()).into_owned())
}

fn marks_of(message: &Message) -> Vec<&'static str> {
    let marks = with_source_line(message, |root| {
        Some(MARKS.into_iter().filter(|mark| is_true(root.get(mark))).collect())
    });
    marks.unwrap_or_default()
}

/// Looks into the first source line of a message.
fn with_source_line<T>(message: &Message, look: impl FnOnce(Value<'_>) -> Option<T>) -> Option<T> {
    let native = message.native.as_ref().filter(|native| &*native.format == FORMAT)?;
    let (doc, _) = Doc::parse_prefix(native.raw.as_str());
    look(doc.root().filter(|root| root.kind() == ValueKind::Object)?)
}

/// Call ids that are another call's id with a number appended, such as `call_1_2` beside `call_1`, each with a safe
/// replacement: Claude Code drops the results of such calls.
fn misleading_ids(messages: &[Value<'_>]) -> BTreeMap<String, String> {
    let blocks = messages.iter().filter_map(|message| message.get("content")).flat_map(Value::items);
    let calls = blocks.filter(|block| block.says("type", "tool_use"));
    let ids: HashSet<String> =
        calls.filter_map(|call| Some(call.get("id")?.as_str()?.into_owned())).collect();
    let misleading = ids.iter().filter_map(|id| {
        let (base, number) = id.rsplit_once('_')?;
        let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        (is_number && ids.contains(base)).then_some((id, base, number))
    });
    let unused = |base: &str, number: &str| {
        let mut dashes = (1..).map(|count| format!("{base}{}{number}", "-".repeat(count)));
        dashes.find(|id| !ids.contains(id)).expect("BUG: there are endlessly many")
    };
    misleading.map(|(id, base, number)| (id.clone(), unused(base, number))).collect()
}

/// The content of a line: our spelling around blocks that keep theirs, so that writing it again changes nothing.
fn plain_content(content: Value<'_>, ids: &BTreeMap<String, String>) -> String {
    match content.as_str() {
        Some(text) => render::quoted(&text),
        None => render::list(content.items().map(|block| plain_block(block, ids))),
    }
}

/// A block on one line, without cache marks on it or on the blocks inside a result.
fn plain_block<'b>(block: Value<'b>, ids: &BTreeMap<String, String>) -> Cow<'b, str> {
    let other_id = ["id", "tool_use_id"].iter().find_map(|name| ids.get(&*block.get(name)?.as_str()?));
    if block.kind() != ValueKind::Object || (!block.raw().contains(MARK) && other_id.is_none()) {
        return one_line(block.raw());
    }
    let result = block.says("type", "tool_result");
    let mut out = String::from("{");
    for (key, value) in block.fields().filter(|(key, _)| !key.is_str("cache_control")) {
        write::key(&mut out, &key.as_str().unwrap_or_default());
        match other_id {
            Some(id) if key.is_str("id") || key.is_str("tool_use_id") => write::string(&mut out, id),
            _ if result && key.is_str("content") && value.kind() == ValueKind::Array => {
                let inside = value.items().map(|inner| plain_block(inner, &BTreeMap::new()));
                out.push_str(&render::list(inside));
            }
            _ => out.push_str(&one_line(value.raw())),
        }
    }
    out.push('}');
    out.into()
}

/// JSON on one line. JSON strings cannot contain line breaks, so all of them are between values.
fn one_line(json: &str) -> Cow<'_, str> {
    if json.contains(['\n', '\r']) { json.replace(['\n', '\r'], " ").into() } else { json.into() }
}
