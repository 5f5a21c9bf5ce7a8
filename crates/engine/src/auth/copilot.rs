//! GitHub Copilot: logging in on another device, and exchanging GitHub's token for one that Copilot takes.
//!
//! Where the exchange is not open to an account, GitHub's own token is shown to Copilot (COP-01).

use std::{fmt, time::Duration};

use jiff::Timestamp;
use rejoin_record::json::{Doc, Object, Value};
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use secrecy::{ExposeSecret as _, SecretString};
use tokio::{sync::Mutex, time::Instant};

use crate::{
    clock::{Clock as _, SystemClock},
    provider::{
        ProviderError,
        connect::secret_value,
        http::{Client, HttpOptions, attempt::Attempt, public, refusal::FailedAttempt},
    },
};

/// The public name under which editors log in.
const CLIENT_ID: &str = "Iv1.b507a08c87ecfe98";

/// All that is needed: who it is.
const SCOPE: &str = "read:user";

/// Answers of GitHub are short.
const ANSWER_BYTES: usize = 256 * 1024;

/// A token that ends within this time is exchanged before it does.
const MARGIN_SECONDS: i64 = 120;

/// Why a login failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoginError {
    /// The person said no.
    #[error("the login was refused on github.com")]
    Denied,
    /// The code was not entered in time.
    #[error("the code was not entered in time; log in again")]
    Expired,
    /// GitHub does not answer, or not as it should.
    #[error(transparent)]
    Provider(#[from] ProviderError),
}

/// A login that waits for a person.
pub struct DeviceLogin {
    /// What the person enters.
    pub user_code: String,
    /// Where.
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
    ///
    /// # Errors
    /// If GitHub does not give one.
    pub async fn begin(options: &HttpOptions) -> Result<Self, LoginError> {
        let github = options.addresses.github.trim_end_matches('/');
        let client = Client::new("GitHub", github, options);
        let url = format!("{github}/login/device/code");
        let body = object(&[("client_id", CLIENT_ID), ("scope", SCOPE)]);
        let text = post(&client, &url, body, &[]).await.map_err(|failure| failure.error)?;
        let doc = Doc::parse(text.trim()).ok();
        let root = doc.as_ref().and_then(Doc::root);
        let field = |name| root.and_then(|root| root.given(name)).and_then(Value::as_str);
        let seconds = |name| root.and_then(|root| root.given(name)).and_then(Value::as_u64);
        let (Some(device), Some(user), Some(address)) =
            (field("device_code"), field("user_code"), field("verification_uri"))
        else {
            return Err(unexpected(&text, &[]).into());
        };
        Ok(Self {
            user_code: crate::auth::redact::harmless(&user, 40),
            address: crate::auth::redact::harmless(&address, 200),
            device_code: SecretString::from(device.as_ref()),
            interval: pause(seconds("interval").unwrap_or(5)),
            // An hour at most: a code is not worth a longer wait.
            until: Instant::now() + Duration::from_secs(seconds("expires_in").unwrap_or(900).min(3600)),
            client,
            token_url: format!("{github}/login/oauth/access_token"),
        })
    }

    /// Waits until the person has entered the code: GitHub's token.
    ///
    /// # Errors
    /// If the person says no, or time runs out.
    pub async fn finish(mut self) -> Result<SecretString, LoginError> {
        loop {
            let next = Instant::now() + self.interval;
            if next > self.until {
                return Err(LoginError::Expired);
            }
            tokio::time::sleep_until(next).await;
            let body = object(&[
                ("client_id", CLIENT_ID),
                ("device_code", self.device_code.expose_secret()),
                ("grant_type", "urn:ietf:params:oauth:grant-type:device_code"),
            ]);
            let text = match post(&self.client, &self.token_url, body, &[&self.device_code]).await {
                Ok(text) => text,
                // A network that fails for a moment does not end a login.
                Err(failure) if failure.again => continue,
                Err(failure) => return Err(failure.error.into()),
            };
            let doc = Doc::parse(text.trim()).ok();
            let root = doc.as_ref().and_then(Doc::root);
            let field = |name| root.and_then(|root| root.given(name)).and_then(Value::as_str);
            if let Some(token) = field("access_token").filter(|token| !token.trim().is_empty()) {
                return Ok(SecretString::from(token.trim()));
            }
            match field("error").as_deref() {
                Some("authorization_pending") => {}
                Some("slow_down") => {
                    let asked = root.and_then(|root| root.given("interval")?.as_u64()).map(pause);
                    self.interval = asked.unwrap_or(self.interval + Duration::from_secs(5));
                }
                Some("expired_token") => return Err(LoginError::Expired),
                Some("access_denied") => return Err(LoginError::Denied),
                _ => return Err(unexpected(&text, &[&self.device_code]).into()),
            }
        }
    }
}

/// A pause between two questions: never none, never for ever.
fn pause(seconds: u64) -> Duration {
    Duration::from_secs(seconds.min(300)).max(Duration::from_millis(20))
}

fn object(fields: &[(&str, &str)]) -> String {
    fields.iter().fold(Object::new(), |object, (name, value)| object.text(name, value)).finish()
}

fn unexpected(text: &str, secrets: &[&SecretString]) -> ProviderError {
    let text = crate::auth::redact::redact(text, secrets);
    ProviderError::Garbage(format!("GitHub said {}", crate::auth::redact::harmless(&text, 120)))
}

async fn post(
    client: &Client,
    url: &str,
    body: String,
    secrets: &[&SecretString],
) -> Result<String, FailedAttempt> {
    let shown = public(url);
    let request = client.get().map_err(FailedAttempt::last)?.post(url);
    let request =
        request.header(ACCEPT, "application/json").header(CONTENT_TYPE, "application/json").body(body);
    Attempt { client, shown: &shown, secrets }.fetch(request, ANSWER_BYTES).await
}

/// What Copilot is shown with one request.
pub(crate) struct Ticket {
    /// The header.
    pub header: HeaderValue,
    /// What is secret in it.
    pub secret: SecretString,
    /// Where Copilot answers this account, if elsewhere.
    pub base: Option<String>,
}

/// A token that Copilot takes.
struct Held {
    secret: SecretString,
    /// When to exchange it again; never for GitHub's own.
    until: Option<Timestamp>,
    base: Option<String>,
}

/// The exchange of GitHub's token, and what came of it.
pub(crate) struct Session {
    github: SecretString,
    url: String,
    client: Client,
    /// Whether the account may be sent to an address of its own.
    moves: bool,
    held: Mutex<Option<Held>>,
}

impl Session {
    /// With GitHub's token.
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

    /// What to show with the next request.
    pub async fn ticket(&self) -> Result<Ticket, FailedAttempt> {
        let mut held = self.held.lock().await;
        let now = SystemClock.now();
        let good = |held: &Held| held.until.is_none_or(|until| now < until);
        let current = match held.take().filter(good) {
            Some(current) => current,
            None => self.exchange().await?,
        };
        let current = held.insert(current);
        let header = secret_value(&format!("Bearer {}", current.secret.expose_secret()));
        let broken = || {
            let hint =
                String::from("the login has characters in it that no key has: `rejoin auth login copilot`");
            FailedAttempt::last(ProviderError::NoKey { provider: String::from("copilot"), hint })
        };
        Ok(Ticket {
            header: header.ok_or_else(broken)?,
            secret: current.secret.clone(),
            base: current.base.clone().filter(|_| self.moves),
        })
    }

    /// Forgets what came of the exchange. Whether there was something to forget.
    pub async fn forget(&self) -> bool {
        self.held.lock().await.take().is_some()
    }

    async fn exchange(&self) -> Result<Held, FailedAttempt> {
        let shown = public(&self.url);
        let secrets = [&self.github];
        let attempt = Attempt { client: &self.client, shown: &shown, secrets: &secrets };
        let token = secret_value(&format!("token {}", self.github.expose_secret()));
        let own = || Held { secret: self.github.clone(), until: None, base: None };
        let Some(token) = token else { return Ok(own()) };
        let request = self.client.get().map_err(FailedAttempt::last)?.get(&self.url);
        let request = request
            .header(AUTHORIZATION, token)
            .header(ACCEPT, "application/json")
            .header("editor-version", concat!("rejoin/", env!("CARGO_PKG_VERSION")))
            .header("editor-plugin-version", concat!("rejoin/", env!("CARGO_PKG_VERSION")));
        let text = match attempt.fetch(request, ANSWER_BYTES).await {
            Ok(text) => text,
            Err(failure) => {
                // Some accounts have no exchange: their token is taken as it is.
                let closed = match &failure.error {
                    ProviderError::Unauthorized(fault) => fault.status == Some(403),
                    ProviderError::NotFound(_) => true,
                    _ => false,
                };
                if closed {
                    tracing::debug!("GitHub exchanges no token for this account; its own is used");
                    return Ok(own());
                }
                return Err(named_copilot(failure));
            }
        };
        let doc = Doc::parse(text.trim()).ok();
        let root = doc.as_ref().and_then(Doc::root);
        let Some(token) = root.and_then(|root| root.given("token")?.as_str()) else {
            return Err(FailedAttempt::last(unexpected("an answer without a token", &[])));
        };
        let seconds = |name: &str| root.and_then(|root| i64::try_from(root.given(name)?.as_u64()?).ok());
        let now = SystemClock.now();
        let from_now = |seconds: i64| now.checked_add(jiff::SignedDuration::from_secs(seconds)).ok();
        let by_date = seconds("expires_at")
            .and_then(|at| Timestamp::from_second(at.saturating_sub(MARGIN_SECONDS)).ok());
        // `refresh_in` does not depend on this machine's clock.
        let until = seconds("refresh_in").and_then(from_now).or(by_date).or_else(|| from_now(600));
        let base = root
            .and_then(|root| root.given("endpoints")?.given("api")?.as_str())
            .filter(|base| is_copilot(base));
        Ok(Held {
            secret: SecretString::from(token.trim()),
            until,
            base: base.map(std::borrow::Cow::into_owned),
        })
    }
}

/// A login that is no longer good is Copilot's trouble, for a person.
fn named_copilot(mut failure: FailedAttempt) -> FailedAttempt {
    if let ProviderError::Unauthorized(fault) = &mut failure.error {
        fault.provider = String::from("copilot");
    }
    failure
}

/// A token goes only where Copilot is.
fn is_copilot(base: &str) -> bool {
    let Some(rest) = base.strip_prefix("https://") else { return false };
    let host = rest.trim_end_matches('/');
    // Nothing but a name: a port, a password or a slash of the other kind would lead somewhere else.
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
