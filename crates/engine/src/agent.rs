//! An agent: a conversation, a provider, and one call that does a whole turn.
//!
//! [`Worker`] runs the loop. Without a store, an agent keeps its conversation in memory; with one, it stores every entry as it
//! happens.

mod builder;

use std::sync::Arc;

pub use builder::{AgentBuilder, NewConversation};
use rejoin_record::Message;
use rejoin_store::{Store, memory::Memory};

use crate::{
    conversation::{Conversation, Saved, Window},
    digest::digest,
    provider::Provider,
    tools::Tools,
    turn::{
        Compaction, Event, OnBroken, Stop, TurnError, TurnInput, TurnOutcome, TurnSettings, WindowSettings,
        Worker,
    },
    writer::New,
};

/// The program name that a conversation's lock shows while an agent works on it.
pub(crate) const COMMAND: &str = "agent";

/// A conversation, a provider and tools, with one call per turn.
///
/// ```
/// # async fn example() -> Result<(), rejoin_engine::turn::TurnError> {
/// use std::sync::Arc;
/// use rejoin_engine::{Agent, provider::offline::Offline, tools::Tools};
///
/// let mut agent = Agent::builder(Arc::new(Offline::default())).tools(Tools::builtin(".")).build();
/// let outcome = agent.ask("What is 6 * 7?").await?;
/// assert_eq!(outcome.response, "6 * 7 = 42");
/// // The new messages of this turn: the question, the call, its result, the answer.
/// assert_eq!(outcome.messages.len(), 4);
/// # Ok(())
/// # }
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Debug)]
pub struct Agent {
    worker: Worker,
    window: Window,
    stop: Stop,
}

impl Agent {
    /// Starts to build an agent. Only the provider is required.
    ///
    /// ```
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::sync::Arc;
    /// use rejoin_engine::{Agent, open_store, provider::offline::Offline, tools::Tools, turn::Limits};
    /// use rejoin_store::Access;
    ///
    /// let mut agent = Agent::builder(Arc::new(Offline::default()))
    ///     .store(open_store(&"memory:".parse()?, Access::Write)?.into())
    ///     .title("Sums")
    ///     .system("Be brief.")
    ///     .tools(Tools::builtin("."))
    ///     .limits(Limits { requests: 10, ..Limits::default() })
    ///     .build();
    /// assert_eq!(agent.ask("What is 6 * 7?").await?.response, "6 * 7 = 42");
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(example()).unwrap();
    /// ```
    pub fn builder(provider: Arc<dyn Provider>) -> AgentBuilder {
        AgentBuilder::new(provider)
    }

    /// An agent that continues a conversation, in its store if it has one. Broken states are treated as [`OnBroken::Keep`] says.
    pub fn resume(conversation: Conversation, provider: Arc<dyn Provider>, window: Window) -> Self {
        let fitting = WindowSettings { turns: Some(window), ..WindowSettings::default() };
        let settings = TurnSettings { window: fitting, ..TurnSettings::default() };
        let worker = Worker::new(conversation, provider, Tools::default(), settings);
        Self { worker, window, stop: Stop::new() }
    }

    /// Keeps the conversation in a store from now on, including everything in it so far.
    pub fn attach(&mut self, store: Arc<dyn Store>) -> Saved {
        self.worker.conversation_mut().attach(store, COMMAND)
    }

    /// Runs one turn with the agent's own tools, set by [`AgentBuilder::tools`] or by the last [`Agent::execute`].
    ///
    /// # Errors
    /// If the provider does not answer. Everything until then is kept, and the next turn continues from there.
    pub async fn ask(&mut self, prompt: impl Into<TurnInput>) -> Result<TurnOutcome, TurnError> {
        self.ask_with(prompt, &mut |_| {}).await
    }

    /// [`Agent::ask`] with a receiver for the events of the turn.
    pub async fn ask_with(
        &mut self,
        prompt: impl Into<TurnInput>,
        sink: &mut (dyn FnMut(Event) + Send),
    ) -> Result<TurnOutcome, TurnError> {
        let outcome = self.worker.turn(prompt.into(), sink, &self.stop).await;
        self.stop.reset();
        outcome
    }

    /// Runs one turn with these tools: sends the prompt, runs the tools that the model calls, sends their results, until the
    /// model calls none. Returns the model's last text and the new messages.
    ///
    /// # Errors
    /// If the provider does not answer. Everything until then is kept, and the next turn continues from there.
    pub async fn execute(
        &mut self,
        prompt: impl Into<TurnInput>,
        tools: &Tools,
    ) -> Result<TurnOutcome, TurnError> {
        self.execute_with(prompt, tools, &mut |_| {}).await
    }

    /// [`Agent::execute`] with a receiver for the events of the turn.
    pub async fn execute_with(
        &mut self,
        prompt: impl Into<TurnInput>,
        tools: &Tools,
        sink: &mut (dyn FnMut(Event) + Send),
    ) -> Result<TurnOutcome, TurnError> {
        // Tools that did not change are kept, so that the next request can extend the last one.
        if !same(self.worker.tools(), tools) {
            self.worker.set_tools(tools.clone());
        }
        self.ask_with(prompt, sink).await
    }

    /// A switch that stops a turn from another task. It is cleared when the turn is over.
    pub fn stop(&self) -> Stop {
        self.stop.clone()
    }

    /// Sets how broken states are treated.
    pub fn set_on_broken(&mut self, on_broken: OnBroken) {
        self.worker.set_on_broken(on_broken);
    }

    /// Sets the provider, from the next turn on.
    pub fn set_provider(&mut self, provider: Arc<dyn Provider>) {
        self.worker.set_provider(provider);
    }

    /// Every message, unrepaired.
    pub fn messages(&self) -> &[Arc<Message>] {
        self.worker.conversation().messages()
    }

    /// The conversation.
    pub fn conversation(&self) -> &Conversation {
        self.worker.conversation()
    }

    /// The conversation, to append something outside of a turn.
    pub fn conversation_mut(&mut self) -> &mut Conversation {
        self.worker.conversation_mut()
    }

    /// Replaces older messages by a summary now, for the model only. `focus` says what the summary must keep.
    pub async fn compact(&mut self, focus: Option<&str>) -> Compaction {
        let stop = self.stop.clone();
        self.worker.compact(focus, &mut |_| {}, &stop).await
    }

    /// The fraction of [`Window::max_tokens`] that the conversation takes, as [`Conversation::token_count`] estimates it; above 1
    /// if it takes more.
    pub fn filled(&self) -> f64 {
        self.conversation().token_count() as f64 / self.window.max_tokens.max(1) as f64
    }

    /// The limits from [`AgentBuilder::window`], at which older turns are pruned. If none were set, the defaults, which prune nothing.
    pub fn window(&self) -> Window {
        self.window
    }
}

/// A store in memory for programs that did not name one: without any store, every append would warn that nothing is saved.
pub(crate) fn memory() -> Arc<dyn Store> {
    Arc::new(Memory::new(digest))
}

/// A new conversation with a provider.
pub(crate) fn of(provider: &dyn Provider) -> New {
    let endpoint = provider.endpoint();
    let (provider, model) = (endpoint.provider.clone(), endpoint.model.clone());
    New { provider: Some(provider), model: Some(model), ..New::default() }
}

fn same(one: &Tools, other: &Tools) -> bool {
    let (ours, theirs) = (one.declarations(), other.declarations());
    ours.len() == theirs.len()
        && ours.iter().zip(&theirs).all(|(ours, theirs)| {
            ours.name == theirs.name
                && one
                    .get(&ours.name)
                    .zip(other.get(&theirs.name))
                    .is_some_and(|(one, other)| Arc::ptr_eq(one, other))
        })
}
