//! Providers over HTTP: one client, one way to send and to read. The differences between services are in the registry.
//!
//! A request is repeated only while no byte of an answer has arrived. After that, a failure becomes an answer that ended early and
//! keeps everything that arrived.

pub(crate) mod attempt;
mod body;
mod client;
pub(crate) mod models;
pub(crate) mod refusal;
mod service;
#[cfg(test)]
pub(crate) mod tests;

use std::time::Duration;

pub use client::{Client, install_tls, is_local, public};
pub use service::HttpProvider;
pub(crate) use service::ServiceSettings;

/// How requests are sent.
#[derive(Debug, Clone)]
pub struct HttpOptions {
    /// Longest time for connecting.
    pub connect_timeout: Duration,
    /// How long a provider may be silent, before an answer or in the middle of it. Comments and pings that keep a connection open
    /// do not count. Models that reason are silent for minutes.
    pub read_timeout: Duration,
    /// How often a failed request is repeated.
    pub retries: u32,
    /// The wait before the first repetition; each further wait is twice as long.
    pub first_wait: Duration,
    /// Upper limit of these waits.
    pub longest_wait: Duration,
    /// The longest wait that a provider may ask for. If it asks for more, the request fails at once.
    pub longest_retry_after: Duration,
    /// The longest line of a stream, and the longest answer that comes in one piece, in bytes. Such a piece is parsed as one JSON
    /// value, which takes several times its length in memory.
    pub longest_line: usize,
    /// The longest answer, in bytes. The beginning of a longer one is kept, and the turn fails.
    pub longest_answer: usize,
    /// How long to wait for a server on this machine if no provider is named. It is short, because most machines have none.
    pub local_answer: Duration,
    /// Whether the system's proxy is used. Requests to this machine never use it.
    pub proxy: bool,
    /// Addresses that depend on the login and not on the service.
    pub addresses: Addresses,
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(15),
            read_timeout: Duration::from_secs(300),
            retries: 4,
            first_wait: Duration::from_millis(250),
            longest_wait: Duration::from_secs(4),
            longest_retry_after: Duration::from_secs(60),
            longest_line: 32 * 1024 * 1024,
            longest_answer: rejoin_record::limits::ANSWER_BYTES,
            local_answer: Duration::from_millis(300),
            proxy: true,
            addresses: Addresses::default(),
        }
    }
}

/// The addresses for logins. Only tests change them, and enterprises with their own servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Addresses {
    /// The address for requests with a ChatGPT login.
    pub chatgpt: String,
    /// The address for requests with a Claude login.
    pub claude: String,
    /// The address where users log in to GitHub.
    pub github: String,
    /// GitHub's API.
    pub github_api: String,
}

impl Default for Addresses {
    fn default() -> Self {
        Self {
            chatgpt: String::from("https://chatgpt.com/backend-api/codex"),
            claude: String::from("https://api.anthropic.com/v1"),
            github: String::from("https://github.com"),
            github_api: String::from("https://api.github.com"),
        }
    }
}
