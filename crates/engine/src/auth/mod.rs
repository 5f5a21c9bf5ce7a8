//! Keys: where they come from, and what may be shown of them.
//!
//! Nothing here reads the environment or looks for a home folder: the caller says where things are. A key is never printed: its
//! `Debug` shows only its origin, and keys are removed from every message of a provider ([`redact::redact`]).

pub mod copilot;
pub mod file;
#[cfg(feature = "keyring")]
pub mod keyring;
pub mod others;
pub mod redact;

use std::{fmt, path::PathBuf};

use jiff::Timestamp;
use secrecy::ExposeSecret;
use sha2::{Digest as _, Sha256};

pub use file::{AuthError, KeyFile};
pub use secrecy::SecretString;

use crate::provider::registry::{self, KeyUse, Login, Service};

/// Where a key was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyOrigin {
    /// The caller gave it for this run.
    Given,
    /// An environment variable.
    Variable(String),
    /// rejoin's own file of keys.
    Stored(PathBuf),
    /// The login of another agent, in its own file.
    OtherTool(PathBuf),
    /// The system's keyring, or another place that keeps keys.
    Keyring(String),
}

impl fmt::Display for KeyOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Given => f.write_str("given for this run"),
            Self::Variable(name) => f.write_str(name),
            Self::Stored(path) | Self::OtherTool(path) => write!(f, "{}", path.display()),
            Self::Keyring(name) => f.write_str(name),
        }
    }
}

/// The kind of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyKind {
    /// A key for the service's API.
    Api,
    /// The token of a ChatGPT login, which has its own address.
    ChatGpt {
        /// The account, if the login names one.
        account: Option<String>,
    },
    /// The token of a Claude login.
    Claude,
}

impl KeyKind {
    /// The words for this kind in messages to the user.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Api => "key",
            Self::ChatGpt { .. } => "ChatGPT login",
            Self::Claude => "Claude login",
        }
    }
}

/// A key, and what is known about it.
#[derive(Clone)]
pub struct Key {
    /// The key itself.
    pub secret: SecretString,
    /// The kind of key.
    pub kind: KeyKind,
    /// Where it was found.
    pub origin: KeyOrigin,
    /// When it expires; `None` if that is not known.
    pub expires: Option<Timestamp>,
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Key");
        out.field("kind", &self.kind).field("origin", &self.origin).finish_non_exhaustive()
    }
}

impl Key {
    /// A key for the service's API; `None` if it is blank. Surrounding white space, as from a file or a clipboard, is removed.
    pub fn api(secret: &str, origin: KeyOrigin) -> Option<Self> {
        let secret = secret.trim();
        let key = || Self { secret: SecretString::from(secret), kind: KeyKind::Api, origin, expires: None };
        (!secret.is_empty()).then(key)
    }

    /// A short hash that distinguishes accounts and reveals nothing about the key.
    pub fn account(&self) -> String {
        // The token of a login changes every hour, so it is not hashed: reasoning must stay bound to the account.
        let what = match &self.kind {
            KeyKind::ChatGpt { account: Some(account) } => account.as_str(),
            KeyKind::Claude => "claude login",
            KeyKind::Api | KeyKind::ChatGpt { account: None } => self.secret.expose_secret(),
        };
        let hash = Sha256::new().chain_update(b"rejoin account\0").chain_update(what).finalize();
        hash.iter().take(6).map(|byte| format!("{byte:02x}")).collect()
    }

    /// The last four characters, by which the user recognises the key; `None` if the key is too short to show them.
    pub fn ending(&self) -> Option<String> {
        let secret = self.secret.expose_secret();
        let shown = secret.len() >= 20 && secret.is_ascii();
        shown.then(|| secret[secret.len() - 4..].to_owned())
    }

    /// Whether it has expired.
    pub fn has_expired(&self, now: Timestamp) -> bool {
        self.expires.is_some_and(|expires| expires <= now)
    }
}

/// A source of keys.
pub trait KeySource: Send + Sync {
    /// Every key for a service, the preferred one first.
    fn keys(&self, service: &Service, name: &str) -> Vec<Key>;

    /// The key to use.
    fn find(&self, service: &Service, name: &str) -> Option<Key> {
        self.keys(service, name).into_iter().next()
    }
}

/// Looks up a value by its name.
pub type Lookup = Box<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// The places in which keys are looked for, in the order of the fields. By default none.
#[derive(Default)]
pub struct Keys {
    /// A key for this run, used for every service.
    pub given: Option<SecretString>,
    /// Environment variables, by name.
    pub variables: Option<Lookup>,
    /// rejoin's own file of keys.
    pub stored: Option<KeyFile>,
    /// Another source of keys, such as the system's keyring.
    pub other: Option<Box<dyn KeySource>>,
    /// The folder of Codex, which keeps ChatGPT logins. It is only read.
    pub codex: Option<PathBuf>,
    /// The folder of Claude Code, which keeps Claude logins. It is only read.
    pub claude: Option<PathBuf>,
    /// Logins of other agents that are not in files, such as Claude Code's entry in the system's keyring.
    pub login: Option<Box<dyn KeySource>>,
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys").field("stored", &self.stored).finish_non_exhaustive()
    }
}

impl Keys {
    /// Keys in environment variables, and nowhere else.
    pub fn in_variables(lookup: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        Self { variables: Some(Box::new(lookup)), ..Self::default() }
    }
}

impl KeySource for Keys {
    fn keys(&self, service: &Service, name: &str) -> Vec<Key> {
        let mut out = Vec::new();
        if let Some(given) = &self.given {
            out.extend(Key::api(given.expose_secret(), KeyOrigin::Given));
        }
        if let Some(variables) = &self.variables {
            for variable in service.variables(name) {
                let found = variables(&variable);
                out.extend(found.and_then(|text| Key::api(&text, KeyOrigin::Variable(variable))));
            }
        }
        if let Some(file) = &self.stored {
            match file.get(name) {
                Ok(found) => out.extend(found),
                // Continue: another place may have a key.
                Err(error) => tracing::warn!("{error}"),
            }
        }
        out.extend(self.other.iter().flat_map(|other| other.keys(service, name)));
        out.extend(match service.login {
            Some(Login::ChatGpt) => self.codex.as_deref().and_then(others::codex),
            Some(Login::Claude) => self.claude.as_deref().and_then(others::claude),
            Some(Login::Copilot) | None => None,
        });
        out.extend(self.login.iter().flat_map(|login| login.keys(service, name)));
        out
    }
}

/// The state of one provider's key, without the key itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// The provider.
    pub provider: &'static str,
    /// Whether the provider needs a key.
    pub needs_key: bool,
    /// The key that would be used.
    pub key: Option<KeyStatus>,
    /// The environment variables that may hold one.
    pub variables: &'static [&'static str],
}

/// The facts about a key that may be shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyStatus {
    /// Where it was found.
    pub origin: KeyOrigin,
    /// The kind of key.
    pub kind: KeyKind,
    /// Its last four characters.
    pub ending: Option<String>,
    /// When it expires, as far as that is known.
    pub expiry: Expiry,
}

/// When a key expires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expiry {
    /// Never, or it is not known.
    Unknown,
    /// At this time.
    At(Timestamp),
    /// It has expired, at this time.
    Past(Timestamp),
}

impl Expiry {
    /// The time, if it is known.
    pub fn time(self) -> Option<Timestamp> {
        match self {
            Self::Unknown => None,
            Self::At(time) | Self::Past(time) => Some(time),
        }
    }

    /// Whether the key has expired.
    pub fn is_past(self) -> bool {
        matches!(self, Self::Past(_))
    }
}

/// The state of every provider's key.
pub fn status(keys: &dyn KeySource, now: Timestamp) -> Vec<Status> {
    let of = |service: &'static Service| Status {
        provider: service.name,
        needs_key: service.key_use == KeyUse::Needed,
        key: keys.find(service, service.name).map(|key| KeyStatus {
            ending: key.ending(),
            expiry: key.expires.map_or(Expiry::Unknown, |time| match key.has_expired(now) {
                true => Expiry::Past(time),
                false => Expiry::At(time),
            }),
            origin: key.origin,
            kind: key.kind,
        }),
        variables: service.key_variables,
    };
    registry::all().map(of).collect()
}

#[cfg(test)]
mod tests;
