//! The facts about an entry with which a store can list and search without understanding content.

use jiff::Timestamp;
use rejoin_record::{Entry, Scope, Text};

use crate::{
    report::ReportRows,
    summary::{About, SessionState},
};

/// Creates a summarizer for a conversation: for its beginning, or continuing from the state that [`Summarize::keep`] returned.
pub type Digester = fn(kept: Option<&str>) -> Box<dyn Summarize>;

/// Reads a conversation entry by entry, and tells a store the facts for lists and searches.
pub trait Summarize: Send {
    /// Takes the next entry, and returns the facts about it.
    fn add(&mut self, entry: &Entry) -> Digest;

    /// The state of the conversation. `None` if the kept state is not enough: then the caller must call [`Summarize::review`].
    fn state(&self) -> Option<SessionState>;

    /// The number of messages on the path to the head, as far as the state is known. `None` if it counts all messages.
    fn messages(&self) -> Option<u64> {
        None
    }

    /// Starts over with all entries of the conversation, in the order of appending.
    fn review(&mut self, entries: &[Entry]);

    /// The report rows that are derived from entries, which are a whole conversation or its end. `key` is the key for the hashes of
    /// arguments.
    fn report(&self, entries: &[Entry], key: &[u8; 32]) -> ReportRows {
        let _ = (entries, key);
        ReportRows::default()
    }

    /// The state with which a new summarizer can continue. A store keeps it unchanged and does not look into it.
    fn keep(&self) -> String;
}

/// A function of single entries is a summarizer without state.
impl<F: Fn(&Entry) -> Digest + Send> Summarize for F {
    fn add(&mut self, entry: &Entry) -> Digest {
        self(entry)
    }

    fn state(&self) -> Option<SessionState> {
        Some(SessionState::default())
    }

    fn review(&mut self, _: &[Entry]) {}

    fn keep(&self) -> String {
        String::new()
    }
}

/// The facts that one entry adds to the [`Summary`](crate::Summary) of its conversation, and to the index.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Digest {
    /// A title for the conversation.
    pub title: Option<Title>,
    /// The provider, its address and the origin of the conversation from here on. Fields that are set replace those of the summary.
    pub about: About,
    /// The id of the conversation that this one was forked from. The first one counts, because a fork of a fork also contains the
    /// older note.
    pub forked_from: Option<String>,
    /// The owner's scope from here on, if the entry sets it.
    pub scope: Option<Scope>,
    /// The time of the entry; `None` if it does not count as activity.
    pub time: Option<Timestamp>,
    /// Whether the entry is a message.
    pub is_message: bool,
    /// The text for searches; `None` if the entry has none.
    pub words: Option<Words>,
}

/// A title, and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Title {
    /// A title that a person or a program set. The newest one counts.
    Given(String),
    /// The beginning of a message. The first one counts, if no title was set.
    FromMessage(String),
}

/// The text of an entry, for searches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Words {
    /// The role of the speaker, such as `user`, or the kind of the text, such as `title`.
    pub role: String,
    /// The text itself.
    pub text: Text,
}
