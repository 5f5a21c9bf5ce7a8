//! GitHub Copilot CLI: `session-state/<session>/events.jsonl`, one event per line, `{type, data, id, parentId, timestamp}`.
//!
//! The events are read in the order of the file. The events of a sub-agent name the call that started it, and the main model
//! never sees them. A compaction replaces everything before it with a summary. A rewind removes events.

use std::collections::{HashMap, HashSet};

use rejoin_record::Origin;

use crate::sessions::{begun::UnendedLines, prelude::*};

pub(crate) const FORMAT: &str = "copilot-cli";

/// Fields of an event that hold no words of the conversation, or the same words in another form.
pub(crate) const KNOWN: &[Known] = &[
    // A message of a person with the additions of the program: the time, reminders.
    Known::fields("data.transformedContent"),
    // The result of a tool for display, and measurements.
    Known::fields("data.result.detailedContent data.toolTelemetry"),
    // The purpose of a call, in words for display.
    Known::fields(
        "data.toolRequests.toolTitle data.toolRequests.intentionSummary data.toolRequests.mcpServerName",
    ),
    // Reasoning that only its provider can read.
    Known::fields("data.reasoningOpaque data.encryptedContent"),
];

/// Types of events that are not part of the conversation, and the beginnings of such types.
const BOOKKEEPING: &[&str] = &[
    "session.",
    "hook.",
    "subagent.",
    "permission.",
    "abort",
    "assistant.turn_",
    "assistant.usage",
    "assistant.intent",
    "assistant.message_delta",
    "assistant.reasoning_delta",
    "tool.execution_progress",
    "tool.execution_partial_result",
    "pending_messages.",
];

/// Whether a text is a file of events.
pub(crate) fn sniff(sample: &Sample<'_>) -> Option<Claim> {
    let is_event = |root: Value<'_>| {
        let kind = root.word("type");
        let own = ["session.", "user.", "assistant.", "tool.", "system.", "hook."];
        own.iter().any(|own| kind.starts_with(own))
            && root.holds("data", ValueKind::Object)
            && root.get("id").is_some()
    };
    Claim::sure(sample.any_line(LOOK_AT, is_event), "events with `data` and a type with a dot")
}

/// Reads the events, line by line.
pub(crate) fn read_stream(mut stream: Stream<'_>) -> Result<Vec<Session>, ReadError> {
    let mut events = Events {
        builder: SessionBuilder::new(FORMAT),
        called: HashSet::new(),
        started: UnendedLines::default(),
        before: HashMap::new(),
        lines: HashMap::new(),
        instructions: None,
        model: None,
        session: None,
        known: false,
    };
    lines::read(&mut stream, &mut events)?;
    events.started.in_order().iter().for_each(|id| events.begin(id));
    if !events.known {
        return Err(ReadError::NoConversation("no line of it is an event"));
    }
    let dialect = events.model.as_deref().and_then(Dialect::of_model).unwrap_or(Dialect::OpenAiChat);
    let context = Context::of_model(dialect, events.model.as_deref());
    Ok(vec![events.builder.finish(stream.name, events.session.as_deref(), context)])
}

struct Events {
    builder: SessionBuilder,
    /// The calls of the model so far.
    called: HashSet<String>,
    /// Calls that began, by their ids. Nearly all of them are also in a message of the model, which may come later.
    started: UnendedLines,
    /// The number of messages before each event, by the id of the event. A rewind names an event.
    before: HashMap<String, usize>,
    /// The lines of events so far, by their ids.
    lines: HashMap<String, Arc<str>>,
    /// The last instructions: each start of the program records them again.
    instructions: Option<Text>,
    model: Option<String>,
    session: Option<String>,
    known: bool,
}

impl Events {
    fn say(&mut self, line: &Line, root: Value<'_>, role: Role, blocks: Vec<Block>) {
        let message = item(FORMAT, role, blocks, Raw::new(Arc::clone(&line.text)));
        let id = text_of(root, "id").map(|id| id.to_string());
        let id = id.unwrap_or_else(|| format!("line {}", line.place.index));
        let detail = Detail::of(id, root.given("timestamp").map(time_of));
        // A sub-agent works on this call, and the main model sees only the result.
        let of_another = root.get("data").is_some_and(|data| data.given("parentToolCallId").is_some());
        if of_another {
            return self.builder.hide(message, line.place, detail);
        }
        self.called.extend(message.tool_calls().map(|call| call.id.to_string()));
        self.builder.say(message, line.place, detail);
    }

    /// Adds a call that began, unless a message of the model already holds it.
    fn begin(&mut self, id: &str) {
        let Some((place, text)) = self.started.remove(id).filter(|_| !self.called.contains(id)) else {
            return;
        };
        let doc = Doc::of(&text).shared_as(&text);
        let Some((root, data)) = doc.root().and_then(|root| Some((root, root.given("data")?))) else {
            return;
        };
        let block = call(Some(id), text_of(data, "toolName").as_deref(), data.get("arguments"));
        let line = Line { text: Arc::clone(&text), place };
        self.known = true;
        self.say(&line, root, Role::Assistant, vec![block]);
    }

    /// Replaces everything so far, except the instructions, with a summary.
    fn compact(&mut self, line: &Line, root: Value<'_>, summary: Text) {
        self.builder.compact(line.place, |message: &Message| message.role == Role::System, Text::new(""));
        self.before.clear();
        self.say(line, root, Role::User, vec![Block::text(summary)]);
    }

    /// The role and the blocks of an event. `None` if it is not part of the conversation.
    fn role_and_blocks(&mut self, kind: &str, data: Value<'_>) -> Option<(Role, Vec<Block>)> {
        let content = |name| text_in(data, name).filter(|text: &Text| !text.is_empty()).map(Block::text);
        Some(match kind {
            "user.message" | "system.notification" => (Role::User, content("content").into_iter().collect()),
            "system.message" => {
                let text = text_in(data, "content")?;
                if self.instructions.as_ref() == Some(&text) {
                    return None;
                }
                self.instructions = Some(text.without_place());
                (Role::System, vec![Block::text(text)])
            }
            "assistant.reasoning" => (Role::Assistant, vec![self.thought(data, "content")?]),
            "assistant.message" => {
                let mut blocks: Vec<Block> = self.thought(data, "reasoningText").into_iter().collect();
                blocks.extend(content("content"));
                let requests = data.given("toolRequests").into_iter().flat_map(Value::items);
                blocks.extend(requests.map(|own| {
                    let id = text_of(own, "toolCallId").filter(|id| !id.is_empty());
                    call(id.as_deref(), text_of(own, "name").as_deref(), own.get("arguments"))
                }));
                self.model = text_of(data, "model").map(|model| model.to_string()).or(self.model.take());
                (Role::Assistant, blocks)
            }
            "tool.execution_complete" => {
                let id = text_of(data, "toolCallId").filter(|id| !id.is_empty());
                let failed = data.get("success").and_then(Value::as_bool) == Some(false);
                let given = data.given("result").or_else(|| data.given("error"));
                let told = given.and_then(|given| {
                    let inside = given.given("content").or_else(|| given.given("message"));
                    let own = inside.unwrap_or(given);
                    // If the object holds only the details that are displayed to people, the model got nothing.
                    let shown = inside.is_none() && given.get("detailedContent").is_some();
                    (!shown).then(|| own.to_text(0).unwrap_or_else(|| as_text(own)))
                });
                let told = told.map(Block::text).into_iter().collect();
                (Role::Tool, vec![result(id.as_deref(), text_of(data, "toolName").as_deref(), told, failed)])
            }
            _ => return None,
        })
    }

    fn thought(&self, data: Value<'_>, name: &str) -> Option<Block> {
        let text = text_in(data, name).filter(|text| !text.is_blank())?;
        let model = self.model.as_deref().map(Text::from);
        Some(Block::reasoning(text, false, Origin { model, ..Origin::default() }))
    }
}

impl LineReader for Events {
    fn value(&mut self, line: &Line, root: Value<'_>) {
        let kind = root.word("type").into_owned();
        let raw = || Text::new(Arc::clone(&line.text));
        let Some(data) = root.given("data").filter(|_| !kind.is_empty()) else {
            return self.builder.aside(line.place, Aside::Unknown(raw()));
        };
        if let Some(id) = text_of(root, "id") {
            let line_text = self.lines.entry(id.to_string()).or_insert_with(|| Arc::clone(&line.text));
            // The map keeps the first line of each event. A different line with the same text repeats it.
            if !Arc::ptr_eq(line_text, &line.text) && *line_text == line.text {
                self.builder.findings.push(lines::doubled(line.place, Action::SetAside, &id));
                return self.builder.aside(line.place, Aside::Raw(raw()));
            }
            self.before.insert(id.to_string(), self.builder.messages.len());
        }
        if kind == "session.compaction_complete"
            && data.get("success").and_then(Value::as_bool) != Some(false)
            && let Some(summary) = text_in(data, "summaryContent").filter(|summary| !summary.is_blank())
        {
            return self.compact(line, root, summary);
        }
        let call_id = text_of(data, "toolCallId").filter(|id| !id.is_empty());
        match (&*kind, call_id) {
            ("tool.execution_start", Some(id)) => {
                self.started.insert(id.to_string(), line.place, Arc::clone(&line.text));
            }
            ("tool.execution_complete", Some(id)) => self.begin(&id),
            _ => {}
        }
        if let Some((role, blocks)) = self.role_and_blocks(&kind, data) {
            self.known = true;
            return self.say(line, root, role, blocks);
        }
        let told = ["system.message", "tool.execution_start"].contains(&&*kind);
        let known = told || BOOKKEEPING.iter().any(|own| kind.starts_with(own));
        self.known |= known;
        self.builder.aside(line.place, if known { Aside::Raw(raw()) } else { Aside::Unknown(raw()) });
        match &*kind {
            "session.start" | "session.resume" => {
                let session = text_of(data, "sessionId").map(|id| id.to_string());
                self.session = self.session.take().or(session);
                let model = text_of(data, "selectedModel").map(|model| model.to_string());
                self.model = model.or(self.model.take());
            }
            "session.model_change" => {
                self.model = text_of(data, "newModel").map(|model| model.to_string()).or(self.model.take());
            }
            "session.title_changed" => {
                let title = text_of(data, "title").filter(|title| !title.is_blank());
                title.into_iter().for_each(|title| self.builder.aside(line.place, Aside::Title(title)));
            }
            "session.snapshot_rewind" => {
                let to = text_of(data, "upToEventId").and_then(|id| self.before.get(id.as_str()).copied());
                if let Some(to) = to.filter(|to| *to < self.builder.messages.len()) {
                    self.builder.roll_back_to(to);
                    self.instructions = None;
                }
            }
            _ => {}
        }
    }

    fn damaged(&mut self, line: &Line, finding: Finding) {
        self.builder.damaged_line(line, finding);
    }

    fn found(&mut self, finding: Finding) {
        self.builder.findings.push(finding);
    }
}
