//! The index beside a store: it can be deleted, damaged or out of date without any effect on results.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

mod support;

use std::{fs, path::PathBuf};

use rejoin_store::{Access, Location, Options, Query, Search, Store, Summary, memory::Memory, open};
use support::{Talk, digest};

fn at(location: &Location, access: Access) -> Box<dyn Store> {
    open(location, Options { access, digester: digest }).unwrap()
}

fn listed(store: &dyn Store) -> Vec<Summary> {
    store.list(&Query::default()).unwrap().conversations
}

fn found(store: &dyn Store, words: &str) -> Vec<(String, u64)> {
    let search = Search { words: words.into(), limit: 50, ..Search::default() };
    let mut hits: Vec<(String, u64)> = store
        .search(&search)
        .unwrap()
        .into_iter()
        .map(|hit| (hit.conversation.to_string(), hit.seq))
        .collect();
    hits.sort();
    hits
}

fn homes(folder: &std::path::Path) -> Vec<(Location, PathBuf)> {
    vec![
        (Location::Sqlite(folder.join("rejoin.db")), folder.join("rejoin.db-index")),
        (Location::Jsonl(folder.join("chats")), folder.join("chats/.index")),
    ]
}

fn fill(store: &dyn Store, from: u64, to: u64) {
    for number in from..to {
        let mut talk = Talk::new(number);
        let mut entries = vec![talk.header()];
        for line in 0..4 {
            entries.push(talk.user(&format!("conversation {number} line {line} says apple{}", number % 3)));
        }
        store.append(talk.id, None, &entries).unwrap();
    }
}

/// Whatever happens to the index, lists and searches equal those of a store that reads everything.
#[test]
fn an_index_is_never_needed() {
    let folder = tempfile::tempdir().unwrap();
    let model = Memory::new(digest);
    fill(&model, 1, 12);
    for (location, index) in homes(folder.path()) {
        let same = |store: &dyn Store, what: &str| {
            assert_eq!(listed(store), listed(&model), "{location}: {what}");
            assert_eq!(found(store, "apple1"), found(&model, "apple1"), "{location}: {what}");
            assert_eq!(found(store, "apple*").len(), 44, "{location}: {what}");
        };
        {
            let store = at(&location, Access::Write);
            fill(&*store, 1, 5);
            assert_eq!(listed(&*store).len(), 4);
            fill(&*store, 5, 12);
            same(&*store, "after more was appended");
            store.rebuild().unwrap();
            same(&*store, "after it was rebuilt");
        }
        assert!(index.is_file(), "{}", index.display());
        let sound = fs::read(&index).unwrap();
        fs::remove_file(&index).unwrap();
        same(&*at(&location, Access::Read), "deleted");
        fs::write(&index, b"garbage").unwrap();
        same(&*at(&location, Access::Read), "garbage");
        fs::write(&index, &sound[..sound.len() / 2]).unwrap();
        same(&*at(&location, Access::Read), "cut off");
        // One that is out of date, put back from a copy.
        fs::write(&index, &sound).unwrap();
        let store = at(&location, Access::Write);
        fill(&*store, 12, 13);
        assert_eq!(listed(&*store).len(), 12);
        drop(store);
        fs::write(&index, &sound).unwrap();
        assert_eq!(listed(&*at(&location, Access::Read)).len(), 12, "{location}: out of date");
        // A folder in its place.
        fs::remove_file(&index).unwrap();
        fs::create_dir(&index).unwrap();
        assert_eq!(listed(&*at(&location, Access::Read)).len(), 12, "{location}: cannot be made");
        assert_eq!(found(&*at(&location, Access::Read), "apple*").len(), 48, "{location}: cannot be made");
    }
}

/// A record restored from a backup, with a newer index: the list shows what the record has.
#[test]
fn a_record_from_a_backup_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rejoin.db");
    let location = Location::Sqlite(path.clone());
    fill(&*at(&location, Access::Write), 1, 3);
    let backup = fs::read(&path).unwrap();
    fill(&*at(&location, Access::Write), 3, 8);
    assert_eq!(listed(&*at(&location, Access::Read)).len(), 7);
    fs::write(&path, &backup).unwrap();
    assert_eq!(listed(&*at(&location, Access::Read)).len(), 2);
    // As many entries as the index had seen, and others.
    fs::remove_file(folder.path().join("rejoin.db-index")).unwrap();
    fill(&*at(&location, Access::Write), 3, 8);
    fs::write(&path, &backup).unwrap();
    fill(&*at(&location, Access::Write), 20, 30);
    let model = Memory::new(digest);
    fill(&model, 1, 3);
    fill(&model, 20, 30);
    let store = at(&location, Access::Read);
    assert_eq!(listed(&*store), listed(&model));
    assert_eq!(found(&*store, "apple*"), found(&model, "apple*"));
}

/// A file that was emptied, or cut off between two lines, looks whole; the index knows better.
#[test]
fn lines_that_are_gone_are_missed() {
    let folder = tempfile::tempdir().unwrap();
    let location = Location::Jsonl(folder.path().join("chats"));
    let store = at(&location, Access::Write);
    fill(&*store, 1, 4);
    store.settle().unwrap();
    drop(store);
    let file = folder.path().join(format!("chats/{}.jsonl", Talk::new(2).id));
    let text = fs::read_to_string(&file).unwrap();
    let problems = || {
        let mut found = Vec::new();
        at(&location, Access::Read)
            .verify(None, &mut |problem| found.push((problem.what, problem.torn)))
            .unwrap();
        found
    };
    assert_eq!(problems(), []);
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    fs::write(&file, lines[..3].concat()).unwrap();
    let missed = |wanted: &str| {
        let found = problems();
        assert!(found.iter().any(|(what, torn)| what.contains(wanted) && !torn), "{found:?}");
    };
    missed("entries 3 to 4 were here before");
    // Listing the rest does not forget the missing entry.
    at(&location, Access::Write).list(&Default::default()).unwrap();
    missed("entries 3 to 4 were here before");
    fs::write(&file, "").unwrap();
    missed("entries 3 to 4 were here before");
    at(&location, Access::Write).list(&Default::default()).unwrap();
    missed("3 of its entries were here before, and all of them are missing");
    // The entry is back.
    fs::write(&file, &text).unwrap();
    assert_eq!(problems(), []);
}

/// Erased or deleted text is not found, and its words are in no file of the store.
#[test]
fn what_is_gone_is_not_found() {
    let folder = tempfile::tempdir().unwrap();
    for (location, _) in homes(folder.path()) {
        let mut talk = Talk::new(7);
        let mut other = Talk::new(8);
        {
            let store = at(&location, Access::Write);
            let secret = talk.header();
            let entries = [secret, talk.user("the passphrase is xylophone"), talk.user("and that was it")];
            store.append(talk.id, None, &entries).unwrap();
            let entries = [other.header(), other.user("quadrophonic nonsense")];
            store.append(other.id, None, &entries).unwrap();
            assert_eq!(found(&*store, "xylophone").len(), 1);
            assert_eq!(found(&*store, "quadrophonic").len(), 1);
            let tail = store.tail(talk.id).unwrap().unwrap();
            let said = store_entry(&*store, talk.id, 1);
            let note = talk.erased(said);
            store.erase(talk.id, tail, said, &note).unwrap();
            store.delete(other.id).unwrap();
            assert!(found(&*store, "xylophone").is_empty(), "{location}");
            assert!(found(&*store, "quadrophonic").is_empty(), "{location}");
            assert_eq!(listed(&*store).len(), 1);
        }
        for file in files(folder.path()) {
            let bytes = fs::read(&file).unwrap();
            for word in ["xylophone", "quadrophonic"] {
                let there = bytes.windows(word.len()).any(|window| window == word.as_bytes());
                assert!(!there, "{word} is in {}", file.display());
            }
        }
    }
}

fn store_entry(store: &dyn Store, id: rejoin_record::ConversationId, seq: u64) -> rejoin_record::EntryId {
    let mut found = None;
    store
        .read(id, seq, &mut |item| {
            if let rejoin_store::StoredItem::Entry(entry) = item {
                found = Some(entry.id());
            }
            std::ops::ControlFlow::Break(())
        })
        .unwrap();
    found.unwrap()
}

fn files(folder: &std::path::Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { all.extend(files(&path)) } else { all.push(path) }
    }
    all
}

/// The index follows by itself, soon after an append, without a list or a search.
#[test]
fn the_index_follows_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    let store = at(&Location::Sqlite(folder.path().join("rejoin.db")), Access::Write);
    fill(&*store, 1, 4);
    let indexed = || -> Option<i64> {
        let index = rusqlite::Connection::open(folder.path().join("rejoin.db-index")).ok()?;
        index.query_row("SELECT count(*) FROM summary", [], |row| row.get(0)).ok()
    };
    let begun = std::time::Instant::now();
    while indexed() != Some(3) {
        assert!(begun.elapsed().as_secs() < 20, "the index does not follow: {:?}", indexed());
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

/// A trigger in an index would act whenever something is noted there. Such an index is made again.
#[test]
fn an_index_that_acts_is_thrown_away() {
    let folder = tempfile::tempdir().unwrap();
    for (location, index) in homes(folder.path()) {
        let store = at(&location, Access::Write);
        fill(&*store, 1, 4);
        store.settle().unwrap();
        drop(store);
        let evil = "CREATE TRIGGER evil AFTER INSERT ON summary BEGIN DELETE FROM summary; END";
        rusqlite::Connection::open(&index).unwrap().execute_batch(evil).unwrap();
        let store = at(&location, Access::Write);
        fill(&*store, 5, 7);
        assert!(store.list(&Default::default()).unwrap().total > 1, "{location}");
        drop(store);
        let triggers = rusqlite::Connection::open(&index).unwrap().query_row(
            "SELECT count(*) FROM sqlite_schema WHERE type = 'trigger'",
            [],
            |row| row.get::<_, i64>(0),
        );
        assert_eq!(triggers, Ok(0), "{location}");
    }
}
