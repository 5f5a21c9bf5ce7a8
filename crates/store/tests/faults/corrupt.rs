//! Stores with damaged files: nothing panics or hangs, only damaged data is lost, no difference goes unreported, and a later write
//! makes nothing worse.
//!
//! `REJOIN_CORRUPTIONS` sets the number of cases, `REJOIN_SEED` where they begin; `cargo xtask corrupt` runs 5,000.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    ops::ControlFlow,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, mpsc},
    time::Duration,
};

use rejoin_record::{Chain, Content, ConversationId, Entry, EntryId, Kind, Message, Salt, chain::Stamp};
use rejoin_store::{
    Damage, Holder, Location, Query, Search, StoragePlace, Store, StoreError, StoredItem, open,
};
use testkit::faults::{
    Dice, Files, Script, Step, failures, materialise, number_from, quick_folder, snapshot, strike, strike_in,
};

use super::{
    KINDS, READ, WRITE, conversation,
    pages::{Extent, Pages, grain},
    support,
};

/// The longest time of one case. It waits for no other process, so this is generous.
const BOUND: Duration = Duration::from_secs(30);

/// An entry, as it was stored: its conversation, its place, and its line.
type Line = (ConversationId, u64, String);

/// A sound store, and the facts about it.
struct Base {
    name: String,
    kind: &'static str,
    files: Files,
    /// An earlier state of the same store.
    older: Files,
    lines: BTreeSet<Line>,
    /// The entries of that state that were erased since.
    older_lines: BTreeSet<Line>,
    /// The extents that must be unchanged for an entry to be read.
    needs: BTreeMap<(ConversationId, u64), Vec<Extent>>,
    /// The extents that must be unchanged for the name of a conversation: one of these lists.
    names: BTreeMap<ConversationId, Vec<Vec<Extent>>>,
}

fn location(kind: &str, folder: &Path) -> Location {
    match kind {
        "sqlite" => Location::Sqlite(folder.join(FILE)),
        _ => Location::Jsonl(folder.to_owned()),
    }
}

/// The steps that made a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Past {
    /// Written and closed.
    Closed,
    /// Its process was killed: there is a log.
    Killed,
    /// Conversations were deleted, drafts and damage were kept.
    Used,
    /// Made by an older version and upgraded; of a folder, with a torn end.
    Upgraded,
}

const PASTS: [Past; 4] = [Past::Closed, Past::Killed, Past::Used, Past::Upgraded];

fn go_on(store: &dyn Store, number: u64, steps: u64) {
    let id = conversation(number);
    let entries = testkit::faults::read_all(store, id).unwrap();
    let mut script = Script::new(id, &entries, number * 31 + steps);
    for _ in 0..steps {
        let after = script.tail();
        match script.step() {
            Step::Append(entries) => drop(store.append(id, after, &entries).unwrap()),
            Step::Erase { entry, note } => drop(store.erase(id, after.unwrap(), entry, &note).unwrap()),
        }
    }
}

fn lines_of(store: &dyn Store) -> BTreeSet<Line> {
    let entries = |id| testkit::faults::read_all(store, id).unwrap().into_iter();
    let lines = |id| entries(id).map(move |entry: Entry| (id, entry.envelope().seq, entry.to_line()));
    store.ids("", 100).unwrap().into_iter().flat_map(lines).collect()
}

impl Base {
    fn make(kind: &'static str, past: Past) -> Self {
        let folder = quick_folder();
        let path = folder.path().join("store");
        let place = location(kind, &path);
        if past == Past::Upgraded && kind == "sqlite" {
            fs::create_dir(&path).unwrap();
            let (talk, entries) = support::Talk::of(77, 12);
            support::write_first_schema(&path.join(FILE), &[(talk.id, &entries)]);
        }
        let store = open(&place, WRITE).unwrap();
        for number in 1..=4 {
            go_on(&*store, number, 6);
        }
        store.settle().unwrap();
        let store = if past == Past::Killed {
            store
        } else {
            drop(store);
            open(&place, WRITE).unwrap()
        };
        let (older, older_lines) = (snapshot(&path).unwrap(), lines_of(&*store));
        for number in [1, 3, 2, 4, 3, 5] {
            go_on(&*store, number, 5);
        }
        if past == Past::Used {
            store.delete(conversation(2)).unwrap();
            let damage = Damage {
                place: StoragePlace::Store,
                why: String::new(),
                bytes: vec![b'x'; 3000],
                torn: true,
            };
            store.set_aside(conversation(3), &damage).unwrap();
            let mut draft = store.drafts().unwrap().begin(conversation(4)).unwrap();
            draft.append(b"an answer that was cut").unwrap();
            let holder = Holder { pid: 1, command: String::from("a test"), since: String::new() };
            drop(store.lock(conversation(1), &holder).unwrap());
            go_on(&*store, 1, 3);
        }
        store.settle().unwrap();
        let lines = lines_of(&*store);
        let files = if past == Past::Killed {
            let files = snapshot(&path).unwrap();
            drop(store);
            files
        } else {
            drop(store);
            snapshot(&path).unwrap()
        };
        let (needs, names) = match kind {
            "sqlite" => needs_of_rows(&files),
            _ => needs_of_lines(&files, &lines),
        };
        assert_eq!(needs.len(), lines.len(), "every entry was found in the files");
        let name = format!("{kind}, {past:?}");
        Self { name, kind, files, older, lines, older_lines, needs, names }
    }

    /// The entries whose bytes are unchanged.
    fn untouched(&self, struck: &Files) -> BTreeSet<Line> {
        let as_it_was = |(file, range): &Extent| {
            let bytes = struck.get(file).and_then(|bytes| bytes.get(range.clone()));
            bytes == Some(&self.files[file][range.clone()])
        };
        let untouched = |extents: &Vec<Extent>| extents.iter().all(as_it_was);
        let named = |id: &ConversationId| self.names[id].iter().any(&untouched);
        let is = |line: &&Line| named(&line.0) && untouched(&self.needs[&(line.0, line.1)]);
        self.lines.iter().filter(is).cloned().collect()
    }
}

const FILE: &str = "rejoin.db";
const LOG: &str = "rejoin.db-wal";

type Needs = BTreeMap<(ConversationId, u64), Vec<Extent>>;
type Names = BTreeMap<ConversationId, Vec<Vec<Extent>>>;

/// An entry of a database needs its row and the rows of its long strings. A conversation has its name in a row, and in the
/// header.
fn needs_of_rows(files: &Files) -> (Needs, Names) {
    let folder = quick_folder();
    materialise(files, folder.path()).unwrap();
    let connection = rusqlite::Connection::open(folder.path().join(FILE)).unwrap();
    let pages = Pages::new(files, Path::new(FILE));
    let rows = |table: &str| {
        let query = "SELECT rootpage FROM sqlite_schema WHERE name = ?1";
        pages.rows(connection.query_row(query, [table], |row| row.get(0)).unwrap())
    };
    let (entries, blobs, conversations) = (rows("entry"), rows("blob"), rows("conversation"));
    let (mut needs, mut names) = (Needs::new(), Names::new());
    let mut statement = connection
        .prepare(
            "SELECT entry.key, entry.seq, conversation.key, conversation.id, \
             (SELECT group_concat(blob) FROM blob_use WHERE blob_use.entry = entry.key) \
             FROM entry JOIN conversation ON conversation.key = entry.conversation",
        )
        .unwrap();
    let mut found = statement.query([]).unwrap();
    while let Some(row) = found.next().unwrap() {
        let (key, seq): (i64, i64) = (row.get(0).unwrap(), row.get(1).unwrap());
        let id: ConversationId = row.get::<_, String>(3).unwrap().parse().unwrap();
        let mut extents = entries[&key].clone();
        let used: Option<String> = row.get(4).unwrap();
        for blob in used.iter().flat_map(|used| used.split(',')) {
            extents.extend(blobs[&blob.parse().unwrap()].clone());
        }
        let names = names.entry(id).or_default();
        if names.is_empty() {
            names.push(conversations[&row.get(2).unwrap()].clone());
        }
        if seq == 0 {
            names.push(extents.clone());
        }
        needs.insert((id, seq.unsigned_abs()), extents);
    }
    (needs, names)
}

/// An entry of a folder needs its line; the conversation's name is that of the file.
fn needs_of_lines(files: &Files, lines: &BTreeSet<Line>) -> (Needs, Names) {
    let (mut needs, mut names) = (Needs::new(), Names::new());
    for (id, seq, line) in lines {
        let file = PathBuf::from(format!("{id}.jsonl"));
        let bytes = &files[&file];
        let at = bytes.windows(line.len()).position(|window| window == line.as_bytes()).unwrap();
        // The ends of the lines around it belong to it.
        let range = at.saturating_sub(1)..at + line.len() + 1;
        needs.insert((*id, *seq), vec![(file, range)]);
        names.insert(*id, vec![Vec::new()]);
    }
    (needs, names)
}

/// The entries that a store returns, and whether it reports a fault.
#[derive(Default)]
struct Held {
    lines: BTreeSet<Line>,
    /// Entries that were never stored so.
    invented: Vec<String>,
    /// The reports.
    told: Vec<String>,
}

fn told(what: &str, why: impl ToString) -> String {
    format!("{what}: {}", why.to_string().chars().take(160).collect::<String>())
}

/// Whether a report is about an entry. An entry whose parent is lost cannot be verified; that is reported for each.
fn names(told: &str, line: &str) -> bool {
    told.split(' ').any(|word| word.len() == 36 && line.contains(&format!(r#""id":"{word}""#)))
}

/// Everything that every way of reading gives.
fn look(base: &Base, store: &dyn Store) -> Held {
    let mut held = Held::default();
    let ids: BTreeSet<ConversationId> = base.lines.iter().map(|(id, _, _)| *id).collect();
    for id in &ids {
        let mut lines = Vec::new();
        let mut told_here = Vec::new();
        let mut take = |item: StoredItem| {
            match item {
                StoredItem::Entry(entry) => lines.push((*id, entry.envelope().seq, entry.to_line())),
                StoredItem::Damage(damage) if damage.torn => {}
                StoredItem::Damage(damage) => told_here.push(told("damage", damage.why)),
            }
            ControlFlow::Continue(())
        };
        match store.read(*id, 0, &mut take) {
            // Verifying must report what is missing.
            Ok(()) | Err(StoreError::NotFound(_)) => {}
            Err(why) => told_here.push(told("read", why)),
        }
        let read: BTreeSet<Line> = lines.iter().cloned().collect();
        for line in &read {
            let known = base.lines.contains(line) || base.older_lines.contains(line);
            if !known && !told_here.iter().any(|told| names(told, &line.2)) {
                let text: String = line.2.chars().take(200).collect();
                held.invented.push(format!("{id}, entry {}: {text}", line.1));
            }
        }
        let _ = store.tail(*id);
        let _ = store.summary(*id);
        held.lines.extend(read);
        held.told.append(&mut told_here);
    }
    match store.verify(None, &mut |problem| {
        if !problem.torn {
            held.told.push(told("verify", &problem.what));
        }
    }) {
        Ok(_) => {}
        Err(why) => held.told.push(told("verify", why)),
    }
    let _ = store.ids("", 1000);
    if let Err(why) = store.list(&Query::default()) {
        held.told.push(told("list", why));
    }
    let _ = store.search(&Search { words: String::from("file"), limit: 5, ..Search::default() });
    let _ = store.size();
    held
}

/// A fault, by kind.
fn wrong(kind: &str, what: impl ToString) -> String {
    format!("{kind}: {}", what.to_string())
}

fn missing(expected: &BTreeSet<Line>, held: &BTreeSet<Line>) -> Vec<String> {
    expected.difference(held).map(|(id, seq, _)| format!("{id} {seq}")).collect()
}

fn some(list: &[String]) -> String {
    let shown: Vec<&str> = list.iter().take(4).map(String::as_str).collect();
    format!("{} ({}{})", list.len(), shown.join(", "), if list.len() > 4 { ", …" } else { "" })
}

/// One damaged store.
fn case(base: &Base, seed: u64) -> Vec<String> {
    let mut dice = Dice(seed);
    let mut struck = base.files.clone();
    let (name, how) = strike(&mut dice, &mut struck, &base.older, grain);
    let mut how = vec![how];
    if dice.below(4) == 0 {
        // Damage only one of the two files: the index can only miss entries if it is undamaged itself.
        how.push(strike_in(&mut dice, &name, &mut struck, &base.older, grain(&name)));
    }
    let folder = quick_folder();
    let path = folder.path().join("store");
    fs::create_dir(&path).unwrap();
    materialise(&struck, &path).unwrap();
    let place = location(base.kind, &path);
    let untouched = base.untouched(&struck);
    let mut found = Vec::new();

    let readable = match open(&place, READ) {
        Err(why) => {
            if !untouched.is_empty() {
                found.push(wrong(
                    "does not open",
                    format!("{why}, {} entries are untouched", untouched.len()),
                ));
            }
            if matches!(why, StoreError::Missing(_)) {
                found.push(wrong("looks like no store", why));
            }
            BTreeSet::new()
        }
        Ok(store) => {
            let held = look(base, &*store);
            drop(store);
            judge(base, &held, &untouched, &mut found);
            held.lines
        }
    };
    // The log of a killed process may be taken up.
    let has_log = struck.contains_key(Path::new(LOG));
    for (name, bytes) in struck.iter().filter(|(name, _)| is_record(name) && !has_log) {
        if fs::read(path.join(name)).ok().as_ref() != Some(bytes) {
            found.push(wrong("reading changed the record", name.display()));
        }
    }
    let written = write(&place, &mut dice, &mut found);
    match open(&place, WRITE) {
        Err(why) if !untouched.is_empty() => found.push(wrong("does not open after writing", why)),
        Err(_) => {}
        Ok(store) => {
            let mut held = look(base, &*store);
            held.invented.retain(|line| !written.iter().any(|id| line.contains(&id.to_string())));
            let lost = missing(&readable, &held.lines);
            if !lost.is_empty() {
                found.push(wrong("a write lost", some(&lost)));
            }
            if !held.invented.is_empty() {
                found.push(wrong("handed out what was never stored after writing", some(&held.invented)));
            }
        }
    }
    let how = how.join("; ");
    found.iter().map(|what| format!("{what}\n    seed {seed}, {}, {how}", base.name)).collect()
}

/// Whether a file contains the entries, and not data derived from them.
fn is_record(name: &Path) -> bool {
    let name = name.to_string_lossy();
    name == FILE || name.ends_with(".jsonl")
}

fn judge(base: &Base, held: &Held, untouched: &BTreeSet<Line>, found: &mut Vec<String>) {
    if !held.invented.is_empty() {
        found.push(wrong("handed out what was never stored", some(&held.invented)));
    }
    let lost = missing(untouched, &held.lines);
    if !lost.is_empty() {
        found.push(wrong("lost what was not struck", some(&lost)));
    }
    let lost = missing(&base.lines, &held.lines);
    if !lost.is_empty() && held.told.is_empty() {
        found.push(wrong("lost without a word", some(&lost)));
    }
}

/// Appends to a conversation as a program would: after the tail that the store reports, or to a new one. Returns the ids of the
/// appended entries.
fn write(place: &Location, dice: &mut Dice, found: &mut Vec<String>) -> Vec<EntryId> {
    let Ok(store) = open(place, WRITE) else { return Vec::new() };
    let ids = store.ids("", 100).unwrap_or_default();
    let id = match ids.len() {
        0 => conversation(99),
        count => ids[dice.below(count as u64) as usize],
    };
    let holder = Holder { pid: 1, command: String::from("a test"), since: String::new() };
    let _lock = store.lock(id, &holder);
    let tail = store.tail(id).ok().flatten();
    let mut random = [3; 10];
    random[..8].copy_from_slice(&dice.roll().to_le_bytes());
    let stamp = Stamp {
        id: EntryId::new(1_790_000_000_000, random),
        timestamp: rejoin_record::Timestamp::UNIX_EPOCH,
        salt: Salt([9; 16]),
        source_time: None,
    };
    let entries: Vec<Entry> = match tail {
        Some(_) => {
            let message = Content::Message(Message::user("written after the damage"));
            vec![Chain::at(tail).append(Kind::Message, &message, stamp)]
        }
        None => match Script::new(id, &[], 1).step() {
            Step::Append(entries) => entries,
            Step::Erase { .. } => panic!("a conversation begins with a header"),
        },
    };
    let ids = entries.iter().map(Entry::id).collect();
    let Ok(after) = store.append(id, tail, &entries) else { return ids };
    // Acknowledged entries are there.
    let read = testkit::faults::read_all(&*store, id).unwrap_or_default();
    if !read.iter().any(|entry| entry.id() == after.id) {
        found.push(wrong("an acknowledged append is not there", id));
    }
    ids
}

/// Damage of every kind to every file.
fn corruptions(count: u64) {
    let first = number_from("REJOIN_SEED").unwrap_or(1);
    let bases: Vec<Arc<Base>> =
        KINDS.iter().flat_map(|kind| PASTS.map(|past| Arc::new(Base::make(kind, past)))).collect();
    let next = Mutex::new(first);
    let all: Mutex<Vec<String>> = Mutex::default();
    let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
    let quiet = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                loop {
                    let seed = {
                        let mut next = next.lock().unwrap();
                        *next += 1;
                        *next - 1
                    };
                    if seed >= first + count {
                        return;
                    }
                    let base = Arc::clone(&bases[seed as usize % bases.len()]);
                    let found = bounded(base, seed);
                    all.lock().unwrap().extend(found);
                }
            });
        }
    });
    std::panic::set_hook(quiet);
    let all = all.into_inner().unwrap();
    println!("{count} corruptions, {} things wrong", all.len());
    failures(&all);
}

/// One case, which may neither panic nor take long.
fn bounded(base: Arc<Base>, seed: u64) -> Vec<String> {
    let (send, receive) = mpsc::channel();
    let name = base.name.clone();
    std::thread::spawn(move || {
        let found = catch_unwind(AssertUnwindSafe(|| case(&base, seed)));
        let _ = send.send(found.unwrap_or_else(|panic| {
            let said = panic.downcast_ref::<String>().cloned();
            let said = said.or_else(|| panic.downcast_ref::<&str>().map(|said| (*said).to_owned()));
            vec![format!("panic: {}\n    seed {seed}, {}", said.unwrap_or_default(), base.name)]
        }));
    });
    receive.recv_timeout(BOUND).unwrap_or_else(|_| vec![format!("hang: seed {seed}, {name}")])
}

/// B29, S2-37: whatever damage is done to the files of a store, undamaged entries are read, lost ones are reported, nothing differs
/// unnoticed, and later writes make nothing worse.
#[test]
fn a_damaged_store_loses_only_what_was_struck() {
    corruptions(number_from("REJOIN_CORRUPTIONS").unwrap_or(150));
}
