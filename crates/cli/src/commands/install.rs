//! `rejoin convert --install`: a session file where its agent finds it, and the command that resumes it.

use std::{borrow::Cow, env, path::PathBuf};

use rejoin::{
    Choice, ConvertError, OnBroken, Session,
    engine::{Clock as _, SystemClock},
    record::{ConversationId, json::Doc},
    sessions::{FileContent, Written},
    shape::InstalledSession,
};

use super::convert;
use crate::{
    args::Destination,
    failure::Failure,
    home::{self, Existing},
    output::{self, harmless},
    places::{AGENTS, AgentPlace, NewSession},
};

/// How many ids are tried before it is given up: each is taken only if there is a copy under it already.
const ATTEMPTS: usize = 1000;

/// Where a session file belongs: the agent, and the session that the file describes.
pub struct AgentCopy {
    agent: &'static AgentPlace,
    new: NewSession,
}

impl AgentCopy {
    /// Makes a session file for an agent, under an id that the agent does not know yet.
    pub fn make(
        session: &Session,
        to: Destination,
        model: Option<&str>,
        on_broken: OnBroken,
    ) -> Result<Result<(Self, Written), ConvertError>, Failure> {
        let agent = agent(to)?;
        for attempt in 0..ATTEMPTS {
            let session = renamed(session, attempt);
            let written = match convert::make(&session, to, Choice { model, max_tokens: None }, on_broken) {
                Ok(written) => written,
                Err(error) => return Ok(Err(error)),
            };
            let new = described(file(&written.content), &session);
            if !agent.has(&new.id) {
                return Ok(Ok((Self { agent, new }, written)));
            }
        }
        let what = format!("{} has {ATTEMPTS} copies of this conversation already", agent.name);
        Err(Failure::Usage { what, hint: None })
    }

    /// Writes the file and prints the command that resumes the session.
    pub fn put(self, content: &FileContent, json: bool) -> Result<(), Failure> {
        let (Self { agent, new }, body) = (self, file(content));
        let home = agent.home().ok_or_else(|| Failure::Usage {
            what: format!("the folder of {} is not known, because there is no home folder", agent.name),
            hint: None,
        })?;
        let (place, command) = (agent.installs)(&new);
        let path = home.join(place);
        if !home.exists() {
            let home = home.display();
            output::talk(&format!("{} was not used here before: creating {home}", agent.name));
        }
        home::write_with_folders(&path, body.as_bytes(), Existing::Kept)
            .map_err(|why| Failure::unwritable(path.display(), &why))?;
        output::talk(&format!("wrote {}", output::shown(&path)));
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

/// The text of a session file.
fn file(content: &FileContent) -> &str {
    content.as_text().expect("BUG: only agents that keep sessions in files are in the table")
}

fn agent(to: Destination) -> Result<&'static AgentPlace, Failure> {
    let name = match to {
        Destination::Format(format) => format.name,
        Destination::Dialect(dialect) => dialect.name(),
    };
    AGENTS.iter().find(|agent| agent.format == name).ok_or_else(|| {
        let formats: Vec<String> = AGENTS.iter().map(|agent| format!("`--to {}`", agent.format)).collect();
        Failure::usage(
            format!("--install needs the format of an agent, which {name} is not"),
            format!("use {}", formats.join(" or ")),
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

/// What the first line of a written file says of it.
fn described(text: &str, session: &Session) -> NewSession {
    let doc = text.lines().next().and_then(|line| Doc::parse(line).ok());
    let field = |name: &str| {
        let root = doc.as_ref()?.root()?;
        let holder = root.get("payload").unwrap_or(root);
        holder.get(name)?.as_str().map(Cow::into_owned)
    };
    let began = field("timestamp").and_then(|time| time.parse().ok());
    // A folder of another machine cannot be gone to.
    let directory = session.directory().map(PathBuf::from).filter(|directory| directory.is_dir());
    let directory = directory.or_else(|| env::current_dir().ok()).unwrap_or_default();
    NewSession {
        id: field("sessionId").or_else(|| field("id")).unwrap_or_else(|| session.id.to_string()),
        began: began.unwrap_or_else(|| SystemClock.now()),
        directory: directory.canonicalize().unwrap_or(directory),
    }
}
