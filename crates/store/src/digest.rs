//! What a store is told about an entry, so that it can list and search without understanding what entries say.

use jiff::Timestamp;
use rejoin_record::{Entry, Text};

use crate::summary::SessionState;

/// Makes what follows a conversation: from its beginning, or from what [`Summarize::keep`] gave earlier.
pub type Digester = fn(kept: Option<&str>) -> Box<dyn Summarize>;

/// Follows a conversation entry by entry and tells a store what to list and to search for.
pub trait Summarize: Send {
    /// Takes the next entry, and says what there is to know about it.
    fn add(&mut self, entry: &Entry) -> Digest;

    /// Where the conversation stands. None if that cannot be told from what was kept: then [`Summarize::review`] can.
    fn state(&self) -> Option<SessionState>;

    /// Starts over with all entries of the conversation, in the order of appending.
    fn review(&mut self, entries: &[Entry]);

    /// What is needed to go on from here. A store keeps it as it is and does not look into it.
    fn keep(&self) -> String;
}

/// What looks at one entry at a time keeps no state.
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

/// What there is to know about an entry.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Digest {
    /// A title for the conversation.
    pub title: Option<Title>,
    /// The provider that the conversation goes to from here on.
    pub provider: Option<String>,
    /// The model that the conversation goes to from here on.
    pub model: Option<String>,
    /// The folder that the conversation belongs to.
    pub directory: Option<String>,
    /// The format that the conversation was imported from.
    pub format: Option<String>,
    /// The conversation that this one was forked from.
    pub forked_from: Option<String>,
    /// When it was said, if that counts for the age of the conversation.
    pub time: Option<Timestamp>,
    /// Whether it is a message.
    pub is_message: bool,
    /// What can be searched for in it.
    pub words: Option<Words>,
}

/// A title, and where it is from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Title {
    /// Somebody gave it; the newest one counts.
    Given(String),
    /// Something that was said; the first one counts, if none is given.
    Said(String),
}

/// What can be searched for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Words {
    /// Who said it.
    pub role: String,
    /// What was said.
    pub text: Text,
}
