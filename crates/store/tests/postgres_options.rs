//! The options of a store in PostgreSQL: an index for searches, and entries in parts.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

mod support;

use proptest::{
    prelude::*,
    strategy::ValueTree as _,
    test_runner::{Config, RngSeed, TestRunner},
};
use rejoin_record::{Entry, Scope, Tail};
use rejoin_store::{EnableOutcome, Hit, Location, Query, ScopeFilter, Search, Store, StoreError};
use support::{READ, Talk, WRITE, hashes, problems, read, tail, with_database};
use testkit::postgres::Server;

fn open(location: &Location) -> Box<dyn Store> {
    rejoin_store::open(location, WRITE).unwrap()
}

/// A store with an index for searches.
fn searchable(location: &Location) -> Box<dyn Store> {
    let store = open(location);
    store.enable("search").unwrap();
    store
}

fn searched(words: &str) -> Search {
    Search { words: words.to_owned(), limit: 1000, ..Search::default() }
}

fn found(store: &dyn Store, words: &str) -> Vec<(rejoin_record::ConversationId, u64)> {
    let hits = store.search(&searched(words)).unwrap();
    hits.iter().map(|hit| (hit.conversation, hit.seq)).collect()
}

/// Words that differ in case and letters, share beginnings, or have no spaces between them.
const VOCABULARY: [&str; 24] = [
    "zebra",
    "Zebra",
    "zebras",
    "ZEBRAFISH",
    "grüße",
    "GRÜSSE",
    "Straße",
    "İstanbul",
    "世界",
    "世",
    "界都市",
    "สวัสดี",
    "naïve",
    "a",
    "b2",
    "2b",
    "don't",
    "x_y",
    "C++",
    "foo:bar",
    "'quoted'",
    "back\\slash",
    "nul\0byte",
    "́combining",
];

const QUERIES: [&str; 26] = [
    "zebra",
    "zebra*",
    "ZEB*",
    "grüße",
    "grüsse",
    "straße",
    "i̇stanbul",
    "İst*",
    "世",
    "世界",
    "界 世",
    "\"世界\"",
    "都*",
    "\"zebra a\"",
    "\"a zebra\" b2",
    "2b*",
    "don",
    "t",
    "\"don t\"",
    "x y",
    "c",
    "foo*",
    "quoted",
    "nul byte",
    "สวัส",
    "combining zebra",
];

#[test]
fn searches_find_the_same_with_the_index_and_without() {
    with_database(|_, _, location| {
        let store = open(location);
        let plain = rejoin_store::open(&Location::Memory, WRITE).unwrap();
        let mut runner = TestRunner::new(Config { rng_seed: RngSeed::Fixed(18), ..Config::default() });
        let text = prop::collection::vec(
            (0..VOCABULARY.len(), prop::sample::select(vec![" ", "", ", ", "\n"])),
            0..12,
        );
        let mut ids = Vec::new();
        for number in 1..=40 {
            let mut talk = Talk::new(number);
            let user = ["ann", "bob", "nul\0"][number as usize % 3];
            let scope = Scope { user: user.to_owned(), ..Scope::default() };
            let mut entries = vec![talk.header(), talk.of_scope(&scope)];
            for _ in 0..number % 7 + 1 {
                let words = text.new_tree(&mut runner).unwrap().current();
                let text: String = words.iter().flat_map(|(word, gap)| [VOCABULARY[*word], *gap]).collect();
                entries.push(talk.user(&text));
            }
            entries.push(talk.titled(&format!("talk {number}")));
            // Some before the index is enabled, some after, some in between by a process that does not know of it.
            if number == 15 {
                assert_eq!(store.enable("search").unwrap(), EnableOutcome::Enabled);
            }
            store.append(talk.id, None, &entries).unwrap();
            plain.append(talk.id, None, &entries).unwrap();
            ids.push(talk.id);
        }
        let mut hits = 0;
        let scopes = [ScopeFilter::OPEN, "user=ann".parse().unwrap(), "user=nul\0".parse().unwrap()];
        for (query, scope) in QUERIES.iter().flat_map(|query| scopes.iter().map(move |scope| (query, scope)))
        {
            for (within, limit) in [(None, 1000), (None, 3), (Some(ids[19]), 1000)] {
                let search = Search { words: (*query).to_owned(), limit, within, scope: scope.clone() };
                let expected: Vec<Hit> = plain.search(&search).unwrap();
                assert_eq!(store.search(&search).unwrap(), expected, "{search:?}");
                hits += expected.len();
            }
        }
        assert!(hits > 1000, "{hits} hits compare little");
        // Another process finds it enabled, also one that only reads.
        let reader = rejoin_store::open(location, READ).unwrap();
        assert_eq!(reader.search(&searched("zebra*")).unwrap(), plain.search(&searched("zebra*")).unwrap());
        assert_eq!(store.enable("search").unwrap(), EnableOutcome::AlreadyEnabled);
        let enabled: Vec<_> =
            store.options().unwrap().iter().map(|option| (option.name, option.enabled)).collect();
        assert_eq!(enabled, [("search", true), ("partitions", false)]);
    });
}

#[test]
fn what_does_not_fit_into_the_index_is_found() {
    with_database(|server, database, location| {
        let store = searchable(location);
        let mut talk = Talk::new(1);
        let many: String = (0..200_000).map(|number| format!("w{number:06} ")).collect();
        let long = "0123456789abcdef".repeat(300);
        let entries = [
            talk.header(),
            talk.user(&format!("{many} needle")),
            talk.user(&format!("{long}x and {long}y")),
            talk.user(&format!("{long}z")),
            talk.user("needle\0in\0zeros"),
            talk.user("\0"),
        ];
        store.append(talk.id, None, &entries).unwrap();
        let seqs = |words: &str| {
            let mut seqs: Vec<u64> = found(&*store, words).iter().map(|(_, seq)| *seq).collect();
            seqs.sort_unstable();
            seqs
        };
        assert_eq!(seqs("needle"), [1, 4]);
        assert_eq!(seqs("w123456"), [1]);
        assert_eq!(seqs("w12345*"), [1]);
        assert_eq!(seqs(&format!("{long}x")), [2]);
        assert_eq!(seqs(&format!("{long}*")), [2, 3]);
        assert_eq!(seqs(&long[..50]), [0; 0]);
        assert_eq!(seqs(&format!("{}*", &long[..50])), [2, 3]);
        assert_eq!(seqs("\"needle in zeros\""), [4]);
        let counted = server.psql(database, "SELECT count(*), count(words) FROM rejoin.words").unwrap();
        assert_eq!(counted, "5|4", "one has too many words");
    });
}

/// A process that is killed leaves entries without words. They are found, and get their words.
#[test]
fn words_that_are_behind_are_made_up_for() {
    with_database(|server, database, location| {
        let store = searchable(location);
        for number in 1..=3 {
            let (talk, entries) = Talk::of(number, 4);
            store.append(talk.id, None, &entries).unwrap();
        }
        assert_eq!(found(&*store, "grüße").len(), 12);
        let all = "SELECT count(*) FROM rejoin.words";
        assert_eq!(server.psql(database, all).unwrap(), "12");
        // Its thread would make the words again.
        drop(store);
        let behind = "DELETE FROM rejoin.words; UPDATE rejoin.summary SET searched = -1";
        server.psql(database, behind).unwrap();
        // A server that only reads at the moment.
        server
            .psql("postgres", &format!("ALTER DATABASE {database} SET default_transaction_read_only = on"))
            .unwrap();
        let reader = rejoin_store::open(location, READ).unwrap();
        assert_eq!(found(&*reader, "grüße").len(), 12);
        assert_eq!(server.psql(database, all).unwrap(), "0");
        drop(reader);
        server
            .psql("postgres", &format!("ALTER DATABASE {database} RESET default_transaction_read_only"))
            .unwrap();
        let store = open(location);
        store.settle().unwrap();
        assert_eq!(server.psql(database, all).unwrap(), "12");
        store.rebuild().unwrap();
        assert_eq!(server.psql(database, all).unwrap(), "12");
        assert_eq!(found(&*store, "grüße").len(), 12);
        // The thread that follows appends does it without being asked.
        let (talk, entries) = Talk::of(4, 4);
        store.append(talk.id, None, &entries).unwrap();
        drop(store);
        assert_eq!(server.psql(database, all).unwrap(), "16");
    });
}

/// A GIN index keeps its words for ever, unless it is rebuilt.
#[test]
fn erased_words_are_in_no_table_and_no_index() {
    with_database(|server, database, location| {
        let store = searchable(location);
        let mut talk = Talk::new(1);
        let mut entries = vec![talk.header(), talk.user("a swordfish xylophonist"), talk.user("harmless")];
        store.append(talk.id, None, &entries).unwrap();
        let (other, kept) = Talk::of(2, 2);
        store.append(other.id, None, &kept).unwrap();
        store.settle().unwrap();
        // Whether the file of the index has a word. New words are in a list at first, which VACUUM moves.
        let holds = |word: &str| {
            server.psql(database, "VACUUM rejoin.words").unwrap();
            server.psql(database, "CHECKPOINT").unwrap();
            let file = "pg_read_binary_file(pg_relation_filepath('rejoin.words_by_word'))";
            server.psql(database, &format!("SELECT position('{word}'::bytea IN {file}) > 0")).unwrap() == "t"
        };
        assert!(holds("xylophonist"), "the test would see it");
        let note = talk.erased(entries[1].id());
        store.erase(talk.id, Tail::of(&entries[2]), entries[1].id(), &note).unwrap();
        entries.push(note);
        assert!(!holds("xylophonist"));
        assert!(found(&*store, "xylophonist").is_empty());
        assert_eq!(found(&*store, "harmless"), [(talk.id, 2)]);
        assert!(holds("harmless"), "the other words are there again");
        store.delete(talk.id).unwrap();
        assert!(!holds("harmless"));
        assert!(found(&*store, "harmless").is_empty());
        assert_eq!(found(&*store, "message").len(), 2);
    });
}

#[test]
fn entries_in_parts_are_the_same_entries() {
    with_database(|server, database, location| {
        let store = open(location);
        let mut talks: Vec<(Talk, Vec<Entry>)> = (1..=50).map(|number| Talk::of(number, 6)).collect();
        for (talk, entries) in &talks {
            store.append(talk.id, None, entries).unwrap();
        }
        let before = store.list(&Query::default()).unwrap();
        // Another process that is in the middle of its work.
        let other = open(location);
        assert_eq!(read(&*other, talks[0].0.id, 0).0, talks[0].1);
        let size = store.size().unwrap().record;
        assert_eq!(store.enable("partitions").unwrap(), EnableOutcome::Enabled);
        assert_eq!(store.enable("partitions").unwrap(), EnableOutcome::AlreadyEnabled);
        assert!(store.size().unwrap().record >= size / 2);
        let kind = server.psql(database, "SELECT relkind FROM pg_class WHERE oid = 'rejoin.entry'::regclass");
        assert_eq!(kind.unwrap(), "p");
        let rest = "SELECT count(*) FROM pg_class WHERE relname LIKE 'entry_before%'";
        assert_eq!(server.psql(database, rest).unwrap(), "0");
        let key = "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = 'rejoin.entry'::regclass AND contype = 'p'";
        assert_eq!(server.psql(database, key).unwrap(), "PRIMARY KEY (conversation, seq)");
        for store in [&store, &other] {
            for (talk, entries) in &mut talks {
                let (found, damage) = read(&**store, talk.id, 0);
                assert_eq!((hashes(&found), damage.len()), (hashes(entries), 0));
                let more = talk.user("more");
                store.append(talk.id, tail(entries), std::slice::from_ref(&more)).unwrap();
                entries.push(more);
            }
            assert!(problems(&**store, None).is_empty());
        }
        drop((store, other));
        let store = open(location);
        assert_eq!(store.list(&Query::default()).unwrap().total, before.total);
        assert!(problems(&*store, None).is_empty());
        for (talk, entries) in &talks {
            assert_eq!(read(&*store, talk.id, 0).0, *entries);
        }
        let spread = "SELECT count(DISTINCT tableoid) > 8 FROM rejoin.entry";
        assert_eq!(server.psql(database, spread).unwrap(), "t");
        let (talk, entries) = &mut talks[0];
        let note = talk.erased(entries[1].id());
        store.erase(talk.id, tail(entries).unwrap(), entries[1].id(), &note).unwrap();
        store.delete(talks[1].0.id).unwrap();
        assert!(problems(&*store, None).is_empty());
    });
}

/// Writers continue while the entries are moved. They wait, and lose nothing.
#[test]
fn appends_go_on_while_entries_are_moved() {
    with_database(|_, _, location| {
        let (mut talk, entries) = Talk::of(1, 2);
        let store = open(location);
        store.append(talk.id, None, &entries).unwrap();
        let more: Vec<Entry> = (0..60).map(|number| talk.user(&format!("word {number}"))).collect();
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let mut after = tail(&entries);
                for entry in &more {
                    after = Some(store.append(talk.id, after, std::slice::from_ref(entry)).unwrap());
                }
            });
            let other = open(location);
            other.enable("partitions").unwrap();
            other.enable("search").unwrap();
            writer.join().unwrap();
        });
        assert_eq!(read(&*store, talk.id, 0).0, [entries.clone(), more].concat());
        assert!(problems(&*store, None).is_empty());
        assert_eq!(found(&*store, "word").len(), 60);
    });
}

#[test]
fn partitions_lose_nothing_that_others_made() {
    with_database(|server, database, location| {
        let store = open(location);
        let (talk, entries) = Talk::of(1, 2);
        store.append(talk.id, None, &entries).unwrap();
        let refused = || match store.enable("partitions") {
            Err(StoreError::Server { why, hint, .. }) => format!("{why}; {hint}"),
            other => panic!("{other:?}"),
        };
        server.psql(database, "CREATE VIEW mine AS SELECT count(*) FROM rejoin.entry").unwrap();
        let why = refused();
        assert!(why.contains("view mine") && why.contains("create them again"), "{why}");
        server.psql(database, "DROP VIEW mine; CREATE POLICY own ON rejoin.entry USING (true)").unwrap();
        let why = refused();
        assert!(why.contains("the policy own") && why.contains("create it again"), "{why}");
        assert_eq!(read(&*store, talk.id, 0).0, entries);
        server.psql(database, "DROP POLICY own ON rejoin.entry").unwrap();
        // A role that may use the store, and not change its tables.
        server.psql("postgres", "CREATE ROLE worker LOGIN").unwrap();
        let rights = "GRANT USAGE ON SCHEMA rejoin TO worker; \
                      GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA rejoin TO worker";
        server.psql(database, rights).unwrap();
        store.enable("partitions").unwrap();
        store.enable("search").unwrap();
        let worker = open_as("worker", server, database);
        let (other, more) = Talk::of(2, 3);
        worker.append(other.id, None, &more).unwrap();
        assert_eq!(read(&*worker, talk.id, 0).0, entries);
        assert_eq!(found(&*worker, "message").len(), 5);
        let unsearched = "SELECT count(*) FROM rejoin.summary WHERE searched < seq";
        assert_eq!(server.psql(database, unsearched).unwrap(), "0");
        drop(worker);
        drop_role("worker", server, database);
    });
}

/// The store of a database, opened as another role.
fn open_as(role: &str, server: &Server, database: &str) -> Box<dyn Store> {
    let address = format!("postgres://{role}@/{database}?host={}", server.socket().display());
    open(&address.parse().unwrap())
}

fn drop_role(role: &str, server: &Server, database: &str) {
    server.psql(database, &format!("DROP OWNED BY {role}; DROP ROLE {role}")).unwrap();
}

/// The operator enables, and a role without special rights owns the tables.
#[test]
fn the_owner_stays_the_owner() {
    with_database(|server, database, location| {
        server.psql("postgres", "CREATE ROLE keeper LOGIN").unwrap();
        server.psql(database, "CREATE SCHEMA rejoin AUTHORIZATION keeper").unwrap();
        let keeper = open_as("keeper", server, database);
        let (talk, entries) = Talk::of(1, 2);
        keeper.append(talk.id, None, &entries).unwrap();
        let operator = open(location);
        operator.enable("search").unwrap();
        operator.enable("partitions").unwrap();
        let (other, more) = Talk::of(2, 3);
        keeper.append(other.id, None, &more).unwrap();
        assert_eq!(found(&*keeper, "message").len(), 5);
        keeper.delete(talk.id).unwrap();
        assert!(problems(&*keeper, None).is_empty());
        drop((keeper, operator));
        drop_role("keeper", server, database);
    });
}

/// A role that may write but does not own the tables cannot rebuild the index, so it is refused before anything is gone.
#[test]
fn who_cannot_rebuild_the_index_erases_nothing() {
    with_database(|server, database, location| {
        let owner = open(location);
        owner.enable("search").unwrap();
        server.psql("postgres", "CREATE ROLE writer LOGIN").unwrap();
        server
            .psql(
                database,
                "GRANT ALL ON SCHEMA rejoin TO writer; GRANT ALL ON ALL TABLES IN SCHEMA rejoin TO writer",
            )
            .unwrap();
        let writer = open_as("writer", server, database);
        let (mut talk, mut entries) = Talk::of(1, 2);
        writer.append(talk.id, None, &entries).unwrap();
        let note = talk.erased(entries[1].id());
        let erased = writer.erase(talk.id, Tail::of(&entries[2]), entries[1].id(), &note).map(drop);
        for refused in [erased, writer.delete(talk.id)] {
            let Err(StoreError::Server { why, .. }) = refused else { panic!("not refused: {refused:?}") };
            assert!(why.contains("rejoin.words") && why.contains("postgres"), "{why}");
        }
        assert_eq!(read(&*owner, talk.id, 0).0, entries);
        // The advice in the hint works.
        server.psql("postgres", "GRANT postgres TO writer").unwrap();
        writer.erase(talk.id, Tail::of(&entries[2]), entries[1].id(), &note).unwrap();
        entries.push(note);
        assert_eq!(hashes(&read(&*owner, talk.id, 0).0), hashes(&entries));
        writer.delete(talk.id).unwrap();
        drop((writer, owner));
        drop_role("writer", server, database);
    });
}

#[test]
fn only_known_options_are_enabled_and_by_no_scoped_handle() {
    with_database(|_, _, location| {
        let store: std::sync::Arc<dyn Store> = open(location).into();
        assert!(matches!(store.enable("speed"), Err(StoreError::NoSuchOption(name)) if name == "speed"));
        let ann = std::sync::Arc::clone(&store).scoped("user=ann".parse().unwrap());
        assert!(matches!(ann.enable("search"), Err(StoreError::OutOfScope)));
        assert_eq!(ann.options().unwrap(), store.options().unwrap());
        assert!(store.options().unwrap().iter().all(|option| !option.enabled));
        let folder = support::folder();
        let files = support::jsonl(folder.path());
        assert!(files.options().unwrap().is_empty());
        assert!(matches!(files.enable("search"), Err(StoreError::NoSuchOption(_))));
    });
}
