//! Appending, reading, branches, and refusals.

use super::*;

/// S3-09: appended entries are read unchanged, in the order of appending, from any place on, by the next process that opens the
/// store.
#[test]
fn what_is_appended_is_read() {
    in_every_store(|home, store| {
        let (talk, entries) = Talk::of(1, 9);
        assert_eq!(store.tail(talk.id).unwrap(), None);
        for (number, batch) in entries.chunks(3).enumerate() {
            let after = tail(&entries[..number * 3]);
            assert_eq!(store.append(talk.id, after, batch).unwrap(), tail(batch).unwrap());
        }
        let store = home.reopen(store);
        assert_eq!(store.tail(talk.id).unwrap(), tail(&entries));
        for from in 0..=entries.len() + 1 {
            let (read, damage) = read(&*store, talk.id, from as u64);
            assert_eq!(read, entries[from.min(entries.len())..], "{} from {from}", home.name);
            assert!(damage.is_empty(), "{damage:?}");
        }
        let mut seen = 0;
        store
            .read(talk.id, 2, &mut |item| {
                seen += 1;
                assert!(matches!(item, StoredItem::Entry(entry) if entry.id() == entries[seen + 1].id()));
                if seen == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })
            .unwrap();
        assert_eq!(seen, 3, "after a break, no more items are passed");
        assert!(problems(&*store, None).is_empty());
        let verified = store.verify(None, &mut |_| ()).unwrap();
        assert_eq!((verified.conversations, verified.entries), (1, 10));
        assert!(store.size().unwrap().record > 0);
    });
}

/// S3-09: the error for a missing conversation says that it is missing.
#[test]
fn an_unknown_conversation_is_not_found() {
    in_every_store(|home, store| {
        let (mut talk, entries) = Talk::of(1, 2);
        let mut none = |_: StoredItem| ControlFlow::Continue(());
        assert!(matches!(store.read(talk.id, 0, &mut none), Err(StoreError::NotFound(id)) if id == talk.id));
        assert!(matches!(store.summary(talk.id), Err(StoreError::NotFound(_))));
        assert!(matches!(store.delete(talk.id), Err(StoreError::NotFound(_))));
        assert!(matches!(store.verify(Some(talk.id), &mut |_| ()), Err(StoreError::NotFound(_))));
        let note = talk.erased(entries[1].id());
        let erased = store.erase(talk.id, tail(&entries).unwrap(), entries[1].id(), &note);
        assert!(matches!(erased, Err(StoreError::NotFound(_))), "{}: {erased:?}", home.name);
        assert_eq!(store.tail(talk.id).unwrap(), None);
        store.append(talk.id, None, &entries).unwrap();
        let erased = store.erase(talk.id, tail(&entries).unwrap(), note.id(), &note);
        assert!(matches!(erased, Err(StoreError::NoSuchEntry(_))), "{}: {erased:?}", home.name);
    });
}

/// The way to an entry leaves out the other branches.
#[test]
fn ancestors_are_one_branch() {
    in_every_store(|home, store| {
        let (mut talk, mut entries) = Talk::of(1, 4);
        let fork = entries[2].clone();
        entries.push(talk.under(&fork, "another way"));
        entries.push(talk.user("and on"));
        let other = entries[4].clone();
        entries.push(talk.under(&other, "back to the first way"));
        store.append(talk.id, None, &entries).unwrap();
        let store = home.reopen(store);
        let way = |numbers: &[usize]| numbers.iter().map(|number| entries[*number].id()).collect::<Vec<_>>();
        let ways = [
            (None, way(&[7, 4, 3, 2, 1, 0])),
            (Some(7), way(&[7, 4, 3, 2, 1, 0])),
            (Some(6), way(&[6, 5, 2, 1, 0])),
            (Some(4), way(&[4, 3, 2, 1, 0])),
            (Some(0), way(&[0])),
        ];
        for (of, expected) in ways {
            let of: Option<usize> = of;
            let found = ancestors(&*store, talk.id, of.map(|of| entries[of].id()));
            assert_eq!(ids(&found), expected, "{} of {of:?}", home.name);
        }
    });
}

/// S4-24: an append that is repeated, as a whole or from its middle, adds nothing.
#[test]
fn a_repeated_append_adds_nothing() {
    in_every_store(|home, store| {
        let (talk, entries) = Talk::of(1, 5);
        let (first, rest) = entries.split_at(2);
        for _ in 0..2 {
            assert_eq!(store.append(talk.id, None, first).unwrap(), tail(first).unwrap(), "{}", home.name);
        }
        // Only some of them arrived the first time.
        store.append(talk.id, tail(first), &rest[..1]).unwrap();
        let mut store = store;
        for _ in 0..3 {
            assert_eq!(store.append(talk.id, tail(first), rest).unwrap(), tail(rest).unwrap());
            store = home.reopen(store);
        }
        assert_eq!(read(&*store, talk.id, 0).0, entries);
        // A repetition that comes too late is refused, because another entry was appended.
        let late = store.append(talk.id, None, first);
        assert!(matches!(late, Err(StoreError::TailMoved { .. })), "{}: {late:?}", home.name);
        assert_eq!(read(&*store, talk.id, 0).0, entries);
        assert_eq!(store.append(talk.id, tail(&entries), &[]).unwrap(), tail(&entries).unwrap());
        assert!(problems(&*store, None).is_empty());
    });
}

/// B50: a writer with an old tail gets the new one in the error, and may append under its own parent, which makes a branch.
#[test]
fn a_moved_tail_is_said_and_a_branch_is_possible() {
    in_every_home(|home| {
        let (store, mut talk, entries) = home.with_talk(1, 2);
        let mut other = Talk::new(1);
        other.chain = Chain::at(tail(&entries));
        for _ in 0..10 {
            other.stamp();
        }
        let mine = talk.user("mine");
        let theirs = other.user("theirs");
        store.append(talk.id, tail(&entries), std::slice::from_ref(&mine)).unwrap();
        match store.append(talk.id, tail(&entries), std::slice::from_ref(&theirs)) {
            Err(StoreError::TailMoved { expected, found }) => {
                assert_eq!((expected, found), (tail(&entries), Some(Tail::of(&mine))), "{}", home.name);
            }
            appended => panic!("{}: {appended:?}", home.name),
        }
        other.chain = Chain::at(Some(Tail::of(&mine)));
        let theirs = other.under(entries.last().unwrap(), "theirs");
        store.append(talk.id, Some(Tail::of(&mine)), std::slice::from_ref(&theirs)).unwrap();
        let way = ancestors(&*store, talk.id, None);
        assert_eq!(ids(&way), [theirs.id(), entries[2].id(), entries[1].id(), entries[0].id()]);
        assert_eq!(read(&*store, talk.id, 0).0.len(), 5);
        // A tail of the right number with another entry is another tail.
        let wrong = store.append(talk.id, Some(Tail { seq: 4, ..Tail::of(&mine) }), &[]);
        assert!(matches!(wrong, Err(StoreError::TailMoved { .. })), "{}: {wrong:?}", home.name);
        // And a conversation that does not exist has no tail.
        let gone = store.append(Talk::new(8).id, Some(Tail::of(&mine)), &[]);
        assert!(matches!(gone, Err(StoreError::TailMoved { found: None, .. })), "{}: {gone:?}", home.name);
        assert!(problems(&*store, None).is_empty());
    });
}

/// S3-09, S1-26, B50: entries are checked before they are stored; a batch that does not follow is refused as a whole, and leaves no
/// trace.
#[test]
fn entries_that_do_not_follow_are_refused() {
    in_every_store(|home, store| {
        let (mut talk, entries) = Talk::of(1, 4);
        let (stranger, strange) = Talk::of(2, 3);
        let orphan = talk.under(&strange[2], "whose child am I?");
        let broken: [(&str, Option<Tail>, Vec<Entry>); 6] = [
            ("nothing", None, vec![]),
            ("no header", None, entries[1..].to_vec()),
            ("a gap", None, vec![entries[0].clone(), entries[2].clone()]),
            ("the wrong order", None, vec![entries[1].clone(), entries[0].clone()]),
            ("two headers", None, vec![entries[0].clone(), strange[0].clone()]),
            ("twice the same", None, vec![entries[0].clone(), entries[0].clone()]),
        ];
        for (what, after, batch) in broken {
            let refused = store.append(talk.id, after, &batch);
            assert!(matches!(refused, Err(StoreError::BrokenBatch(_))), "{}, {what}: {refused:?}", home.name);
            assert!(!refused.unwrap_err().is_unwritable());
            assert_eq!(store.tail(talk.id).unwrap(), None, "{}, {what}", home.name);
            assert!(store.ids("", 10).unwrap().is_empty(), "{}, {what}", home.name);
        }
        store.append(talk.id, None, &entries).unwrap();
        let refused = store.append(talk.id, tail(&entries), &[orphan]);
        assert!(matches!(refused, Err(StoreError::BrokenBatch(_))), "{}: {refused:?}", home.name);
        // One names an existing parent but was sealed onto another; and one has an id that is already used.
        let said = rejoin_record::Content::Message(Message::user("somebody else"));
        talk.chain = Chain::at(tail(&entries));
        let (parent, stamp) = (Some((entries[1].id(), entries[2].hash())), talk.stamp());
        let forged = talk.chain.append_under(parent, Kind::Message, &said, stamp);
        talk.chain = Chain::at(tail(&entries));
        let stamp = rejoin_record::chain::Stamp { id: entries[1].id(), ..talk.stamp() };
        let taken = talk.chain.append(Kind::Message, &said, stamp);
        let mut wrong = Vec::new();
        // SQLite stores these unchecked, and finds them damaged when they are read.
        wrong.extend((home.name != "sqlite").then_some(("sealed onto another", forged)));
        // Ids are unique by chance; only the file of lines, which knows what it has appended, notices a repeated one.
        wrong.extend((home.name == "jsonl").then_some(("an id that is taken", taken)));
        for (what, entry) in wrong {
            let refused = store.append(talk.id, tail(&entries), std::slice::from_ref(&entry));
            assert!(matches!(refused, Err(StoreError::BrokenBatch(_))), "{}, {what}: {refused:?}", home.name);
        }
        assert_eq!(read(&*store, talk.id, 0).0, entries);
        assert!(matches!(store.tail(stranger.id), Ok(None)));
    });
}

/// The source's own time comes back unchanged, whatever it is.
#[test]
fn the_time_of_a_source_is_kept() {
    in_every_store(|home, store| {
        let (mut talk, mut entries) = Talk::of(1, 0);
        for time in [None, Some("2025-01-01T00:00:00Z"), Some("yesterday \"at\" five"), Some("")] {
            let stamp = rejoin_record::chain::Stamp { source_time: time.map(Into::into), ..talk.stamp() };
            let message = rejoin_record::Content::Message(Message::user("then"));
            entries.push(talk.chain.append(Kind::Message, &message, stamp));
        }
        store.append(talk.id, None, &entries).unwrap();
        let store = home.reopen(store);
        assert_eq!(read(&*store, talk.id, 0).0, entries, "{}", home.name);
        assert!(problems(&*store, None).is_empty());
    });
}

/// B50: entries with equal times, or with an earlier time, are in the order of appending.
#[test]
fn order_is_that_of_appending() {
    in_every_store(|home, store| {
        let (mut talk, mut entries) = Talk::of(1, 0);
        for back in [0_i64, 5, 5, 3, 9, 0] {
            let mut stamp = talk.stamp();
            stamp.timestamp = jiff::Timestamp::from_second(1_750_000_000 - back).unwrap();
            let message = rejoin_record::Content::Message(Message::user(format!("{back} seconds back")));
            entries.push(talk.chain.append(Kind::Message, &message, stamp));
        }
        store.append(talk.id, None, &entries).unwrap();
        let store = home.reopen(store);
        assert_eq!(read(&*store, talk.id, 0).0, entries, "{}", home.name);
        assert!(problems(&*store, None).is_empty());
    });
}
