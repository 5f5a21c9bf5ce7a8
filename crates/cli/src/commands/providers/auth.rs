//! `rejoin auth`: stores, shows and removes keys. No key is ever printed, or passed as an argument.

use std::io::{self, BufRead as _, IsTerminal as _, Read as _};

use rejoin::{
    engine::{
        Clock as _, SystemClock,
        auth::{self, SecretString, copilot::DeviceLogin},
        provider::{offline, registry},
    },
    shape,
};

use super::unknown;
use crate::{
    answering,
    args::Auth,
    commands::block_on,
    context::{CliContext, Flags},
    failure::Failure,
    near, output, signals, stream,
};

pub fn run(command: Auth, flags: &Flags) -> Result<u8, Failure> {
    let cli = CliContext::new(flags)?;
    match command {
        Auth::Login { provider } => login(&cli, provider),
        Auth::Status { json } => status(&cli, json),
        Auth::Logout { provider } => logout(&cli, &provider),
    }
}

fn login(cli: &CliContext, provider: Option<String>) -> Result<u8, Failure> {
    let set = cli.settings.value("provider").map(str::to_owned);
    let Some(given) = provider.or(set) else {
        return Err(Failure::usage("name a provider", "rejoin auth login anthropic, for example"));
    };
    let service = registry::find(&given);
    if given == offline::NAME {
        output::talk("The built-in responder needs no key.");
        return Ok(0);
    }
    let name = service.map_or(given.trim().to_lowercase(), |service| service.name.to_owned());
    if service.is_none() && !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_') {
        return Err(unknown(&given, None));
    }
    if service.is_none() {
        let near = near::did_you_mean(&name, registry::all().map(|service| service.name));
        let is_set = cli.settings.value("provider") == Some(name.as_str());
        if !near.is_empty() && !is_set {
            return Err(Failure::usage(
                format!("no provider is called `{name}`"),
                format!(
                    "{near}For a provider of your own with that name, run this first: rejoin set-provider {name} \
                     --base-url URL"
                ),
            ));
        }
        output::note(format!(
            "`{name}` is not a provider that rejoin knows; use the key with `--provider {name} --base-url URL`"
        ));
    }
    let key = match service.and_then(|service| service.login) {
        Some(registry::Login::Copilot) => in_the_browser(cli)?,
        _ => ask(&name, service.map_or("", |service| service.get_a_key))?,
    };
    let place = keep(cli, &name, &key)?;
    output::done(format!("The key for {name} is stored in {place}."));
    Ok(0)
}

/// Stores a key in the place that the settings choose, and returns that place in words.
fn keep(cli: &CliContext, name: &str, key: &SecretString) -> Result<String, Failure> {
    if cli.settings.is_on("keyring") {
        #[cfg(feature = "keyring")]
        {
            auth::keyring::Keyring.set(name, key).map_err(Failure::auth)?;
            return Ok(String::from("the system's keyring"));
        }
        #[cfg(not(feature = "keyring"))]
        output::warning("this rejoin was built without the system's keyring; the key goes to a file");
    }
    let file = answering::key_places(&cli.home).own_file();
    file.set(name, key).map_err(Failure::auth)?;
    Ok(output::shown(file.path()))
}

/// Asks for a key, or reads it from standard input.
fn ask(name: &str, get_a_key: &str) -> Result<SecretString, Failure> {
    let read = if io::stdin().is_terminal() {
        if !get_a_key.is_empty() {
            output::talk(&format!("Get a key at {get_a_key}"));
        }
        hidden_line(&format!("Key for {name} (it is not shown): "))?
    } else {
        let mut text = String::new();
        stream::stdin().take(64 * 1024).read_to_string(&mut text).map(|_| text)
    };
    let text = read.map_err(|why| Failure::unreadable("standard input", why, None))?;
    let key = text.trim();
    if key.is_empty() || key.contains(char::is_whitespace) {
        return Err(Failure::usage(
            if key.is_empty() { "no key was given" } else { "expected one key" },
            format!("pipe it in: printenv MY_KEY | rejoin auth login {name}"),
        ));
    }
    Ok(SecretString::from(key.to_owned()))
}

/// Reads a line without echo. Fails if the user pressed Ctrl-C. In either case, the terminal echoes again afterwards.
fn hidden_line(prompt: &str) -> Result<io::Result<String>, Failure> {
    let read = || {
        let mut text = String::new();
        io::stdin().lock().read_line(&mut text).map(|_| text)
    };
    let hidden = EchoOff::new();
    let read = block_on(async {
        tokio::select! {
            // Poll in this order: the user can press Ctrl-C from the first moment.
            biased;
            () = signals::first() => Err(Failure::Interrupted),
            read = async {
                output::prompt(prompt);
                tokio::task::spawn_blocking(read).await
            } => Ok(read.unwrap_or_else(|why| Err(why.into()))),
        }
    })?;
    drop(hidden);
    output::talk("");
    read
}

/// Turns off the terminal's echo until it is dropped.
struct EchoOff {
    was_hidden: bool,
}

impl EchoOff {
    fn new() -> Self {
        Self { was_hidden: stty("-echo") }
    }
}

impl Drop for EchoOff {
    fn drop(&mut self) {
        if self.was_hidden {
            stty("echo");
        }
    }
}

fn stty(mode: &str) -> bool {
    std::process::Command::new("stty").arg(mode).status().is_ok_and(|status| status.success())
}

/// GitHub's device login: the user enters a code on a web page.
fn in_the_browser(cli: &CliContext) -> Result<SecretString, Failure> {
    let options = answering::options(&cli.settings);
    block_on(async {
        let login = DeviceLogin::begin(&options).await.map_err(Failure::auth)?;
        output::talk(&format!(
            "Open {} and enter the code {}",
            output::harmless(&login.address),
            output::paint(&output::harmless(&login.user_code), output::STRONG)
        ));
        output::talk("Waiting until you have; Ctrl-C gives up.");
        login.finish().await.map_err(Failure::auth)
    })?
}

fn status(cli: &CliContext, json: bool) -> Result<u8, Failure> {
    let keys = answering::keys(&cli.home, &cli.settings);
    for status in auth::status(&keys, SystemClock.now()) {
        if json {
            output::json_data(&shape::key(&status))?;
            continue;
        }
        let said = match (&status.key, status.needs_key) {
            (Some(key), _) if key.expiry.is_past() => {
                format!("expired: {} in {}", key.kind.name(), key.origin)
            }
            (Some(key), _) => {
                let ending = key.ending.as_ref().map(|ending| format!(" (…{ending})")).unwrap_or_default();
                format!("{} in {}{ending}", key.kind.name(), key.origin)
            }
            (None, false) => String::from("needs no key"),
            (None, true) => format!(
                "no key; set {} or `rejoin auth login {}`",
                status.variables.first().unwrap_or(&"a key"),
                status.provider
            ),
        };
        output::data(&format!("{:<12} {}", status.provider, output::harmless(&said)))?;
    }
    Ok(0)
}

fn logout(cli: &CliContext, provider: &str) -> Result<u8, Failure> {
    let name = registry::find(provider).map_or(provider, |service| service.name);
    let file = answering::key_places(&cli.home).own_file();
    let gone = file.remove(name).map_err(Failure::auth)?;
    #[cfg(feature = "keyring")]
    let gone = gone
        | (cli.settings.is_on("keyring") && auth::keyring::Keyring.remove(name).map_err(Failure::auth)?);
    if gone {
        output::done(format!("The key for {name} is removed."));
    } else {
        output::talk(&format!("There was no key for {}.", output::harmless(name)));
    }
    Ok(0)
}
