//! What only a server can do to a store: refuse, restart, belong to another program, or be shared by many users.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

mod support;

use std::{
    collections::{BTreeMap, HashSet},
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::{Duration, Instant},
};

use rejoin_record::{Content, ConversationId, Entry, EntryId, Kind, Message, Raw, Tail, chain::Stamp};
use rejoin_store::{Holder, Location, Query, Store, StoreError, StoreResult};
use support::{READ, Talk, WRITE, hashes, problems, read, tail, with_database};
use testkit::postgres::Server;

fn open(location: &Location) -> StoreResult<Box<dyn Store>> {
    rejoin_store::open(location, WRITE)
}

/// Runs a test on a store in a new database.
fn with_store(test: impl Fn(Box<dyn Store>)) {
    with_database(|_, _, location| test(open(location).unwrap()));
}

/// A store with a conversation of this many messages.
fn with_talk(location: &Location, messages: usize) -> (Box<dyn Store>, Talk, Vec<Entry>) {
    let store = open(location).unwrap();
    let (talk, entries) = Talk::of(1, messages);
    store.append(talk.id, None, &entries).unwrap();
    (store, talk, entries)
}

fn refusal(opened: StoreResult<Box<dyn Store>>) -> (String, &'static str) {
    match opened {
        Err(StoreError::Server { why, hint, .. }) => (why, hint),
        other => panic!("not refused by the server: {other:?}"),
    }
}

#[test]
fn what_the_server_refuses_is_explained() {
    with_database(|server, database, _| {
        server.psql("postgres", "CREATE ROLE guest LOGIN").unwrap();
        server.psql(database, &format!("REVOKE CREATE ON DATABASE {database} FROM PUBLIC")).unwrap();
        let at = |user: &str, database: &str| -> Location {
            format!("postgres://{user}:secret@/{database}?host={}", server.socket().display())
                .parse()
                .unwrap()
        };
        let (why, hint) = refusal(open(&at("nobody", database)));
        assert!(why.contains("nobody") && hint.contains(".pgpass"), "{why}; {hint}");
        let (why, hint) = refusal(open(&at("postgres", "elsewhere")));
        assert!(why.contains("elsewhere") && hint.contains("createdb"), "{why}; {hint}");
        let (why, hint) = refusal(open(&at("guest", database)));
        assert!(why.contains("permission denied") && hint.contains("CREATE SCHEMA rejoin"), "{why}; {hint}");
        // The hint works.
        server.psql(database, "CREATE SCHEMA rejoin AUTHORIZATION guest").unwrap();
        let store = open(&at("guest", database)).unwrap();
        let (talk, entries) = Talk::of(1, 2);
        store.append(talk.id, None, &entries).unwrap();
        assert_eq!(store.tail(talk.id).unwrap(), tail(&entries));
        let text = format!("{:?} {}", store, store.location());
        assert!(!text.contains("secret"), "{text}");
        let nowhere: Location = "postgres://postgres@/x?host=/nowhere".parse().unwrap();
        let (why, hint) = refusal(open(&nowhere));
        assert!(why.contains("connect") && hint.contains("PGHOST"), "{why}; {hint}");
        let missing = rejoin_store::open(&at("postgres", &server.database()), READ);
        assert!(matches!(missing, Err(StoreError::Missing(_))), "{missing:?}");
        server.psql("postgres", "DROP OWNED BY guest").unwrap();
    });
}

#[test]
fn a_schema_of_another_program_is_left_alone() {
    with_database(|server, database, location| {
        server.psql(database, "CREATE SCHEMA rejoin; CREATE TABLE rejoin.conversation (mine text)").unwrap();
        let (why, hint) = refusal(open(location));
        assert!(why.contains("another program") && hint.contains("another database"), "{why}; {hint}");
        let kept = server.psql(database, "SELECT count(*) FROM rejoin.conversation").unwrap();
        assert_eq!(kept, "0");
    });
    with_database(|server, database, location| {
        // Tables of other programs in other schemas do not matter.
        server
            .psql(database, "CREATE TABLE conversation (mine text); CREATE TABLE entry (mine text)")
            .unwrap();
        drop(open(location).unwrap());
        // Half of the tables are gone.
        server.psql(database, "DROP TABLE rejoin.summary CASCADE").unwrap();
        let (why, hint) = refusal(open(location));
        assert!(why.contains("rejoin.summary") && hint.contains("backup"), "{why}; {hint}");
    });
}

#[test]
fn a_newer_schema_is_only_read() {
    with_database(|server, database, location| {
        let (store, mut talk, entries) = with_talk(location, 2);
        drop(store);
        server.psql(database, "INSERT INTO rejoin.schema_version (version) VALUES (99)").unwrap();
        let store = open(location).unwrap();
        assert!(store.read_only().unwrap().contains("99"));
        assert_eq!(hashes(&read(&*store, talk.id, 0).0), hashes(&entries));
        assert_eq!(store.list(&Query::default()).unwrap().conversations.len(), 1);
        let refused = store.append(talk.id, tail(&entries), &[talk.user("more")]);
        assert!(matches!(refused, Err(StoreError::TooNew { found: 99, .. })), "{refused:?}");
        assert_eq!(server.psql(database, "SELECT count(*) FROM rejoin.entry").unwrap(), "3");
    });
}

#[test]
fn many_processes_may_open_a_new_database_at_once() {
    with_database(|_, _, location| {
        std::thread::scope(|scope| {
            let opened: Vec<_> = (0..8).map(|_| scope.spawn(|| open(location).map(drop))).collect();
            for opened in opened {
                opened.join().unwrap().unwrap();
            }
        });
    });
}

/// PostgreSQL takes no zero byte in a text; entries have them in every place where a text can be.
#[test]
fn zero_bytes_and_odd_texts_are_kept() {
    with_store(|store| {
        let mut talk = Talk::new(1);
        let header = talk.header();
        let stamp = Stamp { source_time: Some("yester\0day".into()), ..talk.stamp() };
        let texts = ["a\0b", "\u{fffd}\u{10ffff}", "'; DROP TABLE rejoin.entry; --", "\\x00", ""];
        let odd = talk.chain.append(Kind::Message, &Content::Message(Message::user("timed")), stamp);
        let mut entries = vec![header, odd];
        entries.extend(texts.iter().map(|text| talk.user(text)));
        let last = entries.last().unwrap().clone();
        entries.push(talk.body(Kind::named("odd\0kind"), &last, r#"{"a":"\u0000","b":"\ud800"}"#));
        entries.push(talk.titled("a\0title"));
        store.append(talk.id, None, &entries).unwrap();
        let (found, damage) = read(&*store, talk.id, 0);
        assert!(damage.is_empty(), "{damage:?}");
        assert_eq!(found, entries);
        assert_eq!(store.summary(talk.id).unwrap().title.as_deref(), Some("a\u{2400}title"));
        assert!(problems(&*store, None).is_empty());
    });
}

#[test]
fn a_hundred_megabytes_in_one_row() {
    with_store(|store| {
        let mut talk = Talk::new(1);
        let header = talk.header();
        let mut text = String::with_capacity(100 << 20);
        let mut number = 1u64;
        while text.len() < 100 << 20 {
            number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            text.push_str(&format!("{number:x} "));
        }
        let big = talk.user(&text);
        let entries = [header, big, talk.user("small")];
        store.append(talk.id, None, &entries).unwrap();
        let (found, damage) = read(&*store, talk.id, 0);
        assert!(damage.is_empty() && found == entries);
    });
}

/// A row that was changed from outside is damage, and everything else can be read.
#[test]
fn changed_and_missing_rows_are_damage() {
    with_database(|server, database, location| {
        let (store, talk, entries) = with_talk(location, 6);
        server.psql(database, "UPDATE rejoin.entry SET body = 'x'::bytea || body WHERE seq = 2").unwrap();
        server.psql(database, "UPDATE rejoin.entry SET hash = '\\x00' WHERE seq = 5").unwrap();
        server.psql(database, "DELETE FROM rejoin.entry WHERE seq IN (3, 6)").unwrap();
        let (found, damage) = read(&*store, talk.id, 0);
        let whole: Vec<Entry> = [0, 1, 4].map(|seq: usize| entries[seq].clone()).to_vec();
        assert_eq!(found, whole);
        assert_eq!(damage.len(), 4, "{damage:?}");
        assert_eq!(problems(&*store, None).len(), 4);
        // A summary that was made before does not know of it; one that is made again does.
        store.rebuild().unwrap();
        assert!(store.list(&Query::default()).unwrap().conversations[0].damaged);
    });
}

#[test]
fn a_lease_is_taken_over_when_it_lapses() {
    with_database(|server, database, location| {
        let (ours, theirs) = (open(location).unwrap(), open(location).unwrap());
        let (talk, entries) = Talk::of(1, 1);
        ours.append(talk.id, None, &entries).unwrap();
        let holder = |command: &str| Holder {
            pid: std::process::id(),
            command: command.to_owned(),
            since: String::new(),
        };
        let lock = ours.lock(talk.id, &holder("first")).unwrap();
        let refused = theirs.lock(talk.id, &holder("second")).unwrap_err();
        assert!(matches!(&refused, StoreError::Locked(other) if other.command == "first"), "{refused:?}");
        drop(lock);
        let lock = theirs.lock(talk.id, &holder("second")).unwrap();
        // It is still held, and its time is over: its machine is gone.
        server.psql(database, "UPDATE rejoin.lease SET until = now() - interval '1 second'").unwrap();
        let taken = ours.lock(talk.id, &holder("third")).unwrap();
        drop(lock);
        let refused = theirs.lock(talk.id, &holder("fourth")).unwrap_err();
        assert!(matches!(&refused, StoreError::Locked(other) if other.command == "third"), "{refused:?}");
        drop(taken);
        // Its time is not over, but its process ran here and does not any more.
        let mut child = std::process::Command::new("sleep").arg("100").spawn().unwrap();
        let gone = Holder { pid: child.id(), command: String::from("killed"), since: String::new() };
        let lock = ours.lock(talk.id, &gone).unwrap();
        assert!(theirs.lock(talk.id, &holder("fifth")).is_err());
        child.kill().unwrap();
        child.wait().unwrap();
        drop(theirs.lock(talk.id, &holder("fifth")).unwrap());
        drop(lock);
        // It ran on another machine: whether it still runs is not known here until its time is over.
        let lock = ours.lock(talk.id, &gone).unwrap();
        let elsewhere = "UPDATE rejoin.lease SET holder = jsonb_set(holder::jsonb, '{machine}', '\"other\"') || '{\"host\":\"db7\"}'";
        server.psql(database, elsewhere).unwrap();
        let refused = theirs.lock(talk.id, &holder("sixth")).unwrap_err();
        assert!(
            matches!(&refused, StoreError::Locked(other) if other.command == "killed on db7"),
            "{refused:?}"
        );
        server.psql(database, "UPDATE rejoin.lease SET until = now() - interval '1 second'").unwrap();
        drop(theirs.lock(talk.id, &holder("sixth")).unwrap());
        drop(lock);
    });
}

/// A store survives a restart of its server: the next call connects again.
#[test]
fn a_restart_of_the_server_is_survived() {
    let Some(programs) = testkit::postgres::programs() else { return };
    let server = Server::start(programs, &[]);
    let location: Location = server.address(&server.database()).parse().unwrap();
    let store = open(&location).unwrap();
    let (mut talk, mut entries) = Talk::of(1, 3);
    store.append(talk.id, None, &entries).unwrap();
    for round in 0..2 {
        server.kill();
        let next = talk.user(&format!("round {round}"));
        let refused = store.append(talk.id, tail(&entries), std::slice::from_ref(&next)).unwrap_err();
        assert!(refused.is_unwritable(), "{refused:?}");
        server.restart();
        store.append(talk.id, tail(&entries), std::slice::from_ref(&next)).unwrap();
        entries.push(next);
        assert_eq!(read(&*store, talk.id, 0).0, entries);
    }
}

/// How long the writers of the test below write: `REJOIN_KILL_SECONDS`, or what an ordinary run has time for.
fn seconds() -> u64 {
    std::env::var("REJOIN_KILL_SECONDS").ok().and_then(|seconds| seconds.parse().ok()).unwrap_or(12)
}

/// 64 writers in 200 conversations, while the server is killed and restarted three times: every acknowledged entry is stored
/// exactly once, and every conversation verifies.
#[test]
fn nothing_is_lost_when_the_server_is_killed() {
    let Some(programs) = testkit::postgres::programs() else { return };
    let server = Server::start(programs, &[]);
    let location: Location = server.address(&server.database()).parse().unwrap();
    let stores: Vec<Box<dyn Store>> = (0..4).map(|_| open(&location).unwrap()).collect();
    let talks: Vec<ConversationId> = (1..=200)
        .map(|number| {
            let (talk, entries) = Talk::of(number, 0);
            stores[0].append(talk.id, None, &entries).unwrap();
            talk.id
        })
        .collect();
    let (stop, made) = (AtomicBool::new(false), AtomicU64::new(0));
    let acknowledged: Vec<Vec<(ConversationId, EntryId)>> = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..64u64)
            .map(|writer| {
                let (store, talks, stop, made) = (&*stores[writer as usize % 4], &talks, &stop, &made);
                scope.spawn(move || {
                    let mut dice = testkit::faults::Dice(writer + 1);
                    let mut done = Vec::new();
                    while !stop.load(Ordering::Relaxed) {
                        let id = talks[dice.below(200) as usize];
                        let number = made.fetch_add(1, Ordering::Relaxed);
                        done.extend(append_one(store, id, writer, number, stop).map(|entry| (id, entry)));
                    }
                    done
                })
            })
            .collect();
        let begun = Instant::now();
        for part in 1..=3 {
            while begun.elapsed() < Duration::from_secs(seconds()) * part / 4 {
                std::thread::sleep(Duration::from_millis(20));
            }
            server.kill();
            server.restart();
        }
        while begun.elapsed() < Duration::from_secs(seconds()) {
            std::thread::sleep(Duration::from_millis(20));
        }
        stop.store(true, Ordering::Relaxed);
        writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    });
    let store = open(&location).unwrap();
    assert!(problems(&*store, None).is_empty(), "{:?}", problems(&*store, None));
    let mut stored: BTreeMap<ConversationId, Vec<EntryId>> = BTreeMap::new();
    for id in &talks {
        let (entries, damage) = read(&*store, *id, 0);
        assert!(damage.is_empty(), "{damage:?}");
        stored.insert(*id, entries.iter().map(Entry::id).collect());
        assert_eq!(store.summary(*id).unwrap().entries, entries.len() as u64);
    }
    let total: usize = stored.values().map(Vec::len).sum();
    let unique: HashSet<&EntryId> = stored.values().flatten().collect();
    assert_eq!(unique.len(), total, "nothing is doubled");
    let mut count = 0;
    for (id, entry) in acknowledged.iter().flatten() {
        assert!(stored[id].contains(entry), "{entry} of {id} was acknowledged and is lost");
        count += 1;
    }
    println!("{count} acknowledged, {total} stored");
    assert!(count > 200, "{count}");
}

/// Appends a message after the current tail, and retries until the server accepts it. `None` if it was stopped before.
fn append_one(
    store: &dyn Store,
    id: ConversationId,
    writer: u64,
    number: u64,
    stop: &AtomicBool,
) -> Option<EntryId> {
    let mut random = [0; 10];
    random[..8].copy_from_slice(&number.to_be_bytes());
    let entry_id = EntryId::new(1_760_000_000_000 + number, random);
    let mut patience = 2000;
    loop {
        if stop.load(Ordering::Relaxed) || patience == 0 {
            return None;
        }
        patience -= 1;
        let Ok(Some(after)) = store.tail(id) else {
            std::thread::sleep(Duration::from_millis(50));
            continue;
        };
        let stamp = Stamp {
            id: entry_id,
            timestamp: jiff::Timestamp::from_second(1_760_000_000 + number as i64).unwrap(),
            salt: rejoin_record::Salt([writer as u8; 16]),
            source_time: None,
        };
        let content = Content::Message(Message::user(format!("word {number} of writer {writer}")));
        let entry = rejoin_record::Chain::at(Some(after)).append(Kind::Message, &content, stamp);
        // If the outcome of an append is unknown, it is repeated unchanged, and must not be stored twice.
        loop {
            match store.append(id, Some(after), std::slice::from_ref(&entry)) {
                Ok(Tail { .. }) => return Some(entry_id),
                Err(StoreError::TailMoved { .. }) => break,
                Err(why) => {
                    assert!(why.is_unwritable(), "{why:?}");
                    if stop.load(Ordering::Relaxed) {
                        return None;
                    }
                    std::thread::sleep(Duration::from_millis(50));
                }
            }
        }
        // It may be stored nevertheless, if other entries came after it.
        let mut is_there = false;
        let looked = store.read(id, after.seq + 1, &mut |item| {
            is_there |= matches!(&item, rejoin_store::StoredItem::Entry(found) if found.id() == entry_id);
            std::ops::ControlFlow::Continue(())
        });
        match looked {
            Ok(()) if is_there => return Some(entry_id),
            Ok(()) => {}
            // Not known: ask again before anything is written a second time.
            Err(_) => loop {
                if stop.load(Ordering::Relaxed) {
                    return None;
                }
                let (mut there, mut asked) = (false, false);
                if store
                    .read(id, after.seq + 1, &mut |item| {
                        there |=
                            matches!(&item, rejoin_store::StoredItem::Entry(found) if found.id() == entry_id);
                        std::ops::ControlFlow::Continue(())
                    })
                    .is_ok()
                {
                    asked = true;
                }
                if asked && there {
                    return Some(entry_id);
                }
                if asked {
                    break;
                }
                std::thread::sleep(Duration::from_millis(50));
            },
        }
    }
}

/// A raw body is returned byte for byte, in any spelling of JSON.
#[test]
fn bodies_are_kept_byte_for_byte() {
    with_store(|store| {
        let mut talk = Talk::new(1);
        let header = talk.header();
        let odd = r#"{ "a" : 1.0e+2 ,"a":2, "\u0061":"\/" }"#;
        let body = talk.body(Kind::named("future"), &header, odd);
        store.append(talk.id, None, &[header, body]).unwrap();
        let (found, _) = read(&*store, talk.id, 0);
        assert_eq!(found[1].body().map(Raw::as_str), Some(odd));
    });
}

/// Two stores, as on two machines: a reader learns of an entry much sooner than it would look by itself.
#[test]
fn readers_are_told_of_new_entries() {
    with_database(|_, _, location| {
        let (ours, theirs) = (open(location).unwrap(), open(location).unwrap());
        let (mut talk, mut entries) = Talk::of(1, 1);
        ours.append(talk.id, None, &entries).unwrap();
        // The first wait begins to listen.
        theirs.wait(talk.id, tail(&entries), Duration::from_secs(2)).unwrap();
        let mut late = Vec::new();
        for round in 0..20 {
            let next = talk.user(&format!("round {round}"));
            let known = tail(&entries);
            entries.push(next.clone());
            let (heard, sent) = std::thread::scope(|scope| {
                let reader = scope.spawn(|| {
                    let found = theirs.wait(talk.id, known, Duration::from_secs(30)).unwrap();
                    (found, Instant::now())
                });
                // The reader waits by now, and looks by itself only after seconds.
                std::thread::sleep(Duration::from_millis(60));
                ours.append(talk.id, known, std::slice::from_ref(&next)).unwrap();
                let sent = Instant::now();
                (reader.join().unwrap(), sent)
            });
            assert_eq!(heard.0, Some(Tail::of(&next)));
            late.push(heard.1.saturating_duration_since(sent));
        }
        late.sort();
        println!(
            "an entry is seen after {:?} (median), {:?} (worst)",
            late[late.len() / 2],
            late[late.len() - 1]
        );
        assert!(late[late.len() / 2] < Duration::from_millis(200), "{late:?}");
    });
}

/// The last notification leaves before a store is closed, and one that is lost does not matter.
#[test]
fn a_reader_sees_what_it_was_not_told() {
    with_database(|server, database, location| {
        let reader = open(location).unwrap();
        let (mut talk, entries) = Talk::of(1, 1);
        let writer = open(location).unwrap();
        writer.append(talk.id, None, &entries).unwrap();
        drop(writer);
        let mut known = reader.wait(talk.id, None, Duration::from_secs(30)).unwrap();
        assert_eq!(known, tail(&entries));
        reader.wait(talk.id, known, Duration::from_secs(1)).unwrap();
        let mut append = |text: &str| {
            let next = talk.user(text);
            let writer = open(location).unwrap();
            writer.append(talk.id, known, std::slice::from_ref(&next)).unwrap();
            drop(writer);
            let begun = Instant::now();
            let found = reader.wait(talk.id, known, Duration::from_secs(30)).unwrap();
            assert_eq!(found, Some(Tail::of(&next)));
            known = found;
            begun.elapsed()
        };
        // It was appended before the reader waits.
        assert!(append("at once") < Duration::from_secs(4));
        // The connection that listens is gone.
        let kill = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND datname = ";
        assert_eq!(server.psql("postgres", &format!("{kill}'{database}'")).unwrap(), "1");
        assert!(append("while no listener is connected") < Duration::from_secs(4));
    });
}

/// The file of entries that could not be saved belongs to the conversation: it goes with it.
#[test]
fn unsaved_entries_are_deleted_and_erased_with_the_others() {
    with_store(|store| {
        let spool = store.spool().unwrap();
        let (mut talk, mut entries) = Talk::of(1, 1);
        store.append(talk.id, None, &entries).unwrap();
        let before = tail(&entries);
        let secret = talk.user("a word that is erased");
        let unsaved = talk.user("a word that was never saved");
        // The append of the first was acknowledged, and its process killed before it could remove the file.
        store.append(talk.id, before, std::slice::from_ref(&secret)).unwrap();
        let mut file = spool.begin(talk.id, before).unwrap();
        file.add(&[secret.clone(), unsaved.clone()]).unwrap();
        let path = file.path();
        entries.push(secret.clone());
        let note = rejoin_record::Chain::at(tail(&entries)).append(
            Kind::Erased,
            &Content::Erased(rejoin_record::content::Erased { entry: secret.id(), reason: None }),
            talk.stamp(),
        );
        // While its process is alive, the file is not changed under it.
        let refused = store.erase(talk.id, Tail::of(&secret), secret.id(), &note).unwrap_err().to_string();
        assert!(refused.contains("another process is writing it"), "{refused}");
        drop(file);
        store.erase(talk.id, Tail::of(&secret), secret.id(), &note).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(!text.contains("is erased") && text.contains("never saved"), "{text}");
        let mut left = spool.left(talk.id).unwrap().unwrap();
        assert_eq!(left.after, before);
        let kept = left.next_entries(usize::MAX).unwrap();
        assert_eq!(hashes(&kept), hashes(&[secret, unsaved]));
        assert!(kept[0].content().is_none() && kept[1].content().is_some());
        assert!(left.next_entries(1).unwrap().is_empty());
        drop(left);

        assert_eq!(store.files_that_go(talk.id, None).unwrap(), std::slice::from_ref(&path));
        store.delete(talk.id).unwrap();
        assert!(!path.exists() && spool.conversations().is_empty());
    });
}

/// A file of unsaved entries of any size is read in parts; a torn last line was never acknowledged.
#[test]
fn unsaved_entries_are_read_in_parts() {
    with_store(|store| {
        let (talk, entries) = Talk::of(1, 9);
        let mut file = store.spool().unwrap().begin(talk.id, None).unwrap();
        file.add(&entries).unwrap();
        let path = file.path();
        drop(file);
        let mut text = std::fs::read(&path).unwrap();
        text.extend_from_slice(&entries[0].to_line().as_bytes()[..30]);
        std::fs::write(&path, text).unwrap();
        let mut left = store.spool().unwrap().left(talk.id).unwrap().unwrap();
        let (mut found, mut parts) = (Vec::new(), 0);
        loop {
            let part = left.next_entries(800).unwrap();
            if part.is_empty() {
                break;
            }
            assert!(part.len() < 5, "{}", part.len());
            found.extend(part);
            parts += 1;
        }
        assert!(parts > 2 && found == entries, "{parts}");
    });
}

/// An address may name several hosts, and require that the server is writable.
#[test]
fn the_first_host_that_takes_us_is_used() {
    with_database(|server, database, _| {
        let folder = support::folder();
        let at = |rest: &str| {
            let address = server.address(database).replace("host=", "host=/nowhere&host=") + rest;
            open(&address.parse::<Location>().unwrap().with_folder(folder.path()))
        };
        let (talk, entries) = Talk::of(1, 2);
        at("").unwrap().append(talk.id, None, &entries).unwrap();
        let store = at("&target_session_attrs=read-write&load_balance_hosts=random").unwrap();
        assert_eq!(read(&*store, talk.id, 0).0, entries);
        let read_only = rejoin_store::open(
            &(server.address(database) + "&target_session_attrs=read-only").parse().unwrap(),
            READ,
        );
        let (why, _) = refusal(read_only);
        assert!(why.contains("not read only"), "{why}");
        let (why, hint) = refusal(at("&port=1&port=2"));
        assert!(why.contains("numbers of hosts") && hint.contains("ports"), "{why}; {hint}");
    });
}

/// An address names a server and its standby. When the server fails and the standby takes over, the same store continues there.
#[test]
fn a_standby_takes_over() {
    let Some(programs) = testkit::postgres::programs() else { return };
    let primary = Server::start(programs, &["fsync=off"]);
    let database = primary.database();
    let standby = primary.standby();
    let both =
        primary.address(&database).replace("host=", &format!("host={}&host=", standby.socket().display()))
            + "&target_session_attrs=read-write";
    let both: Location = both.parse().unwrap();
    let (store, mut talk, mut entries) = with_talk(&both, 3);
    let end = primary.psql("postgres", "SELECT pg_current_wal_flush_lsn()").unwrap();
    let begun = Instant::now();
    while standby.psql("postgres", &format!("SELECT pg_last_wal_replay_lsn() >= '{end}'")).as_deref()
        != Ok("t")
    {
        assert!(begun.elapsed() < Duration::from_secs(60), "the standby does not follow");
        std::thread::sleep(Duration::from_millis(20));
    }
    // The standby alone can be read.
    let only: Location = standby.address(&database).parse().unwrap();
    let reader = open(&only).unwrap();
    assert!(reader.read_only().is_some_and(|why| why.contains("primary")));
    assert_eq!(read(&*reader, talk.id, 0).0, entries);
    let next = talk.user("said while there is no primary");
    let append =
        |store: &dyn Store, after: &[Entry]| store.append(talk.id, tail(after), std::slice::from_ref(&next));
    assert!(append(&*reader, &entries).is_err_and(|why| why.is_unwritable()));
    primary.kill();
    let refused = append(&*store, &entries).unwrap_err();
    assert!(refused.is_unwritable() && refused.to_string().contains("does not allow writes"), "{refused}");
    assert_eq!(standby.psql("postgres", "SELECT pg_promote()").as_deref(), Ok("t"));
    append(&*store, &entries).unwrap();
    entries.push(next.clone());
    for store in [store, reader, open(&both).unwrap()] {
        assert_eq!(read(&*store, talk.id, 0).0, entries);
        assert!(problems(&*store, None).is_empty());
    }
}

/// The caller's thread may belong to a runtime that knows nothing of the store.
#[test]
fn a_store_is_used_in_a_task_of_any_runtime() {
    with_database(|_, _, location| {
        let location = location.clone();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let task = runtime.spawn(async move {
            let store = open(&location).unwrap();
            let (mut talk, mut entries) = Talk::of(1, 2);
            store.append(talk.id, None, &entries).unwrap();
            // More than a task may do at once without giving others a turn.
            for round in 0..200 {
                let next = talk.user(&format!("round {round}"));
                store.append(talk.id, tail(&entries), std::slice::from_ref(&next)).unwrap();
                entries.push(next);
            }
            assert_eq!(read(&*store, talk.id, 0).0, entries);
        });
        runtime.block_on(task).unwrap();
    });
}

/// A transaction that ends without a commit is rolled back at once. No thread waits for the server's answer to that.
#[test]
fn an_erasure_that_fails_leaves_no_lock() {
    with_database(|server, database, location| {
        let store = open(location).unwrap();
        let (mut talk, mut entries) = Talk::of(1, 2);
        store.append(talk.id, None, &entries).unwrap();
        let missing = Talk::new(2).header().id();
        let note = talk.erased(missing);
        let refused = store.erase(talk.id, Tail::of(&entries[2]), missing, &note);
        assert!(matches!(refused, Err(StoreError::NoSuchEntry(_))), "{refused:?}");
        let (address, folder) = (server.address(database), support::folder());
        let impatient: Location = format!("{address}&options=-c%20lock_timeout=10s").parse().unwrap();
        let other = open(&impatient.with_folder(folder.path())).unwrap();
        let next = Talk::of(1, 2).0.user("goes on");
        other.append(talk.id, tail(&entries), std::slice::from_ref(&next)).unwrap();
        entries.push(next);
        assert_eq!(read(&*store, talk.id, 0).0, entries);
    });
}

/// A damaged body cannot be hashed. It is removed nevertheless.
#[test]
fn damaged_content_is_erased_too() {
    with_database(|server, database, location| {
        let (store, mut talk, entries) = with_talk(location, 3);
        server.psql(database, "UPDATE rejoin.entry SET body = '\\xff'::bytea || body WHERE seq = 2").unwrap();
        let note = talk.erased(entries[2].id());
        store.erase(talk.id, Tail::of(&entries[3]), entries[2].id(), &note).unwrap();
        let left =
            "SELECT count(*) FROM rejoin.entry WHERE seq = 2 AND (body IS NOT NULL OR salt IS NOT NULL)";
        assert_eq!(server.psql(database, left).unwrap(), "0");
        // It is still known to be damaged, and everything else is as it was.
        let (found, damage) = read(&*store, talk.id, 0);
        assert_eq!((found.len(), damage.len()), (4, 1), "{damage:?}");
    });
}
