//! What a writer of session files gets and returns, and what all writers share.

use rejoin_record::Timestamp;
use rejoin_view::{Finding, SoundView};

#[cfg(feature = "sqlite")]
use super::rows::Rows;
use crate::{
    convert::Target,
    session::Session,
    wire::{Encoded, TooLarge, registry::Dialect},
};

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

impl Writing<'_> {
    /// The request that a session would continue with, without a closing message: a person speaks next.
    pub(super) fn encode(
        &self,
        session: &Session,
        view: &SoundView,
        dialect: Dialect,
    ) -> Result<Encoded, TooLarge> {
        let model = self.model.map(str::to_owned);
        let target = Target { model, closes: false, ..Target::of(&session.context) };
        dialect.wire().encode(view, &target)
    }
}

/// A session in the form of an agent.
#[derive(Debug, Clone)]
pub struct Written {
    /// What to store.
    pub content: FileContent,
    /// What had to be changed: at the positions of the view's messages in what a writer returns, at those of the source in
    /// what [`write`](super::write) returns.
    pub findings: Vec<Finding>,
}

/// What to store for an agent.
#[derive(Debug, Clone)]
pub enum FileContent {
    /// The text of a file.
    Text(String),
    /// Rows of the agent's database.
    #[cfg(feature = "sqlite")]
    Rows(Rows),
}

impl Written {
    /// A file with this text.
    #[must_use]
    pub fn text(text: String, findings: Vec<Finding>) -> Self {
        Self { content: FileContent::Text(text), findings }
    }
}

impl FileContent {
    /// The text of the file. `None` if it is a database.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            #[cfg(feature = "sqlite")]
            Self::Rows(_) => None,
        }
    }

    /// The text of the file, without copying it. `None` if it is a database.
    #[must_use]
    pub fn into_text(self) -> Option<String> {
        match self {
            Self::Text(text) => Some(text),
            #[cfg(feature = "sqlite")]
            Self::Rows(_) => None,
        }
    }
}
