//! The questions before the first prompt: who shall answer at the very first start, and whether to continue an interrupted
//! conversation of this folder. Both need a terminal, so a script never waits here.

use rejoin::{
    ConversationId,
    engine::provider::registry,
    store::{Query, SessionState, Store},
};

use super::{exchange, providers};
use crate::{
    args::Auth,
    context::{self, CliContext, Flags},
    failure::Failure,
    output::{self, harmless},
    question::ask,
};

/// How many of the newest conversations are examined, so that starting is as fast with many conversations as with few.
const LOOKED_AT: usize = 100;

/// How many characters of a title are shown.
const TITLE: usize = 60;

/// The provider that Enter selects.
const USUAL: &str = "anthropic";

/// The user's decision at the first start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FirstChoice {
    /// Something has changed: look for a provider again.
    LookAgain,
    /// The built-in responder answers.
    BuiltIn,
}

/// Whether this is the first start: the store has no conversation.
pub fn is_first_start(store: Option<&dyn Store>) -> bool {
    let Some(store) = store else { return false };
    store.list(&Query { limit: Some(1), ..Query::default() }).is_ok_and(|page| page.conversations.is_empty())
}

/// Asks who shall answer, if there is neither a key nor a model on this machine.
pub fn ask_who_answers(flags: &Flags) -> Result<FirstChoice, Failure> {
    output::talk("No key was found, and no Ollama answers on this machine. Who should answer?");
    output::talk("  [l]og in to a provider with a key");
    output::talk("  [m]odel on this machine: start Ollama first");
    output::talk("  [b]uilt-in responder: no network and no model, to look around");
    loop {
        match ask("[l]og in, [m]odel here or [b]uilt-in? [b] ").as_deref() {
            None | Some("" | "b" | "built-in") => return Ok(FirstChoice::BuiltIn),
            Some("m" | "model") => {
                output::talk(
                    "Get Ollama at https://ollama.com, and a model with `ollama pull`. Once it runs, answer m again.",
                );
                output::talk("For other servers, see `rejoin set-provider --help`.");
                return Ok(FirstChoice::LookAgain);
            }
            Some("l" | "log in" | "login") => {
                if log_in(flags)? {
                    return Ok(FirstChoice::LookAgain);
                }
            }
            Some(_) => output::talk("Please answer l, m or b."),
        }
    }
}

/// Asks for a provider and its key. Returns whether a key was stored.
fn log_in(flags: &Flags) -> Result<bool, Failure> {
    let names: Vec<&str> = registry::all().map(|service| service.name).collect();
    output::talk(&format!("Providers: {}", names.join(", ")));
    let Some(name) = ask(&format!("Provider: [{USUAL}] ")) else { return Ok(false) };
    let name = if name.is_empty() { USUAL.to_owned() } else { name };
    match providers::auth(Auth::Login { provider: Some(name) }, flags) {
        Ok(code) => Ok(code == 0),
        // A user who presses Ctrl-C at the key wants to leave.
        Err(failure @ Failure::Interrupted) => Err(failure),
        Err(failure) => {
            failure.say();
            Ok(false)
        }
    }
}

/// The newest conversation of this folder, if it was interrupted and the user chooses to continue it.
pub fn offered(cli: &CliContext, store: &dyn Store) -> Result<Option<ConversationId>, Failure> {
    let page = store.list(&Query { limit: Some(LOOKED_AT), ..Query::default() });
    let page = page.map_err(|why| context::unusable(&cli.location, why))?;
    let here = cli.folder.to_string_lossy();
    let newest = page.conversations.iter().find(|summary| summary.about.directory.as_deref() == Some(&*here));
    let Some(newest) = newest.filter(|summary| is_interrupted(summary.shown_state())) else {
        return Ok(None);
    };
    let title = harmless(newest.title.as_deref().unwrap_or("(untitled)"));
    let question = format!(
        "{} here was interrupted: {}. Continue it? [Y/n] ",
        newest.id,
        exchange::shortened_line(&title, TITLE)
    );
    let agreed = ask(&question).is_some_and(|answer| matches!(answer.as_str(), "" | "y" | "yes"));
    Ok(agreed.then_some(newest.id))
}

/// Whether a turn can continue without a new message.
fn is_interrupted(state: SessionState) -> bool {
    use SessionState::{Interrupted, WaitingForApproval, WaitingForModel, WaitingForTools};
    matches!(state, Interrupted | WaitingForApproval | WaitingForModel | WaitingForTools)
}
