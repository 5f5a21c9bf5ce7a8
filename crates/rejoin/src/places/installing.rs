//! Gives a session to an agent: the file or rows in the agent's own place, and the command that resumes it.

use std::{
    borrow::Cow,
    ffi::OsStr,
    fs, io,
    path::{Path, PathBuf},
};

use rejoin_formats::{
    ConvertError, Session,
    sessions::{self, FileContent, Rows, RowsError, Writing, Written},
};
use rejoin_record::{ConversationId, Timestamp, json::Doc};
use rejoin_store::files::PrivateFolder;
use rejoin_view::OnBroken;
use sha2::{Digest as _, Sha256};

use super::{AgentPlace, Machine};

/// How many ids are tried. An id is taken only if a copy already has it.
const ATTEMPTS: usize = 1000;

/// Returns the place of a session, below the agent's main folder.
pub type Installs = fn(&NewSession, &Path) -> SessionPlacement;

/// A session to be installed for an agent.
#[derive(Debug)]
pub struct NewSession {
    /// The agent's id for it.
    pub id: String,
    /// When it began.
    pub began: Timestamp,
    /// The session's working folder.
    pub directory: PathBuf,
}

impl NewSession {
    fn directory(&self) -> Cow<'_, str> {
        self.directory.to_string_lossy()
    }

    /// A command that must run in the session's folder.
    fn there(&self, command: &str) -> String {
        format!("cd {} && {command}", quoted(&self.directory()))
    }
}

/// The place of a session, and the command that resumes it.
#[derive(Debug)]
pub struct SessionPlacement {
    /// The file, or the database to which rows are added.
    pub path: PathBuf,
    /// The command that resumes the session, for a shell.
    pub command: String,
}

/// The options for making a session for an agent.
#[derive(Debug, Clone, Copy)]
pub struct InstallOptions<'o> {
    /// The model that the session names; `None` for its own.
    pub model: Option<&'o str>,
    /// How broken states are repaired.
    pub on_broken: OnBroken,
    /// The current time, for sessions without times.
    pub now: Timestamp,
    /// The working folder for sessions whose own folder is not on this machine.
    pub directory: &'o Path,
    /// The machine, with the places of agents' sessions.
    pub machine: &'o Machine,
}

/// Why a session was not given to an agent.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// rejoin cannot give sessions to that agent.
    #[error("rejoin cannot install sessions for {0}")]
    TakesNone(&'static str),
    /// The agent keeps its sessions in the home folder, and there is no home folder.
    #[error("the folder of {0} is not known, because there is no home folder")]
    NoHome(&'static str),
    /// There is no free id left.
    #[error("{0} has {ATTEMPTS} copies of this conversation already")]
    TooManyCopies(&'static str),
    /// The session cannot be written in the agent's format.
    #[error(transparent)]
    Convert(#[from] ConvertError),
    /// The file cannot be written.
    #[error("{0}")]
    Write(#[from] io::Error),
    /// The agent's database does not accept the rows.
    #[error(transparent)]
    Rows(#[from] RowsError),
}

/// A session that was made for an agent but not yet written.
#[derive(Debug)]
pub struct AgentCopy {
    /// The agent.
    pub agent: &'static AgentPlace,
    /// Its main folder, which need not exist.
    pub home: PathBuf,
    /// The session in the form that the agent will see.
    pub new: NewSession,
    /// Its place.
    pub installed: SessionPlacement,
}

impl AgentCopy {
    /// Makes a session for an agent, under an id that the agent does not use yet. Nothing is written.
    ///
    /// # Errors
    /// If the agent takes no sessions, its folder is not known, or the session cannot be written in its format.
    pub fn make(
        session: &Session,
        agent: &'static AgentPlace,
        options: &InstallOptions<'_>,
    ) -> Result<(Self, Written), InstallError> {
        let format = sessions::named(agent.format).filter(|format| format.write.is_some());
        let (Some(installs), Some(format)) = (agent.installs, format) else {
            return Err(InstallError::TakesNone(agent.name));
        };
        let home = agent.home(options.machine).ok_or(InstallError::NoHome(agent.name))?;
        let directory = options.directory.to_string_lossy();
        let writing = Writing { model: options.model, now: options.now, directory: &directory };
        for attempt in 0..ATTEMPTS {
            let session = renamed(session, attempt);
            let written = sessions::write(&session, format, options.on_broken, &writing)?;
            let new = described(&written.content, &session, options);
            let installed = installs(&new, &home);
            let is_there = match &written.content {
                FileContent::Text(_) => agent.has(&new.id, options.machine) || installed.path.exists(),
                FileContent::Rows(rows) => rows.are_in(&installed.path),
            };
            if !is_there {
                return Ok((Self { agent, home, new, installed }, written));
            }
        }
        Err(InstallError::TooManyCopies(agent.name))
    }

    /// Writes the session to the place where its agent finds it. An existing file is never overwritten.
    ///
    /// # Errors
    /// If it cannot be written. In that case nothing was changed.
    pub fn put(&self, content: &FileContent) -> Result<(), InstallError> {
        let path = &self.installed.path;
        match content {
            FileContent::Text(text) => {
                let name = path.file_name().and_then(OsStr::to_str).ok_or(io::ErrorKind::InvalidFilename);
                let name = name.map_err(io::Error::from)?;
                let folder = folder_of(path);
                folder.make()?;
                Ok(folder.create(name, text.as_bytes())?)
            }
            FileContent::Rows(rows) => Ok(add(rows, path)?),
        }
    }
}

fn folder_of(path: &Path) -> PrivateFolder {
    PrivateFolder::new(path.parent().unwrap_or(Path::new("")))
}

/// Adds a conversation to the database of an agent, which is created if it does not exist.
fn add(rows: &Rows, path: &Path) -> Result<(), RowsError> {
    if path.exists() {
        return rows.add_to(path);
    }
    folder_of(path).make()?;
    rows.save_new(path)
}

/// The session under a different id for each attempt, because the ids in the file derive from it.
fn renamed(session: &Session, attempt: usize) -> Cow<'_, Session> {
    if attempt == 0 {
        return Cow::Borrowed(session);
    }
    let id = ConversationId::derive("copy", &format!("{} {attempt}", session.id));
    Cow::Owned(Session { id, ..session.clone() })
}

/// The session's id, time and folder, read from the first line of its file or, if the file is one document, from its beginning.
fn described(content: &FileContent, session: &Session, options: &InstallOptions<'_>) -> NewSession {
    // A folder of another machine does not exist here, so use the given one.
    let directory = session.directory().map(PathBuf::from).filter(|directory| directory.is_dir());
    let directory = directory.unwrap_or_else(|| options.directory.to_owned());
    let directory = directory.canonicalize().unwrap_or(directory);
    let text = match content {
        FileContent::Text(text) => text,
        FileContent::Rows(rows) => {
            return NewSession { id: rows.id().to_owned(), began: options.now, directory };
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
        began: began.unwrap_or(options.now),
        directory,
    }
}

pub fn codex(new: &NewSession, home: &Path) -> SessionPlacement {
    // Codex lists only sessions in a folder of their day.
    let place = new.began.strftime("sessions/%Y/%m/%d/rollout-%Y-%m-%dT%H-%M-%S").to_string();
    let path = home.join(format!("{place}-{}.jsonl", new.id));
    SessionPlacement { path, command: format!("codex resume {}", new.id) }
}

pub fn claude_code(new: &NewSession, home: &Path) -> SessionPlacement {
    let project = project_name(&new.directory());
    let path = home.join(format!("projects/{project}/{}.jsonl", new.id));
    SessionPlacement { path, command: new.there(&format!("claude --resume {}", new.id)) }
}

pub fn cody(new: &NewSession, home: &Path) -> SessionPlacement {
    let path = home.join(format!("conversations/{}.jsonl", new.id));
    SessionPlacement { path, command: format!("cody resume {}", new.id) }
}

pub fn gemini_cli(new: &NewSession, home: &Path) -> SessionPlacement {
    let directory = new.directory();
    // Gemini CLI has short names for folders that it knows; it also looks under the hash of the path.
    let project = registered(home, &directory).unwrap_or_else(|| {
        Sha256::digest(directory.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
    });
    let time = new.began.strftime("%Y-%m-%dT%H-%M").to_string();
    let short: String = new.id.chars().take(8).collect();
    let path = home.join(format!("tmp/{project}/chats/session-{time}-{short}.jsonl"));
    SessionPlacement { path, command: new.there(&format!("gemini --resume {}", new.id)) }
}

pub fn pi(new: &NewSession, home: &Path) -> SessionPlacement {
    let directory = new.directory();
    let plain = directory.strip_prefix(['/', '\\']).unwrap_or(&directory).replace(['/', '\\', ':'], "-");
    let time = new.began.strftime("%Y-%m-%dT%H-%M-%S-%3fZ").to_string();
    let path = home.join(format!("sessions/--{plain}--/{time}_{}.jsonl", new.id));
    let command = new.there(&format!("pi --session {}", quoted(&path.to_string_lossy())));
    SessionPlacement { path, command }
}

pub fn opencode(new: &NewSession, home: &Path) -> SessionPlacement {
    // opencode keeps its sessions in a database and imports others itself.
    let path = home.join(format!("imported/{}.json", new.id));
    let file = quoted(&path.to_string_lossy());
    let command = new.there(&format!("opencode import {file} && opencode --session {}", new.id));
    SessionPlacement { path, command }
}

/// These three agents keep all conversations in one database.
pub fn xzatoma(new: &NewSession, home: &Path) -> SessionPlacement {
    // The variable names the file itself.
    let path = if home.extension().is_some() { home.to_owned() } else { home.join("history.db") };
    SessionPlacement { path, command: format!("xzatoma chat --resume {}", new.id) }
}

pub fn goose(new: &NewSession, home: &Path) -> SessionPlacement {
    let path = home.join("sessions/sessions.db");
    SessionPlacement { path, command: new.there(&format!("goose session --resume --session-id {}", new.id)) }
}

pub fn llm(new: &NewSession, home: &Path) -> SessionPlacement {
    SessionPlacement { path: home.join("logs.db"), command: format!("llm chat --cid {}", new.id) }
}

/// The short name that Gemini CLI uses for a folder.
fn registered(home: &Path, directory: &str) -> Option<String> {
    let text = fs::read_to_string(home.join("projects.json")).ok()?;
    let doc = Doc::parse(&text).ok()?;
    let name = doc.root()?.get("projects")?.get(directory)?.as_str()?.into_owned();
    // The name becomes part of a path, so accept only safe ones.
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
    (!name.starts_with('.') && !name.is_empty() && name.chars().all(plain)).then_some(name)
}

/// The name that Claude Code gives the folder of a project: its path, with a dash for everything except letters and digits. Claude
/// Code shortens longer names by other rules, but finds a session by its id in any folder.
fn project_name(directory: &str) -> String {
    const LONGEST: usize = 200;
    let legal = |unit: u16| match u8::try_from(unit) {
        Ok(byte) if byte.is_ascii_alphanumeric() => char::from(byte),
        _ => '-',
    };
    directory.encode_utf16().map(legal).take(LONGEST).collect()
}

/// A word, quoted if needed, so that a shell does not change it.
#[must_use]
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./:=@%+,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn projects_are_named_as_claude_code_names_them() {
        assert_eq!(project_name("/home/me/my_app.v2"), "-home-me-my-app-v2");
        assert_eq!(project_name("/a/é𝄞"), "-a----");
        assert_eq!(project_name(&"x".repeat(300)).len(), 200);
    }

    #[test]
    fn sessions_go_where_their_agents_look() {
        let home = tempfile::tempdir().unwrap();
        let new = NewSession {
            id: String::from("5e0c1234-0000-7000-8000-000000000001"),
            began: "2026-11-16T08:01:02.345Z".parse().unwrap(),
            directory: PathBuf::from("/home/me/app"),
        };
        let placed = |installs: Installs| {
            let SessionPlacement { path, command } = installs(&new, home.path());
            (path.strip_prefix(home.path()).unwrap().display().to_string(), command)
        };
        let hash = "9b36aebfd10ff8c9a6b0bb4b8ee3fdba4f39ef4c1d8b5b1d36bb0ecd0d4cb1a5";
        let (path, command) = placed(gemini_cli);
        assert_eq!(path.len(), format!("tmp/{hash}/chats/session-2026-11-16T08-01-5e0c1234.jsonl").len());
        assert!(path.ends_with("/chats/session-2026-11-16T08-01-5e0c1234.jsonl"), "{path}");
        assert_eq!(command, "cd /home/me/app && gemini --resume 5e0c1234-0000-7000-8000-000000000001");
        fs::write(home.path().join("projects.json"), r#"{"projects":{"/home/me/app":"app"}}"#).unwrap();
        assert!(placed(gemini_cli).0.starts_with("tmp/app/chats/"));
        fs::write(home.path().join("projects.json"), r#"{"projects":{"/home/me/app":"../../x"}}"#).unwrap();
        assert!(placed(gemini_cli).0.starts_with("tmp/") && !placed(gemini_cli).0.contains(".."));
        let (path, _) = placed(pi);
        let name = "2026-11-16T08-01-02-345Z_5e0c1234-0000-7000-8000-000000000001.jsonl";
        assert_eq!(path, format!("sessions/--home-me-app--/{name}"));
    }

    #[test]
    fn words_are_quoted_for_a_shell() {
        for (word, wanted) in [
            ("/home/a.json", "/home/a.json"),
            ("two words", "'two words'"),
            ("it's", r"'it'\''s'"),
            ("$(x)", "'$(x)'"),
            ("", "''"),
        ] {
            assert_eq!(quoted(word), wanted);
        }
    }
}
