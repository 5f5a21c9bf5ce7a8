//! Lines that are missing, duplicated, out of order, joined, or ended by other programs.

use super::*;

/// S2-35: an emptied file is a conversation without messages.
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

/// S3-09: a repeated line counts once, and is reported once.
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
            assert_eq!(found[0].place, StoragePlace::Line(at as u64 + 1), "{what}");
            damaged.goes_on(&*store, &damaged.entries, &what);
        }
    }
    let store = damaged.with(&[damaged.bytes.clone(), damaged.bytes.clone()].concat());
    damaged.check(&*store, &damaged.entries, "the whole file twice");
    assert_eq!(problems(&*store, None).len(), 5);
}

/// S3-09: lines out of order are read in the order of their numbers, and reported.
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
        // A reader knows the newest entry, and can append after it.
        let mut talk = Talk::new(79);
        talk.chain = rejoin_record::Chain::at(tail(&entries));
        let next = talk.user("on");
        store.append(damaged.id(), tail(&entries), std::slice::from_ref(&next)).unwrap();
        let (after, _) = read(&*jsonl(damaged.folder.path()), damaged.id(), 0);
        assert_eq!(ids(&after), ids(&[entries, vec![next]].concat()), "{what}");
    }
}

/// S3-09: two entries on one line are both read, whatever replaced the newline; so is the entry after a torn one.
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
            damaged.is_whole_beside(&*store, place as u64 + 1, &what);
        }
    }
    let all = lines.concat();
    let store = damaged.with(&all);
    damaged.check(&*store, &damaged.entries, "all on one line");
    damaged.goes_on(&*store, &damaged.entries, "all on one line");
}

/// S3-09: harmless changes by other programs (byte order marks, line ends, blank lines) are not damage.
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

/// S3-09: a line that was removed is missed.
#[test]
fn a_missing_line_is_found() {
    let damaged = Damaged::new(4);
    let lines = damaged.lines();
    // The loss of the last line cannot be noticed: the rest is a conversation that ended earlier.
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
            found.iter().all(|problem| matches!(problem.place, StoragePlace::Line(_) | StoragePlace::Store)),
            "{what}: {found:?}"
        );
        damaged.goes_on(&*store, &expected, &what);
    }
}
