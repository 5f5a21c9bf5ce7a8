//! What a writer of session files is told, and what it gives.

use rejoin_record::Timestamp;
use rejoin_view::Finding;

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
