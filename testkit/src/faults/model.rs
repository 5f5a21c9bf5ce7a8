//! The required content of a store, computed from its writers' reports.

use std::{
    collections::{BTreeMap, HashSet},
    ops::ControlFlow,
};

use rejoin_record::{Content, ConversationId, Entry, EntryId, Hash, Kind, Tree, verify::verify};
use rejoin_store::{Query, Store, StoreError, StoredItem};

use super::child::ChildOutput;

/// The message for a store that has everything acknowledged, and something that does not belong to it.
pub(super) const PIECES: &str = "the entries do not add up";

/// The facts about one conversation.
#[derive(Debug, Default, Clone)]
pub struct Model {
    acknowledged: BTreeMap<u64, (EntryId, Hash)>,
    tried: HashSet<(u64, EntryId, Hash)>,
    erasing: HashSet<EntryId>,
    erased: HashSet<EntryId>,
    /// Entries without content when they were passed to the store: a copy may be cut before the note about them.
    begun_erased: HashSet<EntryId>,
}

impl Model {
    /// Takes in a writer's reports.
    pub fn hear(&mut self, said: &ChildOutput) {
        self.tried.extend(said.tried.iter().copied());
        self.acknowledged.extend(said.acknowledged.iter().map(|(seq, id, hash)| (*seq, (*id, *hash))));
        self.erasing.extend(said.erasing.iter().copied());
        self.erased.extend(said.erased.iter().copied());
    }

    pub(super) fn try_entries(&mut self, entries: &[(u64, EntryId, Hash)]) {
        self.tried.extend(entries.iter().copied());
    }

    pub(super) fn try_erasing(&mut self, entry: EntryId) {
        self.erasing.insert(entry);
    }

    pub(super) fn begin_erased(&mut self, entry: EntryId) {
        self.begun_erased.insert(entry);
    }

    pub(super) fn acknowledge(&mut self, entries: &[(u64, EntryId, Hash)]) {
        self.acknowledged.extend(entries.iter().map(|(seq, id, hash)| (*seq, (*id, *hash))));
    }

    pub(super) fn acknowledge_erasing(&mut self, entry: EntryId) {
        self.erased.insert(entry);
    }

    /// How many entries were acknowledged.
    #[must_use]
    pub fn acknowledged(&self) -> usize {
        self.acknowledged.len()
    }

    /// Compares a store with its writers' acknowledgements. Returns its content.
    ///
    /// # Errors
    /// The difference.
    pub fn check(&self, store: &dyn Store, conversation: ConversationId) -> Result<Vec<Entry>, String> {
        let entries = match read(store, conversation) {
            Err(StoreError::NotFound(_)) if self.acknowledged.is_empty() => return Ok(Vec::new()),
            read => read.map_err(|why| format!("it cannot be read: {why}"))?,
        };
        self.compare(&entries)?;
        verified(store, Some(conversation))?;
        other_ways(store, conversation, &entries)?;
        Ok(entries)
    }

    fn compare(&self, entries: &[Entry]) -> Result<(), String> {
        for (seq, (id, hash)) in &self.acknowledged {
            let entry = entries.iter().find(|entry| entry.envelope().seq == *seq);
            let there = entry.is_some_and(|entry| entry.id() == *id && entry.hash() == *hash);
            if !there {
                return Err(format!("entry {seq} ({id}) was acknowledged and is lost; there is {entry:?}"));
            }
        }
        let found = verify(entries);
        if !found.is_empty() {
            return Err(format!("{PIECES}: {found:?}"));
        }
        for entry in entries {
            let said = (entry.envelope().seq, entry.id(), entry.hash());
            if !self.tried.contains(&said) {
                return Err(format!("this entry was never written: {said:?}"));
            }
            let gone = entry.content().is_none();
            if self.begun_erased.contains(&entry.id()) {
                continue;
            }
            if gone && !self.erasing.contains(&entry.id()) {
                return Err(format!("the content of {} is gone, but it was not erased", entry.id()));
            }
            if !gone && self.erased.contains(&entry.id()) {
                return Err(format!("{} was erased, but its content still exists", entry.id()));
            }
        }
        // An entry without content has a note about its erasure.
        let notes = entries.iter().filter_map(noted);
        let notes: HashSet<EntryId> = notes.chain(self.begun_erased.iter().copied()).collect();
        let silent = entries.iter().find(|entry| entry.content().is_none() && !notes.contains(&entry.id()));
        silent.map_or(Ok(()), |entry| Err(format!("{} lost its content without a note", entry.id())))
    }
}

/// Verifies a conversation, or a whole store. Torn ends do not count as faults.
///
/// # Errors
/// The fault.
pub fn verified(store: &dyn Store, conversation: Option<ConversationId>) -> Result<(), String> {
    let mut problems = Vec::new();
    let verified = store.verify(conversation, &mut |problem| {
        if !problem.torn {
            problems.push(format!("{}: {}", problem.place, problem.what));
        }
    });
    verified.map_err(|why| format!("it cannot be verified: {why}"))?;
    if problems.is_empty() { Ok(()) } else { Err(format!("verify finds {problems:?}")) }
}

fn noted(entry: &Entry) -> Option<EntryId> {
    match (entry.envelope().kind == Kind::Erased).then(|| Content::of(entry))? {
        Content::Erased(erased) => Some(erased.entry),
        _ => None,
    }
}

fn read(store: &dyn Store, conversation: ConversationId) -> Result<Vec<Entry>, StoreError> {
    let mut entries = Vec::new();
    store.read(conversation, 0, &mut |item| {
        if let StoredItem::Entry(entry) = item {
            entries.push(entry);
        }
        ControlFlow::Continue(())
    })?;
    Ok(entries)
}

/// The tail, the path back from it, and the list agree.
fn other_ways(store: &dyn Store, conversation: ConversationId, entries: &[Entry]) -> Result<(), String> {
    let tail = store.tail(conversation).map_err(|why| format!("the tail cannot be read: {why}"))?;
    let newest = entries.last().map(|entry| entry.id());
    if tail.map(|tail| tail.id) != newest {
        return Err(format!("the tail is {tail:?}, the newest entry {newest:?}"));
    }
    let tree = Tree::new(entries);
    let (path, _) = tree.path();
    if path.first().is_some_and(|root| root.envelope().parent.is_some()) {
        return Err(format!("the way back ends after {} entries, not at the header", path.len()));
    }
    let page = store.list(&Query::default()).map_err(|why| format!("it cannot be listed: {why}"))?;
    let listed = page.conversations.iter().find(|summary| summary.id == conversation);
    match listed {
        Some(summary) if summary.entries == entries.len() as u64 => Ok(()),
        // A conversation without an entry may be listed or not.
        None if entries.is_empty() => Ok(()),
        other => Err(format!("{} entries are there, the list says {other:?}", entries.len())),
    }
}
