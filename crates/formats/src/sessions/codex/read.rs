//! Reading a rollout.

use std::{collections::HashSet, hash::BuildHasher as _, io::Cursor};

use rejoin_record::{
    BlockKind, Message, Role, Text,
    json::{Doc, Value, ValueKind},
};
use rejoin_view::{Action, Finding, Position, Rule};

use super::FORMAT;
use crate::{
    context::Context,
    input::{Companions, Stream},
    messages::roles::is_among,
    session::{Aside, ReadError, Session},
    sessions::{
        growing::GrowingReader,
        lines::{self, Line, LineReader, LineStart, at, text_of, time_of},
        opening::refused,
        sample::{Claim, Sample},
    },
    wire::openai_responses::read::{Assembler, Source, is_said_by_a_person},
    wire::{registry::Dialect, render},
};

/// How many lines are read to detect the format.
const LOOK_AT: usize = 50;

/// The longest chain of forks that is followed.
const FORKS: usize = 64;

/// Whether a text looks like a rollout.
pub(crate) fn sniff(sample: &Sample<'_>) -> Option<Claim> {
    Claim::new(
        Claim::SURE - 1,
        sample.any_line(LOOK_AT, is_rollout_line),
        "lines with a `type` and a `payload` of a rollout",
    )
}

/// Whether a line is one that only rollouts have.
fn is_rollout_line(root: Value<'_>) -> bool {
    let kind = root.get("type").and_then(Value::as_str).unwrap_or_default();
    if root.get("payload").is_some_and(|payload| payload.kind() == ValueKind::Object) {
        return ENVELOPES.contains(&&*kind);
    }
    // The first versions wrote metadata without a type, states, and items without an envelope.
    root.get("record_type").is_some()
        || (kind.is_empty()
            && root.get("instructions").is_some()
            && root.get("id").is_some()
            && root.get("timestamp").is_some())
        || (matches!(&*kind, "function_call" | "function_call_output") && root.get("messages").is_none())
}

/// The types of lines.
const ENVELOPES: &[&str] = &[
    "session_meta",
    "response_item",
    "compacted",
    "turn_context",
    "world_state",
    "event_msg",
    "inter_agent_communication",
    "inter_agent_communication_metadata",
    "security_risk_score",
    "token_usage_record",
];

/// The known types of events. They repeat the text of items, or are the program's own notes. Which of them are kept in a rollout
/// depends on the version and on its settings.
const EVENTS: &str = "agent_message agent_message_content_delta agent_message_delta agent_reasoning agent_reasoning_delta \
    agent_reasoning_raw_content agent_reasoning_raw_content_delta agent_reasoning_section_break \
    apply_patch_approval_request background_event collab_agent_interaction_begin collab_agent_interaction_end \
    collab_agent_spawn_begin collab_agent_spawn_end collab_close_begin collab_close_end collab_list_agents_begin \
    collab_list_agents_end collab_resume_begin collab_resume_end collab_waiting_begin collab_waiting_end context_compacted \
    conversation_path deprecation_notice dynamic_tool_call_request dynamic_tool_call_response elicitation_request \
    entered_review_mode error exec_approval_request exec_command_begin exec_command_end exec_command_output_delta \
    exited_review_mode get_history_entry_response guardian_assessment guardian_warning hook_completed hook_started \
    image_generation_begin image_generation_end item_completed item_started list_custom_prompts_response \
    list_skills_response mcp_list_tools_response mcp_startup_complete mcp_startup_update mcp_tool_call_begin \
    mcp_tool_call_end model_reroute model_verification patch_apply_begin patch_apply_end patch_apply_updated plan_delta \
    plan_update reasoning_content_delta reasoning_raw_content_delta request_permissions request_user_input \
    session_configured shutdown_complete skills_update_available stream_error sub_agent_activity task_complete \
    task_started terminal_interaction thread_goal_updated thread_name_updated thread_rolled_back thread_settings_applied \
    token_count turn_aborted turn_complete turn_diff turn_started undo_completed undo_started user_message \
    view_image_tool_call warning web_search_begin web_search_end";

/// Reads the conversation in a rollout, line by line.
pub(crate) fn read_stream(mut stream: Stream<'_>) -> Result<Vec<Session>, ReadError> {
    let mut rollout = Rollout::default();
    let companions = stream.companions;
    lines::read(&mut stream, &mut rollout.with(companions))?;
    rollout.finish(stream.name).map(|session| vec![session])
}

/// A reader of a rollout that grows.
pub(crate) fn growing() -> Box<dyn GrowingReader> {
    Box::new(Rollout::default())
}

impl GrowingReader for Rollout {
    fn add(&mut self, stream: &mut Stream<'_>, start: LineStart) -> Result<LineStart, ReadError> {
        let companions = stream.companions;
        lines::read_on(stream, start, &mut self.with(companions))
    }

    fn session(&mut self, rest: &mut Stream<'_>, start: LineStart) -> Result<Session, ReadError> {
        // What a line that is still being written seems to say must not be remembered.
        let mut rollout = self.clone();
        rollout.add(rest, start)?;
        rollout.finish(rest.name)
    }

    fn is_lasting(&self) -> bool {
        !self.inherits
    }
}

/// A rollout that is being read.
#[derive(Clone)]
struct Rollout {
    assembler: Assembler,
    meta: Option<Meta>,
    model: Option<Text>,
    lines: usize,
    /// Whether it continues another rollout, whose file may appear later.
    inherits: bool,
    /// Whether any line was one of a rollout.
    known: bool,
    /// In a paginated rollout: whether the last line has its number.
    last_has_ordinal: bool,
    first_is_meta: Option<bool>,
    /// The hashes of items that have a number or an id.
    seen: hashbrown::HashSet<u64>,
}

/// The metadata in the first line.
#[derive(Clone)]
struct Meta {
    id: Option<Text>,
    instructions: Option<Text>,
    paginated: bool,
}

/// A rollout that is being read, with the files beside it.
struct RolloutReader<'r, 'c> {
    rollout: &'r mut Rollout,
    companions: Option<&'c dyn Companions>,
}

impl Default for Rollout {
    fn default() -> Self {
        Self {
            assembler: Assembler::new(FORMAT),
            meta: None,
            model: None,
            lines: 0,
            inherits: false,
            known: false,
            last_has_ordinal: false,
            first_is_meta: None,
            seen: hashbrown::HashSet::new(),
        }
    }
}

impl Rollout {
    fn with<'r, 'c>(&'r mut self, companions: Option<&'c dyn Companions>) -> RolloutReader<'r, 'c> {
        RolloutReader { rollout: self, companions }
    }

    fn finish(mut self, name: &str) -> Result<Session, ReadError> {
        self.assembler.flush();
        if !self.known {
            return Err(ReadError::NoConversation("no line of it is a rollout's"));
        }
        if self.meta.as_ref().is_some_and(|meta| meta.paginated) && !self.last_has_ordinal {
            let at = Position { line: Some(self.lines), ..Position::default() };
            self.assembler.session.findings.push(refused(at, "the last line has no number"));
        }
        if self.first_is_meta == Some(false) {
            let at = Position { line: Some(1), ..Position::default() };
            let why = "it does not begin with the session's metadata";
            self.assembler.session.findings.push(refused(at, why));
        }
        let mut context = Context { dialect: Some(Dialect::OpenAiResponses), ..Context::default() };
        let instructions = self.meta.as_ref().and_then(|meta| meta.instructions.clone());
        for (name, text) in [("model", self.model.clone()), ("instructions", instructions)] {
            if let Some(text) = text.filter(|text| !text.is_blank()) {
                context.put(name, &render::quoted(&text));
            }
        }
        context.before_messages = context.fields.len();
        let own_id = self.meta.as_ref().and_then(|meta| meta.id.clone());
        let mut session = self.assembler.into_session(name, own_id.as_deref(), context);
        if !has_messages(&session) {
            session.set_aside.iter_mut().for_each(|item| doubt_event(&mut item.what));
        }
        Ok(session)
    }

    fn raw(&mut self, line: &Line) {
        self.assembler.aside(line.place, Aside::Raw(Text::new(line.text.clone())));
    }

    fn unknown(&mut self, line: &Line) {
        self.assembler.aside(line.place, Aside::Unknown(Text::new(line.text.clone())));
    }

    fn meta(&mut self, line: &Line, payload: Value<'_>, companions: Option<&dyn Companions>) {
        // A fork copies the metadata of its origin: the first one is its own.
        if self.meta.is_none() {
            let base = payload.given("base_instructions");
            let instructions = base
                .and_then(|base| {
                    text_of(base, "text").or_else(|| base.as_str().map(|text| Text::new(&*text)))
                })
                .or_else(|| text_of(payload, "instructions"));
            let paginated = payload.get("history_mode").is_some_and(|mode| mode.is_str("paginated"));
            self.meta = Some(Meta { id: text_of(payload, "id"), instructions, paginated });
            self.raw(line);
            // Codex itself reads it in this mode only.
            let base = payload.given("history_base").filter(|base| base.kind() == ValueKind::Object);
            if let Some(base) = base.filter(|_| paginated) {
                self.inherit(line, base, companions);
            }
            return;
        }
        self.raw(line);
    }

    /// Reads the shared prefix from the parent rollout, preceded by the prefix that the parent itself shares with its own parent.
    fn inherit(&mut self, line: &Line, base: Value<'_>, companions: Option<&dyn Companions>) {
        self.inherits = true;
        let mut prefixes: Vec<Vec<u8>> = Vec::new();
        let mut seen: HashSet<String> = HashSet::new();
        let mut wanted = base_of(base);
        let mut missing =
            wanted.is_none().then(|| text_of(base, "thread_id").unwrap_or_else(|| Text::new("?")));
        while let Some((id, end)) = wanted.take() {
            // A rollout cannot be forked from itself.
            let known = !seen.insert(id.to_string()) || prefixes.len() >= FORKS;
            let found = companions.filter(|_| !known).and_then(|beside| beside.open(&id));
            let Some(mut bytes) = found else {
                missing = Some(id);
                break;
            };
            if bytes.len() < end {
                missing = Some(id.clone());
            }
            bytes.truncate(end);
            let first = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
            let first = String::from_utf8_lossy(first);
            let (doc, _) = Doc::parse_prefix(&first);
            wanted = doc.root().and_then(|root| root.get("payload")?.given("history_base")).and_then(base_of);
            prefixes.push(bytes);
        }
        if let Some(id) = missing {
            let finding = Finding::new(Rule::BrokenChain, at(line.place), Action::Kept);
            self.assembler.session.findings.push(finding.about(id.to_string()));
        }
        for bytes in prefixes.iter().rev() {
            let mut inherited = Inherited { rollout: self, line };
            let mut source = Cursor::new(bytes.as_slice());
            let mut stream = Stream { name: "", source: &mut source, companions: None };
            // If it is empty, nothing was inherited.
            let _nothing = lines::read(&mut stream, &mut inherited);
        }
        self.assembler.flush();
    }

    fn compacted(&mut self, line: &Line, payload: Value<'_>) {
        let message = text_of(payload, "message").unwrap_or_else(|| Text::new(""));
        self.raw(line);
        match payload.given("replacement_history").filter(|list| list.kind() == ValueKind::Array) {
            Some(list) => {
                self.assembler.replace(line.place);
                for item in list.items() {
                    self.assembler.add(item, &Source::of(item, &line.text, line.place, None));
                }
                self.assembler.flush();
                let session = &mut self.assembler.session;
                let summary = session.messages.iter().rposition(|own| is_summary(own, &message));
                session.came_with_compaction(0, summary);
            }
            // The first versions kept what people had said, followed by the summary.
            None => {
                self.assembler.compact(line.place, is_said_by_a_person, Text::new(""));
                if !message.is_blank() {
                    let from = self.assembler.session.messages.len();
                    self.assembler.push_message(Message::user(message), line.place, None);
                    self.assembler.session.came_with_compaction(from, Some(from));
                }
            }
        }
    }

    /// Reads what another agent says to this one. Its model gets it as input.
    fn read_agent_message(&mut self, line: &Line, payload: Value<'_>, time: Option<Text>) {
        let said = payload.given("content").map(|content| match content.as_str() {
            Some(text) => text.into_owned(),
            None => {
                let texts = content.items().filter_map(|part| text_of(part, "text"));
                texts.map(|text| text.to_string()).collect::<Vec<_>>().join("\n")
            }
        });
        match said.filter(|said| !said.trim().is_empty()) {
            Some(said) => {
                self.raw(line);
                self.assembler.push_message(Message::user(said), line.place, time);
            }
            None => self.unknown(line),
        }
    }

    fn item(&mut self, line: &Line, item: Value<'_>, time: Option<Text>) {
        if item.says("type", "agent_message") {
            return self.read_agent_message(line, item, time);
        }
        // An item keeps its whole line.
        let source = Source { buffer: &line.text, start: 0, end: line.text.len(), place: line.place, time };
        if !self.assembler.add(item, &source) {
            self.unknown(line);
        }
    }

    /// Reports a line that repeats an earlier one, number or id included. Codex itself sends such an item twice, so it stays.
    fn report_doubled(&mut self, line: &Line, root: Value<'_>, payload: Value<'_>) {
        let number = || root.given("ordinal").map(|number| Text::new(number.raw()));
        // CodeBuddy's items have neither, but the time in milliseconds.
        let time = || root.given("timestamp").filter(|_| root.get("sessionId").is_some()).map(time_of);
        // Without any of these, two equal lines may be two real messages.
        let Some(name) = text_of(payload, "id").or_else(number).or_else(time) else { return };
        let hash = self.seen.hasher().hash_one(&*line.text);
        if !self.seen.insert(hash) {
            let finding = lines::doubled(line.place, Action::Kept, &name);
            self.assembler.session.findings.push(finding);
        }
    }

    /// Reads the start of a turn, which may have another model.
    fn turn(&mut self, payload: Value<'_>) {
        if let Some(model) = text_of(payload, "model").filter(|model| !model.is_blank()) {
            self.assembler.flush();
            self.assembler.set_model(Some(model.clone()));
            self.model = Some(model);
        }
    }

    fn event(&mut self, line: &Line, payload: Value<'_>) {
        let kind = payload.get("type").and_then(Value::as_str).unwrap_or_default();
        match &*kind {
            "thread_name_updated" => {
                if let Some(title) = text_of(payload, "thread_name").filter(|title| !title.is_blank()) {
                    self.assembler.aside(line.place, Aside::Title(title));
                }
            }
            "thread_rolled_back" => {
                let turns = payload.get("num_turns").and_then(Value::as_u64).unwrap_or(0);
                self.assembler.roll_back(usize::try_from(turns).unwrap_or(usize::MAX), is_said_by_a_person);
            }
            // What an event of a newer version holds may be in no item.
            kind if !is_among(kind, EVENTS) => return self.unknown(line),
            _ => {}
        }
        self.raw(line);
    }

    fn value(&mut self, line: &Line, root: Value<'_>, companions: Option<&dyn Companions>) {
        self.lines = line.place.index + 1;
        self.last_has_ordinal = root.given("ordinal").is_some();
        if root.kind() != ValueKind::Object {
            let finding = Finding::new(Rule::DamagedEntry, at(line.place), Action::SetAside);
            return self.damaged(line, finding.because("it is not an object"));
        }
        let kind = root.get("type").and_then(Value::as_str).unwrap_or_default();
        let time = ["timestamp", "created_at"].iter().find_map(|name| root.given(name)).map(time_of);
        let payload = root.get("payload").filter(|payload| payload.kind() == ValueKind::Object);
        let enveloped = payload.is_some() && ENVELOPES.contains(&&*kind);
        self.known |= enveloped || is_rollout_line(root);
        // Lines of the first versions have no type.
        self.first_is_meta.get_or_insert(!enveloped || kind == "session_meta");
        if kind == "session_meta"
            && self.meta.is_none()
            && let Some(why) = payload.and_then(|payload| refused_meta(root, payload))
        {
            self.assembler.session.findings.push(refused(at(line.place), why));
        }
        match (payload.filter(|_| enveloped), &*kind) {
            (Some(payload), "session_meta") => self.meta(line, payload, companions),
            (Some(payload), "response_item") => {
                self.report_doubled(line, root, payload);
                self.item(line, payload, time);
            }
            (Some(payload), "compacted") => self.compacted(line, payload),
            (Some(payload), "turn_context") => {
                self.turn(payload);
                self.raw(line);
            }
            (Some(payload), "event_msg") => self.event(line, payload),
            (Some(payload), "inter_agent_communication") => self.read_agent_message(line, payload, time),
            (Some(_), _) => self.raw(line),
            (None, "" | "session_start") if root.get("role").is_none() && root.get("content").is_none() => {
                if self.meta.is_none() && root.get("timestamp").is_some() {
                    self.meta = Some(Meta {
                        id: text_of(root, "id").or_else(|| text_of(root, "sessionId")),
                        instructions: text_of(root, "instructions"),
                        paginated: false,
                    });
                    self.model = text_of(root, "model");
                    self.raw(line);
                } else if root.get("record_type").is_some() || kind == "session_start" {
                    self.raw(line);
                } else {
                    self.unknown(line);
                }
            }
            // A line of an unknown type, or an item without its envelope.
            (None, _) if root.get("payload").is_some() => self.unknown(line),
            (None, _) => {
                self.report_doubled(line, root, root);
                self.item(line, root, time);
            }
        }
    }

    fn damaged(&mut self, line: &Line, finding: Finding) {
        self.lines = line.place.index + 1;
        self.raw(line);
        self.assembler.session.findings.push(finding);
    }
}

impl LineReader for RolloutReader<'_, '_> {
    fn value(&mut self, line: &Line, root: Value<'_>) {
        self.rollout.value(line, root, self.companions);
    }

    fn damaged(&mut self, line: &Line, finding: Finding) {
        self.rollout.damaged(line, finding);
    }

    fn found(&mut self, finding: Finding) {
        self.rollout.assembler.session.findings.push(finding);
    }
}

/// Whether a message is the summary of a compaction, which names its text. A summary that OpenAI writes is encrypted in an item.
fn is_summary(message: &Message, text: &str) -> bool {
    let text = text.trim();
    let says = |own: &Text| !text.is_empty() && own.trim_end().ends_with(text);
    message.blocks.iter().any(|block| match &block.kind {
        BlockKind::Text(own) => message.role == Role::User && says(own),
        BlockKind::Opaque(item) => {
            matches!(&*item.kind, "compaction" | "compaction_summary" | "context_compaction")
        }
        _ => false,
    })
}

/// Whether the items contain any message of a person or a model.
fn has_messages(session: &Session) -> bool {
    session.all_messages().any(|message| message.role == Role::Assistant || is_said_by_a_person(message))
}

/// Events repeat the text of the items. In a rollout without items, the text is only in the events.
fn doubt_event(what: &mut Aside) {
    let Aside::Raw(line) = &*what else { return };
    let shows = Doc::parse(line).is_ok_and(|doc| {
        let payload = doc.root().and_then(|root| root.get("payload"));
        let kind = payload.and_then(|payload| payload.get("type")).and_then(Value::as_str);
        kind.is_some_and(|kind| matches!(&*kind, "user_message" | "agent_message"))
    });
    if shows {
        *what = Aside::Unknown(line.clone());
    }
}

/// Why Codex would refuse a session's metadata.
fn refused_meta(line: Value<'_>, payload: Value<'_>) -> Option<String> {
    let text =
        |value: Value<'_>, name: &str| value.get(name).is_some_and(|text| text.kind() == ValueKind::String);
    if !text(line, "timestamp") {
        return Some(String::from("the first line has no time"));
    }
    let needed = ["id", "timestamp", "cwd", "originator", "cli_version"];
    if let Some(name) = needed.iter().find(|name| !text(payload, name)) {
        return Some(format!("the session's metadata has no `{name}`"));
    }
    let null = ["source", "session_id", "history_mode"];
    if let Some(name) = null.iter().find(|name| payload.get(name).is_some_and(Value::is_null)) {
        return Some(format!("`{name}` of the session's metadata is null"));
    }
    let mode = payload.get("history_mode");
    let known = mode.is_none_or(|mode| mode.is_str("legacy") || mode.is_str("paginated"));
    (!known).then(|| String::from("the session's history has a mode that is not known"))
}

/// The rollout that a fork continues, and how much of it.
fn base_of(base: Value<'_>) -> Option<(Text, usize)> {
    let end = base.get("end_byte_offset")?.as_u64()?;
    Some((text_of(base, "thread_id")?, usize::try_from(end).unwrap_or(usize::MAX)))
}

/// Lines of a parent rollout; only messages that the model saw are used. They are placed at the start of the fork.
struct Inherited<'r> {
    rollout: &'r mut Rollout,
    line: &'r Line,
}

impl LineReader for Inherited<'_> {
    fn value(&mut self, line: &Line, root: Value<'_>) {
        let line = Line { text: line.text.clone(), place: self.line.place };
        let kind = root.get("type").and_then(Value::as_str).unwrap_or_default();
        let Some(payload) = root.get("payload") else { return };
        match &*kind {
            "response_item" => self.rollout.item(&line, payload, text_of(root, "timestamp")),
            "compacted" => self.rollout.compacted(&line, payload),
            "turn_context" => self.rollout.turn(payload),
            "event_msg" if payload.get("type").is_some_and(|kind| kind.is_str("thread_rolled_back")) => {
                self.rollout.event(&line, payload);
            }
            _ => {}
        }
    }

    fn damaged(&mut self, _: &Line, finding: Finding) {
        self.found(finding);
    }

    fn found(&mut self, finding: Finding) {
        let at = at(self.line.place);
        self.rollout.assembler.session.findings.push(Finding { at, ..finding });
    }
}
