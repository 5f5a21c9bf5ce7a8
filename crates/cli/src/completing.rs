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
    store::{Access, Query},
};

use crate::{
    args::CommandLine,
    context::{CliContext, Flags},
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
    let Some(flags) = named_flags(std::env::args_os()) else { return Vec::new() };
    let Ok(desk) = CliContext::new(&flags) else { return Vec::new() };
    let candidate = |(place, (id, title)): (usize, (String, String))| {
        CompletionCandidate::new(id).help(Some(title.into())).display_order(Some(place))
    };
    conversations_in(&desk, &current).into_iter().enumerate().map(candidate).collect()
}

/// The ids that begin like a typed one, newest first, with their titles.
pub fn conversations_in(desk: &CliContext, current: &str) -> Vec<(String, String)> {
    let Ok(store) = rejoin::engine::open_store(&desk.location, Access::Read) else { return Vec::new() };
    let store = desk.limited(store);
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

/// The store and the scope that the line being completed names. None if one of them cannot be read: conversations of other stores or
/// users are not offered in its place.
fn named_flags(words: impl Iterator<Item = OsString>) -> Option<Flags> {
    let words = whole(words);
    Some(Flags {
        store: named(&words, "--store").map(|store| store.parse()).transpose().ok()?,
        scope: named(&words, "--scope").map(|scope| scope.parse()).transpose().ok()?,
        ..Flags::default()
    })
}

/// The characters at which bash divides a word: each becomes a word of its own.
const DIVIDES: [char; 3] = [':', '=', '@'];

/// The words of a line, put together again where bash has divided them.
fn whole(words: impl Iterator<Item = OsString>) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for word in words {
        let word = word.to_string_lossy();
        let divides = |word: &str| !word.is_empty() && word.chars().all(|each| DIVIDES.contains(&each));
        match all.last_mut() {
            // A marker such as `@` may be a word of its own, but not a flag's value.
            Some(last) if divides(&word) || last.ends_with(DIVIDES) => last.push_str(&word),
            _ => all.push(word.into_owned()),
        }
    }
    all
}

/// The value of a flag.
fn named<'w>(words: &'w [String], flag: &str) -> Option<&'w str> {
    let place = words.iter().position(|word| {
        word.strip_prefix(flag).is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
    })?;
    let value = words[place].strip_prefix(flag).unwrap_or_default().strip_prefix('=');
    value.or_else(|| words.get(place + 1).map(String::as_str))
}
