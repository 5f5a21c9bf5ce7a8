//! `set-provider`, `set-auth`, `models` and `auth`.

mod auth;
mod models;

pub use auth::run as auth;
pub use models::{print as print_models, run as models};
use rejoin::{
    answering::is_known,
    engine::provider::{decide::canonical, offline, registry},
};

use crate::{
    args::SetProviderArguments,
    failure::Failure,
    home::Home,
    near, output,
    settings::{self, Setting},
};

pub fn set_provider(arguments: &SetProviderArguments) -> Result<u8, Failure> {
    let home = Home::from_environment()?;
    let name = canonical(&arguments.provider);
    check_name(&arguments.provider, arguments.base_url.as_deref(), None)?;
    let known = registry::find(&name);
    // Values that were set for another provider do not fit this one.
    let values = [
        ("provider", Some(name.clone())),
        ("api", arguments.api.clone()),
        ("model", arguments.model.clone()),
        ("base_url", arguments.base_url.clone()),
    ];
    // Check all of them before setting any.
    for (key, value) in &values {
        value.as_ref().map(|value| settings::checked(Setting::named(key)?, value)).transpose()?;
    }
    for (key, value) in values {
        match value {
            Some(value) => settings::set(&home.config, Setting::named(key)?, &value)?,
            None => settings::unset(&home.config, Setting::named(key)?)?,
        }
    }
    let model =
        arguments.model.as_deref().or(known.map(|service| service.default_model)).unwrap_or("its own");
    output::done(format!("New conversations go to {name} (model: {model})."));
    Ok(0)
}

/// Refuses a provider that is unknown and has no address. `from` is the source that named it.
pub fn check_name(given: &str, address: Option<&str>, from: Option<&str>) -> Result<(), Failure> {
    if is_known(&canonical(given)) || address.is_some() { Ok(()) } else { Err(unknown(given, from)) }
}

/// The error for a provider that is unknown and has no address. `from` is the source that named it.
pub fn unknown(given: &str, from: Option<&str>) -> Failure {
    let names: Vec<&str> = registry::all().map(|service| service.name).chain([offline::NAME]).collect();
    let near = near::did_you_mean(&canonical(given), names.iter().copied());
    let from = from.map_or_else(String::new, |from| format!(" (from {from})"));
    Failure::usage(
        format!("no provider is called `{}`{from}", output::harmless(given)),
        format!(
            "{near}there are {}; any other needs its address: `--base-url URL`, or `rejoin config set base_url URL`",
            names.join(", ")
        ),
    )
}

pub fn set_auth(method: &str) -> Result<u8, Failure> {
    let home = Home::from_environment()?;
    // Accept the names in the settings file, and those that people know from other agents.
    let method = match method.trim().to_lowercase().as_str() {
        "openai-api-key" | "anthropic-api-key" | "api-key" | "apikey" => String::from("key"),
        "oauth-chatgpt" | "chatgpt-oauth" => String::from("chatgpt"),
        "oauth-claude" | "oauth-anthropic" | "claude-oauth" => String::from("claude"),
        other => other.to_owned(),
    };
    settings::set(&home.config, Setting::named("auth")?, &method)?;
    output::done("`rejoin auth status` lists the keys.");
    Ok(0)
}
