//! Bytes that were changed.

use super::*;

/// S2-33, B29: whichever bit flips, `verify` finds it, and every other entry is read as it was.
#[test]
fn a_flipped_bit_at_every_byte_is_found() {
    let damaged = Damaged::new(2);
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
            assert!(
                found.iter().all(|problem| matches!(problem.place, StoragePlace::Line(_))),
                "{what}: {found:?}"
            );
            let mut expected = damaged.entries.clone();
            if !newline {
                expected.remove(line);
            }
            damaged.check(&*store, &expected, &what);
        }
    }
}

/// S2-33, B29: a damaged entry stays in its file and in a copy, and the conversation continues after it.
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
        assert!(
            found.iter().any(|problem| problem.place == StoragePlace::Line(line as u64 + 1) && !problem.torn)
        );
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
                // A child of an unreadable entry may be returned with a changed envelope, but never with a changed body.
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

/// B29: an entry in another spelling of the same JSON is read, and the change is found.
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
            damaged.is_whole_beside(&*store, line as u64 + 1, &what);
        }
    }
}

/// A newer major version's entries are kept and shown as such, and nothing is written after them.
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

/// Foreign text never becomes an entry because the line around it was damaged.
#[test]
fn an_entry_inside_a_damaged_line_is_not_believed() {
    let folder = support::folder();
    let (mut talk, header, first) = Talk::begun(5, "hello");
    // Someone makes an entry that looks right, under an unknown parent, and has it quoted.
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
    damaged.check(&*store, &expected, "after garbage");
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

/// An entry after one that is gone is whole, but nothing proves its time: it is not shown as if something did.
#[test]
fn a_child_of_a_lost_line_is_doubted() {
    let damaged = Damaged::new(4);
    let mut lines = damaged.lines();
    lines.remove(2);
    let text = String::from_utf8(lines[2].clone()).unwrap();
    let at = text.find("\"timestamp\":\"").unwrap() + 13;
    let other = if &text[at..=at] == "1" { "2" } else { "1" };
    for changed in [text.clone(), format!("{}{other}{}", &text[..at], &text[at + 1..])] {
        lines[2] = changed.into_bytes();
        let store = damaged.with(&lines.concat());
        let (_, damage) = read(&*store, damaged.id(), 0);
        assert!(damage.iter().any(|damage| damage.why.contains("nothing proves")), "{damage:?}");
        let found = problems(&*store, None);
        assert!(found.iter().any(|problem| problem.what.contains("nothing proves")), "{found:?}");
    }
}
