//! From what a person types to a conversation: an id, the beginning of one, `@` for the active one, `@1` for the newest.

use rejoin_record::ConversationId;
use rejoin_store::Store;

use crate::error::EngineError;

/// The conversation that is meant.
///
/// # Errors
/// If there is none, or several.
pub fn resolve(
    store: &dyn Store,
    given: &str,
    active: Option<ConversationId>,
) -> Result<ConversationId, EngineError> {
    let _ = (store, given, active);
    todo!()
}
