//! A damaged SQLite file: whichever bit is flipped, it opens, the readable part is read, and if that differs from the stored data,
//! `verify` reports it.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

use std::{
    collections::BTreeMap,
    fs,
    ops::ControlFlow,
    path::{Path, PathBuf},
};

use rejoin_record::{
    Chain, Content, ConversationId, Entry, EntryId, Kind, Message, Salt, Timestamp, chain::Stamp,
    content::Metadata,
};
use rejoin_store::{Access, Location, Options, Store, StoreError, StoredItem, open};
use testkit::faults::digest;

fn stamp(number: u64) -> Stamp {
    let micros = 1_760_000_000_000_000 + i64::try_from(number).unwrap();
    let mut random = [7; 10];
    random[..8].copy_from_slice(&number.to_le_bytes());
    Stamp {
        id: EntryId::new(1_760_000_000_000 + number, random),
        timestamp: Timestamp::from_microsecond(micros).unwrap(),
        salt: Salt([number as u8; 16]),
        source_time: None,
    }
}

fn entries(conversation: ConversationId, count: u64, seed: u64) -> Vec<Entry> {
    let mut chain = Chain::empty();
    let metadata = Metadata { conversation, provider: None, model: None, directory: None, format: None };
    let mut entries = vec![chain.append(Kind::Header, &Content::Header(metadata), stamp(seed))];
    for number in 1..count {
        // Some small, some compressed, some with a large string that others share, some with a unique one.
        let text = match number % 5 {
            0 => format!("shared {}", "the same tool output again ".repeat(200)),
            1 => format!(
                "{number} {}",
                (0..900).map(|n| format!("{:x} ", n * number * 7919)).collect::<String>()
            ),
            2 => format!("{number} {}", "words ".repeat(150)),
            _ => format!("message {number} of {seed}"),
        };
        let message = Content::Message(Message::user(text));
        entries.push(chain.append(Kind::Message, &message, stamp(seed + number)));
    }
    entries
}

fn id(number: u64) -> ConversationId {
    ConversationId::from_random(number.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

fn try_open(path: &Path, access: Access) -> Result<Box<dyn Store>, StoreError> {
    open(&Location::Sqlite(path.to_owned()), Options { access, digester: digest })
}

type Lines = BTreeMap<String, Vec<String>>;

/// Everything that can be read: the lines of each conversation that is found by its id.
fn read_all(store: &dyn Store, ids: &[ConversationId]) -> Lines {
    let mut all = Lines::new();
    for id in ids {
        let mut lines = Vec::new();
        let read = store.read(*id, 0, &mut |item| {
            if let StoredItem::Entry(entry) = item {
                lines.push(entry.to_line());
            }
            ControlFlow::Continue(())
        });
        if read.is_ok() {
            all.insert(id.to_string(), lines);
        }
    }
    all
}

/// A store with three conversations, closed. Returns its path and its content.
fn made(folder: &Path) -> (PathBuf, Vec<ConversationId>, Lines) {
    made_with(folder, 12)
}

/// The same with at least this many entries in each.
fn made_with(folder: &Path, count: u64) -> (PathBuf, Vec<ConversationId>, Lines) {
    let path = folder.join("rejoin.db");
    let ids: Vec<ConversationId> = (1..=3).map(id).collect();
    let store = try_open(&path, Access::Write).unwrap();
    for (number, id) in ids.iter().enumerate() {
        let entries = entries(*id, count + number as u64, 1000 * (number as u64 + 1));
        let (first, rest) = entries.split_at(3);
        let tail = store.append(*id, None, first).unwrap();
        store.append(*id, Some(tail), rest).unwrap();
    }
    let all = read_all(&*store, &ids);
    assert_eq!(all.values().map(Vec::len).sum::<usize>(), 3 * count as usize + 3);
    store.settle().unwrap();
    drop(store);
    assert!(!folder.join("rejoin.db-wal").exists(), "closing takes the log up");
    (path, ids, all)
}

fn problems(store: &dyn Store) -> Vec<String> {
    let mut found = Vec::new();
    match store.verify(None, &mut |problem| found.push(problem.what)) {
        Ok(_) => found,
        Err(why) => vec![why.to_string()],
    }
}

/// A small random generator.
fn roll(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// A path in a new folder.
fn place(name: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    (folder, path)
}

/// B29: a bit is flipped anywhere in the file: it opens, most of it is read, and every difference is found.
#[test]
fn a_flipped_bit_is_found_wherever_it_changes_what_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let (path, ids, all) = made(folder.path());
    let sound = fs::read(&path).unwrap();
    let total: usize = all.values().map(Vec::len).sum();
    let tries: usize = std::env::var("REJOIN_FLIPS").ok().and_then(|tries| tries.parse().ok()).unwrap_or(500);
    let mut dice = 0x1234_5678_9abc_def1;
    let (mut unread, mut least, mut silent) = (0, total, Vec::new());
    for number in 0..tries {
        // The first page is tried most: nothing can be found without it.
        let end = if number % 4 == 0 { 8192 } else { sound.len() };
        let place = roll(&mut dice) as usize % end;
        let bit = roll(&mut dice) % 8;
        let mut bytes = sound.clone();
        bytes[place] ^= 1 << bit;
        let here = folder.path().join("flipped");
        let _ = fs::remove_dir_all(&here);
        fs::create_dir(&here).unwrap();
        let flipped = here.join("rejoin.db");
        fs::write(&flipped, &bytes).unwrap();
        if number % 2 == 0 {
            fs::copy(folder.path().join("rejoin.db-index"), here.join("rejoin.db-index")).unwrap();
        }
        let store = match try_open(&flipped, Access::Read) {
            Ok(store) => store,
            Err(why) => {
                println!("byte {place} bit {bit}: does not open: {why}");
                unread += 1;
                continue;
            }
        };
        let read = read_all(&*store, &ids);
        for (id, lines) in &read {
            assert!(
                lines.iter().all(|line| all[id].contains(line)),
                "byte {place} bit {bit}: invented an entry"
            );
        }
        let count: usize = read.values().map(Vec::len).sum();
        if count < least {
            println!("byte {place} bit {bit}: {count} of {total} entries");
            least = count;
        }
        let listed = store.ids("", 100).unwrap_or_default();
        if (read != all || listed.len() != ids.len()) && problems(&*store).is_empty() {
            silent.push((place, bit));
        }
        drop(store);
        assert_eq!(fs::read(&flipped).unwrap(), bytes, "reading changes nothing");
    }
    assert_eq!(silent, [], "flips that went unnoticed");
    assert_eq!(unread, 0, "files that do not open");
    assert!(least >= total / 2, "of {total} entries {least} were read");
}

/// B29, S2-37: a damaged file is copied aside before it is written to, and the copy is never overwritten.
#[test]
fn a_damaged_file_is_set_aside_before_it_is_written_to() {
    let folder = tempfile::tempdir().unwrap();
    let (path, ids, all) = made(folder.path());
    let mut bytes = fs::read(&path).unwrap();
    bytes[3] ^= 0x20;
    fs::write(&path, &bytes).unwrap();
    let store = try_open(&path, Access::Write).unwrap();
    assert_eq!(read_all(&*store, &ids), all);
    let tail = store.tail(ids[0]).unwrap().unwrap();
    let mut chain = Chain::at(Some(tail));
    let more = chain.append(Kind::Message, &Content::Message(Message::user("on we go")), stamp(9999));
    store.append(ids[0], Some(tail), &[more]).unwrap();
    assert!(problems(&*store).iter().any(|what| what.contains("was damaged")), "what was found is said");
    drop(store);
    let asides: Vec<PathBuf> = fs::read_dir(folder.path().join("rejoin.db.aside"))
        .unwrap()
        .map(|file| file.unwrap().path())
        .collect();
    assert_eq!(asides.len(), 1);
    assert_eq!(fs::read(&asides[0]).unwrap(), bytes);
    let store = try_open(&path, Access::Write).unwrap();
    assert_eq!(problems(&*store), Vec::<String>::new());
}

/// B29: bytes that are not a database are not taken for an empty store, and are not overwritten.
#[test]
fn what_is_no_database_stays_as_it_is() {
    let (folder, path) = place("rejoin.db");
    fs::write(&path, "this is a letter to my aunt\n".repeat(1000)).unwrap();
    let before = fs::read(&path).unwrap();
    assert!(try_open(&path, Access::Read).is_err());
    let written = try_open(&path, Access::Write);
    if written.is_err() {
        assert_eq!(fs::read(&path).unwrap(), before);
    } else {
        let aside =
            fs::read_dir(folder.path().join("rejoin.db.aside")).unwrap().next().unwrap().unwrap().path();
        assert_eq!(fs::read(aside).unwrap(), before);
    }
}

/// An emptied file is the remainder of a store, not a new one.
#[test]
fn an_emptied_file_is_damage() {
    let (_folder, path) = place("rejoin.db");
    fs::write(&path, b"").unwrap();
    for access in [Access::Read, Access::Write] {
        let why = try_open(&path, access).err().unwrap();
        assert!(why.is_damage() && why.to_string().contains("the file is empty"), "{access:?}: {why}");
    }
    assert_eq!(fs::read(&path).unwrap(), b"");
}

/// The log of an emptied file is searched. The database itself would discard the log as soon as it opened the file.
#[test]
fn the_log_of_an_emptied_file_is_read() {
    let (folder, path) = place("rejoin.db");
    let store = try_open(&path, Access::Write).unwrap();
    let said = entries(id(1), 12, 1000);
    store.append(id(1), None, &said).unwrap();
    for access in [Access::Read, Access::Write] {
        let here = folder.path().join(format!("{access:?}"));
        fs::create_dir(&here).unwrap();
        let emptied = here.join("rejoin.db");
        fs::write(&emptied, b"").unwrap();
        fs::copy(folder.path().join("rejoin.db-wal"), here.join("rejoin.db-wal")).unwrap();
        let found = try_open(&emptied, access).unwrap();
        let lines: Vec<String> = said.iter().map(Entry::to_line).collect();
        assert_eq!(read_all(&*found, &[id(1)]).into_values().next(), Some(lines), "{access:?}");
        assert!(!problems(&*found).is_empty(), "{access:?}: the damage is not reported");
    }
}

/// Any page is replaced by zeros: rows on other pages are read, a message can be appended, and all rows that could be read before
/// still can be. The store does not count as sound until it is repaired.
#[test]
fn a_lost_page_costs_what_is_on_it() {
    let folder = tempfile::tempdir().unwrap();
    let (path, ids, all) = made_with(folder.path(), 60);
    let sound = fs::read(&path).unwrap();
    let pages = sound.len() / 8192;
    let total: usize = all.values().map(Vec::len).sum();
    let mut lost = BTreeMap::new();
    for page in 0..pages {
        let here = folder.path().join(format!("page{page}"));
        fs::create_dir(&here).unwrap();
        let struck = here.join("rejoin.db");
        let mut bytes = sound.clone();
        bytes[page * 8192..(page + 1) * 8192].fill(0);
        fs::write(&struck, &bytes).unwrap();
        fs::copy(folder.path().join("rejoin.db-index"), here.join("rejoin.db-index")).unwrap();
        let read = |access| {
            let store =
                try_open(&struck, access).unwrap_or_else(|why| panic!("page {page} {access:?}: {why}"));
            let lines = read_all(&*store, &ids);
            for (id, lines) in &lines {
                assert!(lines.iter().all(|line| all[id].contains(line)), "page {page}: nothing else is read");
            }
            (lines.values().map(Vec::len).sum::<usize>(), problems(&*store))
        };
        let (before, found) = read(Access::Read);
        assert_eq!(fs::read(&struck).unwrap(), bytes, "page {page}: reading changes nothing");
        if before < total {
            assert!(
                !found.is_empty(),
                "page {page}: {} are missing, and no problem is reported",
                total - before
            );
        }
        *lost.entry(total - before).or_insert(0) += 1;
        {
            let store = try_open(&struck, Access::Write).unwrap();
            store.append(id(9), None, &entries(id(9), 3, 9000)).unwrap();
            let listed = store.list(&rejoin_store::Query::default()).unwrap();
            assert!(listed.total >= 1, "page {page}");
        }
        let (after, _) = read(Access::Write);
        assert!(after >= before, "page {page}: {before} could be read, and after an append {after}");
    }
    println!(
        "{total} entries on {pages} pages; by the number of entries lost with a page, the number of such pages: {lost:?}"
    );
    assert!(lost.keys().all(|count| *count <= total / 3), "{lost:?}");
}

/// A store with one conversation, each entry of it appended by itself.
fn appended_one_by_one(path: &Path, count: u64) -> Box<dyn Store> {
    let store = try_open(path, Access::Write).unwrap();
    let mut tail = None;
    for entry in entries(id(1), count, 5) {
        tail = Some(store.append(id(1), tail, &[entry]).unwrap());
    }
    store
}

/// A file or a log that was cut off between two pages or frames looks whole. The index has seen the missing entries, and they still
/// count as missing after a list, or after the conversation continued.
#[test]
fn what_was_cut_off_is_missed() {
    let (folder, path) = place("rejoin.db");
    let store = appended_one_by_one(&path, 40);
    store.settle().unwrap();
    // As a kill would leave it.
    let killed = folder.path().join("killed.db");
    for end in ["", "-index", "-index-wal"] {
        fs::copy(
            folder.path().join(format!("rejoin.db{end}")),
            folder.path().join(format!("killed.db{end}")),
        )
        .unwrap();
    }
    let log = fs::read(folder.path().join("rejoin.db-wal")).unwrap();
    drop(store);
    let frame = 24 + 8192;
    let frames = (log.len() - 32) / frame;
    fs::write(folder.path().join("killed.db-wal"), &log[..32 + frame * (frames / 2)]).unwrap();
    let missed = |when: &str| {
        let store = try_open(&killed, Access::Read).unwrap();
        let found = problems(&*store);
        assert!(found.iter().any(|what| what.contains("to 39 were here before")), "{when}: {found:?}");
        read_all(&*store, &[id(1)])[&id(1).to_string()].len()
    };
    let left = missed("at first");
    assert!(left > 3 && left < 40, "{left}");
    let store = try_open(&killed, Access::Write).unwrap();
    assert!(store.list(&rejoin_store::Query::default()).unwrap().total == 1);
    drop(store);
    missed("after a list");
    let store = try_open(&killed, Access::Write).unwrap();
    let mut chain = Chain::at(store.tail(id(1)).unwrap());
    let more = chain.append(Kind::Message, &Content::Message(Message::user("on")), stamp(777));
    store.append(id(1), store.tail(id(1)).unwrap(), &[more]).unwrap();
    drop(store);
    assert_eq!(missed("after another message"), left + 1);
    // The same for the file itself.
    let folder = tempfile::tempdir().unwrap();
    let (path, _, _) = made_with(folder.path(), 60);
    let cut = folder.path().join("cut.db");
    let whole = fs::read(&path).unwrap();
    fs::write(&cut, &whole[..whole.len() / 8192 * 3 / 4 * 8192]).unwrap();
    fs::copy(folder.path().join("rejoin.db-index"), folder.path().join("cut.db-index")).unwrap();
    for access in [Access::Read, Access::Write, Access::Write] {
        let store = try_open(&cut, access).unwrap();
        let found = problems(&*store);
        assert!(found.iter().any(|what| what.contains("here before")), "{access:?}: {found:?}");
    }
}

/// An entry whose parent is lost is still verified; a changed one is not shown as sound.
#[test]
fn a_child_of_a_lost_entry_is_checked() {
    for (change, shown) in [("", true), ("at = at + 1000000", false)] {
        let folder = tempfile::tempdir().unwrap();
        let (path, ids, all) = made(folder.path());
        let lines = &all[&ids[0].to_string()];
        {
            let database = rusqlite::Connection::open(&path).unwrap();
            let key = format!("(SELECT key FROM conversation WHERE id = '{}')", ids[0]);
            database
                .execute_batch(&format!("DELETE FROM entry WHERE conversation = {key} AND seq = 4"))
                .unwrap();
            if !change.is_empty() {
                database
                    .execute_batch(&format!(
                        "UPDATE entry SET {change} WHERE conversation = {key} AND seq = 5"
                    ))
                    .unwrap();
            }
        }
        for access in [Access::Read, Access::Write] {
            let store = try_open(&path, access).unwrap();
            let read = &read_all(&*store, &ids)[&ids[0].to_string()];
            assert_eq!(read.contains(&lines[5]), shown, "{change}");
            assert_eq!(read.len(), lines.len() - if shown { 1 } else { 2 }, "{change}");
            let found = problems(&*store);
            assert!(found.iter().any(|what| what.contains("is lost")), "{found:?}");
        }
    }
}

/// Triggers and views would act whenever the store is used.
#[test]
fn triggers_and_views_are_refused() {
    for strange in [
        "CREATE TRIGGER evil AFTER INSERT ON entry BEGIN DELETE FROM entry; END",
        "CREATE VIEW evil AS SELECT * FROM entry",
    ] {
        let folder = tempfile::tempdir().unwrap();
        let (path, _, _) = made(folder.path());
        rusqlite::Connection::open(&path).unwrap().execute_batch(strange).unwrap();
        for access in [Access::Read, Access::Write] {
            let why = try_open(&path, access).err().unwrap();
            assert!(matches!(&why, StoreError::Refused(what) if what.contains("'evil'")), "{why}");
        }
    }
}

/// A small file that claims to hold gigabytes is not expanded to them.
#[test]
fn a_bomb_is_not_expanded() {
    let folder = tempfile::tempdir().unwrap();
    let (path, ids, _) = made(folder.path());
    {
        let database = rusqlite::Connection::open(&path).unwrap();
        let text = vec![b'a'; 250 << 20];
        let frame = zstd::bulk::compress(&text, 1).unwrap();
        database
            .execute(
                "INSERT INTO blob (key, hash, size, bytes) VALUES (999, zeroblob(32), ?1, ?2)",
                (text.len() as i64, &frame),
            )
            .unwrap();
        database
            .execute(
                "UPDATE entry SET body = '{\"x\":\"' || char(1) || '999' || char(1) || '\"}' WHERE seq > 2",
                [],
            )
            .unwrap();
        // One that says it is small.
        database
            .execute(
                "INSERT INTO blob (key, hash, size, bytes) VALUES (998, randomblob(32), 3000, ?1)",
                [&frame],
            )
            .unwrap();
        database.execute("UPDATE entry SET body = char(1) || '998' || char(1) WHERE seq = 2", []).unwrap();
    }
    let store = try_open(&path, Access::Read).unwrap();
    let mut why = Vec::new();
    store
        .read(ids[0], 0, &mut |item| {
            if let StoredItem::Damage(damage) = item {
                why.push(damage.why);
            }
            ControlFlow::Continue(())
        })
        .unwrap();
    assert!(why.iter().any(|why| why.contains("is damaged")), "{why:?}");
    assert!(why.iter().filter(|why| why.contains("not expanded")).count() > 5, "{why:?}");
}

/// A log that a killed process left and that was damaged: the part that the database would discard is reported and set aside.
#[test]
fn a_damaged_log_is_noticed_and_kept() {
    let (folder, path) = place("rejoin.db");
    let _store = appended_one_by_one(&path, 12);
    // As a kill would leave it: the files are copied while the store is open.
    let killed = folder.path().join("killed.db");
    let log = folder.path().join("killed.db-wal");
    fs::copy(&path, &killed).unwrap();
    let mut bytes = fs::read(folder.path().join("rejoin.db-wal")).unwrap();
    fs::write(&log, &bytes).unwrap();
    let copy = try_open(&killed, Access::Read).unwrap();
    assert_eq!(read_all(&*copy, &[id(1)])[&id(1).to_string()].len(), 12, "an undamaged log is taken up");
    assert_eq!(problems(&*copy), Vec::<String>::new());
    drop(copy);
    fs::copy(&path, &killed).unwrap();
    let middle = bytes.len() * 2 / 3;
    bytes[middle] ^= 4;
    fs::write(&log, &bytes).unwrap();
    let copy = try_open(&killed, Access::Write).unwrap();
    let found = problems(&*copy);
    assert!(found.iter().any(|what| what.contains("the log is damaged")), "{found:?}");
    let aside = fs::read_dir(folder.path().join("killed.db.aside")).unwrap().next().unwrap().unwrap().path();
    assert_eq!(fs::read(aside).unwrap(), bytes);
    let read = &read_all(&*copy, &[id(1)])[&id(1).to_string()];
    assert!(!read.is_empty() && read.len() < 12);
}

/// A log put back from an older copy: the database would believe it, and write its old pages over the newer ones. Everything in the
/// file is read instead, whether it is opened to be read or written, and the log is kept.
#[test]
fn an_older_log_does_not_hide_the_file() {
    let (folder, path) = place("rejoin.db");
    let store = appended_one_by_one(&path, 20);
    let older = fs::read(folder.path().join("rejoin.db-wal")).unwrap();
    for number in 0..20 {
        let after = store.tail(id(1)).unwrap();
        let mut chain = Chain::at(after);
        let more = Content::Message(Message::user(format!("{number} {}", "later ".repeat(400))));
        let more = chain.append(Kind::Message, &more, stamp(1000 + number));
        store.append(id(1), after, &[more]).unwrap();
    }
    store.settle().unwrap();
    drop(store);
    let (record, index) =
        (fs::read(&path).unwrap(), fs::read(folder.path().join("rejoin.db-index")).unwrap());
    for access in [Access::Read, Access::Write] {
        let here = folder.path().join(format!("{access:?}"));
        fs::create_dir(&here).unwrap();
        let file = here.join("rejoin.db");
        for (end, bytes) in [("", &record), ("-index", &index), ("-wal", &older)] {
            fs::write(here.join(format!("rejoin.db{end}")), bytes).unwrap();
        }
        let found = try_open(&file, access).unwrap();
        assert_eq!(read_all(&*found, &[id(1)])[&id(1).to_string()].len(), 40, "{access:?}");
        let said = problems(&*found);
        assert!(
            said.iter().any(|what| what.contains("its log is older than the file")),
            "{access:?}: {said:?}"
        );
        drop(found);
        let kept = fs::read_dir(here.join("rejoin.db.aside")).into_iter().flatten().flatten();
        let is_kept = kept.map(|file| fs::read(file.path()).unwrap()).any(|bytes| bytes == older);
        assert_eq!(is_kept, access == Access::Write);
        if access == Access::Read {
            assert_eq!(
                fs::read(&file).unwrap(),
                record,
                "reading writes nothing into a file that is damaged"
            );
        } else {
            let again = try_open(&file, Access::Write).unwrap();
            assert_eq!(problems(&*again), Vec::<String>::new());
        }
    }
}

/// B29: another program's database gets none of rejoin's tables.
#[test]
fn the_database_of_another_program_is_left_alone() {
    let (_folder, path) = place("places.db");
    let theirs = rusqlite::Connection::open(&path).unwrap();
    theirs.execute_batch("CREATE TABLE moz_places (id INTEGER PRIMARY KEY, url TEXT); INSERT INTO moz_places VALUES (1, 'x')").unwrap();
    drop(theirs);
    let before = fs::read(&path).unwrap();
    for access in [Access::Write, Access::Read] {
        let why = try_open(&path, access).err().unwrap().to_string();
        assert!(why.contains("another program") || why.contains("no such table"), "{why}");
    }
    assert_eq!(fs::read(&path).unwrap(), before);
}
