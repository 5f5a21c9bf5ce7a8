//! Builds an agent step by step. Only the provider is required; everything else has a default.

use std::sync::Arc;

use rejoin_record::Message;
use rejoin_store::Store;

use super::{Agent, COMMAND, memory, of};
use crate::{
    approval::Approvals,
    conversation::{Conversation, Window},
    provider::Provider,
    tools::{ToolSource, Tools},
    turn::{Limits, OnBroken, Stop, TurnSettings, WindowSettings, Worker},
    writer::New,
};

/// Builds an [`Agent`]: see [`Agent::builder`]. `Start` is a [`NewConversation`], or a [`Conversation`] to continue.
#[must_use = "nothing happens before `build`"]
pub struct AgentBuilder<Start = NewConversation> {
    provider: Arc<dyn Provider>,
    start: Start,
    tools: Tools,
    source: Option<Arc<dyn ToolSource>>,
    system: Option<String>,
    on_broken: Option<OnBroken>,
    limits: Limits,
    approvals: Approvals,
    window: Option<Window>,
    fitting: WindowSettings,
}

impl<Start: std::fmt::Debug> std::fmt::Debug for AgentBuilder<Start> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AgentBuilder")
            .field("provider", self.provider.endpoint())
            .field("start", &self.start)
            .field("tools", &self.tools)
            .finish_non_exhaustive()
    }
}

/// A conversation that an agent starts.
#[derive(Default)]
pub struct NewConversation {
    title: Option<String>,
    directory: Option<String>,
    store: Option<Arc<dyn Store>>,
    history: Vec<Message>,
}

impl std::fmt::Debug for NewConversation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "NewConversation({:?}, {} messages)", self.title, self.history.len())
    }
}

impl AgentBuilder {
    pub(super) fn new(provider: Arc<dyn Provider>) -> Self {
        Self {
            provider,
            start: NewConversation::default(),
            tools: Tools::default(),
            source: None,
            system: None,
            on_broken: None,
            limits: Limits::default(),
            approvals: Approvals::default(),
            window: None,
            fitting: WindowSettings::default(),
        }
    }

    /// Keeps the conversation in a store. Without one it is kept in memory and ends with the agent.
    pub fn store(mut self, store: Arc<dyn Store>) -> Self {
        self.start.store = Some(store);
        self
    }

    /// The title of the conversation. Without one, it is the first line of the first message.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.start.title = Some(title.into());
        self
    }

    /// The working directory of the conversation.
    pub fn directory(mut self, directory: impl Into<String>) -> Self {
        self.start.directory = Some(directory.into());
        self
    }

    /// Starts with messages that the caller kept. They may be broken in any way, and are recorded unchanged. Unless
    /// [`AgentBuilder::on_broken`] says otherwise, incomplete calls are not sent, as with [`OnBroken::Drop`]: a list of messages
    /// does not tell whether a call ran.
    pub fn history(mut self, messages: impl IntoIterator<Item = Message>) -> Self {
        self.start.history.extend(messages);
        self
    }

    /// Continues a conversation instead of starting one, in its store if it has one.
    pub fn conversation(self, conversation: Conversation) -> AgentBuilder<Conversation> {
        self.starting(conversation)
    }

    /// Builds the agent. If the store cannot be written, its conversation continues in memory, and [`Conversation::saved`] says so.
    #[must_use]
    pub fn build(mut self) -> Agent {
        let NewConversation { title, directory, store, history } = std::mem::take(&mut self.start);
        let new = New { title, directory, ..of(&*self.provider) };
        let mut conversation = Conversation::create(store.unwrap_or_else(memory), &new, COMMAND);
        if !history.is_empty() {
            self.on_broken = self.on_broken.or(Some(OnBroken::Drop));
        }
        for message in history {
            conversation.say(message);
        }
        self.conversation(conversation).build()
    }
}

impl AgentBuilder<Conversation> {
    /// Builds the agent.
    #[must_use]
    pub fn build(self) -> Agent {
        let settings = TurnSettings {
            system: self.system,
            system_parts: Default::default(),
            on_broken: self.on_broken.unwrap_or(OnBroken::Keep),
            limits: self.limits,
            approvals: self.approvals,
            window: WindowSettings { turns: self.window, ..self.fitting },
        };
        let mut worker = Worker::new(self.start, self.provider, self.tools, settings);
        if let Some(source) = self.source {
            worker.set_tool_source(source);
        }
        Agent { worker, window: self.window.unwrap_or_default(), stop: Stop::new() }
    }
}

impl<Start> AgentBuilder<Start> {
    /// Replaces the start and keeps all other settings.
    fn starting<Other>(self, start: Other) -> AgentBuilder<Other> {
        let Self { provider, start: _, tools, source, system, on_broken, limits, approvals, window, fitting } =
            self;
        AgentBuilder { provider, start, tools, source, system, on_broken, limits, approvals, window, fitting }
    }

    /// The tools that the model may call. Without this there are none.
    pub fn tools(mut self, tools: Tools) -> Self {
        self.tools = tools;
        self
    }

    /// Where further tools come from, such as MCP servers.
    pub fn tool_source(mut self, source: Arc<dyn ToolSource>) -> Self {
        self.source = Some(source);
        self
    }

    /// The system prompt.
    pub fn system(mut self, instructions: impl Into<String>) -> Self {
        self.system = Some(instructions.into());
        self
    }

    /// Sets how broken states, such as a call without a result, are repaired before a request is sent.
    pub fn on_broken(mut self, on_broken: OnBroken) -> Self {
        self.on_broken = Some(on_broken);
        self
    }

    /// The limits of a turn (requests, time, tokens) and of a single tool.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Which calls may run, and who is asked about the others. Without this, calls that change something are denied.
    pub fn approvals(mut self, approvals: Approvals) -> Self {
        self.approvals = approvals;
        self
    }

    /// Prunes older turns, without asking a model, once the conversation reaches these limits.
    pub fn window(mut self, window: Window) -> Self {
        self.window = Some(window);
        self
    }

    /// How the conversation is made to fit the model's window: when results are pruned, and when a summary replaces older messages.
    pub fn fitting(mut self, fitting: WindowSettings) -> Self {
        self.fitting = fitting;
        self
    }
}
