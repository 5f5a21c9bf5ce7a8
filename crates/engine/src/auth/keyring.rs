//! Keys in the system's keyring (feature `keyring`): the keychain of macOS, the Windows Credential Manager, the kernel keyring on
//! Linux.

use secrecy::ExposeSecret as _;

use super::{Key, KeyOrigin, KeySource, SecretString, others};
use crate::provider::registry::{Login, Service};

/// The name under which rejoin keeps keys.
const NAME: &str = "rejoin";

/// The name under which Claude Code keeps its login on macOS, with the user's name as the account.
const CLAUDE_CODE: &str = "Claude Code-credentials";

/// The system's keyring.
#[derive(Debug, Clone, Copy, Default)]
pub struct Keyring;

/// Why the keyring failed. It contains no secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the system's keyring cannot be used: {0}")]
pub struct KeyringError(String);

fn entry(provider: &str) -> Result<keyring::Entry, KeyringError> {
    keyring::Entry::new(NAME, provider).map_err(|why| KeyringError(why.to_string()))
}

impl Keyring {
    /// Stores a provider's key.
    pub fn set(self, provider: &str, key: &SecretString) -> Result<(), KeyringError> {
        entry(provider)?.set_password(key.expose_secret()).map_err(|why| KeyringError(why.to_string()))
    }

    /// Removes a provider's key. False if there was none.
    pub fn remove(self, provider: &str) -> Result<bool, KeyringError> {
        match entry(provider)?.delete_credential() {
            Ok(()) => Ok(true),
            Err(keyring::Error::NoEntry) => Ok(false),
            Err(why) => Err(KeyringError(why.to_string())),
        }
    }
}

impl KeySource for Keyring {
    fn keys(&self, _: &Service, name: &str) -> Vec<Key> {
        let found = entry(name).ok().and_then(|entry| entry.get_password().ok());
        found
            .and_then(|text| Key::api(&text, KeyOrigin::Keyring(String::from("the system"))))
            .into_iter()
            .collect()
    }
}

/// Claude Code's own entry in the keyring, which holds a Claude login. It is only read.
#[derive(Debug, Clone)]
pub struct ClaudeCode {
    user: String,
}

impl ClaudeCode {
    /// The entry of a user, by their name on this system. With a custom `CLAUDE_CONFIG_DIR` Claude Code uses another name, which is
    /// not looked for.
    pub fn of(user: impl Into<String>) -> Self {
        Self { user: user.into() }
    }
}

impl KeySource for ClaudeCode {
    fn keys(&self, service: &Service, _: &str) -> Vec<Key> {
        if service.login != Some(Login::Claude) {
            return Vec::new();
        }
        let entry = keyring::Entry::new(CLAUDE_CODE, &self.user).ok();
        let text = entry.and_then(|entry| entry.get_password().ok());
        let origin = KeyOrigin::Keyring(format!("the system's keyring, {CLAUDE_CODE}"));
        text.and_then(|text| others::claude_login(&text, origin)).into_iter().collect()
    }
}

#[cfg(test)]
mod tests;
