//! Schemas of other versions: an older one is upgraded after a backup, a half upgraded one is completed, a newer one is only read.

use std::{
    fs,
    path::{Path, PathBuf},
};

use rejoin_record::Entry;
use rejoin_store::{Location, Options, Store, StoreError, open};
use rusqlite::Connection;
use testkit::faults::{Child, Job, Kind, Script, Step, difference, holder, open_patiently, read_all, say};

use super::{Place, READ, WRITE, cases, conversation, each, shim, support};

const SECOND: &str = include_str!("../../src/sqlite/migrations/0002-blobs.sql");

/// As a child: opens the store, which brings its schema up to date.
pub fn just_open(job: &Job) {
    if open_patiently(&job.store, WRITE).is_some() {
        say(format_args!("done"));
    }
}

/// Conversations as the first version had them.
fn old_entries(number: u64) -> Vec<Entry> {
    let mut script = Script::new(conversation(number), &[], number);
    let mut entries = Vec::new();
    while entries.len() < 12 {
        match script.step() {
            Step::Append(step) => entries.extend(step),
            Step::Erase { entry, note } => {
                let place = entries.iter().position(|other: &Entry| other.id() == entry).unwrap();
                entries[place] = entries[place].erased();
                entries.push(*note);
            }
        }
    }
    entries
}

const CONVERSATIONS: u64 = 3;

/// Writes a store as the first version did.
fn write_old(path: &Path) {
    let conversations: Vec<_> =
        (0..CONVERSATIONS).map(|number| (conversation(number), old_entries(number))).collect();
    let conversations: Vec<_> = conversations.iter().map(|(id, entries)| (*id, &entries[..])).collect();
    support::write_first_schema(path, &conversations);
}

/// Everything that was in the old store, and nothing wrong with it.
fn holds_the_old(path: &Path, options: Options) {
    let store = open(&Location::Sqlite(path.to_owned()), options).unwrap();
    for number in 0..CONVERSATIONS {
        let held = read_all(&*store, conversation(number)).unwrap();
        let difference = difference(&held, &old_entries(number));
        assert_eq!(difference, None, "{} {:?}", path.display(), options.access);
    }
    let mut problems = Vec::new();
    let verified = store.verify(None, &mut |problem| problems.push(problem)).unwrap();
    assert!(problems.is_empty(), "{} {:?}: {problems:?}", path.display(), options.access);
    assert_eq!(verified.conversations, CONVERSATIONS);
    assert_eq!(store.list(&Default::default()).unwrap().total, CONVERSATIONS);
}

fn version(path: &Path) -> i64 {
    let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
    let connection = Connection::open_with_flags(path, flags).unwrap();
    connection.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap()
}

fn file(place: &Place, name: &str) -> PathBuf {
    place.under().join(name)
}

/// S0-55, S2-42, S4-18, S4-23: a store of an older version opens; before its schema is changed it is copied, and the copy opens,
/// too.
#[test]
fn an_old_schema_is_upgraded_and_a_copy_is_kept() {
    let place = Place::new("sqlite");
    let path = file(&place, "rejoin.db");
    write_old(&path);
    let before = fs::read(&path).unwrap();
    // Readers change nothing.
    holds_the_old(&path, READ);
    assert_eq!((fs::read(&path).unwrap(), version(&path)), (before, 1));

    holds_the_old(&path, WRITE);
    assert_eq!(version(&path), 3);
    let backup = file(&place, "rejoin.db.backup");
    assert_eq!(version(&backup), 1);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(fs::metadata(&backup).unwrap().permissions().mode() & 0o777, 0o600);
    }
    // The copy can take the place of the store.
    let restored = file(&place, "restored.db");
    fs::copy(&backup, &restored).unwrap();
    holds_the_old(&restored, WRITE);
    holds_the_old(&backup, READ);
    assert_eq!(version(&backup), 1, "reading the copy does not upgrade it");

    // It continues, and is not copied again.
    let store = place.open();
    let id = conversation(0);
    let mut script = Script::new(id, &old_entries(0), 77);
    let after = script.tail();
    let Step::Append(entries) = script.step() else { panic!("the seed asks for something else") };
    store.append(id, after, &entries).unwrap();
    assert!(!file(&place, "rejoin.db.backup-2").exists());
}

/// S2-42, S4-18: an unfinished upgrade is finished, and running it again does no harm.
#[test]
fn a_half_upgraded_schema_is_finished() {
    for (what, first, then) in [
        ("the tables of both, the number of the first", SECOND, 1),
        (
            "some of the tables",
            "CREATE TABLE blob (key INTEGER PRIMARY KEY, hash BLOB NOT NULL UNIQUE, \
          size INTEGER NOT NULL, bytes BLOB NOT NULL) STRICT",
            1,
        ),
        ("no number", "", 0),
    ] {
        let place = Place::new("sqlite");
        let path = file(&place, "rejoin.db");
        write_old(&path);
        {
            let connection = Connection::open(&path).unwrap();
            connection.execute_batch(first).unwrap();
            connection.pragma_update(None, "user_version", then).unwrap();
        }
        holds_the_old(&path, WRITE);
        assert_eq!(version(&path), 3, "{what}");
        let id = conversation(9);
        let mut script = Script::new(id, &[], 9);
        let store = place.open();
        for _ in 0..20 {
            let after = script.tail();
            if let Step::Append(entries) = script.step() {
                store.append(id, after, &entries).unwrap();
            } else {
                break;
            }
        }
        let mut problems = Vec::new();
        store.verify(None, &mut |problem| problems.push(problem)).unwrap();
        assert!(problems.is_empty(), "{what}: {problems:?}");
    }
}

/// S0-55: at whichever call the upgrade fails or is cut off, the store opens afterwards with everything in it, and the copy
/// is whole.
#[test]
fn an_upgrade_can_end_anywhere() {
    let Some(shim) = shim() else { return };
    let job = |place: &Place| Job { what: String::from("open"), ..place.job(0, 0) };
    let calls = {
        let place = Place::new("sqlite");
        write_old(&file(&place, "rejoin.db"));
        let fault = place.fault(Kind::Eio, 0);
        let said = Child::of("child", &job(&place)).with(&shim, &fault).run();
        assert!(said.done, "{said:#?}");
        fault.calls().filter(|calls| *calls > 0).expect("the shim is loaded and counts calls")
    };
    let kinds: Vec<Kind> = Kind::REFUSALS.into_iter().chain(Kind::ENDS).collect();
    let cases = cases(calls, &kinds);
    println!("{calls} calls, {} cases", cases.len());
    each(&cases, |kind, at| {
        let place = Place::new("sqlite");
        let path = file(&place, "rejoin.db");
        write_old(&path);
        let said = Child::of("child", &job(&place)).with(&shim, &place.fault(kind, at)).run();
        assert!(said.wrong.is_empty(), "{kind:?} at {at}: {said:#?}");
        holds_the_old(&path, WRITE);
        assert_eq!(version(&path), 3, "{kind:?} at {at}");
        let backup = file(&place, "rejoin.db.backup");
        assert!(backup.exists(), "{kind:?} at {at}: there is no copy\n{}", place.trace());
        assert_eq!(version(&backup), 1, "{kind:?} at {at}\n{}", place.trace());
        holds_the_old(&backup, READ);
    });
}

/// S2-42: a store of a newer version is read, reported as newer, and left unchanged, byte for byte.
#[test]
fn a_newer_schema_is_only_read() {
    let place = Place::new("sqlite");
    let path = file(&place, "rejoin.db");
    write_old(&path);
    holds_the_old(&path, WRITE);
    {
        let connection = Connection::open(&path).unwrap();
        connection.execute_batch("CREATE TABLE novelty (x); PRAGMA user_version = 99").unwrap();
    }
    let before = fs::read(&path).unwrap();
    {
        let store: Box<dyn Store> = open(&place.location(), WRITE).unwrap();
        let why = store.read_only().unwrap().to_owned();
        assert!(why.contains("newer version") && why.contains("99"), "{why}");
        let id = conversation(0);
        let mut script = Script::new(id, &old_entries(0), 77);
        let after = script.tail();
        let Step::Append(entries) = script.step() else { panic!("the seed asks for something else") };
        for refused in [
            store.append(id, after, &entries).map(drop),
            store.lock(id, &holder("somebody")).map(drop),
            store.erase(id, after.unwrap(), old_entries(0)[3].id(), &entries[0]).map(drop),
            store.delete(id),
        ] {
            match refused {
                Err(StoreError::ReadOnly(why)) => assert!(why.contains("newer version"), "{why}"),
                other => panic!("{other:?}"),
            }
        }
    }
    holds_the_old(&path, WRITE);
    holds_the_old(&path, READ);
    assert_eq!(fs::read(&path).unwrap(), before);
    assert!(!file(&place, "rejoin.db-wal").exists(), "nothing waits to be written into it");
}
