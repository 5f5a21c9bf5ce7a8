//! A conversation that is being talked in: texts go in, events come out.
//!
//! Whoever waits for the next event does the work: nothing runs in the background, nothing piles up, and dropping the
//! conversation stops it at once, like a kill. The record shows where it stood, and resuming goes on from there.

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

use rejoin_record::{Content, ConversationId, Entry, EntryId, Kind, Message, Role};
use tokio::sync::Notify;

use super::rollout::Beside;
use crate::{
    clock::Clock,
    compat::StateCommand,
    conversation::{Appended, Conversation, Saved},
    error::EngineError,
    provider::Doing,
    turn::{Ending, Event, Stop, TurnError, TurnInput, TurnOutcome, Worker},
};

/// A conversation that is being talked in. Its methods may be called from anywhere.
pub struct RunningConversation {
    id: ConversationId,
    system: Option<String>,
    clock: Arc<dyn Clock>,
    stop: Stop,
    /// Whether a turn is under way.
    busy: AtomicBool,
    submitted: Mutex<VecDeque<Submission>>,
    /// Somebody submitted something.
    woken: Notify,
    events: Arc<Mutex<VecDeque<Event>>>,
    /// What was said, up to the last turn that ended.
    history: Mutex<Vec<Arc<Message>>>,
    driver: tokio::sync::Mutex<Driver>,
}

impl std::fmt::Debug for RunningConversation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RunningConversation({})", self.id)
    }
}

/// Where somebody waits for what a turn comes to.
type Reply = Arc<Mutex<Option<Result<TurnOutcome, TurnError>>>>;

struct Submission {
    input: TurnInput,
    /// Who waits for the turn itself; then its events are nobody's.
    reply: Option<Reply>,
}

/// A turn that is over, and who worked on it.
type Over = (Box<Worker>, Result<TurnOutcome, TurnError>);

struct Driver {
    at: At,
    recorder: Option<Beside>,
    /// How many entries the history covers, and the last of them.
    seen: (usize, Option<EntryId>),
}

enum At {
    Idle(Box<Worker>),
    Working(Doing<'static, Over>, Option<Reply>),
    /// A turn panicked while somebody else waited for it.
    Lost,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl RunningConversation {
    pub(super) fn new(
        worker: Worker,
        system: Option<String>,
        recorder: Option<Beside>,
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
            driver: tokio::sync::Mutex::new(Driver { at: At::Idle(Box::new(worker)), recorder, seen }),
        }
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> ConversationId {
        self.id
    }

    /// Says something, or goes on with what was interrupted. The turn runs while somebody waits for its events; turns run one
    /// after the other.
    pub fn submit(&self, input: impl Into<TurnInput>) {
        lock(&self.submitted).push_back(Submission { input: input.into(), reply: None });
        self.woken.notify_one();
    }

    /// What happens next. What it tells of is stored already, or [`Event::NotSaved`] has said that it cannot be. Waits for a
    /// submission if there is none. May be given up at any time: the next one goes on.
    pub async fn next_event(&self) -> Event {
        loop {
            // What is there is fetched while somebody else works.
            if let Some(event) = self.fetch() {
                return event;
            }
            {
                let mut driver = self.driver.lock().await;
                loop {
                    if let Some(event) = self.fetch() {
                        return event;
                    }
                    if !self.step(&mut driver).await {
                        break;
                    }
                }
            }
            // Others may have the conversation while nothing is to be done.
            self.woken.notified().await;
        }
    }

    /// Says something and waits for what comes of it: the model's last words, and the messages that are new. Turns that were
    /// submitted before run first. Its events are not told, except that something cannot be saved.
    ///
    /// # Errors
    /// If the provider does not answer, or the conversation is broken and may not be repaired. What was said and what ran
    /// until then is recorded.
    pub async fn process_message(&self, input: impl Into<TurnInput>) -> Result<TurnOutcome, TurnError> {
        let reply = Reply::default();
        let submission = Submission { input: input.into(), reply: Some(Arc::clone(&reply)) };
        lock(&self.submitted).push_back(submission);
        loop {
            let mut driver = self.driver.lock().await;
            if let Some(turned) = lock(&reply).take() {
                return turned;
            }
            if !self.step(&mut driver).await {
                return Err(TurnError::Nothing);
            }
        }
    }

    /// Stops the turn that is under way, or the next one that was submitted. What it has is recorded, and every call of it has
    /// a result. Does nothing if there is none.
    pub fn interrupt(&self) {
        if self.busy.load(Ordering::SeqCst) || !lock(&self.submitted).is_empty() {
            self.stop.stop();
        }
    }

    /// What was said, up to the last turn that ended, as it was said.
    #[must_use]
    pub fn get_history(&self) -> Vec<Arc<Message>> {
        lock(&self.history).clone()
    }

    /// What stands before everything that was said: the instructions, and the system messages that the conversation begins
    /// with.
    #[must_use]
    pub fn get_initial_context(&self) -> Vec<Message> {
        let history = lock(&self.history);
        let leading =
            history.iter().take_while(|message| matches!(message.role, Role::System | Role::Developer));
        let instructions = self.system.as_deref().map(Message::system);
        instructions.into_iter().chain(leading.map(|message| Message::clone(message))).collect()
    }

    /// From now on these are the messages. What was said before stays in the record, on a branch of its own. A turn that is
    /// under way ends first.
    pub async fn replace_history(&self, messages: &[Message]) -> Saved {
        let saved = self.with_conversation(|conversation| conversation.replace_history(messages)).await;
        saved.unwrap_or(Saved::Durable)
    }

    /// Does what a command says, and tells of it. A turn that is under way ends first.
    ///
    /// # Errors
    /// If the entry that it names is not there.
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
                });
            }
        }
        if let Some(warning) = appended.saved.warning() {
            self.tell(Event::NotSaved(warning.to_owned()));
        }
        Ok(appended)
    }

    /// Looks at or appends to the conversation between two turns.
    async fn with_conversation<T>(&self, work: impl FnOnce(&mut Conversation) -> T) -> Option<T> {
        let mut driver = self.driver.lock().await;
        while matches!(driver.at, At::Working(..)) {
            self.step(&mut driver).await;
        }
        let Driver { at: At::Idle(worker), seen, .. } = &mut *driver else { return None };
        let done = work(worker.conversation_mut());
        self.show(worker.conversation(), seen);
        Some(done)
    }

    fn fetch(&self) -> Option<Event> {
        lock(&self.events).pop_front()
    }

    fn tell(&self, event: Event) {
        lock(&self.events).push_back(event);
        self.woken.notify_one();
    }

    /// Works until something was told, or a turn is over. False if there is nothing to do.
    async fn step(&self, driver: &mut Driver) -> bool {
        if !matches!(driver.at, At::Working(..)) && !self.begin(driver) {
            return false;
        }
        let over = poll_fn(|context| {
            let At::Working(turn, _) = &mut driver.at else { return Poll::Ready(None) };
            // Events that nobody fetches are no reason to look again and again: only those that are new.
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

    /// What was submitted first. It is busy before that is taken, so that whoever interrupts sees one of both.
    fn next_submission(&self) -> Option<Submission> {
        let mut submitted = lock(&self.submitted);
        self.busy.store(!submitted.is_empty(), Ordering::SeqCst);
        submitted.pop_front()
    }

    /// Begins the turn that was submitted first.
    fn begin(&self, driver: &mut Driver) -> bool {
        let Some(Submission { input, reply }) = self.next_submission() else { return false };
        let At::Idle(mut worker) = std::mem::replace(&mut driver.at, At::Lost) else { return false };
        let (events, stop, quiet) = (Arc::clone(&self.events), self.stop.clone(), reply.is_some());
        let turn = async move {
            let mut sink = |event: Event| {
                let wanted = !quiet || matches!(event, Event::NotSaved(_) | Event::Saved);
                // The end of a turn is told once everything about it is known.
                if wanted && !matches!(event, Event::Ended(_)) {
                    lock(&events).push_back(event);
                }
            };
            let turned = worker.turn(input, &mut sink, &stop).await;
            (worker, turned)
        };
        driver.at = At::Working(Box::pin(turn), reply);
        true
    }

    /// A turn is over: the history goes on, the turn is written down, and whoever waits is told.
    fn end(&self, driver: &mut Driver, (worker, turned): Over) {
        self.stop.reset();
        self.busy.store(false, Ordering::SeqCst);
        let new = self.show(worker.conversation(), &mut driver.seen);
        if let Some(recorder) = &driver.recorder {
            let usage = turned.as_ref().map(|turned| turned.usage).unwrap_or_default();
            let endpoint = worker.provider().endpoint();
            if let Some(warning) = recorder.append(&new, endpoint, usage, self.clock.now()) {
                self.tell(Event::NotSaved(warning));
            }
        }
        let at = std::mem::replace(&mut driver.at, At::Idle(worker));
        if let At::Working(_, Some(reply)) = at {
            *lock(&reply) = Some(turned);
            return;
        }
        match turned {
            Ok(turned) => self.tell(Event::Ended(turned.ending)),
            Err(error) => {
                self.tell(failed(&error));
                self.tell(Event::Ended(Ending::Failed));
            }
        }
    }

    /// Goes on with the history: what is new in it. If the record took a turn, all of it is read anew.
    fn show(&self, conversation: &Conversation, known: &mut (usize, Option<EntryId>)) -> Vec<Arc<Message>> {
        let entries = conversation.entries();
        let (count, mut last) = std::mem::replace(known, seen(conversation));
        let behind = entries.get(count..).unwrap_or_default();
        let same = count <= entries.len() && count.checked_sub(1).map(|place| entries[place].id()) == last;
        let mut follows = |entry: &Entry| {
            let before = last.replace(entry.id());
            entry.envelope().parent == before
                && !matches!(entry.envelope().kind, Kind::Compacted | Kind::Branch | Kind::Erased)
        };
        let goes_on = same && behind.iter().all(&mut follows);
        let new = behind.iter().filter_map(|entry| match Content::of(entry) {
            Content::Message(message) => Some(Arc::new(message)),
            _ => None,
        });
        let new: Vec<Arc<Message>> = new.collect();
        let mut history = lock(&self.history);
        if goes_on {
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

/// Why a turn failed, for whoever reads events.
fn failed(error: &TurnError) -> Event {
    Event::Failed { code: error.code(), message: error.to_string(), hint: error.hint() }
}
