//! The JSON of MCP servers: their entries and their states.

use rejoin_record::json::{Object, list, quoted};

use crate::mcp::McpServerState;

/// A server's entry, as `mcp list` prints it. The values of variables and headers are left out, because they may be keys.
#[derive(Debug, Clone, Copy)]
pub struct McpListed<'a> {
    /// The name.
    pub name: &'a str,
    /// The file that names it: `settings` or `.mcp.json`.
    pub from: &'a str,
    /// The command line, or the address without a password.
    pub place: &'a str,
    /// Whether `place` is an address.
    pub is_url: bool,
    /// Whether it is enabled.
    pub enabled: bool,
    /// Whether the program may use the network.
    pub network: bool,
    /// Further paths that the program may read.
    pub read: &'a [String],
    /// Paths that the program may change.
    pub write: &'a [String],
    /// The names of its variables.
    pub variables: &'a [String],
    /// The names of its headers.
    pub headers: &'a [String],
}

/// An entry of a server.
#[must_use]
pub fn mcp_entry(entry: &McpListed<'_>) -> String {
    let texts = |texts: &[String]| list(texts.iter().map(|text| quoted(text)));
    Object::new()
        .text("name", entry.name)
        .text("from", entry.from)
        .text(if entry.is_url { "url" } else { "command" }, entry.place)
        .flag("enabled", entry.enabled)
        .flag("network", entry.network)
        .raw("read", &texts(entry.read))
        .raw("write", &texts(entry.write))
        .raw("env", &texts(entry.variables))
        .raw("headers", &texts(entry.headers))
        .finish()
}

/// The state of a server, with its tools.
#[must_use]
pub fn mcp_server(state: &McpServerState) -> String {
    let tools = state.tools.iter().map(|tool| {
        Object::new()
            .text("name", &tool.name)
            .text("given", &tool.given)
            .text("description", &tool.description)
            .flag("says_it_reads", tool.says_it_reads)
            .finish()
    });
    let took = state.took.map(|took| u64::try_from(took.as_millis()).unwrap_or(u64::MAX).to_string());
    Object::new()
        .text("name", &state.name)
        .text("state", state.phase.name())
        .text_if("why", state.phase.reason())
        .text_if("about", state.about.as_deref())
        .raw_if("took_ms", took.as_deref())
        .list("tools", tools)
        .list("notes", state.notes.iter().map(|note| quoted(note)))
        .finish()
}
