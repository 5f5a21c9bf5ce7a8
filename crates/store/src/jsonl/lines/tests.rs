//! Lines forwards, backwards, and too long.

use std::io::Write as _;

use super::*;

fn forwards(file: &File) -> Vec<(u64, Vec<u8>, bool)> {
    let mut lines = Lines::from(file, 0, 1, false).unwrap();
    let (mut all, mut bytes) = (Vec::new(), Vec::new());
    while let Some(line) = lines.next(&mut bytes).unwrap() {
        assert_eq!(line.len, bytes.len() as u64);
        all.push((line.start, bytes.clone(), line.ended));
    }
    all
}

#[test]
fn backwards_is_forwards_turned_round() {
    for text in [
        "",
        "\n",
        "a",
        "a\n",
        "a\nb",
        "\n\na\n\nb\n",
        &format!("{}\nx\n{}", "y".repeat(200_000), "z".repeat(70_000)),
    ] {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        let mut back = Backwards::new(&file, text.len() as u64).unwrap();
        let mut all = Vec::new();
        while let Some(line) = back.next().unwrap() {
            all.push(line);
        }
        all.reverse();
        let mut expected = forwards(&file);
        // The only difference is that an empty first line is not returned.
        if expected.first().is_some_and(|(_, line, _)| line.is_empty()) {
            expected.remove(0);
        }
        let short: String = text.chars().take(12).collect();
        assert_eq!(all, expected, "{short:?}");
    }
}

#[test]
fn a_line_that_is_too_long_is_passed_over() {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(b"first\n").unwrap();
    // A hole in the file: it takes no disk space and reads as zeros.
    let hole = limits::BODY_BYTES as u64 + 100;
    file.set_len(6 + hole).unwrap();
    file.seek(SeekFrom::End(0)).unwrap();
    file.write_all(b"\nlast\n").unwrap();
    let mut lines = Lines::from(&file, 0, 1, false).unwrap();
    let mut bytes = Vec::new();
    assert!(!lines.next(&mut bytes).unwrap().unwrap().too_long);
    let long = lines.next(&mut bytes).unwrap().unwrap();
    assert!(long.too_long && long.ended && bytes.is_empty());
    assert_eq!((long.start, long.len, long.number), (6, hole, 2));
    let last = lines.next(&mut bytes).unwrap().unwrap();
    assert_eq!((bytes.as_slice(), last.number, last.start), (&b"last"[..], 3, 7 + hole));
    assert!(lines.next(&mut bytes).unwrap().is_none());
}
