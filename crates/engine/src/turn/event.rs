//! What is told of a turn while it happens. Whoever draws it needs nothing else.

use std::time::Duration;

use rejoin_formats::wire::stream::Usage;
use rejoin_record::{ConversationId, EntryId, text::plural};
use rejoin_view::Finding;

/// Something that happened in a turn.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// The turn begins.
    Started {
        /// The conversation.
        conversation: ConversationId,
        /// Who answers.
        provider: String,
        /// The model.
        model: String,
    },
    /// Something in the store cannot be read as it was saved: what, and where. Everything else is used.
    Damaged(Vec<Finding>),
    /// The history was not sound as it stood: what was found, and what the model sees instead. Nothing in the record changed.
    Mended(Vec<Finding>),
    /// Calls without a result were decided about, before the request left.
    Closed {
        /// Shown to the model as interrupted.
        interrupted: usize,
        /// Not shown.
        left_out: usize,
        /// Run again.
        rerun: usize,
    },
    /// A request leaves.
    Asking {
        /// Which of the turn, from 1.
        request: u32,
        /// How many bytes.
        bytes: usize,
    },
    /// It did not work, and is tried again.
    Retrying {
        /// Which attempt comes next, from 2.
        attempt: u32,
        /// How long it waits before that.
        wait: Duration,
        /// What went wrong.
        why: String,
    },
    /// More text of the answer.
    Text(String),
    /// More of what the model thinks.
    Reasoning(String),
    /// The model's message is recorded.
    Answered {
        /// Its entry.
        entry: EntryId,
        /// Tokens, where they were counted.
        usage: Option<Usage>,
    },
    /// A tool begins to run.
    CallStarted {
        /// The call.
        id: String,
        /// The tool.
        name: String,
        /// Its arguments, as the model wrote them.
        arguments: String,
    },
    /// A tool is done, and its result is recorded.
    CallEnded {
        /// The call.
        id: String,
        /// The tool.
        name: String,
        /// What it gave back.
        output: String,
        /// Whether it failed.
        is_error: bool,
        /// How long it took.
        took: Duration,
    },
    /// Something could not be stored. The conversation goes on in memory.
    NotSaved(String),
    /// What could not be stored before is stored now.
    Saved,
    /// Why the turn fails: told before its end, by whoever does not hand out the error itself.
    Failed {
        /// A name for programs.
        code: &'static str,
        /// What went wrong.
        message: String,
        /// What a person can do about it.
        hint: Option<String>,
    },
    /// The turn is over.
    Ended(Ending),
}

/// How a turn ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// The model is done.
    Done,
    /// A person stopped it.
    Interrupted,
    /// A limit was reached.
    Limit(Limit),
    /// It failed. The error says why.
    Failed,
}

/// A limit of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// Requests.
    Requests(u32),
    /// Time.
    Time(Duration),
    /// Tokens.
    Tokens(u64),
    /// The length of one answer: the provider cut it.
    AnswerLength,
}

impl std::fmt::Display for Limit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Requests(count) => {
                write!(f, "the turn took {}, which is the limit", plural(count, "request"))
            }
            Self::Time(time) => {
                write!(f, "the turn took {}, which is the limit", plural(time.as_secs(), "second"))
            }
            Self::Tokens(count) => {
                write!(f, "the turn took {}, which is above the limit", plural(count, "token"))
            }
            Self::AnswerLength => f.write_str("the answer reached the longest that was asked for"),
        }
    }
}
