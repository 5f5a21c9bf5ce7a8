//! Writes the draft of an answer. Each piece is written before it is shown.

use std::sync::Arc;

use rejoin_record::{
    Chain, Content, ConversationId, EntryId, Hash, Kind, Message, Origin, Role, chain::Stamp, json::write,
};
use rejoin_store::{DraftFile, Store};

use super::{interrupted, thought};

pub(crate) struct AnswerDraft {
    store: Arc<dyn Store>,
    conversation: ConversationId,
    /// The id, time and salt of the message that the answer will become.
    pub(crate) stamp: Stamp,
    /// The first two lines of the file; empty once they are written.
    beginning: String,
    /// The file; `None` until the first piece is written. It is removed when the message is recorded.
    pub(crate) file: Option<DraftFile>,
    /// Whether creating the file failed. The answer then continues without a draft.
    failed: bool,
}

impl AnswerDraft {
    /// A draft of the message that follows `parent`. The file is created with the first piece.
    pub(crate) fn new(
        (store, conversation): (Arc<dyn Store>, ConversationId),
        mut chain: Chain,
        parent: (EntryId, Hash),
        origin: Origin,
        [stamp, mark]: [Stamp; 2],
    ) -> Self {
        // The origin of its reasoning is kept in a reasoning block without text.
        let message = Content::Message(Message::new(Role::Assistant, vec![thought(origin, "")]));
        let message = chain.append_under(Some(parent), Kind::Message, &message, stamp.clone());
        let mark = chain.append(Kind::Turn, &interrupted(), mark);
        let beginning = format!("{}\n{}\n", message.to_line(), mark.to_line());
        Self { store, conversation, stamp, beginning, file: None, failed: false }
    }

    /// Writes a piece of the answer: of its `text` or its `reasoning`. If the disk fails, the turn continues, and the piece is
    /// still shown.
    pub(crate) fn keep(&mut self, name: &str, text: &str) {
        if self.failed {
            return;
        }
        let mut line = std::mem::take(&mut self.beginning);
        line.push('{');
        write::key(&mut line, name);
        write::string(&mut line, text);
        line.push_str("}\n");
        let file = match &mut self.file {
            Some(file) => file,
            None => match self.store.drafts().map(|drafts| drafts.begin(self.conversation)) {
                Some(Ok(file)) => self.file.insert(file),
                other => {
                    self.failed = true;
                    if let Some(Err(why)) = other {
                        tracing::warn!("the answer has no draft: {why}");
                    }
                    return;
                }
            },
        };
        if let Err(why) = file.append(line.as_bytes()) {
            tracing::debug!("a piece of the draft is not written yet: {why}");
        }
    }

    /// Removes the file, because there is no message to keep.
    pub(crate) fn remove(self) {
        if let Some(Err(why)) = self.file.map(DraftFile::remove) {
            tracing::warn!("{why}");
        }
    }
}
