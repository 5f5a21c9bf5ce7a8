//! The forward pass that every encoder makes over a view. What all dialects share is here; where they differ, an encoder
//! implements a method of [`Pass`].

use std::sync::Arc;

use rejoin_record::{
    Message, Reasoning, Role, Text,
    json::{Doc, ValueKind},
};
use rejoin_view::{
    Action, ExchangeRef, Finding, ItemRef, Position, Rule, SoundRole, SoundView, sound::FirstChange,
};

use super::{
    Encoded, TooLarge,
    body::{Surroundings, seen_before, write_around},
    fragments::{self, Fragment},
    list_text::ListText,
    names::{CallSpelling, Spelling},
    outline::{Encode, Outline},
    registry::Wire,
    render::{self, Ledger, ReportedFinding},
};
use crate::convert::{CacheMarks, ReasoningBond, Target};

/// The two methods that return an encoder's field `state`.
macro_rules! with_state {
    () => {
        fn state(&self) -> &EncoderState {
            &self.state
        }

        fn state_mut(&mut self) -> &mut EncoderState {
            &mut self.state
        }
    };
}
pub(crate) use with_state;

/// The state that every encoder has.
#[derive(Clone)]
pub struct EncoderState {
    pub wire: &'static Wire,
    pub target: Arc<Target>,
    pub same: bool,
    /// Whether the reasoning in the source was issued by the target.
    pub keeps_reasoning: bool,
    pub list: ListText,
    pub ledger: Ledger,
    pub spelling: Spelling,
    /// Leading instructions, for dialects with a field for them.
    pub system: Vec<String>,
    /// The index of the source message that is being written.
    pub current: usize,
    /// What happens to cache marks around the messages.
    pub marks: CacheMarks,
    pub too_large: Option<TooLarge>,
    /// How many messages at the start are instructions.
    leading: usize,
    /// What the model sees before the messages, once it was computed.
    before: Option<Arc<str>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum LastRole {
    /// There is no message yet, or only instructions.
    NoMessage,
    User,
    /// The model, in the source message of this index.
    Model(Option<usize>),
}

impl EncoderState {
    pub fn new(wire: &'static Wire, target: &Arc<Target>) -> Self {
        let keeps_reasoning = target.keeps_reasoning_of(wire.dialect);
        // Tools precede every message, so a new name for one of them changes what the model saw. Tools that are only
        // offered for later turns change nothing.
        let renamed =
            || target.context.field_tools().iter().any(|tool| *wire.spell(&tool.name) != *tool.name);
        Self {
            wire,
            target: Arc::clone(target),
            same: target.context.dialect == Some(wire.dialect),
            keeps_reasoning,
            list: ListText::default(),
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

    pub fn push(&mut self, json: &str) {
        self.measure(json);
        self.list.push(json);
    }

    /// Records a text that exceeds the provider's limit.
    fn measure(&mut self, json: &str) {
        let Some((rule, limit)) = self.wire.limits.text.filter(|(_, limit)| json.len() > *limit) else {
            return;
        };
        if let Some(size) = longest_text(json).filter(|size| *size > limit) {
            let (what, at) = ("a text in characters", Position::message(self.current));
            self.too_large.get_or_insert(TooLarge { rule, what, size, limit, at });
        }
    }

    /// Reports what happens to a field around the messages.
    pub fn note_field(&mut self, rule: Rule, action: Action, field: impl Into<Text>) -> ReportedFinding<'_> {
        self.ledger.note(rule, Position::default(), action).about(field)
    }

    /// Spells a call of an item, and reports changes.
    pub fn spell(&mut self, item: ItemRef<'_>, exchange: ExchangeRef<'_>) -> CallSpelling {
        let block = &item.message().blocks[exchange.block()];
        let own = self.wire.own_bytes(item.message(), block);
        let at = Position::block(item.index(), exchange.block());
        self.spelling.of(exchange, own, at, &mut self.ledger)
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

    /// The texts of instructions, without blank ones.
    pub fn instructions(&mut self, item: ItemRef<'_>) -> Vec<String> {
        let fragments = fragments::of_item(item, &mut self.ledger).into_iter();
        fragments.filter(|piece| !piece.is_blank()).map(|piece| piece.into_text(&mut self.ledger)).collect()
    }
}

/// The length of the longest text in a message, in characters.
fn longest_text(message: &str) -> Option<usize> {
    let doc = Doc::parse(message).ok()?;
    // Data URLs are not text, and neither is encrypted content.
    let sealed = doc.root().is_some_and(|root| root.holds("encrypted_content", ValueKind::String));
    let strings = doc.strings().filter(|text| !text.starts_with("data:"));
    strings.map(|text| text.chars().count()).max().filter(|_| !sealed)
}

/// Begins a pass with the instructions outside the messages.
pub fn begun(mut pass: impl Pass) -> Box<dyn Encode> {
    pass.outside();
    Box::new(pass)
}

/// An encoder: the methods that a dialect writes itself, and those that all dialects share.
pub trait Pass: Clone + Send + Sync + 'static {
    /// The shared state.
    fn state(&self) -> &EncoderState;
    fn state_mut(&mut self) -> &mut EncoderState;
    fn user(&mut self, place: usize, item: ItemRef<'_>);
    /// Writes an assistant message and the results of its calls.
    fn assistant(&mut self, place: usize, item: ItemRef<'_>);
    /// Writes a text of ours as a user message, in place of the source message of this index.
    fn say(&mut self, text: &str, index: usize);
    /// Returns the fields around the messages.
    fn surroundings(&mut self) -> Surroundings;

    /// Takes leading instructions. By default they go into the field for them.
    fn instruct(&mut self, texts: Vec<String>) {
        self.state_mut().system.extend(texts);
    }

    /// Takes the instructions outside the messages: the conversation's own, then those of another dialect.
    fn outside(&mut self) {
        let target = Arc::clone(&self.state().target);
        if let Some(text) = target.context.own_instructions() {
            self.instruct(vec![text.to_string()]);
        }
        if self.state().same {
            return;
        }
        self.state_mut().ledger.lossy_system(&target.context);
        let pieces = target.context.system().into_iter().filter(|piece| !piece.text.is_blank());
        let texts: Vec<String> = pieces.map(|piece| piece.text.to_string()).collect();
        if !texts.is_empty() {
            self.instruct(texts);
        }
    }

    /// Writes instructions. Leading ones go where the dialect wants them; later ones stay in place as user text.
    fn system(&mut self, item: ItemRef<'_>) {
        let index = item.index();
        // Instructions are leading if only instructions precede them in the source, so none is moved past a message.
        let leading = index == self.state().leading && self.last() == LastRole::NoMessage;
        let own = self.state().wire.is_own(item.message());
        let at = Position::message(index);
        let state = self.state_mut();
        state.leading += usize::from(leading);
        let texts = state.instructions(item);
        if texts.is_empty() {
            state.ledger.nothing_left(at);
        } else if leading {
            if own {
                state.ledger.change(Rule::LateSystem, at, Action::Moved);
            }
            self.instruct(texts);
        } else {
            state.ledger.change(Rule::LateSystem, at, Action::Replaced);
            self.late_system(texts.iter().map(|text| format!("<system>{text}</system>")).collect(), index);
        }
    }

    /// Writes later instructions as user text.
    fn late_system(&mut self, texts: Vec<String>, index: usize) {
        texts.iter().for_each(|text| self.say(text, index));
    }

    fn last(&self) -> LastRole {
        if self.state().list.is_empty() { LastRole::NoMessage } else { LastRole::User }
    }

    /// Completes a message that is still open.
    fn close(&mut self) {
        self.state_mut().list.close();
    }

    /// The source message that will be written next, if an encoder holds one back.
    fn unwritten(&self) -> Option<Arc<Message>> {
        None
    }

    /// The target for the fields around the messages.
    fn settings(&self) -> Arc<Target> {
        Arc::clone(&self.state().target)
    }

    /// Reports an empty user message. False if it has an unknown role, and is left out.
    fn stands_empty(&mut self, item: ItemRef<'_>) -> bool {
        let nothing = matches!(item.message().role, Role::Other(_));
        let action = if nothing { Action::LeftOut } else { Action::Replaced };
        self.state_mut().ledger.change(Rule::EmptyMessage, Position::message(item.index()), action);
        !nothing
    }

    /// Inserts a user message before a message that must not be the first.
    fn open(&mut self, at: Position, why: &str) {
        self.state_mut().ledger.role_order(at, Action::Inserted, why);
        let source = self.state_mut().list.source.take();
        self.say(render::OPENING, at.message.unwrap_or(0));
        self.state_mut().list.source = source;
    }

    /// A hash of everything that precedes the next message.
    fn prefix(&mut self) -> Text {
        let before = self.state_mut().before.take().unwrap_or_else(|| {
            // The messages are not needed for it, and there may be many.
            let list = std::mem::take(&mut self.state_mut().list);
            let mut copy = self.clone();
            self.state_mut().list = list;
            let state = copy.state_mut();
            state.ledger = Ledger::new(true, state.wire.media);
            // Stubs for called tools are left out, since they are added as the conversation grows.
            state.spelling = Spelling::new(state.wire);
            state.marks = CacheMarks::LeftOut;
            let around = copy.surroundings();
            seen_before(&self.state().target, self.state().wire, &around).into()
        });
        self.state_mut().before = Some(Arc::clone(&before));
        let next = self.unwritten();
        self.state_mut().list.prefix(&before, next.as_ref().map(|message| message.native_text()))
    }

    /// Whether reasoning is sent: if it is bound to its source, everything before it has to be `intact`; if it is bound to a
    /// prefix, the message so far has to be `as_it_was`.
    fn replays(&mut self, reasoning: &Reasoning, intact: bool, as_it_was: bool) -> bool {
        let state = self.state();
        match state.target.bond(reasoning, state.wire.dialect) {
            ReasoningBond::Elsewhere => false,
            ReasoningBond::Issuer => true,
            ReasoningBond::Source => intact,
            ReasoningBond::Prefix(prefix) => as_it_was && self.prefix() == prefix,
        }
    }

    /// Returns the fields around the messages of a complete body.
    fn framed(&mut self, _view: &SoundView) -> Surroundings {
        self.surroundings()
    }

    /// Completes the body.
    ///
    /// # Errors
    /// If a size limit of the provider is exceeded.
    fn end(mut self, view: &SoundView) -> Result<Outline, TooLarge> {
        self.close();
        match self.last() {
            LastRole::NoMessage => self.open(Position::default(), "a request needs a message"),
            LastRole::Model(index) if self.state().wire.ends_with_user && self.state().target.closes => {
                let at = index.map_or_else(Position::default, Position::message);
                let note = self.state_mut().ledger.note(Rule::RoleOrder, at, Action::Inserted);
                note.because("a conversation ends with a user message");
                self.say(render::CLOSING, index.unwrap_or(0));
            }
            LastRole::Model(_) | LastRole::User => {}
        }
        self.close();
        let tools = self.state().target.context.tools();
        let wire = self.state().wire;
        let limits = &wire.limits;
        let count = self.state().list.count();
        let too_large = |limit: Option<(&'static str, usize)>, what, size| {
            let (rule, limit) = limit.filter(|(_, limit)| size > *limit)?;
            Some(TooLarge { rule, what, size, limit, at: Position::default() })
        };
        let error = self.state_mut().too_large.take();
        let error = error.or_else(|| too_large(limits.tools, "the number of tools", tools.len()));
        if let Some(error) = error.or_else(|| too_large(limits.messages, "the number of messages", count)) {
            return Err(error);
        }
        // Without an issuer there is no answer that could be bound to a prefix.
        let prefix = self.state().target.issuer.is_some().then(|| self.prefix());
        let around = self.framed(view);
        let settings = self.settings();
        let state = self.state_mut();
        let sources = state.list.sources().clone();
        let list = around.list.is_none().then(|| std::mem::take(&mut state.list));
        let mut findings = std::mem::take(&mut state.ledger.findings);
        let (head, tail) = write_around(&settings, wire, around, &mut findings);
        let respelled = state.spelling.respelled(&tools);
        let marked = state.target.marks == CacheMarks::Placed && wire.has_cache_marks;
        let rest = Encoded { body: (), findings, respelled, prefix, sources };
        let outline = Outline { head, list, tail, rest, marked };
        let length = outline.length();
        too_large(limits.body, "the body in bytes", length).map_or(Ok(outline), Err)
    }
}

impl<P: Pass> Encode for P {
    fn changed_from(&mut self, first: Option<FirstChange>) {
        self.state_mut().ledger.changed_from(first);
    }

    fn item(&mut self, place: usize, item: ItemRef<'_>) {
        let state = self.state_mut();
        if !state.wire.is_own(item.message()) {
            state.ledger.left_out_fields(item.message(), item.index());
        }
        state.current = item.index();
        state.list.source = Some(item.index());
        match item.role() {
            SoundRole::System | SoundRole::Developer => self.system(item),
            SoundRole::User => self.user(place, item),
            SoundRole::Assistant => self.assistant(place, item),
        }
    }

    fn settle(&mut self) {
        let state = self.state_mut();
        state.list.settle();
        state.spelling.settle();
    }

    fn copy(&self) -> Box<dyn Encode> {
        Box::new(self.clone())
    }

    fn take_findings(&mut self) -> Vec<Finding> {
        std::mem::take(&mut self.state_mut().ledger.findings)
    }

    fn finish(self: Box<Self>, view: &SoundView) -> Result<Outline, TooLarge> {
        self.end(view)
    }
}
