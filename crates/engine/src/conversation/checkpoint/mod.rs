//! Checkpoints: opening a long conversation without reading all of it.
//!
//! After a compaction a model sees only a few messages, however long the conversation is. After pruning it sees tombstones in place
//! of old results. Of an imported session it sees the messages, but not the many other lines. A checkpoint holds the messages that
//! a model still sees. It names the entry from which everything is read, and the few earlier entries that are needed for other
//! reasons. The store keeps it in its index.
//!
//! It is only a cache. A checkpoint is kept only if walking its contents gives the same result as walking all entries. Every entry
//! is verified when it is read, and a digest protects the rest. If any check fails, the whole conversation is read.

mod pieces;

use std::{
    collections::{HashMap, HashSet},
    ops::ControlFlow,
    sync::Arc,
    thread,
};

use rejoin_record::{
    Content, ConversationId, Entry, EntryGap, EntryGaps, EntryId, Hash, Kind, Role, StandIn, StandInResults,
    Tail, Tree,
    json::{Doc, Value, list, quoted},
};
use rejoin_store::{Damage, OnPiece, PartRead, Selection, Store, StoredItem};
use rejoin_view::path::{ParsedMessage, Walk, newest_pins};

use self::pieces::Parsing;
use crate::{draft, provider_choice};

/// The format version. Increase it when the text is written differently or tokens are estimated differently.
const VERSION: u64 = 4;

/// The most messages to allocate room for when the first piece announces a number of them: that number is not trusted further.
const FORESEEN: usize = 1 << 18;

/// A conversation gets a checkpoint only if that saves reading more than this many entries. Reading fewer is quick anyway.
const WORTH: usize = if cfg!(debug_assertions) { 20 } else { 500 };

/// The part of a conversation that was read.
#[derive(Debug)]
pub(super) struct Part {
    /// Everything from this `seq` on was read.
    pub(super) from: u64,
    /// The gaps before that: entries that were not read.
    pub(super) gaps: EntryGaps,
    /// The newest entry when the checkpoint was made.
    newest: Tail,
}

impl Part {
    /// Whether some results were read without their content.
    pub(super) fn leaves_results_unread(&self) -> bool {
        let is_unread = |known: &StandIn| matches!(known.results, StandInResults::Unread(_));
        self.gaps.values().flat_map(|gap| &gap.stand_ins).any(is_unread)
    }

    /// Whether these entries are enough for the next turn. Entries after the checkpoint's newest one are new.
    pub(super) fn suffices(&self, entries: &[Entry]) -> bool {
        let (path, broken) = Tree::of_part(entries, &self.gaps).path();
        broken.is_empty() && self.suffices_for(&path, entries)
    }

    /// Does what [`Part::suffices`] does, for a path along these entries.
    fn suffices_for(&self, path: &[&Entry], entries: &[Entry]) -> bool {
        let is_new = |entry: &&Entry| entry.envelope().seq > self.newest.seq;
        // If the checkpoint's newest entry is not on the path, the head may be before the compaction, where messages are unread.
        path.iter().rev().any(|entry| entry.id() == self.newest.id)
            && !entries.iter().filter(is_new).any(|entry| self.needs_more(entry, entries))
    }
}

impl Part {
    /// Whether a later entry needs entries that were not read: an erasure may affect any entry, undoing a compaction shows the
    /// messages that it hid, a compaction may keep any message, and a pin may show a message that is hidden or results that were pruned.
    fn needs_more(&self, entry: &Entry, entries: &[Entry]) -> bool {
        match entry.envelope().kind {
            Kind::Erased | Kind::Uncompacted => true,
            Kind::Compacted => {
                let Content::Compacted(compacted) = Content::of(entry) else { return true };
                let stand_ins = self.gaps.values().flat_map(|gap| &gap.stand_ins);
                let known: HashMap<EntryId, u64> = stand_ins
                    .map(|stand_in| (stand_in.entry, stand_in.seq))
                    .chain(entries.iter().map(|entry| (entry.id(), entry.envelope().seq)))
                    .collect();
                let is_later = |id: EntryId| known.get(&id).is_some_and(|seq| *seq >= self.from);
                !compacted.kept.iter().flatten().all(|kept| known.contains_key(&kept.entry))
                    || !compacted.keep_from.is_none_or(is_later)
            }
            Kind::Meta => {
                let Content::Meta(meta) = Content::of(entry) else { return true };
                let pinned = meta.pinned.unwrap_or_default();
                let is_known = |pin: &EntryId| {
                    let mut stand_ins = self.gaps.values().flat_map(|gap| &gap.stand_ins);
                    let known = stand_ins.find(|known| known.entry == *pin);
                    match known {
                        Some(known) => known.results != StandInResults::Tombstones,
                        None => entries.iter().any(|entry| entry.id() == *pin),
                    }
                };
                // Earlier pins were known when the checkpoint was made, also those of messages on other branches.
                let before = entries.iter().filter(|entry| entry.envelope().seq <= self.newest.seq);
                let earlier = newest_pins(before).map(|(_, pins)| pins).unwrap_or_default();
                pinned.iter().filter(|pin| !earlier.contains(pin)).any(|pin| !is_known(pin))
            }
            _ => false,
        }
    }
}

/// The entries of a conversation that the next turn needs.
#[derive(Debug, PartialEq, Eq)]
struct Checkpoint {
    /// The newest entry when it was made.
    newest: Tail,
    /// Everything from this `seq` on is read.
    from: u64,
    /// The number of the first message from `from` on.
    number: usize,
    /// The earlier entries that are read, each with its number.
    earlier: Vec<(u64, usize)>,
    /// The earlier messages, whose entries are not read.
    stand_ins: Vec<StandIn>,
}

/// The size in bytes from which an imported conversation gets a checkpoint, so that its first turn need not read all of it.
const LARGE: usize = if cfg!(debug_assertions) { 4_000 } else { 8 << 20 };

/// How many estimated tokens of the newest results are always read with a checkpoint of an imported conversation: as many as a
/// turn keeps in the largest windows.
const KEPT_TOKENS: u64 = if cfg!(debug_assertions) { 200 } else { 60_000 };

/// Makes a checkpoint of a conversation that was just imported, and stores it, if a compaction hides most of the conversation or if
/// it is large. Otherwise its first turn makes one: most imported conversations never get a turn.
pub(crate) fn keep_of_import(store: &dyn Store, id: ConversationId, entries: &[Entry]) {
    let is_compacted = || entries.iter().any(|entry| entry.envelope().kind == Kind::Compacted);
    let size = |entry: &Entry| entry.body().map_or(0, |body| body.as_str().len());
    let is_large = || entries.iter().map(size).sum::<usize>() > LARGE;
    if entries.len() > WORTH && store.single_reads() > 0 && (is_compacted() || is_large()) {
        keep(store, id, entries, None, ResultsRead::OfNewest);
    }
}

/// The results that are read with a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ResultsRead {
    /// Every result that is not pruned.
    All,
    /// Only the newest: the first turn will prune the older ones anyway.
    OfNewest,
}

fn keep(store: &dyn Store, id: ConversationId, entries: &[Entry], part: Option<&Part>, results: ResultsRead) {
    if let Some(pieces) = Checkpoint::of(entries, part, store.single_reads(), results) {
        store.keep_checkpoint(id, &pieces);
    }
}

/// Makes a checkpoint of a conversation that may be only partly read, and stores it if it saves enough reading.
pub(super) fn keep_of_part(store: &dyn Store, id: ConversationId, entries: &[Entry], part: Option<&Part>) {
    if (part.is_some() || may_be_worth_it(entries)) && store.single_reads() > 0 {
        keep(store, id, entries, part, ResultsRead::All);
    }
}

/// Quickly rules out the many conversations that are short or in which every entry counts.
fn may_be_worth_it(entries: &[Entry]) -> bool {
    let of_kind = |kind: Kind| entries.iter().filter(move |entry| entry.envelope().kind == kind);
    entries.len() > WORTH
        && (of_kind(Kind::Raw).count() > WORTH
            || of_kind(Kind::Compacted).chain(of_kind(Kind::Prune)).next().is_some())
}

/// The part of a conversation that was read, and the path to its head.
pub(super) struct OpenedPart {
    pub(super) entries: Vec<Entry>,
    pub(super) part: Option<Part>,
    pub(super) walk: Walk,
}

/// Reads a conversation for its next turns: the entries that its checkpoint names, or all. `None` if anything is damaged: the
/// caller must then read it with more care. Damage that was found is added to `damage`, because a store that mends itself reports
/// it only once.
pub(super) fn read(store: &dyn Store, id: ConversationId, damage: &mut Vec<Damage>) -> Option<OpenedPart> {
    if draft::is_left_behind(store, id) {
        return None;
    }
    match read_part(store, id, damage) {
        None if damage.is_empty() => read_whole(store, id, damage),
        opened => opened,
    }
}

/// Entries collected while they are read. Each message is parsed once.
#[derive(Default)]
struct CollectedEntries {
    entries: Vec<Entry>,
    parsed: Vec<ParsedMessage>,
}

/// Spare capacity for new entries. Without it, the first append would move all of them.
const SPARE: usize = 64;

impl CollectedEntries {
    fn with_room(entries: usize) -> Self {
        Self { entries: Vec::with_capacity(entries + SPARE), parsed: Vec::with_capacity(entries) }
    }

    /// Takes an entry. Another thread meanwhile reads the next ones.
    fn take(&mut self, item: StoredItem, damage: &mut Vec<Damage>) -> ControlFlow<()> {
        let entry = match item {
            StoredItem::Entry(entry) => entry,
            StoredItem::Damage(found) => {
                damage.push(found);
                return ControlFlow::Break(());
            }
        };
        if entry.envelope().kind == Kind::Message
            && let Content::Message(message) = Content::of(&entry)
        {
            let (seq, message) = (entry.envelope().seq, Arc::new(message));
            self.parsed.push(ParsedMessage { entry: entry.id(), seq, message });
        }
        self.entries.push(entry);
        ControlFlow::Continue(())
    }

    /// The path along these entries. `None` if any check fails.
    fn opened(mut self, part: Option<Part>) -> Option<OpenedPart> {
        self.entries.shrink_to(self.entries.len() + SPARE);
        let none = EntryGaps::new();
        let tree = Tree::of_part(&self.entries, part.as_ref().map_or(&none, |part| &part.gaps));
        let (path, broken) = tree.path();
        if part.as_ref().is_some_and(|part| !part.suffices_for(&path, &self.entries)) {
            return None;
        }
        let walk = Walk::along_with(&tree, &path, self.parsed);
        let is_sound = broken.is_empty() && walk.findings().is_empty();
        is_sound.then_some(OpenedPart { entries: self.entries, part, walk })
    }
}

/// Reads a whole conversation.
fn read_whole(store: &dyn Store, id: ConversationId, damage: &mut Vec<Damage>) -> Option<OpenedPart> {
    let mut gathered = CollectedEntries::default();
    let read = store.read(id, 0, &mut |item| gathered.take(item, damage));
    let is_begun = gathered.entries.first().is_some_and(|first| first.envelope().kind == Kind::Header);
    if read.is_err() || !damage.is_empty() || !is_begun {
        return None;
    }
    gathered.opened(None)
}

/// The entries that a conversation's checkpoint names, and those after it. `None` if there is no checkpoint, or if it no longer
/// fits the record.
fn read_part(store: &dyn Store, id: ConversationId, damage: &mut Vec<Damage>) -> Option<OpenedPart> {
    let checkpoint = Checkpoint::read(|each| store.checkpoint(id, each))?;
    let earlier: Vec<u64> = checkpoint.earlier.iter().map(|(seq, _)| *seq).collect();
    let selected = Selection { earlier: &earlier, from: checkpoint.from };
    let mut gathered = CollectedEntries::with_room(earlier.len());
    let read = store.read_part(id, selected, &mut |item| gathered.take(item, damage));
    if read.ok()? == PartRead::Impossible || !damage.is_empty() {
        return None;
    }
    let part = checkpoint.into_part(&gathered.entries)?;
    gathered.opened(Some(part))
}

impl Checkpoint {
    /// The pieces of a checkpoint that names at most `most` single entries. `None` if it would save too little reading.
    fn of(entries: &[Entry], part: Option<&Part>, most: usize, results: ResultsRead) -> Option<Vec<String>> {
        let none = EntryGaps::new();
        let tree = Tree::of_part(entries, part.map_or(&none, |part| &part.gaps));
        let (path, broken) = tree.path();
        let mut walk = Walk::begin(&tree, &path);
        let mut numbers = Vec::with_capacity(path.len());
        for entry in &path {
            walk.cross(&tree, entry.id());
            numbers.push(walk.next_number());
            walk.add(entry, Content::of(entry));
        }
        let last = path.len().checked_sub(1)?;
        let first = match walk.compaction().zip(walk.compacted()) {
            None => last,
            Some((compaction, compacted)) => path
                .iter()
                .position(|entry| entry.id() == compaction || Some(entry.id()) == compacted.keep_from)?,
        };
        let from = path[first].envelope().seq;
        let is_known = part.is_none_or(|part| part.from <= from);
        // Rules and contexts apply on every branch.
        let on_path: HashSet<EntryId> = path.iter().map(|entry| entry.id()).collect();
        let counts_anywhere = |entry: &&Entry| matches!(entry.envelope().kind, Kind::Context | Kind::Change);
        let is_elsewhere = |entry: &Entry| entry.envelope().seq < from && !on_path.contains(&entry.id());
        if entries.iter().filter(counts_anywhere).any(is_elsewhere) {
            return None;
        }
        if !broken.is_empty() || !walk.findings().is_empty() || !is_known {
            return None;
        }
        if results == ResultsRead::OfNewest && !walk.is_compacted() {
            walk.leave_results_unread(KEPT_TOKENS);
        }
        let needed = needed(&path[..first], &walk);
        let (mut earlier, mut stand_ins) = (Vec::new(), Vec::new());
        let mut shown = walk.stand_ins();
        let mut left_out = 0;
        for (entry, number) in path[..=first].iter().copied().zip(numbers.iter().copied()) {
            let known = tree.gap_before(entry.id()).into_iter().flat_map(|gap| &gap.stand_ins);
            stand_ins.extend(known.filter(|known| shown.contains_key(&known.entry)).cloned());
            let (id, seq) = (entry.id(), entry.envelope().seq);
            match shown.remove(&id) {
                _ if seq == from => {}
                Some(stand_in) if !needed.contains(&id) => stand_ins.push(StandIn { seq, ..stand_in }),
                _ if needed.contains(&id) || walk.message_of(id).is_some() => earlier.push((entry, number)),
                _ => left_out += 1,
            }
        }
        // The newest pins count on every branch.
        let before = entries.iter().filter(|entry| entry.envelope().seq < from);
        if let Some((pins, _)) = newest_pins(before).filter(|(pins, _)| !on_path.contains(&pins.id())) {
            let seq = pins.envelope().seq;
            let next = path[..=first].partition_point(|entry| entry.envelope().seq < seq);
            let place = earlier.partition_point(|(entry, _)| entry.envelope().seq < seq);
            earlier.insert(place, (pins, numbers[next]));
        }
        let saves_enough = left_out > WORTH || stand_ins.len() > WORTH;
        if (part.is_none() && !saves_enough) || earlier.len() > most {
            return None;
        }
        let checkpoint = Self {
            newest: Tail::of(entries.iter().max_by_key(|entry| entry.envelope().seq)?),
            from,
            number: numbers[first],
            earlier: earlier.iter().map(|(entry, number)| (entry.envelope().seq, *number)).collect(),
            stand_ins,
        };
        let pieces = checkpoint.to_pieces();
        let read = Self::read(|each| _ = pieces.iter().cloned().try_for_each(each))?;
        read.comes_to_the_same(entries, &earlier, &walk).then_some(pieces)
    }

    /// Whether the entries of the checkpoint lead to the same view and the same provider as all entries.
    fn comes_to_the_same(self, entries: &[Entry], earlier: &[(&Entry, usize)], walk: &Walk) -> bool {
        let later = entries.iter().filter(|entry| entry.envelope().seq >= self.from);
        let chosen: Vec<Entry> = earlier.iter().map(|(entry, _)| *entry).chain(later).cloned().collect();
        let Some(part) = self.into_part(&chosen) else { return false };
        part.suffices(&chosen)
            && Walk::along(&Tree::of_part(&chosen, &part.gaps)).agrees_with(walk)
            && provider_choice::last_context(&chosen) == provider_choice::last_context(entries)
    }

    /// The gaps between its entries. `None` if `entries` are not the entries that it names.
    fn into_part(self, entries: &[Entry]) -> Option<Part> {
        let (earlier, later) = entries.split_at_checked(self.earlier.len())?;
        let named = self.earlier.iter().map(|(seq, _)| *seq).chain([self.from]);
        if !named.zip(entries).all(|(seq, entry)| entry.envelope().seq == seq) || later.is_empty() {
            return None;
        }
        let newest = later.iter().find(|entry| entry.envelope().seq == self.newest.seq)?;
        if Tail::of(newest) != self.newest {
            return None;
        }
        let mut gaps = EntryGaps::with_capacity(self.earlier.len() + 1);
        let mut left = self.stand_ins;
        let mut from_seq = |seq: u64| match left.partition_point(|known| known.seq < seq) {
            0 => std::mem::take(&mut left),
            place => left.split_off(place),
        };
        from_seq(self.from);
        // Work from the end: most messages are in one gap near the beginning, which can then take the rest of the list without a
        // copy.
        for place in (0..=earlier.len()).rev() {
            let before = place.checked_sub(1).map(|place| &earlier[place]);
            let stand_ins = from_seq(before.map_or(0, |before| before.envelope().seq));
            let number = self.earlier.get(place).map_or(self.number, |(_, number)| *number);
            gaps.insert(entries[place].id(), EntryGap { before: before.map(Entry::id), number, stand_ins });
        }
        Some(Part { from: self.from, gaps, newest: self.newest })
    }

    /// The checkpoint as text: one piece with a list, then the pieces with its messages.
    fn to_pieces(&self) -> Vec<String> {
        let Self { newest, from, number, earlier, stand_ins } = self;
        let earlier = earlier.iter().flat_map(|(seq, number)| [seq.to_string(), number.to_string()]);
        let mut pieces = vec![pieces::vouch_for(&list([
            VERSION.to_string(),
            newest.seq.to_string(),
            quoted(&newest.id.to_string()),
            quoted(&newest.hash.to_string()),
            from.to_string(),
            number.to_string(),
            stand_ins.len().to_string(),
            list(earlier),
        ]))];
        pieces::write(stand_ins, &mut pieces);
        pieces
    }

    /// Reads a checkpoint from the pieces that `each_piece` passes.
    fn read(each_piece: impl FnOnce(OnPiece<'_>)) -> Option<Self> {
        let mut begun = None;
        let lists = thread::scope(|scope| {
            let mut parsing = Parsing::new(scope);
            each_piece(&mut |piece| match begun {
                Some(_) => parsing.take(piece),
                None => {
                    begun = Self::begin(&piece);
                    if begun.is_some() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
                }
            });
            parsing.finish()
        });
        let (mut read, messages) = begun?;
        for mut list in lists? {
            read.stand_ins.append(&mut list);
        }
        (read.stand_ins.len() == messages).then_some(read)
    }

    /// Reads the first piece. Returns the checkpoint and the number of messages that the other pieces hold.
    fn begin(head: &str) -> Option<(Self, usize)> {
        let doc = Doc::parse(pieces::vouched_for(head)?).ok()?;
        let fields: Vec<Value<'_>> = doc.root()?.items().collect();
        let &[version, seq, id, hash, from, number, messages_kept, earlier] = fields.as_slice() else {
            return None;
        };
        if version.as_u64()? != VERSION {
            return None;
        }
        let count = |value: Value<'_>| usize::try_from(value.as_u64()?).ok();
        let numbers: Vec<Value<'_>> = earlier.items().collect();
        let pair = |pair: &[Value<'_>]| Some((pair.first()?.as_u64()?, count(*pair.get(1)?)?));
        let (id, hash): (EntryId, Hash) = (id.as_str()?.parse().ok()?, hash.as_str()?.parse().ok()?);
        let (from, earlier): (u64, Vec<(u64, usize)>) =
            (from.as_u64()?, numbers.chunks(2).map(pair).collect::<Option<_>>()?);
        let places = || earlier.iter().map(|(seq, _)| *seq).chain([from]);
        let is_rising = places().zip(places().skip(1)).all(|(one, next)| one < next);
        let newest = Tail { seq: seq.as_u64()?, id, hash };
        let (number, messages) = (count(number)?, count(messages_kept)?);
        let stand_ins = Vec::with_capacity(messages.min(FORESEEN));
        is_rising.then_some((Self { newest, from, number, earlier, stand_ins }, messages))
    }
}

/// The entries at the beginning of a path that a turn needs besides the messages: the header, the last context that has the last
/// answer in it, the newest title, scope and pins, and the rules that a person added. If nothing was compacted, also the entries
/// about calls.
fn needed(beginning: &[&Entry], walk: &Walk) -> HashSet<EntryId> {
    let mut needed = HashSet::new();
    needed.extend(beginning.first().map(|header| header.id()));
    let (mut answered, mut context) = (false, false);
    let (mut title, mut scope, mut pinned) = (false, false, false);
    for entry in beginning.iter().rev() {
        let is_needed = match entry.envelope().kind {
            Kind::Message if !answered => {
                answered = matches!(Content::of(entry), Content::Message(message) if message.role == Role::Assistant);
                answered
            }
            Kind::Context if !context => {
                context = answered;
                true
            }
            Kind::Meta => match Content::of(entry) {
                Content::Meta(meta) => {
                    let is_new = |seen: &mut bool, has: bool| has && !std::mem::replace(seen, true);
                    is_new(&mut title, meta.title.is_some())
                        | is_new(&mut scope, meta.scope.is_some())
                        | is_new(&mut pinned, meta.pinned.is_some())
                }
                _ => false,
            },
            Kind::Change => matches!(Content::of(entry), Content::Change(change) if change.rule.is_some()),
            Kind::Turn | Kind::Closed => !walk.is_compacted(),
            Kind::Prune => match Content::of(entry) {
                Content::Prune(prune) => {
                    let results = prune.results.iter().map(|at| at.entry);
                    let shortened = prune.shortened.iter().flatten().map(|result| result.entry);
                    let mut shown =
                        results.chain(shortened).filter(|entry| walk.message_of(*entry).is_some());
                    !shown.all(|entry| walk.is_wholly_pruned(entry))
                }
                _ => false,
            },
            _ => false,
        };
        if is_needed {
            needed.insert(entry.id());
        }
    }
    needed
}
