//! What is damaged in a file of lines, and where its copies lie.

use std::io;

use rejoin_record::ConversationId;

use super::Jsonl;
use crate::aside::Sought;

impl Jsonl {
    /// Removes what was set aside of a conversation: all of it, or what holds one of some entries.
    pub(super) fn forget_asides(
        &self,
        conversation: ConversationId,
        sought: Option<&[Sought]>,
    ) -> io::Result<()> {
        self.asides.forget(&conversation.to_string(), |bytes| {
            sought.is_none_or(|sought| sought.iter().any(|sought| sought.is_in(bytes)))
        })
    }
}
