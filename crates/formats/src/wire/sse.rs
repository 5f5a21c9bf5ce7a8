//! Server-sent events: lines end with CR, LF or both, the `data:` lines of an event are joined, comments and unknown fields are
//! ignored. Bytes become text only when an event is complete, so it makes no difference how they were split.

use std::borrow::Cow;

/// The limit on one event or JSON document of a stream. The largest real ones repeat a whole answer with a few pictures of some
/// MiB each. Reading JSON takes up to ten times its length in memory, so a much higher limit would be dangerous.
pub(crate) const EVENT_BYTES: usize = 32 * 1024 * 1024;

/// An event is longer than [`EVENT_BYTES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooLong;

/// The fields that a line may begin with.
const FIELDS: [&[u8]; 4] = [b"data", b"event", b"id", b"retry"];

/// Splits bytes into events.
#[derive(Default)]
pub(crate) struct Sse {
    /// The line that is still open.
    line: Vec<u8>,
    name: Vec<u8>,
    data: Vec<u8>,
    has_data: bool,
    /// A line ended with CR: an LF that follows belongs to it.
    after_cr: bool,
    /// The first line that is not part of an event.
    strange: Option<Vec<u8>>,
}

/// How many bytes of a strange line are kept for the error message.
const SHOWN: usize = 200;

impl Sse {
    /// Takes the next bytes and passes on the name and data of each event that they complete.
    pub(crate) fn feed(&mut self, bytes: &[u8], each: &mut impl FnMut(&str, &str)) -> Result<(), TooLong> {
        let mut rest = bytes;
        while let Some(&first) = rest.first() {
            if std::mem::take(&mut self.after_cr) && first == b'\n' {
                rest = &rest[1..];
                continue;
            }
            let end = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let piece = &rest[..end.unwrap_or(rest.len())];
            if self.line.len() + self.data.len() + piece.len() > EVENT_BYTES {
                return Err(TooLong);
            }
            self.line.extend_from_slice(piece);
            let Some(end) = end else { return Ok(()) };
            self.after_cr = rest[end] == b'\r';
            rest = &rest[end + 1..];
            self.end_line(each);
        }
        Ok(())
    }

    /// Ends the stream: the rest is passed on as an event, which may be incomplete.
    pub(crate) fn finish(&mut self, each: &mut impl FnMut(&str, &str)) {
        if !self.line.is_empty() {
            self.end_line(each);
        }
        self.dispatch(each);
    }

    /// The first line that is not part of an event, if there was one.
    pub(crate) fn strange(&self) -> Option<Cow<'_, str>> {
        self.strange.as_deref().map(String::from_utf8_lossy)
    }

    /// Whether the unfinished line cannot become part of an event.
    pub(crate) fn ends_strangely(&self) -> bool {
        !self.line.is_empty() && !could_be_a_line(&self.line)
    }

    fn end_line(&mut self, each: &mut impl FnMut(&str, &str)) {
        let mut line = std::mem::take(&mut self.line);
        if line.is_empty() {
            self.dispatch(each);
        } else {
            self.field(&line);
        }
        line.clear();
        self.line = line;
    }

    fn field(&mut self, line: &[u8]) {
        let colon = line.iter().position(|byte| *byte == b':');
        let (name, value) = colon.map_or((line, &[][..]), |colon| (&line[..colon], &line[colon + 1..]));
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match name {
            b"data" => {
                if self.has_data {
                    self.data.push(b'\n');
                }
                self.data.extend_from_slice(value);
                self.has_data = true;
            }
            b"event" => self.name = value.to_vec(),
            _ if could_be_a_line(line) => {}
            _ => {
                self.strange.get_or_insert_with(|| line[..line.len().min(SHOWN)].to_vec());
            }
        }
    }

    fn dispatch(&mut self, each: &mut impl FnMut(&str, &str)) {
        if std::mem::take(&mut self.has_data) {
            each(&String::from_utf8_lossy(&self.name), &String::from_utf8_lossy(&self.data));
        }
        self.name.clear();
        self.data.clear();
    }
}

/// Whether a line, or its beginning, is a comment or has a known field.
fn could_be_a_line(line: &[u8]) -> bool {
    let name = line.split(|byte| *byte == b':').next().unwrap_or_default();
    let open = name.len() == line.len();
    name.is_empty() || FIELDS.iter().any(|field| *field == name || (open && field.starts_with(name)))
}

#[cfg(test)]
mod tests {
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
        for (open, strange) in
            [("dat", false), ("data: <", false), (":x", false), ("<ht", true), ("dates", true)]
        {
            let mut sse = Sse::default();
            sse.feed(open.as_bytes(), &mut |_, _| {}).unwrap();
            assert_eq!(sse.ends_strangely(), strange, "{open}");
        }
    }
}
