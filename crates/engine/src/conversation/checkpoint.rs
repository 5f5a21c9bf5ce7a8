//! Checkpoints: opening a long conversation without reading all of it.
//!
//! After a compaction a model sees only few messages, however long the conversation is. A checkpoint names the place from which on
//! all entries are read, and the earlier entries that still count. The store keeps it in its index.
//!
//! It is only a cache. A checkpoint is kept only if a walk along its entries comes to the same as a walk along all of them. Every
//! entry is verified when it is read, and if anything does not fit, the whole conversation is read.

use std::{
    collections::{HashMap, HashSet},
    ops::ControlFlow,
    sync::Arc,
};

use rejoin_record::{
    Content, ConversationId, Entry, EntryGap, EntryGaps, EntryId, Hash, Kind, Role, Tail, Tree,
    json::{Doc, Value, list, quoted},
};
use rejoin_store::{Damage, Item, PartRead, Selected, Store};
use rejoin_view::path::Walk;

use crate::{draft, wanted};

/// Changes when the text is written differently.
const VERSION: u64 = 1;

/// The entries that a checkpoint has to save, at least. Reading fewer is quick.
const WORTH: usize = if cfg!(debug_assertions) { 20 } else { 500 };

/// The part of a conversation that was read.
#[derive(Debug)]
pub(super) struct Part {
    /// Everything from this `seq` on was read.
    pub(super) from: u64,
    /// What was left out before that.
    pub(super) gaps: EntryGaps,
    /// The newest entry when the checkpoint was made.
    newest: Tail,
}

impl Part {
    /// Whether these entries are enough, of which those after the newest one of the checkpoint are new.
    pub(super) fn suffices(&self, entries: &[Entry]) -> bool {
        let is_new = |entry: &&Entry| entry.envelope().seq > self.newest.seq;
        let (path, broken) = Tree::of_part(entries, &self.gaps).path();
        // Who goes back behind that entry may go back behind the compaction.
        broken.is_empty()
            && path.iter().rev().any(|entry| entry.id() == self.newest.id)
            && !entries.iter().filter(is_new).any(|entry| needs_more(entry, entries, self.from))
    }
}

/// Which entries of a conversation the next turn needs.
#[derive(Debug, PartialEq, Eq)]
struct Checkpoint {
    /// The newest entry when it was made.
    newest: Tail,
    /// Everything from this `seq` on is read.
    from: u64,
    /// The number of the first message from there on.
    number: usize,
    /// The earlier entries that are read, each with its number.
    earlier: Vec<(u64, usize)>,
}

/// Makes a checkpoint of a conversation, if that is worth it, and keeps it in the store.
pub(crate) fn keep(store: &dyn Store, id: ConversationId, entries: &[Entry]) {
    keep_of_part(store, id, entries, None);
}

/// The same for a conversation of which perhaps only a part was read.
pub(super) fn keep_of_part(store: &dyn Store, id: ConversationId, entries: &[Entry], part: Option<&Part>) {
    // Most conversations are short or have no summary. That is seen quickly.
    let may_help = entries.len() > WORTH || part.is_some();
    if store.keeps_checkpoints()
        && may_help
        && entries.iter().any(|entry| entry.envelope().kind == Kind::Compacted)
        && let Some(checkpoint) = Checkpoint::of(entries, part)
    {
        store.keep_checkpoint(id, &checkpoint.to_text());
    }
}

/// What was read of a conversation, and the path to its head.
pub(super) struct Opened {
    pub(super) entries: Vec<Entry>,
    pub(super) part: Option<Part>,
    pub(super) walk: Walk,
}

/// Reads a conversation for its next turns: what its checkpoint names, or all of it. None if anything about it is damaged: then it has to
/// be read with more care. The damage that was found is added to `damage`, because a store that mends itself reports it only once.
pub(super) fn read(store: &dyn Store, id: ConversationId, damage: &mut Vec<Damage>) -> Option<Opened> {
    if draft::is_left_behind(store, id) {
        return None;
    }
    match read_part(store, id, damage) {
        None if damage.is_empty() => read_whole(store, id, damage),
        opened => opened,
    }
}

/// Reads a whole conversation, and parses each message once.
fn read_whole(store: &dyn Store, id: ConversationId, damage: &mut Vec<Damage>) -> Option<Opened> {
    let (mut entries, mut parsed) = (Vec::new(), HashMap::new());
    let read = store.read(id, 0, &mut |item| {
        let entry = match item {
            Item::Entry(entry) => entry,
            Item::Damage(found) => {
                damage.push(found);
                return ControlFlow::Break(());
            }
        };
        // Another thread reads the next rows in the meantime.
        if entry.envelope().kind == Kind::Message
            && let Content::Message(message) = Content::of(&entry)
        {
            parsed.insert(entry.id(), Arc::new(message));
        }
        entries.push(entry);
        ControlFlow::Continue(())
    });
    let is_begun = entries.first().is_some_and(|first| first.envelope().kind == Kind::Header);
    if read.is_err() || !damage.is_empty() || !is_begun {
        return None;
    }
    entries.shrink_to_fit();
    let walk = Walk::along_with(&Tree::new(&entries), &mut parsed)?;
    walk.findings().is_empty().then_some(Opened { entries, part: None, walk })
}

/// The entries that the checkpoint of a conversation names, and those after it. None if there is no checkpoint, or if it does not fit the
/// record any more.
fn read_part(store: &dyn Store, id: ConversationId, damage: &mut Vec<Damage>) -> Option<Opened> {
    let checkpoint = Checkpoint::from_text(&store.checkpoint(id)?)?;
    let earlier: Vec<u64> = checkpoint.earlier.iter().map(|(seq, _)| *seq).collect();
    let selected = Selected { earlier: &earlier, from: checkpoint.from };
    let mut entries = Vec::new();
    let read = store.read_part(id, selected, &mut |item| match item {
        Item::Entry(entry) => {
            entries.push(entry);
            ControlFlow::Continue(())
        }
        Item::Damage(found) => {
            damage.push(found);
            ControlFlow::Break(())
        }
    });
    if read.ok()? == PartRead::Impossible || !damage.is_empty() {
        return None;
    }
    let part = checkpoint.part(&entries)?;
    let walk = Walk::along(&Tree::of_part(&entries, &part.gaps)).filter(|walk| walk.findings().is_empty())?;
    Some(Opened { entries, part: Some(part), walk })
}

impl Checkpoint {
    fn of(entries: &[Entry], part: Option<&Part>) -> Option<Self> {
        let none = EntryGaps::new();
        let tree = Tree::of_part(entries, part.map_or(&none, |part| &part.gaps));
        let (path, broken) = tree.path();
        let mut walk = Walk::begin(&path);
        let mut numbers = Vec::with_capacity(path.len());
        for entry in &path {
            walk.cross(&tree, entry.id());
            numbers.push(walk.next_number());
            walk.add(entry, Content::of(entry));
        }
        let (compaction, compacted) = walk.compaction().zip(walk.compacted())?;
        let begins = |entry: &&&Entry| entry.id() == compaction || Some(entry.id()) == compacted.keep_from;
        let first = path.iter().position(|entry| begins(&entry))?;
        let from = path[first].envelope().seq;
        let is_known = part.is_none_or(|part| part.from <= from);
        // Rules and contexts count on every branch.
        let on_path: HashSet<EntryId> = path.iter().map(|entry| entry.id()).collect();
        let counts_anywhere = |entry: &&Entry| matches!(entry.envelope().kind, Kind::Context | Kind::Change);
        let is_elsewhere = |entry: &Entry| entry.envelope().seq < from && !on_path.contains(&entry.id());
        if entries.iter().filter(counts_anywhere).any(is_elsewhere) {
            return None;
        }
        if !broken.is_empty() || !walk.findings().is_empty() || !is_known {
            return None;
        }
        let needed = needed(&path[..first], &walk);
        let earlier: Vec<(&Entry, usize)> = path[..first]
            .iter()
            .zip(&numbers)
            .filter(|(entry, _)| needed.contains(&entry.id()))
            .map(|(entry, number)| (*entry, *number))
            .collect();
        if part.is_none() && first < earlier.len() + WORTH {
            return None;
        }
        let checkpoint = Self {
            newest: Tail::of(entries.iter().max_by_key(|entry| entry.envelope().seq)?),
            from,
            number: numbers[first],
            earlier: earlier.iter().map(|(entry, number)| (entry.envelope().seq, *number)).collect(),
        };
        checkpoint.comes_to_the_same(entries, &earlier, &walk).then_some(checkpoint)
    }

    /// Whether its entries lead to the same view, with the same provider, as all of them.
    fn comes_to_the_same(&self, entries: &[Entry], earlier: &[(&Entry, usize)], walk: &Walk) -> bool {
        let later = entries.iter().filter(|entry| entry.envelope().seq >= self.from);
        let chosen: Vec<Entry> = earlier.iter().map(|(entry, _)| *entry).chain(later).cloned().collect();
        let Some(part) = self.part(&chosen) else { return false };
        Walk::along(&Tree::of_part(&chosen, &part.gaps)).is_some_and(|own| own.agrees_with(walk))
            && wanted::last_context(&chosen) == wanted::last_context(entries)
    }

    /// The gaps between its entries. None if these are not the entries that it names, or if something happened since that needs all
    /// entries.
    fn part(&self, entries: &[Entry]) -> Option<Part> {
        let (earlier, later) = entries.split_at_checked(self.earlier.len())?;
        let named = self.earlier.iter().map(|(seq, _)| *seq).chain([self.from]);
        if !named.zip(entries).all(|(seq, entry)| entry.envelope().seq == seq) || later.is_empty() {
            return None;
        }
        let newest = later.iter().find(|entry| entry.envelope().seq == self.newest.seq)?;
        if Tail::of(newest) != self.newest {
            return None;
        }
        let mut before = None;
        let mut gaps = EntryGaps::new();
        let numbers = self.earlier.iter().map(|(_, number)| *number).chain([self.number]);
        for (entry, number) in earlier.iter().chain(&later[..1]).zip(numbers) {
            gaps.insert(entry.id(), EntryGap { before, number });
            before = Some(entry.id());
        }
        Some(Part { from: self.from, gaps, newest: self.newest }).filter(|part| part.suffices(entries))
    }

    fn to_text(&self) -> String {
        let Self { newest, from, number, earlier } = self;
        let earlier = earlier.iter().flat_map(|(seq, number)| [seq.to_string(), number.to_string()]);
        list([
            VERSION.to_string(),
            newest.seq.to_string(),
            quoted(&newest.id.to_string()),
            quoted(&newest.hash.to_string()),
            from.to_string(),
            number.to_string(),
            list(earlier),
        ])
    }

    fn from_text(text: &str) -> Option<Self> {
        let doc = Doc::parse(text).ok()?;
        let fields: Vec<Value<'_>> = doc.root()?.items().collect();
        let &[version, seq, id, hash, from, number, earlier] = fields.as_slice() else { return None };
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
        is_rising.then_some(Self { newest, from, number: count(number)?, earlier })
    }
}

/// Whether an entry that was appended later needs more than these entries, which are all from `from` on: an erasure may concern anything,
/// undoing a compaction shows what it hid, and a compaction may keep any message.
fn needs_more(entry: &Entry, entries: &[Entry], from: u64) -> bool {
    match entry.envelope().kind {
        Kind::Erased | Kind::Uncompacted => true,
        Kind::Compacted => {
            let Content::Compacted(compacted) = Content::of(entry) else { return true };
            let known: HashMap<EntryId, u64> =
                entries.iter().map(|entry| (entry.id(), entry.envelope().seq)).collect();
            let is_later = |id: EntryId| known.get(&id).is_some_and(|seq| *seq >= from);
            !compacted.kept.iter().flatten().all(|kept| known.contains_key(&kept.entry))
                || !compacted.keep_from.is_none_or(is_later)
        }
        _ => false,
    }
}

/// The entries of the beginning of a path that a turn needs: the header, what the view still shows, the last context with the last answer
/// in it, the newest title, scope and pins, and the rules that a person added.
fn needed(beginning: &[&Entry], walk: &Walk) -> HashSet<EntryId> {
    let mut needed: HashSet<EntryId> = walk.entries().iter().copied().collect();
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
            _ => false,
        };
        if is_needed {
            needed.insert(entry.id());
        }
    }
    needed
}
