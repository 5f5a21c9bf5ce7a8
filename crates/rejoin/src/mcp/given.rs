//! The MCP servers of a conversation: those of the settings, and those of a project's `.mcp.json` once the person agreed to that
//! file.
//!
//! The answer is remembered for the file's path and content; if the file changes, the question has to be asked again. Until then,
//! none of its servers is used. Nothing here asks: the caller does.

use std::{
    io,
    path::{Path, PathBuf},
};

use rejoin_record::hash;
use rejoin_store::files::{self, PrivateFolder};
use serde_json::Value;

use super::ServerSettings;

/// The name of a project's file, in the form that several agents share.
const PROJECT_FILE: &str = ".mcp.json";
/// The largest file of a project that is read.
const MOST_BYTES: u64 = 1024 * 1024;
/// The answers, in the data folder: one `yes|no HASH PATH` per line.
const ANSWERS: &str = "mcp-projects";
const MOST_ANSWERS: usize = 1_000;

/// The file that names a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerOrigin {
    /// The settings of the person.
    Settings,
    /// A project's `.mcp.json`.
    Project,
}

impl ServerOrigin {
    /// The word that lists use for it.
    #[must_use]
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
    /// The server, with its permissions.
    pub settings: ServerSettings,
    /// The file that names it.
    pub from: ServerOrigin,
}

/// A project's file, and whether the person agreed to it.
#[derive(Debug)]
pub struct McpProject {
    /// The file.
    pub path: PathBuf,
    hash: String,
    servers: Vec<ServerSettings>,
    agreed: Option<bool>,
}

/// A project's file that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{} cannot be used: {why}", .path.display())]
pub struct UnusableProject {
    /// The file.
    pub path: PathBuf,
    /// The reason.
    pub why: ProjectFileError,
}

/// A fault in a project's file.
#[derive(Debug, thiserror::Error)]
pub enum ProjectFileError {
    /// It cannot be read.
    #[error(transparent)]
    Unreadable(#[from] io::Error),
    /// It is not JSON.
    #[error(transparent)]
    NotJson(#[from] serde_json::Error),
    /// Its field `mcpServers` is not an object.
    #[error("`mcpServers` is not an object")]
    NoObject,
    /// One of its servers cannot be used.
    #[error("`{name}`: {why}")]
    Server {
        /// The server's name.
        name: String,
        /// The fault in its entry.
        why: ServerFault,
    },
}

/// A fault in the entry of a server in a project's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ServerFault {
    /// The arguments are not a list of strings.
    #[error("`args` is not a list of strings")]
    NoList,
    /// A field is not a string.
    #[error("`{0}` is not a string")]
    NoText(&'static str),
    /// It uses the old transport `sse`.
    #[error("servers of the type `sse` are not supported; many also speak `http`")]
    Sse,
    /// A field is not an object.
    #[error("`{0}` is not an object")]
    NoObject(&'static str),
    /// It has neither a program nor an address.
    #[error("it has neither `command` nor `url`")]
    Neither,
    /// A field is an object with a value that is not a string.
    #[error("`{0}` holds something that is no text")]
    NoTexts(&'static str),
    /// It has a program and an address.
    #[error("it has both `command` and `url`")]
    Both,
}

/// All servers that may be used, those of the settings first; those of the project only if the person agreed to its file. Settings
/// without a command and an address set the permissions of the project's server with the same name.
#[must_use]
pub fn given(settings: Vec<ServerSettings>, project: Option<McpProject>) -> Vec<GivenServer> {
    let (own, permissions): (Vec<_>, Vec<_>) =
        settings.into_iter().partition(|server| server.command.is_some() || server.url.is_some());
    let agreed = project.filter(|project| project.agreed == Some(true));
    let of_project = agreed.map(|project| project.servers).unwrap_or_default();
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
    all
}

impl McpProject {
    /// The file for a folder, if there is one that names servers: in this folder, or above it up to the root of the repository.
    /// `data` is the folder in which answers are remembered.
    ///
    /// # Errors
    /// If there is a file that cannot be used.
    pub fn find(folder: &Path, data: &Path) -> Result<Option<Self>, UnusableProject> {
        let Some(path) = file_above(folder) else { return Ok(None) };
        let read = || {
            let bytes = files::read_small(&path, MOST_BYTES)?;
            Ok((servers_of(&bytes)?, hash::of_bytes(&bytes).to_string()))
        };
        match read() {
            Err(why) => Err(UnusableProject { path, why }),
            Ok((servers, _)) if servers.is_empty() => Ok(None),
            Ok((servers, hash)) => {
                let agreed = answer(data, &path, &hash);
                Ok(Some(Self { path, hash, servers, agreed }))
            }
        }
    }

    /// Whether the person agreed; `None` if they were never asked, or the file has changed since.
    #[must_use]
    pub fn agreed(&self) -> Option<bool> {
        self.agreed
    }

    /// The servers that the file names, whether or not they may be used.
    #[must_use]
    pub fn named(&self) -> &[ServerSettings] {
        &self.servers
    }

    /// Sets whether the person agrees to the current content of the file, and remembers it in the data folder.
    ///
    /// # Errors
    /// If the answer cannot be remembered. It applies to this process nevertheless.
    pub fn decide(&mut self, agreed: bool, data: &Path) -> io::Result<()> {
        self.agreed = Some(agreed);
        let path = self.path.to_string_lossy();
        let mut lines = answers(data);
        lines.retain(|line| line.splitn(3, ' ').nth(2) != Some(&*path));
        lines.push(format!("{} {} {path}", if agreed { "yes" } else { "no" }, self.hash));
        let newest = &lines[lines.len().saturating_sub(MOST_ANSWERS)..];
        let text: String = newest.iter().map(|line| format!("{line}\n")).collect();
        let folder = PrivateFolder::new(data);
        folder.make().and_then(|()| folder.replace(ANSWERS, text.as_bytes()))
    }
}

fn file_above(folder: &Path) -> Option<PathBuf> {
    for folder in folder.ancestors() {
        let file = folder.join(PROJECT_FILE);
        if file.is_file() {
            return Some(file);
        }
        if folder.join(".git").exists() {
            break;
        }
    }
    None
}

fn answers(data: &Path) -> Vec<String> {
    let bytes = PrivateFolder::new(data).read(ANSWERS, MOST_BYTES).ok().flatten().unwrap_or_default();
    String::from_utf8(bytes).unwrap_or_default().lines().map(str::to_owned).collect()
}

fn answer(data: &Path, path: &Path, hash: &str) -> Option<bool> {
    let path = path.to_string_lossy();
    // A path with a line break cannot be remembered, so the question is asked each time.
    answers(data).iter().find_map(|line| {
        let mut parts = line.splitn(3, ' ');
        let (said, of, at) = (parts.next()?, parts.next()?, parts.next()?);
        (of == hash && at == path).then_some(said == "yes")
    })
}

/// The servers in a project's file.
fn servers_of(bytes: &[u8]) -> Result<Vec<ServerSettings>, ProjectFileError> {
    let file: Value = serde_json::from_slice(bytes)?;
    let Some(servers) = file.get("mcpServers") else { return Ok(Vec::new()) };
    let servers = servers.as_object().ok_or(ProjectFileError::NoObject)?;
    servers
        .iter()
        .map(|(name, given)| {
            server_of(name, given).map_err(|why| ProjectFileError::Server { name: name.clone(), why })
        })
        .collect()
}

fn server_of(name: &str, given: &Value) -> Result<ServerSettings, ServerFault> {
    let text = |field: &'static str| match &given[field] {
        Value::Null => Ok(None),
        Value::String(text) => Ok(Some(text.clone())),
        _ => Err(ServerFault::NoText(field)),
    };
    let pairs = |field: &'static str| match &given[field] {
        Value::Null => Ok(Vec::new()),
        Value::Object(pairs) => pairs
            .iter()
            .map(|(name, value)| {
                Ok((name.clone(), value.as_str().ok_or(ServerFault::NoTexts(field))?.to_owned()))
            })
            .collect(),
        _ => Err(ServerFault::NoObject(field)),
    };
    let args = match &given["args"] {
        Value::Null => Vec::new(),
        Value::Array(args) => {
            let texts: Option<Vec<String>> = args.iter().map(|arg| arg.as_str().map(str::to_owned)).collect();
            texts.ok_or(ServerFault::NoList)?
        }
        _ => return Err(ServerFault::NoList),
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
        (Some("sse"), _) => Err(ServerFault::Sse),
        (_, ServerSettings { command: None, url: None, .. }) => Err(ServerFault::Neither),
        (_, ServerSettings { command: Some(_), url: Some(_), .. }) => Err(ServerFault::Both),
        _ => Ok(server),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    /// Only an answer about this content of this file lets its servers be used.
    #[test]
    fn a_changed_file_is_not_trusted() {
        let top = testkit::folder_with(&[("repo/.git/", ""), ("repo/in/", "")]);
        let (folder, data) = (top.path().join("repo/in"), top.path().join("data"));
        let write = |command: &str| {
            let text = format!(r#"{{"mcpServers": {{"a": {{"command": "{command}"}}}}}}"#);
            std::fs::write(top.path().join("repo/.mcp.json"), text).unwrap();
            McpProject::find(&folder, &data).unwrap().unwrap()
        };
        let mut project = write("one");
        assert_eq!(project.agreed(), None);
        project.decide(true, &data).unwrap();
        assert_eq!(given(Vec::new(), Some(project)).len(), 1);
        let project = write("one");
        assert_eq!(project.agreed(), Some(true));
        let project = write("two");
        assert_eq!(project.agreed(), None);
        assert!(given(Vec::new(), Some(project)).is_empty());
    }
}
