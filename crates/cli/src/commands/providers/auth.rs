//! `rejoin auth`: keep, show and forget keys. No key is ever printed, or taken as an argument.

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
    let desk = CliContext::new(flags)?;
    match command {
        Auth::Login { provider } => login(&desk, provider),
        Auth::Status { json } => status(&desk, json),
        Auth::Logout { provider } => logout(&desk, &provider),
    }
}

fn login(desk: &CliContext, provider: Option<String>) -> Result<u8, Failure> {
    let set = desk.settings.value("provider").map(str::to_owned);
    let Some(given) = provider.or(set) else {
        return Err(Failure::usage("a key for which provider?", "rejoin auth login anthropic, for example"));
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
        let is_set = desk.settings.value("provider") == Some(name.as_str());
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
        Some(registry::Login::Copilot) => in_the_browser(desk)?,
        _ => ask(&name, service.map_or("", |service| service.get_a_key))?,
    };
    let place = keep(desk, &name, &key)?;
    output::done(format!("The key for {name} is stored in {place}."));
    Ok(0)
}

/// Stores a key where the settings say, and returns that place in words.
fn keep(desk: &CliContext, name: &str, key: &SecretString) -> Result<String, Failure> {
    if desk.settings.is_on("keyring") {
        #[cfg(feature = "keyring")]
        {
            auth::keyring::Keyring.set(name, key).map_err(Failure::auth)?;
            return Ok(String::from("the system's keyring"));
        }
        #[cfg(not(feature = "keyring"))]
        output::warning("this rejoin was built without the system's keyring; the key goes to a file");
    }
    let file = answering::key_file(&desk.home);
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
            if key.is_empty() { "no key was given" } else { "that is not one key" },
            format!("pipe it in: printenv MY_KEY | rejoin auth login {name}"),
        ));
    }
    Ok(SecretString::from(key.to_owned()))
}

/// Reads a line without echo. Fails if the user gave up. Either way, the terminal echoes again afterwards.
fn hidden_line(prompt: &str) -> Result<io::Result<String>, Failure> {
    let read = || {
        let mut text = String::new();
        io::stdin().lock().read_line(&mut text).map(|_| text)
    };
    let hidden = Hidden::new();
    let read = block_on(async {
        tokio::select! {
            // In this order: the user can give up from the first moment.
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

/// Turns off the echo of the terminal while it lives.
struct Hidden {
    was_hidden: bool,
}

impl Hidden {
    fn new() -> Self {
        Self { was_hidden: stty("-echo") }
    }
}

impl Drop for Hidden {
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
fn in_the_browser(desk: &CliContext) -> Result<SecretString, Failure> {
    let options = answering::options(&desk.settings);
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

fn status(desk: &CliContext, json: bool) -> Result<u8, Failure> {
    let keys = answering::keys(&desk.home, &desk.settings);
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

fn logout(desk: &CliContext, provider: &str) -> Result<u8, Failure> {
    let name = registry::find(provider).map_or(provider, |service| service.name);
    let file = answering::key_file(&desk.home);
    let gone = file.remove(name).map_err(Failure::auth)?;
    #[cfg(feature = "keyring")]
    let gone = gone
        | (desk.settings.is_on("keyring") && auth::keyring::Keyring.remove(name).map_err(Failure::auth)?);
    if gone {
        output::done(format!("The key for {name} is removed."));
    } else {
        output::talk(&format!("There was no key for {}.", output::harmless(name)));
    }
    Ok(0)
}
