//! GitHub Copilot: logging in on another device, and exchanging GitHub's token for one that Copilot takes.
//!
//! An account that may not exchange its token uses GitHub's token with Copilot (COP-01).

use std::{fmt, time::Duration};

use jiff::Timestamp;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Value, json};
use tokio::{sync::Mutex, time::Instant};

use crate::{
    auth::redact::{harmless, redact},
    clock::{Clock as _, SystemClock},
    provider::{
        ProviderError,
        connect::secret_value,
        http::{Client, HttpOptions, attempt::Attempt, public, refusal::FailedAttempt},
    },
};

/// The public client id with which editors log in.
const CLIENT_ID: &str = "Iv1.b507a08c87ecfe98";

/// The only scope requested: it identifies the user.
const SCOPE: &str = "read:user";

/// Longest answer of GitHub that is read, in bytes.
const ANSWER_BYTES: usize = 256 * 1024;

/// How many seconds before it expires a token is exchanged again.
const MARGIN_SECONDS: i64 = 120;

/// Why a login failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoginError {
    /// The user refused.
    #[error("the login was refused on github.com")]
    Denied,
    /// The code was not entered in time.
    #[error("the code was not entered in time; log in again")]
    Expired,
    /// GitHub did not answer as expected.
    #[error(transparent)]
    Provider(#[from] ProviderError),
}

/// A login that waits for the user to enter a code.
pub struct DeviceLogin {
    /// The code that the user enters.
    pub user_code: String,
    /// The page on which the user enters it.
    pub address: String,
    device_code: SecretString,
    interval: Duration,
    until: Instant,
    client: Client,
    token_url: String,
}

impl fmt::Debug for DeviceLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceLogin").field("address", &self.address).finish_non_exhaustive()
    }
}

impl DeviceLogin {
    /// Asks GitHub for a code.
    pub async fn begin(options: &HttpOptions) -> Result<Self, LoginError> {
        let github = options.addresses.github.trim_end_matches('/');
        let client = Client::new("GitHub", github, options);
        let url = format!("{github}/login/device/code");
        let body = json!({"client_id": CLIENT_ID, "scope": SCOPE});
        let text = post(&client, &url, &body, &[]).await.map_err(|failure| failure.error)?;
        let answer = parsed(&text);
        let field = |name| answer[name].as_str();
        let (Some(device), Some(user), Some(address)) =
            (field("device_code"), field("user_code"), field("verification_uri"))
        else {
            return Err(unexpected(&text, &[]).into());
        };
        Ok(Self {
            user_code: harmless(user, 40),
            address: harmless(address, 200),
            device_code: SecretString::from(device),
            interval: pause(answer["interval"].as_u64().unwrap_or(5)),
            // At most an hour: no user waits longer for a code.
            until: Instant::now()
                + Duration::from_secs(answer["expires_in"].as_u64().unwrap_or(900).min(3600)),
            client,
            token_url: format!("{github}/login/oauth/access_token"),
        })
    }

    /// Waits until the user has entered the code, and returns GitHub's token.
    ///
    /// # Errors
    /// If the user refuses, or time runs out.
    pub async fn finish(mut self) -> Result<SecretString, LoginError> {
        loop {
            let next = Instant::now() + self.interval;
            if next > self.until {
                return Err(LoginError::Expired);
            }
            tokio::time::sleep_until(next).await;
            let body = json!({
                "client_id": CLIENT_ID,
                "device_code": self.device_code.expose_secret(),
                "grant_type": "urn:ietf:params:oauth:grant-type:device_code",
            });
            let text = match post(&self.client, &self.token_url, &body, &[&self.device_code]).await {
                Ok(text) => text,
                // A network that fails for a moment does not end a login.
                Err(failure) if failure.again => continue,
                Err(failure) => return Err(failure.error.into()),
            };
            let answer = parsed(&text);
            if let Some(token) = answer["access_token"].as_str().filter(|token| !token.trim().is_empty()) {
                return Ok(SecretString::from(token.trim()));
            }
            match answer["error"].as_str() {
                Some("authorization_pending") => {}
                Some("slow_down") => {
                    let asked = answer["interval"].as_u64().map(pause);
                    self.interval = asked.unwrap_or(self.interval + Duration::from_secs(5));
                }
                Some("expired_token") => return Err(LoginError::Expired),
                Some("access_denied") => return Err(LoginError::Denied),
                _ => return Err(unexpected(&text, &[&self.device_code]).into()),
            }
        }
    }
}

/// The time between two polls, kept within a sane range whatever GitHub asks for.
fn pause(seconds: u64) -> Duration {
    Duration::from_secs(seconds.min(300)).max(Duration::from_millis(20))
}

/// GitHub's answer as JSON; null if it is not JSON.
fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_default()
}

fn unexpected(text: &str, secrets: &[&SecretString]) -> ProviderError {
    ProviderError::Garbage(format!("GitHub said {}", harmless(&redact(text, secrets), 120)))
}

async fn post(
    client: &Client,
    url: &str,
    body: &Value,
    secrets: &[&SecretString],
) -> Result<String, FailedAttempt> {
    let shown = public(url);
    let request = client.get().map_err(FailedAttempt::last)?.post(url);
    let request = request.header(ACCEPT, "application/json").header(CONTENT_TYPE, "application/json");
    let request = request.body(body.to_string());
    Attempt { client, shown: &shown, secrets }.fetch(request, ANSWER_BYTES).await
}

/// The authorization of one request to Copilot.
pub(crate) struct Ticket {
    /// The value of the `authorization` header.
    pub header: HeaderValue,
    /// The secret in that header.
    pub secret: SecretString,
    /// The base address for this account, if Copilot names one.
    pub base: Option<String>,
}

/// A token that Copilot accepts.
struct Token {
    secret: SecretString,
    /// When to exchange it again; none for GitHub's own token.
    until: Option<Timestamp>,
    base: Option<String>,
}

/// Exchanges GitHub's token for one that Copilot accepts, and keeps that.
pub(crate) struct Session {
    github: SecretString,
    url: String,
    client: Client,
    /// Whether requests go to the address that Copilot names for the account.
    moves: bool,
    held: Mutex<Option<Token>>,
}

impl Session {
    pub fn new(github: SecretString, moves: bool, options: &HttpOptions) -> Self {
        let api = options.addresses.github_api.trim_end_matches('/');
        Self {
            github,
            url: format!("{api}/copilot_internal/v2/token"),
            client: Client::new("GitHub", api, options),
            moves,
            held: Mutex::default(),
        }
    }

    /// The authorization of the next request.
    pub async fn ticket(&self) -> Result<Ticket, FailedAttempt> {
        let mut held = self.held.lock().await;
        let now = SystemClock.now();
        let good = |held: &Token| held.until.is_none_or(|until| now < until);
        let current = match held.take().filter(good) {
            Some(current) => current,
            None => self.exchange().await?,
        };
        let current = held.insert(current);
        let header = secret_value(&format!("Bearer {}", current.secret.expose_secret()));
        let broken = || {
            let hint = String::from(
                "the login contains characters that a key never has: `rejoin auth login copilot`",
            );
            FailedAttempt::last(ProviderError::NoKey { provider: String::from("copilot"), hint })
        };
        Ok(Ticket {
            header: header.ok_or_else(broken)?,
            secret: current.secret.clone(),
            base: current.base.clone().filter(|_| self.moves),
        })
    }

    /// Forgets the exchanged token. Returns false if there was none.
    pub async fn forget(&self) -> bool {
        self.held.lock().await.take().is_some()
    }

    async fn exchange(&self) -> Result<Token, FailedAttempt> {
        let shown = public(&self.url);
        let secrets = [&self.github];
        let attempt = Attempt { client: &self.client, shown: &shown, secrets: &secrets };
        let token = secret_value(&format!("token {}", self.github.expose_secret()));
        let own = || Token { secret: self.github.clone(), until: None, base: None };
        let Some(token) = token else { return Ok(own()) };
        let request = self.client.get().map_err(FailedAttempt::last)?.get(&self.url);
        let request = request
            .header(AUTHORIZATION, token)
            .header(ACCEPT, "application/json")
            .header("editor-version", concat!("rejoin/", env!("CARGO_PKG_VERSION")))
            .header("editor-plugin-version", concat!("rejoin/", env!("CARGO_PKG_VERSION")));
        let text = match attempt.fetch(request, ANSWER_BYTES).await {
            Ok(text) => text,
            Err(mut failure) => {
                // Some accounts have no exchange: Copilot accepts GitHub's token for them.
                let closed = match &mut failure.error {
                    ProviderError::Unauthorized(fault) => {
                        // Report Copilot, not the exchange, which the user does not know about.
                        fault.provider = String::from("copilot");
                        fault.status == Some(403)
                    }
                    ProviderError::NotFound(_) => true,
                    _ => false,
                };
                if closed {
                    tracing::debug!("GitHub exchanges no token for this account; its own is used");
                    return Ok(own());
                }
                return Err(failure);
            }
        };
        let answer = parsed(&text);
        let Some(token) = answer["token"].as_str() else {
            return Err(FailedAttempt::last(unexpected("an answer without a token", &[])));
        };
        let now = SystemClock.now();
        let from_now = |seconds: i64| now.checked_add(jiff::SignedDuration::from_secs(seconds)).ok();
        let by_date = answer["expires_at"]
            .as_i64()
            .and_then(|at| Timestamp::from_second(at.saturating_sub(MARGIN_SECONDS)).ok());
        // `refresh_in` does not depend on this machine's clock.
        let until = answer["refresh_in"].as_i64().and_then(from_now).or(by_date).or_else(|| from_now(600));
        let base = answer["endpoints"]["api"].as_str().filter(|base| is_copilot(base)).map(str::to_owned);
        Ok(Token { secret: SecretString::from(token.trim()), until, base })
    }
}

/// Whether an address belongs to Copilot. Tokens are sent to no other address.
fn is_copilot(base: &str) -> bool {
    let Some(rest) = base.strip_prefix("https://") else { return false };
    let host = rest.trim_end_matches('/');
    // Accept a plain host name only: a port, a password or a backslash would lead to another host.
    let is_name = host.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.'));
    is_name && host.ends_with(".githubcopilot.com")
}

/// The same path at another base.
pub(crate) fn moved(url: &str, base: &str) -> String {
    let path = url.split_once("://").and_then(|(_, rest)| rest.find('/').map(|at| &rest[at..])).unwrap_or("");
    format!("{}{path}", base.trim_end_matches('/'))
}

#[cfg(test)]
mod tests;
