//! A conversation made from three numbers, with a token count that its owner may set.

use std::{
    ops::{Deref, DerefMut},
    sync::Arc,
};

use rejoin_engine::{Appended, New, SystemClock, Window};
use rejoin_record::Message;
use rejoin_view::{TokenCounter, window::EarlierSummary};

/// A conversation in memory, with the limits of its requests. It dereferences to [`rejoin::Conversation`](crate::Conversation),
/// which provides everything else.
///
/// ```
/// use rejoin::{Message, compat::Conversation};
///
/// let mut conversation = Conversation::new(8_000, 2, 0.8);
/// conversation.add_message(Message::user("How far is the moon?"));
/// assert_eq!((conversation.message_count(), conversation.token_count), (1, 13));
/// conversation.token_count = 7_000;
/// assert!(conversation.token_count as f64 > conversation.max_tokens as f64 * conversation.prune_threshold);
/// ```
#[derive(Debug)]
pub struct WindowedConversation {
    /// The number of tokens: estimated after each added message, unless it is set to a provider's own count.
    pub token_count: usize,
    /// The most tokens that it may have.
    pub max_tokens: usize,
    /// How many of the last turns are never pruned.
    pub min_retain_turns: usize,
    /// The fraction of `max_tokens`, from 0 to 1, at which older turns may be pruned.
    pub prune_threshold: f64,
    inner: rejoin_engine::Conversation,
}

impl WindowedConversation {
    /// A new conversation.
    #[must_use]
    pub fn new(max_tokens: usize, min_retain_turns: usize, prune_threshold: f64) -> Self {
        let inner = rejoin_engine::Conversation::in_memory(Arc::new(SystemClock), &New::default());
        Self { token_count: 0, max_tokens, min_retain_turns, prune_threshold, inner }
    }

    /// Appends a message, and estimates the tokens again.
    pub fn add_message(&mut self, message: Message) -> Appended {
        let appended = self.inner.say(message);
        self.token_count = self.inner.token_count();
        appended
    }

    /// Prunes older turns if there are more tokens than `prune_threshold` × `max_tokens`, and counts the tokens again.
    ///
    /// # Errors
    /// Never.
    pub fn prune_if_needed(&mut self, model: &str) -> Result<(), std::convert::Infallible> {
        let limits = Window {
            max_tokens: self.max_tokens,
            min_retain_turns: self.min_retain_turns,
            prune_threshold: self.prune_threshold,
        };
        if let Some(pruned) = self.inner.prune_if_needed(model, &limits) {
            self.token_count = usize::try_from(pruned.after).unwrap_or(usize::MAX);
        }
        Ok(())
    }

    /// A summary of its messages that needs no model: the beginning of each, for as many as fit into a quarter of `max_tokens`.
    #[must_use]
    pub fn create_summary(&self, model: &str) -> String {
        let room = self.max_tokens as u64 / 4;
        rejoin_view::window::listing(
            EarlierSummary::default(),
            self.inner.messages(),
            room,
            &TokenCounter::for_model(model),
        )
        .text
    }

    /// The number of messages on the path to its head.
    #[must_use]
    pub fn message_count(&self) -> usize {
        self.inner.messages().len()
    }
}

impl Deref for WindowedConversation {
    type Target = rejoin_engine::Conversation;
    fn deref(&self) -> &Self::Target {
        &self.inner
    }
}

impl DerefMut for WindowedConversation {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.inner
    }
}
