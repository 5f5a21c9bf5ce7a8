//! From the lines of a transcript to a session: messages with their original bytes, and everything else set aside.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::{Arc, OnceLock},
};

use rejoin_record::{
    Block, BlockKind, Form, Message, Native, NativeItem, Raw, Role, Span, Text,
    json::{Doc, Value},
};
use rejoin_view::{Action, Finding, Position, Rule};

use super::{
    FORMAT, MARK,
    lines::{ContentField, Line, Lines, What, is_true, rendered},
    tree::{self, Shape},
};
use crate::{
    context::Context,
    input::{Companions, Stream},
    messages::{MessageReader, Style},
    session::{Aside, CompactionPart, Detail, ReadError, Session, SetAside, SourcePlace, derive_id},
    sessions::{
        growing::GrowingReader,
        lines::{self, LineStart},
    },
    wire::registry::Dialect,
};

/// Reads the conversation in a file, line by line.
pub(crate) fn read_stream(stream: Stream<'_>) -> Result<Vec<Session>, ReadError> {
    read_as(FORMAT, stream)
}

/// Reads a file of another agent that writes the same lines.
pub(crate) fn read_as(format: &'static str, stream: Stream<'_>) -> Result<Vec<Session>, ReadError> {
    let (name, companions) = (stream.name, stream.companions);
    let Lines { all, findings } = Lines::read(stream)?;
    let shape = tree::shape(&all).ok_or(NO_MESSAGE)?;
    let mut known = KnownMessages::default();
    Ok(vec![Builder::new(format, &all, &shape, companions, &mut known).session(name, findings)])
}

/// A reader of a transcript that grows.
pub(crate) fn growing() -> Box<dyn GrowingReader> {
    Box::new(Transcript::default())
}

/// A transcript that grows. Its tree is found anew each time, but no line and no message is read again.
#[derive(Default)]
struct Transcript {
    lines: Lines,
    known: KnownMessages,
}

impl Transcript {
    fn session(&mut self, name: &str, companions: Option<&dyn Companions>) -> Result<Session, ReadError> {
        let Lines { all, findings } = &self.lines;
        let shape = tree::shape(all).ok_or(NO_MESSAGE)?;
        let session = |known: &mut KnownMessages| {
            Builder::new(FORMAT, all, &shape, companions, known).session(name, findings.clone())
        };
        let read = session(&mut self.known);
        if !self.known.looked_back {
            return Ok(read);
        }
        // A message that depends on others is right only if all of them are read in order.
        Ok(session(&mut KnownMessages::default()))
    }
}

impl GrowingReader for Transcript {
    fn add(&mut self, stream: &mut Stream<'_>, start: LineStart) -> Result<LineStart, ReadError> {
        lines::read_on(stream, start, &mut self.lines)
    }

    fn session(&mut self, rest: &mut Stream<'_>, start: LineStart) -> Result<Session, ReadError> {
        let (lines, findings) = (self.lines.all.len(), self.lines.findings.len());
        self.add(rest, start)?;
        let session = Self::session(self, rest.name, rest.companions);
        self.lines.all.truncate(lines);
        self.lines.findings.truncate(findings);
        self.known.messages.retain(|_, spoken| spoken.lines.iter().all(|line| *line < lines));
        session
    }

    fn is_lasting(&self) -> bool {
        !self.known.looked_back
    }
}

const NO_MESSAGE: ReadError = ReadError::NoConversation("no line of it is a message");

/// The messages that were read from a transcript, by their first line.
#[derive(Default)]
struct KnownMessages {
    messages: HashMap<usize, Arc<Spoken>>,
    /// Whether one of them depends on others.
    looked_back: bool,
}

struct Builder<'l> {
    format: &'static str,
    lines: &'l [Line],
    shape: &'l Shape,
    companions: Option<&'l dyn Companions>,
    known: &'l mut KnownMessages,
    set_aside: Vec<SetAside>,
    /// The last model that a message names.
    model: Option<String>,
    /// Lines whose type and message name different speakers.
    disputed: Vec<Finding>,
}

/// A message that was read, with what its lines record about it.
struct Spoken {
    lines: Vec<usize>,
    message: Arc<Message>,
    detail: Detail,
    place: SourcePlace,
    /// The last model that a line of it names.
    model: Option<String>,
    disputed: Vec<Finding>,
    /// Outputs of tools that are in files beside the transcript; found on first use.
    outputs: OnceLock<Vec<OutputBeside>>,
}

/// An output of a tool in a file beside the transcript. The file does not change, but it may appear later than the line.
struct OutputBeside {
    path: String,
    text: OnceLock<Text>,
}

impl<'l> Builder<'l> {
    fn new(
        format: &'static str,
        lines: &'l [Line],
        shape: &'l Shape,
        companions: Option<&'l dyn Companions>,
        known: &'l mut KnownMessages,
    ) -> Self {
        let (set_aside, disputed) = (Vec::new(), Vec::new());
        Self { format, lines, shape, companions, known, set_aside, model: None, disputed }
    }

    fn session(mut self, name: &str, mut findings: Vec<Finding>) -> Session {
        let (mut messages, mut places, mut details) = (Vec::new(), Vec::new(), Vec::new());
        let mut spilled = Vec::new();
        // Calls and results without ids are paired by position, so each reader gets only the lines that belong together.
        let mut reader = MessageReader::new(Style::Blocks, None);
        for &unit in &self.shape.visible {
            let spoken = self.message(&mut reader, unit);
            messages.push(Arc::clone(&spoken.message));
            places.push(spoken.place);
            details.push(spoken.detail.clone());
            self.outputs_beside(&spoken, messages.len(), &mut spilled);
        }
        let model = self.model.take();
        self.everything_else();
        self.set_aside.extend(spilled);
        self.set_aside.sort_by_key(|item| item.after);
        findings.extend(self.shape.findings.iter().cloned());
        findings.extend(self.not_shown());
        findings.append(&mut self.disputed);
        let context = Context::of_model(Dialect::Anthropic, model.as_deref());
        let empty = Session::new(self.format, self.id(name), context);
        Session { messages, places, details, findings, set_aside: self.set_aside, ..empty }
    }

    /// Reports lines with text that is in no message: attachments, of which the program makes a text for the model, and notes that
    /// only people saw.
    fn not_shown(&self) -> Vec<Finding> {
        const REMINDER: (&str, &str) = (
            "attachment",
            "Claude Code sends their texts (`rendered`) as its own reminders; they are kept beside the conversation",
        );
        const UNRECORDED: (&str, &str) = (
            "attachment",
            "Claude Code sends texts that it makes of them, which the transcript does not have",
        );
        const NOTE: (&str, &str) = ("system", "people saw it and the model did not");
        type Kinds<'k> = BTreeMap<&'k str, usize>;
        let mut found: BTreeMap<(&str, &str), (Position, Kinds<'_>)> = BTreeMap::new();
        for line in self.lines.iter().filter(|line| line.sidechain == self.shape.sidechain) {
            let (reason, kind) = match &line.what {
                What::Attachment(kind, true) => (REMINDER, &**kind),
                What::Attachment(kind, false) => (UNRECORDED, &**kind),
                What::System(Some(kind)) => (NOTE, &**kind),
                _ => continue,
            };
            let (_, kinds) = found.entry(reason).or_insert((lines::at(line.place), BTreeMap::new()));
            *kinds.entry(kind).or_default() += 1;
        }
        let finding = |((about, why), (first, kinds)): ((&str, &str), (Position, Kinds<'_>))| {
            let kinds: Vec<String> = kinds.iter().map(|(kind, count)| format!("{count} × {kind}")).collect();
            let finding = Finding::new(Rule::ForeignBlock, first, Action::SetAside).about(about);
            finding.because(format!("{}: {why}", kinds.join(", ")))
        };
        found.into_iter().map(finding).collect()
    }

    /// The id of the conversation derives from the session's; a sub-agent's from the session's and the agent's.
    fn id(&self, name: &str) -> rejoin_record::ConversationId {
        let said = |line: &&Line| matches!(line.what, What::Message(_));
        let first = self
            .lines
            .iter()
            .filter(said)
            .find(|line| line.sidechain == self.shape.sidechain)
            .or_else(|| self.lines.iter().find(said));
        let doc = first.and_then(|line| Doc::parse(&line.text).ok());
        let field = |name: &str| {
            let value = doc.as_ref()?.root()?.get(name)?.as_str()?;
            Some(value.into_owned()).filter(|value| !value.is_empty())
        };
        let session = field("sessionId").or_else(|| field("session_id"));
        let own = match (session, field("agentId").filter(|_| self.shape.sidechain)) {
            (Some(session), Some(agent)) => Some(format!("{session}/{agent}")),
            (session, _) => session,
        };
        let raw = first.map(|line| Raw::new(Arc::clone(&line.text)));
        derive_id(self.format, own.as_deref(), name, raw.as_ref())
    }

    /// Reads one message, of one line or more, unless it is known.
    fn message(&mut self, reader: &mut MessageReader, unit: usize) -> Arc<Spoken> {
        let lines = &self.shape.units[unit];
        let known = self.known.messages.get(&lines[0]).filter(|spoken| spoken.lines == *lines);
        let spoken = known.cloned().unwrap_or_else(|| Arc::new(self.read_message(reader, lines)));
        self.known.messages.insert(lines[0], Arc::clone(&spoken));
        self.known.looked_back |= reader.has_looked_back();
        self.model = spoken.model.clone().or(self.model.take());
        self.disputed.extend(spoken.disputed.iter().cloned());
        spoken
    }

    fn read_message(&self, reader: &mut MessageReader, numbers: &[usize]) -> Spoken {
        let lines = || numbers.iter().map(|number| &self.lines[*number]);
        let (mut blocks, mut items, mut pieces) = (Vec::new(), Vec::new(), Vec::new());
        let (mut role, mut form) = (None, Form::Parts);
        let (mut model, mut disputed) = (None, Vec::new());
        let mut detail = Detail::default();
        let mut start = 0;
        for line in lines() {
            let part = read_line(reader, line, start);
            model = part.model.or(model);
            if part.disputed {
                let finding = Finding::new(Rule::UnknownRole, lines::at(line.place), Action::Kept);
                disputed.push(finding.because("the line and its message name different speakers"));
            }
            items.push(NativeItem {
                span: Span::verbatim(start, line.text.len()),
                blocks: u32::try_from(part.message.blocks.len()).unwrap_or(u32::MAX),
                regular: false,
            });
            pieces.push((blocks.len(), line.place));
            blocks.extend(part.message.blocks);
            role = role.or(Some(part.message.role));
            form = part.message.form;
            detail.time = detail.time.or(part.time);
            detail.of_compaction = part.is_summary.then_some(CompactionPart::Summary);
            start += line.text.len() + 1;
        }
        let first = &self.lines[numbers[0]];
        detail.id = first.uuid.as_deref().map(Text::from);
        let raw = if numbers.len() == 1 {
            items.clear();
            Raw::new(Arc::clone(&first.text))
        } else {
            form = Form::Parts;
            detail.pieces = pieces;
            Raw::new(lines().map(|line| &*line.text).collect::<Vec<_>>().join(","))
        };
        for block in &mut blocks {
            drop_marked_spans(block, raw.as_str());
        }
        let native = Native { format: Text::from(self.format), raw, regular: false, more: false, items };
        let role = role.unwrap_or(Role::User);
        let message = Arc::new(Message { role, blocks, form, native: Some(native) });
        let (lines, outputs) = (numbers.to_vec(), OnceLock::new());
        Spoken { lines, message, detail, place: first.place, model, disputed, outputs }
    }

    /// Keeps everything that no model would see, in the order of the file.
    fn everything_else(&mut self) {
        let count = self.lines.len();
        let (mut starts, mut inside) = (vec![None; count], vec![false; count]);
        for (unit, lines) in self.shape.units.iter().enumerate() {
            starts[lines[0]] = Some(unit);
            lines.iter().for_each(|line| inside[*line] = true);
        }
        let mut places = vec![None; self.shape.units.len()];
        for (place, unit) in self.shape.visible.iter().enumerate() {
            places[*unit] = Some(place);
        }
        let mut compacted = vec![false; count];
        self.shape.compacted.iter().for_each(|line| compacted[*line] = true);
        let uuids: HashSet<&str> = self.lines.iter().filter_map(|line| line.uuid.as_deref()).collect();
        let mut reader = MessageReader::new(Style::Blocks, None);
        let (mut after, mut best_title) = (0, 0);
        for (index, line) in self.lines.iter().enumerate() {
            if let What::Title(title, counts, leaf) = &line.what {
                self.aside(line.place, after, Aside::Raw(Text::new(Arc::clone(&line.text))));
                // An old summary may name a conversation of another file.
                let own = leaf.as_deref().is_none_or(|leaf| *counts > 0 || uuids.contains(leaf));
                if own && *counts >= best_title {
                    best_title = *counts;
                    self.aside(line.place, after, Aside::Title(title.clone()));
                }
                continue;
            }
            if !inside[index] {
                let text = Text::new(Arc::clone(&line.text));
                let unknown = matches!(line.what, What::Unknown);
                self.aside(line.place, after, if unknown { Aside::Unknown(text) } else { Aside::Raw(text) });
            }
            if compacted[index] {
                self.aside(line.place, after, Aside::Compacted { summary: Text::new("") });
            }
            match starts[index].map(|unit| (unit, places[unit])) {
                // Messages that a compaction kept come before it in the file and after it for a model.
                Some((_, Some(place))) if self.shape.start.is_none_or(|start| index > start) => {
                    after = after.max(place + 1);
                }
                Some((unit, None)) => {
                    let spoken = self.message(&mut reader, unit);
                    let detail = Detail { is_elsewhere: !self.shape.on_path[unit], ..spoken.detail.clone() };
                    let hidden = Aside::Hidden(Arc::clone(&spoken.message), detail);
                    self.aside(line.place, after, hidden);
                }
                _ => {}
            }
        }
    }

    fn aside(&mut self, place: SourcePlace, after: usize, what: Aside) {
        self.set_aside.push(SetAside { place, after, what });
    }

    /// Outputs that were too long for the transcript and are in files beside it. The model saw the text in the transcript.
    fn outputs_beside(&self, spoken: &Spoken, after: usize, found: &mut Vec<SetAside>) {
        let Some(companions) = self.companions else { return };
        let texts = || spoken.message.tool_results().flat_map(|result| &result.content);
        let paths = || texts().filter_map(Block::as_text).filter_map(|text| path_of_output(text));
        let outputs = || paths().map(|path| OutputBeside { path: path.to_owned(), text: OnceLock::new() });
        for OutputBeside { path, text } in spoken.outputs.get_or_init(|| outputs().collect()) {
            if text.get().is_none()
                && let Some(bytes) = companions.open(path)
            {
                text.get_or_init(|| Text::from(String::from_utf8_lossy(&bytes).into_owned()));
            }
            let text = text.get().cloned();
            found.extend(text.map(|text| SetAside { place: spoken.place, after, what: Aside::Raw(text) }));
        }
    }
}

struct Part {
    message: Message,
    time: Option<Text>,
    model: Option<String>,
    /// Whether the line's type names another speaker.
    disputed: bool,
    /// Whether it is the summary of a compaction.
    is_summary: bool,
}

/// Reads the message of a line that begins at `start` of its native item.
fn read_line(reader: &mut MessageReader, line: &Line, start: usize) -> Part {
    let message = Message::new(Role::User, Vec::new());
    let mut part = Part { message, time: None, model: None, disputed: false, is_summary: false };
    let doc = Doc::of(&line.text);
    let (Some(root), What::Message(said)) = (doc.root(), &line.what) else {
        return part;
    };
    part.is_summary = is_true(root.get("isCompactSummary"));
    part.time = root.get("timestamp").and_then(|time| time.as_str()).map(Text::new);
    let base = 0usize.wrapping_sub(start);
    let beside_a_message = match said.field {
        ContentField::Message => None,
        ContentField::Rendered => {
            let contents = root.get("rendered").into_iter().flat_map(rendered);
            let messages = contents.map(|content| reader.content(Role::User, content, &line.text, base));
            part.message.blocks = messages.flat_map(|message| message.blocks).collect();
            return part;
        }
        ContentField::Prompt => root.get("attachment").and_then(|attachment| attachment.get("prompt")),
        ContentField::Content => root.get("content"),
    };
    if let Some(content) = beside_a_message {
        part.message = reader.content(Role::User, content, &line.text, base);
        return part;
    }
    let Some(message) = root.get("message") else { return part };
    if let Some(read) = reader.read_within(message, &line.text, line.place.index, base) {
        part.message = read.message;
    }
    if message.get("role").and_then(Value::as_str).is_none_or(|role| role.is_empty()) {
        // The line's type names the speaker and overrides the reader's guess.
        part.message.role = if said.by_model { Role::Assistant } else { Role::User };
    }
    part.disputed = match part.message.role {
        Role::Assistant => !said.by_model,
        Role::User => said.by_model,
        _ => false,
    };
    let model = message.get("model").and_then(Value::as_str).map(std::borrow::Cow::into_owned);
    // `<synthetic>` and the like name no model.
    part.model = model.filter(|model| said.by_model && !model.is_empty() && !model.starts_with('<'));
    for block in &mut part.message.blocks {
        if let BlockKind::Reasoning(reasoning) = &mut block.kind {
            reasoning.origin.model = part.model.as_deref().map(Text::from);
        }
    }
    part
}

/// Takes the span from a block that has a cache mark, and from those inside a result.
fn drop_marked_spans(block: &mut Block, raw: &str) {
    let marked =
        |span: Option<Span>| span.and_then(|span| span.of(raw)).is_some_and(|own| own.contains(MARK));
    if !marked(block.span) {
        return;
    }
    block.span = None;
    if let BlockKind::ToolResult(result) = &mut block.kind {
        for inner in result.content.iter_mut().filter(|inner| marked(inner.span)) {
            inner.span = None;
        }
    }
}

/// The file that a result says its full text was saved to.
fn path_of_output(text: &str) -> Option<&str> {
    const SAID: [&str; 2] = ["Full output saved to: ", "Output has been saved to "];
    const FOLDER: &str = "tool-results";
    SAID.iter().find_map(|said| {
        let path = text.split_once(said)?.1.lines().next()?.trim().trim_end_matches('.');
        path.contains(FOLDER).then_some(path)
    })
}
