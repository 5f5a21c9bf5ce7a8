//! `mcp`: servers whose tools a model may call, and the history as an MCP server.

use clap::{Args, Subcommand};
use clap_complete::engine::ArgValueCompleter;

use super::choices::from_one;
use crate::completing;

pub const MCP_EXAMPLES: &str = "Examples:
  rejoin mcp add files -- node server.js .
      Add a program as a server
  rejoin mcp test files
      Start it and list its tools";

/// `rejoin mcp`
#[derive(Debug, Subcommand)]
pub enum Mcp {
    /// List the servers
    #[command(after_long_help = LIST_EXAMPLES)]
    List {
        /// Print one JSON object per line, one per server
        #[arg(long)]
        json: bool,
    },
    /// Add a server to the settings
    ///
    /// A program runs in the sandbox of `run`: it can read this folder, and has no network, unless a flag says otherwise. `${NAME}`
    /// in a value stands for an environment variable when the server starts, so that no key is in the file.
    #[command(after_long_help = ADD_EXAMPLES)]
    Add(AddServerArguments),
    /// Remove a server from the settings
    #[command(after_long_help = REMOVE_EXAMPLES)]
    Remove {
        /// Name of the server
        #[arg(value_name = "NAME", add = ArgValueCompleter::new(completing::servers))]
        name: String,
    },
    /// Start a server, list its tools and stop it
    #[command(after_long_help = TEST_EXAMPLES)]
    Test {
        /// Name of the server
        #[arg(value_name = "NAME", add = ArgValueCompleter::new(completing::servers))]
        name: String,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Agree to the servers of this project's .mcp.json
    ///
    /// On a terminal, `rejoin` asks once. Scripts use this command. It holds until the file changes.
    #[command(after_long_help = TRUST_EXAMPLES)]
    Trust {
        /// Do not use them, and do not ask again
        #[arg(long)]
        no: bool,
    },
    /// Offer the history to other agents, as an MCP server on standard input
    /// and output
    ///
    /// Its tools search, list, read and check conversations, and recall what an earlier one says about something. Nothing is
    /// changed: the store is opened for reading.
    #[command(after_long_help = SERVE_EXAMPLES)]
    Serve,
}

/// `rejoin mcp add`
#[derive(Debug, Args)]
#[command(override_usage = "rejoin mcp add NAME -- COMMAND...
       rejoin mcp add NAME --url URL")]
pub struct AddServerArguments {
    /// Name: its tools are called NAME__TOOL
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Address of a server that speaks streamable HTTP
    #[arg(long, value_name = "URL", required_unless_present = "command", conflicts_with = "command")]
    pub url: Option<String>,
    /// Header of every request to it; may be repeated
    #[arg(long = "header", value_name = "NAME=VALUE", value_parser = pair, requires = "url")]
    pub headers: Vec<(String, String)>,
    /// Variable for the program; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair, requires = "command")]
    pub env: Vec<(String, String)>,
    /// File or folder that the program may read; may be repeated
    #[arg(long, value_name = "PATH", requires = "command")]
    pub read: Vec<String>,
    /// File or folder that it may change, `.` for this one; may be repeated
    #[arg(long, value_name = "PATH", requires = "command")]
    pub write: Vec<String>,
    /// Let the program use the network
    #[arg(long, requires = "command")]
    pub network: bool,
    /// Most seconds of a call (default: the setting limits.tool_seconds)
    #[arg(long, value_name = "SECONDS", value_parser = from_one::<u64>, allow_negative_numbers = true)]
    pub timeout: Option<u64>,
    /// Most seconds that a turn waits for its start (default: 10)
    #[arg(long, value_name = "SECONDS", value_parser = from_one::<u64>, allow_negative_numbers = true)]
    pub start_timeout: Option<u64>,
    /// Run tools without asking that the server says only read
    #[arg(long)]
    pub trust_hints: bool,
    /// Program and its arguments
    #[arg(value_name = "COMMAND", last = true)]
    pub command: Vec<String>,
}

/// `NAME=VALUE`.
fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() => Ok((name.trim().to_owned(), value.to_owned())),
        _ => Err(String::from("write it as NAME=VALUE")),
    }
}

const LIST_EXAMPLES: &str = "Examples:
  rejoin mcp list
      List the servers, and whether this project's .mcp.json is used
  rejoin mcp list --json | jq -r .name
      Print their names";

const ADD_EXAMPLES: &str = "Examples:
  rejoin mcp add files --write . -- node server-filesystem/index.js .
      Add a program that may change this folder
  rejoin mcp add docs --url https://docs.example --header 'X-Key=${DOCS_KEY}'
      Add a service, with a key from the environment";

const REMOVE_EXAMPLES: &str = "Examples:
  rejoin mcp remove files
      Remove a server; its tools are gone in the next conversation
  rejoin mcp remove docs
      Remove another; to change one, remove it and add it again";

const TEST_EXAMPLES: &str = "Examples:
  rejoin mcp test files
      See whether a server starts, how long it takes, and its tools
  rejoin mcp test files --json | jq -r '.tools[].name'
      Print the names of its tools";

const TRUST_EXAMPLES: &str = "Examples:
  rejoin mcp trust
      Use the servers of this project's .mcp.json
  rejoin mcp trust --no
      Never use them";

const SERVE_EXAMPLES: &str = "Examples:
  rejoin mcp serve
      Serve the store to the agent that starts this command
  rejoin mcp serve --store jsonl:/data/chats
      Offer another store";
