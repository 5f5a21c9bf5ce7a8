//! Finds a provider if none is named: one with a key, else a model on this machine, else the offline responder.

use std::{fmt, sync::Arc};

use super::{
    Provider, ProviderError,
    connect::{account_elsewhere, connect, wire},
    decide::{Sources, decide},
    http::HttpOptions,
    offline, registry,
};
use crate::{
    auth::{KeyOrigin, KeySource},
    clock::{Clock as _, SystemClock},
    provider_choice::ProviderChoice,
};

/// The service that is looked for on this machine.
const LOCAL: &str = "ollama";

/// A provider that was chosen, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChosenProvider {
    /// The provider, and everything else that the caller asked for.
    pub wanted: ProviderChoice,
    /// Why it was chosen.
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
    /// A server answers on this machine.
    Local {
        /// The address.
        url: String,
        /// The first model in its list.
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
                "no key and no local model was found: using the offline responder, which is not a model; \
                 set a key (`rejoin auth status` says which) or start Ollama",
            ),
        }
    }
}

/// Chooses a provider if `asked` names none. `ollama` is the address of Ollama; `None` means its default.
pub async fn choose(
    asked: &ProviderChoice,
    ollama: Option<&str>,
    keys: &dyn KeySource,
    options: &HttpOptions,
) -> ChosenProvider {
    if asked.provider.as_deref().is_some_and(|provider| !provider.trim().is_empty()) {
        return ChosenProvider { wanted: asked.clone(), reason: Reason::Configured };
    }
    let with = |provider: &str| ProviderChoice { provider: Some(provider.to_owned()), ..asked.clone() };
    if asked.base_url.is_some() {
        // An address without a provider is taken for a service that speaks the most common API.
        return ChosenProvider { wanted: with(registry::custom().name), reason: Reason::Configured };
    }
    if let Some((provider, origin)) = keyed(keys) {
        let reason = Reason::Key { provider: provider.to_owned(), origin };
        return ChosenProvider { wanted: with(provider), reason };
    }
    let here = ProviderChoice { base_url: ollama.map(String::from), ..with(LOCAL) };
    match local(&here, keys, options).await {
        Some((url, model)) => {
            let model = asked.model.clone().unwrap_or(model);
            let wanted = ProviderChoice { model: Some(model.clone()), ..here };
            ChosenProvider { wanted, reason: Reason::Local { url, model } }
        }
        None => ChosenProvider { wanted: with(offline::NAME), reason: Reason::Nothing },
    }
}

/// Decides who answers in any conversation of a program, from the program's own sources and the conversation's record: the function
/// that [`ConversationManager::new`](crate::ConversationManager::new) takes. If no source names a provider, the first one with a
/// key answers.
pub fn connector<K: KeySource + Send + Sync>(
    sources: Sources,
    keys: K,
    options: HttpOptions,
) -> impl Fn(&ProviderChoice) -> Result<Arc<dyn Provider>, ProviderError> + Send + Sync {
    move |recorded| {
        let sources = Sources { conversation: recorded.clone(), ..sources.clone() };
        let decision = decide(&sources, &|provider| account_elsewhere(provider, &keys))?;
        let mut wanted = decision.wanted();
        if wanted.provider.is_none() {
            let (provider, _) = keyed(&keys).ok_or_else(|| {
                ProviderError::Other(String::from("no provider is named, and there is no key for any"))
            })?;
            wanted.provider = Some(provider.to_owned());
        }
        connect(&wanted, decision.keys(&keys), &options)
    }
}

/// The first service with a key. Keys in the environment come first. The login of another agent is used only if its provider is
/// named, because the login was not made for rejoin.
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
                KeyOrigin::Stored(_) | KeyOrigin::Keyring(_) => {
                    stored = stored.or(Some((service.name, key.origin)));
                }
                KeyOrigin::Given | KeyOrigin::OtherTool(_) => {}
            }
        }
    }
    stored
}

/// The address of a server that answers on this machine, and its first model.
async fn local(
    wanted: &ProviderChoice,
    keys: &dyn KeySource,
    options: &HttpOptions,
) -> Option<(String, String)> {
    let options = HttpOptions { retries: 0, connect_timeout: options.local_answer, ..options.clone() };
    let provider = wire(wanted, keys, &options).ok()?;
    let models = tokio::time::timeout(options.local_answer, provider.models()).await.ok()?.ok()?;
    let url = provider.endpoint().address.url.as_deref()?.trim_end_matches("/api/chat").to_owned();
    Some((url, models.into_iter().next()?.id))
}

#[cfg(test)]
mod tests;
