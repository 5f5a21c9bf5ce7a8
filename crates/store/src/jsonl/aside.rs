//! What is damaged in a file of lines, and where its copies lie.

use std::{io, path::PathBuf};

use rejoin_record::ConversationId;

use super::Jsonl;
use crate::aside::Sought;

impl Jsonl {
    /// What was set aside of a conversation: all of it, or what holds one of some entries.
    pub(super) fn asides_of(
        &self,
        conversation: ConversationId,
        sought: Option<&[Sought]>,
    ) -> io::Result<Vec<PathBuf>> {
        self.asides.holding(&conversation.to_string(), holds(sought))
    }

    /// Removes what was set aside of a conversation: all of it, or what holds one of some entries.
    pub(super) fn forget_asides(
        &self,
        conversation: ConversationId,
        sought: Option<&[Sought]>,
    ) -> io::Result<()> {
        self.asides.forget(&conversation.to_string(), holds(sought))
    }
}

fn holds(sought: Option<&[Sought]>) -> impl Fn(&[u8]) -> bool {
    move |bytes| sought.is_none_or(|sought| sought.iter().any(|sought| sought.is_in(bytes)))
}
