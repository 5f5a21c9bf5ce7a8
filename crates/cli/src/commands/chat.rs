//! `rejoin chat`: one turn, or a prompt.

use std::sync::Arc;

use rejoin::{
    ConversationId,
    engine::EngineError,
    store::{Query, Store},
};

use super::{
    first::{self, FirstChoice},
    talking::{self, GivenMessage, OpenConversation, OpenPurpose},
};
use crate::{
    args::ChatArguments,
    context::{self, CliContext, Flags},
    failure::Failure,
    output,
};

pub fn run(arguments: &ChatArguments, flags: &Flags) -> Result<u8, Failure> {
    let cli = CliContext::new(flags)?;
    let said = talking::message_to_send(arguments.message.as_deref(), &arguments.talk)?;
    let (store, no_store) = talking::store_or_reason(&cli)?;
    let prompts = matches!(said, GivenMessage::Prompt) && !arguments.talk.json;
    let (store, no_store, chosen) = match choose(arguments, &cli, store.as_deref(), prompts) {
        Ok(chosen) => (store, no_store, chosen),
        // The server is unreachable. The message begins a new conversation, which waits in a file.
        Err(why) if arguments.session.is_none() && !arguments.go_on && why.can_wait() => {
            if let Ok(Some(active)) = cli.pointer().get() {
                output::note(format!(
                    "{active} cannot be read while the server is away; this is a new conversation"
                ));
            }
            (store, no_store, None)
        }
        // The active conversation exists but cannot be read. It stays active, and the answer stays in memory.
        Err(why) if arguments.session.is_none() && why.hides_conversations() => (None, Some(why), None),
        Err(why) => return Err(why),
    };
    let mut talking = match (chosen, &store) {
        (Some(id), Some(store)) => {
            let purpose = match said {
                GivenMessage::Prompt => OpenPurpose::Prompt,
                GivenMessage::Text(_) => OpenPurpose::Say,
            };
            let mut talking =
                OpenConversation::open(&cli, store, id, &arguments.talk, ("rejoin chat", purpose))?;
            if prompts {
                talking.offer_to_go_on();
            }
            talking
        }
        _ => begin(arguments, flags, &cli, store.as_ref(), prompts)?,
    };
    match (chosen, &no_store) {
        (Some(id), _) => talking.say_who_answers(&format!("continuing {id} with")),
        (None, None) => talking.say_who_answers("new conversation with"),
        (None, Some(_)) => talking.say_who_answers("without earlier messages, answering with"),
    }
    match no_store {
        None => talking.make_active(&cli),
        Some(why) => {
            if matches!(said, GivenMessage::Prompt) {
                why.say();
            }
            talking.no_store = Some(why);
        }
    }
    match said {
        GivenMessage::Text(text) => talking.once(text.into()),
        GivenMessage::Prompt => talking.prompt(),
    }
}

/// Starts a conversation. At the very first start, if there is neither a key nor a local model, the user is asked who shall answer.
fn begin(
    arguments: &ChatArguments,
    flags: &Flags,
    cli: &CliContext,
    store: Option<&Arc<dyn Store>>,
    prompts: bool,
) -> Result<OpenConversation, Failure> {
    let mut talking = OpenConversation::begin(cli, store, &arguments.talk)?;
    let asks = prompts && first::is_first_start(store.map(|store| &**store));
    while asks && talking.is_makeshift() && first::ask_who_answers(flags)? == FirstChoice::LookAgain {
        talking = OpenConversation::begin(cli, store, &arguments.talk)?;
    }
    Ok(talking)
}

/// Chooses the conversation to continue; `None` for a new one.
fn choose(
    arguments: &ChatArguments,
    cli: &CliContext,
    store: Option<&dyn Store>,
    prompts: bool,
) -> Result<Option<ConversationId>, Failure> {
    if let Some(given) = &arguments.session {
        return match store {
            Some(store) => cli.resolve(store, given).map(Some),
            None => cli.find(given).map(|(_, id)| Some(id)),
        };
    }
    if arguments.new {
        return Ok(None);
    }
    let Some(store) = store else { return Ok(None) };
    let active = cli.active(store)?;
    if active.is_none() && !cli.scope.is_open() {
        // A bot may call from any folder, so continue its user's newest conversation.
        let newest = store.list(&Query { limit: Some(1), ..Query::default() });
        let newest = newest.map_err(|why| context::unusable(&cli.location, why))?.conversations;
        let newest = newest.first().map(|summary| summary.id);
        return match newest.is_none() && arguments.go_on {
            true => Err(Failure::Engine(Box::new(EngineError::NoActive))),
            false => Ok(newest),
        };
    }
    if active.is_none() && arguments.go_on {
        let here = cli.folder.to_string_lossy();
        let newest = context::newest_of(store, &here).map_err(|why| context::unusable(&cli.location, why))?;
        return newest.map(Some).ok_or_else(|| Failure::Engine(Box::new(EngineError::NoActive)));
    }
    if active.is_none() && prompts {
        return first::offered(cli, store);
    }
    Ok(active)
}
