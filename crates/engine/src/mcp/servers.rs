//! All servers of a conversation, in a separate runtime: they start in the background and outlive a turn.

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use tokio::{
    runtime::{Builder, Handle},
    sync::oneshot,
};

use super::{McpEntry, McpPhase, McpServerState, server::Server, tool::McpTool};
use crate::{
    provider::BoxFuture,
    tools::{Tool, ToolSource},
    turn::{Event, Sink, Stop},
};

/// How long a turn waits for servers before it tells the user so.
const QUIET: Duration = Duration::from_secs(1);

/// The servers of a conversation. Dropping this value ends them.
pub struct McpServers {
    servers: Vec<Arc<Server>>,
    /// The names of all servers and the reason why none could be started at all.
    unstarted: Option<(Vec<String>, String)>,
    /// Dropping this sender ends the runtime.
    _running: Option<oneshot::Sender<()>>,
}

impl std::fmt::Debug for McpServers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.servers.iter().map(|server| &server.entry)).finish()
    }
}

impl McpServers {
    /// Starts the servers in the background, and returns at once.
    #[must_use]
    pub fn start(entries: Vec<McpEntry>) -> Self {
        match runtime() {
            Ok((runtime, running)) => {
                let start = |entry| Server::start(entry, runtime.clone());
                let servers = entries.into_iter().map(start).collect();
                Self { servers, unstarted: None, _running: Some(running) }
            }
            Err(why) => {
                let names = entries.into_iter().map(|entry| entry.name).collect();
                Self { servers: Vec::new(), unstarted: Some((names, why.to_string())), _running: None }
            }
        }
    }

    /// The states of the servers, in the order of their entries.
    #[must_use]
    pub fn states(&self) -> Vec<McpServerState> {
        let failed = self.unstarted.iter().flat_map(|(names, why)| {
            names.iter().map(|name| McpServerState {
                name: name.clone(),
                phase: McpPhase::Failed(why.clone()),
                about: None,
                took: None,
                tools: Vec::new(),
                notes: Vec::new(),
            })
        });
        self.servers.iter().map(|server| server.state()).chain(failed).collect()
    }

    /// Starts the servers that did not start or have ended, and returns at once.
    pub fn retry(&self) {
        for server in &self.servers {
            server.retry();
        }
    }

    /// Waits until every server has started or failed, each at most as long as its entry allows.
    pub async fn settled(&self) {
        for server in &self.servers {
            server.settled().await;
        }
    }

    /// The tools that the servers offer now.
    #[must_use]
    pub fn current(&self) -> Vec<Arc<dyn Tool>> {
        let tools = self.servers.iter().flat_map(|server| {
            let tool = |found| Arc::new(McpTool { server: Arc::clone(server), found }) as Arc<dyn Tool>;
            server.tools().into_iter().map(tool)
        });
        tools.collect()
    }

    async fn gather(&self, tell: Sink<'_>, stop: &Stop) -> Vec<Arc<dyn Tool>> {
        for server in &self.servers {
            server.refresh();
        }
        let began = Instant::now();
        let mut settled = std::pin::pin!(self.settled());
        let mut said = false;
        loop {
            tokio::select! {
                biased;
                () = &mut settled => break,
                () = stop.asked() => break,
                () = tokio::time::sleep(QUIET.saturating_sub(began.elapsed())), if !said => {
                    said = true;
                    let starting = self.servers.iter().filter(|server| server.is_starting());
                    let names = starting.map(|server| server.entry.name.clone()).collect();
                    tell(Event::WaitingForServers { names });
                }
            }
        }
        if let Some((_, why)) = &self.unstarted {
            tell(Event::Warning(format!("no MCP server could be started: {why}")));
        }
        for news in self.servers.iter().flat_map(|server| server.news()) {
            tell(Event::Warning(news));
        }
        self.current()
    }
}

impl ToolSource for McpServers {
    fn tools<'a>(&'a self, tell: Sink<'a>, stop: &'a Stop) -> BoxFuture<'a, Vec<Arc<dyn Tool>>> {
        Box::pin(self.gather(tell, stop))
    }
}

/// A runtime in a separate thread, which ends when the sender is dropped. Its remaining tasks are dropped, too.
fn runtime() -> std::io::Result<(Handle, oneshot::Sender<()>)> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let handle = runtime.handle().clone();
    let (running, ended) = oneshot::channel::<()>();
    thread::Builder::new().name(String::from("rejoin-mcp")).spawn(move || {
        let _ = runtime.block_on(ended);
        runtime.shutdown_background();
    })?;
    Ok((handle, running))
}
