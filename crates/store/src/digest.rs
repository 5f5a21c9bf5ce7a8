//! What a store learns about an entry, so that it can list and search without understanding content.

use jiff::Timestamp;
use rejoin_record::{Entry, Scope, Text};

use crate::{
    report::ReportRows,
    summary::{About, SessionState},
};

/// Creates a summarizer for a conversation: from its beginning, or from what [`Summarize::keep`] returned earlier.
pub type Digester = fn(kept: Option<&str>) -> Box<dyn Summarize>;

/// Follows a conversation entry by entry and tells a store what to list and to search for.
pub trait Summarize: Send {
    /// Takes the next entry, and returns what is to be known about it.
    fn add(&mut self, entry: &Entry) -> Digest;

    /// The state of the conversation. None if it cannot be told from what was kept: then [`Summarize::review`] has to be called.
    fn state(&self) -> Option<SessionState>;

    /// Starts over with all entries of the conversation, in the order of appending.
    fn review(&mut self, entries: &[Entry]);

    /// The rows for reports that follow from entries: from all of a conversation, or from its end. `key` is the key of the hashes of
    /// arguments.
    fn report(&self, entries: &[Entry], key: &[u8; 32]) -> ReportRows {
        let _ = (entries, key);
        ReportRows::default()
    }

    /// What is needed to continue from here. A store keeps it as it is and does not look into it.
    fn keep(&self) -> String;
}

/// A function of single entries is a summarizer without a state.
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

/// What one entry adds to the [`Summary`](crate::Summary) of its conversation, and to the index.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Digest {
    /// A title for the conversation.
    pub title: Option<Title>,
    /// Who answers from here on, where, and where the conversation comes from. What it names replaces what the summary had.
    pub about: About,
    /// The id of the conversation that this one was forked from. The first one counts: a fork of a fork brings the older note
    /// along.
    pub forked_from: Option<String>,
    /// Who the conversation belongs to from here on, if the entry says so.
    pub scope: Option<Scope>,
    /// The time of the entry, if it counts for the age of the conversation.
    pub time: Option<Timestamp>,
    /// Whether the entry is a message.
    pub is_message: bool,
    /// The text that a search looks through.
    pub words: Option<Words>,
}

/// A title, and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Title {
    /// A title that a person or a program gave; the newest one counts.
    Given(String),
    /// The beginning of a message; the first one counts, if no title was given.
    Said(String),
}

/// The text of an entry, for a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Words {
    /// The role of the speaker, such as `user`, or the kind of the text, such as `title`.
    pub role: String,
    /// The text itself.
    pub text: Text,
}
