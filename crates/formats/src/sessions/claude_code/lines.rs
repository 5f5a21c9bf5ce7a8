//! The lines of a transcript, each for itself: what it is, and whom it follows. What cannot be read is set aside.

use std::{
    io::{BufRead as _, Read as _},
    sync::Arc,
};

use rejoin_record::{
    Text,
    json::{Doc, Kind, Value},
    limits,
};
use rejoin_view::{Action, Finding, Position, Rule};

use crate::{
    input::{InputError, Stream},
    session::{Place, ReadError},
};

/// One value of a transcript; nearly always a line.
pub(super) struct Line {
    pub place: Place,
    /// Its exact JSON, or what is left of it.
    pub text: Arc<str>,
    pub uuid: Option<Box<str>>,
    pub parent: Parent,
    /// Spoken by a sub-agent, and by which.
    pub sidechain: bool,
    pub agent: Option<Box<str>>,
    pub what: What,
}

/// Whom a line follows.
pub(super) enum Parent {
    /// It does not say.
    Absent,
    /// Nobody: it begins something.
    Root,
    /// The line with this id.
    Named(Box<str>),
}

/// What a line is.
pub(super) enum What {
    /// No part of the conversation.
    Aside,
    /// What a sub-agent is doing: no part of the conversation either.
    AgentProgress,
    /// A title, how much it counts, and the line whose conversation it names, where it says so.
    Title(Text, u8, Option<Box<str>>),
    /// Here everything before was replaced by a summary.
    Boundary(Box<Boundary>),
    /// Something that was said.
    Said(Box<Said>),
}

/// Where a conversation was compacted.
#[derive(Default)]
pub(super) struct Boundary {
    /// The last line before it.
    pub before: Option<Box<str>>,
    /// Messages before it that stay as they were: the first, the last, and the line that they follow now.
    pub kept: Option<[Box<str>; 3]>,
}

/// Something that was said: by a model, by a person, by a tool.
#[derive(Default)]
pub(super) struct Said {
    pub by_model: bool,
    /// The model's response that it is a part of.
    pub message_id: Option<Box<str>>,
    pub request_id: Option<Box<str>>,
    /// The calls in it, and the calls that its results answer.
    pub calls: Vec<Box<str>>,
    pub results: Vec<Box<str>>,
    /// Nothing but results.
    pub only_results: bool,
    /// What a person said while the model was at work; it stands in an attachment.
    pub queued: bool,
    /// The summary of what came before.
    pub summary: bool,
    /// Where its content stands in the line.
    pub content: (usize, usize),
}

/// Every line of a transcript, and what was wrong with some.
#[derive(Default)]
pub(super) struct Lines {
    pub all: Vec<Line>,
    pub findings: Vec<Finding>,
    /// How long the longest line was that is longer than any may be.
    pub too_large: Option<usize>,
    /// Where the next line begins, and its number from 0.
    offset: usize,
    number: usize,
}

impl Lines {
    /// Reads all lines. A line past the limit is skipped without being kept in memory.
    pub(super) fn read(stream: Stream<'_>) -> Result<Self, ReadError> {
        let mut lines = Self::default();
        let mut bytes = Vec::new();
        loop {
            bytes.clear();
            let limit = limits::BODY_BYTES;
            let read =
                stream.source.take(limit as u64 + 1).read_until(b'\n', &mut bytes).map_err(ReadError::io)?;
            if read == 0 {
                return Ok(lines);
            }
            if read > limit {
                let skipped = stream.source.skip_until(b'\n').map_err(ReadError::io)?;
                lines.too_long(read + skipped);
                continue;
            }
            let mark = if lines.offset == 0 && bytes.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
            let text = String::from_utf8_lossy(&bytes[mark..]);
            if matches!(text, std::borrow::Cow::Owned(_)) {
                let at = Position { line: Some(lines.number + 1), ..Position::default() };
                lines.findings.push(Finding::new(Rule::InvalidUtf8, at, Action::Replaced));
            }
            lines.offset += mark;
            lines.add(&text);
            lines.offset += read - mark;
            lines.number += 1;
        }
    }

    /// Why nothing was said in any of them.
    pub(super) fn nothing(&self) -> ReadError {
        match self.too_large {
            Some(bytes) => InputError::TooLarge { bytes }.into(),
            None => ReadError::NoConversation("no line of it is a message"),
        }
    }

    /// Adds a line. Two programs, or one that was killed and came back, may have left more than one value on it.
    fn add(&mut self, line: &str) {
        let mut at = 0;
        while !line[at..].trim_start().is_empty() {
            let rest = &line[at..];
            let (doc, error) = Doc::parse_prefix(rest);
            let complete = |root: &Value<'_>| {
                error.is_none() || (!root.is_cut() && matches!(root.kind(), Kind::Object | Kind::Array))
            };
            if let Some(root) = doc.root().filter(complete) {
                self.value(root, at);
                at += root.end();
                continue;
            }
            let next = whole_line_inside(rest);
            let torn = next.is_none() && !line.ends_with('\n');
            let rule = if torn { Rule::TornTail } else { Rule::DamagedEntry };
            self.damaged(rule, None);
            self.aside(rest[..next.unwrap_or(rest.len())].trim(), at);
            let Some(next) = next else { return };
            at += next;
        }
    }

    fn value(&mut self, root: Value<'_>, at: usize) {
        if root.kind() != Kind::Object {
            self.damaged(Rule::DamagedEntry, Some("it is not an object"));
            self.aside(root.raw(), at + root.start());
            return;
        }
        // Spans count from the line's own beginning.
        let text: Arc<str> = Arc::from(root.raw());
        let place = self.place(at + root.start());
        let mut line = Line::new(place, text);
        if let Err(why) = line.fill(root) {
            self.damaged(Rule::DamagedEntry, Some(why));
        }
        self.all.push(line);
    }

    fn place(&self, at: usize) -> Place {
        Place { index: self.number, offset: self.offset + at, line: Some(self.number + 1) }
    }

    fn aside(&mut self, text: &str, at: usize) {
        self.all.push(Line::new(self.place(at), Arc::from(text)));
    }

    fn damaged(&mut self, rule: Rule, why: Option<&'static str>) {
        let at = Position { message: Some(self.number), block: None, line: Some(self.number + 1) };
        let finding = Finding::new(rule, at, Action::SetAside);
        self.findings.push(Finding { detail: why.map(Text::from), ..finding });
    }

    /// A line that is longer than any line may be.
    fn too_long(&mut self, bytes: usize) {
        self.too_large = self.too_large.max(Some(bytes));
        self.damaged(Rule::DamagedEntry, Some("it is longer than a line may be"));
        self.aside("", 0);
        self.offset += bytes;
        self.number += 1;
    }
}

impl Line {
    fn new(place: Place, text: Arc<str>) -> Self {
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

    /// Takes what an object says. An error if it should be a message and is none.
    fn fill(&mut self, root: Value<'_>) -> Result<(), &'static str> {
        self.uuid = owned(root.get("uuid"));
        self.parent = match root.get("parentUuid") {
            None => Parent::Absent,
            Some(parent) => owned(Some(parent)).map_or(Parent::Root, Parent::Named),
        };
        self.sidechain = is_true(root.get("isSidechain"));
        self.agent = owned(root.get("agentId"));
        let kind = root.get("type").and_then(Value::as_str).unwrap_or_default();
        self.what = match &*kind {
            "user" | "assistant" => return self.said(root, kind == "assistant"),
            "attachment" => queued(root),
            "system" if root.get("subtype").is_some_and(|kind| kind.is_str("compact_boundary")) => {
                boundary(root)
            }
            "progress" => {
                let data = root.get("data").and_then(|data| data.get("type"));
                let agent = data.is_some_and(|kind| kind.is_str("agent_progress"));
                if agent { What::AgentProgress } else { What::Aside }
            }
            "summary" => title(root, "summary", 0),
            "ai-title" => title(root, "aiTitle", 1),
            "custom-title" => title(root, "customTitle", 2),
            _ => What::Aside,
        };
        Ok(())
    }

    fn said(&mut self, root: Value<'_>, by_model: bool) -> Result<(), &'static str> {
        let message = root.get("message").filter(|message| message.kind() == Kind::Object);
        let Some((message, content)) = message.and_then(|message| Some((message, message.get("content")?)))
        else {
            return Err("it has no message");
        };
        let of_kind = |kind: &'static str| {
            content.items().filter(move |block| block.get("type").is_some_and(|given| given.is_str(kind)))
        };
        let calls: Vec<_> = of_kind("tool_use").filter_map(|block| owned(block.get("id"))).collect();
        let results: Vec<_> =
            of_kind("tool_result").filter_map(|block| owned(block.get("tool_use_id"))).collect();
        // What the program says in a model's place was never part of a request, unless it calls a tool.
        let synthetic = message.get("model").is_some_and(|model| model.is_str("<synthetic>"));
        let in_its_place = by_model && (synthetic || is_true(root.get("isApiErrorMessage")));
        if in_its_place && of_kind("tool_use").next().is_none() {
            return Ok(());
        }
        let blocks = content.items().count();
        self.what = What::Said(Box::new(Said {
            by_model,
            message_id: owned(message.get("id")).filter(|_| by_model),
            request_id: owned(root.get("requestId")),
            only_results: blocks > 0 && of_kind("tool_result").count() == blocks,
            calls,
            results,
            queued: false,
            summary: is_true(root.get("isCompactSummary")),
            content: (content.start() - root.start(), content.end() - root.start()),
        }));
        Ok(())
    }
}

/// What a person said while the model was at work stands nowhere else. Other attachments hold what the program makes its
/// own words of before a model sees them.
fn queued(root: Value<'_>) -> What {
    let attachment = root.get("attachment");
    let kind = attachment.and_then(|attachment| attachment.get("type"));
    let prompt = attachment.and_then(|attachment| attachment.given("prompt"));
    match prompt.filter(|_| kind.is_some_and(|kind| kind.is_str("queued_command"))) {
        Some(prompt) if matches!(prompt.kind(), Kind::String | Kind::Array) => What::Said(Box::new(Said {
            queued: true,
            content: (prompt.start() - root.start(), prompt.end() - root.start()),
            ..Said::default()
        })),
        _ => What::Aside,
    }
}

fn boundary(root: Value<'_>) -> What {
    let segment = root.get("compactMetadata").and_then(|metadata| metadata.get("preservedSegment"));
    let of = |name| segment.and_then(|segment| owned(segment.get(name)));
    let kept = match (of("headUuid"), of("tailUuid"), of("anchorUuid")) {
        (Some(head), Some(tail), Some(anchor)) => Some([head, tail, anchor]),
        _ => None,
    };
    What::Boundary(Box::new(Boundary { before: owned(root.get("logicalParentUuid")), kept }))
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

/// Where a whole line begins that was written behind one that was cut off: the program went on in the middle of it.
fn whole_line_inside(text: &str) -> Option<usize> {
    /// How the lines of a conversation begin, and then any other.
    const BEGINNINGS: [&str; 2] = ["{\"parentUuid\":", "{\"type\":\""];
    /// Looking closer costs a read of the rest; more than this many look-alikes are not worth it.
    const LOOK_AT: usize = 16;
    BEGINNINGS.iter().find_map(|beginning| {
        let places = text.match_indices(beginning).map(|(at, _)| at).filter(|at| *at > 0);
        places.take(LOOK_AT).find(|at| {
            let (doc, error) = Doc::parse_prefix(&text[*at..]);
            doc.root().is_some_and(|root| {
                let line = root.get("type").is_some()
                    && ["uuid", "sessionId", "leafUuid", "messageId"]
                        .iter()
                        .any(|name| root.get(name).is_some());
                let alone = error.is_none() || text[*at + root.end()..].trim_start().starts_with('{');
                line && alone && !root.is_cut()
            })
        })
    })
}
