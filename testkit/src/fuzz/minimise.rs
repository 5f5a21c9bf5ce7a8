//! Making a failing input small: lines, values and stretches are taken out as long as the same law stays broken.

use std::{
    ops::Range,
    time::{Duration, Instant},
};

use super::{
    Signs, Target, guarded,
    mutate::{values, with_comma},
};

/// A smaller input that breaks the same law, as far as one is found in that time.
#[must_use]
pub fn minimise(target: &Target, input: &[u8], law: &str, time: Duration) -> Vec<u8> {
    let until = Instant::now() + time;
    let fails = |candidate: &[u8]| {
        guarded(target, candidate, &mut Signs::default()).is_err_and(|broken| broken.law == law)
    };
    let mut small = input.to_vec();
    let mut before = usize::MAX;
    while small.len() < before && Instant::now() < until {
        before = small.len();
        let mut size = small.len().div_ceil(2);
        while size > 0 {
            let blocks = |bytes: &[u8]| {
                (0..bytes.len()).step_by(size).map(|at| at..(at + size).min(bytes.len())).collect()
            };
            take_out(&mut small, blocks, &fails, until);
            size /= 2;
        }
        take_out(
            &mut small,
            |bytes| values(bytes).into_iter().map(|range| with_comma(bytes, range)).collect(),
            &fails,
            until,
        );
    }
    small
}

/// Tries to do without each of the pieces, the last one first: what stands before it stays where it was.
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
        if range.end > small.len() || range.is_empty() {
            continue;
        }
        let candidate = [&small[..range.start], &small[range.end..]].concat();
        if fails(&candidate) {
            *small = candidate;
        }
    }
}
