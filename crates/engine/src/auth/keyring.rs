//! Keys in the system's keyring (feature `keyring`): the keychain of macOS, Windows' credentials, the kernel's keys on Linux.

use secrecy::ExposeSecret as _;

use super::{Key, KeySource, Origin, SecretString};
use crate::provider::registry::Service;

/// The name under which keys are kept.
const NAME: &str = "rejoin";

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
            .and_then(|text| Key::api(&text, Origin::Keyring(String::from("the system"))))
            .into_iter()
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
