//! What is damaged in a file of lines, and where its copies lie.

use std::io;

use rejoin_record::ConversationId;

use super::{Jsonl, pieces};

impl Jsonl {
    /// Removes what was set aside of a conversation: all of it, or what holds some text.
    pub(super) fn forget_asides(&self, conversation: ConversationId, with: Option<&str>) -> io::Result<()> {
        self.asides.forget(&conversation.to_string(), |bytes| {
            with.is_none_or(|text| pieces::find(bytes, text.as_bytes()).is_some())
        })
    }
}
