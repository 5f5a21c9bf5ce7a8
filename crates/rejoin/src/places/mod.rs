//! Finding sessions: where agents keep theirs, and what lies in given folders. Nothing here looks at the environment: the caller
//! describes the [`Machine`].
//!
//! ```
//! use rejoin::places::{self, AGENTS, FolderFiles, LookFor, Machine};
//!
//! // The home folder, the folder to work in, and how to look up a variable of the environment.
//! let machine = Machine::new(Some("/home/nobody".into()), ".".into(), |_| None);
//! let wanted = LookFor { agents: AGENTS.iter().collect(), ..LookFor::default() };
//! let found = places::candidates(&wanted, &[], FolderFiles::ByName, &machine);
//! assert!(found.missing.is_empty());
//! ```

mod installing;
mod pattern;
mod table;

use std::{
    collections::{BTreeMap, HashSet},
    ffi::OsString,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use rejoin_formats::{Session, sessions::Format};
use rejoin_record::Timestamp;

pub use self::{
    installing::{AgentCopy, InstallError, InstallOptions, Installed, Installs, NewSession, quoted},
    table::AGENTS,
};
use crate::{
    doctor::FileState,
    source::{self, Open, ReadEffort, SourceOptions, Unread},
};

/// An agent whose sessions are looked for.
#[derive(Debug)]
pub struct AgentPlace {
    /// What people call it.
    pub name: &'static str,
    /// The format of its sessions, which also names the agent in arguments and settings.
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

/// What the places of agents depend on: the system, the folders of a user, and some variables of the environment.
#[derive(Debug, Clone)]
pub struct Machine {
    system: System,
    home: Option<PathBuf>,
    folder: PathBuf,
    variables: BTreeMap<&'static str, PathBuf>,
}

/// Variables for the system's folders for data and settings. Those of agents are in the table.
const OF_SYSTEMS: [&str; 3] = ["XDG_DATA_HOME", "XDG_CONFIG_HOME", "APPDATA"];

impl Machine {
    /// Describes this system for a user: the home folder, the folder to work in, in which some agents keep their sessions, and how
    /// to look up a variable of the environment. Only variables that places depend on are looked up. An empty one is not set.
    pub fn new(home: Option<PathBuf>, folder: PathBuf, variable: impl Fn(&str) -> Option<OsString>) -> Self {
        Self::of(System::HERE, home, folder, variable)
    }

    fn of(
        system: System,
        home: Option<PathBuf>,
        folder: PathBuf,
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Self {
        let roots = AGENTS.iter().flat_map(|agent| agent.spots).flat_map(|spot| spot.roots);
        let of_agents = roots.filter_map(|root| root.split('/').next()?.strip_prefix('$'));
        let set = |name| Some((name, PathBuf::from(variable(name).filter(|value| !value.is_empty())?)));
        let variables = of_agents.chain(OF_SYSTEMS).filter_map(set).collect();
        Self { system, home, folder, variables }
    }

    /// The path that a root stands for. `None` if its variable is not set, or there is no home folder.
    fn resolve(&self, root: &str) -> Option<PathBuf> {
        let (first, rest) = root.split_once('/').unwrap_or((root, ""));
        let base = match first {
            "~" => self.home.clone()?,
            "." => self.folder.clone(),
            "$DATA" => self.system_folder("XDG_DATA_HOME", ".local/share")?,
            "$CONFIG" => self.system_folder("XDG_CONFIG_HOME", ".config")?,
            variable => {
                self.variable(variable.strip_prefix('$').expect("BUG: a root begins with none of these"))?
            }
        };
        Some(if rest.is_empty() { base } else { base.join(rest) })
    }

    fn system_folder(&self, variable: &str, usual: &str) -> Option<PathBuf> {
        match self.system {
            System::Linux => self.variable(variable).or_else(|| Some(self.home.as_ref()?.join(usual))),
            System::MacOs => Some(self.home.as_ref()?.join("Library/Application Support")),
            System::Windows => {
                self.variable("APPDATA").or_else(|| Some(self.home.as_ref()?.join("AppData/Roaming")))
            }
        }
    }

    fn variable(&self, name: &str) -> Option<PathBuf> {
        self.variables.get(name).cloned()
    }

    /// The roots of an agent's spots that are there on this system, each with its patterns.
    fn spots(&self, agent: &AgentPlace) -> impl Iterator<Item = (PathBuf, &'static [&'static str])> {
        let here = agent.spots.iter().filter(|spot| spot.systems.contains(&self.system));
        here.filter_map(|spot| Some((spot.roots.iter().find_map(|root| self.resolve(root))?, spot.patterns)))
    }
}

impl AgentPlace {
    /// The agent whose sessions have that format.
    #[must_use]
    pub fn of(format: &str) -> Option<&'static Self> {
        AGENTS.iter().find(|agent| agent.format == format)
    }

    /// Its main folder, whether it exists or not.
    #[must_use]
    pub fn home(&self, machine: &Machine) -> Option<PathBuf> {
        machine.spots(self).next().map(|(root, _)| root)
    }

    /// The folders and files that are looked at, whether they exist or not.
    #[must_use]
    pub fn looked_at(&self, machine: &Machine) -> Vec<PathBuf> {
        let mut places: Vec<PathBuf> = Vec::new();
        for (root, patterns) in machine.spots(self) {
            for pattern in patterns {
                let place = pattern::beginning(&root, pattern);
                if !places.iter().any(|known| place.starts_with(known)) {
                    places.retain(|known| !known.starts_with(&place));
                    places.push(place);
                }
            }
        }
        places
    }

    /// Its sessions: files, and folders that are read as one.
    fn sessions(&self, machine: &Machine) -> Vec<PathBuf> {
        let mut found = Vec::new();
        for (root, patterns) in machine.spots(self) {
            patterns.iter().for_each(|pattern| pattern::find(&root, pattern, &mut found));
        }
        found
    }

    /// Whether a file of it has that id in its name, or the beginning of it: some agents shorten ids there.
    fn has(&self, id: &str, machine: &Machine) -> bool {
        let short = id.get(..8).unwrap_or(id);
        let named =
            |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().contains(short));
        self.sessions(machine).iter().any(named)
    }
}

/// Whose sessions are looked for, and which of them.
#[derive(Debug, Default, Clone)]
pub struct LookFor {
    /// The agents in whose places sessions are looked for.
    pub agents: Vec<&'static AgentPlace>,
    /// More folders with sessions of agents.
    pub folders: Vec<(&'static AgentPlace, PathBuf)>,
    /// Only what was changed since then.
    pub since: Option<Timestamp>,
}

impl LookFor {
    /// Keeps the sessions that are wanted of a file that was changed recently enough. The only one of a file was changed with it. Of
    /// several, as in a database, those with a recent message are; a message need not have a time.
    pub fn choose(&self, sessions: &mut Vec<Session>) {
        if let Some(since) = self.since.filter(|_| sessions.len() > 1) {
            sessions.retain(|session| session.newest().is_none_or(|newest| newest >= since));
        }
    }

    /// Whether a file or a folder was changed recently enough. What cannot be told is looked at.
    fn is_recent(&self, path: &Path) -> bool {
        let changed = || path.metadata().ok()?.modified().ok();
        // A folder is not changed when a file in it is written to, nor is a database while the changes are in its log.
        let log = || Path::new(&format!("{}-wal", path.display())).metadata().ok()?.modified().ok();
        // Before 1970, everything was changed since.
        let since = self.since.map(|since| u64::try_from(since.as_millisecond()).unwrap_or(0));
        let since = since.map(|since| SystemTime::UNIX_EPOCH + Duration::from_millis(since));
        since.is_none_or(|since| {
            path.is_dir()
                || [changed(), log()].into_iter().flatten().max().is_none_or(|changed| changed >= since)
        })
    }
}

/// A file to look at, and whose it is.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// The file, or the folder that is read as one.
    pub path: PathBuf,
    /// The agent in whose folder it lies.
    pub agent: Option<&'static AgentPlace>,
    /// Whether this very file was asked for, so that it should be a session.
    pub named: bool,
}

impl Candidate {
    /// Its conversations, or why there are none.
    ///
    /// # Errors
    /// If no conversation can be read from it.
    pub fn read(&self, from: Option<&'static Format>, open: Open) -> Result<Vec<Session>, Unread> {
        if self.path.is_dir() && std::fs::read_dir(&self.path).is_err() {
            return Err(Unread::Folder);
        }
        let effort = if self.is_expected() { ReadEffort::Full } else { ReadEffort::InPassing };
        let read = |from| Ok(source::read(&self.path, &SourceOptions { from, effort, open })?.sessions?);
        // What lies in an agent's own folder but looks like nothing is still one of its sessions, a damaged one.
        let own = self.agent.and_then(|agent| rejoin_formats::sessions::named(agent.format));
        read(from).or_else(|unread| if own.is_some() { read(own) } else { Err(unread) })
    }

    /// Whether it should be a session: it was asked for, or lies where an agent keeps its sessions. Some file in a folder need not
    /// be one.
    #[must_use]
    pub fn is_expected(&self) -> bool {
        self.agent.is_some() || self.named
    }

    /// Reads it and examines what becomes of its sessions, as [`crate::doctor`] tells. `None` if it holds none that is wanted, and
    /// need not. `explain` says why one that should be a session cannot be read.
    pub fn examine(
        &self,
        wanted: &LookFor,
        open: Open,
        explain: impl Fn(&Path, &Unread) -> String,
    ) -> Option<FileState> {
        let mut read = self.read(None, open);
        if let Ok(sessions) = &mut read {
            wanted.choose(sessions);
        }
        let agent = match &read {
            Ok(sessions) => {
                let format = sessions.first()?.format;
                // A checkpoint in an agent's folder may be in the format of its requests.
                AgentPlace::of(format).or(self.agent).map_or(format, |agent| agent.name)
            }
            Err(_) if !self.is_expected() => return None,
            Err(_) => self.agent.map_or("", |agent| agent.name),
        };
        FileState::of(self.path.clone(), agent, read.map_err(|unread| explain(&self.path, &unread)))
    }
}

/// The files to look at, and the paths that are left out.
#[derive(Debug, Default)]
pub struct Candidates {
    /// The files, those of agents first.
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

/// Finds the sessions of agents, and the files of the given paths. The content of a file is not looked at.
#[must_use]
pub fn candidates(wanted: &LookFor, paths: &[PathBuf], chosen: FolderFiles, machine: &Machine) -> Candidates {
    let likely = |path: &Path| {
        chosen == FolderFiles::All
            || path.extension().is_some_and(|kind| ENDINGS.iter().any(|ending| kind == *ending))
    };
    let mut seen = HashSet::new();
    let mut found = Candidates::default();
    for agent in &wanted.agents {
        for path in agent.sessions(machine) {
            if wanted.is_recent(&path) && seen.insert(path.clone()) {
                found.files.push(Candidate { path, agent: Some(agent), named: false });
            }
        }
    }
    let set = wanted.folders.iter().map(|(_, folder)| folder.clone());
    for path in set.chain(paths.iter().cloned()) {
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
        let readable = rejoin_formats::sessions::FORMATS.iter().filter(|format| format.read.is_some());
        let formats: HashSet<&str> = readable.map(|format| format.name).collect();
        let variable = |name: &str| (name == "APPDATA").then(|| OsString::from("/users/me/AppData/Roaming"));
        for agent in AGENTS {
            assert!(formats.contains(agent.format), "{}", agent.format);
            for system in [System::Linux, System::MacOs, System::Windows] {
                let machine = Machine::of(system, Some("/home/me".into()), ".".into(), variable);
                assert!(machine.spots(agent).next().is_some(), "{} on {system:?}", agent.name);
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
            let machine = Machine::of(system, Some("/home/me".into()), ".".into(), variable);
            AgentPlace::of(format).unwrap().home(&machine).unwrap().display().to_string()
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
