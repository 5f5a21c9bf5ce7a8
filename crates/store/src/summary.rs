//! The summary of a conversation that lists show, updated entry by entry.

use std::{fmt, path::PathBuf, str::FromStr};

use jiff::Timestamp;
use rejoin_record::{ConversationId, Entry, Scope, Tail};

use crate::{
    digest::{Digest, Digester, Summarize, Title, Words},
    error::StoreResult,
};

/// The state of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum SessionState {
    /// There are no messages.
    #[default]
    Empty,
    /// The user or a tool spoke last, and the model has not answered.
    WaitingForModel,
    /// Some calls have no result yet.
    WaitingForTools,
    /// A call waits for approval.
    WaitingForApproval,
    /// The user or an error stopped the turn. Every call has a result.
    Interrupted,
    /// The model spoke last, without calling tools.
    Complete,
    /// A part cannot be read. Only [`Summary::shown_state`] returns this.
    Damaged,
}

impl SessionState {
    /// Every state.
    pub const ALL: &[Self] = &[
        Self::Empty,
        Self::WaitingForModel,
        Self::WaitingForTools,
        Self::WaitingForApproval,
        Self::Interrupted,
        Self::Complete,
        Self::Damaged,
    ];

    /// The words that lists use for states ([`SessionState::word`]).
    pub const WORDS: &[&str] = &["new", "ready", "waiting", "interrupted", "approval", "damaged"];

    /// The state's name for programs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Empty => "EMPTY",
            Self::WaitingForModel => "WAITING_FOR_MODEL",
            Self::WaitingForTools => "WAITING_FOR_TOOLS",
            Self::WaitingForApproval => "WAITING_FOR_APPROVAL",
            Self::Interrupted => "INTERRUPTED",
            Self::Complete => "COMPLETE",
            Self::Damaged => "DAMAGED",
        }
    }

    /// The word that lists show. An unanswered call and a stopped turn share a word, because both can be resumed.
    pub fn word(self) -> &'static str {
        match self {
            Self::Empty => "new",
            Self::WaitingForModel => "waiting",
            Self::WaitingForTools | Self::Interrupted => "interrupted",
            Self::WaitingForApproval => "approval",
            Self::Complete => "ready",
            Self::Damaged => "damaged",
        }
    }

    /// Whether every call of the last answer has its result, so that a list of messages copied now would be complete.
    pub fn is_safe_point(self) -> bool {
        !matches!(self, Self::WaitingForTools | Self::WaitingForApproval | Self::Damaged)
    }
}

impl fmt::Display for SessionState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for SessionState {
    type Err = ();
    fn from_str(name: &str) -> Result<Self, ()> {
        Self::ALL.iter().copied().find(|state| state.as_str() == name).ok_or(())
    }
}

/// A conversation as a list shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// The conversation's id.
    pub id: ConversationId,
    /// The state, judged by the readable entries. Lists show [`Summary::shown_state`].
    pub state: SessionState,
    /// The given title, else the beginning of the first message of a person; `None` if there is no such message.
    pub title: Option<String>,
    /// Whether the title was set explicitly.
    pub renamed: bool,
    /// The provider, the directory and the origin of the conversation.
    pub about: About,
    /// Whether a part is known to be unreadable or missing. Damage since the last read may not be known yet.
    pub damaged: bool,
    /// The number of messages on the path to the head, including those that a compaction hides from a model.
    pub messages: u64,
    /// The number of entries.
    pub entries: u64,
    /// The id of the conversation that it was forked from. That conversation may have been deleted since; a fork keeps its own
    /// entries.
    pub forked_from: Option<String>,
    /// The scope that it belongs to.
    pub scope: Scope,
    /// The time of the first entry; for an imported conversation, of its first message.
    pub created: Timestamp,
    /// The time of the newest entry that counts as activity. A new title does not.
    pub updated: Timestamp,
    /// The newest entry.
    pub tail: Option<Tail>,
}

impl Summary {
    /// The summary of a conversation before any entry was read.
    pub fn new(id: ConversationId) -> Self {
        Self {
            id,
            title: None,
            renamed: false,
            about: About::default(),
            forked_from: None,
            scope: Scope::default(),
            state: SessionState::default(),
            damaged: false,
            messages: 0,
            entries: 0,
            created: Timestamp::UNIX_EPOCH,
            updated: Timestamp::UNIX_EPOCH,
            tail: None,
        }
    }

    /// The state that lists show. Damage takes precedence over all other states.
    pub fn shown_state(&self) -> SessionState {
        if self.damaged { SessionState::Damaged } else { self.state }
    }

    /// Adds one entry, without updating the state and the count of messages on the path, which depend on the whole path.
    pub fn add(&mut self, entry: &Entry, digest: Digest) {
        // A missing entry leaves a gap.
        self.damaged |= entry.envelope().seq != self.tail.map_or(0, |tail| tail.seq + 1);
        if self.entries == 0 {
            self.created = entry.envelope().timestamp;
            self.updated = self.created;
        }
        self.entries += 1;
        self.tail = Some(Tail::of(entry));
        if let Some(time) = digest.time {
            // Use the times of an import's messages, not the time of the import. A fork counts from the time of the fork, however
            // old its messages are.
            let first = self.messages == 0 && time < self.created && self.forked_from.is_none();
            if first {
                self.created = time;
                self.updated = time;
            }
            self.updated = self.updated.max(time);
        }
        // A fork of a fork also contains the older note, after its own.
        if self.forked_from.is_none() {
            self.forked_from = digest.forked_from;
        }
        if let Some(scope) = digest.scope {
            self.scope = scope;
        }
        match digest.title {
            Some(Title::Given(title)) => {
                self.title = Some(title);
                self.renamed = true;
            }
            Some(Title::FromMessage(title)) if self.title.is_none() => self.title = Some(title),
            _ => {}
        }
        self.about.update(digest.about);
        self.messages += u64::from(digest.is_message);
    }
}

/// The provider that answers in a conversation, the directory it works in, and its origin, as its header and newest context name
/// them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct About {
    /// The provider that answers. This version need not know it, because the conversation may come from elsewhere.
    pub provider: Option<String>,
    /// The provider's model.
    pub model: Option<String>,
    /// The working directory. It is a text because it may be a path on another system, so no code may open it unchecked. Lists can
    /// be limited to it ([`Filter`]).
    pub directory: Option<String>,
    /// The format that the conversation was imported from.
    pub format: Option<String>,
}

impl About {
    /// Replaces the fields that a later entry sets.
    fn update(&mut self, later: Self) {
        let Self { provider, model, directory, format } = later;
        self.provider = provider.or(self.provider.take());
        self.model = model.or(self.model.take());
        self.directory = directory.or(self.directory.take());
        self.format = format.or(self.format.take());
    }
}

/// A summary that is kept up to date, and the digester that derives its state.
pub(crate) struct Tally {
    summary: Summary,
    follows: Box<dyn Summarize>,
}

impl Tally {
    /// The summary of a conversation before any entry was read.
    pub(crate) fn new(id: ConversationId, digester: Digester) -> Self {
        Self { summary: Summary::new(id), follows: digester(None) }
    }

    /// Continues a stored summary from the digester's kept state.
    pub(crate) fn resume(summary: Summary, kept: &str, digester: Digester) -> Self {
        Self { summary, follows: digester(Some(kept)) }
    }

    /// Adds one entry. Returns its words for searches, and its time.
    pub(crate) fn add(&mut self, entry: &Entry) -> (Option<Words>, Option<Timestamp>) {
        let mut digest = self.follows.add(entry);
        let found = (digest.words.take(), digest.time);
        self.summary.add(entry, digest);
        found
    }

    /// Records whether a part cannot be read.
    pub(crate) fn note_damage(&mut self, is_damaged: bool) {
        self.summary.damaged |= is_damaged;
    }

    /// Updates the state and the count of messages. If the state cannot be derived from the kept state, the entries up to the newest one are read again.
    pub(crate) fn settle(&mut self, entries: impl FnOnce(u64) -> StoreResult<Vec<Entry>>) -> StoreResult<()> {
        if self.follows.state().is_none() {
            let newest = self.summary.tail.map_or(0, |tail| tail.seq);
            self.follows.review(&entries(newest)?);
        }
        if let Some(state) = self.follows.state() {
            self.summary.state = state;
            self.summary.messages = self.follows.messages().unwrap_or(self.summary.messages);
        }
        Ok(())
    }

    pub(crate) fn summary(&self) -> &Summary {
        &self.summary
    }

    pub(crate) fn into_summary(self) -> Summary {
        self.summary
    }

    /// The kept state from which [`Tally::resume`] continues.
    pub(crate) fn kept(&self) -> String {
        self.follows.keep()
    }
}

/// The agent of conversations that were not imported.
pub const OWN_AGENT: &str = "rejoin";

/// Selects the conversations of a list. Every condition that is set must hold; without any, all are shown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Only conversations of these folders, or of folders inside them. One folder may be listed in several spellings, for example
    /// with and without its links resolved.
    pub folders: Vec<PathBuf>,
    /// Only conversations of this agent: the format they were imported from, or [`OWN_AGENT`].
    pub agent: Option<String>,
    /// Only conversations whose [`Summary::shown_state`] has this word, one of [`SessionState::WORDS`].
    pub state: Option<String>,
}

impl Filter {
    /// Whether it shows everything.
    pub fn is_open(&self) -> bool {
        *self == Self::default()
    }

    /// Whether it shows a conversation.
    pub fn shows(&self, summary: &Summary) -> bool {
        let of_folder = self.folders.is_empty()
            || summary.about.directory.as_ref().is_some_and(|directory| {
                self.folders.iter().any(|folder| std::path::Path::new(directory).starts_with(folder))
            });
        let agent = summary.about.format.as_deref().unwrap_or(OWN_AGENT);
        of_folder
            && self.agent.as_deref().is_none_or(|wanted| wanted == agent)
            && self.state.as_deref().is_none_or(|wanted| wanted == summary.shown_state().word())
    }
}
