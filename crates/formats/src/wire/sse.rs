//! Server-sent events: lines end with CR, LF or both, the `data:` lines of an event are joined, comments and unknown fields are
//! ignored. Bytes become text only when an event is complete, so it makes no difference how they were split.

use std::borrow::Cow;

use super::documents::FramingError;

/// The limit on one event or JSON document of a stream. The largest real ones repeat a whole answer with a few pictures of some
/// MiB each. Reading JSON takes up to ten times its length in memory, so a much higher limit would be dangerous.
pub(crate) const EVENT_BYTES: usize = 32 * 1024 * 1024;

/// The fields that a line may begin with.
const FIELDS: [&[u8]; 4] = [b"data", b"event", b"id", b"retry"];

#[derive(Default)]
pub(crate) struct Sse {
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
    pub(crate) fn feed(
        &mut self,
        bytes: &[u8],
        each: &mut impl FnMut(&str, &str),
    ) -> Result<(), FramingError> {
        let mut rest = bytes;
        while let Some(&first) = rest.first() {
            if std::mem::take(&mut self.after_cr) && first == b'\n' {
                rest = &rest[1..];
                continue;
            }
            let end = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let piece = &rest[..end.unwrap_or(rest.len())];
            if self.line.len() + self.data.len() + piece.len() > EVENT_BYTES {
                return Err(FramingError::TooLong);
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
mod tests;
