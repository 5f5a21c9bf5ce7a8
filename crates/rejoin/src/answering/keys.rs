//! Where keys come from: variables, rejoin's own file, the system's keyring, and the logins of other agents. Also which files may
//! contain keys, so that no model sees them, and how a text loses the keys in it.

use std::path::PathBuf;

use rejoin_engine::{
    auth::{Key, KeyFile, KeySource as _, Keys, SecretString, redact},
    provider::registry,
};

#[cfg(feature = "files")]
use crate::places::{AgentPlace, Machine};

/// The file in the data folder with the key for the hashes of `history calls`.
pub const CALLS_KEY: &str = "calls.key";

/// How to authenticate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AuthMethod {
    /// In any of the following ways.
    #[default]
    Any,
    /// With a key of the provider.
    Key,
    /// With Codex's login to ChatGPT.
    ChatGpt,
    /// With Claude Code's login.
    Claude,
}

impl AuthMethod {
    /// The method with this name: `any`, `key`, `chatgpt` or `claude`.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "any" => Self::Any,
            "key" => Self::Key,
            "chatgpt" => Self::ChatGpt,
            "claude" => Self::Claude,
            _ => return None,
        })
    }
}

/// The places on this machine that contain keys.
#[derive(Debug, Clone)]
pub struct KeyPlaces {
    /// rejoin's data folder.
    pub data: PathBuf,
    /// The folder of Codex.
    pub codex: Option<PathBuf>,
    /// The folder of Claude Code.
    pub claude: Option<PathBuf>,
}

impl KeyPlaces {
    /// The places of a user, with rejoin's data folder.
    #[cfg(feature = "files")]
    #[must_use]
    pub fn of(data: impl Into<PathBuf>, machine: &Machine) -> Self {
        let folder = |format| AgentPlace::of(format)?.home(machine);
        Self { data: data.into(), codex: folder("codex"), claude: folder("claude-code") }
    }

    /// rejoin's own file of keys.
    #[must_use]
    pub fn own_file(&self) -> KeyFile {
        KeyFile::new(self.data.join("auth.json"))
    }

    /// The files that may contain keys. No model may see them, even if the user works in their home folder.
    #[must_use]
    pub fn files(&self) -> Vec<PathBuf> {
        let file = |folder: &Option<PathBuf>, name| Some(folder.as_deref()?.join(name));
        let others = [file(&self.codex, "auth.json"), file(&self.claude, ".credentials.json")];
        let own = [self.own_file().path().to_owned(), self.data.join(CALLS_KEY)];
        others.into_iter().flatten().chain(own).collect()
    }

    /// The keys in these places and in variables of the environment, as far as the method allows.
    pub fn keys(
        &self,
        method: AuthMethod,
        variable: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
    ) -> Keys {
        use AuthMethod::{Any, ChatGpt, Claude, Key};
        let mut keys = Keys::default();
        if matches!(method, Any | Key) {
            keys.variables = Some(Box::new(variable));
            keys.stored = Some(self.own_file());
        }
        keys.codex = self.codex.clone().filter(|_| matches!(method, Any | ChatGpt));
        keys.claude = self.claude.clone().filter(|_| matches!(method, Any | Claude));
        keys
    }
}

/// Adds the keys in the system's keyring, as far as the method allows. Claude Code keeps its login there under the user's name.
#[cfg(feature = "keyring")]
pub fn add_keyring(keys: &mut Keys, method: AuthMethod, user: Option<String>) {
    use rejoin_engine::auth::keyring::{ClaudeCode, Keyring};
    if matches!(method, AuthMethod::Any | AuthMethod::Key) {
        keys.other = Some(Box::new(Keyring));
    }
    if let (AuthMethod::Any | AuthMethod::Claude, Some(user)) = (method, user) {
        keys.login = Some(Box::new(ClaudeCode::of(user)));
    }
}

/// A text without the keys that rejoin would send, and without everything that looks like a key.
#[must_use]
pub fn without_secrets(keys: &Keys, text: &str) -> String {
    let known: Vec<Key> = registry::all().flat_map(|service| keys.keys(service, service.name)).collect();
    let secrets: Vec<&SecretString> = known.iter().map(|key| &key.secret).collect();
    redact::without_keys(&redact::redact(text, &secrets))
}
