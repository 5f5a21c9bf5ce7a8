//! The tools of a conversation: those that work on files of this folder, commands in the sandbox, delegation, and `fetch` if the
//! settings allow it. Rejoin's own files are hidden from all of them.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use rejoin::{
    engine::{
        tools::{Delegate, Run, Tools, Workspace},
        turn::Limits,
    },
    sandbox::{Network, Policy, without_secrets},
    store::Location,
};

use crate::{answering, context::CliContext};

/// The folder that tools work in, without rejoin's own files and the files that hold keys.
pub fn workspace(desk: &CliContext) -> Workspace {
    hiding(desk, Workspace::new(&desk.folder))
}

/// A workspace that hides rejoin's own files and the files that hold keys.
pub fn hiding(desk: &CliContext, workspace: Workspace) -> Workspace {
    let keys = answering::files_with_keys(&desk.home).into_iter();
    let workspace = keys.fold(workspace, Workspace::hiding);
    stores(desk).into_iter().fold(workspace, Workspace::hiding_store)
}

/// All tools.
pub fn tools(desk: &CliContext, limits: &Limits) -> Tools {
    let run = Run::new(policy(desk), limits.tool.time, limits.tool.kept);
    let tools = Tools::changing(&workspace(desk)).with(run).with(Delegate);
    if desk.settings.is_on("tools.fetch") { tools.with_fetch() } else { tools }
}

fn stores(desk: &CliContext) -> [Location; 2] {
    [desk.location.clone(), desk.home.store()]
}

/// What commands may do, by the settings.
pub fn policy(desk: &CliContext) -> Policy {
    let home = std::env::home_dir();
    let given = desk.settings.list("sandbox.read").into_iter();
    let read = given.map(|path| match (path.strip_prefix("~/"), &home) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => PathBuf::from(path),
    });
    Policy {
        read: read.collect(),
        hidden: own_files_inside(desk),
        network: match desk.settings.is_on("sandbox.network") {
            true => Network::Allowed,
            false => Network::None,
        },
        environment: without_secrets(std::env::vars_os().chain(toolchains(home.as_deref())), &[]),
        ..Policy::new(&desk.folder)
    }
}

/// Where toolchains find themselves: a command has another home folder, in which they would look otherwise.
fn toolchains(home: Option<&Path>) -> Vec<(OsString, OsString)> {
    let folders = [
        ("CARGO_HOME", ".cargo"),
        ("RUSTUP_HOME", ".rustup"),
        ("PYENV_ROOT", ".pyenv"),
        ("NVM_DIR", ".nvm"),
        ("GOPATH", "go"),
    ];
    let found = folders.into_iter().filter_map(|(variable, folder)| {
        let folder = home?.join(folder);
        (std::env::var_os(variable).is_none() && folder.is_dir()).then(|| (variable.into(), folder.into()))
    });
    found.collect()
}

/// Rejoin's own files, and files with keys, that are inside of the workspace.
fn own_files_inside(desk: &CliContext) -> Vec<PathBuf> {
    let real = |path: &Path| path.canonicalize().ok();
    let Some(folder) = real(&desk.folder) else { return Vec::new() };
    let stored = stores(desk).into_iter().flat_map(|store| match store {
        // Its log, its index and its copies have longer names beside it.
        Location::Sqlite(file) => file.parent().map(Path::to_owned).into_iter().chain([file]).collect(),
        Location::Jsonl(folder) => vec![folder],
        Location::Postgres(address) => address.beside().map(Path::to_owned).into_iter().collect(),
        Location::Memory => Vec::new(),
    });
    let own =
        [desk.home.data.clone()].into_iter().chain(stored).chain(answering::files_with_keys(&desk.home));
    let mut inside: Vec<PathBuf> = own
        .filter_map(|path| real(&path))
        .filter(|path| path.starts_with(&folder) && *path != folder)
        .collect();
    inside.sort();
    inside.dedup();
    inside
}
