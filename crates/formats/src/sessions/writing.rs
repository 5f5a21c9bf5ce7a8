//! What a writer of session files gets and returns, and what all writers share.

use rejoin_record::Timestamp;
use rejoin_view::Finding;

/// What a session file needs and its conversation does not contain. No writer asks for the time or a folder itself.
#[derive(Debug, Clone, Copy)]
pub struct Writing<'w> {
    /// The model that continues the conversation, if one is named.
    pub model: Option<&'w str>,
    /// The time for lines that have none.
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
