//! Erased or deleted text is in no file any more: generated histories, and a search through every byte after each removal.
//!
//! Each text consists of words that occur nowhere else. A store may compress a text, so the words are random letters, which LZ4
//! leaves unchanged; for long strings, the compressed bytes themselves are recorded before the removal (`kept_bytes`) and searched
//! for after it.

use std::collections::{BTreeMap, HashMap, HashSet};

use rejoin_record::{ConversationId, EntryId};
use rejoin_store::{Damage, StoragePlace};
use testkit::faults::Dice;

use super::*;

/// This many bytes in a row are no accident.
const WINDOW: usize = 16;

type Window = [u8; WINDOW];

/// Who holds a piece of content: a conversation, and an entry of it (none: its draft).
type Holder = (ConversationId, Option<EntryId>);

/// How many histories are generated for each store: `REJOIN_HISTORIES`, or what an ordinary run has time for.
fn histories() -> u64 {
    std::env::var("REJOIN_HISTORIES").ok().and_then(|count| count.parse().ok()).unwrap_or(3)
}

/// A word that occurs nowhere else.
fn word(dice: &mut Dice) -> String {
    let mut word = String::with_capacity(24);
    while word.len() < 24 {
        let mut letters = dice.roll();
        for _ in 0..12 {
            word.push(char::from(b'a' + (letters % 26) as u8));
            letters /= 26;
        }
    }
    word
}

/// A text of about this many bytes.
fn text(dice: &mut Dice, bytes: u64) -> String {
    let words: Vec<String> = (0..=bytes / 25).map(|_| word(dice)).collect();
    words.join(" ")
}

/// Everything that was ever put into a store, with who holds it now.
#[derive(Default)]
struct Content {
    /// Which text a window is from.
    windows: HashMap<Window, usize>,
    /// Who holds each text.
    holders: Vec<HashSet<Holder>>,
}

impl Content {
    fn add(&mut self, bytes: &[u8], holder: Holder) {
        let number = self.holders.len();
        self.holders.push(HashSet::new());
        let mut at = 4;
        while let Some(window) = bytes.get(at..at + WINDOW) {
            let known = *self.windows.entry(window.try_into().unwrap()).or_insert(number);
            self.holders[known].insert(holder);
            // Every part of a short text, and some of a long one.
            at += if bytes.len() < 4000 { 4 } else { 12 };
        }
    }

    fn remove(&mut self, gone: impl Fn(&Holder) -> bool) {
        for holders in &mut self.holders {
            holders.retain(|holder| !gone(holder));
        }
    }

    /// The files that contain text that no conversation holds.
    fn left_behind(&self, home: &Home) -> Vec<String> {
        let mut beginnings = vec![false; 1 << 16];
        let nobody = |text: &usize| self.holders[*text].is_empty();
        let gone: HashSet<&Window> =
            self.windows.iter().filter(|(_, text)| nobody(text)).map(|(window, _)| window).collect();
        let beginning = |bytes: &[u8]| usize::from(bytes[0]) << 8 | usize::from(bytes[1]);
        for window in &gone {
            beginnings[beginning(&window[..])] = true;
        }
        let mut found = Vec::new();
        for path in home.files() {
            let bytes = fs::read(&path).unwrap();
            let places: Vec<usize> = (0..bytes.len().saturating_sub(WINDOW - 1))
                .filter(|at| beginnings[beginning(&bytes[*at..])])
                .filter(|at| gone.contains::<Window>(&bytes[*at..*at + WINDOW].try_into().unwrap()))
                .collect();
            if let Some(first) = places.first() {
                let name = path.strip_prefix(home.folder.path()).unwrap_or(&path).display().to_string();
                let text = String::from_utf8_lossy(&bytes[*first..*first + WINDOW]).into_owned();
                found.push(format!("{name}: {} places, the first at byte {first}: {text:?}", places.len()));
            }
        }
        found
    }
}

/// The bytes in which a store keeps the long strings of an entry, where they are not the text itself.
fn kept_bytes(home: &Home, conversation: ConversationId, entry: EntryId) -> Vec<Vec<u8>> {
    let Location::Sqlite(path) = &home.location else { return Vec::new() };
    let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
    let connection = rusqlite::Connection::open_with_flags(path, flags).unwrap();
    let mut statement = connection
        .prepare(
            "SELECT blob.bytes FROM blob JOIN blob_use ON blob_use.blob = blob.key \
             JOIN entry ON entry.key = blob_use.entry JOIN conversation ON conversation.key = entry.conversation \
             WHERE conversation.id = ?1 AND entry.id = ?2",
        )
        .unwrap();
    let id = entry.as_uuid();
    let rows = statement.query_map((conversation.to_string(), id.as_bytes()), |row| row.get(0)).unwrap();
    rows.map(|row: rusqlite::Result<Vec<u8>>| row.unwrap()).collect()
}

/// A conversation and its texts.
struct Kept {
    talk: Talk,
    entries: Vec<Entry>,
    /// Entries that can be erased, with their texts.
    texts: BTreeMap<EntryId, String>,
}

/// A store with a history that grows at random.
struct World<'h> {
    home: &'h Home,
    store: Option<Box<dyn Store>>,
    dice: Dice,
    kept: Vec<Kept>,
    content: Content,
    /// Texts of earlier messages.
    said: Vec<String>,
    /// Entries of which a copy was set aside.
    set_aside: Vec<(ConversationId, EntryId)>,
    made: u64,
}

impl<'h> World<'h> {
    fn new(home: &'h Home, seed: u64) -> Self {
        let store = Some(home.open());
        Self {
            home,
            store,
            dice: Dice(seed),
            kept: Vec::new(),
            content: Content::default(),
            said: Vec::new(),
            set_aside: Vec::new(),
            made: 0,
        }
    }

    fn store(&self) -> &dyn Store {
        self.store.as_deref().unwrap()
    }

    /// Performs one step. Returns the removed text, if the step removed any.
    fn step(&mut self) -> Option<String> {
        let some = !self.kept.is_empty();
        match self.dice.below(24) {
            _ if !some => self.begin(),
            0 | 1 => self.begin(),
            2 => self.fork(),
            3 => self.title(),
            4 => self.draft(),
            5 => self.damage(),
            6 => self.store = Some(self.home.reopen(self.store.take().unwrap())),
            7 => drop(search(self.store(), "the and")),
            8..=10 => return self.erase(),
            11 => return self.delete(),
            _ => self.say(),
        }
        None
    }

    fn any(&mut self) -> usize {
        self.dice.below(self.kept.len() as u64) as usize
    }

    fn begin(&mut self) {
        self.made += 1;
        let mut talk = Talk::new(self.made);
        let header = talk.header();
        self.store().append(talk.id, None, std::slice::from_ref(&header)).unwrap();
        self.kept.push(Kept { talk, entries: vec![header], texts: BTreeMap::new() });
    }

    /// Short texts, texts that are compressed, and long ones in separate rows or in many pages.
    fn text(&mut self) -> String {
        if !self.said.is_empty() && self.dice.below(6) == 0 {
            let place = self.dice.below(self.said.len() as u64) as usize;
            return self.said[place].clone();
        }
        let bytes = [40, 40, 200, 700, 1500, 3000, 9000, 30_000, 100_000][self.dice.below(9) as usize];
        let bytes = bytes / 2 + self.dice.below(bytes);
        let text = text(&mut self.dice, bytes);
        self.said.push(text.clone());
        text
    }

    fn append(&mut self, place: usize, entries: Vec<(Entry, Option<String>)>) {
        let after = tail(&self.kept[place].entries);
        let batch: Vec<Entry> = entries.iter().map(|(entry, _)| entry.clone()).collect();
        self.store().append(self.kept[place].talk.id, after, &batch).unwrap();
        let id = self.kept[place].talk.id;
        for (entry, text) in entries {
            if let Some(text) = text {
                let holder = (id, Some(entry.id()));
                self.content.add(text.as_bytes(), holder);
                for bytes in kept_bytes(self.home, id, entry.id()) {
                    // The ends of a frame may look like those of another one.
                    if bytes.len() > 200 {
                        self.content.add(&bytes[64..bytes.len() - 64], holder);
                    }
                }
                self.kept[place].texts.insert(entry.id(), text);
            }
            self.kept[place].entries.push(entry);
        }
    }

    fn say(&mut self) {
        let place = self.any();
        let mut batch = Vec::new();
        for _ in 0..=self.dice.below(4) {
            let text = self.text();
            batch.push((self.kept[place].talk.user(&text), Some(text)));
        }
        self.append(place, batch);
    }

    fn title(&mut self) {
        let place = self.any();
        let title = text(&mut self.dice, 60);
        let entry = self.kept[place].talk.titled(&title);
        self.append(place, vec![(entry, Some(title))]);
    }

    /// The first entries of a conversation, sealed again after another header, as a fork does it.
    fn fork(&mut self) {
        let from = self.any();
        let upto = 1 + self.dice.below(self.kept[from].entries.len() as u64) as usize;
        let taken: Vec<Entry> = self.kept[from].entries[1..upto.max(1)].to_vec();
        let texts = self.kept[from].texts.clone();
        self.begin();
        let place = self.kept.len() - 1;
        let mut batch = Vec::new();
        for entry in taken.iter().filter(|entry| entry.envelope().kind != Kind::Erased) {
            let chain = &mut self.kept[place].talk.chain;
            if let Some(entry) = chain.reseal(chain.head(), entry) {
                let text = texts.get(&entry.id()).cloned();
                batch.push((entry, text));
            }
        }
        if !batch.is_empty() {
            self.append(place, batch);
        }
    }

    /// An answer that a kill cut off. It goes with its conversation.
    fn draft(&mut self) {
        let place = self.any();
        let id = self.kept[place].talk.id;
        let text = text(&mut self.dice, 500);
        let Some(drafts) = self.store().drafts() else { return };
        if let Ok(mut draft) = drafts.begin(id) {
            draft.append(text.as_bytes()).unwrap();
            drop(draft);
            self.content.add(text.as_bytes(), (id, None));
        }
    }

    /// A damaged copy of an entry, set aside: whole, or without its id.
    fn damage(&mut self) {
        let place = self.any();
        let count = self.kept[place].texts.len() as u64;
        let Some((entry, text)) = self.kept[place]
            .texts
            .iter()
            .nth(self.dice.below(count.max(1)) as usize)
            .map(|(entry, text)| (*entry, text.clone()))
        else {
            return;
        };
        let id = self.kept[place].talk.id;
        let line = self.kept[place].entries.iter().find(|other| other.id() == entry).unwrap().to_line();
        let bytes = if self.dice.below(2) == 0 { line.into_bytes() } else { text.into_bytes() };
        let damage = Damage { place: StoragePlace::Store, why: String::from("a test"), bytes, torn: true };
        self.store().set_aside(id, &damage).unwrap();
        self.set_aside.push((id, entry));
    }

    fn erase(&mut self) -> Option<String> {
        let marked = self.set_aside.pop().filter(|_| self.dice.below(2) == 0).and_then(|(id, entry)| {
            let place = self.kept.iter().position(|kept| kept.talk.id == id)?;
            self.kept[place].texts.contains_key(&entry).then_some((place, entry))
        });
        let (place, entry) = match marked {
            Some(marked) => marked,
            None => {
                let place = self.any();
                let count = self.kept[place].texts.len() as u64;
                let number = self.dice.below(count.max(1)) as usize;
                (place, *self.kept[place].texts.keys().nth(number)?)
            }
        };
        let id = self.kept[place].talk.id;
        let note = self.kept[place].talk.erased(entry);
        let after = tail(&self.kept[place].entries).unwrap();
        self.store().erase(id, after, entry, &note).unwrap();
        self.kept[place].texts.remove(&entry);
        for other in &mut self.kept[place].entries {
            if other.id() == entry {
                *other = other.erased();
            }
        }
        self.kept[place].entries.push(note);
        self.content.remove(|holder| *holder == (id, Some(entry)));
        Some(format!("erasing {entry} of {id}"))
    }

    fn delete(&mut self) -> Option<String> {
        let place = self.any();
        let kept = self.kept.remove(place);
        self.store().delete(kept.talk.id).unwrap();
        self.content.remove(|holder| holder.0 == kept.talk.id);
        Some(format!("deleting {}", kept.talk.id))
    }

    /// The content of the other conversations is still there and sound.
    fn others_are_whole(&self) -> Result<(), String> {
        for kept in &self.kept {
            let (found, damage) = read(self.store(), kept.talk.id, 0);
            if found != kept.entries || !damage.is_empty() {
                return Err(format!("{} is not what it was: {damage:?}", kept.talk.id));
            }
        }
        let found = problems(self.store(), None);
        if found.is_empty() { Ok(()) } else { Err(format!("verify finds {found:?}")) }
    }
}

/// After each erasure and deletion, no byte of content that no conversation holds is in any file, while the store is open and after
/// it was closed; other conversations keep their content.
#[test]
fn what_was_removed_is_in_no_file() {
    let failures = std::cell::RefCell::new(Vec::new());
    in_every_home(|home| {
        let mut removals = 0;
        for seed in 1..=histories() {
            let folder = support::folder();
            let location = match &home.location {
                Location::Memory => Location::Memory,
                // Its files are the server's; those on this machine must be clean.
                Location::Postgres(_) => support::postgres(folder.path()).unwrap(),
                Location::Jsonl(_) => Location::Jsonl(folder.path().join("store")),
                Location::Sqlite(_) => Location::Sqlite(folder.path().join("store/rejoin.db")),
            };
            let home = Home { name: home.name, location, folder };
            let mut world = World::new(&home, seed);
            for step in 0..60 {
                let Some(removed) = world.step() else { continue };
                removals += 1;
                let mut found = world.content.left_behind(&home);
                if let Err(why) = world.others_are_whole() {
                    found.push(why);
                }
                if found.is_empty() && world.dice.below(4) == 0 {
                    world.store = Some(home.reopen(world.store.take().unwrap()));
                    found = world.content.left_behind(&home);
                }
                if !found.is_empty() {
                    failures.borrow_mut().push(format!(
                        "{}, seed {seed}, step {step}, {removed}: {}",
                        home.name,
                        found.join("; ")
                    ));
                    break;
                }
            }
        }
        println!("{}: {removals} removals", home.name);
        assert!(removals > 0, "{}: nothing was removed", home.name);
    });
    let failures = failures.into_inner();
    assert!(
        failures.is_empty(),
        "{} removals left something behind\n{}",
        failures.len(),
        failures.join("\n")
    );
}

/// A text that a fork holds too stays until the fork goes.
#[test]
fn what_a_fork_holds_stays_until_the_fork_goes() {
    in_every_home(|home| {
        let mut world = World::new(home, 5);
        world.begin();
        for bytes in [100, 5000, 40_000] {
            let text = text(&mut world.dice, bytes);
            let entry = world.kept[0].talk.user(&text);
            world.append(0, vec![(entry, Some(text))]);
        }
        while world.kept.len() < 2 || world.kept[1].texts.len() < 3 {
            world.kept.truncate(1);
            world.fork();
        }
        let first = world.kept.remove(0);
        world.store().delete(first.talk.id).unwrap();
        world.content.remove(|holder| holder.0 == first.talk.id);
        world.others_are_whole().unwrap();
        assert_eq!(world.content.left_behind(home), Vec::<String>::new(), "{}", home.name);
    });
}

/// Several conversations go at once, and no other; if one of them does not exist, that is an error.
#[test]
fn several_conversations_go_at_once() {
    in_every_home(|home| {
        let mut world = World::new(home, 9);
        for number in 0..4 {
            world.begin();
            let text = text(&mut world.dice, 3000);
            let entry = world.kept[number].talk.user(&text);
            world.append(number, vec![(entry, Some(text))]);
        }
        let gone: Vec<ConversationId> = world.kept.drain(..3).map(|kept| kept.talk.id).collect();
        let store = world.store();
        store.delete_all(&[]).unwrap();
        store.delete_all(&gone).unwrap();
        assert!(gone.iter().all(|id| store.tail(*id).unwrap().is_none()));
        assert!(store.delete_all(&gone[..1]).is_err());
        world.content.remove(|holder| gone.contains(&holder.0));
        world.others_are_whole().unwrap();
        assert_eq!(world.content.left_behind(home), Vec::<String>::new(), "{}", home.name);
    });
}

/// A store in the first schema, of which a backup is made when it is upgraded.
fn with_a_backup(home: &Home) -> (Talk, Vec<Entry>, String) {
    let Location::Sqlite(path) = &home.location else { panic!("only SQLite has schemas") };
    let mut dice = Dice(11);
    let (mut talk, mut entries) = Talk::of(1, 3);
    let secret = text(&mut dice, 300);
    entries.push(talk.user(&secret));
    entries.push(talk.user("something else"));
    support::write_first_schema(path, &[(talk.id, &entries)]);
    (talk, entries, secret)
}

/// The copy that was made before an upgrade holds nothing that was erased or deleted since.
#[test]
fn what_was_removed_is_not_in_the_copy_of_an_upgrade() {
    in_every_home(|home| {
        if !matches!(home.location, Location::Sqlite(_)) {
            return;
        }
        for delete in [false, true] {
            let folder = support::folder();
            fs::create_dir(folder.path().join("store")).unwrap();
            let location = Location::Sqlite(folder.path().join("store/rejoin.db"));
            let home = Home { name: home.name, location, folder };
            let (mut talk, entries, secret) = with_a_backup(&home);
            let store = home.open();
            assert!(home.files().iter().any(|file| file.to_string_lossy().ends_with(".backup")));
            remove(&*store, &mut talk, &entries, delete);
            drop(store);
            assert!(home.holding(&secret[..24]) == 0, "delete: {delete}");
            if !delete {
                let (found, damage) = read(&*home.open(), talk.id, 0);
                assert_eq!((found.len(), damage.len()), (entries.len() + 1, 0));
            }
        }
    });
}

/// Erases the entry before the last, or deletes all of it.
fn remove(store: &dyn Store, talk: &mut Talk, entries: &[Entry], delete: bool) {
    if delete {
        store.delete(talk.id).unwrap();
    } else {
        let entry = entries[entries.len() - 2].id();
        let note = talk.erased(entry);
        store.erase(talk.id, tail(entries).unwrap(), entry, &note).unwrap();
    }
}

/// A store that was damaged and mended keeps a copy of the damaged file. Text that is erased later is removed from that copy, too.
#[test]
fn what_was_removed_is_not_in_what_was_set_aside() {
    in_every_home_on_disk(|home| {
        for delete in [false, true] {
            let folder = support::folder();
            let location = match &home.location {
                Location::Sqlite(_) => Location::Sqlite(folder.path().join("store/rejoin.db")),
                _ => Location::Jsonl(folder.path().join("store")),
            };
            let home = Home { name: home.name, location, folder };
            let mut dice = Dice(12);
            let (mut talk, mut entries) = Talk::of(1, 3);
            let secret = text(&mut dice, 300);
            entries.push(talk.user(&secret));
            entries.push(talk.user("something else"));
            let store = home.open();
            store.append(talk.id, None, &entries).unwrap();
            drop(store);
            // One bit: in the first page of a database, in the header's line of a file.
            let path = match &home.location {
                Location::Jsonl(folder) => folder.join(format!("{}.jsonl", talk.id)),
                Location::Sqlite(path) => path.clone(),
                Location::Memory | Location::Postgres(_) => continue,
            };
            let mut bytes = fs::read(&path).unwrap();
            bytes[3] ^= 0x20;
            fs::write(&path, &bytes).unwrap();
            let store = home.open();
            let (found, damage) = read(&*store, talk.id, 0);
            for damage in &damage {
                store.set_aside(talk.id, damage).unwrap();
            }
            assert!(found.iter().any(|entry| entry.id() == entries[4].id()), "{}", home.name);
            remove(&*store, &mut talk, &entries, delete);
            drop(store);
            assert_eq!(home.holding(&secret[..24]), 0, "{}, delete: {delete}", home.name);
        }
    });
}

/// A process that was killed while it erased leaves a half-written copy. The next removal takes it away.
#[test]
fn what_was_removed_is_not_in_what_a_killed_removal_left() {
    in_every_home(|home| {
        let Location::Jsonl(folder) = &home.location else { return };
        for delete in [false, true] {
            let (mut talk, mut entries) = Talk::of(1, 3);
            entries.push(talk.user("the password is XYZZYPLUGH"));
            entries.push(talk.user("something else"));
            let store = home.open();
            store.append(talk.id, None, &entries).unwrap();
            let left = folder.join(format!(".{}.erasing", talk.id));
            fs::copy(folder.join(format!("{}.jsonl", talk.id)), &left).unwrap();
            remove(&*store, &mut talk, &entries, delete);
            assert_eq!(home.holding("XYZZYPLUGH"), 0, "delete: {delete}");
            if !delete {
                store.delete(talk.id).unwrap();
            }
        }
    });
}
