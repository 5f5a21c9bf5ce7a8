//! `rejoin chat`: one turn, or a prompt.

use std::sync::Arc;

use rejoin::{
    ConversationId,
    engine::EngineError,
    store::{Query, Store},
};

use super::{
    first::{self, FirstChoice},
    talking::{self, GivenMessage, Opening, Talking},
};
use crate::{
    args::ChatArguments,
    context::{self, CliContext, Flags},
    failure::Failure,
    output,
};

pub fn run(arguments: &ChatArguments, flags: &Flags) -> Result<u8, Failure> {
    let desk = CliContext::new(flags)?;
    let said = talking::message_to_send(arguments.message.as_deref(), &arguments.talk)?;
    let (store, no_store) = talking::store_or_reason(&desk)?;
    let prompts = matches!(said, GivenMessage::Prompt) && !arguments.talk.json;
    let (store, no_store, chosen) = match choose(arguments, &desk, store.as_deref(), prompts) {
        Ok(chosen) => (store, no_store, chosen),
        // The server is away. What is said begins a conversation, which waits in a file.
        Err(why) if arguments.session.is_none() && !arguments.go_on && why.can_wait() => {
            if let Ok(Some(active)) = desk.pointer().get() {
                output::note(format!(
                    "{active} cannot be read while the server is away; this is a new conversation"
                ));
            }
            (store, no_store, None)
        }
        // The active conversation is there and cannot be read. No other takes its place, and the answer stays in memory.
        Err(why) if arguments.session.is_none() && why.hides_conversations() => (None, Some(why), None),
        Err(why) => return Err(why),
    };
    let mut talking = match (chosen, &store) {
        (Some(id), Some(store)) => {
            let opening = match said {
                GivenMessage::Prompt => Opening::Prompt,
                GivenMessage::Text(_) => Opening::Say,
            };
            let mut talking = Talking::open(&desk, store, id, &arguments.talk, ("rejoin chat", opening))?;
            if prompts {
                talking.offer_to_go_on();
            }
            talking
        }
        _ => begin(arguments, flags, &desk, store.as_ref(), prompts)?,
    };
    match (chosen, &no_store) {
        (Some(id), _) => talking.say_who_answers(&format!("continuing {id} with")),
        (None, None) => talking.say_who_answers("new conversation with"),
        (None, Some(_)) => talking.say_who_answers("without earlier messages, answering with"),
    }
    match no_store {
        None => talking.make_active(&desk),
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

/// Starts a conversation. At the very first start, a person without a key and without a local model is asked who is to answer.
fn begin(
    arguments: &ChatArguments,
    flags: &Flags,
    desk: &CliContext,
    store: Option<&Arc<dyn Store>>,
    prompts: bool,
) -> Result<Talking, Failure> {
    let mut talking = Talking::begin(desk, store, &arguments.talk)?;
    let asks = prompts && first::is_first_start(store.map(|store| &**store));
    while asks && talking.is_makeshift() && first::ask_who_answers(flags)? == FirstChoice::LookAgain {
        talking = Talking::begin(desk, store, &arguments.talk)?;
    }
    Ok(talking)
}

/// Chooses the conversation to continue; none for a new one.
fn choose(
    arguments: &ChatArguments,
    desk: &CliContext,
    store: Option<&dyn Store>,
    prompts: bool,
) -> Result<Option<ConversationId>, Failure> {
    if let Some(given) = &arguments.session {
        return match store {
            Some(store) => desk.resolve(store, given).map(Some),
            None => desk.find(given).map(|(_, id)| Some(id)),
        };
    }
    if arguments.new {
        return Ok(None);
    }
    let Some(store) = store else { return Ok(None) };
    let active = desk.active(store)?;
    if active.is_none() && !desk.scope.is_open() {
        // A bot may call from anywhere; what its user said last goes on.
        let newest = store.list(&Query { limit: Some(1), ..Query::default() });
        let newest = newest.map_err(|why| context::unusable(&desk.location, why))?.conversations;
        let newest = newest.first().map(|summary| summary.id);
        return match newest.is_none() && arguments.go_on {
            true => Err(Failure::Engine(Box::new(EngineError::NoActive))),
            false => Ok(newest),
        };
    }
    if active.is_none() && arguments.go_on {
        let here = desk.folder.to_string_lossy();
        let newest =
            context::newest_of(store, &here).map_err(|why| context::unusable(&desk.location, why))?;
        return newest.map(Some).ok_or_else(|| Failure::Engine(Box::new(EngineError::NoActive)));
    }
    if active.is_none() && prompts {
        return first::offered(desk, store);
    }
    Ok(active)
}
