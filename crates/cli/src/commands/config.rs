//! `rejoin config`: read and change settings.

use rejoin::{
    engine::provider::{decide::canonical, http::public},
    shape,
};

use super::providers;
use crate::{
    args::ConfigCommand,
    context::Flags,
    failure::{FAILED, Failure},
    home::Home,
    output,
    settings::{self, KEYS, Setting, SettingOrigin, Settings},
};

/// The largest width of the column of values.
const WIDEST: usize = 48;

pub fn run(command: ConfigCommand, _: &Flags) -> Result<u8, Failure> {
    let home = Home::from_environment()?;
    match command {
        ConfigCommand::Path => output::raw_data(&home.config.to_string_lossy())?,
        ConfigCommand::Set { key, value } => {
            let key = Setting::named(&key)?;
            let before = if key.name == "provider" { Some(checked_provider(&home, &value)?) } else { None };
            settings::set(&home.config, key, &value)?;
            if let Some(before) = before {
                note_kept_settings(&before, &value);
            }
        }
        ConfigCommand::Unset { key } => settings::unset(&home.config, Setting::named(&key)?)?,
        ConfigCommand::Get { key, json } => {
            let key = Setting::named(&key)?;
            let settings = Settings::load(&home.config)?;
            let value = value(&settings, &home, key);
            match (value, json) {
                (value, true) => output::json_data(&as_json(key, value.as_ref()))?,
                (Some((value, _)), false) => output::raw_data(&value)?,
                // There is nothing to print; scripts use the exit code.
                (None, false) => return Ok(FAILED),
            }
        }
        ConfigCommand::List { json } => {
            let settings = Settings::load(&home.config)?;
            let rows: Vec<_> = KEYS.iter().map(|key| (key, value(&settings, &home, key))).collect();
            let length =
                |value: &Option<(String, _)>| value.as_ref().map_or(1, |(value, _)| value.chars().count());
            let width = rows.iter().map(|(_, value)| length(value)).max().unwrap_or(1).min(WIDEST);
            for (key, value) in rows {
                if json {
                    output::json_data(&as_json(key, value.as_ref()))?;
                } else {
                    let (value, from) = value.unwrap_or_else(|| (String::from("-"), "not set"));
                    let from = output::paint(from, output::DIM);
                    output::data(&format!("{:<25} {:<width$}  {from}", key.name, output::harmless(&value)))?;
                }
            }
        }
    }
    Ok(0)
}

/// Refuses a provider that is unknown and has no address. Returns the settings before the change.
fn checked_provider(home: &Home, value: &str) -> Result<Settings, Failure> {
    let settings = Settings::load(&home.config)?;
    settings::checked(Setting::named("provider")?, value)?;
    providers::check_name(value, settings.value("base_url"), None)?;
    Ok(settings)
}

/// Names the settings that were made for the previous provider and now apply to the new one.
fn note_kept_settings(before: &Settings, value: &str) {
    let name = canonical(value);
    let file = |key: &str| before.value_from(key, SettingOrigin::File);
    if file("provider").is_none_or(|old| old == name) {
        return;
    }
    let stays: Vec<String> = ["base_url", "model", "api"]
        .into_iter()
        .filter_map(|key| Some(format!("{key} = {}", public(file(key)?))))
        .collect();
    if !stays.is_empty() {
        let stays = output::harmless(&stays.join(", "));
        output::note(format!(
            "{name} is now used with {stays}, as set before; `rejoin set-provider {name}` clears that"
        ));
    }
}

/// The value of a setting and its source; for the store, the one that would be used.
fn value(settings: &Settings, home: &Home, key: &Setting) -> Option<(String, &'static str)> {
    let set = settings.get(key.name).map(|(value, from)| {
        // An address may contain a password, and lists of settings are pasted into bug reports.
        let shown = if key.is_address() { rejoin::store::hidden(value) } else { value.to_owned() };
        (shown, from.name())
    });
    set.or_else(|| (key.name == "store").then(|| (home.store().to_string(), "default")))
}

fn as_json(key: &Setting, value: Option<&(String, &str)>) -> String {
    let value = value.map(|(value, from)| (value.as_str(), *from));
    shape::setting(key.name, value, &key.variable(), key.about)
}
