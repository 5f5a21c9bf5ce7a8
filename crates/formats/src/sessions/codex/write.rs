//! Writes a rollout that `codex resume` accepts and displays.
//!
//! The items are those of a Responses request, which are sound by construction. Codex drops whole lines that it does not
//! understand, so everything is rewritten in a form that it knows.

use std::{
    borrow::Cow,
    collections::{HashSet, VecDeque},
};

use rejoin_record::{
    EntryId, Timestamp,
    json::{Doc, Object, Value, ValueKind, list, quoted},
};
use rejoin_view::{Action, Finding, Position, Rule, SoundView};

use super::FORMAT;
use crate::{
    session::{Aside, Session, SetAside, instant},
    sessions::writing::{Writing, Written},
    wire::openai_responses::read::{Call, Hosted, Side, is_put_there, is_said_by_a_person},
    wire::{TooLarge, registry::Dialect, render},
};

/// The Codex version that the rollout names, as every rollout must.
const VERSION: &str = "0.0.0";

/// Codex cuts a longer output when it sends it, unless the line raises the limit.
const LONG_OUTPUT: usize = 40_000;

/// Items of other programs that Codex sends unchanged.
const PASSED_ON: &str = "web_search_call image_generation_call compaction compaction_summary context_compaction \
                         tool_search_call tool_search_output";

/// Events of a source rollout that are not copied: those that are written again with the items, and those about things that
/// are not in the copy. The others record where turns begin and end, what ran, and how full the context was, which Codex
/// needs to decide when to compact.
const NOT_CARRIED: &[&str] =
    &["user_message", "agent_message", "thread_name_updated", "thread_rolled_back", "context_compacted"];
const TOKEN_COUNT: &str = "token_count";

/// The dialect of the items of a rollout.
const DIALECT: Dialect = Dialect::OpenAiResponses;

/// Writes the view of a session as a rollout.
pub(crate) fn write(session: &Session, view: &SoundView, writing: &Writing<'_>) -> Result<Written, TooLarge> {
    let encoded = writing.encode(session, view, DIALECT)?;
    let doc = Doc::parse(&encoded.body);
    let body = doc.as_ref().ok().and_then(Doc::root);
    let items: Vec<Value<'_>> =
        body.and_then(|body| body.get("input")).into_iter().flat_map(Value::items).collect();
    let origins: Vec<Option<usize>> = encoded.sources.iter().copied().collect();
    let mut rollout = Rollout {
        out: String::new(),
        now: first_time(session).unwrap_or(writing.now),
        findings: encoded.findings,
        events: carried_events(session, writing),
    };
    rollout.meta(session, body, writing);
    let model = writing.model.map(str::to_owned).or_else(|| session.context.model());
    if let Some(model) = model.filter(|_| session.context.dialect == Some(DIALECT)) {
        rollout.turn_context(session, &model, writing);
    }
    if let Some(text) = body.and_then(|body| body.get("input")?.as_str()) {
        rollout.message("user", input_text(&text));
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
        rollout.event("thread_name_updated", "thread_name", title);
    }
    Ok(Written::text(rollout.out, rollout.findings))
}

/// The payloads of the lines of one type in a source that is itself a rollout, as `look` sees them, each with the number of
/// messages before it.
fn payloads<'s, T>(
    asides: &'s [SetAside],
    kind: &'static str,
    look: impl Fn(Value<'_>) -> Option<T> + 's,
) -> impl DoubleEndedIterator<Item = (usize, T)> + 's {
    asides.iter().filter_map(move |item| {
        let doc = Doc::parse(item.raw().filter(|line| line.contains(kind))?).ok()?;
        let root = doc.root().filter(|root| root.get("type").is_some_and(|own| own.is_str(kind)))?;
        Some((item.after, look(root.get("payload")?)?))
    })
}

/// Texts in the first line of a source that is itself a rollout.
fn source_meta<const N: usize>(session: &Session, names: [&str; N]) -> [Option<String>; N] {
    let texts = |meta: Value<'_>| {
        Some(names.map(|name| meta.given(name).and_then(Value::as_str).map(Cow::into_owned)))
    };
    let first = payloads(&session.set_aside, "session_meta", texts).next();
    first.map_or([const { None }; N], |(_, texts)| texts)
}

/// The first time in the source: that of its first line if it is a rollout, otherwise of its first message.
fn first_time(session: &Session) -> Option<Timestamp> {
    let [began] = source_meta(session, ["timestamp"]);
    let messages = || session.details.iter().find_map(|detail| instant(detail.time.as_ref()?));
    began.and_then(|time| instant(&time)).or_else(messages)
}

/// Events of a source that is itself a rollout, each with the number of messages before it.
fn carried_events(session: &Session, writing: &Writing<'_>) -> VecDeque<(usize, String)> {
    // Another model has another context and counts tokens differently.
    if writing.model.is_some_and(|model| session.context.model().is_some_and(|own| own != model)) {
        return VecDeque::new();
    }
    let compacted = session.set_aside.iter().rposition(|item| matches!(item.what, Aside::Compacted { .. }));
    let since = &session.set_aside[compacted.map_or(0, |at| at + 1)..];
    // Turns that were undone have no messages any more.
    let taken_back = since.iter().any(|item| matches!(item.what, Aside::Hidden(..)));
    let carried = |payload: Value<'_>| {
        let kind = payload.get("type")?.as_str()?;
        let wanted = if taken_back { kind == TOKEN_COUNT } else { !NOT_CARRIED.contains(&&*kind) };
        wanted.then(|| payload.raw().to_owned())
    };
    payloads(since, "event_msg", carried).collect()
}

/// The items that are displayed as words of a person. Codex lists a session under the first of them, and each begins a turn,
/// so text that an agent inserted is not among them. At least one is, because Codex does not list a session without any.
fn shown_as_said(session: &Session, items: &[Value<'_>], origins: &[Option<usize>]) -> Vec<bool> {
    let is_user = |item: &Value<'_>| item.get("role").is_some_and(|role| role.is_str("user"));
    // A rollout records what people said.
    let own: HashSet<String> = payloads(&session.set_aside, "event_msg", |payload| {
        payload.get("type").filter(|kind| kind.is_str("user_message"))?;
        Some(payload.get("message")?.as_str()?.trim().to_owned())
    })
    .map(|(_, words)| words)
    .collect();
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
    /// The time of the next line, which never goes back.
    now: Timestamp,
    findings: Vec<Finding>,
    /// Events that are still to be written, each with the number of source messages before it.
    events: VecDeque<(usize, String)>,
}

impl Rollout {
    fn line(&mut self, kind: &str, payload: &str, metadata: Option<&str>) {
        let line = Object::new().text("timestamp", rfc3339(self.now)).text("type", kind);
        let line = line.raw("payload", &payload.replace(['\n', '\r'], " ")).raw_if("metadata", metadata);
        self.out.push_str(&line.finish());
        self.out.push('\n');
    }

    /// Moves to a message of the source: writes the events before it, and takes over its time.
    fn reach(&mut self, session: &Session, message: usize) {
        while let Some((_, event)) = self.events.pop_front_if(|(before, _)| *before <= message) {
            self.line("event_msg", &event, None);
        }
        let time = session.details.get(message).and_then(|detail| instant(detail.time.as_ref()?));
        self.now = time.map_or(self.now, |time| time.max(self.now));
    }

    /// Writes an event with one text.
    fn event(&mut self, kind: &str, field: &str, text: &str) {
        let payload = Object::new().text("type", kind).text(field, text);
        self.line("event_msg", &payload.finish(), None);
    }

    /// Writes the first line, without which there is no session.
    fn meta(&mut self, session: &Session, body: Option<Value<'_>>, writing: &Writing<'_>) {
        let [version, provider] = source_meta(session, ["cli_version", "model_provider"]);
        // The source can stay, because the copy has another id, which is always the same.
        let id = EntryId::derive(&session.id, "written", FORMAT);
        let instructions = body.and_then(|body| body.given("instructions")).and_then(Value::as_str);
        let instructions = instructions.filter(|text| !text.is_empty());
        let instructions = instructions.map(|text| Object::new().text("text", text).finish());
        let meta = Object::new()
            .text("id", id)
            .text("session_id", id)
            .text("timestamp", rfc3339(self.now))
            .text("cwd", session.directory().as_deref().unwrap_or(writing.directory))
            .text("originator", "rejoin")
            .text("cli_version", version.as_deref().unwrap_or(VERSION))
            // Codex neither lists nor resumes a session of a provider other than the configured one.
            .text_if("model_provider", provider)
            .raw_if("base_instructions", instructions.as_deref());
        self.line("session_meta", &meta.finish(), None);
    }

    fn turn_context(&mut self, session: &Session, model: &str, writing: &Writing<'_>) {
        // The last one of the source contains more than the model.
        let raw = |payload: Value<'_>| Some(payload.raw().to_owned());
        let source = payloads(&session.set_aside, "turn_context", raw).next_back();
        let source = source.map(|(_, payload)| payload).filter(|_| writing.model.is_none());
        let payload = source.unwrap_or_else(|| {
            let context = Object::new().text("cwd", writing.directory).text("approval_policy", "on-request");
            let context = context.object("sandbox_policy", Object::new().text("type", "read-only"));
            context.text("model", model).text("summary", "auto").finish()
        });
        self.line("turn_context", &payload, None);
    }

    fn item(&mut self, item: Value<'_>, shown: bool) {
        let kind = item.get("type").and_then(Value::as_str).unwrap_or_default();
        match &*kind {
            "message" | "" => self.message_item(item, shown),
            "reasoning" => self.response_item(&reasoning(item), None),
            "function_call" | "custom_tool_call" | "local_shell_call" => self.response_item(item.raw(), None),
            // Codex sends some items of other programs unchanged.
            kind if PASSED_ON.split(' ').any(|known| known == kind) => self.response_item(item.raw(), None),
            _ => match (Call::of_call(&kind), Call::of_output(&kind)) {
                (Some(call), _) => self.response_item(&as_function_call(item, call), None),
                (None, Some(call)) => self.output(item, call),
                // Codex would silently skip the rest.
                (None, None) => {
                    let finding = Finding::new(Rule::ForeignBlock, Position::default(), Action::Replaced);
                    self.findings.push(finding.about(&*kind));
                    let label = render::opaque_label(&kind, item.raw());
                    match Hosted::of(&kind).map(|known| known.side) {
                        Some(Side::User) => self.message("user", input_text(&label)),
                        Some(Side::Developer) => self.message("developer", input_text(&label)),
                        Some(Side::Provider) | None => self.message("assistant", output_text(&label)),
                    }
                }
            },
        }
    }

    fn response_item(&mut self, item: &str, metadata: Option<&str>) {
        self.line("response_item", item, metadata);
    }

    /// Writes a message, and the event that displays it if it is a person's or a model's.
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
                // Any other part would make Codex drop the whole message.
                _ => parts.push(words(&self.label(part))),
            }
        }
        // Codex has one role for instructions.
        let role = if role == "system" { "developer" } else { &*role };
        let said = texts.join("\n");
        if answer {
            self.event("agent_message", "message", &said);
        }
        let id = item.given("id").filter(|_| answer);
        let payload = Object::new().text("type", "message").text("role", role);
        let payload = payload.raw_if("id", id.map(|id| id.raw())).list("content", parts);
        self.response_item(&payload.finish(), None);
        if role == "user" && shown {
            // Text that an agent inserted before the words of a person is sent, but the person did not say it.
            let own: Vec<&str> =
                texts.iter().map(String::as_str).filter(|text| !is_put_there(text)).collect();
            let said = if own.is_empty() { said } else { own.join("\n") };
            self.event("user_message", "message", &said);
        }
    }

    /// Text in place of something that a rollout cannot hold.
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

    /// Writes a message with one part.
    fn message(&mut self, role: &str, part: String) {
        let payload = Object::new().text("type", "message").text("role", role).list("content", [part]);
        let payload = payload.finish();
        let doc = Doc::parse(&payload);
        if let Some(item) = doc.as_ref().ok().and_then(Doc::root) {
            self.message_item(item, true);
        }
    }

    fn output(&mut self, item: Value<'_>, call: Call) {
        let custom = call.call == "custom_tool_call";
        let kind = if custom { "custom_tool_call_output" } else { "function_call_output" };
        let output = item.get("output");
        let output = match output.map(|output| (output, output.kind())) {
            Some((output, ValueKind::String)) => output.raw().to_owned(),
            Some((output, ValueKind::Array)) if call.tool.is_none() => self.output_parts(output),
            Some((output, _)) => quoted(output.raw()),
            None => quoted(""),
        };
        let id = item.get("call_id").map_or("\"\"", |id| id.raw());
        let payload = Object::new().text("type", kind).raw("call_id", id).raw("output", &output).finish();
        let long = payload.len() > LONG_OUTPUT;
        let metadata =
            long.then(|| Object::new().count("fallback_token_limit_override", payload.len()).finish());
        self.response_item(&payload, metadata.as_deref());
    }

    fn output_parts(&mut self, output: Value<'_>) -> String {
        list(output.items().map(|part| match part.get("type").and_then(Value::as_str).as_deref() {
            Some("input_text" | "input_image") => part.raw().to_owned(),
            _ => input_text(&self.label(part)),
        }))
    }
}

/// Reasoning as Codex reads it: with a summary, even an empty one.
fn reasoning(item: Value<'_>) -> String {
    if item.given("summary").is_some() {
        return item.raw().to_owned();
    }
    Object::new().raw("summary", "[]").fields(item).finish()
}

/// A call of a kind that Codex does not know, as a function.
fn as_function_call(item: Value<'_>, call: Call) -> String {
    let name = call.tool.unwrap_or("tool");
    let arguments = item.get(call.input).map_or("{}", |asked| asked.raw());
    let id = item.get("call_id").and_then(Value::as_str).unwrap_or_default();
    let call = Object::new().text("type", "function_call").text("call_id", id);
    call.text("name", name).text("arguments", arguments).finish()
}

fn input_text(text: &str) -> String {
    Object::new().text("type", "input_text").text("text", text).finish()
}

fn output_text(text: &str) -> String {
    Object::new().text("type", "output_text").text("text", text).finish()
}
