//! Finds the rows of a sound SQLite store in its files without the store's own code: it walks the tables from their roots, in the
//! pages of the file and of its log.

use std::{
    collections::HashMap,
    ops::Range,
    path::{Path, PathBuf},
};

use testkit::faults::{Files, Grain};

/// A stretch of a file.
pub type Extent = (PathBuf, Range<usize>);

const LOG_HEAD: usize = 32;
const FRAME_HEAD: usize = 24;
const PAGE: usize = 8192;

/// The offset at which pages begin in a file of a store.
pub fn grain(name: &Path) -> Grain {
    let name = name.to_string_lossy();
    if name.ends_with("-wal") {
        Grain { head: LOG_HEAD, page: FRAME_HEAD + PAGE }
    } else if name.contains("-shm") || name.contains(".jsonl") || name.contains("-index") {
        Grain { head: 0, page: 4096 }
    } else {
        Grain { head: 0, page: PAGE }
    }
}

/// The pages of a store, each where its newest committed copy lies.
pub struct Pages<'f> {
    files: &'f Files,
    file: PathBuf,
    log: PathBuf,
    /// For a page of the log: the frame it is in, and the last frame of its transaction.
    logged: HashMap<u32, (usize, usize)>,
}

impl<'f> Pages<'f> {
    pub fn new(files: &'f Files, file: &Path) -> Self {
        let log = PathBuf::from(format!("{}-wal", file.display()));
        let mut logged = HashMap::new();
        let mut open = Vec::new();
        if let Some(bytes) = files.get(&log).filter(|bytes| bytes.len() > LOG_HEAD) {
            for (number, frame) in bytes[LOG_HEAD..].chunks_exact(FRAME_HEAD + PAGE).enumerate() {
                // Frames of an earlier round have other salts.
                if frame[8..16] != bytes[16..24] {
                    break;
                }
                open.push((word(frame, 0), number));
                if word(frame, 4) != 0 {
                    logged.extend(open.drain(..).map(|(page, frame)| (page, (frame, number))));
                }
            }
        }
        Self { files, file: file.to_owned(), log, logged }
    }

    fn place(&self, page: u32) -> Extent {
        match self.logged.get(&page) {
            Some((frame, _)) => {
                let at = LOG_HEAD + frame * (FRAME_HEAD + PAGE) + FRAME_HEAD;
                (self.log.clone(), at..at + PAGE)
            }
            None => {
                let at = (page as usize - 1) * PAGE;
                (self.file.clone(), at..at + PAGE)
            }
        }
    }

    fn get(&self, page: u32) -> &'f [u8] {
        let (file, range) = self.place(page);
        &self.files[&file][range]
    }

    /// The extents that must be unchanged for a page to be read: the page itself; for a page in the log, everything up to its
    /// commit.
    fn needs(&self, page: u32) -> Extent {
        match self.logged.get(&page) {
            Some((_, commit)) => (self.log.clone(), 0..LOG_HEAD + (commit + 1) * (FRAME_HEAD + PAGE)),
            None => self.place(page),
        }
    }

    /// The rows of a table, by their keys, each with what must be as it was for it to be read.
    pub fn rows(&self, root: u32) -> HashMap<i64, Vec<Extent>> {
        let mut rows = HashMap::new();
        let mut pages = vec![root];
        while let Some(page) = pages.pop() {
            let bytes = self.get(page);
            let head = if page == 1 { 100 } else { 0 };
            let cells = usize::from(u16::from_be_bytes([bytes[head + 3], bytes[head + 4]]));
            let leaf = bytes[head] == 0x0d;
            assert!(leaf || bytes[head] == 0x05, "page {page} is of no table");
            let pointers = &bytes[head + if leaf { 8 } else { 12 }..];
            if !leaf {
                pages.push(word(bytes, head + 8));
            }
            for pointer in pointers.chunks_exact(2).take(cells) {
                let at = usize::from(u16::from_be_bytes([pointer[0], pointer[1]]));
                if leaf {
                    let (key, chain) = self.cell(bytes, at);
                    let all = std::iter::once(page).chain(chain).map(|page| self.needs(page)).collect();
                    rows.insert(key, all);
                } else {
                    pages.push(word(bytes, at));
                }
            }
        }
        rows
    }

    /// The key of a row, and its overflow pages.
    fn cell(&self, page: &[u8], at: usize) -> (i64, Vec<u32>) {
        let (length, used) = varint(&page[at..]);
        let (key, more) = varint(&page[at + used..]);
        let (at, length) = (at + used + more, length as usize);
        let most = PAGE - 35;
        if length <= most {
            return (key as i64, Vec::new());
        }
        let least = (PAGE - 12) * 32 / 255 - 23;
        let even = least + (length - least) % (PAGE - 4);
        let here = if even <= most { even } else { least };
        let mut chain = vec![word(page, at + here)];
        let mut left = length - here;
        while left > PAGE - 4 {
            left -= PAGE - 4;
            chain.push(word(self.get(chain[chain.len() - 1]), 0));
        }
        (key as i64, chain)
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn varint(bytes: &[u8]) -> (u64, usize) {
    let mut value = 0u64;
    for (place, byte) in bytes.iter().take(9).enumerate() {
        if place == 8 {
            return (value << 8 | u64::from(*byte), 9);
        }
        value = value << 7 | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return (value, place + 1);
        }
    }
    panic!("a number without an end");
}
