//! The provider when none is named: one with a key, a model on this machine, or the offline responder.

use std::{fmt, sync::Arc};

use super::{
    Provider, ProviderError,
    connect::{Connection, account_elsewhere, connect, wire},
    decide::{Preference, Sources, decide},
    http::HttpOptions,
    offline::{self, Offline},
    registry,
};
use crate::{
    auth::{KeyOrigin, KeySource},
    clock::{Clock as _, SystemClock},
    wanted::Wanted,
};

/// The provider that needs neither a key nor a network.
pub const OFFLINE: &str = "offline";

/// The provider that runs on this machine.
const LOCAL: &str = "ollama";

/// A choice, and why it is this one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen {
    /// The choice.
    pub choice: Connection,
    /// Why.
    pub reason: Reason,
}

/// Why a provider was chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// A flag, the environment or the settings named it.
    Configured,
    /// There is a key for it.
    Key {
        /// The provider.
        provider: String,
        /// Where the key was found.
        origin: KeyOrigin,
    },
    /// It answers on this machine.
    Local {
        /// Where.
        url: String,
        /// The model: the first of its list.
        model: String,
    },
    /// There is no key, and nothing answers on this machine.
    Nothing,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Configured => f.write_str("as configured"),
            Self::Key { provider, origin } => write!(f, "using {provider}: there is a key in {origin}"),
            Self::Local { url, model } => write!(f, "using {model} of Ollama, which answers at {url}"),
            Self::Nothing => f.write_str(
                "no key and no local model was found: using the offline responder, which is no model; \
                 set a key (`rejoin auth status` says which) or start Ollama",
            ),
        }
    }
}

/// Chooses. What `asked` says stands; an empty provider means that none was named. `ollama` says where Ollama may be, if not
/// at its usual place.
pub async fn choose(
    asked: &Connection,
    ollama: Option<&str>,
    keys: &dyn KeySource,
    options: &HttpOptions,
) -> Chosen {
    if !asked.provider.trim().is_empty() {
        return Chosen { choice: asked.clone(), reason: Reason::Configured };
    }
    if asked.base_url.is_some() {
        // An address without a name is taken for a service that speaks the most common API.
        let choice = Connection { provider: String::from("custom"), ..asked.clone() };
        return Chosen { choice, reason: Reason::Configured };
    }
    let with = |provider: &str| Connection { provider: provider.to_owned(), ..asked.clone() };
    if let Some((provider, origin)) = keyed(keys) {
        return Chosen {
            choice: with(provider),
            reason: Reason::Key { provider: provider.to_owned(), origin },
        };
    }
    let here = Connection { base_url: ollama.map(String::from), ..with(LOCAL) };
    match local(&here, keys, options).await {
        Some((url, model)) => {
            let model = asked.model.clone().unwrap_or(model);
            let choice = Connection { model: Some(model.clone()), ..here };
            Chosen { choice, reason: Reason::Local { url, model } }
        }
        None => Chosen { choice: with(OFFLINE), reason: Reason::Nothing },
    }
}

/// Finds who answers in any conversation of a program, from the program's own sources and what the conversation recorded: the
/// function that [`ConversationManager::new`](crate::ConversationManager::new) takes. Where no source names a provider, the first
/// one with a key answers.
pub fn connector<K: KeySource + Send + Sync>(
    sources: Sources,
    keys: K,
    options: HttpOptions,
) -> impl Fn(&Wanted) -> Result<Arc<dyn Provider>, ProviderError> + Send + Sync {
    move |recorded| {
        let sources = Sources { conversation: Preference::from(recorded), ..sources.clone() };
        let mut choice = decide(&sources, &|provider| account_elsewhere(provider, &keys))?.choice();
        if choice.provider.is_empty() {
            let (provider, _) = keyed(&keys).ok_or_else(|| {
                ProviderError::Other(String::from("no provider is named, and there is no key for any"))
            })?;
            choice.provider = provider.to_owned();
        }
        if choice.provider == OFFLINE {
            return Ok(Arc::new(Offline::new(choice.model.as_deref().unwrap_or(offline::MODEL))));
        }
        connect(&choice, &keys, &options)
    }
}

/// The first service with a key: in the environment before anywhere else. A login of another tool is used only by whoever
/// asks for it: it was not made for rejoin.
fn keyed(keys: &dyn KeySource) -> Option<(&'static str, KeyOrigin)> {
    let now = SystemClock.now();
    let mut stored = None;
    for service in registry::all() {
        for key in keys.keys(service, service.name) {
            if key.has_expired(now) {
                continue;
            }
            match key.origin {
                KeyOrigin::Variable(_) => return Some((service.name, key.origin)),
                KeyOrigin::Stored(_) | KeyOrigin::Setting(_) | KeyOrigin::Keyring(_) => {
                    stored = stored.or(Some((service.name, key.origin)));
                }
                KeyOrigin::Given | KeyOrigin::OtherTool(_) => {}
            }
        }
    }
    stored
}

/// Where a server on this machine answers, and the first of its models.
async fn local(choice: &Connection, keys: &dyn KeySource, options: &HttpOptions) -> Option<(String, String)> {
    let options = HttpOptions { retries: 0, connect_timeout: options.local_answer, ..options.clone() };
    let provider = wire(choice, keys, &options).ok()?;
    let models = tokio::time::timeout(options.local_answer, provider.models()).await.ok()?.ok()?;
    let url = provider.endpoint().url.as_deref()?.trim_end_matches("/api/chat").to_owned();
    Some((url, models.into_iter().next()?.id))
}

#[cfg(test)]
mod tests;
