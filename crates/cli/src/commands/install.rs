//! `rejoin convert --install` and `rejoin move`: a session where its agent finds it, and the command that resumes it.

use std::{
    borrow::Cow,
    env,
    path::{Path, PathBuf},
};

use rejoin::{
    Choice, ConvertError, OnBroken, Session,
    engine::{Clock as _, SystemClock},
    record::{ConversationId, json::Doc},
    sessions::{FileContent, Rows, RowsError, Written},
    shape::InstalledSession,
};

use super::convert;
use crate::{
    args::Destination,
    failure::Failure,
    home::{self, Existing},
    output::{self, harmless},
    places::{AGENTS, AgentPlace, Installed, Installs, NewSession},
};

/// How many ids are tried before it is given up: each is taken only if there is a copy under it already.
const ATTEMPTS: usize = 1000;

/// Where a session belongs: the agent, and what is put there.
pub struct AgentCopy {
    agent: &'static AgentPlace,
    home: PathBuf,
    new: NewSession,
    installed: Installed,
}

impl AgentCopy {
    /// Makes a session for an agent, under an id that the agent does not know yet.
    pub fn make(
        session: &Session,
        to: Destination,
        model: Option<&str>,
        on_broken: OnBroken,
    ) -> Result<Result<(Self, Written), ConvertError>, Failure> {
        let (agent, installs) = agent(to)?;
        let home = agent.home().ok_or_else(|| Failure::Usage {
            what: format!("the folder of {} is not known, because there is no home folder", agent.name),
            hint: None,
        })?;
        for attempt in 0..ATTEMPTS {
            let session = renamed(session, attempt);
            let written = match convert::make(&session, to, Choice { model, max_tokens: None }, on_broken) {
                Ok(written) => written,
                Err(error) => return Ok(Err(error)),
            };
            let new = described(&written.content, &session);
            let installed = installs(&new, &home);
            let is_there = match &written.content {
                FileContent::Text(_) => agent.has(&new.id) || installed.path.exists(),
                FileContent::Rows(rows) => rows.are_in(&installed.path),
            };
            if !is_there {
                return Ok(Ok((Self { agent, home, new, installed }, written)));
            }
        }
        let what = format!("{} has {ATTEMPTS} copies of this conversation already", agent.name);
        Err(Failure::Usage { what, hint: None })
    }

    /// Writes the session and prints the command that resumes it.
    pub fn put(self, content: &FileContent, json: bool) -> Result<(), Failure> {
        let Self { agent, home, new, installed: Installed { path, command } } = self;
        if !home.exists() {
            let home = home.display();
            output::talk(&format!("{} was not used here before: creating {home}", agent.name));
        }
        match content {
            FileContent::Text(text) => {
                home::write_with_folders(&path, text.as_bytes(), Existing::Kept)
                    .map_err(|why| Failure::unwritable(path.display(), &why))?;
                output::talk(&format!("wrote {}", output::shown(&path)));
            }
            FileContent::Rows(rows) => {
                add(rows, &path).map_err(|why| refused(agent, &path, &why))?;
                output::talk(&format!("added to {}", output::shown(&path)));
            }
        }
        if !json {
            return output::data(&harmless(&command));
        }
        let NewSession { id, directory, .. } = &new;
        let AgentPlace { name, format, .. } = *agent;
        let installed =
            InstalledSession { agent: name, format, id, path: &path, directory, command: &command };
        output::json_data(&installed.to_json())
    }
}

/// Adds a conversation to the database of an agent, which may not exist yet.
fn add(rows: &Rows, path: &Path) -> Result<(), RowsError> {
    if path.exists() {
        return rows.add_to(path);
    }
    home::make_folders_of(path)?;
    rows.save_new(path)
}

fn refused(agent: &AgentPlace, path: &Path, why: &RowsError) -> Failure {
    let name = agent.name;
    let hint = match why {
        RowsError::OlderSchema { .. } => {
            format!("start {name} once, so that it updates its database, and try again")
        }
        RowsError::NewerSchema { .. } => {
            format!(
                "this release of rejoin does not know the database of this {name}; `-o FILE` writes a new one"
            )
        }
        RowsError::Locked => format!("end {name}, or try again when it is done"),
        _ => String::from("`-o FILE` writes a new database instead"),
    };
    Failure::failed(format!("nothing was added to {}: {why}", output::shown(path)), hint)
}

fn agent(to: Destination) -> Result<(&'static AgentPlace, Installs), Failure> {
    let name = match to {
        Destination::Format(format) => format.name,
        Destination::Dialect(dialect) => dialect.name(),
    };
    AgentPlace::of(name).and_then(|agent| Some((agent, agent.installs?))).ok_or_else(|| {
        let installed = AGENTS.iter().filter(|agent| agent.installs.is_some());
        let formats: Vec<String> = installed.map(|agent| format!("`--to {}`", agent.format)).collect();
        Failure::usage(
            format!("--install needs the format of an agent that takes sessions, which {name} is not"),
            format!("use one of {}", formats.join(", ")),
        )
    })
}

/// The session under another id for each attempt: the ids in the file derive from it.
fn renamed(session: &Session, attempt: usize) -> Cow<'_, Session> {
    if attempt == 0 {
        return Cow::Borrowed(session);
    }
    let id = ConversationId::derive("copy", &format!("{} {attempt}", session.id));
    Cow::Owned(Session { id, ..session.clone() })
}

/// What a written session says of itself: in the first line of its file or, if that is one document, at its beginning.
fn described(content: &FileContent, session: &Session) -> NewSession {
    // A folder of another machine cannot be gone to.
    let directory = session.directory().map(PathBuf::from).filter(|directory| directory.is_dir());
    let directory = directory.or_else(|| env::current_dir().ok()).unwrap_or_default();
    let directory = directory.canonicalize().unwrap_or(directory);
    let text = match content {
        FileContent::Text(text) => text,
        FileContent::Rows(rows) => {
            return NewSession { id: rows.id().to_owned(), began: SystemClock.now(), directory };
        }
    };
    let first = text.lines().next().unwrap_or_default();
    let doc = Doc::parse(first).or_else(|_| Doc::parse(text)).ok();
    let field = |name: &str| {
        let root = doc.as_ref()?.root()?;
        let item = || root.get("item")?.get("data");
        let holder = root.get("payload").or_else(|| root.get("info")).or_else(item).unwrap_or(root);
        holder.get(name).or_else(|| root.get(name))?.as_str().map(Cow::into_owned)
    };
    let began = field("timestamp").or_else(|| field("startTime")).and_then(|time| time.parse().ok());
    NewSession {
        id: field("sessionId").or_else(|| field("id")).unwrap_or_else(|| session.id.to_string()),
        began: began.unwrap_or_else(|| SystemClock.now()),
        directory,
    }
}
