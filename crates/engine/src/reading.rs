//! A conversation as it is read from a store: every entry, what is damaged, and the session that leads to its head.

use rejoin_formats::Session;
use rejoin_record::{ConversationId, Entry};
use rejoin_store::{Damage, Store};

use crate::error::EngineError;

/// What becomes of damage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// It is passed over and reported.
    #[default]
    Recover,
    /// It is an error.
    Strict,
}

/// A conversation as it was read.
#[derive(Debug)]
pub struct Recorded {
    /// Its id.
    pub id: ConversationId,
    /// Every entry that can be read, in the order of appending.
    pub entries: Vec<Entry>,
    /// What cannot.
    pub damage: Vec<Damage>,
    /// The messages that lead to the head, with what was found while reading.
    pub session: Session,
}

/// Reads a conversation.
///
/// # Errors
/// If it is not there; strictly, also if something in it is damaged or nothing was said in it.
pub fn read(store: &dyn Store, id: ConversationId, mode: Mode) -> Result<Recorded, EngineError> {
    let _ = (store, id, mode);
    todo!()
}
