//! Decides who answers. Only here are flags, the conversation, the environment and the settings weighed against each other.
//!
//! [`decide`] is pure: callers collect the [`Sources`]. If no source names a provider, `choose.rs` finds one; `connect.rs`
//! connects.

use super::{
    UntrustedAddress,
    http::public,
    offline,
    registry::{self, Service},
};
use crate::{
    auth::{Key, KeySource},
    provider_choice::{AnswerSettings, ProviderChoice},
};

/// Where a value came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChoiceSource {
    /// A flag of this command, or an argument of this call.
    Flag,
    /// An earlier turn of the conversation.
    Conversation,
    /// An environment variable.
    Environment,
    /// The settings file.
    Settings,
    /// No source names a value, so the provider's or the program's default is used.
    Default,
}

/// A value and the source it came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChosenValue<T> {
    /// The value.
    pub value: T,
    /// The source.
    pub source: ChoiceSource,
}

impl ProviderChoice {
    /// A copy with names in the registry's spelling and blank values removed.
    fn tidied(&self) -> Self {
        let given = |text: &Option<String>| {
            text.as_deref().map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned)
        };
        Self {
            provider: given(&self.provider).map(|name| canonical(&name)),
            api: given(&self.api).map(|api| api.to_lowercase()),
            model: given(&self.model),
            base_url: given(&self.base_url),
            ..self.clone()
        }
    }

    /// Whether this source's values apply to a provider: it names that provider, or none.
    fn fits(&self, provider: &str) -> bool {
        self.provider.as_deref().is_none_or(|own| own == provider)
    }
}

/// An address that the user has named on this machine, with its provider and the key that was sent there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustedAddress {
    /// The provider.
    pub provider: String,
    /// The address, as [`public`] writes it.
    pub base_url: String,
    /// The hash of the key, from [`Key::account`](crate::auth::Key::account); `None` if the address was used without a key.
    pub account: Option<String>,
}

/// Every source that may say who answers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sources {
    /// Flags of this command.
    pub flags: ProviderChoice,
    /// The choice that the conversation recorded in its last answered turn; empty if it has no turn.
    pub conversation: ProviderChoice,
    /// Environment variables.
    pub environment: ProviderChoice,
    /// The settings file.
    pub settings: ProviderChoice,
    /// Addresses to which a key may go although only the conversation names them.
    pub trusted: Vec<TrustedAddress>,
}

/// The decision who answers, with the source of each part.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AnswerDecision {
    /// The provider in the registry's spelling; `None` if no source names one.
    pub provider: Option<ChosenValue<String>>,
    /// The API; `None` leaves it to the provider and the address.
    pub api: Option<ChosenValue<String>>,
    /// The model; `None` is the provider's default.
    pub model: Option<ChosenValue<String>>,
    /// The base address; `None` is the provider's own.
    pub base_url: Option<ChosenValue<String>>,
    /// Settings for the provider's answers.
    pub answer: AnswerSettings,
    /// Whether the provider's key must not be sent: the conversation names the provider, the environment or the settings name the
    /// address for another provider or for none, and the user never used this address with this provider.
    pub withholds_key: bool,
}

impl AnswerDecision {
    /// The decision without the sources of its parts.
    pub fn wanted(&self) -> ProviderChoice {
        let value = |chosen: &Option<ChosenValue<String>>| chosen.as_ref().map(|chosen| chosen.value.clone());
        ProviderChoice {
            provider: value(&self.provider),
            api: value(&self.api),
            model: value(&self.model),
            base_url: value(&self.base_url),
            answer: self.answer,
        }
    }

    /// The keys to connect with: none if the key must not be sent.
    pub fn keys<'k>(&self, keys: &'k dyn KeySource) -> &'k dyn KeySource {
        if self.withholds_key { &NoKeys } else { keys }
    }
}

struct NoKeys;

impl KeySource for NoKeys {
    fn keys(&self, _: &Service, _: &str) -> Vec<Key> {
        Vec::new()
    }
}

/// Decides who answers.
///
/// * Provider: flag, conversation, environment, settings.
/// * Model: the same order. A model that a source names together with another provider is skipped.
/// * Address: flag, environment, settings (unless they name another provider), conversation (only for the same provider, and only
///   if trusted). An address in the environment applies to any provider, as the flag does: text meant for a local server must not
///   go elsewhere.
/// * Key: goes to that address if the user named both: by flags, in the environment or the settings, or earlier on this machine. A
///   conversation alone must not choose whose key an address gets.
/// * API: flag, conversation (same provider at the same address), environment, settings. Otherwise the address decides: at an
///   address other than its own, `openai` means Chat Completions.
///
/// `account` returns the hash of the key that a provider's requests would carry to an address other than its own. It is called only
/// if a conversation names the provider together with such an address.
///
/// # Errors
/// If only the conversation names an address, and it is not trusted for the provider and its current key.
pub fn decide(
    sources: &Sources,
    account: &dyn Fn(&str) -> Option<String>,
) -> Result<AnswerDecision, UntrustedAddress> {
    let flags = &sources.flags.tidied();
    let recorded = &sources.conversation.tidied();
    let environment = &sources.environment.tidied();
    let settings = &sources.settings.tidied();

    // The built-in responder has no address, so an address on the command line is meant for another provider.
    let elsewhere = flags.base_url.is_some() && recorded.provider.as_deref() == Some(offline::NAME);
    let provider = first([
        (&flags.provider, ChoiceSource::Flag),
        (only(!elsewhere, &recorded.provider), ChoiceSource::Conversation),
        (&environment.provider, ChoiceSource::Environment),
        (&settings.provider, ChoiceSource::Settings),
    ]);
    let name = provider.as_ref().map_or("", |provider| provider.value.as_str());

    let base_url = first([
        (&flags.base_url, ChoiceSource::Flag),
        (&environment.base_url, ChoiceSource::Environment),
        (only(settings.fits(name), &settings.base_url), ChoiceSource::Settings),
    ]);
    let base_url = match (base_url, &recorded.base_url) {
        (None, Some(url)) if recorded.provider.as_deref() == Some(name) => {
            match trust(name, url, &sources.trusted, account) {
                Trust::Full => {}
                known => {
                    return Err(UntrustedAddress {
                        provider: name.to_owned(),
                        base_url: url.clone(),
                        used_with_another_key: known == Trust::OtherKey,
                    });
                }
            }
            // Use the form that was compared: the recorded address has neither a password nor a query.
            Some(ChosenValue { value: public(url), source: ChoiceSource::Conversation })
        }
        (base_url, _) => base_url,
    };
    let from_conversation =
        provider.as_ref().is_some_and(|chosen| chosen.source == ChoiceSource::Conversation);
    let withholds_key = from_conversation
        && base_url.as_ref().is_some_and(|url| {
            let named_for = match url.source {
                // If the address's source does not name a provider, the other source's provider is the one it belongs to.
                ChoiceSource::Environment => environment.provider.as_ref().or(settings.provider.as_ref()),
                ChoiceSource::Settings => settings.provider.as_ref().or(environment.provider.as_ref()),
                ChoiceSource::Flag | ChoiceSource::Conversation | ChoiceSource::Default => return false,
            };
            named_for.map(String::as_str) != Some(name)
                && trust(name, &url.value, &sources.trusted, account) != Trust::Full
        });
    // An address without a provider is taken for a service that speaks the most common API.
    let provider = provider.or_else(|| {
        base_url
            .as_ref()
            .map(|_| ChosenValue { value: registry::custom().name.to_owned(), source: ChoiceSource::Default })
    });
    let name = provider.as_ref().map_or("", |provider| provider.value.as_str());

    let model = first([
        (&flags.model, ChoiceSource::Flag),
        (only(recorded.fits(name), &recorded.model), ChoiceSource::Conversation),
        (only(environment.fits(name), &environment.model), ChoiceSource::Environment),
        (only(settings.fits(name), &settings.model), ChoiceSource::Settings),
    ]);
    let same_place = recorded.provider.as_deref() == Some(name)
        && spelled(recorded.base_url.as_deref()) == spelled(base_url.as_ref().map(|url| url.value.as_str()));
    let offers = |source: &ProviderChoice| {
        // An API that is set without a provider is used only with providers that offer it.
        let service = registry::find(name).filter(|_| source.provider.is_none());
        source.fits(name) && service.is_none_or(|service| service.api(source.api.as_deref()).is_some())
    };
    let api = first([
        (&flags.api, ChoiceSource::Flag),
        (only(same_place, &recorded.api), ChoiceSource::Conversation),
        (only(offers(environment), &environment.api), ChoiceSource::Environment),
        (only(offers(settings), &settings.api), ChoiceSource::Settings),
    ]);
    let answer = flags.answer.or(environment.answer).or(settings.answer);
    Ok(AnswerDecision { provider, api, model, base_url, answer, withholds_key })
}

/// The first of these values that is set.
fn first<const N: usize>(candidates: [(&Option<String>, ChoiceSource); N]) -> Option<ChosenValue<String>> {
    candidates
        .into_iter()
        .find_map(|(value, source)| value.clone().map(|value| ChosenValue { value, source }))
}

fn only(holds: bool, value: &Option<String>) -> &Option<String> {
    if holds { value } else { &None }
}

/// A provider's name in the registry's spelling; an unknown name in lower case.
pub fn canonical(name: &str) -> String {
    registry::find(name).map_or_else(|| name.trim().to_lowercase(), |service| service.name.to_owned())
}

/// How far an address that only a conversation names is trusted with a provider's key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trust {
    /// The key may be sent there, or there is no key.
    Full,
    /// The user named the address for this provider, but the key has changed since: the address may belong to a server that got a
    /// dummy key.
    OtherKey,
    /// The user never named the address for this provider.
    None,
}

fn trust(
    provider: &str,
    url: &str,
    trusted: &[TrustedAddress],
    account: &dyn Fn(&str) -> Option<String>,
) -> Trust {
    if registry::find(provider).is_some_and(|service| spelled(Some(service.base_url)) == spelled(Some(url))) {
        return Trust::Full;
    }
    let named = |known: &&TrustedAddress| {
        canonical(&known.provider) == provider && spelled(Some(&known.base_url)) == spelled(Some(url))
    };
    let mut known = trusted.iter().filter(named).peekable();
    if known.peek().is_none() {
        return Trust::None;
    }
    match account(provider) {
        None => Trust::Full,
        key if known.any(|known| known.account == key) => Trust::Full,
        Some(_) => Trust::OtherKey,
    }
}

/// An address in its recorded form, for comparing.
fn spelled(url: Option<&str>) -> Option<String> {
    url.map(|url| public(url.trim()).trim_end_matches('/').to_owned()).filter(|url| !url.is_empty())
}

#[cfg(test)]
mod tests;
