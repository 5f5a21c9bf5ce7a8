//! Appends of several threads to one PostgreSQL store, which may share a transaction: each still gets its own answer.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test may")]

mod support;

use std::sync::atomic::{AtomicBool, Ordering};

use rejoin_record::{Entry, Tail};
use rejoin_store::{Location, Store, StoreError};
use support::{Talk, WRITE, hashes, problems, read, tail, with_database};

fn open(location: &Location) -> Box<dyn Store> {
    rejoin_store::open(location, WRITE).unwrap()
}

/// Conversations, each with the entries that are stored.
fn conversations(store: &dyn Store, count: u64) -> Vec<(Talk, Vec<Entry>)> {
    let talks = (1..=count).map(|number| {
        let (talk, entries) = Talk::of(number, 1);
        store.append(talk.id, None, &entries).unwrap();
        (talk, entries)
    });
    talks.collect()
}

/// Appends messages one at a time.
fn append_each(store: &dyn Store, talk: &mut Talk, entries: &mut Vec<Entry>, count: usize) {
    for number in 0..count {
        let entry = talk.user(&format!("message {number}"));
        assert_eq!(
            store.append(talk.id, tail(entries), std::slice::from_ref(&entry)).unwrap(),
            Tail::of(&entry)
        );
        entries.push(entry);
    }
}

#[test]
fn appends_that_share_a_transaction_are_answered_each_by_itself() {
    with_database(|server, database, location| {
        let store = open(location);
        let mut talks = conversations(&*store, 18);
        let (mut moved, before) = talks.pop().unwrap();
        let (mut refused, kept) = talks.pop().unwrap();
        let [never, late] = [refused.user("never"), Talk::of(18, 1).0.user("too late")];
        let mut latest = before.clone();
        append_each(&*store, &mut moved, &mut latest, 1);
        server
            .psql(
                database,
                &format!(
                    "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS \
                     $$ BEGIN IF NEW.conversation = '{}' THEN RAISE 'not this one'; END IF; RETURN NEW; END $$; \
                     CREATE TRIGGER refuse BEFORE INSERT ON rejoin.entry FOR EACH ROW EXECUTE FUNCTION refuse()",
                    refused.id
                ),
            )
            .unwrap();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let writers: Vec<_> = talks
                .iter_mut()
                .map(|(talk, entries)| scope.spawn(|| append_each(&*store, talk, entries, 60)))
                .collect();
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let appended = store.append(refused.id, tail(&kept), std::slice::from_ref(&never));
                    let why = appended.unwrap_err().to_string();
                    assert!(why.contains("not this one"), "{why}");
                }
            });
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let appended = store.append(moved.id, tail(&before), std::slice::from_ref(&late));
                    assert!(matches!(appended, Err(StoreError::TailMoved { .. })), "{appended:?}");
                }
            });
            writers.into_iter().for_each(|writer| writer.join().unwrap());
            is_over.store(true, Ordering::Relaxed);
        });
        assert!(problems(&*store, None).is_empty(), "{:?}", problems(&*store, None));
        for (talk, entries) in &talks {
            assert_eq!(hashes(&read(&*store, talk.id, 0).0), hashes(entries));
            assert_eq!(store.summary(talk.id).unwrap().entries, entries.len() as u64);
        }
        assert_eq!(hashes(&read(&*store, refused.id, 0).0), hashes(&kept));
        assert_eq!(hashes(&read(&*store, moved.id, 0).0), hashes(&latest));
    });
}

#[test]
fn appends_of_many_threads_share_transactions() {
    with_database(|server, database, location| {
        let store = open(location);
        let mut talks = conversations(&*store, 16);
        std::thread::scope(|scope| {
            for (talk, entries) in &mut talks {
                scope.spawn(|| append_each(&*store, talk, entries, 60));
            }
        });
        let counted = server
            .psql(database, "SELECT count(*), count(DISTINCT xmin::text) FROM rejoin.entry WHERE seq > 1")
            .unwrap();
        let (entries, transactions) = counted.split_once('|').unwrap();
        let (entries, transactions): (u64, u64) = (entries.parse().unwrap(), transactions.parse().unwrap());
        assert!(entries == 16 * 60 && transactions < entries, "{transactions} transactions for {entries}");
    });
}

#[test]
fn locked_conversations_do_not_stop_appends_to_others() {
    with_database(|server, database, location| {
        let store = open(location);
        let mut free = conversations(&*store, 12);
        let locked = free.split_off(6);
        let hold =
            "BEGIN; SELECT 1 FROM rejoin.conversation WHERE id = ANY($1) FOR UPDATE; SELECT pg_sleep(60)";
        let names: Vec<String> = locked.iter().map(|(talk, _)| format!("'{}'", talk.id)).collect();
        let hold = hold.replace("$1", &format!("ARRAY[{}]", names.join(", ")));
        let holders = |what: &str| {
            let query = format!(
                "SELECT {what} FROM pg_stat_activity WHERE datname = '{database}' AND wait_event = 'PgSleep'"
            );
            server.psql(database, &query).unwrap()
        };
        std::thread::scope(|scope| {
            scope.spawn(|| server.psql(database, &hold).unwrap_err());
            while holders("count(*)") != "1" {
                std::thread::yield_now();
            }
            let mut waiting = Vec::new();
            std::thread::scope(|inner| {
                for (talk, entries) in &mut free {
                    inner.spawn(|| append_each(&*store, talk, entries, 100));
                }
                // These come while others are on their way, so that some of them share a transaction.
                for (mut talk, entries) in locked {
                    let store = &store;
                    waiting.push(
                        scope.spawn(move || store.append(talk.id, tail(&entries), &[talk.user("later")])),
                    );
                }
            });
            assert!(waiting.iter().all(|append| !append.is_finished()), "their conversations are locked");
            holders("pg_terminate_backend(pid)");
            for append in waiting {
                append.join().unwrap().unwrap();
            }
        });
        assert!(problems(&*store, None).is_empty(), "{:?}", problems(&*store, None));
    });
}
