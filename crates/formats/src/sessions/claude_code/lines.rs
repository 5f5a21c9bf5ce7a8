//! The single lines of a transcript: what each one is, and which line it follows. Unreadable lines are set aside.

use std::sync::Arc;

use rejoin_record::{
    Text,
    json::{Value, ValueKind},
};
use rejoin_view::{Action, Finding, Rule};

use crate::{
    input::Stream,
    session::{ReadError, SourcePlace},
    sessions::lines::{self, LineReader, at},
};

/// One value of a transcript; nearly always a line.
pub(super) struct Line {
    pub place: SourcePlace,
    /// Its exact JSON, or the readable rest of it.
    pub text: Arc<str>,
    pub uuid: Option<Box<str>>,
    pub parent: Parent,
    /// Whether a sub-agent wrote it, and which one.
    pub sidechain: bool,
    pub agent: Option<Box<str>>,
    pub what: What,
}

/// The types of lines that are not part of the conversation, but the program's own data.
const BOOKKEEPING: &str = "\
    agent-color agent-name agent-setting api-request api-request-blob api-request-shape \
    atis-latch attribution-snapshot auth_status bridge-session content-replacement cost-state \
    file-history-delta file-history-snapshot fork-context-ref frame-link last-prompt \
    marble-origami-commit marble-origami-snapshot mode permission-mode post_turn_summary pr-link \
    progress prompt_suggestion queue-operation rate_limit_event relocated result \
    saved_hook_context speculation-accept started stream_event system tag task-summary tombstone \
    tool_progress tool_use_summary tools-used worktree-state";

pub(super) enum Parent {
    /// The line names none.
    Absent,
    /// None: the line is a beginning.
    Root,
    Named(Box<str>),
}

pub(super) enum What {
    /// Not part of the conversation.
    Aside,
    /// A line of an unknown type, or a message without its content.
    Unknown,
    /// A note of the program that people see and no model does, with its kind if it contains text.
    System(Option<Box<str>>),
    /// Something that the program showed the model in its own words, with its kind, and whether the line has these words.
    Attachment(Box<str>, bool),
    /// The progress of a sub-agent, which is not part of the conversation either.
    AgentProgress,
    /// A title, its priority, and the line whose conversation it names, if it has one.
    Title(Text, u8, Option<Box<str>>),
    /// The last line of the conversation when this one was written.
    Tip(Box<str>),
    /// A summary replaced everything before this line.
    Boundary(Box<Boundary>),
    Message(Box<MessageLine>),
}

#[derive(Default)]
pub(super) struct Boundary {
    pub before: Option<Box<str>>,
    /// Messages before it that stay visible.
    pub kept: Option<Preserved>,
}

/// Messages that a compaction kept, and the line that they follow now.
pub(super) struct Preserved {
    pub anchor: Box<str>,
    pub messages: Messages,
}

/// How a boundary names the messages that it kept.
pub(super) enum Messages {
    /// The first and the last one.
    Between(Box<str>, Box<str>),
    /// Each of them, in the order in which a model sees them.
    Each(Vec<Box<str>>),
}

/// A line that holds a message of a model, a person or a tool, or a part of one.
#[derive(Default)]
pub(super) struct MessageLine {
    pub by_model: bool,
    /// The id of the model's response that it belongs to.
    pub message_id: Option<Box<str>>,
    pub request_id: Option<Box<str>>,
    /// The calls in it, and the calls that its results answer.
    pub calls: Vec<Box<str>>,
    pub results: Vec<Box<str>>,
    pub only_results: bool,
    pub field: ContentField,
    /// The byte range of its content in the line.
    pub content: (usize, usize),
}

impl MessageLine {
    /// Words of a person in another field than `message`.
    fn beside(field: ContentField, root: Value<'_>, content: Value<'_>) -> What {
        let content = (content.start() - root.start(), content.end() - root.start());
        What::Message(Box::new(Self { field, content, ..Self::default() }))
    }
}

/// The field of a line that holds the message.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum ContentField {
    #[default]
    Message,
    /// `attachment.prompt`: what a person typed while the model was working.
    Prompt,
    /// `rendered`: what the program made of an attachment for the model, in the name of the user.
    Rendered,
    /// `content`: a command that a person ran in the program, or what it printed. The model is shown both.
    Content,
}

/// Every line of a transcript, and what was wrong with some.
#[derive(Default)]
pub(super) struct Lines {
    pub all: Vec<Line>,
    pub findings: Vec<Finding>,
}

impl Lines {
    pub(super) fn read(mut stream: Stream<'_>) -> Result<Self, ReadError> {
        let mut lines = Self::default();
        lines::read(&mut stream, &mut lines)?;
        Ok(lines)
    }
}

impl LineReader for Lines {
    fn value(&mut self, line: &lines::Line, root: Value<'_>) {
        let mut own = Line::new(line.place, Arc::clone(&line.text));
        let said = if root.kind() == ValueKind::Object { own.fill(root) } else { Err("it is not an object") };
        if let Err(why) = said {
            own.what = What::Unknown;
            let finding = Finding::new(Rule::DamagedEntry, at(line.place), Action::SetAside);
            self.findings.push(finding.because(why));
        }
        self.all.push(own);
    }

    fn damaged(&mut self, line: &lines::Line, finding: Finding) {
        self.findings.push(finding);
        self.all.push(Line::new(line.place, Arc::clone(&line.text)));
    }

    fn found(&mut self, finding: Finding) {
        self.findings.push(finding);
    }
}

impl Line {
    fn new(place: SourcePlace, text: Arc<str>) -> Self {
        Self {
            place,
            text,
            uuid: None,
            parent: Parent::Absent,
            sidechain: false,
            agent: None,
            what: What::Aside,
        }
    }

    /// Interprets an object. Returns an error if it should be a message and is not.
    fn fill(&mut self, root: Value<'_>) -> Result<(), &'static str> {
        self.uuid = owned(root.get("uuid"));
        self.parent = match root.get("parentUuid") {
            None => Parent::Absent,
            Some(parent) => owned(Some(parent)).map_or(Parent::Root, Parent::Named),
        };
        self.sidechain = is_true(root.get("isSidechain"));
        self.agent = owned(root.get("agentId"));
        let kind = root.word("type");
        self.what = match &*kind {
            "user" | "assistant" => return self.message(root, kind == "assistant"),
            "attachment" => attached(root),
            "system" => system(root),
            "progress" => {
                let data = root.get("data").and_then(|data| data.get("type"));
                let agent = data.is_some_and(|kind| kind.is_str("agent_progress"));
                if agent { What::AgentProgress } else { What::Aside }
            }
            "summary" => title(root, "summary", 0),
            "ai-title" => title(root, "aiTitle", 1),
            "custom-title" => title(root, "customTitle", 2),
            "last-prompt" => owned(root.get("leafUuid")).map_or(What::Aside, What::Tip),
            known if BOOKKEEPING.split(' ').any(|name| name == known) => What::Aside,
            _ => What::Unknown,
        };
        Ok(())
    }

    fn message(&mut self, root: Value<'_>, by_model: bool) -> Result<(), &'static str> {
        let message = root.get("message").filter(|message| message.kind() == ValueKind::Object);
        let Some((message, content)) = message.and_then(|message| Some((message, message.get("content")?)))
        else {
            return Err("it has no message");
        };
        let of_kind = |kind: &'static str| content.items().filter(move |block| block.says("type", kind));
        let calls: Vec<_> = of_kind("tool_use").filter_map(|block| owned(block.get("id"))).collect();
        let results: Vec<_> =
            of_kind("tool_result").filter_map(|block| owned(block.get("tool_use_id"))).collect();
        // An error that the program reports in the model's name is shown to people and never sent, unless it calls a tool.
        let synthetic = message.says("model", "<synthetic>");
        let reports_error = by_model && synthetic && is_true(root.get("isApiErrorMessage"));
        let virtual_line = is_true(root.get("isVirtual"));
        if virtual_line || (reports_error && of_kind("tool_use").next().is_none()) {
            let kind = if virtual_line { "virtual" } else { "error message" };
            self.what = What::System(Some(kind.into()));
            return Ok(());
        }
        let blocks = content.items().count();
        self.what = What::Message(Box::new(MessageLine {
            by_model,
            message_id: owned(message.get("id")).filter(|_| by_model),
            request_id: owned(root.get("requestId")),
            only_results: blocks > 0 && of_kind("tool_result").count() == blocks,
            calls,
            results,
            field: ContentField::Message,
            content: (content.start() - root.start(), content.end() - root.start()),
        }));
        Ok(())
    }
}

/// A prompt that a person typed while the model was working is recorded only in its attachment. Of other attachments the program
/// makes a text for the model, which newer versions record with its role: one of the user's is part of the conversation, and
/// one of the system's is a reminder that the program sends again.
fn attached(root: Value<'_>) -> What {
    let attachment = root.get("attachment");
    let kind = attachment.and_then(|attachment| attachment.get("type"));
    let prompt = attachment.and_then(|attachment| attachment.given("prompt"));
    match prompt.filter(|_| kind.is_some_and(|kind| kind.is_str("queued_command"))) {
        Some(prompt) if matches!(prompt.kind(), ValueKind::String | ValueKind::Array) => {
            MessageLine::beside(ContentField::Prompt, root, prompt)
        }
        _ => {
            let texts = root.given("rendered").filter(|texts| rendered(*texts).next().is_some());
            match texts.filter(|_| root.says("renderedRole", "user")) {
                Some(texts) => MessageLine::beside(ContentField::Rendered, root, texts),
                None => What::Attachment(owned(kind).unwrap_or_default(), texts.is_some()),
            }
        }
    }
}

/// The contents of the texts that the program made of an attachment: of each in a list, or of a single one.
pub(super) fn rendered(texts: Value<'_>) -> impl Iterator<Item = Value<'_>> {
    let contents = texts.items().filter_map(|text| text.get("content"));
    contents.chain((texts.kind() == ValueKind::String).then_some(texts))
}

/// A line of type `system`: where a compaction happened, a command that a person ran, or a note that no model sees.
fn system(root: Value<'_>) -> What {
    let kind = root.word("subtype");
    match (&*kind, root.get("content").filter(|content| content.kind() == ValueKind::String)) {
        ("compact_boundary", _) => boundary(root),
        ("local_command", Some(content)) => MessageLine::beside(ContentField::Content, root, content),
        (_, content) => {
            let says = content.and_then(Value::as_str).is_some_and(|content| !content.trim().is_empty());
            What::System(says.then(|| Box::from(&*kind)))
        }
    }
}

fn boundary(root: Value<'_>) -> What {
    let metadata = root.get("compactMetadata");
    let of = |holder: &str| metadata.and_then(|metadata| metadata.get(holder));
    let each = of("preservedMessages").and_then(|kept| {
        let uuids: Vec<_> = kept.get("uuids")?.items().filter_map(|uuid| owned(Some(uuid))).collect();
        Some(Preserved { anchor: owned(kept.get("anchorUuid"))?, messages: Messages::Each(uuids) })
    });
    let between = || {
        let kept = of("preservedSegment")?;
        let messages = Messages::Between(owned(kept.get("headUuid"))?, owned(kept.get("tailUuid"))?);
        Some(Preserved { anchor: owned(kept.get("anchorUuid"))?, messages })
    };
    What::Boundary(Box::new(Boundary {
        before: owned(root.get("logicalParentUuid")),
        kept: each.or_else(between),
    }))
}

fn title(root: Value<'_>, field: &str, counts: u8) -> What {
    match root.get(field).and_then(Value::as_str) {
        Some(title) if !title.trim().is_empty() => {
            What::Title(Text::from(&*title), counts, owned(root.get("leafUuid")))
        }
        _ => What::Aside,
    }
}

fn owned(value: Option<Value<'_>>) -> Option<Box<str>> {
    value.and_then(Value::as_str).filter(|text| !text.is_empty()).map(|text| Box::from(&*text))
}

pub(super) fn is_true(value: Option<Value<'_>>) -> bool {
    value.and_then(Value::as_bool) == Some(true)
}
