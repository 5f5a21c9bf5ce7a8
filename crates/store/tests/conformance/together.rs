//! Several writers at once.

use std::time::{Duration, Instant};

use super::*;

/// B43: one writer per conversation. A second one gets the name of the first, and can still read.
#[test]
fn a_lock_names_its_holder() {
    in_every_home(|home| {
        let (store, talk, entries) = home.with_talk(1, 1);
        let holder = Holder {
            pid: 4711,
            command: String::from("rejoin chat"),
            since: String::from("2026-01-01T00:00:00Z"),
        };
        let held: Lock = store.lock(talk.id, &holder).unwrap();
        let again = if home.is_on_disk() { Some(home.open()) } else { None };
        let other = again.as_deref().unwrap_or(&*store);
        match other.lock(talk.id, &Holder::default()) {
            Err(StoreError::Locked(found)) => assert_eq!(found, holder, "{}", home.name),
            taken => panic!("{}: {taken:?}", home.name),
        }
        assert!(other.lock(Talk::new(2).id, &Holder::default()).is_ok(), "another conversation is free");
        assert_eq!(read(other, talk.id, 0).0, entries, "{}", home.name);
        assert_eq!(other.list(&Query::default()).unwrap().total, 1);
        drop(held);
        drop(other.lock(talk.id, &holder).unwrap());
        assert!(other.lock(talk.id, &holder).is_ok(), "{}", home.name);
    });
}

/// B43: a process that has the store open sees what another appended, erased and deleted.
#[test]
fn what_another_did_is_seen() {
    in_every_home_on_disk(|home| {
        let (here, there) = (home.open(), home.open());
        let (mut talk, mut entries) = Talk::of(1, 2);
        here.append(talk.id, None, &entries).unwrap();
        for number in 0..6 {
            let (writer, reader) = if number % 2 == 0 { (&there, &here) } else { (&here, &there) };
            let next = talk.user(&format!("number {number}"));
            writer.append(talk.id, tail(&entries), std::slice::from_ref(&next)).unwrap();
            entries.push(next);
            assert_eq!(reader.tail(talk.id).unwrap(), tail(&entries), "{}", home.name);
            assert_eq!(reader.summary(talk.id).unwrap().entries, entries.len() as u64, "{}", home.name);
            assert_eq!(read(&**reader, talk.id, 0).0, entries, "{}", home.name);
        }
        let note = talk.erased(entries[1].id());
        here.erase(talk.id, tail(&entries).unwrap(), entries[1].id(), &note).unwrap();
        assert_eq!(there.tail(talk.id).unwrap(), Some(Tail::of(&note)), "{}", home.name);
        let next = talk.user("on");
        there.append(talk.id, Some(Tail::of(&note)), std::slice::from_ref(&next)).unwrap();
        assert_eq!(here.tail(talk.id).unwrap(), Some(Tail::of(&next)), "{}", home.name);
        there.delete(talk.id).unwrap();
        assert_eq!(here.tail(talk.id).unwrap(), None, "{}", home.name);
        assert_eq!(here.list(&Query::default()).unwrap().total, 0, "{}", home.name);
    });
}

/// A reader that waits sees the next entry, and that the conversation is gone. If nothing happens, it returns when its time is over.
#[test]
fn waiting_ends_with_the_next_entry() {
    in_every_home(|home| {
        let long = Duration::from_secs(60);
        let (store, mut talk, entries) = home.with_talk(1, 1);
        let again = if home.is_on_disk() { Some(home.open()) } else { None };
        let writer = again.as_deref().unwrap_or(&*store);
        let known = tail(&entries);
        assert_eq!(
            store.wait(talk.id, None, long).unwrap(),
            known,
            "{}: the entries are there already",
            home.name
        );
        let begun = Instant::now();
        assert_eq!(store.wait(talk.id, known, Duration::from_millis(50)).unwrap(), known, "{}", home.name);
        assert!(begun.elapsed() >= Duration::from_millis(50), "{}", home.name);
        assert_eq!(store.wait(Talk::new(2).id, None, Duration::ZERO).unwrap(), None, "{}", home.name);
        let next = talk.user("next");
        let after = Some(Tail::of(&next));
        let while_waiting = |known: Option<Tail>, work: &dyn Fn()| {
            std::thread::scope(|scope| {
                let reader = scope.spawn(|| store.wait(talk.id, known, long).unwrap());
                work();
                reader.join().unwrap()
            })
        };
        let begun = Instant::now();
        let append = || _ = writer.append(talk.id, known, std::slice::from_ref(&next)).unwrap();
        assert_eq!(while_waiting(known, &append), after, "{}", home.name);
        assert_eq!(while_waiting(after, &|| writer.delete(talk.id).unwrap()), None, "{}", home.name);
        assert!(begun.elapsed() < long / 2, "{}", home.name);
    });
}

/// A conversation that was deleted and comes back shorter, from an import or a copy, does not count as missing for a process that saw it before.
#[test]
fn what_was_deleted_and_comes_back_shorter_is_not_missed() {
    in_every_home_on_disk(|home| {
        let (here, there) = (home.open(), home.open());
        let (talk, entries) = Talk::of(1, 9);
        here.append(talk.id, None, &entries).unwrap();
        // Each of them has seen all of it.
        for store in [&here, &there] {
            assert_eq!(store.list(&Query::default()).unwrap().total, 1, "{}", home.name);
        }
        there.delete(talk.id).unwrap();
        there.append(talk.id, None, &entries[..4]).unwrap();
        for (who, store) in [("another", here), ("the one who deleted it", there), ("a new one", home.open())]
        {
            assert_eq!(store.list(&Query::default()).unwrap().total, 1, "{}, {who}", home.name);
            let found = problems(&*store, None);
            assert!(found.is_empty(), "{}, {who}: {found:?}", home.name);
        }
    });
}

/// B43, B50: threads and stores that append to one conversation at the same time lose nothing and mix nothing up.
#[test]
fn many_writers_to_one_conversation() {
    in_every_home(|home| {
        let (store, talk, _) = home.with_talk(1, 0);
        let id = talk.id;
        std::thread::scope(|scope| {
            for thread in 0..4_u64 {
                let own = if home.is_on_disk() && thread % 2 == 1 { Some(home.open()) } else { None };
                let shared = &*store;
                scope.spawn(move || {
                    let store = own.as_deref().unwrap_or(shared);
                    let mut talk = Talk::new(100 + thread);
                    for number in 0..20 {
                        loop {
                            let tail = store.tail(id).unwrap();
                            talk.chain = Chain::at(tail);
                            let text = format!("thread {thread} says {number} {}", "x".repeat(5000));
                            match store.append(id, tail, &[talk.user(&text)]) {
                                Ok(_) => break,
                                Err(StoreError::TailMoved { .. }) => {}
                                Err(why) => panic!("{why}"),
                            }
                        }
                    }
                });
            }
        });
        let store = home.reopen(store);
        let (all, damage) = read(&*store, id, 0);
        assert!(damage.is_empty(), "{}: {damage:?}", home.name);
        assert_eq!(all.len(), 81, "{}", home.name);
        assert!(problems(&*store, None).is_empty(), "{}", home.name);
        for thread in 0..4 {
            let beginning = format!("thread {thread} says ");
            let said = all.iter().filter_map(|entry| {
                let rejoin_record::Content::Message(message) = rejoin_record::Content::of(entry) else {
                    return None;
                };
                let text = message.content()?;
                text.strip_prefix(&beginning)?.split(' ').next()?.parse::<u32>().ok()
            });
            assert_eq!(
                said.collect::<Vec<_>>(),
                (0..20).collect::<Vec<_>>(),
                "{}: each in its own order",
                home.name
            );
        }
    });
}

/// B43: conversations that are written at the same time do not disturb each other.
#[test]
fn many_conversations_at_once() {
    in_every_store(|home, store| {
        std::thread::scope(|scope| {
            for thread in 0..6_u64 {
                let store = &*store;
                scope.spawn(move || {
                    let (talk, entries) = Talk::of(10 + thread, 15);
                    for number in 0..entries.len() {
                        store.append(talk.id, tail(&entries[..number]), &entries[number..=number]).unwrap();
                        assert_eq!(read(store, talk.id, 0).0.len(), number + 1);
                        assert!(store.list(&Query::default()).unwrap().total > 0);
                    }
                });
            }
        });
        let store = home.reopen(store);
        assert_eq!(store.list(&Query::default()).unwrap().total, 6, "{}", home.name);
        for thread in 0..6 {
            let (talk, entries) = Talk::of(10 + thread, 15);
            assert_eq!(read(&*store, talk.id, 0).0, entries, "{}", home.name);
        }
        assert!(problems(&*store, None).is_empty(), "{}", home.name);
    });
}

/// B43: an entry that is appended during an erasure is not lost, and erased content stays erased.
#[test]
fn appending_while_erasing() {
    in_every_store(|home, store| {
        let (mut talk, mut entries) = Talk::of(1, 0);
        entries.extend((0..15).map(|number| talk.user(&format!("secret {number}"))));
        store.append(talk.id, None, &entries).unwrap();
        let id = talk.id;
        let other = if home.is_on_disk() { Some(home.open()) } else { None };
        std::thread::scope(|scope| {
            let other = other.as_deref().unwrap_or(&*store);
            scope.spawn(|| {
                let mut talk = Talk::new(50);
                for entry in &entries[1..] {
                    loop {
                        let tail = store.tail(id).unwrap().unwrap();
                        talk.chain = Chain::at(Some(tail));
                        match store.erase(id, tail, entry.id(), &talk.erased(entry.id())) {
                            Ok(_) => break,
                            Err(StoreError::TailMoved { .. }) => {}
                            Err(why) => panic!("{why}"),
                        }
                    }
                }
            });
            scope.spawn(move || {
                let mut talk = Talk::new(60);
                for number in 0..60 {
                    loop {
                        let tail = other.tail(id).unwrap();
                        talk.chain = Chain::at(tail);
                        match other.append(id, tail, &[talk.user(&format!("kept {number}"))]) {
                            Ok(_) => break,
                            Err(StoreError::TailMoved { .. }) => {}
                            Err(why) => panic!("{why}"),
                        }
                    }
                }
            });
        });
        drop(other);
        let store = home.reopen(store);
        let (all, damage) = read(&*store, id, 0);
        assert!(damage.is_empty(), "{}: {damage:?}", home.name);
        assert_eq!(all.len(), 16 + 15 + 60, "{}", home.name);
        assert!(all[1..16].iter().all(|entry| entry.content().is_none()), "{}", home.name);
        assert!(all[16..].iter().all(|entry| entry.content().is_some()), "{}", home.name);
        assert!(problems(&*store, None).is_empty(), "{}", home.name);
    });
}
