//! Reads a conversation: its structure from the turns, the whole output of tools from the events, and what no turn holds from
//! the events alone.

use std::{hash::BuildHasher as _, sync::Arc};

use hashbrown::{DefaultHashBuilder, HashMap};
use rejoin_record::{
    Block, Origin, Raw, Role, Text,
    json::{Doc, Value, ValueKind},
};
use rejoin_view::{Action, Finding, Rule, Severity};

use super::{
    FORMAT,
    overlap::overlap,
    retold::{EventRelation, SaidTexts, retold},
};
use crate::{
    context::Context,
    input::Stream,
    session::{Aside, ReadError, Session, SourcePlace},
    sessions::{
        building::item,
        lines::{self, Line, LineReader, at, doubled, text_of, time_of},
        turns::DIALECT,
    },
    wire::openai_responses::read::{Assembler, Source},
    wire::render,
};

/// Reads the conversation in a file, line by line.
pub(in crate::sessions) fn read_stream(mut stream: Stream<'_>) -> Result<Vec<Session>, ReadError> {
    let mut file = File::default();
    lines::read(&mut stream, &mut file)?;
    if !file.known {
        return Err(ReadError::NoConversation("no line of it is one that cody writes"));
    }
    Ok(vec![file.into_session(stream.name)])
}

/// A stretch of a line that is an item.
#[derive(Clone)]
struct Stretch {
    line: Arc<str>,
    start: usize,
    end: usize,
    place: SourcePlace,
    time: Option<Text>,
}

impl Stretch {
    fn new(item: Value<'_>, line: &Line, time: Option<Text>) -> Self {
        let (start, end) = (item.start(), item.end());
        Self { line: Arc::clone(&line.text), start, end, place: line.place, time }
    }

    fn text(&self) -> &str {
        &self.line[self.start..self.end]
    }
}

/// What a line is to the conversation, beside what is kept of it.
enum Sign {
    None,
    /// The conversation was opened, or a turn has ended: what follows is another turn.
    Boundary,
    /// The model could not answer.
    Failed,
    /// A turn, by its number.
    Turn(usize),
    /// A call or an output, as it happened.
    Item {
        call: Option<Text>,
        item: Stretch,
    },
    /// An answer, as it happened.
    Answer(Text, Stretch),
    /// Reasoning, as it happened.
    Reasoning(Text, Stretch),
}

impl Sign {
    /// What the model said in an event.
    fn said(&self) -> Option<SaidTexts> {
        match self {
            Self::Answer(text, _) => Some(SaidTexts::new(false, [text.as_str()])),
            Self::Reasoning(text, _) => Some(SaidTexts::new(true, [text.as_str()])),
            _ => None,
        }
    }
}

struct Row {
    place: SourcePlace,
    kept: Text,
    known: bool,
    sign: Sign,
}

/// An item of the history that the turns tell.
struct Told {
    item: Stretch,
    kind: Text,
    call: Option<Text>,
    has_id: bool,
    /// The hashes of its texts.
    texts: Vec<u64>,
}

/// An event about a call: the item, and how many there were for the same call.
struct Happened {
    item: Stretch,
    times: usize,
}

#[derive(Default)]
struct File {
    id: Option<Text>,
    model: Option<Text>,
    known: bool,
    rows: Vec<Row>,
    findings: Vec<Finding>,
    history: Vec<Told>,
    /// A hash of each item of the history.
    hashes: Vec<u64>,
    hasher: DefaultHashBuilder,
    /// What the model says in each turn.
    turns: Vec<Vec<SaidTexts>>,
    /// The last turn with each call.
    turn_of_call: HashMap<Text, usize>,
    calls: HashMap<Text, Happened>,
    outputs: HashMap<Text, Happened>,
}

impl LineReader for File {
    fn value(&mut self, line: &Line, root: Value<'_>) {
        let time = root.given("timestamp").map(time_of);
        let (item, data) = (root.get("item"), root.get("item").and_then(|item| item.given("data")));
        let kind = item.map(|item| item.word("type")).unwrap_or_default();
        let mut kept = Text::new(Arc::clone(&line.text));
        let (known, sign) = match (&*kind, data) {
            ("session_meta", Some(meta)) => {
                self.id = self.id.take().or_else(|| text_of(meta, "id"));
                self.model = text_of(meta, "model").or(self.model.take());
                (true, Sign::None)
            }
            ("turn", Some(turn)) if turn.holds("items", ValueKind::Array) => {
                self.turn(line, turn, time);
                // The rest of the line is kept once, with an empty list in place of its items.
                let turn = render::with_field_of(turn, "items", "[]");
                let item = item.map(|item| render::with_field_of(item, "data", &turn)).unwrap_or_default();
                kept = Text::from(render::with_field_of(root, "item", &item));
                (true, Sign::Turn(self.turns.len() - 1))
            }
            ("event", Some(event)) => self.event(line, event, time),
            // On resuming, cody goes back to everything that was said.
            ("compacted", Some(_)) => (true, Sign::None),
            _ => (false, Sign::None),
        };
        self.known |= known;
        self.rows.push(Row { place: line.place, kept, known, sign });
    }

    fn damaged(&mut self, line: &Line, finding: Finding) {
        let kept = Text::new(Arc::clone(&line.text));
        self.rows.push(Row { place: line.place, kept, known: true, sign: Sign::None });
        self.findings.push(finding);
    }

    fn found(&mut self, finding: Finding) {
        self.findings.push(finding);
    }
}

/// The types of the provider's items in events.
const ITEMS: &[&str] = &[
    "message",
    "reasoning",
    "function_call",
    "function_call_output",
    "custom_tool_call",
    "custom_tool_call_output",
    "local_shell_call",
    "local_shell_call_output",
    "web_search_call",
    "ghost_snapshot",
    "compaction",
    "other",
];

impl File {
    fn event(&mut self, line: &Line, event: Value<'_>, time: Option<Text>) -> (bool, Sign) {
        match &*event.word("type") {
            "raw_response_item" => {
                let Some(item) = event.given("item").filter(|item| ITEMS.contains(&&*item.word("type")))
                else {
                    return (false, Sign::None);
                };
                let call = text_of(item, "call_id");
                let stretch = Stretch::new(item, line, time);
                if let Some(call) = &call {
                    let output = item.word("type").ends_with("_output");
                    let happened = if output { &mut self.outputs } else { &mut self.calls };
                    let times = happened.get(call).map_or(1, |known| known.times + 1);
                    happened.insert(call.clone(), Happened { item: stretch.clone(), times });
                }
                (true, Sign::Item { call, item: stretch })
            }
            "agent_message" => match text_of(event, "message") {
                Some(text) => (true, Sign::Answer(text, Stretch::new(event, line, time))),
                None => (false, Sign::None),
            },
            "agent_reasoning" => match text_of(event, "text") {
                Some(text) => (true, Sign::Reasoning(text, Stretch::new(event, line, time))),
                None => (false, Sign::None),
            },
            "session_configured" | "task_complete" => (true, Sign::Boundary),
            "error" => (true, Sign::Failed),
            _ => (false, Sign::None),
        }
    }

    /// Takes in a turn. What it repeats of the end of the history is in it as a whole.
    fn turn(&mut self, line: &Line, turn: Value<'_>, time: Option<Text>) {
        if let Some(metadata) = turn.given("metadata") {
            self.model = text_of(metadata, "model").or(self.model.take());
        }
        let number = self.turns.len();
        let (mut told, mut hashes, mut by_model) = (Vec::new(), Vec::new(), Vec::new());
        for item in turn.get("items").into_iter().flat_map(Value::items) {
            let has = |name| item.given(name).is_some_and(|id| id.as_str().is_some_and(|id| !id.is_empty()));
            hashes.push(self.hasher.hash_one(item.raw()));
            let call = text_of(item, "call_id");
            self.turn_of_call.extend(call.clone().map(|call| (call, number)));
            let said = said_in(item);
            told.push(Told {
                kind: Text::new(&*item.word("type")),
                call,
                has_id: has("id") || has("call_id"),
                item: Stretch::new(item, line, time.clone()),
                texts: said
                    .iter()
                    .flat_map(SaidTexts::texts)
                    .map(|text| self.hasher.hash_one(&*text))
                    .collect(),
            });
            by_model.extend(said);
        }
        self.turns.push(by_model);
        let shared = overlap(&self.hashes, &hashes);
        let from = self.history.len() - shared;
        if self.history[from..].iter().any(|told| told.has_id) {
            self.history.truncate(from);
            self.hashes.truncate(from);
        }
        self.history.append(&mut told);
        self.hashes.append(&mut hashes);
    }

    fn into_session(mut self, name: &str) -> Session {
        let context = Context::of_model(DIALECT, self.model.as_deref());
        let mut assembler = Assembler::new(FORMAT);
        assembler.set_model(self.model.take());
        let fates = self.fates();
        let mut history = std::mem::take(&mut self.history).into_iter().peekable();
        let mut rows = std::mem::take(&mut self.rows).into_iter().zip(fates).peekable();
        let mut lost = LostTurn::default();
        while let Some((Row { place, kept, known, sign }, fate)) = rows.next() {
            let is_lost = match &sign {
                Sign::Item { call, .. } => {
                    call.as_ref().is_none_or(|call| !self.turn_of_call.contains_key(call))
                }
                _ => fate == EventRelation::Not,
            };
            if is_lost {
                lost.report(&mut assembler, place);
                match sign {
                    Sign::Item { item, .. } => add_event(&mut assembler, &item, true),
                    Sign::Answer(text, item) => say_event(&mut assembler, Block::text(text), &item),
                    Sign::Reasoning(text, item) => {
                        let origin = Origin { incomplete: true, ..Origin::default() };
                        say_event(&mut assembler, Block::reasoning(text, false, origin), &item);
                    }
                    _ => {}
                }
                continue;
            }
            assembler.aside(place, if known { Aside::Raw(kept) } else { Aside::Unknown(kept) });
            if fate == EventRelation::Differs {
                let why = "the event has words that its turn lacks: the turn's text is in the conversation";
                let finding = doubled(place, Action::SetAside, "event").because(why);
                assembler.session.findings.push(finding);
            }
            match sign {
                Sign::Failed => lost.failed = lost.failed.or(Some(place)),
                Sign::Boundary => {
                    let written = rows.peek().is_some_and(|(next, _)| matches!(next.sign, Sign::Turn(_)));
                    lost.end(&mut assembler, written);
                }
                Sign::Turn(_) => {
                    lost.end(&mut assembler, true);
                    let here: Vec<Told> =
                        std::iter::from_fn(|| history.next_if(|told| told.item.place == place)).collect();
                    self.tell(&mut assembler, &here);
                }
                _ => {}
            }
        }
        lost.end(&mut assembler, false);
        assembler.session.findings.extend(self.findings);
        assembler.into_session(name, self.id.as_deref(), context)
    }

    /// What becomes of each line: whether it says what no turn repeats.
    fn fates(&self) -> Vec<EventRelation> {
        let mut fates = vec![EventRelation::Same; self.rows.len()];
        // The texts of the history that no event of the same turn repeats, and how often each occurs.
        let mut untold: HashMap<u64, usize> = HashMap::new();
        for text in self.history.iter().flat_map(|told| &told.texts) {
            *untold.entry(*text).or_default() += 1;
        }
        let mut tell = |said: &SaidTexts| {
            let left = untold.get_mut(&self.hasher.hash_one(&*said.whole())).filter(|left| **left > 0);
            left.map(|left| *left -= 1)
        };
        let mut elsewhere = Vec::new();
        let mut from = 0;
        while from < self.rows.len() {
            let ends = |row: &Row| matches!(row.sign, Sign::Boundary | Sign::Turn(_));
            let to = self.rows[from..].iter().position(ends).map_or(self.rows.len(), |length| from + length);
            let (events, said): (Vec<usize>, Vec<SaidTexts>) =
                (from..to).filter_map(|row| Some((row, self.rows[row].sign.said()?))).unzip();
            let turn = self.turn_after(from, to).map(|turn| &self.turns[turn]);
            let found = turn.map_or_else(|| vec![EventRelation::Not; said.len()], |turn| retold(turn, &said));
            for ((row, said), fate) in events.into_iter().zip(said).zip(found) {
                fates[row] = fate;
                match fate {
                    _ if said.is_blank() => fates[row] = EventRelation::Same,
                    EventRelation::Not => elsewhere.push((row, said)),
                    _ => _ = tell(&said),
                }
            }
            from = to + 1;
        }
        for (row, said) in elsewhere {
            fates[row] = tell(&said).map_or(EventRelation::Not, |()| EventRelation::Same);
        }
        fates
    }

    /// The turn that was written when a stretch of events had ended: the one that is written next, or one with a call of theirs.
    fn turn_after(&self, from: usize, to: usize) -> Option<usize> {
        let mut after = self.rows[to..].iter().map(|row| &row.sign).peekable();
        after.next_if(|sign| matches!(sign, Sign::Boundary));
        let written = match after.find(|sign| !matches!(sign, Sign::None)) {
            Some(Sign::Turn(number)) => Some(*number),
            _ => None,
        };
        written.or_else(|| {
            let call = |row: &Row| match &row.sign {
                Sign::Item { call: Some(call), .. } => self.turn_of_call.get(call).copied(),
                _ => None,
            };
            self.rows[from..to].iter().rev().find_map(call)
        })
    }

    /// Adds the items of a turn, with the whole outputs of tools, which the turn may have cut.
    fn tell(&self, assembler: &mut Assembler, turn: &[Told]) {
        let Some(line) = turn.first().map(|told| &told.item.line) else { return };
        let doc = Doc::of(line);
        let data = doc.root().and_then(|root| root.get("item")?.get("data"));
        let items = data.and_then(|turn| turn.get("items")).into_iter().flat_map(Value::items);
        let happened = |told: &Told| {
            let events = if told.kind.ends_with("_output") { &self.outputs } else { &self.calls };
            events.get(told.call.as_ref()?).filter(|event| event.times == 1).map(|event| &event.item)
        };
        // The time of a turn is that of its end.
        let timed = turn.iter().rposition(|told| happened(told).is_some()).unwrap_or(0);
        for (number, (told, item)) in turn.iter().zip(items).enumerate() {
            let place = told.item.place;
            let event = happened(told);
            let time = match event {
                Some(event) => event.time.clone(),
                None => told.item.time.clone().filter(|_| number >= timed),
            };
            match event.filter(|event| told.kind.ends_with("_output") && is_cut(&told.item, event)) {
                Some(whole) => {
                    assembler.aside(place, Aside::Raw(Text::new(told.item.text())));
                    add_event(assembler, &Stretch { place, time, ..whole.clone() }, false);
                }
                None => {
                    assembler.add_or_report(item, &Source::of(item, line, place, time), at(place));
                }
            }
        }
        // The next turn begins with another speaker, or is another answer.
        assembler.flush();
    }
}

/// What the model says in an item of a turn.
fn said_in(item: Value<'_>) -> Option<SaidTexts> {
    if item.says("role", "user") {
        return None;
    }
    let lists = ["content", "summary"].map(|name| item.given(name)).into_iter().flatten();
    let parts: Vec<_> = lists.flat_map(Value::items).filter_map(|part| part.get("text")?.as_str()).collect();
    let text = item.get("content").and_then(Value::as_str);
    let parts = parts.iter().chain(&text).map(|text| &**text);
    Some(SaidTexts::new(item.says("type", "reasoning"), parts)).filter(|said| !said.is_blank())
}

/// Whether a turn holds another output than the event, which has all of it.
fn is_cut(turn: &Stretch, event: &Stretch) -> bool {
    let output = |item: &Stretch| {
        let doc = Doc::of(item.text());
        let output = doc.root().and_then(|item| item.get("output"));
        let said = output.and_then(|output| output.get("content").unwrap_or(output).as_str());
        said.map(|said| said.into_owned())
    };
    let (cut, whole) = (output(turn), output(event));
    whole.as_ref().is_some_and(|whole| !whole.trim().is_empty()) && cut != whole
}

/// Adds the item of an event, perhaps with the line around it.
fn add_event(assembler: &mut Assembler, event: &Stretch, with_line: bool) {
    let Stretch { line, start, end, place, time } = event;
    let doc = Doc::of(line);
    let Some(item) = doc.root().and_then(|root| root.get("item")?.get("data")?.get("item")) else { return };
    let (start, end) = if with_line { (0, line.len()) } else { (*start, *end) };
    let source = Source { buffer: line, start, end, place: *place, time: time.clone() };
    assembler.add_or_report(item, &source, at(*place));
}

/// Adds something that the model said and that only an event tells.
fn say_event(assembler: &mut Assembler, block: Block, event: &Stretch) {
    let message = item(FORMAT, Role::Assistant, vec![block], Raw::new(Arc::clone(&event.line)));
    assembler.push_message(message, event.place, event.time.clone());
}

/// A turn of which no line was written.
#[derive(Default)]
struct LostTurn {
    reported: bool,
    /// Where the model failed to answer.
    failed: Option<SourcePlace>,
}

impl LostTurn {
    /// Something of it is left.
    fn report(&mut self, assembler: &mut Assembler, place: SourcePlace) {
        if !self.reported {
            assembler.flush();
            let why =
                "its turn was never written: the user's message is lost, and the rest is read from events";
            assembler.session.findings.push(lost(place, Action::Kept, why));
        }
        self.reported = true;
    }

    /// Another turn begins. If the last one failed before anything happened, nothing is left of it.
    fn end(&mut self, assembler: &mut Assembler, written: bool) {
        assembler.flush();
        let last = std::mem::take(self);
        if let Some(place) = last.failed.filter(|_| !last.reported && !written) {
            let why = "the model failed, and its turn was never written: the user's message is lost";
            assembler.session.findings.push(lost(place, Action::SetAside, why));
        }
    }
}

fn lost(place: SourcePlace, action: Action, why: &str) -> Finding {
    let finding = Finding::new(Rule::DamagedEntry, at(place), action).because(why);
    // Nothing of what is left is damaged.
    Finding { severity: Severity::Warning, ..finding }
}
