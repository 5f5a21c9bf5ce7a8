//! Checks the write-ahead log of a killed process before the database recovers it.
//!
//! The database reads the log up to the first frame with a wrong checksum, and ignores the rest. That is right for an append that
//! was never finished, but wrong for one that was acknowledged and damaged later. So the ignored part is detected here, and can be
//! copied first.

use std::{collections::HashMap, fs, io, path::Path};

/// The part of a log that the database would ignore.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LostFrames {
    /// The first frame that cannot be read, from 1.
    pub(super) frame: u64,
    /// The number of appends that end in that part.
    pub(super) commits: u64,
}

const HEADER: usize = 32;
const FRAME_HEADER: usize = 24;

/// Checks a log. `None` if there is no log, or nothing in it would be ignored.
pub(super) fn lost(log: &Path) -> io::Result<Option<LostFrames>> {
    let bytes = read(log)?;
    let mut lost: Option<LostFrames> = None;
    let is_log = each_frame(&bytes, &mut |number, frame, state| {
        if state != Frame::Sound {
            let first = lost.get_or_insert(LostFrames { frame: number, commits: 0 });
            // A frame with damaged salts lies between others of the same round.
            first.commits += u64::from(state == Frame::Forgotten && word(frame, 4) != 0);
        }
    });
    if !is_log {
        // The database would ignore all of it.
        let is_filled = bytes.len() >= HEADER && bytes.iter().any(|byte| *byte != 0);
        return Ok(is_filled.then_some(LostFrames { frame: 1, commits: 1 }));
    }
    Ok(lost.filter(|lost| lost.commits > 0))
}

/// The newest pages that are committed in a log.
#[derive(Default)]
pub(super) struct CommittedPages {
    pub(super) pages: HashMap<u32, Vec<u8>>,
    /// How many pages the database has after the last commit; `None` if there is no commit.
    pub(super) size: Option<u32>,
}

pub(super) fn logged(log: &Path, page_bytes: usize) -> io::Result<CommittedPages> {
    let (mut committed, mut open) = (CommittedPages::default(), HashMap::new());
    each_frame(&read(log)?, &mut |_, frame, state| {
        if state == Frame::Sound && frame.len() == FRAME_HEADER + page_bytes {
            open.insert(word(frame, 0), frame[FRAME_HEADER..].to_vec());
            if word(frame, 4) != 0 {
                committed.pages.extend(open.drain());
                committed.size = Some(word(frame, 4));
            }
        }
    });
    Ok(committed)
}

/// The bytes of a log; `None` if it does not exist.
fn read(log: &Path) -> io::Result<Vec<u8>> {
    match fs::read(log) {
        Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        read => read,
    }
}

/// How the database treats a frame.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Frame {
    /// It reads the frame.
    Sound,
    /// It ignores the frame, which belongs to this round, because it or an earlier one is damaged.
    Forgotten,
    /// It ignores the frame, which is after the end of the log, from an earlier round.
    Old,
}

/// Passes the frames of a log, numbered from 1, to `each`. Returns false if the header is not that of a log.
fn each_frame(bytes: &[u8], each: &mut dyn FnMut(u64, &[u8], Frame)) -> bool {
    let Some(header) = bytes.get(..HEADER) else { return false };
    let (magic, page) = (word(header, 0), word(header, 8) as usize);
    if (magic & !1) != 0x377f_0682 || !page.is_power_of_two() || !(512..=65536).contains(&page) {
        return false;
    }
    let big_end = magic & 1 == 1;
    let mut sum = checksum((0, 0), &header[..24], big_end);
    let mut is_sound = sum == (word(header, 24), word(header, 28));
    for (number, frame) in (1..).zip(bytes[HEADER..].chunks_exact(FRAME_HEADER + page)) {
        let is_ours = frame[8..16] == header[16..24];
        if is_sound {
            sum = checksum(sum, &frame[..8], big_end);
            sum = checksum(sum, &frame[FRAME_HEADER..], big_end);
            is_sound = is_ours && sum == (word(frame, 16), word(frame, 20));
        }
        let state = match (is_sound, is_ours) {
            (true, _) => Frame::Sound,
            (false, true) => Frame::Forgotten,
            (false, false) => Frame::Old,
        };
        each(number, frame, state);
    }
    true
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// The log's own checksum, over a multiple of eight bytes.
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
