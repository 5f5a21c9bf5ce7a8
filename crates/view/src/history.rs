//! A history: messages in order, known facts about their calls, and the places where requests were sent.

use std::sync::Arc;

use rejoin_record::Message;

/// What the record shows about a tool call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum Fate {
    /// The record shows nothing about it.
    #[default]
    Unknown,
    /// It never ran.
    NotStarted,
    /// It waits for a person's approval, so it never ran.
    AwaitingApproval,
    /// It began to run.
    Started,
    /// A request that did not show it was sent. Later results do not belong to it.
    ClosedLeftOut,
    /// A request that showed it as interrupted was sent. Later results do not belong to it.
    ClosedInterrupted,
    /// A request that did not show it was sent, although it had results, because another call of its message had none. Its results
    /// before that request are left out with it; later ones do not belong to it.
    ClosedWithBatch,
}

impl Fate {
    /// Whether a decision about the call was already sent to a model.
    pub fn is_closed(self) -> bool {
        matches!(self, Self::ClosedLeftOut | Self::ClosedInterrupted | Self::ClosedWithBatch)
    }

    /// Whether results before the next request belong to it. Those of a call that was left out with its batch do: they are left out
    /// with it.
    pub(crate) fn has_results(self) -> bool {
        !self.is_closed() || self == Self::ClosedWithBatch
    }
}

/// The fate of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownCall {
    /// The index of the message.
    pub message: usize,
    /// The index of the block in the message.
    pub block: usize,
    /// The call's fate.
    pub fate: Fate,
}

/// Everything that a view is computed from. Views share the list of messages and do not copy it.
#[derive(Debug, Clone, Default)]
pub struct History {
    pub(crate) messages: Arc<Vec<Arc<Message>>>,
    /// The known fates of calls, ordered by message.
    pub(crate) fates: Vec<KnownCall>,
    /// The messages before which requests were sent, in order.
    pub(crate) sent: Vec<usize>,
    /// The session that it was read from, for the log.
    pub(crate) session: Option<Arc<str>>,
}

impl History {
    /// A history of these messages. Nothing is known about the fates of their calls.
    pub fn of(messages: impl IntoIterator<Item = Arc<Message>>) -> Self {
        Self { messages: Arc::new(messages.into_iter().collect()), ..Self::default() }
    }

    /// A history of these messages, with the known fates of their calls, and the indexes of the messages before which requests were
    /// sent.
    pub fn with(messages: Vec<Arc<Message>>, mut fates: Vec<KnownCall>, mut sent: Vec<usize>) -> Self {
        fates.sort_by_key(|fate| (fate.message, fate.block));
        sent.sort_unstable();
        Self { messages: Arc::new(messages), fates, sent, session: None }
    }

    /// The same history with the name of the session that it was read from. Repairing it logs that name.
    #[must_use]
    pub fn of_session(self, name: &str) -> Self {
        Self { session: Some(Arc::from(name)), ..self }
    }

    /// The known fates of calls, ordered by message.
    pub fn known(&self) -> &[KnownCall] {
        &self.fates
    }

    /// The messages before which requests were sent, in order.
    pub fn sent(&self) -> &[usize] {
        &self.sent
    }

    /// The messages.
    pub fn messages(&self) -> &[Arc<Message>] {
        &self.messages
    }
}

pub(crate) enum Step<'h> {
    /// A request was sent before the message with this number.
    Request(usize),
    /// A message with its index, and the known fates of its calls.
    Message(usize, &'h Message, &'h [KnownCall]),
}

impl History {
    /// The messages in order, and the places where requests were sent.
    pub(crate) fn steps(&self) -> impl Iterator<Item = Step<'_>> {
        let (mut fates, mut sent) = (&self.fates[..], self.sent.iter().copied().peekable());
        let mut index = 0;
        std::iter::from_fn(move || {
            if sent.next_if(|place| *place <= index || index >= self.messages.len()).is_some() {
                return Some(Step::Request(index));
            }
            let message = self.messages.get(index)?;
            let (own, rest) = fates.split_at(fates.partition_point(|fate| fate.message <= index));
            fates = rest;
            index += 1;
            Some(Step::Message(index - 1, message, own))
        })
    }
}

impl FromIterator<Message> for History {
    fn from_iter<I: IntoIterator<Item = Message>>(messages: I) -> Self {
        Self::of(messages.into_iter().map(Arc::new))
    }
}
