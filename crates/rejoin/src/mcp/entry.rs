//! Turns an MCP server as written in a file into the entry that the engine starts, with its variables filled in and its
//! permissions.
//!
//! Nothing here reads the environment or the home folder: the caller passes both.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    time::Duration,
};

use rejoin_engine::{
    mcp::{McpEntry, McpTransport, START_TIME},
    provider::registry::is_address,
    sandbox::{Network, Policy, WorkspaceAccess},
};

use crate::harmless::harmless;

/// Looks up a variable of the environment.
pub type Variables<'v> = &'v dyn Fn(&str) -> Option<OsString>;

/// An MCP server as written in a file. Values may refer to variables: `${NAME}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerSettings {
    /// The name, by which its tools are called `NAME__TOOL`.
    pub name: String,
    /// The program to start. A server has a program or an address.
    pub command: Option<String>,
    /// The arguments of the program.
    pub args: Vec<String>,
    /// The variables of the program.
    pub env: Vec<(String, String)>,
    /// The address of a service.
    pub url: Option<String>,
    /// The header fields of every request to the service.
    pub headers: Vec<(String, String)>,
    /// Files and folders that the program may read, besides the folder of the conversation.
    pub read: Vec<String>,
    /// Files and folders that the program may change.
    pub write: Vec<String>,
    /// Whether the program may use the network.
    pub network: bool,
    /// The time limit of a call, in seconds.
    pub timeout: Option<u64>,
    /// How long a turn waits for the server's start, in seconds.
    pub start_timeout: Option<u64>,
    /// Whether to trust the server's hint that a tool only reads.
    pub trust_hints: bool,
    /// Whether the server is used.
    pub enabled: bool,
}

/// Why a server cannot be started or reached.
#[derive(Debug, thiserror::Error)]
enum EntryFault {
    #[error("the variable {} is not set", harmless(.0))]
    NotSet(String),
    #[error("{} is not an address that begins with http:// or https://", rejoin_store::hidden(.0))]
    NoAddress(String),
    #[error("its entry has neither `command` nor `url`")]
    Nothing,
}

impl ServerSettings {
    /// An enabled server without a program, an address and permissions.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            command: None,
            args: Vec::new(),
            env: Vec::new(),
            url: None,
            headers: Vec::new(),
            read: Vec::new(),
            write: Vec::new(),
            network: false,
            timeout: None,
            start_timeout: None,
            trust_hints: false,
            enabled: true,
        }
    }

    /// The place of the server: its command line or its address, without a password.
    #[must_use]
    pub fn place(&self) -> String {
        match (&self.command, &self.url) {
            (Some(command), _) => {
                let words = [command].into_iter().chain(&self.args);
                words.map(String::as_str).collect::<Vec<_>>().join(" ")
            }
            (None, Some(url)) => rejoin_store::hidden(url),
            (None, None) => String::from("nothing to start"),
        }
    }

    /// The entry that the engine starts. `policy` has the permissions of commands in this conversation; the server gets fewer: it
    /// reads the workspace, and changes only what its settings name.
    #[must_use]
    pub fn entry(&self, policy: Policy, home: Option<&Path>, variables: Variables<'_>) -> McpEntry {
        let transport = transport(self, policy, home, variables);
        let transport = transport.unwrap_or_else(|fault| McpTransport::Unusable(fault.to_string()));
        McpEntry {
            start_time: self.start_timeout.map_or(START_TIME, Duration::from_secs),
            call_time: self.timeout.map(Duration::from_secs),
            trust_hints: self.trust_hints,
            ..McpEntry::new(&self.name, transport)
        }
    }
}

fn transport(
    server: &ServerSettings,
    mut policy: Policy,
    home: Option<&Path>,
    variables: Variables<'_>,
) -> Result<McpTransport, EntryFault> {
    let filled = |text: &str| fill(text, |name| variables(name)?.into_string().ok());
    if let Some(url) = &server.url {
        let url = filled(url)?;
        if !is_address(&url) {
            return Err(EntryFault::NoAddress(url));
        }
        let header = |(name, value): &(String, String)| Ok((name.clone(), filled(value)?.into()));
        let headers = server.headers.iter().map(header).collect::<Result<_, EntryFault>>()?;
        return Ok(McpTransport::Http { url, headers });
    }
    let command = server.command.as_ref().ok_or(EntryFault::Nothing)?;
    let at_home = |path: String| match (path.strip_prefix("~/"), home) {
        (Some(rest), Some(home)) => home.join(rest).to_string_lossy().into_owned(),
        _ => path,
    };
    let mut program = vec![at_home(filled(command)?)];
    for argument in &server.args {
        program.push(filled(argument)?);
    }
    let folder = policy.workspace.clone();
    let paths = |paths: &[String]| -> Result<Vec<PathBuf>, EntryFault> {
        paths.iter().map(|path| Ok(folder.join(at_home(filled(path)?)))).collect()
    };
    policy.access = WorkspaceAccess::Read;
    policy.write = paths(&server.write)?;
    policy.read.extend(paths(&server.read)?);
    // The sandbox must allow reading the program itself, wherever it is.
    policy.read.extend(found(&program[0], variables));
    policy.network = if server.network { Network::Allowed } else { Network::None };
    for (name, value) in &server.env {
        let value = filled(value)?;
        policy.environment.retain(|(other, _)| other != name.as_str());
        policy.environment.push((name.into(), value.into()));
    }
    Ok(McpTransport::Program { program, policy: Box::new(policy) })
}

/// The file of a program, found in the same way as a shell finds it.
fn found(program: &str, variables: Variables<'_>) -> Option<PathBuf> {
    if Path::new(program).components().count() > 1 {
        return Some(PathBuf::from(program)).filter(|path| path.is_absolute());
    }
    let folders = variables("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(program)).find(|path| path.is_file())
}

/// A text with its variables filled in: `${NAME}`, or `${NAME:-VALUE}` for one that may be missing.
fn fill(text: &str, variable: impl Fn(&str) -> Option<String>) -> Result<String, EntryFault> {
    let (mut out, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once("${") {
        let Some((inside, after)) = after.split_once('}') else { break };
        let (name, otherwise) = match inside.split_once(":-") {
            Some((name, otherwise)) => (name, Some(otherwise)),
            None => (inside, None),
        };
        let value = variable(name).filter(|value| !value.is_empty()).or_else(|| otherwise.map(str::to_owned));
        out.push_str(before);
        out.push_str(&value.ok_or_else(|| EntryFault::NotSet(name.to_owned()))?);
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
        assert_eq!(fill("${NONE}").unwrap_err().to_string(), "the variable NONE is not set");
    }

    /// A server gets no more than its settings name, whatever commands may do.
    #[test]
    fn a_program_gets_only_the_permissions_of_its_settings() {
        let policy = Policy { network: Network::Allowed, ..Policy::new("/work") };
        let server = ServerSettings {
            command: Some(String::from("~/bin/server")),
            write: vec![String::from("out")],
            ..ServerSettings::new("files")
        };
        let entry = server.entry(policy, Some(Path::new("/home/me")), &|_| None);
        let McpTransport::Program { program, policy } = entry.transport else { panic!("it is a program") };
        assert_eq!(program, ["/home/me/bin/server"]);
        assert_eq!((policy.access, policy.network), (WorkspaceAccess::Read, Network::None));
        assert_eq!(policy.write, [PathBuf::from("/work/out")]);
        assert!(policy.read.contains(&PathBuf::from("/home/me/bin/server")), "{:?}", policy.read);
    }
}
