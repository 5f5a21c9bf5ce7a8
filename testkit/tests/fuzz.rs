//! Every target over its own inputs, and over a few mutations of them: the same ones in every run.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use testkit::fuzz::{
    Target,
    explore::{Limits, explore},
    seeds,
};

/// How many mutations of a target are run; of those that make whole conversations fewer, since each is converted to every
/// dialect and back.
fn mutations(target: &Target) -> u64 {
    match target {
        Target::Read(_) | Target::Detect | Target::Repair | Target::Reshape => 60,
        Target::Decode(_) | Target::Json | Target::Entry => 200,
    }
}

#[test]
fn every_target_holds() {
    let targets = Target::all();
    let next = AtomicUsize::new(0);
    let work = || {
        let own = std::iter::from_fn(|| targets.get(next.fetch_add(1, Ordering::Relaxed)));
        own.filter_map(problem).collect::<Vec<String>>()
    };
    let problems: Vec<String> = thread::scope(|scope| {
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().expect("BUG: the fuzzer itself panicked"))
            .collect()
    });
    assert!(problems.is_empty(), "{}", problems.join("\n\n"));
}

/// The first thing that does not hold in a target.
fn problem(target: &Target) -> Option<String> {
    let name = target.name();
    let inputs: Vec<_> = seeds::own(target).into_iter().map(|(_, bytes)| bytes).collect();
    assert!(inputs.len() >= 3, "{name} has nothing to begin with: put a few inputs into testkit/fuzz/{name}");
    let limits = Limits { time: None, runs: Some(mutations(target)), probes: false };
    let outcome = explore(target, inputs, 1, limits, |_| {});
    let failure = outcome.failures.first()?;
    let input = String::from_utf8_lossy(&failure.input);
    Some(format!("{name}: {}\n{input}\n{}", failure.broken.law, failure.broken.detail))
}
