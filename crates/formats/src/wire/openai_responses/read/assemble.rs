//! Building a session from items: all items of a model between two other messages become one message.

use rejoin_record::{Native, NativeItem, Role, Span};

use super::items::{Call, FORMAT, Item, ItemReader, is_message, lists_calls};
use crate::{
    context::Context,
    messages::roles,
    session::{Aside, Detail, Session, SetAside, SourcePlace},
    sessions::building::SessionBuilder,
    wire::prelude::*,
};

/// The bytes that are kept of an item, which may be more than the item itself.
pub struct Source<'s> {
    pub buffer: &'s Arc<str>,
    pub start: usize,
    /// The end of the bytes that are kept.
    pub end: usize,
    pub place: SourcePlace,
    pub time: Option<Text>,
}

impl<'s> Source<'s> {
    /// The bytes of an item and nothing else.
    pub fn of(item: Value<'_>, buffer: &'s Arc<str>, place: SourcePlace, time: Option<Text>) -> Self {
        Self { buffer, start: item.start(), end: item.end(), place, time }
    }
}

/// Messages, and everything else, in the order of the source.
#[derive(Clone)]
pub struct Assembler {
    items: ItemReader,
    open: Option<Group>,
    /// Where the bytes of an answer are joined.
    joined: String,
    /// What is finished.
    pub session: SessionBuilder,
}

/// An unfinished answer of a model.
#[derive(Clone)]
struct Group {
    blocks: Vec<Block>,
    items: Vec<NativeItem>,
    raw: Kept,
    place: SourcePlace,
    detail: Detail,
}

/// The bytes of a message's items: ranges of texts, with a comma between any two.
#[derive(Clone)]
struct Kept {
    ranges: Vec<(Arc<str>, usize, usize)>,
    /// How long they are together.
    length: usize,
}

impl Kept {
    fn new(source: &Source<'_>) -> Self {
        let range = (Arc::clone(source.buffer), source.start, source.end);
        Self { ranges: vec![range], length: source.end - source.start }
    }

    /// Where the only range begins, if an item directly follows it in the same text.
    fn goes_on(&self, source: &Source<'_>) -> Option<usize> {
        let [(buffer, start, end)] = &self.ranges[..] else { return None };
        let between = Arc::ptr_eq(buffer, source.buffer).then(|| buffer.get(*end..source.start))??;
        (between.trim() == ",").then_some(*start)
    }

    /// Where the bytes of the next item would begin.
    fn next(&self, source: &Source<'_>) -> usize {
        self.goes_on(source).map_or(self.length + 1, |start| source.start - start)
    }

    fn add(&mut self, source: &Source<'_>) {
        if let Some(start) = self.goes_on(source) {
            *self = Self::new(&Source { start, time: None, ..*source });
            return;
        }
        self.ranges.push((Arc::clone(source.buffer), source.start, source.end));
        self.length += 1 + source.end - source.start;
    }

    /// Joins them in a buffer that is used again and again.
    fn into_raw(self, joined: &mut String) -> Raw {
        if let [(buffer, start, end)] = &self.ranges[..] {
            return Raw::slice(buffer, *start, *end).unwrap_or_else(|| Raw::new(""));
        }
        joined.clear();
        for (number, (buffer, start, end)) in self.ranges.iter().enumerate() {
            joined.push_str(if number == 0 { "" } else { "," });
            joined.push_str(&buffer[*start..*end]);
        }
        Raw::new(joined.as_str())
    }
}

impl Assembler {
    pub fn new(format: &'static str) -> Self {
        Self {
            items: ItemReader::default(),
            open: None,
            joined: String::new(),
            session: SessionBuilder::new(format),
        }
    }

    pub fn set_model(&mut self, model: Option<Text>) {
        self.items.model = model;
    }

    /// Adds an item; false if it is not one.
    pub fn add(&mut self, item: Value<'_>, source: &Source<'_>) -> bool {
        let place = source.place;
        // An answer continues, anything else begins a message: spans count from the start of the message.
        let open = self.open.as_ref().filter(|_| is_answer(item));
        let goes_on = open.is_some();
        let offset = open.map_or(0, |group| group.raw.next(source));
        let base = source.start.wrapping_sub(offset);
        let Some(read) = self.items.read(item, source.buffer, base) else { return false };
        if let Some(role) = &read.guessed {
            // In a file of lines, messages are counted without the other lines.
            let number = if place.line.is_some() { self.session.messages.len() } else { place.index };
            let at = Position { message: Some(number), block: None, line: place.line };
            let finding = Finding::new(Rule::UnknownRole, at, Action::Replaced);
            self.session.findings.push(finding.because(format!("it names none and is taken for {role}")));
        }
        let native = |blocks: &[Block]| NativeItem {
            span: Span::verbatim(item.start().wrapping_sub(base), item.raw().len()),
            blocks: u32::try_from(blocks.len()).unwrap_or(u32::MAX),
            regular: read.regular,
        };
        match read.item {
            Item::Answer(blocks) => {
                let item = native(&blocks);
                match self.open.as_mut().filter(|_| goes_on) {
                    Some(group) => {
                        group.raw.add(source);
                        group.detail.pieces.push((group.blocks.len(), place));
                        group.items.push(item);
                        group.blocks.extend(blocks);
                    }
                    None => {
                        self.flush();
                        self.open = Some(Group {
                            blocks,
                            items: vec![item],
                            raw: Kept::new(source),
                            place,
                            detail: Detail {
                                time: source.time.clone(),
                                pieces: vec![(0, place)],
                                ..Detail::default()
                            },
                        });
                    }
                }
            }
            Item::Message(role, blocks, form) => {
                self.flush();
                let item = native(&blocks);
                let raw = Raw::slice(source.buffer, source.start, source.end);
                let raw = raw.unwrap_or_else(|| Raw::new(""));
                let detail = Detail { time: source.time.clone(), ..Detail::default() };
                self.push(role, blocks, form, vec![item], raw, place, detail);
            }
            Item::Snapshot => {
                // Snapshots are normal in a rollout, but a request loses them.
                if self.session.format() == FORMAT {
                    let at = Position::message(place.index);
                    let finding = Finding::new(Rule::ForeignBlock, at, Action::SetAside);
                    self.session.findings.push(finding.about("ghost_snapshot"));
                }
                let data = Raw::slice(source.buffer, source.start, source.end);
                self.aside(place, Aside::Snapshot(data.unwrap_or_else(|| Raw::new("null"))));
            }
        }
        true
    }

    /// Adds an item; anything else is set aside with a finding at its position.
    pub fn add_or_report(&mut self, item: Value<'_>, source: &Source<'_>, at: Position) {
        if !self.add(item, source) {
            self.aside(source.place, Aside::Unknown(Text::new(item.raw())));
            let finding = Finding::new(Rule::DamagedEntry, at, Action::SetAside);
            self.session.findings.push(finding.because("it is not an item"));
        }
    }

    /// Adds an item that only the provider understands, in its place.
    pub fn add_as_it_is(&mut self, item: Value<'_>, source: &Source<'_>) {
        self.flush();
        let raw = |start, end| Raw::slice(source.buffer, start, end).unwrap_or_else(|| Raw::new(""));
        let kind = item.word("type");
        let span = Span::verbatim(item.start() - source.start, item.raw().len());
        let block = Block::opaque(&*kind, raw(item.start(), item.end()), true).at(span);
        let items = vec![NativeItem { span, blocks: 1, regular: true }];
        let detail = Detail { time: source.time.clone(), ..Detail::default() };
        let bytes = raw(source.start, source.end);
        self.push(Role::User, vec![block], Form::Parts, items, bytes, source.place, detail);
    }

    /// Sets aside something that the model does not see.
    pub fn aside(&mut self, place: SourcePlace, what: Aside) {
        // An unfinished answer counts as a message before it.
        let after = self.session.messages.len() + usize::from(self.open.is_some());
        self.session.set_aside.push(SetAside { place, after, what });
    }

    /// Hides everything so far, except the messages that stay.
    pub fn compact(&mut self, place: SourcePlace, stays: impl Fn(&Message) -> bool, summary: Text) {
        self.flush();
        self.items.ids.clear();
        self.session.compact(place, stays, summary);
    }

    /// Hides everything so far.
    pub fn replace(&mut self, place: SourcePlace) {
        self.flush();
        self.items.ids.clear();
        self.session.replace(place);
    }

    /// Hides the last turns. A turn starts at a message for which `begins` is true.
    pub fn roll_back(&mut self, turns: usize, begins: impl Fn(&Message) -> bool) {
        self.flush();
        self.session.roll_back(turns, begins);
    }

    /// Adds a message that has no item in the source.
    pub fn push_message(&mut self, message: Message, place: SourcePlace, time: Option<Text>) {
        self.flush();
        self.session.push(message, place, Detail { time, ..Detail::default() });
    }

    /// Completes an unfinished answer.
    pub fn flush(&mut self) {
        let Some(group) = self.open.take() else { return };
        let Group { blocks, items, raw, place, detail } = group;
        let raw = raw.into_raw(&mut self.joined);
        self.push(Role::Assistant, blocks, Form::Parts, items, raw, place, detail);
    }

    /// Returns the session of a file; its id derives from the source's own id, if there is one.
    pub fn into_session(mut self, name: &str, own_id: Option<&str>, context: Context) -> Session {
        self.flush();
        self.session.finish(name, own_id, context)
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of a message, all of them needed")]
    fn push(
        &mut self,
        role: Role,
        blocks: Vec<Block>,
        form: Form,
        items: Vec<NativeItem>,
        raw: Raw,
        place: SourcePlace,
        mut detail: Detail,
    ) {
        let regular = items.iter().all(|item| item.regular);
        let native = Native { items, ..Native::one(self.session.format(), raw, regular) };
        let message = Message { role, blocks, form, native: Some(native) };
        if detail.pieces.len() < 2 {
            detail.pieces.clear();
        }
        self.session.say(message, place, detail);
    }
}

/// Whether an item is part of a model's answer, by its type.
fn is_answer(item: Value<'_>) -> bool {
    let kind = item.word("type");
    let message = matches!(&*kind, "message" | "")
        || (Call::of_call(&kind).or(Call::of_output(&kind)).is_none() && is_message(item, &kind));
    if message {
        let role = item.word("role");
        let named = || roles::by_another_field(item).is_some_and(|(role, _)| role == Role::Assistant);
        return roles::named(&role) == Role::Assistant || (role.is_empty() && (lists_calls(item) || named()));
    }
    match &*kind {
        "ghost_snapshot" | "text" | "input_text" | "input_image" | "input_file" | "tool_result" => false,
        other => {
            super::Call::answered_by(item).is_none()
                && super::Hosted::of(other).is_none_or(|known| known.side == super::Side::Provider)
        }
    }
}

/// Whether a person wrote a message, rather than an agent that added context or a summary.
pub fn is_said_by_a_person(message: &Message) -> bool {
    let mut texts =
        message.blocks.iter().filter_map(Block::as_text).filter(|text| !text.is_blank()).peekable();
    let speaks = texts.peek().is_none() || texts.any(|text| !is_put_there(text));
    let is_result = |block: &Block| matches!(block.kind, BlockKind::ToolResult(_));
    // A summary has no native item. In some formats, results of tools have the role `user`.
    message.role == Role::User
        && message.native.as_ref().is_some_and(|native| !is_marked(native))
        && (message.blocks.is_empty() || !message.blocks.iter().all(is_result))
        && speaks
}

/// Whether an agent marked a message as its own.
fn is_marked(native: &Native) -> bool {
    const MARKS: [&str; 2] = ["isMeta", "isCompactSummary"];
    let raw = native.raw.as_str();
    MARKS.iter().any(|mark| raw.contains(mark)) && {
        let (doc, _) = Doc::parse_prefix(raw);
        let marked = |mark: &&str| doc.root().and_then(|root| root.get(mark)?.as_bool()) == Some(true);
        MARKS.iter().any(marked)
    }
}

/// Whether an agent wrote a user's text.
pub fn is_put_there(text: &str) -> bool {
    const BEGINNINGS: &[&str] = &[
        "<environment_context>",
        "<user_instructions>",
        "<turn_aborted>",
        "<user_shell_command>",
        "# AGENTS.md instructions",
        "<INSTRUCTIONS>",
        "<command-name>",
        "<command-message>",
        "<local-command-stdout>",
        "<local-command-stderr>",
        "<local-command-caveat>",
        "<system-reminder>",
        "<system>",
        "<task-notification>",
        "[Request interrupted by user",
        "Caveat: The messages below were generated by the user while running local commands",
        "This session is being continued from a previous conversation",
        "Another language model started to solve this problem",
        "You were originally given instructions from a user over one or more turns",
    ];
    let text = text.trim_start();
    BEGINNINGS.iter().any(|beginning| text.starts_with(beginning))
}
