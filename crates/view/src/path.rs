//! The path: from the entries of a conversation to the history that a view is computed from.
//!
//! It follows the tree from the root to the head, takes the messages, and applies the facts about their calls in `closed` and
//! `turn` entries. The last compaction on the path hides the messages that it replaced, and a `prune` entry replaces results by
//! tombstones or leaves out their middle. Pinned messages are always shown whole; since a pin is about a message and not about a
//! path, the newest list of pins counts on every branch. All other kinds of entries are skipped.

use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use rejoin_record::{
    Block, BlockKind, Content, Entry, EntryId, Kind, MediaSource, Message, StandIn, StandInResults, Text,
    ToolResult, Tree, UnreadResult,
    content::{CallAt, Compacted, Decision, ShortenedResult, TurnState},
};

use crate::{
    excerpt,
    finding::{Action, Finding, Position},
    history::{Fate, History, KnownCall},
    pairing::{BlockAt, Pairing, call_directly_before},
    rules::Rule,
    tokens::{self, estimated},
};

/// The history along the path to the head of a tree.
#[derive(Debug, Default)]
pub struct Path {
    /// The history.
    pub history: History,
    /// The entry of each message. A compaction's summary has the entry of the compaction.
    pub entries: Vec<EntryId>,
    /// Findings about the path, each with the entry that it concerns.
    pub findings: Vec<(EntryId, Finding)>,
}

/// The history along the path to the head of the tree, with findings about the path.
pub fn path(tree: &Tree<'_>) -> Path {
    let (entries, broken) = tree.path();
    // Both lists are in the order of the path.
    let mut broken = broken.into_iter().peekable();
    let mut walk = Walk::begin(tree, &entries);
    for entry in entries {
        walk.cross(tree, entry.id());
        if let Some(link) = broken.next_if(|link| link.entry == entry.id()) {
            let at = Position::message(walk.messages.len());
            let finding = Finding::new(Rule::BrokenChain, at, Action::Kept);
            walk.findings.push((entry.id(), finding.about(link.parent.to_string())));
        }
        walk.add(entry, Content::of(entry));
    }
    let findings = std::mem::take(&mut walk.findings);
    let (history, entries) = walk.into_history();
    Path { history, entries, findings }
}

/// The messages on a path that a view shows differently than recorded: those with pruned or shortened results, and those that a
/// compaction shortened.
#[must_use]
pub fn changed(path: &[&Entry]) -> HashSet<EntryId> {
    let mut changed = HashSet::new();
    for entry in path.iter().filter(|entry| matches!(entry.envelope().kind, Kind::Prune | Kind::Compacted)) {
        match Content::of(entry) {
            Content::Prune(prune) => {
                changed.extend(prune.results.iter().map(|at| at.entry));
                changed.extend(prune.shortened.iter().flatten().map(|result| result.entry));
            }
            Content::Compacted(Compacted { kept: Some(kept), .. }) => {
                changed.extend(kept.iter().filter(|kept| kept.text.is_some()).map(|kept| kept.entry));
            }
            _ => {}
        }
    }
    changed
}

/// The newest list of pinned messages among entries in the order of appending, with its entry. It counts on every branch.
pub fn newest_pins<'e>(
    entries: impl DoubleEndedIterator<Item = &'e Entry>,
) -> Option<(&'e Entry, Vec<EntryId>)> {
    let mut metas = entries.rev().filter(|entry| entry.envelope().kind == Kind::Meta);
    metas.find_map(|entry| match Content::of(entry) {
        Content::Meta(meta) => Some((entry, meta.pinned?)),
        _ => None,
    })
}

/// Whether an entry has a number in its conversation: messages, commands and summaries have one, even if they cannot be read. A
/// compaction without a summary has none; the message after it is the summary.
#[must_use]
pub fn is_numbered(entry: &Entry, content: &Content) -> bool {
    match content {
        Content::Compacted(compacted) => !compacted.summary.is_blank(),
        _ => matches!(entry.envelope().kind, Kind::Message | Kind::Command | Kind::Compacted),
    }
}

/// The messages on a path that are summaries of compactions which other agents made.
#[must_use]
pub fn imported_summaries(path: &[&Entry]) -> HashSet<EntryId> {
    let mut summaries = HashSet::new();
    let (mut came_with, mut number) = (None, 0);
    for entry in path {
        let kind = &entry.envelope().kind;
        if *kind == Kind::Compacted
            && let Content::Compacted(compacted) = Content::of(entry)
        {
            came_with = CameWith::of(&compacted, number, false).or(came_with);
            number += usize::from(!compacted.summary.is_blank());
            continue;
        }
        if *kind == Kind::Message
            && let Some(part) = CameWith::part(&mut came_with, entry.id(), number)
            && part == CompactionPart::Summary
        {
            summaries.insert(entry.id());
        }
        number += usize::from(matches!(kind, Kind::Message | Kind::Command | Kind::Compacted));
    }
    summaries
}

/// A message that was parsed from its entry.
#[derive(Debug)]
pub struct ParsedMessage {
    /// The entry.
    pub entry: EntryId,
    /// The `seq` of the entry.
    pub seq: u64,
    /// The message.
    pub message: Arc<Message>,
}

/// A path while it is walked, entry by entry. A running conversation keeps it and adds to it.
#[derive(Debug, Default)]
pub struct Walk {
    messages: Vec<Arc<Message>>,
    entries: Vec<EntryId>,
    /// The number by which people and models refer to each message: its position on the path, counting commands and summaries, from
    /// 0.
    numbers: Vec<usize>,
    next_number: usize,
    calls: Calls,
    sent: Vec<usize>,
    findings: Vec<(EntryId, Finding)>,
    /// Whether a turn of rejoin is in progress. A call in it runs only after an entry has recorded its start.
    in_turn: bool,
    /// Whether a person was asked about any call.
    has_asked: bool,
    /// The compaction in force.
    cut: Option<Cut>,
    /// The index of its summary.
    summary: Option<usize>,
    /// The compaction by another agent that was walked last.
    came_with: Option<CameWith>,
    /// The compactions that were undone.
    undone: HashSet<EntryId>,
    /// The messages that stay in every view. A walk that begins with the whole path knows the final list from its beginning,
    /// because a message that is pinned at the end is shown in full, even if its result was pruned before.
    pinned: Vec<EntryId>,
    pruned: HashSet<(EntryId, u64)>,
    /// The messages that are shown, or whose results are shown, only because the messages are pinned.
    spared: HashSet<EntryId>,
    /// The content of the results that lost their middle, as recorded.
    whole: HashMap<(EntryId, u64), Vec<Block>>,
    prunes: usize,
    /// The messages whose only result was not read.
    unread: HashMap<EntryId, UnreadResult>,
    /// How many of the coming entries were known when the walk began.
    foreseen: usize,
    stale: bool,
    paired: Paired,
}

/// A compaction, and how far the walk is from it.
#[derive(Debug)]
struct Cut {
    entry: EntryId,
    compacted: Compacted,
    /// The text that replaces each older message that stays, if it is shortened.
    kept: HashMap<EntryId, Option<Text>>,
    progress: Progress,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    /// Messages are hidden, except those that it keeps.
    Hiding,
    /// The first message that stays was reached.
    Keeping,
    /// The compaction itself was reached.
    Passed,
}

/// The messages that came with a compaction by another agent.
#[derive(Debug)]
struct CameWith {
    /// Whether the compaction was undone, so that none of them is shown.
    is_undone: bool,
    /// The number of the first message after the compaction.
    first: usize,
    /// How many messages are between the compaction and each of them.
    places: Vec<u64>,
    summary: Option<u64>,
}

/// What a message is to the compaction that it came with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CompactionPart {
    Summary,
    Repeat,
    /// The compaction was undone.
    Undone,
}

impl CameWith {
    /// The messages that came with a compaction, if another agent made it. `first` is the number of the message after it.
    fn of(compacted: &Compacted, first: usize, is_undone: bool) -> Option<Self> {
        let places = compacted.came_with.clone()?;
        Some(Self { is_undone, first, places, summary: compacted.summary_at })
    }

    /// What the message with a number is to the last compaction.
    fn part(last: &mut Option<Self>, entry: EntryId, number: usize) -> Option<CompactionPart> {
        // After a rewind, messages that were written here may take the place of imported ones.
        if !entry.is_derived() {
            *last = None;
        }
        let own = last.as_ref()?;
        let place = number.checked_sub(own.first)? as u64;
        match own.places.contains(&place) {
            false => None,
            true if own.is_undone => Some(CompactionPart::Undone),
            true if own.summary == Some(place) => Some(CompactionPart::Summary),
            true => Some(CompactionPart::Repeat),
        }
    }
}

/// Which results belong to which calls, among the first `messages` messages and `requests` requests. Only a path with calls that were
/// left out needs it, so it is filled on demand.
#[derive(Debug, Default)]
struct Paired {
    pairing: Pairing,
    messages: usize,
    requests: usize,
}

impl Cut {
    /// The last compaction on a path that was not undone.
    fn of(tree: &Tree<'_>, path: &[&Entry], undone: &HashSet<EntryId>) -> Option<Self> {
        let of_kind = |entry: &&&Entry, kind: Kind| entry.envelope().kind == kind;
        let (at, mut compacted) = path
            .iter()
            .enumerate()
            .rev()
            .filter(|(_, entry)| of_kind(entry, Kind::Compacted) && !undone.contains(&entry.id()))
            .find_map(|(at, entry)| match Content::of(entry) {
                Content::Compacted(compacted) => Some((at, compacted)),
                _ => None,
            })?;
        // Keeping from an entry that is not before the compaction is not possible.
        let stands_before = |entry: &Entry, id: EntryId| {
            tree.gap_before(entry.id()).is_some_and(|gap| gap.stand_ins.iter().any(|other| other.entry == id))
        };
        let is_before = |id: EntryId| {
            path[..at].iter().rev().any(|entry| entry.id() == id)
                || path[..=at].iter().rev().any(|entry| stands_before(entry, id))
        };
        compacted.keep_from = compacted.keep_from.filter(|id| is_before(*id));
        let kept = compacted.kept.iter().flatten().map(|kept| (kept.entry, kept.text.clone())).collect();
        Some(Self { entry: path[at].id(), compacted, kept, progress: Progress::Hiding })
    }
}

/// The compactions on a path that were undone.
fn undone(path: &[&Entry]) -> HashSet<EntryId> {
    let undone = path.iter().filter(|entry| entry.envelope().kind == Kind::Uncompacted);
    let compaction = |entry: &&Entry| match Content::of(entry) {
        Content::Uncompacted(undone) => Some(undone.compaction),
        _ => None,
    };
    undone.filter_map(compaction).collect()
}

impl Walk {
    /// Begins to walk a path whose last compaction is known in advance. The caller then adds the entries of the path in order.
    #[must_use]
    pub fn begin(tree: &Tree<'_>, path: &[&Entry]) -> Self {
        let mut walk = Self::begin_without(tree, path, &[]);
        // If entries were skipped, most shown messages are known from the stand-ins.
        let known = tree.known_messages();
        walk.messages.reserve(known);
        walk.entries.reserve(known);
        walk.numbers.reserve(known);
        walk.calls.places.reserve(known);
        walk
    }

    /// Begins like [`Walk::begin`], as if these compactions had been undone.
    #[must_use]
    pub fn begin_without(tree: &Tree<'_>, path: &[&Entry], compactions: &[EntryId]) -> Self {
        let mut undone = undone(path);
        undone.extend(compactions);
        let cut = Cut::of(tree, path, &undone);
        let pinned = newest_pins(tree.in_order()).map(|(_, pins)| pins).unwrap_or_default();
        Self { cut, undone, pinned, foreseen: path.len(), ..Self::default() }
    }

    /// Walks the path to the head of a tree.
    #[must_use]
    pub fn along(tree: &Tree<'_>) -> Self {
        Self::along_with(tree, &tree.path().0, Vec::new())
    }

    /// Walks a path of the tree, with messages that were already parsed, ordered by the `seq` of their entries.
    #[must_use]
    pub fn along_with(tree: &Tree<'_>, path: &[&Entry], parsed: Vec<ParsedMessage>) -> Self {
        let mut walk = Self::begin(tree, path);
        let mut parsed = parsed.into_iter().peekable();
        for entry in path {
            walk.cross(tree, entry.id());
            let seq = entry.envelope().seq;
            while parsed.next_if(|other| other.seq < seq).is_some() {}
            match parsed.next_if(|other| other.entry == entry.id()) {
                Some(parsed) => walk.message(entry.id(), parsed.message),
                // Skip lines of other agents that are not messages. There are many, and no walk needs them.
                None if entry.envelope().kind == Kind::Raw => walk.foreseen = walk.foreseen.saturating_sub(1),
                None => walk.add(entry, Content::of(entry)),
            }
        }
        walk
    }

    /// Walks the path to the head of a tree entry by entry, as a running conversation does. It starts over when an entry changes
    /// something that was already walked.
    #[must_use]
    pub fn entry_by_entry(tree: &Tree<'_>) -> Self {
        let path = tree.path().0;
        let pins = newest_pins(tree.in_order());
        let elsewhere = pins.filter(|(entry, _)| !path.iter().any(|other| other.id() == entry.id()));
        let pinned = elsewhere.map(|(_, pins)| pins).unwrap_or_default();
        let mut walk = Self { pinned, ..Self::default() };
        for (count, entry) in path.iter().enumerate() {
            walk.add(entry, Content::of(entry));
            if walk.is_stale() {
                walk = Self::begin(tree, &path[..=count]);
                path[..=count].iter().for_each(|entry| walk.add(entry, Content::of(entry)));
            }
        }
        walk
    }

    /// Takes the known facts about entries that were skipped before the next one, if only a part of the conversation was read.
    pub fn cross(&mut self, tree: &Tree<'_>, next: EntryId) {
        let Some(gap) = tree.gap_before(next) else { return };
        let is_unread = |known: &&StandIn| matches!(known.results, StandInResults::Unread(_));
        self.unread.reserve(gap.stand_ins.iter().filter(is_unread).count());
        for StandIn { entry, number, results, message, .. } in &gap.stand_ins {
            self.next_number = *number;
            self.foreseen += 1;
            self.message(*entry, Arc::clone(message));
            match results {
                _ if !self.calls.places.contains_key(entry) => {}
                StandInResults::None => {}
                StandInResults::Tombstones => {
                    self.pruned.extend((0..message.blocks.len()).map(|block| (*entry, block as u64)));
                }
                StandInResults::Unread(unread) => {
                    self.unread.insert(*entry, *unread);
                }
            }
        }
        self.next_number = gap.number;
    }

    /// Whether a message consists of results, and all of them were pruned.
    #[must_use]
    pub fn is_wholly_pruned(&self, entry: EntryId) -> bool {
        let blocks = self.message_of(entry).map_or(0, |message| message.blocks.len());
        blocks > 0 && (0..blocks).all(|block| self.is_pruned(entry, block as u64))
    }

    /// The messages that can replace their entries in a checkpoint, by entry: no later entry can need more of them than this.
    #[must_use]
    pub fn stand_ins(&self) -> HashMap<EntryId, StandIn> {
        let mut found = HashMap::new();
        for ((entry, message), number) in self.entries.iter().zip(&self.messages).zip(&self.numbers) {
            let unread = self.unread.get(entry).copied();
            // Another compaction may show all of a message that this one shortened, and results may still be pruned, some of them
            // by age.
            let may_change = self.shortened(*entry).is_some() || message.tool_results().next().is_some();
            let results = match unread {
                Some(unread) => StandInResults::Unread(unread),
                None if self.is_wholly_pruned(*entry) => StandInResults::Tombstones,
                None if may_change => continue,
                None => StandInResults::None,
            };
            let tokens = unread.map_or_else(|| estimated(message), |unread| unread.tokens);
            let (entry, number, message) = (*entry, *number, Arc::clone(message));
            found.insert(entry, StandIn { entry, seq: 0, number, results, tokens, message });
        }
        found
    }

    /// Drops the content of old results, as if it had not been read: those that a turn in a full window would prune first. The
    /// newest results that together take at most `kept_tokens`, by an estimate, stay, and so does the newest turn. Returns the
    /// number of dropped bytes.
    pub fn leave_results_unread(&mut self, kept_tokens: u64) -> u64 {
        let newest_turn = crate::window::newest_turn(self);
        let (mut kept, mut bytes) = (0, 0);
        for place in (0..newest_turn).rev() {
            let (entry, message) = (self.entries[place], &self.messages[place]);
            let [Block { kind: BlockKind::ToolResult(result), .. }] = &message.blocks[..] else { continue };
            let tokens = estimated(message);
            let is_changed = self.is_pruned(entry, 0) || self.whole.contains_key(&(entry, 0));
            if is_changed || self.pinned.contains(&entry) || !tokens::is_worth_pruning(tokens) {
                continue;
            }
            kept += tokens;
            if kept <= kept_tokens || self.shortened(entry).is_some() {
                continue;
            }
            let size = size_of(&result.content) as u64;
            let most_tokens = crate::TokenCounter::most(message);
            self.unread.insert(entry, UnreadResult { bytes: size, tokens, most_tokens });
            bytes += size;
            self.messages[place] = Arc::new(without_spans(message, |result| result.content.clear()));
        }
        bytes
    }

    /// The known facts about the result in an entry's message, if its content was not read.
    #[must_use]
    pub fn unread(&self, entry: EntryId) -> Option<UnreadResult> {
        self.unread.get(&entry).copied()
    }

    /// Whether the content of any result was not read.
    #[must_use]
    pub fn has_unread(&self) -> bool {
        !self.unread.is_empty()
    }

    /// Whether both walks have the same result: the same messages with the same numbers, and the same facts about their calls.
    #[must_use]
    pub fn agrees_with(&self, other: &Self) -> bool {
        let cut = |walk: &Self| walk.cut.as_ref().map(|cut| (cut.entry, cut.progress));
        self.entries == other.entries
            && self.numbers == other.numbers
            && self.next_number == other.next_number
            && self.messages == other.messages
            && self.calls.fates == other.calls.fates
            && self.sent == other.sent
            && self.in_turn == other.in_turn
            && self.summary == other.summary
            && self.pinned == other.pinned
            && self.pruned == other.pruned
            && self.unread == other.unread
            && cut(self) == cut(other)
    }

    /// Findings about the path, each with the entry that it concerns.
    pub fn findings(&self) -> &[(EntryId, Finding)] {
        &self.findings
    }

    /// Takes the next entry of the path.
    pub fn add(&mut self, entry: &Entry, content: Content) {
        let id = entry.id();
        if let Content::Message(message) = content {
            return self.message(id, Arc::new(message));
        }
        let is_new = self.foreseen == 0;
        self.foreseen = self.foreseen.saturating_sub(1);
        let numbered = is_numbered(entry, &content);
        match content {
            Content::Compacted(compacted) => {
                let is_undone = self.undone.contains(&id);
                let came_with = CameWith::of(&compacted, self.next_number, is_undone);
                self.came_with = came_with.or(self.came_with.take());
                self.meet_compaction(id, is_new);
            }
            Content::Uncompacted(_) => self.stale |= is_new,
            Content::Prune(prune) => {
                self.prune(&prune.results);
                self.shorten(prune.shortened.as_deref().unwrap_or_default());
            }
            Content::Meta(meta) => {
                if let Some(pinned) = meta.pinned.filter(|_| is_new) {
                    self.pin(pinned);
                }
            }
            Content::Closed(closed) => {
                for call in closed.calls {
                    let fate = match call.decision {
                        Decision::LeftOut if self.is_answered(call.entry, call.block) => {
                            Fate::ClosedWithBatch
                        }
                        Decision::LeftOut => Fate::ClosedLeftOut,
                        Decision::Interrupted => Fate::ClosedInterrupted,
                        Decision::Rerun => Fate::Unknown,
                    };
                    self.decide(call.entry, call.block, fate);
                }
            }
            Content::Turn(turn) => self.turn(turn.state, turn.call.map(|call| (call.entry, call.block))),
            Content::Unreadable(_) => {
                let at = Position::message(self.messages.len());
                let finding = Finding::new(Rule::DamagedEntry, at, Action::SetAside);
                self.findings.push((id, finding.about(id.to_string())));
            }
            _ => {}
        }
        self.next_number += usize::from(numbered);
    }

    fn is_past_cut(&self) -> bool {
        self.cut.as_ref().is_none_or(|cut| cut.progress == Progress::Passed)
    }

    /// Takes a compaction: the one in force, one that another replaced or undid, or a new one.
    fn meet_compaction(&mut self, entry: EntryId, is_new: bool) {
        match &mut self.cut {
            Some(cut) if cut.entry == entry => {
                let begins = cut.progress == Progress::Hiding;
                cut.progress = Progress::Passed;
                if begins {
                    self.show_summary();
                }
                // Earlier requests were sent with a different list of messages.
                self.sent.clear();
                self.paired = Paired::default();
            }
            // A compaction that was added after the walk began hides messages that were already walked.
            _ => self.stale |= is_new,
        }
    }

    /// Takes a new list of pins. If a message must now be shown or hidden again, or a result of it, the path must be walked again.
    fn pin(&mut self, pinned: Vec<EntryId>) {
        let is_changed = |entry: &EntryId| {
            let mut results = self.pruned.iter().chain(self.whole.keys());
            !self.calls.places.contains_key(entry)
                || self.shortened(*entry).is_some()
                || results.any(|(changed, _)| changed == entry)
        };
        let is_new = |entry: &&EntryId| !self.pinned.contains(entry);
        self.stale |= pinned.iter().filter(is_new).any(is_changed)
            || self.spared.iter().any(|entry| !pinned.contains(entry));
        self.pinned = pinned;
    }

    fn show_summary(&mut self) {
        let Some(cut) = self.cut.as_ref().filter(|cut| !cut.compacted.summary.is_blank()) else { return };
        let (entry, message) = (cut.entry, Message::user(cut.compacted.summary.clone()));
        self.summary = Some(self.messages.len());
        self.push(entry, Arc::new(message));
    }

    /// Replaces results by tombstones.
    fn prune(&mut self, results: &[CallAt]) {
        let pinned: HashSet<EntryId> = self.pinned.iter().copied().collect();
        let mut pairing = None;
        let mut changed = false;
        self.pruned.reserve(results.len());
        // Results of one message are grouped, so that the message is copied only once.
        for of_entry in results.chunk_by(|one, next| one.entry == next.entry) {
            let entry = of_entry[0].entry;
            let Some(&place) = self.calls.places.get(&entry) else { continue };
            let is_result = |block: usize| {
                self.messages[place].blocks.get(block).is_some_and(|block| block.as_result().is_some())
            };
            let blocks = of_entry.iter().filter_map(|at| usize::try_from(at.block).ok());
            let mut blocks: Vec<usize> = blocks.filter(|block| is_result(*block)).collect();
            if pinned.contains(&entry) && !blocks.is_empty() {
                self.spared.insert(entry);
                continue;
            }
            blocks.retain(|block| self.pruned.insert((entry, *block as u64)));
            if !blocks.is_empty() {
                self.bury(place, entry, &blocks, &mut pairing);
                changed = true;
            }
        }
        self.prunes += usize::from(changed);
    }

    /// Replaces results of a message by tombstones. `pairing` pairs all messages; it is made when it is first needed.
    fn bury(&mut self, place: usize, entry: EntryId, buried: &[usize], pairing: &mut Option<Pairing>) {
        let message = Arc::clone(&self.messages[place]);
        let unread = self.unread.remove(&entry).map(|unread| unread.bytes);
        let mut shown = |(index, block): (usize, &Block)| {
            let result = block.as_result().filter(|_| buried.contains(&index));
            let Some(result) = result else { return Block { span: None, ..block.clone() } };
            let called = || {
                let at = BlockAt { message: place, block: index };
                let all = || Pairing::of_messages(&self.messages);
                let call = call_directly_before(&self.messages, at)
                    .or_else(|| pairing.get_or_insert_with(all).call_of(at))?;
                Some(&self.messages[call.message].blocks[call.block].as_call()?.name)
            };
            let tool = result.name.as_ref().or_else(called).map_or("a tool", |name| name.as_str());
            let whole = self.whole.remove(&(entry, index as u64));
            let content = whole.as_deref().unwrap_or(&result.content);
            let bytes = unread.unwrap_or_else(|| size_of(content) as u64);
            let text = Text::from(tombstone(tool, bytes, self.numbers[place]));
            Block::new(BlockKind::ToolResult(ToolResult {
                call_id: result.call_id.clone(),
                name: result.name.clone(),
                content: vec![Block::text(text)],
                ..*result
            }))
        };
        let blocks = message.blocks.iter().enumerate().map(&mut shown).collect();
        let message = Message { native: None, blocks, role: message.role.clone(), form: message.form };
        self.messages[place] = Arc::new(message);
    }

    /// Leaves out the middle of results. A tombstone stays one, and a result that was shortened before is shortened again from the
    /// recorded text.
    fn shorten(&mut self, results: &[ShortenedResult]) {
        let mut changed = false;
        for result in results {
            let (Some(&place), Ok(block), Ok(shown)) = (
                self.calls.places.get(&result.entry),
                usize::try_from(result.block),
                usize::try_from(result.shown),
            ) else {
                continue;
            };
            let at = (result.entry, result.block);
            let Some(own) = self.messages[place].blocks.get(block).and_then(Block::as_result) else {
                continue;
            };
            if self.pinned.contains(&result.entry) {
                self.spared.insert(result.entry);
                continue;
            }
            if self.pruned.contains(&at) || self.unread.contains_key(&result.entry) {
                continue;
            }
            let whole = self.whole.entry(at).or_insert_with(|| own.content.clone());
            let content = excerpt::of_result(whole, shown, self.numbers[place]);
            let mut message = without_spans(&self.messages[place], |_| {});
            if let BlockKind::ToolResult(result) = &mut message.blocks[block].kind {
                result.content = content;
            }
            self.messages[place] = Arc::new(message);
            changed = true;
        }
        self.prunes += usize::from(changed);
    }

    fn turn(&mut self, state: TurnState, call: Option<(EntryId, u64)>) {
        match (state, call) {
            (TurnState::Started, _) => {
                self.in_turn = true;
                if self.is_past_cut() {
                    self.sent.push(self.messages.len());
                }
            }
            (TurnState::CallRunning, Some((entry, block))) => self.calls.set(entry, block, Fate::Started),
            (TurnState::CallAwaitingApproval, Some((entry, block))) => {
                self.has_asked = true;
                self.calls.set(entry, block, Fate::AwaitingApproval);
            }
            (TurnState::Ended | TurnState::Interrupted, _) => self.in_turn = false,
            (TurnState::CallRunning | TurnState::CallAwaitingApproval, None) => {}
        }
    }

    /// Whether a result that was walked so far answers a call.
    fn is_answered(&mut self, entry: EntryId, block: u64) -> bool {
        let Some(call) = self.calls.at(entry, block) else { return false };
        let Paired { pairing, messages, requests } = &mut self.paired;
        for (number, message) in self.messages.iter().enumerate().skip(*messages) {
            while self.sent.get(*requests).is_some_and(|place| *place <= number) {
                pairing.seal();
                *requests += 1;
            }
            pairing.add_known(number, message, &self.calls.of(number, message));
        }
        *messages = self.messages.len();
        pairing.is_answered(call)
    }

    /// Records a decision about a call.
    fn decide(&mut self, entry: EntryId, block: u64, fate: Fate) {
        self.calls.set(entry, block, fate);
        if let Some(call) = self.calls.at(entry, block)
            && let Some(fate) = self.calls.fates.get(&(call.message, call.block))
        {
            self.paired.pairing.set_fate(call, *fate);
        }
    }

    /// Takes the next entry of the path, a message that was already parsed.
    pub fn message(&mut self, entry: EntryId, message: Arc<Message>) {
        self.foreseen = self.foreseen.saturating_sub(1);
        let part = CameWith::part(&mut self.came_with, entry, self.next_number);
        let is_pinned = self.pinned.contains(&entry);
        let message = match self.cut.as_mut().filter(|cut| cut.progress == Progress::Hiding) {
            Some(cut) if cut.compacted.keep_from == Some(entry) => {
                cut.progress = Progress::Keeping;
                self.show_summary();
                Some(message)
            }
            Some(cut) if is_pinned => {
                if cut.kept.get(&entry).is_none_or(Option::is_some) {
                    self.spared.insert(entry);
                }
                Some(message)
            }
            Some(cut) => cut.kept.get(&entry).map(|text| match text {
                None => message,
                Some(text) => Arc::new(Message { role: message.role.clone(), ..Message::user(text.clone()) }),
            }),
            None => Some(message),
        };
        if let Some(message) = message.filter(|_| part != Some(CompactionPart::Undone) || is_pinned) {
            if part == Some(CompactionPart::Summary) {
                self.summary = Some(self.messages.len());
            }
            self.push(entry, message);
        }
        self.next_number += 1;
    }

    fn push(&mut self, entry: EntryId, message: Arc<Message>) {
        let place = self.messages.len();
        self.calls.places.insert(entry, place);
        if self.in_turn {
            for (block, _) in message.blocks.iter().enumerate().filter(|(_, block)| block.as_call().is_some())
            {
                self.calls.fates.insert((place, block), Fate::NotStarted);
            }
        }
        self.messages.push(message);
        self.entries.push(entry);
        self.numbers.push(self.next_number);
    }

    /// The walked history, and the entry of each message.
    pub fn into_history(self) -> (History, Vec<EntryId>) {
        (History::with(self.messages, self.calls.into_fates(), self.sent), self.entries)
    }

    /// The messages so far.
    pub fn messages(&self) -> &[Arc<Message>] {
        &self.messages
    }

    /// The entry of each message.
    pub fn entries(&self) -> &[EntryId] {
        &self.entries
    }

    /// The message of an entry.
    pub fn message_of(&self, entry: EntryId) -> Option<&Arc<Message>> {
        self.messages.get(*self.calls.places.get(&entry)?)
    }

    /// The messages before which requests were sent, in order.
    pub fn sent(&self) -> &[usize] {
        &self.sent
    }

    /// The number by which people and models refer to each message.
    pub fn numbers(&self) -> &[usize] {
        &self.numbers
    }

    /// The number of the next message.
    pub fn next_number(&self) -> usize {
        self.next_number
    }

    /// The index of the summary that replaces the messages hidden by a compaction.
    pub fn summary(&self) -> Option<usize> {
        self.summary
    }

    /// The entry of the compaction that hides messages.
    pub fn compaction(&self) -> Option<EntryId> {
        self.cut.as_ref().map(|cut| cut.entry)
    }

    /// The content of that compaction.
    pub fn compacted(&self) -> Option<&Compacted> {
        self.cut.as_ref().map(|cut| &cut.compacted)
    }

    /// Whether a compaction hides messages.
    pub fn is_compacted(&self) -> bool {
        self.cut.is_some()
    }

    /// The messages that stay in every view.
    pub fn pinned(&self) -> &[EntryId] {
        &self.pinned
    }

    /// Whether a tombstone replaces a result.
    pub fn is_pruned(&self, entry: EntryId, block: u64) -> bool {
        self.pruned.contains(&(entry, block))
    }

    /// The shortened text of an older message; `None` if it is not shortened.
    pub fn shortened(&self, entry: EntryId) -> Option<&Text> {
        let text = self.cut.as_ref()?.kept.get(&entry)?.as_ref();
        text.filter(|_| !self.pinned.contains(&entry))
    }

    /// How often results were pruned since the walk began. Each time, earlier messages changed.
    pub fn prunes(&self) -> usize {
        self.prunes
    }

    /// Whether a compaction was added or undone after the walk began, so that the path must be walked again.
    pub fn is_stale(&self) -> bool {
        self.stale
    }

    /// Whether a person was asked about any call. If not, no call waits for approval.
    #[must_use]
    pub fn has_asked(&self) -> bool {
        self.has_asked
    }

    /// The fate of one call; `None` if nothing is known.
    #[must_use]
    pub fn fate(&self, entry: EntryId, block: usize) -> Option<Fate> {
        let place = *self.calls.places.get(&entry)?;
        self.calls.fates.get(&(place, block)).copied()
    }

    /// The known fates of the calls of a message, by block.
    pub fn fates(&self, message: usize) -> Vec<(usize, Fate)> {
        let known = self.messages.get(message).map(|content| self.calls.of(message, content));
        known.into_iter().flatten().map(|call| (call.block, call.fate)).collect()
    }
}

#[derive(Debug, Default)]
struct Calls {
    /// The index of each entry's message.
    places: HashMap<EntryId, usize>,
    fates: HashMap<(usize, usize), Fate>,
}

impl Calls {
    fn set(&mut self, entry: EntryId, block: u64, fate: Fate) {
        let (Some(&message), Ok(block)) = (self.places.get(&entry), usize::try_from(block)) else { return };
        let known = self.fates.entry((message, block)).or_insert(fate);
        // A decision that was sent to a model is final, unless the call runs again.
        if !known.is_closed() || fate.is_closed() || fate == Fate::Unknown {
            *known = fate;
        }
    }

    /// The position of a call among the messages.
    fn at(&self, entry: EntryId, block: u64) -> Option<BlockAt> {
        Some(BlockAt { message: *self.places.get(&entry)?, block: usize::try_from(block).ok()? })
    }

    /// The known fates of the calls of a message, by block.
    fn of(&self, number: usize, message: &Message) -> Vec<KnownCall> {
        let known = |block| self.fates.get(&(number, block)).copied();
        let blocks = 0..message.blocks.len();
        blocks.filter_map(|block| Some(KnownCall { message: number, block, fate: known(block)? })).collect()
    }

    fn into_fates(self) -> Vec<KnownCall> {
        self.fates.into_iter().map(|((message, block), fate)| KnownCall { message, block, fate }).collect()
    }
}

/// A copy of a message with changed results. It loses its spans, so that no part of its source is sent unchanged.
fn without_spans(message: &Message, change: impl Fn(&mut ToolResult)) -> Message {
    let mut blocks: Vec<Block> =
        message.blocks.iter().map(|block| Block { span: None, ..block.clone() }).collect();
    for block in &mut blocks {
        if let BlockKind::ToolResult(result) = &mut block.kind {
            change(result);
        }
    }
    Message { native: None, blocks, role: message.role.clone(), form: message.form }
}

/// The text of a tombstone.
fn tombstone(tool: &str, bytes: u64, number: usize) -> String {
    format!(
        "[The result of {tool} ({bytes} bytes) was left out to save room. It is kept: call recall with {{\"message\": {number}}} \
         to read it again.]"
    )
}

/// The size of a result in bytes.
fn size_of(content: &[Block]) -> usize {
    let size = |block: &Block| match &block.kind {
        BlockKind::Text(text) => text.len(),
        BlockKind::Opaque(opaque) => opaque.raw.as_str().len(),
        BlockKind::Image(media) | BlockKind::Document(media) => match &media.source {
            MediaSource::Base64(text) | MediaSource::Plain(text) => text.len(),
            MediaSource::Url(_) | MediaSource::ProviderFile(_) | MediaSource::Unusable => 0,
        },
        BlockKind::Reasoning(_) | BlockKind::ToolCall(_) | BlockKind::ToolResult(_) => 0,
    };
    content.iter().map(size).sum()
}
