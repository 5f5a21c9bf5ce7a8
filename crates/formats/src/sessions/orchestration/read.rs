//! Makes conversations of the runs: the first agent's, and one for each run that was delegated.

use hashbrown::HashMap;
use rejoin_record::{
    Block, BlockKind, Form, Message, Native, NativeItem, Raw, Role, Span, Text, hash::short_name,
    json::Object,
};
use rejoin_view::Finding;

use super::{
    FORMAT,
    event::{Event, EventKind, reasoning},
    runs::{self, ROOT, Runs},
};
use crate::{
    context::Context,
    input::Stream,
    session::{Aside, Detail, ReadError, Session},
    sessions::{
        building::{SessionBuilder, item},
        lines::{self, Line, LineReader},
    },
    wire::registry::Dialect,
};

/// Reads every conversation in a file of events; the one that a person led comes first.
pub(in crate::sessions) fn read_stream(mut stream: Stream<'_>) -> Result<Vec<Session>, ReadError> {
    let mut file = File::default();
    lines::read(&mut stream, &mut file)?;
    if file.events.iter().all(|event| matches!(event.what, EventKind::Unknown)) {
        return Err(ReadError::NoConversation("no line of it is an event of agent-orchestration-system"));
    }
    Ok(file.into_sessions(stream.name))
}

#[derive(Default)]
struct File {
    events: Vec<Event>,
    findings: Vec<Finding>,
}

impl File {
    fn last_time(&self) -> i64 {
        self.events.last().map_or(0, |event| event.time)
    }

    fn into_sessions(self, name: &str) -> Vec<Session> {
        let Self { events, findings } = self;
        let mut order: Vec<usize> = (0..events.len()).collect();
        order.sort_by_key(|at| (events[*at].time, events[*at].what.rank(), *at));
        let runs = runs::split(&events, &order);
        // The runs of the first agent are one conversation.
        let conversation = |run: usize| if runs.runs[run].delegated { run } else { ROOT };
        let mut lines: Vec<Vec<usize>> = vec![Vec::new(); runs.runs.len()];
        order.iter().for_each(|at| lines[conversation(runs.of[*at])].push(*at));
        // The first line stays the same as the file grows.
        let first = short_name(events.first().map_or("", |event| &event.line), 32);
        let own_id = |run: usize| match conversation(run) {
            ROOT => first.clone(),
            run => {
                let called = runs.runs[run].call.or(runs.runs[run].begins);
                format!("{first}\n{}", called.map_or("", |at| &events[at].line))
            }
        };
        let delegated = (1..runs.runs.len()).filter(|run| runs.runs[*run].delegated);
        let mut sessions = Vec::new();
        for run in [ROOT].into_iter().chain(delegated) {
            let mut speech = Speech {
                events: &events,
                runs: &runs,
                parts: Vec::new(),
                open: None,
                iterations: HashMap::new(),
            };
            lines[run].iter().for_each(|at| speech.add(*at));
            let mut builder = SessionBuilder::new(FORMAT);
            if run != ROOT {
                let parent =
                    crate::session::derive_id(FORMAT, Some(&own_id(runs.runs[run].parent)), name, None);
                let call = runs.runs[run].call.and_then(|at| match &events[at].what {
                    EventKind::Call(call) => call.id.clone(),
                    _ => None,
                });
                let link = Object::new().text("delegated_by", parent).text_if("call", call).finish();
                let place = runs.runs[run].begins.map_or(events[0].place, |at| events[at].place);
                builder.aside(place, Aside::Raw(Text::from(link)));
            }
            speech.parts.into_iter().for_each(|part| part.put(&mut builder, &events));
            let newest = || lines[run].iter().rev().map(|at| &events[*at]);
            let model = newest().find_map(|event| event.model.clone());
            let provider = newest().find_map(|event| event.provider.clone()).unwrap_or_else(|| Text::new(""));
            let dialect = Dialect::of_provider(&provider);
            let context = Context::of_model(dialect, model.as_deref());
            sessions.push(builder.finish(name, Some(&own_id(run)), context));
        }
        if let Some(first) = sessions.first_mut() {
            first.findings.extend(findings);
        }
        sessions
    }
}

impl LineReader for File {
    fn value(&mut self, line: &Line, root: rejoin_record::json::Value<'_>) {
        self.events.push(Event::read(line, root, self.last_time()));
    }

    fn damaged(&mut self, line: &Line, finding: Finding) {
        self.events.push(Event::noted(line, self.last_time()));
        self.findings.push(finding);
    }

    fn found(&mut self, finding: Finding) {
        self.findings.push(finding);
    }
}

/// A part of a conversation: lines of the file.
enum Part {
    Aside(usize),
    /// A message that is one line.
    One(usize, Role, Block),
    Response(Response),
}

/// What a model said and called at once.
struct Response {
    run: usize,
    iteration: usize,
    metadata: Option<Text>,
    /// Whether a result came since.
    answered: bool,
    thought: Option<Text>,
    lines: Vec<(usize, Block)>,
}

/// The lines of a conversation on the way to become messages.
struct Speech<'e> {
    events: &'e [Event],
    runs: &'e Runs,
    parts: Vec<Part>,
    /// The last response, if it may go on.
    open: Option<usize>,
    /// How many requests each run has made.
    iterations: HashMap<usize, usize>,
}

impl Speech<'_> {
    fn add(&mut self, at: usize) {
        let run = self.runs.of[at];
        match &self.events[at].what {
            EventKind::User(text) => {
                self.open = None;
                self.parts.push(Part::One(at, Role::User, Block::text(text.clone())));
            }
            EventKind::Thinking(thought) => {
                // The line is kept beside: its first words are the program's.
                self.parts.push(Part::Aside(at));
                self.begin(at, Some(thought.clone()));
            }
            EventKind::Answer { text, .. } => self.respond(at, Block::text(text.clone())),
            EventKind::Call(_) if self.runs.twins.contains(&at) => self.parts.push(Part::Aside(at)),
            EventKind::Call(call) => {
                let mut block = call.block.clone();
                if let BlockKind::ToolCall(call) = &mut block.kind {
                    call.id_given &= !self.runs.without_ids;
                }
                self.respond(at, block);
            }
            EventKind::Result { block, .. } => {
                let mut block = block.clone();
                if let BlockKind::ToolResult(result) = &mut block.kind
                    && self.runs.without_ids
                {
                    result.call_id = None;
                }
                if let Some(Part::Response(open)) = self.open.map(|open| &mut self.parts[open]) {
                    open.answered |= open.run == run;
                }
                self.parts.push(Part::One(at, Role::Tool, block));
            }
            EventKind::Iteration { .. } => {
                *self.iterations.entry(run).or_default() += 1;
                self.parts.push(Part::Aside(at));
            }
            _ => self.parts.push(Part::Aside(at)),
        }
    }

    fn iteration(&self, run: usize) -> usize {
        self.iterations.get(&run).copied().unwrap_or(0)
    }

    /// Adds a line to the response that it is part of.
    fn respond(&mut self, at: usize, block: Block) {
        if !self.goes_on(at, &block) {
            self.begin(at, None);
        }
        if let Some(Part::Response(open)) = self.open.map(|open| &mut self.parts[open]) {
            open.metadata = open.metadata.take().or_else(|| self.events[at].metadata.clone());
            open.lines.push((at, block));
        }
    }

    fn begin(&mut self, at: usize, thought: Option<Text>) {
        let run = self.runs.of[at];
        self.open = Some(self.parts.len());
        self.parts.push(Part::Response(Response {
            run,
            iteration: self.iteration(run),
            metadata: None,
            answered: false,
            thought,
            lines: Vec::new(),
        }));
    }

    /// Whether a line is part of the open response. All lines of one response say the same of the model; where they say
    /// nothing, it is the only one of its iteration, or goes on until a tool has answered.
    fn goes_on(&self, at: usize, block: &Block) -> bool {
        let Some(Part::Response(open)) = self.open.map(|open| &self.parts[open]) else { return false };
        let run = self.runs.of[at];
        if open.run != run || open.iteration != self.iteration(run) {
            return false;
        }
        match (&open.metadata, &self.events[at].metadata) {
            _ if open.lines.is_empty() => true,
            (Some(first), Some(own)) => first == own,
            (None, None) if open.iteration > 0 => true,
            (None, None) => !open.answered && block.as_text().is_none(),
            _ => false,
        }
    }
}

impl Part {
    fn put(self, builder: &mut SessionBuilder, events: &[Event]) {
        match self {
            Self::Aside(at) => {
                let Event { line, place, what, .. } = &events[at];
                let line = Text::new(line.clone());
                let known = !matches!(what, EventKind::Unknown);
                builder.aside(*place, if known { Aside::Raw(line) } else { Aside::Unknown(line) });
            }
            Self::One(at, role, block) => {
                let Event { line, place, written, .. } = &events[at];
                let detail = Detail { time: written.clone(), ..Detail::default() };
                builder.say(item(FORMAT, role, vec![block], Raw::new(line.clone())), *place, detail);
            }
            Self::Response(response) => response.put(builder, events),
        }
    }
}

impl Response {
    fn put(self, builder: &mut SessionBuilder, events: &[Event]) {
        let mut blocks: Vec<Block> = self.thought.map(reasoning).into_iter().collect();
        let Some((first, _)) = self.lines.first() else {
            // Nothing came of it, and its line is kept.
            return;
        };
        let first = &events[*first];
        let mut detail = Detail { time: first.written.clone(), ..Detail::default() };
        let (mut raw, mut items) = (String::new(), Vec::new());
        for (at, block) in self.lines {
            let Event { line, place, .. } = &events[at];
            raw.push_str(if raw.is_empty() { "" } else { "," });
            let span = Span::verbatim(raw.len(), line.len());
            raw.push_str(line);
            detail.pieces.push((if items.is_empty() { 0 } else { blocks.len() }, *place));
            let own = if items.is_empty() { blocks.len() + 1 } else { 1 };
            items.push(NativeItem { span, blocks: own as u32, regular: false });
            blocks.push(block);
        }
        if items.len() < 2 {
            items.clear();
            detail.pieces.clear();
        }
        let native = Native { items, ..Native::one(FORMAT, Raw::new(raw), false) };
        let message = Message { role: Role::Assistant, blocks, form: Form::Parts, native: Some(native) };
        builder.say(message, first.place, detail);
    }
}
