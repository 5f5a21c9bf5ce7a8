//! The tables `[mcp.NAME]` in the settings: reads MCP servers with line numbers for errors, and changes them without losing
//! comments.

use std::path::Path;

use rejoin::mcp::{ServerSettings, is_server_name};
use toml_edit::{Array, Document, DocumentMut, InlineTable, Item, Table, TableLike, Value};

use super::file::{bad, not_toml, text, write};
use crate::{failure::Failure, near};

/// The fields that a table may have.
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

/// Sets a field of a server from the file.
fn set(server: &mut ServerSettings, name: &str, item: &Item) -> Result<(), String> {
    let text = || item.as_str().map(str::to_owned).ok_or_else(|| String::from("it is not a string"));
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
        items.ok_or_else(|| String::from("it is not a list of strings"))
    };
    let pairs = || -> Result<Vec<(String, String)>, String> {
        let table = item.as_table_like().ok_or_else(|| String::from("it is not a table"))?;
        let pair = |(name, value): (&str, &Item)| Some((name.to_owned(), value.as_str()?.to_owned()));
        table
            .iter()
            .map(pair)
            .collect::<Option<_>>()
            .ok_or_else(|| String::from("its values are not strings"))
    };
    match name {
        "command" => server.command = Some(text()?),
        "args" => server.args = list()?,
        "env" => server.env = pairs()?,
        "url" => server.url = Some(text()?),
        "headers" => server.headers = pairs()?,
        "read" => server.read = list()?,
        "write" => server.write = list()?,
        "network" => server.network = flag()?,
        "timeout" => server.timeout = seconds()?,
        "start_timeout" => server.start_timeout = seconds()?,
        "trust_hints" => server.trust_hints = flag()?,
        "enabled" => server.enabled = flag()?,
        // A newer version may know this field.
        _ => {
            let near = near::did_you_mean(name, FIELDS.iter().copied());
            tracing::warn!("mcp.{}: there is no field `{name}`; {near}it is ignored", server.name);
        }
    }
    Ok(())
}

/// A server as a table of the file.
fn table_of(server: &ServerSettings) -> Table {
    let mut table = Table::new();
    let mut put = |name: &str, value: Value| drop(table.insert(name, Item::Value(value)));
    let list = |items: &[String]| Value::Array(Array::from_iter(items.iter().map(String::as_str)));
    let pairs = |items: &[(String, String)]| {
        Value::InlineTable(InlineTable::from_iter(
            items.iter().map(|(name, value)| (name.as_str(), value.as_str())),
        ))
    };
    for (name, text) in [("command", &server.command), ("url", &server.url)] {
        text.iter().for_each(|text| put(name, text.as_str().into()));
    }
    for (name, items) in [("args", &server.args), ("read", &server.read), ("write", &server.write)] {
        if !items.is_empty() {
            put(name, list(items));
        }
    }
    for (name, items) in [("env", &server.env), ("headers", &server.headers)] {
        if !items.is_empty() {
            put(name, pairs(items));
        }
    }
    for (name, seconds) in [("timeout", server.timeout), ("start_timeout", server.start_timeout)] {
        let seconds = seconds.and_then(|seconds| i64::try_from(seconds).ok());
        seconds.into_iter().for_each(|seconds| put(name, seconds.into()));
    }
    for (name, is_on) in [("network", server.network), ("trust_hints", server.trust_hints)] {
        if is_on {
            put(name, true.into());
        }
    }
    if !server.enabled {
        put("enabled", false.into());
    }
    table
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
        return Err(bad(path, &text, at(document.as_table(), "mcp"), "`mcp` is not a table"));
    };
    let mut found = Vec::new();
    for (name, item) in table.iter() {
        let wrong = |at: usize, why: String| bad(path, &text, at, &why);
        let here = at(table, name);
        if !is_server_name(name) {
            return Err(wrong(here, format!("`{name}` cannot be the name of an MCP server: {NAMES}")));
        }
        let Some(fields) = item.as_table_like() else {
            return Err(wrong(here, format!("`mcp.{name}` is not a table")));
        };
        let mut server = ServerSettings::new(name);
        for (field, item) in fields.iter() {
            set(&mut server, field, item).map_err(|why| {
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

/// The names that servers may have, in words for a hint.
pub const NAMES: &str = "use at most 32 letters, digits, `-` and single `_`, beginning with a letter";

/// Adds a server to the file. An existing server with the same name is an error.
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
        return Err(bad(path, &text, 0, "`mcp` is not a table"));
    };
    if table.contains_key(&server.name) {
        let what = format!("there is an MCP server `{}` already", server.name);
        return Err(Failure::usage(what, format!("`rejoin mcp remove {}` removes it", server.name)));
    }
    table.insert(&server.name, Item::Table(table_of(server)));
    write(path, &document.to_string())
}

/// Removes a server from the file. Returns whether there was one.
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
        assert!(add_server(&path, &far).is_err(), "the server exists already");
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
            ("mcp = 3\n", 1, "not a table"),
            ("[mcp.x]\ncommand = 3\n", 2, "not a string"),
            ("[mcp.x]\ntimeout = 0\n", 2, "whole number"),
            ("[mcp.x]\nargs = [\"a\", 1]\n", 2, "list of strings"),
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
