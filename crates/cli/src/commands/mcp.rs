//! `rejoin mcp`: the servers whose tools a model may call, and the history as such a server.

use rejoin::{
    mcp::{McpPhase, McpServerState, McpServers},
    shape,
};

use super::{block_on, exchange::shortened_line};
use crate::{
    args::{AddServerArguments, Mcp},
    context::{CliContext, Flags},
    failure::{FAILED, Failure},
    near, output,
    servers::{self, GivenServer, Unasked},
    settings::{ServerSettings, add_server, remove_server},
};

/// The widest that a column of the list becomes.
const WIDEST: usize = 60;

/// How many characters of a tool's description are shown.
const GLIMPSE: usize = 80;

pub fn run(command: Mcp, flags: &Flags) -> Result<u8, Failure> {
    let desk = CliContext::new(flags)?;
    match command {
        Mcp::List { json } => list(&desk, json),
        Mcp::Add(arguments) => add(&desk, arguments),
        Mcp::Remove { name } => remove(&desk, &name),
        Mcp::Test { name, json } => test(&desk, &name, json),
        Mcp::Trust { no } => trust(&desk, !no),
        Mcp::Serve => serve(&desk),
    }
}

fn list(desk: &CliContext, json: bool) -> Result<u8, Failure> {
    let given = servers::given(desk, Unasked::LeaveOut)?;
    let widest = |text: fn(&ServerSettings) -> String| {
        given.iter().map(|server| text(&server.settings).chars().count()).max().unwrap_or(0).min(WIDEST)
    };
    let (width, places) = (widest(|server| server.name.clone()), widest(servers::place));
    for GivenServer { settings, from } in &given {
        if json {
            let names =
                |pairs: &[(String, String)]| pairs.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
            output::json_data(&shape::mcp_entry(&shape::McpListed {
                name: &settings.name,
                from: from.name(),
                place: &servers::place(settings),
                is_url: settings.url.is_some(),
                enabled: settings.enabled,
                network: settings.network,
                read: &settings.read,
                write: &settings.write,
                variables: &names(&settings.env),
                headers: &names(&settings.headers),
            }))?;
            continue;
        }
        let mut about = vec![from.name().to_owned()];
        about.extend((!settings.enabled).then(|| String::from("turned off")));
        about.extend(settings.network.then(|| String::from("network")));
        if !settings.write.is_empty() {
            about.push(format!("writes {}", settings.write.join(", ")));
        }
        let about = output::paint(&output::harmless(&about.join("; ")), output::DIM);
        let name = output::harmless(&settings.name);
        let place = output::harmless(&servers::place(settings));
        output::data(&format!("{name:<width$}  {place:<places$}  {about}"))?;
    }
    if given.is_empty() && !json {
        output::talk("There are no MCP servers. `rejoin mcp add NAME -- COMMAND` adds one.");
    }
    if let Some(project) = servers::project(desk).filter(|project| project.agreed != Some(true)) {
        let path = output::shown(&project.path);
        output::note(format!("{path} names servers that are not used; `rejoin mcp trust` agrees to them"));
    }
    Ok(0)
}

fn add(desk: &CliContext, arguments: AddServerArguments) -> Result<u8, Failure> {
    let mut command = arguments.command.into_iter();
    let server = ServerSettings {
        command: command.next(),
        args: command.collect(),
        env: arguments.env,
        url: arguments.url,
        headers: arguments.headers,
        read: arguments.read,
        write: arguments.write,
        network: arguments.network,
        timeout: arguments.timeout,
        start_timeout: arguments.start_timeout,
        trust_hints: arguments.trust_hints,
        ..ServerSettings::new(arguments.name)
    };
    if let Some(url) = server
        .url
        .as_deref()
        .filter(|url| !url.contains("${") && !rejoin::providers::registry::is_address(url))
    {
        let what = format!("`{}` is not an address", output::harmless(&rejoin::store::hidden(url)));
        return Err(Failure::usage(what, "it begins with http:// or https://"));
    }
    add_server(&desk.home.config, &server)?;
    let values = server.headers.iter().chain(&server.env);
    let looks_like_key = |name: &str, value: &str| !value.contains("${") && is_secret(name);
    for (name, _) in values.filter(|(name, value)| looks_like_key(name, value)) {
        let name = output::harmless(name);
        output::warning(format!(
            "the value of {name} is in {} now; `${{VARIABLE}}` would keep it out of the file",
            output::shown(&desk.home.config)
        ));
    }
    let name = output::harmless(&server.name);
    output::talk(&format!("Added {name}. `rejoin mcp test {name}` starts it."));
    Ok(0)
}

/// Whether a name of a header or a variable says that its value is a key.
fn is_secret(name: &str) -> bool {
    let pair = [(name.into(), String::from("x").into())];
    rejoin::sandbox::without_secrets(pair, &[]).is_empty()
}

fn remove(desk: &CliContext, name: &str) -> Result<u8, Failure> {
    if remove_server(&desk.home.config, name)? {
        output::talk(&format!("Removed {}.", output::harmless(name)));
        return Ok(0);
    }
    Err(unknown(desk, name)?)
}

/// There is no server of this name.
fn unknown(desk: &CliContext, name: &str) -> Result<Failure, Failure> {
    let given = servers::given(desk, Unasked::LeaveOut)?;
    let near = near::did_you_mean(name, given.iter().map(|server| server.settings.name.as_str()));
    let what = format!("there is no MCP server `{}`", output::harmless(name));
    Ok(Failure::usage(what, format!("{near}`rejoin mcp list` lists them")))
}

fn test(desk: &CliContext, name: &str, json: bool) -> Result<u8, Failure> {
    let given = servers::given(desk, Unasked::Ask)?;
    let Some(server) = given.iter().find(|server| server.settings.name == name) else {
        return Err(unknown(desk, name)?);
    };
    let servers = McpServers::start(vec![servers::entry(desk, &server.settings)]);
    block_on(servers.settled())?;
    let Some(state) = servers.states().pop() else { return Ok(FAILED) };
    if json {
        output::json_data(&shape::mcp_server(&state))?;
    } else {
        show(&state)?;
    }
    Ok(if state.phase == McpPhase::Ready { 0 } else { FAILED })
}

/// Shows how a server is doing, with its tools.
pub fn show(state: &McpServerState) -> Result<(), Failure> {
    let name = output::harmless(&state.name);
    match &state.phase {
        McpPhase::Ready => {
            let about = state
                .about
                .as_deref()
                .map(|about| format!(" ({})", output::harmless(about)))
                .unwrap_or_default();
            let took = state.took.unwrap_or_default().as_secs_f64();
            let tools = output::plural(state.tools.len(), "tool");
            output::data(&format!("{name}{about}: {tools}, started in {took:.2} s"))?;
        }
        McpPhase::Starting => {
            output::warning(format!("{name} has not answered; `start_timeout` may be longer"))
        }
        McpPhase::Failed(why) | McpPhase::Ended(why) => {
            output::warning(format!("{name} does not work: {}", output::harmless(why)));
        }
    }
    for tool in &state.tools {
        let first = shortened_line(tool.description.lines().next().unwrap_or_default(), GLIMPSE);
        output::data(&format!(
            "  {}  {}",
            output::harmless(&tool.name),
            output::paint(&output::harmless(&first), output::DIM)
        ))?;
    }
    for note in &state.notes {
        output::note(output::harmless(note));
    }
    Ok(())
}

fn trust(desk: &CliContext, agreed: bool) -> Result<u8, Failure> {
    let Some(project) = servers::project(desk) else {
        return Err(Failure::usage(
            "this folder has no .mcp.json that names servers",
            "it is looked for here and above, up to the root of the repository",
        ));
    };
    servers::remember(&desk.home, &project, agreed);
    let path = output::shown(&project.path);
    output::talk(&if agreed {
        format!("These servers of {path} are used from now on:")
    } else {
        format!("No server of {path} is used:")
    });
    for line in servers::described(&project) {
        output::talk(&format!("  {line}"));
    }
    Ok(0)
}

fn serve(desk: &CliContext) -> Result<u8, Failure> {
    let (location, scope) = (desk.location.clone(), desk.scope.clone());
    let served = block_on(rejoin::mcp::serve(location, scope, tokio::io::stdin(), tokio::io::stdout()))?;
    served.map_err(|why| Failure::Usage {
        what: output::harmless(&why.to_string()),
        hint: Some(String::from("an MCP client starts this command and talks on standard input and output")),
    })?;
    Ok(0)
}
