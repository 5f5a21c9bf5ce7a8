//! Computes the content that erasing or deleting removes, and which of it other conversations keep. It changes nothing: `--dry-run`
//! shows the result, and the report afterwards does.

use std::{collections::HashSet, ops::ControlFlow, path::PathBuf};

use rejoin_record::{Content, ConversationId, Entry, EntryId, Kind, Text};
use rejoin_store::{Store, StoreError, StoredItem};

use crate::{digest::digest_of, draft};

/// The shortest text, in characters, by which two messages count as copies. Shorter texts, such as "go on", are common.
const TELLING: usize = 16;

/// The content that an erasure or a deletion would remove.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Removal {
    /// The files to remove: in a JSONL store the conversation itself; the draft of an answer; damage that was set aside.
    pub files: Vec<PathBuf>,
    /// The number of messages whose content is removed.
    pub messages: u64,
    /// The number of recorded file changes to remove: the files' content before and after the calls of a removed message.
    pub changes: u64,
    /// The number of entries whose content is removed: messages, changes, contexts, commands, summaries, and the bookkeeping of turns.
    pub entries: u64,
    /// Other conversations that hold some of the content and keep it, ordered by id.
    pub sharers: Vec<Sharer>,
    /// The length of the removed content, in bytes. It may be compressed on disk.
    pub bytes: u64,
    /// Other conversations that cannot be read. They may hold some of the content, too.
    pub unread: Vec<ConversationId>,
}

/// A conversation that keeps content that another one loses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sharer {
    /// The conversation's id.
    pub id: ConversationId,
    /// The conversation's title, if it has one.
    pub title: Option<String>,
    /// The number of its entries that hold such content.
    pub entries: u64,
    /// Whether it holds the same entries, as a fork does. Otherwise only the text is equal, which may be a coincidence.
    pub is_fork: bool,
}

/// Computes what would be removed with some entries of a conversation, or with all of it if none are named. Reads every
/// conversation of the store.
pub fn removal(
    store: &dyn Store,
    id: ConversationId,
    entries: Option<&[EntryId]>,
) -> Result<Removal, StoreError> {
    let mut removal = Removal::default();
    let (mut ids, mut texts) = (HashSet::new(), HashSet::new());
    let mut gone: Vec<EntryId> = entries.unwrap_or_default().to_vec();
    draft::read(store, id, &mut |item| {
        if let StoredItem::Entry(entry) = item
            && entries.is_none_or(|wanted| wanted.contains(&entry.id()) || goes_with(&entry, wanted))
            && let Some(body) = entry.body()
        {
            removal.entries += 1;
            removal.messages += u64::from(entry.envelope().kind == Kind::Message);
            removal.changes += u64::from(entry.envelope().kind == Kind::Change);
            gone.push(entry.id());
            removal.bytes += body.as_str().len() as u64;
            if holds_content(&entry) {
                ids.insert(entry.id());
                texts.extend(telling_text(&entry));
            }
        }
        ControlFlow::Continue(())
    })?;
    removal.files = store.files_that_go(id, entries.map(|_| gone.as_slice()))?;
    removal.files.sort();
    if ids.is_empty() {
        return Ok(removal);
    }
    for other in store.ids("", usize::MAX)?.into_iter().filter(|other| *other != id) {
        let mut sharer = Sharer { id: other, title: None, entries: 0, is_fork: false };
        let read = store.each_entry(other, |entry| {
            let is_same = ids.contains(&entry.id());
            let is_alike = || telling_text(&entry).is_some_and(|text| texts.contains(&text));
            if holds_content(&entry) && (is_same || (!texts.is_empty() && is_alike())) {
                sharer.entries += 1;
                sharer.is_fork |= is_same;
            }
        });
        match read {
            // It was deleted in the meantime.
            Err(StoreError::NotFound(_)) => continue,
            Err(_) => removal.unread.push(other),
            Ok(()) => {}
        }
        if sharer.entries > 0 {
            sharer.title = store.summary(other).ok().and_then(|summary| summary.title);
            removal.sharers.push(sharer);
        }
    }
    Ok(removal)
}

/// Whether an entry records a file change that a call of one of these messages made. It holds the file's old content, and is erased
/// with the message.
pub(crate) fn goes_with(entry: &Entry, messages: &[EntryId]) -> bool {
    entry.envelope().kind == Kind::Change
        && matches!(Content::of(entry), Content::Change(change) if messages.contains(&change.call.entry))
}

/// Whether an entry holds content of a person, a model or a tool. Bookkeeping, such as the end of a turn, is the same in every
/// conversation.
fn holds_content(entry: &Entry) -> bool {
    use Kind::{Change, Command, Compacted, Context, Message, Raw, Snapshot};
    let kinds = [Message, Command, Context, Compacted, Snapshot, Raw, Change];
    entry.content().is_some() && kinds.contains(&entry.envelope().kind)
}

/// The text of an entry, if it is long enough to identify a copy.
fn telling_text(entry: &Entry) -> Option<Text> {
    let text = digest_of(entry, Content::of(entry)).words?.text;
    (text.chars().nth(TELLING - 1).is_some()).then_some(text)
}
