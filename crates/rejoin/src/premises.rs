//! What tools see and what commands may do in a conversation's folder: rejoin's own files and files with keys are hidden from both, and a
//! command runs in the sandbox with the permissions that the user gave. The caller passes the environment and the settings.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use rejoin_engine::{
    sandbox::{Network, Policy, without_secrets},
    tools::{Delegate, Run, Tools, Workspace},
    turn::Limits,
};
use rejoin_store::Location;

/// The places that tools and commands must not see, and the folder that they work in.
#[derive(Debug, Clone)]
pub struct Premises {
    /// The folder that tools and commands work in.
    pub folder: PathBuf,
    /// The store of the conversation, and any other whose files are hidden.
    pub stores: Vec<Location>,
    /// Hidden folders and files: rejoin's data folder, and everything that contains keys.
    pub hidden: HiddenPlaces,
}

/// What the user allows commands.
#[derive(Debug, Clone)]
pub struct CommandPermissions {
    /// Folders and files that commands may read besides the folder. A path may begin with `~/`.
    pub read: Vec<String>,
    /// Whether they may use the network.
    pub network: Network,
    /// The user's home folder.
    pub home: Option<PathBuf>,
    /// The variables of the process. Commands get those that hold no secrets.
    pub environment: Vec<(OsString, OsString)>,
}

/// Folders and files that tools and commands must not see.
#[derive(Debug, Clone)]
pub struct HiddenPlaces {
    /// rejoin's data folder.
    pub data: PathBuf,
    /// Files that contain keys.
    pub keys: Vec<PathBuf>,
}

impl Premises {
    /// The folder that tools work in, without the files that are hidden from them.
    #[must_use]
    pub fn workspace(&self) -> Workspace {
        self.hiding(Workspace::new(&self.folder))
    }

    /// A workspace, without the files that are hidden from tools.
    #[must_use]
    pub fn hiding(&self, workspace: Workspace) -> Workspace {
        let workspace = self.hidden.keys.iter().cloned().fold(workspace, Workspace::hiding);
        self.stores.iter().cloned().fold(workspace, Workspace::hiding_store)
    }

    /// The tools for files of the folder, commands in the sandbox, and delegation.
    #[must_use]
    pub fn tools(&self, permissions: CommandPermissions, limits: &Limits) -> Tools {
        let run = Run::new(self.policy(permissions), limits.tool.time, limits.tool.kept);
        Tools::changing(&self.workspace()).with(run).with(Delegate)
    }

    /// What the sandbox allows commands.
    #[must_use]
    pub fn policy(&self, permissions: CommandPermissions) -> Policy {
        let CommandPermissions { read, network, home, environment } = permissions;
        let read = read.into_iter().map(|path| match (path.strip_prefix("~/"), &home) {
            (Some(rest), Some(home)) => home.join(rest),
            _ => PathBuf::from(path),
        });
        let toolchains = toolchains(home.as_deref(), &environment);
        Policy {
            read: read.collect(),
            hidden: self.hidden_inside(),
            network,
            environment: without_secrets(environment.into_iter().chain(toolchains), &[]),
            ..Policy::new(&self.folder)
        }
    }

    /// rejoin's own files, and files with keys, that are inside the folder.
    fn hidden_inside(&self) -> Vec<PathBuf> {
        let real = |path: &Path| path.canonicalize().ok();
        let Some(folder) = real(&self.folder) else { return Vec::new() };
        let stored = self.stores.iter().cloned().flat_map(|store| match store {
            // Its log, its index and its copies are next to it, under longer names.
            Location::Sqlite(file) => file.parent().map(Path::to_owned).into_iter().chain([file]).collect(),
            Location::Jsonl(folder) => vec![folder],
            Location::Postgres(address) => address.beside().map(Path::to_owned).into_iter().collect(),
            Location::Memory => Vec::new(),
        });
        let own =
            [self.hidden.data.clone()].into_iter().chain(stored).chain(self.hidden.keys.iter().cloned());
        let mut inside: Vec<PathBuf> = own
            .filter_map(|path| real(&path))
            .filter(|path| path.starts_with(&folder) && *path != folder)
            .collect();
        inside.sort();
        inside.dedup();
        inside
    }
}

/// The variables with which toolchains find their files, because a command has a different home folder. Those that are set stay.
fn toolchains(home: Option<&Path>, environment: &[(OsString, OsString)]) -> Vec<(OsString, OsString)> {
    let folders = [
        ("CARGO_HOME", ".cargo"),
        ("RUSTUP_HOME", ".rustup"),
        ("PYENV_ROOT", ".pyenv"),
        ("NVM_DIR", ".nvm"),
        ("GOPATH", "go"),
    ];
    let is_set = |variable: &str| environment.iter().any(|(name, _)| name == variable);
    let found =
        folders.into_iter().filter(|(variable, _)| !is_set(variable)).filter_map(|(variable, folder)| {
            let folder = home?.join(folder);
            folder.is_dir().then(|| (variable.into(), folder.into()))
        });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Commands do not see the store, the data folder and files with keys, wherever in the folder they are; they get the variables of
    /// toolchains that are not set, and none with a secret.
    #[test]
    fn commands_see_no_files_and_variables_of_their_host() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().canonicalize().unwrap().join(name);
        for name in ["data", "stored", ".cargo", "go"] {
            std::fs::create_dir(at(name)).unwrap();
        }
        for name in ["auth.json", "stored/rejoin.db"] {
            std::fs::write(at(name), "").unwrap();
        }
        let premises = Premises {
            folder: folder.path().to_owned(),
            stores: vec![Location::Sqlite(at("stored/rejoin.db"))],
            hidden: HiddenPlaces { data: at("data"), keys: vec![at("auth.json"), at("missing.json")] },
        };
        let set = |name: &str, value: &str| (OsString::from(name), OsString::from(value));
        let policy = premises.policy(CommandPermissions {
            read: vec![String::from("~/books"), String::from("/opt/x")],
            network: Network::None,
            home: Some(folder.path().to_owned()),
            environment: vec![set("GOPATH", "/elsewhere"), set("MY_API_KEY", "sk-1")],
        });
        assert_eq!(policy.read, [folder.path().join("books"), PathBuf::from("/opt/x")]);
        assert_eq!(policy.hidden, [at("auth.json"), at("data"), at("stored"), at("stored/rejoin.db")]);
        let names: Vec<&str> = policy.environment.iter().filter_map(|(name, _)| name.to_str()).collect();
        assert_eq!(names, ["GOPATH", "CARGO_HOME"]);
    }
}
