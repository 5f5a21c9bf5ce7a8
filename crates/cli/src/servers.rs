//! The MCP servers of a conversation: those of the settings, and those of a project's `.mcp.json` once the person agreed to that file.
//!
//! An answer is remembered for the file's path and content; a file that changed is asked about again. Without a terminal, a file
//! that was not agreed to is ignored.

use std::{
    env,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use rejoin::{
    mcp::{McpEntry, McpServers, McpTransport, START_TIME},
    sandbox::{Network, Policy, WorkspaceAccess},
    serde_json::{self, Value},
    store::files::{self, PrivateFolder},
};

use crate::{
    commands::{has_terminal, tool_policy},
    context::CliContext,
    failure::Failure,
    home::Home,
    output, question,
    settings::{self, ServerSettings},
};

/// The file of a project, in the form that several agents share.
const PROJECT_FILE: &str = ".mcp.json";
/// The largest file of a project that is read.
const MOST_BYTES: u64 = 1024 * 1024;
/// The answers, in the data folder: one `yes|no HASH PATH` per line.
const ANSWERS: &str = "mcp-projects";
const MOST_ANSWERS: usize = 1_000;

/// Where a server was named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerOrigin {
    Settings,
    Project,
}

impl ServerOrigin {
    pub fn name(self) -> &'static str {
        match self {
            Self::Settings => "settings",
            Self::Project => PROJECT_FILE,
        }
    }
}

/// A server that may be used.
#[derive(Debug, Clone)]
pub struct GivenServer {
    pub settings: ServerSettings,
    pub from: ServerOrigin,
}

/// A project's file and whether the person agreed to it.
pub struct Project {
    pub path: PathBuf,
    hash: String,
    servers: Vec<ServerSettings>,
    /// None if it was never asked about, or has changed.
    pub agreed: Option<bool>,
}

/// What to do about a project's file that was not asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unasked {
    /// Ask on a terminal; elsewhere, ignore it and say so.
    Ask,
    /// Leave its servers out.
    LeaveOut,
}

/// Starts the servers that are turned on, in the background; none if there are none.
pub fn start(desk: &CliContext) -> Result<Option<Arc<McpServers>>, Failure> {
    let given = given(desk, Unasked::Ask)?;
    let on: Vec<McpEntry> = given
        .iter()
        .filter(|server| server.settings.enabled)
        .map(|server| entry(desk, &server.settings))
        .collect();
    Ok((!on.is_empty()).then(|| Arc::new(McpServers::start(on))))
}

/// All servers that may be used: those of the settings first. A table of the settings without `command` and `url` says what the
/// project's server of the same name may do.
pub fn given(desk: &CliContext, unasked: Unasked) -> Result<Vec<GivenServer>, Failure> {
    let (own, permissions): (Vec<_>, Vec<_>) = settings::servers(&desk.home.config)?
        .into_iter()
        .partition(|server| server.command.is_some() || server.url.is_some());
    let of_project = match project(desk) {
        Some(project) if is_agreed(desk, &project, unasked) => project.servers,
        _ => Vec::new(),
    };
    let mut all: Vec<GivenServer> =
        own.into_iter().map(|settings| GivenServer { settings, from: ServerOrigin::Settings }).collect();
    for mut server in of_project {
        if all.iter().any(|other| other.settings.name == server.name) {
            continue;
        }
        if let Some(given) = permissions.iter().find(|given| given.name == server.name) {
            let ServerSettings { command, args, env, url, headers, .. } = server;
            server = ServerSettings { command, args, env, url, headers, ..given.clone() };
        }
        all.push(GivenServer { settings: server, from: ServerOrigin::Project });
    }
    Ok(all)
}

/// The project's file, if there is one that names servers: in this folder, or above it up to the root of the repository.
pub fn project(desk: &CliContext) -> Option<Project> {
    let mut path = None;
    for folder in desk.folder.ancestors() {
        let file = folder.join(PROJECT_FILE);
        if file.is_file() {
            path = Some(file);
            break;
        }
        if folder.join(".git").exists() {
            break;
        }
    }
    let path = path?;
    let shown = output::shown(&path);
    let read = files::read_small(&path, MOST_BYTES).map_err(|why| why.to_string());
    let servers =
        read.and_then(|bytes| Ok((servers_of(&bytes)?, rejoin::record::hash::of_bytes(&bytes).to_string())));
    match servers {
        Err(why) => {
            output::warning(format!("{shown} cannot be used: {}", output::harmless(&why)));
            None
        }
        Ok((servers, _)) if servers.is_empty() => None,
        Ok((servers, hash)) => {
            let agreed = answer(&desk.home, &path, &hash);
            Some(Project { path, hash, servers, agreed })
        }
    }
}

fn is_agreed(desk: &CliContext, project: &Project, unasked: Unasked) -> bool {
    match (project.agreed, unasked) {
        (Some(agreed), _) => agreed,
        (None, Unasked::LeaveOut) => false,
        (None, Unasked::Ask) if has_terminal() => {
            let agreed = ask(project);
            remember(&desk.home, project, agreed);
            agreed
        }
        (None, Unasked::Ask) => {
            let path = output::shown(&project.path);
            output::note(format!(
                "{path} names MCP servers that you have not agreed to, so they are not used; `rejoin mcp trust` agrees to them"
            ));
            false
        }
    }
}

fn ask(project: &Project) -> bool {
    output::talk(&format!("{} wants to use MCP servers:", output::shown(&project.path)));
    for line in described(project) {
        output::talk(&format!("  {line}"));
    }
    loop {
        match question::ask("Start them whenever you talk to a model here? [y]es, [n]o [n] ").as_deref() {
            None | Some("" | "n" | "no") => return false,
            Some("y" | "yes") => return true,
            _ => output::talk("Please answer y or n."),
        }
    }
}

/// The servers of a project, one line each.
pub fn described(project: &Project) -> Vec<String> {
    let line = |server: &ServerSettings| output::harmless(&format!("{}: {}", server.name, place(server)));
    project.servers.iter().map(line).collect()
}

/// Where a server is: its command line or its address.
pub fn place(server: &ServerSettings) -> String {
    match (&server.command, &server.url) {
        (Some(command), _) => {
            let words = [command].into_iter().chain(&server.args);
            words.map(String::as_str).collect::<Vec<_>>().join(" ")
        }
        (None, Some(url)) => rejoin::store::hidden(url),
        (None, None) => String::from("nothing to start"),
    }
}

/// Remembers whether the person agreed to a project's file as it is now.
pub fn remember(home: &Home, project: &Project, agreed: bool) {
    let path = project.path.to_string_lossy();
    let mut lines = answers(home);
    lines.retain(|line| line.splitn(3, ' ').nth(2) != Some(&*path));
    lines.push(format!("{} {} {path}", if agreed { "yes" } else { "no" }, project.hash));
    let newest = &lines[lines.len().saturating_sub(MOST_ANSWERS)..];
    let text: String = newest.iter().map(|line| format!("{line}\n")).collect();
    let folder = PrivateFolder::new(&home.data);
    if let Err(why) = folder.make().and_then(|()| folder.replace(ANSWERS, text.as_bytes())) {
        output::warning(format!("the answer cannot be remembered: {why}"));
    }
}

fn answers(home: &Home) -> Vec<String> {
    let bytes = PrivateFolder::new(&home.data).read(ANSWERS, MOST_BYTES).ok().flatten().unwrap_or_default();
    String::from_utf8(bytes).unwrap_or_default().lines().map(str::to_owned).collect()
}

fn answer(home: &Home, path: &Path, hash: &str) -> Option<bool> {
    let path = path.to_string_lossy();
    // A path with a line break cannot be remembered, and is asked about each time.
    answers(home).iter().find_map(|line| {
        let mut parts = line.splitn(3, ' ');
        let (said, of, at) = (parts.next()?, parts.next()?, parts.next()?);
        (of == hash && at == path).then_some(said == "yes")
    })
}

/// The servers in a project's file.
fn servers_of(bytes: &[u8]) -> Result<Vec<ServerSettings>, String> {
    let file: Value = serde_json::from_slice(bytes).map_err(|why| why.to_string())?;
    let Some(servers) = file.get("mcpServers") else { return Ok(Vec::new()) };
    let servers = servers.as_object().ok_or("`mcpServers` is no object")?;
    servers
        .iter()
        .map(|(name, given)| server_of(name, given).map_err(|why| format!("`{name}`: {why}")))
        .collect()
}

fn server_of(name: &str, given: &Value) -> Result<ServerSettings, String> {
    let text = |field: &str| match &given[field] {
        Value::Null => Ok(None),
        Value::String(text) => Ok(Some(text.clone())),
        _ => Err(format!("`{field}` is no text")),
    };
    let pairs = |field: &str| match &given[field] {
        Value::Null => Ok(Vec::new()),
        Value::Object(pairs) => pairs
            .iter()
            .map(|(name, value)| {
                Ok((
                    name.clone(),
                    value.as_str().ok_or(format!("`{field}` holds something that is no text"))?.to_owned(),
                ))
            })
            .collect(),
        _ => Err(format!("`{field}` is no object")),
    };
    let args = match &given["args"] {
        Value::Null => Vec::new(),
        Value::Array(args) => {
            let texts: Option<Vec<String>> = args.iter().map(|arg| arg.as_str().map(str::to_owned)).collect();
            texts.ok_or("`args` is not a list of texts")?
        }
        _ => return Err(String::from("`args` is not a list of texts")),
    };
    let server = ServerSettings {
        command: text("command")?,
        args,
        env: pairs("env")?,
        url: text("url")?,
        headers: pairs("headers")?,
        enabled: given["disabled"] != true,
        ..ServerSettings::new(name)
    };
    match (text("type")?.as_deref(), &server) {
        (Some("sse"), _) => {
            Err(String::from("servers of the type `sse` are not supported; many also speak `http`"))
        }
        (_, ServerSettings { command: None, url: None, .. }) => {
            Err(String::from("it has neither `command` nor `url`"))
        }
        (_, ServerSettings { command: Some(_), url: Some(_), .. }) => {
            Err(String::from("it has both `command` and `url`"))
        }
        _ => Ok(server),
    }
}

/// A server as the engine starts it: variables filled in, and what it may do.
pub fn entry(desk: &CliContext, server: &ServerSettings) -> McpEntry {
    let transport = transport(desk, server).unwrap_or_else(McpTransport::Unusable);
    McpEntry {
        start_time: server.start_timeout.map_or(START_TIME, Duration::from_secs),
        call_time: server.timeout.map(Duration::from_secs),
        trust_hints: server.trust_hints,
        ..McpEntry::new(&server.name, transport)
    }
}

fn transport(desk: &CliContext, server: &ServerSettings) -> Result<McpTransport, String> {
    if let Some(url) = &server.url {
        let url = filled(url)?;
        if !rejoin::providers::registry::is_address(&url) {
            return Err(format!(
                "{} is not an address that begins with http:// or https://",
                rejoin::store::hidden(&url)
            ));
        }
        let header = |(name, value): &(String, String)| Ok((name.clone(), filled(value)?.into()));
        let headers = server.headers.iter().map(header).collect::<Result<_, String>>()?;
        return Ok(McpTransport::Http { url, headers });
    }
    let Some(command) = &server.command else {
        return Err(String::from("its entry has neither `command` nor `url`"));
    };
    let home = env::home_dir();
    let at_home = |path: String| match (path.strip_prefix("~/"), &home) {
        (Some(rest), Some(home)) => home.join(rest).to_string_lossy().into_owned(),
        _ => path,
    };
    let mut program = vec![at_home(filled(command)?)];
    for argument in &server.args {
        program.push(filled(argument)?);
    }
    let paths = |paths: &[String]| -> Result<Vec<PathBuf>, String> {
        paths.iter().map(|path| Ok(desk.folder.join(at_home(filled(path)?)))).collect()
    };
    let mut policy: Policy = tool_policy(desk);
    policy.access = WorkspaceAccess::Read;
    policy.write = paths(&server.write)?;
    policy.read.extend(paths(&server.read)?);
    // A program that is named may be run, wherever it is.
    policy.read.extend(found(&program[0]));
    policy.network = if server.network { Network::Allowed } else { Network::None };
    for (name, value) in &server.env {
        let value = filled(value)?;
        policy.environment.retain(|(other, _)| other != name.as_str());
        policy.environment.push((name.into(), value.into()));
    }
    Ok(McpTransport::Program { program, policy: Box::new(policy) })
}

/// The file of a program, as a shell finds it.
fn found(program: &str) -> Option<PathBuf> {
    if Path::new(program).components().count() > 1 {
        return Some(PathBuf::from(program)).filter(|path| path.is_absolute());
    }
    let folders = env::var_os("PATH")?;
    env::split_paths(&folders).map(|folder| folder.join(program)).find(|path| path.is_file())
}

/// A text with the variables that it names: `${NAME}`, or `${NAME:-VALUE}` for one that may be missing.
fn filled(text: &str) -> Result<String, String> {
    fill(text, |name| env::var(name).ok())
}

fn fill(text: &str, variable: impl Fn(&str) -> Option<String>) -> Result<String, String> {
    let (mut out, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once("${") {
        let Some((inside, after)) = after.split_once('}') else { break };
        let (name, otherwise) = match inside.split_once(":-") {
            Some((name, otherwise)) => (name, Some(otherwise)),
            None => (inside, None),
        };
        let value = variable(name).filter(|value| !value.is_empty()).or_else(|| otherwise.map(str::to_owned));
        out.push_str(before);
        out.push_str(&value.ok_or_else(|| format!("the variable {} is not set", output::harmless(name)))?);
        rest = after;
    }
    Ok(out + rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_filled_in() {
        let fill = |text: &str| fill(text, |name| (name == "KEY").then(|| String::from("k${KEY}")));
        assert_eq!(fill("Bearer ${KEY}, ${KEY}!").unwrap(), "Bearer k${KEY}, k${KEY}!");
        assert_eq!(fill("${NONE:-a}${KEY:-b} ${").unwrap(), "ak${KEY} ${");
        assert_eq!(fill("$KEY {KEY}").unwrap(), "$KEY {KEY}");
        assert_eq!(fill("${NONE}").unwrap_err(), "the variable NONE is not set");
    }

    #[test]
    fn project_files_are_read() {
        let text = br#"{"mcpServers": {
            "a": {"command": "node", "args": ["x.js"], "env": {"K": "${K}"}},
            "b": {"type": "http", "url": "https://x.example/mcp", "headers": {"H": "v"}, "disabled": true}}, "other": 1}"#;
        let servers = servers_of(text).unwrap();
        assert_eq!(
            (servers[0].command.as_deref(), servers[0].args.as_slice()),
            (Some("node"), &[String::from("x.js")][..])
        );
        assert_eq!((servers[1].url.as_deref(), servers[1].enabled), (Some("https://x.example/mcp"), false));
        assert!(servers_of(b"{}").unwrap().is_empty());
        for bad in [
            &b"["[..],
            br#"{"mcpServers": []}"#,
            br#"{"mcpServers": {"a": 3}}"#,
            br#"{"mcpServers": {"a": {"command": ["x"]}}}"#,
            br#"{"mcpServers": {"a": {"type": "sse", "url": "http://x"}}}"#,
            br#"{"mcpServers": {"a": {"command": "x", "args": "y"}}}"#,
        ] {
            assert!(servers_of(bad).is_err(), "{}", String::from_utf8_lossy(bad));
        }
    }
}
