//! The tables `[mcp.NAME]` of the settings: MCP servers. Read with line numbers for what is wrong, changed without losing a comment.

use std::path::Path;

use rejoin::mcp::is_server_name;
use toml_edit::{Array, Document, DocumentMut, InlineTable, Item, Table, TableLike, Value};

use super::file::{bad, not_toml, text, write};
use crate::{failure::Failure, near};

/// What a table may hold.
const FIELDS: &[&str] = &[
    "command",
    "args",
    "env",
    "url",
    "headers",
    "read",
    "write",
    "network",
    "timeout",
    "start_timeout",
    "trust_hints",
    "enabled",
];

/// An MCP server as it is written in a file. Values may name variables: `${NAME}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerSettings {
    pub name: String,
    pub command: Option<String>,
    pub args: Vec<String>,
    pub env: Vec<(String, String)>,
    pub url: Option<String>,
    pub headers: Vec<(String, String)>,
    pub read: Vec<String>,
    pub write: Vec<String>,
    pub network: bool,
    /// The most seconds of a call.
    pub timeout: Option<u64>,
    /// The most seconds that a turn waits for its start.
    pub start_timeout: Option<u64>,
    pub trust_hints: bool,
    pub enabled: bool,
}

impl ServerSettings {
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

    /// Sets a field from the file.
    fn set(&mut self, name: &str, item: &Item) -> Result<(), String> {
        let text = || item.as_str().map(str::to_owned).ok_or_else(|| String::from("it is no text"));
        let flag = || item.as_bool().ok_or_else(|| String::from("it is not `true` or `false`"));
        let seconds = || {
            let seconds = item.as_integer().and_then(|seconds| u64::try_from(seconds).ok());
            seconds
                .filter(|seconds| *seconds > 0)
                .map(Some)
                .ok_or_else(|| String::from("it is not a whole number from 1"))
        };
        let list = || -> Result<Vec<String>, String> {
            let items = item.as_array().and_then(|items| {
                items.iter().map(|item| item.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>()
            });
            items.ok_or_else(|| String::from("it is not a list of texts"))
        };
        let pairs = || -> Result<Vec<(String, String)>, String> {
            let table = item.as_table_like().ok_or_else(|| String::from("it is no table"))?;
            let pair = |(name, value): (&str, &Item)| Some((name.to_owned(), value.as_str()?.to_owned()));
            table
                .iter()
                .map(pair)
                .collect::<Option<_>>()
                .ok_or_else(|| String::from("its values are not texts"))
        };
        match name {
            "command" => self.command = Some(text()?),
            "args" => self.args = list()?,
            "env" => self.env = pairs()?,
            "url" => self.url = Some(text()?),
            "headers" => self.headers = pairs()?,
            "read" => self.read = list()?,
            "write" => self.write = list()?,
            "network" => self.network = flag()?,
            "timeout" => self.timeout = seconds()?,
            "start_timeout" => self.start_timeout = seconds()?,
            "trust_hints" => self.trust_hints = flag()?,
            "enabled" => self.enabled = flag()?,
            // A newer version may know it.
            _ => {
                let near = near::did_you_mean(name, FIELDS.iter().copied());
                tracing::warn!("mcp.{}: there is no field `{name}`; {near}it is ignored", self.name);
            }
        }
        Ok(())
    }

    fn table(&self) -> Table {
        let mut table = Table::new();
        let mut put = |name: &str, value: Value| drop(table.insert(name, Item::Value(value)));
        let list = |items: &[String]| Value::Array(Array::from_iter(items.iter().map(String::as_str)));
        let pairs = |items: &[(String, String)]| {
            Value::InlineTable(InlineTable::from_iter(
                items.iter().map(|(name, value)| (name.as_str(), value.as_str())),
            ))
        };
        for (name, text) in [("command", &self.command), ("url", &self.url)] {
            text.iter().for_each(|text| put(name, text.as_str().into()));
        }
        for (name, items) in [("args", &self.args), ("read", &self.read), ("write", &self.write)] {
            if !items.is_empty() {
                put(name, list(items));
            }
        }
        for (name, items) in [("env", &self.env), ("headers", &self.headers)] {
            if !items.is_empty() {
                put(name, pairs(items));
            }
        }
        for (name, seconds) in [("timeout", self.timeout), ("start_timeout", self.start_timeout)] {
            let seconds = seconds.and_then(|seconds| i64::try_from(seconds).ok());
            seconds.into_iter().for_each(|seconds| put(name, seconds.into()));
        }
        for (name, is_on) in [("network", self.network), ("trust_hints", self.trust_hints)] {
            if is_on {
                put(name, true.into());
            }
        }
        if !self.enabled {
            put("enabled", false.into());
        }
        table
    }
}

/// The servers of the file, in its order.
pub fn servers(path: &Path) -> Result<Vec<ServerSettings>, Failure> {
    let Some(text) = text(path)? else { return Ok(Vec::new()) };
    let document = Document::parse(text.as_str()).map_err(|error| not_toml(path, &text, &error))?;
    let Some(item) = document.get("mcp") else { return Ok(Vec::new()) };
    let at = |table: &dyn TableLike, name: &str| {
        table.key(name).and_then(|key| key.span()).map_or(0, |span| span.start)
    };
    let Some(table) = item.as_table_like() else {
        return Err(bad(path, &text, at(document.as_table(), "mcp"), "`mcp` is no table"));
    };
    let mut found = Vec::new();
    for (name, item) in table.iter() {
        let wrong = |at: usize, why: String| bad(path, &text, at, &why);
        let here = at(table, name);
        if !is_server_name(name) {
            return Err(wrong(here, format!("`{name}` cannot be the name of an MCP server: {NAMES}")));
        }
        let Some(fields) = item.as_table_like() else {
            return Err(wrong(here, format!("`mcp.{name}` is no table")));
        };
        let mut server = ServerSettings::new(name);
        for (field, item) in fields.iter() {
            server.set(field, item).map_err(|why| {
                wrong(at(fields, field), format!("`mcp.{name}.{field}` does not fit: {why}"))
            })?;
        }
        if server.command.is_some() && server.url.is_some() {
            return Err(wrong(here, format!("`mcp.{name}` has both `command` and `url`")));
        }
        found.push(server);
    }
    Ok(found)
}

/// Which names servers may have.
pub const NAMES: &str = "use at most 32 letters, digits, `-` and single `_`, beginning with a letter";

/// Adds a server to the file. One of the same name is an error.
pub fn add_server(path: &Path, server: &ServerSettings) -> Result<(), Failure> {
    if !is_server_name(&server.name) {
        let what = format!("`{}` cannot be the name of an MCP server", crate::output::harmless(&server.name));
        return Err(Failure::usage(what, NAMES));
    }
    let text = text(path)?.unwrap_or_default();
    let mut document: DocumentMut = text.parse().map_err(|error| not_toml(path, &text, &error))?;
    let mut parent = Table::new();
    parent.set_implicit(true);
    let table = document.entry("mcp").or_insert(Item::Table(parent));
    let Some(table) = table.as_table_like_mut() else {
        return Err(bad(path, &text, 0, "`mcp` is no table"));
    };
    if table.contains_key(&server.name) {
        let what = format!("there is an MCP server `{}` already", server.name);
        return Err(Failure::usage(what, format!("`rejoin mcp remove {}` removes it", server.name)));
    }
    table.insert(&server.name, Item::Table(server.table()));
    write(path, &document.to_string())
}

/// Removes a server from the file. Says whether there was one.
pub fn remove_server(path: &Path, name: &str) -> Result<bool, Failure> {
    let text = text(path)?.unwrap_or_default();
    let mut document: DocumentMut = text.parse().map_err(|error| not_toml(path, &text, &error))?;
    let table = document.get_mut("mcp").and_then(Item::as_table_like_mut);
    let Some(table) = table.filter(|table| table.contains_key(name)) else { return Ok(false) };
    table.remove(name);
    if table.is_empty() {
        document.remove("mcp");
    }
    write(path, &document.to_string())?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_come_back_as_they_were_added() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.toml");
        std::fs::write(&path, "# mine\nmodel = \"a\"\n").unwrap();
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let files = ServerSettings {
            command: Some(String::from("node")),
            args: vec![String::from("a b"), String::from("--x=\"y\"")],
            env: vec![pair("A", "${B}")],
            read: vec![String::from("~/x")],
            write: vec![String::from(".")],
            network: true,
            timeout: Some(7),
            ..ServerSettings::new("files")
        };
        let far = ServerSettings {
            url: Some(String::from("https://x.example/mcp")),
            headers: vec![pair("Authorization", "Bearer ${KEY}")],
            enabled: false,
            trust_hints: true,
            start_timeout: Some(3),
            ..ServerSettings::new("far-away")
        };
        add_server(&path, &files).unwrap();
        add_server(&path, &far).unwrap();
        assert!(add_server(&path, &far).is_err(), "it is there");
        assert_eq!(servers(&path).unwrap(), [files, far]);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("# mine\nmodel = \"a\"\n\n[mcp.files]\ncommand = \"node\"\n"), "{text}");
        assert!(!super::super::file::read(&path).unwrap().is_empty(), "the other settings stay");
        assert!(remove_server(&path, "files").unwrap() && remove_server(&path, "far-away").unwrap());
        assert!(!remove_server(&path, "files").unwrap());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "# mine\nmodel = \"a\"\n");
    }

    #[test]
    fn what_is_wrong_has_its_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.toml");
        for (text, line, says) in [
            ("mcp = 3\n", 1, "no table"),
            ("[mcp.x]\ncommand = 3\n", 2, "no text"),
            ("[mcp.x]\ntimeout = 0\n", 2, "whole number"),
            ("[mcp.x]\nargs = [\"a\", 1]\n", 2, "list of texts"),
            ("[mcp.a__b]\ncommand = \"x\"\n", 1, "cannot be the name"),
            ("[mcp.x]\ncommand = \"x\"\nurl = \"y\"\n", 1, "both"),
        ] {
            std::fs::write(&path, text).unwrap();
            let error = servers(&path).unwrap_err().to_string();
            assert!(
                error.contains(&format!("config.toml, line {line}: ")) && error.contains(says),
                "{error}"
            );
        }
    }
}
