//! The tools of a conversation, by the settings and the environment. What they may see and do is decided in `rejoin::premises`.

use rejoin::{
    engine::{
        tools::{Tools, Workspace},
        turn::Limits,
    },
    premises::{CommandPermissions, HiddenPlaces, Premises},
    sandbox::Network,
};

use crate::{answering, context::CliContext};

/// The folder that tools work in, without rejoin's own files and files that contain keys.
pub fn workspace(cli: &CliContext) -> Workspace {
    premises(cli).workspace()
}

/// A workspace that hides rejoin's own files and files that contain keys.
pub fn hiding(cli: &CliContext, workspace: Workspace) -> Workspace {
    premises(cli).hiding(workspace)
}

/// All tools, with `fetch` if the settings allow it.
pub fn tools(cli: &CliContext, limits: &Limits) -> Tools {
    let tools = premises(cli).tools(permissions(cli), limits);
    if cli.settings.is_on("tools.fetch") { tools.with_fetch() } else { tools }
}

/// The permissions of commands, by the settings.
#[cfg(feature = "mcp")]
pub fn policy(cli: &CliContext) -> rejoin::sandbox::Policy {
    premises(cli).policy(permissions(cli))
}

fn premises(cli: &CliContext) -> Premises {
    Premises {
        folder: cli.folder.clone(),
        stores: vec![cli.location.clone(), cli.home.store()],
        hidden: HiddenPlaces { data: cli.home.data.clone(), keys: answering::key_places(&cli.home).files() },
    }
}

fn permissions(cli: &CliContext) -> CommandPermissions {
    CommandPermissions {
        read: cli.settings.list("sandbox.read"),
        network: if cli.settings.is_on("sandbox.network") { Network::Allowed } else { Network::None },
        home: std::env::home_dir(),
        environment: std::env::vars_os().collect(),
    }
}
