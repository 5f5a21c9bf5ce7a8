//! The Model Context Protocol, both ways: servers whose tools an agent may call, and the history as a server for other agents.
//!
//! ```no_run
//! # async fn example() -> Result<(), rejoin::TurnError> {
//! use std::sync::Arc;
//! use rejoin::{Agent, Offline, mcp::{McpEntry, McpServers, McpTransport}, sandbox::Policy};
//!
//! let policy = Box::new(Policy::new("/home/me/project"));
//! let program = vec![String::from("my-server")];
//! let entry = McpEntry::new("mine", McpTransport::Program { program, policy });
//! let servers = Arc::new(McpServers::start(vec![entry]));
//! let mut agent = Agent::builder(Arc::new(Offline::default())).tool_source(servers).build();
//! agent.ask("Which tools do you have?").await?;
//! # Ok(())
//! # }
//! ```
//! A program that starts servers begins its `main` with [`sandbox::init`](crate::sandbox::init).

mod entry;
mod given;
mod serve;

pub use entry::{ServerSettings, Variables};
pub use given::{
    GivenServer, McpProject, ProjectFileError, ServerFault, ServerOrigin, UnusableProject, given,
};
pub use rejoin_engine::mcp::{
    McpEntry, McpPhase, McpServerState, McpServers, McpToolState, McpTransport, START_TIME, is_server_name,
};
pub use serve::{McpServeError, serve};
