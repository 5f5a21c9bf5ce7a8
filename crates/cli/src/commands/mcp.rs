//! `rejoin mcp`: the servers whose tools a model may call, and the history as an MCP server.

use rejoin::{
    mcp::{GivenServer, McpPhase, McpServerState, McpServers, ServerSettings},
    shape,
};

use super::{block_on, exchange::shortened_line};
use crate::{
    args::{AddServerArguments, Mcp},
    context::{CliContext, Flags},
    failure::{FAILED, Failure},
    near, output,
    servers::{self, IfUndecided},
    settings::{add_server, remove_server},
};

/// The largest width of a column.
const WIDEST: usize = 60;

/// How many characters of a tool's description are shown.
const GLIMPSE: usize = 80;

pub fn run(command: Mcp, flags: &Flags) -> Result<u8, Failure> {
    let cli = CliContext::new(flags)?;
    match command {
        Mcp::List { json } => list(&cli, json),
        Mcp::Add(arguments) => add(&cli, arguments),
        Mcp::Remove { name } => remove(&cli, &name),
        Mcp::Test { name, json } => test(&cli, &name, json),
        Mcp::Trust { no } => trust(&cli, !no),
        Mcp::Serve => serve(&cli),
    }
}

fn list(cli: &CliContext, json: bool) -> Result<u8, Failure> {
    let given = servers::given(cli, IfUndecided::LeaveOut)?;
    let widest = |text: fn(&ServerSettings) -> String| {
        given.iter().map(|server| text(&server.settings).chars().count()).max().unwrap_or(0).min(WIDEST)
    };
    let (width, places) = (widest(|server| server.name.clone()), widest(ServerSettings::place));
    for GivenServer { settings, from } in &given {
        if json {
            let names =
                |pairs: &[(String, String)]| pairs.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
            output::json_data(&shape::mcp_entry(&shape::McpListed {
                name: &settings.name,
                from: from.name(),
                place: &settings.place(),
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
        let place = output::harmless(&settings.place());
        output::data(&format!("{name:<width$}  {place:<places$}  {about}"))?;
    }
    if given.is_empty() && !json {
        output::talk("There are no MCP servers. `rejoin mcp add NAME -- COMMAND` adds one.");
    }
    if let Some(project) = servers::project(cli).filter(|project| project.agreed() != Some(true)) {
        let path = output::shown(&project.path);
        output::note(format!(
            "{path} names servers you have not approved; run `rejoin mcp trust` to approve them"
        ));
    }
    Ok(0)
}

fn add(cli: &CliContext, arguments: AddServerArguments) -> Result<u8, Failure> {
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
    add_server(&cli.home.config, &server)?;
    let values = server.headers.iter().chain(&server.env);
    let looks_like_key = |name: &str, value: &str| !value.contains("${") && is_secret(name);
    for (name, _) in values.filter(|(name, value)| looks_like_key(name, value)) {
        let name = output::harmless(name);
        output::warning(format!(
            "the value of {name} is in {} now; `${{VARIABLE}}` would keep it out of the file",
            output::shown(&cli.home.config)
        ));
    }
    let name = output::harmless(&server.name);
    output::talk(&format!("Added {name}. `rejoin mcp test {name}` starts it."));
    Ok(0)
}

/// Whether the name of a header or a variable suggests that its value is a key.
fn is_secret(name: &str) -> bool {
    let pair = [(name.into(), String::from("x").into())];
    rejoin::sandbox::without_secrets(pair, &[]).is_empty()
}

fn remove(cli: &CliContext, name: &str) -> Result<u8, Failure> {
    if remove_server(&cli.home.config, name)? {
        output::talk(&format!("Removed {}.", output::harmless(name)));
        return Ok(0);
    }
    Err(unknown(cli, name)?)
}

/// The error for an unknown server.
fn unknown(cli: &CliContext, name: &str) -> Result<Failure, Failure> {
    let given = servers::given(cli, IfUndecided::LeaveOut)?;
    let near = near::did_you_mean(name, given.iter().map(|server| server.settings.name.as_str()));
    let what = format!("there is no MCP server `{}`", output::harmless(name));
    Ok(Failure::usage(what, format!("{near}`rejoin mcp list` lists them")))
}

fn test(cli: &CliContext, name: &str, json: bool) -> Result<u8, Failure> {
    let given = servers::given(cli, IfUndecided::Ask)?;
    let Some(server) = given.iter().find(|server| server.settings.name == name) else {
        return Err(unknown(cli, name)?);
    };
    let servers = McpServers::start(vec![servers::entry(cli, &server.settings)]);
    block_on(servers.settled())?;
    let Some(state) = servers.states().pop() else { return Ok(FAILED) };
    if json {
        output::json_data(&shape::mcp_server(&state))?;
    } else {
        show(&state)?;
    }
    Ok(if state.phase == McpPhase::Ready { 0 } else { FAILED })
}

/// Shows the state of a server, with its tools.
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

fn trust(cli: &CliContext, agreed: bool) -> Result<u8, Failure> {
    let Some(mut project) = servers::project(cli) else {
        return Err(Failure::usage(
            "this folder has no .mcp.json that names servers",
            "it is looked for here and above, up to the root of the repository",
        ));
    };
    servers::decide(cli, &mut project, agreed);
    let path = output::shown(&project.path);
    output::talk(&if agreed {
        format!("These servers of {path} are used from now on:")
    } else {
        format!("No server of {path} is used:")
    });
    servers::say_servers(&project);
    Ok(0)
}

fn serve(cli: &CliContext) -> Result<u8, Failure> {
    let (location, scope) = (cli.location.clone(), cli.scope.clone());
    let served = block_on(rejoin::mcp::serve(location, scope, tokio::io::stdin(), tokio::io::stdout()))?;
    served.map_err(|why| Failure::Usage {
        what: output::harmless(&why.to_string()),
        hint: Some(String::from("an MCP client starts this command and talks on standard input and output")),
    })?;
    Ok(0)
}
