//! Giving a session to an agent: where its file goes, and the command that goes on with it.

use std::{
    borrow::Cow,
    fs,
    path::{Path, PathBuf},
};

use rejoin::record::json::Doc;
use sha2::{Digest as _, Sha256};

use crate::meaning::quoted;

/// Says where a session goes, below the agent's main folder.
pub type Installs = fn(&NewSession, &Path) -> Installed;

/// A session to be installed for an agent.
#[derive(Debug)]
pub struct NewSession {
    pub id: String,
    pub began: jiff::Timestamp,
    /// The folder that the session works in.
    pub directory: PathBuf,
}

impl NewSession {
    fn directory(&self) -> Cow<'_, str> {
        self.directory.to_string_lossy()
    }

    /// A command that has to run in the session's folder.
    fn there(&self, command: &str) -> String {
        format!("cd {} && {command}", quoted(&self.directory()))
    }
}

/// Where a session is put, and what goes on with it.
#[derive(Debug)]
pub struct Installed {
    pub path: PathBuf,
    pub command: String,
}

pub fn codex(new: &NewSession, home: &Path) -> Installed {
    // Codex lists only what lies in the folder of a day.
    let place = new.began.strftime("sessions/%Y/%m/%d/rollout-%Y-%m-%dT%H-%M-%S").to_string();
    let path = home.join(format!("{place}-{}.jsonl", new.id));
    Installed { path, command: format!("codex resume {}", new.id) }
}

pub fn claude_code(new: &NewSession, home: &Path) -> Installed {
    let project = project_name(&new.directory());
    let path = home.join(format!("projects/{project}/{}.jsonl", new.id));
    Installed { path, command: new.there(&format!("claude --resume {}", new.id)) }
}

pub fn cody(new: &NewSession, home: &Path) -> Installed {
    let path = home.join(format!("conversations/{}.jsonl", new.id));
    Installed { path, command: format!("cody resume {}", new.id) }
}

pub fn gemini_cli(new: &NewSession, home: &Path) -> Installed {
    let directory = new.directory();
    // A folder that Gemini CLI knows has a short name; it also looks under the hash of the path.
    let project = registered(home, &directory).unwrap_or_else(|| {
        Sha256::digest(directory.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
    });
    let time = new.began.strftime("%Y-%m-%dT%H-%M").to_string();
    let short: String = new.id.chars().take(8).collect();
    let path = home.join(format!("tmp/{project}/chats/session-{time}-{short}.jsonl"));
    Installed { path, command: new.there(&format!("gemini --resume {}", new.id)) }
}

pub fn pi(new: &NewSession, home: &Path) -> Installed {
    let directory = new.directory();
    let plain = directory.strip_prefix(['/', '\\']).unwrap_or(&directory).replace(['/', '\\', ':'], "-");
    let time = new.began.strftime("%Y-%m-%dT%H-%M-%S-%3fZ").to_string();
    let path = home.join(format!("sessions/--{plain}--/{time}_{}.jsonl", new.id));
    let command = new.there(&format!("pi --session {}", quoted(&path.to_string_lossy())));
    Installed { path, command }
}

pub fn opencode(new: &NewSession, home: &Path) -> Installed {
    // opencode keeps sessions in its database and takes others in by itself.
    let path = home.join(format!("imported/{}.json", new.id));
    let file = quoted(&path.to_string_lossy());
    let command = new.there(&format!("opencode import {file} && opencode --session {}", new.id));
    Installed { path, command }
}

/// These three keep all conversations in one database.
pub fn xzatoma(new: &NewSession, home: &Path) -> Installed {
    // A variable names the file itself.
    let path = if home.extension().is_some() { home.to_owned() } else { home.join("history.db") };
    Installed { path, command: format!("xzatoma chat --resume {}", new.id) }
}

pub fn goose(new: &NewSession, home: &Path) -> Installed {
    let path = home.join("sessions/sessions.db");
    Installed { path, command: new.there(&format!("goose session --resume --session-id {}", new.id)) }
}

pub fn llm(new: &NewSession, home: &Path) -> Installed {
    Installed { path: home.join("logs.db"), command: format!("llm chat --cid {}", new.id) }
}

/// The short name that Gemini CLI gave a folder.
fn registered(home: &Path, directory: &str) -> Option<String> {
    let text = fs::read_to_string(home.join("projects.json")).ok()?;
    let doc = Doc::parse(&text).ok()?;
    let name = doc.root()?.get("projects")?.get(directory)?.as_str()?.into_owned();
    // It becomes part of a path.
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
    (!name.starts_with('.') && !name.is_empty() && name.chars().all(plain)).then_some(name)
}

/// The name that Claude Code gives the folder of a project: its path, with a dash for everything but letters and digits.
/// Claude Code shortens longer names by other rules, but finds a session by its id in any folder.
fn project_name(directory: &str) -> String {
    const LONGEST: usize = 200;
    let legal = |unit: u16| match u8::try_from(unit) {
        Ok(byte) if byte.is_ascii_alphanumeric() => char::from(byte),
        _ => '-',
    };
    directory.encode_utf16().map(legal).take(LONGEST).collect()
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
            let Installed { path, command } = installs(&new, home.path());
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
}
