//! Reads a file line by line, with one line in memory at a time. Every JSONL file is read with it, rejoin's and those of other
//! programs. The caller opens the file.

use std::io::{self, BufRead, Read as _};

use crate::limits;

/// The position of a line in its file, and its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineAt {
    /// Its number, from 1.
    pub number: u64,
    /// The offset of its first byte.
    pub start: u64,
    /// Its length in bytes, without its newline.
    pub len: u64,
    /// Whether a newline ends it.
    pub ended: bool,
    /// Whether it is longer than [`limits::BODY_BYTES`]; if so, none of it is loaded.
    pub too_long: bool,
}

/// The lines of a file, from some position to its end.
#[derive(Debug)]
pub struct Lines<R> {
    source: R,
    number: u64,
    start: u64,
}

impl<R: BufRead> Lines<R> {
    /// All lines of a file.
    pub fn new(source: R) -> Self {
        Self::from(source, 0, 1)
    }

    /// The lines from the byte `start` on, at which `source` begins. The first of them has the given number.
    pub fn from(source: R, start: u64, number: u64) -> Self {
        Self { source, number, start }
    }

    /// The offset of the next line, and its number.
    pub fn position(&self) -> (u64, u64) {
        (self.start, self.number)
    }

    /// Reads the next line into `bytes`, without its newline.
    ///
    /// # Errors
    /// Those of the source.
    pub fn next(&mut self, bytes: &mut Vec<u8>) -> io::Result<Option<LineAt>> {
        self.next_or(bytes, |_| Ok(()))
    }

    /// Reads the next line. If the source ends without a newline, `at_end` may wait for another process that is writing, and
    /// then call its argument to read on.
    ///
    /// # Errors
    /// Those of the source and of `at_end`.
    pub fn next_or(
        &mut self,
        bytes: &mut Vec<u8>,
        at_end: impl FnOnce(&mut dyn FnMut() -> io::Result<()>) -> io::Result<()>,
    ) -> io::Result<Option<LineAt>> {
        bytes.clear();
        self.append_or(bytes, at_end)
    }

    /// Reads the next line and appends it to `bytes`, without its newline.
    ///
    /// # Errors
    /// Those of the source.
    pub fn append(&mut self, bytes: &mut Vec<u8>) -> io::Result<Option<LineAt>> {
        self.append_or(bytes, |_| Ok(()))
    }

    fn append_or(
        &mut self,
        bytes: &mut Vec<u8>,
        at_end: impl FnOnce(&mut dyn FnMut() -> io::Result<()>) -> io::Result<()>,
    ) -> io::Result<Option<LineAt>> {
        let before = bytes.len();
        // One more byte than a line may have, for its newline.
        let limit = before + limits::BODY_BYTES + 1;
        let source = &mut self.source;
        let mut fill =
            |bytes: &mut Vec<u8>| source.take((limit - bytes.len()) as u64).read_until(b'\n', bytes);
        if fill(bytes)? == 0 {
            return Ok(None);
        }
        if bytes.last() != Some(&b'\n') && bytes.len() < limit {
            at_end(&mut || fill(bytes).map(drop))?;
        }
        let mut ended = bytes.last() == Some(&b'\n');
        let too_long = !ended && bytes.len() == limit;
        let mut len = (bytes.len() - before) as u64;
        if too_long {
            bytes.truncate(before);
            bytes.shrink_to_fit();
            let skipped = skip_line(&mut self.source)?;
            len += skipped.0;
            ended = skipped.1;
        } else if ended {
            bytes.pop();
        }
        let line =
            LineAt { number: self.number, start: self.start, len: len - u64::from(ended), ended, too_long };
        self.start += len;
        self.number += 1;
        Ok(Some(line))
    }
}

/// Skips the rest of a line. Returns its length, and whether a newline ended it.
fn skip_line(source: &mut impl BufRead) -> io::Result<(u64, bool)> {
    let mut len = 0;
    loop {
        let block = source.fill_buf()?;
        if block.is_empty() {
            return Ok((len, false));
        }
        let newline = block.iter().position(|byte| *byte == b'\n');
        let used = newline.map_or(block.len(), |place| place + 1);
        source.consume(used);
        len += used as u64;
        if newline.is_some() {
            return Ok((len, true));
        }
    }
}
