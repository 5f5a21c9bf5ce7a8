//! Where agents keep their sessions.

use std::{
    collections::HashSet,
    env,
    path::{Path, PathBuf},
};

use rejoin::Session;

use crate::{
    failure::Failure,
    meaning::quoted,
    source::{self, ReadEffort, Unread},
};

/// An agent whose sessions are looked for.
pub struct AgentPlace {
    pub name: &'static str,
    pub format: &'static str,
    /// The environment variable that names its folder.
    variable: &'static str,
    /// Its default folder, below the home folder.
    folder: &'static str,
    /// The folders below it that hold sessions.
    sessions: &'static [&'static str],
    /// How the name of a session begins and ends.
    names: (&'static str, &'static str),
    /// The path of a new session in its folder, and the command that resumes it.
    pub installs: fn(&NewSession) -> (PathBuf, String),
}

/// A session to be installed for an agent.
pub struct NewSession {
    pub id: String,
    pub began: jiff::Timestamp,
    /// The folder that the session works in.
    pub directory: PathBuf,
}

pub const AGENTS: &[AgentPlace] = &[
    AgentPlace {
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
    AgentPlace {
        name: "Claude Code",
        format: "claude-code",
        variable: "CLAUDE_CONFIG_DIR",
        folder: ".claude",
        sessions: &["projects"],
        names: ("", ".jsonl"),
        installs: |new| {
            let directory = new.directory.to_string_lossy();
            let place = format!("projects/{}/{}.jsonl", project_name(&directory), new.id);
            let directory = quoted(&directory);
            (PathBuf::from(place), format!("cd {directory} && claude --resume {}", new.id))
        },
    },
];

impl AgentPlace {
    /// Its folder, whether it exists or not.
    pub fn home(&self) -> Option<PathBuf> {
        let set = env::var_os(self.variable).filter(|value| !value.is_empty()).map(PathBuf::from);
        set.or_else(|| Some(env::home_dir()?.join(self.folder)))
    }

    /// The folders that hold its sessions, whether they exist or not.
    pub fn folders(&self) -> Vec<PathBuf> {
        let Some(home) = self.home() else { return Vec::new() };
        self.sessions.iter().map(|folder| home.join(folder)).collect()
    }

    pub fn has(&self, id: &str) -> bool {
        let named = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().contains(id));
        self.folders().iter().flat_map(|folder| walk(folder).0).any(|path| named(&path))
    }

    /// Whether a file of that name is one of its sessions.
    pub fn owns(&self, path: &Path) -> bool {
        let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
        // What cannot be read is still the agent's, and so is what was compressed.
        path.is_dir()
            || (name.starts_with(self.names.0) && name.trim_end_matches(".zst").ends_with(self.names.1))
    }
}

/// A file to look at, and whose it is.
pub struct Candidate {
    pub path: PathBuf,
    /// The agent in whose folder it lies.
    pub agent: Option<&'static AgentPlace>,
    /// Whether the user named this very file, and wants to know.
    pub named: bool,
}

impl Candidate {
    pub fn read(&self, from: Option<&str>) -> Result<Vec<Session>, Failure> {
        self.try_read(from).map_err(|unread| unread.failure(&self.path, from))
    }

    /// Its conversations, or why there are none.
    pub fn try_read(&self, from: Option<&str>) -> Result<Vec<Session>, Unread> {
        if self.path.is_dir() && std::fs::read_dir(&self.path).is_err() {
            return Err(Unread::Folder);
        }
        let in_passing = self.agent.is_none() && !self.named;
        let effort = if in_passing { ReadEffort::InPassing } else { ReadEffort::Full };
        // What lies in an agent's own folder but looks like nothing is still one of its sessions, a damaged one.
        let read = source::try_read(&self.path, from, effort).or_else(|unread| {
            self.agent.map_or(Err(unread), |agent| source::try_read(&self.path, Some(agent.format), effort))
        });
        read.map(|(_, sessions)| sessions)
    }
}

/// The files to look at, and the paths that are left out.
#[derive(Default)]
pub struct Candidates {
    pub files: Vec<Candidate>,
    /// Paths that were given and do not exist.
    pub missing: Vec<PathBuf>,
    /// Files in a folder that cannot be sessions, each with the reason.
    pub passed_over: Vec<(PathBuf, &'static str)>,
}

/// Which files of a folder are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FolderFiles {
    /// Those with the ending of a session.
    ByName,
    /// All of them: their content decides.
    All,
}

/// The endings of files that are mostly sessions, or that may be packed ones.
const ENDINGS: &[&str] = &["jsonl", "json", "traj", "db", "gz", "zst", "zip", "eval"];

/// The sessions of agents, and the files of the given paths.
pub fn candidates(agents: &'static [AgentPlace], paths: &[String], chosen: FolderFiles) -> Candidates {
    let likely = |path: &Path| {
        chosen == FolderFiles::All
            || path.extension().is_some_and(|kind| ENDINGS.iter().any(|ending| kind == *ending))
    };
    let mut seen = HashSet::new();
    let mut found = Candidates::default();
    for agent in agents {
        for file in agent.folders().iter().flat_map(|folder| walk(folder).0) {
            if agent.owns(&file) && seen.insert(file.clone()) {
                found.files.push(Candidate { path: file, agent: Some(agent), named: false });
            }
        }
    }
    for path in paths.iter().map(PathBuf::from) {
        if !path.exists() {
            found.missing.push(path);
            continue;
        }
        // What is named and is no folder is read, also a pipe or a device.
        let named = !path.is_dir();
        let (files, passed_over) = walk(&path);
        found.passed_over.extend(passed_over);
        for file in files {
            if (named || likely(&file) || file.is_dir()) && seen.insert(file.clone()) {
                found.files.push(Candidate { path: file, agent: None, named });
            }
        }
    }
    found
}

/// The files under a path, in order, and what was passed over with the reason. A file is itself. Links to folders are not followed,
/// so a loop of links has an end. A folder that cannot be read is among the files, so that someone says so. So is a folder whose
/// files are read together: they are no sessions one by one.
fn walk(path: &Path) -> (Vec<PathBuf>, Vec<(PathBuf, &'static str)>) {
    let (mut found, mut passed_over) = (Vec::new(), Vec::new());
    let mut folders = vec![path.to_owned()];
    while let Some(folder) = folders.pop() {
        if folder.is_dir() && source::is_unit(&folder) {
            found.push(folder);
            continue;
        }
        let Ok(entries) = std::fs::read_dir(&folder) else {
            if folder.exists() {
                found.push(folder);
            }
            continue;
        };
        for entry in entries.flatten() {
            let path = entry.path();
            let Ok(kind) = entry.file_type() else { continue };
            // A link is what it points to.
            let target = if kind.is_symlink() { path.metadata().ok() } else { None };
            match target {
                _ if kind.is_dir() => folders.push(path),
                _ if kind.is_file() => found.push(path),
                None if kind.is_symlink() => passed_over.push((path, "broken link")),
                Some(target) if target.is_file() => found.push(path),
                Some(target) if target.is_dir() => passed_over.push((path, "link to a folder")),
                _ => passed_over.push((path, "not a regular file")),
            }
        }
    }
    found.sort();
    (found, passed_over)
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
}
