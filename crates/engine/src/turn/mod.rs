//! A turn: append, view, encode, send, decode, append, run tools, and repeat until the model makes no further call.
//!
//! Record before you act: the user's message is stored before the request leaves, the model's message before a tool runs, each
//! result before the model sees it. `request.rs` handles one request and its answer, `calls.rs` runs tools, `approving.rs` decides
//! which of them may run, `delegate.rs` hands a task to another conversation, `closing.rs` decides about calls without results,
//! `compose.rs` turns the record into the next request.

mod approving;
mod calls;
mod closing;
mod compose;
mod delegate;
mod event;
mod limits;
mod recalling;
mod request;
mod room;
mod spending;
mod stop;
mod summary;
mod time;

use std::sync::Arc;

pub use closing::is_synthetic;
pub use delegate::Delegation;
pub use event::{Ending, Event, Limit};
pub use limits::{Limits, ToolLimits};
pub use recalling::recalled_from;
use rejoin_formats::{Context, wire::stream::Usage};
use rejoin_record::{
    Content, Entry, EntryId, Hash, Message, Text,
    content::{Branch, CallAt, TokenUsage, Turn, TurnState},
};
pub use rejoin_view::OnBroken;
use rejoin_view::{Finding, TokenCounter, TokenLedger};
use request::Answer;
pub use room::{COMPACT_THRESHOLD, COMPACT_USER_MESSAGE_MAX_TOKENS, CompactMode, Compaction, WindowSettings};
pub use spending::{context_tokens, last_counted};
pub use stop::Stop;
pub use summary::UNAVAILABLE as SUMMARY_UNAVAILABLE;

use crate::{
    approval::{Approvals, Rules},
    conversation::{Appended, Conversation, Saved},
    draft::AnswerDraft,
    error::EngineError,
    provider::{
        Provider, ProviderError,
        catalogue::{self, Dollars},
    },
    tools::{ToolSource, Tools},
};

/// The input of a turn.
#[derive(Debug, Clone)]
pub enum TurnInput {
    /// A new message, usually from the user.
    Say(Message),
    /// No new message: the interrupted turn continues.
    GoOn,
}

impl From<&str> for TurnInput {
    fn from(text: &str) -> Self {
        Self::Say(Message::user(text))
    }
}

impl From<String> for TurnInput {
    fn from(text: String) -> Self {
        Self::Say(Message::user(text))
    }
}

/// The outcome of a turn.
#[derive(Debug, Clone)]
pub struct TurnOutcome {
    /// The text of the model's last message; empty if it has none.
    pub response: String,
    /// The messages that this turn added, in order: the input, the model's answers, and every result.
    pub messages: Vec<Arc<Message>>,
    /// The tokens of all requests and answers of the turn, including those for summaries.
    pub usage: Usage,
    /// Their cost; `None` if the model's price is not known.
    pub cost: Option<Dollars>,
    /// How the turn ended.
    pub ending: Ending,
}

/// Why a turn failed. Everything up to the failure is recorded.
#[derive(Debug, Clone, thiserror::Error)]
pub enum TurnError {
    /// The conversation is broken, and repair is switched off.
    #[error("the conversation is broken, and repairing it is turned off")]
    Unsound(Vec<Finding>),
    /// The provider did not answer.
    #[error("{error}")]
    Provider {
        /// The provider's error.
        error: ProviderError,
        /// Findings in the conversation that may explain why the provider refused the request.
        explanation: Vec<Finding>,
        /// Whether the new message was taken back: it stays in the record, on a branch, and the conversation continues from before
        /// it.
        taken_back: bool,
    },
    /// There is nothing to continue: the conversation has no message.
    #[error("there is nothing to continue: the conversation has no messages")]
    Nothing,
}

impl From<ProviderError> for TurnError {
    fn from(error: ProviderError) -> Self {
        Self::Provider { error, explanation: Vec::new(), taken_back: false }
    }
}

impl TurnError {
    /// The error's code, for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unsound(_) => "UNSOUND",
            Self::Provider { error, .. } => error.code(),
            Self::Nothing => "NOTHING_TO_GO_ON_WITH",
        }
    }

    /// Findings in the conversation that caused the error, or may explain it.
    pub fn findings(&self) -> &[Finding] {
        match self {
            Self::Unsound(findings) => findings,
            Self::Provider { explanation, .. } => explanation,
            Self::Nothing => &[],
        }
    }

    /// What the user can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Unsound(_) => Some(String::from(
                "`rejoin check` says what is broken; `--on-broken keep` mends it, and nothing is lost",
            )),
            Self::Provider { error: ProviderError::ContextLength(_), taken_back: true, .. } => {
                Some(String::from(
                    "send less text, make room with `rejoin prune --keep-last 0` or `rejoin compact`, or choose a model with a larger \
                     window (`--model`); the message is kept on a branch, and the conversation continues from before it",
                ))
            }
            Self::Provider { error, .. } => error.hint(),
            Self::Nothing => Some(String::from("say something: `rejoin chat \"your message\"`")),
        }
    }
}

/// The parts that a system prompt was composed of, if the program that composed it says so. They are recorded beside the prompt,
/// so that the prompt can be composed again from newer parts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SystemParts {
    /// The instructions that a person wrote; `None` if they are the program's default ones.
    pub own: Option<String>,
    /// The instructions in files of the project.
    pub project: Option<String>,
}

/// The settings of a turn.
#[derive(Debug, Clone, Default)]
pub struct TurnSettings {
    /// The system prompt.
    pub system: Option<String>,
    /// The parts that it was composed of.
    pub system_parts: SystemParts,
    /// How broken states are repaired before a request is sent.
    pub on_broken: OnBroken,
    /// The limits of a turn.
    pub limits: Limits,
    /// Which calls may run, and who decides about the others.
    pub approvals: Approvals,
    /// How the conversation is made to fit the model's window.
    pub window: WindowSettings,
}

/// Receives the events of a turn.
pub type Sink<'a> = &'a mut (dyn FnMut(Event) + Send);

/// Runs the turns of one conversation: holds the conversation, the provider and the tools.
pub struct Worker {
    conversation: Conversation,
    provider: Arc<dyn Provider>,
    /// The tools of the turn: the conversation's own, and those that the source offered when the turn began.
    tools: Tools,
    /// The source of further tools, and the conversation's own tools.
    source: Option<(Arc<dyn ToolSource>, Tools)>,
    settings: TurnSettings,
    composer: compose::Composer,
    /// The token counts of its messages.
    ledger: TokenLedger,
    /// The newest recorded context.
    context: Option<Arc<Context>>,
    /// Whether an event has reported that saving fails.
    unsaved: bool,
    /// Whether an event has reported the damage.
    has_reported_damage: bool,
    /// The rules that a person added in this conversation, and the number of entries that were searched for them.
    own_rules: (Rules, usize),
    /// How many delegations led to this conversation.
    depth: u8,
    /// The provider that writes summaries; `None` if the conversation's provider does.
    summariser: Option<Arc<dyn Provider>>,
    fit: room::Fit,
    /// The list of messages that was measured, the number of measured messages, and the most tokens that they can take. If these
    /// are far too many, the other messages are not measured.
    measured: (usize, usize, u64),
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker")
            .field("conversation", &self.conversation)
            .field("endpoint", self.provider.endpoint())
            .finish_non_exhaustive()
    }
}

/// A turn in progress.
struct TurnInProgress<'t> {
    sink: Sink<'t>,
    /// Set when the turn must stop, because the user stopped it or its time is up.
    stop: Stop,
    /// The clock of the turn, which is paused while tools run.
    clock: time::TurnClock,
    /// The tokens of its requests, without those for summaries.
    usage: Usage,
    /// The tokens and the cost of its summaries.
    summaries: spending::Summaries,
    /// The tokens of the last answer, until an entry records them.
    unrecorded: Option<TokenUsage>,
    requests: u32,
    /// How often the provider refused a request of this turn as too long.
    refusals: u32,
    /// The messages of the turn so far.
    messages: Vec<Arc<Message>>,
    /// The last message of the model.
    answer: Option<Arc<Message>>,
    /// Whether an event of this turn has reported repairs.
    has_reported_mending: bool,
    /// The draft of the answer that is being recorded.
    draft: Option<AnswerDraft>,
    /// The head before the message that began the turn; `None` if there was no new message.
    before: Option<Option<(EntryId, Hash)>>,
}

impl TurnInProgress<'_> {
    fn tell(&mut self, event: Event) {
        (self.sink)(event);
    }

    /// Counts the tokens of a request and its answer. The next `turn` entry records them.
    fn count(&mut self, usage: Option<Usage>) {
        let Some(usage) = usage else { return };
        self.usage.add(&usage);
        self.unrecorded = Some(usage);
    }

    /// The tokens of all requests so far, those for summaries included.
    fn total_usage(&self) -> Usage {
        let mut total = self.usage;
        total.add(&self.summaries.usage);
        total
    }

    fn ended(&mut self, ending: Ending, cost: Option<Dollars>) -> TurnOutcome {
        let usage = self.total_usage();
        self.tell(Event::Ended { ending: ending.clone(), usage, cost });
        TurnOutcome {
            response: self.answer.take().and_then(|answer| answer.content()).unwrap_or_default(),
            messages: std::mem::take(&mut self.messages),
            usage,
            cost,
            ending,
        }
    }
}

impl Worker {
    /// A worker for a conversation and a provider.
    pub fn new(
        mut conversation: Conversation,
        provider: Arc<dyn Provider>,
        tools: Tools,
        settings: TurnSettings,
    ) -> Self {
        let policy = settings.on_broken;
        let mut composer = compose::Composer::new(policy, settings.limits.tool.shown);
        composer.take(&mut conversation);
        let counter = TokenCounter::for_model(&provider.endpoint().model);
        let ledger = TokenLedger::new(counter.showing(settings.limits.tool.shown));
        Self {
            conversation,
            provider,
            tools,
            source: None,
            settings,
            composer,
            ledger,
            context: None,
            unsaved: false,
            has_reported_damage: false,
            own_rules: (Rules::default(), 0),
            depth: 0,
            summariser: None,
            fit: room::Fit::default(),
            measured: (0, 0, 0),
        }
    }

    /// The worker's conversation.
    pub fn conversation(&self) -> &Conversation {
        &self.conversation
    }

    /// The worker's conversation, to append entries outside a turn.
    pub fn conversation_mut(&mut self) -> &mut Conversation {
        &mut self.conversation
    }

    /// Returns the conversation.
    pub fn into_conversation(self) -> Conversation {
        self.conversation
    }

    /// Releases the conversation's lock, so that other processes may write between turns.
    pub fn release(&mut self) {
        self.conversation.release();
    }

    /// Takes the lock again, and returns the entries that other processes added meanwhile. The next turn continues after them.
    ///
    /// # Errors
    /// If another process writes to the conversation now, or if it was deleted or cannot be read.
    pub fn reclaim(&mut self) -> Result<Vec<Entry>, EngineError> {
        let added = self.conversation.reclaim()?;
        if !added.is_empty() {
            // The context may have changed, and content that was read earlier may have been erased.
            self.read_again();
        }
        Ok(added)
    }

    /// Forgets everything that was derived from the record, so that the next turn reads it from the beginning.
    fn read_again(&mut self) {
        self.context = None;
        self.own_rules = (Rules::default(), 0);
        let policy = self.settings.on_broken;
        self.composer = compose::Composer::new(policy, self.settings.limits.tool.shown);
        self.recount();
        self.measured = (usize::MAX, 0, 0);
    }

    /// Continues from an entry of any branch: the next message follows it. The later entries stay in the record, on another branch.
    ///
    /// # Errors
    /// If the conversation has no such entry, or the rest of it cannot be read.
    pub fn go_on_from(&mut self, entry: EntryId, reason: &str) -> Result<Saved, EngineError> {
        self.conversation.take_in_draft();
        self.conversation.read_all()?;
        let found = self.conversation.entries().iter().find(|other| other.id() == entry);
        let to = found.ok_or_else(|| EngineError::NoSuchMessage(entry.to_string()))?;
        let to = (to.id(), to.hash());
        self.conversation.move_head(Some(to));
        let branch = Branch { reason: Some(Text::new(reason)) };
        let saved = self.conversation.append(&Content::Branch(branch)).saved;
        self.read_again();
        Ok(saved)
    }

    /// The provider that answers.
    pub fn provider(&self) -> &Arc<dyn Provider> {
        &self.provider
    }

    /// The size of the model's window in tokens, if it is known.
    #[must_use]
    pub fn window(&self) -> Option<u64> {
        let model = &self.provider.endpoint().model;
        catalogue::window(model, self.provider.window(), self.settings.window.context_window)
    }

    /// Sets the provider, from the next request on.
    pub fn set_provider(&mut self, provider: Arc<dyn Provider>) {
        self.provider = provider;
        self.context = None;
        self.fit.revealed = None;
    }

    /// The tools that the model may call.
    pub fn tools(&self) -> &Tools {
        &self.tools
    }

    /// Sets the tools, from the next request on.
    pub fn set_tools(&mut self, tools: Tools) {
        if let Some((_, own)) = &mut self.source {
            *own = tools.clone();
        }
        self.tools = tools;
        self.context = None;
    }

    /// The settings of turns.
    pub fn settings(&self) -> &TurnSettings {
        &self.settings
    }

    /// Sets the system prompt and the parts that it was composed of, from the next request on.
    pub fn set_system(&mut self, system: Option<String>, parts: SystemParts) {
        if self.settings.system != system || self.settings.system_parts != parts {
            self.settings.system = system;
            self.settings.system_parts = parts;
            self.context = None;
        }
    }

    /// Sets how the conversation is made to fit the model's window.
    pub fn set_window(&mut self, window: WindowSettings) {
        self.settings.window = window;
    }

    /// Adds a source of further tools, from the next turn on. Its tools never replace a tool of the conversation.
    pub fn set_tool_source(&mut self, source: Arc<dyn ToolSource>) {
        let own = self.source.take().map_or_else(|| self.tools.clone(), |(_, own)| own);
        self.source = Some((source, own));
    }

    /// Gets the tools of this turn from the source, and begins the turn. If the source takes long, the turn begins first, so that
    /// the conversation is already stored when the event about waiting is sent.
    async fn begin_with_tools(&mut self, running: &mut TurnInProgress<'_>, stop: &Stop) {
        let Some((source, mut tools)) = self.source.clone() else { return self.begin(running) };
        let (mut begun, mut held) = (false, Vec::new());
        let further = source
            .tools(
                &mut |event| {
                    if matches!(event, Event::WaitingForServers { .. })
                        && !std::mem::replace(&mut begun, true)
                    {
                        self.begin(running);
                    }
                    if begun { running.tell(event) } else { held.push(event) }
                },
                stop,
            )
            .await;
        for tool in further {
            if tools.get(&tool.declaration().name).is_none() {
                tools.add(tool);
            }
        }
        if tools.declarations() != self.tools.declarations() {
            self.context = None;
        }
        self.tools = tools;
        match begun {
            true => self.record_context(),
            false => self.begin(running),
        }
        for event in held {
            running.tell(event);
        }
    }

    /// The limits of a turn, to change them from the next turn on.
    pub fn limits_mut(&mut self) -> &mut Limits {
        &mut self.settings.limits
    }

    /// Sets which calls may run, and who decides about the others.
    pub fn set_approvals(&mut self, approvals: Approvals) {
        self.settings.approvals = approvals;
    }

    /// Sets how broken states are repaired before a request is sent.
    pub fn set_on_broken(&mut self, on_broken: OnBroken) {
        if on_broken.drops() != self.settings.on_broken.drops() {
            self.composer = compose::Composer::new(on_broken, self.settings.limits.tool.shown);
        }
        self.settings.on_broken = on_broken;
    }

    /// The calls that have no result and that no sent request has closed.
    pub fn unanswered(&mut self) -> Vec<CallAt> {
        self.composer.read(&self.conversation);
        let open = self.composer.unanswered().into_iter();
        open.map(|call| CallAt { entry: call.entry, block: call.block }).collect()
    }

    /// Findings about damage in the store.
    pub fn damaged(&self) -> Vec<Finding> {
        self.conversation.findings().iter().filter(|finding| finding.is_problem()).cloned().collect()
    }

    /// The findings that must be repaired before the conversation can be sent.
    pub fn problems(&mut self) -> Vec<Finding> {
        self.composer.read(&self.conversation);
        let pairing = self.composer.all_findings().into_iter().filter(Finding::is_problem);
        self.damaged().into_iter().chain(pairing).collect()
    }

    /// Runs one turn. If it is stopped or fails, everything that arrived is kept.
    ///
    /// [`Event::Started`] is the first event and [`Event::Ended`] the last. A turn that cannot begin sends no event at all and
    /// leaves no trace in the record.
    ///
    /// # Errors
    /// If the conversation is broken and may not be repaired, if there is nothing to continue, or if the provider does not answer.
    pub async fn turn(
        &mut self,
        input: TurnInput,
        sink: Sink<'_>,
        stop: &Stop,
    ) -> Result<TurnOutcome, TurnError> {
        let mut running = TurnInProgress {
            sink,
            stop: Stop::new(),
            clock: time::TurnClock::start(),
            usage: Usage::default(),
            summaries: spending::Summaries::default(),
            unrecorded: None,
            requests: 0,
            refusals: 0,
            messages: Vec::new(),
            answer: None,
            has_reported_mending: false,
            draft: None,
            before: None,
        };
        self.provider.prepare();
        self.conversation.take_in_draft();
        self.composer.read(&self.conversation);
        self.read_results_if_needed();
        self.refuse_if_unsound()?;
        if matches!(input, TurnInput::GoOn) && self.composer.is_empty() {
            return Err(TurnError::Nothing);
        }
        self.begin_with_tools(&mut running, stop).await;
        let worked = self.work_until(&mut running, input, stop).await;
        match worked {
            Ok(ending) => {
                if ending == Ending::Done {
                    self.compact_after_turn(&mut running).await;
                }
                self.conversation.keep_checkpoint();
                let cost = self.cost(&running);
                Ok(running.ended(ending, cost))
            }
            Err(error) => {
                self.turn_entry(&mut running, TurnState::Interrupted, None);
                let cost = self.cost(&running);
                running.ended(Ending::Failed, cost);
                Err(error)
            }
        }
    }

    /// Works until the turn is done or stopped, or the time limit is reached.
    async fn work_until(
        &mut self,
        running: &mut TurnInProgress<'_>,
        input: TurnInput,
        asked: &Stop,
    ) -> Result<Ending, TurnError> {
        let stop = running.stop.clone();
        if asked.is_stopped() {
            stop.stop();
        }
        let limit = self.settings.limits.time;
        let clock = running.clock.clone();
        let mut timer = std::pin::pin!(clock.reaches(limit));
        let mut timed_out = false;
        let mut work = std::pin::pin!(self.work(running, input));
        let worked = loop {
            tokio::select! {
                biased;
                worked = &mut work => break worked,
                () = asked.asked(), if !stop.is_stopped() => stop.stop(),
                () = &mut timer, if !stop.is_stopped() => {
                    timed_out = true;
                    stop.stop();
                }
            }
        };
        match (worked, limit) {
            (Ok(Ending::Interrupted), Some(limit)) if timed_out => Ok(Ending::Limit(Limit::Time(limit))),
            (worked, _) => worked,
        }
    }

    /// Records the context, and sends the first events.
    fn begin(&mut self, running: &mut TurnInProgress<'_>) {
        self.record_context();
        self.read_own_rules();
        let endpoint = self.provider.endpoint().clone();
        running.tell(Event::Started {
            conversation: self.conversation.id(),
            provider: endpoint.provider.clone(),
            model: endpoint.model.clone(),
        });
        if !self.conversation.saved().is_durable() {
            self.saved(running, self.conversation.saved().clone());
        }
        if !std::mem::replace(&mut self.has_reported_damage, true) {
            let damaged = self.damaged();
            if !damaged.is_empty() {
                running.tell(Event::Damaged(damaged));
            }
        }
    }

    /// Records the input, then sends one request after another, until the model makes no further call.
    async fn work(
        &mut self,
        running: &mut TurnInProgress<'_>,
        input: TurnInput,
    ) -> Result<Ending, TurnError> {
        // Before the new message, calls without a result may run again, and calls that waited for approval are asked about again.
        if !running.stop.is_stopped() {
            self.rerun(running).await;
            self.ask_again(running).await;
        }
        if let TurnInput::Say(message) = input {
            running.before = Some(self.conversation.head_with_hash());
            // The entry about the request is stored next; one write stores both.
            self.append_message(running, message, Conversation::append_later);
        }
        loop {
            let ending = if running.stop.is_stopped() {
                Some(Ending::Interrupted)
            } else if running.requests >= self.settings.limits.requests {
                Some(Ending::Limit(Limit::Requests(running.requests)))
            } else {
                // The limits apply to the request that would be sent, not to results that will be left out of it.
                let window = self.make_room_for_free(running);
                match (self.limit_ahead(running), window) {
                    (None, Some(window)) => {
                        self.compact_to_fit(running, window).await.or_else(|| self.limit_ahead(running))
                    }
                    (ending, _) => ending,
                }
            };
            // A summary can take long. If the turn was stopped meanwhile, the request must not be sent.
            let ending = ending.or_else(|| running.stop.is_stopped().then_some(Ending::Interrupted));
            if let Some(ending) = ending {
                self.turn_entry(running, TurnState::Interrupted, None);
                return Ok(ending);
            }
            let asked = match self.ask(running).await {
                Err(error @ TurnError::Provider { error: ProviderError::ContextLength(_), .. }) => {
                    match self.make_room_after_refusal(running).await {
                        Compaction::Done { .. } => continue,
                        Compaction::OverLimit(limit) => {
                            self.turn_entry(running, TurnState::Interrupted, None);
                            return Ok(Ending::Limit(limit));
                        }
                        // The check at the top of the loop ends the turn.
                        _ if running.stop.is_stopped() => continue,
                        _ => return Err(self.take_back_too_long(running, error)),
                    }
                }
                asked => asked?,
            };
            match asked {
                Answer::Stopped => return Ok(Ending::Interrupted),
                // If the turn is stopped meanwhile, the check at the top of the loop ends it.
                Answer::Calls { entry, message, cut } => self.run_calls(running, entry, &message, cut).await,
                Answer::Paused => {}
                // The end of the turn was stored together with the answer.
                Answer::Done(ending) => return Ok(ending),
            }
        }
    }

    /// Appends a message of this turn.
    fn say(&mut self, running: &mut TurnInProgress<'_>, message: Message) -> EntryId {
        self.append_message(running, message, Conversation::append)
    }

    fn append_message(
        &mut self,
        running: &mut TurnInProgress<'_>,
        message: Message,
        append: impl FnOnce(&mut Conversation, &Content) -> Appended,
    ) -> EntryId {
        let message = Arc::new(message);
        running.messages.push(Arc::clone(&message));
        let appended = append(&mut self.conversation, &Content::Message(Message::clone(&message)));
        let entry = appended.entry.id();
        self.saved(running, appended.saved);
        entry
    }

    /// Appends an entry with the state of the turn, and with the tokens of the last answer if no entry has them yet.
    fn turn_entry(&mut self, running: &mut TurnInProgress<'_>, state: TurnState, call: Option<CallAt>) {
        let turn = Turn { usage: running.unrecorded.take(), ..Turn::new(state, call) };
        let Appended { saved, .. } = self.conversation.append(&Content::Turn(turn));
        self.saved(running, saved);
    }

    /// Sends an event when saving starts to fail, and another when it works again.
    fn saved(&mut self, running: &mut TurnInProgress<'_>, saved: Saved) {
        match saved {
            Saved::InMemory { warning, .. } => {
                if !std::mem::replace(&mut self.unsaved, true) {
                    running.tell(Event::NotSaved(warning));
                }
            }
            Saved::Durable => {
                if std::mem::take(&mut self.unsaved) {
                    running.tell(Event::Saved);
                }
            }
        }
    }

    /// If repair is switched off, refuses to send a conversation that is not sound.
    fn refuse_if_unsound(&mut self) -> Result<(), TurnError> {
        if self.settings.on_broken != OnBroken::Refuse {
            return Ok(());
        }
        let of_storage = self.conversation.findings().iter().cloned();
        let findings: Vec<Finding> = of_storage.chain(self.composer.all_findings()).collect();
        if findings.iter().any(Finding::is_problem) { Err(TurnError::Unsound(findings)) } else { Ok(()) }
    }
}
