//! The MCP servers of a conversation: asks whether the servers of a project's file may be used, and starts those that may.
//! `rejoin::mcp` decides which they are. Without a terminal, a file without an answer is ignored.

use std::{env, sync::Arc};

use rejoin::mcp::{self, GivenServer, McpEntry, McpProject, McpServers, ServerSettings};

use crate::{
    commands::{has_terminal, tool_policy},
    context::CliContext,
    failure::Failure,
    output, question, settings,
};

/// What to do about a project's file without an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IfUndecided {
    /// Ask on a terminal; otherwise ignore the file and say so.
    Ask,
    /// Leave its servers out.
    LeaveOut,
}

/// Starts the enabled servers in the background; `None` if there are none.
pub fn start(cli: &CliContext) -> Result<Option<Arc<McpServers>>, Failure> {
    let given = given(cli, IfUndecided::Ask)?;
    let on: Vec<McpEntry> = given
        .iter()
        .filter(|server| server.settings.enabled)
        .map(|server| entry(cli, &server.settings))
        .collect();
    Ok((!on.is_empty()).then(|| Arc::new(McpServers::start(on))))
}

/// All servers that may be used, those of the settings first.
pub fn given(cli: &CliContext, if_undecided: IfUndecided) -> Result<Vec<GivenServer>, Failure> {
    let settings = settings::servers(&cli.home.config)?;
    let mut project = project(cli);
    if let Some(project) = project.as_mut().filter(|project| project.agreed().is_none()) {
        match if_undecided {
            IfUndecided::LeaveOut => {}
            IfUndecided::Ask if has_terminal() => {
                let agreed = ask(project);
                decide(cli, project, agreed);
            }
            IfUndecided::Ask => {
                let path = output::shown(&project.path);
                output::note(format!(
                    "{path} names MCP servers you have not approved; run `rejoin mcp trust` to approve them"
                ));
            }
        }
    }
    Ok(mcp::given(settings, project))
}

/// The project's file, if there is one that names servers. A file that cannot be used is reported.
pub fn project(cli: &CliContext) -> Option<McpProject> {
    McpProject::find(&cli.folder, &cli.home.data).unwrap_or_else(|unusable| {
        let (path, why) = (output::shown(&unusable.path), output::harmless(&unusable.why.to_string()));
        output::warning(format!("{path} cannot be used: {why}"));
        None
    })
}

/// Remembers whether the person agrees to a project's file.
pub fn decide(cli: &CliContext, project: &mut McpProject, agreed: bool) {
    if let Err(why) = project.decide(agreed, &cli.home.data) {
        output::warning(format!("the answer cannot be remembered: {why}"));
    }
}

fn ask(project: &McpProject) -> bool {
    output::talk(&format!("{} wants to use MCP servers:", output::shown(&project.path)));
    say_servers(project);
    loop {
        match question::ask("Start them whenever you talk to a model here? [y]es, [n]o [n] ").as_deref() {
            None | Some("" | "n" | "no") => return false,
            Some("y" | "yes") => return true,
            _ => output::talk("Please answer y or n."),
        }
    }
}

/// Shows the servers of a project, one line each.
pub fn say_servers(project: &McpProject) {
    for server in project.named() {
        output::talk(&format!("  {}", output::harmless(&format!("{}: {}", server.name, server.place()))));
    }
}

/// A server in the form that the engine starts: with variables filled in, and its permissions.
pub fn entry(cli: &CliContext, server: &ServerSettings) -> McpEntry {
    server.entry(tool_policy(cli), env::home_dir().as_deref(), &|name| env::var_os(name))
}
