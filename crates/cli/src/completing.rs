//! The completions that a shell offers for arguments: conversations of the store, providers, settings, servers.
//!
//! The scripts that `rejoin completions` prints run the binary again with [`VARIABLE`] set. Completing must never print an error,
//! create anything, or take long: on any failure, it offers nothing.

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

/// How many conversations are offered, newest first: about one screen.
const OFFERED: usize = 30;

/// How many conversations are searched for ids with a typed beginning.
const LOOKED_AT: usize = 5000;

/// Completes and exits, if a shell requests it.
pub fn if_asked() {
    if std::env::var_os(VARIABLE).is_some() {
        CompleteEnv::with_factory(CommandLine::command).var(VARIABLE).complete();
    }
}

/// The script that makes a shell request completions.
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
    let Ok(cli) = CliContext::new(&flags) else { return Vec::new() };
    let candidate = |(place, (id, title)): (usize, (String, String))| {
        CompletionCandidate::new(id).help(Some(title.into())).display_order(Some(place))
    };
    conversations_in(&cli, &current).into_iter().enumerate().map(candidate).collect()
}

/// The ids that begin with the typed text, newest first, with their titles.
pub fn conversations_in(cli: &CliContext, current: &str) -> Vec<(String, String)> {
    let Ok(store) = rejoin::engine::open_store(&cli.location, Access::Read) else { return Vec::new() };
    let store = cli.limited(store);
    let limit = if current.is_empty() { OFFERED } else { LOOKED_AT };
    let Ok(page) = store.list(&Query { limit: Some(limit), ..Query::default() }) else { return Vec::new() };
    let marks = [("@", "the active conversation"), ("@1", "the newest conversation")];
    let marks = marks.into_iter().map(|(mark, about)| (mark.to_owned(), about.to_owned()));
    let ids = page.conversations.into_iter().map(|summary| {
        (summary.id.to_string(), output::harmless(summary.title.as_deref().unwrap_or("(untitled)")))
    });
    let begins = |id: &str| {
        // Every command also accepts an id without its prefix.
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

/// The store and the scope on the line being completed. `None` if one of them cannot be parsed: conversations of other stores or
/// users must not be offered instead.
fn named_flags(words: impl Iterator<Item = OsString>) -> Option<Flags> {
    let words = whole(words);
    Some(Flags {
        store: named(&words, "--store").map(|store| store.parse()).transpose().ok()?,
        scope: named(&words, "--scope").map(|scope| scope.parse()).transpose().ok()?,
        ..Flags::default()
    })
}

/// The characters at which bash splits a word. Each becomes a separate word.
const DIVIDES: [char; 3] = [':', '=', '@'];

/// The words of a line, joined again where bash has split them.
fn whole(words: impl Iterator<Item = OsString>) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for word in words {
        let word = word.to_string_lossy();
        let divides = |word: &str| !word.is_empty() && word.chars().all(|each| DIVIDES.contains(&each));
        match all.last_mut() {
            // A marker such as `@` may be a separate word, but not the value of a flag.
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
