//! The forward pass that every encoder makes over a view. What all dialects do alike is here; where they differ, a hook of
//! [`Pass`] says how.

use std::sync::Arc;

use rejoin_record::{
    Message, Reasoning, Role, Text, ToolCall,
    json::{Doc, Kind},
};
use rejoin_view::{
    Action, ExchangeRef, Finding, ItemRef, Position, Rule, SoundRole, SoundView, sound::FirstChange,
};

use super::{
    Encoded, TooLarge,
    body::{Surroundings, seen_before, write_around},
    fragments::{self, Fragment},
    names::{Spelled, Spelling},
    outline::{Encode, Outline},
    registry::Wire,
    render::{self, Ledger},
    scroll::Scroll,
};
use crate::convert::{Bond, Marks, Target};

/// The two methods with which an encoder shows its field `sheet`.
macro_rules! on_sheet {
    () => {
        fn sheet(&self) -> &Sheet {
            &self.sheet
        }

        fn sheet_mut(&mut self) -> &mut Sheet {
            &mut self.sheet
        }
    };
}
pub(crate) use on_sheet;

/// What every encoder keeps while it writes a body.
#[derive(Clone)]
pub struct Sheet {
    /// The dialect.
    pub wire: &'static Wire,
    /// Where the request goes.
    pub target: Arc<Target>,
    /// Whether the source was written in this dialect.
    pub same: bool,
    /// Whether reasoning that the source carries was issued where the request goes.
    pub keeps_reasoning: bool,
    /// The messages so far.
    pub list: Scroll,
    /// What was found.
    pub ledger: Ledger,
    /// How calls and tools are spelled.
    pub spelling: Spelling,
    /// Instructions that led the messages, for dialects with a field for them.
    pub system: Vec<String>,
    /// The source message that is being written.
    pub current: usize,
    /// What becomes of cache marks around the messages.
    pub marks: Marks,
    /// The first thing that the provider takes no such amount of.
    pub too_large: Option<TooLarge>,
    /// How many messages at the beginning are instructions.
    leading: usize,
    /// What a model sees before every message, once that is decided.
    before: Option<Arc<str>>,
}

/// Who spoke last.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Last {
    /// Nobody, or only whoever set the conversation up.
    Nobody,
    /// A user or a tool.
    User,
    /// The model, in this message of the source.
    Model(Option<usize>),
}

impl Sheet {
    /// An empty one.
    #[must_use]
    pub fn new(wire: &'static Wire, target: &Arc<Target>) -> Self {
        let keeps_reasoning = target.keeps_reasoning_of(wire.dialect);
        // Tools stand before every message: a new name for one of them changes what the model saw. That tools may be
        // declared for what comes later changes nothing.
        let renamed =
            || target.context.field_tools().iter().any(|tool| *wire.spell(&tool.name) != *tool.name);
        Self {
            wire,
            target: Arc::clone(target),
            same: target.context.dialect == Some(wire.dialect),
            keeps_reasoning,
            list: Scroll::default(),
            ledger: Ledger::new(keeps_reasoning && !renamed(), wire.media),
            spelling: Spelling::new(wire),
            system: Vec::new(),
            current: 0,
            marks: target.marks,
            too_large: None,
            leading: 0,
            before: None,
        }
    }

    /// Adds a message.
    pub fn push(&mut self, json: &str) {
        self.measure(json);
        self.list.push(json);
    }

    /// Notes a text that is longer than the provider takes.
    fn measure(&mut self, json: &str) {
        let Some((rule, limit)) = self.wire.limits.text.filter(|(_, limit)| json.len() > *limit) else {
            return;
        };
        if let Some(size) = longest_text(json).filter(|size| *size > limit) {
            let (what, at) = ("a text in characters", Position::message(self.current));
            self.too_large.get_or_insert(TooLarge { rule, what, size, limit, at });
        }
    }

    /// Spells a call of an item, and notes what had to change.
    pub fn spell(&mut self, item: ItemRef<'_>, exchange: ExchangeRef<'_>, call: &ToolCall) -> Spelled {
        let block = &item.message().blocks[exchange.block()];
        let own = self.wire.own_bytes(item.message(), block);
        let at = Position::block(item.index(), exchange.block());
        self.spelling.of(exchange, call, own, at, &mut self.ledger)
    }

    /// The fragments of a user message; `None` if it is no message at all.
    pub fn user_fragments<'i>(&mut self, item: ItemRef<'i>) -> Option<Vec<Fragment<'i>>> {
        let at = Position::message(item.index());
        let fragments = fragments::of_item(item, &mut self.ledger);
        if fragments::is_nothing(item, &fragments) {
            self.ledger.nothing_left(at);
            return None;
        }
        if fragments.is_empty() {
            self.ledger.change(Rule::EmptyMessage, at, Action::Replaced);
        }
        Some(fragments)
    }

    /// What instructions say; blank texts say nothing.
    pub fn instructions(&mut self, item: ItemRef<'_>) -> Vec<String> {
        let fragments = fragments::of_item(item, &mut self.ledger).into_iter();
        fragments.filter(|piece| !piece.is_blank()).map(|piece| piece.into_text(&mut self.ledger)).collect()
    }
}

/// The longest string of a message that is itself longer than any string may be.
fn longest_text(message: &str) -> Option<usize> {
    let doc = Doc::parse(message).ok()?;
    // What stands in an address is not text, nor is what only the provider can read.
    let sealed = doc
        .root()
        .is_some_and(|root| root.given("encrypted_content").is_some_and(|blob| blob.kind() == Kind::String));
    let strings = doc.strings().filter(|text| !text.starts_with("data:"));
    strings.map(|text| text.chars().count()).max().filter(|_| !sealed)
}

/// An encoder that has taken in what stands outside the list.
#[must_use]
pub fn begun(mut pass: impl Pass) -> Box<dyn Encode> {
    pass.outside();
    Box::new(pass)
}

/// What a dialect's encoder writes itself; the rest is the same for all of them.
pub trait Pass: Clone + Send + Sync + 'static {
    /// What it keeps.
    fn sheet(&self) -> &Sheet;
    /// The same, to write on.
    fn sheet_mut(&mut self) -> &mut Sheet;
    /// Writes what a user said.
    fn user(&mut self, place: usize, item: ItemRef<'_>);
    /// Writes what the model said, and the results of its calls.
    fn assistant(&mut self, place: usize, item: ItemRef<'_>);
    /// Writes a text that nobody said as a user's; what it stands for is in this message of the source.
    fn say(&mut self, text: &str, index: usize);
    /// The fields around the messages.
    fn surroundings(&mut self) -> Surroundings;

    /// Keeps instructions that lead the conversation: in the field for them.
    fn instruct(&mut self, texts: Vec<String>) {
        self.sheet_mut().system.extend(texts);
    }

    /// Takes in the instructions that stand outside the list: the conversation's own, then another dialect's.
    fn outside(&mut self) {
        let target = Arc::clone(&self.sheet().target);
        if let Some(text) = target.context.own_instructions() {
            self.instruct(vec![text.to_string()]);
        }
        if self.sheet().same {
            return;
        }
        let texts = fragments::of_context(&target.context, &mut self.sheet_mut().ledger);
        if !texts.is_empty() {
            self.instruct(texts.iter().map(ToString::to_string).collect());
        }
    }

    /// Writes instructions. Leading ones go where the dialect has them, later ones stay in their place as user text.
    fn system(&mut self, item: ItemRef<'_>) {
        let index = item.index();
        // Leading means that nothing but instructions stood before, shown or not: none is moved past a message.
        let leading = index == self.sheet().leading && self.last() == Last::Nobody;
        let own = self.sheet().wire.is_own(item.message());
        let at = Position::message(index);
        let sheet = self.sheet_mut();
        sheet.leading += usize::from(leading);
        let texts = sheet.instructions(item);
        if texts.is_empty() {
            sheet.ledger.nothing_left(at);
        } else if leading {
            if own {
                sheet.ledger.change(Rule::LateSystem, at, Action::Moved);
            }
            self.instruct(texts);
        } else {
            sheet.ledger.change(Rule::LateSystem, at, Action::Replaced);
            self.late_system(texts.iter().map(|text| format!("<system>{text}</system>")).collect(), index);
        }
    }

    /// Writes later instructions as user text.
    fn late_system(&mut self, texts: Vec<String>, index: usize) {
        texts.iter().for_each(|text| self.say(text, index));
    }

    /// Who spoke last.
    fn last(&self) -> Last {
        if self.sheet().list.is_empty() { Last::Nobody } else { Last::User }
    }

    /// Ends what is still open.
    fn close(&mut self) {
        self.sheet_mut().list.close();
    }

    /// A message that is decided but not written yet.
    fn unwritten(&self) -> Option<Arc<Message>> {
        None
    }

    /// The settings that the fields around the messages are written for.
    fn settings(&self) -> Arc<Target> {
        Arc::clone(&self.sheet().target)
    }

    /// Notes that there is nothing in a user's message. False if it is none at all: nobody knows its role.
    fn stands_empty(&mut self, item: ItemRef<'_>) -> bool {
        let nothing = matches!(item.message().role, Role::Other(_));
        let action = if nothing { Action::LeftOut } else { Action::Replaced };
        self.sheet_mut().ledger.change(Rule::EmptyMessage, Position::message(item.index()), action);
        !nothing
    }

    /// Puts a user message before what may not begin a conversation.
    fn open(&mut self, at: Position, why: &str) {
        self.sheet_mut().ledger.change(Rule::RoleOrder, at, Action::Inserted).because(why);
        self.say(render::OPENING, at.message.unwrap_or(0));
    }

    /// A hash of everything that what comes next stands on.
    fn prefix(&mut self) -> Text {
        let before = self.sheet_mut().before.take().unwrap_or_else(|| {
            // The messages are no part of it, and may be many.
            let list = std::mem::take(&mut self.sheet_mut().list);
            let mut copy = self.clone();
            self.sheet_mut().list = list;
            let sheet = copy.sheet_mut();
            sheet.ledger = Ledger::new(true, sheet.wire.media);
            // Tools that are declared because they were called are declared for what comes later, too.
            sheet.spelling = Spelling::new(sheet.wire);
            sheet.marks = Marks::LeftOut;
            let around = copy.surroundings();
            seen_before(&self.sheet().target, self.sheet().wire, &around).into()
        });
        self.sheet_mut().before = Some(Arc::clone(&before));
        let next = self.unwritten();
        let next =
            next.as_ref().and_then(|message| message.native.as_ref()).map(|native| native.raw.as_str());
        self.sheet_mut().list.prefix(&before, next)
    }

    /// Whether reasoning goes out: with everything before it `intact`, or, if it is bound to what it was issued on, after so
    /// much of its message as it was.
    fn replays(&mut self, reasoning: &Reasoning, intact: bool, as_it_was: bool) -> bool {
        let sheet = self.sheet();
        match sheet.target.bond(reasoning, sheet.wire.dialect) {
            Bond::Elsewhere => false,
            Bond::Issuer => true,
            Bond::Source => intact,
            Bond::Prefix(prefix) => as_it_was && self.prefix() == prefix,
        }
    }

    /// Writes the next item.
    fn take(&mut self, place: usize, item: ItemRef<'_>) {
        let sheet = self.sheet_mut();
        if !sheet.wire.is_own(item.message()) {
            sheet.ledger.left_out_fields(item.message(), item.index());
        }
        sheet.current = item.index();
        match item.role() {
            SoundRole::System | SoundRole::Developer => self.system(item),
            SoundRole::User => self.user(place, item),
            SoundRole::Assistant => self.assistant(place, item),
        }
    }

    /// Puts what surrounds the messages around them, before the body is put together.
    fn framed(&mut self, _view: &SoundView) -> Surroundings {
        self.surroundings()
    }

    /// Ends the body.
    ///
    /// # Errors
    /// Only for size.
    fn end(mut self, view: &SoundView) -> Result<Outline, TooLarge> {
        self.close();
        match self.last() {
            Last::Nobody => self.open(Position::default(), "a request needs a message"),
            Last::Model(index) if self.sheet().wire.ends_with_user && self.sheet().target.closes => {
                let at = index.map_or_else(Position::default, Position::message);
                self.sheet_mut()
                    .ledger
                    .note(Rule::RoleOrder, at, Action::Inserted)
                    .because("a conversation ends with a user message");
                self.say(render::CLOSING, index.unwrap_or(0));
            }
            Last::Model(_) | Last::User => {}
        }
        self.close();
        let tools = self.sheet().target.context.tools();
        let wire = self.sheet().wire;
        let limits = &wire.limits;
        let count = self.sheet().list.count();
        let too_large = |limit: Option<(&'static str, usize)>, what, size| {
            let (rule, limit) = limit.filter(|(_, limit)| size > *limit)?;
            Some(TooLarge { rule, what, size, limit, at: Position::default() })
        };
        let error = self.sheet_mut().too_large.take();
        let error = error.or_else(|| too_large(limits.tools, "the number of tools", tools.len()));
        if let Some(error) = error.or_else(|| too_large(limits.messages, "the number of messages", count)) {
            return Err(error);
        }
        // Nobody's answer stands on a body that goes to nobody in particular.
        let prefix = self.sheet().target.issuer.is_some().then(|| self.prefix());
        let around = self.framed(view);
        let settings = self.settings();
        let sheet = self.sheet_mut();
        let list = around.list.is_none().then(|| std::mem::take(&mut sheet.list));
        let mut findings = std::mem::take(&mut sheet.ledger.findings);
        let (head, tail) = write_around(&settings, wire, around, &mut findings);
        let respelled = sheet.spelling.respelled(&tools);
        let marked = sheet.target.marks == Marks::Placed && wire.has_cache_marks;
        let rest = Encoded { body: (), findings, respelled, prefix };
        let outline = Outline { head, list, tail, rest, marked };
        let length = outline.length();
        too_large(limits.body, "the body in bytes", length).map_or(Ok(outline), Err)
    }
}

impl<P: Pass> Encode for P {
    fn changed_from(&mut self, first: Option<FirstChange>) {
        self.sheet_mut().ledger.changed_from(first);
    }

    fn item(&mut self, place: usize, item: ItemRef<'_>) {
        self.take(place, item);
    }

    fn settle(&mut self) {
        let sheet = self.sheet_mut();
        sheet.list.settle();
        sheet.spelling.settle();
    }

    fn copy(&self) -> Box<dyn Encode> {
        Box::new(self.clone())
    }

    fn take_findings(&mut self) -> Vec<Finding> {
        std::mem::take(&mut self.sheet_mut().ledger.findings)
    }

    fn finish(self: Box<Self>, view: &SoundView) -> Result<Outline, TooLarge> {
        self.end(view)
    }
}
