//! What may say who answers: flags, environment, settings and what the conversation recorded, gathered for `rejoin::answering`.
//! `addresses.rs` keeps the addresses that keys may follow a conversation to.

use std::{env, path::PathBuf, time::Duration};

pub use rejoin::answering::{ConnectedProvider, Outcome};
use rejoin::{
    answering::{AnsweringError, ProviderSources},
    engine::{
        AnswerSettings, Effort, ProviderChoice,
        auth::{Key, KeyFile, KeySource as _, Keys, SecretString, redact},
        provider::{
            ProviderError,
            decide::{Sources, TrustedAddress},
            http::{Addresses, HttpOptions, public},
            registry::{self, account_elsewhere},
        },
    },
    places::AgentPlace,
};

use crate::{
    addresses,
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
    // It names providers and models, as a conversation or a server calls them.
    let line = output::harmless(&outcome.in_words(doing));
    output::talk(&format!("{} {line}", output::paint("note:", output::NOTE)));
}

/// Runs blocking work on a separate runtime. It also works inside of one, as at the prompt.
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
    desk: &CliContext,
    talk: &Talk,
    recorded: Option<&ProviderChoice>,
) -> Result<ConnectedProvider, Failure> {
    let answering = off_the_runtime(|| block_on(asking(desk, talk, recorded).choose()))?.map_err(failure)?;
    if let Some(named) = &answering.named {
        addresses::remember(&desk.home, named);
    }
    Ok(answering)
}

/// The same for a turn, which needs a model; a missing one is an error before anything is recorded.
pub fn choose_for_turn(
    desk: &CliContext,
    talk: &Talk,
    recorded: Option<&ProviderChoice>,
) -> Result<ConnectedProvider, Failure> {
    let answering = choose(desk, talk, recorded)?;
    let endpoint = answering.provider.endpoint();
    if endpoint.model.is_empty() {
        let provider = endpoint.provider.clone();
        return Err(Failure::Provider(Box::new(ProviderError::NoModel { provider })));
    }
    Ok(answering)
}

/// Who would answer, without connecting, and what would keep it from answering.
pub fn outlook(
    desk: &CliContext,
    recorded: Option<&ProviderChoice>,
) -> Result<(Outcome, Option<Failure>), Failure> {
    let asking = asking(desk, &Talk::default(), recorded);
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
        // Nothing was sent: it is what was asked for that makes no sense.
        AnsweringError::Provider(ProviderError::Other(what)) => Failure::Usage { what, hint: None },
        AnsweringError::Provider(error) => Failure::Provider(Box::new(error)),
    }
}

fn asking(desk: &CliContext, talk: &Talk, recorded: Option<&ProviderChoice>) -> ProviderSources {
    let keys = keys(&desk.home, &desk.settings);
    let sources = sources(desk, talk, recorded, &keys);
    ProviderSources { sources, ollama: ollama(), keys, options: options(&desk.settings) }
}

/// Gathers what each source names.
fn sources(desk: &CliContext, talk: &Talk, recorded: Option<&ProviderChoice>, keys: &Keys) -> Sources {
    let settings = &desk.settings;
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
    let mut trusted = addresses::known(&desk.home);
    // Ollama's own variable names its address on this machine.
    trusted.extend(ollama().map(|url| TrustedAddress {
        provider: String::from("ollama"),
        base_url: public(&url),
        account: account_elsewhere("ollama", keys),
    }));
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
        trusted,
    }
}

/// The address in Ollama's own variable.
fn ollama() -> Option<String> {
    let host = env::var("OLLAMA_HOST").ok().filter(|host| !host.trim().is_empty())?;
    let host = host.trim();
    let url = if host.contains("://") { host.to_owned() } else { format!("http://{host}") };
    // A server that listens everywhere is reached here.
    Some(url.replacen("://0.0.0.0", "://127.0.0.1", 1))
}

/// The folders of Codex and of Claude Code, which keep logins.
fn folders_of_others() -> [Option<PathBuf>; 2] {
    let machine = home::machine();
    ["codex", "claude-code"].map(|format| AgentPlace::of(format)?.home(&machine))
}

/// The files that keys come from. No model is shown them: someone may work in their home folder.
pub fn files_with_keys(home: &Home) -> Vec<PathBuf> {
    let [codex, claude] = folders_of_others();
    let others =
        [codex.map(|folder| folder.join("auth.json")), claude.map(|folder| folder.join(".credentials.json"))];
    let own = [key_file(home).path().to_owned(), home.data.join(home::CALLS_KEY)];
    others.into_iter().flatten().chain(own).collect()
}

pub fn keys(home: &Home, settings: &Settings) -> Keys {
    let [codex, claude] = folders_of_others();
    let method = settings.value("auth").unwrap_or("any");
    let mut keys = Keys::default();
    if matches!(method, "any" | "key") {
        keys.variables = Some(Box::new(|name| env::var(name).ok()));
        keys.stored = Some(key_file(home));
        #[cfg(feature = "keyring")]
        if settings.is_on("keyring") {
            keys.other = Some(Box::new(rejoin::engine::auth::keyring::Keyring));
        }
    }
    keys.codex = codex.filter(|_| matches!(method, "any" | "chatgpt"));
    keys.claude = claude.filter(|_| matches!(method, "any" | "claude"));
    #[cfg(feature = "keyring")]
    if settings.is_on("keyring") && matches!(method, "any" | "claude") {
        let user = env::var("USER").or_else(|_| env::var("LOGNAME")).or_else(|_| env::var("USERNAME"));
        use rejoin::engine::auth::{KeySource, keyring::ClaudeCode};
        keys.login = user.ok().map(|user| Box::new(ClaudeCode::of(user)) as Box<dyn KeySource>);
    }
    keys
}

/// A text without the keys that rejoin would send, and without whatever looks like a key.
pub fn without_secrets(desk: &CliContext, text: &str) -> String {
    let keys = keys(&desk.home, &desk.settings);
    let known: Vec<Key> = registry::all().flat_map(|service| keys.keys(service, service.name)).collect();
    let secrets: Vec<&SecretString> = known.iter().map(|key| &key.secret).collect();
    redact::without_keys(&redact::redact(text, &secrets))
}

pub fn key_file(home: &Home) -> KeyFile {
    KeyFile::new(home.data.join("auth.json"))
}

pub fn options(settings: &Settings) -> HttpOptions {
    let usual = HttpOptions::default();
    let address = |name: &str, usual: String| settings.value(name).map_or(usual, str::to_owned);
    HttpOptions {
        retries: settings
            .number("limits.retries")
            .map_or(usual.retries, |n| u32::try_from(n).unwrap_or(u32::MAX)),
        read_timeout: settings
            .number("limits.silence_seconds")
            .map_or(usual.read_timeout, Duration::from_secs),
        addresses: Addresses {
            chatgpt: address("addresses.chatgpt", usual.addresses.chatgpt),
            claude: address("addresses.claude", usual.addresses.claude),
            github: address("addresses.github", usual.addresses.github),
            github_api: address("addresses.github_api", usual.addresses.github_api),
        },
        ..usual
    }
}
