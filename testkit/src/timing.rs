//! Measures times, for benchmarks on a machine that also has other work.

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

/// The shortest time of each of several kinds of work. They run in turn, so that all have the same chance of a quiet moment, in
/// which a time is meaningful.
pub fn best<const KINDS: usize>(rounds: usize, work: [&dyn Fn(); KINDS]) -> [Duration; KINDS] {
    let mut best = [Duration::MAX; KINDS];
    for _ in 0..rounds {
        for (best, work) in best.iter_mut().zip(work) {
            *best = timed(work).1.min(*best);
        }
    }
    best
}
