//! Agents made from a row of numbers. New code uses [`Agent::builder`].

use std::sync::Arc;

use rejoin_record::Message;

use super::storage::conversation_id;
use crate::{
    agent::{Agent, COMMAND, Window, memory, of},
    clock::SystemClock,
    conversation::Conversation,
    provider::Provider,
    turn::OnBroken,
    writer::New,
};

/// Makes an [`Agent`] from a provider and the three numbers of its [`Window`].
pub trait FromNumbers: Sized {
    /// An agent with a new conversation, in memory.
    #[must_use]
    fn new_from_shared_provider(
        provider: Arc<dyn Provider>,
        max_tokens: usize,
        min_retain_turns: usize,
        prune_threshold: f64,
    ) -> Self;

    /// An agent that continues messages which the caller kept, in memory, under an id and a title of the caller's.
    ///
    /// The messages may be broken in any way, and are kept as they are. Incomplete calls are not sent, as [`OnBroken::Drop`]
    /// says, because a list of messages does not tell whether a call ran. [`Agent::set_on_broken`] changes that.
    #[allow(clippy::too_many_arguments, reason = "the shape that callers know")]
    #[must_use]
    fn with_history(
        id: &str,
        title: &str,
        messages: Vec<Message>,
        provider: Arc<dyn Provider>,
        max_tokens: usize,
        min_retain_turns: usize,
        prune_threshold: f64,
    ) -> Self;
}

impl FromNumbers for Agent {
    fn new_from_shared_provider(
        provider: Arc<dyn Provider>,
        max_tokens: usize,
        min_retain_turns: usize,
        prune_threshold: f64,
    ) -> Self {
        Self::builder(provider).window(Window { max_tokens, min_retain_turns, prune_threshold }).build()
    }

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
        let id = conversation_id(id);
        let mut conversation = Conversation::create_as(id, memory(), Arc::new(SystemClock), &new, COMMAND);
        for message in messages {
            conversation.say(message);
        }
        let window = Window { max_tokens, min_retain_turns, prune_threshold };
        Self::builder(provider).conversation(conversation).on_broken(OnBroken::Drop).window(window).build()
    }
}
