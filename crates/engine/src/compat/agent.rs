//! The older constructors of an agent, which take the numbers of its window. New code uses [`Agent::builder`].

use std::sync::Arc;

use rejoin_record::Message;

use super::storage::conversation_id;
use crate::{
    agent::{Agent, COMMAND, memory, of},
    clock::SystemClock,
    conversation::Conversation,
    conversation::Window,
    provider::Provider,
    turn::OnBroken,
    writer::New,
};

/// Makes an [`Agent`] from a provider and the three numbers of its [`Window`].
pub trait FromNumbers: From<Agent> {
    /// An agent with a new conversation, in memory.
    fn new_from_shared_provider(
        provider: Arc<dyn Provider>,
        max_tokens: usize,
        min_retain_turns: usize,
        prune_threshold: f64,
    ) -> Self {
        let window = Window { max_tokens, min_retain_turns, prune_threshold };
        Agent::builder(provider).window(window).build().into()
    }

    /// An agent in memory that continues messages which the caller kept, with an id and a title of the caller's choice.
    ///
    /// The messages may be broken in any way, and are kept unchanged. Incomplete calls are not sent, as with [`OnBroken::Drop`],
    /// because a list of messages does not tell whether a call ran. [`Agent::set_on_broken`] changes that.
    #[allow(clippy::too_many_arguments, reason = "the shape that callers know")]
    fn with_history(
        id: &str,
        title: &str,
        messages: Vec<Message>,
        provider: Arc<dyn Provider>,
        max_tokens: usize,
        min_retain_turns: usize,
        prune_threshold: f64,
    ) -> Self {
        let new = New { title: Some(title.to_owned()), ..of(&*provider) };
        let (id, clock) = (conversation_id(id), Arc::new(SystemClock));
        let mut conversation = Conversation::begin_as(id, memory(), clock, &new, COMMAND);
        conversation.replace_history(&messages);
        let window = Window { max_tokens, min_retain_turns, prune_threshold };
        let agent = Agent::builder(provider).conversation(conversation).on_broken(OnBroken::Drop);
        agent.window(window).build().into()
    }
}

impl FromNumbers for Agent {}
