//! Finds sessions: in the places where agents keep them, and in given folders. It does not read the environment: the caller
//! describes the [`Machine`].
//!
//! ```
//! use rejoin::places::{self, AGENTS, FolderFiles, PlacesToSearch, Machine};
//!
//! // The home folder, the folder to work in, and how to look up a variable of the environment.
//! let machine = Machine::new(Some("/home/nobody".into()), ".".into(), |_| None);
//! let wanted = PlacesToSearch { agents: AGENTS.iter().collect(), ..PlacesToSearch::default() };
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
    installing::{AgentCopy, InstallError, InstallOptions, Installs, NewSession, SessionPlacement, quoted},
    table::AGENTS,
};
use crate::{
    doctor::FileState,
    source::{self, Open, ReadEffort, SourceOptions, Unread},
};

/// An agent whose sessions are looked for.
#[derive(Debug)]
pub struct AgentPlace {
    /// The name that people use.
    pub name: &'static str,
    /// The format of its sessions, which also names the agent in arguments and settings.
    pub format: &'static str,
    /// The places of its sessions.
    spots: &'static [Spot],
    /// How rejoin gives it a session; `None` if it cannot.
    pub installs: Option<Installs>,
}

/// One place of an agent's sessions. `table.rs` explains roots and patterns.
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
    /// The current system. Systems other than these follow the conventions of Linux.
    const HERE: Self = if cfg!(windows) {
        Self::Windows
    } else if cfg!(target_os = "macos") {
        Self::MacOs
    } else {
        Self::Linux
    };
}

/// Everything that the places of agents depend on: the system, the folders of a user, and some environment variables.
#[derive(Debug, Clone)]
pub struct Machine {
    system: System,
    home: Option<PathBuf>,
    folder: PathBuf,
    variables: BTreeMap<&'static str, PathBuf>,
}

/// The variables for the system's folders for data and settings. Those of agents are in the table.
const OF_SYSTEMS: [&str; 3] = ["XDG_DATA_HOME", "XDG_CONFIG_HOME", "APPDATA"];

impl Machine {
    /// Describes this system for a user: the home folder, the working folder (in which some agents keep their sessions), and a
    /// function that looks up an environment variable. Only variables that places depend on are looked up. An empty one counts as
    /// not set.
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

    /// The roots of an agent's spots on this system, each with its patterns.
    fn spots(&self, agent: &AgentPlace) -> impl Iterator<Item = (PathBuf, &'static [&'static str])> {
        let here = agent.spots.iter().filter(|spot| spot.systems.contains(&self.system));
        here.filter_map(|spot| Some((spot.roots.iter().find_map(|root| self.resolve(root))?, spot.patterns)))
    }
}

impl AgentPlace {
    /// The agent whose sessions have this format.
    #[must_use]
    pub fn of(format: &str) -> Option<&'static Self> {
        AGENTS.iter().find(|agent| agent.format == format)
    }

    /// Its main folder, which need not exist.
    #[must_use]
    pub fn home(&self, machine: &Machine) -> Option<PathBuf> {
        machine.spots(self).next().map(|(root, _)| root)
    }

    /// The folders and files that are searched, which need not exist.
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

    /// Its sessions: files, and folders that are read as a whole.
    fn sessions(&self, machine: &Machine) -> Vec<PathBuf> {
        let mut found = Vec::new();
        for (root, patterns) in machine.spots(self) {
            patterns.iter().for_each(|pattern| pattern::find(&root, pattern, &mut found));
        }
        found
    }

    /// Whether one of its files has this id in its name, or the beginning of the id: some agents shorten ids there.
    fn has(&self, id: &str, machine: &Machine) -> bool {
        let short = id.get(..8).unwrap_or(id);
        let named =
            |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().contains(short));
        self.sessions(machine).iter().any(named)
    }
}

/// The agents whose sessions are looked for, and which of the sessions.
#[derive(Debug, Default, Clone)]
pub struct PlacesToSearch {
    /// The agents whose own places are searched.
    pub agents: Vec<&'static AgentPlace>,
    /// Additional folders with sessions of agents.
    pub folders: Vec<(&'static AgentPlace, PathBuf)>,
    /// Only sessions that were changed since this time.
    pub since: Option<Timestamp>,
}

impl PlacesToSearch {
    /// Keeps the sessions of a recently changed file that were themselves changed recently. The only session of a file was changed
    /// with the file. Of several, as in a database, those with a recent message are kept; a message need not have a time.
    pub fn choose(&self, sessions: &mut Vec<Session>) {
        if let Some(since) = self.since.filter(|_| sessions.len() > 1) {
            sessions.retain(|session| session.newest().is_none_or(|newest| newest >= since));
        }
    }

    /// Whether a file or a folder was changed recently. If that cannot be determined, it counts as changed.
    fn is_recent(&self, path: &Path) -> bool {
        let changed = || path.metadata().ok()?.modified().ok();
        // Writing to a file does not change its folder's time, nor does a change of a database while it is only in the log.
        let log = || Path::new(&format!("{}-wal", path.display())).metadata().ok()?.modified().ok();
        // Times before 1970 select everything.
        let since = self.since.map(|since| u64::try_from(since.as_millisecond()).unwrap_or(0));
        let since = since.map(|since| SystemTime::UNIX_EPOCH + Duration::from_millis(since));
        since.is_none_or(|since| {
            path.is_dir()
                || [changed(), log()].into_iter().flatten().max().is_none_or(|changed| changed >= since)
        })
    }
}

/// A file to examine, and its agent.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// The file, or the folder that is read as a whole.
    pub path: PathBuf,
    /// The agent in whose folder it is; `None` if it is in none.
    pub agent: Option<&'static AgentPlace>,
    /// Whether the user named this very file, so that it should be a session.
    pub named: bool,
}

impl Candidate {
    /// Its conversations, or the reason why there are none.
    ///
    /// # Errors
    /// If no conversation can be read from it.
    pub fn read(&self, from: Option<&'static Format>, open: Open) -> Result<Vec<Session>, Unread> {
        if self.path.is_dir() && std::fs::read_dir(&self.path).is_err() {
            return Err(Unread::Folder);
        }
        let read = |from| Ok(source::read(&self.path, &self.options(from, open))?.sessions?);
        // A file in an agent's own folder that looks like no format is still one of its sessions, a damaged one.
        let own = self.agent.and_then(|agent| rejoin_formats::sessions::named(agent.format));
        read(from).or_else(|unread| if own.is_some() { read(own) } else { Err(unread) })
    }

    /// How it is read.
    pub(crate) fn options(&self, from: Option<&'static Format>, open: Open) -> SourceOptions {
        let effort = if self.is_expected() { ReadEffort::Full } else { ReadEffort::InPassing };
        SourceOptions { from, effort, open }
    }

    /// Whether it should be a session: the user named it, or it is where an agent keeps its sessions. Other files in a folder need
    /// not be sessions.
    #[must_use]
    pub fn is_expected(&self) -> bool {
        self.agent.is_some() || self.named
    }

    /// Reads it and examines its sessions, as [`crate::doctor`] does. `None` if it has no wanted session and need not have one.
    /// `explain` describes why a file that should be a session cannot be read.
    pub fn examine(
        &self,
        wanted: &PlacesToSearch,
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
                // A checkpoint in an agent's folder may have the format of the agent's requests.
                AgentPlace::of(format).or(self.agent).map_or(format, |agent| agent.name)
            }
            Err(_) if !self.is_expected() => return None,
            Err(_) => self.agent.map_or("", |agent| agent.name),
        };
        FileState::of(self.path.clone(), agent, read.map_err(|unread| explain(&self.path, &unread)))
    }
}

/// The files to examine, and the paths that are left out.
#[derive(Debug, Default)]
pub struct Candidates {
    /// The files, those of agents first.
    pub files: Vec<Candidate>,
    /// Given paths that do not exist.
    pub missing: Vec<PathBuf>,
    /// Files in a folder that cannot be sessions, each with the reason.
    pub passed_over: Vec<(PathBuf, &'static str)>,
}

/// Which files of a folder are examined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FolderFiles {
    /// Those with a file extension of sessions.
    ByName,
    /// All of them; their content decides.
    All,
}

/// The extensions of files that are usually sessions, or may be compressed ones.
const ENDINGS: &[&str] = &["jsonl", "json", "traj", "db", "gz", "zst", "zip", "eval"];

/// Finds the sessions of agents, and the files under the given paths. No file is opened.
#[must_use]
pub fn candidates(
    wanted: &PlacesToSearch,
    paths: &[PathBuf],
    chosen: FolderFiles,
    machine: &Machine,
) -> Candidates {
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
        // A named path that is not a folder is read, even if it is a pipe or a device.
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

/// The files under a path, in order, and the skipped ones with the reason. The path of a file gives that file. Links to folders are
/// not followed, so a loop of links ends. A folder that cannot be read is returned as a file, so that reading it reports the error.
/// So is a folder whose files are read as a whole, because they are no sessions individually.
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
            // No format uses names that are not UTF-8.
            let name = entry.file_name().into_string().ok();
            let name = prefix.as_ref().zip(name).map(|(prefix, name)| format!("{prefix}{name}"));
            // Examine the target of a link.
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

    /// Every format in the table can be read, and every place resolves on each system.
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
        // An empty variable counts as not set.
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
