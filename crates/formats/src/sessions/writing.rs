//! What a writer of session files is told, and what it gives.

use rejoin_record::{EntryId, Timestamp};
use rejoin_view::Finding;

use crate::session::Session;

/// What a session file needs to know that its conversation does not say. No writer looks at a clock or a folder by itself.
#[derive(Debug, Clone, Copy)]
pub struct Writing<'w> {
    /// The model that the conversation goes on with, if one is named.
    pub model: Option<&'w str>,
    /// The time for what has none of its own.
    pub now: Timestamp,
    /// The folder for a conversation that names none.
    pub directory: &'w str,
}

/// A session file.
#[derive(Debug, Clone)]
pub struct Written {
    /// Its text.
    pub text: String,
    /// What had to be changed, at the positions of the view's messages.
    pub findings: Vec<Finding>,
}

/// The id that a session gets in a file of that format: the same every time, and not the source's own, so that the source
/// can stay where it is.
#[must_use]
pub fn uuid(session: &Session, format: &str) -> String {
    EntryId::derive(&session.id, "written", format).as_uuid().to_string()
}
