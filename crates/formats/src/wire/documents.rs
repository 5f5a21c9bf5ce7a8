//! Splits bytes into JSON objects: lines of them, a list of them, or a single one, which is a response that is not streamed.
//! Only brackets and quotes are looked at.

use super::sse::EVENT_BYTES;

/// Why bytes are not a sequence of events or objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FramingError {
    /// An event or object is longer than [`EVENT_BYTES`].
    #[error("a line or event exceeds {} MiB", EVENT_BYTES >> 20)]
    TooLong,
    /// There is something else between the objects.
    #[error("the JSON is followed by something else")]
    NoObject,
}

#[derive(Default)]
pub(crate) struct Documents {
    /// The unfinished object.
    text: Vec<u8>,
    depth: usize,
    in_string: bool,
    escaped: bool,
    begun: bool,
    listed: bool,
}

impl Documents {
    /// Takes the next bytes and passes on each object that they complete.
    pub(crate) fn feed(&mut self, bytes: &[u8], each: &mut impl FnMut(&str)) -> Result<(), FramingError> {
        let mut begin = 0;
        for (at, &byte) in bytes.iter().enumerate() {
            if self.depth == 0 {
                self.between(byte)?;
                begin = at;
                continue;
            }
            if self.in_string {
                match byte {
                    _ if self.escaped => self.escaped = false,
                    b'\\' => self.escaped = true,
                    b'"' => self.in_string = false,
                    _ => {}
                }
                continue;
            }
            match byte {
                b'"' => self.in_string = true,
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => {
                    self.depth -= 1;
                    if self.depth == 0 {
                        self.keep(&bytes[begin..=at])?;
                        each(&String::from_utf8_lossy(&self.text));
                        self.text.clear();
                    }
                }
                _ => {}
            }
        }
        if self.depth > 0 { self.keep(&bytes[begin..]) } else { Ok(()) }
    }

    fn keep(&mut self, bytes: &[u8]) -> Result<(), FramingError> {
        if self.text.len() + bytes.len() > EVENT_BYTES {
            return Err(FramingError::TooLong);
        }
        self.text.extend_from_slice(bytes);
        Ok(())
    }

    fn between(&mut self, byte: u8) -> Result<(), FramingError> {
        match byte {
            b' ' | b'\t' | b'\n' | b'\r' => return Ok(()),
            b'{' => self.depth = 1,
            b'[' if !self.begun => self.listed = true,
            b',' | b']' if self.listed => {}
            _ => return Err(FramingError::NoObject),
        }
        self.begun = true;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn objects(pieces: &[&[u8]]) -> Result<Vec<String>, FramingError> {
        let mut documents = Documents::default();
        let mut found = Vec::new();
        for piece in pieces {
            documents.feed(piece, &mut |text| found.push(text.to_owned()))?;
        }
        Ok(found)
    }

    #[test]
    fn objects_are_found_however_they_are_cut() {
        let list = [r#"{"a":"}\"{ü"}"#, "{\n \"b\" : [ {} ]\n}", "{}"];
        for text in [list.join("\n"), list.concat(), format!("[{}\n]", list.join(",\r\n"))] {
            let bytes = text.as_bytes();
            assert_eq!(objects(&[bytes]).unwrap(), list, "{text}");
            for at in 0..bytes.len() {
                assert_eq!(objects(&[&bytes[..at], &bytes[at..]]).unwrap(), list, "{text} cut at {at}");
            }
        }
    }

    #[test]
    fn anything_else_is_refused() {
        for text in ["{} x", "[1]", "{},{}", "\"x\"", "{}]"] {
            assert_eq!(objects(&[text.as_bytes()]), Err(FramingError::NoObject), "{text}");
        }
        let endless = vec![b'['; EVENT_BYTES];
        assert_eq!(objects(&[b"{\"a\":", &endless]), Err(FramingError::TooLong));
    }
}
