//! From what a person types to a conversation: an id, the beginning of one, `@` for the active one, `@1` for the newest.

use rejoin_record::ConversationId;
use rejoin_store::{Query, Store};

use crate::error::EngineError;

/// How many of the conversations that a beginning fits are named.
const NAMED: usize = 10;

/// The conversation that is meant.
///
/// # Errors
/// If there is none, or several.
pub fn resolve(
    store: &dyn Store,
    given: &str,
    active: Option<ConversationId>,
) -> Result<ConversationId, EngineError> {
    let unknown = || EngineError::Unknown(given.to_owned());
    let given = given.trim();
    if given == "@" {
        return active.ok_or(EngineError::NoActive);
    }
    if let Some(number) = given.strip_prefix('@') {
        let number: usize = number.parse().ok().filter(|number| *number > 0).ok_or_else(unknown)?;
        let page = store.list(&Query { limit: Some(number), after: None })?;
        let found = page.conversations.get(number - 1);
        return found.map(|summary| summary.id).ok_or_else(unknown);
    }
    if given.is_empty() {
        return Err(unknown());
    }
    match &store.ids(given, NAMED)?[..] {
        [] => Err(unknown()),
        [id] => Ok(*id),
        several => Err(EngineError::Ambiguous { given: given.to_owned(), ids: several.to_vec() }),
    }
}
