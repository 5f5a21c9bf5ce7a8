//! One server: starts it in the background, lists its tools, calls them, and starts it again after a crash.
//!
//! Everything that belongs to a connection lives in the runtime of [`McpServers`](super::McpServers). Calls come from other
//! runtimes, and only wait for channels.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use rmcp::{
    ClientHandler, Peer, RoleClient,
    model::{
        CallToolRequest, CallToolRequestParams, CancelledNotification, CancelledNotificationParam,
        ClientConfig, ClientRequest, Implementation, ListToolsRequest, PaginatedRequestParams, RequestId,
    },
    service::{NotificationContext, PeerRequestOptions, ServiceError},
};
use serde_json::Value;
use tokio::{runtime::Handle, sync::watch};

use super::{
    McpEntry, McpPhase, McpServerState, McpToolState, content, names, schema, transport::Connection,
};
use crate::{
    auth::redact::harmless,
    tools::{Reach, ToolOutput},
    turn::Stop,
};

/// How long a server may take for the handshake and for listing its tools before it counts as not answering.
const HANDSHAKE: Duration = Duration::from_secs(60);

/// How often a server is started again with no successful call in between.
const RESTARTS: u32 = 3;

/// How many problems of a server are shown one by one. The rest are counted.
const TOLD: usize = 3;

/// The most tools of a server, and the most pages in which it may list them.
const MOST_TOOLS: usize = 512;
const MOST_PAGES: usize = 100;

/// The longest description of a tool that models see, in characters.
const DESCRIPTION: usize = 8_000;

/// A server.
pub(super) struct Server {
    pub entry: McpEntry,
    runtime: Handle,
    state: watch::Sender<State>,
    /// Whether the server announced that its tools have changed.
    stale: Arc<AtomicBool>,
}

/// How a server is doing.
struct State {
    phase: McpPhase,
    peer: Option<Peer<RoleClient>>,
    tools: Vec<FoundTool>,
    about: Option<String>,
    took: Option<Duration>,
    notes: Vec<String>,
    reach: Reach,
    since: Instant,
    /// The number of starts since the last successful call.
    restarts: u32,
    /// The messages about it that were already shown to a person.
    told: Vec<String>,
}

/// A tool of a server, fit for every provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FoundTool {
    /// The name by which models call it.
    pub name: String,
    /// The server's own name for it.
    pub given: String,
    pub description: String,
    pub schema: String,
    /// Whether the server says that it only reads.
    pub says_it_reads: bool,
}

/// Receives the server's own messages, such as changes of its tools.
#[derive(Debug, Clone)]
pub(super) struct Listener {
    stale: Arc<AtomicBool>,
}

impl ClientHandler for Listener {
    fn get_info(&self) -> ClientConfig {
        let mut config = ClientConfig::default();
        config.client_info = Implementation::new("rejoin", env!("CARGO_PKG_VERSION"));
        config
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.stale.store(true, Ordering::Relaxed);
    }
}

impl Server {
    /// Starts a server, without waiting for it.
    pub fn start(entry: McpEntry, runtime: Handle) -> Arc<Self> {
        let state = watch::Sender::new(State {
            phase: McpPhase::Starting,
            peer: None,
            tools: Vec::new(),
            about: None,
            took: None,
            notes: Vec::new(),
            reach: Reach::Open(String::from("the server has not started")),
            since: Instant::now(),
            restarts: 0,
            told: Vec::new(),
        });
        let server = Arc::new(Self { entry, runtime, state, stale: Arc::default() });
        server.connect();
        server
    }

    /// Connects in the background. The caller has already set the phase to `Starting`.
    fn connect(self: &Arc<Self>) {
        let (server, entry, stale) = (Arc::downgrade(self), self.entry.clone(), Arc::clone(&self.stale));
        self.runtime.spawn(async move {
            let began = Instant::now();
            let limit = HANDSHAKE.max(entry.start_time);
            let listener = Listener { stale: Arc::clone(&stale) };
            let opened = async {
                let connection = Connection::open(&entry.transport, listener).await?;
                stale.store(false, Ordering::Relaxed);
                match list(&entry.name, &connection.peer).await {
                    Ok((tools, notes)) => Ok((connection, tools, notes)),
                    Err(_) if connection.peer.is_transport_closed() => Err(connection.ended().await),
                    Err(why) => Err(why),
                }
            };
            let opened = tokio::time::timeout(limit, opened)
                .await
                .unwrap_or_else(|_| Err(format!("it did not answer within {} seconds", limit.as_secs())));
            let Some(this) = server.upgrade() else { return };
            let connection = match opened {
                Err(why) => return this.set(|state| state.phase = McpPhase::Failed(why)),
                Ok((connection, tools, notes)) => {
                    this.set(|state| {
                        state.peer = Some(connection.peer.clone());
                        state.phase = McpPhase::Ready;
                        state.tools = tools;
                        state.about = connection.about();
                        state.took = Some(began.elapsed());
                        state.notes = notes;
                        state.reach = connection.reach.clone();
                    });
                    connection
                }
            };
            drop(this);
            let why = connection.ended().await;
            let Some(this) = server.upgrade() else { return };
            this.set(|state| (state.peer, state.phase) = (None, McpPhase::Ended(why)));
        });
    }

    /// Starts a server that did not start or has ended, without waiting for it.
    pub fn retry(self: &Arc<Self>) {
        let is_down = |state: &State| matches!(state.phase, McpPhase::Failed(_) | McpPhase::Ended(_));
        self.connect_if(|state| {
            state.restarts = if is_down(state) { 0 } else { state.restarts };
            is_down(state)
        });
    }

    /// Connects in the background if `wanted` accepts the state, which it may change.
    fn connect_if(self: &Arc<Self>, wanted: impl FnOnce(&mut State) -> bool) {
        let connects = self.state.send_if_modified(|state| {
            let connects = wanted(state);
            if connects {
                (state.phase, state.since) = (McpPhase::Starting, Instant::now());
            }
            connects
        });
        if connects {
            self.connect();
        }
    }

    fn set(&self, change: impl FnOnce(&mut State)) {
        self.state.send_modify(change);
    }

    /// Lists the tools again in the background if the server announced that they have changed.
    pub fn refresh(self: &Arc<Self>) {
        let peer = match &*self.state.borrow() {
            State { phase: McpPhase::Ready, peer: Some(peer), .. } => peer.clone(),
            _ => return,
        };
        if !self.stale.swap(false, Ordering::Relaxed) {
            return;
        }
        self.set(|state| (state.phase, state.since) = (McpPhase::Starting, Instant::now()));
        let (server, name, limit) = (Arc::downgrade(self), self.entry.name.clone(), self.entry.start_time);
        self.runtime.spawn(async move {
            let listed = tokio::time::timeout(limit.max(HANDSHAKE), list(&name, &peer)).await;
            let Some(this) = server.upgrade() else { return };
            this.set(|state| {
                if state.phase != McpPhase::Starting {
                    return;
                }
                state.phase = McpPhase::Ready;
                match listed {
                    Ok(Ok((tools, notes))) => (state.tools, state.notes) = (tools, notes),
                    // Keep the known tools; a call to one that is gone reports the problem.
                    Ok(Err(why)) => state.notes = vec![format!("its tools could not be listed again: {why}")],
                    Err(_) => state.notes = vec![String::from("it did not list its tools again")],
                }
            });
        });
    }

    pub fn is_starting(&self) -> bool {
        self.state.borrow().phase == McpPhase::Starting
    }

    /// Waits until the server has started or failed, at most as long after its start as its entry allows.
    pub async fn settled(&self) {
        let end = self.state.borrow().since + self.entry.start_time;
        let mut changes = self.state.subscribe();
        let settled = changes.wait_for(|state| state.phase != McpPhase::Starting);
        let _ = tokio::time::timeout_at(end.into(), settled).await;
    }

    /// The tools that it listed last; none before it was ready.
    pub fn tools(&self) -> Vec<FoundTool> {
        self.state.borrow().tools.clone()
    }

    pub fn reach(&self) -> Reach {
        self.state.borrow().reach.clone()
    }

    /// Messages for a person that were not shown yet.
    pub fn news(&self) -> Vec<String> {
        let name = harmless(&self.entry.name, 80);
        let mut news = Vec::new();
        self.state.send_if_modified(|state| {
            match &state.phase {
                McpPhase::Failed(why) => news.push(format!("the MCP server `{name}` did not start: {why}")),
                McpPhase::Starting => news.push(format!(
                    "the MCP server `{name}` is still starting; its tools are not available in this turn"
                )),
                McpPhase::Ended(why) => news.push(format!(
                    "the MCP server `{name}` has ended: {why}; it is started again when one of its tools is called"
                )),
                McpPhase::Ready => {}
            }
            news.extend(state.notes.iter().take(TOLD).map(|note| format!("the MCP server `{name}`: {note}")));
            if let Some(more) = state.notes.len().checked_sub(TOLD).filter(|more| *more > 0) {
                news.push(format!("the MCP server `{name}`: {more} more like this; its status lists them"));
            }
            news.retain(|text| !state.told.contains(text));
            state.told.extend(news.iter().cloned());
            false
        });
        news
    }

    pub fn state(&self) -> McpServerState {
        let state = self.state.borrow();
        let tools = state.tools.iter().map(|tool| McpToolState {
            name: tool.name.clone(),
            given: tool.given.clone(),
            description: tool.description.clone(),
            says_it_reads: tool.says_it_reads,
        });
        McpServerState {
            name: self.entry.name.clone(),
            phase: state.phase.clone(),
            about: state.about.clone(),
            took: state.took,
            tools: tools.collect(),
            notes: state.notes.clone(),
        }
    }

    /// Calls a tool. If the server has ended, it is started again first.
    pub async fn call(
        self: &Arc<Self>,
        tool: &str,
        arguments: serde_json::Map<String, Value>,
        stop: &Stop,
    ) -> ToolOutput {
        let name = harmless(&self.entry.name, 80);
        let peer = tokio::select! {
            biased;
            peer = self.peer() => peer,
            () = stop.asked() => return ToolOutput::error("[not run: the turn was stopped before it began]"),
        };
        let peer = match peer {
            Ok(peer) => peer,
            Err(why) => {
                return ToolOutput::error(format!("[not run: the MCP server `{name}` does not work: {why}]"));
            }
        };
        let mut params = CallToolRequestParams::new(tool.to_owned());
        params.arguments = Some(arguments);
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let sent = peer.send_request_with_option(request, PeerRequestOptions::no_options()).await;
        let handle = match sent {
            Ok(handle) => handle,
            Err(why) => return self.failed(&why).await,
        };
        // If this future is dropped, or the call takes too long, the server is asked to cancel the call.
        let mut pending =
            Pending { peer: peer.clone(), id: Some(handle.id.clone()), runtime: self.runtime.clone() };
        let time = self.entry.call_time.unwrap_or(Duration::from_secs(30 * 24 * 3600));
        let answered = tokio::select! {
            biased;
            answered = handle.await_response() => answered,
            () = stop.asked() => {
                return ToolOutput::error(
                    "[interrupted: the turn was stopped while this ran; it may have done a part of its work]",
                );
            }
            () = tokio::time::sleep(time) => {
                return ToolOutput::error(format!(
                    "[stopped after {} seconds, the longest that a call of the MCP server `{name}` may take; it may have done \
                     a part of its work]",
                    time.as_secs_f32()
                ));
            }
        };
        pending.id = None;
        match answered {
            Ok(result) => {
                self.set(|state| state.restarts = 0);
                match serde_json::to_value(&result) {
                    Ok(result) => content::output(&result),
                    Err(why) => ToolOutput::error(format!("[the answer cannot be read: {why}]")),
                }
            }
            Err(why) => self.failed(&why).await,
        }
    }

    /// The result of a call that got no answer.
    async fn failed(&self, why: &ServiceError) -> ToolOutput {
        let name = harmless(&self.entry.name, 80);
        match why {
            ServiceError::McpError(error) => {
                let more = error.data.as_ref().map(|data| format!(" {data}")).unwrap_or_default();
                ToolOutput::error(format!(
                    "[the MCP server `{name}` refused the call: {}{more}]",
                    error.message
                ))
            }
            ServiceError::TransportClosed => {
                // The reason why it ended is known a moment later.
                let mut changes = self.state.subscribe();
                let ended = changes.wait_for(|state| state.peer.is_none());
                let _ = tokio::time::timeout(Duration::from_secs(3), ended).await;
                let why =
                    self.state.borrow().phase.reason().map(|why| format!(": {why}")).unwrap_or_default();
                ToolOutput::error(format!(
                    "[the MCP server `{name}` ended while this ran{why}; it may have done a part of its work. It is started again \
                     at the next call]"
                ))
            }
            why => ToolOutput::error(format!(
                "[the MCP server `{name}` did not answer: {}; it may have done a part of its work]",
                harmless(&why.to_string(), 300)
            )),
        }
    }

    /// The connection, after starting the server again if that is needed.
    async fn peer(self: &Arc<Self>) -> Result<Peer<RoleClient>, String> {
        let mut changes = self.state.subscribe();
        self.connect_if(|state| {
            let is_down = matches!(state.phase, McpPhase::Ended(_) | McpPhase::Failed(_));
            let connects = is_down && state.restarts < RESTARTS;
            state.restarts += u32::from(connects);
            connects
        });
        let settled = |state: &State| state.peer.is_some() || state.phase != McpPhase::Starting;
        let limit = HANDSHAKE.max(self.entry.start_time);
        let state = match tokio::time::timeout(limit, changes.wait_for(settled)).await {
            Ok(Ok(state)) => state,
            _ => return Err(String::from("it is still starting")),
        };
        match (&state.peer, &state.phase) {
            (Some(peer), _) => Ok(peer.clone()),
            (None, McpPhase::Ended(why)) => {
                Err(format!("it has ended {} times in a row: {why}", RESTARTS + 1))
            }
            (None, phase) => Err(phase.reason().unwrap_or("it is still starting").to_owned()),
        }
    }
}

/// A call that waits for its answer. Dropping it asks the server to cancel the call.
struct Pending {
    peer: Peer<RoleClient>,
    id: Option<RequestId>,
    runtime: Handle,
}

impl Drop for Pending {
    fn drop(&mut self) {
        let Some(id) = self.id.take() else { return };
        let peer = self.peer.clone();
        self.runtime.spawn(async move {
            let reason = String::from("the turn was stopped, or the call took too long");
            let params = CancelledNotificationParam::new(Some(id), Some(reason));
            let _ = peer.send_notification(CancelledNotification::new(params).into()).await;
        });
    }
}

/// Lists the tools of a server. Also returns sentences about what was changed in them.
async fn list(server: &str, peer: &Peer<RoleClient>) -> Result<(Vec<FoundTool>, Vec<String>), String> {
    let mut given: Vec<Value> = Vec::new();
    let mut notes = Vec::new();
    let mut cursor: Option<String> = None;
    for page in 0.. {
        if page == MOST_PAGES || given.len() > MOST_TOOLS {
            given.truncate(MOST_TOOLS);
            notes.push(format!("it lists too many tools; only the first {} are used", given.len()));
            break;
        }
        let params = cursor.take().map(|cursor| PaginatedRequestParams::default().with_cursor(Some(cursor)));
        let request = ListToolsRequest { params, ..ListToolsRequest::default() };
        let listed = peer.send_request(ClientRequest::ListToolsRequest(request)).await;
        let listed = match listed {
            // A server without tools need not support this method.
            Err(ServiceError::McpError(error)) if error.code.0 == -32601 && page == 0 => break,
            listed => listed
                .map_err(|why| format!("it did not list its tools: {}", harmless(&why.to_string(), 300)))?,
        };
        let listed = serde_json::to_value(&listed).map_err(|why| why.to_string())?;
        let Some(tools) = listed["tools"].as_array() else {
            return Err(String::from("it did not list its tools: its answer has no tools"));
        };
        given.extend(tools.iter().cloned());
        match listed["nextCursor"].as_str().filter(|next| !next.is_empty()) {
            Some(next) => cursor = Some(next.to_owned()),
            None => break,
        }
    }
    let mut tools: Vec<FoundTool> = Vec::new();
    for tool in &given {
        let Some(name) = tool["name"].as_str() else {
            notes.push(String::from("it lists a tool without a name, which is left out"));
            continue;
        };
        let (found, note) = found(server, name, tool);
        notes.extend(note);
        if tools.iter().any(|other| other.name == found.name) {
            notes.push(format!("it lists the tool `{}` twice; the first is used", harmless(name, 80)));
        } else {
            tools.push(found);
        }
    }
    notes.dedup();
    Ok((tools, notes))
}

/// A tool in the form that models see, and a sentence about what was changed in it.
fn found(server: &str, given: &str, tool: &Value) -> (FoundTool, Option<String>) {
    let (schema, why) = schema::cleaned(tool.get("inputSchema").or(tool.get("input_schema")));
    let described = tool["description"].as_str().or(tool["title"].as_str()).unwrap_or_default();
    let found = FoundTool {
        name: names::tool_name(server, given),
        given: given.to_owned(),
        description: lines(described),
        schema,
        says_it_reads: tool["annotations"]["readOnlyHint"] == true,
    };
    let note = why.map(|why| format!("the tool `{}` takes any object: {why}", harmless(given, 80)));
    (found, note)
}

/// A text whose lines are each made safe to print.
fn lines(text: &str) -> String {
    let text: String = text.chars().take(DESCRIPTION).collect();
    let lines: Vec<String> = text.lines().map(|line| harmless(line, DESCRIPTION)).collect();
    lines.join("\n").trim().to_owned()
}
