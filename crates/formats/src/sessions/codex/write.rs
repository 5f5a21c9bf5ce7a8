//! Writing a rollout that `codex resume` takes and shows.
//!
//! The items are those of a Responses request: sound by construction. Codex drops whole lines that it does not understand,
//! so everything is put in the form that it does.

use std::collections::{HashSet, VecDeque};

use rejoin_record::{
    Text, Timestamp,
    json::{Doc, Kind, Value, write},
};
use rejoin_view::{Action, Finding, Position, Rule, SoundView};

use super::origins::origins;
use crate::{
    convert::Target,
    responses::{Call, Hosted, Side, is_put_there, is_said_by_a_person},
    session::{Aside, Session, instant},
    sessions::writing::{Writing, Written, uuid},
    wire::{TooLarge, registry::Dialect, render},
};

/// What Codex writes as its own version; a rollout has to name one.
const VERSION: &str = "0.0.0";

/// An output of more bytes is cut when Codex sends it, unless its line says otherwise.
const LONG_OUTPUT: usize = 40_000;

/// What Codex sends on although it is not its own.
const PASSED_ON: &[&str] = &[
    "web_search_call",
    "image_generation_call",
    "compaction",
    "compaction_summary",
    "context_compaction",
    "tool_search_call",
    "tool_search_output",
];

/// Events of a source rollout that are not carried over: those that are written for the items themselves, and those about
/// what is not in the copy. The others say where turns begin and end, what ran, and how full the context was, by which Codex
/// decides when to compact.
const NOT_CARRIED: &[&str] =
    &["user_message", "agent_message", "thread_name_updated", "thread_rolled_back", "context_compacted"];
const TOKEN_COUNT: &str = "token_count";

/// Writes the view of a session as a rollout.
///
/// # Errors
/// If something in it is larger than OpenAI takes.
pub fn write(session: &Session, view: &SoundView, writing: &Writing<'_>) -> Result<Written, TooLarge> {
    let target = Target { model: writing.model, closes: false, ..Target::of(&session.context) };
    let encoded = Dialect::OpenAiResponses.wire().encode(view, &target)?;
    let doc = Doc::parse(&encoded.body);
    let body = doc.as_ref().ok().and_then(Doc::root);
    let items: Vec<Value<'_>> =
        body.and_then(|body| body.get("input")).into_iter().flat_map(Value::items).collect();
    let origins = origins(view, &encoded.findings, &items);
    let mut rollout = Rollout {
        out: String::new(),
        now: first_time(session).unwrap_or(writing.now),
        findings: encoded.findings,
        events: carried_events(session, writing),
    };
    rollout.meta(session, body, writing);
    let model = writing.model.map(str::to_owned).or_else(|| session.context.model());
    if let Some(model) = model.filter(|_| session.context.dialect == Some(Dialect::OpenAiResponses)) {
        rollout.turn_context(session, &model, writing);
    }
    if let Some(text) = body.and_then(|body| body.get("input")?.as_str()) {
        rollout.message("user", &[input_text(&text)]);
    }
    let shown = shown_as_said(session, &items, &origins);
    for ((item, origin), shown) in items.into_iter().zip(origins).zip(shown) {
        if let Some(origin) = origin {
            rollout.reach(session, origin);
        }
        rollout.item(item, shown);
    }
    rollout.reach(session, usize::MAX);
    if let Some(title) = session.title() {
        rollout.event(&format!(
            "{{\"type\":\"thread_name_updated\",\"thread_name\":{}}}",
            render::literal(title)
        ));
    }
    Ok(Written { text: rollout.out, findings: rollout.findings })
}

/// The first time that the source knows: that of its first line, if it is a rollout, or of its first message.
fn first_time(session: &Session) -> Option<Timestamp> {
    let line = source_meta(session);
    let doc = line.as_ref().and_then(|line| Doc::parse(line).ok());
    let began =
        doc.as_ref().and_then(|doc| instant(&doc.root()?.get("payload")?.given("timestamp")?.as_str()?));
    began.or_else(|| session.details.iter().find_map(|detail| instant(detail.time.as_ref()?)))
}

/// Events of a source that is itself a rollout, with the number of messages that stand before each.
fn carried_events(session: &Session, writing: &Writing<'_>) -> VecDeque<(usize, Text)> {
    // Another model has another context, and other tokens.
    if writing.model.is_some_and(|model| session.context.model().is_some_and(|own| own != model)) {
        return VecDeque::new();
    }
    let compacted = session.set_aside.iter().rposition(|item| matches!(item.what, Aside::Compacted { .. }));
    let since = &session.set_aside[compacted.map_or(0, |at| at + 1)..];
    // Turns that were taken back have no messages any more.
    let taken_back = since.iter().any(|item| matches!(item.what, Aside::Hidden(..)));
    let carried = |line: &Text| {
        let doc = Doc::parse(line).ok()?;
        let root = doc.root().filter(|root| root.get("type").is_some_and(|kind| kind.is_str("event_msg")))?;
        let payload = root.get("payload")?;
        let kind = payload.get("type")?.as_str()?;
        let wanted = if taken_back { kind == TOKEN_COUNT } else { !NOT_CARRIED.contains(&&*kind) };
        wanted.then(|| Text::new(payload.raw()))
    };
    since.iter().filter_map(|item| Some((item.after, carried(item.raw()?)?))).collect()
}

/// Which items are shown as words of a person. Codex lists a session under the first of them, and each begins a turn: what
/// an agent put there is none. At least one is shown, for a session without any is not listed.
fn shown_as_said(session: &Session, items: &[Value<'_>], origins: &[Option<usize>]) -> Vec<bool> {
    let is_user = |item: &Value<'_>| item.get("role").is_some_and(|role| role.is_str("user"));
    // A rollout says itself what people said.
    let own: HashSet<String> =
        session.set_aside.iter().filter_map(|item| said_by_event(item.raw()?)).collect();
    let said = |origin: Option<usize>, item: &Value<'_>| {
        let message = session.messages.get(origin?)?;
        Some(if own.is_empty() { is_said_by_a_person(message) } else { own.contains(words(*item).trim()) })
    };
    let mut shown: Vec<bool> = items
        .iter()
        .zip(origins)
        .map(|(item, origin)| is_user(item) && said(*origin, item).unwrap_or(false))
        .collect();
    if !shown.contains(&true) {
        let put_there = |item: &Value<'_>| is_put_there(&words(*item));
        let users = || items.iter().enumerate().filter(|(_, item)| is_user(item));
        let best = users().find(|(_, item)| !put_there(item)).or_else(|| users().next());
        best.into_iter().for_each(|(place, _)| shown[place] = true);
    }
    shown
}

/// What a person said, as an event of a rollout has it.
fn said_by_event(line: &str) -> Option<String> {
    let doc = Doc::parse(line).ok().filter(|_| line.contains("user_message"))?;
    let root = doc.root().filter(|root| root.get("type").is_some_and(|kind| kind.is_str("event_msg")))?;
    let payload = root.get("payload")?;
    payload.get("type").filter(|kind| kind.is_str("user_message"))?;
    Some(payload.get("message")?.as_str()?.trim().to_owned())
}

/// The text of a message's item.
fn words(item: Value<'_>) -> String {
    let content = item.get("content");
    let texts = content.into_iter().flat_map(Value::items).filter_map(|part| part.get("text")?.as_str());
    content.and_then(Value::as_str).into_iter().chain(texts).collect::<Vec<_>>().join("\n")
}

/// Milliseconds, as Codex writes them.
fn rfc3339(time: Timestamp) -> String {
    format!("{time:.3}")
}

struct Rollout {
    out: String,
    /// The time of the next line: it never goes back.
    now: Timestamp,
    findings: Vec<Finding>,
    /// Events that are still to come, each with the number of source messages before it.
    events: VecDeque<(usize, Text)>,
}

impl Rollout {
    fn line(&mut self, kind: &str, payload: &str, metadata: Option<&str>) {
        self.out.push_str("{\"timestamp\":");
        write::string(&mut self.out, &rfc3339(self.now));
        write::key(&mut self.out, "type");
        write::string(&mut self.out, kind);
        write::key(&mut self.out, "payload");
        self.out.push_str(&payload.replace(['\n', '\r'], " "));
        if let Some(metadata) = metadata {
            write::key(&mut self.out, "metadata");
            self.out.push_str(metadata);
        }
        self.out.push_str("}\n");
    }

    /// Goes on to a message of the source: writes the events that stand before it, and takes its time.
    fn reach(&mut self, session: &Session, message: usize) {
        while let Some((_, event)) = self.events.pop_front_if(|(before, _)| *before <= message) {
            self.event(&event);
        }
        let time = session.details.get(message).and_then(|detail| instant(detail.time.as_ref()?));
        self.now = time.map_or(self.now, |time| time.max(self.now));
    }

    fn event(&mut self, payload: &str) {
        self.line("event_msg", payload, None);
    }

    /// The first line: without it there is no session. It has an id of its own, so that the source can stay.
    fn meta(&mut self, session: &Session, body: Option<Value<'_>>, writing: &Writing<'_>) {
        let source = source_meta(session);
        let doc = source.as_ref().and_then(|line| Doc::parse(line).ok());
        let payload = doc.as_ref().and_then(|doc| doc.root()?.get("payload"));
        let own = |name: &str| payload.and_then(|payload| payload.given(name)?.as_str());
        let id = uuid(session, "codex");
        let mut out = String::from("{");
        for (name, value) in [
            ("id", id.as_str()),
            ("session_id", id.as_str()),
            ("timestamp", &*rfc3339(self.now)),
            ("cwd", session.directory().as_deref().unwrap_or(writing.directory)),
            ("originator", "rejoin"),
            ("cli_version", own("cli_version").as_deref().unwrap_or(VERSION)),
        ] {
            write::key(&mut out, name);
            write::string(&mut out, value);
        }
        // Codex neither lists nor resumes a session that names another provider than the one it is set to.
        if let Some(provider) = own("model_provider") {
            write::key(&mut out, "model_provider");
            write::string(&mut out, &provider);
        }
        let instructions = body.and_then(|body| body.given("instructions")).and_then(Value::as_str);
        if let Some(text) = instructions.filter(|text| !text.is_empty()) {
            write::key(&mut out, "base_instructions");
            out.push_str(&format!("{{\"text\":{}}}", render::literal(&text)));
        }
        out.push('}');
        self.line("session_meta", &out, None);
    }

    fn turn_context(&mut self, session: &Session, model: &str, writing: &Writing<'_>) {
        // The last one of the source says more than the model.
        let source = session.set_aside.iter().rev().filter_map(|item| item.raw()).find_map(|line| {
            let doc = Doc::parse(line).ok()?;
            let root = doc.root()?;
            root.get("type")?
                .is_str("turn_context")
                .then(|| root.get("payload").map(|p| p.raw().to_owned()))?
        });
        let payload = source.filter(|_| writing.model.is_none()).unwrap_or_else(|| {
            let (cwd, model) = (render::literal(writing.directory), render::literal(model));
            format!(
                "{{\"cwd\":{cwd},\"approval_policy\":\"on-request\",\"sandbox_policy\":{{\"type\":\"read-only\"}},\
                 \"model\":{model},\"summary\":\"auto\"}}"
            )
        });
        self.line("turn_context", &payload, None);
    }

    fn item(&mut self, item: Value<'_>, shown: bool) {
        let kind = item.get("type").and_then(Value::as_str).unwrap_or_default();
        match &*kind {
            "message" | "" => self.message_item(item, shown),
            "reasoning" => self.response_item(&reasoning(item), None),
            "function_call" | "custom_tool_call" | "local_shell_call" => self.response_item(item.raw(), None),
            // Codex passes on some of what is not its own.
            kind if PASSED_ON.contains(&kind) => self.response_item(item.raw(), None),
            _ => match (Call::of_call(&kind), Call::of_output(&kind)) {
                (Some(call), _) => self.response_item(&as_function_call(item, call), None),
                (None, Some(call)) => self.output(item, call),
                // The rest it would skip without a word.
                (None, None) => {
                    let finding = Finding::new(Rule::ForeignBlock, Position::default(), Action::Replaced);
                    self.findings.push(finding.about(&*kind));
                    let label = render::opaque_label(&kind, item.raw());
                    match Hosted::of(&kind).map(|known| known.side) {
                        Some(Side::User) => self.message("user", &[input_text(&label)]),
                        Some(Side::Developer) => self.message("developer", &[input_text(&label)]),
                        Some(Side::Provider) | None => self.message("assistant", &[output_text(&label)]),
                    }
                }
            },
        }
    }

    fn response_item(&mut self, item: &str, metadata: Option<&str>) {
        self.line("response_item", item, metadata);
    }

    /// A message, and the event that shows it, where it is a person's or a model's.
    fn message_item(&mut self, item: Value<'_>, shown: bool) {
        let role = item.get("role").and_then(Value::as_str).unwrap_or_default();
        let content = item.get("content");
        let answer = role == "assistant";
        let mut parts: Vec<String> = Vec::new();
        let mut texts: Vec<String> = Vec::new();
        let words = |text: &str| if answer { output_text(text) } else { input_text(text) };
        if let Some(text) = content.and_then(Value::as_str) {
            parts.push(words(&text));
            texts.push(text.into_owned());
        }
        for part in content.into_iter().flat_map(Value::items) {
            let field = |name| part.get(name).and_then(Value::as_str);
            match (field("type").as_deref(), field("text").or_else(|| field("refusal"))) {
                (Some("input_text" | "output_text" | "refusal" | "text"), Some(text)) => {
                    parts.push(words(&text));
                    texts.push(text.into_owned());
                }
                (Some("input_image"), _)
                    if field("image_url").is_some_and(|url| url.starts_with("data:")) =>
                {
                    parts.push(part.raw().to_owned());
                }
                // Whatever else stands in a message makes Codex drop all of it.
                _ => parts.push(words(&self.label(part))),
            }
        }
        // Instructions have one name here.
        let role = if role == "system" { "developer" } else { &*role };
        let said = texts.join("\n");
        if answer {
            self.event(&format!("{{\"type\":\"agent_message\",\"message\":{}}}", render::literal(&said)));
        }
        let mut payload = String::from("{\"type\":\"message\",\"role\":");
        write::string(&mut payload, role);
        if let Some(id) = item.given("id").filter(|_| answer) {
            write::key(&mut payload, "id");
            payload.push_str(id.raw());
        }
        write::key(&mut payload, "content");
        render::array(&mut payload, parts.iter().map(String::as_str));
        payload.push('}');
        self.response_item(&payload, None);
        if role == "user" && shown {
            // What an agent put before the words of a person is sent, but was not said.
            let own: Vec<&str> =
                texts.iter().map(String::as_str).filter(|text| !is_put_there(text)).collect();
            let said = if own.is_empty() { said } else { own.join("\n") };
            self.event(&format!("{{\"type\":\"user_message\",\"message\":{}}}", render::literal(&said)));
        }
    }

    /// What cannot stand in a rollout, as text.
    fn label(&mut self, part: Value<'_>) -> String {
        self.findings.push(Finding::new(Rule::MovedMedia, Position::default(), Action::Replaced));
        let field = |name| part.get(name).and_then(Value::as_str);
        let kind = field("type").unwrap_or_default();
        let what = match &*kind {
            "input_image" => "image",
            "input_file" => "document",
            _ => return render::opaque_label(&kind, part.raw()),
        };
        let address =
            field("image_url").or_else(|| field("file_url")).filter(|url| !url.starts_with("data:"));
        let name = field("filename").or(address).or_else(|| field("file_id")).unwrap_or_default();
        format!("[{what}, {name}, not shown]")
    }

    fn message(&mut self, role: &str, parts: &[String]) {
        let mut payload = format!("{{\"type\":\"message\",\"role\":\"{role}\",\"content\":");
        render::array(&mut payload, parts.iter().map(String::as_str));
        payload.push('}');
        let doc = Doc::parse(&payload);
        if let Some(item) = doc.as_ref().ok().and_then(Doc::root) {
            self.message_item(item, true);
        }
    }

    fn output(&mut self, item: Value<'_>, call: Call) {
        let custom = call.call == "custom_tool_call";
        let kind = if custom { "custom_tool_call_output" } else { "function_call_output" };
        let mut payload = String::from("{\"type\":");
        write::string(&mut payload, kind);
        write::key(&mut payload, "call_id");
        payload.push_str(item.get("call_id").map_or("\"\"", |id| id.raw()));
        write::key(&mut payload, "output");
        let output = item.get("output");
        match output.map(|output| (output, output.kind())) {
            Some((output, Kind::String)) => payload.push_str(output.raw()),
            Some((output, Kind::Array)) if call.tool.is_none() => self.output_parts(output, &mut payload),
            Some((output, _)) => write::string(&mut payload, output.raw()),
            None => payload.push_str("\"\""),
        }
        payload.push('}');
        let long = payload.len() > LONG_OUTPUT;
        let metadata = long.then(|| format!("{{\"fallback_token_limit_override\":{}}}", payload.len()));
        self.response_item(&payload, metadata.as_deref());
    }

    fn output_parts(&mut self, output: Value<'_>, payload: &mut String) {
        let parts: Vec<String> = output
            .items()
            .map(|part| match part.get("type").and_then(Value::as_str).as_deref() {
                Some("input_text" | "input_image") => part.raw().to_owned(),
                _ => input_text(&self.label(part)),
            })
            .collect();
        render::array(payload, parts.iter().map(String::as_str));
    }
}

/// The first line of a source that is itself a rollout.
fn source_meta(session: &Session) -> Option<Text> {
    let is_meta = |line: &&Text| {
        let doc = Doc::parse(line).ok().filter(|_| line.contains("\"session_meta\""));
        let root = doc.as_ref().and_then(Doc::root);
        root.and_then(|root| root.get("type")).is_some_and(|kind| kind.is_str("session_meta"))
    };
    session.set_aside.iter().filter_map(|item| item.raw()).find(is_meta).cloned()
}

/// Reasoning as Codex reads it: with a summary, even an empty one.
fn reasoning(item: Value<'_>) -> String {
    if item.given("summary").is_some() {
        return item.raw().to_owned();
    }
    let raw = item.raw();
    format!("{{\"summary\":[],{}", raw[1..].trim_start())
}

/// A call of a kind that Codex does not know, as a function.
fn as_function_call(item: Value<'_>, call: Call) -> String {
    let name = call.tool.unwrap_or("tool");
    let arguments = item.get(call.input).map_or("{}", |asked| asked.raw());
    let id = item.get("call_id").and_then(Value::as_str).unwrap_or_default();
    let mut out = String::from("{\"type\":\"function_call\",\"call_id\":");
    write::string(&mut out, &id);
    write::key(&mut out, "name");
    write::string(&mut out, name);
    write::key(&mut out, "arguments");
    write::string(&mut out, arguments);
    out.push('}');
    out
}

fn input_text(text: &str) -> String {
    format!("{{\"type\":\"input_text\",\"text\":{}}}", render::literal(text))
}

fn output_text(text: &str) -> String {
    format!("{{\"type\":\"output_text\",\"text\":{}}}", render::literal(text))
}
