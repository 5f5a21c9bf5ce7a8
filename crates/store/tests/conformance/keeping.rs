//! Content that stays unchanged, content that is removed permanently, and content that another program changed.

use std::{ops::ControlFlow, path::PathBuf};

use rejoin_record::EntryId;
use rejoin_store::{Selection, StoredItem};

use super::*;

/// Erasing removes content permanently, leaves an entry that verifies, and is itself an entry.
#[test]
fn erased_content_is_gone() {
    in_every_home(|home| {
        let texts = ["the password is XYZZYPLUGH, keep it", "something else"];
        let (store, mut talk, mut entries) = home.with_texts(&texts);
        store.settle().unwrap();
        assert_eq!(search(&*store, "XYZZYPLUGH").len(), 1);
        let note = talk.erased(entries[3].id());
        let moved = store.erase(talk.id, Tail::of(&entries[3]), entries[3].id(), &note);
        assert!(moved.is_err(), "{}: an erasure after an older tail is refused", home.name);
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
            !home.keeps_files() || home.holding("something else") > 0,
            "{}: the test can see content",
            home.name
        );
    });
}

/// A part of a conversation is read by its places.
#[test]
fn a_part_by_its_places() {
    in_every_home(|home| {
        let texts: Vec<String> =
            (0..300).map(|number| format!("{number} {}", "word ".repeat(number))).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let (store, talk, entries) = home.with_texts(&texts);
        let last = entries.len() as u64 - 1;
        let read = |earlier: &[u64], from: u64| {
            let (mut found, mut damage) = (Vec::new(), 0);
            let mut take = |item| {
                match item {
                    StoredItem::Entry(entry) => found.push(entry),
                    StoredItem::Damage(_) => damage += 1,
                }
                ControlFlow::Continue(())
            };
            store.read_part(talk.id, Selection { earlier, from }, &mut take).unwrap();
            (found, damage)
        };
        let parts: [(&[u64], u64); 5] =
            [(&[0, 1, 7, 150], last - 3), (&[], 0), (&[0], 1), (&[3], last), (&[0, 299, 300], last)];
        for (earlier, from) in parts {
            let places = earlier.iter().copied().chain(from..=last);
            let wanted: Vec<Entry> = places.map(|place| entries[place as usize].clone()).collect();
            assert_eq!(read(earlier, from), (wanted, 0), "{}: {earlier:?} {from}", home.name);
        }
        let (found, _) = read(&[], last + 1);
        assert!(found.is_empty(), "{}: {found:?}", home.name);
    });
}

/// A checkpoint stays until something is erased, and is the newest that was kept.
#[test]
fn checkpoints_are_a_cache() {
    in_every_home(|home| {
        let (store, mut talk, entries) = home.with_texts(&["one", "two"]);
        store.settle().unwrap();
        let kept_pieces = |store: &dyn Store, id| {
            let mut pieces = Vec::new();
            store.checkpoint(id, &mut |piece| {
                pieces.push(piece);
                ControlFlow::Continue(())
            });
            pieces
        };
        assert!(kept_pieces(&*store, talk.id).is_empty(), "{}", home.name);
        let pieces = |texts: &[&str]| texts.iter().map(ToString::to_string).collect::<Vec<_>>();
        store.keep_checkpoint(talk.id, &pieces(&["first", "one"]));
        store.keep_checkpoint(talk.id, &pieces(&["", "second"]));
        let kept = if store.single_reads() > 0 { pieces(&["", "second"]) } else { Vec::new() };
        let store = home.reopen(store);
        assert_eq!(kept_pieces(&*store, talk.id), kept, "{}", home.name);
        let note = talk.erased(entries[2].id());
        store.erase(talk.id, tail(&entries).unwrap(), entries[2].id(), &note).unwrap();
        assert!(kept_pieces(&*store, talk.id).is_empty(), "{}", home.name);
    });
}

/// A conversation that was deleted is gone, with its content; the others stay.
#[test]
fn deleted_is_gone() {
    in_every_store(|home, store| {
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
        // The same id can be used for a new conversation.
        let store = home.open();
        let (again, entries) = Talk::of(2, 1);
        store.append(again.id, None, &entries).unwrap();
        assert_eq!(read(&*store, again.id, 0).0, entries, "{}", home.name);
    });
}

/// B29: an entry that another program changed is found and not returned, and no other entry is lost.
#[test]
fn a_changed_entry_is_found() {
    in_every_home_on_disk(|home| {
        let (store, talk, entries) = home.with_texts(&["the answer is FORTYTWO", "good to know"]);
        drop(store);
        change(home, "FORTYTWO", "FORTYONE");
        let store = home.open();
        let found = problems(&*store, Some(talk.id));
        assert!(found.iter().any(|problem| !problem.torn), "{}: {found:?}", home.name);
        let (read, damage) = read(&*store, talk.id, 0);
        let readable = [0, 1, 2, 4].map(|number: usize| entries[number].id());
        assert_eq!(ids(&read), readable, "{}", home.name);
        assert_eq!(damage.len(), 1, "{}: {damage:?}", home.name);
        let mut way = ids(&ancestors(&*store, talk.id, None));
        way.reverse();
        assert_eq!(way, readable, "{}", home.name);
    });
}

/// Replaces one text by another, in every file.
fn change(home: &Home, from: &str, to: &str) {
    let mut changed = 0;
    for path in home.files() {
        let mut bytes = fs::read(&path).unwrap();
        while let Some(place) = position(&bytes, from) {
            bytes[place..place + from.len()].copy_from_slice(to.as_bytes());
            changed += 1;
        }
        fs::write(&path, bytes).unwrap();
    }
    assert!(changed > 0, "{}: no content was found to change", home.name);
}

/// The same for the first entry, which has no parent.
#[test]
fn a_changed_header_is_found() {
    in_every_home_on_disk(|home| {
        let (store, talk, entries) = home.with_talk(1, 2);
        drop(store);
        change(home, "\"tiny\"", "\"huge\"");
        let store = home.open();
        assert!(problems(&*store, Some(talk.id)).iter().any(|problem| !problem.torn), "{}", home.name);
        let (read, damage) = read(&*store, talk.id, 0);
        assert_eq!(ids(&read), ids(&entries[1..]), "{}", home.name);
        assert!(!damage.is_empty(), "{}", home.name);
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

/// Entries of a newer minor version keep their additional fields, and unknown kinds are kept.
#[test]
fn what_a_newer_version_wrote_is_kept() {
    in_every_store(|home, store| {
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
        talk.chain = Chain::at(Some(rejoin_record::Tail::of(&newer)));
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

/// Any text comes back byte for byte: zeros, escapes, half characters, ten megabytes.
#[test]
fn any_text_comes_back() {
    in_every_store(|home, store| {
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
        assert_eq!(ancestors(&*store, talk.id, None).len(), entries.len(), "{}", home.name);
        assert!(problems(&*store, None).is_empty(), "{}", home.name);
    });
}

/// Only the owner can read the files.
#[cfg(unix)]
#[test]
fn files_are_private() {
    use std::os::unix::fs::PermissionsExt as _;
    in_every_home(|home| {
        let (store, mut talk, entries) = home.with_talk(1, 2);
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

/// A draft belongs to its writer while that lives, and to every process after that. It is no conversation, and is deleted with its
/// conversation.
#[test]
fn drafts_are_kept_beside_the_record() {
    in_every_home(|home| {
        let (store, talk, _) = home.with_talk(1, 2);
        let Some(drafts) = store.drafts() else {
            assert!(!home.is_on_disk(), "{}", home.name);
            return;
        };
        assert_eq!((drafts.left_behind(talk.id), drafts.conversations()), (None, Vec::new()));
        let mut draft = drafts.begin(talk.id).unwrap();
        draft.append(b"some ").unwrap();
        draft.append(b"words").unwrap();
        assert!(drafts.begin(talk.id).is_err(), "{}: there is one at a time", home.name);
        assert_eq!(drafts.left_behind(talk.id), None, "{}: it is still being written", home.name);
        assert_eq!(drafts.conversations(), [talk.id]);
        drop(draft);
        assert_eq!(drafts.left_behind(talk.id).as_deref(), Some(&b"some words"[..]), "{}", home.name);
        assert_eq!(store.list(&Query::default()).unwrap().total, 1, "{}", home.name);
        assert!(problems(&*store, None).is_empty(), "{}", home.name);
        #[cfg(unix)]
        for path in home.files() {
            let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&path).unwrap().permissions());
            assert_eq!(mode & 0o777, 0o600, "{}", path.display());
        }
        store.delete(talk.id).unwrap();
        assert_eq!(home.holding("some words"), 0, "{}", home.name);
        drafts.begin(talk.id).unwrap().remove().unwrap();
        assert!(drafts.conversations().is_empty());
    });
}

/// A store lists the files that erasing or deleting will remove, so that a person can be told beforehand.
#[test]
fn the_files_that_go_are_named() {
    in_every_home(|home| {
        let (store, talk, entries) = home.with_talk(1, 2);
        let gone = |entries: Option<&[EntryId]>| store.files_that_go(talk.id, entries).unwrap();
        let Some(drafts) = store.drafts() else {
            assert_eq!(gone(None), Vec::<PathBuf>::new());
            return;
        };
        let before = gone(None);
        drop(drafts.begin(talk.id).unwrap());
        let aside = |bytes: Vec<u8>| {
            let damage = Damage { place: StoragePlace::Store, why: String::new(), bytes, torn: false };
            store.set_aside(talk.id, &damage).unwrap().unwrap()
        };
        let of_an_entry = aside(entries[1].to_line().into_bytes());
        let another = aside(b"piece".to_vec());
        let all = gone(None);
        assert_eq!(all.len(), before.len() + 3, "{}: {all:?}", home.name);
        assert!(all.contains(&of_an_entry) && all.contains(&another), "{}: {all:?}", home.name);
        assert_eq!(gone(Some(&[entries[1].id()])), [of_an_entry], "{}", home.name);
        store.delete(talk.id).unwrap();
        assert!(all.iter().all(|file| !file.exists()), "{}: {all:?}", home.name);
    });
}
