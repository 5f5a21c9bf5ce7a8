//! What a shell offers where an argument is typed: conversations of the store, providers, settings, servers.
//!
//! The scripts that `rejoin completions` prints run the binary again with [`VARIABLE`] set. Completing must never fail
//! aloud, create anything, or take long: whatever goes wrong, nothing is offered.

use std::ffi::{OsStr, OsString};

use clap::CommandFactory as _;
use clap_complete::{
    CompleteEnv,
    engine::{CompletionCandidate, PathCompleter, ValueCompleter as _},
    env::Shells,
};
use rejoin::{
    ConversationId,
    engine::provider::registry,
    store::{Access, Location, Query},
};

use crate::{
    args::CommandLine,
    desk::{Desk, Flags},
    output,
    settings::KEYS,
};

/// The variable that asks for completion.
const VARIABLE: &str = "REJOIN_COMPLETE";

/// How many conversations are offered: what fits a screen, newest first.
const OFFERED: usize = 30;

/// How many conversations are searched for a typed beginning.
const LOOKED_AT: usize = 5000;

/// Completes and exits, if a shell asks for it.
pub fn if_asked() {
    if std::env::var_os(VARIABLE).is_some() {
        CompleteEnv::with_factory(CommandLine::command).var(VARIABLE).complete();
    }
}

/// The script that makes a shell ask for completions.
pub fn script(shell: clap_complete::Shell) -> String {
    let mut script = Vec::new();
    let shells = Shells::builtins();
    if let Some(completer) = shells.completer(&shell.to_string()) {
        let written = completer.write_registration(VARIABLE, "rejoin", "rejoin", "rejoin", &mut script);
        written.expect("BUG: memory takes everything that is written to it");
    }
    String::from_utf8_lossy(&script).into_owned()
}

pub fn conversations(current: &OsStr) -> Vec<CompletionCandidate> {
    let current = current.to_string_lossy();
    let flags = Flags { store: named_store(std::env::args_os()), ..Flags::default() };
    let Ok(desk) = Desk::new(&flags) else { return Vec::new() };
    let candidate = |(place, (id, title)): (usize, (String, String))| {
        CompletionCandidate::new(id).help(Some(title.into())).display_order(Some(place))
    };
    conversations_in(&desk.location, &current).into_iter().enumerate().map(candidate).collect()
}

/// The ids that begin like a typed one, newest first, with their titles.
pub fn conversations_in(location: &Location, current: &str) -> Vec<(String, String)> {
    let Ok(store) = rejoin::engine::open_store(location, Access::Read) else { return Vec::new() };
    let limit = if current.is_empty() { OFFERED } else { LOOKED_AT };
    let Ok(page) = store.list(&Query { limit: Some(limit), ..Query::default() }) else { return Vec::new() };
    let marks = [("@", "the active conversation"), ("@1", "the newest conversation")];
    let marks = marks.into_iter().map(|(mark, about)| (mark.to_owned(), about.to_owned()));
    let ids = page.conversations.into_iter().map(|summary| {
        (summary.id.to_string(), output::harmless(summary.title.as_deref().unwrap_or("(untitled)")))
    });
    let begins = |id: &str| {
        // The letters of an id are enough for every command, so they are enough here.
        id.starts_with(current)
            || id.strip_prefix(ConversationId::PREFIX).is_some_and(|id| id.starts_with(current))
    };
    ids.chain(marks).filter(|(id, _)| begins(id)).take(OFFERED).collect()
}

pub fn subjects(current: &OsStr) -> Vec<CompletionCandidate> {
    let mut offered = PathCompleter::any().stdio().complete(current);
    offered.extend(conversations(current));
    offered
}

pub fn providers(current: &OsStr) -> Vec<CompletionCandidate> {
    let current = current.to_string_lossy();
    provider_names().filter(|name| name.starts_with(&*current)).map(CompletionCandidate::new).collect()
}

pub fn provider_names() -> impl Iterator<Item = &'static str> {
    registry::all().map(|service| service.name)
}

pub fn settings(current: &OsStr) -> Vec<CompletionCandidate> {
    let current = current.to_string_lossy();
    let keys = KEYS.iter().filter(|key| key.name.starts_with(&*current));
    keys.map(|key| CompletionCandidate::new(key.name).help(Some(key.about.into()))).collect()
}

#[cfg(feature = "mcp")]
pub fn servers(current: &OsStr) -> Vec<CompletionCandidate> {
    let current = current.to_string_lossy();
    let home = crate::home::Home::from_environment().ok();
    let servers = home.and_then(|home| crate::settings::servers(&home.config).ok());
    let servers = servers.unwrap_or_default().into_iter().filter(|server| server.name.starts_with(&*current));
    servers.map(|server| CompletionCandidate::new(server.name)).collect()
}

/// The store that the line being completed names.
fn named_store(words: impl Iterator<Item = OsString>) -> Option<Location> {
    let mut words = words.map(|word| word.to_string_lossy().into_owned());
    while let Some(word) = words.next() {
        let value = match word.strip_prefix("--store") {
            Some("") => words.next(),
            Some(value) => value.strip_prefix('=').map(str::to_owned),
            None => None,
        };
        if let Some(value) = value {
            return value.parse().ok();
        }
    }
    None
}
