//! How long something takes, for benchmarks on a machine that has other work too.

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

/// Does some work, and says how long it took.
pub fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let made = black_box(work());
    (made, start.elapsed())
}

/// How long each of several kinds of work takes at best. They are done in turn, so that all have the same chance of a quiet
/// moment, which is when a time says something.
pub fn best<const KINDS: usize>(rounds: usize, work: [&dyn Fn(); KINDS]) -> [Duration; KINDS] {
    let mut best = [Duration::MAX; KINDS];
    for _ in 0..rounds {
        for (best, work) in best.iter_mut().zip(work) {
            *best = timed(work).1.min(*best);
        }
    }
    best
}
