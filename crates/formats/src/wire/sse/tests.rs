//! Events, however their bytes are split.

use super::*;

fn events(pieces: &[&[u8]]) -> Vec<(String, String)> {
    let mut sse = Sse::default();
    let mut found = Vec::new();
    let mut each = |name: &str, data: &str| found.push((name.to_owned(), data.to_owned()));
    for piece in pieces {
        sse.feed(piece, &mut each).unwrap();
    }
    sse.finish(&mut each);
    found
}

fn pair(name: &str, data: &str) -> (String, String) {
    (name.into(), data.into())
}

#[test]
fn lines_end_in_any_way_and_data_is_joined() {
    let text = ": hello\r\nevent: a\rdata: 1\rdata:2\r\n\r\nid: 7\nretry: 3\n\n\ndata\ndata:  x\n\nunknown: y\ndata:z";
    let expected = vec![pair("a", "1\n2"), pair("", "\n x"), pair("", "z")];
    assert_eq!(events(&[text.as_bytes()]), expected);
    let single: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
    assert_eq!(events(&single), expected);
    // CR and LF together end one line, not two.
    let both = "event: a\r\ndata: 1\r\ndata: 2\r\n\r\n";
    assert_eq!(events(&[both.as_bytes()]), vec![pair("a", "1\n2")]);
}

#[test]
fn a_character_may_be_cut() {
    let bytes = "data: grüße 😀\n\n".as_bytes();
    for at in 0..bytes.len() {
        assert_eq!(events(&[&bytes[..at], &bytes[at..]]), vec![pair("", "grüße 😀")], "cut at {at}");
    }
}

#[test]
fn a_line_without_end_is_given_up() {
    let mut sse = Sse::default();
    let piece = vec![b'x'; 1024 * 1024];
    let mut fed = 0;
    while sse.feed(&piece, &mut |_, _| {}).is_ok() {
        fed += piece.len();
        assert!(fed <= EVENT_BYTES, "it goes on for ever");
    }
    // Many lines of one event are no way around that.
    let mut sse = Sse::default();
    let line = [b"data: ", &piece[..], b"\n"].concat();
    let taken = (0..=EVENT_BYTES / piece.len()).take_while(|_| sse.feed(&line, &mut |_, _| {}).is_ok());
    assert!(taken.count() <= EVENT_BYTES / piece.len());
}

#[test]
fn strange_lines_are_noticed() {
    let mut sse = Sse::default();
    sse.feed(b"<html>\n", &mut |_, _| {}).unwrap();
    assert_eq!(sse.strange().as_deref(), Some("<html>"));
    for (open, strange) in [("dat", false), ("data: <", false), (":x", false), ("<ht", true), ("dates", true)]
    {
        let mut sse = Sse::default();
        sse.feed(open.as_bytes(), &mut |_, _| {}).unwrap();
        assert_eq!(sse.ends_strangely(), strange, "{open}");
    }
}
