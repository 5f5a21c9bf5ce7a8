//! What becomes of files: cut off, flipped, doubled, out of order, emptied, glued, filled with zeros. Everything that is not
//! damaged is read, everything that is damaged is found, and the conversation goes on.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

mod support;

use std::{
    fs,
    path::{Path, PathBuf},
};

use rejoin_record::{ConversationId, Entry};
use rejoin_store::{Location, Place, Store, StoreError};
use support::{Talk, ancestors, hashes, ids, jsonl, problems, read, tail};

/// A folder with one conversation, and the entries that it should have.
struct Damaged {
    folder: tempfile::TempDir,
    talk: Talk,
    entries: Vec<Entry>,
    bytes: Vec<u8>,
}

impl Damaged {
    fn new(messages: usize) -> Self {
        let folder = support::folder();
        let (talk, entries) = Talk::of(1, messages);
        jsonl(folder.path()).append(talk.id, None, &entries).unwrap();
        let bytes = fs::read(folder.path().join(format!("{}.jsonl", talk.id))).unwrap();
        Self { folder, talk, entries, bytes }
    }

    fn id(&self) -> ConversationId {
        self.talk.id
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join(format!("{}.jsonl", self.talk.id))
    }

    /// The store with other bytes in the file.
    fn with(&self, bytes: &[u8]) -> Box<dyn Store> {
        fs::write(self.path(), bytes).unwrap();
        jsonl(self.folder.path())
    }

    fn lines(&self) -> Vec<Vec<u8>> {
        self.bytes.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect()
    }

    /// Every way of reading agrees on what is there.
    fn check(&self, store: &dyn Store, expected: &[Entry], what: &str) {
        let (entries, _) = read(store, self.id(), 0);
        assert_eq!(ids(&entries), ids(expected), "{what}");
        assert_eq!(hashes(&entries), hashes(expected), "{what}");
        assert_eq!(store.tail(self.id()).unwrap(), tail(expected), "{what}");
        let (mut back, _) = ancestors(store, self.id(), None);
        back.reverse();
        assert_eq!(ids(&back), ids(expected), "{what}");
    }

    /// The conversation goes on, and nothing of what was there is lost by that.
    fn goes_on(&self, store: &dyn Store, expected: &[Entry], what: &str) {
        let before = fs::read(self.path()).unwrap();
        let mut talk = Talk::new(77);
        talk.id = self.id();
        talk.chain = rejoin_record::Chain::at(tail(expected));
        let mut all = expected.to_vec();
        if expected.is_empty() {
            all.push(talk.header());
        } else {
            all.push(talk.user("and on it goes"));
        }
        let new = &all[expected.len()..];
        assert_eq!(store.append(self.id(), tail(expected), new).unwrap(), tail(&all).unwrap(), "{what}");
        self.check(store, &all, what);
        self.check(&*jsonl(self.folder.path()), &all, what);
        assert!(fs::read(self.path()).unwrap().starts_with(&before), "{what}: only ever appended to");
    }
}

fn only_torn(store: &dyn Store, id: ConversationId, what: &str) {
    let found = problems(store, Some(id));
    assert!(found.iter().all(|problem| problem.torn), "{what}: {found:?}");
}

/// B42, S2-33: a write that was cut off at any byte costs nothing that was acknowledged, is said, and the next entry gets a line
/// of its own.
#[test]
fn a_torn_write_at_every_byte_is_a_note_and_no_more() {
    let damaged = Damaged::new(4);
    let kept = damaged.bytes.len() - damaged.lines().last().unwrap().len();
    let before = damaged.entries[..damaged.entries.len() - 1].to_vec();
    let line = damaged.bytes[kept..].to_vec();
    for end in 0..=line.len() {
        let what = format!("cut after {end} of {} bytes", line.len());
        let store = damaged.with(&damaged.bytes[..kept + end]);
        // Without its newline the entry is there all the same: nothing but the newline is missing.
        let whole = end >= line.len() - 1;
        let expected = if whole { damaged.entries.clone() } else { before.clone() };
        damaged.check(&*store, &expected, &what);
        let found = problems(&*store, Some(damaged.id()));
        assert_eq!(found.len(), usize::from(end > 0 && !whole), "{what}: {found:?}");
        only_torn(&*store, damaged.id(), &what);
        if end > 0 && !whole {
            assert_eq!(found[0].place, Place::Line(5), "{what}");
        }
        damaged.goes_on(&*store, &expected, &what);
        only_torn(&*store, damaged.id(), &what);
        // The torn bytes are still there, and a copy of them is set aside.
        let (_, damage) = read(&*store, damaged.id(), 0);
        assert_eq!(damage.len(), usize::from(end > 0 && !whole), "{what}");
        if let Some(damage) = damage.first() {
            assert_eq!(damage.bytes, line[..end].trim_ascii(), "{what}");
            let asides: Vec<_> = fs::read_dir(damaged.folder.path().join("aside")).unwrap().collect();
            let copies =
                asides.iter().filter(|path| fs::read(path.as_ref().unwrap().path()).unwrap() == damage.bytes);
            assert_eq!(copies.count(), 1, "{what}");
        }
    }
    // The write that isolates a torn line may be cut off as well.
    let torn = kept + 100;
    let store = damaged.with(&damaged.bytes[..torn]);
    let mut talk = Talk::new(78);
    talk.chain = rejoin_record::Chain::at(tail(&before));
    let next = talk.user("again");
    store.append(damaged.id(), tail(&before), std::slice::from_ref(&next)).unwrap();
    let again = fs::read(damaged.path()).unwrap();
    for end in torn..again.len() {
        let what = format!("cut again after {}", end - torn);
        let store = damaged.with(&again[..end]);
        let expected = if end + 1 >= again.len() {
            [before.as_slice(), std::slice::from_ref(&next)].concat()
        } else {
            before.clone()
        };
        damaged.check(&*store, &expected, &what);
        only_torn(&*store, damaged.id(), &what);
        damaged.goes_on(&*store, &expected, &what);
        only_torn(&*store, damaged.id(), &what);
    }
}

/// S2-33, B29: whichever bit flips, `verify` finds it, and every other entry is read as it was.
#[test]
fn a_flipped_bit_at_every_byte_is_found() {
    let damaged = Damaged::new(3);
    let mut ends = Vec::new();
    for line in damaged.lines() {
        ends.push(ends.last().unwrap_or(&0) + line.len());
    }
    for place in 0..damaged.bytes.len() {
        let line = ends.iter().position(|end| place < *end).unwrap();
        let newline = place + 1 == ends[line];
        for bit in 0..8 {
            let what = format!("byte {place} (line {}), bit {bit}", line + 1);
            let mut bytes = damaged.bytes.clone();
            bytes[place] ^= 1 << bit;
            let store = damaged.with(&bytes);
            let found = problems(&*store, None);
            assert!(found.iter().any(|problem| !problem.torn), "{what}: {found:?}");
            assert!(found.iter().all(|problem| matches!(problem.place, Place::Line(_))), "{what}: {found:?}");
            let mut expected = damaged.entries.clone();
            if !newline {
                expected.remove(line);
            }
            damaged.check(&*store, &expected, &what);
        }
    }
}

/// S2-33, B29: an entry that was damaged stays in its file and in a copy aside, and the conversation goes on behind it.
#[test]
fn a_conversation_goes_on_behind_damage() {
    let damaged = Damaged::new(4);
    let lines = damaged.lines();
    for line in 0..lines.len() {
        let what = format!("line {}", line + 1);
        let mut bytes = lines.clone();
        let middle = bytes[line].len() / 2;
        bytes[line][middle] ^= 1;
        let store = damaged.with(&bytes.concat());
        let mut expected = damaged.entries.clone();
        expected.remove(line);
        damaged.goes_on(&*store, &expected, &what);
        let found = problems(&*store, None);
        assert!(found.iter().any(|problem| problem.place == Place::Line(line as u64 + 1) && !problem.torn));
        if line + 1 == lines.len() {
            let asides = fs::read_dir(damaged.folder.path().join("aside")).unwrap();
            let aside = asides.map(|aside| fs::read(aside.unwrap().path()).unwrap());
            let copy = aside.filter(|copy| *copy == bytes[line].trim_ascii()).count();
            assert_eq!(
                copy, 1,
                "{what}: the newest line was damaged, so it was set aside before more was written"
            );
        }
    }
}

/// B29: what was acknowledged and damaged stays damage, also when its number was given again to what came next.
#[test]
fn damage_is_not_taken_for_a_torn_write_later() {
    let damaged = Damaged::new(2);
    let start = damaged.bytes.len() - damaged.lines().last().unwrap().len();
    for place in start..damaged.bytes.len() - 1 {
        for bit in [0, 2, 5] {
            let mut bytes = damaged.bytes.clone();
            bytes[place] ^= 1 << bit;
            let store = damaged.with(&bytes);
            let what = format!("byte {} of the last line, bit {bit}", place - start);
            damaged.goes_on(&*store, &damaged.entries[..2], &what);
            let found = problems(&*store, None);
            assert!(found.iter().any(|problem| !problem.torn), "{what}: {found:?}");
        }
    }
}

/// S2-33: an entry that was glued onto a torn line is believed if it fits what came before it, even where that is damaged.
#[test]
fn an_entry_behind_garbage_and_damage_is_read() {
    let damaged = Damaged::new(4);
    let mut lines = damaged.lines();
    let at = lines[2].len() - 8;
    lines[2][at] ^= 1;
    lines[3].splice(0..0, b"{\"v\":\"1.0\",\"id\":\"01".iter().copied());
    let store = damaged.with(&lines.concat());
    let mut expected = damaged.entries.clone();
    expected.remove(2);
    damaged.check(&*store, &expected, "behind garbage");
}

/// S2-33: damage in one entry does not hide a change in another.
#[test]
fn two_damaged_entries_are_both_found() {
    let damaged = Damaged::new(5);
    let lines = damaged.lines();
    for first in 0..lines.len() {
        for second in first + 1..lines.len() {
            for at in [20, 180, 260, 330, 400] {
                let mut bytes = lines.clone();
                bytes[first][at] ^= 4;
                bytes[second][at] ^= 4;
                let what = format!("lines {} and {}, byte {at}", first + 1, second + 1);
                let store = damaged.with(&bytes.concat());
                let mut expected = damaged.entries.clone();
                expected.remove(second);
                expected.remove(first);
                let (entries, _) = read(&*store, damaged.id(), 0);
                // What hangs on something unreadable may be handed out with a changed envelope, never with a changed body.
                assert!(ids(&expected).iter().all(|id| ids(&entries).contains(id)), "{what}");
                for entry in &entries {
                    let original = damaged.entries.iter().find(|other| other.id() == entry.id());
                    assert!(original.is_none_or(|original| original.body() == entry.body()), "{what}");
                }
                assert!(problems(&*store, None).iter().any(|problem| !problem.torn), "{what}");
            }
        }
    }
}

/// S2-35: an emptied file is a conversation in which nothing was said.
#[test]
fn an_emptied_file_starts_afresh() {
    let damaged = Damaged::new(2);
    for bytes in [&b""[..], b"\n", b"\r\n\n", b"\xef\xbb\xbf"] {
        let what = format!("{bytes:?}");
        let store = damaged.with(bytes);
        damaged.check(&*store, &[], &what);
        assert!(problems(&*store, None).is_empty(), "{what}");
        let page = store.list(&Default::default()).unwrap();
        assert_eq!(page.conversations[0].entries, 0, "{what}");
        assert!(page.conversations[0].updated.as_second() > 1_700_000_000, "{what}: as old as the file");
        damaged.goes_on(&*store, &[], &what);
        assert!(problems(&*store, None).is_empty(), "{what}");
    }
}

/// S2-37: with every line damaged the conversation starts empty, works, and nothing is thrown away.
#[test]
fn with_everything_damaged_it_starts_afresh() {
    let damaged = Damaged::new(3);
    let bytes: Vec<u8> = damaged.bytes.iter().map(|byte| if *byte == b':' { b';' } else { *byte }).collect();
    let store = damaged.with(&bytes);
    damaged.check(&*store, &[], "all damaged");
    let found = problems(&*store, None);
    assert_eq!(found.iter().filter(|problem| !problem.torn).count(), 4, "{found:?}");
    damaged.goes_on(&*store, &[], "all damaged");
    assert_eq!(problems(&*store, None).iter().filter(|problem| !problem.torn).count(), 4);
    assert_eq!(fs::read_dir(damaged.folder.path().join("aside")).unwrap().count(), 4);
    // Random bytes without a single line are no different.
    let noise: Vec<u8> = (0..5000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let store = damaged.with(&noise);
    damaged.check(&*store, &[], "noise");
    assert!(!problems(&*store, None).is_empty());
    damaged.goes_on(&*store, &[], "noise");
}

/// S3-09: a line that stands there twice counts once, and is said once.
#[test]
fn doubled_lines_are_said_once() {
    let damaged = Damaged::new(4);
    let lines = damaged.lines();
    for twice in 0..lines.len() {
        for at in twice + 1..=lines.len() {
            let what = format!("line {} again before line {}", twice + 1, at + 1);
            let mut doubled = lines.clone();
            doubled.insert(at, lines[twice].clone());
            let store = damaged.with(&doubled.concat());
            damaged.check(&*store, &damaged.entries, &what);
            let found = problems(&*store, None);
            assert_eq!(found.len(), 1, "{what}: {found:?}");
            assert!(found[0].what.contains("second copy") && !found[0].torn, "{what}: {found:?}");
            assert_eq!(found[0].place, Place::Line(at as u64 + 1), "{what}");
            damaged.goes_on(&*store, &damaged.entries, &what);
        }
    }
    let store = damaged.with(&[damaged.bytes.clone(), damaged.bytes.clone()].concat());
    damaged.check(&*store, &damaged.entries, "the whole file twice");
    assert_eq!(problems(&*store, None).len(), 5);
}

/// S3-09: lines out of order are read in the order of their numbers, and it is said.
#[test]
fn lines_out_of_order_are_sorted() {
    let damaged = Damaged::new(5);
    let lines = damaged.lines();
    let mut orders: Vec<Vec<usize>> =
        vec![vec![5, 4, 3, 2, 1, 0], vec![3, 4, 5, 0, 1, 2], vec![0, 1, 4, 5, 2, 3]];
    for first in 0..lines.len() {
        for second in first + 1..lines.len() {
            let mut order: Vec<usize> = (0..lines.len()).collect();
            order.swap(first, second);
            orders.push(order);
        }
    }
    for order in orders {
        let what = format!("{order:?}");
        let moved: Vec<Vec<u8>> = order.iter().map(|line| lines[*line].clone()).collect();
        let store = damaged.with(&moved.concat());
        let (entries, damage) = read(&*store, damaged.id(), 0);
        assert_eq!(ids(&entries), ids(&damaged.entries), "{what}");
        assert_eq!(damage.len(), 1, "{what}: {damage:?}");
        assert!(damage[0].why.contains("out of order") && !damage[0].torn, "{what}");
        assert_eq!(problems(&*store, None).len(), 1, "{what}");
        // An end that looks like one is believed; all other orders are noticed without reading everything.
        if order[..] != [0, 1, 4, 5, 2, 3] {
            assert_eq!(store.tail(damaged.id()).unwrap(), tail(&entries), "{what}");
        }
        // Whoever read it knows the newest entry, and can append behind it.
        let mut talk = Talk::new(79);
        talk.chain = rejoin_record::Chain::at(tail(&entries));
        let next = talk.user("on");
        store.append(damaged.id(), tail(&entries), std::slice::from_ref(&next)).unwrap();
        let (after, _) = read(&*jsonl(damaged.folder.path()), damaged.id(), 0);
        assert_eq!(ids(&after), ids(&[entries, vec![next]].concat()), "{what}");
    }
}

/// S3-09: two entries on one line are both read, whatever took the place of the newline; so is the entry behind a torn one.
#[test]
fn glued_lines_are_taken_apart() {
    let damaged = Damaged::new(4);
    let lines: Vec<Vec<u8>> = damaged.lines().iter().map(|line| line.trim_ascii_end().to_vec()).collect();
    for glue in [
        &b""[..],
        b" ",
        b"\x0b",
        b"\x8a",
        b"\0\0\0",
        b"{\"v\":\"1.0\",\"id\":\"01",
        b"{\"v\":\"",
        b"}{",
        "—".as_bytes(),
    ] {
        for place in 0..lines.len() - 1 {
            let what = format!("{glue:?} behind line {}", place + 1);
            let mut bytes = Vec::new();
            for (number, line) in lines.iter().enumerate() {
                bytes.extend_from_slice(line);
                bytes.extend_from_slice(if number == place { glue } else { b"\n" });
            }
            let store = damaged.with(&bytes);
            damaged.check(&*store, &damaged.entries, &what);
            let found = problems(&*store, None);
            assert_eq!(found.len(), 1, "{what}: {found:?}");
            assert_eq!((found[0].place, found[0].torn), (Place::Line(place as u64 + 1), false), "{what}");
            damaged.goes_on(&*store, &damaged.entries, &what);
        }
    }
    let all = lines.concat();
    let store = damaged.with(&all);
    damaged.check(&*store, &damaged.entries, "all on one line");
    damaged.goes_on(&*store, &damaged.entries, "all on one line");
}

/// B42: zeros at the end, as some file systems leave them after a crash, are a note.
#[test]
fn zeros_are_a_note() {
    let damaged = Damaged::new(3);
    let kept = damaged.bytes.len() - damaged.lines().last().unwrap().len();
    let before = &damaged.entries[..3];
    let cases: Vec<(Vec<u8>, &[Entry])> = vec![
        ([damaged.bytes.as_slice(), &[0; 100]].concat(), &damaged.entries),
        ([damaged.bytes.trim_ascii_end(), &[0; 100]].concat(), &damaged.entries),
        ([&damaged.bytes[..kept], &[0; 5000]].concat(), before),
        ([&damaged.bytes[..kept + 80], &[0; 5000]].concat(), before),
    ];
    for (number, (bytes, expected)) in cases.into_iter().enumerate() {
        let what = format!("case {number}");
        let store = damaged.with(&bytes);
        damaged.check(&*store, expected, &what);
        let found = problems(&*store, None);
        assert!(found.len() == 1 && found[0].torn, "{what}: {found:?}");
        damaged.goes_on(&*store, expected, &what);
        only_torn(&*store, damaged.id(), &what);
    }
}

/// S3-09: what other programs do to a text file on its way (marks, line ends, blank lines) is not damage.
#[test]
fn marks_and_line_ends_of_other_programs_are_no_damage() {
    let damaged = Damaged::new(3);
    let text = String::from_utf8(damaged.bytes.clone()).unwrap();
    let cases = [
        format!("\u{feff}{text}"),
        text.replace('\n', "\r\n"),
        text.replace('\n', "\n\n"),
        format!("\n\n{text}\n\n"),
        format!("\u{feff}{}", text.replace('\n', "\r\n\r\n")),
        text.replace('\n', "  \n"),
        text.trim_end().to_owned(),
    ];
    for (number, text) in cases.iter().enumerate() {
        let what = format!("case {number}");
        let store = damaged.with(text.as_bytes());
        damaged.check(&*store, &damaged.entries, &what);
        assert!(problems(&*store, None).is_empty(), "{what}: {:?}", problems(&*store, None));
        damaged.goes_on(&*store, &damaged.entries, &what);
        assert!(problems(&*store, None).is_empty(), "{what}");
    }
}

/// B29: an entry that says the same in another spelling is read, and the change is found.
#[test]
fn another_spelling_is_found() {
    let damaged = Damaged::new(2);
    let text = String::from_utf8(damaged.bytes.clone()).unwrap();
    for (was, is) in [(",\"salt\"", " , \"salt\""), ("\"hash\":", "\"h\\u0061sh\":")] {
        for line in 0..3 {
            let lines: Vec<String> = text.lines().map(str::to_owned).collect();
            let mut lines: Vec<String> = lines.into_iter().map(|line| line + "\n").collect();
            lines[line] = lines[line].replacen(was, is, 1);
            let store = damaged.with(lines.concat().as_bytes());
            let what = format!("{is} on line {}", line + 1);
            damaged.check(&*store, &damaged.entries, &what);
            let found = problems(&*store, None);
            assert_eq!(found.len(), 1, "{what}: {found:?}");
            assert_eq!((found[0].place, found[0].torn), (Place::Line(line as u64 + 1), false), "{what}");
            damaged.goes_on(&*store, &damaged.entries, &what);
        }
    }
}

/// What was erased is in no copy either: not in a torn first attempt, not in what was set aside, not in a doubled line.
#[test]
fn erasing_reaches_every_copy() {
    let folder = support::folder();
    let mut talk = Talk::new(1);
    let header = talk.header();
    let secret = talk.user("the password is XYZZYPLUGH, keep it");
    let next = talk.user("next");
    let path = folder.path().join(format!("{}.jsonl", talk.id));
    let (line, torn) = (secret.to_line(), &secret.to_line()[..secret.to_line().len() - 4]);
    // A first attempt was cut off, was set aside and repeated; then somebody doubled and glued lines.
    fs::write(&path, format!("{}\n{torn}", header.to_line())).unwrap();
    let store = jsonl(folder.path());
    let entries = [header, secret, next];
    store.append(talk.id, tail(&entries[..1]), &entries[1..]).unwrap();
    let mut text = fs::read_to_string(&path).unwrap();
    text.push_str(&format!("{line}\n{line}{torn}\n"));
    fs::write(&path, text).unwrap();
    let store = jsonl(folder.path());
    let holding = || {
        let files = [folder.path().to_owned(), folder.path().join("aside")]
            .map(|folder| fs::read_dir(folder).unwrap());
        let files =
            files.into_iter().flatten().map(|file| file.unwrap().path()).filter(|path| path.is_file());
        files.filter(|path| fs::read_to_string(path).unwrap().contains("XYZZYPLUGH")).count()
    };
    assert!(holding() >= 2, "in the file and aside");
    let note = talk.erased(entries[1].id());
    store.erase(talk.id, tail(&entries).unwrap(), entries[1].id(), &note).unwrap();
    assert_eq!(holding(), 0);
    let (found, _) = read(&*store, talk.id, 0);
    assert_eq!(hashes(&found), hashes(&[&entries[..], &[note]].concat()));
    assert_eq!(found[2], entries[2]);
}

/// S3-09: a line that was removed is missed.
#[test]
fn a_missing_line_is_found() {
    let damaged = Damaged::new(4);
    let lines = damaged.lines();
    // The last one nobody can miss: what is there is a conversation that ended earlier.
    for gone in 0..lines.len() - 1 {
        let mut fewer = lines.clone();
        fewer.remove(gone);
        let mut expected = damaged.entries.clone();
        expected.remove(gone);
        let store = damaged.with(&fewer.concat());
        let what = format!("line {} removed", gone + 1);
        damaged.check(&*store, &expected, &what);
        let found = problems(&*store, None);
        assert!(found.iter().any(|problem| !problem.torn), "{what}: {found:?}");
        assert!(
            found.iter().all(|problem| matches!(problem.place, Place::Line(_) | Place::Store)),
            "{what}: {found:?}"
        );
        damaged.goes_on(&*store, &expected, &what);
    }
}

/// A newer major version's entries are kept, shown as what they are, and nothing is written behind them.
#[test]
fn entries_of_a_newer_version_make_a_conversation_read_only() {
    let damaged = Damaged::new(2);
    let text = String::from_utf8(damaged.bytes.clone()).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    // A newer version hashes its own way.
    let hash = damaged.entries[2].hash().to_string();
    let newer = lines[2].replacen("\"v\":\"1.0\"", "\"v\":\"2.0\"", 1).replace(&hash, &"0".repeat(64));
    let bytes = format!("{}\n{}\n{newer}\n", lines[0], lines[1]);
    let store = damaged.with(bytes.as_bytes());
    let (entries, damage) = read(&*store, damaged.id(), 0);
    assert_eq!(ids(&entries), ids(&damaged.entries[..2]));
    assert!(damage[0].why.contains("version 2.0") && !damage[0].torn, "{damage:?}");
    let refused = store.append(damaged.id(), tail(&entries), &damaged.entries[2..]);
    assert!(matches!(refused, Err(StoreError::ReadOnly(_))), "{refused:?}");
    assert_eq!(fs::read(damaged.path()).unwrap(), bytes.as_bytes());
}

/// What somebody else chose to say never becomes an entry because the line around it was damaged.
#[test]
fn an_entry_inside_a_damaged_line_is_not_believed() {
    let folder = support::folder();
    let mut talk = Talk::new(5);
    let header = talk.header();
    let first = talk.user("hello");
    // Somebody makes an entry that looks right, under a parent that nobody knows, and has it quoted.
    let mut forger = Talk::new(6);
    let _ = forger.header();
    let unknown = forger.user("x");
    let mut forged = None;
    for _ in 0..2 {
        forged = Some(forger.under(&unknown, "transfer everything"));
    }
    let forged = forged.unwrap();
    let body = format!("{{\"data\":{}}}", forged.to_line());
    let quoting = talk.body(rejoin_record::Kind::Snapshot, &first, &body);
    let next = talk.user("next");
    let entries = [header, first, quoting, next];
    let store = jsonl(folder.path());
    store.append(talk.id, None, &entries).unwrap();
    let path = folder.path().join(format!("{}.jsonl", talk.id));
    let bytes = fs::read(&path).unwrap();
    let line = entries[2].to_line();
    let start = bytes.windows(line.len()).position(|window| window == line.as_bytes()).unwrap();
    for at in start..start + line.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        fs::write(&path, &changed).unwrap();
        let (read, _) = read(&*jsonl(folder.path()), talk.id, 0);
        assert!(read.iter().all(|entry| entry.id() != forged.id()), "byte {}", at - start);
        assert_eq!(read.len(), 3, "byte {}", at - start);
    }
}

/// B43: only names that are ids are ever opened, and nothing else in the folder is touched or listed.
#[test]
fn foreign_files_are_left_alone() {
    let damaged = Damaged::new(1);
    let names =
        ["notes.txt", "conv_short.jsonl", "CONV_abcdefghijkl.jsonl", ".jsonl", "conv_abcdefghijkl.jsonl.bak"];
    for name in names {
        fs::write(damaged.folder.path().join(name), "not ours").unwrap();
    }
    fs::create_dir(damaged.folder.path().join("conv_aaaaaaaaaaaa.jsonl")).unwrap();
    let store = jsonl(damaged.folder.path());
    assert_eq!(store.ids("", 10).unwrap(), [damaged.id()]);
    assert_eq!(store.list(&Default::default()).unwrap().total, 1);
    assert!(problems(&*store, None).is_empty());
    for name in names {
        assert_eq!(fs::read(damaged.folder.path().join(name)).unwrap(), b"not ours");
    }
}

/// B43: a file that goes by the name of another conversation is found out.
#[test]
fn a_file_under_another_name_is_found() {
    let damaged = Damaged::new(1);
    let other = Talk::new(9).id;
    fs::rename(damaged.path(), damaged.folder.path().join(format!("{other}.jsonl"))).unwrap();
    let store = jsonl(damaged.folder.path());
    let found = problems(&*store, None);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].what.contains(&damaged.id().to_string()) && found[0].place == Place::Line(1),
        "{found:?}"
    );
}

/// A folder that is not there is missing for whoever reads, and made for whoever writes.
#[test]
fn a_missing_folder_is_made_only_to_be_written() {
    let folder = support::folder();
    let path = folder.path().join("a/b");
    let opened = rejoin_store::open(&Location::Jsonl(path.clone()), support::READ);
    assert!(matches!(opened, Err(StoreError::Missing(_))), "{opened:?}");
    assert!(!path.exists());
    assert!(jsonl(&path).read_only().is_none());
    assert!(path.is_dir());
    let reader = rejoin_store::open(&Location::Jsonl(path), support::READ).unwrap();
    let (talk, entries) = Talk::of(3, 1);
    let refused = reader.append(talk.id, None, &entries);
    assert!(matches!(&refused, Err(error @ StoreError::ReadOnly(_)) if error.is_unwritable()), "{refused:?}");
    assert!(reader.read_only().is_some());
    assert!(reader.ids("", 10).unwrap().is_empty());
}

/// Whoever reads while another writes sees whole entries or none: no torn line that is just being written.
#[test]
fn reading_while_somebody_writes_finds_nothing_wrong() {
    let folder = support::folder();
    let mut talk = Talk::new(4);
    let header = talk.header();
    let store = jsonl(folder.path());
    store.append(talk.id, None, std::slice::from_ref(&header)).unwrap();
    let id = talk.id;
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut all = vec![header.clone()];
            for number in 0..150 {
                // Long lines: a reader is likely to come by while one is written.
                let next = talk.user(&format!("{number} {}", "long ".repeat(40_000)));
                store.append(id, tail(&all), std::slice::from_ref(&next)).unwrap();
                all.push(next);
            }
        });
        let other = jsonl(folder.path());
        while !writer.is_finished() {
            let (entries, damage) = read(&*other, id, 0);
            assert!(damage.is_empty(), "{:?}", damage[0].why);
            assert!(entries.iter().enumerate().all(|(number, entry)| entry.envelope().seq == number as u64));
            let seen = other.tail(id).unwrap().unwrap();
            assert!(seen.seq + 1 >= entries.len() as u64);
        }
    });
    assert!(problems(&*store, None).is_empty());
    assert!(Path::new(folder.path()).exists());
}
