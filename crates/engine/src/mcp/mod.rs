//! Tools of MCP servers: programs and services that speak the Model Context Protocol.
//!
//! [`McpServers`] starts the servers in the background and is the [`ToolSource`](crate::tools::ToolSource) of a conversation
//! (`servers.rs`). Each server has a `Server` that starts it, restarts it after a crash and calls its tools (`server.rs`);
//! `transport.rs` opens the stream to it. Input from a server is untrusted: `names.rs` and `schema.rs` make its tools fit for every
//! provider, `content.rs` its results, and `flood.rs` limits its size. No type of the protocol library is public.

mod content;
mod flood;
mod http;
mod names;
mod schema;
mod server;
mod servers;
mod tool;
mod transport;

use std::{fmt, time::Duration};

pub use names::is_name as is_server_name;
use secrecy::SecretString;
pub use servers::McpServers;

use crate::sandbox::Policy;

/// How long the first request of a turn waits for a server that is still starting; [`McpEntry::start_time`] replaces it.
pub const START_TIME: Duration = Duration::from_secs(10);

/// A server that a conversation may use.
#[derive(Debug, Clone)]
pub struct McpEntry {
    /// The name, by which its tools are called `NAME__TOOL`.
    pub name: String,
    /// How the server is reached.
    pub transport: McpTransport,
    /// How long the first request of a turn waits for it, counted from its start.
    pub start_time: Duration,
    /// How long a call may take. The limit of the turn applies as well.
    pub call_time: Option<Duration>,
    /// Whether to trust the server's hint that a tool only reads. Such a call then needs no approval.
    pub trust_hints: bool,
}

impl McpEntry {
    /// An entry with the default times, whose hints are not trusted.
    pub fn new(name: impl Into<String>, transport: McpTransport) -> Self {
        Self { name: name.into(), transport, start_time: START_TIME, call_time: None, trust_hints: false }
    }
}

/// How a server is reached.
#[derive(Clone)]
pub enum McpTransport {
    /// A program that is started in the sandbox and speaks the protocol on its standard input and output.
    Program {
        /// The program and its arguments.
        program: Vec<String>,
        /// What the program may do: its folder, its variables, and the files and network that it may reach.
        policy: Box<Policy>,
    },
    /// A service behind an address (streamable HTTP).
    Http {
        /// The address, with `http://` or `https://`.
        url: String,
        /// Header fields of every request, such as `Authorization`.
        headers: Vec<(String, SecretString)>,
    },
    /// An invalid entry, with the reason. It is reported like a server that does not start.
    Unusable(String),
}

/// Leaves out the values of variables and headers, which may be keys.
impl fmt::Debug for McpTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Program { program, .. } => write!(f, "Program({program:?})"),
            Self::Http { url, .. } => write!(f, "Http({})", crate::provider::http::public(url)),
            Self::Unusable(why) => write!(f, "Unusable({why})"),
        }
    }
}

/// The state of a server, for a status display.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpServerState {
    /// The name of its entry.
    pub name: String,
    /// Whether its tools can be called.
    pub phase: McpPhase,
    /// The name and version that the server gives for itself. Not escaped for a terminal.
    pub about: Option<String>,
    /// How long it took to start and to list its tools.
    pub took: Option<Duration>,
    /// The tools that it offered last.
    pub tools: Vec<McpToolState>,
    /// Sentences about what was changed in its tools so that they can be used.
    pub notes: Vec<String>,
}

/// Whether a server's tools can be called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum McpPhase {
    /// It is starting, or its tools are being listed again.
    Starting,
    /// Its tools can be called.
    Ready,
    /// It did not start, for this reason.
    Failed(String),
    /// It ended, for this reason. It is started again when one of its tools is called.
    Ended(String),
}

impl McpPhase {
    /// The phase in one word: `starting`, `ready`, `failed` or `ended`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Ready => "ready",
            Self::Failed(_) => "failed",
            Self::Ended(_) => "ended",
        }
    }

    /// Why its tools cannot be called; `None` if they can.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Failed(why) | Self::Ended(why) => Some(why),
            Self::Starting | Self::Ready => None,
        }
    }
}

/// A tool of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpToolState {
    /// The name by which models call it.
    pub name: String,
    /// The server's own name for it. Not escaped for a terminal.
    pub given: String,
    /// The server's description of it, without control characters.
    pub description: String,
    /// Whether the server says that it only reads.
    pub says_it_reads: bool,
}
