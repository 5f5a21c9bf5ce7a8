//! `doctor`: checks many session files at once, and predicts what happens when its own agent resumes each session. It changes
//! nothing and opens no file: the caller finds the files and reads them.
//!
//! ```
//! use rejoin::{Input, doctor::{Diagnosis, FileState}, sessions};
//!
//! let chat = br#"{"messages":[{"role":"user","content":"Hello."},{"role":"assistant","content":"Hello."}]}"#;
//! let input = Input::new("chat.json", chat)?;
//! let diagnosis = Diagnosis::of(&["chat.json"], |path| FileState::of((*path).into(), "chat", sessions::read(&input, None)), || {});
//! assert_eq!(diagnosis.total().sessions, 1);
//! assert!(diagnosis.is_sound());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::{
    collections::BTreeMap,
    fmt::Display,
    path::PathBuf,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use rejoin_formats::{Dialect, Session, sessions::jsonl};
use rejoin_record::json::Object;
use rejoin_view::{Finding, Rule};

use crate::check;

/// What happens when its own agent resumes a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Health {
    /// Nothing needs repair.
    Sound,
    /// It is broken, and its agent repairs it before sending it.
    MendedByItsAgent,
    /// It is broken, and it is not known what its agent does about that, or it depends on the program or version that resumes it.
    Broken,
    /// The provider refuses the next request.
    Refused,
    /// The agent does not open it.
    CannotBeOpened,
}

impl Health {
    /// Every value, from the best to the worst.
    pub const ALL: [Self; 5] =
        [Self::Sound, Self::MendedByItsAgent, Self::Broken, Self::Refused, Self::CannotBeOpened];

    /// The name in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Sound => "sound",
            Self::MendedByItsAgent => "mended_by_its_agent",
            Self::Broken => "agent_unknown",
            Self::Refused => "refused",
            Self::CannotBeOpened => "cannot_be_opened",
        }
    }

    /// Whether the agent can continue the session. `None` if that is not known.
    #[must_use]
    pub fn is_resumable(self) -> Option<bool> {
        match self {
            Self::Sound | Self::MendedByItsAgent => Some(true),
            Self::Broken => None,
            Self::Refused | Self::CannotBeOpened => Some(false),
        }
    }
}

/// One session that was examined.
#[derive(Debug)]
pub struct ExaminedSession {
    /// The session's id.
    pub id: String,
    /// The first line of its first message.
    pub title: String,
    /// The format of the file.
    pub format: &'static str,
    /// How many messages a model would see.
    pub messages: usize,
    /// What happens when its agent resumes it.
    pub health: Health,
    /// The number of faults for each rule.
    pub problems: BTreeMap<Rule, usize>,
    /// The dialect of the agent's next request; `None` if no provider's checker was asked.
    pub dialect: Option<Dialect>,
    /// The provider's error, if it would refuse the next request.
    pub answer: Option<String>,
}

impl ExaminedSession {
    /// Examines a session.
    #[must_use]
    pub fn of(session: &Session) -> Self {
        let mut problems: BTreeMap<Rule, usize> = BTreeMap::new();
        for finding in
            check::history(session, None).findings.iter().filter(|finding| Finding::is_problem(finding))
        {
            *problems.entry(finding.rule).or_default() += 1;
        }
        let resumed = check::resumed(session);
        let refusal = resumed.as_ref().and_then(|judged| judged.refusals.first());
        let health = if problems.contains_key(&Rule::CannotBeOpened) {
            Health::CannotBeOpened
        } else if refusal.is_some() {
            Health::Refused
        } else if problems.is_empty() {
            Health::Sound
        } else if resumed.is_none() && session.format != jsonl::FORMAT {
            Health::Broken
        } else {
            Health::MendedByItsAgent
        };
        let provider =
            resumed.as_ref().map_or("The provider", |judged| check::checker(judged.dialect).provider);
        let answer = refusal
            .filter(|_| health == Health::Refused)
            .map(|refusal| format!("{provider} would answer 400: {}", refusal.violation.message));
        Self {
            id: session.id.to_string(),
            title: session.headline(),
            format: session.format,
            messages: session.messages.len(),
            health,
            problems,
            dialect: resumed.as_ref().map(|judged| judged.dialect),
            answer,
        }
    }

    fn to_json(&self, about: Object) -> String {
        let problems = self.problems.iter();
        let problems =
            problems.fold(Object::new(), |object, (rule, count)| object.count(rule.name(), *count));
        about
            .text("id", &self.id)
            .text("title", &self.title)
            .count("messages", self.messages)
            .raw(
                "resumable",
                self.health.is_resumable().map_or("null", |is| if is { "true" } else { "false" }),
            )
            .text("state", self.health.name())
            .text_or_null("for", self.dialect)
            .text_if("answer", self.answer.as_ref())
            .object("problems", problems)
            .finish()
    }
}

/// One file that was examined.
#[derive(Debug)]
pub struct FileState {
    /// The file.
    pub path: PathBuf,
    /// The agent that wrote it, under the name that people use.
    pub agent: &'static str,
    /// Its conversations, or the reason why nothing could be read although it should be a session.
    pub sessions: Result<Vec<ExaminedSession>, String>,
}

impl FileState {
    /// Examines what was read from a file.
    pub fn of(path: PathBuf, agent: &'static str, read: Result<Vec<Session>, impl Display>) -> Option<Self> {
        let sessions = read.map(|sessions| sessions.iter().map(ExaminedSession::of).collect());
        Some(Self { path, agent, sessions: sessions.map_err(|why| why.to_string()) })
    }
}

/// The number of one agent's sessions, by their health.
#[derive(Debug, Default)]
pub struct Counts {
    /// All sessions. A file that cannot be read counts as one.
    pub sessions: usize,
    /// Files from which nothing can be read.
    pub unreadable: usize,
    by_health: BTreeMap<Health, usize>,
}

impl Counts {
    /// The number of sessions with this health.
    #[must_use]
    pub fn of(&self, health: Health) -> usize {
        self.by_health.get(&health).copied().unwrap_or_default()
    }

    fn add(&mut self, file: &FileState) {
        match &file.sessions {
            Err(_) => {
                self.sessions += 1;
                self.unreadable += 1;
            }
            Ok(sessions) => {
                self.sessions += sessions.len();
                sessions.iter().for_each(|session| *self.by_health.entry(session.health).or_default() += 1);
            }
        }
    }

    fn with_sums(&self, object: Object) -> Object {
        let broken = self.sessions - self.unreadable - self.of(Health::Sound);
        let object = object.count("sessions", self.sessions).count("broken", broken);
        let object = object.count("unreadable", self.unreadable);
        Health::ALL.into_iter().fold(object, |object, health| object.count(health.name(), self.of(health)))
    }
}

/// The results for many files.
#[derive(Debug)]
pub struct Diagnosis {
    /// The files that are sessions or should be, in the given order.
    pub files: Vec<FileState>,
}

impl Diagnosis {
    /// Examines files on all cores. `examine` reads one, and returns `None` for a file that is not a session; `done` is called
    /// after each.
    pub fn of<C: Sync>(
        candidates: &[C],
        examine: impl Fn(&C) -> Option<FileState> + Sync,
        done: impl Fn() + Sync,
    ) -> Self {
        let cores = thread::available_parallelism().map_or(1, usize::from).min(candidates.len().max(1));
        let next = AtomicUsize::new(0);
        let work = || {
            let mut mine = Vec::new();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let Some(candidate) = candidates.get(number) else { return mine };
                mine.extend(examine(candidate).map(|file| (number, file)));
                done();
            }
        };
        let mut files: Vec<(usize, FileState)> = thread::scope(|scope| {
            let workers: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
            workers.into_iter().flat_map(|worker| worker.join().expect("BUG: a check panicked")).collect()
        });
        files.sort_by_key(|(number, _)| *number);
        Self { files: files.into_iter().map(|(_, file)| file).collect() }
    }

    /// Whether every session is sound, and every file readable.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let sound =
            |sessions: &Vec<ExaminedSession>| sessions.iter().all(|session| session.health == Health::Sound);
        self.files.iter().all(|file| file.sessions.as_ref().is_ok_and(sound))
    }

    /// The counts of each agent.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<&str, Counts> {
        let mut all: BTreeMap<&str, Counts> = BTreeMap::new();
        self.files.iter().for_each(|file| all.entry(file.agent).or_default().add(file));
        all
    }

    /// The counts of all agents together.
    #[must_use]
    pub fn total(&self) -> Counts {
        let mut total = Counts::default();
        self.files.iter().for_each(|file| total.add(file));
        total
    }

    /// As a JSON object.
    #[must_use]
    pub fn to_json(&self) -> String {
        let counts = self.counts();
        let agents = counts
            .iter()
            .map(|(agent, counts)| counts.with_sums(Object::new().text("agent", agent)).finish());
        let found = self.files.iter().flat_map(|file| {
            let about = Object::new().text("path", file.path.display()).text("agent", file.agent);
            match &file.sessions {
                Ok(sessions) => sessions.iter().map(|session| session.to_json(about.clone())).collect(),
                Err(why) => vec![about.text("error", why).flag("resumable", false).finish()],
            }
        });
        self.total().with_sums(Object::new()).list("agents", agents).list("found", found).finish()
    }
}
