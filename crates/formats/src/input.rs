//! Bytes from outside, turned into text once: byte-order marks, UTF-16, invalid UTF-8, limits, line numbers.

use std::{
    fmt,
    io::{BufRead, Read as _},
    sync::Arc,
};

use rejoin_record::limits;

use crate::session::ReadError;

/// A text to read from, and how it came to be text.
#[derive(Debug, Clone)]
pub struct Input {
    /// What to call it: a path, or `-`.
    pub name: String,
    /// The text.
    pub text: Arc<str>,
    /// The offset in `text` of the first character that replaces bytes which are not text.
    pub replaced_at: Option<usize>,
    /// Other files that belong to it.
    pub companions: Option<Arc<dyn Companions>>,
}

/// Files beside a session file that it refers to: a fork's parent, a tool's output that was too large for the transcript.
/// The caller decides which of them may be opened.
pub trait Companions: fmt::Debug + Send + Sync {
    /// The content of the file that the session calls by this path, or by a word that its name ends with, its extension
    /// aside.
    fn open(&self, name: &str) -> Option<Vec<u8>>;
}

/// The files of a folder or an archive that together hold conversations. The caller decides which folder that is, and how much of
/// it may be read.
pub trait Files: fmt::Debug + Send + Sync {
    /// What to call them: the path of the folder or of the archive.
    fn name(&self) -> &str;
    /// The paths of all files, relative to the folder, with `/` between names, in order.
    fn paths(&self) -> &[String];
    /// The content of a file. None if it cannot be read, or is larger than a body may be.
    fn read(&self, path: &str) -> Option<Vec<u8>>;
}

/// A file of lines that is read as a stream: it needs memory for its conversation, not for its text.
pub struct Stream<'s> {
    /// What to call it.
    pub name: &'s str,
    /// Its bytes.
    pub source: &'s mut (dyn BufRead + Send),
    /// Other files that belong to it.
    pub companions: Option<&'s dyn Companions>,
}

impl Stream<'_> {
    /// Reads all of it, for formats that are not files of lines.
    pub(crate) fn into_input(self) -> Result<Input, ReadError> {
        let mut bytes = Vec::new();
        let most = limits::BODY_BYTES as u64 + 1;
        self.source.take(most).read_to_end(&mut bytes).map_err(ReadError::io)?;
        Ok(Input::new(self.name, &bytes)?)
    }
}

/// Why bytes cannot be taken as input at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InputError {
    /// More than a body may have.
    #[error("it is larger than the limit of {} MiB", limits::BODY_BYTES / 1024 / 1024)]
    TooLarge {
        /// How many there are, at least.
        bytes: usize,
    },
    /// Nothing at all.
    #[error("there is nothing in it")]
    Empty,
    /// Not text.
    #[error("it is not text (byte {offset} and many others cannot be read)")]
    Binary {
        /// The first such byte.
        offset: usize,
    },
}

impl Input {
    /// Takes bytes as text. Bytes that are not UTF-8 are replaced, unless most of it is like that.
    ///
    /// # Errors
    /// If there is nothing to read: empty, too large, or not text.
    pub fn new(name: impl Into<String>, bytes: &[u8]) -> Result<Self, InputError> {
        if bytes.len() > limits::BODY_BYTES {
            return Err(InputError::TooLarge { bytes: bytes.len() });
        }
        let (text, replaced_at) = decode(bytes)?;
        if text.trim().is_empty() {
            return Err(InputError::Empty);
        }
        Ok(Self { name: name.into(), text, replaced_at, companions: None })
    }

    /// The line, from 1, that a byte offset lies in.
    pub fn line_of(&self, offset: usize) -> usize {
        let end = offset.min(self.text.len());
        1 + self.text.as_bytes()[..end].iter().filter(|&&byte| byte == b'\n').count()
    }
}

fn decode(bytes: &[u8]) -> Result<(Arc<str>, Option<usize>), InputError> {
    if let Some(units) = utf16(bytes) {
        let (mut text, mut replaced_at) = (String::new(), None);
        for unit in char::decode_utf16(units) {
            let at = text.len();
            text.push(unit.unwrap_or_else(|_| {
                replaced_at.get_or_insert(at);
                char::REPLACEMENT_CHARACTER
            }));
        }
        return Ok((text.into(), replaced_at));
    }
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok((text.into(), None)),
        Err(error) => {
            let text = String::from_utf8_lossy(bytes);
            let replaced = text.chars().filter(|&c| c == char::REPLACEMENT_CHARACTER).count();
            if replaced > 64 && replaced * 20 > text.chars().count() {
                return Err(InputError::Binary { offset: error.valid_up_to() });
            }
            Ok((text.into(), Some(error.valid_up_to())))
        }
    }
}

/// The units of a text that begins with a UTF-16 byte-order mark, as some shells write it.
fn utf16(bytes: &[u8]) -> Option<impl Iterator<Item = u16>> {
    let little = match bytes {
        [0xff, 0xfe, ..] => true,
        [0xfe, 0xff, ..] => false,
        _ => return None,
    };
    /// Half a surrogate pair represents half a unit: neither is a character.
    const HALF: u16 = 0xdfff;
    Some(bytes[2..].chunks(2).map(move |pair| match *pair {
        [low, high] if little => u16::from_le_bytes([low, high]),
        [high, low] => u16::from_be_bytes([high, low]),
        _ => HALF,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_in_any_dress() {
        let utf16: Vec<u8> =
            [0xff, 0xfe].into_iter().chain("[1]\n".encode_utf16().flat_map(u16::to_le_bytes)).collect();
        let big: Vec<u8> =
            [0xfe, 0xff].into_iter().chain("[1]\n".encode_utf16().flat_map(u16::to_be_bytes)).collect();
        for bytes in [&b"[1]\n"[..], b"\xef\xbb\xbf[1]\n", &utf16, &big] {
            let input = Input::new("x", bytes).unwrap();
            assert_eq!(&*input.text, "[1]\n");
            assert_eq!(input.line_of(4), 2);
        }
        let input = Input::new("x", b"[\"\xff\"]").unwrap();
        assert_eq!((&*input.text, input.replaced_at), ("[\"\u{fffd}\"]", Some(2)));
    }

    #[test]
    fn damaged_utf_16_is_replaced_and_reported() {
        let text = |units: &[u16], more: &[u8]| {
            let bytes: Vec<u8> =
                units.iter().flat_map(|unit| unit.to_le_bytes()).chain(more.to_vec()).collect();
            let input = Input::new("x", &bytes).unwrap();
            (input.text.to_string(), input.replaced_at)
        };
        let mark = 0xfeff;
        assert_eq!(text(&[mark, 0x5b, 0xd83d, 0xde00], &[]), (String::from("[😀"), None));
        assert_eq!(text(&[mark, 0x5b, 0xd83d, 0x5d], &[]), (String::from("[\u{fffd}]"), Some(1)));
        assert_eq!(text(&[mark, 0x5b, 0x5d], &[0x5d]), (String::from("[]\u{fffd}"), Some(2)), "half a unit");
    }

    #[test]
    fn nothing_to_read() {
        assert_eq!(Input::new("x", b" \n").unwrap_err(), InputError::Empty);
        assert!(matches!(Input::new("x", &[0x80; 200]).unwrap_err(), InputError::Binary { offset: 0 }));
    }
}
