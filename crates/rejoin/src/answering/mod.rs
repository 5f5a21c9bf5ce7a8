//! Chooses who answers: weighs flags, conversation, environment and settings, looks for a provider if none of them names one, and
//! connects. The result says where each part came from.
//!
//! The caller collects the sources in [`ProviderSources`]; nothing here reads the environment or a setting. `keys.rs` knows where
//! keys are kept, `addresses.rs` to which addresses they may follow a conversation.

pub mod addresses;
mod keys;

use std::sync::Arc;

use rejoin_engine::{
    ProviderChoice,
    auth::Keys,
    provider::{
        BoxFuture, Endpoint, Listener, Provider, ProviderError, Received, Request, ServiceAddress,
        UntrustedAddress,
        choose::{self, Reason},
        decide::{AnswerDecision, ChoiceSource, ChosenValue, Sources, TrustedAddress, canonical, decide},
        http::{HttpOptions, public},
        offline,
        registry::{self, account_elsewhere, connect},
    },
};
use rejoin_record::json::Object;

#[cfg(feature = "keyring")]
pub use self::keys::add_keyring;
pub use self::keys::{AuthMethod, CALLS_KEY, KeyPlaces, without_secrets};

/// Every source that may name who answers, and everything needed to connect.
#[derive(Debug)]
pub struct ProviderSources {
    /// The choice of each source.
    pub sources: Sources,
    /// The address of Ollama, if it differs from the default. Ollama is looked for if no source names a provider.
    pub ollama: Option<String>,
    /// The places in which keys are looked for.
    pub keys: Keys,
    /// How requests are sent.
    pub options: HttpOptions,
}

/// Why no provider answers.
#[derive(Debug, thiserror::Error)]
pub enum AnsweringError {
    /// Only the conversation names an address, and it is not trusted.
    #[error(transparent)]
    Untrusted(UntrustedAddress),
    /// No provider has this name, and no source names an address.
    #[error("no provider is called `{provider}` (from {from})")]
    Unknown {
        /// The name.
        provider: String,
        /// The source of the name, in words.
        from: String,
    },
    /// Connecting to the provider failed.
    #[error(transparent)]
    Provider(#[from] ProviderError),
}

/// The provider that answers, and where each part of the choice came from.
pub struct ConnectedProvider {
    /// The provider that answers.
    pub provider: Arc<dyn Provider>,
    /// How the provider was chosen; `None` if no choice was needed.
    pub outcome: Option<Outcome>,
    /// The address that the user named for this provider, if any. Later turns may send a key there when they follow the
    /// conversation.
    pub named: Option<TrustedAddress>,
}

impl std::fmt::Debug for ConnectedProvider {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConnectedProvider").field("outcome", &self.outcome).finish_non_exhaustive()
    }
}

impl ConnectedProvider {
    /// The provider of the last answer, by name only, for looking at a conversation without a key. It sends nothing.
    #[must_use]
    pub fn name_only(recorded: &ProviderChoice) -> Self {
        let name = |name: &Option<String>| name.clone().unwrap_or_else(|| String::from("none yet"));
        let (provider, model) = (name(&recorded.provider), name(&recorded.model));
        let unreachable = NameOnly(Endpoint { provider, model, ..Endpoint::default() });
        Self { provider: Arc::new(unreachable), outcome: None, named: None }
    }
}

impl ProviderSources {
    /// Chooses who answers, and connects.
    ///
    /// # Errors
    /// If no provider can be reached.
    pub async fn choose(&self) -> Result<ConnectedProvider, AnsweringError> {
        let (decision, wanted, reason) = self.decided().await?;
        let provider = connect(&wanted, decision.keys(&self.keys), &self.options)?;
        let name = wanted.provider.unwrap_or_default();
        // Do not trust the address if only the conversation names the provider: the provider's key would go there next time.
        let trusts = name != offline::NAME && !decision.withholds_key;
        let named = wanted.base_url.filter(|_| trusts).map(|base_url| TrustedAddress {
            provider: name.clone(),
            base_url,
            account: provider.endpoint().account.clone(),
        });
        let mut outcome = Outcome::new(&decision, &reason, provider.endpoint());
        if decision.withholds_key {
            outcome.besides.push(format!(
                "no key is sent: this address was never used for {name} with its current key (`--base-url` allows it)"
            ));
        }
        outcome.besides.extend(self.configured_otherwise(&decision));
        Ok(ConnectedProvider { provider, outcome: Some(outcome), named })
    }

    /// Who would answer, even if a key is missing, and the reason if that provider cannot answer.
    ///
    /// # Errors
    /// If no provider can be chosen.
    pub async fn outlook(&self) -> Result<(Outcome, Option<ProviderError>), AnsweringError> {
        let (decision, wanted, reason) = self.decided().await?;
        let (endpoint, trouble) = match connect(&wanted, decision.keys(&self.keys), &self.options) {
            Ok(provider) => (provider.endpoint().clone(), None),
            Err(error) => (unreached(&wanted), Some(error)),
        };
        Ok((Outcome::new(&decision, &reason, &endpoint), trouble))
    }

    /// Decides who answers. If no source names a provider, looks for one that can answer.
    async fn decided(&self) -> Result<(AnswerDecision, ProviderChoice, Reason), AnsweringError> {
        let decision = decide(&self.sources, &|provider| account_elsewhere(provider, &self.keys))
            .map_err(AnsweringError::Untrusted)?;
        let asked = decision.wanted();
        if let Some(named) = &decision.provider
            && asked.base_url.is_none()
            && !is_known(&named.value)
        {
            let from = match named.source {
                ChoiceSource::Conversation => String::from("this conversation"),
                _ => origin("provider", Some(named)),
            };
            return Err(AnsweringError::Unknown { provider: named.value.clone(), from });
        }
        if asked.provider.is_some() {
            return Ok((decision, asked, Reason::Configured));
        }
        let found = choose::choose(&asked, self.ollama.as_deref(), &self.keys, &self.options).await;
        Ok((decision, found.wanted, found.reason))
    }

    /// A message for users whose settings name a different provider than the one with which this conversation continues.
    fn configured_otherwise(&self, decision: &AnswerDecision) -> Option<String> {
        let chosen =
            decision.provider.as_ref().filter(|provider| provider.source == ChoiceSource::Conversation)?;
        let Sources { environment, settings, .. } = &self.sources;
        let set = canonical(environment.provider.as_ref().or(settings.provider.as_ref())?);
        (set != chosen.value).then(|| format!("`--provider {set}` switches to {set}, which is configured"))
    }
}

/// Whether a provider can be used by its name alone.
#[must_use]
pub fn is_known(name: &str) -> bool {
    name == offline::NAME || registry::find(name).is_some()
}

/// Who answers, in values and words, for a chat's first line and for `doctor --self`.
#[derive(Debug)]
pub struct Outcome {
    /// The provider's name.
    pub provider: OutcomePart,
    /// The model's name.
    pub model: OutcomePart,
    /// The address of requests; `None` for the built-in responder.
    pub address: Option<OutcomePart>,
    /// The sentence to show instead, if only the built-in responder was found.
    instead: Option<String>,
    /// Further messages for the user: that no key is sent, or why the configured provider does not answer.
    besides: Vec<String>,
}

/// A value, and its source.
#[derive(Debug)]
pub struct OutcomePart {
    /// The value.
    pub value: String,
    /// The source of the value, in words.
    pub from: String,
}

impl OutcomePart {
    /// As a JSON object.
    fn to_json(&self) -> Object {
        Object::new().text("value", &self.value).text("from", &self.from)
    }
}

impl Outcome {
    fn new(decision: &AnswerDecision, reason: &Reason, endpoint: &Endpoint) -> Self {
        let provider = match reason {
            Reason::Configured => origin("provider", decision.provider.as_ref()),
            Reason::Key { origin, .. } => format!("key in {origin}"),
            Reason::Local { .. } => String::from("Ollama answers on this machine"),
            Reason::Nothing => origin("provider", None),
        };
        let model = match reason {
            Reason::Local { .. } if decision.model.is_none() => String::from("its first"),
            _ => origin("model", decision.model.as_ref()),
        };
        let address = match reason {
            Reason::Local { .. } if endpoint.address.base_url.is_some() => String::from("OLLAMA_HOST"),
            _ => origin("base_url", decision.base_url.as_ref()),
        };
        let part = |value: &str, from| OutcomePart { value: value.to_owned(), from };
        let model_name = if endpoint.model.is_empty() { "none named" } else { &endpoint.model };
        Self {
            provider: part(&endpoint.provider, provider),
            model: part(model_name, model),
            address: endpoint.address.url.as_deref().map(|url| part(url, address)),
            instead: (*reason == Reason::Nothing).then(|| reason.to_string()),
            besides: Vec::new(),
        }
    }

    /// Whether the built-in responder answers only because no other provider was found.
    #[must_use]
    pub fn is_makeshift(&self) -> bool {
        self.instead.is_some()
    }

    /// The outcome in one line. `doing` comes before the provider's name, as in `continuing conv_… with`.
    #[must_use]
    pub fn in_words(&self, doing: &str) -> String {
        if let Some(sentence) = &self.instead {
            return sentence.clone();
        }
        let Self { provider, model, address, besides, .. } = self;
        let mut line = format!("{doing} {} ({})", provider.value, provider.from);
        if address.is_some() || model.value != offline::MODEL {
            line += &format!(", model {} ({})", model.value, model.from);
        }
        if let Some(address) = address {
            line += &format!(", at {} ({})", address.value, address.from);
        }
        for besides in besides {
            line += &format!("; {besides}");
        }
        line
    }

    /// Adds provider, model and address to an object, each with its origin.
    pub fn with_parts(&self, object: Object) -> Object {
        let address = self.address.as_ref().map(|address| address.to_json().finish());
        object
            .object("provider", self.provider.to_json())
            .object("model", self.model.to_json())
            .raw("address", address.as_deref().unwrap_or("null"))
    }
}

fn origin(key: &str, chosen: Option<&ChosenValue<String>>) -> String {
    match chosen.map_or(ChoiceSource::Default, |chosen| chosen.source) {
        ChoiceSource::Flag => format!("--{}", key.replace('_', "-")),
        ChoiceSource::Conversation => String::from("as before"),
        ChoiceSource::Environment => format!("REJOIN_{}", key.to_uppercase()),
        ChoiceSource::Settings => String::from("settings"),
        ChoiceSource::Default => String::from("default"),
    }
}

/// The known facts about a provider's endpoint if connecting to it failed.
fn unreached(wanted: &ProviderChoice) -> Endpoint {
    let provider = wanted.provider.clone().unwrap_or_default();
    let service = registry::find(&provider).unwrap_or(registry::custom());
    let url = wanted.base_url.as_deref().unwrap_or(service.base_url);
    Endpoint {
        provider,
        model: wanted.model.clone().unwrap_or_else(|| service.default_model.to_owned()),
        address: ServiceAddress {
            url: Some(public(url)).filter(|url| !url.is_empty()),
            base_url: wanted.base_url.as_deref().map(public),
        },
        ..Endpoint::default()
    }
}

/// A substitute for a provider when nothing is sent, so that a conversation can be looked at without a key.
struct NameOnly(Endpoint);

impl Provider for NameOnly {
    fn endpoint(&self) -> &Endpoint {
        &self.0
    }

    fn window(&self) -> Option<u64> {
        let Endpoint { provider, model, .. } = &self.0;
        offline::Offline::new(model).window().filter(|_| provider == offline::NAME)
    }

    fn send<'a>(&'a self, _: &'a Request, _: Listener<'a>) -> BoxFuture<'a, Result<Received, ProviderError>> {
        Box::pin(async { Err(ProviderError::Other(String::from("BUG: no provider was chosen to answer"))) })
    }
}
