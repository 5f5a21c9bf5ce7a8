//! The processor time of a thread, as opposed to elapsed time: a busy machine must not make an input look slow.

use std::{
    fs,
    time::{Duration, Instant},
};

/// Does something and says how long the thread worked on it: exact to a few milliseconds.
pub fn measured<T>(act: impl FnOnce() -> T) -> (T, Duration) {
    let (start, worked) = (Instant::now(), worked());
    let result = act();
    let went_by = start.elapsed();
    let took = match (worked, self::worked()) {
        (Some(before), Some(after)) => after.saturating_sub(before).min(went_by),
        _ => went_by,
    };
    (result, took)
}

/// How long this thread worked so far, where the system says.
fn worked() -> Option<Duration> {
    let line = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    Some(Duration::from_nanos(line.split_whitespace().next()?.parse().ok()?))
}
