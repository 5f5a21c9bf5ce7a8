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
    },
    Agent {
        name: "Claude Code",
        format: "claude-code",
        variable: "CLAUDE_CONFIG_DIR",
        folder: ".claude",
        sessions: &["projects"],
        names: ("", ".jsonl"),
    },
];

impl Agent {
    /// The folders that hold its sessions, whether they are there or not.
    pub fn folders(&self) -> Vec<PathBuf> {
        let set = env::var_os(self.variable).filter(|value| !value.is_empty()).map(PathBuf::from);
        let Some(home) = set.or_else(|| Some(env::home_dir()?.join(self.folder))) else { return Vec::new() };
        self.sessions.iter().map(|folder| home.join(folder)).collect()
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
