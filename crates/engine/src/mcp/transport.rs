//! Opens the connection to a server: a confined program, or a service behind an address.

use std::sync::{Arc, Mutex, OnceLock};

use rmcp::{
    Peer, RoleClient, ServiceExt as _,
    service::{ClientInitializeError, RunningService},
    transport::{async_rw::AsyncRwTransport, streamable_http_client::StreamableHttpClientTransport},
};
use secrecy::{ExposeSecret as _, SecretString};
#[cfg(unix)]
use tokio::io::AsyncReadExt as _;

use super::{McpTransport, flood::Bounded, http, server::Listener};
use crate::{
    auth::redact::{harmless, redact},
    sandbox::{ConfinedPartner, Network, Policy, Sandbox},
    tools::{Reach, reach},
};

/// How many bytes of a server's standard error are kept.
const COMPLAINTS: usize = 8 * 1024;

/// How many of its last lines are shown, and how many characters of each.
const LAST_LINES: (usize, usize) = (5, 200);

/// A connection to a server.
pub(super) struct Connection {
    pub peer: Peer<RoleClient>,
    service: RunningService<RoleClient, Listener>,
    partner: Option<ConfinedPartner>,
    /// Why this process ended the connection, if it did.
    flooded: Arc<OnceLock<String>>,
    complaints: Complaints,
    /// The files and network that its calls can reach.
    pub reach: Reach,
}

impl Connection {
    /// Connects and performs the handshake. An error names the cause, in words for a person.
    pub async fn open(transport: &McpTransport, listener: Listener) -> Result<Self, String> {
        match transport {
            McpTransport::Program { program, policy } => Self::program(program, policy, listener).await,
            McpTransport::Http { url, headers } => Self::http(url, headers, listener).await,
            McpTransport::Unusable(why) => Err(why.clone()),
        }
    }

    #[cfg(unix)]
    async fn program(program: &[String], policy: &Policy, listener: Listener) -> Result<Self, String> {
        let reach = reach_of(policy);
        let owned = policy.clone();
        let made = tokio::task::spawn_blocking(move || Sandbox::new(owned)).await;
        let sandbox = made.map_err(|why| why.to_string())?.map_err(|why| why.to_string())?;
        let reach = match (reach, self::reach(sandbox.confinement())) {
            (Reach::Confined, of_sandbox) => of_sandbox,
            (open, _) => open,
        };
        let started = sandbox.spawn_partner(program).await;
        let mut partner = started.map_err(|why| format!("it cannot be started: {why}"))?;
        let secrets =
            policy.environment.iter().filter_map(|(_, value)| Some(SecretString::from(value.to_str()?)));
        let complaints = Complaints::new(secrets.collect());
        if let Some(mut errors) = partner.errors.take() {
            let complaints = complaints.clone();
            tokio::spawn(async move {
                let mut buffer = vec![0; 4096];
                while let Ok(count @ 1..) = errors.read(&mut buffer).await {
                    complaints.add(&buffer[..count]);
                }
            });
        }
        let Some(stream) = partner.stream.take() else { return Err(String::from("it has no stream")) };
        let (reader, writer) = stream.into_split();
        let flooded = Arc::default();
        let reader = Bounded::new(reader, Arc::clone(&flooded));
        // The reader applies the limit. The library's own limit skips the line, and the call would wait for ever for the skipped
        // answer.
        let transport = AsyncRwTransport::new_client(reader, writer).with_max_line_length(usize::MAX);
        match listener.serve(transport).await {
            Ok(service) => {
                let peer = service.peer().clone();
                Ok(Self { peer, service, partner: Some(partner), flooded, complaints, reach })
            }
            Err(why) => {
                let ended = ended(Some(partner)).await;
                let why = match (flooded.get(), &why) {
                    (Some(flooded), _) => flooded.clone(),
                    // A program that ends at once may do so before anything is written to it.
                    (
                        None,
                        ClientInitializeError::ConnectionClosed(_)
                        | ClientInitializeError::TransportError { .. },
                    ) => ended,
                    (None, why) => harmless(&why.to_string(), 300),
                };
                Err(complaints.after(&why))
            }
        }
    }

    #[cfg(not(unix))]
    async fn program(_: &[String], _: &Policy, _: Listener) -> Result<Self, String> {
        Err(String::from("servers that are programs cannot be started on this system; use one with a url"))
    }

    async fn http(url: &str, headers: &[(String, SecretString)], listener: Listener) -> Result<Self, String> {
        let secrets: Vec<SecretString> = headers.iter().map(|(_, value)| value.clone()).collect();
        let complaints = Complaints::new(secrets);
        let (client, config) = http::client(url, headers)?;
        let transport = StreamableHttpClientTransport::with_client(client, config);
        let service =
            listener.serve(transport).await.map_err(|why| complaints.clean(&http::failure(&why)))?;
        let reach = Reach::Open(String::from("the server is not on this machine, or not in the sandbox"));
        let peer = service.peer().clone();
        Ok(Self { peer, service, partner: None, flooded: Arc::default(), complaints, reach })
    }

    /// The name and version that the server gives for itself.
    pub fn about(&self) -> Option<String> {
        let info = self.peer.peer_info()?;
        let info = serde_json::to_value(&*info).ok()?;
        let server = &info["serverInfo"];
        let name = server["title"].as_str().or(server["name"].as_str());
        let words = name.into_iter().chain(server["version"].as_str());
        let words: Vec<String> = words.map(|word| harmless(word, 80)).collect();
        Some(words.join(" ")).filter(|about| !about.is_empty())
    }

    /// Waits until the connection ends. Returns how it ended, in words for a person.
    pub async fn ended(self) -> String {
        let _ = self.service.waiting().await;
        let ended = ended(self.partner).await;
        self.complaints.after(self.flooded.get().unwrap_or(&ended))
    }
}

/// The files and network that calls can reach under a policy.
fn reach_of(policy: &Policy) -> Reach {
    let open = |why: String| Reach::Open(why);
    if let Some(path) = policy.hidden.first() {
        return open(format!("{} belongs to rejoin and is inside the workspace", path.display()));
    }
    if policy.network == Network::Allowed {
        return open(String::from("the server may use the network"));
    }
    let outside = policy.write.iter().find(|path| !path.starts_with(&policy.workspace));
    match outside {
        Some(path) => open(format!("the server may change {}", path.display())),
        None => Reach::Confined,
    }
}

/// Waits for the end of the program, if there is one, and returns how it ended. A program that closed its output but keeps running
/// is killed.
async fn ended(partner: Option<ConfinedPartner>) -> String {
    use crate::sandbox::CommandExit;
    #[cfg(unix)]
    if let Some(partner) = partner {
        // A program closes its output a moment before it ends.
        let mut finish = std::pin::pin!(partner.finish());
        let exit = tokio::time::timeout(std::time::Duration::from_secs(2), &mut finish).await;
        return match exit {
            Ok(Ok(CommandExit::Code(127))) => String::from("the program was not found"),
            Ok(Ok(CommandExit::Code(code))) => format!("it ended with exit code {code}"),
            Ok(Ok(CommandExit::Signal(signal))) => format!("signal {signal} ended it"),
            Ok(Ok(CommandExit::TooManyProcesses)) => String::from("it started too many processes"),
            Ok(Ok(_)) => String::from("it was ended"),
            Ok(Err(why)) => format!("its end is not known: {why}"),
            Err(_) => String::from("it closed its output"),
        };
    }
    String::from("the connection ended")
}

/// The last output of a server on its standard error.
#[derive(Debug, Clone)]
struct Complaints {
    kept: Arc<Mutex<Vec<u8>>>,
    secrets: Arc<Vec<SecretString>>,
}

impl Complaints {
    fn new(secrets: Vec<SecretString>) -> Self {
        Self { kept: Arc::default(), secrets: Arc::new(secrets) }
    }

    fn add(&self, bytes: &[u8]) {
        let Ok(mut kept) = self.kept.lock() else { return };
        kept.extend_from_slice(bytes);
        let surplus = kept.len().saturating_sub(COMPLAINTS);
        kept.drain(..surplus);
    }

    /// A text without the secrets that were passed to the server.
    fn clean(&self, text: &str) -> String {
        let secrets: Vec<&SecretString> =
            self.secrets.iter().filter(|secret| looks_secret(secret.expose_secret())).collect();
        redact(text, &secrets)
    }

    /// A reason, followed by the last lines of standard error.
    fn after(&self, reason: &str) -> String {
        let kept = self.kept.lock().map(|kept| kept.clone()).unwrap_or_default();
        let text = String::from_utf8_lossy(&kept);
        let lines: Vec<String> =
            text.lines().map(|line| harmless(line, LAST_LINES.1)).filter(|line| !line.is_empty()).collect();
        let last = &lines[lines.len().saturating_sub(LAST_LINES.0)..];
        match last.is_empty() {
            true => self.clean(reason),
            false => self.clean(&format!("{reason}; it said: {}", last.join(" / "))),
        }
    }
}

/// Whether the value of a variable may be a key. Paths and plain words are not: without them, a reason would be useless.
fn looks_secret(value: &str) -> bool {
    value.len() >= 12 && !value.contains('/') && value.contains(|c: char| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complaints_are_short_harmless_and_without_keys() {
        let complaints = Complaints::new(vec![SecretString::from("sk-1234567890")]);
        complaints.add(&b"x".repeat(100_000));
        complaints.add(b"\n\x1b[31mbad key sk-1234567890\x07\n\nlast\n");
        let said = complaints.after("it ended");
        assert!(said.ends_with("/ [31mbad key [key] / last"), "{said}");
        assert!(said.len() < 2_000);
        assert!(!said.contains(char::is_control));
    }
}
