//! The tree of entries, its head, and the path from the root to it.

use std::{collections::HashMap, sync::Arc};

use crate::{entry::Entry, ids::EntryId, message::Message};

/// A parent link that the path could not follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BrokenLink {
    /// The entry whose parent cannot be read.
    pub entry: EntryId,
    /// The parent that the entry names.
    pub parent: EntryId,
}

/// The entries that were skipped before an entry, if only a part of a conversation was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryGap {
    /// The entry before the gap in this part; `None` if there is none.
    pub before: Option<EntryId>,
    /// The number of messages, commands and summaries on the path before the entry after the gap.
    pub number: usize,
    /// The messages of entries in the gap, in order.
    pub stand_ins: Vec<StandIn>,
}

/// A message in the form that a view shows, in place of its entry, which was not read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StandIn {
    /// The entry of the message.
    pub entry: EntryId,
    /// The `seq` of that entry.
    pub seq: u64,
    /// Its number among the messages of the path.
    pub number: usize,
    /// The form in which it shows results.
    pub results: StandInResults,
    /// The estimated tokens of the message.
    pub tokens: u64,
    /// The message.
    pub message: Arc<Message>,
}

/// The form in which a stand-in shows results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StandInResults {
    /// It has no results.
    None,
    /// It consists of tombstones of pruned results.
    Tombstones,
    /// It is one result without its content, because the next turn will probably prune it. Its entry must be read before anything
    /// shows it.
    Unread(UnreadResult),
}

/// The facts about a result whose content was not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnreadResult {
    /// The bytes of its content, for its tombstone.
    pub bytes: u64,
    /// The estimated tokens of its message.
    pub tokens: u64,
    /// The most tokens that its message can take.
    pub most_tokens: u64,
}

/// The gaps in a part of a conversation, by the entry after each gap. Empty if everything was read.
pub type EntryGaps = HashMap<EntryId, EntryGap>;

/// The entries of one conversation by id, in the order of appending.
#[derive(Debug)]
pub struct Tree<'e> {
    by_seq: Vec<&'e Entry>,
    index: HashMap<EntryId, usize>,
    gaps: Option<&'e EntryGaps>,
}

impl<'e> Tree<'e> {
    /// Builds the tree of the readable entries, given in any order. If several share an id, the first counts.
    pub fn new(entries: impl IntoIterator<Item = &'e Entry>) -> Self {
        let mut by_seq: Vec<&Entry> = entries.into_iter().collect();
        by_seq.sort_by_key(|entry| entry.envelope().seq);
        let mut index = HashMap::with_capacity(by_seq.len());
        by_seq.retain(|entry| {
            let place = index.len();
            *index.entry(entry.id()).or_insert(place) == place
        });
        Self { by_seq, index, gaps: None }
    }

    /// Builds the tree of a part of a conversation. Its path leads across the gaps.
    pub fn of_part(entries: impl IntoIterator<Item = &'e Entry>, gaps: &'e EntryGaps) -> Self {
        Self { gaps: Some(gaps), ..Self::new(entries) }
    }

    /// The entries that were skipped before an entry.
    pub fn gap_before(&self, entry: EntryId) -> Option<&'e EntryGap> {
        self.gaps?.get(&entry)
    }

    /// The number of messages that are known without their entries.
    pub fn known_messages(&self) -> usize {
        self.gaps.into_iter().flat_map(HashMap::values).map(|gap| gap.stand_ins.len()).sum()
    }

    /// The newest entry.
    pub fn head(&self) -> Option<&'e Entry> {
        self.by_seq.last().copied()
    }

    /// An entry by id.
    pub fn get(&self, id: EntryId) -> Option<&'e Entry> {
        self.index.get(&id).map(|&place| self.by_seq[place])
    }

    /// Every entry, in the order of appending.
    pub fn in_order(&self) -> impl DoubleEndedIterator<Item = &'e Entry> {
        self.by_seq.iter().copied()
    }

    /// The path from the root to `head`. If a parent cannot be read, the path continues from the readable entry with the next
    /// lower `seq` and reports the broken link, so a damaged entry does not hide everything before it.
    pub fn path_to(&self, head: &'e Entry) -> (Vec<&'e Entry>, Vec<BrokenLink>) {
        let (mut path, mut broken) = (Vec::with_capacity(self.by_seq.len()), Vec::new());
        let mut current = Some(head);
        while let Some(entry) = current {
            path.push(entry);
            let seq = entry.envelope().seq;
            if let Some(gap) = self.gap_before(entry.id()) {
                current = gap.before.and_then(|before| self.get(before));
                continue;
            }
            current = entry.envelope().parent.and_then(|parent| {
                // A parent must be older than its child, which also rules out cycles.
                let found = self.get(parent).filter(|found| found.envelope().seq < seq);
                found.or_else(|| {
                    let place = self.by_seq.partition_point(|other| other.envelope().seq < seq);
                    let fallback = place.checked_sub(1).map(|place| self.by_seq[place]);
                    broken.push(BrokenLink { entry: entry.id(), parent });
                    fallback
                })
            });
        }
        path.reverse();
        broken.reverse();
        (path, broken)
    }

    /// The path from the root to the head.
    pub fn path(&self) -> (Vec<&'e Entry>, Vec<BrokenLink>) {
        self.head().map_or_else(Default::default, |head| self.path_to(head))
    }
}
