//! Handles the drafts of answers of a conversation: begins one, appends one that a killed process left, and removes one that is
//! recorded.

#[cfg(feature = "agent")]
use std::sync::Arc;

#[cfg(feature = "agent")]
use rejoin_record::{Content, Origin, Tail};
use rejoin_store::DraftFile;

use super::{Conversation, Home};
use crate::draft;
#[cfg(feature = "agent")]
use crate::reading::Numbering;
#[cfg(feature = "agent")]
use crate::{
    clock::stamp,
    conversation::Appended,
    draft::{AnswerDraft, DraftEvidence, LeftDraft},
};

/// A draft on disk whose message is among the entries. It is removed when the message is stored. It holds the open file if this
/// process wrote it.
pub(super) struct DraftToRemove(pub(super) Option<DraftFile>);

impl Conversation {
    /// Appends the entries of a draft that another process left, and removes the draft.
    pub(super) fn keep_left_draft(&mut self) {
        if self.draft.is_some() {
            self.save();
        } else if let Some(Home { store, .. }) = &self.home
            && let Err(why) = draft::discard(&**store, self.id)
        {
            tracing::warn!("the draft of {} was not removed: {why}", self.id);
        }
    }

    /// Begins a draft of the next answer, which follows the head. `None` if some entries are not stored, or another process writes
    /// to the conversation.
    #[cfg(feature = "agent")]
    pub(crate) fn begin_draft(&self, origin: Origin) -> Option<AnswerDraft> {
        let home = self.home.as_ref().filter(|home| home.lock.is_some())?;
        home.store.drafts()?;
        if !self.unsaved().is_empty() || self.draft.is_some() {
            return None;
        }
        let stamps = [stamp(&*self.clock, None), stamp(&*self.clock, None)];
        let place = (Arc::clone(&home.store), self.id);
        Some(AnswerDraft::new(place, self.chain(), self.head?, origin, stamps))
    }

    /// Takes in the draft of a turn whose future was dropped.
    #[cfg(feature = "agent")]
    pub(crate) fn take_in_draft(&mut self) {
        let Some(home) = self.home.as_ref().filter(|home| home.lock.is_some()) else { return };
        if self.draft.is_some() {
            return;
        }
        let Some(left) = LeftDraft::find(&*home.store, self.id) else { return };
        let mut found = DraftEvidence::default();
        self.entries.iter().for_each(|entry| found.note(&left, entry));
        let Some(tail) = self.unsaved().last().map(Tail::of).or(self.after) else { return };
        let entries = left.entries(&found, tail);
        if let Some(last) = entries.last() {
            self.draft = Some(DraftToRemove(None));
            self.head = Some((last.id(), last.hash()));
            self.entries.extend(entries);
            self.forget();
        }
        self.keep_left_draft();
    }

    /// Appends an answer in place of its draft, if it has one, together with the entries that follow it in the same write.
    #[cfg(feature = "agent")]
    pub(crate) fn append_answer(
        &mut self,
        content: &Content,
        draft: Option<AnswerDraft>,
        then: Option<&Content>,
    ) -> Appended {
        let stamp = match draft {
            Some(draft) => {
                self.draft = draft.file.map(|file| DraftToRemove(Some(file)));
                draft.stamp
            }
            None => stamp(&*self.clock, None),
        };
        let entry = self.add_as(content, stamp);
        // Lines are stored one by one, and the draft is removed together with the line that replaces it.
        if self.numbering == Numbering::Lines {
            self.save();
        }
        then.map(|then| self.add(then));
        self.saved_as(entry)
    }

    /// Removes the draft, because everything is stored now.
    pub(super) fn remove_draft(&mut self) {
        let removed = match (self.draft.take(), &self.home) {
            (Some(DraftToRemove(Some(file))), _) => file.remove(),
            (Some(DraftToRemove(None)), Some(home)) => draft::discard(&*home.store, self.id),
            _ => Ok(()),
        };
        if let Err(why) = removed {
            tracing::warn!("{why}");
        }
    }
}
