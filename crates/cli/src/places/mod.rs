//! Finding sessions: where agents keep theirs, and what lies in the folders that a person names.

mod installing;
mod pattern;
mod table;

use std::{
    collections::HashSet,
    env,
    ffi::OsString,
    path::{Path, PathBuf},
    time::SystemTime,
};

use rejoin::Session;

pub use self::{
    installing::{Installed, Installs, NewSession},
    table::AGENTS,
};
use crate::source::{self, ReadEffort, Unread};

/// An agent whose sessions are looked for.
#[derive(Debug)]
pub struct AgentPlace {
    /// What people call it.
    pub name: &'static str,
    /// The format of its sessions, which also names it in `--agent`.
    pub format: &'static str,
    /// Where it keeps them.
    spots: &'static [Spot],
    /// How it is given a session, if rejoin can do that.
    pub installs: Option<Installs>,
}

/// One place of an agent's sessions. `table.rs` says what roots and patterns mean.
#[derive(Debug)]
struct Spot {
    systems: &'static [System],
    roots: &'static [&'static str],
    patterns: &'static [&'static str],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum System {
    Linux,
    MacOs,
    Windows,
}

impl System {
    /// The one that this is. Other systems keep to the conventions of Linux.
    const HERE: Self = if cfg!(windows) {
        Self::Windows
    } else if cfg!(target_os = "macos") {
        Self::MacOs
    } else {
        Self::Linux
    };
}

/// What paths are made from: a system, a home folder and the variables of the environment.
struct Surroundings<'v> {
    system: System,
    home: Option<PathBuf>,
    variable: &'v dyn Fn(&str) -> Option<OsString>,
}

impl Surroundings<'_> {
    /// The path that a root stands for. `None` if its variable is not set, or there is no home folder.
    fn resolve(&self, root: &str) -> Option<PathBuf> {
        let (first, rest) = root.split_once('/').unwrap_or((root, ""));
        let base = match first {
            "~" => self.home.clone()?,
            "." => PathBuf::from("."),
            "$DATA" => self.folder("XDG_DATA_HOME", ".local/share")?,
            "$CONFIG" => self.folder("XDG_CONFIG_HOME", ".config")?,
            variable => {
                self.variable(variable.strip_prefix('$').expect("BUG: a root begins with none of these"))?
            }
        };
        Some(if rest.is_empty() { base } else { base.join(rest) })
    }

    fn folder(&self, variable: &str, usual: &str) -> Option<PathBuf> {
        match self.system {
            System::Linux => self.variable(variable).or_else(|| Some(self.home.as_ref()?.join(usual))),
            System::MacOs => Some(self.home.as_ref()?.join("Library/Application Support")),
            System::Windows => {
                self.variable("APPDATA").or_else(|| Some(self.home.as_ref()?.join("AppData/Roaming")))
            }
        }
    }

    fn variable(&self, name: &str) -> Option<PathBuf> {
        (self.variable)(name).filter(|value| !value.is_empty()).map(PathBuf::from)
    }

    /// The root of a spot, if the spot is one of this system.
    fn root(&self, spot: &Spot) -> Option<PathBuf> {
        if !spot.systems.contains(&self.system) {
            return None;
        }
        spot.roots.iter().find_map(|root| self.resolve(root))
    }
}

fn here<T>(ask: impl FnOnce(&Surroundings<'_>) -> T) -> T {
    ask(&Surroundings { system: System::HERE, home: env::home_dir(), variable: &|name| env::var_os(name) })
}

impl AgentPlace {
    /// The agent whose sessions have that format.
    pub fn of(format: &str) -> Option<&'static Self> {
        AGENTS.iter().find(|agent| agent.format == format)
    }

    /// Its main folder, whether it exists or not.
    pub fn home(&self) -> Option<PathBuf> {
        here(|surroundings| self.spots.iter().find_map(|spot| surroundings.root(spot)))
    }

    /// The folders and files that are looked at, whether they exist or not.
    pub fn looked_at(&self) -> Vec<PathBuf> {
        let mut places: Vec<PathBuf> = Vec::new();
        here(|surroundings| {
            for spot in self.spots {
                let Some(root) = surroundings.root(spot) else { continue };
                for pattern in spot.patterns {
                    let place = pattern::beginning(&root, pattern);
                    if !places.iter().any(|known| place.starts_with(known)) {
                        places.retain(|known| !known.starts_with(&place));
                        places.push(place);
                    }
                }
            }
        });
        places
    }

    /// Its sessions: files, and folders that are read as one.
    fn sessions(&self) -> Vec<PathBuf> {
        here(|surroundings| {
            let mut found = Vec::new();
            for spot in self.spots {
                let Some(root) = surroundings.root(spot) else { continue };
                spot.patterns.iter().for_each(|pattern| pattern::find(&root, pattern, &mut found));
            }
            found
        })
    }

    /// Whether a file of it has that id in its name, or the beginning of it: some agents shorten ids there.
    pub fn has(&self, id: &str) -> bool {
        let short = id.get(..8).unwrap_or(id);
        let named =
            |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().contains(short));
        self.sessions().iter().any(named)
    }
}

/// Whose sessions are looked for, and which of them.
#[derive(Debug, Default, Clone)]
pub struct LookFor {
    pub agents: Vec<&'static AgentPlace>,
    /// More folders of agents, from the settings.
    pub folders: Vec<(&'static AgentPlace, PathBuf)>,
    /// Only what was changed since then.
    pub since: Option<SystemTime>,
}

impl LookFor {
    /// Whether the newest message of a session is recent enough. A file may hold many; a message need not have a time.
    pub fn wants(&self, session: &Session) -> bool {
        let since = self.since.and_then(|since| jiff::Timestamp::try_from(since).ok());
        since.is_none_or(|since| session.newest().is_none_or(|newest| newest >= since))
    }

    /// Whether a file or a folder was changed recently enough. What cannot be told is looked at.
    fn is_recent(&self, path: &Path) -> bool {
        let changed = || path.metadata().ok()?.modified().ok();
        // A folder is not changed when a file in it is written to, nor is a database while the changes are in its log.
        let log = || Path::new(&format!("{}-wal", path.display())).metadata().ok()?.modified().ok();
        self.since.is_none_or(|since| {
            path.is_dir()
                || [changed(), log()].into_iter().flatten().max().is_none_or(|changed| changed >= since)
        })
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
pub fn candidates(wanted: &LookFor, paths: &[String], chosen: FolderFiles) -> Candidates {
    let likely = |path: &Path| {
        chosen == FolderFiles::All
            || path.extension().is_some_and(|kind| ENDINGS.iter().any(|ending| kind == *ending))
    };
    let mut seen = HashSet::new();
    let mut found = Candidates::default();
    for agent in &wanted.agents {
        for path in agent.sessions() {
            if wanted.is_recent(&path) && seen.insert(path.clone()) {
                found.files.push(Candidate { path, agent: Some(agent), named: false });
            }
        }
    }
    let set = wanted.folders.iter().map(|(_, folder)| folder.clone());
    for path in set.chain(paths.iter().map(PathBuf::from)) {
        if !path.exists() {
            found.missing.push(path);
            continue;
        }
        // What is named and is no folder is read, also a pipe or a device.
        let named = !path.is_dir();
        let (files, passed_over) = walk(&path);
        found.passed_over.extend(passed_over);
        for file in files {
            let looked_at = named || ((likely(&file) || file.is_dir()) && wanted.is_recent(&file));
            if looked_at && seen.insert(file.clone()) {
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
    if !path.is_dir() {
        return (vec![path.to_owned()], Vec::new());
    }
    let (mut found, mut passed_over, mut listed) = (Vec::new(), Vec::new(), Vec::new());
    let mut folders = vec![(path.to_owned(), Some(String::new()))];
    while let Some((folder, prefix)) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else {
            found.push(folder);
            continue;
        };
        for entry in entries.flatten() {
            let path = entry.path();
            let Ok(kind) = entry.file_type() else { continue };
            // A name that is not text is no name that a format knows.
            let name = entry.file_name().into_string().ok();
            let name = prefix.as_ref().zip(name).map(|(prefix, name)| format!("{prefix}{name}"));
            // A link is what it points to.
            let target = if kind.is_symlink() { path.metadata().ok() } else { None };
            match target {
                _ if kind.is_dir() => folders.push((path, name.map(|name| name + "/"))),
                _ if kind.is_file() => {
                    listed.extend(name);
                    found.push(path);
                }
                None if kind.is_symlink() => passed_over.push((path, "broken link")),
                Some(target) if target.is_file() => found.push(path),
                Some(target) if target.is_dir() => passed_over.push((path, "link to a folder")),
                _ => passed_over.push((path, "not a regular file")),
            }
        }
    }
    listed.sort();
    let units = source::units(path, listed);
    if !units.is_empty() {
        found.retain(|path| !units.own(path));
        passed_over.retain(|(path, _)| !units.surround(path));
        found.extend(units.into_folders());
    }
    found.sort();
    (found, passed_over)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every format in the table is one that can be read, and every place exists in some form on each system.
    #[test]
    fn agents_have_places() {
        let formats: HashSet<&str> = rejoin::installation::readable().collect();
        let variable = |name: &str| (name == "APPDATA").then(|| OsString::from("/users/me/AppData/Roaming"));
        for agent in AGENTS {
            assert!(formats.contains(agent.format), "{}", agent.format);
            for system in [System::Linux, System::MacOs, System::Windows] {
                let home = Some(PathBuf::from("/home/me"));
                let surroundings = Surroundings { system, home, variable: &variable };
                let roots: Vec<PathBuf> =
                    agent.spots.iter().filter_map(|spot| surroundings.root(spot)).collect();
                assert!(!roots.is_empty(), "{} on {system:?}", agent.name);
            }
        }
    }

    #[test]
    fn places_follow_the_system_and_its_variables() {
        let set = |name: &str| match name {
            "CODEX_HOME" => Some(OsString::from("/data/codex")),
            "XDG_DATA_HOME" => Some(OsString::from("/data/share")),
            "CODY_HOME" => Some(OsString::new()),
            _ => None,
        };
        let place = |format: &str, system, variable: &dyn Fn(&str) -> Option<OsString>| {
            let surroundings = Surroundings { system, home: Some(PathBuf::from("/home/me")), variable };
            let agent = AgentPlace::of(format).unwrap();
            agent.spots.iter().find_map(|spot| surroundings.root(spot)).unwrap().display().to_string()
        };
        assert_eq!(place("codex", System::Linux, &|_| None), "/home/me/.codex");
        assert_eq!(place("codex", System::Linux, &set), "/data/codex");
        // An empty variable is not set.
        assert_eq!(place("cody", System::Linux, &set), "/home/me/.cody");
        assert_eq!(place("goose", System::Linux, &set), "/data/share/goose");
        assert_eq!(place("llm", System::Linux, &|_| None), "/home/me/.config/io.datasette.llm");
        let support = "/home/me/Library/Application Support";
        assert_eq!(place("llm", System::MacOs, &set), format!("{support}/io.datasette.llm"));
        assert_eq!(
            place("xzatoma", System::Windows, &|_| None),
            "/home/me/AppData/Roaming/xbcsmith/xzatoma/data"
        );
    }
}
