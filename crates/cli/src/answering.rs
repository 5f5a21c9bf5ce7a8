//! Who answers: as the flags say, else as the conversation has it, else as the settings do, else whoever is there.

use std::{env, path::PathBuf, sync::Arc, time::Duration};

use rejoin::engine::{
    Wanted,
    auth::{KeyFile, Keys},
    provider::{
        Doing, Endpoint, Listener, Provider, ProviderError, Received, Request,
        choose::{self, OFFLINE},
        http::{Addresses, HttpOptions, public},
        offline::Offline,
        registry::{Choice, Effort, connect},
    },
};

use crate::{
    args::Talk, commands::block_on, desk::Desk, failure::Failure, home::Home, output, settings::Settings,
};

/// The file with addresses that somebody here named, in the data folder.
const ADDRESSES: &str = "addresses";
/// How many of them are kept.
const MOST_ADDRESSES: usize = 1_000;

/// Who would answer, where nobody is asked: just the names. A conversation can be looked at without a key.
struct Nobody(Endpoint);

impl Provider for Nobody {
    fn endpoint(&self) -> &Endpoint {
        &self.0
    }

    fn send<'a>(&'a self, _: &'a Request, _: Listener<'a>) -> Doing<'a, Result<Received, ProviderError>> {
        Box::pin(async { Err(ProviderError::Other(String::from("BUG: nobody was chosen to answer"))) })
    }
}

/// Who answers, and what is to be said about it.
pub struct Answering {
    pub provider: Arc<dyn Provider>,
    notice: Option<String>,
}

impl Answering {
    /// Whoever answered last, by name only.
    pub fn nobody(recorded: &Wanted) -> Self {
        let name = |name: &Option<String>| name.clone().unwrap_or_else(|| String::from("none yet"));
        let (provider, model) = (name(&recorded.provider), name(&recorded.model));
        Self { provider: Arc::new(Nobody(Endpoint { provider, model, ..Endpoint::default() })), notice: None }
    }

    /// Says what was chosen, where nobody asked for it.
    pub fn say(&self) {
        if let Some(notice) = &self.notice {
            // It names providers and models, as a conversation or a server calls them.
            output::talk(&format!("{} {}", output::paint("note:", output::NOTE), output::harmless(notice)));
        }
    }
}

/// Chooses who answers.
pub fn choose(desk: &Desk, talk: &Talk, recorded: Option<&Wanted>) -> Result<Answering, Failure> {
    let settings = &desk.settings;
    let asked = asked(desk, talk, recorded)?;
    let keys = keys(&desk.home, settings);
    let options = options(settings);
    let (choice, notice) = if asked.provider.is_empty() {
        let ollama = ollama();
        let chosen = block_on(choose::choose(&asked, ollama.as_deref(), &keys, &options))?;
        let notice = (chosen.reason != choose::Reason::Configured).then(|| chosen.reason.to_string());
        (chosen.choice, notice)
    } else {
        let set = settings.value("provider");
        let differs =
            recorded.is_some() && talk.provider.is_none() && set.is_some_and(|set| set != asked.provider);
        let notice = differs.then(|| {
            format!(
                "this conversation goes to {}; `--provider {}` changes that",
                asked.provider,
                set.unwrap_or_default()
            )
        });
        (asked, notice)
    };
    Ok(Answering { provider: connected(&choice, &keys, &options)?, notice })
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
pub fn connected(choice: &Choice, keys: &Keys, options: &HttpOptions) -> Result<Arc<dyn Provider>, Failure> {
    if choice.provider == OFFLINE {
        let model = choice.model.as_deref().unwrap_or(rejoin::engine::provider::offline::MODEL);
        return Ok(Arc::new(Offline::new(model)));
    }
    connect(choice, keys, options).map_err(|error| match error {
        // Nothing was sent: it is what was asked for that makes no sense.
        ProviderError::Other(what) => Failure::Usage { what, hint: None },
        error => Failure::Provider(Box::new(error)),
    })
}

/// What was asked for; no provider where nobody said which.
fn asked(desk: &Desk, talk: &Talk, recorded: Option<&Wanted>) -> Result<Choice, Failure> {
    let settings = &desk.settings;
    let set = |name: &str| settings.value(name).map(str::to_owned);
    let recorded = recorded.cloned().unwrap_or_default();
    let provider = talk.provider.clone().or(recorded.provider.clone()).or_else(|| set("provider"));
    let provider = provider.unwrap_or_default().trim().to_lowercase();
    // What belongs to another provider means nothing here.
    let as_recorded = recorded.provider.as_deref() == Some(provider.as_str());
    let as_set = set("provider").is_none_or(|set| set == provider);
    let from = |flag: Option<String>, recorded: Option<String>, name: &str| {
        flag.or(recorded.filter(|_| as_recorded)).or_else(|| set(name).filter(|_| as_set && !as_recorded))
    };
    let base_url = match (&talk.base_url, recorded.base_url.clone().filter(|_| as_recorded)) {
        (Some(given), _) => Some(given.clone()),
        (None, Some(url)) => Some(trusted(url, desk)?),
        (None, None) => set("base_url").filter(|_| as_set && !as_recorded),
    };
    if let Some(url) = &base_url {
        remember(&desk.home, &public(url.trim()));
    }
    let api = talk.api.map(|api| api.name().to_owned());
    let effort = match set("effort").as_deref() {
        Some("low") => Some(Effort::Low),
        Some("medium") => Some(Effort::Medium),
        Some("high") => Some(Effort::High),
        _ => None,
    };
    Ok(Choice {
        api: from(api, recorded.api().map(str::to_owned), "api"),
        model: from(talk.model.clone(), recorded.model.clone(), "model"),
        base_url,
        max_tokens: settings.value("limits.answer_tokens").and_then(|value| value.parse().ok()),
        effort,
        provider,
    })
}

/// An address that a conversation names. Keys go there: an address that nobody here chose is asked about.
fn trusted(url: String, desk: &Desk) -> Result<String, Failure> {
    // What is written down has no password and no question mark; what is set may have both.
    let set = desk.settings.value("base_url").filter(|set| public(set.trim()) == url);
    if let Some(set) = set {
        return Ok(set.to_owned());
    }
    if remembered(&desk.home).contains(&url) {
        return Ok(url);
    }
    Err(Failure::Usage {
        what: format!("this conversation went to {}", output::harmless(&url)),
        hint: Some(String::from(
            "if your key may go there, say so: `--base-url` with that address; or `--provider`",
        )),
    })
}

/// The addresses that somebody here named. A conversation may come from elsewhere, this file does not.
fn remembered(home: &Home) -> Vec<String> {
    let text = std::fs::read_to_string(home.data.join(ADDRESSES)).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// Keeps an address in mind. If that does not work, it has to be named again.
fn remember(home: &Home, url: &str) {
    let mut known = remembered(home);
    if known.iter().any(|other| other == url) || url.contains(char::is_control) {
        return;
    }
    known.push(url.to_owned());
    let from = known.len().saturating_sub(MOST_ADDRESSES);
    let text = known[from..].join("\n") + "\n";
    if let Err(why) = crate::home::replace(&home.data.join(ADDRESSES), text.as_bytes()) {
        tracing::debug!("the address cannot be kept in mind: {why}");
    }
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
    others.into_iter().flatten().chain([key_file(home).path().to_owned()]).collect()
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
