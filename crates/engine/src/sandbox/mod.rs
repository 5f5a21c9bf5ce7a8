//! Runs shell commands confined to a workspace: what they can read, write, reach and leave behind.
//!
//! [`init`] must come first in `main`: further processes of the same program apply the confinement, and `init` turns them into
//! helpers. [`Sandbox::new`] finds out what this machine can enforce; [`Sandbox::spawn`] runs a command. `linux/` is the real
//! sandbox, `plain.rs` the substitute on other systems. `docs/security.md` lists the promises. This module does not decide which
//! commands may run, and asks no person.

mod command;
mod confinement;
mod environment;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(unix)]
mod partner;
#[cfg(not(target_os = "linux"))]
mod plain;
mod private;

use std::{
    ffi::OsString,
    io,
    path::{Component, Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

pub use command::{CommandExit, ConfinedCommand};
pub use confinement::{Confinement, Gap};
pub use environment::without_secrets;
#[cfg(target_os = "linux")]
use linux as system;
#[cfg(unix)]
pub use partner::ConfinedPartner;
#[cfg(not(target_os = "linux"))]
use plain as system;

/// Whether `init` was called in this process. If it was not, no sandbox is made, because the helper would run the program's own
/// `main` again. It is the only global here: it describes the process, and only `main` can set it.
static INITIALISED: AtomicBool = AtomicBool::new(false);

/// Makes this program able to run confined commands. Call it first in `main`, before any thread starts.
///
/// The sandbox starts this program again as its helper. In a helper process this function does the helper's work and never returns;
/// otherwise it returns at once.
pub fn init() {
    #[cfg(target_os = "linux")]
    linux::become_helper_if_asked();
    INITIALISED.store(true, Ordering::Relaxed);
}

/// The files in git's folder that git obeys: programs that it runs, settings that name programs, and files that lead to other
/// settings.
const GIT_OBEYS: [&str; 4] = ["hooks", "config", "config.worktree", "commondir"];

/// How deep `.git/modules` is searched for repositories of submodules: a slash in a submodule's name makes another level.
const SUBMODULE_DEPTH: usize = 6;

/// The rules for the commands of a sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// The folder that commands work in. Of the user's folders, it is the only one that they can read and change.
    pub workspace: PathBuf,
    /// Whether commands can change the workspace.
    pub access: WorkspaceAccess,
    /// Further files and folders that commands can read and change. Paths that do not exist are skipped.
    pub write: Vec<PathBuf>,
    /// Further files and folders that commands can read and run programs from, such as toolchains. `/usr`, `/bin`, `/lib`, `/etc`
    /// and `/opt` are always readable. Paths that do not exist are skipped.
    pub read: Vec<PathBuf>,
    /// Paths inside the workspace that commands can read but not change, absolute or relative to the workspace.
    pub read_only: Vec<PathBuf>,
    /// Paths inside the workspace that commands can neither read nor change, such as a store. A path that does not exist when a
    /// command starts can still be created.
    pub hidden: Vec<PathBuf>,
    /// Whether commands reach the network.
    pub network: Network,
    /// All variables that commands see, besides `HOME`, `TMPDIR` and `TERM`. See [`without_secrets`].
    pub environment: Vec<(OsString, OsString)>,
    /// The folder for the private temporary folder of each command.
    pub temporary: PathBuf,
    /// The shell that runs the commands.
    pub shell: PathBuf,
    /// The barriers to use. Tests switch some off, because each must hold alone.
    #[doc(hidden)]
    pub barriers: Barriers,
}

impl Policy {
    /// A policy for a workspace: no network and no variables. Git's hooks and settings are read-only, also in submodules, because
    /// git runs the programs they name outside the sandbox.
    #[must_use]
    pub fn new(workspace: impl Into<PathBuf>) -> Self {
        let bash = Path::new("/bin/bash");
        Self {
            workspace: workspace.into(),
            access: WorkspaceAccess::Write,
            write: Vec::new(),
            read: Vec::new(),
            read_only: GIT_OBEYS.iter().map(|name| Path::new(".git").join(name)).collect(),
            hidden: Vec::new(),
            network: Network::None,
            environment: Vec::new(),
            temporary: if cfg!(unix) { PathBuf::from("/tmp") } else { std::env::temp_dir() },
            shell: if bash.exists() { bash.to_owned() } else { PathBuf::from("/bin/sh") },
            barriers: Barriers::default(),
        }
    }
}

/// Whether commands can change the workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WorkspaceAccess {
    /// They can read and change it.
    #[default]
    Write,
    /// They can only read it, except for what [`Policy::write`] names.
    Read,
}

/// Whether commands reach the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Network {
    /// No socket can be created, except pairs that connect the processes of a command with each other.
    #[default]
    None,
    /// TCP, UDP and name resolution, on every interface. Unix sockets stay closed, because Docker, SSH agents and D-Bus listen on
    /// them.
    Allowed,
}

/// The barriers that a sandbox tries to use.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Barriers {
    /// Mount, PID, network and IPC namespaces.
    pub namespaces: bool,
    /// Landlock rules.
    pub landlock: bool,
}

impl Default for Barriers {
    fn default() -> Self {
        Self { namespaces: true, landlock: true }
    }
}

/// The limits of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommandLimits {
    /// The time after which the command is killed with all its children.
    pub time: Duration,
    /// The number of processes and threads at which the command is killed. They are counted about fifty times per second.
    pub processes: u32,
}

impl Default for CommandLimits {
    fn default() -> Self {
        Self { time: Duration::from_secs(120), processes: 1024 }
    }
}

/// Why a command could not be run confined.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SandboxError {
    /// The program did not call [`init`]; its `main` must begin with it.
    #[error(
        "this program cannot run confined commands: its `main` does not begin with `rejoin::sandbox::init()`"
    )]
    NotInitialised,
    /// The workspace is not a folder that commands can be confined to.
    #[error("{} cannot be a workspace: {reason}", path.display())]
    Workspace {
        /// The workspace of the policy.
        path: PathBuf,
        /// Why commands cannot be confined to it.
        reason: String,
    },
    /// A path of the policy is outside the workspace, or is the workspace itself.
    #[error("{} is not inside the workspace", path.display())]
    Outside {
        /// The path, from [`Policy::hidden`] or [`Policy::read_only`].
        path: PathBuf,
    },
    /// The helper process could not be started.
    #[error("the helper process of the sandbox cannot be started")]
    Start(#[source] io::Error),
    /// A confinement that worked when the sandbox was made no longer works, or the shell cannot be run. No command ran.
    #[error("the command cannot be confined: {0}")]
    Confine(String),
    /// The supervising process ended without a report. Its command was killed with it, unless the sandbox reported
    /// [`Gap::Survivors`].
    #[error("the supervising process of the command was killed")]
    Lost,
}

/// Runs commands under one policy.
#[derive(Debug)]
pub struct Sandbox {
    policy: Policy,
    confinement: Confinement,
    mode: system::Mode,
}

impl Sandbox {
    /// Prepares a sandbox and finds out what can be enforced, by confining a process that runs nothing. Blocks for some hundredths
    /// of a second.
    ///
    /// # Errors
    /// If the program did not call [`init`], or the policy cannot be used. A machine without a sandbox is not an error: see
    /// [`Sandbox::confinement`].
    pub fn new(policy: Policy) -> Result<Self, SandboxError> {
        if !INITIALISED.load(Ordering::Relaxed) {
            return Err(SandboxError::NotInitialised);
        }
        let policy = resolved(policy)?;
        private::remove_abandoned(&policy.temporary);
        let (mode, confinement) = system::trial(&policy)?;
        Ok(Self { policy, confinement, mode })
    }

    /// What this machine can enforce, for a workspace without protected paths. Blocks for some hundredths of a second.
    #[must_use]
    pub fn probe() -> Confinement {
        let probe = || {
            let temporary = Policy::new("/").temporary;
            let folder = private::PrivateFolder::create(&temporary).map_err(SandboxError::Start)?;
            Self::new(Policy::new(folder.path())).map(|sandbox| sandbox.confinement)
        };
        probe().unwrap_or_else(|why| Confinement::None { reason: with_causes(&why) })
    }

    /// The protection that is enforced for the commands of this sandbox. If less could be enforced for a command, it does not run.
    #[must_use]
    pub fn confinement(&self) -> &Confinement {
        &self.confinement
    }

    /// The policy, with all paths resolved.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Runs a shell command in the workspace, with both output streams in one pipe and an empty input. It works in any runtime,
    /// because a thread waits for the command.
    ///
    /// # Errors
    /// If the command was not started.
    pub async fn spawn(&self, command: &str, limits: CommandLimits) -> Result<ConfinedCommand, SandboxError> {
        ConfinedCommand::start(system::Start::new(
            &self.policy,
            self.mode,
            &self.confinement,
            command,
            limits,
        ))
        .await
    }

    /// Starts a program to exchange messages with: one stream for its input and output, another for its errors. It runs until it
    /// ends or is dropped. Needs a tokio runtime with I/O enabled.
    ///
    /// # Errors
    /// If the program was not started.
    #[cfg(unix)]
    pub async fn spawn_partner(&self, program: &[String]) -> Result<ConfinedPartner, SandboxError> {
        let words: Vec<String> = program.iter().map(|word| quoted(word)).collect();
        let command = format!("exec {}", words.join(" "));
        let limits = CommandLimits { time: Duration::MAX, ..CommandLimits::default() };
        let start = system::Start::new(&self.policy, self.mode, &self.confinement, &command, limits);
        ConfinedPartner::start(start).await
    }
}

/// A word, quoted so that a shell does not change it.
#[cfg(unix)]
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Resolves the paths of a policy: absolute, and without links if they exist.
fn resolved(mut policy: Policy) -> Result<Policy, SandboxError> {
    let unusable = |reason: String| SandboxError::Workspace { path: policy.workspace.clone(), reason };
    let workspace = policy.workspace.canonicalize().map_err(|why| unusable(why.to_string()))?;
    if !workspace.is_dir() {
        return Err(unusable(String::from("it is not a folder")));
    }
    if workspace.parent().is_none() {
        return Err(unusable(String::from("it is the root of the file system")));
    }
    if policy.read_only.iter().any(|path| workspace.join(path) == workspace.join(".git/config")) {
        submodules(&workspace.join(".git/modules"), SUBMODULE_DEPTH, &mut policy.read_only);
    }
    for list in [&mut policy.read_only, &mut policy.hidden] {
        for path in list.iter_mut() {
            *path = protected(&workspace, path)?;
        }
        list.sort();
        list.dedup();
    }
    policy.write = existing(&policy.write);
    if policy.write.iter().any(|path| workspace.starts_with(path)) {
        policy.access = WorkspaceAccess::Write;
    }
    if policy.access == WorkspaceAccess::Read {
        // Paths that cannot be changed anyway need no further protection.
        policy.read_only.retain(|path| policy.write.iter().any(|writable| path.starts_with(writable)));
    } else {
        policy.write.retain(|path| !path.starts_with(&workspace));
    }
    policy.read = existing(&policy.read);
    policy.read.retain(|path| !path.starts_with(&workspace) && !policy.write.contains(path));
    policy.temporary = policy.temporary.canonicalize().unwrap_or(policy.temporary);
    policy.workspace = workspace;
    Ok(policy)
}

/// Adds the hooks and settings of existing submodules: `git status` in the repository runs them, too.
fn submodules(folder: &Path, depth: usize, read_only: &mut Vec<PathBuf>) {
    if depth == 0 {
        return;
    }
    for entry in folder.read_dir().into_iter().flatten().flatten() {
        let path = entry.path();
        if path.join("HEAD").is_file() {
            let obeyed = GIT_OBEYS.iter().map(|name| path.join(name));
            read_only.extend(obeyed.filter(|path| path.symlink_metadata().is_ok()));
            submodules(&path.join("modules"), depth - 1, read_only);
        } else if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            submodules(&path, depth - 1, read_only);
        }
    }
}

/// The paths to grant for a list of the policy: never devices or processes, and for the root its contents.
fn existing(paths: &[PathBuf]) -> Vec<PathBuf> {
    let entries = |path: PathBuf| -> Vec<PathBuf> {
        match path.parent() {
            Some(_) => vec![path],
            None => path.read_dir().into_iter().flatten().flatten().map(|entry| entry.path()).collect(),
        }
    };
    let granted = |path: &PathBuf| !["/dev", "/proc", "/sys"].iter().any(|folder| path.starts_with(folder));
    let existing = paths.iter().filter_map(|path| path.canonicalize().ok());
    existing.flat_map(entries).filter_map(|path| path.canonicalize().ok()).filter(granted).collect()
}

/// The path to protect for one of the policy's paths: the path itself, or the first link or file on the way to it, because
/// replacing that would replace everything behind it.
fn protected(workspace: &Path, path: &Path) -> Result<PathBuf, SandboxError> {
    let full = workspace.join(path);
    // The last part is not resolved: if it is a link, the link itself is protected.
    let full = match (full.parent().map(Path::canonicalize), full.file_name()) {
        (Some(Ok(parent)), Some(name)) if !full.starts_with(workspace) => parent.join(name),
        _ => full,
    };
    let inside = full.strip_prefix(workspace).ok();
    let inside = inside.filter(|inside| inside.components().all(|part| matches!(part, Component::Normal(_))));
    let Some(inside) = inside.filter(|inside| !inside.as_os_str().is_empty()) else {
        return Err(SandboxError::Outside { path: full });
    };
    let mut place = workspace.to_owned();
    for part in inside {
        place.push(part);
        if place.symlink_metadata().is_ok_and(|found| !found.is_dir()) {
            break;
        }
    }
    Ok(if full.starts_with(&place) && place.symlink_metadata().is_ok() { place } else { full })
}

/// An error and its causes, on one line.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(why) = cause {
        text = format!("{text}: {why}");
        cause = why.source();
    }
    text
}
