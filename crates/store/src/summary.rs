//! What a list shows of a conversation, kept up to date entry by entry.

use std::{collections::BTreeSet, fmt, path::PathBuf, str::FromStr};

use jiff::Timestamp;
use rejoin_record::{ConversationId, Entry, Tail, content::TurnState};

use crate::digest::{Digest, Speaker, Step, Title};

/// Where a conversation stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum State {
    /// Nothing was said yet.
    #[default]
    New,
    /// The model had the last word, and asked for nothing.
    Ready,
    /// A person or a tool had the last word: the model's answer is not there.
    Waiting,
    /// A call has no result, or the turn was stopped.
    Interrupted,
    /// A call waits for a person's approval.
    Approval,
    /// A part of it cannot be read as it was stored. [`Summary::shown_state`] says so; [`Summary::state`] never does.
    Damaged,
}

impl State {
    /// Every state, in the order of the enum.
    pub const ALL: &[State] =
        &[Self::New, Self::Ready, Self::Waiting, Self::Interrupted, Self::Approval, Self::Damaged];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Ready => "ready",
            Self::Waiting => "waiting",
            Self::Interrupted => "interrupted",
            Self::Approval => "approval",
            Self::Damaged => "damaged",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for State {
    type Err = ();
    fn from_str(name: &str) -> Result<Self, ()> {
        Self::ALL.iter().copied().find(|state| state.name() == name).ok_or(())
    }
}

/// A conversation as a list shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// Its id.
    pub id: ConversationId,
    /// Its title.
    pub title: Option<String>,
    /// Whether somebody gave it that title.
    pub renamed: bool,
    /// The provider it goes to.
    pub provider: Option<String>,
    /// The model it goes to.
    pub model: Option<String>,
    /// The folder it belongs to.
    pub directory: Option<String>,
    /// The format it was imported from.
    pub format: Option<String>,
    /// The conversation that it was forked from.
    pub forked_from: Option<String>,
    /// Where it stands, judged by what can be read of it. Lists show [`Summary::shown_state`].
    pub state: State,
    /// Whether a part of it is known to be unreadable or missing. A part that was damaged since it was last read may not be
    /// known yet.
    pub damaged: bool,
    /// How many messages it has, on all branches.
    pub messages: u64,
    /// How many entries it has.
    pub entries: u64,
    /// When it was begun.
    pub created: Timestamp,
    /// When something was last said in it.
    pub updated: Timestamp,
    /// Its newest entry.
    pub tail: Option<Tail>,
    /// The calls that have no result yet.
    pub(crate) open: OpenCalls,
}

/// The ids of calls that have no result. One message may have a hundred thousand of them and their results come one by one, so
/// each result must find its call without looking at the others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct OpenCalls(BTreeSet<String>);

impl OpenCalls {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The ids with something between them, in a fixed order.
    #[cfg(feature = "sqlite")]
    pub(crate) fn join(&self, between: &str) -> String {
        let mut out = String::new();
        for id in &self.0 {
            if !out.is_empty() {
                out.push_str(between);
            }
            out.push_str(id);
        }
        out
    }
}

impl FromIterator<String> for OpenCalls {
    fn from_iter<I: IntoIterator<Item = String>>(ids: I) -> Self {
        Self(ids.into_iter().collect())
    }
}

impl Summary {
    /// A conversation of which nothing was read yet.
    #[must_use]
    pub fn new(id: ConversationId) -> Self {
        Self {
            id,
            title: None,
            renamed: false,
            provider: None,
            model: None,
            directory: None,
            format: None,
            forked_from: None,
            state: State::New,
            damaged: false,
            messages: 0,
            entries: 0,
            created: Timestamp::UNIX_EPOCH,
            updated: Timestamp::UNIX_EPOCH,
            tail: None,
            open: OpenCalls::default(),
        }
    }

    /// The state for people: a damaged conversation is that before anything else.
    #[must_use]
    pub fn shown_state(&self) -> State {
        if self.damaged { State::Damaged } else { self.state }
    }

    /// Goes on by one entry.
    pub fn add(&mut self, entry: &Entry, digest: Digest) {
        // An entry that was removed leaves a gap.
        self.damaged |= entry.envelope().seq != self.tail.map_or(0, |tail| tail.seq + 1);
        if self.entries == 0 {
            self.created = entry.envelope().timestamp;
            self.updated = self.created;
        }
        self.entries += 1;
        self.tail = Some(Tail::of(entry));
        if let Some(time) = digest.time {
            // An import's own times count, not the moment of the import.
            // A fork is as new as the fork, however old its messages are.
            let first = self.messages == 0 && time < self.created && self.forked_from.is_none();
            if first {
                self.created = time;
                self.updated = time;
            }
            self.updated = self.updated.max(time);
        }
        // A fork of a fork brings the older note along behind its own.
        if self.forked_from.is_none() {
            self.forked_from = digest.forked_from;
        }
        match digest.title {
            Some(Title::Given(title)) => {
                self.title = Some(title);
                self.renamed = true;
            }
            Some(Title::Said(title)) if self.title.is_none() => self.title = Some(title),
            _ => {}
        }
        let fields = [
            (&mut self.provider, digest.provider),
            (&mut self.model, digest.model),
            (&mut self.directory, digest.directory),
            (&mut self.format, digest.format),
        ];
        for (field, value) in fields {
            if value.is_some() {
                *field = value;
            }
        }
        self.step(digest.step);
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Nothing => {}
            Step::Message { speaker, calls, results } => {
                self.messages += 1;
                for call in &results {
                    self.open.0.remove(call);
                }
                self.open.0.extend(calls);
                self.state = match speaker {
                    Speaker::System => self.state,
                    _ if !self.open.is_empty() => State::Interrupted,
                    Speaker::Assistant => State::Ready,
                    Speaker::User | Speaker::Tool => State::Waiting,
                };
            }
            Step::Turn(TurnState::CallAwaitingApproval) => self.state = State::Approval,
            Step::Turn(TurnState::Interrupted) => self.state = State::Interrupted,
            Step::Turn(TurnState::CallRunning) if !self.open.is_empty() => self.state = State::Interrupted,
            Step::Turn(_) => {}
            Step::Closed | Step::Moved => {
                self.open.0.clear();
                if matches!(self.state, State::Interrupted | State::Approval) {
                    self.state = State::Waiting;
                }
            }
        }
    }
}

/// The agent that a conversation belongs to if it was not imported.
pub const OWN_AGENT: &str = "rejoin";

/// Which conversations a list shows. Every condition that is set must hold; without any, all are shown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Conversations of these folders, or of folders in them. Several spellings of one folder may be given.
    pub folders: Vec<PathBuf>,
    /// Conversations of this agent: the format they were imported from, or [`OWN_AGENT`].
    pub agent: Option<String>,
    /// Conversations whose [`Summary::shown_state`] is this one.
    pub state: Option<State>,
}

impl Filter {
    /// Whether it shows everything.
    #[must_use]
    pub fn is_open(&self) -> bool {
        *self == Self::default()
    }

    /// Whether it shows a conversation.
    #[must_use]
    pub fn shows(&self, summary: &Summary) -> bool {
        let of_folder = self.folders.is_empty()
            || summary.directory.as_ref().is_some_and(|directory| {
                self.folders.iter().any(|folder| std::path::Path::new(directory).starts_with(folder))
            });
        let agent = summary.format.as_deref().unwrap_or(OWN_AGENT);
        of_folder
            && self.agent.as_deref().is_none_or(|wanted| wanted == agent)
            && self.state.is_none_or(|wanted| wanted == summary.shown_state())
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    /// 100,000 calls of one message are answered one by one. Looking at every open call for each result takes minutes.
    #[test]
    fn results_find_their_calls_without_looking_at_the_others() {
        let began = Instant::now();
        let mut summary = Summary::new(ConversationId::from_random(1));
        let id = |number: usize| format!("call_{number}");
        let message = |speaker, calls, results| Step::Message { speaker, calls, results };
        summary.step(message(Speaker::Assistant, (0..100_000).map(id).collect(), Vec::new()));
        for number in 0..99_999 {
            summary.step(message(Speaker::Tool, Vec::new(), vec![id(number)]));
        }
        assert_eq!((summary.state, summary.open.join(",")), (State::Interrupted, id(99_999)));
        summary.step(message(Speaker::Tool, Vec::new(), vec![id(99_999)]));
        assert_eq!((summary.state, summary.messages), (State::Waiting, 100_001));
        assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    }
}
