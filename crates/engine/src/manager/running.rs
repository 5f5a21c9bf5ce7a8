//! A conversation in use: messages go in, events come out.
//!
//! The caller that waits for the next event does the work. Nothing runs in the background. Dropping the conversation stops its turn
//! at once, as a kill would: the record shows how far it got, and resuming continues from there.

use std::{
    collections::VecDeque,
    future::{Future as _, poll_fn},
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::Poll,
};

use rejoin_formats::wire::stream::Usage;
use rejoin_record::{Content, ConversationId, Entry, EntryId, Kind, Message, Role};
use tokio::sync::Notify;

use super::rollout::TurnFile;
use crate::{
    clock::Clock,
    compat::StateCommand,
    conversation::{Appended, Conversation, Saved},
    error::EngineError,
    provider::BoxFuture,
    turn::{Ending, Event, Stop, TurnError, TurnInput, TurnOutcome, Worker},
};

/// A conversation in use. Its methods may be called from any thread.
pub struct RunningConversation {
    id: ConversationId,
    system: Option<String>,
    clock: Arc<dyn Clock>,
    stop: Stop,
    /// Whether a turn is running or about to start.
    busy: AtomicBool,
    submitted: Mutex<VecDeque<Submission>>,
    /// Wakes callers that wait for a submission.
    woken: Notify,
    events: Arc<Mutex<VecDeque<Event>>>,
    /// The messages, up to the last turn that ended.
    history: Mutex<Vec<Arc<Message>>>,
    driver: tokio::sync::Mutex<Driver>,
}

impl std::fmt::Debug for RunningConversation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RunningConversation({})", self.id)
    }
}

/// The slot in which a waiting caller receives the outcome of its turn.
type Reply = Arc<Mutex<Option<Result<TurnOutcome, TurnError>>>>;

struct Submission {
    input: TurnInput,
    /// The slot of the caller that waits for the outcome. If there is one, the events of the turn are not kept.
    reply: Option<Reply>,
}

/// A turn that has ended, and its worker.
struct FinishedTurn {
    worker: Box<Worker>,
    outcome: Result<TurnOutcome, TurnError>,
    /// The final event; `None` if the turn could not begin.
    ended: Option<Event>,
}

struct Driver {
    at: DriverState,
    recorder: Option<TurnFile>,
    /// The number of entries that the history covers, and the last of them.
    seen: (usize, Option<EntryId>),
}

enum DriverState {
    Idle(Box<Worker>),
    Working(BoxFuture<'static, FinishedTurn>, Option<Reply>),
    /// A turn panicked while another caller waited for it.
    Lost,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl RunningConversation {
    pub(super) fn new(
        worker: Worker,
        system: Option<String>,
        recorder: Option<TurnFile>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let conversation = worker.conversation();
        let seen = seen(conversation);
        Self {
            id: conversation.id(),
            system,
            clock,
            stop: Stop::new(),
            busy: AtomicBool::new(false),
            submitted: Mutex::default(),
            woken: Notify::new(),
            events: Arc::default(),
            history: Mutex::new(conversation.messages().to_vec()),
            driver: tokio::sync::Mutex::new(Driver {
                at: DriverState::Idle(Box::new(worker)),
                recorder,
                seen,
            }),
        }
    }

    /// The conversation's id.
    pub fn id(&self) -> ConversationId {
        self.id
    }

    /// Submits a message, or continues an interrupted turn. The turn runs while a caller waits for its events. Submitted turns run
    /// one after the other.
    pub fn submit(&self, input: impl Into<TurnInput>) {
        lock(&self.submitted).push_back(Submission { input: input.into(), reply: None });
        self.woken.notify_one();
    }

    /// The next event. The entries that it reports are already stored, or an earlier [`Event::NotSaved`] has reported that they
    /// cannot be. Waits for a submission if there is none. The future may be dropped at any time: the next call continues.
    pub async fn next_event(&self) -> Event {
        loop {
            // Deliver queued events even while another caller drives the turn.
            if let Some(event) = self.next_queued() {
                return event;
            }
            {
                let mut driver = self.driver.lock().await;
                loop {
                    if let Some(event) = self.next_queued() {
                        return event;
                    }
                    if !self.step(&mut driver).await {
                        break;
                    }
                }
            }
            // Wait without holding the driver, so that other callers can use it.
            self.woken.notified().await;
        }
    }

    /// Submits a message and waits for the outcome of its turn. Turns that were submitted earlier run first. The events of this
    /// turn are not kept, except those about saving.
    ///
    /// # Errors
    /// If the provider does not answer, or the conversation is broken and may not be repaired. Everything up to the failure is
    /// recorded.
    pub async fn process_message(&self, input: impl Into<TurnInput>) -> Result<TurnOutcome, TurnError> {
        let reply = Reply::default();
        let submission = Submission { input: input.into(), reply: Some(Arc::clone(&reply)) };
        lock(&self.submitted).push_back(submission);
        loop {
            let mut driver = self.driver.lock().await;
            if let Some(outcome) = lock(&reply).take() {
                return outcome;
            }
            if !self.step(&mut driver).await {
                return Err(TurnError::Nothing);
            }
        }
    }

    /// Stops the running turn, or the next submitted one. The part of an answer that arrived is recorded, and every call gets a
    /// result. Does nothing if there is no turn.
    pub fn interrupt(&self) {
        if self.busy.load(Ordering::SeqCst) || !lock(&self.submitted).is_empty() {
            self.stop.stop();
        }
    }

    /// The messages up to the last turn that ended, unrepaired.
    pub fn get_history(&self) -> Vec<Arc<Message>> {
        lock(&self.history).clone()
    }

    /// The messages before the first message of a person: the system prompt, and the system messages at the beginning of the
    /// conversation.
    pub fn get_initial_context(&self) -> Vec<Message> {
        let history = lock(&self.history);
        let leading =
            history.iter().take_while(|message| matches!(message.role, Role::System | Role::Developer));
        let instructions = self.system.as_deref().map(Message::system);
        instructions.into_iter().chain(leading.map(|message| Message::clone(message))).collect()
    }

    /// Makes these the messages of the conversation. Messages that they replace stay in the record, on another branch. A running
    /// turn ends first.
    pub async fn replace_history(&self, messages: &[Message]) -> Saved {
        let saved = self.with_conversation(|conversation| conversation.replace_history(messages)).await;
        saved.unwrap_or(Saved::Durable)
    }

    /// Runs a command, and sends an event about it. A running turn ends first.
    ///
    /// # Errors
    /// If the entry that it names does not exist.
    pub async fn dispatch(&self, command: StateCommand) -> Result<Appended, EngineError> {
        let lost = || EngineError::NoSuchMessage(String::from("of a turn that was lost"));
        let appended = self.with_conversation(|conversation| conversation.dispatch(command)).await;
        let appended = appended.ok_or_else(lost)??;
        if let Content::Message(message) = Content::of(&appended.entry) {
            for result in message.tool_results() {
                let texts = result.content.iter().filter_map(|block| Some(block.as_text()?.as_str()));
                self.tell(Event::CallEnded {
                    id: result.call_id.as_ref().map(ToString::to_string).unwrap_or_default(),
                    name: result.name.as_ref().map(ToString::to_string).unwrap_or_default(),
                    output: texts.collect::<Vec<_>>().join("\n"),
                    is_error: result.is_error,
                    took: std::time::Duration::ZERO,
                    message: None,
                });
            }
        }
        if let Some(warning) = appended.saved.warning() {
            self.tell(Event::NotSaved(warning.to_owned()));
        }
        Ok(appended)
    }

    /// Reads or appends to the conversation between two turns.
    async fn with_conversation<T>(&self, work: impl FnOnce(&mut Conversation) -> T) -> Option<T> {
        let mut driver = self.driver.lock().await;
        while matches!(driver.at, DriverState::Working(..)) {
            self.step(&mut driver).await;
        }
        let Driver { at: DriverState::Idle(worker), seen, .. } = &mut *driver else { return None };
        let done = work(worker.conversation_mut());
        self.update_history(worker.conversation(), seen);
        Some(done)
    }

    fn next_queued(&self) -> Option<Event> {
        lock(&self.events).pop_front()
    }

    fn tell(&self, event: Event) {
        lock(&self.events).push_back(event);
        self.woken.notify_one();
    }

    /// Works until there is a new event or a turn has ended. Returns false if there is nothing to do.
    async fn step(&self, driver: &mut Driver) -> bool {
        if !matches!(driver.at, DriverState::Working(..)) && !self.begin(driver) {
            return false;
        }
        let over = poll_fn(|context| {
            let DriverState::Working(turn, _) = &mut driver.at else { return Poll::Ready(None) };
            // Only a new event is a reason to return: the old ones may never be fetched.
            let before = lock(&self.events).len();
            match Pin::new(turn).poll(context) {
                Poll::Ready(over) => Poll::Ready(Some(over)),
                Poll::Pending if lock(&self.events).len() <= before => Poll::Pending,
                Poll::Pending => Poll::Ready(None),
            }
        })
        .await;
        if let Some(over) = over {
            self.end(driver, over);
        }
        true
    }

    /// Takes the oldest submission. `busy` is set before it is taken, so that an interrupt always sees either `busy` or the
    /// submission.
    fn next_submission(&self) -> Option<Submission> {
        let mut submitted = lock(&self.submitted);
        self.busy.store(!submitted.is_empty(), Ordering::SeqCst);
        submitted.pop_front()
    }

    /// Starts the turn of the oldest submission.
    fn begin(&self, driver: &mut Driver) -> bool {
        let Some(Submission { input, reply }) = self.next_submission() else { return false };
        let DriverState::Idle(mut worker) = std::mem::replace(&mut driver.at, DriverState::Lost) else {
            return false;
        };
        let (events, stop, quiet) = (Arc::clone(&self.events), self.stop.clone(), reply.is_some());
        let turn = async move {
            let mut ended = None;
            let mut sink = |event: Event| {
                let wanted = !quiet || matches!(event, Event::NotSaved(_) | Event::Saved);
                // The final event is sent later, when everything about the turn is known.
                if matches!(event, Event::Ended { .. }) {
                    ended = Some(event);
                } else if wanted {
                    lock(&events).push_back(event);
                }
            };
            let outcome = worker.turn(input, &mut sink, &stop).await;
            FinishedTurn { worker, outcome, ended }
        };
        driver.at = DriverState::Working(Box::pin(turn), reply);
        true
    }

    /// Ends a turn: updates the history, writes the turn to the recorder, and gives the outcome to a waiting caller.
    fn end(&self, driver: &mut Driver, FinishedTurn { worker, outcome, ended }: FinishedTurn) {
        self.stop.reset();
        self.busy.store(false, Ordering::SeqCst);
        let new = self.update_history(worker.conversation(), &mut driver.seen);
        if let Some(recorder) = &driver.recorder {
            let usage = outcome.as_ref().map(|outcome| outcome.usage).unwrap_or_default();
            let endpoint = worker.provider().endpoint();
            if let Some(warning) = recorder.append(&new, endpoint, usage, self.clock.now()) {
                self.tell(Event::NotSaved(warning));
            }
        }
        let at = std::mem::replace(&mut driver.at, DriverState::Idle(worker));
        if let DriverState::Working(_, Some(reply)) = at {
            *lock(&reply) = Some(outcome);
            return;
        }
        if let Err(error) = &outcome {
            self.tell(failed(error));
        }
        let never_began = Event::Ended { ending: Ending::Failed, usage: Usage::default(), cost: None };
        self.tell(ended.unwrap_or(never_began));
    }

    /// Updates the history, and returns the new messages. If the new entries do not simply follow the old ones, everything is read
    /// again.
    fn update_history(
        &self,
        conversation: &Conversation,
        known: &mut (usize, Option<EntryId>),
    ) -> Vec<Arc<Message>> {
        let entries = conversation.entries();
        let (count, mut last) = std::mem::replace(known, seen(conversation));
        let added = entries.get(count..).unwrap_or_default();
        let same = count <= entries.len() && count.checked_sub(1).map(|place| entries[place].id()) == last;
        let mut follows = |entry: &Entry| {
            let before = last.replace(entry.id());
            entry.envelope().parent == before
                && !matches!(entry.envelope().kind, Kind::Compacted | Kind::Branch | Kind::Erased)
        };
        let continues = same && added.iter().all(&mut follows);
        let new = added.iter().filter_map(|entry| match Content::of(entry) {
            Content::Message(message) => Some(Arc::new(message)),
            _ => None,
        });
        let new: Vec<Arc<Message>> = new.collect();
        let mut history = lock(&self.history);
        if continues {
            history.extend(new.iter().cloned());
        } else {
            *history = conversation.messages().to_vec();
        }
        new
    }
}

fn seen(conversation: &Conversation) -> (usize, Option<EntryId>) {
    (conversation.entries().len(), conversation.entries().last().map(Entry::id))
}

/// The event that reports why a turn failed.
fn failed(error: &TurnError) -> Event {
    Event::Failed { code: error.code(), message: error.to_string(), hint: error.hint() }
}
