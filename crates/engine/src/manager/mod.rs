//! The conversations of a program: starts, finds, resumes and lists them, in any store.
//!
//! `running.rs` holds a conversation in use; `rollout.rs` writes turns to files beside the store, for programs that read such
//! files.
//!
//! An event is sent after the entries that it reports are stored. If the store fails,
//! [`Event::NotSaved`](crate::turn::Event::NotSaved) is sent and the conversation continues.

mod rollout;
mod running;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use rejoin_record::ConversationId;
use rejoin_store::{Query, StoragePlace, Store, StoreError, Summary};
pub use running::RunningConversation;

use crate::{
    agent,
    clock::{Clock, SystemClock},
    compat::{RolloutError, RolloutRecorder},
    conversation::Conversation,
    error::EngineError,
    provider::{Provider, ProviderError},
    provider_choice::ProviderChoice,
    reading::{Mode, Recorded, read},
    resolve::resolve_id,
    tools::Tools,
    turn::{TurnSettings, Worker},
    writer::New,
};

/// The program name that a conversation's lock shows while the manager uses it.
const COMMAND: &str = "conversation manager";

/// Why a conversation could not be started or resumed.
#[derive(Debug, thiserror::Error)]
pub enum ManagerError {
    /// There is no such conversation.
    #[error("Conversation {id} not found. Run: rejoin list")]
    ConversationNotFound {
        /// The id that was asked for.
        id: String,
    },
    /// It cannot be read or, in strict mode, is damaged or empty.
    #[error(transparent)]
    Engine(EngineError),
    /// A file of turns cannot be read, or in strict mode, has damage or no turns.
    #[error(transparent)]
    Rollout(RolloutError),
    /// No provider is available for it.
    #[error(transparent)]
    Provider(#[from] ProviderError),
}

impl ManagerError {
    /// The error's code, for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::ConversationNotFound { .. } => "CONVERSATION_NOT_FOUND",
            Self::Engine(error) => error.code(),
            Self::Rollout(error) => error.code(),
            Self::Provider(error) => error.code(),
        }
    }

    /// The damaged line, from 1, if the conversation is a file.
    pub fn line(&self) -> Option<u64> {
        match self {
            Self::Engine(EngineError::Corrupted { place: StoragePlace::Line(line), .. }) => Some(*line),
            Self::Rollout(RolloutError::CorruptedRollout { line, .. }) => Some(*line as u64),
            _ => None,
        }
    }

    fn of(id: &str) -> impl Fn(EngineError) -> Self + use<'_> {
        move |error| match error {
            EngineError::Unknown(_) | EngineError::Store(StoreError::NotFound(_)) => {
                Self::ConversationNotFound { id: id.to_owned() }
            }
            error => Self::Engine(error),
        }
    }

    fn of_rollout(error: RolloutError) -> Self {
        match error {
            RolloutError::ConversationNotFound { id } => Self::ConversationNotFound { id },
            error => Self::Rollout(error),
        }
    }
}

/// Makes the provider that a conversation asks for.
type Connect = dyn Fn(&ProviderChoice) -> Result<Arc<dyn Provider>, ProviderError> + Send + Sync;

/// The conversations of a program.
///
/// ```
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use std::sync::Arc;
/// use rejoin_engine::{ConversationManager, Mode, New, open_store, provider::offline::Offline, turn::Event};
/// use rejoin_store::{Access, Store};
///
/// let store: Arc<dyn Store> = open_store(&"memory:".parse()?, Access::Write)?.into();
/// let offline = Arc::new(Offline::default());
/// let manager = ConversationManager::with_provider(store.clone(), offline.clone());
///
/// let conversation = manager.new_conversation(New::default())?;
/// let id = conversation.id().to_string();
/// conversation.submit("my name is Alice");
/// while !matches!(conversation.next_event().await, Event::Ended { .. }) {}
/// drop(conversation);
///
/// // Another process, another day.
/// let manager = ConversationManager::with_provider(store, offline);
/// let conversation = manager.resume_conversation(&id, Mode::Recover)?;
/// let outcome = conversation.process_message("What is my name?").await?;
/// assert_eq!(outcome.response, "Your name is Alice.");
/// assert_eq!(conversation.get_history().len(), 4);
/// # Ok(())
/// # }
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(example()).unwrap();
/// ```
pub struct ConversationManager {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    connect: Box<Connect>,
    tools: Tools,
    settings: TurnSettings,
    recorder: Option<RolloutRecorder>,
    running: Mutex<HashMap<ConversationId, Weak<RunningConversation>>>,
}

impl std::fmt::Debug for ConversationManager {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ConversationManager({})", self.store.location())
    }
}

impl ConversationManager {
    /// A manager for the conversations of a store. `connect` makes the provider that a conversation asks for.
    pub fn new(
        store: Arc<dyn Store>,
        connect: impl Fn(&ProviderChoice) -> Result<Arc<dyn Provider>, ProviderError> + Send + Sync + 'static,
    ) -> Self {
        Self {
            store,
            clock: Arc::new(SystemClock),
            connect: Box::new(connect),
            tools: Tools::default(),
            settings: TurnSettings::default(),
            recorder: None,
            running: Mutex::default(),
        }
    }

    /// A manager that uses one provider for all conversations, whichever they ask for.
    pub fn with_provider(store: Arc<dyn Store>, provider: Arc<dyn Provider>) -> Self {
        Self::new(store, move |_| Ok(Arc::clone(&provider)))
    }

    /// Sets the tools of every conversation.
    #[must_use]
    pub fn with_tools(self, tools: Tools) -> Self {
        Self { tools, ..self }
    }

    /// Sets the settings of every turn.
    #[must_use]
    pub fn with_settings(self, settings: TurnSettings) -> Self {
        Self { settings, ..self }
    }

    /// Sets the clock.
    #[must_use]
    pub fn with_clock(self, clock: Arc<dyn Clock>) -> Self {
        Self { clock, ..self }
    }

    /// Sets a recorder: every turn is also appended to a file of turns, before its end is reported.
    #[must_use]
    pub fn with_recorder(self, recorder: RolloutRecorder) -> Self {
        Self { recorder: Some(recorder), ..self }
    }

    /// Starts a conversation. When this returns, it is in the store and in lists. If the store cannot be written, it continues in
    /// memory, and the second event of its first turn reports that.
    ///
    /// # Errors
    /// If no provider is available.
    pub fn new_conversation(&self, new: New) -> Result<Arc<RunningConversation>, ManagerError> {
        self.begin(new, None)
    }

    /// Starts a conversation. The recorder writes its turns under `name`, or under its id if there is no name.
    fn begin(&self, new: New, name: Option<&str>) -> Result<Arc<RunningConversation>, ManagerError> {
        let wanted = ProviderChoice {
            provider: new.provider.clone(),
            model: new.model.clone(),
            ..ProviderChoice::default()
        };
        let provider = (self.connect)(&wanted)?;
        let answering = agent::of(&*provider);
        let new = New { provider: answering.provider, model: answering.model, ..new };
        let conversation =
            Conversation::create_with_clock(Arc::clone(&self.store), Arc::clone(&self.clock), &new, COMMAND);
        let name = name.map_or_else(|| conversation.id().to_string(), str::to_owned);
        Ok(self.run(conversation, provider, name))
    }

    /// A conversation that this manager is running, by its id. [`ConversationManager::resume_conversation`] also finds others.
    pub fn get_conversation(&self, id: &str) -> Option<Arc<RunningConversation>> {
        let id: ConversationId = id.parse().ok()?;
        self.all_running().get(&id)?.upgrade()
    }

    /// Resumes a conversation by its id or an unambiguous prefix of it, with the provider and the model of its last turn. If it is
    /// already running here, returns the running one.
    ///
    /// # Errors
    /// If it does not exist, or another process writes to it; with [`Mode::Strict`] also if it is damaged or empty. With
    /// [`Mode::Recover`] damage is skipped, and a broken history is repaired in what the model sees.
    pub fn resume_conversation(
        &self,
        id: &str,
        mode: Mode,
    ) -> Result<Arc<RunningConversation>, ManagerError> {
        let failed = ManagerError::of(id);
        let id = resolve_id(&*self.store, id, None).map_err(&failed)?;
        if let Some(running) = self.all_running().get(&id).and_then(Weak::upgrade) {
            return Ok(running);
        }
        if mode == Mode::Strict {
            read(&*self.store, id, mode).map_err(&failed)?;
        }
        self.open(id, None, id.to_string())
    }

    /// Opens a conversation with the provider that it recorded, unless `wanted` names another.
    fn open(
        &self,
        id: ConversationId,
        wanted: Option<ProviderChoice>,
        name: String,
    ) -> Result<Arc<RunningConversation>, ManagerError> {
        let conversation =
            Conversation::open_with_clock(Arc::clone(&self.store), Arc::clone(&self.clock), id, COMMAND)
                .map_err(ManagerError::of(&name))?;
        let wanted = wanted.unwrap_or_else(|| ProviderChoice::of(&conversation));
        let provider = (self.connect)(&wanted)?;
        Ok(self.run(conversation, provider, name))
    }

    /// Resumes a file of turns of the recorder. Its items are imported into the store once, and new turns are also appended to the
    /// file.
    ///
    /// # Errors
    /// If there is no recorder or no such file; with [`Mode::Strict`] also if a line of it is not a turn, or it has no turn.
    pub fn resume_rollout(&self, id: &str, mode: Mode) -> Result<Arc<RunningConversation>, ManagerError> {
        let not_found = || ManagerError::ConversationNotFound { id: id.to_owned() };
        let recorder = self.recorder.as_ref().ok_or_else(not_found)?;
        if mode == Mode::Strict {
            recorder.read_rollout(id).map_err(ManagerError::of_rollout)?;
        }
        let imported = rollout::import(recorder, id, &*self.store, &*self.clock)?;
        // The file has no turn, so the conversation starts empty.
        let Some((imported, wanted)) = imported else { return self.begin(New::default(), Some(id)) };
        if let Some(running) = self.all_running().get(&imported).and_then(Weak::upgrade) {
            return Ok(running);
        }
        self.open(imported, Some(wanted), id.to_owned())
    }

    /// Every conversation, newest first, with provider, model and time.
    pub fn list_conversations(&self) -> Result<Vec<Summary>, ManagerError> {
        let page = crate::list(&*self.store, &Query::default())
            .map_err(|error| ManagerError::Engine(error.into()))?;
        Ok(page.conversations)
    }

    /// Reads a conversation: its entries, the messages that lead to its head, and its damage.
    pub fn read_events(&self, id: &str) -> Result<Recorded, ManagerError> {
        let failed = ManagerError::of(id);
        let id = resolve_id(&*self.store, id, None).map_err(&failed)?;
        read(&*self.store, id, Mode::Recover).map_err(&failed)
    }

    /// Resumes a conversation in any state: [`ConversationManager::resume_conversation`] with
    /// [`Mode::Recover`].
    pub fn recover_session(&self, id: &str) -> Result<Arc<RunningConversation>, ManagerError> {
        self.resume_conversation(id, Mode::Recover)
    }

    fn run(
        &self,
        conversation: Conversation,
        provider: Arc<dyn Provider>,
        name: String,
    ) -> Arc<RunningConversation> {
        let id = conversation.id();
        let worker = Worker::new(conversation, provider, self.tools.clone(), self.settings.clone());
        let recorder = self.recorder.clone().map(|recorder| rollout::TurnFile::new(recorder, name));
        let system = self.settings.system.clone();
        let running = Arc::new(RunningConversation::new(worker, system, recorder, Arc::clone(&self.clock)));
        let mut all = self.all_running();
        all.retain(|_, other| other.strong_count() > 0);
        all.insert(id, Arc::downgrade(&running));
        running
    }

    fn all_running(&self) -> std::sync::MutexGuard<'_, HashMap<ConversationId, Weak<RunningConversation>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
