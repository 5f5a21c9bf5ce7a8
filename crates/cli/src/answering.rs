//! Who answers: gathers flags, environment, settings and what the conversation recorded, has `engine::provider::decide` weigh them,
//! and connects to the result. `addresses.rs` keeps the addresses that keys may follow a conversation to.

use std::{env, path::PathBuf, sync::Arc, time::Duration};

use rejoin::engine::{
    Wanted,
    auth::{KeyFile, Keys},
    provider::{
        Doing, Endpoint, Listener, Provider, ProviderError, Received, Request,
        choose::{self, OFFLINE, Reason},
        decide::{Decision, Preference, Source, Sourced, Sources, TrustedAddress, canonical, decide},
        http::{Addresses, HttpOptions, public},
        offline::{self, Offline},
        registry::{self, Connection, Effort, connect},
    },
};

use crate::{
    addresses,
    args::Talk,
    commands::{block_on, providers},
    desk::Desk,
    failure::Failure,
    home::{self, Home},
    output,
    settings::{Origin, Settings},
};

/// Stands in for a provider where nothing is sent, so that a conversation can be looked at without a key.
struct Nobody(Endpoint);

impl Provider for Nobody {
    fn endpoint(&self) -> &Endpoint {
        &self.0
    }

    fn send<'a>(&'a self, _: &'a Request, _: Listener<'a>) -> Doing<'a, Result<Received, ProviderError>> {
        Box::pin(async { Err(ProviderError::Other(String::from("BUG: nobody was chosen to answer"))) })
    }
}

/// Who answers, and where each part of that came from.
pub struct Answering {
    pub provider: Arc<dyn Provider>,
    /// None where nobody is asked.
    pub outcome: Option<Outcome>,
}

impl Answering {
    /// The provider that answered last, by name only.
    pub fn nobody(recorded: &Wanted) -> Self {
        let name = |name: &Option<String>| name.clone().unwrap_or_else(|| String::from("none yet"));
        let (provider, model) = (name(&recorded.provider), name(&recorded.model));
        Self {
            provider: Arc::new(Nobody(Endpoint { provider, model, ..Endpoint::default() })),
            outcome: None,
        }
    }
}

/// Who answers, in values and words: what a chat's first line and `doctor --self` show.
#[derive(Debug)]
pub struct Outcome {
    pub provider: Part,
    pub model: Part,
    /// Where requests go; none for the built-in responder.
    pub address: Option<Part>,
    /// The sentence to use instead if nothing was found but the built-in responder.
    instead: Option<String>,
    /// Why the provider that is configured does not answer.
    besides: Option<String>,
}

/// A value and where it came from, in words.
#[derive(Debug)]
pub struct Part {
    pub value: String,
    pub from: String,
}

impl Outcome {
    fn new(decision: &Decision, reason: &Reason, endpoint: &Endpoint) -> Self {
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
            Reason::Local { .. } if endpoint.base_url.is_some() => String::from("OLLAMA_HOST"),
            _ => origin("base_url", decision.base_url.as_ref()),
        };
        let part = |value: &str, from| Part { value: value.to_owned(), from };
        let model_name = if endpoint.model.is_empty() { "none named" } else { &endpoint.model };
        Self {
            provider: part(&endpoint.provider, provider),
            model: part(model_name, model),
            address: endpoint.url.as_deref().map(|url| part(url, address)),
            instead: (*reason == Reason::Nothing).then(|| reason.to_string()),
            besides: None,
        }
    }

    /// Tells the user on stderr. `doing` comes before the provider's name, as in `continuing conv_… with`.
    pub fn say(&self, doing: &str) {
        // It names providers and models, as a conversation or a server calls them.
        let line = output::harmless(&self.in_words(doing));
        output::talk(&format!("{} {line}", output::paint("note:", output::NOTE)));
    }

    /// In one line.
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
        if let Some(besides) = besides {
            line += &format!("; {besides}");
        }
        line
    }
}

/// The words for a source.
fn origin(key: &str, sourced: Option<&Sourced<String>>) -> String {
    match sourced.map_or(Source::Default, |sourced| sourced.source) {
        Source::Flag => format!("--{}", key.replace('_', "-")),
        Source::Conversation => String::from("as before"),
        Source::Environment => format!("REJOIN_{}", key.to_uppercase()),
        Source::Settings => String::from("settings"),
        Source::Default => String::from("default"),
    }
}

/// Chooses who answers, and connects.
pub fn choose(desk: &Desk, talk: &Talk, recorded: Option<&Wanted>) -> Result<Answering, Failure> {
    let (decision, choice, reason) = chosen(desk, talk, recorded)?;
    // The user named it, here or in the settings: the next turn may follow the conversation there. Not where the provider is only
    // the conversation's word: then its key would go there next time.
    let named = |_: &&str| choice.provider != OFFLINE && !choice.withholds_key;
    if let Some(url) = choice.base_url.as_deref().filter(named) {
        addresses::remember(&desk.home, &choice.provider, url);
    }
    let keys = keys(&desk.home, &desk.settings);
    let provider = connected(&choice, &keys, &options(&desk.settings))?;
    let mut outcome = Outcome::new(&decision, &reason, provider.endpoint());
    outcome.besides = configured_otherwise(&decision, &desk.settings);
    if choice.withholds_key {
        let name = &choice.provider;
        let withheld =
            format!("no key is sent: this address was never used for {name} (`--base-url` allows it)");
        outcome.besides = Some(match outcome.besides.take() {
            Some(besides) => format!("{withheld}; {besides}"),
            None => withheld,
        });
    }
    Ok(Answering { provider, outcome: Some(outcome) })
}

/// The same for a turn, which needs a model. It is better to say so before anything is recorded.
pub fn choose_for_turn(desk: &Desk, talk: &Talk, recorded: Option<&Wanted>) -> Result<Answering, Failure> {
    let answering = choose(desk, talk, recorded)?;
    let endpoint = answering.provider.endpoint();
    if endpoint.model.is_empty() {
        let provider = endpoint.provider.clone();
        return Err(Failure::Provider(Box::new(ProviderError::NoModel { provider })));
    }
    Ok(answering)
}

/// Who would answer, without connecting: also where a key is missing. `trouble` says what would keep it from answering.
pub fn outlook(desk: &Desk, recorded: Option<&Wanted>) -> Result<(Outcome, Option<Failure>), Failure> {
    let (decision, choice, reason) = chosen(desk, &Talk::default(), recorded)?;
    let keys = keys(&desk.home, &desk.settings);
    let (endpoint, trouble) = match connected(&choice, &keys, &options(&desk.settings)) {
        Ok(provider) => (provider.endpoint().clone(), None),
        Err(failure) => (own_endpoint(&choice), Some(failure)),
    };
    Ok((Outcome::new(&decision, &reason, &endpoint), trouble))
}

/// The names of a choice that cannot be connected to.
fn own_endpoint(choice: &Connection) -> Endpoint {
    let service = registry::find(&choice.provider).unwrap_or(registry::custom());
    let url = choice.base_url.as_deref().unwrap_or(service.base_url);
    Endpoint {
        provider: choice.provider.clone(),
        model: choice.model.clone().unwrap_or_else(|| service.default_model.to_owned()),
        url: Some(public(url)).filter(|url| !url.is_empty()),
        base_url: choice.base_url.as_deref().map(public),
        ..Endpoint::default()
    }
}

/// Decides who answers. If nothing names a provider, looks for one that can answer.
fn chosen(
    desk: &Desk,
    talk: &Talk,
    recorded: Option<&Wanted>,
) -> Result<(Decision, Connection, Reason), Failure> {
    let settings = &desk.settings;
    let decision = decide(&sources(desk, talk, recorded)).map_err(|untrusted| {
        let error = ProviderError::from(untrusted);
        Failure::Usage { what: output::harmless(&error.to_string()), hint: error.hint() }
    })?;
    let effort = match settings.value("effort") {
        Some("low") => Some(Effort::Low),
        Some("medium") => Some(Effort::Medium),
        Some("high") => Some(Effort::High),
        _ => None,
    };
    let max_tokens = settings.value("limits.answer_tokens").and_then(|value| value.parse().ok());
    let asked = Connection { effort, max_tokens, ..decision.choice() };
    if let Some(named) = &decision.provider
        && asked.base_url.is_none()
        && !providers::is_known(&named.value)
    {
        let from = match named.source {
            Source::Conversation => String::from("this conversation"),
            _ => origin("provider", Some(named)),
        };
        return Err(providers::unknown(&named.value, Some(&from)));
    }
    if !asked.provider.is_empty() {
        return Ok((decision, asked, Reason::Configured));
    }
    let (keys, options) = (keys(&desk.home, settings), options(settings));
    let found = block_on(choose::choose(&asked, ollama().as_deref(), &keys, &options))?;
    Ok((decision, found.choice, found.reason))
}

/// What every source says.
fn sources(desk: &Desk, talk: &Talk, recorded: Option<&Wanted>) -> Sources {
    let settings = &desk.settings;
    let layer = |from: Origin| {
        let value = |name: &str| settings.value_from(name, from).map(str::to_owned);
        Preference {
            provider: value("provider"),
            api: value("api"),
            model: value("model"),
            base_url: value("base_url"),
        }
    };
    let mut trusted = addresses::known(&desk.home);
    // Ollama's own variable names its address on this machine.
    trusted.extend(
        ollama().map(|url| TrustedAddress { provider: String::from("ollama"), base_url: public(&url) }),
    );
    Sources {
        flags: Preference {
            provider: talk.provider.clone(),
            api: talk.api.map(|api| api.name().to_owned()),
            model: talk.model.clone(),
            base_url: talk.base_url.clone(),
        },
        conversation: recorded.map(Preference::from).unwrap_or_default(),
        environment: layer(Origin::Environment),
        settings: layer(Origin::File),
        trusted,
    }
}

/// What to tell a user whose settings name another provider than the one this conversation goes on with.
fn configured_otherwise(decision: &Decision, settings: &Settings) -> Option<String> {
    let chosen = decision.provider.as_ref().filter(|provider| provider.source == Source::Conversation)?;
    let set = canonical(settings.value("provider")?);
    (set != chosen.value).then(|| format!("`--provider {set}` switches to {set}, which is configured"))
}

/// Where Ollama says that it is.
fn ollama() -> Option<String> {
    let host = env::var("OLLAMA_HOST").ok().filter(|host| !host.trim().is_empty())?;
    let host = host.trim();
    let url = if host.contains("://") { host.to_owned() } else { format!("http://{host}") };
    // A server that listens everywhere is reached here.
    Some(url.replacen("://0.0.0.0", "://127.0.0.1", 1))
}

/// The provider of a choice.
pub fn connected(
    choice: &Connection,
    keys: &Keys,
    options: &HttpOptions,
) -> Result<Arc<dyn Provider>, Failure> {
    if choice.provider == OFFLINE {
        return Ok(Arc::new(Offline::new(choice.model.as_deref().unwrap_or(offline::MODEL))));
    }
    connect(choice, keys, options).map_err(|error| match error {
        // Nothing was sent: it is what was asked for that makes no sense.
        ProviderError::Other(what) => Failure::Usage { what, hint: None },
        error => Failure::Provider(Box::new(error)),
    })
}

/// The folders of Codex and of Claude Code, which keep logins.
fn folders_of_others() -> (Option<PathBuf>, Option<PathBuf>) {
    let folder = |variable: &str, usual: &str| {
        let set = env::var_os(variable).filter(|folder| !folder.is_empty()).map(PathBuf::from);
        set.or_else(|| Some(env::home_dir()?.join(usual)))
    };
    (folder("CODEX_HOME", ".codex"), folder("CLAUDE_CONFIG_DIR", ".claude"))
}

/// The files that keys come from. No model is shown them: somebody may work in their home folder.
pub fn files_with_keys(home: &Home) -> Vec<PathBuf> {
    let (codex, claude) = folders_of_others();
    let others =
        [codex.map(|folder| folder.join("auth.json")), claude.map(|folder| folder.join(".credentials.json"))];
    let own = [key_file(home).path().to_owned(), home.data.join(home::CALLS_KEY)];
    others.into_iter().flatten().chain(own).collect()
}

/// Where keys are looked for.
pub fn keys(home: &Home, settings: &Settings) -> Keys {
    let (codex, claude) = folders_of_others();
    let method = settings.value("auth").unwrap_or("any");
    let mut keys = Keys::none();
    if matches!(method, "any" | "key") {
        keys = keys.variables(|name| env::var(name).ok()).stored(key_file(home));
        #[cfg(feature = "keyring")]
        if settings.is_on("keyring") {
            keys = keys.other(Box::new(rejoin::engine::auth::keyring::Keyring));
        }
    }
    if let Some(folder) = codex.filter(|_| matches!(method, "any" | "chatgpt")) {
        keys = keys.codex(folder);
    }
    if let Some(folder) = claude.filter(|_| matches!(method, "any" | "claude")) {
        keys = keys.claude(folder);
    }
    #[cfg(feature = "keyring")]
    if settings.is_on("keyring") && matches!(method, "any" | "claude") {
        let user = env::var("USER").or_else(|_| env::var("LOGNAME")).or_else(|_| env::var("USERNAME"));
        if let Ok(user) = user {
            keys = keys.login(Box::new(rejoin::engine::auth::keyring::ClaudeCode::of(user)));
        }
    }
    keys
}

/// The file with keys.
pub fn key_file(home: &Home) -> KeyFile {
    KeyFile::new(home.data.join("auth.json"))
}

/// How requests are sent.
pub fn options(settings: &Settings) -> HttpOptions {
    let number = |name: &str| settings.value(name).and_then(|value| value.parse::<u64>().ok());
    let usual = HttpOptions::default();
    let address = |name: &str, usual: String| settings.value(name).map_or(usual, str::to_owned);
    HttpOptions {
        retries: number("limits.retries").map_or(usual.retries, |n| u32::try_from(n).unwrap_or(u32::MAX)),
        read_timeout: number("limits.silence_seconds").map_or(usual.read_timeout, Duration::from_secs),
        addresses: Addresses {
            chatgpt: address("addresses.chatgpt", usual.addresses.chatgpt),
            claude: address("addresses.claude", usual.addresses.claude),
            github: address("addresses.github", usual.addresses.github),
            github_api: address("addresses.github_api", usual.addresses.github_api),
        },
        ..usual
    }
}
