//! The write-ahead log of a killed process, looked at before the database takes it up.
//!
//! The database reads the log up to the first frame whose checksum is wrong, and forgets the rest: right for an append that was
//! never finished, wrong for one that was acknowledged and damaged afterwards. What it would forget is noticed here, so that it
//! can be set aside first.

use std::{collections::HashMap, fs, io, path::Path};

/// What a log holds that the database would forget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lost {
    /// The first frame that cannot be read, from 1.
    pub(super) frame: u64,
    /// How many appends end in what would be forgotten.
    pub(super) commits: u64,
}

const HEADER: usize = 32;
const FRAME_HEADER: usize = 24;

/// Looks through a log; nothing if there is none, or nothing would be forgotten.
pub(super) fn lost(log: &Path) -> io::Result<Option<Lost>> {
    let bytes = match fs::read(log) {
        Ok(bytes) => bytes,
        Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(why) => return Err(why),
    };
    Ok(look(&bytes))
}

/// The newest pages that are committed in a log.
pub(super) fn pages(log: &Path, page_bytes: usize) -> io::Result<HashMap<u32, Vec<u8>>> {
    let bytes = match fs::read(log) {
        Ok(bytes) => bytes,
        Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(HashMap::new()),
        Err(why) => return Err(why),
    };
    let (mut committed, mut open) = (HashMap::new(), HashMap::new());
    let Some(header) = bytes.get(..HEADER) else { return Ok(committed) };
    let word =
        |from: &[u8], at: usize| u32::from_be_bytes([from[at], from[at + 1], from[at + 2], from[at + 3]]);
    let big_end = word(header, 0) & 1 == 1;
    let mut sum = checksum((0, 0), &header[..24], big_end);
    if sum != (word(header, 24), word(header, 28)) || word(header, 8) as usize != page_bytes {
        return Ok(committed);
    }
    for frame in bytes[HEADER..].chunks_exact(FRAME_HEADER + page_bytes) {
        sum = checksum(sum, &frame[..8], big_end);
        sum = checksum(sum, &frame[FRAME_HEADER..], big_end);
        if frame[8..16] != header[16..24] || sum != (word(frame, 16), word(frame, 20)) {
            break;
        }
        open.insert(word(frame, 0), frame[FRAME_HEADER..].to_vec());
        if word(frame, 4) != 0 {
            committed.extend(open.drain());
        }
    }
    Ok(committed)
}

fn look(bytes: &[u8]) -> Option<Lost> {
    let header = bytes.get(..HEADER)?;
    let word = |at: usize| u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let magic = word(0);
    let page = word(8) as usize;
    let sound_header = (magic & !1) == 0x377f_0682 && page.is_power_of_two() && (512..=65536).contains(&page);
    if !sound_header {
        // Nothing of it would be read.
        let filled = bytes.iter().any(|byte| *byte != 0);
        return filled.then_some(Lost { frame: 1, commits: 1 });
    }
    let big_end = magic & 1 == 1;
    let mut sum = checksum((0, 0), &header[..24], big_end);
    let mut sound = sum == (word(24), word(28));
    let salts = &header[16..24];
    let mut lost: Option<Lost> = None;
    for (number, frame) in bytes[HEADER..].chunks_exact(FRAME_HEADER + page).enumerate() {
        let word = |at: usize| u32::from_be_bytes([frame[at], frame[at + 1], frame[at + 2], frame[at + 3]]);
        // Behind the end of the log there is what an earlier round left.
        let ours = &frame[8..16] == salts;
        if sound {
            sum = checksum(sum, &frame[..8], big_end);
            sum = checksum(sum, &frame[FRAME_HEADER..], big_end);
            if ours && sum == (word(16), word(20)) {
                continue;
            }
            sound = false;
        }
        let first = lost.get_or_insert(Lost { frame: number as u64 + 1, commits: 0 });
        // One whose salts were damaged stands between others of the same round.
        if ours && word(4) != 0 {
            first.commits += 1;
        }
    }
    lost.filter(|lost| lost.commits > 0)
}

/// The log's own checksum over a multiple of eight bytes.
fn checksum((mut a, mut b): (u32, u32), bytes: &[u8], big_end: bool) -> (u32, u32) {
    for pair in bytes.chunks_exact(8) {
        let word = |at: usize| {
            let four = [pair[at], pair[at + 1], pair[at + 2], pair[at + 3]];
            if big_end { u32::from_be_bytes(four) } else { u32::from_le_bytes(four) }
        };
        a = a.wrapping_add(word(0)).wrapping_add(b);
        b = b.wrapping_add(word(4)).wrapping_add(a);
    }
    (a, b)
}
