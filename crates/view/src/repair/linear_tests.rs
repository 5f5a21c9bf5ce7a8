//! The cost of repairing: steps and time grow linearly with the history. Histories are sketched as in `tests.rs`.

use std::time::Duration;

use super::{OnBroken, tests::history};
use crate::history::History;

/// Patterns that are hard to repair quickly, to be repeated. `N` becomes the number of the repetition; ids must not end in 0.
const HARD: &[(&str, &str)] = &[
    ("nothing to do", "u a"),
    ("calls that are answered", "u a[Nn] rNn"),
    ("the same id again and again, each answered", "a[1] r1"),
    ("many open calls of one id, then nothing", "a[1]"),
    ("many early results", "r1"),
    ("results before and after the calls of one id", "r1 a[1]"),
    ("open calls closed by sending", "a[1] |"),
    ("orphans of many turns", "u r9 |"),
    ("results that come late", "a[Nn] u rNn"),
    ("batches of which half is missing", "u a[xNn,yNn] rxNn"),
    ("malformed arguments, unknown roles, results without ids", "a[Nn*] ? r"),
    ("ids that look like made-up ones", "a[1] r1 a[1_Nn] r1_Nn"),
];

/// About this many messages of one pattern, then a call and a result that look back at all of them.
fn repeated(unit: &str, messages: usize) -> History {
    let count = messages / unit.split_whitespace().count();
    let words = (0..count).map(|number| unit.replace('N', &number.to_string()));
    history(&(words.collect::<Vec<_>>().join(" ") + " a[1] r1"))
}

/// A message with this many calls, and one with a result for every `each`-th of them.
fn parallel(calls: usize, each: usize) -> History {
    let list = |prefix: &str, step| {
        (0..calls).step_by(step).map(|n| format!("{prefix}{n}n")).collect::<Vec<_>>().join(",")
    };
    history(&format!("u a[{}] T({}) u", list("", 1), list("r", each)))
}

/// S2-45, B31: the whole pass, pairing and emitting, takes a number of steps that grows linearly with the history: at 1,000, 10,000
/// and 100,000 messages.
///
/// A loop that does not count its steps still shows in the processor time (which a busy machine does not distort). That time may
/// grow slightly faster than the history, but not quadratically.
#[test]
fn repair_is_linear() {
    type Shape = Box<dyn Fn(usize) -> History>;
    let mut shapes: Vec<(&str, Shape)> = vec![
        ("many answered calls in one message", Box::new(|size| parallel(size, 1))),
        ("many calls in one message, every third answered", Box::new(|size| parallel(size, 3))),
    ];
    for (name, unit) in HARD {
        shapes.push((name, Box::new(|size| repeated(unit, size))));
    }
    for (name, shape) in shapes {
        let mut before: Option<[(usize, Duration); 2]> = None;
        for size in [1_000, 10_000, 100_000] {
            let history = shape(size);
            let now = [OnBroken::Keep, OnBroken::Drop].map(|policy| cost(&history, policy));
            for ((few, short), (many, long)) in before.iter().flatten().zip(now) {
                assert!(*few > 0 && many <= 10 * few + 100, "{name}: {few} steps, and {many} at {size}");
                assert!(long <= 35 * *short, "{name}: {short:?}, and {long:?} at {size}");
            }
            before = Some(now);
        }
    }
}

/// The number of steps of a repair, and its time.
fn cost(history: &History, policy: OnBroken) -> (usize, Duration) {
    let start = processor_time();
    let work = super::repair_all(history, policy).0;
    (work.pairing.steps + work.state.steps, processor_time() - start)
}

#[cfg(unix)]
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

/// On other systems, only the steps are compared.
#[cfg(not(unix))]
fn processor_time() -> Duration {
    Duration::from_secs(1)
}
