//! Writes that were cut off, and zeros that a crash left.

use super::*;

/// B42, S2-33: a write that is cut off at any byte loses nothing acknowledged, is reported, and the next entry begins a new line.
#[test]
fn a_torn_write_at_every_byte_is_a_note_and_no_more() {
    let damaged = Damaged::new(4);
    let kept = damaged.bytes.len() - damaged.lines().last().unwrap().len();
    let before = damaged.entries[..damaged.entries.len() - 1].to_vec();
    let line = damaged.bytes[kept..].to_vec();
    for end in 0..=line.len() {
        let what = format!("cut after {end} of {} bytes", line.len());
        let store = damaged.with(&damaged.bytes[..kept + end]);
        // Without its newline the entry is still there: only the newline is missing.
        let whole = end >= line.len() - 1;
        let expected = if whole { damaged.entries.clone() } else { before.clone() };
        damaged.check(&*store, &expected, &what);
        let found = problems(&*store, Some(damaged.id()));
        assert_eq!(found.len(), usize::from(end > 0 && !whole), "{what}: {found:?}");
        only_torn(&*store, damaged.id(), &what);
        if end > 0 && !whole {
            assert_eq!(found[0].place, StoragePlace::Line(5), "{what}");
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

/// B29: acknowledged data that was damaged stays damage, even if the next entry got the same number.
#[test]
fn damage_is_not_taken_for_a_torn_write_later() {
    let damaged = Damaged::new(2);
    let start = damaged.bytes.len() - damaged.lines().last().unwrap().len();
    for place in start..damaged.bytes.len() - 1 {
        for bit in [0, 5] {
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
