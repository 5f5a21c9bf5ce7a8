//! The one suite that every home of conversations passes: memory, a folder of files, a database.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

mod support;

use std::{
    fs,
    ops::ControlFlow,
    path::{Path, PathBuf},
};

use rejoin_record::{Chain, Entry, Kind, Message, Raw, Tail, ToolCall, entry::SaltedBody};
use rejoin_store::{Holder, Item, Location, Query, Search, State, Store, StoreError, lock::Lock};
use support::{Talk, WRITE, ancestors, hashes, ids, problems, read, tail};

/// A place where a store can be.
struct Home {
    name: &'static str,
    location: Location,
    folder: tempfile::TempDir,
}

impl Home {
    fn open(&self) -> Box<dyn Store> {
        rejoin_store::open(&self.location, WRITE).unwrap()
    }

    /// The store as the next process finds it. What is in memory is gone with its process, so it stays as it is.
    fn reopen(&self, store: Box<dyn Store>) -> Box<dyn Store> {
        if self.is_on_disk() {
            drop(store);
            self.open()
        } else {
            store
        }
    }

    fn is_on_disk(&self) -> bool {
        self.location != Location::Memory
    }

    /// Every file, with its folder.
    fn files(&self) -> Vec<PathBuf> {
        let mut files = Vec::new();
        let mut folders = vec![self.folder.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for file in fs::read_dir(folder).unwrap() {
                let path = file.unwrap().path();
                if path.is_dir() { folders.push(path) } else { files.push(path) }
            }
        }
        files
    }

    /// How many files hold some text.
    fn holding(&self, text: &str) -> usize {
        let holds = |path: &PathBuf| position(&fs::read(path).unwrap(), text).is_some();
        self.files().iter().filter(|path| holds(path)).count()
    }
}

fn position(bytes: &[u8], text: &str) -> Option<usize> {
    bytes.windows(text.len()).position(|window| window == text.as_bytes())
}

/// Runs a test in every home.
fn in_every_home(test: impl Fn(&Home)) {
    type Place = fn(&Path) -> Location;
    let homes: [(&str, Place); 3] = [
        ("memory", |_| Location::Memory),
        ("jsonl", |folder| Location::Jsonl(folder.join("store"))),
        ("sqlite", |folder| Location::Sqlite(folder.join("store/rejoin.db"))),
    ];
    for (name, place) in homes {
        let folder = support::folder();
        let home = Home { name, location: place(folder.path()), folder };
        let location = home.open().location().clone();
        if location != home.location {
            println!("{name} is not there yet");
            continue;
        }
        println!("{name}");
        test(&home);
    }
}

fn search(store: &dyn Store, words: &str) -> Vec<rejoin_store::Hit> {
    store.settle().unwrap();
    store.search(&Search { words: words.to_owned(), limit: 10, within: None }).unwrap()
}

/// S3-09: what was appended is read as it was, in the order of appending, from any place on, by whoever opens the store next.
#[test]
fn what_is_appended_is_read() {
    in_every_home(|home| {
        let store = home.open();
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
                assert!(matches!(item, Item::Entry(entry) if entry.id() == entries[seen + 1].id()));
                if seen == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })
            .unwrap();
        assert_eq!(seen, 3, "whoever breaks gets no more");
        assert!(problems(&*store, None).is_empty());
        let verified = store.verify(None, &mut |_| ()).unwrap();
        assert_eq!((verified.conversations, verified.entries), (1, 10));
        assert!(store.size().unwrap().record > 0);
    });
}

/// S3-09: what is not there is said to be not there.
#[test]
fn an_unknown_conversation_is_not_found() {
    in_every_home(|home| {
        let store = home.open();
        let (mut talk, entries) = Talk::of(1, 2);
        let mut none = |_: Item| ControlFlow::Continue(());
        assert!(matches!(store.read(talk.id, 0, &mut none), Err(StoreError::NotFound(id)) if id == talk.id));
        assert!(matches!(store.ancestors(talk.id, None, &mut none), Err(StoreError::NotFound(_))));
        assert!(matches!(store.summary(talk.id), Err(StoreError::NotFound(_))));
        assert!(matches!(store.delete(talk.id), Err(StoreError::NotFound(_))));
        assert!(matches!(store.verify(Some(talk.id), &mut |_| ()), Err(StoreError::NotFound(_))));
        let note = talk.erased(entries[1].id());
        let erased = store.erase(talk.id, tail(&entries).unwrap(), entries[1].id(), &note);
        assert!(matches!(erased, Err(StoreError::NotFound(_))), "{}: {erased:?}", home.name);
        assert_eq!(store.tail(talk.id).unwrap(), None);
        store.append(talk.id, None, &entries).unwrap();
        let of = Some(note.id());
        assert!(matches!(store.ancestors(talk.id, of, &mut none), Err(StoreError::NoSuchEntry(_))));
        let erased = store.erase(talk.id, tail(&entries).unwrap(), note.id(), &note);
        assert!(matches!(erased, Err(StoreError::NoSuchEntry(_))), "{}: {erased:?}", home.name);
    });
}

/// The way to an entry leaves out the other branches, newest first, and costs no more than is wanted of it.
#[test]
fn ancestors_are_one_branch() {
    in_every_home(|home| {
        let store = home.open();
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
            let (found, damage) = ancestors(&*store, talk.id, of.map(|of| entries[of].id()));
            assert_eq!(ids(&found), expected, "{} of {of:?}", home.name);
            assert!(damage.is_empty());
        }
        let mut seen = 0;
        store
            .ancestors(talk.id, None, &mut |_| {
                seen += 1;
                if seen == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })
            .unwrap();
        assert_eq!(seen, 2);
    });
}

/// S4-24: an append that is repeated, as a whole or from its middle, adds nothing.
#[test]
fn a_repeated_append_adds_nothing() {
    in_every_home(|home| {
        let store = home.open();
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
        // What was repeated too late is refused: somebody went on.
        let late = store.append(talk.id, None, first);
        assert!(matches!(late, Err(StoreError::TailMoved { .. })), "{}: {late:?}", home.name);
        assert_eq!(read(&*store, talk.id, 0).0, entries);
        assert_eq!(store.append(talk.id, tail(&entries), &[]).unwrap(), tail(&entries).unwrap());
        assert!(problems(&*store, None).is_empty());
    });
}

/// B50: whoever knows an old tail is told the new one, and may append under the parent of its own, which is a branch.
#[test]
fn a_moved_tail_is_said_and_a_branch_is_possible() {
    in_every_home(|home| {
        let store = home.open();
        let (mut talk, entries) = Talk::of(1, 2);
        store.append(talk.id, None, &entries).unwrap();
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
        let (way, _) = ancestors(&*store, talk.id, None);
        assert_eq!(ids(&way), [theirs.id(), entries[2].id(), entries[1].id(), entries[0].id()]);
        assert_eq!(read(&*store, talk.id, 0).0.len(), 5);
        // A tail of the right number with another entry is another tail.
        let wrong = store.append(talk.id, Some(Tail { seq: 4, ..Tail::of(&mine) }), &[]);
        assert!(matches!(wrong, Err(StoreError::TailMoved { .. })), "{}: {wrong:?}", home.name);
        // And a conversation that is not there has no tail.
        let gone = store.append(Talk::new(8).id, Some(Tail::of(&mine)), &[]);
        assert!(matches!(gone, Err(StoreError::TailMoved { found: None, .. })), "{}: {gone:?}", home.name);
        assert!(problems(&*store, None).is_empty());
    });
}

/// S3-09: what does not follow is refused as a whole, and nothing is left of it.
#[test]
fn entries_that_do_not_follow_are_refused() {
    in_every_home(|home| {
        let store = home.open();
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
        assert_eq!(read(&*store, talk.id, 0).0, entries);
        assert!(matches!(store.tail(stranger.id), Ok(None)));
    });
}

/// S3-21, S3-48, S3-50, B41: a conversation is listed from its creation on, the one that was last said something in first, with
/// provider, model and the time of what was last said.
#[test]
fn conversations_are_listed_newest_first() {
    in_every_home(|home| {
        let store = home.open();
        let mut talks: Vec<(Talk, Vec<Entry>)> = (1..=3).map(|number| Talk::of(number, 0)).collect();
        for (talk, entries) in &talks {
            store.append(talk.id, None, entries).unwrap();
        }
        let page = store.list(&Query::default()).unwrap();
        assert_eq!((page.total, page.conversations.len(), page.next), (3, 3, None), "{}", home.name);
        let listed: Vec<_> = page.conversations.iter().map(|summary| summary.id).collect();
        assert_eq!(listed, [talks[2].0.id, talks[1].0.id, talks[0].0.id], "{}", home.name);
        for summary in &page.conversations {
            assert_eq!(summary.provider.as_deref(), Some("offline"), "{}", home.name);
            assert_eq!(summary.model.as_deref(), Some("tiny"), "{}", home.name);
            assert_eq!((summary.state, summary.messages, summary.entries), (State::New, 0, 1));
        }
        // Something is said in the oldest one, later than anything else.
        let (talk, entries) = &mut talks[0];
        for _ in 0..9000 {
            talk.stamp();
        }
        entries.push(talk.user("a late word"));
        store.append(talk.id, Some(Tail::of(&entries[0])), &entries[1..]).unwrap();
        store.settle().unwrap();
        let store = home.reopen(store);
        let page = store.list(&Query::default()).unwrap();
        let first = &page.conversations[0];
        assert_eq!(first.id, talks[0].0.id, "{}", home.name);
        assert_eq!(first.updated, talks[0].1[1].envelope().timestamp, "{}", home.name);
        assert_eq!(first.created, talks[0].1[0].envelope().timestamp, "{}", home.name);
        assert_eq!(first.title.as_deref(), Some("a late word"), "{}", home.name);
        assert_eq!((first.state, first.messages, first.entries), (State::Waiting, 1, 2), "{}", home.name);
        assert_eq!(first.tail, tail(&talks[0].1), "{}", home.name);
        assert_eq!(store.summary(talks[0].0.id).unwrap(), *first, "{}", home.name);
    });
}

/// S3-49: an empty store lists nothing.
#[test]
fn an_empty_store_lists_nothing() {
    in_every_home(|home| {
        let store = home.open();
        let page = store.list(&Query::default()).unwrap();
        assert_eq!((page.conversations.len(), page.total, page.next), (0, 0, None), "{}", home.name);
        assert!(store.ids("", 10).unwrap().is_empty());
        assert!(search(&*store, "anything").is_empty());
        assert!(problems(&*store, None).is_empty());
        assert_eq!(store.verify(None, &mut |_| ()).unwrap(), rejoin_store::Verified::default());
    });
}

/// S3-48: pages of the list are the list, whatever their size.
#[test]
fn pages_are_the_list() {
    in_every_home(|home| {
        let store = home.open();
        for number in 1..=11 {
            // Some of the same age: then ids decide.
            let (mut talk, mut entries) = Talk::of(number, 0);
            if number % 3 == 0 {
                let header = Talk::new(number - 1).header();
                talk.chain = Chain::empty();
                let mut stamp = talk.stamp();
                stamp.timestamp = header.envelope().timestamp;
                entries =
                    vec![talk.chain.append_body(None, Kind::Header, header.body().unwrap().clone(), stamp)];
            }
            store.append(talk.id, None, &entries).unwrap();
        }
        let all = store.list(&Query::default()).unwrap().conversations;
        assert_eq!(all.len(), 11);
        assert!(all.windows(2).all(|pair| {
            (std::cmp::Reverse(pair[0].updated), pair[0].id)
                < (std::cmp::Reverse(pair[1].updated), pair[1].id)
        }));
        for size in [1, 2, 5, 11, 20] {
            let (mut paged, mut after) = (Vec::new(), None);
            loop {
                let page = store.list(&Query { limit: Some(size), after }).unwrap();
                assert_eq!(page.total, 11, "{}", home.name);
                assert!(page.conversations.len() <= size);
                paged.extend(page.conversations);
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
            assert_eq!(paged, all, "{}, {size} a page", home.name);
        }
    });
}

/// B50: entries of the same moment, or of one that lies before, are in the order of appending.
#[test]
fn order_is_that_of_appending() {
    in_every_home(|home| {
        let store = home.open();
        let mut talk = Talk::new(1);
        let mut entries = vec![talk.header()];
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

/// The state, the title and the open calls of a conversation follow what is said in it.
#[test]
fn a_summary_follows_the_conversation() {
    in_every_home(|home| {
        let store = home.open();
        let (mut talk, mut entries) = Talk::of(1, 0);
        store.append(talk.id, None, &entries).unwrap();
        let call = || vec![ToolCall::new("c1", "search", "{}")];
        let steps: Vec<(Entry, State, Option<&str>)> = vec![
            (talk.user("find it"), State::Waiting, Some("find it")),
            (talk.say(Message::assistant_with_tools(call())), State::Interrupted, Some("find it")),
            (talk.say(Message::tool("c1", "found")), State::Waiting, Some("find it")),
            (talk.say(Message::assistant("here")), State::Ready, Some("find it")),
            (talk.titled("The search"), State::Ready, Some("The search")),
            (talk.user("thanks"), State::Waiting, Some("The search")),
        ];
        for (entry, state, title) in steps {
            store.append(talk.id, tail(&entries), std::slice::from_ref(&entry)).unwrap();
            entries.push(entry);
            let summary = store.summary(talk.id).unwrap();
            assert_eq!((summary.state, summary.title.as_deref()), (state, title), "{}", home.name);
            assert_eq!(summary.entries, entries.len() as u64);
        }
        assert!(store.summary(talk.id).unwrap().renamed);
    });
}

/// An id is found by its beginning, with `conv_` and without.
#[test]
fn ids_are_found_by_their_beginning() {
    in_every_home(|home| {
        let store = home.open();
        let mut all = Vec::new();
        for number in 1..=20 {
            let (talk, entries) = Talk::of(number, 0);
            store.append(talk.id, None, &entries).unwrap();
            all.push(talk.id);
        }
        all.sort_unstable();
        assert_eq!(store.ids("", usize::MAX).unwrap(), all, "{}", home.name);
        assert_eq!(store.ids("conv_", 7).unwrap(), all[..7], "{}", home.name);
        for id in &all {
            let text = id.to_string();
            for prefix in [&text[..], &text[5..], &text[..9], &text[5..7]] {
                let expected: Vec<_> = all.iter().filter(|id| id.has_prefix(prefix)).copied().collect();
                assert_eq!(store.ids(prefix, 100).unwrap(), expected, "{} {prefix}", home.name);
                assert!(expected.contains(id));
            }
        }
        for prefix in ["%", "_", "conv%", "CONV_", "conv_1", "../", "*", "\0", "zzzzzzzzzzzzz"] {
            assert!(store.ids(prefix, 10).unwrap().is_empty(), "{} {prefix:?}", home.name);
        }
    });
}

/// Search finds words in every conversation and in what tools gave back, the best place first, with the words marked.
#[test]
fn search_finds_what_was_said() {
    in_every_home(|home| {
        let store = home.open();
        let mut first = Talk::new(1);
        let header = first.header();
        let long = format!("a zebra once {}", "and other animals besides it ".repeat(60));
        let said = [
            first.user(&long),
            first.say(Message::assistant("Zebra zebra, said the zebra.")),
            first.say(Message::tool("c1", "the tool output speaks of a quagga and of Grüße aus 世界都市")),
        ];
        store.append(first.id, None, &[vec![header], said.to_vec()].concat()).unwrap();
        let mut second = Talk::new(2);
        let header = second.header();
        let other = second.user("no stripes here, but a quagga; zebras not");
        store.append(second.id, None, &[header, other.clone()]).unwrap();
        let store = home.reopen(store);

        let found = search(&*store, "zebra");
        assert_eq!(
            found.iter().map(|hit| hit.entry).collect::<Vec<_>>(),
            [said[1].id(), said[0].id()],
            "{}",
            home.name
        );
        assert!(found[0].score < found[1].score, "{}: lower is better", home.name);
        assert_eq!((found[0].conversation, found[0].seq, found[0].role.as_str()), (first.id, 2, "assistant"));
        assert!(found[0].title.as_deref().unwrap().starts_with("a zebra once"), "{}", home.name);
        let marked: Vec<_> =
            found[0].excerpt.pieces.iter().filter(|(_, hit)| *hit).map(|(text, _)| text.as_str()).collect();
        assert_eq!(marked, ["Zebra", "zebra", "zebra"], "{}", home.name);
        let whole: String = found[0].excerpt.pieces.iter().map(|(text, _)| text.as_str()).collect();
        assert_eq!(whole, "Zebra zebra, said the zebra.", "{}", home.name);

        let ids_of = |words: &str| {
            let mut ids: Vec<_> = search(&*store, words).iter().map(|hit| hit.entry).collect();
            ids.sort_unstable();
            ids
        };
        assert_eq!(ids_of("quagga"), [said[2].id(), other.id()], "{}: in both conversations", home.name);
        assert_eq!(ids_of("tool quagga"), [said[2].id()], "{}: all words", home.name);
        assert_eq!(ids_of("zebra*"), [said[0].id(), said[1].id(), other.id()], "{}: beginnings", home.name);
        assert_eq!(ids_of("\"said the zebra\""), [said[1].id()], "{}: together", home.name);
        assert!(ids_of("\"the said zebra\"").is_empty(), "{}: together", home.name);
        assert_eq!(ids_of("GRÜSSE"), ids_of("grüsse"), "{}: case", home.name);
        assert_eq!(ids_of("grüße"), [said[2].id()], "{}: letters of others", home.name);
        assert_eq!(ids_of("世界"), [said[2].id()], "{}: no spaces between words", home.name);
        for nothing in ["", "  ", "\"\"", "*", "zebra giraffe", "AND OR NOT", "\"", "(", "a:b*c\"d"] {
            assert!(ids_of(nothing).is_empty(), "{}: {nothing:?}", home.name);
        }
        let within = Search { words: String::from("quagga"), limit: 10, within: Some(second.id) };
        assert_eq!(store.search(&within).unwrap().len(), 1, "{}", home.name);
        let few = Search { words: String::from("quagga"), limit: 1, within: None };
        assert_eq!(store.search(&few).unwrap().len(), 1, "{}", home.name);
    });
}

/// B43: one writer a conversation. The other one is told who it is, and reading goes on.
#[test]
fn a_lock_names_its_holder() {
    in_every_home(|home| {
        let store = home.open();
        let (talk, entries) = Talk::of(1, 1);
        store.append(talk.id, None, &entries).unwrap();
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

/// Erasing removes content for good, leaves an entry that verifies, and is an entry itself.
#[test]
fn erased_content_is_gone() {
    in_every_home(|home| {
        let store = home.open();
        let (mut talk, mut entries) = Talk::of(1, 2);
        entries.push(talk.user("the password is XYZZYPLUGH, keep it"));
        entries.push(talk.user("something else"));
        store.append(talk.id, None, &entries).unwrap();
        store.settle().unwrap();
        assert_eq!(search(&*store, "XYZZYPLUGH").len(), 1);
        let note = talk.erased(entries[3].id());
        let moved = store.erase(talk.id, Tail::of(&entries[3]), entries[3].id(), &note);
        assert!(moved.is_err(), "{}: somebody went on", home.name);
        for _ in 0..2 {
            let end = store.erase(talk.id, tail(&entries).unwrap(), entries[3].id(), &note).unwrap();
            assert_eq!(end, Tail::of(&note), "{}: again is no different", home.name);
        }
        store.settle().unwrap();
        let store = home.reopen(store);
        let (found, damage) = read(&*store, talk.id, 0);
        assert!(damage.is_empty(), "{}: {damage:?}", home.name);
        entries.push(note);
        assert_eq!(hashes(&found), hashes(&entries), "{}", home.name);
        assert!(found[3].content().is_none() && found[4] == entries[4], "{}", home.name);
        assert!(problems(&*store, None).is_empty(), "{}", home.name);
        assert!(search(&*store, "XYZZYPLUGH").is_empty(), "{}", home.name);
        let next = talk.user("and on");
        store.append(talk.id, tail(&entries), &[next]).unwrap();
        drop(store);
        assert_eq!(home.holding("XYZZYPLUGH"), 0, "{}: in no file", home.name);
        assert!(
            !home.is_on_disk() || home.holding("something else") > 0,
            "{}: the test can see content",
            home.name
        );
    });
}

/// A conversation that was deleted is gone, with its content; the others stay.
#[test]
fn deleted_is_gone() {
    in_every_home(|home| {
        let store = home.open();
        let (stays, kept) = Talk::of(1, 2);
        store.append(stays.id, None, &kept).unwrap();
        let (mut talk, mut entries) = Talk::of(2, 1);
        entries.push(talk.user("the password is XYZZYPLUGH"));
        store.append(talk.id, None, &entries).unwrap();
        store.settle().unwrap();
        store.delete(talk.id).unwrap();
        assert!(matches!(store.delete(talk.id), Err(StoreError::NotFound(_))), "{}", home.name);
        let store = home.reopen(store);
        assert_eq!(store.tail(talk.id).unwrap(), None, "{}", home.name);
        assert_eq!(store.ids("", 10).unwrap(), [stays.id], "{}", home.name);
        assert_eq!(store.list(&Query::default()).unwrap().total, 1, "{}", home.name);
        assert!(search(&*store, "XYZZYPLUGH").is_empty(), "{}", home.name);
        assert_eq!(read(&*store, stays.id, 0).0, kept, "{}", home.name);
        let gone = store.append(talk.id, tail(&entries), &[talk.user("on")]);
        assert!(matches!(gone, Err(StoreError::TailMoved { found: None, .. })), "{}: {gone:?}", home.name);
        assert!(problems(&*store, None).is_empty(), "{}", home.name);
        store.settle().unwrap();
        drop(store);
        assert_eq!(home.holding("XYZZYPLUGH"), 0, "{}: in no file", home.name);
        // The same id can begin anew.
        let store = home.open();
        let (again, entries) = Talk::of(2, 1);
        store.append(again.id, None, &entries).unwrap();
        assert_eq!(read(&*store, again.id, 0).0, entries, "{}", home.name);
    });
}

/// B29: an entry that was changed behind the store's back is found, is not handed out, and costs no other entry.
#[test]
fn a_changed_entry_is_found() {
    in_every_home(|home| {
        if !home.is_on_disk() {
            return;
        }
        let store = home.open();
        let (mut talk, mut entries) = Talk::of(1, 2);
        entries.push(talk.user("the answer is FORTYTWO"));
        entries.push(talk.user("good to know"));
        store.append(talk.id, None, &entries).unwrap();
        drop(store);
        let mut changed = 0;
        for path in home.files() {
            let mut bytes = fs::read(&path).unwrap();
            while let Some(place) = position(&bytes, "FORTYTWO") {
                bytes[place..place + 8].copy_from_slice(b"FORTYONE");
                changed += 1;
            }
            fs::write(&path, bytes).unwrap();
        }
        assert!(changed > 0, "{}: the content is there to be changed", home.name);
        let store = home.open();
        let found = problems(&*store, Some(talk.id));
        assert!(found.iter().any(|problem| !problem.torn), "{}: {found:?}", home.name);
        let (read, damage) = read(&*store, talk.id, 0);
        assert_eq!(
            ids(&read),
            [entries[0].id(), entries[1].id(), entries[2].id(), entries[4].id()],
            "{}",
            home.name
        );
        assert_eq!(damage.len(), 1, "{}: {damage:?}", home.name);
        let (way, damage) = ancestors(&*store, talk.id, None);
        assert_eq!(
            ids(&way),
            [entries[4].id(), entries[2].id(), entries[1].id(), entries[0].id()],
            "{}",
            home.name
        );
        assert_eq!(damage.len(), 1, "{}: {damage:?}", home.name);
    });
}

/// Hashes as the record defines them, without its code.
fn hash(purpose: &str, fields: &[&[u8]]) -> String {
    let mut hasher = blake3::Hasher::new();
    for field in [&[purpose.as_bytes()], fields].concat() {
        hasher.update(&(field.len() as u64).to_le_bytes());
        hasher.update(field);
    }
    hasher.finalize().to_hex().to_string()
}

/// Entries of a newer minor version keep what they have beyond ours, and kinds that nobody here knows are kept.
#[test]
fn what_a_newer_version_wrote_is_kept() {
    in_every_home(|home| {
        let store = home.open();
        let (mut talk, mut entries) = Talk::of(1, 1);
        let parent = entries[1].clone();
        let plain = talk.body(Kind::Message, &parent, "{\"later\":[1e400,{\"a\":1,\"a\":2}]}");
        let envelope = plain.to_line();
        let envelope =
            envelope[1..envelope.find(",\"inner\"").unwrap()].replace("\"v\":\"1.0\"", "\"v\":\"1.7\"");
        let envelope = format!("{envelope},\"mood\":{{\"x\":[1, 2]}},\"n\":1.50");
        let SaltedBody { salt, body } = plain.content().unwrap();
        let inner = hash("rejoin body 1", &[&salt.0, body.as_str().as_bytes()]);
        assert_eq!(inner, plain.inner().to_string(), "the test hashes as the record does");
        let (inner_bytes, parent_bytes) = (plain.inner(), parent.hash());
        let fields =
            [envelope.as_bytes(), parent_bytes.as_bytes().as_slice(), inner_bytes.as_bytes().as_slice()];
        let hash = hash("rejoin entry 1", &fields);
        let line = format!(
            "{{{envelope},\"inner\":\"{inner}\",\"hash\":\"{hash}\",\"salt\":\"{salt}\",\"body\":{}}}",
            body.as_str()
        );
        let newer = Entry::from_line(&line).unwrap();
        assert!(newer.verifies(Some(parent.hash())));
        talk.chain = Chain::after(&newer);
        entries.push(newer);
        let strange = talk.body(Kind::named("hologram"), &entries[2].clone(), "{\"h\":true}");
        entries.push(strange);
        store.append(talk.id, None, &entries).unwrap();
        let store = home.reopen(store);
        let (read, _) = read(&*store, talk.id, 0);
        assert_eq!(read, entries, "{}", home.name);
        assert_eq!(read[2].to_line(), line, "{}", home.name);
        assert!(problems(&*store, None).is_empty(), "{}", home.name);
    });
}

/// Whatever was said comes back byte for byte: zeros, escapes, half characters, ten megabytes.
#[test]
fn any_text_comes_back() {
    in_every_home(|home| {
        let store = home.open();
        let (mut talk, mut entries) = Talk::of(1, 0);
        let big = "0123456789 äöü\n".repeat(10 * 1024 * 1024 / 18);
        let texts = [
            "",
            " ",
            "\0",
            "a\0b\0",
            "\u{1b}[31mred\u{7}",
            "\r\n\t\u{b}\u{c}\u{85}\u{2028}",
            "\\u0000 \\ud83d \"",
            "\u{feff}mark",
            "\u{10ffff}\u{e000}",
            "{\"v\":\"1.0\",\"id\":\"x\"}",
            &big,
        ];
        for text in texts {
            entries.push(talk.user(text));
        }
        let bodies = [
            "{}",
            "{\"half\":\"\\ud83d\"}",
            "{ \"spaced\" : [ 1 , 2 ] }",
            "{\"n\":1e999,\"n\":-0.0,\"\":\"\\/\\u00e9\"}",
        ];
        for body in bodies {
            let parent = entries.last().unwrap().clone();
            entries.push(talk.body(Kind::Raw, &parent, body));
        }
        store.append(talk.id, None, &entries).unwrap();
        let store = home.reopen(store);
        let (read, damage) = read(&*store, talk.id, 0);
        assert!(damage.is_empty(), "{}: {damage:?}", home.name);
        for (read, entry) in read.iter().zip(&entries) {
            let short: String = entry.to_line().chars().take(400).collect();
            assert_eq!(read.body().map(Raw::as_str), entry.body().map(Raw::as_str), "{}: {short}", home.name);
            assert!(read == entry, "{}: {short}", home.name);
        }
        assert_eq!(read.len(), entries.len());
        assert_eq!(ids(&ancestors(&*store, talk.id, None).0).len(), entries.len(), "{}", home.name);
        assert!(problems(&*store, None).is_empty(), "{}", home.name);
    });
}

/// Only the owner may read what was said.
#[cfg(unix)]
#[test]
fn files_are_private() {
    use std::os::unix::fs::PermissionsExt as _;
    in_every_home(|home| {
        let store = home.open();
        let (mut talk, entries) = Talk::of(1, 2);
        store.append(talk.id, None, &entries).unwrap();
        let note = talk.erased(entries[1].id());
        store.erase(talk.id, tail(&entries).unwrap(), entries[1].id(), &note).unwrap();
        let _lock = store.lock(talk.id, &Holder::default()).unwrap();
        store.settle().unwrap();
        for path in home.files() {
            let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
            assert_eq!(mode, 0o600, "{}: {}", home.name, path.display());
            let folder = path.parent().unwrap();
            let mode = fs::metadata(folder).unwrap().permissions().mode() & 0o777;
            assert_eq!(mode, 0o700, "{}: {}", home.name, folder.display());
        }
    });
}

/// B43, B50: threads and stores that append to one conversation at the same time lose nothing and mix nothing up.
#[test]
fn many_writers_to_one_conversation() {
    in_every_home(|home| {
        let store = home.open();
        let (talk, entries) = Talk::of(1, 0);
        store.append(talk.id, None, &entries).unwrap();
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

/// B43: conversations that are written at the same time do not get into each other's way.
#[test]
fn many_conversations_at_once() {
    in_every_home(|home| {
        let store = home.open();
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
