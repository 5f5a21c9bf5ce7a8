//! Where agents keep their sessions.

use std::{
    collections::HashSet,
    env,
    path::{Path, PathBuf},
};

use rejoin::{
    Session,
    sessions::{self, Format},
};

use crate::{failure::Failure, source};

/// An agent whose sessions are looked for.
pub struct Agent {
    /// What people call it.
    pub name: &'static str,
    /// The format of its sessions.
    pub format: &'static str,
    /// The variable that moves its folder.
    variable: &'static str,
    /// Its folder in the home folder, otherwise.
    folder: &'static str,
    /// Where in it the sessions are.
    sessions: &'static [&'static str],
    /// How the name of a session begins and ends.
    names: (&'static str, &'static str),
    /// Where in its folder a session belongs, and the command that resumes it.
    pub installs: fn(&NewSession) -> (PathBuf, String),
}

/// A session that is put where its agent finds it.
pub struct NewSession {
    /// The id that the file gives it.
    pub id: String,
    /// When it began.
    pub began: jiff::Timestamp,
    /// The folder that it is about.
    pub directory: PathBuf,
}

/// The agents.
pub const AGENTS: &[Agent] = &[
    Agent {
        name: "Codex",
        format: "codex",
        variable: "CODEX_HOME",
        folder: ".codex",
        sessions: &["sessions", "archived_sessions"],
        names: ("rollout-", ".jsonl"),
        installs: |new| {
            // Codex lists only what lies in the folder of a day.
            let place = new.began.strftime("sessions/%Y/%m/%d/rollout-%Y-%m-%dT%H-%M-%S").to_string();
            (PathBuf::from(format!("{place}-{}.jsonl", new.id)), format!("codex resume {}", new.id))
        },
    },
    Agent {
        name: "Claude Code",
        format: "claude-code",
        variable: "CLAUDE_CONFIG_DIR",
        folder: ".claude",
        sessions: &["projects"],
        names: ("", ".jsonl"),
        installs: |new| {
            let directory = new.directory.to_string_lossy();
            let place = format!("projects/{}/{}.jsonl", project_name(&directory), new.id);
            let directory = shell_word(&directory);
            (PathBuf::from(place), format!("cd {directory} && claude --resume {}", new.id))
        },
    },
];

impl Agent {
    /// Its folder, whether it is there or not.
    pub fn home(&self) -> Option<PathBuf> {
        let set = env::var_os(self.variable).filter(|value| !value.is_empty()).map(PathBuf::from);
        set.or_else(|| Some(env::home_dir()?.join(self.folder)))
    }

    /// The folders that hold its sessions, whether they are there or not.
    pub fn folders(&self) -> Vec<PathBuf> {
        let Some(home) = self.home() else { return Vec::new() };
        self.sessions.iter().map(|folder| home.join(folder)).collect()
    }

    /// Whether it has a session of that id.
    pub fn has(&self, id: &str) -> bool {
        let named = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().contains(id));
        self.folders().iter().flat_map(|folder| files(folder)).any(|path| named(&path))
    }

    /// Whether a file of that name is one of its sessions.
    pub fn owns(&self, path: &Path) -> bool {
        let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
        // What cannot be read, or was compressed, is still the agent's.
        path.is_dir()
            || (name.starts_with(self.names.0) && name.trim_end_matches(".zst").ends_with(self.names.1))
    }

    /// Its format.
    pub fn reads(&self) -> Option<&'static Format> {
        sessions::named(self.format)
    }
}

/// A file to look at, and whose it is.
pub struct Candidate {
    /// Where it is.
    pub path: PathBuf,
    /// The agent in whose folder it lies.
    pub agent: Option<&'static Agent>,
    /// Somebody named this very file, and wants to know.
    pub named: bool,
}

impl Candidate {
    /// Its conversations.
    pub fn read(&self, from: Option<&str>) -> Result<Vec<Session>, Failure> {
        let name = self.path.to_string_lossy().into_owned();
        let unreadable =
            |why: &str| Err(Failure::Unreadable { name: name.clone(), why: why.to_owned(), hint: None });
        if self.path.is_dir() {
            return unreadable("the folder may not be read");
        }
        if self.path.extension().is_some_and(|kind| kind == "zst") {
            return unreadable("it is compressed; unpack it with `zstd -d`");
        }
        // What lies in an agent's own folder but looks like nothing is still one of its sessions, a damaged one.
        let read = source::read(&self.path, from).or_else(|failure| {
            let format = self.agent.and_then(Agent::reads);
            format.map_or(Err(failure), |format| source::read(&self.path, Some(format.name)))
        });
        read.map(|(_, sessions)| sessions)
    }
}

/// The sessions of agents, and what else was asked for; also the paths that are not there.
pub fn candidates(agents: &'static [Agent], paths: &[String]) -> (Vec<Candidate>, Vec<PathBuf>) {
    let mut seen = HashSet::new();
    let mut all = Vec::new();
    for agent in agents {
        for file in agent.folders().iter().flat_map(|folder| files(folder)) {
            if agent.owns(&file) && seen.insert(file.clone()) {
                all.push(Candidate { path: file, agent: Some(agent), named: false });
            }
        }
    }
    let mut missing = Vec::new();
    for path in paths.iter().map(PathBuf::from) {
        if !path.exists() {
            missing.push(path);
            continue;
        }
        let named = path.is_file();
        for file in files(&path) {
            let likely = file.extension().is_some_and(|kind| kind == "jsonl" || kind == "json");
            if (named || likely || file.is_dir()) && seen.insert(file.clone()) {
                all.push(Candidate { path: file, agent: None, named });
            }
        }
    }
    (all, missing)
}

/// The files under a path, in order; a file is itself. Links to folders are not followed. A folder that cannot be read is
/// given as it is, so that somebody says so.
pub fn files(path: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![path.to_owned()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else {
            if folder.exists() {
                found.push(folder);
            }
            continue;
        };
        for entry in entries.flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                Ok(kind) if kind.is_file() || (kind.is_symlink() && entry.path().is_file()) => {
                    found.push(entry.path());
                }
                _ => {}
            }
        }
    }
    found.sort();
    found
}

/// The name that Claude Code gives the folder of a project: its path, with a dash for everything but letters and digits.
/// It shortens longer names in a way of its own, and finds a session by its id in any folder.
fn project_name(directory: &str) -> String {
    const LONGEST: usize = 200;
    let legal = |unit: u16| match u8::try_from(unit) {
        Ok(byte) if byte.is_ascii_alphanumeric() => char::from(byte),
        _ => '-',
    };
    directory.encode_utf16().map(legal).take(LONGEST).collect()
}

/// A text as one word of a shell's command line.
fn shell_word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
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
    fn a_folder_is_one_word_for_a_shell() {
        assert_eq!(shell_word("/home/me/app"), "/home/me/app");
        assert_eq!(shell_word("/my app's"), r"'/my app'\''s'");
        assert_eq!(shell_word("$(x)"), "'$(x)'");
    }
}
