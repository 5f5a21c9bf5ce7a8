//! What a store is told about an entry, so that it can list and search without understanding what entries say.

use jiff::Timestamp;
use rejoin_record::{Entry, content::TurnState};

/// Says what there is to know about an entry.
pub type Digester = fn(&Entry) -> Digest;

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
    /// What it does to the state of the conversation.
    pub step: Step,
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

/// Who speaks, as far as it matters for the state of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speaker {
    /// Instructions: they ask for nothing.
    System,
    /// A person, or the program that speaks for one.
    User,
    /// The model.
    Assistant,
    /// A tool.
    Tool,
}

/// What an entry does to the state of a conversation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Step {
    /// Nothing.
    #[default]
    Nothing,
    /// Somebody spoke.
    Message {
        /// Who.
        speaker: Speaker,
        /// Ids of the calls in it.
        calls: Vec<String>,
        /// Ids of the calls that it answers.
        results: Vec<String>,
    },
    /// A turn moved on.
    Turn(TurnState),
    /// Every open call was decided about.
    Closed,
    /// The head moved: what was open before is open no longer.
    Moved,
}

/// What can be searched for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Words {
    /// Who said it.
    pub role: String,
    /// What was said.
    pub text: String,
}
