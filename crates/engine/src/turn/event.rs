//! The events of a turn. A user interface needs nothing else to draw it.

use std::time::Duration;

use rejoin_formats::wire::stream::Usage;
use rejoin_record::{ConversationId, EntryId, text::plural};
use rejoin_view::Finding;

use crate::{approval::ApprovalRequest, provider::catalogue::Dollars};

/// Something that happened in a turn.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// The turn begins.
    Started {
        /// The conversation's id.
        conversation: ConversationId,
        /// The provider that answers.
        provider: String,
        /// The provider's model.
        model: String,
    },
    /// A part of the stored conversation cannot be read. The findings name the places; the rest is used.
    Damaged(Vec<Finding>),
    /// The history was repaired for the model. The findings describe the faults and what the model sees instead. The record is
    /// unchanged.
    Mended(Vec<Finding>),
    /// Before the request left, calls without a result were closed.
    Closed {
        /// The number of calls that the model sees as interrupted.
        interrupted: usize,
        /// The number of calls that the model does not see.
        left_out: usize,
        /// The number of calls that are run again.
        rerun: usize,
    },
    /// The turn waits for servers that are still starting, because the request includes their tools.
    WaitingForServers {
        /// The names of the servers.
        names: Vec<String>,
    },
    /// A request is sent.
    Asking {
        /// The number of the request in its turn, from 1.
        request: u32,
        /// The size of the body; 0 for a provider without a dialect.
        bytes: usize,
    },
    /// The request failed, and is sent again.
    Retrying {
        /// The number of the next attempt, from 2.
        attempt: u32,
        /// The time until the next attempt.
        wait: Duration,
        /// Why the last attempt failed.
        why: String,
    },
    /// The next piece of the answer's text.
    Text(String),
    /// The next piece of the model's reasoning.
    Reasoning(String),
    /// The model's message is recorded.
    Answered {
        /// The entry of the message.
        entry: EntryId,
        /// The tokens of the request and the answer, if the provider counted them.
        usage: Option<Usage>,
    },
    /// A tool begins to run.
    CallStarted {
        /// The call's id.
        id: String,
        /// The tool's name.
        name: String,
        /// The arguments, as the model wrote them.
        arguments: String,
    },
    /// A call waits for an answer of [`Approve`](crate::approval::Approve). Its plan is recorded.
    ApprovalWanted(Box<ApprovalRequest>),
    /// A warning for the person before a call runs, for example that commands are not confined.
    Warning(String),
    /// A piece of a running tool's output. The result contains all of it.
    CallOutput {
        /// The call's id.
        id: String,
        /// The text.
        text: String,
    },
    /// A tool has finished, and its result is recorded.
    CallEnded {
        /// The call's id.
        id: String,
        /// The tool's name.
        name: String,
        /// The text of the result.
        output: String,
        /// Whether the tool failed.
        is_error: bool,
        /// How long the tool ran.
        took: Duration,
        /// The number of the message with the result, as histories show it; `None` if it is not known.
        message: Option<usize>,
    },
    /// Tool results became tombstones, to save room. The record keeps them.
    Pruned {
        /// The number of results.
        results: usize,
        /// The estimated tokens that they took.
        tokens: u64,
    },
    /// The conversation is about to be compacted, which takes one request or more.
    Compacting {
        /// The tokens of its messages, instructions and tools.
        tokens: u64,
        /// The model's window.
        window: u64,
    },
    /// The conversation was compacted: from now on the model sees a summary of the older messages. The record keeps them.
    Compacted {
        /// The tokens of the messages before.
        before: u64,
        /// The tokens now.
        after: u64,
    },
    /// An entry could not be stored. The conversation continues in memory; the text gives the reason.
    NotSaved(String),
    /// All entries that could not be stored earlier are stored now.
    Saved,
    /// Why the turn failed. Sent before its end if the caller does not get the error itself.
    Failed {
        /// The error's code, for programs.
        code: &'static str,
        /// The error, for people.
        message: String,
        /// What a person can do about it.
        hint: Option<String>,
    },
    /// The turn has ended.
    Ended {
        /// How it ended.
        ending: Ending,
        /// The tokens of its requests and answers that the provider counted.
        usage: Usage,
        /// Their cost; `None` if the model's price is not known.
        cost: Option<Dollars>,
    },
}

/// How a turn ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// The model finished its answer and made no further call.
    Done,
    /// A person or the program stopped it.
    Interrupted,
    /// A limit was reached.
    Limit(Limit),
    /// An error ended it: see [`Event::Failed`], or the error that the turn returned.
    Failed,
}

/// A limit of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// The number of requests.
    Requests(u32),
    /// The time that the turn took.
    Time(Duration),
    /// The tokens of all requests and answers. The next request would have exceeded the limit.
    Tokens {
        /// The tokens of the turn so far.
        spent: u64,
        /// The estimated tokens of the next request and its answer.
        next: u64,
        /// The limit.
        limit: u64,
    },
    /// The cost of the turn. The next request would have exceeded the limit.
    Cost {
        /// The cost of the turn so far.
        spent: Dollars,
        /// The estimated cost of the next request and its answer.
        next: Dollars,
        /// The limit.
        limit: Dollars,
    },
    /// The length of one answer. The provider cut the answer at its limit.
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
            Self::Tokens { spent, next, limit } => write!(
                f,
                "the turn took {}, and the next request would take about {next} more: the limit is {limit}",
                plural(spent, "token")
            ),
            Self::Cost { spent, next, limit } => write!(
                f,
                "the turn cost {spent}, and the next request would cost about {next} more: the limit is {limit}"
            ),
            Self::AnswerLength => f.write_str("the answer reached the requested maximum length"),
        }
    }
}
