//! Minimises a failing input: removes values, fields and stretches as long as it still fails.

use std::{
    collections::HashMap,
    ops::Range,
    time::{Duration, Instant},
};

use super::mutate::{values, with_comma};

/// A smaller input that still fails, as far as one is found in that time.
#[must_use]
pub fn minimise(input: &[u8], time: Duration, fails: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    let until = Instant::now() + time;
    let mut small = input.to_vec();
    let mut before = usize::MAX;
    while small.len() < before && Instant::now() < until {
        before = small.len();
        // Try well-formed removals first: the result says more than the remainder of a cut through the middle.
        take_out(&mut small, fields_and_values, &fails, until);
        let mut size = small.len().div_ceil(2);
        while size > 0 {
            let blocks = |bytes: &[u8]| {
                (0..bytes.len()).step_by(size).map(|at| at..(at + size).min(bytes.len())).collect()
            };
            take_out(&mut small, blocks, &fails, until);
            size /= 2;
        }
    }
    small
}

/// The values of an input with their commas, those of an object together with their names.
fn fields_and_values(bytes: &[u8]) -> Vec<Range<usize>> {
    let found = values(bytes);
    let ends: HashMap<usize, usize> = found.iter().map(|range| (range.end, range.start)).collect();
    let with_name = |range: Range<usize>| {
        let before = bytes[..range.start].trim_ascii_end();
        let name = before.strip_suffix(b":").map(<[u8]>::trim_ascii_end);
        let start = name.and_then(|name| ends.get(&name.len())).copied();
        start.unwrap_or(range.start)..range.end
    };
    found.into_iter().map(|range| with_comma(bytes, with_name(range))).collect()
}

/// Tries to remove each of the pieces, the last one first, so that those before it keep their places.
fn take_out(
    small: &mut Vec<u8>,
    pieces: impl Fn(&[u8]) -> Vec<Range<usize>>,
    fails: &impl Fn(&[u8]) -> bool,
    until: Instant,
) {
    let mut found = pieces(small);
    found.sort_by_key(|range| (range.start, std::cmp::Reverse(range.end)));
    for range in found.into_iter().rev() {
        if Instant::now() >= until {
            return;
        }
        // Something inside it may be gone already.
        if range.end > small.len() || range.is_empty() {
            continue;
        }
        let candidate = [&small[..range.start], &small[range.end..]].concat();
        if fails(&candidate) {
            *small = candidate;
        }
    }
}
