//! `set-provider`, `set-auth`, `models` and `auth`.

mod auth;
mod models;

pub use auth::run as auth;
pub use models::run as models;
use rejoin::engine::provider::{choose::OFFLINE, registry};

use crate::{
    args::{SetAuthArguments, SetProviderArguments},
    failure::Failure,
    home::Home,
    output,
    settings::{self, Key},
};

/// Sets who answers in new conversations.
pub fn set_provider(arguments: &SetProviderArguments) -> Result<u8, Failure> {
    let home = Home::from_environment()?;
    let name = arguments.provider.trim().to_lowercase();
    let known = registry::find(&name);
    if known.is_none() && name != OFFLINE && arguments.base_url.is_none() {
        return Err(unknown(&arguments.provider));
    }
    let name = known.map_or(name, |service| service.name.to_owned());
    settings::set(&home.config, Key::named("provider")?, &name)?;
    // What was set for another provider does not fit this one.
    let others = [
        ("api", arguments.api.map(|api| api.name().to_owned())),
        ("model", arguments.model.clone()),
        ("base_url", arguments.base_url.clone()),
    ];
    for (key, value) in others {
        match value {
            Some(value) => settings::set(&home.config, Key::named(key)?, &value)?,
            None => settings::unset(&home.config, Key::named(key)?)?,
        }
    }
    let model =
        arguments.model.as_deref().or(known.map(|service| service.default_model)).unwrap_or("its own");
    output::talk(&format!(
        "{} New conversations go to {name} (model: {model}).",
        output::paint("✓", output::GOOD)
    ));
    Ok(0)
}

/// What is said of a provider that nobody knows.
pub fn unknown(given: &str) -> Failure {
    let names: Vec<&str> = registry::all().map(|service| service.name).chain([OFFLINE]).collect();
    Failure::Usage {
        what: format!("no provider is called `{}`", output::harmless(given)),
        hint: Some(format!("there are {}; any other with `--base-url`", names.join(", "))),
    }
}

/// Sets how to prove who you are.
pub fn set_auth(arguments: &SetAuthArguments) -> Result<u8, Failure> {
    let home = Home::from_environment()?;
    // The names that the settings file has, and those that people know from elsewhere.
    let method = match arguments.method.trim().to_lowercase().as_str() {
        "openai-api-key" | "anthropic-api-key" | "api-key" | "apikey" => String::from("key"),
        "oauth-chatgpt" | "chatgpt-oauth" => String::from("chatgpt"),
        "oauth-claude" | "oauth-anthropic" | "claude-oauth" => String::from("claude"),
        other => other.to_owned(),
    };
    settings::set(&home.config, Key::named("auth")?, &method)?;
    output::talk(&format!("{} `rejoin auth status` shows what there is.", output::paint("✓", output::GOOD)));
    Ok(0)
}
