//! Reads the lines of a file as bytes: forwards one at a time, and backwards in blocks.

use std::{
    fs::File,
    io::{self, BufReader, Seek as _, SeekFrom},
};

pub(super) use rejoin_record::lines::LineAt;
use rejoin_record::{limits, lines};

use crate::files;

/// The lines of a file from a position on, oldest first.
pub(super) struct Lines<'f> {
    lines: lines::Lines<BufReader<&'f File>>,
    file: &'f File,
    /// Whether the caller already holds the file's lock.
    locked: bool,
}

impl<'f> Lines<'f> {
    /// The lines from byte `at` on; the first of them has this number.
    pub(super) fn from(mut file: &'f File, at: u64, number: u64, locked: bool) -> io::Result<Self> {
        file.seek(SeekFrom::Start(at))?;
        let lines = lines::Lines::from(BufReader::with_capacity(1 << 16, file), at, number);
        Ok(Self { lines, file, locked })
    }

    /// Reads the next line. `bytes` receives its bytes without the newline.
    pub(super) fn next(&mut self, bytes: &mut Vec<u8>) -> io::Result<Option<LineAt>> {
        let Self { lines, file, locked } = self;
        lines.next_or(bytes, |read_on| {
            if *locked {
                return Ok(());
            }
            // Another process may still be writing the line. Under the lock, no process does.
            files::lock_shared(file)?;
            let read = read_on();
            files::unlock(file)?;
            read
        })
    }
}

/// How many bytes are read at once.
const BLOCK: usize = 1 << 16;

/// The lines of a file, newest first.
pub(super) struct Backwards<'f> {
    file: &'f File,
    /// Bytes that were read but not returned yet. They begin at `at` in the file.
    buffer: Vec<u8>,
    at: u64,
    /// How many bytes at the end of the buffer are known to contain no newline.
    searched: usize,
    /// Whether a newline follows the buffer.
    ended: bool,
}

impl<'f> Backwards<'f> {
    /// The lines of the first `len` bytes of a file.
    pub(super) fn new(file: &'f File, len: u64) -> io::Result<Self> {
        let ended = len > 0 && files::read_at(file, len - 1, 1)? == b"\n";
        Ok(Self { file, buffer: Vec::new(), at: len - u64::from(ended), searched: 0, ended })
    }

    /// The previous line: its position, its bytes, and whether a newline ends it. `None` at the beginning of the file, or if the
    /// line is too long for an entry.
    pub(super) fn next(&mut self) -> io::Result<Option<(u64, Vec<u8>, bool)>> {
        if self.at == 0 && self.buffer.is_empty() {
            // The file may begin with an empty line, which is ignored.
            return Ok(None);
        }
        loop {
            let unsearched = self.buffer.len() - self.searched;
            if let Some(newline) = self.buffer[..unsearched].iter().rposition(|byte| *byte == b'\n') {
                let line = self.buffer.split_off(newline + 1);
                self.buffer.pop();
                self.searched = 0;
                let start = self.at + newline as u64 + 1;
                return Ok(Some((start, line, std::mem::replace(&mut self.ended, true))));
            }
            self.searched = self.buffer.len();
            if self.at == 0 {
                self.searched = 0;
                let line = std::mem::take(&mut self.buffer);
                return Ok(Some((0, line, std::mem::replace(&mut self.ended, true))));
            }
            if self.buffer.len() > limits::BODY_BYTES {
                return Ok(None);
            }
            // Double the block each time, so that a long line is not copied again and again.
            let more = BLOCK.max(self.buffer.len()).min(usize::try_from(self.at).unwrap_or(usize::MAX));
            let mut block = files::read_at(self.file, self.at - more as u64, more)?;
            block.append(&mut self.buffer);
            self.buffer = block;
            self.at -= more as u64;
        }
    }
}

#[cfg(test)]
mod tests;
