//! The draft of an answer: the part that was shown, until its message is recorded.
//!
//! A worker writes every piece of an answer to a file beside the store before it is shown (`writing.rs`). The file begins with two
//! entries, one per line: the message, without its text, and the `turn` entry that marks it interrupted. The pieces follow, one JSON
//! object per line. When the message is durable, the file is removed.
//!
//! A file whose writer is gone ([`LeftDraft`]) holds the text that the killed process had shown. Readers add its two entries, with
//! that text, to the end of the record ([`read`]). The next writer, which holds the conversation's lock, appends the same entries
//! and removes the file ([`absorb`]). A complete answer is recorded under the id that its draft names, so a draft whose message is
//! already recorded is recognised, and no text appears twice.

#[cfg(feature = "agent")]
mod writing;

use std::ops::ControlFlow;

use rejoin_record::{
    Block, BlockKind, Chain, Content, ConversationId, Entry, EntryId, Hash, Kind, Message, Origin, Reasoning,
    Role, Tail, Text, Tree,
    chain::Stamp,
    content::{Branch, Turn, TurnState},
    json::Doc,
};
use rejoin_store::{Damage, OnItem, Page, Query, StoragePlace, Store, StoreError, StoredItem, Summary};
use rejoin_view::PathState;
#[cfg(feature = "agent")]
pub(crate) use writing::AnswerDraft;

use crate::{digest::digest_of, state::listed};

/// The reasoning and the text of an answer that was cut, as a message. None if both are blank.
pub(crate) fn cut_message(origin: Origin, reasoning: &str, text: &str) -> Option<Message> {
    let mut blocks = Vec::new();
    if !reasoning.trim().is_empty() {
        blocks.push(thought(origin, reasoning));
    }
    if !text.trim().is_empty() {
        blocks.push(Block::text(Text::new(text)));
    }
    (!blocks.is_empty()).then(|| Message::new(Role::Assistant, blocks))
}

fn thought(mut origin: Origin, text: &str) -> Block {
    origin.incomplete = true;
    let reasoning = Reasoning { text: Text::new(text), sealed: false, origin };
    Block::new(BlockKind::Reasoning(Box::new(reasoning)))
}

fn interrupted() -> Content {
    Content::Turn(Turn::new(TurnState::Interrupted, None))
}

/// A draft whose writer is gone.
pub(crate) struct LeftDraft {
    message: Stamp,
    mark: Stamp,
    /// The entry that the message was meant to follow.
    parent: Option<EntryId>,
    origin: Origin,
    reasoning: String,
    text: String,
}

impl LeftDraft {
    /// The draft that a killed process left for a conversation, if it can be read.
    pub(crate) fn find(store: &dyn Store, conversation: ConversationId) -> Option<Self> {
        Self::parse(&store.drafts()?.left_behind(conversation)?)
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        // The last character may be cut in the middle.
        let text = match std::str::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => std::str::from_utf8(&bytes[..error.valid_up_to()]).ok()?,
        };
        let mut lines = text.split_inclusive('\n');
        let mut entry = || Entry::from_line(lines.next()?.strip_suffix('\n')?).ok();
        let (message, mark) = (entry()?, entry()?);
        let Content::Message(template) = Content::of(&message) else { return None };
        let origin = template.blocks.into_iter().find_map(|block| match block.kind {
            BlockKind::Reasoning(reasoning) => Some(reasoning.origin),
            _ => None,
        });
        let mut draft = Self {
            parent: message.envelope().parent,
            message: stamp_of(&message)?,
            mark: stamp_of(&mark)?,
            origin: origin.unwrap_or_default(),
            reasoning: String::new(),
            text: String::new(),
        };
        lines.for_each(|line| draft.add(line));
        Some(draft)
    }

    /// Adds one piece, or the part of it that was written.
    fn add(&mut self, line: &str) {
        if line.ends_with('\n') {
            self.piece(line);
            return;
        }
        // The line was cut inside its string, perhaps in the middle of an escape.
        for (end, _) in line.char_indices().rev().map(|(at, last)| (at + last.len_utf8(), last)).take(ESCAPE)
        {
            if self.piece(&format!("{}\"}}", &line[..end])) {
                return;
            }
        }
    }

    fn piece(&mut self, line: &str) -> bool {
        // An escape that was cut is parsed as letters and reported as a fault: try a shorter beginning.
        let Some(doc) = Doc::parse(line).ok().filter(|doc| doc.first_fault().is_none()) else { return false };
        let field = |name: &str| doc.root()?.given(name)?.as_str();
        self.text.push_str(&field("text").unwrap_or_default());
        self.reasoning.push_str(&field("reasoning").unwrap_or_default());
        true
    }

    /// The part of the message that was shown; `None` if no text was shown.
    fn shown(&self) -> Option<Message> {
        cut_message(self.origin.clone(), &self.reasoning, &self.text)
    }

    /// The entries to append to a record: empty if the message is already recorded, or blank.
    ///
    /// If the record grew in the meantime, the message goes under its own parent, and a `branch` entry returns to the head.
    pub(crate) fn entries(self, found: &DraftEvidence, tail: Tail) -> Vec<Entry> {
        let head = (tail.id, tail.hash);
        let mut chain = Chain::at(Some(tail));
        if found.recorded {
            // A process that was storing the draft was killed between its two entries.
            let is_unmarked = found.recorded_cut && tail.id == self.message.id;
            return is_unmarked
                .then(|| chain.append(Kind::Turn, &interrupted(), self.mark))
                .into_iter()
                .collect();
        }
        let Some(message) = self.shown() else { return Vec::new() };
        let parent = self.parent.zip(found.parent).unwrap_or(head);
        let message =
            chain.append_under(Some(parent), Kind::Message, &Content::Message(message), self.message);
        let mark = if parent.0 == head.0 {
            chain.append(Kind::Turn, &interrupted(), self.mark)
        } else {
            let reason = Some(Text::new("the conversation had gone on without the answer that was cut"));
            let back = Content::Branch(Branch { reason });
            chain.append_under(Some(head), Kind::Branch, &back, self.mark)
        };
        vec![message, mark]
    }
}

/// The longest part of an escape that a cut can leave, in characters: most of `\ud83d\ude00`.
const ESCAPE: usize = 12;

fn stamp_of(entry: &Entry) -> Option<Stamp> {
    let envelope = entry.envelope();
    let salt = entry.content()?.salt;
    Some(Stamp { id: envelope.id, timestamp: envelope.timestamp, salt, source_time: None })
}

/// The parts of a record that matter to a draft.
#[derive(Debug, Default)]
pub(crate) struct DraftEvidence {
    /// Whether the draft's message is recorded already.
    recorded: bool,
    /// Whether the recorded message is the cut one of the draft. A complete answer is not.
    recorded_cut: bool,
    /// The hash of the entry that the draft follows, if that can be read.
    parent: Option<Hash>,
}

impl DraftEvidence {
    pub(crate) fn note(&mut self, draft: &LeftDraft, entry: &Entry) {
        if entry.id() == draft.message.id {
            self.recorded = true;
            self.recorded_cut = matches!(Content::of(entry), Content::Message(message) if Some(&message) == draft.shown().as_ref());
        }
        if Some(entry.id()) == draft.parent {
            self.parent = Some(entry.hash());
        }
    }
}

/// Reads a conversation from its beginning, as [`Store::read`] does, and then the entries of a draft that a killed process left.
/// Returns the number of those entries, which are not stored yet.
pub(crate) fn read(store: &dyn Store, id: ConversationId, each: OnItem<'_>) -> Result<usize, StoreError> {
    // Look for the draft first: if it is absorbed meanwhile, its message is then read from the store.
    let Some(draft) = LeftDraft::find(store, id) else { return store.read(id, 0, each).map(|()| 0) };
    let (mut found, mut flow) = (DraftEvidence::default(), ControlFlow::Continue(()));
    store.read(id, 0, &mut |item| {
        if let StoredItem::Entry(entry) = &item {
            found.note(&draft, entry);
        }
        flow = each(item);
        flow
    })?;
    let Some(tail) = store.tail(id)?.filter(|_| flow.is_continue()) else { return Ok(0) };
    let entries = draft.entries(&found, tail);
    let count = entries.len();
    for entry in entries {
        if each(StoredItem::Entry(entry)).is_break() {
            break;
        }
    }
    Ok(count)
}

/// All readable entries of a conversation, those of a draft last, and the number of entries from the draft.
pub(crate) fn read_entries(store: &dyn Store, id: ConversationId) -> Result<(Vec<Entry>, usize), StoreError> {
    let mut entries = Vec::new();
    let drafted = read(store, id, &mut |item| {
        if let StoredItem::Entry(entry) = item {
            entries.push(entry);
        }
        ControlFlow::Continue(())
    })?;
    Ok((entries, drafted))
}

pub(crate) fn is_left_behind(store: &dyn Store, id: ConversationId) -> bool {
    store.drafts().is_some_and(|drafts| drafts.left_behind(id).is_some())
}

/// Appends the draft that a killed process left to its conversation, and removes it. The caller holds the conversation's lock. If
/// the store cannot be written now, the draft stays for the next writer.
pub(crate) fn absorb(store: &dyn Store, id: ConversationId) {
    if !is_left_behind(store, id) {
        return;
    }
    let absorbed = (|| {
        let (entries, drafted) = read_entries(store, id)?;
        if drafted > 0 {
            store.append(id, store.tail(id)?, &entries[entries.len() - drafted..])?;
        }
        discard(store, id)
    })();
    if let Err(why) = absorbed {
        tracing::warn!("the draft of {id} was not removed: {why}");
    }
}

/// Removes a draft that is no longer needed. One that cannot be read is set aside first. The caller holds the conversation's lock.
pub(crate) fn discard(store: &dyn Store, id: ConversationId) -> Result<(), StoreError> {
    let Some(drafts) = store.drafts() else { return Ok(()) };
    let Some(bytes) = drafts.left_behind(id) else { return Ok(()) };
    if LeftDraft::parse(&bytes).is_none() {
        let why = String::from("the draft of an answer cannot be read");
        store.set_aside(id, &Damage { place: StoragePlace::Store, why, bytes, torn: true })?;
    }
    drafts.remove(id)
}

/// Lists conversations, newest first, as [`Store::list`] does. An answer that was cut by a kill counts as recorded.
pub fn list(store: &dyn Store, query: &Query) -> Result<Page, StoreError> {
    let mut page = store.list(query)?;
    let drafted = store.drafts().map(rejoin_store::Drafts::conversations).unwrap_or_default();
    for summary in page.conversations.iter_mut().filter(|summary| drafted.contains(&summary.id)) {
        add_draft(store, summary)?;
    }
    Ok(page)
}

/// A conversation's summary, as [`Store::summary`] returns it. An answer that was cut by a kill counts as recorded.
pub fn summary(store: &dyn Store, id: ConversationId) -> Result<Summary, StoreError> {
    let mut summary = store.summary(id)?;
    add_draft(store, &mut summary)?;
    Ok(summary)
}

fn add_draft(store: &dyn Store, summary: &mut Summary) -> Result<(), StoreError> {
    if !is_left_behind(store, summary.id) {
        return Ok(());
    }
    let (entries, drafted) = read_entries(store, summary.id)?;
    // Keep the summary's time: the list is sorted by it.
    let updated = summary.updated;
    for entry in &entries[entries.len() - drafted..] {
        summary.add(entry, digest_of(entry, Content::of(entry)));
    }
    summary.updated = updated;
    summary.state = listed(&PathState::of(&Tree::new(&entries)));
    Ok(())
}

#[cfg(test)]
mod tests;
