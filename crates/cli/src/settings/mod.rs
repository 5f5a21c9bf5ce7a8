//! The settings: their names, the sources of their values, and their meaning.
//!
//! A value comes from the environment (`REJOIN_…`), else from the file, else it is the default. A flag on the command line takes
//! precedence over all of them; the code that reads the flag implements that.

mod file;
#[cfg(feature = "mcp")]
mod servers;

use std::path::{Path, PathBuf};

pub use file::{checked, set, unset};
use rejoin::{
    approval::Rules,
    engine::provider::{decide::canonical, http::public, registry::is_address},
    places::{AGENTS, AgentPlace},
    store::Location,
};
#[cfg(feature = "mcp")]
pub use servers::{add_server, remove_server, servers};

use crate::{failure::Failure, near};

pub struct Setting {
    /// The name. A dot separates a table from a key in it.
    pub name: &'static str,
    takes: Takes,
    pub usual: Option<&'static str>,
    pub about: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Takes {
    Text,
    Flag,
    /// A whole number from 0.
    Number,
    /// A whole number from 1.
    Count,
    /// A number above 0 and up to 1.
    Share,
    Store,
    /// The name of a provider. Whether it is known depends on the address: see `commands/config.rs`.
    Provider,
    /// An address that begins with `http://` or `https://`.
    Address,
    OneOf(&'static [&'static str]),
    /// A list of texts, as a TOML array. A single text is a list of one.
    List,
    /// A list of approval rules.
    Rules,
    /// A list of agents' folders, each as `AGENT=FOLDER`.
    Folders,
}

const fn key(name: &'static str, takes: Takes, usual: Option<&'static str>, about: &'static str) -> Setting {
    Setting { name, takes, usual, about }
}

/// The folders in which toolchains installed per user keep programs and sources, without the files that contain their keys.
const TOOLCHAINS: &str = r#"["~/.cargo/bin", "~/.cargo/registry", "~/.cargo/git", "~/.rustup", "~/.pyenv", "~/.nvm", "~/.local/bin", "~/go"]"#;

pub const KEYS: &[Setting] = &[
    key(
        "store",
        Takes::Store,
        None,
        "where conversations are kept: sqlite:PATH, jsonl:FOLDER or postgres://…",
    ),
    key("provider", Takes::Provider, None, "provider of new conversations"),
    key("model", Takes::Text, None, "model of new conversations"),
    key("api", Takes::OneOf(&["chat", "responses"]), None, "API of the provider"),
    key("base_url", Takes::Address, None, "base address of the provider"),
    key(
        "auth",
        Takes::OneOf(&["any", "key", "chatgpt", "claude"]),
        Some("any"),
        "how to authenticate: API key, Codex's login, Claude Code's login, or any of them",
    ),
    key(
        "keyring",
        Takes::Flag,
        Some("false"),
        "keep keys in the system's keyring, not in a file (if rejoin was built with it)",
    ),
    key("effort", Takes::OneOf(&["low", "medium", "high"]), None, "reasoning effort"),
    key(
        "system",
        Takes::Text,
        None,
        "instructions to the model (default: short ones for work in a folder, which /context shows)",
    ),
    key(
        "agents_md",
        Takes::Flag,
        Some("true"),
        "AGENTS.md and CLAUDE.md, from this folder up to the repository's root, are part of the instructions",
    ),
    key(
        "context_window",
        Takes::Count,
        None,
        "tokens that fit into the model's window (default: the provider's or the known size)",
    ),
    key("limits.requests", Takes::Count, Some("50"), "maximum requests per turn"),
    key(
        "limits.seconds",
        Takes::Count,
        Some("3600"),
        "maximum seconds per turn, without the time its tools take",
    ),
    key("limits.tokens", Takes::Count, None, "maximum tokens per turn"),
    key("limits.retries", Takes::Number, Some("4"), "how often a failed request is repeated"),
    key("limits.answer_tokens", Takes::Count, None, "maximum tokens per answer"),
    key(
        "limits.silence_seconds",
        Takes::Count,
        Some("300"),
        "seconds of silence after which a request fails; keep-alive messages do not count",
    ),
    key("limits.tool_seconds", Takes::Count, Some("120"), "maximum seconds per tool call"),
    key(
        "limits.tool_output",
        Takes::Count,
        Some("163840"),
        "bytes of a tool's output that a model sees; the record keeps all",
    ),
    key(
        "limits.output_kept",
        Takes::Count,
        Some("67108864"),
        "bytes of a tool's output that the record keeps; the rest is counted",
    ),
    key(
        "mode",
        Takes::OneOf(&["ask", "auto", "read-only"]),
        Some("ask"),
        "calls that run without asking: none that change something, all inside the sandbox, or reading only",
    ),
    key("allow", Takes::Rules, None, "rules for calls that run without asking, such as run:cargo test*"),
    key("deny", Takes::Rules, None, "rules for calls that never run; they win over `allow`"),
    key(
        "sandbox.read",
        Takes::List,
        Some(TOOLCHAINS),
        "folders outside the workspace that commands may read and run programs from; system folders always",
    ),
    key("sandbox.network", Takes::Flag, Some("false"), "commands may use the network"),
    key("tools.fetch", Takes::Flag, Some("false"), "the model may fetch public web pages"),
    key(
        "on_broken",
        Takes::OneOf(&["keep", "drop", "refuse"]),
        Some("keep"),
        "treatment of broken histories",
    ),
    key("persist_special_commands", Takes::Flag, Some("true"), "keep /commands in the history"),
    key(
        "max_tokens",
        Takes::Count,
        None,
        "tokens of a conversation; older turns are pruned without a model before it has more",
    ),
    key("min_retain_turns", Takes::Number, Some("2"), "newest turns that are never pruned"),
    key("prune_threshold", Takes::Share, Some("0.8"), "share of max_tokens at which turns are pruned"),
    key("prune.keep_last", Takes::Number, None, "tool results that stay in the window, newest first"),
    key("prune.max_age_seconds", Takes::Count, None, "age at which tool results leave the window"),
    key(
        "prune.token_budget",
        Takes::Count,
        None,
        "tokens that tool results may take in the window; two fifths of it by default",
    ),
    key(
        "prune.batch",
        Takes::Count,
        None,
        "fewest results that leave the window together, unless they exceed a budget (8 by default); 1 prunes at once, but makes \
         providers read more again",
    ),
    key(
        "compact",
        Takes::OneOf(&["auto", "off"]),
        Some("auto"),
        "whether a summary takes the place of older messages when the window is full",
    ),
    key(
        "compact_threshold",
        Takes::Share,
        Some("0.8"),
        "share of the model's window at which a conversation is compacted",
    ),
    key("compact.model", Takes::Text, None, "model that writes summaries; the one that answers by default"),
    key(
        "compact.tail_tokens",
        Takes::Number,
        None,
        "tokens of the newest messages that a compaction keeps as they are; an eighth of the window by default",
    ),
    key(
        "audit.full_arguments",
        Takes::Flag,
        Some("false"),
        "`history calls` shows arguments, not just hashes",
    ),
    key("addresses.chatgpt", Takes::Address, None, "address that answers with a ChatGPT login"),
    key("addresses.claude", Takes::Address, None, "address that answers with a Claude login"),
    key("addresses.github", Takes::Address, None, "address of GitHub's login"),
    key("addresses.github_api", Takes::Address, None, "address of GitHub's API, for Copilot"),
    key(
        "agent_folders",
        Takes::Folders,
        None,
        "more folders with agents' sessions for `doctor` and `import`, such as codex=/backup/sessions",
    ),
    key("color", Takes::OneOf(&["auto", "always", "never"]), Some("auto"), "when to use colours"),
    key("pager", Takes::Text, None, "pager for long output; `none` turns it off"),
];

impl Setting {
    pub fn named(name: &str) -> Result<&'static Self, Failure> {
        KEYS.iter().find(|key| key.name == name).ok_or_else(|| {
            let near = did_you_mean(name);
            Failure::usage(
                format!("there is no setting `{name}`"),
                format!("{near}`rejoin config list` lists all settings"),
            )
        })
    }

    /// Whether its values are addresses, which may contain a password.
    pub fn is_address(&self) -> bool {
        matches!(self.takes, Takes::Address)
    }

    pub fn variable(&self) -> String {
        format!("REJOIN_{}", self.name.replace('.', "_").to_uppercase())
    }

    /// Checks and normalises a value. The error says what is allowed.
    fn check(&self, value: &str) -> Result<String, String> {
        let said = |what: &str| Err(format!("`{value}` is not {what}"));
        let plain = value.trim();
        match self.takes {
            Takes::Text | Takes::Provider if plain.is_empty() => Err(String::from("it is empty")),
            Takes::Text => Ok(plain.to_owned()),
            Takes::Flag => match plain.to_lowercase().as_str() {
                "true" | "1" | "yes" | "on" => Ok(String::from("true")),
                "false" | "0" | "no" | "off" => Ok(String::from("false")),
                _ => said("`true` or `false`"),
            },
            // TOML stores numbers up to this size.
            Takes::Number | Takes::Count => {
                let least = i64::from(self.takes == Takes::Count);
                match plain.parse::<i64>() {
                    Ok(number) if number >= least => Ok(number.to_string()),
                    _ => said(&format!("a whole number from {least}")),
                }
            }
            Takes::Provider => Ok(canonical(plain)),
            Takes::Address if is_address(plain) => Ok(plain.to_owned()),
            // Hide the value, because it may contain a password.
            Takes::Address => {
                Err(format!("`{}` is not an address that begins with http:// or https://", public(plain)))
            }
            Takes::Share => match plain.parse::<f64>() {
                Ok(share) if share > 0.0 && share <= 1.0 => Ok(plain.to_owned()),
                _ => said("a number above 0 and up to 1"),
            },
            Takes::Store => match plain.parse::<Location>() {
                Ok(_) => Ok(plain.to_owned()),
                Err(error) => Err(error.to_string()),
            },
            Takes::List | Takes::Rules | Takes::Folders => {
                let items = list(plain).ok_or_else(|| format!("`{value}` is not a list of strings"))?;
                if self.takes == Takes::Rules {
                    Rules::parse(&items, &[]).map_err(|why| why.to_string())?;
                }
                if let Some(wrong) =
                    items.iter().find(|item| self.takes == Takes::Folders && agent_folder(item).is_none())
                {
                    let agents: Vec<&str> = AGENTS.iter().map(|agent| agent.format).collect();
                    return Err(format!(
                        "`{wrong}` is not AGENT=FOLDER with one of these agents: {}",
                        agents.join(", ")
                    ));
                }
                Ok(array(&items))
            }
            Takes::OneOf(words) if words.contains(&plain) => Ok(plain.to_owned()),
            Takes::OneOf(words) => said(&format!("one of {}", words.join(", "))),
        }
    }
}

/// The agent and the folder that `AGENT=FOLDER` names.
fn agent_folder(item: &str) -> Option<(&'static AgentPlace, PathBuf)> {
    let (agent, folder) = item.split_once('=')?;
    let folder = folder.trim();
    let folder = match folder.strip_prefix("~/") {
        Some(below) => std::env::home_dir()?.join(below),
        None if folder.is_empty() => return None,
        None => PathBuf::from(folder),
    };
    Some((AgentPlace::of(agent.trim())?, folder))
}

/// The texts of a list: a TOML array, or a single text.
fn list(value: &str) -> Option<Vec<String>> {
    if !value.starts_with('[') {
        return Some(vec![value.to_owned()]).filter(|_| !value.is_empty());
    }
    let array: toml_edit::Value = value.parse().ok()?;
    array.as_array()?.iter().map(|item| item.as_str().map(str::to_owned)).collect()
}

/// A list as a TOML array.
fn array(items: &[String]) -> String {
    toml_edit::Array::from_iter(items.iter().map(String::as_str)).to_string()
}

fn did_you_mean(name: &str) -> String {
    near::did_you_mean(name, KEYS.iter().map(|key| key.name))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingOrigin {
    Environment,
    File,
    /// The default.
    Usual,
}

impl SettingOrigin {
    pub fn name(self) -> &'static str {
        match self {
            Self::Environment => "environment",
            Self::File => "file",
            Self::Usual => "default",
        }
    }
}

/// The settings from all sources.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Every value from every source; for each setting, the source that takes precedence comes first.
    values: Vec<(&'static str, String, SettingOrigin)>,
}

impl Settings {
    pub fn load(path: &Path) -> Result<Self, Failure> {
        let mut values = Vec::new();
        let in_file = file::read(path)?;
        for key in KEYS {
            let variable = key.variable();
            let bad = |what: &str| {
                Failure::usage(
                    format!("the variable {variable} {what}"),
                    format!("change it, or remove it: `unset {variable}`"),
                )
            };
            match std::env::var(&variable) {
                Err(std::env::VarError::NotUnicode(_)) => return Err(bad("is not text")),
                Ok(value) if !value.is_empty() => {
                    let value = key.check(&value).map_err(|why| bad(&format!("does not fit: {why}")))?;
                    values.push((key.name, value, SettingOrigin::Environment));
                }
                _ => {}
            }
            if let Some((_, value)) = in_file.iter().find(|(name, _)| *name == key.name) {
                values.push((key.name, value.clone(), SettingOrigin::File));
            }
            if let Some(usual) = key.usual {
                values.push((key.name, usual.to_owned(), SettingOrigin::Usual));
            }
        }
        Ok(Self { values })
    }

    /// The value of a setting, and its source.
    pub fn get(&self, name: &str) -> Option<(&str, SettingOrigin)> {
        let found = self.values.iter().find(|(key, ..)| *key == name);
        found.map(|(_, value, from)| (value.as_str(), *from))
    }

    pub fn value(&self, name: &str) -> Option<&str> {
        self.get(name).map(|(value, _)| value)
    }

    /// The value that one source gives a setting, even if another source takes precedence.
    pub fn value_from(&self, name: &str, origin: SettingOrigin) -> Option<&str> {
        let found = self.values.iter().find(|(key, _, from)| *key == name && *from == origin);
        found.map(|(_, value, _)| value.as_str())
    }

    pub fn number(&self, name: &str) -> Option<u64> {
        self.value(name)?.parse().ok()
    }

    /// The texts of a list; empty if it is not set.
    pub fn list(&self, name: &str) -> Vec<String> {
        self.value(name).and_then(list).unwrap_or_default()
    }

    /// Additional folders with sessions of agents.
    pub fn agent_folders(&self) -> Vec<(&'static AgentPlace, PathBuf)> {
        self.list("agent_folders").iter().filter_map(|item| agent_folder(item)).collect()
    }

    pub fn is_on(&self, name: &str) -> bool {
        self.value(name) == Some("true")
    }

    /// Whether /commands are kept in the history.
    pub fn should_persist_commands(&self) -> bool {
        self.is_on("persist_special_commands")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_values_fit_their_keys() {
        for key in KEYS {
            if let Some(usual) = key.usual {
                assert_eq!(key.check(usual).as_deref(), Ok(usual), "{}", key.name);
            }
        }
    }

    #[test]
    fn values_are_checked() {
        let check = |name: &str, value: &str| Setting::named(name).unwrap().check(value);
        assert_eq!(check("audit.full_arguments", "YES").unwrap(), "true");
        assert_eq!(check("allow", "run:cargo test*").unwrap(), r#"["run:cargo test*"]"#);
        let two = r#"["run:git status", "edit_file:src/**"]"#;
        assert_eq!(check("allow", two).unwrap(), two);
        for (name, value) in [
            ("audit.full_arguments", "maybe"),
            ("max_tokens", "-1"),
            ("max_tokens", "many"),
            ("max_tokens", "0"),
            ("limits.retries", "99999999999999999999"),
            ("base_url", "localhost:8080"),
            ("base_url", "http://"),
            ("prune_threshold", "1.5"),
            ("prune_threshold", "NaN"),
            ("prune_threshold", "0"),
            ("compact_threshold", "0"),
            ("compact_threshold", "-0.5"),
            ("compact_threshold", "2"),
            ("compact_threshold", "NaN"),
            ("context_window", "0"),
            ("store", "elsewhere"),
            ("on_broken", "rerun"),
            ("model", " "),
            ("mode", "yolo"),
            ("sandbox.read", "[1]"),
            ("sandbox.read", ""),
            ("allow", "run:"),
            ("allow", "[\"run:x\""),
        ] {
            assert!(check(name, value).is_err(), "{name} = {value}");
        }
    }
}
