//! Keys in the system's keyring (feature `keyring`): the keychain of macOS, Windows' credentials, the kernel's keys on Linux.

use secrecy::ExposeSecret as _;

use super::{Key, KeyOrigin, KeySource, SecretString, others};
use crate::provider::registry::{Login, Service};

/// The name under which keys are kept.
const NAME: &str = "rejoin";

/// The name under which Claude Code keeps its login on macOS, with the user's name as the account.
const CLAUDE_CODE: &str = "Claude Code-credentials";

/// The system's keyring.
#[derive(Debug, Clone, Copy, Default)]
pub struct Keyring;

/// Why a keyring did not do it. No secret is in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the system's keyring cannot be used: {0}")]
pub struct KeyringError(String);

fn entry(provider: &str) -> Result<keyring::Entry, KeyringError> {
    keyring::Entry::new(NAME, provider).map_err(|why| KeyringError(why.to_string()))
}

impl Keyring {
    /// Keeps a key.
    ///
    /// # Errors
    /// If there is no keyring, or it is locked.
    pub fn set(self, provider: &str, key: &SecretString) -> Result<(), KeyringError> {
        entry(provider)?.set_password(key.expose_secret()).map_err(|why| KeyringError(why.to_string()))
    }

    /// Forgets a key; false if there was none.
    ///
    /// # Errors
    /// If there is no keyring, or it is locked.
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
    /// The entry of a user, by their name on this system. With a `CLAUDE_CONFIG_DIR` of its own Claude Code uses another
    /// name, which is not looked for.
    #[must_use]
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
mod tests {
    use super::*;

    /// S3-02: the login that Claude Code keeps in the keyring is read where it is, for Claude only, and left as it was.
    #[test]
    fn the_login_of_claude_code_is_read_where_it_is() {
        let user = format!("test-{}", std::process::id());
        let entry = keyring::Entry::new(CLAUDE_CODE, &user).unwrap();
        let login = r#"{"claudeAiOauth":{"accessToken":"t-in-the-keyring","expiresAt":1700000000000}}"#;
        if let Err(why) = entry.set_password(login) {
            println!("not tested here: {why}");
            return;
        }
        let anthropic = crate::provider::registry::find("anthropic").unwrap();
        let keys = super::super::Keys::none().login(Box::new(ClaudeCode::of(&user)));
        let found = keys.keys(anthropic, "anthropic");
        assert_eq!(found.len(), 1);
        assert_eq!(
            (found[0].kind.clone(), found[0].secret.expose_secret()),
            (super::super::KeyKind::Claude, "t-in-the-keyring")
        );
        assert_eq!(found[0].expires.map(|at| at.as_second()), Some(1_700_000_000));
        assert!(found[0].origin.to_string().contains("keyring"), "{}", found[0].origin);
        for other in ["openai", "gemini"] {
            assert!(keys.keys(crate::provider::registry::find(other).unwrap(), other).is_empty(), "{other}");
        }
        assert_eq!(entry.get_password().unwrap(), login, "it is only read");
        for odd in ["", "{}", r#"{"claudeAiOauth":{"accessToken":""}}"#, "not json"] {
            entry.set_password(odd).unwrap_or_default();
            assert!(keys.keys(anthropic, "anthropic").is_empty(), "{odd}");
        }
        entry.delete_credential().unwrap();
        assert!(keys.keys(anthropic, "anthropic").is_empty());
    }

    #[test]
    fn a_key_is_kept_and_forgotten() {
        let provider = format!("test-{}", std::process::id());
        let key = SecretString::from(String::from("sk-in-the-keyring"));
        if let Err(why) = Keyring.set(&provider, &key) {
            println!("not tested here: {why}");
            return;
        }
        let service = crate::provider::registry::custom();
        let found = Keyring.keys(service, &provider);
        assert_eq!(found.len(), 1);
        assert!(!format!("{found:?}").contains("sk-in"));
        assert!(Keyring.remove(&provider).unwrap());
        assert!(!Keyring.remove(&provider).unwrap());
        assert!(Keyring.keys(service, &provider).is_empty());
    }
}
