//! A history: messages in order, what is known of their calls, and where requests were sent from.

use std::sync::Arc;

use rejoin_record::Message;

/// What is known of a tool call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum Fate {
    /// Nothing.
    #[default]
    Unknown,
    /// It never ran.
    NotStarted,
    /// It waits for a person, so it never ran.
    AwaitingApproval,
    /// It began to run.
    Started,
    /// A request was sent that did not show it. Later results do not see it.
    ClosedLeftOut,
    /// A request was sent that showed it as interrupted. Later results do not see it.
    ClosedInterrupted,
}

impl Fate {
    /// Whether a decision about it was already sent to a model.
    #[must_use]
    pub fn is_closed(self) -> bool {
        matches!(self, Self::ClosedLeftOut | Self::ClosedInterrupted)
    }
}

/// One step of a history.
#[derive(Debug, Clone)]
pub enum Step {
    /// A message, with what is known of the calls in it, by block; calls that are not listed are unknown.
    Message(Arc<Message>, Vec<(usize, Fate)>),
    /// A request was sent from here: what stands before must not look different later.
    Sent,
}

/// Everything that a view is computed from.
#[derive(Debug, Clone, Default)]
pub struct History {
    /// The steps, in order.
    pub steps: Vec<Step>,
}

impl History {
    /// A history of these messages, of whose calls nothing is known.
    #[must_use]
    pub fn of(messages: impl IntoIterator<Item = Arc<Message>>) -> Self {
        Self { steps: messages.into_iter().map(|message| Step::Message(message, Vec::new())).collect() }
    }

    /// The messages.
    pub fn messages(&self) -> impl Iterator<Item = &Arc<Message>> {
        self.steps.iter().filter_map(|step| match step {
            Step::Message(message, _) => Some(message),
            Step::Sent => None,
        })
    }
}

impl FromIterator<Message> for History {
    fn from_iter<I: IntoIterator<Item = Message>>(messages: I) -> Self {
        Self::of(messages.into_iter().map(Arc::new))
    }
}
