//! The HTTP client of a provider. It is built on first use, or shortly before it in another thread, because reading the system's
//! certificates takes a while.

use std::{
    error::Error as _,
    fmt,
    sync::{Arc, Once, OnceLock},
    thread,
    time::Duration,
};

use super::{HttpOptions, refusal::FailedAttempt};
use crate::{auth::redact::harmless, provider::ProviderError};

/// Installs the cryptography that TLS uses, once per process. One that is already installed stays.
pub fn install_tls() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // It fails only if another one is installed already, which works as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}

/// The HTTP client of one provider.
#[derive(Clone)]
pub struct Client {
    provider: Arc<str>,
    options: Arc<HttpOptions>,
    plain: bool,
    local: bool,
    built: Arc<OnceLock<Result<reqwest::Client, String>>>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("provider", &self.provider).finish_non_exhaustive()
    }
}

impl Client {
    /// A client for an address. Nothing is connected yet.
    pub fn new(provider: &str, url: &str, options: &HttpOptions) -> Self {
        Self {
            provider: provider.into(),
            options: Arc::new(options.clone()),
            plain: url.starts_with("http://"),
            local: is_local(url),
            built: Arc::default(),
        }
    }

    /// How requests are sent.
    pub fn options(&self) -> &HttpOptions {
        &self.options
    }

    /// The provider's name, for messages.
    pub fn provider(&self) -> &str {
        &self.provider
    }

    /// The HTTP client.
    pub fn get(&self) -> Result<&reqwest::Client, ProviderError> {
        let built = self.built.get_or_init(|| self.build());
        built.as_ref().map_err(|why| {
            ProviderError::Other(format!("no request can be sent to {}: {why}", self.provider))
        })
    }

    /// Builds the HTTP client in another thread, so that the first request finds it ready.
    pub fn prepare(&self) {
        if self.built.get().is_none() {
            let client = self.clone();
            // On systems without threads, the first request builds it.
            let _ = thread::Builder::new().spawn(move || client.get().is_ok());
        }
    }

    fn build(&self) -> Result<reqwest::Client, String> {
        install_tls();
        let builder = || {
            let builder = reqwest::Client::builder()
                .user_agent(concat!("rejoin/", env!("CARGO_PKG_VERSION")))
                .connect_timeout(self.options.connect_timeout)
                .read_timeout(self.options.read_timeout)
                // A redirected POST would be sent again, with the key, to another address.
                .redirect(reqwest::redirect::Policy::none())
                .retry(reqwest::retry::never());
            if self.options.proxy && !self.local { builder } else { builder.no_proxy() }
        };
        match builder().build() {
            Ok(client) => Ok(client),
            // A machine without certificates can still connect without TLS, for example to a local model.
            Err(_) if self.plain => builder().tls_certs_only([]).build().map_err(|error| cause(&error)),
            Err(error) => Err(cause(&error)),
        }
    }

    /// The error for a failed request. `url` is the address without secrets.
    pub(super) fn failure(&self, error: reqwest::Error, url: &str, after: Duration) -> FailedAttempt {
        let provider = self.provider.to_string();
        if error.is_timeout() && !error.is_connect() {
            return FailedAttempt::of(ProviderError::TimedOut { provider, after });
        }
        let why = cause(&error);
        if error.is_builder() {
            return FailedAttempt::last(ProviderError::Other(format!("{url} is not an address: {why}")));
        }
        let why = if error.is_timeout() { String::from("it does not answer") } else { why };
        FailedAttempt::of(ProviderError::Unreachable { provider, url: url.to_owned(), why })
    }
}

/// The innermost cause of an error, in the system's words.
fn cause(error: &reqwest::Error) -> String {
    let mut last: &dyn std::error::Error = error;
    let mut bottom = error.source();
    while let Some(next) = bottom {
        last = next;
        bottom = next.source();
    }
    // The outermost message contains the address, which may contain a password.
    let text =
        if std::ptr::addr_eq(last, error) { String::from("the request is broken") } else { last.to_string() };
    harmless(&text, 200)
}

/// Whether an address is on this machine.
///
/// The client's own parser decides. Comparing text would take `http://elsewhere\@localhost` and `http://127.elsewhere` for this
/// machine, and send a key there.
pub fn is_local(url: &str) -> bool {
    let url = reqwest::Url::parse(url).ok();
    let host = url.as_ref().and_then(reqwest::Url::host_str).unwrap_or_default();
    let number = host.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>();
    number.map_or(host == "localhost", |number| number.is_loopback())
}

/// An address without password and query, for messages and the record.
pub fn public(url: &str) -> String {
    let url = url.split(['?', '#']).next().unwrap_or("");
    // The client reads a backslash as a slash, so the host ends there.
    let url = url.replace('\\', "/");
    let url = url.as_str();
    // Without a scheme it is not an address, but it may still contain a password.
    let (scheme, rest) = url.find("://").map_or(("", url), |at| url.split_at(at + 3));
    // The client also skips extra slashes.
    let rest = if scheme.is_empty() { rest } else { rest.trim_start_matches('/') };
    let (authority, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
    let authority = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    format!("{scheme}{authority}{path}")
}

#[cfg(test)]
mod tests;
