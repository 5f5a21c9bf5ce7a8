//! Collects everything that may name who answers, for `rejoin::answering`: flags, environment, settings, and the conversation's
//! record.

use std::{env, time::Duration};

pub use rejoin::answering::{ConnectedProvider, Outcome};
use rejoin::{
    answering::{AnsweringError, AuthMethod, KeyPlaces, ProviderSources, addresses},
    engine::{
        AnswerSettings, Effort, ProviderChoice,
        auth::Keys,
        provider::{ProviderError, decide::Sources, http::HttpOptions},
    },
};

use crate::{
    args::Talk,
    commands::{block_on, providers},
    context::CliContext,
    failure::Failure,
    home::{self, Home},
    output,
    settings::{SettingOrigin, Settings},
};

/// Tells the user on stderr who answers. `doing` comes before the provider's name, as in `continuing conv_… with`.
pub fn say(outcome: &Outcome, doing: &str) {
    // The line contains names from a conversation or a server, so make it safe to print.
    let line = output::harmless(&outcome.in_words(doing));
    output::talk(&format!("{} {line}", output::paint("note:", output::NOTE)));
}

/// Runs blocking work on a separate runtime. This also works inside a runtime, as at the prompt.
pub fn off_the_runtime<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    if tokio::runtime::Handle::try_current().is_err() {
        return work();
    }
    std::thread::scope(|threads| {
        let done = threads.spawn(work).join();
        done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Chooses who answers, and connects.
pub fn choose(
    cli: &CliContext,
    talk: &Talk,
    recorded: Option<&ProviderChoice>,
) -> Result<ConnectedProvider, Failure> {
    let answering = off_the_runtime(|| block_on(asking(cli, talk, recorded).choose()))?.map_err(failure)?;
    if let Some(named) = &answering.named {
        addresses::remember(&cli.home.data, named);
    }
    Ok(answering)
}

/// Chooses who answers a turn. A turn needs a model, so a missing one is an error before anything is recorded.
pub fn choose_for_turn(
    cli: &CliContext,
    talk: &Talk,
    recorded: Option<&ProviderChoice>,
) -> Result<ConnectedProvider, Failure> {
    let answering = choose(cli, talk, recorded)?;
    let endpoint = answering.provider.endpoint();
    if endpoint.model.is_empty() {
        let provider = endpoint.provider.clone();
        return Err(Failure::Provider(Box::new(ProviderError::NoModel { provider })));
    }
    Ok(answering)
}

/// Who would answer, without connecting, and the reason if that provider cannot.
pub fn outlook(
    cli: &CliContext,
    recorded: Option<&ProviderChoice>,
) -> Result<(Outcome, Option<Failure>), Failure> {
    let asking = asking(cli, &Talk::default(), recorded);
    let (outcome, trouble) = block_on(asking.outlook())?.map_err(failure)?;
    Ok((outcome, trouble.map(|error| failure(error.into()))))
}

fn failure(error: AnsweringError) -> Failure {
    match error {
        AnsweringError::Untrusted(untrusted) => {
            let error = ProviderError::from(untrusted);
            Failure::Usage { what: output::harmless(&error.to_string()), hint: error.hint() }
        }
        AnsweringError::Unknown { provider, from } => providers::unknown(&provider, Some(&from)),
        // Nothing was sent: the request itself makes no sense.
        AnsweringError::Provider(ProviderError::Other(what)) => Failure::Usage { what, hint: None },
        AnsweringError::Provider(error) => Failure::Provider(Box::new(error)),
    }
}

fn asking(cli: &CliContext, talk: &Talk, recorded: Option<&ProviderChoice>) -> ProviderSources {
    let keys = keys(&cli.home, &cli.settings);
    let sources = sources(cli, talk, recorded, &keys);
    ProviderSources { sources, ollama: ollama(), keys, options: options(&cli.settings) }
}

/// Collects the choice of each source.
fn sources(cli: &CliContext, talk: &Talk, recorded: Option<&ProviderChoice>, keys: &Keys) -> Sources {
    let settings = &cli.settings;
    let layer = |from: SettingOrigin| {
        let value = |name: &str| settings.value_from(name, from).map(str::to_owned);
        ProviderChoice {
            provider: value("provider"),
            api: value("api"),
            model: value("model"),
            base_url: value("base_url"),
            ..ProviderChoice::default()
        }
    };
    let effort = match settings.value("effort") {
        Some("low") => Some(Effort::Low),
        Some("medium") => Some(Effort::Medium),
        Some("high") => Some(Effort::High),
        _ => None,
    };
    Sources {
        flags: ProviderChoice {
            provider: talk.provider.clone(),
            api: talk.api.clone(),
            model: talk.model.clone(),
            base_url: talk.base_url.clone(),
            ..ProviderChoice::default()
        },
        conversation: recorded.cloned().unwrap_or_default(),
        environment: layer(SettingOrigin::Environment),
        settings: ProviderChoice {
            answer: AnswerSettings { max_tokens: settings.number("limits.answer_tokens"), effort },
            ..layer(SettingOrigin::File)
        },
        trusted: addresses::trusted(&cli.home.data, ollama().as_deref(), keys),
    }
}

/// The address in Ollama's own variable.
fn ollama() -> Option<String> {
    addresses::of_ollama(&env::var("OLLAMA_HOST").ok()?)
}

/// The places on this machine that contain keys.
pub fn key_places(home: &Home) -> KeyPlaces {
    KeyPlaces::of(&home.data, &home::machine())
}

pub fn keys(home: &Home, settings: &Settings) -> Keys {
    let method = settings.value("auth").and_then(AuthMethod::named).unwrap_or_default();
    #[cfg_attr(not(feature = "keyring"), expect(unused_mut, reason = "only the keyring adds to them"))]
    let mut keys = key_places(home).keys(method, |name| env::var(name).ok());
    #[cfg(feature = "keyring")]
    if settings.is_on("keyring") {
        let user = env::var("USER").or_else(|_| env::var("LOGNAME")).or_else(|_| env::var("USERNAME"));
        rejoin::answering::add_keyring(&mut keys, method, user.ok());
    }
    keys
}

/// A text without the keys that rejoin would send, and without everything that looks like a key.
pub fn without_secrets(cli: &CliContext, text: &str) -> String {
    rejoin::answering::without_secrets(&keys(&cli.home, &cli.settings), text)
}

pub fn options(settings: &Settings) -> HttpOptions {
    let mut options = HttpOptions::default();
    let addresses = &mut options.addresses;
    for (name, address) in [
        ("addresses.chatgpt", &mut addresses.chatgpt),
        ("addresses.claude", &mut addresses.claude),
        ("addresses.github", &mut addresses.github),
        ("addresses.github_api", &mut addresses.github_api),
    ] {
        if let Some(given) = settings.value(name) {
            *address = given.to_owned();
        }
    }
    if let Some(retries) = settings.number("limits.retries") {
        options.retries = u32::try_from(retries).unwrap_or(u32::MAX);
    }
    if let Some(seconds) = settings.number("limits.silence_seconds") {
        options.read_timeout = Duration::from_secs(seconds);
    }
    options
}
